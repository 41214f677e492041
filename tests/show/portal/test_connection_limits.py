"""Connections that ask for nothing, or never to the end, cost nobody else anything."""

import socket
import threading

import pytest
import requests

from show.portal.running_portal import served
from zenturio.show.portal import security
from zenturio.show.portal.security import (
    MOST_BODY_BYTES,
    MOST_CONNECTIONS,
    RESERVED_DESCRIPTORS,
    most_connections,
)
from zenturio.show.portal.state import PortalSettings
from zenturio.testing.executor import until

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture
def portal(tmp_path):
    with served(PortalSettings(str(tmp_path / "none.db"), tmp_path)) as found:
        yield found


@pytest.fixture
def line(portal):
    """Makes connections, from an address of this machine."""
    found = []

    def connect(source="127.0.0.1"):
        door = portal.service.listen_address
        found.append(socket.create_connection((door.host, door.port), source_address=(source, 0)))
        return found[-1]

    yield connect
    for each in found:
        each.close()


def is_closed(line):
    """Whether the other side hangs up, sooner or later."""
    try:
        while line.recv(4096):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


def test_who_never_asks_is_hung_up_on(portal, line, monkeypatch):
    monkeypatch.setattr(security, "HEAD_SECONDS", 0.2)
    silent, half = line(), line()
    half.sendall(HEAD)
    assert is_closed(silent)
    assert is_closed(half)
    until(lambda: len(portal.service.connections) == 0 or portal.get("/").ok)


def test_headers_that_never_end_do_not_prolong_it(line, monkeypatch):
    monkeypatch.setattr(security, "HEAD_SECONDS", 0.3)
    endless = line()
    endless.sendall(HEAD)
    over = threading.Event()

    def drip():
        while not over.wait(0.02):
            try:
                endless.sendall(b"X: y\r\n")
            except OSError:
                return

    thread = threading.Thread(target=drip)
    thread.start()
    assert is_closed(endless)
    over.set()
    thread.join()


def test_a_second_request_on_a_line_has_as_long_as_the_first(line, monkeypatch):
    again = line()
    again.sendall(HEAD + b"\r\n")
    assert b"401" in again.recv(65536)
    monkeypatch.setattr(security, "HEAD_SECONDS", 0.2)
    again.sendall(HEAD)
    assert is_closed(again)


def test_a_body_that_never_comes_is_not_waited_for(portal, line, monkeypatch, capfd):
    monkeypatch.setattr(security, "BODY_SECONDS", 0.2)
    cookie = f"{portal.service.cookie}={portal.known.cookies[portal.service.cookie]}"
    late = line()
    late.sendall(
        b"POST /report/add HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\n"
        b"Content-Length: 100\r\nCookie: " + cookie.encode() + b"\r\n\r\nname=x"
    )
    assert is_closed(late)
    assert portal.get("/").status_code == 200
    assert "Traceback" not in capfd.readouterr().err


def test_a_body_that_is_longer_than_a_form_is_refused(portal):
    own = {"Origin": portal.address}
    path = portal.address + "/report/add"
    answer = portal.known.post(path, b"x" * (MOST_BODY_BYTES + 1), headers=own)
    assert answer.status_code == 413
    chunks = (b"x" * 10_000 for _ in range(MOST_BODY_BYTES // 10_000 + 2))
    try:
        answer = portal.known.post(path, chunks, headers=own)
        assert answer.status_code in (400, 413)
    except requests.ConnectionError:
        pass  # refused before it was sent
    assert portal.known.get(portal.address).status_code == 200


def test_who_is_idle_makes_room_for_who_asks(portal, line):
    table = portal.service.connections
    portal.known.close()
    until(lambda: len(table) == 0)
    table.most, table.most_of_one = 6, 3
    idle = []
    for number in range(12):
        idle.append(line(f"127.0.0.{number % 3 + 2}"))
        until(lambda: len(table) >= min(len(idle), 6))
    until(lambda: len(table) == 6)
    assert portal.get("/").status_code == 200
    assert len(table) <= 6
    assert sum(map(is_closed, idle[:6])) == 6


def test_who_is_being_answered_stays_and_others_are_refused(portal, line):
    table = portal.service.connections
    portal.known.close()
    until(lambda: len(table) == 0)
    table.most_of_one = 1
    with portal.known.get(portal.address + "/live", stream=True) as live:
        assert live.status_code == 200
        other = line()
        assert is_closed(other)
        assert len(table) == 1


def test_connections_leave_descriptors_for_files_and_processes():
    assert most_connections(1024) == 1024 - RESERVED_DESCRIPTORS
    assert most_connections(1 << 20) == MOST_CONNECTIONS
    assert most_connections(64) == 32
