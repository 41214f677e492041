"""attach and cancel, as a user has them."""

import socket
import sys

import pytest

from cli.conftest import zen
from loaded import Program
from zenturio.record.entities import DriverProcess
from zenturio.record.open import open_repository
from zenturio.testing.executor import until

ZEN = [sys.executable, "-c", "from zenturio.cli import main; main()"]
SLOW = """\
#!/bin/sh
n=0
#ZEN$ ASSIGN n = { 1:6 }
#ZEN$ RUN "sh slow.sh" RETRY 1
#ZEN$ METRIC square FROM stdout REGEX "square (\\d+)"
mkdir -p "$RAN"; echo run >> "$RAN/$n"
test -e "$GO" || sleep 60
echo "square $((n * n))"
"""


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """A study whose experiments last until the file ``go`` is there, when they begin anew."""
    monkeypatch.setenv("RAN", str(tmp_path / "ran"))
    monkeypatch.setenv("GO", str(tmp_path / "go"))
    path = tmp_path / "project" / "slow.sh"
    path.parent.mkdir()
    (path.parent / ".zenturio").mkdir()
    path.write_text(SLOW)
    return path


@pytest.fixture
def driven(slow):
    """The same, while ``zen run`` drives it; killed behind, if it did not end."""
    words = ["run", "slow.sh", "-j", "2", "-P", "n={1:5}", "--keep", "never"]
    process = Program(None, *words, cwd=slow.parent)
    until(lambda: len(list((slow.parent.parent / "ran").glob("*"))) == 2)
    yield process
    process.kill()
    process.communicate()


def running(slow):
    repository = open_repository(str(slow.parent / ".zenturio" / "zenturio.db"))
    try:
        return [r.digest for r in repository.records("slow", states=("running",))]
    finally:
        repository.close()


def test_a_study_whose_driver_was_killed_goes_on_by_its_name(slow, driven):
    driven.kill()
    driven.communicate()
    (slow.parent.parent / "go").touch()
    assert "to resume: zen attach slow" in zen("status", "slow", cwd=slow.parent).out
    told = zen("attach", "slow", cwd=slow.parent)
    assert "5 points, 5 experiments" in told.out
    assert "2 at a time" in told.out
    assert "5 ok" in told.out
    facts = zen("attach", "slow", "--json", "-j", "1", cwd=slow.parent).facts
    assert (facts["known"], facts["ok"]) == (5, 0)


@pytest.mark.slow
def test_nobody_attaches_to_a_study_that_has_a_driver(slow, driven):
    told = zen("attach", "slow", cwd=slow.parent, code=5)
    assert f"process {driven.pid}" in told.err


@pytest.mark.slow
def test_another_program_is_not_gone_on_with(slow, driven):
    driven.kill()
    driven.communicate()
    slow.write_text(SLOW.replace("square $((", "square $((1 * "))
    told = zen("attach", "slow", cwd=slow.parent, code=2)
    assert "the program of slow has changed: slow.sh changed" in told.err


@pytest.mark.slow
def test_what_is_not_known_cannot_be_attached_to(slow):
    assert "there is no database" in zen("attach", "slow", cwd=slow.parent, code=2).err
    zen("run", "slow.sh", "--limit", "0", "--name", "other", cwd=slow.parent)
    told = zen("attach", "othr", cwd=slow.parent, code=2)
    assert "did you mean 'other'?" in told.err


def test_a_study_is_cancelled_with_its_driver(slow, driven):
    told = zen("cancel", "slow", cwd=slow.parent)
    assert told.out == f"slow: process {driven.pid} on {socket.gethostname()} was stopped\n"
    driven.wait()
    assert driven.returncode == 130
    assert running(slow) == []
    assert zen("cancel", "slow", cwd=slow.parent).out == "slow: nothing is running\n"
    facts = zen("cancel", "slow", "--json", cwd=slow.parent).facts
    assert facts == {"study": "slow", "stopped": [], "told": [], "jobs": 0}


@pytest.mark.slow
def test_one_experiment_is_cancelled_and_the_others_go_on(slow, driven):
    until(lambda: len(running(slow)) >= 2)
    digest = next(d for d in running(slow) if (slow.parent / ".zenturio").glob(f"work/*/{d}"))
    told = zen("cancel", digest[:10], cwd=slow.parent)
    assert told.out == f"{digest[:12]} of slow is cancelled\n"
    assert driven.poll() is None
    shown = zen("show", digest, "--json", cwd=slow.parent).facts
    assert shown["state"] == "cancelled"
    told = zen("cancel", digest, "--json", cwd=slow.parent).facts
    assert told == {"digest": digest, "study": "slow", "state": "cancelled"}


@pytest.mark.slow
def test_a_driver_on_another_host_hears_of_it_at_its_next_heartbeat(slow):
    zen("run", "slow.sh", "--limit", "0", cwd=slow.parent)
    repository = open_repository(str(slow.parent / ".zenturio" / "zenturio.db"))
    repository.acquire_lease("slow", DriverProcess("far-away", 7, "x/y/1"), seconds=60.0)
    repository.close()
    told = zen("cancel", "slow", cwd=slow.parent)
    assert told.out == "slow: process 7 on far-away will stop at its next heartbeat, within 20 s\n"


@pytest.mark.slow
def test_what_is_no_study_and_no_experiment_is_told(slow):
    zen("run", "slow.sh", "--limit", "0", cwd=slow.parent)
    told = zen("cancel", "slwo", cwd=slow.parent, code=2)
    assert "'slwo' is neither a study nor an experiment" in told.err
    assert "did you mean 'slow'?" in told.err


def test_an_earlier_version_gets_no_results_of_the_edited_program(tmp_path):
    program = '# ZEN$ PARAM a = { 1:300 }\n# ZEN$ RUN "sh p.sh {a}"\nexit %d\n'
    (tmp_path / "p.sh").write_text(program % 127)
    zen("run", "p.sh", "-j", 1, cwd=tmp_path, code=3)  # it stops when the first eight have failed
    (tmp_path / "p.sh").write_text(program % 0)
    zen("run", "p.sh", "--limit", 1, cwd=tmp_path)
    refused = zen("run", "p.sh", "--name", "p@1", "--only", "failed", cwd=tmp_path, code=None)
    assert refused.code == 2
    assert "--name p@1 is a version" in refused.err
    status = zen("status", "p@1", cwd=tmp_path).out
    assert "the program was edited before all experiments had run" in status
    assert "to resume" not in status
