"""Shares, effects and Shapley effects: those of formulas, of SALib, and of the definition."""

import itertools
import math

import numpy as np
import pytest
from SALib.analyze import sobol
from SALib.analyze.morris import analyze as analyze_morris
from SALib.sample.morris import sample as sample_morris

import zenturio as zen
from zenturio.query.sensitivity import (
    _means,
    elementary_effects,
    point_distances,
    shapley_effects,
    variance_shares,
)
from zenturio.search.designs import Design


def ishigami(point):
    x, y, z = point.values()
    return math.sin(x) + 7 * math.sin(y) ** 2 + 0.1 * z**4 * math.sin(x)


def test_shares_of_ishigamis_function_are_those_of_its_formula():
    angle = zen.uniform(-math.pi, math.pi)
    space = zen.Space(x=angle, y=angle, z=angle)
    values = np.array([ishigami(point) for point in Design.read("saltelli:2048").points(space)])
    values[5] = math.nan  # its row counts for nothing
    shares, used = variance_shares(values, ["x", "y", "z"])
    assert used == 2047
    # Ishigami and Homma (1990), by integrals: first order 0.314, 0.442, 0; total 0.558, 0.442, 0.244.
    expected = {"x": (0.314, 0.558), "y": (0.442, 0.442), "z": (0.0, 0.244)}
    assert [share.factor for share in shares] == ["x", "y", "z"]
    for share in shares:
        first, total = expected[share.factor]
        assert share.first == pytest.approx(first, abs=0.06)
        assert share.total == pytest.approx(total, abs=0.06)
        assert share.total_interval.low < total < share.total_interval.high
        assert share.matters == "yes"


def test_shares_of_a_factor_that_does_nothing_are_zero_and_few_rows_tell_nothing():
    space = zen.Space(a=range(10), b=range(10))
    points = Design.read("saltelli:64").points(space)
    (first, second), used = variance_shares(np.array([3.0 * p["a"] for p in points]), ["a", "b"])
    assert (first.factor, second.factor, second.total, second.matters) == ("a", "b", 0.0, "no")
    assert first.first == pytest.approx(1, abs=0.2)
    assert used == 64
    assert variance_shares(np.full(256, math.nan), ["a", "b"]) == ((), 0)
    constant, _ = variance_shares(np.ones(256), ["a", "b"])
    assert [share.total for share in constant] == [0, 0]


def test_elementary_effects_are_the_changes_of_each_factor():
    values = np.array([[1.0, 3.0, 2.0], [0.0, -1.0, 3.0], [math.nan, 1.0, 2.0]])
    effects, used = elementary_effects(values, [[0, 1], [1, 0], [0, 1]], ["a", "b"])
    assert used == 2
    assert [(e.factor, e.size, e.mean) for e in effects] == [("a", 3.0, 3.0), ("b", 1.0, -1.0)]
    assert effects[0].spread == pytest.approx(math.sqrt(2))


def test_a_text_nan_is_a_value_and_a_missing_value_is_none():
    keys = [("nan", 1.0), (math.nan, 1.0), (None, 1.0)]
    means, noise = _means(keys, np.array([1.0, 2.0, 4.0]))
    assert means == {("nan", 1.0): 1.0, (None, 1.0): 3.0}
    assert noise == pytest.approx(2 * 2 / 3)  # the variance of a repeat, over 1.5 of them


def test_shares_and_effects_are_those_of_salib():
    """The same values, in SALib's order: A, A with each factor of B, B, row by row."""
    rng = np.random.default_rng(3)
    blocks = rng.normal(size=(5, 64)) + rng.normal(size=64) * 2
    blocks -= blocks.mean(axis=1, keepdims=True)  # SALib takes off the mean of all blocks
    problem = {"num_vars": 3, "names": list("xyz"), "bounds": [[0, 1]] * 3}
    theirs = sobol.analyze(
        problem,
        blocks[[0, 2, 3, 4, 1]].T.ravel(),
        calc_second_order=False,
        num_resamples=10,
        seed=1,
    )
    ours = {share.factor: share for share in variance_shares(blocks.ravel(), list("xyz"))[0]}
    assert [ours[name].first for name in "xyz"] == pytest.approx(list(theirs["S1"]), abs=1e-12)
    assert [ours[name].total for name in "xyz"] == pytest.approx(list(theirs["ST"]), abs=1e-12)

    points = sample_morris(problem, 8, num_levels=4, seed=2)
    values = points[:, 0] * points[:, 1] - 3 * points[:, 2]
    theirs = analyze_morris(problem, points, values, num_levels=4, num_resamples=10, seed=1)
    paths = points.reshape(8, 4, 3)
    changed = (np.diff(paths, axis=1) != 0).argmax(axis=2)
    effects = elementary_effects(values.reshape(8, 4), changed.tolist(), list("xyz"))[0]
    by_name = {effect.factor: effect for effect in effects}
    step = 2 / 3  # SALib divides a change by the step, and gives falling ones the other sign
    for at, name in enumerate("xyz"):
        assert by_name[name].size / step == pytest.approx(theirs["mu_star"][at])


def exact_shapley(space, function):
    """The definition: the mean, over all orders, of what each parameter explains in addition."""
    points = list(space)
    names = [parameter.name for parameter in space.parameters]
    values = np.array([function(point) for point in points])

    def explained(known):
        groups = {}
        for point, value in zip(points, values, strict=True):
            groups.setdefault(tuple(point[name] for name in known), []).append(value)
        means = [np.mean(group) for group in groups.values() for _ in group]
        return np.var(means)

    effects = dict.fromkeys(names, 0.0)
    orders = list(itertools.permutations(names))
    for order in orders:
        for at, name in enumerate(order):
            effects[name] += (explained(order[: at + 1]) - explained(order[:at])) / len(orders)
    return {name: effect / values.var() for name, effect in effects.items()}


TIED = zen.Space(a=range(6), b=range(6), c=range(5), d=["x", "y"]).where("a + b <= 6")


def tied(point):
    return point["a"] * point["b"] + 2 * point["c"] + (point["d"] == "x") * point["a"]


def estimated(points, function, noise=0.0):
    names = ["a", "b", "c", "d"]
    values = np.array([function(point) for point in points])
    return {
        effect.parameter: effect
        for effect in shapley_effects(point_distances(points, names), values, names, noise)
    }


def test_shapley_effects_of_tied_parameters_are_those_of_their_definition():
    exact = exact_shapley(TIED, tied)
    assert sum(exact.values()) == pytest.approx(1)
    found = estimated(Design("lhs", 200, 1).points(TIED), tied)
    assert sum(effect.share for effect in found.values()) == pytest.approx(1)
    for name, effect in found.items():
        assert effect.share == pytest.approx(exact[name], abs=0.08)
        assert effect.interval.low < exact[name] < effect.interval.high
        assert effect.matters == "yes"


@pytest.mark.slow
def test_intervals_of_shapley_effects_hold_the_exact_value_mostly():
    exact = exact_shapley(TIED, tied)
    inside = 0
    for seed in range(60):
        found = estimated(Design("lhs", 60, seed).points(TIED), tied)
        inside += sum(e.interval.low <= exact[n] <= e.interval.high for n, e in found.items())
    assert inside >= 0.9 * 240


def test_noise_belongs_to_no_parameter():
    rng = np.random.default_rng(0)
    points = Design("lhs", 300, 1).points(TIED)
    found = estimated(points, lambda point: point["c"] + rng.normal() * math.sqrt(2), noise=2.0)
    assert sum(effect.share for effect in found.values()) == pytest.approx(0.5, abs=0.1)
    assert found["c"].share == pytest.approx(0.5, abs=0.1)
    assert abs(found["a"].share) < 0.07


def test_an_inactive_parameter_is_as_far_as_can_be_from_an_active_one():
    space = zen.Space(kind=["p", "q"], x=zen.parameter([1, 10, 1000], when="kind == 'p'"))
    points = [
        space.find(v) for v in ({"kind": "q"}, *({"kind": "p", "x": x} for x in (1, 10, 1000)))
    ]
    kind, x = point_distances(points, ["kind", "x"])
    assert x.tolist() == [[0, 1, 1, 1], [1, 0, 0.5, 1], [1, 0.5, 0, 0.5], [1, 1, 0.5, 0]]
    assert kind[0].tolist() == [0, 1, 1, 1]
