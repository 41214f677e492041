"""Plans in files."""

import json
import re

import pytest
from hypothesis import given, settings

from schedule import naive
from zenturio.errors import InputError
from zenturio.schedule.formats import plan_json
from zenturio.schedule.model.evaluation import evaluate
from zenturio.schedule.model.plan import Plan, check
from zenturio.schedule.model.platform import Platform, PlatformMachine
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask

FLOW = Workflow.of(
    "two", [WorkflowTask("prep", 1.5), WorkflowTask("größe", 2)], [("prep", "größe")]
)
PLATFORM = Platform("grid", (PlatformMachine("slow", 0.5), PlatformMachine("wide", 1.0, cores=2)))

GOLDEN = """\
{
"algorithm": "by hand",
"workflow": "two",
"platform": "grid",
"makespan": 5.0,
"metrics": METRICS,
"notes": {"gap": [1, null]},
"tasks": [
 {"id": "prep", "machine": "slow", "start": 0.0, "end": 3.0},
 {"id": "größe", "machine": "wide", "core": 1, "start": 3.0, "end": 5.0}
]
}
"""


def by_hand():
    problem = Problem.of(FLOW, PLATFORM)
    return evaluate(problem, [0, 2], [0, 1], "by hand", {"gap": (1, float("inf"))})


def test_a_plan_is_written_a_task_a_line(tmp_path):
    plan_json.write_plan(by_hand(), tmp_path / "plan.json")
    text = (tmp_path / "plan.json").read_text("utf-8")
    assert re.sub(r'("metrics": )\{.*\}', r"\1METRICS", text) == GOLDEN
    assert json.loads(text) == plan_json.plan_facts(by_hand())
    assert plan_json.plan_facts(by_hand())["metrics"]["makespan"] == 5


@settings(deadline=None, max_examples=settings.default.max_examples * 40 // 100)
@given(drawn=naive.planned())
def test_a_plan_that_is_read_is_the_plan_that_was_written(tmp_path_factory, drawn):
    path = tmp_path_factory.mktemp("plans") / "plan.json"
    problem, processor, order = drawn
    plan = evaluate(problem, processor, order, "drawn")
    plan_json.write_plan(plan, path)
    read = check(plan_json.read_plan(path, problem))
    assert read.algorithm == "drawn"
    for one, other in (
        (read.processor, plan.processor),
        (read.start, plan.start),
        (read.end, plan.end),
    ):
        assert one.tolist() == other.tolist()


def test_a_metric_that_a_plan_does_not_have_is_null():
    problem = Problem.of(Workflow.of("f", [WorkflowTask("a", 0.0)]), PLATFORM)
    found = plan_json.plan_facts(evaluate(problem, [0], [0]))["metrics"]
    assert (found["makespan"], found["speedup"]) == (0, None)


@pytest.mark.parametrize(
    ("old", "new", "diagnostic"),
    [
        ('"prep"', '"perp"', r"9:9: the workflow has no task 'perp'"),
        ('"größe"', '"prep"', r"10:9: task 'prep' is planned twice"),
        ('"slow"', '"slew"', r"9:28: the platform has no machine 'slew'"),
        ('"core": 1', '"core": 2', r"10:45: core is 2; it has to be a whole number from 0 to 1"),
        ('"start": 3.0', '"start": "soon"', r"start is 'soon'"),
        ('"start": 3.0', '"begin": 3.0', r"unknown key 'begin'"),
        (', "start": 3.0', "", r"10:2: a task of a plan without 'start'"),
        ('"tasks"', '"jobs"', r"a plan is an object with a list of tasks"),
        ('"machine": "slow"', '"machine": 1', r"machine is 1; it has to be a text"),
        ("}\n]", "}]]", r"not JSON"),
    ],
)
def test_what_is_wrong_in_a_plan_is_shown_at_its_place(tmp_path, old, new, diagnostic):
    path = tmp_path / "plan.json"
    path.write_text(GOLDEN.replace("METRICS", "{}").replace(old, new, 1), "utf-8")
    with pytest.raises(InputError, match=diagnostic):
        plan_json.read_plan(path, Problem.of(FLOW, PLATFORM))


def test_a_plan_that_forgets_a_task_is_refused(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text('{"tasks": [{"id": "prep", "machine": "slow", "start": 0, "end": 3}]}')
    with pytest.raises(InputError, match="1 of 2 tasks are planned: not 'größe'"):
        plan_json.read_plan(path, Problem.of(FLOW, PLATFORM))


def test_a_plan_is_named_after_its_file_if_it_does_not_say_whose_it_is(tmp_path):
    path = tmp_path / "mine.json"
    plan = by_hand()
    path.write_text(json.dumps({"tasks": plan_json.plan_facts(plan)["tasks"]}))
    read = plan_json.read_plan(path, plan.problem)
    assert isinstance(read, Plan)
    assert read.algorithm == "mine"
