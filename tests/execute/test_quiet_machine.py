"""Experiments start only while the machine is quiet, if that is asked for."""

import pytest

from zenturio.annotate.scan import scan
from zenturio.errors import InputError, PlaceError
from zenturio.execute import machines
from zenturio.execute.machines import PATIENCE_SECONDS, QuietMachine
from zenturio.study.driver.experiment_source import select_points
from zenturio.study.driver.study_driver import DriverSettings
from zenturio.study.local_run import run_locally
from zenturio.study.study_request import PlaceOptions


@pytest.fixture
def pressure(tmp_path):
    """Writes what the kernel says of the last ten seconds."""
    path = tmp_path / "cpu"

    def write(percent):
        path.write_text(f"some avg10={percent:.2f} avg60=0.00 avg300=0.00 total=1\n")
        return str(path)

    write(0)
    return write


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(machines, "monotonic", lambda: now[0])
    return now


def test_a_machine_is_quiet_up_to_a_share_of_waiting(pressure):
    machine = QuietMachine(pressure(5))
    assert machine.wait_reason(has_running=False) == ""
    pressure(5.01)
    assert "waiting until it is quiet" in machine.wait_reason(has_running=False)
    pressure(0)
    assert machine.wait_reason(has_running=False) == ""


def test_a_machine_that_stays_busy_is_refused(pressure, clock):
    machine = QuietMachine(pressure(98))
    assert machine.wait_reason(has_running=False)
    clock[0] = PATIENCE_SECONDS - 1
    assert machine.wait_reason(has_running=False)
    clock[0] = PATIENCE_SECONDS
    with pytest.raises(PlaceError, match="waited for a processor in 98% of the last 10 s"):
        machine.wait_reason(has_running=False)


def test_patience_begins_anew_after_a_quiet_moment_and_while_experiments_run(pressure, clock):
    machine = QuietMachine(pressure(98))
    machine.wait_reason(has_running=False)
    clock[0] = PATIENCE_SECONDS
    assert machine.wait_reason(has_running=True)
    clock[0] = 2 * PATIENCE_SECONDS - 1
    assert machine.wait_reason(has_running=False)
    pressure(0)
    assert machine.wait_reason(has_running=False) == ""


def test_a_system_that_does_not_count_it_is_refused_at_once(tmp_path):
    with pytest.raises(InputError, match="does not count how long processes wait"):
        QuietMachine(str(tmp_path / "absent"))


def test_a_run_starts_nothing_while_the_machine_is_busy(pressure, tmp_path, monkeypatch):
    monkeypatch.setattr(machines, "CPU_PRESSURE", pressure(98))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.sh").write_text(
        '#ZEN$ PARAM n = { 1:3 }\n#ZEN$ RUN "echo {n} >> ../../../ran"\n'
    )
    seen = []

    def listen(progress):
        if progress.remarks:
            seen.append((progress.remarks, progress.running, progress.done))
            pressure(0)

    application = scan(["p.sh"])
    summary = run_locally(
        application, select_points(application.space), place=PlaceOptions(jobs=2),
        db=str(tmp_path / "zenturio.db"), settings=DriverSettings(quiet_machine=True), listener=listen,
    )  # fmt: skip
    assert summary.ok == 3
    ((remarks, running, done),) = seen
    assert "the machine is busy" in remarks[0]
    assert (running, done) == (0, 0)
