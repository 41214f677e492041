"""Pages are a process of their own: watched, started anew, and gone with who started them."""

import os
import pwd
import signal
import socket
import stat
from contextlib import contextmanager

import pytest
import requests

from show.portal.test_unix_socket import OTHER, PROXY, ask, needs_root, path
from zenturio.errors import PlaceError, SafetyError
from zenturio.record.open import open_repository
from zenturio.show.portal import pages_process
from zenturio.show.portal.access import PasswordHash, UserDirectory, hash_secret
from zenturio.show.portal.pages_process import PagesProcess
from zenturio.show.portal.state import PortalSettings
from zenturio.study.service.service_config import ServiceUser
from zenturio.testing.executor import until

__all__ = ["path"]
USERS = {"alice": ServiceUser("alice", "run", PasswordHash.of("wonder land").text)}


@contextmanager
def started(folder, people=None, port=0, **more):
    """The pages of a project, and what they say of themselves."""
    said = []
    open_repository(folder / "some.db").close()
    settings = PortalSettings(str(folder / "some.db"), folder, serves=True)
    pages = PagesProcess(
        settings, "127.0.0.1", port, people or UserDirectory(), ["lab.example.org"],
        lambda kind, text: said.append((kind, text)), **more,
    )  # fmt: skip
    with pages:
        yield pages, said


def links(said):
    return [text for kind, text in said if kind == "link"]


def test_pages_answer_in_a_process_of_their_own(tmp_path):
    people = UserDirectory(USERS, "X-Remote-User", hash_secret("secret"), ("127.0.0.1",))
    with started(tmp_path, people) as (pages, said):
        assert pages.process.pid != os.getpid()
        assert requests.get(links(said)[0]).status_code == 200
        asked = {"X-Remote-User": "alice", "X-Zenturio-Proxy": "secret", "Host": "lab.example.org"}
        door = links(said)[0].partition("?")[0]
        assert "alice" in requests.get(door + "queue", headers=asked).text
        until(lambda: any(kind == "used" for kind, _ in said))
    assert pages.process.returncode == 0
    with pytest.raises(requests.ConnectionError):
        requests.get(door)


@pytest.mark.slow
def test_pages_at_a_socket_know_the_proxy_by_its_process(tmp_path, path):
    people = UserDirectory(USERS, "X-Remote-User", at_socket=True)
    as_alice = "X-Remote-User: alice\r\n"
    with started(tmp_path, people, socket_path=path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        answer = ask(path, "/queue", "lab.example.org", headers=as_alice)
        assert answer.startswith("HTTP/1.1 200")
        assert "alice" in answer
        assert ask(path, "/queue", "evil.example", headers=as_alice).startswith("HTTP/1.1 403")
    assert not path.exists()


@needs_root
def test_pages_at_a_socket_turn_away_whoever_is_not_the_proxy(tmp_path, path):
    people = UserDirectory(USERS, "X-Remote-User", at_socket=True)
    as_alice = "X-Remote-User: alice\r\n"
    proxy = pwd.getpwuid(PROXY).pw_name
    with started(tmp_path, people, socket_path=path, proxy_user=proxy):
        assert "alice" in ask(path, "/queue", uid=PROXY, headers=as_alice)
        assert "HTTP" not in ask(path, "/queue", uid=OTHER, headers=as_alice)


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGSTOP,
        *(pytest.param(n, marks=pytest.mark.slow) for n in (signal.SIGKILL, signal.SIGTERM)),
    ],
)
def test_pages_that_die_or_hang_are_started_anew_at_the_same_place(tmp_path, monkeypatch, number):
    monkeypatch.setattr(pages_process, "RESTART_SECONDS", 0.1)
    with started(tmp_path) as (pages, said):
        until(lambda: pages._messages.has_message)
        if number == signal.SIGSTOP:
            monkeypatch.setattr(pages_process, "SILENT_SECONDS", 0.5)
        first = pages.process
        first.send_signal(number)
        until(lambda: first.returncode is not None)
        monkeypatch.setattr(pages_process, "SILENT_SECONDS", 60)
        until(lambda: len(links(said)) > 1)
        assert "the pages ended with exit code" in dict(said)["again"]
        doors = {link.partition("?")[0] for link in links(said)}
        assert len(doors) == 1
        until(lambda: requests.get(links(said)[-1]).status_code in (200, 401))


def test_pages_end_when_nobody_listens_to_them_any_more(tmp_path, monkeypatch):
    monkeypatch.setattr(pages_process, "RESTART_SECONDS", 60)
    with started(tmp_path) as (pages, _):
        pages.process.stdin.close()
        assert pages.process.wait() == 0


def test_what_keeps_pages_from_starting_is_raised(tmp_path, monkeypatch):
    monkeypatch.setattr(pages_process, "PORT_SECONDS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PlaceError, match="cannot listen"), started(tmp_path, port=port):
            pass
    settings = PortalSettings(str(tmp_path / "none.db"), tmp_path, serves=True)
    with pytest.raises(SafetyError, match=r"\[serve.users\]"):
        PagesProcess(settings, "0.0.0.0", 0, UserDirectory())


@pytest.mark.slow
def test_a_port_that_is_about_to_be_free_is_waited_for(tmp_path):
    """Whoever starts a service right after the last was killed."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with started(tmp_path, port=port) as (_, said):
        assert f":{port}/" in links(said)[0]
