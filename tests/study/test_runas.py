"""Experiments run as the user who submitted them, by a helper of root that can do nothing else.

Real accounts are created for these tests, and removed.
"""

import json
import os
import pwd
import re
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import chdir, closing, contextmanager, suppress
from pathlib import Path

import pytest

from accounts import accounts, group_of, zen_for_everybody
from needs import needs
from unprivileged import NOBODY
from zenturio.errors import ConflictError, InputError, Interrupted, PlaceError, RecordError
from zenturio.execute import runas
from zenturio.execute.experiment_codec import pack_failure
from zenturio.execute.runas import RunAs
from zenturio.experiment import Experiment, ExperimentFile, Recipe, Step
from zenturio.experiment.identity import experiment_digest
from zenturio.record.open import open_repository
from zenturio.study.service.service_config import ServiceConfig
from zenturio.study.service.study_service import StudyService
from zenturio.study.service.submission_client import submit_study
from zenturio.study.study_request import StudyRequest
from zenturio.system import runas_helper
from zenturio.testing.executor import until

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root may create accounts and start programs as them"
)
HELPER = Path(runas_helper.__file__)


class Helper:
    """The helper program as root runs it, for members of a group."""

    def __init__(self, folder, made, group, programs, command=(), service="root", options=()):
        self.folder, self.socket = folder / "workers", folder / "run" / "socket"
        self.group = group
        self.accounts = made
        command = command or (programs / "python", "-m", "zenturio.execute.user_account_worker")
        self.process = subprocess.Popen(
            [sys.executable, "-I", HELPER, "--service", service, "--group", group,
             "--socket", self.socket, "--folder", self.folder, *options, "--", *command],
            env={**os.environ, "ZENTURIO_SECRET": "abc"}, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        until(lambda: self.socket.is_socket() or self.process.poll() is not None)
        assert self.process.poll() is None, self.process.stderr.read()

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.process.stderr.close()

    def start(self, request, *descriptors):
        """Send one request as the service does; the answer and the connection."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(str(self.socket))
        data = request if isinstance(request, bytes) else json.dumps(request).encode()
        if descriptors:
            socket.send_fds(connection, [data], descriptors)
        else:
            connection.send(data)
        return json.loads(connection.recv(4096)), connection

    @property
    def left(self):
        return [path.name for path in self.folder.iterdir()]


@contextmanager
def helping(command=(), names=("alice", "bob", "mallory"), **options):
    """A helper for alice and bob; mallory has an account, and is no member."""
    needs("useradd", "userdel", "groupadd")
    with (
        tempfile.TemporaryDirectory() as name, accounts(*names) as made,
        group_of(*list(made.values())[:2]) as group, zen_for_everybody() as programs,
    ):  # fmt: skip
        Path(name).chmod(0o755)
        helper = Helper(Path(name), made, group, programs, command, **options)
        try:
            yield helper
        finally:
            helper.stop()


@pytest.fixture(scope="module")
def helper():
    with helping() as running:
        yield running


@pytest.fixture
def place(helper, tmp_path):
    with RunAs(tmp_path / ".zenturio", helper.socket, 2) as opened:
        yield opened


def experiment(script, outputs=(), timeout=60.0, repeat=1):
    files = (ExperimentFile("run.sh", 0o755, b"#!/bin/sh\n" + script.encode()),)
    steps = (Step("./run.sh", timeout=timeout),)
    digest = experiment_digest(files, steps, {}, repeat)
    return Experiment(digest, 0, repeat, {}, files, steps, {}, None, Recipe((), outputs))


def ran(place, user, script, **more):
    outcome = place.submit_as(user, experiment(script, **more)).result(120)
    return outcome, outcome.stdout.head.decode()


def alive(seconds):
    """Processes that sleep for so many seconds."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_bytes() == b"sleep\0%d\0" % seconds:
                pids.append(int(path.parent.name))
    return pids


# What an experiment is.


@needs_root
def test_an_experiment_has_the_rights_of_its_user_and_none_of_the_service(
    helper, place, monkeypatch
):
    monkeypatch.setenv("ZENTURIO_DB", "postgresql://secret")
    alice = helper.accounts["alice"]
    outcome, text = ran(
        place, alice, "id -un; id -Gn; pwd; umask; env; grep NoNewPrivs /proc/self/status\n"
        "ls /proc/self/fd; echo kept > kept.txt; exit 0", outputs=("kept.txt",)
    )  # fmt: skip
    lines = text.splitlines()
    assert outcome.status == "ok", outcome
    assert lines[0] == alice
    assert set(lines[1].split()) == {alice, helper.group}
    assert lines[2].startswith(f"{helper.folder}/{pwd.getpwnam(alice).pw_uid}-")
    assert "ZENTURIO" not in text
    assert "secret" not in text
    assert f"HOME=/home/{alice}" in lines
    assert "NoNewPrivs:\t1" in lines
    assert lines[-4:] == ["0", "1", "2", "3"]  # 3 is that of ls
    assert outcome.artifacts[0].kept.read_text() == "kept\n"
    assert outcome.artifacts[0].kept.stat().st_uid == 0  # the service has a copy of its own


@needs_root
def test_users_cannot_reach_files_and_processes_of_each_other_and_of_the_service(helper, place):
    alice, bob = helper.accounts["alice"], helper.accounts["bob"]
    running = place.submit_as(bob, experiment("echo secret > mine; sleep 601"))
    until(lambda: alive(601))
    sleeping = alive(601)[0]
    _, text = ran(
        place, alice,
        f"cat {helper.folder}/*/*/*/*/mine; ls {helper.folder}; kill -9 {sleeping}; kill -9 {os.getpid()}\n"
        f"kill -9 {helper.process.pid}; cat /proc/{sleeping}/environ; true",
    )  # fmt: skip
    assert text == ""
    assert not running.done()
    running.cancel()
    assert running.result(60).status == "cancelled"


@needs_root
def test_setuid_programs_give_an_experiment_nothing(helper, place):
    _, text = ran(place, helper.accounts["alice"], "su -c id root < /dev/null; id -u")
    assert text.splitlines()[-1] == str(pwd.getpwnam(helper.accounts["alice"]).pw_uid)


@needs_root
def test_what_is_left_behind_is_killed_and_folders_are_removed(helper, tmp_path):
    alice = helper.accounts["alice"]
    with RunAs(tmp_path / ".zenturio", helper.socket, 2) as place:
        outcome, _ = ran(
            place, alice,
            "setsid sh -c 'sleep 611 & sleep 612' & mkdir -p a/b; touch a/b/c; chmod 0 a/b a\n"
            "ln -s / root; ln -s /home home; exit 0",
        )  # fmt: skip
        assert outcome.status == "ok"
    assert not alive(611)
    assert not alive(612)
    assert helper.left == []
    assert Path("/home", alice).is_dir()


@needs_root
def test_a_worker_that_its_user_kills_costs_nobody_else_an_experiment(helper, place):
    alice, bob = helper.accounts["alice"], helper.accounts["bob"]
    running = place.submit_as(bob, experiment("sleep 1; echo fine"))
    outcome, _ = ran(place, alice, "kill -9 -1", repeat=2)
    assert (outcome.status, outcome.cause) == ("failed", f"the worker of {alice} was lost")
    assert running.result(120).stdout.head == b"fine\n"
    assert ran(place, alice, "id -un")[1] == f"{alice}\n"


@needs_root
def test_a_worker_that_does_not_obey_is_killed(helper, tmp_path, monkeypatch):
    monkeypatch.setattr(runas, "CANCEL_SECONDS", 0.2)
    alice = helper.accounts["alice"]
    with RunAs(tmp_path / ".zenturio", helper.socket, 2) as place:
        # It stops its own worker, which then hears nothing.
        task = place.submit_as(
            alice, experiment(f"pkill -STOP -u {alice} -f user_account_worker; sleep 621")
        )
        until(lambda: alive(621))
        task.cancel()
        assert task.result(60).status == "cancelled"
    until(lambda: not alive(621))


@needs_root
def test_what_is_cancelled_before_its_worker_has_started_is_cancelled(
    helper, tmp_path, monkeypatch
):
    monkeypatch.setattr(runas, "CANCEL_SECONDS", 0)
    with RunAs(tmp_path / ".zenturio", helper.socket, 1) as place:
        task = place.submit_as(helper.accounts["alice"], experiment("true"))
        task.cancel()
        assert task.result(60).status == "cancelled"


@needs_root
def test_the_end_of_the_service_ends_all_that_runs(helper, tmp_path):
    bob = helper.accounts["bob"]
    place = RunAs(tmp_path / ".zenturio", helper.socket, 2)
    # The worker is stopped, so it cannot end by itself: the helper has to kill it.
    place.submit_as(bob, experiment(f"pkill -STOP -u {bob} -f user_account_worker; sleep 631"))
    until(lambda: alive(631))
    worker = place._workers[bob]
    place._closed.set()  # what is lost is not begun again
    worker._supervisor.shutdown(socket.SHUT_RDWR)  # as the kernel does when the service is killed
    until(lambda: not alive(631) and not helper.left)
    place.close()


@needs_root
def test_the_end_of_the_helper_ends_all_that_runs(tmp_path):
    with helping() as running, RunAs(tmp_path / ".zenturio", running.socket, 1) as place:
        task = place.submit_as(running.accounts["alice"], experiment("sleep 641"))
        until(lambda: alive(641))
        running.process.terminate()
        running.process.wait()
        until(lambda: not alive(641) and not running.left)
        with pytest.raises(PlaceError, match="cannot start processes"):
            task.result(60)


@needs_root
def test_a_worker_that_cannot_start_is_the_fault_of_the_place(tmp_path):
    with (
        helping(("/bin/sh", "-c", "echo no such module >&2; exit 1")) as running,
        RunAs(tmp_path / ".zenturio", running.socket, 1) as place,
        pytest.raises(PlaceError, match="does not start: no such module"),
    ):
        place.submit_as(running.accounts["alice"], experiment("true")).result(60)


@needs_root
@pytest.mark.parametrize(
    ("words", "is_ready"),
    [
        (r"printf '\377\377\377\377' >&0; sleep 9", False),
        (r"""printf '\0\0\0\17{"ready": true}' >&0; printf '\0\0\0\2{}' >&0; sleep 9""", True),
        (
            r"""printf '\0\0\0\17{"ready": true}' >&0
            printf '\0\0\0\33{"run": 77, "lengths": [1]}x' >&0; sleep 9""",
            True,
        ),
    ],
)
def test_a_worker_that_answers_what_was_not_asked_is_ended(tmp_path, words, is_ready):
    """A user may put anything into the socket of their own worker."""
    with (
        helping(("/bin/sh", "-c", words)) as running,
        RunAs(tmp_path / ".zenturio", running.socket, 1) as place,
    ):
        task = place.submit_as(running.accounts["alice"], experiment("true"))
        if is_ready:
            assert task.result(60).status == "failed"
        else:
            with pytest.raises(PlaceError, match="does not start"):
                task.result(60)


@needs_root
def test_a_socket_that_a_user_handed_on_keeps_neither_an_experiment_nor_the_service(
    tmp_path, monkeypatch
):
    """A process that the worker did not begin has the worker's end of the socket."""
    monkeypatch.setattr(runas, "CANCEL_SECONDS", 0.1)
    script = (
        r"import os, socket, sys, time; os.write(0, b'\0\0\0\17{\"ready\": true}');"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "socket.send_fds(s, [b'x'], [0]); time.sleep(600)"
    )
    with tempfile.TemporaryDirectory() as name, socket.socket(socket.AF_UNIX) as listening:
        Path(name).chmod(0o755)
        listening.bind(f"{name}/socket")
        Path(name, "socket").chmod(0o666)
        listening.listen()
        with (
            helping(("/usr/bin/python3", "-c", script, f"{name}/socket")) as running,
            RunAs(tmp_path / ".zenturio", running.socket, 1) as place,
        ):
            task = place.submit_as(running.accounts["alice"], experiment("true"))
            friend, _ = listening.accept()
            with friend:
                _, (held,), _, _ = socket.recv_fds(friend, 1, 1)
            try:
                task.cancel()
                assert task.result(60).status == "cancelled"
            finally:
                os.close(held)


@needs_root
def test_the_socket_of_a_lost_worker_stays_open_as_long_as_something_is_sent_to_it(
    tmp_path, monkeypatch
):
    """Else what is for one user could go to the next one, whose socket has the same number."""
    send, stays_open = runas.wire.send, []

    def send_slowly(descriptor, message, *blobs):
        if message.get("run") == 1 and not stays_open:
            (worker,) = place._workers.values()
            worker.kill()
            until(lambda: worker._is_lost)
            stays_open.append(Path(f"/proc/self/fd/{descriptor}").exists())
        send(descriptor, message, *blobs)

    monkeypatch.setattr(runas.wire, "send", send_slowly)
    with (
        helping(("/bin/sleep", "600")) as running,
        RunAs(tmp_path / ".zenturio", running.socket, 1) as place,
    ):
        task = place.submit_as(running.accounts["alice"], experiment("true"))
        with pytest.raises(PlaceError, match="does not start"):
            task.result(60)
    assert stays_open == [True]


@pytest.mark.parametrize("kind", [Interrupted, RecordError, ConflictError])
def test_a_worker_does_not_fail_in_the_name_of_the_service(kind, tmp_path):
    """The service tries a study again that is interrupted, or whose repository is away."""
    task = runas.UserTask(experiment("true"))
    worker = object.__new__(runas.UserProcess)
    worker.user, worker._lock, worker._tasks = "alice", threading.Lock(), {1: task}
    worker._place = RunAs(tmp_path / ".zenturio", tmp_path / "socket", 1)
    worker._take(1, pack_failure(kind("so it says")))
    with pytest.raises(PlaceError, match="the worker of alice failed: so it says") as caught:
        task.result(0)
    assert type(caught.value) is PlaceError


# What the helper refuses.


@needs_root
@pytest.mark.parametrize(
    ("user", "reason"),
    [
        ("root", "nothing is started as root"),
        ("nobody", "not a member|nothing is started"),
        ("daemon", "nothing is started as daemon"),
        ("mallory", "is not a member of the group"),
        ("no-such-user", "there is no user"),
        ("../alice", "not the name of a user"),
        ("alice\n", "not the name of a user"),
        ("", "not the name of a user"),
        ("0", "not the name of a user"),
        ("$(id)", "not the name of a user"),
        (0, "not the name of a user"),
        (["alice"], "not the name of a user"),
        (None, "not the name of a user"),
    ],
)
def test_nothing_is_started_as_others_than_members_of_the_group(helper, user, reason):
    user = helper.accounts.get(user, user) if isinstance(user, str) else user
    data, other = socket.socketpair()
    with data, other:
        reading, writing = os.pipe()
        answer, connection = helper.start({"start": user}, data.fileno(), writing)
        os.close(reading)
        os.close(writing)
    connection.close()
    assert set(answer) == {"refused"}
    assert re.search(reason, answer["refused"])


@needs_root
@pytest.mark.parametrize(
    "request_",
    [
        b"", b"{}", b"[]", b"\xff", b"[" * 4000, b'{"start": "X", "command": "/bin/sh"}',
        b'{"signal": "KILL", "pid": 1}', b'{"remove": "/etc"}',
    ],
)  # fmt: skip
def test_what_is_no_request_starts_nothing_and_the_helper_goes_on(helper, request_):
    request_ = request_.replace(b"X", helper.accounts["alice"].encode())
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with closing(connection):
        connection.connect(str(helper.socket))
        connection.send(request_)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(4096)
    assert b"started" not in answer
    assert helper.process.poll() is None
    assert helper.left == []


@needs_root
def test_a_request_needs_a_socket_and_a_pipe(helper):
    null = os.open(os.devnull, os.O_RDWR)
    try:
        for descriptors in ((), (null,), (null, null)):
            answer, connection = helper.start({"start": helper.accounts["alice"]}, *descriptors)
            connection.close()
            assert "refused" in answer
    finally:
        os.close(null)


@needs_root
def test_others_than_the_service_cannot_connect():
    with helping(service="daemon") as running:
        assert running.socket.stat().st_mode & 0o777 == 0o600
        assert running.socket.stat().st_uid == pwd.getpwnam("daemon").pw_uid
        script = (
            "import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET);"
            "s.connect(sys.argv[1])"
        )
        done = subprocess.run(
            ["runuser", "-u", running.accounts["alice"], "--", "/usr/bin/python3", "-c", script,
             running.socket], capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "PermissionError" in done.stderr
        # Though the permissions were wrong, the kernel tells who it is.
        running.socket.chmod(0o666)
        script += ";s.send(b'{}'); sys.exit(s.recv(99) == b'')"
        done = subprocess.run(
            ["runuser", "-u", running.accounts["alice"], "--", "/usr/bin/python3", "-c", script,
             running.socket], capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 1 or "BrokenPipe" in done.stderr or "Reset" in done.stderr


@needs_root
@pytest.mark.parametrize(
    ("option", "name"),
    [("--folder", "open"), ("--folder", "open/own"), ("--socket", "open/socket"),
     ("--socket", "open/own/socket")],
)  # fmt: skip
def test_it_does_not_start_where_others_could_change_its_folders(tmp_path, option, name):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    options = {"--folder": tmp_path / "b", "--socket": tmp_path / "c" / "d"}
    options[option] = tmp_path / name
    words = [str(word) for pair in options.items() for word in pair]
    done = subprocess.run(
        [sys.executable, "-I", HELPER, "--service", "root", "--group", "root", *words, "/bin/true"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "can be changed by others than root" in done.stderr


@needs_root
def test_the_helper_removes_what_one_that_was_killed_left():
    with helping() as running:
        folders = runas_helper.Folders(running.folder.with_name("earlier"))
        folder = Path(folders.path, f"{pwd.getpwnam(running.accounts['alice']).pw_uid}-0123")
        folder.mkdir()
        (folder / "deep").mkdir()
        for path in (folder / "deep", folder):
            os.chown(path, pwd.getpwnam(running.accounts["alice"]).pw_uid, -1)
        Path(folders.path, "link").symlink_to("/home")
        folders.sweep()
        assert [path.name for path in Path(folders.path).iterdir()] == ["link"]
        assert Path("/home").is_dir()


@needs_root
def test_a_second_helper_does_not_touch_the_workers_of_the_first(helper, monkeypatch):
    monkeypatch.setattr(runas_helper, "LOCK_SECONDS", 0)
    with pytest.raises(runas_helper.RefusedError, match="another zenturio-runas"):
        runas_helper.Folders(helper.folder)


@needs_root
def test_a_helper_without_processes_to_spare_refuses_and_goes_on(tmp_path, monkeypatch):
    root = pwd.getpwuid(0)
    listening = runas_helper.listen_at(tmp_path / "socket", root)

    def fork():
        listening.close()  # ends the loop
        raise BlockingIOError("no process can be started")

    monkeypatch.setattr(os, "fork", fork)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.connect(str(tmp_path / "socket"))
        with pytest.raises(OSError, match="Bad file descriptor"):
            runas_helper.serve(listening, root, None, "root", [], 0)
        assert client.recv(1) == b""


@pytest.mark.slow
@needs_root
def test_a_user_with_too_many_processes_keeps_nobody_else_from_starting_some():
    """Each experiment starts 30 processes; alice has 20 of them running beside the service."""
    many = "for i in $(seq 30); do sleep 0.2 & done; wait; echo all"
    with (
        helping(options=("--tasks", "40")) as helper,
        tempfile.TemporaryDirectory() as name,
        RunAs(Path(name) / ".zenturio", helper.socket, 2) as place,
    ):
        alice, bob = helper.accounts["alice"], helper.accounts["bob"]
        sleeping = [subprocess.Popen(["sleep", "60"], user=alice) for _ in range(20)]
        try:
            outcome, text = ran(place, alice, many)
            assert (outcome.status, text) == ("failed", "")
            assert "fork" in outcome.stderr.head.decode()
            assert ran(place, bob, many)[1] == "all\n"
        finally:
            for process in sleeping:
                process.kill()
                process.wait()
        # What is left of the first one's processes counts until each has ended.
        until(lambda: ran(place, alice, many)[1] == "all\n")


def test_the_helper_uses_the_standard_library_alone():
    text = HELPER.read_text()
    assert (
        "zenturio."
        not in text.replace("zenturio-runas", "").partition('"""')[2].partition('"""')[2]
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", HELPER, "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_only_root_starts_it():
    done = subprocess.run(
        ["/usr/bin/python3", "-I", HELPER, "--service", "root", "--group", "root", "/bin/true"],
        capture_output=True, text=True, check=False, user=NOBODY if os.geteuid() == 0 else None,
    )  # fmt: skip
    assert "only root" in done.stderr


# The service.

STUDY = """\
#!/bin/sh
#ZEN$ PARAM n = { 1:2 }
#ZEN$ BUILD "id -un > built"
#ZEN$ RUN "sh who.sh"
#ZEN$ USE VERSION "id -un"
#ZEN$ METRIC user FROM stdout REGEX "user (\\S+)"
#ZEN$ METRIC built FROM stdout REGEX "built (\\S+)"
echo "user $(id -un)"; echo "built $(cat built)"
"""


@needs_root
def test_a_service_runs_what_users_submit_as_these_users(helper, monkeypatch):
    monkeypatch.setattr("zenturio.study.service.study_service.POLL", 0.05)
    with tempfile.TemporaryDirectory() as name, chdir(name):
        Path(".zenturio").mkdir()
        Path("who.sh").write_text(STUDY)
        users = [helper.accounts[name] for name in ("alice", "bob", "mallory")]
        with closing(open_repository(Path(".zenturio/zenturio.db"))) as repository:
            for user in users:
                Path("who.sh").write_text(f"{STUDY}# {user}\n")  # nobody has its results yet
                request = StudyRequest(("who.sh",), name=f"of-{user}")
                submit_study(repository, request, user)
            over = threading.Event()
            with RunAs(Path(".zenturio"), helper.socket, 2) as place:
                service = StudyService(repository, {"local": place}, "fcfs")
                thread = threading.Thread(target=service.run, args=(over,))
                thread.start()
                try:
                    until(lambda: {s.turn for s in repository.submissions()} <= {"done", "failed"})
                finally:
                    over.set()
                    thread.join()
            for user in users[:2]:
                records = list(repository.records(f"of-{user}", states=("ok",)))
                shown = {(r.outcome.metrics["user"], r.outcome.metrics["built"]) for r in records}
                assert shown == {(user, user)}
                assert len(records) == 2
            last = repository.submissions()[2]
            assert last.turn == "failed"
            assert "is not a member of the group" in last.cause


@needs_root
def test_a_submission_without_files_does_not_run_as_its_user(helper, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("zenturio.study.service.study_service.POLL", 0.05)
    (tmp_path / ".zenturio").mkdir()
    (tmp_path / "who.sh").write_text(STUDY)
    with closing(open_repository(tmp_path / ".zenturio" / "zenturio.db")) as repository:
        facts = StudyRequest((str(tmp_path / "who.sh"),)).facts()
        repository.submit("token", helper.accounts["alice"], "who", facts, verified=True)
        over = threading.Event()
        with RunAs(tmp_path / ".zenturio", helper.socket, 1) as place:
            service = StudyService(repository, {"local": place}, "fcfs", run_unverified=True)
            thread = threading.Thread(target=service.run, args=(over,))
            thread.start()
            try:
                until(lambda: repository.submissions()[0].turn == "failed")
            finally:
                over.set()
                thread.join()
        assert "its files are missing" in repository.submissions()[0].cause


def test_settings_that_do_not_go_together_are_refused(tmp_path):
    file = tmp_path / "zenturio.toml"
    file.write_text('[serve]\nrunas = "/run/zenturio-runas/socket"\n')
    assert ServiceConfig.of(tmp_path).runas == Path("/run/zenturio-runas/socket")
    for more, message in (
        ('unverified = "run"', "cannot run as a user"),
        ('places = ["local", "slurm"]', "runas works only with the place local"),
    ):
        file.write_text(f'[serve]\nrunas = "/run/x"\n{more}\n')
        with pytest.raises(InputError, match=message):
            ServiceConfig.of(tmp_path)


def test_a_helper_that_does_not_answer_is_told(tmp_path):
    with pytest.raises(PlaceError, match="cannot start processes as other users"):
        RunAs.check(tmp_path / "socket")
    with RunAs(tmp_path, tmp_path / "socket", 1) as place:
        with pytest.raises(PlaceError, match="zenturio-runas listens"):
            place.submit_as("alice", experiment("true")).result()
        with pytest.raises(PlaceError, match="only as a user"):
            place.submit(experiment("true")).result()
