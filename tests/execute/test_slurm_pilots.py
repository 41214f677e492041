"""Short experiments under Slurm, which go to pilot jobs: decided, handed over, given up."""

import os
import shutil
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from parent_process import PARENT
from slurm import cluster, slurm
from zenturio.errors import InputError, PlaceError
from zenturio.execute.batch import pilots
from zenturio.execute.batch.pilots import Pilots
from zenturio.execute.batch.tickets import BatchSession, BatchTicket
from zenturio.execute.slurm import Slurm, SlurmOptions
from zenturio.experiment import Outcome, Step
from zenturio.testing.executor import experiment, outcome, running, until

__all__ = ["cluster", "slurm"]

WAYS = {
    "poll": 0.1, "grace": 5.0, "pilot_jobs": 1, "pilot_cores": 2, "pilot_memory": "512MB",
}  # fmt: skip


def counted(log, seconds=0.0, step=None):
    """An experiment that leaves a mark each time that it runs, and says in which kind of job."""
    command = f"echo run >> {log}; sleep {seconds}; echo array=$SLURM_ARRAY_JOB_ID."
    return experiment(Step(command, **(step or {})))


def by_pilot(found: Outcome) -> bool:
    return found.stdout.head == b"array=.\n"


# On a real Slurm


@pytest.fixture
def held(tmp_path, monkeypatch):
    """From when that file is there, job arrays wait until somebody takes them off."""
    script = tmp_path / "bin" / "sbatch"
    script.parent.mkdir()
    hold = f'test -e {tmp_path}/held && grep -q "array=" "$2" && set -- --hold "$@"'
    script.write_text(f'#!/bin/sh\n{hold}\nexec {shutil.which("sbatch")} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    return tmp_path / "held"


def test_what_is_left_of_short_ones_goes_to_pilots_and_runs_once(
    slurm, tmp_path, monkeypatch, held
):
    monkeypatch.setattr(pilots, "LEAST_MEASURED", 4)
    log = tmp_path / "log"
    with Slurm(tmp_path / "zen", 60, options=SlurmOptions(**WAYS)) as place:
        first = [place.submit(counted(log)) for _ in range(4)]
        assert not any(by_pilot(future.result()) for future in first)
        held.touch()
        waits = [place.submit(counted(log)) for _ in range(6)]
        assert [f.result().stdout.head for f in waits] == [b"array=.\n"] * 6
        assert any("too short for a job each: the others go to" in words for words in place.remarks)
        assert by_pilot(outcome(place, counted(log)))
        held.unlink()
        wide = outcome(place, counted(log, step={"cpus": 3}))
        assert not by_pilot(wide)
        future = place.submit(experiment("sleep 91.3"))
        until(lambda: running("91.3"))
        assert future.cancel()
        assert future.result().status == "cancelled"
        kept = [f.result().digest for f in first]
        assert place._session.digests() == sorted([*kept, wide.digest])
    assert log.read_text() == "run\n" * 12
    until(lambda: not slurm.run("squeue", "-h", "-t", "running,pending"))


@pytest.mark.slow
def test_pilots_can_be_had_from_the_first_experiment_on(slurm, tmp_path):
    with Slurm(tmp_path / "zen", 60, options=SlurmOptions(pilots="always", **WAYS)) as place:
        assert by_pilot(outcome(place, counted(tmp_path / "log")))
        # The worker, not the launcher.
        killer = f"{{ {PARENT}; kill -9 $(ps -o ppid= -p $parent); }}"
        found = outcome(place, experiment(f'test -n "$SLURM_ARRAY_JOB_ID" || {killer}; echo on'))
        assert found.stdout.head == b"on\n"
        assert any("get jobs of their own: worker lost" in words for words in place.remarks)


@pytest.mark.slow
def test_pilots_that_are_wanted_always_and_cannot_be_had_end_the_run(slurm, tmp_path):
    ways = {**WAYS, "setup": "no-such-module load gcc"}
    with Slurm(tmp_path / "zen", 60, options=SlurmOptions(pilots="always", **ways)) as place:
        with pytest.raises(PlaceError, match="no-such-module: command not found"):
            outcome(place, counted(tmp_path / "log"))
        with pytest.raises(PlaceError, match="no-such-module: command not found"):
            outcome(place, counted(tmp_path / "log"))
    assert not (tmp_path / "log").exists()


@pytest.mark.slow
def test_jobs_of_a_dead_drivers_pilots_are_ended_by_the_next(slurm, tmp_path):
    folder = tmp_path / "zen" / "places" / "dask-0123456789abcdef"
    folder.mkdir(parents=True)
    (folder / "lock").touch()
    (folder / "queued").write_text("zen-0123456789abcdef")
    words = ("--job-name=zen-0123456789abcdef", "--hold", "--wrap", "true")
    slurm.run("sbatch", *words)
    slurm.run("sbatch", "--job-name=another", "--hold", "--wrap", "true")
    with Slurm(tmp_path / "zen", 1, options=SlurmOptions()):
        assert slurm.run("squeue", "-h", "-o", "%j").split() == ["another"]


def test_pilots_need_a_folder_that_nodes_see(slurm, tmp_path):
    options = SlurmOptions(pilots="always", folder=str(tmp_path / "scratch"))
    with pytest.raises(InputError, match="pilot jobs need a project folder"):
        Slurm(tmp_path / "zen", 1, options=options)
    assert BatchSession.all(tmp_path / "scratch" / "places" / "slurm") == []


# The choice, without Slurm


class Workers:
    """A cluster that runs nothing by itself."""

    def __init__(self) -> None:
        self.has_workers = False
        self.closed = False
        self.futures: list[Future[Outcome]] = []
        self.wants = 7

    def submit(self, _experiment) -> Future[Outcome]:
        self.futures.append(Future())
        self.futures[-1].set_running_or_notify_cancel()
        return self.futures[-1]

    def close(self) -> None:
        self.closed = True
        for future in self.futures:
            if not future.done():
                future.set_result(Outcome("d", "cancelled", "cancelled"))


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Pilots with what is heard of them; closed behind."""
    monkeypatch.setattr(pilots, "_POLL_SECONDS", 0.01)
    open_ones = []

    def make(fails=None, **ways):
        workers = Workers()
        heard = SimpleNamespace(workers=workers, remarks=[], came=[], again=[])

        def begin():
            if fails is not None:
                raise fails
            return workers

        found = Pilots(
            SlurmOptions(**ways), begin, heard.remarks.append, lambda: heard.came.append(1),
            heard.again.append,
        )  # fmt: skip
        open_ones.append(found)
        return found, heard

    yield make
    for each in open_ones:
        each.close()


@pytest.fixture
def ticket(tmp_path):
    def make(*commands) -> BatchTicket:
        found = BatchTicket(
            experiment(*commands or ("true",)), BatchSession(tmp_path), lambda: None
        )
        assert found.start()
        return found

    return make


def short(found: Pilots) -> None:
    for _ in range(pilots.LEAST_MEASURED):
        found.learn(0.1)


def came(found: Pilots, heard) -> None:
    short(found)
    assert found.begin(pilots.LEAST_MEASURED)
    heard.workers.has_workers = True
    until(lambda: heard.came)


def test_pilots_begin_when_enough_short_ones_wait_and_take_them_when_they_are_there(made, ticket):
    found, heard = made()
    assert not found.begin(1000)
    short(found)
    assert not found.begin(pilots.LEAST_MEASURED - 1)
    assert found.begin(pilots.LEAST_MEASURED)
    assert not found.begin(1000)
    assert not found.takes(ticket())
    heard.workers.has_workers = True
    until(lambda: heard.came)
    assert found.takes(ticket())
    assert found.wants == 7
    assert len(heard.remarks) == 1


def test_a_search_that_asks_for_few_at_a_time_gets_pilots_too(made):
    found, _ = made()
    short(found)
    assert not found.begin(2)
    for _ in range(pilots.LEAST_MEASURED // 2):
        found.count_submission()
    assert found.begin(2)


def test_what_does_not_fit_into_a_pilot_goes_to_a_job(made, ticket):
    found, heard = made(pilot_cores=2, pilot_memory="1GB")
    came(found, heard)
    assert found.takes(ticket(Step("a", cpus=2)))
    assert not found.takes(ticket(Step("a", cpus=3)))
    assert found.takes(ticket(Step("a", memory=8 * 10**8)))
    assert not found.takes(ticket(Step("a", memory=10**9)))


def test_long_ones_get_jobs_again(made, ticket):
    found, heard = made()
    came(found, heard)
    for _ in range(pilots.LEAST_MEASURED):
        found.learn(60.0)
    assert not found.takes(ticket())
    (_, remark) = heard.remarks
    assert remark.endswith("get jobs of their own again")


@pytest.mark.parametrize(
    ("ways", "why"),
    [
        ({"pilots": "never"}, 'pilots = "never"'),
        ({"extra": "--gres=gpu:1"}, "extra may request"),
        ({"folder": "/scratch"}, "folder names another"),
    ],
)
def test_where_there_are_to_be_none_that_is_said_once(made, ways, why):
    found, heard = made(**ways)
    for _ in range(3):
        short(found)
    assert not found.begin(1000)
    (remark,) = heard.remarks
    assert why in remark


def test_where_they_cannot_begin_job_arrays_go_on(made, ticket):
    found, heard = made(fails=PlaceError("sbatch: no"))
    short(found)
    assert found.begin(1000)
    until(lambda: len(heard.remarks) == 2)
    assert heard.remarks[1] == "pilot jobs are no longer used, and job arrays continue: sbatch: no"
    short(found)
    assert not found.takes(ticket())
    assert not found.begin(1000)


def test_what_they_do_not_see_to_its_end_gets_a_job_of_its_own(made, ticket):
    found, heard = made()
    came(found, heard)
    outcomes = [
        Outcome("d", "cancelled", "worker lost"),
        Outcome("d", "cancelled", "cancelled"),
        Outcome("d", "failed", "exit 3"),
        Outcome("d", "ok"),
    ]
    tickets = [ticket() for _ in outcomes]
    for each, ends in zip(tickets, outcomes, strict=True):
        assert found.run(each)
        heard.workers.futures[-1].set_result(ends)
    assert heard.again == tickets[:2]
    assert not any(found.takes(each) for each in tickets[:2])
    assert [each.result(0).cause for each in tickets[2:]] == ["exit 3", ""]


def test_pilots_that_fail_again_and_again_are_given_up(made, ticket):
    found, heard = made()
    came(found, heard)
    for _ in range(pilots.MOST_FAULTS):
        assert found.takes(ticket())
        found.run(ticket())
        heard.workers.futures[-1].set_exception(PlaceError("the scheduler is lost"))
    assert len(heard.again) == pilots.MOST_FAULTS
    assert not found.takes(ticket())
    until(lambda: heard.workers.closed)
    assert sorted(set(heard.remarks[1:])) == [
        "experiments that a pilot job does not finish get jobs of their own: the scheduler is lost",
        "pilot jobs are no longer used, and job arrays continue: the scheduler is lost",
    ]


def test_pilots_with_nothing_to_do_end_and_can_begin_again(made, ticket, monkeypatch):
    monkeypatch.setattr(pilots, "IDLE_SECONDS", 0.05)
    found, heard = made()
    came(found, heard)
    until(lambda: heard.workers.closed)
    assert not found.run(ticket())
    until(lambda: found.begin(1000))


def test_closing_cancels_what_they_run(made, ticket):
    found, heard = made()
    came(found, heard)
    runs = ticket()
    found.run(runs)
    found.close()
    assert runs.result(0).status == "cancelled"
    assert heard.again == []
