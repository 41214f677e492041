"""On a machine without some programs, the last lines say what was skipped and what installs them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from needs import GROUPS

ROOT = Path(__file__).parents[1]

TESTS = """\
import pytest
from needs import needs


@pytest.fixture(scope="session")
def cluster():
    needs("slurmctld", "slurmd")


@pytest.mark.parametrize("job", [1, 2])
def test_of_a_cluster(cluster, job):
    pass


def test_of_a_server():
    needs("initdb")


def test_of_something_else():
    needs("a-program-of-nobody")


def test_of_nothing():
    pytest.skip("not today")
"""


@pytest.mark.parametrize("workers", [[], pytest.param(["-n", "1"], marks=pytest.mark.slow)])
def test_the_last_lines_name_the_groups_that_were_skipped(tmp_path, workers):
    (tmp_path / "test_needy.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "PATH": str(tmp_path)}
    environment.pop("CI", None)
    options = ["-p", "skipped_groups", "-p", "no:cacheprovider", *workers]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-q", "-ra", str(tmp_path)],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-5:] == [
        "skipped, because programs are missing:",
        "  PostgreSQL: 1 test (initdb)",
        "  Slurm: 2 tests (slurmctld, slurmd)",
        "  other tests: 1 test (a-program-of-nobody)",
        "install them: make system",
    ]


APT_GET = """\
#!/bin/sh
echo "$@" >> "$LOG"
"""


def rows():
    """A command, and the packages that bring it: Debian's and Fedora's."""
    table = (ROOT / ".ci" / "system").read_text().partition('wanted="\n')[2].partition('"')[0]
    return [line.split() for line in table.splitlines()]


def test_make_system_installs_what_is_missing_of_all_that_tests_need(tmp_path):
    """With an apt-get that only writes down what it is told, and hardly a program beside it."""
    for program in ("bash", "env", "id"):
        (tmp_path / program).symlink_to(shutil.which(program))
    for program in ("apt-get", "sudo"):
        (tmp_path / program).write_text(APT_GET)
        (tmp_path / program).chmod(0o755)
    log = tmp_path / "log"
    done = subprocess.run(
        ["bash", ROOT / ".ci" / "system"], env={"PATH": str(tmp_path), "LOG": str(log)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    folders = ["/usr/sbin", "/sbin", *map(str, Path("/usr/lib/postgresql").glob("*/bin"))]
    wanted = {package for command, package, _ in rows()
              if shutil.which(command, path=os.pathsep.join(folders)) is None}  # fmt: skip
    assert {"gcc", "openssh-client", "chromium"} <= wanted <= set(log.read_text().split())


def test_make_system_knows_each_program_of_a_group():
    """Or another one of the same package."""
    beside = {"pg_ctl": "initdb", "postgres": "initdb", "java": "javac", "cc": "gcc"}
    beside |= dict.fromkeys(("sbatch", "squeue", "scancel", "scontrol"), "srun")
    beside |= dict.fromkeys(("qstat", "qconf"), "qsub")
    names = {Path(program).name for program in GROUPS}
    assert {beside.get(name, name) for name in names} <= {command for command, _, _ in rows()}
