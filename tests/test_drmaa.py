"""DRMAA's functions, on this machine and on hosts."""

import subprocess
import sys
from pathlib import Path

import pytest

from zenturio import drmaa
from zenturio.errors import ZenError
from zenturio.testing.executor import long, running, until

HOSTS = """
[hosts.here]
via = "sh"
slots = 2
speed = 1.0
facts = {{ site = "UCM" }}
folder = "{folder}/here"
"""


@pytest.fixture(params=["local", "hosts"])
def session(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts.toml").write_text(HOSTS.format(folder=tmp_path))
    with drmaa.Session("local" if request.param == "local" else "hosts.toml") as session:
        yield session


@pytest.fixture
def on_hosts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts.toml").write_text(HOSTS.format(folder=tmp_path))
    with drmaa.Session("hosts.toml") as session:
        yield session


def job(session, command, *args, **attributes):
    template = session.createJobTemplate()
    template.remoteCommand, template.args = command, list(args)
    for name, value in attributes.items():
        setattr(template, name, value)
    return template


def test_a_job_is_run_waited_for_and_forgotten(session):
    name = session.runJob(job(session, "sh", "-c", "exit 3", jobName="three"))
    assert name.startswith("three-")
    info = session.wait(name)
    assert (info.jobId, info.hasExited, info.exitStatus) == (name, True, 3)
    assert float(info.resourceUsage["wtime"]) >= 0
    with pytest.raises(drmaa.InvalidJobException):
        session.wait(name)


def test_words_reach_the_program_as_they_are(session, tmp_path):
    template = job(session, "printf", "<%s>", "a b", "$HOME", "';", outputPath=":out.txt")
    session.wait(session.runJob(template))
    assert (tmp_path / "out.txt").read_text() == "<a b><$HOME><';>"


def test_a_bulk_has_an_index_in_words_environment_and_paths(session, tmp_path):
    template = job(
        session,
        "sh",
        "-c",
        'echo "$1 $ZEN_TASK_ID $MINE"',
        "sh",
        drmaa.PARAMETRIC_INDEX,
        jobEnvironment={"MINE": f"m{drmaa.PARAMETRIC_INDEX}"},
        outputPath=f":out.{drmaa.PARAMETRIC_INDEX}",
    )
    names = session.runBulkJobs(template, 1, 5, 2)
    session.synchronize([drmaa.JOB_IDS_SESSION_ALL], dispose=True)
    assert len(names) == 3
    assert [(tmp_path / f"out.{i}").read_text() for i in (1, 3, 5)] == [
        "1 1 m1\n",
        "3 3 m3\n",
        "5 5 m5\n",
    ]
    with pytest.raises(drmaa.InvalidJobException):
        session.jobStatus(names[0])


def test_files_come_along_and_back(session, tmp_path):
    (tmp_path / "in.txt").write_text("5\n")
    (tmp_path / "tool").write_text("#!/bin/sh\nread n; echo $((n * n)) > square; echo bad >&2\n")
    (tmp_path / "tool").chmod(0o755)
    native = "--file tool --keep square"
    template = job(
        session, "./tool", inputPath=":in.txt", errorPath=":err.txt", nativeSpecification=native
    )
    session.wait(session.runJob(template))
    assert (tmp_path / "square").read_text() == "25\n"
    assert (tmp_path / "err.txt").read_text() == "bad\n"


def test_streams_may_be_joined_and_the_folder_named(session, tmp_path):
    (tmp_path / "sub").mkdir()
    template = job(
        session,
        "sh",
        "-c",
        "pwd; echo two >&2",
        workingDirectory=str(tmp_path / "sub"),
        outputPath=":both",
        joinFiles=True,
    )
    session.wait(session.runJob(template))
    assert (tmp_path / "both").read_text() == f"{tmp_path}/sub\ntwo\n"


def test_who_waits_for_any_gets_the_first(session):
    slow = session.runJob(job(session, "sleep", long("89.1")))
    quick = session.runJob(job(session, "true"))
    assert session.wait(drmaa.JOB_IDS_SESSION_ANY, 30).jobId == quick
    with pytest.raises(drmaa.ExitTimeoutException):
        session.wait(slow, 0.1)
    session.control(slow, drmaa.JobControlAction.TERMINATE)
    assert session.wait(slow, 30).wasAborted
    assert not running(long("89.1"))


def test_states_follow_a_job(session, tmp_path):
    template = job(session, "sh", "-c", f"while test ! -e {tmp_path}/go; do sleep 0.02; done")
    name = session.runJob(template)
    until(lambda: session.jobStatus(name) == drmaa.JobState.RUNNING)
    (tmp_path / "go").touch()
    until(lambda: session.jobStatus(name) == drmaa.JobState.DONE)
    failed = session.runJob(job(session, "false"))
    until(lambda: session.jobStatus(failed) == drmaa.JobState.FAILED)


def test_a_job_that_is_held_begins_when_it_is_released(session):
    template = job(session, "true", jobSubmissionState=drmaa.JobSubmissionState.HOLD_STATE)
    name = session.runJob(template)
    assert session.jobStatus(name) == drmaa.JobState.USER_ON_HOLD
    with pytest.raises(drmaa.ExitTimeoutException, match="they are held"):
        session.wait(name, 0.05)
    session.control(name, drmaa.JobControlAction.RELEASE)
    with pytest.raises(drmaa.ReleaseInconsistentStateException):
        session.control(name, drmaa.JobControlAction.RELEASE)
    assert session.wait(name).exitStatus == 0
    other = session.runJob(template)
    session.control(other, drmaa.JobControlAction.TERMINATE)
    assert session.wait(other).wasAborted


def test_a_signal_is_named(session):
    info = session.wait(session.runJob(job(session, "sh", "-c", "kill -SEGV $$")))
    assert (info.hasSignal, info.terminatedSignal, info.hasExited) == (True, "SIGSEGV", False)


def test_time_is_limited(session):
    name = session.runJob(job(session, "sleep", long("89.2"), hardWallclockTimeLimit="0:00:01"))
    info = session.wait(name, 30)
    assert (info.hasSignal, info.terminatedSignal) == (True, "SIGTERM")
    assert not running(long("89.2"))


def _is_stopped(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_hosts_can_suspend(on_hosts, tmp_path):
    loop = f"while test ! -e {tmp_path}/go; do echo >> {tmp_path}/ticks; sleep 0.02; done"
    name = on_hosts.runJob(job(on_hosts, "sh", "-c", loop))
    ticks = tmp_path / "ticks"
    until(ticks.exists)
    on_hosts.control(name, drmaa.JobControlAction.SUSPEND)
    assert on_hosts.jobStatus(name) == drmaa.JobState.USER_SUSPENDED
    # A shell whose fork is stopped before it became sleep waits for it, and is not stopped itself.
    until(lambda: any(_is_stopped(pid) for pid in running(loop)))
    (tmp_path / "go").touch()
    on_hosts.control(name, drmaa.JobControlAction.RESUME)
    assert on_hosts.wait(name, 30).exitStatus == 0


def test_requirements_go_along(on_hosts):
    good = job(on_hosts, "true", nativeSpecification="--require \"host.site == 'UCM'\"")
    assert on_hosts.wait(on_hosts.runJob(good), 30).exitStatus == 0
    bad = on_hosts.runJob(job(on_hosts, "true", nativeSpecification="--memory 1000TB"))
    with pytest.raises(ZenError, match="no host has more than"):
        on_hosts.wait(bad, 30)


def test_what_makes_no_sense_is_refused(session):
    for attributes, words in (
        ({"nativeSpecification": "--cpu 3"}, "unrecognized arguments: --cpu 3"),
        ({"hardWallclockTimeLimit": "soon"}, "hardWallclockTimeLimit = 'soon'"),
        ({"outputPath": "far:/x"}, "a file of another machine"),
        ({"inputPath": ":nowhere"}, "nowhere: No such file"),
        ({"nativeSpecification": "--memory lots"}, "unknown name 'lots'|lots"),
    ):
        with pytest.raises(drmaa.InvalidAttributeValueException, match=words):
            session.runJob(job(session, "true", **attributes))
    with pytest.raises(drmaa.InvalidAttributeValueException, match="remoteCommand"):
        session.runJob(session.createJobTemplate())


def test_a_session_begins_and_ends_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = drmaa.Session()
    with pytest.raises(drmaa.NoActiveSessionException):
        session.createJobTemplate()
    session.initialize("local")
    with pytest.raises(drmaa.AlreadyActiveSessionException):
        session.initialize()
    session.exit()
    with pytest.raises(drmaa.NoActiveSessionException):
        session.exit()


def test_the_example_of_the_guide_runs(tmp_path):
    example = Path(__file__).parents[1] / "docs" / "examples" / "drmaa_jobs.py"
    done = subprocess.run(
        [sys.executable, example], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "exit statuses: 0 0 0\nsquares: 1 4 9\n"), done


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"args": "-c true"}, "write ['-c', 'true']"),
        ({"jobEnvironment": ["A=1"]}, "jobEnvironment is not a mapping"),
        ({"jobSubmissionState": "held"}, "did you mean 'hold'?"),
        ({"remoteComand": "sh"}, "did you mean 'remoteCommand'?"),
        ({"email": ["me@example.org"]}, "no attribute 'email' is known here"),
    ],
)
def test_a_template_refuses_what_it_would_not_do(on_hosts, attributes, said):
    with pytest.raises(drmaa.InvalidAttributeValueException) as caught:
        on_hosts.runJob(job(on_hosts, "true", **attributes))
    assert said in str(caught.value)


def test_functions_refuse_what_they_cannot_take(on_hosts):
    template = job(on_hosts, "true")
    for first, last, step in ((1, 3, 0), (3, 1, 1), ("1", 3, 1)):
        with pytest.raises(drmaa.InvalidArgumentException):
            on_hosts.runBulkJobs(template, first, last, step)
    names = on_hosts.runBulkJobs(template, 3, 1, -1)
    assert [name.rpartition(".")[2] for name in names] == ["3", "2", "1"]
    with pytest.raises(drmaa.InvalidArgumentException, match="is not a list"):
        on_hosts.synchronize(names[0])
    on_hosts.synchronize([*names, *names], 30, dispose=True)
    with pytest.raises(drmaa.InvalidJobException):
        on_hosts.jobStatus(names[0])


def test_output_that_cannot_be_put_anywhere_does_not_cost_the_job(on_hosts, tmp_path):
    (tmp_path / "file").touch()
    name = on_hosts.runJob(job(on_hosts, "echo", "one", outputPath=":file/out"))
    with pytest.raises(drmaa.InvalidAttributeValueException, match="cannot be written"):
        on_hosts.wait(name)
    (tmp_path / "file").unlink()
    assert on_hosts.wait(name).exitStatus == 0
    assert (tmp_path / "file" / "out").read_text() == "one\n"


def test_what_no_host_can_run_is_denied(on_hosts):
    native = "--require 'host.memory >= 1000TB'"
    name = on_hosts.runJob(job(on_hosts, "true", nativeSpecification=native))
    with pytest.raises(drmaa.DeniedByDrmException, match="no host meets REQUIRE"):
        on_hosts.wait(name)
