"""Who submits to a service on a file of SQLite is who the kernel says, and nobody else."""

import errno
import json
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading
from contextlib import chdir, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from accounts import accounts, zen_for_everybody
from needs import needs
from unprivileged import NOBODY, unprivileged
from zenturio.errors import InputError, NotFoundError, PlaceError, SafetyError
from zenturio.execute import wire
from zenturio.execute.local import Local
from zenturio.record.open import open_repository
from zenturio.record.sqlite import sqlite_module
from zenturio.study.service import submission_socket
from zenturio.study.service.service_config import ServiceConfig, ServiceUser
from zenturio.study.service.study_service import StudyService
from zenturio.study.service.submission_client import prepare_submission, signed_token, submit_study
from zenturio.study.service.submission_socket import (
    ServiceClient,
    SubmissionSocket,
    hash_token,
    refuse_read_only,
    socket_path,
)
from zenturio.study.study_request import StudyRequest
from zenturio.testing.executor import until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
USER = pwd.getpwuid(os.geteuid()).pw_name
STUDY = """\
#!/bin/sh
#ZEN$ PARAM n = { 1:2 }
#ZEN$ RUN "sh one.sh {n}"
#ZEN$ METRIC square FROM stdout REGEX "square (\\d+)"
echo "square $(($1 * $1))"
"""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A folder with a study and a repository in a file."""
    monkeypatch.setattr("zenturio.study.service.study_service.POLL", 0.05)
    (tmp_path / ".zenturio").mkdir()
    (tmp_path / "one.sh").write_text(STUDY)
    with chdir(tmp_path):
        repository = open_repository(tmp_path / ".zenturio" / "zenturio.db")
        yield repository
        repository.close()


def request():
    return StudyRequest((str(Path("one.sh").absolute()),))


def share(repository):
    """Let everybody write the file, as groups do."""
    Path(repository.location).chmod(0o666)
    assert repository.may_others_write()


def write_row(repository, person="alice", **changes):
    """A submission that is written past the service, as any program that can write the file may."""
    prepared = prepare_submission(request(), repository)
    number = repository.submit(
        f"row of {person}", person, prepared.study, prepared.facts, prepared.files, verified=True
    ).number
    for name, value in changes.items():
        execute(repository, f"UPDATE submissions SET {name} = ? WHERE id = ?", (value, number))
    return number


def execute(repository, statement, values):
    """Change the file past the repository.

    By the same module: with two libraries of SQLite in a process, one takes away the other's locks.
    """
    with closing(sqlite_module().connect(repository.location)) as connection, connection:
        connection.execute(statement, values)


@contextmanager
def serving(repository, *, run_unverified=False):
    over = threading.Event()
    with Local(Path(".zenturio"), 2) as place:
        service = StudyService(repository, {"local": place}, "fcfs", run_unverified=run_unverified)
        thread = threading.Thread(target=service.run, args=(over,))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def submission(repository, number):
    return next(s for s in repository.submissions() if s.number == number)


def test_the_user_is_who_the_kernel_says_and_the_study_runs(lab, monkeypatch):
    share(lab)
    monkeypatch.setenv("LOGNAME", "mallory")
    with SubmissionSocket(lab), serving(lab):
        number = ServiceClient.of(lab).submit(prepare_submission(request(), lab))
        until(lambda: submission(lab, number).turn == "done")
    assert (submission(lab, number).user, submission(lab, number).verified) == (USER, True)
    assert lab.count_states("one")["ok"] == 2


def test_without_a_service_there_is_nobody_to_ask(lab):
    assert ServiceClient.of(lab) is None
    with SubmissionSocket(lab):
        assert ServiceClient.of(lab) is not None
    assert ServiceClient.of(lab) is None
    assert not socket_path(Path(lab.location)).exists()


def test_what_the_service_refuses_is_told_to_who_asked(lab):
    with SubmissionSocket(lab), pytest.raises(NotFoundError, match="has no submission 7"):
        ServiceClient.of(lab).cancel(7)


def test_a_row_that_was_written_past_the_service_waits_until_it_is_submitted_again(lab):
    share(lab)
    number = write_row(lab, USER)
    with SubmissionSocket(lab), serving(lab):
        until(lambda: "waits_for" in submission(lab, number).progress)
        held = submission(lab, number)
        assert (held.turn, held.verified) == ("waiting", False)
        assert held.progress["waits_for"].startswith(f"{USER} to submit it again")
        again = ServiceClient.of(lab).submit(prepare_submission(request(), lab))
        until(lambda: submission(lab, again).turn == "done")
    assert submission(lab, number).turn == "cancelled"
    assert submission(lab, again).verified


def test_a_row_of_somebody_else_does_not_keep_a_study_from_being_submitted(lab):
    share(lab)
    foreign_row = write_row(lab, "mallory")
    with SubmissionSocket(lab):
        # The service has not looked at the row yet, which claims that its user was checked.
        number = ServiceClient.of(lab).submit(prepare_submission(request(), lab))
        assert number != foreign_row
        with serving(lab):
            until(lambda: submission(lab, number).turn == "done")


def test_a_service_runs_rows_that_nobody_checked_if_it_is_told_to(lab):
    share(lab)
    number = write_row(lab)
    with serving(lab, run_unverified=True):
        until(lambda: submission(lab, number).turn == "done")
    assert not submission(lab, number).verified


def test_in_a_file_of_ones_own_every_row_is_believed(lab):
    assert not lab.may_others_write()
    number = write_row(lab)
    with serving(lab):
        until(lambda: submission(lab, number).turn == "done")
    assert submission(lab, number).verified


@pytest.mark.parametrize(
    ("column", "value"),
    [("person", "bob"), ("study", "other"), ("request", '{"paths": ["/etc/passwd"]}')],
)
def test_a_row_that_somebody_changed_afterwards_is_not_believed(lab, column, value):
    share(lab)
    prepared = prepare_submission(request(), lab)
    token = signed_token(USER, prepared.study, prepared.facts)
    number = submit_study(lab, request(), USER, token).number
    execute(lab, f"UPDATE submissions SET {column} = ?, verified = 1", (value,))
    with serving(lab):
        until(lambda: "waits_for" in submission(lab, number).progress)
    assert not submission(lab, number).verified


def test_what_runs_is_what_was_checked_whatever_is_written_meanwhile(lab, monkeypatch):
    share(lab)
    number = submit_study(lab, request(), USER).number
    update = lab.update_submission

    def change_and_update(*arguments):
        changed = ("bob", '{"paths": ["/etc/passwd"]}')
        execute(lab, "UPDATE submissions SET person = ?, request = ?", changed)
        return update(*arguments)

    monkeypatch.setattr(lab, "update_submission", change_and_update)
    with serving(lab):
        until(lambda: submission(lab, number).turn in ("done", "failed"))
    assert (submission(lab, number).turn, lab.count_states("one")["ok"]) == ("done", 2)


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"do": "submit"},
        {"do": "cancel", "number": "1"},
        {"do": "cancel", "number": 1, "user": "root"},
        {"do": "submit", "study": "x", "options": {}, "program": {}},
        {"do": "submit", "study": "x", "options": {"limit": [[1]]}, "program": {}},
        {"do": "submit", "study": "x", "options": {}, "program": {}, "lengths": [2**62]},
        {"do": "submit", "study": "x", "options": {}, "program": {}, "lengths": [2**28] * 2},
        {"do": "submit", "study": "x", "options": {}, "program": {}, "user": "root"},
    ],
)
def test_what_is_no_request_is_refused_and_the_service_goes_on(lab, message):
    with SubmissionSocket(lab):
        client = ServiceClient.of(lab)
        with pytest.raises(SafetyError, match="malformed"):
            client._ask(message)
        with closing(client._connected()) as connection:
            connection.sendall(b"\xff" * 64)
        assert client.submit(prepare_submission(request(), lab)) == 1


def _larger(value):
    """The least that is larger, at its innermost value."""
    match value:
        case str():
            return value + "x"
        case int():
            return value - 1 if value < 0 else value + 1
        case [one]:
            return [_larger(one)]
        case [0, last]:
            return [0, last + 1]
        case list():
            return [*value, value[0]]
    return {"one more": 1, **value} if len(value) > 1 else {n: _larger(v) for n, v in value.items()}


SUBMIT = {"do": "submit", "study": "s", "options": {}, "program": {}}
CANCEL = {"do": "cancel", "number": 1}
FAILURE = {"failure": "x", "message": "x", "hint": "x"}


@pytest.mark.parametrize(
    ("check", "message", "limits"),
    [
        ("submit", SUBMIT, {
            "study": ["x" * 255],
            "options": [
                {"o": "x" * 2**16}, {"o": -(2**63)}, {"o": ["x", "x"] * 2048}, {"o": ["x" * 2**16]},
                {str(number): True for number in range(64)},
            ],
            "lengths": [[0, 2**28]],
            "token": ["x" * 1024],
        }),
        ("cancel", CANCEL, {"token": ["x" * 1024]}),
        ("answer", FAILURE, {
            "failure": ["x" * 64], "message": ["x" * 2**16], "hint": ["x" * 2**16],
        }),
    ],
)  # fmt: skip
def test_a_message_is_as_large_as_it_may_be_and_no_larger(check, message, limits):
    take = getattr(submission_socket, f"_check_{check}")
    for name, largest in limits.items():
        for value in largest:
            take({**message, name: value}, "it")
            with pytest.raises(wire.MalformedError):
                take({**message, name: _larger(value)}, "it")


def test_submissions_and_names_of_options_have_their_limits():
    submission_socket._check_answer({"number": 1}, "it")
    submission_socket._check_submit({**SUBMIT, "options": {"o" * 64: None}}, "it")
    for check, message in (
        ("answer", {"number": 0}),
        ("cancel", {**CANCEL, "number": 0}),
        ("submit", {**SUBMIT, "options": {"o" * 65: None}}),
    ):
        with pytest.raises(wire.MalformedError):
            getattr(submission_socket, f"_check_{check}")(message, "it")


def test_files_that_are_not_those_of_the_program_are_refused(lab):
    prepared = prepare_submission(request(), lab)
    other = type(prepared)(prepared.study, prepared.facts, {"0" * 64: b"another file"})
    with SubmissionSocket(lab), pytest.raises(SafetyError, match="not those of the program"):
        ServiceClient.of(lab).submit(other)
    assert lab.submissions() == ()


def test_one_user_cannot_take_all_connections(lab, monkeypatch):
    monkeypatch.setattr(submission_socket, "MOST_OF_ONE_USER", 2)
    with SubmissionSocket(lab) as service:
        client = ServiceClient(Path(lab.location))
        held = [client._connected() for _ in range(2)]
        until(lambda: service._connections.total() == 2)
        with closing(client._connected()) as third:
            assert third.recv(1) == b""
        for connection in held:
            connection.close()
        until(lambda: not service._connections.total())
        assert client.submit(prepare_submission(request(), lab)) == 1


def test_a_service_with_too_many_open_files_accepts_again(lab, monkeypatch):
    accept, errors = socket.socket.accept, [OSError(errno.EMFILE, "Too many open files")]

    def accept_later(listening):
        if errors:
            raise errors.pop()
        return accept(listening)

    monkeypatch.setattr(socket.socket, "accept", accept_later)
    with SubmissionSocket(lab):
        until(lambda: not errors)
        assert ServiceClient.of(lab).submit(prepare_submission(request(), lab)) == 1


def test_who_is_silent_is_let_go(lab, monkeypatch):
    monkeypatch.setattr(submission_socket, "SILENT_SECONDS", 1)
    with SubmissionSocket(lab), closing(ServiceClient.of(lab)._connected()) as connection:
        connection.settimeout(60)
        assert connection.recv(1) == b""


def test_a_socket_may_lie_deep(tmp_path, monkeypatch):
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    repository = open_repository(folder / "a.db")
    with SubmissionSocket(repository):
        assert ServiceClient.of(repository) is not None
    repository.close()


def test_a_token_says_in_whose_name_a_program_submits_and_cancels(lab):
    users = {
        "nightly": ServiceUser("nightly", "run", token=hash_token("secret")),
        "guest": ServiceUser("guest", "look", token=hash_token("looks")),
        "alice": ServiceUser("alice", "run"),
    }
    with SubmissionSocket(lab, users):
        number = ServiceClient.of(lab, "secret").submit(prepare_submission(request(), lab))
        found = submission(lab, number)
        assert (found.user, found.verified) == ("nightly", True)
        for token in ("wrong", "looks", hash_token("secret"), "sha256:"):
            with pytest.raises(SafetyError, match="no user has this token"):
                ServiceClient.of(lab, token).cancel(number)
        other = submit_study(lab, replace(request(), name="other"), USER).number
        with pytest.raises(SafetyError, match=f"is of {USER}"):
            ServiceClient.of(lab, "secret").cancel(other)  # not with the rights of the process
        ServiceClient.of(lab, "secret").cancel(number)
        assert submission(lab, number).cause == "by nightly"


def test_the_setting_says_whether_unchecked_rows_run(tmp_path):
    assert ServiceConfig().unverified == "hold"
    (tmp_path / "zenturio.toml").write_text('[serve]\nunverified = "run"\n')
    assert ServiceConfig.of(tmp_path).unverified == "run"
    (tmp_path / "zenturio.toml").write_text('[serve]\nunverified = "maybe"\n')
    with pytest.raises(InputError, match="maybe"):
        ServiceConfig.of(tmp_path)


@needs_root
def test_a_socket_that_somebody_else_put_there_gets_no_files(lab):
    path = socket_path(Path(lab.location))
    with SubmissionSocket(lab):
        client = ServiceClient.of(lab)
    with socket.socket(socket.AF_UNIX) as listening:
        with chdir(path.parent):  # the address of a socket is short
            listening.bind(path.name)
        # The kernel remembers who listens.
        os.seteuid(NOBODY)
        try:
            listening.listen()
        finally:
            os.seteuid(0)
        with pytest.raises(SafetyError, match="belongs to nobody, not to the owner"):
            ServiceClient.of(lab)
        with pytest.raises(SafetyError, match="belongs to nobody"):  # it came meanwhile
            client.submit(prepare_submission(request(), lab))


@needs_root
@pytest.mark.parametrize("part", ["file", "folder"])
def test_an_owner_who_is_somebody_else_may_write_the_queue(lab, part):
    path = Path(lab.location)
    os.chown(path if part == "file" else path.parent, NOBODY, -1)
    assert lab.may_others_write()


@needs_root
def test_who_may_only_read_the_file_is_told_that_no_service_runs(lab):
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o755)
        database = folder / "a.db"
        with closing(open_repository(database)) as repository:
            refuse_read_only(repository)
            with unprivileged(), pytest.raises(PlaceError, match="no running service accepts"):
                refuse_read_only(repository)
    finally:
        shutil.rmtree(folder)


@needs_root
@pytest.mark.slow
def test_an_account_with_a_private_home_submits_and_cancels_what_is_its_own(monkeypatch):
    """The file is the service's alone; others read it, and speak to the service."""
    needs("useradd", "userdel", "runuser")
    monkeypatch.setattr("zenturio.study.service.study_service.POLL", 0.05)
    with tempfile.TemporaryDirectory() as name, accounts("alice", "bob") as made:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / ".zenturio").mkdir()
        database = folder / ".zenturio" / "zenturio.db"
        for account in made.values():
            home = Path("/home") / account
            home.chmod(0o700)
            (home / "one.sh").write_text(STUDY)
        with (
            chdir(folder), zen_for_everybody() as programs, closing(open_repository(database)) as lab,
            SubmissionSocket(lab, {made["bob"]: ServiceUser(made["bob"], "admin")}),
        ):  # fmt: skip

            def zen(account, *words):
                return subprocess.run(
                    ["runuser", "-u", account, "--", programs / "zen", *words, "--db", database],
                    cwd=f"/home/{account}", capture_output=True, text=True, check=False,
                    env={"PATH": os.environ["PATH"], "HOME": f"/home/{account}", "LOGNAME": "root",
                         "USER": "root"},
                )  # fmt: skip

            alice, bob = made["alice"], made["bob"]
            done = zen(alice, "submit", "one.sh", "--json")
            assert done.returncode == 0, done.stderr
            facts = json.loads(done.stdout)
            assert (facts["user"], facts["verified"]) == (alice, True)
            other = zen(bob, "submit", "one.sh", "--name", "two")
            assert other.returncode == 0, other.stderr
            refused = zen(alice, "cancel", "2")
            assert (refused.returncode, f"is of {bob}" in refused.stderr) == (6, True), refused
            assert zen(bob, "cancel", "1").returncode == 0  # an administrator by name
            assert zen(alice, "submit", "one.sh").returncode == 0
            with serving(lab):
                until(lambda: {s.turn for s in lab.submissions()} == {"cancelled", "done"})
            shown = zen(alice, "queue")
            assert "unverified" not in shown.stdout
            assert f"{bob}" in shown.stdout, shown
            assert not (folder / ".zenturio" / "submitted" / "3").exists()


def test_an_answer_is_one_message(lab):
    with SubmissionSocket(lab), closing(ServiceClient.of(lab)._connected()) as connection:
        wire.send(connection.fileno(), {"do": "cancel", "number": 3})
        assert wire.receive(connection.fileno())["failure"] == "NotFoundError"
        assert connection.recv(1) == b""
