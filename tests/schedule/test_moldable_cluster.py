"""The cluster that plays a queue of moldable tasks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import naive_cluster
from zenturio.errors import InputError
from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import RuntimeCurve, identical
from zenturio.schedule.model.problem import MoldableProblem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.moldable.cluster_queue import ClusterQueue

DISCIPLINES = ("fifo", "easy", "conservative")


def rigid(nodes, *jobs, edges=()):
    """Jobs of (seconds, nodes), named a, b, ..."""
    tasks = [WorkflowTask("abcdefgh"[i], float(t), cores=n) for i, (t, n) in enumerate(jobs)]
    return MoldableProblem.of(Workflow.of("rigid", tasks, edges), identical(nodes))


def starts(problem, discipline):
    return check(ClusterQueue(problem, discipline).plan(problem.fewest)).start.tolist()


@settings(
    max_examples=settings.default.max_examples * 200 // 100, deadline=None
)  # the first example compiles
@given(naive_cluster.molded(), st.sampled_from(DISCIPLINES))
def test_a_queue_is_played_as_its_discipline_says(drawn, discipline):
    problem, counts, order = drawn
    plan = check(ClusterQueue(problem, discipline, order).plan(counts, "drawn"))
    start, end = naive_cluster.times(problem, counts, discipline, order)
    assert plan.start.tolist() == start
    assert plan.end.tolist() == end
    assert plan.counts.tolist() == counts.tolist()


@settings(max_examples=settings.default.max_examples * 60 // 100, deadline=None)
@given(naive_cluster.problems(), st.sampled_from(DISCIPLINES), st.data())
def test_many_rows_have_the_outcomes_that_their_plans_have_alone(problem, discipline, data):
    rows = [
        [data.draw(st.sampled_from(problem.possible[row].tolist())) for row in problem.row]
        for _ in range(4)
    ]
    cluster = ClusterQueue(problem, discipline)
    found = cluster.outcomes(np.array(rows))
    plans = [cluster.plan(np.array(row)) for row in rows]
    assert found.makespan.tolist() == [plan.makespan for plan in plans]
    assert found.cost == pytest.approx([plan.cost for plan in plans])
    assert found.total == pytest.approx([(plan.end - plan.start).sum() for plan in plans])


def test_nothing_is_filled_in_behind_the_first_that_waits():
    problem = rigid(4, (5, 3), (5, 2), (2, 1))
    assert starts(problem, "fifo") == [0, 5, 5]


def test_easy_fills_in_what_does_not_delay_the_first_that_waits():
    assert starts(rigid(4, (5, 3), (5, 2), (5, 1)), "easy") == [0, 5, 0]
    assert starts(rigid(4, (5, 3), (5, 4), (6, 1)), "easy") == [0, 5, 10]
    assert starts(rigid(4, (5, 3), (5, 3), (9, 1)), "easy") == [0, 5, 0]
    # one node is left beside the second for long, not two
    assert starts(rigid(6, (5, 4), (5, 5), (9, 1), (9, 1)), "easy") == [0, 5, 0, 9]


def test_easy_may_delay_the_second_that_waits_and_conservative_does_not():
    jobs = (4, 3), (4, 2), (4, 4), (9, 1)
    assert starts(rigid(4, *jobs), "easy") == [0, 4, 9, 0]
    assert starts(rigid(4, *jobs), "conservative") == [0, 4, 8, 12]


def test_what_waits_for_others_holds_nobody_up():
    problem = rigid(4, (5, 2), (1, 4), (3, 2), edges=[("a", "b")])
    assert starts(problem, "fifo") == [0, 5, 0]


def test_tasks_of_one_level_start_in_the_order_in_which_they_were_given():
    edges = [("a", "d"), ("b", "e"), ("c", "e")]
    problem = rigid(2, (3, 1), (1, 1), (1, 1), (4, 2), (4, 2), edges=edges)
    # e is free at 2, d at 3; at 2 the nodes that e needs are not
    assert starts(problem, "fifo") == [0, 0, 1, 3, 7]


def test_submitting_in_another_order_makes_another_plan():
    problem = rigid(2, (1, 2), (2, 2))
    plan = check(ClusterQueue(problem, order=np.array([1, 0])).plan(problem.fewest))
    assert plan.start.tolist() == [2, 0]


def test_neighbouring_nodes_are_given_where_there_are_any():
    problem = rigid(5, (1, 1), (5, 1), (1, 1), (3, 2), edges=[("a", "d")])
    plan = check(ClusterQueue(problem).plan(problem.fewest))
    assert [plan.nodes(task).tolist() for task in range(4)] == [[0], [1], [2], [2, 3]]
    assert plan.machine(3) == "p3-p4"


def test_the_lowest_nodes_are_given_where_they_are_no_neighbours():
    problem = rigid(3, (1, 1), (5, 1), (1, 1), (3, 2), edges=[("a", "d")])
    plan = check(ClusterQueue(problem).plan(problem.fewest))
    assert plan.nodes(3).tolist() == [0, 2]
    assert plan.machine(3) == "p1, p3"


def test_a_number_of_nodes_on_which_a_task_cannot_run_is_refused():
    task = WorkflowTask("wide", curve=RuntimeCurve((2, 4), (3.0, 2.0)))
    problem = MoldableProblem.of(Workflow.of("one", [task]), identical(8))
    with pytest.raises(InputError, match="'wide' cannot run on 5 nodes") as caught:
        ClusterQueue(problem).plan(np.array([5]))
    assert "from 2 to 4" in str(caught.value)
    with pytest.raises(InputError, match="2 numbers of nodes for 1 tasks"):
        ClusterQueue(problem).plan(np.array([2, 2]))


def test_a_workflow_without_tasks_takes_no_time():
    problem = MoldableProblem.of(Workflow.of("none", []), identical(2))
    plan = check(ClusterQueue(problem).plan(problem.fewest))
    assert (plan.makespan, plan.cost, plan.idle) == (0, 0, 0)
