"""Stopping a study, or one experiment: drivers here, elsewhere, and dead."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from threading import Thread

import pytest

from zenturio.annotate.scan import scan
from zenturio.errors import InputError, NotFoundError, PlaceError
from zenturio.execute.hosts.attempt_journal import AttemptJournal
from zenturio.record import DriverProcess, StudyDefinition
from zenturio.record.open import open_repository
from zenturio.study.driver import stop_requests, study_records, study_session
from zenturio.study.driver.experiment_source import select_points
from zenturio.study.driver.stop_requests import (
    CancelRequests,
    StopResult,
    interrupt_at_end_signals,
    stop_experiment,
    stop_study,
)
from zenturio.study.last_options import place_of, recall_options
from zenturio.study.local_run import run_locally
from zenturio.study.overview import study_status
from zenturio.system.processes import process_birth
from zenturio.testing.executor import until
from zenturio.testing.experiments import dead_driver, experiment, outcome

ONE, TWO = experiment(0), experiment(1)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".zenturio").mkdir()
    with closing(open_repository(tmp_path / "a.db")) as repository:
        for name in ("s", "t", "u"):
            repository.open(name, StudyDefinition((), ()))
        yield repository


@pytest.fixture
def driver():
    """A process that may be told to end, as a driver."""
    code = "import signal; print('begun', flush=True); signal.pause()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        host = socket.gethostname()
        yield process, DriverProcess(host, process.pid, process_birth(process.pid))
        process.kill()


def test_a_driver_of_this_machine_is_ended_and_those_of_other_studies_are_not(repository, driver):
    process, person = driver
    lease = repository.acquire_lease("s", person)
    other = repository.acquire_lease("t", DriverProcess.current())
    assert stop_study(repository, "s") == StopResult("s", (lease,), (), 0)
    assert process.wait() != 0
    assert [each.number for each in repository.leases("t")] == [other.number]


def test_a_driver_elsewhere_hears_of_it_by_its_lease(repository):
    lease = repository.acquire_lease("s", DriverProcess("elsewhere", 1, "born"))
    result = stop_study(repository, "s")
    assert (result.stopped, result.told, result.jobs) == ((), (lease,), 0)
    assert repository.leases("s") == ()


def test_a_driver_that_is_dead_is_not_told(repository):
    repository.acquire_lease("s", dead_driver())
    assert stop_study(repository, "s") == StopResult("s")
    with pytest.raises(NotFoundError):
        stop_study(repository, "none")


def test_an_experiment_that_does_not_run_keeps_its_state(repository):
    lease = repository.acquire_lease("s", DriverProcess.current())
    repository.add_results("s", lease.number, [(ONE, outcome(ONE))])
    assert stop_experiment(repository, "s", ONE.digest) == "ok"
    assert CancelRequests(stop_requests.project_folder() / ".zenturio").unwanted() == []
    repository.release_lease(lease)
    assert stop_experiment(repository, "s", ONE.digest) == "ok"


def test_an_experiment_of_a_dead_driver_is_missing(repository):
    lease = repository.acquire_lease("s", dead_driver())
    repository.claim("s", lease.number, [ONE])
    assert stop_experiment(repository, "s", ONE.digest) == "missing"


def test_the_driver_of_an_experiment_is_asked_and_answers(repository, tmp_path, monkeypatch):
    monkeypatch.setattr(stop_requests, "_LOOK", 0.001)
    lease = repository.acquire_lease("s", DriverProcess.current())
    claims = repository.claim("s", lease.number, [ONE, TWO])
    requests = CancelRequests(tmp_path / ".zenturio")
    states = []
    with closing(open_repository(tmp_path / "a.db")) as own:
        thread = Thread(target=lambda: states.append(stop_experiment(own, "s", ONE.digest)))
        thread.start()
        until(lambda: requests.asked(ONE.digest))
        cancelled = outcome(ONE, "cancelled", attempt=claims[ONE.digest])
        repository.record("s", lease.number, [cancelled])
        thread.join()
    assert states == ["cancelled"]
    assert requests.unwanted() == []


def test_a_driver_that_does_not_answer_is_an_error_and_the_request_is_taken_back(
    repository, tmp_path, monkeypatch
):
    monkeypatch.setattr(stop_requests, "PATIENCE", 0.0)
    monkeypatch.setattr(stop_requests, "_LOOK", 0.001)
    lease = repository.acquire_lease("s", DriverProcess.current())
    repository.claim("s", lease.number, [ONE])
    with pytest.raises(PlaceError, match=f"the driver of s did not cancel {ONE.digest[:12]}"):
        stop_experiment(repository, "s", ONE.digest)
    assert CancelRequests(tmp_path / ".zenturio").unwanted() == []


@pytest.fixture(params=[signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def end_signal(request):
    """A signal that would kill this process."""
    before = signal.signal(request.param, signal.SIG_DFL)
    yield request.param
    signal.signal(request.param, before)


@pytest.mark.parametrize(
    ("module", "moment", "results"),
    [
        (study_session, "OPENED", 0),
        (study_records, "LEASED", 0),
        (study_session, "DRIVEN", 2),
        (study_records, "LEFT", 2),
    ],
)
def test_a_driver_that_is_ended_while_it_does_not_listen_gives_its_lease_back(
    repository, end_signal, monkeypatch, tmp_path, module, moment, results
):
    (tmp_path / "a.sh").write_text('n=0\n#ZEN$ ASSIGN n = {1, 2}\n#ZEN$ RUN "true"\n')
    application = scan([tmp_path / "a.sh"])
    monkeypatch.setattr(module, moment, lambda: os.kill(os.getpid(), end_signal))
    with pytest.raises(KeyboardInterrupt):
        run_locally(application, select_points(application.space), db=repository, name="new")
    assert repository.leases("new") == ()
    assert repository.count_states("new").get("ok", 0) == results
    assert signal.getsignal(end_signal) == signal.SIG_DFL


def test_who_handles_a_signal_to_end_or_ignores_it_still_does(end_signal):
    for handler in (signal.SIG_IGN, lambda _number, _frame: None):
        signal.signal(end_signal, handler)
        with interrupt_at_end_signals():
            assert signal.getsignal(end_signal) is handler


@pytest.fixture
def at_hosts(repository, tmp_path):
    """A study that was run at a host, and what its driver, which is dead, has there."""
    (tmp_path / "hosts.toml").write_text(
        f'[hosts.one]\naddress = "one"\nvia = "sh"\nslots = 1\npython = "{sys.executable}"\n'
        f'folder = "{tmp_path}/one"\n'
    )
    definition = repository.definition("s")
    notes = {"run": {"on": "hosts"}, "experiments": 9}
    repository.open("s", replace(definition, notes=notes))
    lease = repository.acquire_lease("s", dead_driver())
    repository.claim("s", lease.number, [ONE, TWO])
    with closing(AttemptJournal(tmp_path / ".zenturio")) as journal:
        journal.begin(ONE.digest, "one")
        journal.begin(TWO.digest, "one")
    return tmp_path / ".zenturio"


def attempts(home):
    with closing(AttemptJournal(home)) as journal:
        return [journal.attempt(each.digest) is not None for each in (ONE, TWO)]


def test_an_experiment_that_a_dead_driver_has_at_a_host_is_cancelled_there(repository, at_hosts):
    assert attempts(at_hosts) == [True, True]
    assert stop_experiment(repository, "s", ONE.digest) == "missing"
    assert attempts(at_hosts) == [False, True]


def test_all_that_a_dead_driver_has_at_hosts_is_cancelled_with_its_study(
    repository, at_hosts, tmp_path
):
    status = study_status(tmp_path / "a.db", "s")
    assert (status.place, status.stages) == ("hosts", {"running": 2})
    assert stop_study(repository, "s") == StopResult("s", (), (), 2)
    assert attempts(at_hosts) == [False, False]
    assert study_status(tmp_path / "a.db", "s").stages == {}
    assert study_status(tmp_path / "a.db", "t").stages == {}


def test_of_a_study_that_nobody_ran_from_the_command_line_there_are_no_options(repository):
    with pytest.raises(InputError, match="it is not known how s was run"):
        recall_options("s", repository.definition("s").notes)
    notes = {"run": {"on": "moon", "jobs": 3}}
    assert recall_options("s", notes) == {"on": "moon", "jobs": 3}
    assert place_of(notes) == "moon"
    assert place_of({}) == ""
