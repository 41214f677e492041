"""Designs: points that are chosen beforehand."""

import itertools
import math

import pytest

import zenturio as zen
from zenturio.errors import InputError
from zenturio.search.designs import Design

MIXED = zen.Space(
    a=range(10), b=["x", "y", "z"], c=range(4), d=range(4), e=[1, 2], f=zen.uniform(0, 1), one=[7]
).where("c <= d")


@pytest.mark.parametrize(
    ("text", "count"), [("lhs:30", 30), ("sobol:30", 30), ("saltelli:4", 28), ("morris:3", 18)]
)
def test_a_design_has_valid_points_that_its_seed_repeats(text, count):
    points = Design.read(text, 5).points(MIXED)
    assert len(points) == count
    assert all(point["c"] <= point["d"] for point in points)
    assert points == Design.read(text, 5).points(MIXED)
    assert points != Design.read(text, 6).points(MIXED)


def test_each_value_has_its_share_of_a_latin_hypercube():
    points = Design.read("lhs:30").points(MIXED)
    assert sorted(point["a"] for point in points) == sorted([*range(10)] * 3)
    assert sorted(math.floor(point["f"] * 30) for point in points) == [*range(30)]


def test_factors_are_parameters_that_no_constraint_ties():
    assert Design("saltelli", 2).factors(MIXED) == (("a",), ("b",), ("c", "d"), ("e",), ("f",))


def test_a_step_of_a_trajectory_changes_one_factor():
    design = Design("morris", 8)
    points, factors = design.points(MIXED), design.factors(MIXED)
    for path in itertools.batched(points, 6) if hasattr(itertools, "batched") else [points[:6]]:
        changed = [
            tuple(name for name in one if one[name] != other[name])
            for one, other in itertools.pairwise(path)
        ]
        assert (
            sorted(sum((set(names) <= set(f) for names in changed), 0) for f in factors) == [1] * 5
        )


def test_a_covering_design_holds_all_valid_pairs_in_few_rows():
    space = zen.Space(**{f"p{i}": range(4) for i in range(8)}).where("p0 < p1", "p2 != p3")
    points = Design.read("covering:2").points(space)
    names = [parameter.name for parameter in space.parameters]
    covered = {
        (a, b, point[a], point[b]) for point in points for a, b in itertools.combinations(names, 2)
    }
    valid = {
        (a, b, point[a], point[b])
        for a, b in itertools.combinations(names, 2)
        for point in zen.Space(**{name: range(4) for name in {a, b, "p0", "p1", "p2", "p3"}}).where(
            "p0 < p1", "p2 != p3"
        )
    }
    assert covered == valid
    assert len(points) < 40


def test_a_covering_design_of_strength_three_holds_all_triples():
    space = zen.Space(**{name: range(2) for name in "abcdef"})
    points = Design.read("covering:3").points(space)
    triples = {
        (names, tuple(point[name] for name in names))
        for point in points
        for names in itertools.combinations("abcdef", 3)
    }
    assert len(triples) == 20 * 8
    assert len(points) < 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("saltellli:8", "did you mean 'saltelli'"),
        ("lhs", "the number of points is missing"),
        ("morris:1", "write morris:2"),
        ("saltelli:-4", "the number of rows is missing"),
        ("lhs:\u0664", "the number of points is missing"),
    ],
)
def test_another_text_is_refused_with_what_would_be_right(text, message):
    with pytest.raises(InputError, match=message):
        Design.read(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [("covering:2", "f cannot be covered"), ("covering:9", "only 2 parameters vary")],
)
def test_what_cannot_be_covered_is_refused(text, message):
    space = MIXED if text == "covering:2" else zen.Space(a=[1, 2], b=[1, 2], c=[1])
    with pytest.raises(InputError, match=message):
        Design.read(text).points(space)
