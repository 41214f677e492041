"""What can be searched for: a formula, a fitted model, a method; a function is in test_searching."""

import numpy as np

import zenturio as zen
from zenturio.expression import parse
from zenturio.query.regression import fit

SPACE = zen.Space(n=zen.span(1, 200), threads=[1, 2, 4, 8])


def test_a_formula():
    cost = parse("(n - 120) ** 2 / threads + threads")
    found = zen.search(SPACE, lambda point: cost.value(point), engine="hill", budget=200)
    assert dict(found.best.point) == {"n": 120, "threads": 1}
    fast = zen.search(
        SPACE, lambda columns: cost.column(columns, len(columns["n"])), engine="hill", budget=200,
        takes="columns",
    )  # fmt: skip
    assert list(fast.trials) == list(found.trials)


def test_a_model_that_was_fitted_to_what_was_measured():
    rng = np.random.default_rng(1)
    sizes = np.repeat(np.arange(10, 200, 10.0), 3)
    times = (900 - 12 * sizes + 0.06 * sizes**2) * (1 + 0.005 * rng.normal(size=len(sizes)))
    model = fit({"n": sizes, "wtime": times}, "wtime", ["n"])
    space = zen.Space(n=zen.span(1, 200))
    found = zen.search(space, model.predict, engine="ga", budget=150, takes="columns")
    every = model.predict({"n": np.arange(1, 201.0)})
    assert found.best.scores[0] == every.min()
    assert abs(found.best.point["n"] - 100) <= 5


class Simulator:
    """Something with a state, which counts its calls."""

    def __init__(self):
        self.calls = 0

    def makespan(self, point):
        self.calls += 1
        return None if point["threads"] == 8 else point["n"] / point["threads"]


def test_a_method_is_called_once_for_each_point():
    machine = Simulator()
    found = zen.search(SPACE, machine.makespan, engine="exhaustive")
    assert (machine.calls, found.count) == (800, 800)
    assert dict(found.best.point) == {"n": 1, "threads": 4}


def test_columns_that_are_asked_for_when_all_wait_are_not_evaluated():
    """A generation that is known altogether is told to the engine, and nothing is called."""
    known = {point: (float(point["n"]),) for point in SPACE}
    calls = []
    found = zen.search(
        SPACE, lambda columns: calls.append(columns) or columns["n"], engine="ga", budget=100,
        takes="columns", cached=known,
    )  # fmt: skip
    assert (found.count, calls) == (100, [])
