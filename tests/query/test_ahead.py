"""The first rows of a large table are those that come first, however they were found."""

import random

import pytest

from tests.query.conftest import fill
from zenturio.expression import parse
from zenturio.query import study_table
from zenturio.query.listing import query_listing
from zenturio.query.study_table import TableQuery


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    from zenturio.record.open import open_repository

    chance = random.Random(5)
    rows = [
        {
            "index": chance.randrange(300),
            "repeat": number + 1,
            "n": chance.randrange(4),
            "wtime": chance.choice([None, chance.random(), chance.gauss(0, 9)]),
            "gflops": chance.random(),
            "status": chance.choice(["ok", "ok", "ok", "failed"]),
        }
        for number in range(400)
    ]
    found = open_repository(tmp_path_factory.mktemp("ahead") / "zenturio.db")
    fill(found, "all", {"n": "int"}, {"wtime": "real", "gflops": "real"}, rows)
    yield found
    found.close()


@pytest.mark.parametrize("where", [None, "n == 2", "gflops < 0.02", "status == 'failed'", "n > 9"])
@pytest.mark.parametrize("sort", [(), ("-wtime",), ("wtime", "n"), ("n",), ("status",)])
@pytest.mark.parametrize("states", [(), ("ok",), ("running",)])
def test_the_first_rows_are_found_ahead(measured, monkeypatch, where, sort, states):
    wanted = TableQuery("all", parse(where) if where else None, states, sort)
    whole = query_listing(measured, wanted, lambda found: found.numbers())
    for name, value in (
        ("MANY_ROWS", 1),
        ("ROWS_AHEAD", 60),
        ("SAMPLE_SIZE", 40),
        ("SAMPLE_RANK", 5),
    ):
        monkeypatch.setattr(study_table, name, value)
    for count in (1, 7, 400, None):
        first = query_listing(measured, wanted, lambda found: found.numbers(count))  # noqa: B023
        assert list(first) == list(whole[:count])


def test_most_are_not_looked_at_where_the_first_are_near(measured, monkeypatch):
    for name, value in (("MANY_ROWS", 1), ("ROWS_AHEAD", 200), ("SAMPLE_SIZE", 40)):
        monkeypatch.setattr(study_table, name, value)
    for where, sort in ((parse("n > 0"), ()), (None, ("-wtime",))):
        found = query_listing(
            measured,
            TableQuery("all", where, (), sort),
            lambda found: list(found._table.first_numbers(5)),
        )
        assert len(found) == 5


def test_large_integers_are_ordered_to_the_last_digit():
    rows = [(1, 2**60 + 1), (2, None), (3, 2**60), (4, -(2**63)), (5, 2**60)]
    assert list(study_table.numbers_by_value(rows, whole=True, falling=False)) == [4, 3, 5, 1, 2]
    assert list(study_table.numbers_by_value(rows, whole=True, falling=True)) == [1, 3, 5, 4, 2]
