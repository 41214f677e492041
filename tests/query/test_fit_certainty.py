"""Intervals of coefficients, the test against the constant, and where new values will lie."""

import json

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from typer.testing import CliRunner

import zenturio as zen
from zenturio.cli.main import app
from zenturio.errors import InputError
from zenturio.query.fit_certainty import chance_of_constant, prediction_interval
from zenturio.query.regression import fit

SIZES = np.array([1.0, 2, 3, 4, 6, 8, 12, 16])


def noisy(truth, *, noise=0.05, repeats=1, seed=1, sizes=SIZES):
    random = np.random.default_rng(seed)
    n = np.repeat(sizes, repeats)
    return {"n": n, "y": truth(n) * (1 + noise * random.normal(size=len(n)))}


@pytest.mark.parametrize("seed", range(5))
def test_intervals_of_a_line_are_those_of_scipy(seed):
    table = noisy(lambda n: 3 + 2 * n, seed=seed)
    model = fit(table, "y", ["n"], kinds=["linear"], noise="equal")
    line = scipy.stats.linregress(table["n"], table["y"])
    reach = scipy.stats.t.ppf(0.975, len(SIZES) - 2)
    pairs = ((line.intercept, line.intercept_stderr), (line.slope, line.stderr))
    for interval, (value, error) in zip(model.intervals, pairs, strict=True):
        assert [*interval] == pytest.approx([value - reach * error, value + reach * error])


def test_intervals_are_weighted_as_the_noise_is_and_follow_nonlinear_shapes():
    table = noisy(lambda n: 5 * n**1.5)
    model = fit(table, "y", ["n"], kinds=["power"], noise="relative")
    # Scale by y: deviations in proportion to it weigh the same.
    best, covariance = scipy.optimize.curve_fit(
        lambda n, a, b: a * n**b, table["n"], table["y"], (1, 1), sigma=table["y"], xtol=1e-14,
        ftol=1e-14, gtol=1e-14,
    )  # fmt: skip
    reach = scipy.stats.t.ppf(0.975, len(SIZES) - 2)
    for interval, value, error in zip(
        model.intervals, best, np.sqrt(np.diag(covariance)), strict=True
    ):
        assert [*interval] == pytest.approx(
            [value - reach * error, value + reach * error], rel=1e-3
        )


def test_intervals_hold_the_true_coefficient_as_often_as_they_say():
    hits = 0
    for seed in range(100):
        table = noisy(lambda n: 3 + 2 * n, seed=seed, noise=0.1)
        model = fit(table, "y", ["n"], kinds=["linear"], noise="relative")
        low, high = model.intervals[1]
        hits += low <= 2 <= high
    assert hits >= 85  # 95 if all was exact; weights come from the values themselves


@pytest.mark.slow
def test_a_metric_that_depends_on_nothing_is_rarely_said_to_depend():
    kinds = ["linear", "power", "logarithmic"]
    false = 0
    for seed in range(15):
        table = noisy(lambda n: 0 * n + 7, seed=seed)
        false += chance_of_constant(table, "y", ["n"], kinds=kinds, permutations=39) <= 0.05
    assert false <= 4  # one is expected; more than 4 once in 1,000 times
    table = noisy(lambda n: 7 + n)
    assert chance_of_constant(table, "y", ["n"], kinds=kinds) == 1 / 200
    assert chance_of_constant(table, "y", ["n"], kinds=kinds) == chance_of_constant(
        table, "y", ["n"], kinds=kinds
    )
    with pytest.raises(InputError, match="no formula over n can be fitted"):
        chance_of_constant(table, "y", ["n"], kinds=["constant"])


def test_a_step_beyond_all_squares_is_not_taken_and_not_told():
    random = np.random.default_rng(40)
    n = np.repeat([1.0, 2, 4, 8, 16, 32, 64], 4)
    table = {"n": n, "y": n * 7e-4 * (1 + 0.2 * random.random(28) ** 4)}
    kinds = ["linear", "power", "logarithmic"]
    assert chance_of_constant(table, "y", ["n"], kinds=kinds, permutations=19) == 1 / 20


@pytest.mark.parametrize("noise", ["equal", "relative"])
def test_a_band_holds_new_values_about_as_often_as_it_says(noise):
    hits, widths = 0, []
    for seed in range(60):
        table = noisy(lambda n: 3 + 2 * n, seed=seed, repeats=5)
        model = fit(table, "y", ["n"], kinds=["linear"], noise=noise)
        low, high = prediction_interval(table, model, {"n": 10})
        new = 23 * (1 + 0.05 * np.random.default_rng(10_000 + seed).normal())
        hits += low <= new <= high
        widths.append(high - low)
    assert hits >= 51  # 54 are promised, 57 expected
    assert np.median(widths) < 23 * 0.05 * 10


def test_few_rows_have_no_band_and_a_constant_has_one():
    table = noisy(lambda n: 3 + 2 * n)
    model = fit(table, "y", ["n"], kinds=["linear"])
    assert prediction_interval(table, model, {"n": 10}) is None
    table = noisy(lambda n: 0 * n + 7, repeats=5)
    model = fit(table, "y", ["n"], kinds=["constant"])
    low, high = prediction_interval(table, model, {"n": 10})
    assert low < 7 < high


def test_the_command_line_shows_how_sure_a_fit_is(tmp_path, monkeypatch):
    (tmp_path / ".zenturio").mkdir()
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(3)

    def program(n, copy=1):
        return {"time": (3 + 2 * n) * (1 + 0.02 * float(random.normal()))}

    study = zen.run(program, zen.Space(n=list(range(1, 21))), name="one").name
    copies = zen.run(program, zen.Space(n=[1, 2, 4, 8, 16], copy=[1, 2, 3, 4]), name="four").name
    command = ["fit", study, "--y", "time", "--x", "n", "--kind", "linear,power,logarithmic"]
    more = ["--at", "n=32", "--runners-up", "--against-constant"]
    said = CliRunner().invoke(app, [*command, *more])
    assert said.exit_code == 0, said.output
    assert "coefficients: " in said.output
    assert "at n=32: 6" in said.output
    assert "power: " in said.output
    assert "time depends on n (p = 0.00" in said.output or "p = 0.01" in said.output
    (facts,) = json.loads(CliRunner().invoke(app, [*command, *more, "--json"]).output)
    assert [kind["kind"] for kind in facts["runners_up"]] == ["power", "logarithmic"]
    assert facts["band"][0] < facts["predicted"] < facts["band"][1]
    assert len(facts["coefficients"]) == 2
    for wrong, message in (("m=3", "--at says no n"), ("n", "--at n")):
        assert message in str(CliRunner().invoke(app, [*command, "--at", wrong]).exception)
    command[1] = copies
    parts = CliRunner().invoke(app, [*command, "--by", "copy", "--at", "n=32"]).output
    assert parts.count("an interval needs 19 rows") == 4
