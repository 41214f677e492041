"""Speedups, serial fractions and laws of scaling, against independent implementations."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import zenturio as zen
from tests.query.conftest import fill
from zenturio.cli.main import app
from zenturio.errors import InputError
from zenturio.query.scaling import (
    fitted_models,
    scaling_curve,
    serial_fraction,
    study_scaling,
    welch_half_width,
)
from zenturio.show.charts.chart_query import ChartQuery, counts_workers
from zenturio.show.charts.column_charts import chart as draw
from zenturio.show.charts.study_charts import draw_chart

WORKERS = (1, 2, 4, 8, 16, 32)


def usl(q, contention=0.05, coherency=0.001):
    return q / (1 + contention * (q - 1) + coherency * q * (q - 1))


def measured(speedup, *, noise=0.02, repeats=5, seed=1, workers=WORKERS):
    """Times of a program with this speedup."""
    random = np.random.default_rng(seed)
    count = np.repeat(np.array(workers, dtype=float), repeats)
    return count, 10 / speedup(count) * np.exp(random.normal(0, noise, len(count)))


def test_speedups_and_their_intervals_are_those_of_welch_on_logarithms():
    count, times = measured(usl)
    curve = scaling_curve(count, times)
    first = np.log(times[count == 1])
    for point in curve.points[1:]:
        sample = np.log(times[count == point.workers])
        answer = scipy.stats.ttest_ind(first, sample, equal_var=False).confidence_interval(0.95)
        assert math.log(point.speedup) == pytest.approx(first.mean() - sample.mean())
        assert np.log(point.speedup_interval) == pytest.approx(list(answer), rel=1e-9)
        assert point.efficiency == point.speedup / point.workers
        assert point.value == pytest.approx(scipy.stats.gmean(times[count == point.workers]))
        low, high = point.serial_interval
        assert low < point.serial < high


def test_a_serial_fraction_is_that_of_karp_and_flatt():
    # The serial part of a program that follows Amdahl's law, at any number of workers.
    for q in WORKERS[1:]:
        assert serial_fraction(1 / (0.1 + 0.9 / q), q) == pytest.approx(0.1)
        assert serial_fraction(0.1 + 0.9 * q, q, "weak") == pytest.approx(0.1)
    assert serial_fraction(1.95, 2) == pytest.approx(0.0256410256)  # their paper's first table
    assert serial_fraction(4.0, 4) == 0


LAWS = {
    "amdahl": (lambda q, a, s: a - np.log(s + (1 - s) / q), (0, 0.1)),
    "gustafson": (lambda q, a, s: a + np.log(s + (1 - s) * q), (0, 0.1)),
    "usl": (lambda q, a, s, k: a + np.log(usl(q, s, k)), (0, 0.1, 0.01)),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("seed", range(3))
def test_coefficients_and_intervals_are_those_of_scipy(law, seed):
    count, times = measured(usl, seed=seed, noise=0.1)
    speeds = -np.log(times)
    model = next(m for m in fitted_models(count, speeds) if m.name == law)
    function, start = LAWS[law]
    exactly = {"xtol": 1e-14, "ftol": 1e-15, "gtol": 1e-15}
    with np.errstate(invalid="ignore"):  # on its way it leaves where the law has a value
        best, covariance = scipy.optimize.curve_fit(function, count, speeds, start, **exactly)
    assert [*model.coefficients.values()] == pytest.approx(best[1:], rel=1e-5)
    reach = scipy.stats.t.ppf(0.975, len(count) - len(best))
    for interval, value, error in zip(
        model.intervals.values(), best[1:], np.sqrt(np.diag(covariance))[1:], strict=True
    ):
        assert [*interval] == pytest.approx(
            [value - reach * error, value + reach * error], rel=1e-4
        )
    off = speeds - function(count, *best)
    assert model.missed == pytest.approx(math.sqrt((off**2).mean()), rel=1e-6)


def test_the_law_that_a_program_follows_is_the_best():
    def best(speedup):
        return scaling_curve(*measured(speedup, repeats=10)).models[0]

    model = best(usl)
    assert model.name == "usl"
    assert model.coefficients["contention"] == pytest.approx(0.05, abs=0.01)
    assert model.best_at == pytest.approx(math.sqrt(0.95 / 0.001), rel=0.1)
    assert model.limit == pytest.approx(usl(math.sqrt(0.95 / 0.001)), rel=0.05)
    model = best(lambda q: 1 / (0.1 + 0.9 / q))
    assert model.name in ("amdahl", "usl")
    assert model.limit == pytest.approx(10, rel=0.2)
    assert best(lambda q: 0.2 + 0.8 * q).name == "gustafson"
    assert best(lambda q: q).name == "ideal"


@pytest.mark.parametrize("seconds", [0.9885111, 1.0, 3e-3])
def test_a_program_that_more_workers_do_not_speed_up_never_gets_slower_again(seconds):
    count, times = np.repeat([1.0, 2.0, 4.0, 8.0, 16.0], 6), np.full(30, seconds)
    (model,) = (m for m in scaling_curve(count, times).models if m.name == "usl")
    assert model.best_at is None
    assert model.limit == pytest.approx(1)


@pytest.mark.parametrize("name", ["amdahl", pytest.param("gustafson", marks=pytest.mark.slow)])
def test_intervals_hold_the_true_coefficient_as_often_as_they_say(name):
    speedup = {"amdahl": lambda q: 1 / (0.1 + 0.9 / q), "gustafson": lambda q: 0.1 + 0.9 * q}[name]
    hits = 0
    for seed in range(5000, 5200):
        count, times = measured(speedup, seed=seed, repeats=3)
        model = next(m for m in fitted_models(count, -np.log(times)) if m.name == name)
        low, high = model.intervals["serial"]
        hits += low <= 0.1 <= high
    assert 182 <= hits <= 198  # 190, give or take 2.6 standard errors


def test_weak_scaling_is_judged_by_the_work_that_was_done():
    count, times = measured(usl, noise=0)
    curve = scaling_curve(count, times * count, mode="weak")
    assert [p.speedup for p in curve.points] == pytest.approx([*map(usl, WORKERS)])
    assert curve.models[0].coefficients["contention"] == pytest.approx(0.05)
    assert curve.points[1].efficiency == pytest.approx(times[0] / (times * count)[count == 2][0])


def test_a_rate_is_better_where_it_is_more():
    count, times = measured(usl)
    by_time, by_rate = scaling_curve(count, times), scaling_curve(count, 5 / times, is_rate=True)
    assert [p.speedup for p in by_rate.points] == pytest.approx([p.speedup for p in by_time.points])


def test_speedups_are_against_the_fewest_workers():
    count, times = measured(usl, workers=(4, 8, 16, 32), noise=0)
    curve = scaling_curve(count, times)
    assert curve.base == 4
    assert curve.points[-1].efficiency == pytest.approx(usl(32) / usl(4) / 8)


def test_without_repeats_there_is_no_interval_and_few_points_determine_few_laws():
    curve = scaling_curve([1, 2], [10.0, 6.0])
    assert curve.points[1].speedup_interval is None
    assert [m.name for m in curve.models] == ["ideal"]
    curve = scaling_curve([1, 2, 4], [10.0, 6.0, 4.0])
    assert {m.name for m in curve.models} == {"ideal", "amdahl", "gustafson"}
    assert welch_half_width(np.array([1.0]), np.array([1.0, 2.0])) is None
    assert welch_half_width(np.array([1.0, 1.0]), np.array([2.0, 2.0])) == 0


@given(
    st.lists(st.tuples(st.sampled_from(WORKERS), st.floats(1e-6, 1e6)), min_size=2, max_size=40),
    st.floats(1e-3, 1e3),
)
def test_another_unit_changes_no_speedup(rows, factor):
    count, times = zip(*rows, strict=True)
    curve = scaling_curve(count, times)
    other = scaling_curve(count, [time * factor for time in times])
    for point, twin in zip(curve.points, other.points, strict=True):
        assert twin.speedup == pytest.approx(point.speedup, rel=1e-9)
    assert all(math.isfinite(v) for m in curve.models for v in m.coefficients.values())


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scaling")
    (folder / ".zenturio").mkdir()

    def program(threads, n, copy):
        return {"time": n * copy / usl(threads), "rate": usl(threads) / copy}

    space = zen.Space(threads=[1, 2, 4, 8], n=[10, 20, 40, 80], copy=[1, 1.01])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield zen.run(program, space)


def test_points_that_differ_in_nothing_else_make_a_curve(study):
    scaling = study.scaling("threads", "time")
    assert len(scaling.curves) == 8
    assert scaling.curves[0].key == {"n": 10, "copy": 1.0}
    assert scaling.curves[0].points[-1].speedup == pytest.approx(usl(8))
    (curve, *others) = study.scaling("threads", "rate", by=["n"], rate=True).curves
    assert (len(others), curve.key, curve.points[0].rows) == (3, {"n": 10}, 2)
    assert curve.points[-1].speedup == pytest.approx(usl(8))


def test_what_the_objective_maximizes_is_a_rate_unless_somebody_says_otherwise(sqlite):
    rows = [{"threads": p, "rate": usl(p)} for p in (1, 2, 4)]
    fill(sqlite, "s", {"threads": "int"}, {"rate": "real"}, rows)
    goals = ({"direction": "maximize", "expression": "rate"},)
    sqlite.open("s", replace(sqlite.definition("s"), goals=goals))
    query = ChartQuery.of(studies="s", kind="scaling", x="threads", y="rate")
    note = "rate counts as a rate: the OBJECTIVE maximizes it"
    for rate, is_rate in ((None, True), (True, True), (False, False)):
        speedup = pytest.approx(usl(4) if is_rate else 1 / usl(4))
        scaling = study_scaling(sqlite, "s", "threads", "rate", is_rate=rate)
        assert (scaling.is_rate, scaling.notes) == (is_rate, (note,) * (rate is None))
        assert scaling.curves[0].points[-1].speedup == speedup
        drawn = draw_chart(sqlite, replace(query, rate=rate)).chart
        assert drawn.panels[0].marks[0].y[-1] == speedup
        assert (note in drawn.note) == (rate is None)


def test_an_address_says_whether_a_metric_is_a_rate():
    for rate in (None, True, False):
        query = ChartQuery.of(studies="s", kind="scaling", rate=rate)
        pairs = [(name, value) for name, value in query.to_address().items() if value]
        read = ChartQuery.from_address([p for p in pairs if p[0] != "study"])
        assert read.rate is rate


def test_points_with_as_much_work_for_each_thread_make_a_curve(study):
    scaling = study.scaling("threads", "time", weak="n", by=[])
    by_share = {curve.key["n / threads"]: curve for curve in scaling.curves}
    assert [*by_share] == [10, 20, 40, 5, 2.5]
    assert [p.workers for p in by_share[10].points] == [1, 2, 4, 8]
    assert by_share[10].points[-1].speedup == pytest.approx(usl(8))
    assert scaling.notes == ("2 of 7 groups have one value of threads: left out",)
    assert [*study.scaling("threads", "time", weak="n ** 2", by=[]).curves[0].key] == [
        "(n ** 2) / threads"
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"over": "thread"}, "there is no column 'thread'"),
        ({"over": "time"}, "there is no column 'time'"),
        ({"over": "threads", "metric": "tim"}, "has no column 'tim'"),
        ({"over": "threads", "weak": "m"}, "there is no column 'm'"),
        ({"over": "threads", "weak": "n - 10"}, "the work n - 10 is 0 at a point"),
        ({"over": "threads", "metric": "time", "where": "threads == 1"}, "no points that differ"),
    ],
)
def test_what_cannot_be_told_is_an_error_that_says_why(study, options, message):
    with pytest.raises(InputError, match=message):
        study.scaling(**{"metric": "time", **options})


def test_the_command_line_prints_what_python_returns_and_draws_it(study, tmp_path):
    command = ["scaling", study.name, "--over", "threads", "--metric", "time", "--by", "n"]
    said = CliRunner().invoke(app, [*command, "--where", "n <= 20", "-o", "-"])
    assert said.exit_code == 0, said.output
    assert "strong scaling of time over threads, n=20" in said.output
    assert "serial fraction" in said.output
    assert "contention 0.05" in said.output
    assert "curve: " in said.output
    facts = json.loads(CliRunner().invoke(app, [*command, "--json"]).output)
    expected = study.scaling("threads", "time", by=["n"]).facts()
    assert facts == json.loads(json.dumps(expected))
    picture = tmp_path / "a.svg"
    said = CliRunner().invoke(app, [*command, "-o", str(picture)])
    assert picture.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("name", "is_count"),
    [("threads", True), ("OMP_NUM_THREADS", True), ("np", True), ("n_nodes", True), ("ranks", True),
     ("n", False), ("size", False), ("nodes_file", False), ("thread_block", False)],
)  # fmt: skip
def test_names_of_numbers_of_workers_are_known(name, is_count):
    assert counts_workers(name) == is_count


def test_a_chart_has_the_speedups_their_law_and_the_ideal(study):
    options = {"x": "threads", "y": "time", "colour": "n", "where": "n <= 20 and copy == 1"}
    chart = study.plot("scaling", **options)
    (panel,) = chart.panels
    assert chart.levels == ("n=10", "n=10: usl", "n=20", "n=20: usl", "ideal")
    assert [mark.name for mark in panel.marks] == [*chart.levels]
    assert panel.marks[0].y == pytest.approx([usl(p) for p in (1, 2, 4, 8)])
    assert panel.marks[-1].y == (1, 8)
    assert "workers" not in chart.note
    by_default = study.plot("scaling", y="time", colour="n", where="n <= 20 and copy == 1")
    assert by_default.panels == chart.panels
    other = study.plot("scaling", x="n", y="time", where="threads == 1 and copy == 1")
    assert "n is taken for the number of workers" in other.note
    with pytest.raises(InputError, match="no parameter of program has the name of a number of"):
        study.plot("scaling", y="time", colour="threads")
    with pytest.raises(InputError, match="no curve has two values"):
        study.plot("scaling", x="threads", y="time", where="threads == 2")
    table = pd.DataFrame({"name": ["a", "b"], "t": [1.0, 2.0]})
    with pytest.raises(InputError, match="'name' is not a number of workers"):
        draw(table, "scaling", x="name", y="t")
