"""Branches: tasks that run only if another one ended with a certain exit code."""

import json

import pytest

from zenturio.errors import InputError
from zenturio.schedule.algorithm import make
from zenturio.schedule.formats.files import read_workflow, write_workflow
from zenturio.schedule.formats.plan_json import trace_facts
from zenturio.schedule.model.loops import LoopIterations
from zenturio.schedule.model.platform import identical
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.online.policies import OnlineSimulation
from zenturio.schedule.online.stream import WorkflowStream, WorkflowSubmission
from zenturio.schedule.simulate.simulator import simulate

TASKS = [
    WorkflowTask("check", 1),
    WorkflowTask("quick", 2, when=(("check", (0,)),)),
    WorkflowTask("slow", 9, when=(("check", (1, 2)),)),
    WorkflowTask("after-slow", 4),
    WorkflowTask("join", 1),
    WorkflowTask("alone", 1),
]
EDGES = [
    ("check", "quick"), ("check", "slow"), ("slow", "after-slow", 1e6), ("after-slow", "join", 1e6),
    ("quick", "join"),
]  # fmt: skip
FLOW = Workflow.of("flow", TASKS, EDGES)
POLICIES = ("heft", "hybrid", "lazy", "m-s", "round-robin")


def traced(name, flow=FLOW, machines=2, **options):
    problem, algorithm = Problem.of(flow, identical(machines)), make(name)
    what = algorithm if hasattr(algorithm, "react") else algorithm.plan(problem)
    return simulate(problem, what, **options)


@pytest.mark.parametrize("machines", [1, 2])
@pytest.mark.parametrize("name", POLICIES)
def test_tasks_of_the_other_branch_are_skipped_and_a_join_waits_for_what_runs(name, machines):
    trace = traced(name, machines=machines)
    ran = [FLOW.names[run.task] for run in trace.runs]
    assert sorted(ran) == ["alone", "check", "join", "quick"]
    assert [FLOW.names[task] for task in trace.skipped] == ["slow", "after-slow"]
    assert (trace.left, trace.makespan) == ((), 4 if machines == 2 else 5)
    facts = trace_facts(trace)
    assert (facts["skipped"], facts["metrics"]) == (["slow", "after-slow"], {})


@pytest.mark.parametrize("name", POLICIES)
def test_an_exit_code_leads_into_the_branch_that_names_it(name):
    trace = traced(name, exits={"check": 2})
    assert [FLOW.names[task] for task in trace.skipped] == ["quick"]
    assert trace.makespan == 15
    # With a code that nobody names, both branches and what waits for them alone are skipped.
    trace = traced(name, exits={"check": 7})
    assert [FLOW.names[task] for task in trace.skipped] == ["quick", "slow", "after-slow", "join"]
    assert trace.makespan in (1, 2)


def test_a_task_without_a_branch_runs_beside_skipped_ones():
    flow = Workflow.of("f", [*TASKS[:2], WorkflowTask("end", 3)], [*EDGES[:1], ("quick", "end"),
                                                                   ("check", "end")])  # fmt: skip
    trace = traced("heft", flow, exits={"check": 1})
    assert [flow.names[task] for task in trace.skipped] == ["quick"]
    assert trace.makespan == 4


def test_a_loop_ends_when_its_last_task_is_skipped_and_decides_anew_in_each_iteration():
    tasks = [WorkflowTask("step", 1), WorkflowTask("more", 1, when=(("step", (0,)),)),
             WorkflowTask("end", 1)]  # fmt: skip
    flow = Workflow.of("f", tasks, [("step", "more"), ("more", "step"), ("step", "end")])
    trace = traced("hybrid", flow, repeats=LoopIterations(3))
    assert (len(trace.runs), trace.skipped) == (7, ())
    trace = traced("hybrid", flow, repeats=LoopIterations(3), exits={"step": 1})
    assert [flow.names[run.task] for run in trace.runs] == ["step", "end"]


def test_branches_are_written_and_read(tmp_path):
    write_workflow(FLOW, tmp_path / "f.json")
    assert read_workflow(tmp_path / "f.json").branches == FLOW.branches == {
        1: {0: {0}}, 2: {0: {1, 2}},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("when", "message"),
    [({"a": 0}, "does not wait for it"), ({"b": "no"}, "whole number"), ([1], "when is an object"),
     ({"b": 256}, "from 0 to 255")],
)  # fmt: skip
def test_what_is_wrong_with_a_branch_is_told(tmp_path, when, message):
    rows = [{"name": "a", "work": 1}, {"name": "b", "work": 1}, {"name": "c", "when": when}]
    (tmp_path / "f.json").write_text(json.dumps({"tasks": rows, "edges": [["b", "c"]]}))
    with pytest.raises(InputError, match=message):
        _ = read_workflow(tmp_path / "f.json").branches
    with pytest.raises(InputError, match="no task is named 'chek'"):
        traced("heft", exits={"chek": 1})


def test_online_policies_skip_tasks_too():
    stream = WorkflowStream.of("s", [WorkflowSubmission(FLOW, 0.0), WorkflowSubmission(FLOW, 3.0)])
    online = OnlineSimulation(stream, identical(2))
    for policy in ("basic", "srpt", "foft"):
        result = online.play(policy)
        assert not result.left
        skipped = [name for name, start, end in zip(stream.workflow.names, result.plan.start,
                                                    result.plan.end, strict=True)
                   if start == end]  # fmt: skip
        assert skipped == [f"{flow}/{task}" for flow in ("flow-1", "flow-2")
                           for task in ("slow", "after-slow")]  # fmt: skip
