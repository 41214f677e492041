"""Spaces that no memory holds: counted exactly, numbered, walked and sampled all the same."""

import itertools
import math
import random
from collections import Counter
from contextlib import ExitStack
from itertools import islice
from unittest import mock

import pytest

import zenturio as zen
from zenturio.errors import SpaceError
from zenturio.space import component, join


def test_300_to_the_100_points_cost_nothing():
    space = zen.Space(**{f"p{i}": range(300) for i in range(100)})
    assert space.size == space.cartesian == 300**100
    number = 7 * 300**99 + 5
    point = space.point(number)
    assert (point["p0"], point["p50"], point["p99"]) == (7, 0, 5)
    assert space.index(point) == number
    assert space[number : number + 2][1]["p99"] == 6
    assert space[300**100 - 1] == space[-1]
    assert len(set(space.sample(50, seed=1))) == 50
    assert [point["p99"] for point in islice(space, 301)] == [*range(300), 0]


def test_a_vast_set_is_walked_across_its_turns():
    space = zen.Space(a=["x", "y"], b=range(10**30))
    assert space.size == 2 * 10**30
    around = space[10**30 - 1 : 10**30 + 1]
    assert [tuple(point.values()) for point in around] == [("x", 10**30 - 1), ("y", 0)]
    assert space.index({"a": "y", "b": 5}) == 10**30 + 5


def test_chains_are_counted_and_numbered_exactly():
    names = [f"p{i:02}" for i in range(40)]
    space = zen.Space(**dict.fromkeys(names, range(1, 300)))
    space = space.where(*(f"{a} <= {b}" for a, b in itertools.pairwise(names)))
    assert space.size == math.comb(299 + 40 - 1, 40)
    rng = random.Random(3)
    for number in [0, space.size - 1, *(rng.randrange(space.size) for _ in range(20))]:
        point = space.point(number)
        values = list(point.values())
        assert values == sorted(values)
        assert space.index(point) == number
        # As many sorted sequences come before this one as combinatorics says.
        before, low = 0, 1
        for place, value in enumerate(values):
            rest = 40 - place - 1
            before += sum(math.comb(299 - v + rest, rest) for v in range(low, value))
            low = value
        assert before == number
    assert list(space.point(0).values()) == [1] * 40
    first = [tuple(point.values())[-2:] for point in islice(space, 300)]
    assert first == [*((1, v) for v in range(1, 300)), (2, 2)]


def test_dependent_ranges_are_counted_without_being_made():
    space = zen.Space(n=range(1, 1_000_001), m=zen.span(1, "n"))
    assert space.size == 10**6 * (10**6 + 1) // 2
    assert dict(space.point(space.size - 1)) == {"n": 10**6, "m": 10**6}
    assert space.index({"n": 1000, "m": 7}) == 999 * 1000 // 2 + 6
    assert [tuple(p.values()) for p in islice(space, 3)] == [(1, 1), (2, 1), (2, 2)]


def test_a_wide_set_is_filtered_in_windows():
    space = zen.Space(n=range(5_000_000), m=[1, 2]).where("n % 7 == 3 and m < 3")
    assert space.size == 2 * len(range(3, 5_000_000, 7))
    assert dict(space.point(space.size - 1)) == {"n": 4_999_998, "m": 2}
    assert space.index({"n": 10, "m": 1}) == 2


def test_blocks_are_counted_where_a_diagram_is_too_large():
    sets = {name: range(60) for name in "abc"}
    whole = zen.Space(**sets).where("(a * 7 + b * 11 + c * 13) % 17 == 3")
    limits = {
        component: {"MAX_TABLE_BYTES": 0, "MAX_EAGER_CODES": 1000},
        join: {"EDGES": 5000},
    }
    with ExitStack() as stack:
        for module, values in limits.items():
            stack.enter_context(mock.patch.multiple(module, **values))
        space = whole.where("true")
        assert space.size == whole.size
        numbers = [0, 1, 777, whole.size - 1]
        assert [space.point(i) for i in numbers] == [whole.point(i) for i in numbers]
        assert [space.index(whole.point(i)) for i in numbers] == numbers
        assert space[100:2000:300] == whole[100:2000:300]
        assert not space.contains({"a": 0, "b": 0, "c": 0})
        assert list(islice(space, 500)) == whole[:500]


def too_many():
    """Return a space with too many partial sums and products together."""
    names = [f"p{i}" for i in range(10)]
    factors = " * ".join(f"({name} + 1)" for name in names)
    return zen.Space(**dict.fromkeys(names, range(300)), free=["a", "b"]).where(
        f"{' + '.join(names)} <= 1000", f"{factors} > 0", "p0 != p1"
    )


def test_what_cannot_be_counted_says_so_and_is_walked_and_sampled():
    space = too_many()
    with mock.patch.object(join, "WORK_LIMITS", ((1 << 20, 1 << 30),)):
        with pytest.raises(SpaceError, match=r"too many to count[\s\S]*sample them"):
            _ = space.size
        drawn = space.sample(200, seed=5)
        assert drawn == space.sample(200, seed=5) != space.sample(200, seed=6)
    assert len(set(drawn)) == 200
    assert all(space.contains(point) for point in drawn)
    first = list(islice(space, 5))
    assert [tuple(p.values())[8:] for p in first] == [
        (0, 0, "a"),
        (0, 0, "b"),
        (0, 1, "a"),
        (0, 1, "b"),
        (0, 2, "a"),
    ]
    assert all(point["p0"] == 0 and point["p1"] == 1 for point in first)
    assert {point["p1"] for point in space.neighbours(first[0])} == {1, 2}


def chi_square(counts, size, drawn):
    expected = drawn / size
    seen = sum((count - expected) ** 2 / expected for count in counts.values())
    return seen + (size - len(counts)) * expected


@pytest.mark.parametrize("way", ["numbered", "rejected"])
def test_samples_are_uniform_over_the_valid_points(way):
    space = zen.Space(a=range(8), b=range(8), c=["x", "y"]).where("a + b < 9", "a * b != 12")
    if way == "rejected":
        lot = component.RejectionSampler(space.components[0].part)
        with mock.patch.object(component.RejectionSampler, "_inner", ()):
            draws = [tuple(each.values()) for each in islice(lot.draw(random.Random(1)), 20_000)]
        size = space.components[0].size
    else:
        draws = [space.sample(1, seed)[0] for seed in range(5_000)]
        size = space.size
    counts = Counter(draws)
    assert len(counts) == size
    # Far beyond what chance makes of it: size - 1 degrees of freedom, five deviations.
    assert chi_square(counts, size, len(draws)) < size - 1 + 5 * math.sqrt(2 * size)


def test_a_sample_has_no_point_twice_and_depends_on_its_seed_alone():
    space = zen.Space(a=range(100), b=range(100)).where("a != b")
    drawn = space.sample(9_000, seed=1)
    assert len(set(drawn)) == 9_000
    assert drawn == zen.Space(a=range(100), b=range(100)).where("a != b").sample(9_000, seed=1)
    assert space.sample(3, seed="study") != space.sample(3, seed="other")
    with pytest.raises(
        SpaceError, match="9901 different points are requested, but there are only 9900"
    ):
        space.sample(9_901)


def continuous():
    return zen.Space(
        x=zen.uniform(0, 1),
        lr=zen.loguniform(1e-5, 1e-1),
        kind=["a", "b"],
        y=zen.parameter(zen.uniform(-1, 1), when="kind == 'a'", default="0"),
        k=zen.span(1, "1 + x * 3"),
        n=[1, 2, 4],
        d=zen.derived("x * n"),
    ).where("d < 2", "y < x")


def test_continuous_spaces_have_no_size_but_samples():
    space = continuous()
    assert not space.finite
    calls = [
        lambda: space.size,
        lambda: space.cartesian,
        lambda: space.point(0),
        lambda: space.index(space.sample(1, 1)[0]),
        lambda: next(iter(space)),
        space.columns,
        space.costs,
        lambda: space[0:2],
    ]
    for call in calls:
        with pytest.raises(SpaceError, match="is continuous"):
            call()
    drawn = space.sample(300, seed=2)
    assert drawn == space.sample(300, seed=2)
    for point in drawn:
        assert space.contains(point)
        assert space.find(dict(point)) == point
        assert point["d"] == point["x"] * point["n"] < 2
        assert point.positions["x"] == point["x"]
        assert point.text("x") == repr(point["x"])
        assert (point["y"] is None) == (point["kind"] == "b")
        assert point["y"] is None or point["y"] < point["x"]
        assert 1 <= point["k"] <= 1 + point["x"] * 3
    small = sum(point["lr"] < 1e-3 for point in drawn)
    assert 100 < small < 200
    assert {point["kind"] for point in drawn} == {"a", "b"}


def test_neighbours_of_a_continuous_point_keep_its_numbers():
    space = continuous()
    point = next(each for each in space.sample(50, 3) if each["kind"] == "b")
    found = space.neighbours(point)
    assert found
    assert all((each["x"], each["lr"]) == (point["x"], point["lr"]) for each in found)


def test_a_continuous_set_contains_its_bounds_and_has_no_list():
    domain = zen.uniform(0, 1)
    assert (domain.position(1), domain.position(0.0), domain.value(0.5)) == (1.0, 0.0, 0.5)
    for call in (domain.values, domain.texts, lambda: domain.position(1.1), lambda: domain.size):
        with pytest.raises(SpaceError):
            call()


def test_a_constraint_that_nothing_keeps_ends_sampling():
    space = zen.Space(x=zen.uniform(0, 1)).where("x > 2")
    with (
        mock.patch.object(component, "TRIES", 10_000),
        pytest.raises(SpaceError, match="none is valid"),
    ):
        space.sample(1, seed=0)
    empty = zen.Space(x=zen.uniform(0, 1), n=[1, 2], m=[1, 2]).where("n > m + 3")
    with pytest.raises(SpaceError, match="no combination of n, m is valid"):
        empty.sample(1, seed=0)


def test_points_that_differ_in_nothing_are_not_drawn_for_ever():
    space = zen.Space(s=["a", "b"], x=zen.parameter(zen.uniform(0, 1), when="s == 'c'"))
    assert len(space.sample(2, seed=0)) == 2
    with pytest.raises(SpaceError, match="3 different points are requested; 2 were drawn"):
        space.sample(3, seed=0)


def test_states_are_told_apart_by_more_than_64_bits():
    names = [f"p{i}" for i in range(9)]
    same = [f"{name} == p1" for name in names[2:]]
    sets = {**dict.fromkeys(names[:8], range(256)), "y": range(3), "p8": range(256), "z": [0, 1]}
    space = zen.Space(**sets).where(*same, "y <= p8", f"{' + '.join(names)} + z <= 1000")
    with mock.patch.multiple(component, MAX_TABLE_BYTES=0, MAX_EAGER_CODES=0):
        assert space.where("true").size == sum(
            sum(y <= p for y in range(3)) * (a + 8 * p + z <= 1000)
            for a in range(256)
            for p in range(256)
            for z in (0, 1)
        )


def test_points_are_drawn_and_walked_without_counting_a_large_space():
    space = zen.Space(a=range(1, 1001), b=range(1, 1001), c=range(1, 1001))
    large = space.where("a + b + c < 2850", "a*b + c != 77")
    with mock.patch.object(component.BlockTree, "count", side_effect=AssertionError("counted")):
        points = large.sample(10, seed=1)
        assert large.number(points[0]) == -1
        assert points == large.sample(10, seed=1)
        assert all(point in large for point in points)
        assert 0 < large.at_least() <= 1000**3


def test_the_least_number_of_points_is_below_the_true_one():
    space = zen.Space(a=range(300), b=range(300), c=range(300))
    for condition, share in (
        ("a < b", 0.5),
        ("a == b", 1 / 300),
        ("a + b + c == 30", 496 / 300**3),
    ):
        large = space.where(condition, "a*b*c != 1")
        assert large.at_least() <= large.size <= 300**3
        if share > 0.1:
            assert large.at_least() > 0.9 * large.size


def test_shares_that_add_up_to_a_whole_can_be_drawn():
    names = [f"w{i}" for i in range(10)]
    space = zen.Space(**dict.fromkeys(names, range(0, 101, 5))).where(f"{' + '.join(names)} == 100")
    points = space.sample(3, seed=1)
    assert [sum(point.values()) for point in points] == [100, 100, 100]
