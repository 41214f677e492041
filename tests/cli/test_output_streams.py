"""Output that cannot be written ends a command in order, and never a study."""

import subprocess
import sys
from pathlib import Path

import pytest

import loaded

ZEN = [sys.executable, "-c", "from zenturio.cli import main; main()"]
FULL = Path("/dev/full")
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")


def redirected(words: str, cwd: Path, *, code: int | None = None) -> subprocess.CompletedProcess:
    """What a shell makes of ``zen`` with *words*, which redirect its streams."""
    command = f'zen() {{ "$@"; }}; zen "{ZEN[0]}" -c "{ZEN[2]}" {words}'
    done = subprocess.run(
        ["bash", "-c", command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    if code is not None:
        assert done.returncode == code, done.stderr
    return done


@pytest.fixture
def folder(ran):
    return ran.parent


@pytest.mark.parametrize(
    "words", ["results small", "results small --json", "list", "plot small -o -", "--help"]
)
def test_a_full_disk_below_stdout_is_named_and_ends_with_4(folder, words):
    done = redirected(f"{words} > /dev/full", folder, code=4)
    assert done.stderr == "the output cannot be written: No space left on device\n"


def test_a_study_goes_on_where_nothing_can_be_written(folder):
    redirected("run small.py --again > /dev/full 2> /dev/full", folder, code=4)
    assert loaded.zen("results", "small", "--round", "2", cwd=folder).stdout.count("\n") > 7


@pytest.mark.parametrize("streams", [">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_place_for_other_files(folder, streams):
    redirected(f"run small.py --again {streams}", folder, code=0)
    check = loaded.zen("db", "check", cwd=folder)
    assert check.returncode == 0, check.stdout


def test_a_reader_that_goes_ends_a_question_quietly(folder):
    done = redirected(
        "sql 'SELECT zeros.value FROM study_small, json_each(json_array(1,2,3)) zeros' | true; exit ${PIPESTATUS[0]}",
        folder,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_goes_does_not_end_a_study(folder):
    (folder / "small.py").write_text(
        (folder / "small.py").read_text() + "raise SystemExit(n == 2)\n"
    )
    done = redirected("run small.py | true; exit ${PIPESTATUS[0]}", folder)
    assert done.returncode == 3
    assert '"failed": 2' in loaded.zen("list", "--json", cwd=folder).stdout
