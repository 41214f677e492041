"""Planted formulas are found again under noise, and what is found can be read back."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zenturio.errors import InputError
from zenturio.expression import parse
from zenturio.query import regression
from zenturio.query.formula_shapes import EXPONENTS, Factor, GrowthShape, SumShape, candidates
from zenturio.query.regression import fit, fit_each, fit_rows, fits, mixed_parameters

POWERS = 2.0 ** np.arange(1, 11)


def noisy(formula, *axes, noise=0.02, repeats=5, seed=0):
    """A table of all combinations of *axes* (x, y, ...) with repeats of *formula* under noise."""
    random = np.random.default_rng(seed)
    grid = np.array([p for p in product(*axes) for _ in range(repeats)], dtype=float)
    truth = formula(*grid.T)
    columns = dict(zip(("n", "p", "q"), grid.T, strict=False))
    return {**columns, "wtime": truth * (1 + noise * random.normal(size=len(truth)))}


def form(model):
    return model.shape.formula(["c"] * model.shape.size)


PLANTED = {
    "c": lambda n: 7 + 0 * n,
    "c + c * n": lambda n: 3 + 2 * n,
    "c + c * n + c * n ** 2": lambda n: 900 - 5 * n + 0.01 * n**2,
    "c + c * log(n)": lambda n: 1 + 3 * np.log(n),
    "c * n ** c": lambda n: 2 * n**0.37,
    "c + c * n * log2(n)": lambda n: 5 + 0.3 * n * np.log2(n),
    "c + c * n ** (3 / 2)": lambda n: 1 + 0.01 * n**1.5,
    "c + c * n ** -1": lambda n: 2 + 100 / n,
    "c + c * n ** -1 + c * log2(n)": lambda n: 100 / n + 2 * np.log2(n),
}


@pytest.mark.parametrize(
    "planted",
    [pytest.param(p, marks=[pytest.mark.slow] if n % 3 else []) for n, p in enumerate(PLANTED)],
)
def test_a_planted_formula_is_found_under_noise_most_of_the_time(planted):
    found = [form(fit(noisy(PLANTED[planted], POWERS, seed=s), "wtime", ["n"])) for s in range(12)]
    assert found.count(planted) >= 8, found


@pytest.mark.parametrize("planted", PLANTED)
def test_a_found_formula_foretells_beyond_the_data(planted):
    truth, far = PLANTED[planted], np.array([4 * POWERS[-1]])
    models = [fit(noisy(truth, POWERS, seed=s), "wtime", ["n"]) for s in range(12)]
    off = [abs(m.predict({"n": far})[0] / truth(far)[0] - 1) for m in models]
    assert np.median(off) < 0.03


def test_exponential_growth_is_found():
    table = noisy(lambda n: 2 * np.exp(0.3 * n), np.arange(1, 12))
    model = fit(table, "wtime", ["n"])
    assert model.kind == "exponential"
    assert model.coefficients == pytest.approx((2, 0.3), rel=0.02)


SEVERAL = {
    "c + c * n ** 2 * p ** -1": lambda n, p: 1 + 1e-4 * n**2 / p,
    "c + c * log2(p) + c * n * log2(n) * p ** -1": lambda n, p: (
        0.01 * n * np.log2(n) / p + 0.5 * np.log2(p)
    ),
    "c * n ** c * p ** c": lambda n, p: 0.001 * n**2.1 * p**-0.9,
}


@pytest.mark.parametrize(
    "planted", [pytest.param(f, marks=pytest.mark.slow if "log2" not in f else ()) for f in SEVERAL]
)
def test_a_formula_of_two_parameters_is_found(planted):
    sizes, processors = 2.0 ** np.arange(6, 11), 2.0 ** np.arange(6)
    found = [
        form(fit(noisy(SEVERAL[planted], sizes, processors, seed=s), "wtime", ["n", "p"]))
        for s in range(6)
    ]
    assert found.count(planted) >= 5, found


@pytest.mark.slow
def test_a_formula_of_three_parameters_is_found():
    axes = (2.0 ** np.arange(6, 11), 2.0 ** np.arange(5), 1.0 + np.arange(5))
    table = noisy(lambda n, p, q: 3 + 1e-3 * n * np.log2(n) * q / p, *axes, repeats=2)
    assert form(fit(table, "wtime", ["n", "p", "q"])) == "c + c * n * log2(n) * p ** -1 * q"


def test_exact_data_give_the_exact_formula():
    table = {"n": POWERS, "wtime": 5 + 0.25 * POWERS * np.log2(POWERS)}
    model = fit(table, "wtime", ["n"])
    assert model.formula == "5 + 0.25 * n * log2(n)"
    assert model.r2 == pytest.approx(1)


def test_every_formula_reads_back_and_says_what_the_model_says():
    table = noisy(lambda n, p: 2 + n**1.3 / p, POWERS, 2.0 ** np.arange(5))
    for model in fits(table, "wtime", ["n", "p"]):
        said = parse(model.formula)
        row = {"n": 100.0, "p": 3.0}
        assert model.predict({k: [v] for k, v in row.items()})[0] == pytest.approx(
            said.value(row), rel=1e-12
        )


def test_names_that_need_it_stand_in_backticks():
    model = fit({"block-size": POWERS, "wtime": 3 * POWERS + 1}, "wtime", ["block-size"])
    assert model.formula == "1 + 3 * `block-size`"
    assert parse(model.formula).value({"block-size": 2}) == 7


def test_terms_without_a_value_on_some_row_are_not_tried():
    x = np.arange(0.0, 12)
    model = fit({"n": x, "wtime": 4 + 2 * x**1.5}, "wtime", ["n"])
    assert model.formula == "4 + 2 * n ** (3 / 2)"


def test_a_metric_that_depends_on_nothing_is_a_constant():
    model = fit({"n": POWERS, "wtime": np.full(10, 4.0)}, "wtime", ["n"])
    assert (model.formula, model.kind, model.x, model.r2) == ("4", "constant", (), 1.0)
    assert model.predict({"n": [1, 2]}).tolist() == [4.0, 4.0]


def test_rows_without_a_number_do_not_count():
    table = {"n": [1, 2, 3, 4, 5, None], "wtime": [3.0, 5.0, 7.0, 9.0, None, 1.0]}
    model = fit(table, "wtime", ["n"])
    assert (model.formula, model.rows, model.points) == ("1 + 2 * n", 4, 4)


def test_noise_is_told_by_the_repeats():
    def told(deviation):
        random = np.random.default_rng(1)
        x = np.repeat(POWERS, 6)
        return fit({"n": x, "y": 3 * x + deviation(x) * random.normal(size=60)}, "y", ["n"]).noise

    assert told(lambda x: 0.05 * x) == "relative"
    assert told(lambda x: 20 + 0 * x) == "equal"


def test_each_group_has_its_own_model():
    table = {
        "wtime": np.concatenate([2 * POWERS, 5 + POWERS]),
        "n": np.tile(POWERS, 2),
        "solver": ["a"] * 10 + ["b"] * 10,
    }
    models = fit_each(table, "wtime", ["n"], by=["solver"])
    assert {key: model.formula for key, model in models.items()} == {
        ("a",): "2 * n",
        ("b",): "5 + n",
    }


def test_a_frame_with_gaps_is_fitted_as_it_is():
    table = pd.DataFrame(
        {
            "n": pd.array([*range(1, 8), None], dtype="Int64"),
            "wtime": [3.0, 5.0, 7.0, 9.0, None, 13.0, 15.0, 1.0],
            "solver": "cg",
        }
    )
    assert fit(table, "wtime", ["n"]).formula == "1 + 2 * n"
    assert fit_each(table, "wtime", ["n"], by=["solver"])["cg",].formula == "1 + 2 * n"


@pytest.mark.parametrize(
    ("columns", "y", "x", "message"),
    [
        ({"n": [1, 2], "y": [1, 2]}, "y", ["m"], "no column 'm'"),
        ({"n": [1, 2, 2], "y": [1, 2, 3]}, "y", ["n"], "known at 2 distinct values of n"),
        ({"n": ["a", "b", "c"], "y": [1, 2, 3]}, "y", ["n"], "'n' holds text"),
    ],
)
def test_what_cannot_be_fitted_says_why(columns, y, x, message):
    with pytest.raises(InputError, match=message):
        fit(columns, y, x)


def test_a_kind_that_cannot_be_fitted_says_so():
    table = {"n": [1, 2, 3, 4], "y": [-1, 1, -1, 1]}
    with pytest.raises(InputError, match="no power formula"):
        fit(table, "y", ["n"], kinds=["power"])


def test_the_left_out_error_is_that_of_leaving_points_out():
    table = noisy(lambda n: 3 + 2 * n, POWERS, repeats=1)
    model = fit(table, "wtime", ["n"], kinds=["linear"], noise="equal")
    missed = []
    for i in range(10):
        slope, first = np.polyfit(np.delete(table["n"], i), np.delete(table["wtime"], i), 1)
        missed.append(table["wtime"][i] - first - slope * table["n"][i])
    assert model.error == pytest.approx(np.sqrt(np.mean(np.square(missed))), rel=1e-9)


def test_least_squares_of_a_power_beat_those_of_its_logarithm():
    random = np.random.default_rng(3)
    x = np.arange(1.0, 30)
    y = 2 * x**1.5 + random.normal(size=29)
    shape, one = GrowthShape("power", ("x",)), np.ones(29)
    found = shape.solve({"x": x}, y, one)
    line = np.polyfit(np.log(x), np.log(y), 1)
    rival = np.array([np.exp(line[1]), line[0]])

    def squares(c):
        return ((y - shape.values({"x": x}, c)) ** 2).sum()

    assert squares(found) < squares(rival)
    for nudge in (np.array([1e-4, 0]), np.array([0, 1e-4])):
        assert squares(found) <= min(squares(found + nudge), squares(found - nudge))


@given(
    st.lists(st.integers(-1000, 1000), min_size=2, max_size=2),
    st.sets(st.integers(1, 100), min_size=4, max_size=8),
)
@settings(max_examples=settings.default.max_examples * 50 // 100, deadline=None)
def test_a_line_through_whole_numbers_is_found_exactly(coefficients, xs):
    a, b = coefficients
    x = np.array(sorted(xs), dtype=float)
    model = fit({"x": x, "y": a + b * x}, "y", ["x"], kinds=["constant", "linear"])
    assert model.predict({"x": x}) == pytest.approx(a + b * x, abs=1e-3)


def test_the_normal_form_has_the_usual_exponents():
    positive = [(power, logs) for power, logs in EXPONENTS if power >= 0]
    assert len(set(EXPONENTS)) == len(EXPONENTS)
    assert len(positive) == 42
    assert max(logs for _, logs in positive) == 2


def test_all_pairs_of_one_parameter_are_tried():
    (data,) = fit_rows({"n": POWERS, "y": POWERS**1.1}, "y", ["n"]).data("equal")
    sizes = [shape.size for shape, _ in candidates("performance", data)]
    assert sizes.count(2) == len(EXPONENTS)


def test_a_factor_is_written_as_it_is_meant():
    assert SumShape("linear", ((), (Factor("n", logs=2),))).formula(["-1", "-2"]) == (
        "-1 - 2 * n * log2(n) ** 2"
    )


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e200, 1e300])
@pytest.mark.parametrize(
    ("formula", "shape"),
    [
        (lambda x: x, "linear"),
        (lambda x: x**2, "power"),
        (lambda x: np.exp(0.3 * x), "exponential"),
        (lambda x: 1 + 0 * x, "constant"),
    ],
)
def test_the_size_of_y_does_not_change_the_formula(formula, shape, size):
    x = np.arange(1.0, 9.0)
    found = fit({"x": x, "y": size * formula(x)}, "y", ["x"])
    assert found.kind == shape
    assert found.formula.startswith(f"{size:g}")
    assert found.r2 == pytest.approx(1)
    assert found.predict({"x": x}) == pytest.approx(size * formula(x), rel=1e-6)
    assert found.error < 1e-12 * size


def test_parameters_that_differ_between_rows_of_a_point_are_mixed():
    columns = {
        "n": [1, 1, 2, 2],
        "scheme": ["a", "b", "a", "b"],
        "step": [0.5, 0.5, 0.25, 0.25],
        "none": [None, None, None, None],
        "nan": [float("nan")] * 4,
    }
    names = ["n", "scheme", "step", "none", "nan"]
    assert mixed_parameters(columns, names, ["n"]) == ["scheme"]
    assert mixed_parameters(columns, names, ["n", "scheme"]) == []
    assert mixed_parameters(columns, ["scheme", "n"], ["step"]) == ["scheme"]


class CountedColumn:
    """A column that counts the rows that are taken of it."""

    def __init__(self, values):
        self._values = values
        self.taken = 0

    def __len__(self):
        return len(self._values)

    def take(self, rows):
        self.taken += len(rows)
        return self._values.take(rows)


def test_parameters_that_differ_early_are_not_read_to_their_end():
    size = 3 * regression.HEAD
    numbers = np.arange(size)
    columns = {
        "n": numbers % 2,
        "early": numbers % 7,
        "late": numbers // (size - 1),
        "same": 0 * numbers,
    }
    counted = {name: CountedColumn(values) for name, values in columns.items()}
    assert mixed_parameters(counted, ["early"], ["n"]) == ["early"]
    assert counted["early"].taken == regression.HEAD
    assert mixed_parameters(columns, ["early", "late", "same"], ["n"]) == ["early", "late"]
    assert mixed_parameters(columns, ["late"], ["n"], numbers < size - 1) == []
    assert mixed_parameters({"n": [1, 1, 2], "a": ["x", None, "x"]}, ["a"], ["n"]) == ["a"]
    assert mixed_parameters({"n": [1, 1, 2], "a": [None, None, "x"]}, ["a"], ["n"]) == []
