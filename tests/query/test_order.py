"""Every sort has a total order, the same in both databases: a limit shows the same rows."""

import random

import pytest

from tests.query.conftest import fill
from zenturio.expression import parse
from zenturio.query import aggregates, results, study_frame
from zenturio.query.listing import query_listing
from zenturio.query.study_table import TableQuery

PARAMETERS = {"n": "int", "solver": "str", "fast": "bool"}
METRICS = {"wtime": "real", "cores": "int"}


def rows():
    """Many ties, entered in an order of no meaning; the last ones beyond 63 bits."""
    chance = random.Random(8)
    found = [
        {
            "index": index if index < 50 else 10 ** (15 + index // 10) + index,
            "repeat": repeat,
            "n": index % 2,
            "solver": ("cg", "Zebra", "ä", "zebra", "a_b", "a b", "AB", None)[index % 8],
            "fast": index % 3 == 0,
            "wtime": None if index % 5 == 0 else float(index % 4),
            "cores": index % 3,
            "status": "failed" if index % 7 == 0 else "ok",
        }
        for index in range(80)
        for repeat in (1, 2)
    ]
    chance.shuffle(found)
    return found


@pytest.fixture(scope="module")
def study(shared_repository):
    fill(shared_repository, "ties", PARAMETERS, METRICS, rows())
    return shared_repository


def key(name, *, falling=False):
    def of(row):
        value = row[name]
        return ((value is None) != falling, 0 if value is None else value)

    return of


def in_space(row):
    return row["index"], row["repeat"]


@pytest.mark.parametrize("column", ["n", "solver", "fast", "wtime", "cores"])
@pytest.mark.parametrize("falling", [False, True])
def test_rows_that_are_equal_stand_in_the_order_of_the_space(study, column, falling):
    expected = sorted((row for row in rows() if row["status"] == "ok"), key=in_space)
    expected.sort(key=key(column, falling=falling), reverse=falling)
    asked = ["-" * falling + column]
    names = ["n", "solver", "fast", "repeat", "wtime", "cores"]
    whole = results(study, "ties", sort=asked)
    assert whole.dicts() == [{name: row[name] for name in names} for row in expected]
    for limit in (1, 5, 37):
        assert results(study, "ties", sort=asked, limit=limit).rows == whole.rows[:limit]


def test_without_a_sort_rows_stand_in_the_order_of_the_space_beyond_63_bits_too(study):
    expected = [row["repeat"] for row in sorted(rows(), key=in_space) if row["status"] == "ok"]
    assert list(study_frame(study, "ties")["repeat"]) == expected
    assert [row["repeat"] for row in results(study, "ties").dicts()] == expected


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("sort", [["mean(wtime)"], ["-max(cores)"], ["-count(*)", "-fast"], []])
def test_groups_that_are_equal_stand_in_the_order_of_their_keys(study, monkeypatch, sort, parts):
    if parts:
        monkeypatch.setattr(aggregates, "MANY_EXPERIMENTS", 1)
        monkeypatch.setattr(aggregates, "PART_SIZE", 16)
    by = ["solver", "fast"]
    whole = results(study, "ties", by=by, aggregates=["mean", "max"], sort=sort).dicts()
    expected = sorted(whole, key=lambda row: [key(name)(row) for name in by])
    for each in reversed(sort):
        falling = each.startswith("-")
        name = each.removeprefix("-")
        expected.sort(key=key(name, falling=falling), reverse=falling)
    assert whole == expected
    limited = results(study, "ties", by=by, aggregates=["mean", "max"], sort=sort, limit=3)
    assert limited.dicts() == expected[:3]


@pytest.mark.parametrize("sort", [("wtime",), ("-cores",), ("solver", "-fast")])
def test_a_page_of_a_table_has_the_rows_of_the_limit(study, sort):
    ok = TableQuery("ties", parse("status == 'ok'"), sort=sort, repeats=True)
    page = query_listing(study, ok, lambda listing: listing.first(9))
    limited = results(study, "ties", sort=list(sort), limit=9)
    assert [row.cells for row in page] == list(limited.rows)
