"""What goes with each parameter is told from chance, from interactions, and from the others."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from zenturio.errors import InputError
from zenturio.query import importances, results
from zenturio.query.frames import study_frame as frame_of
from zenturio.query.statistics import fisher

from .conftest import METRICS, PARAMETERS, fill, matmul


def sweep(formula, repeats=5, noise=0.1, seed=0, **sets):
    """Every combination of *sets*, so many times."""
    random = np.random.default_rng(seed)
    points = [dict(zip(sets, p, strict=True)) for p in itertools.product(*sets.values())]
    rows = [
        {**p, "y": formula(**p) + noise * random.normal()} for p in points for _ in range(repeats)
    ]
    table = pd.DataFrame(rows)
    table.attrs["parameters"] = list(sets)
    return table


def shares(found):
    return {each.parameter: each.share for each in found.parameters}


def test_a_share_is_the_variance_of_the_means_of_its_values_in_a_full_sweep():
    table = sweep(lambda a, b, c: a + 2 * b + a * b, a=range(4), b=range(3), c="xyz")
    found = importances(table, "y")
    spread = table["y"].var(ddof=0)
    for name, share in shares(found).items():
        means = table.groupby(name)["y"].mean()
        assert share == pytest.approx(means.var(ddof=0) / spread)
        for level, mean in zip(by_name(found, name).levels, means, strict=True):
            assert level.mean == pytest.approx(mean)
    within = table.groupby(["a", "b", "c"])["y"].var(ddof=0).mean()
    assert found.noise == pytest.approx(within / spread)


def by_name(found, name):
    return next(each for each in found.parameters if each.parameter == name)


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(1, 3),
    st.integers(0, 2**32 - 1),
)
def test_shares_interactions_and_noise_are_all_there_is(sizes, repeats, seed):
    random = np.random.default_rng(seed)
    values = random.normal(size=sizes)
    names = [f"p{i}" for i in range(len(sizes))]
    table = sweep(
        lambda **p: values[tuple(p.values())],
        repeats,
        seed=seed,
        **{name: range(size) for name, size in zip(names, sizes, strict=True)},
    )
    if max(sizes) == 1:
        with pytest.raises(InputError, match="no parameter varies"):
            importances(table, "y")
        return
    found = importances(table, "y")
    assert sum(shares(found).values()) + found.interactions + (found.noise or 0) == pytest.approx(1)
    assert (found.noise is None) == (repeats == 1)
    assert all(share > -1e-9 for share in shares(found).values())


def test_chance_is_that_of_the_analysis_of_variance():
    table = sweep(lambda a: a / 30, a=range(3), repeats=6)
    groups = [column["y"].to_numpy() for _, column in table.groupby("a")]
    assert by_name(importances(table, "y"), "a").chance == pytest.approx(
        stats.f_oneway(*groups).pvalue
    )


@given(st.floats(0, 1e3), st.integers(1, 3000), st.integers(1, 100_000))
def test_fishers_tail_is_that_of_scipy(ratio, above, below):
    assert fisher(ratio, above, below) == pytest.approx(stats.f.sf(ratio, above, below), abs=1e-7)


def test_what_acts_through_an_interaction_alone_matters_all_the_same():
    found = importances(
        sweep(lambda a, b, c: (2 * a - 1) * (2 * b - 1), a=(0, 1), b=(0, 1), c="xy"), "y"
    )
    assert shares(found)["a"] < 0.05
    assert by_name(found, "a").total > 0.9
    assert [by_name(found, name).matters for name in "abc"] == [True, True, False]


def verdicts(found):
    return {each.parameter: each.verdict for each in found.parameters}


UNKNOWN = "not enough data to tell"


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_an_interaction_that_was_not_repeated_is_not_taken_for_nothing(noise):
    table = sweep(lambda a, b: a ^ b, a=(0, 1), b=(0, 1), repeats=1, noise=noise)
    found = importances(table, "y")
    assert verdicts(found) == {"a": UNKNOWN, "b": UNKNOWN}
    table = found.result()
    assert [row[1:3] for row in table.rows] == [(None, None)] * 2
    assert any(note.startswith(f"{UNKNOWN} whether it matters: ") for note in table.notes)
    repeated = sweep(lambda a, b: a ^ b, a=(0, 1), b=(0, 1), repeats=3, noise=0.01)
    assert verdicts(importances(repeated, "y")) == {"a": "yes", "b": "yes"}


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_share_of_pure_noise_in_few_rows_is_not_shown(repeats):
    told = 0
    for seed in range(20):
        table = sweep(
            lambda a, b: 0.0, a=range(4), b=range(3), repeats=repeats, noise=1.0, seed=seed
        )
        found = importances(table, "y")
        told += sum(row[1] is not None for row in found.result().rows)
    assert told <= 6  # of 40: chance is below 5% for one in twenty, and two tests are made


def test_much_data_tells_that_a_parameter_does_not_matter():
    table = sweep(
        lambda a, b, c: a + 3 * c, a=range(4), b=range(3), c=range(3), repeats=40, noise=0.5
    )
    assert verdicts(importances(table, "y")) == {"a": "yes", "b": "no", "c": "yes"}
    once = sweep(lambda a, b: float(a), a=range(9), b=range(9), repeats=1, noise=0.01)
    assert verdicts(importances(once, "y")) == {"a": "yes", "b": "no"}


def test_what_does_nothing_seldom_matters():
    wrong = 0
    for seed in range(100):
        table = sweep(
            lambda a, b: float(a), seed=seed, noise=1.0, a=range(3), b=range(4), repeats=4
        )
        wrong += by_name(importances(table, "y"), "b").matters
    assert wrong <= 12


def test_what_another_parameter_explains_is_not_counted_twice():
    random = np.random.default_rng(1)
    a = random.integers(0, 5, 4000)
    b = np.where(
        random.random(4000) < 0.7, a, random.integers(0, 5, 4000)
    )  # as a search may choose
    table = pd.DataFrame({"a": a, "b": b, "y": a + 0.1 * random.normal(size=4000)})
    found = importances(table, "y", ["a", "b"])
    assert np.corrcoef(b, table["y"])[0, 1] > 0.6
    assert shares(found)["b"] == pytest.approx(0, abs=0.001)
    assert by_name(found, "a").matters
    assert not by_name(found, "b").matters


def test_numbers_with_many_values_are_taken_in_groups_of_neighbours():
    random = np.random.default_rng(2)
    x = random.random(3000)
    table = pd.DataFrame({"x": x, "who": [f"m{i}" for i in random.integers(0, 90, 3000)], "y": x})
    found = importances(table, "y", ["x", "who"])
    levels = by_name(found, "x").levels
    assert [level.rows for level in levels] == [300] * 10
    assert levels[0].label.split(" .. ")[0] == repr(float(x.min()))
    assert shares(found)["x"] == pytest.approx(0.99, abs=0.002)
    names = [level.label for level in by_name(found, "who").levels]
    assert (len(names), names[-1]) == (50, "others")


def test_inactive_parameters_are_a_level_and_missing_metrics_are_no_rows():
    table = pd.DataFrame(
        {"a": pd.Series([1, 1, None, None, 2], dtype="Int64"), "y": [1.0, 1.0, 5.0, 5.0, math.nan]}
    )
    found = importances(table, "y", ["a"])
    assert [(level.label, level.rows, level.mean) for level in found.parameters[0].levels] == [
        ("1", 2, pytest.approx(1)),
        ("none", 2, pytest.approx(5)),
    ]
    assert found.parameters[0].matters


def test_a_metric_that_never_changes_makes_nothing_important():
    found = importances(sweep(lambda a: 1.0, a=range(3), noise=0.0), "y")
    assert (found.parameters[0].share, found.parameters[0].matters) == (0, False)


def test_what_cannot_be_answered_is_told():
    table = sweep(lambda a: a, a=range(3))
    with pytest.raises(InputError, match="no column 'z'"):
        importances(table, "z")
    with pytest.raises(InputError, match="holds text"):
        importances(table.assign(y="much"), "y")
    with pytest.raises(InputError, match="no number in any row"):
        importances(table.assign(y=math.nan), "y")


def test_the_frame_of_a_study_says_what_its_parameters_are(sqlite):
    fill(sqlite, "matmul", PARAMETERS, METRICS, matmul())
    found = importances(frame_of(sqlite, "matmul"), "wtime")
    assert [each.parameter for each in found.parameters] == ["threads", "n", "solver"]
    assert found.rows == results(sqlite, "matmul").found
    assert found.result().columns[:2] == ("parameter", "share")
