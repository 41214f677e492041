"""Where a study keeps its data: folders of a group, read-only projects, noexec mounts, long names."""

import os
import subprocess

import pytest

from accounts import accounts, group_of, zen_for_everybody
from loaded import zen
from needs import needs

PROGRAM = """\
# ZEN$ PARAM x = { 1, 2 }
# ZEN$ BUILD "printf '#!/bin/sh\\necho x=$1' > p; chmod +x p"
# ZEN$ RUN "./p {x}"
# ZEN$ METRIC y FROM stdout REGEX "^x=(.*)$"
# ZEN$ OUTPUT "p"
"""


def test_a_work_folder_takes_all_that_the_project_would(tmp_path):
    project, work = tmp_path / "project", tmp_path / "work"
    project.mkdir()
    (project / "a.sh").write_text(PROGRAM)
    done = zen("run", "a.sh", "--work", work, cwd=project)
    database = work / ".zenturio" / "zenturio.db"
    assert f"results: zen results a --db {database}" in done.stdout, done
    assert [path.name for path in project.iterdir()] == ["a.sh"]
    assert (work / ".zenturio" / "store").is_dir()
    assert "2 of 2 rows" in zen("results", "a", "--db", database, cwd=tmp_path).stdout


@pytest.fixture
def noexec(tmp_path):
    folder = tmp_path / "noexec"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "noexec,size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_folder_that_starts_no_programs_is_noticed_before_the_study(noexec, tmp_path):
    (noexec / "a.sh").write_text(PROGRAM)
    done = zen("run", "a.sh", cwd=noexec)
    assert done.returncode == 4
    assert "./p cannot be started" in done.stderr
    assert "zen run --work DIR" in done.stderr
    assert "no study is named" in zen("status", "a", cwd=noexec).stderr
    assert "2 ok" in zen("run", "a.sh", "--work", tmp_path / "work", cwd=noexec).stdout
    # An interpreter that lies elsewhere starts there, too.
    (noexec / "b.sh").write_text('# ZEN$ RUN "sh b.sh"\n')
    assert "1 ok" in zen("run", "b.sh", cwd=noexec).stdout


def test_a_name_as_long_as_names_can_be_is_a_study(tmp_path):
    name = "a" * 252 + ".sh"
    (tmp_path / name).write_text(f'# ZEN$ PARAM x = {{ 1, 2 }}\n# ZEN$ RUN "sh {name} {{x}}"\n')
    assert "2 ok" in zen("run", name, cwd=tmp_path).stdout
    assert zen("check", name, cwd=tmp_path).returncode == 0
    assert "2 of 2 rows" in zen("results", "a" * 252, cwd=tmp_path).stdout


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may create accounts")
def test_two_accounts_of_a_group_share_a_folder(tmp_path_factory):
    needs("useradd", "userdel", "runuser")
    with (
        accounts("alice", "bob") as made,
        group_of(*made.values()) as group,
        zen_for_everybody() as programs,
    ):
        project = programs / "project"
        project.mkdir()
        (project / "a.sh").write_text(PROGRAM)
        subprocess.run(["chown", "-R", f"{made['alice']}:{group}", project], check=True)
        project.chmod(0o2775)

        def shell(name, command):
            text = (
                "mkdir -p ~/.config/zenturio;"
                f"echo 'groups = [\"{group}\"]' > ~/.config/zenturio/trust.toml;"
                f"umask 002; {command}"
            )
            return subprocess.run(
                ["runuser", "-l", made[name], "-c", f"cd {project}; PATH={programs}:$PATH; {text}"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip

        assert "2 ok" in shell("alice", "zen run a.sh").stdout
        assert "2 of 2 rows" in shell("bob", "zen results a").stdout
        done = shell("bob", "zen run a.sh -P 'x={1:4}' --trust")
        assert "2 ok, 2 cached" in done.stdout, done
        done = shell("alice", "zen run a.sh -P 'x={1:6}' --trust && zen prune --yes")
        assert "2 ok, 4 cached" in done.stdout, done
        assert done.returncode == 0, done
        # Somebody ran it as root: who comes next is told what to do.
        subprocess.run(["chown", "-R", "root:root", project / ".zenturio"], check=True)
        subprocess.run(["chmod", "-R", "go-w", project / ".zenturio"], check=True)
        done = shell("alice", "zen run a.sh -P 'x={1:9}'")
        assert done.returncode in (4, 6), done
        assert f"chown -R {made['alice']}" in done.stderr, done
