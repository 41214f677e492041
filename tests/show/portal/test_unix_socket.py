"""A portal at a Unix socket lets in those alone that the kernel says are the user or the proxy."""

import os
import socket
import stat
import threading
import time

import pytest

from zenturio.errors import InputError, PlaceError
from zenturio.show.portal.server import PortalServer
from zenturio.show.portal.state import PortalSettings
from zenturio.system.unix_socket import allowed_users, listen_at

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
OTHER, PROXY = 65534, 33


@pytest.fixture
def path(tmp_path_factory):
    # Short, and below folders that other users may pass.
    folder = tmp_path_factory.mktemp("s")
    for each in (folder, *folder.parents[:-2]):
        if each.stat().st_uid == os.geteuid():
            each.chmod(each.stat().st_mode | 0o011)
    return folder / "zen.sock"


@pytest.fixture
def portal_at(project, path):
    """Starts a portal at *path* into which the *users* may come."""
    started = []

    def start(users, names=()):
        listening = listen_at(path, others=len(users) > 2)
        settings = PortalSettings(db=str(project / ".zenturio" / "zenturio.db"), folder=project)
        service = PortalServer(
            settings, "localhost", 0, "right", names=names, listening=listening, system_users=users
        )
        thread = threading.Thread(target=service.run, daemon=True)
        thread.start()
        started.append((service, thread))
        deadline = time.monotonic() + 60
        while not service.is_started:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        return service

    yield start
    for service, thread in started:
        service.stop()
        thread.join()


def ask(path, target="/login", host="localhost", uid=None, headers=""):
    """The first line of the answer, asked as user *uid*; nothing where the line is closed."""
    text = f"GET {target} HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\n\r\n"
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            if uid is not None:
                os.setgroups([])
                os.setuid(uid)
            with socket.socket(socket.AF_UNIX) as line:
                line.settimeout(60)
                try:
                    line.connect(str(path))
                    line.sendall(text.encode())
                    answer = b""
                    while piece := line.recv(65536):
                        answer += piece
                except OSError as error:
                    answer = type(error).__name__.encode()
            os.write(write, answer[:60000])
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        answer = file.read().decode()
    os.waitpid(child, 0)
    return answer


def test_the_socket_is_its_owners_alone_and_answers(portal_at, path):
    service = portal_at(allowed_users())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ask(path).startswith("HTTP/1.1 200")
    assert ask(path, "/").startswith("HTTP/1.1 303")
    token = service.link().rpartition("token=")[2]
    assert f"{service.cookie}=" in ask(path, f"/?token={token}")


def test_names_by_which_the_proxy_is_called_are_known_and_others_are_not(portal_at, path):
    portal_at(allowed_users(), names=["lab.example.org"])
    assert ask(path, host="lab.example.org").startswith("HTTP/1.1 200")
    assert ask(path, host="evil.example").startswith("HTTP/1.1 403")


@needs_root
def test_another_user_is_turned_away_and_the_proxy_is_not(portal_at, path):
    portal_at(frozenset({0, 1234, PROXY}))
    assert ask(path, uid=PROXY).startswith("HTTP/1.1 200")
    turned_away = ask(path, uid=OTHER)
    assert "HTTP" not in turned_away, turned_away


@needs_root
def test_another_user_cannot_even_connect_where_there_is_no_proxy(portal_at, path):
    portal_at(allowed_users())
    assert ask(path, uid=OTHER) == "PermissionError"


def test_a_socket_that_a_killed_portal_left_is_replaced_and_nothing_else_is(portal_at, path):
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    portal_at(allowed_users())
    with pytest.raises(PlaceError, match="a process answers there"):
        listen_at(path, others=False)
    other = path.with_name("file")
    other.write_text("keep me")
    with pytest.raises(PlaceError, match="something else is there"):
        listen_at(other, others=False)
    assert other.read_text() == "keep me"


def test_permissions_are_set_of_the_socket_and_never_of_a_link_that_replaced_it(
    tmp_path, monkeypatch
):
    private, path, bind = tmp_path / "private", tmp_path / "socket", socket.socket.bind
    private.touch(0o600)

    def bind_and_replace(listening, name):
        bind(listening, name)
        assert stat.S_IMODE(path.stat().st_mode) == 0  # nobody connects yet
        path.unlink()
        path.symlink_to(private)

    monkeypatch.setattr(socket.socket, "bind", bind_and_replace)
    with pytest.raises(PlaceError, match="somebody replaced the socket"):
        listen_at(path, others=True)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600


def test_a_proxy_that_is_no_user_is_named():
    with pytest.raises(InputError, match="no user 'nobody-at-all'"):
        allowed_users("nobody-at-all")


def test_wrong_passwords_count_for_the_address_that_the_proxy_tells(portal_at):
    from starlette.datastructures import Headers

    from zenturio.show.portal.access import UserDirectory

    headers = Headers({"x-forwarded-for": "10.1.2.3"})
    assert UserDirectory().client({"client": ("user:33", 0)}, headers) == "10.1.2.3"
    assert UserDirectory().client({"client": ("127.0.0.1", 5)}, headers) == "127.0.0.1"
