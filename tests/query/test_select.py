"""What is asked of a study is answered the same by both databases, and by plain Python."""

import math
import statistics
from dataclasses import replace

import pytest

from record.reference import ReferenceRepository
from tests.query.conftest import METRICS, PARAMETERS, fill, matmul
from zenturio.errors import ExpressionError, InputError, NotFoundError
from zenturio.experiment.experiment import MEASURED_WHEN, Missing
from zenturio.query import study_frame
from zenturio.query.select_results import results
from zenturio.record import SEED_KIND, Field


@pytest.fixture(scope="module")
def study(shared_repository):
    fill(shared_repository, "matmul", PARAMETERS, METRICS, matmul())
    return shared_repository


def ok(where=lambda row: True):
    return [row for row in matmul() if row.get("status") != "failed" and where(row)]


def test_every_experiment_that_succeeded_is_a_row_in_the_order_of_the_space(study):
    found = results(study, "matmul")
    assert found.columns == ("n", "threads", "solver", "repeat", "wtime", "gflops")
    assert found.dicts() == [{name: row[name] for name in found.columns} for row in ok()]
    assert found.units == {"wtime": "s", "gflops": "GFLOP/s"}
    assert found.summary == "35 of 35 rows, from 35 of 36 experiments"
    assert found.notes == ("gflops is missing in 1 of 35",)


def test_groups_have_an_aggregate_of_each_metric(study):
    found = results(study, "matmul", by=["n", "threads"], aggregates=["mean", "min", "max", "std", "count", "median", "sum"], metrics=["gflops"])  # fmt: skip
    assert len(found.rows) == 6
    for row in found.dicts():
        group = [r for r in ok() if (r["n"], r["threads"]) == (row["n"], row["threads"])]
        values = [r["gflops"] for r in group if r["gflops"] is not None]
        assert row["count(*)"] == len(group)
        assert row["count(gflops)"] == len(values)
        assert row["mean(gflops)"] == pytest.approx(statistics.mean(values))
        assert row["min(gflops)"] == min(values)
        assert row["max(gflops)"] == max(values)
        assert row["std(gflops)"] == pytest.approx(statistics.stdev(values))
        assert row["median(gflops)"] == pytest.approx(statistics.median(values))
        assert row["sum(gflops)"] == pytest.approx(sum(values))
    assert found.units["std(gflops)"] == "GFLOP/s"
    assert "count(gflops)" not in found.units
    assert found.notes == ("gflops is missing in 1 of 35",)


def test_a_metric_is_missing_only_where_its_condition_holds(repository):
    rows = [
        {"n": n, "solver": solver, "time": 1.0, "steps": steps, "work": work}
        for n, solver, steps, work in [
            (1, "cg", 5, 10),
            (2, "cg", Missing("`steps` matched nothing in stdout"), None),
            (1, "lu", Missing(f"{MEASURED_WHEN}solver == 'cg'"), Missing(f"it needs steps: {MEASURED_WHEN}x")),
            (2, "lu", Missing(f"{MEASURED_WHEN}solver == 'cg'"), Missing(f"it needs steps: {MEASURED_WHEN}x")),
        ]
    ]  # fmt: skip
    parameters, metrics = (
        {"n": "int", "solver": "str"},
        {"time": "real", "steps": "int", "work": "int"},
    )
    fill(repository, "s", parameters, metrics, rows)
    definition = repository.definition("s")
    text = b"ZEN$ METRIC steps FROM stdout REGEX 'steps' WHEN solver == 'cg'"
    repository.open("s", replace(definition, sources={"p.zen": text}))
    notes = ("steps is missing in 1 of 2", "work is missing in 1 of 2")
    assert results(repository, "s").notes == notes
    assert results(repository, "s", by=["n"]).notes == notes
    assert results(repository, "s", by=["n"], where="n == 1").notes == ()
    assert results(repository, "s", where="solver == 'lu'").notes == ()


def test_aggregates_alone_are_over_repeats(study):
    found = results(study, "matmul", aggregates=["mean", "std"], metrics=["wtime"])
    assert found.columns == ("n", "threads", "solver", "count(*)", "mean(wtime)", "std(wtime)")
    assert len(found.rows) == 12
    first = found.dicts()[0]
    assert (first["count(*)"], first["mean(wtime)"]) == (3, pytest.approx(1.48))
    assert first["std(wtime)"] == pytest.approx(0.1)


def test_a_group_of_one_has_no_deviation(study):
    found = results(study, "matmul", where="repeat == 1", aggregates=["std"], metrics=["wtime"])
    assert all(row[-1] is None for row in found.rows)


def test_a_condition_chooses_rows(study):
    found = results(study, "matmul", where="n // 128 == 2 and solver in ('cg', 'x') and wtime < 1")
    expected = ok(lambda r: r["n"] // 128 == 2 and r["solver"] == "cg" and r["wtime"] < 1)
    assert [row["wtime"] for row in found.dicts()] == [row["wtime"] for row in expected]


def test_a_condition_on_the_status_looks_at_failures(study):
    found = results(study, "matmul", where="status == 'failed' and cause == 'exit 3'")
    assert len(found.rows) == 1
    assert len(results(study, "matmul", where="host == 'kofel'").rows) == 35


def test_rows_are_sorted_with_what_is_missing_at_the_end(study):
    found = results(study, "matmul", sort=["-gflops"])
    values = [row["gflops"] for row in found.dicts()]
    assert values[-1] is None
    assert values[:-1] == sorted(values[:-1], reverse=True)
    by_text = [row["solver"] for row in results(study, "matmul", sort=["-solver", "n"]).dicts()]
    assert by_text == sorted(by_text, reverse=True)


def test_groups_are_sorted_by_an_aggregate(study):
    found = results(study, "matmul", by=["n"], aggregates=["min", "max"], sort=["-wtime"])
    values = [row["min(wtime)"] for row in found.dicts()]
    assert values == sorted(values, reverse=True)
    found = results(study, "matmul", by=["n"], aggregates=["min", "max"], sort=["max(wtime)"])
    assert [row["n"] for row in found.dicts()] == [128, 256, 512]


def test_a_limit_cuts_rows_and_says_so(study):
    found = results(study, "matmul", limit=2)
    assert found.summary == "2 of 35 rows, from 35 of 36 experiments"
    grouped = results(study, "matmul", by=["n"], limit=2, where="n > 128")
    assert grouped.summary == "2 of 2 rows, from 24 of 36 experiments"
    assert results(study, "matmul", limit=0).rows == ()


def test_the_sql_can_be_pasted_elsewhere(study):
    found = results(study, "matmul", where="n > 200 and solver == \"it's\"", by=["n"], metrics=["wtime"], limit=3)  # fmt: skip
    assert "'it''s'" in found.sql
    assert found.sql.endswith("LIMIT 3")
    plain = results(study, "matmul", where="n / 3 > 60.5 or solver == 'cg'", sort=["wtime"])
    with study.engine.connect() as connection:
        again = connection.exec_driver_sql(study.expand_views(plain.sql)).fetchall()
    assert [tuple(row) for row in again] == list(plain.rows)


def test_nan_and_infinity_are_told_apart_from_what_is_missing(repository):
    values = [1.0, math.nan, math.inf, None, -math.inf, 3.0]
    rows = [{"n": n, "x": value} for n, value in enumerate(values)]
    fill(repository, "odd", {"n": "int"}, {"x": "real"}, rows)
    found = [row[1] for row in results(repository, "odd").rows]
    assert found[0] == 1.0
    assert math.isnan(found[1])
    assert found[2:] == [math.inf, None, -math.inf, 3.0]


def test_nan_does_not_count_in_an_aggregate_and_is_noted(repository):
    rows = [{"n": 1, "x": x, "index": 0, "repeat": i} for i, x in enumerate([1.0, math.nan, 3.0])]
    fill(repository, "odd", {"n": "int"}, {"x": "real"}, rows)
    found = results(repository, "odd", by=["n"], aggregates=["mean", "max", "count"])
    assert found.rows == ((1, 3, 2.0, 3.0, 2),)
    assert found.notes == ("x is missing in 1 of 3",)


def test_metrics_that_are_no_numbers_are_left_out_of_groups_and_named(repository):
    rows = [{"n": 1, "x": x, "s": "text", "repeat": i} for i, x in enumerate([1.0, "none"])]
    fill(
        repository,
        "odd",
        {"n": "int"},
        {m: Field(m, None) for m in ("x", "s", "energy", "ipc")},
        rows,
    )
    found = results(repository, "odd", by=["n"])
    assert found.columns == ("n", "count(*)")
    assert found.notes == (
        "x is not always a number, so it is left out",
        "no experiment has a value of energy, ipc",
    )
    for metric, message in {
        "x": "'x' is not always a number", "s": "'s' is not a number",
        "energy": "'energy' has no value in any experiment",
    }.items():  # fmt: skip
        with pytest.raises(InputError, match=message):
            results(repository, "odd", by=["n"], metrics=[metric])


def test_infinities_are_aggregated_as_they_are_and_have_no_deviation(repository):
    rows = [{"n": 1, "x": x, "repeat": i} for i, x in enumerate([1.0, math.inf, 3.0])]
    fill(repository, "odd", {"n": "int"}, {"x": "real"}, rows)
    found = results(repository, "odd", by=["n"], aggregates=["mean", "min", "median", "std"])
    assert found.rows == ((1, 3, math.inf, 1.0, 3.0, None),)


def test_every_kind_of_value_comes_back_as_it_was(repository):
    rows = [
        {"i": 3, "b": True, "s": "Größe\n", "m": 2**70},
        {"i": None, "b": False, "s": "", "m": 1},
    ]
    fill(repository, "kinds", {"i": "int", "b": "bool", "s": "str"}, {"m": "int"}, rows)
    found = results(repository, "kinds").rows
    assert found == ((3, True, "Größe\n", 2**70), (None, False, "", 1))
    assert [type(v) for v in found[0]] == [int, bool, str, int]
    grouped = results(repository, "kinds", by=["b"], aggregates=["max"], metrics=["i"])
    assert grouped.rows == ((False, 1, None), (True, 1, 3))


def test_names_are_data(repository):
    names = {
        'sel"ect': "int",
        "Größe": "int",
        "block-size": "int",
        "count(*)": "int",
        "status": "str",
    }
    row = {'sel"ect': 1, "Größe": 2, "block-size": 3, "count(*)": 4, "status": "ok"}
    fill(repository, "a'b\"c;%s", names, {"%(x)s": "real"}, [{**row, "%(x)s": 0.5}])
    found = results(
        repository, "a'b\"c;%s", where="Größe == 2 and `block-size` == 3 and status == 'ok'"
    )
    assert found.dicts() == [{**row, "%(x)s": 0.5}]
    grouped = results(repository, "a'b\"c;%s", by=['sel"ect', "status"], sort=["-%(x)s"])
    assert grouped.rows == ((1, "ok", 1, 0.5),)


@pytest.mark.parametrize(
    ("wishes", "error", "message"),
    [
        ({"by": ["N"]}, NotFoundError, r"no column 'N'[\s\S]*'n'"),
        ({"sort": ["-gflop"]}, NotFoundError, r"'gflops'"),
        ({"by": ["n"], "sort": ["threads"]}, InputError, "the answer has no column 'threads'"),
        ({"aggregates": ["avg"]}, InputError, "no aggregate is named 'avg'"),
        ({"where": "wtme > 1"}, ExpressionError, r"unknown name 'wtme'[\s\S]*'wtime'"),
        ({"where": "n + 1"}, ExpressionError, "a condition is true or false, but this is int"),
        ({"where": "solver > 3"}, ExpressionError, "solver, which is str"),
        ({"where": "index(n) == 0"}, ExpressionError, "does not know positions"),
        ({"limit": -1}, InputError, "the limit is -1"),
        ({"by": ["n"], "metrics": ["solver"]}, InputError, "'solver' is not a number"),
    ],
)
def test_what_cannot_be_answered_says_why(study, wishes, error, message):
    with pytest.raises(error, match=message):
        results(study, "matmul", **wishes)


def test_a_study_that_is_not_there_is_named_with_its_like(study):
    with pytest.raises(NotFoundError, match=r"matmull[\s\S]*'matmul'"):
        results(study, "matmull")


def test_a_repository_in_memory_says_that_it_is_no_database():
    with pytest.raises(InputError, match="not a database"):
        results(ReferenceRepository(), "matmul")


def test_an_empty_study_has_no_rows(repository):
    fill(repository, "empty", PARAMETERS, METRICS, [])
    assert results(repository, "empty").rows == ()
    assert results(repository, "empty", by=["n"]).summary == "0 of 0 rows, from 0 of 0 experiments"
    assert results(repository, "empty", where="wtime > 1 and solver == 'a'").rows == ()


def test_a_notebook_shows_a_table_with_inert_names(study):
    shown = results(study, "matmul", limit=3)._repr_html_()
    assert shown.count("<tr>") == 4
    assert "<th>wtime (s)</th>" in shown
    assert "3 of 35 rows" in shown


def test_times_have_their_median_where_no_aggregate_is_named(repository):
    rows = [{"n": 1, "repeat": at, "index": 1, "wtime": t, "y": t}
            for at, t in enumerate((1.0, 2.0, 9.0), 1)]  # fmt: skip
    fields = {"wtime": Field("wtime", "real", "s"), "y": "real"}
    fill(repository, "timed", {"n": "int"}, fields, rows)
    found = results(repository, "timed", by=["n"])
    assert found.columns == ("n", "count(*)", "median(wtime)", "mean(y)")
    assert found.rows == ((1, 3, 2.0, 4.0),)
    assert results(repository, "timed", by=["n"], sort=["-wtime"]).rows == found.rows


def test_a_seed_makes_no_point(repository):
    fields = {"n": "int", "seed": Field("seed", "int", kind=SEED_KIND)}
    rows = [
        {"n": n, "seed": run, "repeat": run, "index": n, "wtime": n + run}
        for n in (1, 2)
        for run in (1, 2, 3)
    ]
    fill(repository, "mc", fields, {"wtime": "real"}, rows)
    found = results(repository, "mc", aggregates=["mean", "count"])
    assert found.columns == ("n", "count(*)", "mean(wtime)", "count(wtime)")
    assert found.rows == ((1, 3, 3.0, 3), (2, 3, 4.0, 3))
    listed = results(repository, "mc", limit=1)
    assert listed.columns == ("n", "seed", "repeat", "wtime")
    table = study_frame(repository, "mc")
    assert list(table.columns) == ["n", "seed", "repeat", "wtime"]
    assert table.attrs["parameters"] == ["n"]


WIDE = (5, 2**70, -(2**70), 2**63, 2**63 - 1, -(2**63), 0, 10**30, -(10**30), 2**70 + 1, -(2**64))


def test_integers_beyond_63_bits_are_sorted_as_numbers(repository):
    fill(repository, "big", {"k": "int"}, {"v": ""}, [{"k": v % 7, "v": v} for v in WIDE])
    for sign, order in (("", sorted(WIDE)), ("-", sorted(WIDE, reverse=True))):
        found = results(repository, "big", sort=[f"{sign}v"], metrics=["v"])
        assert [row[-1] for row in found.rows] == order
    above = results(repository, "big", where="v > 1e18 or v == 3", metrics=["v"])
    assert sorted(row[-1] for row in above.rows) == sorted(v for v in WIDE if v > 1e18 or v == 3)
    (mean,) = results(repository, "big", by=[], aggregates=["mean"], where="k >= 0").rows[:1]
    assert mean is not None


def test_no_number_is_never_the_best(repository):
    values = (1.5, math.nan, math.inf, -math.inf, None, 0.0)
    rows = [{"k": k, "r": value} for k, value in enumerate(values)]
    fill(repository, "s", {"k": "int"}, {"r": "real"}, rows)
    for sign, order in (("", [3, 5, 0, 2]), ("-", [2, 0, 5, 3])):
        found = results(repository, "s", sort=[f"{sign}r"])
        assert [row[0] for row in found.rows][:4] == order


def test_minus_zero_is_a_number(repository):
    rows = [{"k": k, "r": value} for k, value in enumerate((-0.0, 2.0, -0.0, 0.0))]
    fill(repository, "s", {"k": "int"}, {"r": "real"}, rows)
    fill(repository, "t", {"k": "int"}, {"r": "real"}, [{"k": 1, "r": -0.0}] * 2)
    assert results(repository, "s", where="r == 0").rows[0][0] == 0
    assert results(repository, "s", where="r == 0").found == 3
    found = results(repository, "s", aggregates=["count"], by=["k"])
    assert [row[-1] for row in found.rows] == [1, 1, 1, 1]
    signs = [math.copysign(1, row[-1]) for row in results(repository, "s").rows]
    assert signs == [-1, 1, -1, 1]
    assert [math.copysign(1, row[-1]) for row in results(repository, "t").rows] == [-1, -1]
    stored = [r.outcome.metrics["r"] for r in repository.records("s")]
    assert [math.copysign(1, value) for value in stored] == signs
