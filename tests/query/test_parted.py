"""Groups that are made part by part are those of all rows at once."""

import math
import random

import pytest

from tests.query.conftest import fill
from zenturio.query import aggregates, results
from zenturio.query.frames import group_frame


@pytest.fixture
def varied(sqlite):
    """Numbers, infinities, texts, truths and gaps; some failed; indices beyond 63 bits."""
    chance = random.Random(3)
    rows = [
        {
            "index": 2**64 + number if number % 2 else number,
            "n": chance.choice([1, 2, None]),
            "solver": chance.choice(["cg", "Ä", "zz", None]),
            "fast": chance.random() < 0.5,
            "wtime": chance.choice([None, chance.gauss(1e6, 1e-3), chance.random()]),
            "cores": chance.randrange(9),
            "odd": chance.choice([1.0, math.inf, -math.inf, math.nan]),
            "status": chance.choice(["ok", "ok", "failed"]),
        }
        for number in range(300)
    ]
    parameters = {"n": "int", "solver": "str", "fast": "bool"}
    fill(sqlite, "all", parameters, {"wtime": "real", "cores": "int", "odd": "real"}, rows)
    return sqlite


def both(monkeypatch, ask):
    """The answer of all at once, and that of parts of about *size* experiments."""
    whole = ask()
    monkeypatch.setattr(aggregates, "MANY_EXPERIMENTS", 1)
    monkeypatch.setattr(aggregates, "PART_SIZE", 16)
    asked = []
    merged = aggregates._merged
    monkeypatch.setattr(aggregates, "_merged", lambda *given: asked.append(1) or merged(*given))
    return whole, ask(), asked


def near(row, other):
    """Whether both hold the same, but for the last digits of computed numbers."""
    return all(
        type(a) is type(b)
        and (
            a == b
            or (isinstance(a, float) and (math.isclose(a, b, abs_tol=1e-8) or math.isnan(a + b)))
        )
        for a, b in zip(row, other, strict=True)
    )


@pytest.mark.parametrize("by", [("n",), ("solver", "fast"), ("n", "solver", "fast")])
@pytest.mark.parametrize("sort", [(), ("-wtime",), ("solver", "-count(*)")])
def test_results_are_the_same_in_the_same_order(varied, monkeypatch, by, sort):
    if "solver" not in by:
        sort = tuple(each for each in sort if each != "solver")
    aggregates = ("mean", "min", "max", "std", "count", "sum")
    whole, parts, asked = both(
        monkeypatch, lambda: results(varied, "all", by=by, aggregates=aggregates, sort=sort)
    )
    assert len(asked) == len(whole.rows) > 1
    assert (parts.columns, parts.notes, parts.sql) == (whole.columns, whole.notes, whole.sql)
    assert parts.experiments == whole.experiments
    for row, other in zip(parts.rows, whole.rows, strict=True):
        assert near(row, other)


def test_a_median_is_asked_of_all_rows(varied, monkeypatch):
    ask = lambda: results(varied, "all", by=["n"], aggregates=["median"], metrics=["wtime"])  # noqa: E731
    whole, parts, asked = both(monkeypatch, ask)
    assert not asked
    assert parts.rows == whole.rows


@pytest.mark.parametrize("where", [None, "n == 1", "status == 'failed'"])
def test_charts_have_the_same_groups_and_texts_in_the_order_of_their_first(
    varied, monkeypatch, where
):
    ask = lambda: group_frame(  # noqa: E731
        varied, "all", ["solver", "n"], "cores", where=where, spread="yes"
    )
    whole, parts, asked = both(monkeypatch, ask)
    assert asked
    found, expected = (
        {tuple(map(str, row[:2])): row[2:] for row in each.itertuples(index=False, name=None)}
        for each in (parts, whole)
    )
    assert found.keys() == expected.keys()
    for key, row in found.items():
        assert near(row, expected[key])
    assert list(parts["solver"].drop_duplicates()) == list(whole["solver"].drop_duplicates())
    assert parts.attrs["sql"] == whole.attrs["sql"]


def test_a_group_for_each_row_is_not_looked_for_in_parts_without_end(varied, monkeypatch):
    whole, parts, _ = both(monkeypatch, lambda: results(varied, "all", by=["wtime", "cores"]))
    assert parts.rows == whole.rows
    monkeypatch.setattr("zenturio.query.frames.MOST_GROUPS", 40)
    with pytest.raises(Exception, match="more than 40 combinations"):
        group_frame(varied, "all", ["wtime"], "cores")
