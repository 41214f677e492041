"""Quantiles, intervals and other aggregates: one definition in every database and in the copy."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from tests.query.conftest import fill
from zenturio.errors import NotFoundError, ZenError
from zenturio.experiment import aggregates
from zenturio.query import raw, results, statistics
from zenturio.query.aggregates import AGGREGATES, check_aggregate, exact_aggregate
from zenturio.record import columnar_copy

DEFINED = ("var", "sem", "iqr", "geomean", "mean_low", "mean_high", "median_low", "median_high",
           "p5", "p25", "p90", "p99.9", "p0", "p50")  # fmt: skip
SAMPLES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=60)


@given(SAMPLES, st.floats(0, 1))
def test_a_quantile_is_that_of_numpy(values, share):
    expected = float(np.quantile(values, share))
    scale = max(map(abs, values))
    assert aggregates.quantile(values, share) == pytest.approx(expected, abs=1e-12 * scale)
    assert exact_aggregate("p50")(values) == pytest.approx(aggregates.median(values), rel=1e-15)


@given(SAMPLES)
def test_spreads_are_those_of_scipy(values):
    scale = max(map(abs, values)) or 1.0
    assert exact_aggregate("iqr")(values) == pytest.approx(
        scipy.stats.iqr(values), abs=1e-11 * scale
    )
    if np.std(values) > 1e-6 * scale:
        assert exact_aggregate("sem")(values) == pytest.approx(scipy.stats.sem(values), rel=1e-9)
        assert exact_aggregate("var")(values) == pytest.approx(np.var(values, ddof=1), rel=1e-9)
        low, high = scipy.stats.t.interval(
            0.95, len(values) - 1, np.mean(values), scipy.stats.sem(values)
        )
        assert exact_aggregate("mean_low")(values) == pytest.approx(low, abs=1e-9 * scale)
        assert exact_aggregate("mean_high")(values) == pytest.approx(high, abs=1e-9 * scale)


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=40))
def test_a_geometric_mean_is_that_of_scipy_and_needs_positive_values(values):
    assert exact_aggregate("geomean")(values) == pytest.approx(scipy.stats.gmean(values), rel=1e-12)
    assert exact_aggregate("geomean")([*values, 0.0]) is None
    assert exact_aggregate("geomean")([*values, math.inf]) is None


@pytest.mark.parametrize("count", [5, 6, 7, 12, 40, 1000])
def test_the_interval_of_a_median_leaves_out_as_many_as_the_binomial_test_allows(count):
    low = exact_aggregate("median_low")(range(count))
    if count < 6:
        assert low is None
        return
    # So many values may lie below the median, but not one more.
    below = int(low)
    assert 2 * scipy.stats.binom.cdf(below, count, 0.5) <= 0.05
    assert 2 * scipy.stats.binom.cdf(below + 1, count, 0.5) > 0.05
    assert exact_aggregate("median_high")(range(count)) == count - 1 - below


def test_what_has_no_value_is_none():
    for kind in ("var", "sem", "mean_low", "median_low"):
        assert exact_aggregate(kind)([1.0]) is None
    assert exact_aggregate("p90")([1.0]) == 1.0
    assert aggregates.quantile([], 0.5) is None
    assert aggregates.quantile([-math.inf, 1.0, math.inf], 0.5) == 1.0
    assert aggregates.quantile([-1e308, 1e308], 0.5) == 0.0
    assert statistics.mean_interval([math.inf, 1.0]) is None


def test_a_quantile_is_named_by_its_percentage():
    for name in ("p5", "p0", "p99.99", "median"):
        check_aggregate(name)
    for name in ("p100", "p-1", "p", "p5.", "q5", "p90%"):
        with pytest.raises(ZenError, match="no aggregate"):
            check_aggregate(name)
    with pytest.raises(NotFoundError, match="did you mean 'geomean'"):
        check_aggregate("geomeans")


def rows():
    chance = np.random.default_rng(7)
    groups = {"even": 1.0, "near": 1e6, "tiny": 1e-9, "few": 3.0}
    made = []
    for name, centre in groups.items():
        count = 3 if name == "few" else 40
        values = chance.normal(centre, centre / 10, count).tolist()
        made += [{"solver": name, "wtime": v, "steps": int(v) % 7 - 3} for v in values]
    made += [{"solver": "few", "wtime": None, "steps": 5}, {"solver": "none", "steps": 1}]
    made += [{"solver": "signs", "wtime": v, "steps": 0} for v in (-1.0, 1.0, 1e-9, 2.0, -3.0, 0.5)]
    made[3]["status"] = made[50]["status"] = "failed"
    return [{**row, "index": number} for number, row in enumerate(made)]


@pytest.fixture(params=["databases", "copy"])
def study(request, repository, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(columnar_copy, "COPY_ROWS", 1 if request.param == "copy" else 10**12)
    fill(repository, "s", {"solver": "str"}, {"wtime": "real s", "steps": "int"}, rows())
    return repository


def test_every_database_and_the_copy_say_what_the_definition_says(study):
    answer = results(study, "s", by=["solver"], aggregates=[*DEFINED, "median"])
    columns = dict(zip(answer.columns, zip(*answer.rows, strict=True), strict=True))
    for at, solver in enumerate(columns["solver"]):
        for metric in ("wtime", "steps"):
            values = [r[metric] for r in rows() if r["solver"] == solver
                      and r.get("status") != "failed" and r.get(metric) is not None]  # fmt: skip
            for kind in DEFINED:
                expected = exact_aggregate(kind)(values) if values else None
                found = columns[f"{kind}({metric})"][at]
                near = expected if expected is None else pytest.approx(expected, rel=1e-12, abs=0)
                assert found == near, (solver, metric, kind)
    assert answer.units["p90(wtime)"] == "s"
    assert answer.units["var(wtime)"] == "(s)²"


def test_an_order_by_a_defined_aggregate_is_that_of_its_values(study):
    answer = results(study, "s", by=["solver"], aggregates=["mean_high"], metrics=["wtime"], sort=["-wtime"])  # fmt: skip
    high = [row[-1] for row in answer.rows if row[-1] is not None]
    assert high == sorted(high, reverse=True)
    assert answer.rows[0][0] == "near"


def test_the_tried_ones_are_counted_beside_those_that_are_used(study):
    answer = results(study, "s", by=["solver"], aggregates=["count", "tried"], metrics=["wtime"])
    assert answer.columns == ("solver", "count(*)", "tried", "count(wtime)")
    counts = {row[0]: row[1:] for row in answer.rows}
    assert counts["even"] == (39, 40, 39)
    assert counts["near"] == (39, 40, 39)
    assert counts["few"] == (4, 4, 3)
    assert counts["none"] == (1, 1, 0)
    (whole,) = results(study, "s", aggregates=["tried"], by=[], metrics=["wtime"], limit=1).rows
    assert whole


def test_sql_of_sqlite_knows_the_same_functions(sqlite):
    fill(sqlite, "s", {"n": "int"}, {"wtime": "real s"}, [{"n": n, "wtime": n / 10} for n in range(20)])  # fmt: skip
    names = ("sem", "iqr", "geomean", "mean_low", "mean_high", "median_low", "median_high")
    calls = ", ".join(f"{name}(wtime + 1)" for name in names)
    text = f"SELECT {calls}, var_samp(wtime + 1), quantile(wtime + 1, 0.9), quantile(wtime, 2) FROM study_s"
    ((*found, var, nineties, none),) = raw(sqlite, text).rows
    values = [n / 10 + 1 for n in range(20)]
    assert found == pytest.approx([exact_aggregate(name)(values) for name in names])
    assert (var, nineties) == pytest.approx((np.var(values, ddof=1), np.quantile(values, 0.9)))
    assert none is None


def test_what_sql_is_shown_can_be_run(study):
    for kind in ("mean", *DEFINED):
        answer = results(study, "s", by=["solver"], aggregates=[kind], metrics=["wtime"])
        assert len(raw(study, answer.sql).rows) == len(answer.rows)
    assert {*DEFINED} - {"p99.9", "p0", "p50"} < {*AGGREGATES}
