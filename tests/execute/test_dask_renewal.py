"""Jobs of workers that end, played without Dask and Slurm: replaced in time, or given up."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from zenturio.errors import PlaceError
from zenturio.execute.batch.system import SETUP_FAILED, BatchJob, UnansweredError
from zenturio.execute.dask import slurm_workers
from zenturio.execute.dask.executor import MOST_DEATHS, MOST_EXPIRIES, WorkerLoss, judge_loss
from zenturio.execute.dask.slurm_workers import JobRenewal
from zenturio.execute.dask.ticket_queue import DaskTicket
from zenturio.execute.slurm_commands import slurm_job
from zenturio.testing.executor import experiment, until

HOUR = 3600.0


class Workers:
    """As a cluster of dask-jobqueue; each job of it is shown in the queue as it begins."""

    def __init__(self) -> None:
        self.worker_spec: dict[str, object] = {}
        self.workers: dict[str, SimpleNamespace] = {}
        self.scheduler_info: dict[str, dict] = {"workers": {}}
        self.shown: dict[str, BatchJob] = {}
        self.submitted = 0
        self.cancelled: list[str] = []
        self.begins = slurm_job("", "RUNNING", "n1", seconds_left=HOUR, seconds=HOUR)
        self.arrive = True
        self.refuses = ""
        self.silent = False
        self.busy = True
        self.looks = 0

    def is_busy(self) -> bool:
        self.looks += 1
        return self.busy

    def looked(self) -> bool:
        """After many more looks than any of these tests needs."""
        looks = self.looks
        until(lambda: self.looks > looks + 30)
        return True

    def jobs(self, _name: str) -> dict[str, BatchJob]:
        if self.silent:
            raise UnansweredError("squeue did not answer for 60 s")
        return dict(self.shown)

    def scale(self, jobs: int) -> None:
        number = 0
        while len(self.worker_spec) < jobs:
            self.worker_spec.setdefault(f"w{number}", {})
            number += 1

    def sync(self, function, *words, callback_timeout=None):
        assert callback_timeout
        return asyncio.run(function(*words))

    def __await__(self):
        for name in self.workers.keys() - self.worker_spec.keys():
            self.cancelled.append(self.workers.pop(name).job_id)
        for name in list(self.worker_spec):
            if name in self.workers:
                continue
            job = SimpleNamespace(job_id=None, status=Status.created)
            self.workers[name] = job
            if self.refuses:
                raise RuntimeError(self.refuses)
            self.submitted += 1
            job.job_id, job.status = str(self.submitted), Status.running
            self.shown[job.job_id] = replace(self.begins, array=job.job_id)
            if self.arrive:
                self.scheduler_info["workers"][f"tcp://{job.job_id}"] = {"name": name}
        return self
        yield

    def end(self, number: str, state: str) -> None:
        self.shown[number] = slurm_job(number, state, "n1")
        self.scheduler_info["workers"].pop(f"tcp://{number}", None)


class Status:
    """Of a job, as Dask has it."""

    def __init__(self, name: str) -> None:
        self.name = name

    created: "Status"
    running: "Status"
    failed: "Status"


Status.created, Status.running, Status.failed = map(Status, ("created", "running", "failed"))


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """The jobs of workers, kept up for a driver that has work as long as *busy* says so."""
    monkeypatch.setattr(slurm_workers, "POLL_SECONDS", 0.005)
    workers = Workers()
    made = []

    def begin(jobs=1, patience=30.0):
        workers.scale(jobs)
        asyncio.run(_awaited(workers))
        found = JobRenewal(workers, "zen-1", jobs, workers, tmp_path, patience)
        found.begin(workers.is_busy)
        made.append(found)
        return found

    workers.begin, workers.logs = begin, tmp_path
    yield workers
    for each in made:
        each.close()


async def _awaited(workers: Workers) -> None:
    await workers


@pytest.mark.parametrize("state", ["TIMEOUT", "CANCELLED", "NODE_FAIL", "PREEMPTED", "FAILED"])
def test_a_job_that_ends_is_replaced(cluster, state):
    cluster.begin(2)
    cluster.end("1", state)
    until(lambda: cluster.submitted == 3)
    assert sorted(job.job_id for job in cluster.workers.values()) == ["2", "3"]
    assert len({*cluster.worker_spec, "w0"}) == 3  # nobody gets the name of one that has ended


def test_a_job_that_slurm_has_forgotten_is_replaced(cluster):
    cluster.begin()
    del cluster.shown["1"]
    until(lambda: cluster.submitted == 2)
    assert sorted(job.job_id for job in cluster.workers.values()) == ["2"]


def test_a_job_that_runs_without_its_worker_is_cancelled_and_replaced(cluster, monkeypatch):
    monkeypatch.setattr(slurm_workers, "ABSENT_SECONDS", 0.05)
    cluster.begin(2)
    del cluster.scheduler_info["workers"]["tcp://1"]
    until(lambda: cluster.submitted == 3)
    assert cluster.cancelled == ["1"]


def test_a_worker_that_comes_back_keeps_its_job(cluster):
    cluster.begin()
    told = cluster.scheduler_info["workers"].pop("tcp://1")
    assert cluster.looked()
    cluster.scheduler_info["workers"]["tcp://1"] = told
    assert cluster.looked()
    assert (cluster.submitted, cluster.cancelled) == (1, [])


def test_nothing_is_replaced_without_work(cluster):
    cluster.begin()
    cluster.busy = False
    cluster.end("1", "TIMEOUT")
    assert cluster.looked()
    assert cluster.submitted == 1
    cluster.busy = True
    until(lambda: cluster.submitted == 2)


def test_the_successor_comes_before_the_time_is_over_and_then_the_first_gets_no_more(cluster):
    found = cluster.begin()
    assert found.retiring == frozenset()
    cluster.arrive = False
    cluster.shown["1"] = replace(cluster.shown["1"], seconds_left=500.0)
    until(lambda: cluster.submitted == 2)
    assert found.retiring == frozenset()  # nobody else is there yet
    cluster.scheduler_info["workers"]["tcp://2"] = {"name": "w1"}
    until(lambda: found.retiring == {"tcp://1"})
    assert cluster.submitted == 2
    cluster.end("1", "TIMEOUT")
    until(lambda: found.retiring == frozenset())
    assert cluster.submitted == 2


def test_jobs_that_wait_for_their_turn_are_waited_for(cluster):
    cluster.begins, cluster.arrive = slurm_job("", "PENDING", "", "Priority"), False
    found = cluster.begin(patience=0.05)
    assert cluster.looked()
    assert found.fault is None


def why(found: JobRenewal) -> str:
    until(lambda: found.fault)
    assert isinstance(found.fault, PlaceError)
    return str(found.fault)


def test_jobs_that_may_never_begin_are_given_up_with_the_reason(cluster):
    cluster.begins, cluster.arrive = slurm_job("", "PENDING", "", "PartitionTimeLimit"), False
    assert "job 1 waits: PartitionTimeLimit" in why(cluster.begin(patience=0.05))


def test_jobs_that_slurm_refuses_are_given_up_in_its_words(cluster):
    found = cluster.begin(patience=0.05)
    cluster.refuses = "Invalid account"
    cluster.end("1", "TIMEOUT")
    assert "Invalid account" in why(found)
    assert not cluster.workers


def test_jobs_that_end_before_their_workers_come_are_given_up_with_what_they_said(cluster):
    cluster.arrive = False
    cluster.begins = slurm_job("", "FAILED", "n1")
    (cluster.logs / "zen-1-1").write_text("no python\n")
    found = cluster.begin()
    for number in range(2, 9):
        (cluster.logs / f"zen-1-{number}").write_text("no python\n")
    assert "ended as FAILED: no python" in why(found)
    assert cluster.submitted == slurm_workers.MOST_FRUITLESS


def test_a_setup_that_fails_is_given_up_at_once(cluster):
    cluster.arrive = False
    cluster.begins = slurm_job("", "FAILED", "n1")
    (cluster.logs / "zen-1-1").write_text(f"no gcc\n{SETUP_FAILED}: module load gcc\n")
    assert "the setup of the workers failed: no gcc" in why(cluster.begin())
    assert cluster.submitted == 1


def test_a_queue_that_does_not_answer_is_given_up_if_no_worker_is_there(cluster):
    found = cluster.begin(patience=0.05)
    cluster.silent = True
    assert cluster.looked()
    assert found.fault is None
    cluster.scheduler_info["workers"].clear()
    assert "squeue did not answer" in why(found)


@pytest.mark.parametrize(
    ("state", "ending"),
    [
        ("PREEMPTED", "taken"), ("NODE_FAIL", "taken"), ("CANCELLED", "taken"),
        ("PENDING", "taken"), ("TIMEOUT", "over"), ("FAILED", "died"), ("OUT_OF_MEMORY", "died"),
        ("RUNNING", ""),
    ],
)  # fmt: skip
def test_why_a_worker_was_lost_is_what_became_of_its_job(cluster, state, ending):
    found = cluster.begin()
    until(lambda: found._ids)
    cluster.busy = False
    cluster.end("1", state)
    found._poll()
    assert found.ending("w0", "tcp://1", float("-inf")) == ending
    assert found.ending("w0", "tcp://1", float("inf")) == ""


def test_a_worker_that_its_nanny_begins_anew_had_died(cluster):
    found = cluster.begin()
    until(lambda: found._ids)
    cluster.scheduler_info["workers"] = {"tcp://new": {"name": "w0"}}
    assert found.ending("w0", "tcp://1", float("-inf")) == "died"


# What becomes of experiments


@pytest.fixture
def ticket():
    def make() -> DaskTicket:
        found = DaskTicket(experiment("true"), 1, lambda _: None)
        assert found.try_start()
        return found

    return make


def test_what_the_cluster_takes_away_counts_for_nothing(ticket):
    one = ticket()
    for _ in range(4 * MOST_DEATHS):
        assert judge_loss(WorkerLoss([one]), "taken") == [one]
    assert not one.is_suspect


def test_five_dead_workers_under_an_experiment_alone_are_its_failure(ticket):
    one, other = ticket(), ticket()
    assert judge_loss(WorkerLoss([one, other]), "died") == [one, other]
    assert one.is_suspect
    assert other.is_suspect
    for _ in range(MOST_DEATHS - 1):
        assert judge_loss(WorkerLoss([one]), "died") == [one]
    assert judge_loss(WorkerLoss([one]), "died") == []
    assert one.result(0).cause == "its worker died 5 times"
    assert not other.done()


def test_a_job_that_is_too_short_for_an_experiment_is_the_places_fault(ticket):
    one = ticket()
    for _ in range(MOST_EXPIRIES - 1):
        assert judge_loss(WorkerLoss([one]), "over") == [one]
    assert judge_loss(WorkerLoss([one]), "over") == []
    with pytest.raises(PlaceError, match="had not finished when its job ended, 3 times"):
        one.result(0)
