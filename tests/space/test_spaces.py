"""What a space says of itself, and what it refuses."""

import itertools
import json
import math
import pickle
import random
import subprocess
import sys
from decimal import Decimal
from unittest import mock

import numpy as np
import pytest
import scipy.stats

import zenturio as zen
from zenturio.errors import ExpressionError, NotFoundError, Passage, Place, SpaceError
from zenturio.expression import parse
from zenturio.space import (
    Dependent,
    Parameter,
    Point,
    Zip,
    component,
    concatenation,
    elements,
    join,
)
from zenturio.space.code_table import Choices
from zenturio.space.column_join import (
    BindStep,
    FilterStep,
    JoinPlan,
    PairTable,
    PlannerStatistics,
    _cost,
    _grouped_plan,
)
from zenturio.space.domain import DIGITS, WIDEST
from zenturio.space.domain import number as read_number
from zenturio.space.space import _lower_bound, fingerprint, space_as_json, space_from_json


def matrix():
    sets = {"n": zen.geometric(128, 1024), "threads": [1, 2, 4]}
    return zen.Space(**sets).where("n * threads <= 2048")


def test_the_first_example():
    space = matrix()
    assert (space.size, space.cartesian, space.finite) == (11, 12, True)
    assert space[-1] == space.point(10) != space.point(9)
    assert dict(space[-1]) == {"n": 1024, "threads": 2}
    assert [dict(point) for point in space[9:]] == [
        {"n": 1024, "threads": 1},
        {"n": 1024, "threads": 2},
    ]
    assert repr(space.point(0)) == "Point(n=128, threads=1)"
    assert repr(space) == "<Space of n, threads with 1 constraints>"
    assert [dimension.name for dimension in space.dimensions] == ["n", "threads"]


def test_importing_the_package_loads_no_room():
    code = (
        "import sys, zenturio; print(*sys.modules);"
        "print(*dir(zenturio)); zenturio.Space; print(*sys.modules)"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    at_import, public, after_use = (set(line.split()) for line in output.splitlines())
    assert not {"numpy", "pandas", "zenturio.space"} & at_import
    assert {"Space", "geometric"} <= public
    assert "numpy" in after_use
    assert "pandas" not in after_use


def test_every_public_name_can_be_reached():
    import zenturio.space

    for module in (zen, zenturio.space):
        assert all(getattr(module, name) is not None for name in module.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        zen.nothing  # noqa: B018


def test_points_of_any_space_are_equal_by_what_is_chosen():
    one = zen.Space(a=[1, 2], b=["x"], c=zen.derived("a * 2")).point(0)
    other = zen.Space(b=["w", "x"], a=zen.span(1, 9)).find({"a": 1, "b": "x"})
    assert one == other
    assert hash(one) == hash(other)
    assert one != zen.Space(a=[1.0, 0.5], b=["x"]).point(0)
    assert one != zen.Space(a=[True], b=["x"]).point(0)
    assert one != zen.Space(a=[1]).point(0)
    assert one != "a point"
    assert pickle.loads(pickle.dumps(one)) == one


def test_a_point_is_a_mapping_with_texts_and_positions():
    space = zen.Space(
        n=zen.span("1", "3"),
        m=zen.parameter(["a", "b"], when="n > 1", default="none"),
        k=zen.span(1, "n"),
        d=zen.derived("n * k / 2"),
    )
    first, last = space.point(0), space.point(space.size - 1)
    assert dict(first) == {"n": 1, "m": None, "k": 1, "d": 0.5}
    assert first.texts == {"n": "1", "m": "none", "k": "1", "d": "0.5"}
    assert first.positions == {"n": 0, "m": None, "k": 0}
    assert last.texts == {"n": "3", "m": "b", "k": "3", "d": "4.5"}
    assert last.positions == {"n": 2, "m": 1, "k": 2}
    assert (len(first), "d" in first, list(first)) == (4, True, ["n", "m", "k", "d"])
    with pytest.raises(NotFoundError, match="'kk'"):
        first.text("kk")


def test_texts_in_a_dependent_range_keep_zeros_and_decimals():
    space = zen.Space(n=[2], a=Dependent("001", parse("n")), b=Dependent("0.5", parse("n"), "0.5"))
    assert [point.text("a") for point in space[::4]] == ["001", "002"]
    assert [point.text("b") for point in space[:4]] == ["0.5", "1.0", "1.5", "2.0"]
    assert [point["b"] for point in space[:4]] == [0.5, 1.0, 1.5, 2.0]


def test_whole_bounds_count_as_integers_and_an_empty_range_has_no_points():
    space = zen.Space(n=[1, 2, 5], m=zen.span(1, "n / 2"))
    assert [tuple(point.values()) for point in space] == [(2, 1), (5, 1), (5, 2)]
    assert space.columns()["m"].dtype == np.int64
    assert zen.Space(n=[2, 4], m=zen.span("n / 2", 2)).size == 3


def test_a_range_between_equal_bounds_has_one_element_whichever_way_it_goes():
    for stride in (1, -1):
        points = zen.Space(n=[3], m=zen.span("n", 3, stride))
        assert [dict(point) for point in points] == [{"n": 3, "m": 3}]
    geometric = Dependent("3", parse("n"), "0.5", geometric=True)
    assert [point["m"] for point in zen.Space(n=[3], m=geometric)] == [3]


def test_a_dependent_geometric_range_of_negative_numbers_grows_away_from_zero():
    for first, factor, expected in (
        ("-1", "2", {-4: [-1, -2, -4], -8: [-1, -2, -4, -8]}),
        ("-8", "0.5", {-4: [-8, -4], -8: [-8]}),
    ):
        domain = Dependent(first, parse("n"), factor, geometric=True)
        space = zen.Space(n=[-4, -8], m=domain)
        values = {n: [point["m"] for point in space if point["n"] == n] for n in (-4, -8)}
        assert values == expected


def test_choices_without_starts_are_the_same_for_all_rows():
    rows, places = np.zeros(2, dtype=np.int64), np.array([0, 2])
    for codes in (range(3, 6), np.array([3, 4, 5], dtype=np.uint8)):
        choices = Choices(codes)
        assert choices.at(rows, places).tolist() == [3, 5]
        assert [choices.rank(0, code) for code in (2, 3, 5, 6)] == [None, 0, 2, None]


def test_a_plan_of_a_join_costs_the_rows_that_it_makes():
    (part,) = zen.Space(a=range(1, 5), b=range(1, 6)).where("a + b > 2")._parts
    facts = PlannerStatistics(part)
    (pair,) = facts.rules
    plans = {
        (BindStep("a"), BindStep("b", pair)): 4 + 19,
        (BindStep("a"), BindStep("b"), FilterStep(pair)): 4 + 20 + 20,
        (BindStep("b"), BindStep("a")): 5 + 3 * 20,  # a comes before b: b is copied
    }
    costs = {steps: _cost(facts, JoinPlan(steps)) for steps in plans}
    assert costs == pytest.approx(plans)
    (part,) = zen.Space(a=range(1, 5), b=range(1, 6), c=[1, 2]).where("a + b + c > 4")._parts
    binds = (BindStep("a"), BindStep("b"), BindStep("c"))
    facts = PlannerStatistics(part)
    (expression,) = facts.rules
    assert _cost(facts, JoinPlan((*binds, FilterStep(expression)))) == 4 + 20 + 40 + 5 * 40


def test_a_dimension_is_bound_by_the_most_selective_pair_with_one_before_it():
    (part,) = zen.Space(a=range(1, 5), b=range(1, 6)).where("a + b > 2")._parts
    facts = PlannerStatistics(part)
    (pair,) = facts.rules
    assert _grouped_plan(facts, [["a", "b"]]).steps == (BindStep("a"), BindStep("b", pair))
    inserted = (BindStep("b"), BindStep("a"), FilterStep(pair))
    assert _grouped_plan(facts, [["b"], ["a"]]).steps == inserted
    for first, second in (("a + c > 2", "b + c > 5"), ("b + c > 5", "a + c > 2")):
        space = zen.Space(a=range(1, 5), b=range(1, 6), c=[1, 2]).where(first, second)
        (part,) = space._parts
        facts = PlannerStatistics(part)
        pairs = {rule.first: rule for rule in facts.rules}
        assert _grouped_plan(facts, [["a", "b", "c"]]).steps == (
            BindStep("a"), BindStep("b"), BindStep("c", pairs["b"]), FilterStep(pairs["a"]),
        )  # fmt: skip


@pytest.mark.parametrize("window", [None, (0, 2), (1, 2), (1, 1)])
def test_a_table_of_pairs_lists_the_partners_of_each_code(window):
    cells = np.array([[True, False, True], [False, True, True]])
    table = PairTable("a", "b", cells)
    for name, rows in (("a", cells), ("b", cells.T)):
        assert table.names - {name} == {table.other(name)}
        low, high = window or (0, rows.shape[1])
        expected = [[code for code in range(low, high) if row[code]] for row in rows]
        for _ in range(2):  # it remembers the whole lists
            partners, starts, counts = table.partners(name, window)
            lists = [
                partners[start : start + count].tolist()
                for start, count in zip(starts, counts, strict=True)
            ]
            assert lists == expected


@pytest.mark.parametrize(
    ("choices", "rows"),
    [
        (Choices(range(3, 6)), [[3, 4, 5], [3, 4, 5]]),
        (Choices(np.array([2, 7], dtype=np.uint8)), [[2, 7], [2, 7]]),
        (Choices(None, np.array([1, 4]), np.array([2, 3])), [[1, 2], [4, 5, 6]]),
        (
            Choices(np.array([9, 2, 7, 8], dtype=np.uint8), np.array([1, 2]), np.array([2, 2])),
            [[2, 7], [7, 8]],
        ),
    ],
    ids=["range", "listed", "ranges", "lists"],
)
def test_choices_say_the_same_in_every_form(choices, rows):
    assert choices.ends == (rows[0][0], rows[0][-1] + 1)
    for row, codes in enumerate(rows):
        places = np.arange(len(codes))
        assert choices.at(np.full(len(codes), row), places).tolist() == codes
        expected = [codes.index(code) if code in codes else None for code in range(300)]
        assert [choices.rank(row, code) for code in range(300)] == expected
    parents, codes = choices.spread(2)
    assert parents.tolist() == [0] * len(rows[0]) + [1] * len(rows[1])
    assert codes.tolist() == rows[0] + rows[1]
    assert choices.total(2) == len(rows[0]) + len(rows[1])


def test_rare_points_are_drawn_although_whole_batches_have_none():
    space = zen.Space(a=range(1, 5001), b=range(1, 5001)).where("a * b % 5003 == 7")
    sampler = component.RejectionSampler(space._parts[0])
    for seed in range(5):
        point = next(sampler.draw(random.Random(seed)))
        assert point["a"] * point["b"] % 5003 == 7


def test_the_least_likely_share_of_valid_points_is_that_of_wilson():
    for accepted, tried in ((0, 10), (3, 10), (10, 10), (50, 20_000)):
        test = scipy.stats.binomtest(accepted, tried, alternative="greater")
        low = test.proportion_ci(0.999, method="wilson").low
        assert _lower_bound(accepted, tried) == pytest.approx(low, rel=1e-3, abs=1e-12)


def test_a_fractional_start_is_an_error_with_its_hint():
    with pytest.raises(SpaceError, match=r"begins at n/2, which is 1.5[\s\S]*divide with //"):
        _ = zen.Space(n=[3], m=zen.span("n/2", 5)).size


def test_a_bound_that_is_null_is_an_error_with_its_hint():
    space = zen.Space(n=[1, 2], m=zen.parameter([1, 2], when="n > 1"), k=zen.span(1, "m"))
    with pytest.raises(SpaceError, match=r"the bound m is NULL[\s\S]*the same WHEN"):
        _ = space.size


def test_a_stride_that_becomes_zero_is_an_error():
    with pytest.raises(SpaceError, match="stride is zero"):
        _ = zen.Space(n=[0, 1], m=zen.span(1, 4, "n")).size


def test_dependent_ranges_of_integers_too_large_for_machines():
    space = zen.Space(n=[10**30], m=zen.span("n", "n + 2"))
    assert [point["m"] for point in space] == [10**30, 10**30 + 1, 10**30 + 2]
    assert space.index({"n": 10**30, "m": 10**30 + 1}) == 1


def test_a_range_before_its_bounds_are_known_has_nothing():
    domain = Dependent("1", "n / 2")
    calls = [
        lambda: domain.size,
        domain.values,
        domain.texts,
        lambda: domain.text(0),
        lambda: domain.value(0),
        lambda: domain.position(1),
        lambda: domain.at(np.arange(1)),
    ]
    for call in calls:
        with pytest.raises(SpaceError, match="before its bounds n / 2 are known"):
            call()


def test_a_constraint_before_another_guards_it():
    sets = {"n": [0, 1, 2], "m": [0, 1, 5], "k": [1, 2]}
    guarded = zen.Space(**sets).where("n + m > 1 and m != 0 and n != 0", "k + 10 // n + 10 % m > 1")
    assert guarded.size == 8
    assert [count() for count in guarded.growing_sizes()] == [18, 8, 8]
    late = zen.Space(**sets).where("k > 0 and m > 0 and n + k > k", "10 // n + 10 % m > 1")
    assert late.size == 8
    bare = zen.Space(**sets).where("k + 10 // n + 10 % m > 1")
    with pytest.raises(ExpressionError, match="zero"):
        _ = bare.size
    with pytest.raises(ExpressionError, match="zero"):
        list(bare)


def test_a_derived_value_is_computed_where_there_are_points():
    space = zen.Space(n=[1, 2], d=zen.derived("10 // (n - 1)"))
    with pytest.raises(ExpressionError, match="zero"):
        space.columns()
    assert dict(space.where("n > 1").point(0)) == {"n": 2, "d": 10}


def test_derived_names_are_written_out_in_constraints_conditions_and_bounds():
    space = zen.Space(
        a=[1, 2, 3],
        b=zen.derived("a * 2"),
        c=zen.derived("b + 1"),
        d=zen.span(1, "b // 2"),
        e=zen.parameter([7, 8], when="c > 4"),
    ).where("c + d > 4")
    assert [tuple(point.values()) for point in space] == [
        (2, 4, 5, 1, 7),
        (2, 4, 5, 1, 8),
        (2, 4, 5, 2, 7),
        (2, 4, 5, 2, 8),
        *((3, 6, 7, d, e) for d in (1, 2, 3) for e in (7, 8)),
    ]


def test_parameters_run_together_in_every_way_that_is_said():
    sets = {"a": [1, 2, 3], "b": ["x", "y", "z"], "c": [7, 8, 9], "d": [0, 1]}
    space = zen.Space(**sets).together("c", "a").where(Zip(("a", "b")))
    assert [tuple(point.values()) for point in space] == [
        (a, b, c, d) for a, b, c in [(1, "x", 7), (2, "y", 8), (3, "z", 9)] for d in (0, 1)
    ]
    assert space.costs() == [(Zip(("c", "a")), 36), (Zip(("a", "b")), 12)]
    assert [dict(p) for p in space.neighbours(space.point(2))] == [
        {"a": 1, "b": "x", "c": 7, "d": 0},
        {"a": 3, "b": "z", "c": 9, "d": 0},
        {"a": 2, "b": "y", "c": 8, "d": 1},
    ]


def test_neighbours_go_by_value_one_step_or_to_any_other_name():
    space = zen.Space(n=[4, 1, 2], c=["x", "y", "z"], r=range(10_000))
    point = space.find({"n": 2, "c": "y", "r": 9_999})
    found = [tuple(p.values()) for p in space.neighbours(point)]
    assert found == [
        (1, "y", 9_999),
        (4, "y", 9_999),
        (2, "x", 9_999),
        (2, "z", 9_999),
        (2, "y", 9_998),
    ]


SPACES_THAT_CANNOT_BE = [
    (lambda: zen.Space(n=[1]).where("m > 1"), "unknown name 'm'"),
    (lambda: zen.Space(n=[1]).where("n + 1"), "n \\+ 1 is int"),
    (lambda: zen.Space(n=["a"]).where("n > 1"), "str"),
    (lambda: zen.Space(n=[1], d=zen.derived("n")).where("index(d) > 1"), "'d' is derived"),
    (lambda: zen.Space(x=zen.uniform(0, 1)).where("index(x) > 1"), "'x' is continuous"),
    (lambda: zen.Space(a=["x"], b=zen.span(1, "a")), "the bound a is not a number"),
    (lambda: zen.Space(a=[1, 2], b=[1]).together("a", "b"), "a has 2 and b has 1"),
    (lambda: zen.Space(a=[1, 2]).together("a", "bb"), "no parameter is named 'bb'"),
    (lambda: zen.Space(a=[1], b=zen.span(1, "a")).together("a", "b"), "no fixed size"),
    (lambda: zen.Space(a=[1]).together("a"), "of the same size"),
    (lambda: zen.Space(a=zen.derived("b"), b=zen.derived("a")), "a -> b -> a"),
    (
        lambda: zen.Space(a=zen.span(1, "b"), b=zen.span(1, "c"), c=zen.span(1, "a")),
        "a -> b -> c -> a",
    ),
    (lambda: zen.Space(a=zen.parameter([1], when="a > 0")), "a -> a"),
    (lambda: zen.Space(a=zen.parameter([1], when="1 + 1")), "1 \\+ 1 is int"),
    (lambda: zen.Space([Parameter("a", elements(["1"]))], a=[1]), "'a' is declared twice"),
    (lambda: zen.Space([zen.parameter([1])]), "has no name"),
    (lambda: Parameter("a"), "needs a set"),
    (lambda: Parameter("a", elements(["1"]), derived=parse("1")), "one of the two"),
    (lambda: Parameter("a", when=parse("true"), derived=parse("1")), "cannot have a WHEN"),
]


@pytest.mark.parametrize("number", range(len(SPACES_THAT_CANNOT_BE)))
def test_a_space_that_cannot_be_says_why(number):
    make, message = SPACES_THAT_CANNOT_BE[number]
    with pytest.raises((SpaceError, ExpressionError), match=message):
        make()


def test_all_complaints_of_a_space_come_together_with_their_places():
    place = Place("f.c", 3, 7, "//ZEN$ ASSIGN n = {1} WHEN 2", 1)
    passage = Passage("zz > 1", ((0, Place("f.c", 9, 1, "zz > 1")),))
    bad = Parameter("n", Dependent("1", parse("word")), place=place)
    with pytest.raises(SpaceError) as caught:
        zen.Space([bad], [parse(passage), Zip(("n", "k"), place)], word=["x"])
    messages = [str(diagnostic.place) for diagnostic in caught.value.diagnostics]
    assert len(messages) == 3
    assert "f.c:9:1" in messages
    assert "f.c:3:7" in messages


NOT_POINTS = [
    ({"n": 128}, "threads has no value"),
    ({"n": 128, "threads": 3}, "threads: '3' is not in the set"),
    ({"n": 1024, "threads": 4}, r"the constraint n \* threads <= 2048 does not hold"),
    ({"n": 128, "threads": 1, "m": 1}, "no parameter is named 'm'"),
    ({"n": 128, "threads": None}, "threads has no value"),
]


@pytest.mark.parametrize(("values", "message"), NOT_POINTS)
def test_what_is_no_point_says_why(values, message):
    assert not matrix().contains(values)
    with pytest.raises(SpaceError, match=message):
        matrix().index(values)


def test_values_of_inactive_and_derived_parameters_must_be_right():
    space = zen.Space(n=[1, 2], m=zen.parameter([5], when="n > 1"), d=zen.derived("n + 1"))
    assert space.contains({"n": 1})
    assert space.contains({"n": 1, "m": None, "d": 2})
    assert not space.contains({"n": 1, "m": 5})
    assert not space.contains({"n": 1, "d": 3})


def test_a_number_beyond_the_points_is_an_index_error():
    for number in (11, -12):
        with pytest.raises(IndexError, match="the space has 11"):
            matrix().point(number)


def test_a_space_of_nothing_has_one_point_and_a_false_constant_takes_all():
    assert [dict(point) for point in zen.Space()] == [{}]
    assert [dict(point) for point in zen.Space(d=zen.derived("1 + 1"))] == [{"d": 2}]
    empty = zen.Space(a=[1, 2], constraints=["1 > 2"])
    assert (empty.size, list(empty), empty[:], empty[::2]) == (0, [], [], [])
    assert [cost for _, cost in empty.costs()] == [2]
    assert zen.Space(a=[1, 2], constraints=["2 > 1"]).size == 2


def test_replacing_and_adding_make_new_spaces():
    space = matrix()
    wider = space.replace(Parameter("threads", elements(["1", "2", "4", "8"])))
    assert (space.size, wider.size, wider.cartesian) == (11, 13, 16)
    assert space.where("n > 128", "threads == 1").size == 3
    assert len(space.constraints) == 1


def test_names_of_any_kind_are_data():
    names = ["select", "Größe", "x" * 70, "block-size", "None", "self", "parameters"]
    space = zen.Space([Parameter(name, elements(["1", "2"])) for name in names])
    space = space.where("select + Größe == `block-size`", f"{'x' * 70} < self")
    assert space.size == 1 * 1 * 4
    assert set(space.frame()) == set(names)


def test_columns_and_frames_hold_values_of_their_types():
    space = zen.Space(
        i=[1, 2],
        r=[0.5],
        s=["a"],
        b=[True],
        w=zen.parameter([3], when="i > 1"),
        d=zen.derived("i / 2"),
    )
    columns = space.columns()
    assert {name: column.dtype.kind for name, column in columns.items()} == dict(
        zip("irsbwd", "ifObOf", strict=True)
    )
    assert columns["w"].tolist() == [None, 3]
    frame = space.frame(1)
    assert list(frame) == ["i", "r", "s", "b", "w", "d"]
    assert frame.to_dict("records") == [{"i": 2, "r": 0.5, "s": "a", "b": True, "w": 3, "d": 1.0}]
    with pytest.raises(SpaceError, match="request a slice"):
        zen.Space(n=range(10**12)).columns()


def test_a_table_keeps_narrow_codes():
    kinds = [Choices(range(1, stop)).listed.dtype for stop in (256, 257, 65536, 65537)]
    assert kinds == [np.uint8, np.uint16, np.uint16, np.uint32]
    space = zen.Space(a=range(300), b=range(200), c=["x", "y"]).where(
        "a * b < 40000", "a != b or c == 'x'"
    )
    (only,) = space.components
    assert [column.dtype for column in only.codes(range(space.size))] == [
        np.uint16,
        np.uint8,
        np.uint8,
    ]


def test_components_are_independent():
    space = zen.Space(a=[1, 2], b=[1, 2], c=[1, 2], d=zen.span(1, "b"), e=[1, 2]).where("a <= c")
    assert [each.part.names for each in space.components] == [("a", "c"), ("b", "d"), ("e",)]
    assert [each.size for each in space.components] == [3, 3, 2]
    order = [tuple(point.values()) for point in space]
    expected = itertools.product([(1, 1), (1, 2), (2, 2)], [(1, 1), (2, 1), (2, 2)], [1, 2])
    assert order == [(a, b, c, d, e) for (a, c), (b, d), e in expected]


def test_a_component_finds_the_combinations_that_it_lists_and_no_others():
    space = zen.Space(a=[1, 2, 3], b=[1, 2, 3], c=[1, 2]).where("a < b")
    listed, free = space.components
    (table,) = listed.tables()
    for each, valid in ((listed, 3), (free, 2), (component.TableComponent(listed.part, table), 3)):
        names = each.part.names
        codes = itertools.product(*(range(p.domain.size) for p in each.part.dimensions))
        numbers = [each.find(dict(zip(names, row, strict=True))) for row in codes]
        assert [number for number in numbers if number is not None] == [*range(valid)]
        rows = np.array(each.codes([*range(valid)])).T.tolist()
        assert [each.find(dict(zip(names, row, strict=True))) for row in rows] == [*range(valid)]


@pytest.mark.parametrize(
    ("constraints", "sizes"),
    [
        (["a < b", "1 < 2", "c == 1"], [18, 6, 6, 3]),
        (["c == 1", "1 > 2", "a < b"], [18, 9, 0, 0]),
        (["a == 1", "b == 1", "a <= b", "b <= c"], [18, 6, 2, 2, 2]),
        (["a > 1", "c // (a - 1) > 0"], [18, 12, 9]),  # the second has no value without the first
        ([Zip(("a", "b")), "b <= c", Zip(("b", "d"))], [54, 18, 9, 3]),
    ],
)
def test_sizes_are_counted_after_each_constraint(constraints, sizes):
    columns = {"a": [1, 2, 3], "b": [1, 2, 3], "c": [1, 2]}
    if Zip(("b", "d")) in constraints:
        columns["d"] = [4, 5, 6]
    space = zen.Space(**columns).where(*constraints)
    assert [count() for count in space.growing_sizes()] == sizes


def test_the_published_spaces_have_their_sizes():
    memory = (
        "(block_size_x*tile_size_x + temporal_tiling_factor*2)"
        " * (block_size_y*tile_size_y + temporal_tiling_factor*2) * (2+sh_power) * 4"
    )
    hotspot = zen.Space(
        block_size_x=[1, 2, 4, 8, 16, *range(32, 1025, 32)],
        block_size_y=zen.geometric(1, 32),
        tile_size_x=zen.span(1, 10),
        tile_size_y=zen.span(1, 10),
        temporal_tiling_factor=zen.span(1, 10),
        loop_unroll_factor_t=zen.span(1, 10),
        sh_power=[0, 1],
        blocks_per_sm=zen.span(0, 4),
        s=zen.derived(memory),
    ).where(
        "32 <= block_size_x * block_size_y <= 1024",
        "temporal_tiling_factor % loop_unroll_factor_t == 0",
        "s <= 49152",
        "blocks_per_sm == 0 or s * blocks_per_sm <= 102400",
    )
    assert (hotspot.cartesian, hotspot.size) == (22_200_000, 349_853)
    assert sum(cost for _, cost in hotspot.costs()) == 22_200_000 - 349_853
    frame = hotspot.columns()
    kept = (frame["s"] <= 49152) & (frame["s"] * frame["blocks_per_sm"] <= 102400)
    assert kept.all()
    order = np.lexsort([frame[each.name] for each in reversed(hotspot.dimensions)])
    assert (order == np.arange(hotspot.size)).all()


def test_a_plan_that_grows_too_wide_is_followed_in_order():
    sets = {name: range(12) for name in "abcde"}
    space = zen.Space(**sets).where("c * d * e < 30", "a + b + e == 7", "b != d")
    sizes = {"MAX_PIECE_ROWS": 64, "MAX_UNSPLIT_ROWS": 100, "MAX_BOUND_CODES": 1 << 18}
    with (
        mock.patch.multiple(join, **sizes),
        mock.patch.object(component, "MAX_TABLE_BYTES", 1 << 29),
    ):
        careful = [tuple(point.values()) for point in space.where("true")]
    expected = [
        (a, b, c, d, e)
        for a, b, c, d, e in itertools.product(range(12), repeat=5)
        if c * d * e < 30 and a + b + e == 7 and b != d
    ]
    assert careful == expected == [tuple(point.values()) for point in space]


def test_points_are_made_in_blocks_that_agree_with_single_ones():
    space = matrix()
    assert list(space) == [space.point(i) for i in range(11)]
    assert isinstance(space.point(0), Point)
    assert math.prod(len(each.domain.texts()) for each in space.dimensions) == space.cartesian


def test_several_parts_that_are_not_joined_at_once_are_walked_together():
    sets = {name: range(4) for name in "abcdef"}
    space = zen.Space(**sets).where("a < b", "d != e", "a != 2")
    with (
        mock.patch.object(component, "MAX_EAGER_CODES", 10),
        mock.patch.object(join, "MAX_PIECE_ROWS", 5),
    ):
        walked = [tuple(point.values()) for point in space.where("true")]
    product = itertools.product(range(4), repeat=6)
    kept = [p for p in product if p[0] < p[1] and p[3] != p[4] and p[0] != 2]
    assert walked == kept == [tuple(point.values()) for point in space]


def test_a_vast_concatenation_is_a_dimension_like_any_other():
    hosts = concatenation(["node", zen.span(1, 10**12), "-", elements(["a", "b"])])
    space = zen.Space(host=hosts, n=[1, 2]).where("n == 1 or len(host) > 7")
    with (
        mock.patch.object(join, "WORK_LIMITS", ((1 << 10, 1 << 30),)),
        mock.patch.object(join, "EDGES", 1 << 14),
        mock.patch.object(join, "MAX_BOUND_CODES", 1 << 14),
        pytest.raises(SpaceError, match="too many to count"),
    ):
        _ = space.size
    plain = zen.Space(host=hosts, n=[1, 2])
    assert plain.columns(4, 6)["host"].tolist() == ["node2-a", "node2-a"]
    assert plain.index({"host": "node2-b", "n": 2}) == 7
    numbered = concatenation(["1", zen.span("00000", "99999"), zen.span("00", "99")])
    (last,) = zen.Space(n=numbered)[-1:]
    assert (last["n"], last.text("n")) == (19999999, "19999999")
    assert [p["n"] for p in zen.Space(n=numbered).neighbours(last)] == [19999998]


@pytest.mark.parametrize("rows", [1, 5, 1 << 16])
def test_blocks_are_the_points_in_order_cut_at_a_size_and_at_a_limit(rows, monkeypatch):
    monkeypatch.setattr(component, "MAX_EAGER_CODES", 1)
    monkeypatch.setattr(join, "MAX_PIECE_ROWS", rows)
    space = zen.Space(
        a=[3, 1, 2],
        b=zen.parameter(["x", "y"], when="a > 1"),
        c=zen.span(1, "a"),
        d=["p", "q"],
        e=zen.derived("a * 2"),
    ).where("a != c or d == 'p'")
    points = list(space)
    assert len(points) == 17
    for size, limit in itertools.product((1, 2, 7, 17, 50), (None, 0, 1, 6, 7, 17, 99)):
        cut = [tuple(points[:limit][at : at + size]) for at in range(0, 17, size)]
        blocks = list(space.blocks(size, limit))
        assert [block.points for block in blocks] == [block for block in cut if block]
        assert [len(block) for block in blocks] == [len(block) for block in cut if block]
    assert list(zen.Space(a=[1]).where("a > 1").blocks(3)) == []
    (block,) = space.blocks(50)
    assert block.coded.keys() == {"a", "b", "d"}
    for name, (codes, texts) in block.coded.items():
        active = [None if p.positions[name] is None else p.text(name) for p in points]
        assert [texts[code] for code in codes.tolist()] == active
    assert {name: len(texts) for name, (_, texts) in block.coded.items()} == {
        "a": 3,
        "b": 3,
        "d": 2,
    }


def test_a_fingerprint_is_that_of_what_is_written_and_stays():
    sets = {"a": [1, 2], "b": zen.parameter(["x"], when="a > 1"), "d": zen.derived("a * 2")}
    assert fingerprint(zen.Space(**sets)) == "c67559f28143ed87"
    assert fingerprint(zen.Space(n=zen.span(1, 100_000))) == "cf0ec1453d1d2b0e"  # listed
    assert fingerprint(zen.Space(n=zen.span(1, 100_001))) == "27f0cbf92e923e20"  # its ends
    others = [
        {**sets, "a": [2, 1]},
        {**sets, "a": zen.span("01", "02")},
        {**sets, "b": zen.parameter(["x"], when="a > 0")},
        {**sets, "b": ["x"]},
        {**sets, "d": zen.derived("a * 3")},
        {"d": sets["d"], "b": sets["b"], "a": sets["a"]},
        {"a": sets["a"]},
        {"a": sets["a"], "c": sets["d"]},
        {"a": zen.span(1, 10**6)},
        {"a": zen.span(1, 10**6 + 1)},
        {"a": zen.span(0, 10**6 - 1)},
        {"a": zen.span(1, 2 * 10**6, 2)},
        {"a": zen.span(1, 10**5)},
        {"a": [1, 2], "b": zen.span(1, "a")},
        {"a": [1, 2], "b": zen.span(1, "2 * a")},
        {"a": [1, 2], "b": zen.span("a", 2)},
        {"a": [1, 2], "b": zen.span(1, "a", 2)},
        {"a": zen.uniform(1, 2)},
        {"a": zen.uniform(1, 3)},
        {"a": zen.uniform(0, 2)},
        {"a": zen.loguniform(1, 2)},
    ]
    spaces = [zen.Space(**each) for each in (sets, *others)]
    spaces += [zen.Space(**sets).where("a > 0"), zen.Space(**sets).where("a > 1")]
    assert len({fingerprint(space) for space in spaces}) == len(spaces)
    assert all(fingerprint(space) == fingerprint(space.where()) for space in spaces)


def test_a_space_is_the_same_after_it_was_written_as_json():
    whole = zen.Space(
        a=["01", "1"], b=[True, False], c=[1, 2.5], n=zen.span(1, 10**6, 3), x=zen.uniform(0, 1),
        y=zen.parameter(zen.loguniform(1e-3, 1), when='a == "1"', default=0.5, unit="s"),
        d=zen.span(0, "n // 2", 2), e=zen.derived("n * 2"), u=[1, 2], v=["p", "q"],
        constraints=["n < 100 or b"],
    ).together("u", "v")  # fmt: skip
    again = space_from_json(json.loads(json.dumps(space_as_json(whole))))
    assert again.parameters == whole.parameters
    assert fingerprint(again) == fingerprint(whole)
    assert again.sample(3, 1) == whole.sample(3, 1)
    assert space_as_json(zen.Space(a=[str(n) for n in range(10_001)])) is None


def test_bounds_are_numbers_that_a_real_can_be():
    bounds = ("first", "last", "stride")
    for at, name in enumerate(bounds):
        for text, message in (
            (f"1e{WIDEST + 1}", f"so it cannot be a {name}"),
            (f"1e-{WIDEST + 1}", f"so it cannot be a {name}"),
            ("1" * (DIGITS + 1), f"of {DIGITS + 1} digits is too long to be a {name}"),
        ):
            texts = ["n", "n", "n"]
            texts[at] = text
            with pytest.raises(SpaceError, match=message):
                Dependent(*texts)
    assert read_number(f"1e{WIDEST}") == Decimal(10) ** WIDEST
    assert read_number(f"-1e-{WIDEST}") == -(Decimal(10) ** -WIDEST)
    assert read_number("0" * (DIGITS - 1) + "7") == 7
    with pytest.raises(SpaceError, match="'n' is not a number, so it cannot be a bound"):
        read_number("n")
