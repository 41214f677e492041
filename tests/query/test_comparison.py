"""Two studies are compared point by point, and noise is not taken for a difference."""

import math

import numpy as np
import pandas as pd
import pytest

from zenturio.errors import InputError
from zenturio.query import compare


def study(name, slower=1.0, noise=0.02, repeats=8, sizes=(1, 2, 3, 4), seed=0, **more):
    random = np.random.default_rng(seed)
    rows = [
        {"n": n, **more, "wtime": n * slower * (1 + noise * random.normal())}
        for n in sizes
        for _ in range(repeats)
    ]
    table = pd.DataFrame(rows)
    table.attrs = {"study": name, "units": {"wtime": "s"}, "parameters": ["n", *more]}
    return table


def verdicts(comparison):
    return [pair.verdict for pair in comparison.pairs]


def test_a_true_difference_is_found_with_its_size():
    found = compare(study("old"), study("new", slower=1.2, seed=1), "wtime")
    assert verdicts(found) == ["more"] * 4
    assert found.ratio == pytest.approx(1.2, rel=0.03)
    ratios = [pair.shift.ratio for pair in found.pairs]
    assert sum(low < 1.2 < high for low, high in ratios) >= 3
    assert verdicts(compare(study("a", 1.2), study("b", seed=1), "wtime")) == ["less"] * 4


def test_noise_is_no_difference_nearly_as_often_as_promised():
    wrong = 0
    for seed in range(60):
        found = compare(study("a", seed=seed), study("b", seed=1000 + seed), "wtime", seed=seed)
        wrong += sum(verdict != "no difference" for verdict in verdicts(found))
    assert wrong / 240 < 0.09


def test_too_few_repeats_are_not_judged():
    found = compare(study("a", repeats=4), study("b", slower=9, repeats=8), "wtime")
    assert verdicts(found) == ["too few repeats"] * 4
    assert all(pair.shift is None for pair in found.pairs)
    assert found.notes[-1] == "4 have fewer than 5 repeats: too few to judge"
    assert found.result().rows[0][4:6] == (None, None)
    assert found.result().rows[0][6] == pytest.approx(9, rel=0.1)


def test_the_same_seed_gives_the_same_intervals():
    first = compare(study("a"), study("b", seed=1), "wtime", seed=3)
    again = compare(study("a"), study("b", seed=1), "wtime", seed=3)
    other = compare(study("a"), study("b", seed=1), "wtime", seed=4)
    assert first == again
    assert first != other


def test_points_of_one_study_alone_are_counted():
    found = compare(study("a", sizes=(1, 2, 3)), study("b", sizes=(2, 3, 4, 5)), "wtime")
    assert [pair.point for pair in found.pairs] == [(2,), (3,)]
    assert found.only == (1, 2)
    assert found.notes[0] == "2 points in both, 1 only in a, 2 only in b"


def test_parameters_of_one_study_alone_do_not_make_a_point():
    found = compare(study("a", threads=4), study("b"), "wtime")
    assert found.on == ("n",)
    assert compare(study("a", threads=4), study("b", threads=4), "wtime", on=["threads"]).on == (
        "threads",
    )


def test_an_inactive_parameter_is_the_same_point_in_both():
    first, second = study("a", omega=None), study("b", omega=math.nan)
    assert compare(first, second, "wtime").only == (0, 0)


def test_the_table_names_studies_units_and_verdicts():
    shown = compare(study("old"), study("new", slower=2), "wtime").result()
    assert shown.heads == (
        "n", "old (s)", "new (s)", "difference (s)", "low (s)", "high (s)", "ratio", "repeats",
        "verdict",
    )  # fmt: skip
    assert shown.rows[0][-2:] == ("8, 8", "more")


def test_a_study_is_compared_with_itself_under_other_names():
    assert compare(study("a"), study("a"), "wtime").names == ("first", "second")


@pytest.mark.parametrize(
    ("metric", "on", "message"),
    [
        ("wtme", ["n"], r"has no 'wtme'[\s\S]*'wtime'"),
        ("wtime", ["m"], "has no 'm'"),
        ("kind", ["n"], "'kind' holds text"),
    ],
)
def test_what_cannot_be_compared_says_why(metric, on, message):
    with pytest.raises(InputError, match=message):
        compare(study("a", kind="x"), study("b", kind="x"), metric, on=on)


def test_studies_without_a_common_point_are_not_compared():
    with pytest.raises(InputError, match="no point of n is in both"):
        compare(study("a", sizes=(1,)), study("b", sizes=(2,)), "wtime")
    table = study("a")
    table.attrs["parameters"] = []
    with pytest.raises(InputError, match="share no parameter"):
        compare(table, study("b"), "wtime")


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [(0.0, 5.0, "more"), (-1.0, -2.0, "less"), (-2.0, -1.0, "more"), (5.0, 0.0, "less"),
     (-1.0, 1.0, "more"), (0.0, 0.0, "no difference"), (-0.1, -0.1, "no difference")],
)  # fmt: skip
def test_means_that_are_not_positive_are_judged_by_their_difference(before, after, verdict):
    found = compare(values("a", [before] * 10), values("b", [after] * 10), "y")
    (pair,) = found.pairs
    assert pair.verdict == verdict
    assert pair.ratio is None
    assert pair.shift.difference == (after - before, after - before)
    assert found.ratio is None
    assert (
        found.notes[1]
        == "1 of 1 points have no ratio: y is not above zero in each of their repeats"
    )


def test_noise_around_zero_has_no_ratio_and_no_difference():
    random = np.random.default_rng(5)
    found = compare(values("a", random.normal(0, 1, 20)), values("b", random.normal(0, 1, 20)), "y")
    assert verdicts(found) == ["no difference"]
    assert found.result().rows[0][6] is None


def test_equal_values_do_not_differ_by_a_rounding():
    assert verdicts(compare(values("a", [0.1] * 7), values("b", [0.1] * 11), "y")) == [
        "no difference"
    ]


def test_experiments_without_a_finite_value_are_counted():
    found = compare(
        values("a", [1.0] * 5 + [math.nan]), values("b", [1.0] * 5 + [math.inf] * 2), "y"
    )
    assert found.notes[-2:] == (
        "1 experiments of a have no finite y",
        "2 experiments of b have no finite y",
    )


def values(name, column):
    table = pd.DataFrame({"n": [1] * len(column), "y": list(column)})
    table.attrs = {"study": name, "parameters": ["n"]}
    return table
