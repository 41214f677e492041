"""What a database is told of places, lists and numbers of experiments."""

import pytest

from zenturio.record import sqlite
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
