"""Studies of more columns than a database answers with at a time."""

import json
import math

import pytest

from postgres import slow_on_server
from query.conftest import fill
from zenturio.experiment.experiment import Experiment, Outcome, Recipe
from zenturio.query import export, fit, raw, results, study_frame
from zenturio.query.comparison import compare
from zenturio.query.frames import group_frame
from zenturio.query.listing import query_listing
from zenturio.query.study_table import TableQuery
from zenturio.record import DriverProcess, Field, StudyDefinition

ROWS = 4
MOSTLY_ON_SQLITE = pytest.mark.parametrize(
    "repository", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True
)
"""Lists and stars are of both databases in the gate: they part their statements in the same way."""


def metrics_of(row, count):
    """Metric i of a row: the last one sorts rows against their order."""
    return {f"m{i}": row * 1000.0 + i for i in range(count - 1)} | {f"m{count - 1}": -float(row)}


def study(repository, count):
    """Four points, two groups of *x*, and *count* metrics that were reported."""
    rows = [{"x": row % 2, "n": row} | metrics_of(row, count) for row in range(ROWS)]
    repository.open("wide", StudyDefinition((Field("x", "int"), Field("n", "int")), ()))
    lease = repository.acquire_lease("wide", DriverProcess.current(), seconds=600)
    pairs = []
    for row, values in enumerate(rows):
        point = {name: values.pop(name) for name in ("x", "n")}
        digest = f"{row:032x}"
        e = Experiment(digest, row, 1, point, (), (), {}, None, Recipe())
        pairs.append((e, Outcome(digest, "ok", "", values, 1, "kofel", 1.0, 2.0)))
    repository.add_results("wide", lease.number, pairs)
    repository.release_lease(lease)


@pytest.fixture(params=[pytest.param(1500, marks=pytest.mark.slow), 2500])
def count(request):
    return request.param


@slow_on_server("repository")
def test_all_metrics_are_listed_in_any_order(repository, count):
    study(repository, count)
    found = results(repository, "wide", sort=[f"m{count - 1}"], where="m0 >= 1000", limit=2)
    assert found.columns == ("x", "n", *(f"m{i}" for i in range(count)))
    assert found.rows == tuple((row % 2, row, *metrics_of(row, count).values()) for row in (3, 2))
    assert (found.found, found.total) == (3, 4)
    text = export(found, "csv")
    assert text.splitlines()[1].endswith(f"{3000 + count - 2}.0,-3.0")
    table = study_frame(repository, "wide")
    assert list(table.columns[:4]) == ["x", "n", "repeat", "m0"]
    assert table[f"m{count - 1}"].tolist() == [-0.0, -1.0, -2.0, -3.0]
    assert table[f"m{count - 2}"].tolist() == [row * 1000 + count - 2 for row in range(ROWS)]


@MOSTLY_ON_SQLITE
def test_all_metrics_are_aggregated(repository):
    count = 1500
    study(repository, count)
    last = f"mean(m{count - 1})"
    found = results(repository, "wide", by=["x"], sort=[last], aggregates=["mean", "max"])
    assert len(found.columns) == 2 + 2 * count
    by_name = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    assert [row["x"] for row in by_name] == [1, 0]
    assert [row["count(*)"] for row in by_name] == [2, 2]
    for row, x in zip(by_name, (1, 0), strict=True):
        for i in (0, count // 2, count - 2):
            assert row[f"mean(m{i})"] == (x + 1) * 1000 + i
            assert row[f"max(m{i})"] == (x + 2) * 1000 + i
    assert found.notes == ()


@MOSTLY_ON_SQLITE
def test_pages_and_what_is_drawn_of_them(repository, count):
    study(repository, count)
    (last, *_) = rows = query_listing(
        repository, TableQuery("wide", sort=(f"m{count - 1}",)), lambda found: found.first(2)
    )
    assert [row.cells[1] for row in rows] == [3, 2]
    assert len(last.cells) == 2 + count
    assert last.cells[-2:] == (3000.0 + count - 2, -3.0)
    drawn = group_frame(repository, "wide", ["x"], f"m{count - 2}")
    assert drawn[f"m{count - 2}"].tolist() == [1000.0 + count - 2, 2000.0 + count - 2]


@MOSTLY_ON_SQLITE
def test_wide_studies_are_compared_and_fitted(repository):
    study(repository, 1500)
    table = study_frame(repository, "wide")
    assert [p.first for p in compare(table, table, "m1400").pairs] == [
        1400.0, 2400.0, 3400.0, 4400.0,
    ]  # fmt: skip
    assert fit(table, "m1400", ["n"]).kind == "linear"


@MOSTLY_ON_SQLITE
def test_a_study_of_two_thousand_parameters(repository):
    names = [f"p{i}" for i in range(2000)]
    rows = [
        dict.fromkeys(names, 7) | {"p1999": i // 2, "repeat": i % 2 + 1, "index": i // 2, "y": i}
        for i in range(4)
    ]
    fill(repository, "wide", dict.fromkeys(names, "int"), {"y": "real"}, rows)
    found = results(repository, "wide", where="p1999 >= 0", sort=["-y"])
    assert len(found.columns) == 2002
    assert [(row[0], row[1999], row[-1]) for row in found.rows] == [
        (7, 1, 3.0), (7, 1, 2.0), (7, 0, 1.0), (7, 0, 0.0),
    ]  # fmt: skip
    means = results(repository, "wide", aggregates=["mean", "std", "count", "min"])
    assert [(row[1999], *row[2000:]) for row in means.rows] == [
        (0, 2, 0.5, math.sqrt(0.5), 2, 0.0), (1, 2, 2.5, math.sqrt(0.5), 2, 2.0),
    ]  # fmt: skip
    by = results(repository, "wide", by=["p1999"], metrics=["y"])
    assert by.rows == ((0, 2, 0.5), (1, 2, 2.5))
    assert [row.cells[1999] for row in query_listing(repository, TableQuery("wide"), lambda f: f.first(9))] == [
        0, 0, 1, 1,
    ]  # fmt: skip


@MOSTLY_ON_SQLITE
def test_kinds_of_machine_and_missing_values_stay_with_their_rows(repository):
    study(repository, 1500)
    lease = repository.acquire_lease("wide", DriverProcess.current())
    e = Experiment("f" * 32, 9, 1, {"x": 1, "n": 9}, (), (), {}, None, Recipe())
    values = {"m0": math.nan, "m1499": 2**70, "m700": math.inf}
    done = Outcome(e.digest, "ok", "", values, 1, "kofel", 1.0, 2.0)
    repository.add_results("wide", lease.number, [(e, done)])
    repository.release_lease(lease)
    row = results(repository, "wide", where="n == 9").dicts()[0]
    assert math.isnan(row["m0"])
    assert (row["m1"], row["m700"], row["m1499"]) == (None, math.inf, 2**70)
    lines = export(results(repository, "wide"), "jsonl").splitlines()
    assert json.loads(lines[4])["m1499"] == 2**70


@slow_on_server("repository")
def test_a_star_answers_with_as_many_columns_as_there_may_be(repository):
    study(repository, 2500)
    row = raw(repository, "SELECT * FROM study_wide WHERE n = 2").dicts()[0]
    assert (row["n"], row["m1000"]) == (2, 3000.0)
    one = raw(repository, "SELECT m2498, count(*) AS c FROM study_wide GROUP BY 1 ORDER BY 1")
    assert one.rows[0] == (2498.0, 1)
