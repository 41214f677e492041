"""Sums, products, remainders and all-different conditions are counted by what is left of them."""

import itertools
import math
import random
from unittest import mock

import numpy as np
import pytest

import zenturio as zen
from space.naive import Naive
from zenturio.search.gene_encoding import DiagramGenes
from zenturio.search.genome import Genome
from zenturio.space import component, join

SHARES = "abcdefghij"


def shares():
    """Return ten shares in steps of 5 that add up to 100: 10,015,005 of 2e13 combinations."""
    space = zen.Space(**{name: range(0, 101, 5) for name in SHARES})
    return space.where("+".join(SHARES) + " == 100")


def test_shares_of_a_sum_are_counted_numbered_and_drawn():
    space = shares()
    assert space.size == math.comb(20 + 9, 9)
    rng = random.Random(1)
    for number in (0, space.size - 1, *(rng.randrange(space.size) for _ in range(5))):
        point = space.point(number)
        assert sum(point.values()) == 100
        assert space.index(point) == number
    assert all(sum(point.values()) == 100 for point in space.sample(20, seed=1))


def test_all_different_is_counted_by_the_values_that_remain():
    names = [f"q{i}" for i in range(12)]
    space = zen.Space(**dict.fromkeys(names, range(12)))
    space = space.where(*(f"{a} != {b}" for a, b in itertools.combinations(names, 2)))
    assert space.size == math.factorial(12)
    point = space.point(123_456_789)
    assert sorted(point.values()) == list(range(12))
    assert space.index(point) == 123_456_789


def test_a_remainder_of_a_weighted_sum_is_counted():
    names = [f"q{i}" for i in range(12)]
    space = zen.Space(**dict.fromkeys(names, range(1, 30)))
    terms = " + ".join(f"{weight} * {name}" for weight, name in enumerate(names, 1))
    # Counted by remainders alone: how many ways lead to each of the seven.
    ways = [1, 0, 0, 0, 0, 0, 0]
    for weight in range(1, 13):
        ways = [
            sum(ways[(rest - weight * value) % 7] for value in range(1, 30)) for rest in range(7)
        ]
    assert space.where(f"({terms}) % 7 == 3").size == ways[3]


@pytest.mark.parametrize(
    "condition",
    [
        "d + c + b + a == 7",
        "c - a - b + d >= 0",
        "a - (b - (c - d)) == 1",
        "d * c * b * a <= 12",
        "(a + b) * (c + d) == 20",
        "(d * 3 + a + 2 * b) % 4 == c",
        "a / (b + 1) + c / (d + 1) < 1.5",
        "a * 0.1 + b * 0.1 + c * 0.1 + d * 0.1 == 0.6",
        "index(a) + b + index(c) + d == 6",
        "max(a, b) + min(c, d) > 3",
        "a + b == c + d and a * b != c * d",
        "a + b + c > 4 if d > 1 else a + b + c < 2",
        "str(a) + str(b) + str(c) < '132' or d == 2",
        "a + b == 0 or 10 // (a + b) + c + d == 6",
        "w + a + b + c < 5",
    ],
)
def test_conditions_on_several_dimensions_keep_what_they_say(condition):
    space = zen.Space(
        a=[0, 1, 3, 2],
        b=range(4),
        c=zen.parameter(range(4)),
        d=range(1, 4),
        w=zen.parameter([1, 2], when="b > 1"),
    ).where(condition, "a + b + c + d != 5")
    naive = Naive(space)
    assert naive.points
    assert len(naive.points) < len(naive.cartesian)
    with mock.patch.multiple(component, MAX_EAGER_CODES=0, MAX_TABLE_BYTES=0):
        counted = zen.Space(space.parameters, space.constraints)
        assert counted.size == len(naive.points)
        points = [dict(counted.point(number)) for number in range(counted.size)]
        assert points == naive.points
        assert [counted.index(point) for point in points] == list(range(counted.size))


def test_partial_sums_keep_a_diagram_within_its_limit():
    # All triples would be 27,000 edges; 30 + 30 * 30 + 59 * 30 are needed.
    space = zen.Space(a=range(30), b=range(30), c=range(30), d=range(30))
    with (
        mock.patch.multiple(component, MAX_EAGER_CODES=0, MAX_TABLE_BYTES=0),
        mock.patch.object(join, "EDGES", 6000),
    ):
        (sums,) = space.where("a + b + c + d == 40").components
        assert sums.is_countable
        (mixed,) = space.where("a * 1000 + b * 30 + c + d * 0.1 != 40").components
        assert not mixed.is_countable


def test_genes_of_shares_are_repaired_to_shares():
    genome = Genome(shares())
    rng = np.random.default_rng(2)
    rows = genome.draw(rng, 200)
    assert rows.shape == (200, 9)  # the last share is what the others leave
    assert (genome.repair(rows) == rows).all()
    assert all(sum(point.values()) == 100 for point in genome.points(rows))
    # Uniform draws: each share has the same mean.
    means = np.mean([list(point.values()) for point in genome.points(genome.draw(rng, 4000))], 0)
    assert np.abs(means - 10).max() < 1
    wild = genome.repair(rng.integers(-50, 50, size=(50, 9)))
    assert all(sum(point.values()) == 100 for point in genome.points(wild))
    point = genome.points(rows[:1])[0]
    assert (genome.row(point) == rows[0]).all()


def test_a_value_of_an_unsorted_set_is_repaired_to_the_nearest_by_value():
    names = "abcdefgh"
    space = zen.Space(**{name: [40, 0, 30, 10, 20] for name in names})
    with mock.patch("zenturio.search.gene_encoding.MAX_TABLE_GENES", 0):
        genome = Genome(space.where("+".join(names) + " == 40"))
    row = genome.row({**dict.fromkeys(names, 0), "a": 40})
    assert row.tolist() == [4, 0, 0, 0, 0, 0, 0]
    point = genome.points(genome.repair(row[None] - np.array([1, 0, 0, 0, 0, 0, 0])))[0]
    assert dict(point) == {**dict.fromkeys(names, 0), "a": 30, "h": 10}


def test_draws_from_more_points_than_64_bits_number_are_valid():
    names = [f"q{i}" for i in range(40)]
    space = zen.Space(**dict.fromkeys(names, range(20))).where(" + ".join(names) + " == 200")
    assert space.size > 1 << 64
    genome = Genome(space)
    assert genome.count is None
    rows = genome.draw(np.random.default_rng(1), 20)
    assert all(sum(point.values()) == 200 for point in genome.points(rows))


def test_the_model_finds_the_best_shares():
    best = dict(zip(SHARES, (5, 0, 30, 10, 0, 20, 5, 15, 15, 0), strict=True))

    def distance(point):
        return float(sum(abs(point[name] - share) for name, share in best.items()))

    result = zen.search(shares(), distance, "minimize", engine="model", budget=100, seed=1)
    sampled = zen.search(shares(), distance, "minimize", engine="random", budget=100, seed=1)
    assert result.best.scores[0] < sampled.best.scores[0] / 3


@pytest.mark.slow
def test_a_dense_space_is_searched_along_lines_as_before():
    space = zen.Space(x=range(600), y=range(600), z=range(600)).where("x + y + z < 1200")
    (block,) = Genome(space)._blocks
    assert not isinstance(block, DiagramGenes)
