"""Connections that drop, hosts that die, drivers that are killed: and nothing runs twice."""

import os
import platform
import resource
import signal
import subprocess
import sys
import threading

import pytest

from parent_process import PARENT
from zenturio.errors import PlaceError
from zenturio.execute.hosts.attempt_journal import AttemptJournal, read_events
from zenturio.execute.hosts.broker import Broker
from zenturio.execute.hosts.connection import (
    Connection,
    DroppedError,
    RequestFailedError,
    ssh_command,
)
from zenturio.execute.hosts.executor import Hosts, HostsSettings
from zenturio.execute.hosts.remote_jobs import JobStore
from zenturio.system import processes
from zenturio.testing.executor import experiment, gflops, long, outcome, running, until


def kinds(place, what=None):
    """What happened to an experiment, in order."""
    return [e.kind for e in place.events.seen if what is None or e.digest == what.digest]


def slow(tmp_path, seconds, count="count"):
    """An experiment that tells each of its beginnings, and takes its time."""
    return experiment(f"echo begun >> {tmp_path}/{count}; sleep {seconds}; echo done")


def held(tmp_path, count="count"):
    """One that tells each of its beginnings, and ends when there is a file ``go``."""
    go = tmp_path / "go"
    wait = f"while test ! -e {go}; do sleep 0.02; done"
    return experiment(f"echo begun >> {tmp_path}/{count}; {wait}; echo done; touch {tmp_path}/over")


def let_end(tmp_path):
    """Lets one that is held come to its end."""
    (tmp_path / "go").touch()
    until((tmp_path / "over").exists)


def begun(tmp_path, count="count"):
    path = tmp_path / count
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_what_runs_when_the_connection_drops_runs_on_and_is_attached_to_again(
    hosts, testbed, tmp_path
):
    place = hosts(one={})
    what = held(tmp_path)
    future = place.submit(what)
    until(lambda: begun(tmp_path))
    testbed["one"].drop()
    until(lambda: "attached" in kinds(place, what))
    (tmp_path / "go").touch()
    assert future.result().stdout.head == b"done\n"
    assert begun(tmp_path) == 1
    assert kinds(place, what)[-4:] == ["dropped", "attached", "epilog", "ended"]


def test_what_ended_while_nobody_was_connected_is_collected(hosts, testbed, tmp_path):
    place = hosts(one={})
    future = place.submit(held(tmp_path))
    until(lambda: begun(tmp_path))
    testbed["one"].kill()
    let_end(tmp_path)
    testbed["one"].start()
    assert future.result().stdout.head == b"done\n"
    assert begun(tmp_path) == 1


def test_what_ran_on_a_host_that_is_gone_runs_on_another(hosts, testbed, tmp_path):
    place = hosts({"patience": 0.5}, one={"speed": 2.0}, two={})
    what = held(tmp_path)
    future = place.submit(what)
    until(lambda: begun(tmp_path))
    testbed["one"].kill(all_of_it=True)
    (tmp_path / "go").touch()
    found = future.result()
    assert (found.host, found.stdout.head) == ("two", b"done\n")
    assert begun(tmp_path) == 2
    assert kinds(place, what).count("ended") == 1


def test_what_was_given_up_is_ended_when_its_host_is_back_and_never_accepted(
    hosts, testbed, tmp_path
):
    place = hosts({"patience": 0.3}, one={"speed": 2.0}, two={})
    what = experiment(f"echo $ZEN_HOST_NAME >> {tmp_path}/count; sleep {long('88.1')} || sleep 1")
    future = place.submit(what)
    until(lambda: begun(tmp_path))
    testbed["one"].kill()  # its supervisors live, behind a network that is cut
    until(lambda: begun(tmp_path) == 2)
    until(lambda: len(running(long("88.1"))) == 2)
    testbed["one"].start()
    until(lambda: len(running(long("88.1"))) == 1)
    assert (tmp_path / "count").read_text() == "one\ntwo\n"
    future.cancel()
    assert future.result().host == "two"


@pytest.mark.slow
def test_where_no_other_host_would_do_the_one_that_is_gone_is_waited_for(
    hosts, testbed, tmp_path, monkeypatch
):
    asked = []  # for another host, after its patience
    alternative = Broker.has_alternative
    monkeypatch.setattr(
        Broker, "has_alternative", lambda *which: asked.append(which) or alternative(*which)
    )
    place = hosts({"patience": 0.2}, one={})
    future = place.submit(held(tmp_path))
    until(lambda: begun(tmp_path))
    testbed["one"].kill()
    until(lambda: asked)
    testbed["one"].start()
    let_end(tmp_path)
    assert future.result().status == "ok"
    assert begun(tmp_path) == 1


def test_an_experiment_whose_keeper_is_killed_begins_again(hosts, testbed, tmp_path):
    place = hosts(one={})
    future = place.submit(
        experiment(
            f"echo >> {tmp_path}/count; test $(wc -l < {tmp_path}/count) = 2 || sleep {long('88.2')}"
        )
    )
    until(lambda: running(long("88.2")))
    supervisor = next(
        pid for pid in testbed["one"].keepers() if _leads(pid, running(long("88.2"))[0])
    )
    os.kill(supervisor, signal.SIGKILL)
    assert future.result().status == "ok"
    assert not running(long("88.2"))
    assert begun(tmp_path) == 2


@pytest.mark.slow
def test_an_experiment_whose_keeper_is_killed_each_time_fails(hosts, testbed, tmp_path):
    place = hosts(one={})
    future = place.submit(experiment(f"sleep {long('88.3')}", recipe=gflops()))

    def kill_keepers_until_done():
        for pid in testbed["one"].keepers():
            if any(_leads(pid, process) for process in running(long("88.3"))):
                os.kill(pid, signal.SIGKILL)
        return future.done()

    until(kill_keepers_until_done)
    assert (future.result().status, future.result().cause) == (
        "failed",
        "its supervisor died 5 times",
    )
    assert not running(long("88.3"))


@pytest.mark.slow
def test_an_experiment_that_stops_its_keeper_once_begins_again(hosts, tmp_path):
    place = hosts(one={})
    stop = f"touch {tmp_path}/once; {PARENT}; kill -STOP $parent; sleep 60"
    once = f"test -e {tmp_path}/once || {{ {stop}; }}"
    assert outcome(place, experiment(once)).status == "ok"


def test_a_keeper_that_is_stopped_is_killed_where_its_job_is_to_go(connection):
    found, _ = connection
    begin(found.ask, "abc-9", f"{PARENT}; kill -STOP $parent; sleep {long('88.7')}")()
    until(lambda: running(long("88.7")))
    until(lambda: found.ask("remove", token="abc-9")[0]["gone"])
    assert not running(long("88.7"))


def test_a_connection_whose_client_is_stopped_can_be_closed(connection):
    found, _ = connection
    processes.send_signal([found._process.pid], signal.SIGSTOP)
    faults = []

    def ask():
        try:
            found.ask("put", b"x" * 2**20, digest="abc", offset=0, mode=0o644, last=True)
        except DroppedError as error:
            faults.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    until(found._writing.locked)
    found.close()
    thread.join()
    assert len(faults) == 1


def _leads(pid, below):
    return pid != below and below in processes.descendants(pid) and pid != os.getppid()


DRIVER = """
import sys, time
from pathlib import Path
from zenturio.execute.hosts.executor import Hosts, HostsSettings
from zenturio.execute.experiment_codec import unpack_experiment
place = Hosts(Path(sys.argv[1]), options=HostsSettings(sys.argv[2]))
futures = [place.submit(unpack_experiment(Path(each).read_bytes())) for each in sys.argv[3:]]
print("ready", flush=True)
for future in futures:
    future.result()
print("heard", flush=True)
time.sleep(600)
"""


@pytest.fixture
def driver(testbed, tmp_path):
    """Starts a driver of its own for experiments; it is killed with -9."""
    from zenturio.execute.experiment_codec import pack_experiment

    path = testbed.write(tmp_path / "driver.toml", {"connect": 60}, one={"slots": 2, "speed": 1.0})
    started = []

    def start(*experiments, until_heard=False):
        names = []
        for i, each in enumerate(experiments):
            names.append(tmp_path / f"parcel{i}")
            names[-1].write_bytes(pack_experiment(each))
        command = [sys.executable, "-c", DRIVER, tmp_path / "zen", path, *names]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout.readline() == b"ready\n"
        if until_heard:
            assert process.stdout.readline() == b"heard\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def again(tmp_path):
    return Hosts(tmp_path / "zen", options=HostsSettings(str(tmp_path / "driver.toml")))


def test_what_runs_when_the_driver_is_killed_is_adopted_by_the_next_one(driver, tmp_path):
    what = held(tmp_path)
    first = driver(what)
    until(lambda: begun(tmp_path))
    first.kill()
    (tmp_path / "go").touch()
    with again(tmp_path) as place:
        assert outcome(place, what).stdout.head == b"done\n"
        assert "adopted" in kinds(place, what)
    assert begun(tmp_path) == 1


@pytest.mark.slow
def test_what_ended_after_the_driver_was_killed_is_adopted_too(driver, testbed, tmp_path):
    what = held(tmp_path)
    first = driver(what)
    until(lambda: begun(tmp_path))
    first.kill()
    let_end(tmp_path)
    with again(tmp_path) as place:
        assert outcome(place, what).stdout.head == b"done\n"
    assert begun(tmp_path) == 1


def test_what_was_heard_of_but_may_not_be_recorded_is_not_run_again(driver, tmp_path):
    what = slow(tmp_path, 0.0)
    driver(what, until_heard=True).kill()
    with again(tmp_path) as place:
        assert outcome(place, what).stdout.head == b"done\n"
    assert begun(tmp_path) == 1


@pytest.mark.slow
def test_a_failure_that_may_not_be_recorded_is_heard_of_again(driver, tmp_path):
    what = experiment(f"echo begun >> {tmp_path}/count; exit 3")
    driver(what, until_heard=True).kill()
    with again(tmp_path) as place:
        assert outcome(place, what).cause == "exit 3"
        place.forget(what.digest)
        assert outcome(place, what).cause == "exit 3"
    assert begun(tmp_path) == 2


def test_what_a_dead_driver_left_can_be_seen_and_ended_without_another(driver, tmp_path):
    what = experiment(f"sleep {long('88.4')}")
    left = Hosts.left(tmp_path / "zen", HostsSettings(str(tmp_path / "driver.toml")))
    first = driver(what)
    until(lambda: running(long("88.4")))
    assert left.stages() == {what.digest: "running"}
    assert left.cancel([what.digest]) == 0  # its driver lives
    first.kill()
    first.wait()
    assert left.cancel([what.digest, "f" * 32]) == 1
    until(lambda: not running(long("88.4")))
    assert left.stages() == {}
    last = read_events(tmp_path / "zen")[-1]
    assert (last.kind, last.digest, last.host, last.why) == (
        "failed",
        what.digest,
        "one",
        "cancelled",
    )


def test_what_is_not_recorded_is_seen_as_ended(driver, tmp_path):
    what = slow(tmp_path, 0)
    driver(what, until_heard=True).kill()
    left = Hosts.left(tmp_path / "zen", HostsSettings(str(tmp_path / "driver.toml")))
    assert left.stages() == {what.digest: "ended"}
    assert left.cancel([what.digest]) == 0


@pytest.mark.slow
def test_what_the_next_driver_does_not_want_runs_until_it_is_asked_for(driver, tmp_path):
    wanted, other = held(tmp_path, "wanted"), held(tmp_path, "other")
    first = driver(wanted, other)
    until(lambda: begun(tmp_path, "wanted") and begun(tmp_path, "other"))
    first.kill()
    (tmp_path / "go").touch()
    with again(tmp_path) as place:
        assert outcome(place, wanted).status == "ok"
        assert outcome(place, other).status == "ok"
    assert (begun(tmp_path, "wanted"), begun(tmp_path, "other")) == (1, 1)


def test_who_has_heard_of_an_outcome_and_asks_again_wants_another_attempt(hosts, tmp_path):
    place = hosts(one={})
    what = slow(tmp_path, 0)
    assert [outcome(place, what).status for _ in range(2)] == ["ok", "ok"]
    assert begun(tmp_path) == 2
    place.close()
    other = hosts(one={})
    assert outcome(other, what).status == "ok"
    assert begun(tmp_path) == 2  # it was not forgotten, and nobody has told this one


def test_what_was_cancelled_is_not_taken_for_an_outcome(hosts, tmp_path):
    place = hosts(one={})
    what = held(tmp_path)
    future = place.submit(what)
    until(lambda: begun(tmp_path))
    future.cancel()
    assert future.result().status == "cancelled"
    (tmp_path / "go").touch()
    assert outcome(place, what).status == "ok"


def test_nothing_is_left_when_all_is_over(hosts, testbed, tmp_path):
    place = hosts(one={})
    what = experiment("echo", builds=("echo > made",))
    outcome(place, what)
    place.forget(what.digest)
    place.close()
    work = testbed["one"].folder / "work"
    journal = AttemptJournal(tmp_path / "zen")
    owner = journal.owner
    journal.close()
    assert list(work.glob(f"jobs/{owner}*"))
    assert not list(work.glob(f"jobs/{owner}*/*"))
    left = sorted(p.name for p in (tmp_path / "zen" / "places" / "hosts").iterdir())
    assert left == ["builds", "drivers", "events.jsonl", "facts.json"]
    assert not list((tmp_path / "zen" / "places" / "hosts" / "builds").iterdir())


def test_a_host_key_that_is_not_known_is_refused(testbed, tmp_path):
    path = testbed.write(tmp_path / "h.toml", one={})
    text = path.read_text().replace(str(testbed.folder / "ssh_config"), str(tmp_path / "conf"))
    known = (testbed.folder / "ssh_config").read_text()
    (tmp_path / "conf").write_text(
        known.replace(str(testbed.folder / "known_hosts"), str(tmp_path / "none"))
    )
    path.write_text(text)
    with pytest.raises(PlaceError) as caught:
        Hosts(tmp_path / "zen", options=HostsSettings(str(path)))
    assert "Host key verification failed" in str(caught.value)
    assert "compare its key once by hand" in str(caught.value)


def test_a_host_key_that_has_changed_is_told_from_one_that_is_not_known(testbed, tmp_path):
    described = testbed.write(tmp_path / "hosts.toml", {"connect": 5}, one={"slots": 1})
    (tmp_path / "known").write_text(f"[127.0.0.1]:{testbed['one'].port} {testbed['two'].public}\n")
    config = (testbed.folder / "ssh_config").read_text()
    (tmp_path / "config").write_text(
        config.replace(f"{testbed.folder}/known_hosts", f"{tmp_path}/known")
    )
    described.write_text(
        described.read_text().replace(f"{testbed.folder}/ssh_config", f"{tmp_path}/config")
    )
    with pytest.raises(PlaceError) as caught:
        Hosts(tmp_path / "zen", options=HostsSettings(str(described)))
    assert "has changed" in str(caught.value)
    assert "is it another machine?" in str(caught.value)


def test_a_host_that_is_down_at_the_start_is_told(hosts, testbed):
    testbed["two"].kill()
    place = hosts(one={}, two={})
    assert [each.partition(":")[0] for each in place.remarks] == ["two"]


@pytest.mark.parametrize(
    ("probe", "said"),
    [("echo no json", "no json"), ("exit 3", "ends with 3"), ("nowhere-probe", "not found")],
)
def test_a_probe_that_is_wrong_is_told_and_the_host_is_used(hosts, probe, said):
    place = hosts(one={"probe": probe})
    (told,) = place.check()
    assert told.startswith(f"one: the probe '{probe}' ends with")
    assert said in told
    assert outcome(place, experiment("true")).status == "ok"


def test_half_a_file_does_not_stay_at_a_host(tmp_path):
    store = JobStore(tmp_path, "me")
    store.put("abc", 0, b"x" * 100, 0o644, mtime=None, last=False)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            store.put("abc", 100, b"x" * 100, 0o644, mtime=None, last=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list((tmp_path / "files").iterdir())
    (tmp_path / "files" / f".abc.{platform.node()}.999999999").touch()
    store.put("def", 0, b"x", 0o644, mtime=None, last=False)  # one that is on its way
    assert JobStore(tmp_path, "me").tokens() == []
    (left,) = (tmp_path / "files").iterdir()
    assert left.name.startswith(".def.")


def test_a_host_that_cannot_be_reached_leaves_the_others(hosts, testbed):
    testbed["two"].kill()
    place = hosts(one={}, two={"speed": 9.0})
    assert outcome(place, experiment("true")).host == "one"
    assert [line for line in place.check() if line.startswith("two: ")]


def test_no_agent_and_no_password_go_along():
    words = ssh_command("one", port=None, user="", options=(), patience=3)
    for way in ("BatchMode=yes", "StrictHostKeyChecking=yes", "ForwardAgent=no"):
        assert way in words
    assert words[-2:] == ["--", "one"]


def test_a_login_that_prints_is_no_trouble(hosts, testbed):
    noisy = testbed["one"].folder / ".bashrc"
    noisy.write_text("echo welcome; echo zenturio wants nothing\n")
    try:
        assert outcome(hosts(one={}), experiment("echo on")).stdout.head == b"on\n"
    finally:
        noisy.unlink()


def test_a_host_without_the_python_that_is_named_says_so(hosts):
    place = hosts(one={}, two={"python": "python9"})
    (said,) = place.check()
    assert said.startswith("two: ")
    assert "python9" in said
    assert "name another one" in said


@pytest.mark.slow
def test_a_host_that_is_silent_is_given_up(hosts, testbed, tmp_path):
    place = hosts({"patience": 0.3, "connect": 1}, one={"speed": 2.0}, two={})
    future = place.submit(experiment(f"echo $ZEN_HOST_NAME >> {tmp_path}/count; sleep 1"))
    until(lambda: begun(tmp_path))
    sessions = processes.descendants(testbed["one"].process.pid)
    processes.send_signal(sessions, signal.SIGSTOP)
    testbed["one"].process.send_signal(signal.SIGSTOP)  # as if a cable were cut
    try:
        assert future.result().host == "two"
    finally:
        testbed["one"].process.send_signal(signal.SIGCONT)
        processes.send_signal(sessions, signal.SIGCONT)
    assert (tmp_path / "count").read_text() == "one\ntwo\n"


def test_what_an_earlier_driver_gave_up_is_ended_by_the_next_one(hosts, testbed, tmp_path):
    first = hosts({"patience": 0.3}, one={"speed": 2.0}, two={})
    what = experiment(f"echo $ZEN_HOST_NAME >> {tmp_path}/count; sleep {long('88.5')}")
    first.submit(what)
    until(lambda: begun(tmp_path))
    testbed["one"].kill()
    until(lambda: begun(tmp_path) == 2)
    first.close()  # which ends what is at two, and cannot reach one
    assert running(long("88.5"))
    testbed["one"].start()
    hosts(one={}, two={})
    until(lambda: not running(long("88.5")))


@pytest.fixture
def connection(tmp_path):
    """A connection to an agent of this machine, without SSH; and what it has told."""
    heard = []
    found = Connection(
        ["/bin/sh", "-c"],
        sys.executable,
        str(tmp_path / "remote"),
        "me",
        patience=100,
        on_event=heard.append,
        on_dropped=lambda _connection: None,
    )
    yield found, heard
    found.close()


REQUEST = {
    "steps": [{"command": "X", "words": None, "timeout": None, "memory": None, "data": None}],
    "environment": {},
    "head": 100,
    "tail": 100,
    "grace": 1.0,
    "processes": 100,
    "exact": False,
}


def begin(asked, token, command):
    empty = {"files": [], "shared": [], "build": None, "over": [], "builds": False}
    asked("prepare", token=token, **empty)
    request = {**REQUEST, "steps": [{**REQUEST["steps"][0], "command": command}]}
    return lambda: asked("start", token=token, request=request)


def test_a_job_that_is_started_twice_runs_once(connection, tmp_path):
    found, heard = connection
    wait = f"while test ! -e {tmp_path}/go; do sleep 0.02; done"
    start = begin(found.ask, "abc-1", f"echo begun >> {tmp_path}/count; {wait}")
    assert start()[0]["state"] == "running"
    start()
    (tmp_path / "go").touch()
    until(lambda: any(event["event"] == "over" for event in heard))
    assert start()[0]["state"] == "ended"
    assert begun(tmp_path) == 1
    told, blobs = found.ask("reply", token="abc-1")
    assert (told["reply"]["status"], b"".join(blobs)) == (0, b"")


def test_a_job_that_runs_cannot_be_prepared_anew(connection, tmp_path):
    found, _ = connection
    begin(found.ask, "abc-2", f"sleep {long('88.6')}")()
    with pytest.raises(RequestFailedError, match="abc-2 runs"):
        begin(found.ask, "abc-2", "true")
    until(lambda: found.ask("remove", token="abc-2")[0]["gone"])
    assert not running(long("88.6"))
    with pytest.raises(RequestFailedError, match="not prepared"):
        found.ask("start", token="abc-2", request=REQUEST)


@pytest.mark.parametrize("token", ["../x", "a/b", "", ".hidden", "a b"])
def test_names_that_lead_elsewhere_are_refused(connection, token):
    with pytest.raises(RequestFailedError, match="is not a name"):
        connection[0].ask("state", token=token)


@pytest.mark.parametrize("path", ["/etc/passwd", "../../secret", "a/../../b", ""])
def test_files_that_lead_elsewhere_are_refused(connection, path):
    found, _ = connection
    with pytest.raises(RequestFailedError):
        found.ask(
            "prepare",
            b"x",
            token="abc-3",
            files=[[path, 0o644, None]],
            shared=[],
            build=None,
            over=[],
        )
    begin(found.ask, "abc-4", "true")
    with pytest.raises(RequestFailedError):
        found.ask("read", token="abc-4", path=path, offset=0, length=10)


@pytest.mark.parametrize(("name", "text"), [("a", "/etc"), ("a", "../b"), ("in/a", "../../b")])
def test_a_host_makes_no_link_that_leads_out_of_the_folder(tmp_path, name, text):
    store = JobStore(tmp_path, "me")
    message = {
        "files": [[name, 0o120777, None]], "shared": [], "build": None, "over": [], "builds": False,
    }  # fmt: skip
    job = store.job("token")
    with pytest.raises(ValueError, match="leads out"):
        store.prepare(job, message, [text.encode()])
    assert not (job.folder / name).is_symlink()
