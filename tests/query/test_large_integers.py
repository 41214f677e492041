"""Integers that have the same real next to them are different numbers."""

import math
import operator
from collections import Counter
from functools import partial

import pytest

from query.conftest import fill, new_repository
from zenturio.query import results
from zenturio.query.frames import as_reals, group_frame, study_frame, varying_parameters
from zenturio.query.listing import query_listing
from zenturio.query.regression import fit
from zenturio.query.study_table import TableQuery
from zenturio.study.best_points import best


def _alike(near):
    return [near, near + 1, near, -near, -near - 1, 7, 2**53, 2**53 + 1]


def _among_reals(near):
    return [near, near + 1, near, float(near + 2**20), -near - 1, 7, 0.5, 2**53 + 1]


@pytest.fixture(scope="module", params=[70, 62], ids=["beyond 63 bits", "within 63 bits"])
def near(request):
    return 2**request.param


@pytest.fixture(scope="module", params=[_alike, _among_reals], ids=["alike", "among reals"])
def values(request, near):
    return request.param(near)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def study(request, tmp_path_factory, values):
    rows = [{"n": v, "t": i} for i, v in enumerate(values)]
    kind = "int" if float not in map(type, values) else ""
    with new_repository(request, tmp_path_factory) as repository:
        fill(repository, "s", {"n": kind}, {"t": "real"}, rows)
        yield repository


def _chosen(study, where):
    return [int(row[-1]) for row in results(study, "s", where=where).rows]


def _expected(values, meets):
    return [i for i, value in enumerate(values) if meets(value)]


def test_groups_are_of_exact_values(study, values):
    found = results(study, "s", by=["n"], aggregates=["sum"]).rows
    assert [row[0] for row in found] == sorted(set(values))
    sums = {v: sum(i for i, each in enumerate(values) if each == v) for v in values}
    assert {row[0]: row[-1] for row in found} == sums
    drawn = group_frame(study, "s", ["n"], "t", "count")
    assert sorted(drawn["rows"]) == sorted(Counter(values).values())
    assert varying_parameters(study, "s") == ["n"]


def test_parts_of_many_rows_are_grouped_in_the_same_way(study, values, monkeypatch):
    monkeypatch.setattr("zenturio.query.aggregates.MANY_EXPERIMENTS", 1)
    found = results(study, "s", by=["n"], metrics=["t"], aggregates=["count"], sort=["-n"]).rows
    assert [row[0] for row in found] == sorted(set(values), reverse=True)


SIGNS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def test_conditions_compare_exact_values(study, values, near):
    for sign, compare in SIGNS.items():
        for number in (near, near + 1, -near - 1, 7, 2**53, 2**53 + 1):
            expected = _expected(values, partial(compare, number))
            assert _chosen(study, f"{number} {sign} n") == expected, (sign, number)


def test_lists_hold_exact_values(study, values, near):
    for options in [(near + 1, 7), (near, 0.5), (2**53 + 1, 0.5, -near)]:
        written = ", ".join(map(repr, options))
        inside = set(_expected(values, options.__contains__))
        assert _chosen(study, f"n in ({written})") == sorted(inside)
        assert _chosen(study, f"n not in ({written})") == sorted({*range(8)} - inside)


def test_a_chain_and_a_sum_are_exact(study, values, near):
    chain = f"{near - 1} < n <= {near} or n < 1 - {near + 1}"
    expected = [i for i, v in enumerate(values) if near - 1 < v <= near or v < -near]
    assert _chosen(study, chain) == expected


def test_pages_choose_and_sort_by_exact_values(study, values):
    wanted = TableQuery("s", sort=("n",))
    shown = query_listing(study, wanted, lambda found: [row.cells[0] for row in found.first(9)])
    assert shown == sorted(values)
    taken = query_listing(
        study, TableQuery("s"), lambda f: f.taken(f.catalog.columns["n"], 20).values
    )
    assert list(taken) == sorted(set(values))


def test_aggregates_are_of_exact_values_within_63_bits(study, values, near):
    if near >= 2**63:
        pytest.skip("aggregates of larger ones are reals")
    row = results(study, "s", by=["t"], metrics=["n"], aggregates=["min", "max"]).rows
    assert {each[0]: each[-1] for each in row} == {float(i): v for i, v in enumerate(values)}


BEYOND = 10**400
"""No real is as large."""


def diverged(repository):
    fill(repository, "s", {"n": "int"}, {"y": "int"}, [
        {"n": n, "y": y} for n, y in enumerate([3, BEYOND, -BEYOND, 5, 4])
    ])  # fmt: skip
    return repository


def test_an_integer_beyond_all_reals_is_recorded_sorted_and_filtered(repository):
    study = diverged(repository)
    values = [record.outcome.metrics["y"] for record in study.records("s")]
    assert values == [3, BEYOND, -BEYOND, 5, 4]
    assert _numbers(study, sort=("y",)) == [2, 0, 4, 3, 1]
    assert _numbers(study, where="y > 4") == [1, 3]


def _numbers(repository, **options):
    return [row[0] for row in results(repository, "s", columns=["n"], **options).rows]


def test_an_integer_beyond_all_reals_is_infinite_in_aggregates_and_scores(sqlite):
    study = diverged(sqlite)
    names = ["min", "max", "median", "count"]
    (row,) = results(study, "s", by=["repeat"], aggregates=names).dicts()
    assert [row[f"{name}(y)"] for name in names] == [-math.inf, math.inf, 4, 5]
    ranking = best(study, "s", 5, "MAXIMIZE y")
    assert [point.values["n"] for point in ranking.points] == [3, 4, 0]
    frame = study_frame(study, "s")
    assert as_reals(frame["y"]).tolist() == [3, math.inf, -math.inf, 5, 4]
    assert math.isfinite(fit(frame, "y", ["n"]).r2)
