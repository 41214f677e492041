"""What a database is told of places, lists and numbers of experiments."""

import psycopg
import pytest

from zenturio.record import sqlite
from zenturio.record.codec import Form
from zenturio.record.open import dialect_at


@pytest.fixture
def file(tmp_path):
    return dialect_at(tmp_path / "a.db")


def test_positions_of_any_size_are_kept_and_stand_in_their_order(file):
    edges = (0, 1, 2**53, 2**63 - 1, 2**63, 2**64, 10**30, 10**200)
    positions = [file.position(index) for index in edges]
    assert [file.index(position) for position in positions] == list(edges)
    assert [type(position) for position in positions] == [int] * 4 + [str] * 4
    assert positions[4:] == sorted(positions[4:])
    assert [file.index(file.position(-index)) for index in edges] == [-index for index in edges]
    assert type(file.position(-(2**63))) is int
    assert type(file.position(-(2**63) - 1)) is str


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9, 16, 17])
def test_a_list_of_any_length_is_asked_for_in_parts_of_few_shapes(file, monkeypatch, count):
    monkeypatch.setattr(sqlite, "_LONGEST_LIST", 8)
    keys = [f"k{number}" for number in range(count)]
    parts = list(file.parts(keys))
    assert [len(values) for _, values in parts] == [shape for shape, _ in parts]
    assert {shape for shape, _ in parts} <= {1, 2, 4, 8}
    assert [min(8, count - start) <= shape for start, (shape, _) in zip(
        range(0, count, 8), parts, strict=True
    )] == [True] * len(parts)  # fmt: skip
    asked = [key for _, values in parts for key in values.values()]
    assert list(dict.fromkeys(asked)) == keys
    shapes = [shape for shape, _ in parts]
    assert shapes[:-1] == [8] * (len(parts) - 1)
    assert shapes[-1] < 2 * (count - 8 * (len(parts) - 1))
    assert file.among_sql("n", 3) == "n IN (?, ?, ?)"
    assert list(file.parts([])) == []


def test_numbers_of_attempts_are_drawn_one_behind_the_other(tmp_path):
    from zenturio.record.database import Database
    from zenturio.record.open import open_repository

    open_repository(tmp_path / "a.db").close()
    database = Database(dialect_at(tmp_path / "a.db"), 5)
    drawn = [
        database.write(lambda t, count=count: t.dialect.draw(t._cursor, count))
        for count in (3, 1, 2)
    ]
    database.close()
    assert drawn == [[1, 2, 3], [4], [5, 6]]


# A server, which nothing here connects to.

SERVER = "postgresql://me:s%40crets99@host:5433/lab?options=-cx%3D1&sslmode=require"


def arguments(dialect):
    """What a connection would be made with, the secrets beside the URL included."""
    return {**dialect._url.arguments(), **dialect._asked(), **dialect._secrets}


def test_a_connection_is_asked_for_with_all_that_the_url_says():
    dialect = dialect_at(SERVER)
    dialect.wait = 2.5
    asked = {
        "user": "me", "host": "host", "port": "5433", "dbname": "lab", "sslmode": "require",
        "options": "-cx=1 -c lock_timeout=2500", "password": "s@crets99",
    }  # fmt: skip
    assert arguments(dialect) == asked
    schema = arguments(dialect.within('a"b'))
    assert schema.pop("options") == '-cx=1 -c search_path="a""b" -c lock_timeout=2500'
    assert schema == {name: value for name, value in asked.items() if name != "options"}
    plain = dialect_at("postgresql://me@host/lab").within("other")
    assert plain._options == '-c search_path="other"'
    other = arguments(dialect.as_user("you", "word"))
    assert other == {**asked, "user": "you", "password": "word"}
    assert dialect.for_programs()[1] == {"PGPASSWORD": "s@crets99"}
    assert dialect_at("postgresql://me@host/lab").for_programs()[1] == {}
    assert "cret" not in dialect.location + dialect.for_programs()[0]
    assert dialect.hide("password s@crets99 and s%40crets99, ") == "password *** and ***, "
    short = dialect_at("postgresql://me:ab@host/lab")  # which may be a part of other words
    assert (
        short.hide("password=ab, :ab@ and 'ab' of abc ab")
        == "password=ab, :***@ and '***' of abc ab"
    )


def test_a_login_has_a_line_of_its_server():
    for host, line in (
        ("host:5433", "host lab me samenet scram-sha-256"),
        ("", "local lab me scram-sha-256"),
        ("%2Frun%2Fpg", "local lab me scram-sha-256"),
    ):
        assert dialect_at(f"postgresql://me@{host}/lab").login_rule() == line
    for host, line in (("/run/pg", "local"), ("far", "host")):
        assert dialect_at(f"postgresql://me@/lab?host={host}").login_rule().split()[0] == line


def test_what_a_server_says_becomes_an_error_with_the_place_and_a_hint():
    errors = psycopg.errors
    dialect = dialect_at(SERVER)
    dialect.wait = 2.5
    for error, message, hint in (
        (errors.LockNotAvailable("x"), "has been locked for 2.5 seconds", "ZENTURIO_DB_WAIT"),
        (errors.InsufficientPrivilege("x"), ": x", "zen db grant --owner"),
        (errors.InvalidSchemaName("x"), ": x", "zen db grant --owner"),
        (errors.DiskFull("x"), "the disk of ", "make room"),
        (
            psycopg.OperationalError("FATAL: sorry, too many clients already"),
            "accepts no more connections", "max_connections",
        ),
        (
            psycopg.OperationalError('FATAL: password authentication failed for user "me"'),
            "refuses the login", "~/.pgpass",
        ),
        (psycopg.OperationalError("connection refused"), "no connection to ", "running"),
        (psycopg.InterfaceError("closed"), "no connection to ", "running"),
        (errors.AdminShutdown("x"), "no connection to ", "running"),
        (errors.SyntaxError("near s@crets99"), ": near ***", ""),
    ):  # fmt: skip
        explained = dialect.explain(error)
        assert message in str(explained)
        assert dialect.location in str(explained)
        assert hint in (explained.diagnostics[0].hint or "")
        assert bool(hint) == bool(explained.diagnostics[0].hint)
        lost = (psycopg.OperationalError, psycopg.InterfaceError)
        is_lost = isinstance(error, lost) and "no connection" in message
        assert dialect.lost(error) == (is_lost or "accepts no more" in message), message
    assert dialect.conflicts(errors.UniqueViolation("x"))
    assert dialect.conflicts(errors.DuplicateTable("x"))
    assert not dialect.conflicts(errors.NotNullViolation("x"))


def test_values_are_searched_and_read_as_the_server_writes_them():
    dialect = dialect_at(SERVER)
    assert dialect.holds_sql("c", "bytes") == "position(%s::bytea in c) > 0"
    assert dialect.holds_sql("c", "text") == "strpos(c::text, %s) > 0"
    assert dialect.chunk_sql("e.id", 3, 5) == (
        "(SELECT c.doc ->> 5 FROM chunks c WHERE c.result = e.id AND c.chunk = 3)"
    )
    slots = {"i": "e.i1", "r": "e.r1", "t": "e.t1"}
    assert dialect.value_sql(Form(0), slots) == ("NULL::double precision", "none")
    assert dialect.value_sql(Form.TRUTH, {"i": "e.i1"}) == ("e.i1 <> 0", "boolean")
    truths, kind = dialect.value_sql(Form.TRUTH | Form.TEXT, {"i": "e.i1", "t": "e.t1"})
    assert kind == "text"
    assert "(e.i1 <> 0)::text" in truths
    numbers, kind = dialect.value_sql(Form.INTEGER | Form.TEXT, {"i": "e.i1", "t": "e.t1"})
    assert kind == "text"
    assert "(e.i1)::text" in numbers
    both, _ = dialect.value_sql(Form.INTEGER | Form.TRUTH | Form.TEXT, {"i": "e.i1", "t": "e.t1"})
    assert both == numbers
