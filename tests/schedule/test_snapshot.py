"""What is left of a workflow on the machines as they are, as a problem."""

import numpy as np
import pytest

from zenturio.errors import InputError
from zenturio.schedule.dynamic.hybrid import forecast
from zenturio.schedule.dynamic.remaining_graph import FAILED_SHARE, remaining_graph, snapshot
from zenturio.schedule.model.platform import LoadStep, NetworkLink, Platform, PlatformMachine
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.simulate.simulator import simulate

LOADS = ([LoadStep(3, 0.5)], [LoadStep(3, 0.0)], [])
PLATFORM = Platform(
    "three",
    tuple(PlatformMachine(f"m{i}", site=f"s{i}", load=tuple(load)) for i, load in enumerate(LOADS)),
    default=NetworkLink("", "", latency=1.0),
)
FLOW = Workflow.of(
    "flow",
    [
        WorkflowTask("done", 2),
        WorkflowTask("runs", 9),
        WorkflowTask("waits", 4),
        WorkflowTask("last", 3),
    ],
    [("done", "waits", 7.0), ("runs", "last"), ("waits", "last")],
)
STATES = ["completed", "running", "queued", "queued"]


def at_five(act, flow=FLOW):
    """What *act* finds at second 5: one has run and one runs on m0; m1 has failed."""
    found = []

    class Look:
        def react(self, grid, events):
            if grid.now == 0:
                grid.send(0, 0)
                grid.send(1, 0)
                grid.wake(5)
            elif grid.now == 5:
                found.append(act(grid))

    simulate(Problem.of(flow, PLATFORM), Look())
    return found[0]


def rest(flow=FLOW):
    return remaining_graph(flow, STATES, {}, 0.5)


def test_what_runs_and_what_has_run_are_where_they_are():
    shot = at_five(lambda grid: snapshot(grid, rest()))
    assert (shot.tasks, shot.planned) == ((2, 3, 0, 1), 2)
    problem = shot.problem
    assert problem.work.tolist() == [4, 3, 0, 7]
    paces = problem.pace[problem.row]
    assert paces[:2].tolist() == [[2, np.inf, 1]] * 2
    assert paces[2:].tolist() == [[2, np.inf, np.inf]] * 2
    assert set(problem.workflow.edges) == {
        ("done", "waits", 7.0), ("runs", "last", 0.0), ("waits", "last", 0.0),
    }  # fmt: skip
    assert problem.group.tolist() == [0, 1, 2, 3]


def test_what_can_run_on_no_machine_that_is_up_waits_for_one_that_is_not():
    flow = Workflow.of(
        "flow",
        [*list(FLOW.tasks)[:3], WorkflowTask("last", 3, times=(np.inf, 1.0, np.inf))],
        list(FLOW.edges),
    )
    problem = at_five(lambda grid: snapshot(grid, rest(flow)), flow).problem
    assert problem.pace[problem.row[1]].tolist() == [np.inf, 1 / FAILED_SHARE, np.inf]


def test_the_outlook_is_what_happens_if_loads_stay():
    found = at_five(lambda grid: forecast(grid, rest(), {2: 2, 3: 0}, {2: 0, 3: 1}))
    assert found.end == {1: 19, 2: 5 + 1 + 4, 3: 19 + 3 / 0.5}
    assert found.last == found.whole == 25
    elsewhere = at_five(lambda grid: forecast(grid, rest(), {2: 2, 3: 2}, {2: 0, 3: 1}))
    assert elsewhere.end == {1: 19, 2: 10, 3: 19 + 1 + 3}


def test_only_those_that_wait_on_a_processor_are_arranged():
    with pytest.raises(InputError, match="processor 0 has other tasks"):
        at_five(lambda grid: grid.arrange(0, [1, 2]))
