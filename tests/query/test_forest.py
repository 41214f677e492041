"""Shares of a forest are the analysis of variance of its trees, and noise is not taken for one."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from zenturio.errors import InputError
from zenturio.query import forest as forest_module
from zenturio.query.forest import _tree_shares, forest_shares, parameter_bins
from zenturio.query.importance import UNKNOWN


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setattr(forest_module, "TREES", 16)
    monkeypatch.setattr(forest_module, "TRIAL_TREES", 8)


def table(columns, y):
    made = pd.DataFrame({**columns, "y": y})
    made.attrs["parameters"] = list(columns)
    return made


def ishigami(points, seed=1):
    x = np.random.default_rng(seed).uniform(-math.pi, math.pi, (points, 3))
    y = np.sin(x[:, 0]) + 7 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])
    return table(dict(zip("abc", x.T, strict=True)), y)


def test_the_shares_of_a_tree_are_those_of_its_values_at_all_points():
    """A naive twin: the tree's value at each point of the grid, and means over axes."""
    rng = np.random.default_rng(5)
    sizes = (4, 3, 5)
    codes = np.stack([rng.integers(size, size=60) for size in sizes], axis=1)
    y = codes[:, 0] * codes[:, 1] + np.sin(codes[:, 2]) + rng.normal(size=60)
    ordered = np.array([True, False, True])
    grower = forest_module._Grower(codes, y, sizes, ordered, max(sizes))
    tree = grower.grow(np.ones(60), 3)
    grid = np.zeros(sizes)
    for point in itertools.product(*map(range, sizes)):
        inside = [all(mask[i, code] for i, code in enumerate(point)) for mask in tree.masks]
        assert sum(inside) == 1, "the boxes of a tree divide the space"
        grid[point] = tree.values[inside.index(True)]
    firsts, totals, pair = _tree_shares(tree, sizes)
    for at in range(3):
        others = tuple(axis for axis in range(3) if axis != at)
        assert firsts[at] == pytest.approx(grid.mean(axis=others).var() / grid.var())
        assert totals[at] == pytest.approx(grid.var(axis=at).mean() / grid.var())
    both = grid.mean(axis=2).var() / grid.var()
    assert pair(0, 1) == pytest.approx(both - firsts[0] - firsts[1])
    for row, leaf in zip(codes, tree.leaf_of, strict=True):
        assert grid[tuple(row)] == tree.values[leaf]


def test_an_interaction_of_a_known_function_is_found():
    found = forest_shares(ishigami(600), "y")
    shares = {share.parameter: share for share in found.shares}
    # The function's own shares: first 0.314, 0.442, 0; total 0.557, 0.442, 0.244.
    assert [shares[name].first for name in "abc"] == pytest.approx([0.31, 0.44, 0.0], abs=0.15)
    assert [shares[name].total for name in "abc"] == pytest.approx([0.56, 0.44, 0.24], abs=0.15)
    assert [shares[name].verdict for name in "abc"] == ["yes"] * 3
    assert found.pairs[0].parameters == ("a", "c")
    assert found.pairs[0].share == pytest.approx(0.244, abs=0.05)
    assert found.explained > 0.7


def test_noise_is_neither_an_effect_nor_an_answer():
    rng = np.random.default_rng(2)
    columns = {name: rng.integers(0, 8, 80) for name in "abcd"}
    noise = forest_shares(table(columns, rng.normal(size=80)), "y")
    assert [share.verdict for share in noise.shares] == [UNKNOWN] * 4
    assert not noise.has_skill
    assert noise.pairs == ()
    one = forest_shares(table(columns, columns["a"] + rng.normal(size=80)), "y")
    assert {share.parameter: share.verdict for share in one.shares} == {
        "a": "yes", "b": "no", "c": "no", "d": "no",
    }  # fmt: skip


@pytest.mark.parametrize("seed", [1, 3, 4])
def test_a_share_that_may_be_nothing_is_not_known_to_matter(seed):
    """A value that few points have is missing from some bootstrap samples."""
    rng = np.random.default_rng(seed)
    a, mode = rng.integers(0, 8, 16), (rng.random(16) < 0.2).astype(int)
    found = forest_shares(table({"a": a, "mode": mode}, 10.0 * mode + 0.2 * a), "y")
    (share,) = (share for share in found.shares if share.parameter == "mode")
    assert share.total_interval.low < 0.01
    assert share.verdict == UNKNOWN


@pytest.mark.slow
def test_parameters_without_effect_are_rarely_said_to_matter():
    wrong = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        columns = {name: rng.integers(0, 8, 100) for name in "abcde"}
        found = forest_shares(table(columns, columns["a"] + 1.5 * rng.normal(size=100)), "y")
        wrong += any(s.verdict == "yes" for s in found.shares if s.parameter != "a")
    assert wrong <= 4  # of 40, at 95%


def test_what_a_poor_model_does_not_see_is_not_said_not_to_matter():
    """The sign of a product is a riddle to trees; a alone makes for a third of the variance."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (300, 5))
    y = x[:, 0] + 0.75 * np.sign(x[:, 1:].prod(axis=1))
    found = forest_shares(table(dict(zip("abcde", x.T, strict=True)), y), "y")
    assert forest_module.SOME_SKILL < found.explained < forest_module.MUCH_SKILL
    verdicts = {share.parameter: share.verdict for share in found.shares}
    assert verdicts == dict.fromkeys("bcde", UNKNOWN) | {"a": "yes"}


def test_texts_inactive_parameters_and_the_best_value_are_read_off_the_dependence():
    rng = np.random.default_rng(0)
    solver = rng.choice(["cg", "gmres", "jacobi"], 120)
    omega = np.where(solver == "jacobi", rng.choice([0.5, 0.7, 0.9], 120), np.nan)
    y = np.where(solver == "jacobi", 10 * np.nan_to_num(omega), 3.0)
    found = forest_shares(table({"solver": solver, "omega": omega}, y), "y")
    by_name = {each.bins.name: each for each in found.dependences}
    assert by_name["omega"].bins.labels == ("inactive", "0.5", "0.7", "0.9")
    assert by_name["solver"].bins.labels == ("cg", "gmres", "jacobi")
    means = by_name["solver"].means
    assert means[0] == pytest.approx(means[1], abs=0.2)
    assert means[2] > means[0] + 0.2
    assert all(
        low <= mean <= high
        for each in found.dependences
        for mean, (low, high) in zip(each.means, each.intervals, strict=True)
    )


@pytest.mark.parametrize(("scale", "log"), [(np.exp, True), (lambda x: x, False)])
def test_numbers_of_many_values_are_binned_on_the_axis_that_they_fill(scale, log):
    values = scale(np.random.default_rng(0).uniform(1, 9, 200))
    bins = parameter_bins("x", pd.Series(values))
    assert bins.log is log
    assert len(bins.labels) == 16
    assert np.bincount(bins.codes, minlength=16).min() > 3


def test_too_few_points_tell_nothing():
    with pytest.raises(
        InputError, match="not enough data for a model: 'y' has a number at 15 points"
    ):
        forest_shares(table({"a": range(15)}, range(15)), "y")
    with pytest.raises(InputError, match="'y' has the same value at all 20 points"):
        forest_shares(table({"a": range(20)}, [0.0] * 20), "y")
    with pytest.raises(InputError, match="no parameter varies"):
        forest_shares(table({"a": [1] * 20}, range(20)), "y")


def test_of_many_points_a_sample_is_fitted():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 4, 5000)
    found = forest_shares(table({"a": a}, a * 1.0), "y")
    assert (found.points, found.of) == (2000, 5000)
    assert found.shares[0].first == pytest.approx(1)
