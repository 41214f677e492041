"""Python functions as experiments."""

import math

import numpy as np
import pytest

from zenturio.errors import InputError
from zenturio.execute.inline import Inline
from zenturio.experiment import ExperimentFunction, Missing, Series
from zenturio.experiment.function import experiment
from zenturio.space import Space
from zenturio.testing.executor import ExecutorContract, outcome


@experiment
def divide(n, threads=1):
    return {"gflops": 3.2 / n, "label": f"n{n}"}


@pytest.fixture
def place():
    return Inline(divide)


class TestInline(ExecutorContract):
    serial = 0

    def good(self):
        type(self).serial += 1
        return divide.experiments({"n": 1, "threads": self.serial})[0]

    def bad(self):
        type(self).serial += 1
        return divide.experiments({"n": 0, "threads": self.serial})[0]


def run(function, values=None):
    (made,) = ExperimentFunction(function).experiments(values or {})
    return Inline(function).call(made)


def test_the_function_stays_a_function():
    assert divide(2) == {"gflops": 1.6, "label": "n2"}
    assert divide.name == "divide"
    assert divide.__doc__ is None


def test_an_exception_is_an_outcome_with_its_traceback(place):
    (made,) = divide.experiments({"n": 0})
    found = outcome(place, made)
    assert (found.status, found.cause, found.exit) == ("failed", "ZeroDivisionError", 1)
    assert b"float division by zero" in found.stderr.head
    assert b"test_inline.py" in found.stderr.head
    assert found.stderr.size == len(found.stderr.head)


def test_an_interrupt_is_no_outcome():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(interrupted)


def test_leaving_the_program_is_a_failure():
    def leaving():
        raise SystemExit(3)

    assert run(leaving).cause == "SystemExit"


@pytest.mark.parametrize(
    ("answer", "metrics"),
    [
        ({"a": 1, "b": "t", "c": True}, {"a": 1, "b": "t", "c": True}),
        (3.5, {"value": 3.5}),
        (np.float32(0.5), {"value": 0.5}),
        ({"a": np.int64(7), "b": np.arange(3)}, {"a": 7, "b": Series((0, 1, 2))}),
        ({"a": [1, 2.5, "x"]}, {"a": Series((1, 2.5, "x"))}),
        ({"a": 10**40}, {"a": 10**40}),
        ({"a": math.inf}, {"a": math.inf}),
        ({"a": None}, {"a": Missing("the function returned None for it")}),
        (None, {}),
    ],
)
def test_an_answer_becomes_metrics(answer, metrics):
    def answers():
        return answer

    found = run(answers).metrics
    always = {"wtime", "ctime", "maxrss", "exit"}
    kept = {name: value for name, value in found.items() if name not in always}
    assert kept == metrics
    assert [type(value) for value in kept.values()] == [type(v) for v in metrics.values()]


def test_an_answer_that_is_no_measure_is_refused():
    def answers():
        return {"a": object()}

    assert run(answers).cause == "InputError"


def test_a_function_gets_the_parameters_that_it_knows():
    def some(n):
        return n

    def all_of_them(**values):
        return len(values)

    values = {"n": 4, "m": 5}
    assert run(some, values).metrics["value"] == 4
    assert run(all_of_them, values).metrics["value"] == 2


def test_a_space_with_a_parameter_that_the_function_lacks_is_refused():
    with pytest.raises(InputError, match=r"divide\(\) has no argument thread\n") as caught:
        divide.check(Space(n=[1, 2], thread=[1]))
    assert "did you mean 'threads'" in caught.value.diagnostics[0].hint
    divide.check(Space(n=[1, 2], threads=[1]))


def test_identity_covers_the_source_the_values_and_the_repeat():
    def one(n):
        return n

    def other(n):
        return n + 1

    digests = [
        made.digest
        for function in (ExperimentFunction(one, repeat=2), ExperimentFunction(other, repeat=2))
        for values in ({"n": 1}, {"n": 1.0}, {"n": "1"}, {"n": True}, {"m": 1}, {"n": 1, "m": 1})
        for made in function.experiments(values)
    ]
    assert len(set(digests)) == len(digests) == 24
    assert ExperimentFunction(one).experiments({"n": 1})[0].digest == digests[0]
    assert all(len(digest) == 32 for digest in digests)


def test_the_order_of_values_does_not_matter():
    one = divide.experiments({"n": 1, "threads": 2})
    assert one[0].digest == divide.experiments({"threads": 2, "n": 1})[0].digest


def test_a_seed_is_the_number_of_the_run():
    @experiment(repeat=3, seed="seed")
    def draws(n, seed):
        return {"drawn": n + seed}

    made = draws.experiments({"n": 10})
    inline = Inline(draws)
    assert [inline.call(each).metrics["drawn"] for each in made] == [11, 12, 13]


def test_what_is_run_together_is_what_is_run_alone():
    made = [each for n in range(1, 20) for each in divide.experiments({"n": n})]
    inline = Inline(divide)
    together = [inline.call(each).metrics["gflops"] for each in made]
    assert together == [inline.submit(each).result().metrics["gflops"] for each in made]
