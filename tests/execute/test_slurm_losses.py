"""Jobs that are lost, told by a queue that is played: whose fault that is, and what comes of it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from zenturio.errors import PlaceError
from zenturio.execute.batch.pilots import Pilots
from zenturio.execute.batch.queue_poller import MOST_DEATHS, OutcomeReader, QueuePoller
from zenturio.execute.batch.system import BatchJob, JobPaths
from zenturio.execute.batch.tickets import ArraySubmission, BatchSession, BatchTicket, TicketTable
from zenturio.execute.experiment_codec import pack_failure, pack_outcome
from zenturio.execute.slurm import SlurmOptions, SlurmSystem
from zenturio.execute.slurm_commands import slurm_job
from zenturio.experiment import Outcome
from zenturio.testing.executor import experiment, until

MANY = 7
"""More losses than any limit."""


class Queue(SlurmSystem):
    """Does with each job that is submitted what the test says."""

    def __init__(self, session: BatchSession, options: SlurmOptions) -> None:
        super().__init__(options)
        self.session = session
        self.shown: dict[tuple[str, int], list[BatchJob]] = {}
        self.submitted = 0
        self.patience = 1.0
        self.cancelled = []
        self.plays: Callable[[str, str], BatchJob] = lambda _name, _digest: slurm_job(
            "1", "PENDING"
        )

    def submit(self, script: Path) -> str:
        self.submitted += 1
        for number, digest in enumerate(script.with_suffix(".list").read_text().split(), 1):
            job = replace(self.plays(f"{script.stem}-{number}", digest), array=str(self.submitted))
            self.shown[script.stem, number] = [job]
        return str(self.submitted)

    def look(self, names=None):
        return {task: jobs for task, jobs in self.shown.items() if task[0] in names}

    def cancel(self, tasks) -> None:
        self.cancelled += tasks

    def step_back(self, arrays) -> None:
        pass

    def writes(self, start: str, data: bytes = b"") -> None:
        """A worker's trace: empty when it begins its experiment."""
        (self.session.path / "starts" / start).write_bytes(data)


@pytest.fixture
def cluster(tmp_path, request):
    """The queue, a function that has an experiment run, and what was said to the user.

    Its parameter is the grace of the place in seconds.
    """
    session = BatchSession.begin(tmp_path / "place")
    grace = getattr(request, "param", 0.0)
    options = SlurmOptions(poll=0.01, grace=grace, pilots="never")
    queue, desk, remarks = Queue(session, options), TicketTable(3), []
    paths = JobPaths(session.path, tmp_path, shared=True)
    submission = ArraySubmission(desk, session, queue, paths)
    reader = OutcomeReader(desk, [session], tmp_path / "outputs", 0.01, lambda _: None)
    waits = Pilots(options, lambda: None, remarks.append, lambda: None, lambda _: None)
    clerk = QueuePoller(desk, submission, queue, remarks.append, waits, reader.unpacked)

    def run(*commands: str) -> BatchTicket:
        ticket = BatchTicket(experiment(*commands or ("true",)), session, clerk.wake)
        session.put(ticket.digest, b"parcel")
        desk.add(ticket)
        clerk.wake()
        return ticket

    queue.run, queue.remarks = run, remarks
    yield queue
    clerk.close(5.0)
    reader.close()
    session.remove()


def ends(queue: Queue, state: str, times: int, *, begun=True, then="ok", left=b""):
    """So many jobs end in that state; the next one runs the experiment."""

    def play(task: str, digest: str) -> BatchJob:
        if queue.submitted > times:
            queue.writes(f"{task}.0")
            queue.session.outcome(digest).write_bytes(pack_outcome(Outcome(digest, then)))
            return slurm_job("", "COMPLETED", "n1")
        if begun:
            queue.writes(f"{task}.0", left and pack_outcome(replace(left, digest=digest)))
        return slurm_job("", state, "n1")

    queue.plays = play


TERMINATED = Outcome("", "failed", "killed by SIGTERM", exit=-15)
INTERRUPTED = Outcome("", "cancelled", "cancelled")


@pytest.mark.parametrize("state", ["PREEMPTED", "NODE_FAIL", "BOOT_FAIL"])
@pytest.mark.parametrize("left", [b"", TERMINATED, INTERRUPTED])
def test_what_the_cluster_takes_away_is_begun_again_however_often(cluster, state, left):
    ends(cluster, state, MANY, left=left)
    assert cluster.run().result().status == "ok"
    assert cluster.submitted > MANY  # without any grace, a look that came too late costs one more
    assert any(f"ended on n1 as {state}; begun again" in words for words in cluster.remarks)


@pytest.mark.parametrize("state", ["FAILED", "COMPLETED"])
def test_an_experiment_whose_worker_dies_five_times_has_failed(cluster, state):
    ends(cluster, state, MANY)
    found = cluster.run().result()
    assert (found.status, found.cause, found.host) == ("failed", "its worker died 5 times", "n1")
    assert cluster.submitted >= MOST_DEATHS == 5


def test_four_dead_workers_are_no_outcome(cluster):
    ends(cluster, "FAILED", 4)
    assert cluster.run().result().status == "ok"


def test_lost_nodes_do_not_count_among_dead_workers(cluster):
    states = ["FAILED", "NODE_FAIL", "PREEMPTED"] * 3
    ends(cluster, "", len(states))
    play = cluster.plays

    def mixed(task: str, digest: str) -> BatchJob:
        job = play(task, digest)
        return job if job.state else slurm_job("", states[cluster.submitted - 1], "n1")

    cluster.plays = mixed
    assert cluster.run().result().status == "ok"


@pytest.mark.parametrize(
    ("state", "begun"),
    [("FAILED", False), ("COMPLETED", False), ("TIMEOUT", False), ("CANCELLED", True)],
)
def test_an_experiment_that_never_began_or_was_taken_off_is_no_failure_but_the_places(
    cluster, state, begun
):
    ends(cluster, state, MANY, begun=begun)
    with pytest.raises(PlaceError, match=f"as {state}, for the 3rd time"):
        cluster.run().result()


def test_what_a_worker_could_not_do_is_tried_elsewhere(cluster):
    def play(task: str, digest: str) -> BatchJob:
        cluster.writes(f"{task}.0")
        full = pack_failure(PlaceError("/scratch: No space left on device"))
        data = full if cluster.submitted == 1 else pack_outcome(Outcome(digest, "ok"))
        cluster.session.outcome(digest).write_bytes(data)
        return slurm_job("", "COMPLETED", "n1")

    cluster.plays = play
    assert cluster.run().result().status == "ok"
    assert cluster.submitted == 2
    assert any("No space left on device; begun again" in words for words in cluster.remarks)


def test_a_setup_that_fails_is_the_places_fault_at_once(cluster):
    def play(task: str, _digest: str) -> BatchJob:
        cluster.writes(f"{task}.0.setup")
        (cluster.session.path / "logs" / task).write_text("module: no gcc/13\n")
        return slurm_job("", "FAILED", "n1")

    cluster.plays = play
    with pytest.raises(PlaceError, match="setup of the place failed on n1: module: no gcc/13"):
        cluster.run().result()
    assert cluster.submitted == 1


def test_what_an_interrupted_start_left_says_nothing_of_the_next(cluster):
    """The queue was never looked at while the job waited between its two starts."""

    def play(task: str, digest: str) -> BatchJob:
        cluster.writes(f"{task}.0", pack_outcome(replace(INTERRUPTED, digest=digest)))
        return slurm_job("", "RUNNING", "n1", restarts=0)

    cluster.plays = play
    ticket = cluster.run()
    until(ticket.running)
    (task,) = cluster.shown
    cluster.shown[task] = [slurm_job("1", "RUNNING", "n2", restarts=1)]
    cluster.writes(f"{task[0]}-{task[1]}.1")
    cluster.shown[task] = [slurm_job("1", "COMPLETED", "n2", restarts=1)]
    cluster.session.outcome(ticket.digest).write_bytes(pack_outcome(Outcome(ticket.digest, "ok")))
    assert ticket.result().status == "ok"
    assert cluster.submitted == 1


@pytest.mark.parametrize(("last", "status"), [(TERMINATED, "failed"), (INTERRUPTED, "ok")])
def test_of_several_starts_the_last_one_counts(cluster, last, status):
    def play(task: str, digest: str) -> BatchJob:
        if cluster.submitted > 1:
            cluster.session.outcome(digest).write_bytes(pack_outcome(Outcome(digest, "ok")))
            return slurm_job("", "COMPLETED", "n1")
        other = INTERRUPTED if last is TERMINATED else TERMINATED
        for number, left in enumerate((other, other, last)):
            cluster.writes(f"{task}.{number}", pack_outcome(replace(left, digest=digest)))
        return slurm_job("", "COMPLETED", "n1", restarts=2)

    cluster.plays = play
    assert cluster.run().result().status == status


def test_one_that_is_cancelled_while_it_waits_for_another_job_does_not_begin(cluster):
    ends(cluster, "PREEMPTED", MANY)
    play = cluster.plays

    def last(task: str, digest: str) -> BatchJob:
        if cluster.submitted == 2:
            ticket.cancel()
        return play(task, digest)

    cluster.plays = last
    ticket = cluster.run()
    assert ticket.result().status == "cancelled"
    assert cluster.submitted == 2
    assert not cluster.session.holds(ticket.digest)


def test_the_setup_of_a_place_is_recorded_with_what_it_ran(cluster):
    ends(cluster, "PREEMPTED", 0)
    ticket = cluster.run()
    ticket.setup = "module load gcc/13"
    assert ticket.result().machine.setup == "module load gcc/13"


@pytest.mark.parametrize("cluster", [1000.0], indirect=True)
def test_what_a_signal_left_means_nothing_before_it_is_known_whose_it_was(cluster):
    """As under Grid Engine: its queue forgets what has ended, and another command tells why."""
    asked = []

    def play(task: str, digest: str) -> BatchJob:
        if cluster.submitted > 1:
            cluster.session.outcome(digest).write_bytes(pack_outcome(Outcome(digest, "ok")))
            return slurm_job("", "COMPLETED", "n1")
        cluster.writes(f"{task}.0", pack_outcome(replace(TERMINATED, digest=digest)))
        return slurm_job("", "RUNNING", "n1")

    def how_ended(task) -> BatchJob | None:
        asked.append(task)
        return slurm_job(task[0], "CANCELLED", "n1") if len(asked) > 2 else None

    cluster.plays, cluster.how_ended = play, how_ended
    ticket = cluster.run()
    until(ticket.running)
    cluster.shown.clear()
    assert ticket.result().status == "ok"
    assert asked == [("1", 1)] * 3
    assert any("ended on n1 as CANCELLED; begun again" in words for words in cluster.remarks)
