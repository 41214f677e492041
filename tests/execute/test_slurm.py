"""A real Slurm as a place: what every place promises, and what happens to jobs."""

import os
import signal
import threading
from dataclasses import replace
from functools import wraps
from pathlib import Path

import pytest

from parent_process import PARENT
from slurm import cluster, slurm
from zenturio.errors import PlaceError
from zenturio.execute.batch import executor as place_of
from zenturio.execute.batch import pilots, queue_poller, tickets
from zenturio.execute.slurm import Slurm, SlurmOptions
from zenturio.experiment import INCOMING, ExperimentFile, Recipe, Step
from zenturio.testing.batch import BatchContract
from zenturio.testing.executor import (
    CommandContract,
    experiment,
    long,
    outcome,
    running,
    until,
)

__all__ = ["cluster", "slurm"]

QUICK = SlurmOptions(poll=0.1, grace=1.0, patience=100.0)
IN_THE_GATE = (
    "succeeds_is_ok", "files_are_there", "environment_is", "takes_too_long", "cancelling",
    "closing_leaves", "reports_is_a_metric", "outputs_are_kept", "output_that_is_missing",
)  # fmt: skip
"""The rest of the contract is left to make test-all: each job is a Python that starts."""


@pytest.fixture
def place(slurm, tmp_path):
    with Slurm(tmp_path / "my 100% zen", 3, options=QUICK) as place:
        yield place


@pytest.fixture
def opened(slurm, tmp_path):
    """Makes places, which share a folder; all are closed behind."""
    made = []

    def make(jobs=3, **options) -> Slurm:
        quick = {"poll": 0.1, "grace": 1.0, "patience": 100.0}
        made.append(Slurm(tmp_path / "zen", jobs, options=SlurmOptions(**{**quick, **options})))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def instead(tmp_path, monkeypatch):
    """Puts a script where one of Slurm's commands is found; $REAL is that command."""

    def make(command: str, lines: str) -> None:
        folder = tmp_path / "instead"
        folder.mkdir(exist_ok=True)
        script = folder / command
        script.write_text(f"#!/bin/sh\nREAL=/usr/bin/{command}\n{lines}\n")
        script.chmod(0o755)
        if str(folder) not in os.environ["PATH"]:
            monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    return make


class TestSlurm(CommandContract):
    """As on this machine."""


def slowly(test):
    """The test as one of make test-all; that of the other places stays as it is."""

    @wraps(test)
    def run(*given, **fixtures):
        return test(*given, **fixtures)

    return pytest.mark.slow(run)


for kind in CommandContract.__mro__:
    for name, test in vars(kind).items():
        if name.startswith("test_") and not any(word in name for word in IN_THE_GATE):
            setattr(TestSlurm, name, slowly(test))


def counted(log: Path, *more: str):
    """An experiment that leaves a mark each time that it runs."""
    return experiment(f"echo run >> {log}", *more)


def jobs(slurm) -> str:
    return slurm.run("squeue", "-h", "-r", "-o", "%F_%K")


# Submitting


@pytest.mark.parametrize(
    "arrives",
    [
        "at once",
        pytest.param("late", marks=pytest.mark.slow),
        pytest.param("never", marks=pytest.mark.slow),
    ],
)
def test_a_lost_answer_of_sbatch_does_not_submit_twice(
    opened, instead, slurm, monkeypatch, tmp_path, arrives
):
    monkeypatch.setattr(tickets, "UNSURE_SECONDS", 1.0)
    does = {
        "at once": '$REAL "$@" >/dev/null',
        "late": f'(sleep 3; $REAL "$@"; touch {tmp_path}/arrived) >/dev/null 2>&1 &',
        "never": "",
    }[arrives]
    once = f"""
if mkdir {tmp_path}/lost 2>/dev/null; then
  {does}
  echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv" >&2
  exit 1
fi
exec $REAL "$@" """
    instead("sbatch", once)
    place = opened()
    log = tmp_path / "log"
    several = [place.submit(counted(log, "echo GFLOPS=1")) for _ in range(3)]
    assert [f.result().status for f in several] == ["ok"] * 3
    if arrives == "late":
        until((tmp_path / "arrived").exists)
        until(lambda: not jobs(slurm))
    assert log.read_text() == "run\n" * 3
    assert any("does not respond" in words for words in place.remarks)


def test_of_two_jobs_of_one_name_one_does_nothing(opened, instead, slurm, tmp_path):
    instead("sbatch", '$REAL "$@"; exec $REAL "$@"')
    log = tmp_path / "log"
    place = opened()
    several = [place.submit(counted(log, "sleep 0.5; echo GFLOPS=1")) for _ in range(2)]
    assert [f.result().status for f in several] == ["ok"] * 2
    until(lambda: not jobs(slurm))
    assert log.read_text() == "run\n" * 2


def test_arrays_are_as_long_as_the_cluster_takes(opened, slurm):
    """MaxArraySize is 21, and 1000 are tried."""
    place = opened(45, extra="--hold")
    several = [place.submit(experiment("sleep 30")) for _ in range(45)]
    until(lambda: len(jobs(slurm).split()) == 45)
    for future in several:
        future.cancel()
    assert {f.result().status for f in several} == {"cancelled"}


@pytest.mark.slow
def test_where_only_few_jobs_are_taken_all_are_run_in_the_end(opened, instead, monkeypatch, slurm):
    """As a site that lets a user have two jobs at a time."""
    monkeypatch.setattr(queue_poller, "FULL_PAUSE_SECONDS", 0.3)
    instead(
        "sbatch",
        f"""count=$(sed -n 's/#SBATCH --array=1-//p' "$2")
has=$(SLURM_CONF={slurm.conf} squeue -h -r | wc -l)
if [ $((has + count)) -gt 2 ]; then
  echo "sbatch: error: QOSMaxSubmitJobPerUserLimit" >&2
  echo "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy" \
    "(job submit limit, user's size and/or time limits)" >&2
  exit 1
fi
exec $REAL "$@" """,
    )
    place = opened(5)
    several = [place.submit(experiment("true")) for _ in range(5)]
    assert [f.result().status for f in several] == ["ok"] * 5
    assert "accepts no more jobs for now" in place.remarks[0]


def test_what_slurm_refuses_fails_in_its_words(opened):
    place = opened(partition="nowhere")
    with pytest.raises(PlaceError, match=r"sbatch: .*invalid partition specified: nowhere"):
        outcome(place, experiment("true"))


def test_more_than_any_node_has_is_refused(opened):
    with pytest.raises(PlaceError, match="node configuration is not available"):
        outcome(opened(), experiment(Step("true", memory=2**40)))


def test_jobs_that_can_never_run_are_told(opened):
    place = opened()
    future = place.submit(experiment(Step("true", cpus=99)))
    until(lambda: place.remarks)
    assert "may never run: " in place.remarks[0]
    assert future.cancel()
    assert future.result().status == "cancelled"


def test_limits_become_those_of_the_job(opened, slurm):
    place = opened(extra="--hold")
    future = place.submit(
        experiment(Step(f"sleep {long('97.1')}", timeout=150.0, cpus=3, memory=2**28))
    )
    until(lambda: jobs(slurm))
    shown = slurm.run("squeue", "-h", "-o", "%C %m %l").split()
    assert shown == ["3", "384M", "4:00"]
    future.cancel()


# Jobs that end otherwise


def test_a_job_that_somebody_cancels_is_lost_and_begun_again(opened, slurm, tmp_path):
    place = opened()
    log = tmp_path / "log"
    future = place.submit(
        counted(log, f"test $(wc -l < {log}) -gt 1 || sleep {long('97.2')}; echo done")
    )
    until(lambda: running(long("97.2")))
    slurm.run("scancel", jobs(slurm).strip())
    assert future.result().status == "ok"
    assert any("CANCELLED; begun again" in words for words in place.remarks)


@pytest.mark.parametrize("seen", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_job_that_is_requeued_runs_again(opened, instead, slurm, tmp_path, seen):
    """Also where nobody looks at the queue while it waits to begin anew."""
    wait = f"while test -e {tmp_path}/blind; do touch {tmp_path}/blinded; sleep 0.1; done"
    instead("squeue", f'{wait}; exec $REAL "$@"')
    place = opened()
    log = tmp_path / "log"
    future = place.submit(
        counted(log, f"test $(wc -l < {log}) -gt 1 || sleep {long('97.3')}; echo done")
    )
    until(lambda: running(long("97.3")))
    number = slurm.run("squeue", "-h", "-r", "-o", "%F_%K").strip()
    if not seen:
        (tmp_path / "blind").touch()
        until((tmp_path / "blinded").exists)
    slurm.run("scontrol", "requeue", number)
    until(lambda: not running(long("97.3")))

    freed = False

    def begins_again():
        # A requeued job waits for two minutes else; while it is completing, this is refused. Once is
        # enough: each change makes the scheduler look at the job anew, and it may never come to it.
        nonlocal freed
        state = slurm.run("scontrol", "show", "job", number)
        if not freed and "JobState=PENDING" in state:
            slurm.run("scontrol", "update", f"jobid={number}", "StartTime=now", check=False)
            freed = "StartTime=Unknown" not in slurm.run("scontrol", "show", "job", number)
        return len(log.read_text().splitlines()) == 2

    until(begins_again)
    if not seen:
        state = ("scontrol", "show", "job", number)
        until(lambda: "JobState=COMPLETED" in slurm.run(*state, check=False))
        (tmp_path / "blind").unlink()
    found = future.result()
    assert (found.status, found.stdout.head) == ("ok", b"done\n")
    assert log.read_text() == "run\n" * 2


@pytest.mark.slow
@pytest.mark.parametrize("partition", ["cancelled", "requeued"])
def test_preempted_jobs_run_again_however_often_that_is(opened, slurm, tmp_path, partition):
    place = opened(partition=partition)
    log = tmp_path / "log"
    future = place.submit(
        counted(log, f"test $(wc -l < {log}) -gt 4 || sleep {long('97.6')}; echo done")
    )
    for _ in range(4):
        until(lambda: running(long("97.6")))
        wins = slurm.run("sbatch", "--parsable", "--nodelist=n3", "--exclusive", "--wrap=sleep 60")
        until(lambda: not running(long("97.6")))
        slurm.run("scancel", wins.strip())
        for each in jobs(slurm).split():  # a requeued job waits for seconds else
            slurm.run("scontrol", "update", f"jobid={each}", "StartTime=now", check=False)
    found = future.result()
    assert (found.status, found.stdout.head) == ("ok", b"done\n")
    assert log.read_text() == "run\n" * 5


def test_a_node_that_goes_down_loses_its_jobs_and_no_more(opened, slurm, tmp_path):
    place = opened(extra="--no-requeue\n--nodelist=n2")
    log = tmp_path / "log"
    future = place.submit(counted(log, f"test $(wc -l < {log}) -gt 1 || sleep {long('97.4')}"))
    until(lambda: running(long("97.4")))
    slurm.stop_node("n2")
    slurm.run("scontrol", "update", "nodename=n2", "state=down", "reason=test")
    try:
        until(lambda: any("NODE_FAIL; begun again" in words for words in place.remarks))
        assert not future.done()
    finally:
        slurm.start_node("n2")
        # A node that has registered by now is up already: then this is refused.
        slurm.run("scontrol", "update", "nodename=n2", "state=resume", check=False)
        slurm.wait_for_nodes()
    assert future.result().status == "ok"


def test_a_setup_that_fails_is_an_error_of_the_place(opened):
    place = opened(setup="echo loading\nno-such-module load gcc/13\ntrue", grace=20.0)
    with pytest.raises(PlaceError) as raised:
        outcome(place, experiment("true"))
    words = str(raised.value)
    assert "the setup of the place failed on n" in words
    assert "no-such-module: command not found" in words
    assert "the setup failed at: no-such-module load gcc/13" in words


def test_a_setup_may_use_what_login_shells_have_and_is_recorded(opened, monkeypatch, tmp_path):
    """As the function ``module``, which profiles define; PATH is as where zen runs."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".bash_profile").write_text("module() { export LOADED=$2; }\nPATH=/usr/bin:/bin\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/mine:{os.environ['PATH']}")
    place = opened(setup="module load gcc/13\ncd /")
    found = outcome(place, experiment("echo $LOADED $PATH $ZENTURIO_PATH"))
    assert found.stdout.head == f"gcc/13 {os.environ['PATH']}:/usr/bin:/bin\n".encode()
    assert found.machine.setup == "module load gcc/13\ncd /"


@pytest.mark.slow
def test_an_experiment_that_kills_its_worker_has_failed_after_five_times(opened, tmp_path):
    log = tmp_path / "log"
    place = opened(grace=0.2)
    found = outcome(place, counted(log, f"{PARENT}; kill -9 $(ps -o ppid= -p $parent)"))
    assert (found.status, found.cause) == ("failed", "its worker died 5 times")
    assert log.read_text() == "run\n" * 5


@pytest.mark.slow
def test_a_time_limit_of_the_cluster_is_a_timeout(opened):
    found = opened(time="1").submit(experiment(f"echo begun; sleep {long('97.5')}")).result()
    assert (found.status, found.cause) == ("timeout", "time limit of its job")


@pytest.mark.slow
def test_a_worker_that_cannot_start_is_tried_three_times_and_told(opened):
    place = opened(python="/no/such/python", grace=0.2)
    with pytest.raises(PlaceError, match=r"FAILED, for the 3rd time; .*/no/such/python"):
        outcome(place, experiment("true"))


@pytest.mark.slow
def test_a_node_that_does_not_see_the_folder_is_told(opened, instead):
    instead("sbatch", """sed -i 's#^cd .* ||#cd /not/seen ||#' "$2"; exec $REAL "$@" """)
    with pytest.raises(PlaceError, match=r"for the 3rd time; .*(/not/seen|do the nodes see)"):
        outcome(opened(grace=0.2), experiment("true"))


@pytest.mark.slow
def test_files_travel_where_nodes_see_another_folder_than_the_project(opened, tmp_path):
    (tmp_path / "seen").mkdir()
    original = tmp_path / "large"
    original.write_bytes(b"x" * 100)
    place = opened(folder=str(tmp_path / "seen"))
    what = replace(
        experiment("cat given; cp given kept", recipe=Recipe(outputs=("kept",))),
        files=(ExperimentFile("given", 0o644, original=original),),
    )
    future = place.submit(what)
    original.unlink()
    found = future.result()
    assert found.stdout.head == b"x" * 100
    (kept,) = found.artifacts
    assert kept.kept.read_bytes() == b"x" * 100
    assert kept.kept.is_relative_to(tmp_path / "zen" / INCOMING)
    assert not (tmp_path / "zen" / "work").exists()


# A controller that is away


@pytest.mark.slow
def test_jobs_outlive_their_controller(opened, slurm, tmp_path):
    place = opened(patience=2.0)
    log = tmp_path / "log"
    several = [place.submit(counted(log, "sleep 4; echo GFLOPS=1")) for _ in range(3)]
    until(lambda: all(future.running() for future in several))
    slurm.stop_controller()
    more = place.submit(counted(log))
    try:
        assert several[0].result().status == "ok"
    finally:
        slurm.start_controller()
        slurm.wait_for_nodes()
    assert [f.result().status for f in (*several, more)] == ["ok"] * 4
    assert log.read_text() == "run\n" * 4


@pytest.mark.slow
def test_a_controller_that_forgot_what_it_started_loses_jobs_and_no_more(opened, slurm):
    """Killed before it saved its state; then the nodes refuse numbers that they know already."""
    place = opened()
    several = [place.submit(experiment("sleep 3; echo GFLOPS=1")) for _ in range(3)]
    until(lambda: all(future.running() for future in several))
    slurm.stop_controller(signal.SIGKILL)
    slurm.start_controller()
    assert {f.result().status for f in several} <= {"ok", "cancelled"}
    slurm.clear()
    until(lambda: outcome(place, experiment("true")).status == "ok")


def test_a_queue_that_hangs_holds_nothing_up_for_ever(opened, slurm):
    place = opened(patience=1.0)
    future = place.submit(experiment("sleep 2; echo GFLOPS=1"))
    until(future.running)
    daemon = slurm._daemons["slurmctld"]
    daemon.send_signal(signal.SIGSTOP)
    try:
        assert future.result().status == "ok"
        until(lambda: any("did not answer for 1 s" in words for words in place.remarks))
    finally:
        daemon.send_signal(signal.SIGCONT)


@pytest.mark.slow
def test_a_controller_that_does_not_answer_holds_up_no_end(opened, slurm, monkeypatch):
    monkeypatch.setattr(place_of, "CLOSING_SECONDS", 1.0)
    monkeypatch.setattr(queue_poller, "CLOSING_COMMAND_SECONDS", 0.5)
    place = opened()
    future = place.submit(experiment("sleep 5"))
    until(future.running)
    daemon = slurm._daemons["slurmctld"]
    daemon.send_signal(signal.SIGSTOP)
    try:
        thread = threading.Thread(target=place.close, daemon=True)
        thread.start()
        thread.join()
        assert not thread.is_alive()
    finally:
        daemon.send_signal(signal.SIGCONT)
    assert future.result(0).status == "cancelled"


@pytest.mark.slow
def test_what_the_queue_knows_no_more_is_told_by_what_it_left(opened, instead):
    instead("squeue", "")
    place = opened(grace=20.0)
    assert outcome(place, experiment("sleep 1; echo GFLOPS=1")).status == "ok"


# Drivers that die


def test_a_place_finds_what_a_dead_one_submitted(opened, tmp_path):
    log = tmp_path / "log"
    several = [counted(log, "sleep 1.5; echo GFLOPS=1") for _ in range(3)]
    dead = opened()
    for each in several[:2]:
        dead.submit(each)
    until(lambda: log.exists() and len(log.read_text().split()) == 2)
    dies(dead)
    heir = opened()
    futures = [heir.submit(each) for each in several]
    assert [f.result().status for f in futures] == ["ok"] * 3
    assert log.read_text() == "run\n" * 3


def test_what_ended_while_no_driver_lived_is_found(opened, tmp_path):
    log = tmp_path / "log"
    what = counted(log, "echo GFLOPS=1")
    dead = opened()
    dead.submit(what).result()
    dies(dead)
    assert outcome(opened(), what).status == "ok"
    assert log.read_text() == "run\n"


@pytest.mark.slow
def test_what_is_forgotten_is_run_again(opened, tmp_path):
    log = tmp_path / "log"
    what = counted(log)
    place = opened()
    for _ in range(2):
        outcome(place, what)
        place.forget(what.digest)
    assert log.read_text() == "run\n" * 2


@pytest.mark.slow
def test_a_living_driver_keeps_what_it_submitted(opened, tmp_path):
    log = tmp_path / "log"
    what = counted(log, "sleep 1")
    places = [opened(), opened()]
    found = [future.result() for future in [place.submit(what) for place in places]]
    assert [each.status for each in found] == ["ok"] * 2, found
    assert log.read_text() == "run\n" * 2


def dies(place: Slurm) -> None:
    """As kill -9: its threads do nothing more, and its lock is free."""
    place._reader._closed.set()
    place._poller._step = threading.Event().wait  # it would turn without a pause otherwise
    place._session.leave()
    place._closed = True


# The rest


def test_the_cluster_is_checked(opened, instead):
    assert list(opened().check()) == []
    assert list(opened(partition="nowhere").check()) == ["the partition nowhere has no node"]
    instead("sinfo", "echo 'slurm_load_partitions: Unable to contact slurm controller' >&2; exit 1")
    assert "Unable to contact" in next(iter(opened().check()))


@pytest.mark.slow
def test_that_experiments_are_short_is_said_once(opened, monkeypatch):
    monkeypatch.setattr(pilots, "LEAST_MEASURED", 3)
    place = opened(5, pilots="never")
    several = [place.submit(experiment("true")) for _ in range(5)]
    for future in several:
        future.result()
    (remark,) = place.remarks
    assert remark.endswith('pilot jobs would run many of them, but pilots = "never"')


def test_threads_end_with_the_place(opened):
    before = threading.active_count()
    place = opened()
    assert threading.active_count() == before + 2
    place.close()
    assert threading.active_count() == before


@pytest.mark.slow
@pytest.mark.usefixtures("slurm")
class TestBatch(BatchContract):
    """As any batch system."""

    executor = Slurm
