"""Times that were foretold."""

import numpy as np
import pytest

from zenturio.errors import InputError
from zenturio.query import fit
from zenturio.schedule.model.platform import Platform, PlatformMachine
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.shape_and_runtimes import (
    LAPW2_SHARE,
    lapw1_operations,
    predicted_curve,
    vector_bytes,
    with_predicted_times,
)
from zenturio.schedule.model.workflow import Workflow, WorkflowTask

SIZES = {"small": 10.0, "large": 20.0}
FLOW = Workflow.of(
    "f",
    [
        WorkflowTask("small", program="solve"),
        WorkflowTask("large", 7, program="solve", cores=2),
        WorkflowTask("x", 3, program="plot"),
    ],
    [("small", "large", 5.0)],
    author="me",
)


def features(task):
    return {"n": SIZES[task.name]}


def test_the_cost_functions_are_those_of_the_paper():
    assert lapw1_operations(10, 100) == 7 * 10 * 100**2 + 100**3
    assert vector_bytes(10, 100) == 200 * 100 * 10
    assert LAPW2_SHARE == 0.1


def test_tasks_of_a_program_take_what_its_model_predicts():
    found = with_predicted_times(FLOW, {"solve": lambda columns: 0.5 * columns["n"]}, features)
    assert [task.work for task in found.tasks] == [5, 10, 3]
    assert [task.cores for task in found.tasks] == [1, 2, 1]
    assert list(found.edges) == list(FLOW.edges)
    assert (found.name, found.notes) == ("f", {"author": "me"})


def test_a_model_that_was_fitted_to_measurements_tells_the_time_on_each_machine():
    speeds, sizes = np.meshgrid([1.0, 2.0, 4.0], [5.0, 10.0, 20.0, 40.0])
    measured = {"speed": speeds.ravel().tolist(), "n": sizes.ravel().tolist()}
    measured["wtime"] = (3 * sizes.ravel() ** 2 / speeds.ravel()).tolist()
    model = fit(measured, "wtime", ["n", "speed"], kinds=["power"])
    grid = Platform(
        "g", (PlatformMachine("slow", 1.0, cores=2), PlatformMachine("fast", 3.0, cores=2))
    )
    problem = Problem.of(with_predicted_times(FLOW, {"solve": model.predict}, features, grid), grid)
    times = [[problem.time(task, machine) for machine in (0, 1)] for task in (0, 1)]
    assert times == [pytest.approx([300, 100], rel=1e-3), pytest.approx([1200, 400], rel=1e-3)]
    assert problem.time(2, 1) == 1


def test_a_moldable_task_scales_as_its_model_does():
    found = predicted_curve(
        lambda columns: 2 + columns["n"] / columns["nodes"], [1, 2, 8], {"n": 16}
    )
    assert (found.nodes, found.seconds) == ((1, 2, 8), (18, 10, 4))


@pytest.mark.parametrize(
    ("models", "diagnostic"),
    [
        ({"solv": lambda columns: columns["n"]}, "no task of f runs the program 'solv'"),
        ({"solve": lambda columns: columns["n"] - 15}, "program 'solve' predicts -5 s for n=10"),
        ({"solve": lambda columns: columns["n"] * np.nan}, "predicts nan s"),
        ({"solve": lambda _columns: [1.0]}, "returned shape (1,) for 2 rows"),
    ],
)
def test_what_no_task_can_take_is_refused(models, diagnostic):
    with pytest.raises(InputError) as refused:
        with_predicted_times(FLOW, models, features)
    assert diagnostic in str(refused.value)
