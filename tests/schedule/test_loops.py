"""Workflows that run some tasks again and again."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zenturio.errors import InputError
from zenturio.schedule.model.loops import (
    LoopIterations,
    find_loops,
    forward_edges,
    single_iteration_problem,
    unrolled,
)
from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine, identical
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.online.policies import OnlineSimulation
from zenturio.schedule.online.stream import WorkflowStream, WorkflowSubmission
from zenturio.schedule.simulate.simulator import simulate
from zenturio.schedule.static.list_scheduling import Heft


class Eager:
    """Sends all that wait, at once, to processors in turn; keeps what it was told."""

    def __init__(self):
        self.told = []

    def react(self, grid, events):
        self.told += [(event.time, event.kind, event.task) for event in events]
        for task in grid.ready():
            grid.send(task, task % grid.problem.processors)


def flow(tasks, edges):
    return Workflow.of(
        "flow", [WorkflowTask(name, 1.0) for name in tasks], [tuple(e) for e in edges]
    )


def named(flow, loop):
    edges = {flow.names[flow.sources[e]] + flow.names[flow.targets[e]] for e in loop.closing}
    tasks = "".join(flow.names[task] for task in loop.tasks)
    return tasks, flow.names[loop.first], edges, "".join(flow.names[t] for t in loop.exits)


def test_a_loop_begins_where_it_is_entered_and_is_closed_by_the_edges_that_lead_there():
    found = flow("zabcx", ["za", "ab", "bc", "ca", "ba", "cx"])
    assert [named(found, loop) for loop in find_loops(found)] == [("abc", "a", {"ca", "ba"}, "x")]


def test_a_loop_that_nothing_enters_begins_with_its_first_task():
    found = flow("ba", ["ab", "ba"])
    assert [named(found, loop) for loop in find_loops(found)] == [("ba", "b", {"ab"}, "")]


def test_loops_inside_come_before_those_around_them():
    found = flow("abcdx", ["ab", "bc", "cb", "cd", "da", "dx"])
    assert [named(found, loop) for loop in find_loops(found)] == [
        ("bc", "b", {"cb"}, "d"), ("abcd", "a", {"da"}, "x"),
    ]  # fmt: skip


@settings(deadline=None)
@given(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda e: e[0] != e[1])))
def test_without_the_edges_that_close_loops_there_is_none(edges):
    names = "abcdefgh"
    found = flow(names, sorted(names[a] + names[b] for a, b in edges))
    cut = find_loops(found)
    kept = forward_edges(found, cut)
    once = single_iteration_problem(Problem.of(found, identical(1)), cut)
    assert len(once.order) == len(names)
    graph = nx.DiGraph(list(edges))
    knots = [each for each in nx.strongly_connected_components(graph) if len(each) > 1]
    assert kept.all() == (not knots)
    for a, b in zip(found.sources[~kept], found.targets[~kept], strict=True):
        assert any({int(a), int(b)} <= knot for knot in knots)


@settings(deadline=None)
@given(
    st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda e: e[0] != e[1])),
    st.integers(1, 3),
    st.sampled_from([Eager, 1, 2]),
)
def test_loops_end_whatever_they_look_like(edges, count, policy):
    """Under a policy, or under a static plan for so many processors."""
    names = "abcdefg"
    found = flow(names, sorted(names[a] + names[b] for a, b in edges))
    problem = Problem.of(found, identical(2 if policy is Eager else policy))
    single = single_iteration_problem(problem, find_loops(found))
    what = Eager() if policy is Eager else Heft().plan(single)
    trace = simulate(problem, what, repeats=LoopIterations(count))
    assert not trace.left
    depth = np.zeros(len(names), int)
    for loop in find_loops(found):
        depth[list(loop.tasks)] += 1
    runs = np.bincount([run.task for run in trace.good], minlength=len(names))
    assert runs.tolist() == (count**depth).tolist()


def test_what_follows_a_loop_waits_for_its_last_iteration():
    found = flow("abx", ["ab", "ba", "ax"])
    policy = Eager()
    trace = simulate(Problem.of(found, identical(3)), policy, repeats=LoopIterations(2))
    assert [(run.task, run.start) for run in trace.runs] == [(0, 0), (1, 1), (0, 2), (1, 3), (2, 4)]
    assert [(event.time, event.task) for event in trace.again] == [(2, 0)]
    assert (2, "again", 0) in policy.told
    assert trace.plan.start.tolist() == [2, 3, 4]


def test_data_go_from_the_last_task_of_an_iteration_to_the_first_of_the_next():
    machines = (PlatformMachine("m", site="x"), PlatformMachine("n", site="y"))
    platform = Platform("two", machines, default=NetworkLink("", "", bandwidth=2.0, latency=1.0))
    tasks = [WorkflowTask("a", 1), WorkflowTask("b", 1)]
    found = Workflow.of("f", tasks, [("a", "b", 2.0), ("b", "a", 8.0)])
    trace = simulate(Problem.of(found, platform), Eager(), repeats=LoopIterations(2))
    assert [(run.task, run.start) for run in trace.runs] == [(0, 0), (1, 3), (0, 9), (1, 12)]


def test_how_often_a_loop_is_run_depends_on_its_seed_alone():
    problem = Problem.of(flow("ab", ["ab", "ba"]), identical(2))
    counts = [
        len(simulate(problem, Eager(), repeats=LoopIterations(converging=0.25, seed=s)).again) + 1
        for s in range(200)
    ]
    assert counts[:50] == [
        len(simulate(problem, Eager(), repeats=LoopIterations(converging=0.25, seed=s)).again) + 1
        for s in range(50)
    ]
    assert 3 < np.mean(counts) < 5
    assert min(counts) == 1


def test_repeats_are_a_number_or_a_probability():
    assert LoopIterations.read("3", 7) == LoopIterations(3, seed=7)
    assert LoopIterations.read("0.5") == LoopIterations(converging=0.5)
    assert LoopIterations.read("", 2) == LoopIterations(seed=2)


@pytest.mark.parametrize("text", ["0", "-1", "2.5", "often", "nan", "inf"])
def test_other_repeats_are_refused(text):
    with pytest.raises(InputError, match=f"iterations '{text}'"):
        LoopIterations.read(text)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    ("tasks", "edges"),
    [
        ("zabcx", ["za", "ab", "bc", "ca", "ba", "cx"]),
        ("abcdx", ["ab", "bc", "cb", "cd", "da", "dx"]),
        ("abcdey", ["ab", "ac", "bd", "cd", "da", "be", "ey", "cy"]),
        ("abxy", ["ab", "ba", "xy", "yx", "bx"]),
    ],
)
def test_a_workflow_with_its_iterations_written_out_takes_as_long_as_its_loops(tasks, edges, count):
    looped = flow(tasks, edges)
    longer = unrolled(looped, LoopIterations(count))
    assert not longer.looped
    played = simulate(Problem.of(looped, identical(9)), Eager(), repeats=LoopIterations(count))
    assert len(longer) == len(played.runs)
    assert Heft().plan(Problem.of(longer, identical(9))).makespan == played.makespan
    assert {name.partition("~")[0] for name in longer.names} == set(tasks)


def test_iterations_are_drawn_by_their_seed_and_limited():
    looped = flow("ab", ["ab", "ba"])
    lengths = {len(unrolled(looped, LoopIterations(seed=seed))) for seed in range(9)}
    assert len(lengths) > 2
    with pytest.raises(InputError, match="more than 1,000,000 tasks"):
        unrolled(looped, LoopIterations(10**6))


def test_a_stream_writes_iterations_out():
    looped = flow("abx", ["ab", "ba", "bx"])
    stream = WorkflowStream.of(
        "s", [WorkflowSubmission(looped, t) for t in (0, 1)], LoopIterations(2)
    )
    assert stream.workflow.names[:5] == ("flow-1/x", "flow-1/a", "flow-1/b", "flow-1/a~2",
                                         "flow-1/b~2")  # fmt: skip
    assert OnlineSimulation(stream, identical(2)).play("srpt").makespan == 6
