"""Aggregates are the same to twelve digits in both databases, whatever the values are."""

import math
import random
from fractions import Fraction

import pytest

from tests.query.conftest import fill
from zenturio.experiment import aggregates
from zenturio.query import aggregates as query_aggregates
from zenturio.query import results
from zenturio.query.frames import group_frame

KINDS = ("mean", "min", "max", "std", "count", "median", "sum")
NASTY = (
    [1.0, 2.0, 1e200],
    [1e200, 1.0, -1e200],
    [1e16, 1.0, -1e16],
    [0.1, 0.2, -0.3],
    [1e308, 1e308, 1.5e308],
    [1.7e308, -1.7e308],
    [1.7e308, 1.7e308, -1.7e308, -1.7e308, 3.0],
    [-0.3, 0.30000000000000004],
    [0.1, 0.1, 0.1],
    [0.1, 0.10000000000000002],
    [1e9, 1e9 + 1e-6, 1e9 + 3e-6],
    [1e-200, 2e-200, 5e-200],
    [5e-324, 1e-323],
    [1e-320, 1.0],
    [-1.0, 1.0],
    [0.0, 0.0, 0.0],
    [3.5],
    [1e200, 1e100, 1.0, -1e200, -1e100],
)


def exact(kind, values):
    """By fractions: the obvious twin."""
    count, ordered = len(values), sorted(map(Fraction, values))
    mean = sum(ordered) / count
    match kind:
        case "sum":
            found = mean * count
        case "mean":
            found = mean
        case "median":
            found = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
        case "std":
            if count < 2:
                return None
            square = sum((value - mean) ** 2 for value in ordered) / (count - 1)
            # Of a square that no float holds the root is taken by integers.
            found = Fraction(math.isqrt(int(square * 4**1200)), 2**1200)
        case "min" | "max":
            found = ordered[0 if kind == "min" else -1]
        case "count":
            return count
    try:
        return float(found)
    except OverflowError:
        return math.inf if found > 0 else -math.inf


def same(one, other):
    if one is None or other is None:
        return one is other
    return one == other or math.isclose(one, other, rel_tol=1e-12, abs_tol=0)


def samples():
    chance = random.Random(20)
    drawn = [
        [
            chance.choice((1, -1)) * chance.random() * 10.0 ** chance.randint(low, high)
            for _ in range(chance.randint(2, 9))
        ]
        for low, high in ((-3, 3), (-300, 300), (0, 0), (150, 160), (-160, -150))
        for _ in range(25)
    ]
    return [*NASTY, *drawn]


@pytest.mark.parametrize("kind", ["sum", "mean", "median", "std"])
def test_aggregates_in_python_are_those_of_fractions(kind):
    function = {"sum": "total", "std": "deviation"}.get(kind, kind)
    for values in samples():
        assert same(getattr(aggregates, function)(values), exact(kind, values)), (values, kind)


def enter(repository, table):
    rows = [
        {"group": number, "x": value, "index": number, "repeat": repeat}
        for number, values in enumerate(table)
        for repeat, value in enumerate(values, 1)
    ]
    fill(repository, "nasty", {"group": "int"}, {"x": "real"}, rows)


def check(found, table):
    assert len(found.rows) == len(table)
    for row, values in zip(found.dicts(), table, strict=True):
        for kind in KINDS:
            assert same(row[f"{kind}(x)"], exact(kind, values)), (kind, values, row)


def test_both_databases_agree_with_fractions(repository):
    table = samples()
    enter(repository, table)
    check(results(repository, "nasty", by=["group"], aggregates=KINDS), table)


def test_groups_that_are_made_in_parts_agree_too(sqlite, monkeypatch):
    monkeypatch.setattr(query_aggregates, "MANY_EXPERIMENTS", 1)
    monkeypatch.setattr(query_aggregates, "PART_SIZE", 7)
    kinds = tuple(kind for kind in KINDS if kind != "median")
    table = samples()
    enter(sqlite, table)
    found = results(sqlite, "nasty", by=["group"], aggregates=kinds)
    for row, values in zip(found.dicts(), table, strict=True):
        for kind in kinds:
            assert same(row[f"{kind}(x)"], exact(kind, values)), (kind, values, row)


def test_a_chart_of_a_value_that_diverged_is_drawn(repository):
    enter(repository, NASTY)
    found = group_frame(repository, "nasty", ["group"], "x", spread="yes")
    grouping = found.attrs["grouped"]
    for values, row in zip(NASTY, found.to_dict("records"), strict=True):
        assert same(row[grouping.value], exact("mean", values))
        if len(values) > 1:
            assert same(row[grouping.spread["deviation"]], exact("std", values))


def test_rows_are_sorted_by_what_was_computed_anew(repository):
    enter(repository, [[1e16, 3.0, -1e16], [1e16, 1.0, -1e16], [0.5], [1e16, 2.0, -1e16]])
    found = results(
        repository, "nasty", by=["group"], aggregates=["sum"], sort=["-sum(x)"], limit=3
    )
    assert [row[0] for row in found.rows] == [0, 3, 1]


def test_only_rows_in_doubt_are_fetched(repository, monkeypatch):
    enter(repository, [[1.0, 2.0], [3.0, 5.0, 4.0]])
    monkeypatch.setattr(query_aggregates, "_values", None)
    found = results(repository, "nasty", by=["group"], aggregates=KINDS)
    assert found.dicts()[1]["std(x)"] == 1.0


def test_integers_are_added_exactly(repository):
    rows = [{"n": 1, "k": k, "repeat": i} for i, k in enumerate([2**62, 2**62 + 2, 2**62 + 1], 1)]
    fill(repository, "whole", {"n": "int"}, {"k": "int"}, rows)
    (row,) = results(repository, "whole", by=["n"], aggregates=["std", "sum", "max"]).dicts()
    assert row["std(k)"] == 1.0
    assert row["max(k)"] == 2**62 + 2
    assert same(row["sum(k)"], float(3 * 2**62 + 3))
