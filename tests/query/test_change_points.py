"""Changes of level are found near where they are, and noise and outliers are none."""

import math

import numpy as np
import pytest

from zenturio.query.statistics import LEAST_SEGMENT, change_points, noise_of, pelt


def exact(values, penalty, least):
    """The segments that cost least, by trying each last segment (dynamic programming)."""
    best = {0: (-penalty, [])}
    for end in range(least, len(values) + 1):
        options = []
        for start, (cost, ends) in best.items():
            if end - start >= least:
                part = np.asarray(values[start:end])
                options.append(
                    (cost + float(((part - part.mean()) ** 2).sum()) + penalty, [*ends, end])
                )
        if options:
            best[end] = min(options)
    return best[len(values)][1][:-1]


@pytest.mark.parametrize("seed", range(30))
def test_segments_are_those_of_dynamic_programming(seed):
    random = np.random.default_rng(seed)
    values = random.normal(size=40) + np.repeat(random.normal(0, 3, 4), 10)
    for penalty in (1.0, 5.0, 20.0):
        assert pelt(values, penalty) == exact(values, penalty, LEAST_SEGMENT)


def test_the_noise_is_that_of_one_value_whatever_the_steps():
    random = np.random.default_rng(1)
    values = 0.02 * random.normal(size=2000) + np.repeat([0.0, 1.0, 5.0, 2.0], 500)
    assert noise_of(values) == pytest.approx(0.02, rel=0.1)


def white(random, count):
    return 0.02 * random.normal(size=count)


def with_outliers(random, count):
    return white(random, count) + (random.random(count) < 0.03) * random.exponential(0.3, count)


@pytest.mark.parametrize("noise", [white, with_outliers])
def test_of_steps_of_5_percent_92_percent_are_found_within_a_commit(noise):
    """55 of 60 are expected beside white noise; fewer than 49 (3 standard errors) is no chance."""
    random = np.random.default_rng(7)
    hits = 0
    for _ in range(60):
        values, at = noise(random, 300), int(random.integers(30, 270))
        values[at:] += math.log(1.05)
        hits += any(abs(point.position - at) <= 1 for point in change_points(values))
    assert hits >= 49


@pytest.mark.parametrize("noise", [white, with_outliers])
def test_fewer_than_one_of_1000_commits_is_a_false_change(noise):
    random = np.random.default_rng(8)
    false = sum(len(change_points(noise(random, 300))) for _ in range(60))
    assert false < 18


def test_levels_are_those_before_and_behind():
    (point,) = change_points([1.0, 1.01, 0.99, 1.0, 1.01, 2.0, 2.01, 1.99, 2.0, 2.0])
    assert (point.position, point.before, point.after) == (5, 1.0, 2.0)


def test_values_that_do_not_vary_change_where_they_step():
    assert [p.position for p in change_points([100.0] * 10 + [101.0] * 10)] == [10]
    assert change_points([100.0] * 20) == []


@pytest.mark.parametrize("count", range(2 * LEAST_SEGMENT))
def test_few_values_have_no_change(count):
    assert change_points(list(range(count))) == []


@pytest.mark.parametrize("count", [8, 9, 16, 39])
def test_a_step_between_values_that_do_not_vary_is_one_change(count):
    for ratio in (0.5, 1.001, 1.5, 3.0):
        for at in range(LEAST_SEGMENT, count - LEAST_SEGMENT + 1):
            values = [0.0] * at + [math.log(ratio)] * (count - at)
            assert [point.position for point in change_points(values)] == [at]


@pytest.mark.parametrize("position", [1, 2, 3, 17, 18])
def test_a_step_near_the_end_of_a_series_is_placed_where_it_is(position):
    right = 0
    for seed in range(20):
        values = white(np.random.default_rng(seed), 20)
        values[position:] += 0.3
        right += [change.position for change in change_points(values)] == [position]
    assert right >= 17
