"""DCP and xDCP."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import examples, naive_listing, naive_paths
from zenturio.errors import InputError
from zenturio.schedule.algorithm import describe, make
from zenturio.schedule.generators.generator import generate
from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import identical
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask

SWEEPS = ["sweep", "ptg", "otg", "itg"]


def planned(name, problem, **given):
    return check(make(name, given).plan(problem))


@settings(
    max_examples=settings.default.max_examples * 80 // 100, deadline=None
)  # the first example compiles
@given(naive_listing.problems((1, 7)))
def test_the_critical_path_is_shortened_as_one_would_by_hand(problem):
    plan = planned("dcp", problem)
    place, start = naive_paths.dcp(problem)
    assert plan.processor.tolist() == place
    assert plan.start.tolist() == pytest.approx(start)


@settings(max_examples=settings.default.max_examples * 80 // 100, deadline=None)
@given(naive_listing.problems((1, 7)), st.sampled_from(["words", "printed"]))
def test_shuffled_tasks_are_moved_as_one_would_by_hand(problem, formulas):
    plan = planned("xdcp", problem, formulas=formulas)
    place, start, lengths = naive_paths.xdcp(problem, formulas == "printed")
    assert plan.notes["rounds"] == pytest.approx(lengths)
    assert plan.processor.tolist() == place
    assert plan.start.tolist() == pytest.approx(start)


@settings(max_examples=settings.default.max_examples, deadline=None)
@given(naive_listing.problems((1, 12)))
def test_by_the_words_no_round_makes_a_plan_longer(problem):
    rounds = planned("xdcp", problem).notes["rounds"]
    assert rounds[0] == pytest.approx(planned("shuffle", problem).makespan)
    assert all(b <= a * (1 + 1e-6) + 1e-9 for a, b in pairwise(rounds))


@settings(max_examples=settings.default.max_examples * 60 // 100, deadline=None)
@given(naive_listing.problems((1, 12)), st.sampled_from(["dcp", "xdcp"]))
def test_a_plan_can_be_carried_out_and_is_the_same_every_time(problem, name):
    one, other = planned(name, problem), planned(name, problem)
    assert one.start.tolist() == other.start.tolist()
    assert one.processor.tolist() == other.processor.tolist()


@pytest.mark.parametrize("name", SWEEPS)
def test_sweeps_are_shortened_much_by_the_words_and_lengthened_as_printed(name):
    instance = generate(name, {}, seed=1)
    problem = Problem.of(instance.workflow, instance.platform)
    shuffled = planned("shuffle", problem).makespan
    assert planned("xdcp", problem).makespan < 0.8 * shuffled
    assert planned("xdcp", problem, formulas="printed").makespan > shuffled


def test_rounds_go_on_while_they_pay():
    instance = generate("sweep", {}, seed=1)
    problem = Problem.of(instance.workflow, instance.platform)
    rounds = planned("xdcp", problem, threshold=0.05).notes["rounds"]
    gains = [1 - b / a for a, b in pairwise(rounds)]
    assert len(gains) > 2
    assert min(gains[:-1]) > 0.05 >= gains[-1]
    assert len(planned("xdcp", problem, threshold=1).notes["rounds"]) == 2


def test_what_talks_much_comes_together():
    tasks = [WorkflowTask(f"t{i}", 1) for i in range(4)]
    flow = Workflow.of("pairs", tasks, [("t0", "t1", 9.0), ("t2", "t3", 9.0)])
    plan = planned("dcp", Problem.of(flow, examples.wired(3)))
    assert plan.makespan == 2
    assert plan.processor.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("name", ["dcp", "xdcp"])
def test_a_workflow_without_tasks_takes_no_time(name):
    assert planned(name, Problem.of(Workflow.of("none", []), identical(2))).makespan == 0


def test_the_worked_example_of_heft_is_shorter_by_the_critical_path():
    assert planned("dcp", examples.topcuoglu()).makespan == 76
    assert planned("xdcp", examples.topcuoglu()).makespan == 78


def test_settings_may_stand_behind_the_name():
    problem = examples.master_slave()
    plan = planned("xdcp:formulas=printed,threshold=1", problem)
    same = planned("xdcp", problem, formulas="printed", threshold=1)
    assert plan.notes == same.notes != planned("xdcp", problem).notes
    assert plan.algorithm == describe("xdcp:threshold=1").name == "xdcp"
    with pytest.raises(InputError, match="'threshold' is not a setting"):
        make("xdcp:threshold")
    with pytest.raises(InputError, match="no setting 'treshold'"):
        make("xdcp:treshold=1")
