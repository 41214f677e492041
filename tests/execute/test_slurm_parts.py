"""The parts of the place that need no Slurm: scripts, folders, words, fates."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zenturio.errors import PlaceError
from zenturio.execute.batch.system import (
    ArrayTooLongError,
    JobDemand,
    JobPaths,
    QueueFullError,
    UnansweredError,
    array_script,
)
from zenturio.execute.batch.tickets import BatchSession, cancelled_outcome, job_outcome, loss_blame
from zenturio.execute.slurm import SlurmOptions, SlurmSystem
from zenturio.execute.slurm_commands import SlurmCommands, slurm_job
from zenturio.execute.worker import is_from_signal
from zenturio.experiment import Build, Outcome, Step
from zenturio.testing.executor import experiment

PATHS = JobPaths(Path("/scratch/my work/places/slurm/session-1"), Path("/scratch/my work"), False)
SCRIPT = """\
#!/bin/bash -l
#SBATCH --job-name=zen-1
#SBATCH --array=1-3
#SBATCH --output='/scratch/my work/places/slurm/session-1/logs/zen-1-%a'
#SBATCH --open-mode=append
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --mem=1152M
#SBATCH --time=3
#SBATCH --partition=long
#SBATCH --account=physics
#SBATCH --qos=high
#SBATCH --constraint='a100|h100'
#SBATCH --gres=gpu:1
#SBATCH --exclusive
cd '/scratch/my work/places/slurm/session-1' || exit 78
ln -s "$SLURM_ARRAY_JOB_ID" batches/zen-1.job 2>/dev/null
test "$(readlink batches/zen-1.job)" = "$SLURM_ARRAY_JOB_ID" || exit 0
zen_digest=$(sed -n "$SLURM_ARRAY_TASK_ID"p batches/zen-1.list)
test -f "parcels/$zen_digest" || exit 0
zen_start="starts/zen-1-$SLURM_ARRAY_TASK_ID.${SLURM_RESTART_COUNT:-0}"
export PATH="${ZENTURIO_PATH:+$ZENTURIO_PATH:}$PATH"  # a login shell has set it anew
unset ZENTURIO_PATH
trap 'echo "zenturio: the setup failed at: $BASH_COMMAND" >&2; \
touch '"'"'/scratch/my work/places/slurm/session-1'"'"'/"$zen_start.setup"; exit 1' EXIT
set -e
module load gcc
export A=1
set +e
trap - EXIT
cd '/scratch/my work/places/slurm/session-1' || exit 78
exec '/opt/my python' -P -m zenturio.execute.worker "parcels/$zen_digest" "outcomes/$zen_digest" \
--start "$zen_start" --folder '/scratch/my work' --session session-1 --keep never --cpus "$SLURM_CPUS_PER_TASK"
"""


# Scripts


def script(count: int, demand: JobDemand, options: SlurmOptions) -> str:
    return array_script(SlurmSystem(options), "zen-1", count, demand, PATHS)


def test_a_script_says_all_that_was_configured():
    options = SlurmOptions(
        partition="long", account="physics", qos="high", constraint="a100|h100", time="8:00:00",
        extra="--gres=gpu:1\n\n#SBATCH --exclusive\n", setup="module load gcc\nexport A=1",
        python="/opt/my python",
    )  # fmt: skip
    assert script(3, JobDemand(4, 2**30, 60.0), options) == SCRIPT


def test_what_is_not_configured_is_left_to_the_cluster():
    text = script(1, JobDemand(), SlurmOptions())
    for option in ("--mem", "--time", "--partition", "--account", "--qos", "--constraint"):
        assert option not in text


def test_a_time_limit_holds_where_there_is_no_timeout():
    options = SlurmOptions(time="4:00:00")
    assert "#SBATCH --time=4:00:00\n" in script(1, JobDemand(), options)
    assert "#SBATCH --time=2\n" in script(1, JobDemand(seconds=30.0), options)


def test_an_experiment_asks_for_the_most_that_a_step_needs_and_for_all_their_time():
    steps = (Step("a", 10.0, cpus=2, memory=5), Step("b", 20.0, cpus=3), Step("c", 1.0, memory=9))
    assert JobDemand.of(experiment(*steps)) == JobDemand(3, 9, 31.0)
    assert JobDemand.of(experiment(*steps, Step("d"))).seconds is None


def test_a_build_counts_too_for_it_may_have_to_be_made():
    from dataclasses import replace

    what = experiment(Step("a", 10.0))
    built = replace(what, build=Build("d", (), (Step("make", 5.0, cpus=8),)))
    assert JobDemand.of(built) == JobDemand(8, None, 15.0)


# Words of Slurm


@pytest.fixture
def says(tmp_path, monkeypatch):
    """Puts a command of Slurm on the PATH that says what the test wants."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def make(command, out="", err="", code=0):
        path = tmp_path / command
        (tmp_path / "out").write_text(out)
        (tmp_path / "err").write_text(err)
        path.write_text(
            f'#!/bin/sh\necho "$@" >> {tmp_path}/told\nenv > {tmp_path}/env\n'
            f"cat {tmp_path}/out; cat {tmp_path}/err >&2; exit {code}\n"
        )
        path.chmod(0o755)

    return make


def test_the_queue_is_read_line_by_line(says, tmp_path):
    rows = (
        ("zen-1", "12", "0", "RUNNING", "n1", "0", "1-02:03:04", "UNLIMITED", "None"),
        ("zen-1", "12", "1", "PENDING", "", "2", "1:00", "1:00", "launch failed, held"),
        ("other", "7", "N/A", "RUNNING", "n2", "0", "INVALID", "2:00:00", "None"),
        ("zen-1", "13", "0", "COMPLETED", "n1", "0", "", "", "None"),
    )
    widths = (64, 16, 16, 24, 128, 12, 24, 24, 128)
    lines = ("".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    says("squeue", "\n".join(lines) + "\n")
    found = SlurmCommands().look(["zen-1", "zen-2"])
    assert found == {
        ("zen-1", 0): [
            slurm_job("12", "RUNNING", "n1", "None", 0, seconds_left=93784.0),
            slurm_job("13", "COMPLETED", "n1", "None"),
        ],
        ("zen-1", 1): [
            slurm_job(
                "12", "PENDING", "", "launch failed, held", 2, seconds_left=60.0, seconds=60.0
            )
        ],
    }
    assert "--name=zen-1,zen-2" in (tmp_path / "told").read_text()
    assert (tmp_path / "told").read_text().count("\n") == 1
    assert SlurmCommands().jobs("other")["7"] == slurm_job(
        "7", "RUNNING", "n2", "None", seconds=7200.0
    )


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("sbatch: error: Batch job submission failed: Socket timed out on send/recv", "again"),
        ("sbatch: error: Batch job submission failed: Unable to contact slurm controller", "again"),
        (("sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: "
         "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"),
         "fewer"),
        ("sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying", "again"),
        ("sbatch: error: Batch job submission failed: Invalid job array specification", "shorter"),
        ("sbatch: error: invalid partition specified: x", "never"),
        (("sbatch: error: Batch job submission failed: Invalid account or account/partition "
         "combination specified"), "never"),
        ("sbatch: error: Batch job submission failed: Invalid qos specification", "never"),
    ],
)  # fmt: skip
def test_what_sbatch_says_means_again_fewer_shorter_or_never(says, words, kind):
    says("sbatch", err=words, code=1)
    errors = {
        "again": UnansweredError, "fewer": QueueFullError, "shorter": ArrayTooLongError, "never": PlaceError,
    }  # fmt: skip
    with pytest.raises(errors[kind]) as raised:
        SlurmCommands().submit(Path("script"))
    if kind == "never":
        assert str(raised.value).startswith("sbatch: " + words.partition("error: ")[2])


def test_a_queue_that_cannot_be_looked_at_is_asked_again_whatever_it_says(says):
    says("squeue", err="squeue: error: something that nobody knows", code=1)
    with pytest.raises(UnansweredError, match="something that nobody knows"):
        SlurmCommands().look(["zen-1"])


def test_the_number_of_a_job_is_what_stands_before_the_cluster(says):
    says("sbatch", "123;north\n")
    assert SlurmCommands().submit(Path("script")) == "123"
    says("sbatch", "\n")
    with pytest.raises(UnansweredError, match="printed no job number"):
        SlurmCommands().submit(Path("script"))


def test_an_enclosing_job_lends_nothing_to_those_that_it_submits(says, tmp_path, monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_MEM_PER_NODE", "SLURM_CONF", "SBATCH_ACCOUNT"):
        monkeypatch.setenv(name, "x")
    says("sbatch", "1\n")
    SlurmCommands().submit(Path("script"))
    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    assert {n for n in names if n.startswith(("SLURM", "SBATCH"))} == {
        "SLURM_CONF", "SBATCH_ACCOUNT",
    }  # fmt: skip


def test_a_machine_without_slurm_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PlaceError, match="there is no sbatch on this machine"):
        SlurmCommands().submit(Path("script"))


def test_many_jobs_are_cancelled_some_at_a_time(says, tmp_path):
    says("scancel", err="scancel: error: Invalid job id specified", code=1)
    SlurmCommands().cancel([(str(n), 1) for n in range(450)])
    lines = (tmp_path / "told").read_text().splitlines()
    assert [len(line.split()) - 1 for line in lines] == [200, 200, 50]


def test_reasons_that_waiting_does_not_end_are_known():
    def stuck(reason, state="PENDING"):
        return slurm_job("1", state, "", reason).is_stuck

    assert not any(map(stuck, ("Priority", "Resources", "BeginTime", "QOSMaxJobsPerUserLimit")))
    assert all(map(stuck, ("JobHeldUser", "PartitionTimeLimit", "BadConstraints", "InvalidQOS")))
    assert not stuck("JobHeldUser", "RUNNING")


# What becomes of an experiment

D1, D2, D3 = (f"{number:032x}" for number in (1, 2, 3))
OK = Outcome("d", "ok")
KILLED = Outcome("d", "failed", "killed by SIGTERM", exit=-15)
CANCELLED = Outcome("d", "cancelled", "cancelled")
FAILED = Outcome("d", "failed", "exit 3", exit=3)


def test_only_what_slurm_may_have_done_is_doubtful():
    assert [is_from_signal(each) for each in (OK, FAILED, KILLED, CANCELLED)] == [
        False, False, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "left", "status", "cause"),
    [
        ("TIMEOUT", None, "timeout", "time limit of its job"),
        ("TIMEOUT", CANCELLED, "timeout", "time limit of its job"),
        ("TIMEOUT", KILLED, "timeout", "time limit of its job"),
        ("OUT_OF_MEMORY", KILLED, "failed", "out of memory in its job"),
        ("OUT_OF_MEMORY", None, "failed", "out of memory in its job"),
        ("COMPLETED", KILLED, "failed", "killed by SIGTERM"),
        ("", KILLED, "failed", "killed by SIGTERM"),
    ],
)
def test_what_a_job_left_is_read_by_the_light_of_why_it_ended(state, left, status, cause):
    found = job_outcome("d", slurm_job("1", state, "n1") if state else None, left, begun=True)
    assert (found.digest, found.status, found.cause) == ("d", status, cause)


@pytest.mark.parametrize(
    ("state", "left", "begun", "whose"),
    [
        ("PREEMPTED", KILLED, True, "nobody"),
        ("NODE_FAIL", None, True, "nobody"),
        ("BOOT_FAIL", None, False, "nobody"),
        ("CANCELLED", CANCELLED, True, "place"),
        ("", None, True, "place"),
        ("FAILED", None, False, "place"),
        ("TIMEOUT", None, False, "place"),
        ("OUT_OF_MEMORY", None, False, "place"),
        ("COMPLETED", CANCELLED, True, "experiment"),
        ("FAILED", None, True, "experiment"),
    ],
)
def test_a_job_that_is_lost_says_nothing_of_an_experiment_that_had_not_begun(
    state, left, begun, whose
):
    job = slurm_job("1", state, "n1") if state else None
    assert job_outcome("d", job, left, begun=begun) is None
    assert loss_blame(job, begun=begun) == whose


def test_what_was_to_end_is_cancelled_unless_it_had_succeeded():
    assert cancelled_outcome("d", OK) is OK
    assert (
        cancelled_outcome("d", KILLED).status
        == cancelled_outcome("d", FAILED).status
        == "cancelled"
    )
    assert cancelled_outcome("d", None).status == "cancelled"


# The folder


@settings(deadline=None, max_examples=settings.default.max_examples * 60 // 100)
@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=6))
def test_an_array_is_begun_or_given_up_but_never_both(tmp_path_factory, order):
    """Tasks of two jobs, a and b, and two drivers, c and d, come in any order."""
    session = BatchSession.begin(tmp_path_factory.mktemp("place"))
    try:
        session.write("x", "", [D1])
        began, gave_up = set(), []
        for who in order:
            if who in "ab":
                link = session.path / "batches" / "x.job"
                if not link.is_symlink():
                    link.symlink_to(who)
                if session.job("x") == who:
                    began.add(who)
            else:
                gave_up.append(session.give_up("x"))
        assert len(began) <= 1
        assert not (began and any(gave_up))
        assert began or not gave_up or all(gave_up)
    finally:
        session.remove()


def test_a_session_is_one_drivers_until_that_is_gone(tmp_path):
    mine = BatchSession.begin(tmp_path)
    mine.put(D1, b"parcel")
    (other,) = BatchSession.all(tmp_path)
    assert other.holds(D1)
    assert not other.take()
    mine.leave()
    assert other.take()
    assert not BatchSession.all(tmp_path)[0].take()
    other.remove()
    assert BatchSession.all(tmp_path) == []


def test_what_dead_drivers_left_empty_is_swept_away(tmp_path):
    dead, full, alive = (BatchSession.begin(tmp_path) for _ in range(3))
    full.put(D1, b"parcel")
    dead.leave()
    full.leave()
    BatchSession.sweep(tmp_path)
    assert {s.path for s in BatchSession.all(tmp_path)} == {full.path, alive.path}
    alive.remove()


def test_tasks_are_those_of_the_newest_array_that_was_not_given_up(tmp_path):
    session = BatchSession.begin(tmp_path)
    session.write("zen-1-000000", "", [D1, D2])
    session.write("zen-1-000001", "", [D2, D3])
    session.write("zen-1-000002", "", [D1])
    assert session.give_up("zen-1-000002")
    assert session.tasks() == {
        D1: ("zen-1-000000", 1), D2: ("zen-1-000001", 1), D3: ("zen-1-000001", 2),
    }  # fmt: skip
    session.remove()


def test_a_parcel_that_is_put_anew_has_no_outcome(tmp_path):
    session = BatchSession.begin(tmp_path)
    session.put(D1, b"one")
    session.outcome(D1).write_bytes(b"outcome")
    assert session.ended() == [D1]
    session.put(D1, b"two")
    assert session.ended() == []
    assert session.parcel(D1).read_bytes() == b"two"
    session.remove()


def test_of_a_log_of_any_size_the_end_is_read(tmp_path):
    session = BatchSession.begin(tmp_path)
    with (session.path / "logs" / "zen-1-0").open("wb") as log:
        log.truncate(2**36)
        log.seek(0, 2)
        log.write(b"\nno gcc\n")
    assert session.log_end(("zen-1", 0)).lstrip("\0") == "\nno gcc"
    assert session.log_end(("zen-1", 1)) == ""
    session.remove()
