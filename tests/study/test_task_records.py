"""The times of a workflow's tasks, as the study that --times reads."""

import time
from contextlib import closing

import pytest

from zenturio.record import DriverProcess, StudyDefinition
from zenturio.record.open import open_repository
from zenturio.schedule.model.platform import PlatformMachine, platform
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.simulate.trace import ExecutionTrace, TaskRun
from zenturio.study import task_records
from zenturio.study.task_records import default_study, record_task_times

FLOW = Workflow.of(
    "flow",
    [
        WorkflowTask("mesh", 8.0, program="gmsh"),
        WorkflowTask("solve", 12.0, cores=1, point=(("n", 3.0), ("kind", "fine"))),
        WorkflowTask("plot", 4.0),
    ],
    [("mesh", "solve"), ("solve", "plot")],
)
MACHINES = platform(
    "two", (PlatformMachine("slow", 1.0, cores=2), PlatformMachine("fast", 4.0, cores=1))
)


@pytest.fixture
def trace():
    """Of each task a run that ended, and of solve one that was lost before."""
    problem = Problem.of(FLOW, MACHINES)
    fast = int(problem.node.tolist().index(1))
    runs = (
        TaskRun(0, 0, 0.0, 9.0),
        TaskRun(1, 0, 9.0, 10.0, "lost"),
        TaskRun(1, fast, 10.0, 12.5),
        TaskRun(2, 0, 12.5, 17.0),
    )
    return ExecutionTrace(problem, "heft", runs, ())


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with closing(open_repository(tmp_path / "a.db")) as repository:
        yield repository


def test_each_task_that_ended_is_a_result_with_its_seconds_and_what_was_predicted(
    repository, trace
):
    assert record_task_times(repository, "t", trace, 1000.0) == 3
    outcomes = {r.values["task"]: r.outcome for r in repository.records("t")}
    assert {task: dict(outcome.metrics) for task, outcome in outcomes.items()} == {
        "mesh": {"seconds": 9.0, "predicted": 8.0, "speed": 1.0},
        "solve": {"seconds": 2.5, "predicted": 3.0, "speed": 4.0},
        "plot": {"seconds": 4.5, "predicted": 4.0, "speed": 1.0},
    }
    times = {task: (o.started, o.ended, o.host) for task, o in outcomes.items()}
    assert times == {
        "mesh": (1000.0, 1009.0, "slow"),
        "solve": (1010.0, 1012.5, "fast"),
        "plot": (1012.5, 1017.0, "slow"),
    }
    run = "1970-01-01T00:16:40.000+00:00"
    solve = next(r.values for r in repository.records("t") if r.values["task"] == "solve")
    point = {"n": 3.0, "kind": "fine"}
    assert solve == {
        "task": "solve", "program": "", "cores": 1, "host": "fast", "run": run, **point,
    }  # fmt: skip
    assert {(r.index, r.repeat) for r in repository.records("t")} == {(-1, 1)}
    definition = repository.definition("t")
    names = [field.name for field in definition.parameters]
    assert names == ["task", "program", "cores", "host", "run", "n", "kind"]
    assert [(f.name, f.unit, f.how) for f in definition.metrics] == [
        ("seconds", "s", "workflow run"),
        ("predicted", "s", "workflow run"),
        ("speed", "", "workflow run"),
    ]
    assert definition.notes["workflow"] == "flow"
    assert repository.leases("t") == ()


def test_three_runs_of_a_workflow_are_nine_results(repository, trace, monkeypatch):
    repository.open("t", StudyDefinition())
    repository.acquire_lease("t", DriverProcess.current())  # somebody else records, too
    monkeypatch.setattr(time, "time", lambda: 5000.0)
    assert [record_task_times(repository, "t", trace, at) for at in (1.0, 2.0, None)] == [3, 3, 3]
    assert repository.count_states("t")["ok"] == 9
    runs = {record.values["run"] for record in repository.records("t")}
    # Without a time the run began its makespan ago: 17 seconds before 5000.
    assert max(runs) == "1970-01-01T01:23:03.000+00:00"
    assert len(runs) == 3


def test_a_run_of_which_nothing_can_be_recorded_gives_its_lease_back(
    repository, trace, monkeypatch
):
    monkeypatch.setattr(task_records, "Outcome", lambda *_arguments, **_facts: None)
    with pytest.raises(AttributeError):
        record_task_times(repository, "t", trace)
    assert repository.leases("t") == ()
    assert default_study("flow") == "flow-tasks"
