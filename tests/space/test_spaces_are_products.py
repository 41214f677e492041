"""A space says what the obvious product and filter says, however it is joined."""

import random
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from space.naive import Naive
from space.random_spaces import spaces
from zenturio.errors import InputError
from zenturio.expression import parse
from zenturio.space import Parameter, Space, Zip, column_join, component, elements, join, parameter
from zenturio.space.definition import define, split

SMALL = {
    join: {"MAX_PIECE_ROWS": 5, "MAX_BOUND_CODES": 2, "MAX_UNSPLIT_ROWS": 12, "EDGES": 9},
    component: {"MAX_EAGER_CODES": 60, "MAX_LOOKUPS": 4},
}


@contextmanager
def joined_in(way):
    """As one table; in pieces of a few rows; again and again, in blocks; or as a diagram."""
    limits = {} if way == "whole" else dict(SMALL)
    if way in ("again", "diagram"):
        limits[component] = {**SMALL[component], "MAX_TABLE_BYTES": 0}
    if way == "diagram":
        limits[join] = {"EDGES": SMALL[join]["EDGES"]}
    with ExitStack() as stack:
        for module, values in limits.items():
            stack.enter_context(mock.patch.multiple(module, **values))
        yield


ways = st.sampled_from(["whole", "pieces", "again", "diagram"])
law = settings(
    max_examples=max(1, settings.default.max_examples * 3 // 2), deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip


@law
@given(spaces(), ways)
def test_size_order_and_values_are_those_of_the_filtered_product(space, way):
    naive = Naive(space)
    with joined_in(way):
        assert space.size == len(naive.points)
        assert [dict(point) for point in space] == naive.points
        assert space.cartesian == len(naive.cartesian)


@law
@given(spaces(), ways)
def test_every_number_has_its_point_and_every_point_its_number(space, way):
    naive = Naive(space)
    with joined_in(way):
        for number, values in enumerate(naive.points):
            point = space.point(number)
            assert dict(point) == values
            assert [type(value) for value in point.values()] == [type(v) for v in values.values()]
            assert space.index(point) == space.index(values) == number


@law
@given(spaces(), ways, st.data())
def test_slices_and_columns_are_cut_out_of_the_whole(space, way, data):
    naive = Naive(space)
    ends = st.one_of(st.none(), st.integers(-9, 9))
    start, stop = data.draw(ends), data.draw(ends)
    step = data.draw(st.sampled_from([None, 1, 2, -1]))
    with joined_in(way):
        assert [dict(p) for p in space[start:stop:step]] == naive.points[start:stop:step]
        columns = space.columns(start or 0, stop)
        for name, column in columns.items():
            assert isinstance(column, np.ndarray)
            assert column.tolist() == [p[name] for p in naive.points[start or 0 : stop]]


@law
@given(spaces())
def test_what_the_product_makes_and_the_filter_drops_is_not_contained(space):
    naive = Naive(space)
    names = naive.names
    valid = {tuple(point[name] for name in names) for point in naive.points}
    for values in naive.cartesian:
        chosen = tuple(values[name] for name in names)
        assert space.contains(values) == (values in space) == (chosen in valid)


@law
@given(spaces(), ways)
def test_costs_are_what_each_constraint_takes_away_in_order(space, way):
    naive = Naive(space)
    with joined_in(way):
        costs = space.costs()
    assert [constraint for constraint, _ in costs] == list(space.constraints)
    assert [cost for _, cost in costs] == naive.costs
    assert sum(naive.costs) == len(naive.cartesian) - len(naive.points)


@law
@given(spaces(), ways, st.integers(0, 3))
def test_a_sample_of_all_points_is_all_points(space, way, seed):
    naive = Naive(space)
    with joined_in(way):
        drawn = space.sample(len(naive.points), seed)
        assert drawn == space.sample(len(naive.points), seed)
    assert len(set(drawn)) == len(drawn)
    assert sorted(map(repr, drawn)) == sorted(f"{point!r}" for point in space)


WORDS_AT_THE_LAST_NUMBER = Space(
    n=parameter([0.1, 0.5, 2.5]), m=parameter(["x", "y", "z"], when="n > 1", default="off")
).where(Zip(("n", "m")))
"""Of n and m, which vary together, m has no order; it becomes inactive as soon as n moves."""


@law
@given(spaces())
@example(WORDS_AT_THE_LAST_NUMBER)
def test_neighbours_differ_in_one_move(space):
    naive = Naive(space)
    rng = random.Random(0)
    for number in rng.sample(range(len(naive.points)), min(6, len(naive.points))):
        found = [dict(point) for point in space.neighbours(space.point(number))]
        expected = naive.neighbours(naive.points[number])
        assert len({repr(point) for point in found}) == len(found)
        assert sorted(map(repr, found)) == sorted(map(repr, expected))


@law
@given(spaces(), ways)
def test_texts_are_those_of_the_elements(space, way):
    with joined_in(way):
        for point in space[:20]:
            for parameter in space.parameters:
                text, value = point.text(parameter.name), point[parameter.name]
                if value is None:
                    assert text == (parameter.default or "")
                elif isinstance(value, bool):
                    assert text == str(value).lower()
                elif isinstance(value, int | float):
                    assert float(text) == value
                else:
                    assert text == value


def test_the_ways_to_join_are_different():
    space = Space(n=range(9), m=range(9)).where("n != m")
    (whole,) = space.components
    assert whole.is_counted
    with joined_in("pieces"):
        (large,) = space.where("n != m").components
        assert not large.is_counted
        assert large.size == whole.size
        assert large.is_counted


@pytest.mark.slow
@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(spaces(), ways)
def test_many_more_spaces_are_products(space, way):
    naive = Naive(space)
    with joined_in(way):
        assert [dict(point) for point in space] == naive.points
        assert [dict(p) for p in space[:]] == naive.points
        assert all(space.index(p) == i for i, p in enumerate(naive.points))
        assert [cost for _, cost in space.costs()] == naive.costs


@law
@given(spaces())
def test_sizes_under_the_first_constraints_are_those_of_their_spaces(space):
    assume(space.finite)
    try:
        naive = [
            Space(space.parameters, space.constraints[:number]).size
            for number in range(len(space.constraints) + 1)
        ]
    except InputError:
        assume(False)
    assert [size() for size in space.growing_sizes()] == naive


@pytest.mark.parametrize(
    "constraints",
    [
        [f"p{i} <= p{i + 1}" for i in range(299)],
        [f"p{i} + p{i + 1} > p{i + 2}" for i in range(298)],
        [f"p{2 * i} < p{2 * i + 1}" for i in range(150)],
    ],
    ids=["chain", "triples", "pairs"],
)
def test_planning_looks_at_each_rule_a_few_times(constraints, monkeypatch):
    """By counted work: questions for the number of codes, ten times as many where n is."""
    counts = []
    for share in (0.1, 1.0):
        asked = []
        count = column_join.PlannerStatistics.count

        def counted(self, name, asked=asked, count=count):
            asked.append(name)
            return count(self, name)

        monkeypatch.setattr(column_join.PlannerStatistics, "count", counted)
        number = int(len(constraints) * share)
        space = Space(
            [Parameter(f"p{i}", elements([str(n) for n in range(5)])) for i in range(300)],
            [parse(text) for text in constraints[:number]],
        )
        assert space.size
        monkeypatch.undo()
        counts.append(len(asked))
    assert counts[1] <= 15 * counts[0] + 1000


def test_a_product_beyond_all_floats_is_planned():
    names = [f"p{i}" for i in range(400)]
    parameters = tuple(Parameter(name, elements([str(n) for n in range(10)])) for name in names)
    constraints = (parse(" + ".join(names) + " < 3"), parse("p0 + p1 + p2 < 3"))
    (part,) = split(define(parameters, constraints))
    plan = column_join.low_memory_plan(column_join.PlannerStatistics(part))
    assert len(plan.steps) == len(names) + 2
