"""Connections to SQLite that are kept between transactions."""

import os
import sqlite3

import pytest

from zenturio.record.database import MOST_IDLE, ConnectionPool


@pytest.fixture
def pool(tmp_path):
    """A pool of connections to a file with the empty table ``t``."""

    def connect():
        return sqlite3.connect(tmp_path / "t.db", isolation_level=None)

    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    pool = ConnectionPool(connect)
    yield pool
    pool.dispose()


def _is_open(connection):
    try:
        connection.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return False
    return True


def test_a_connection_is_used_again(pool):
    first = pool.raw_connection()
    driver = first.driver_connection
    first.close()
    first.close()  # a second time changes nothing
    second = pool.raw_connection()
    assert second.driver_connection is driver
    assert pool.raw_connection().driver_connection is not driver


def test_what_was_not_committed_is_undone_before_another_one_has_the_connection(pool):
    first = pool.raw_connection()
    first.cursor().execute("BEGIN")
    first.cursor().execute("INSERT INTO t VALUES (1)")
    first.close()
    second = pool.raw_connection()
    assert not second.driver_connection.in_transaction
    assert second.cursor().execute("SELECT count(*) FROM t").fetchall() == [(0,)]


def test_an_invalid_connection_is_closed_and_not_used_again(pool):
    first = pool.raw_connection()
    first.invalidate()
    first.close()
    assert not _is_open(first.driver_connection)
    assert _is_open(pool.raw_connection().driver_connection)


def test_connections_in_use_are_closed_when_they_come_back_after_dispose(pool):
    used, idle = pool.raw_connection(), pool.raw_connection()
    idle.close()
    pool.dispose()
    assert not _is_open(idle.driver_connection)
    assert _is_open(used.driver_connection)
    used.close()
    assert not _is_open(used.driver_connection)


def test_only_a_few_idle_connections_are_kept(pool):
    loans = [pool.raw_connection() for _ in range(MOST_IDLE + 2)]
    for loan in loans:
        loan.close()
    assert sum(_is_open(loan.driver_connection) for loan in loans) == MOST_IDLE


def test_a_process_that_was_forked_opens_its_own(pool):
    pool.raw_connection().close()
    ours = pool.raw_connection()
    driver = ours.driver_connection
    ours.close()
    pid = os.fork()
    if not pid:
        os._exit(int(pool.raw_connection().driver_connection is driver))
    assert os.waitpid(pid, 0)[1] == 0
    assert pool.raw_connection().driver_connection is driver
