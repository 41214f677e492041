"""A real Grid Engine as a place: what every place and every batch system promises, and its words."""

import threading
from pathlib import Path

import pytest

from grid_engine import cell, grid_engine
from parent_process import PARENT
from zenturio.errors import PlaceError
from zenturio.execute.batch.system import (
    ArrayTooLongError,
    JobDemand,
    JobPaths,
    QueueFullError,
    UnansweredError,
    array_script,
)
from zenturio.execute.grid_engine import GridEngine, GridEngineOptions, GridEngineSystem
from zenturio.experiment import Step
from zenturio.testing.batch import BatchContract
from zenturio.testing.executor import (
    CommandContract,
    experiment,
    long,
    outcome,
    running,
    until,
)

__all__ = ["cell", "grid_engine"]

QUICK = {"poll": 0.2, "grace": 2.0, "patience": 100.0}


@pytest.fixture
def place(grid_engine, tmp_path):
    with GridEngine(tmp_path / "my 100% $zen", 3, options=GridEngineOptions(**QUICK)) as place:
        yield place


@pytest.fixture
def opened(grid_engine, tmp_path):
    """Makes places, which share a folder; all are closed behind."""
    made = []

    def make(jobs=3, **options) -> GridEngine:
        options = GridEngineOptions(**{**QUICK, **options})
        made.append(GridEngine(tmp_path / "zen", jobs, options=options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.slow
class TestGridEngine(CommandContract):
    """As on this machine."""


@pytest.mark.slow
@pytest.mark.usefixtures("grid_engine")
class TestBatch(BatchContract):
    """As any batch system."""

    executor = GridEngine


def counted(log: Path, *more: str):
    """An experiment that leaves a mark each time that it runs."""
    return experiment(f"echo run >> {log}", *more)


def dies(place: GridEngine) -> None:
    """As kill -9: its threads do nothing more, and its lock is free."""
    place._reader._closed.set()
    place._poller._step = threading.Event().wait  # it would turn without a pause otherwise
    place._session.leave()
    place._closed = True


@pytest.mark.slow
def test_what_it_refuses_fails_in_its_words(opened):
    with pytest.raises(PlaceError, match=r'qsub: .*unknown queue "nowhere"'):
        outcome(opened(queue="nowhere"), experiment("true"))


@pytest.mark.slow
def test_arrays_are_as_long_as_the_cell_takes(opened, grid_engine):
    """max_aj_tasks is 20, and 1000 are tried."""
    place = opened(45, extra="-h")
    several = [place.submit(experiment("sleep 30")) for _ in range(45)]
    until(lambda: len(grid_engine.jobs()) == 45)
    until(lambda: any("may never run: it is held" in words for words in place.remarks))
    for future in several:
        future.cancel()
    assert {f.result().status for f in several} == {"cancelled"}


@pytest.mark.slow
def test_limits_become_those_of_the_job(opened, grid_engine):
    place = opened(extra="-h")
    future = place.submit(experiment(Step("sleep 97", timeout=150.0, cpus=3, memory=2**28)))
    (line,) = until(grid_engine.jobs)
    shown = grid_engine.run("qstat", "-j", line.split()[0]).stdout
    assert "mem_total=384M,h_rt=240\n" in shown
    assert "smp range: 3" in shown
    future.cancel()


@pytest.mark.slow
def test_threads_are_those_of_the_slots(opened):
    place = opened(extra="-pe smp 2")
    result = outcome(place, experiment("echo $OMP_NUM_THREADS $NSLOTS"))
    assert result.stdout.head == b"2 2\n"


@pytest.mark.slow
def test_a_time_limit_of_the_cell_is_a_timeout(opened):
    future = opened(time="4").submit(experiment(f"echo begun; sleep {long('97.1')}"))
    result = future.result()
    assert (result.status, result.cause) == ("timeout", "time limit of its job")
    assert not running(long("97.1"))


@pytest.mark.slow
def test_a_job_that_is_rescheduled_runs_again(opened, grid_engine, tmp_path):
    log = tmp_path / "log"
    place = opened()
    future = place.submit(
        counted(log, f"test $(wc -l < {log}) -gt 1 || sleep {long('97.2')}; echo done")
    )
    until(lambda: running(long("97.2")))
    grid_engine.run("qmod", "-rj", grid_engine.jobs()[0].split()[0])
    result = future.result()
    assert (result.status, result.stdout.head) == ("ok", b"done\n")
    assert log.read_text() == "run\n" * 2


@pytest.mark.slow
def test_a_job_that_cannot_start_is_tried_three_times_and_told(opened):
    place = opened(extra="-o /no/such/folder/log", grace=0.2)
    with pytest.raises(PlaceError, match="for the 3rd time"):
        outcome(place, experiment("true"))


@pytest.mark.slow
def test_a_worker_that_is_killed_again_and_again_is_the_places_fault(opened, tmp_path):
    """Nothing tells who killed it: an experiment is not called failed for that."""
    log = tmp_path / "log"
    with pytest.raises(PlaceError, match=r"ended on .* as status 137 .*, for the 3rd time"):
        outcome(opened(), counted(log, f"{PARENT}; kill -9 $(ps -o ppid= -p $parent)"))
    assert log.read_text() == "run\n" * 3


@pytest.mark.slow
def test_a_program_that_a_signal_ends_has_failed(opened):
    result = outcome(opened(), experiment("kill -9 $$"))
    assert (result.status, result.cause.partition(":")[0]) == ("failed", "killed by SIGKILL")


@pytest.mark.slow
def test_a_place_finds_what_a_dead_one_submitted(opened, tmp_path):
    log = tmp_path / "log"
    several = [counted(log, "sleep 4; echo GFLOPS=1") for _ in range(3)]
    dead = opened()
    for each in several[:2]:
        dead.submit(each)
    until(lambda: log.exists() and len(log.read_text().split()) == 2)
    dies(dead)
    heir = opened()
    futures = [heir.submit(each) for each in several]
    assert [f.result().status for f in futures] == ["ok"] * 3
    assert log.read_text() == "run\n" * 3


@pytest.mark.slow
def test_jobs_of_a_dead_driver_are_cancelled(opened, grid_engine, tmp_path):
    dead = opened()
    what = experiment(f"sleep {long('97.3')}")
    dead.submit(what)
    until(lambda: running(long("97.3")))
    dies(dead)
    left = GridEngine.left(tmp_path / "zen", GridEngineOptions())
    assert left.cancel([what.digest]) == 1
    until(lambda: not grid_engine.jobs())
    assert not running(long("97.3"))


@pytest.mark.slow
def test_jobs_outlive_their_master(opened, grid_engine, tmp_path):
    log = tmp_path / "log"
    place = opened(patience=2.0)
    several = [place.submit(counted(log, "sleep 4; echo GFLOPS=1")) for _ in range(3)]
    until(lambda: all(future.running() for future in several))
    grid_engine.stop("sge_qmaster")
    more = place.submit(counted(log))
    try:
        assert several[0].result().status == "ok"
        until(lambda: any("Grid Engine does not respond" in words for words in place.remarks))
    finally:
        grid_engine.start("sge_qmaster")
    assert [f.result().status for f in (*several, more)] == ["ok"] * 4
    assert log.read_text() == "run\n" * 4


@pytest.mark.slow
def test_the_cell_is_checked(opened):
    assert list(opened().check()) == []
    assert list(opened(queue="nowhere").check()) == ["there is no queue nowhere"]


# Its words, without a Grid Engine

SCRIPT = """\
#!/bin/bash -l
#$ -N zen-1
#$ -t 1-3
#$ -S /bin/bash
#$ -cwd
#$ -o logs/zen-1-$TASK_ID
#$ -j y
#$ -V
#$ -r y
#$ -w e
#$ -pe smp 4
#$ -l h_vmem=288M
#$ -l h_rt=150
#$ -q long
#$ -P physics
#$ -l gpu=1
cd '/scratch/my work/places/grid-engine/session-1' || exit 78
ln -s "$JOB_ID" batches/zen-1.job 2>/dev/null
test "$(readlink batches/zen-1.job)" = "$JOB_ID" || exit 0
zen_digest=$(sed -n "$SGE_TASK_ID"p batches/zen-1.list)
test -f "parcels/$zen_digest" || exit 0
zen_count=0
while test -e "starts/zen-1-$SGE_TASK_ID.$zen_count.job"; do zen_count=$((zen_count + 1)); done
zen_start="starts/zen-1-$SGE_TASK_ID.$zen_count"
touch "$zen_start.job"
"""


def test_a_script_says_all_that_was_configured():
    options = GridEngineOptions(
        queue="long", project="physics", memory="h_vmem", time="8:00:00", extra="#$ -l gpu=1\n"
    )
    session = Path("/scratch/my work/places/grid-engine/session-1")
    paths = JobPaths(session, Path("/scratch/my work"), shared=True)
    system = GridEngineSystem(options)
    text = array_script(system, "zen-1", 3, JobDemand(4, 2**30, 60.0), paths)
    assert text.startswith(SCRIPT)
    assert '--cpus "$NSLOTS" --shared\n' in text
    plain = array_script(system, "zen-1", 1, JobDemand(), paths)
    assert "#$ -l h_rt=8:00:00\n" in plain
    assert "-pe" not in plain
    assert "vmem" not in plain


@pytest.fixture
def says(tmp_path, monkeypatch):
    """Puts a command of Grid Engine on the PATH that says what the test wants."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def make(command, out="", err="", code=0):
        (tmp_path / f"{command}.out").write_text(out)
        (tmp_path / f"{command}.err").write_text(err)
        path = tmp_path / command
        path.write_text(
            f'#!/bin/sh\necho "$@" >> {tmp_path}/told\n'
            f"cat {path}.out; cat {path}.err >&2; exit {code}\n"
        )
        path.chmod(0o755)

    return make


def system() -> GridEngineSystem:
    return GridEngineSystem(GridEngineOptions())


JOB = """\
<job_list state="x"><JB_job_number>{number}</JB_job_number><JB_name>zen-abcdef</JB_name>
<state>{state}</state><queue_name>{queue}</queue_name><tasks>{task}</tasks>
<full_job_name>{name}</full_job_name></job_list>
"""


def test_the_queue_is_read_by_whole_names(says):
    jobs = [
        ("7", "r", "main.q@n1", "1", "zen-abcdef12-000000"),
        ("7", "qw", "", "2", "zen-abcdef12-000000"),
        ("7", "Eqw", "", "3", "zen-abcdef12-000000"),
        ("7", "hqw", "", "4", "zen-abcdef12-000000"),
        ("7", "dr", "main.q@n2", "5", "zen-abcdef12-000000"),
        ("7", "Rq", "", "6", "zen-abcdef12-000000"),
        ("8", "r", "main.q@n1", "1", "zen-abcdef12-000001"),
    ]
    names = ("number", "state", "queue", "task", "name")
    text = "".join(JOB.format(**dict(zip(names, job, strict=True))) for job in jobs)
    says("qstat", f"<job_info><queue_info>{text}</queue_info></job_info>")
    result = system().look(["zen-abcdef12-000000"])
    assert [task for _, task in result] == [1, 2, 3, 4, 5, 6]
    shown = [job for jobs in result.values() for job in jobs]
    assert [job.begun for job in shown] == [True, False, False, False, True, False]
    assert [job.is_unlaunchable for job in shown] == [False, False, True, False, False, False]
    assert [job.is_stuck for job in shown] == [False, False, False, True, False, False]
    assert shown[0].node == "n1"


def test_a_queue_that_is_not_told_is_asked_again(says):
    says("qstat", "<job_info><queue_")
    with pytest.raises(UnansweredError, match="qstat"):
        system().look(["zen-1"])


ENTRY = """\
==============================================================
qname        main.q
hostname     n1
jobnumber    7
taskid       3
failed       {failed}
exit_status  {status}
"""


@pytest.mark.parametrize(
    ("failed", "status", "end", "state"),
    [
        ("0", "0", "finished", "status 0"),
        ("0", "3", "finished", "status 3"),
        ("100 : assumedly after job", "139                  (Segmentation fault)", "finished",
         "status 139 (assumedly after job)"),
        ("100 : assumedly after job", "137                  (Killed)", "cancelled",
         "status 137 (assumedly after job)"),
        ("37  : qmaster enforced h_rt, h_cpu, or h_vmem limit", "137", "time_limit",
         "status 137 (qmaster enforced h_rt, h_cpu, or h_vmem limit)"),
        ("21  : in recognizing job", "0", "cluster_fault", "status 0 (in recognizing job)"),
    ],
)  # fmt: skip
def test_why_a_job_ended_is_in_the_accounting_file(says, failed, status, end, state):
    rescheduled = ENTRY.format(failed="25  : rescheduling", status="0")
    says("qacct", rescheduled + ENTRY.format(failed=failed, status=status) + rescheduled)
    job = system().how_ended(("7", 3))
    assert job is not None
    assert (job.end, job.state, job.node, job.ended) == (end, state, "n1", True)


def test_what_the_accounting_file_does_not_have_is_not_known(says):
    says("qacct", err="error: job id 7 not result\n", code=1)
    assert system().how_ended(("7", 3)) is None
    says("qacct", ENTRY.format(failed="25  : rescheduling", status="0"))
    assert system().how_ended(("7", 3)) is None


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("Unable to run job: job rejected: you tried to submit a job with more than 75000 tasks\n"
         "Exiting."), ArrayTooLongError),
        (("Unable to run job: job rejected: only 100 jobs are allowed per user (current job count:"
         " 100)\nExiting."), QueueFullError),
        (("error: commlib error: got select error (Connection refused)\nUnable to run job: unable to"
         ' send message to qmaster using port 6444 on host "head": got send error.\nExiting.'),
         UnansweredError),
        ('Unable to run job: Job was rejected because job requests unknown queue "x"\nExiting.',
         PlaceError),
    ],
)  # fmt: skip
def test_what_qsub_says_means_again_fewer_shorter_or_never(says, tmp_path, words, error):
    says("qsub", err=words, code=1)
    (tmp_path / "batches").mkdir()
    with pytest.raises(error) as raised:
        system().submit(tmp_path / "batches" / "zen-1.sh")
    if error is PlaceError:
        assert (
            str(raised.value).partition("\n")[0]
            == 'qsub: Job was rejected because job requests unknown queue "x"'
        )


def test_the_number_of_an_array_is_what_stands_before_its_tasks(says, tmp_path):
    (tmp_path / "batches").mkdir()
    says("qsub", "123.1-3:1\n")
    assert system().submit(tmp_path / "batches" / "zen-1.sh") == "123"
    says("qsub", "\n")
    with pytest.raises(UnansweredError, match="printed no job number"):
        system().submit(tmp_path / "batches" / "zen-1.sh")


def test_many_tasks_are_cancelled_some_at_a_time(says, tmp_path):
    says("qdel", err='denied: job "7" does not exist\n', code=1)
    system().cancel([("7", number) for number in range(1, 450)] + [("8", None)])
    lines = [line.split() for line in (tmp_path / "told").read_text().splitlines()]
    assert [len(words) for words in lines] == [200, 200, 50]
    assert (lines[0][0], lines[-1][-1]) == ("7.1", "8")
