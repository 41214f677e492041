"""What is left of a running workflow: Figure 5 of the paper, and laws."""

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zenturio.schedule.dynamic.hybrid import contract_violation, seconds_to_breach
from zenturio.schedule.dynamic.remaining_graph import (
    edges_between,
    edges_closing,
    edges_migrating,
    iteration_order,
    migrating,
    must_rerun,
    queued,
    remaining_graph,
)
from zenturio.schedule.model.loops import find_loops, forward_edges
from zenturio.schedule.model.workflow import Workflow, WorkflowTask

TASKS = [
    WorkflowTask("N1", 1),
    WorkflowTask("N2", 1),
    WorkflowTask("N3", 1),
    WorkflowTask("FT4", 1, "transfer", "M1", "M2"),
    WorkflowTask("JS5", 1, machine="M2"),
    WorkflowTask("N6", 1),
]
FIGURE_5 = Workflow.of(
    "figure 5",
    TASKS,
    [
        ("N1", "N2"), ("N2", "N3"), ("N3", "N6"), ("N6", "N1"),
        ("N1", "FT4"), ("FT4", "JS5"), ("JS5", "FT4"), ("JS5", "N6"),
    ],
)  # fmt: skip
NUMBER = {name: i for i, name in enumerate(FIGURE_5.names)}
STATES = ["completed", "completed", "running", "completed", "running", "queued"]
LATE = {NUMBER["JS5"]: 0.6, NUMBER["N3"]: 0.5}


def names(flow, tasks):
    return {flow.names[task] for task in tasks}


def arrows(flow, edges):
    return {f"{flow.names[flow.sources[e]]}-{flow.names[flow.targets[e]]}" for e in edges}


def test_a_task_that_violates_its_contract_takes_along_what_brought_files_to_its_machine():
    assert names(FIGURE_5, must_rerun(FIGURE_5, STATES, NUMBER["JS5"])) == {"FT4"}
    assert names(FIGURE_5, migrating(FIGURE_5, STATES, LATE, 0.5)) == {"FT4", "JS5"}


def test_a_task_that_keeps_its_contract_just_so_does_not_migrate():
    assert not migrating(FIGURE_5, STATES, LATE, 0.6)


def test_what_has_run_in_a_loop_is_queued_for_its_next_iteration():
    assert names(FIGURE_5, queued(FIGURE_5, STATES)) == {"N1", "N2", "FT4", "N6"}


def test_the_edges_of_figure_5():
    moved = migrating(FIGURE_5, STATES, LATE, 0.5)
    waiting = queued(FIGURE_5, STATES)
    between = edges_between(FIGURE_5, moved | waiting)
    assert arrows(FIGURE_5, between) == {
        "N1-N2", "N6-N1", "N1-FT4", "FT4-JS5", "JS5-FT4", "JS5-N6",
    }  # fmt: skip
    cut = edges_migrating(FIGURE_5, waiting, moved)
    assert arrows(FIGURE_5, cut) == {"N1-FT4"}
    later = {NUMBER["N1"], NUMBER["N2"]}
    closing = edges_closing(FIGURE_5, between - cut, iteration_order(FIGURE_5), later)
    assert arrows(FIGURE_5, closing) == {"JS5-FT4"}


def test_the_graph_of_figure_5():
    rest = remaining_graph(FIGURE_5, STATES, LATE, 0.5)
    assert names(FIGURE_5, rest.tasks) == {"N1", "N2", "FT4", "JS5", "N6"}
    assert names(FIGURE_5, rest.later) == {"N1", "N2"}
    assert arrows(FIGURE_5, rest.edges) == {"FT4-JS5", "JS5-N6", "N6-N1", "N1-N2"}


def test_without_a_violation_what_runs_is_left_alone():
    rest = remaining_graph(FIGURE_5, STATES, {}, 0.5)
    assert not rest.migrating
    assert names(FIGURE_5, rest.tasks) == {"N1", "N2", "FT4", "N6"}
    assert arrows(FIGURE_5, rest.edges) == {"N6-N1", "N1-N2", "N1-FT4"}


def test_before_the_start_only_what_closes_loops_is_taken_away():
    rest = remaining_graph(FIGURE_5, ["queued"] * 6, {}, 0.5)
    assert len(rest.tasks) == 6
    cut = set(range(len(FIGURE_5.data))) - rest.edges
    assert arrows(FIGURE_5, cut) == {"N6-N1", "JS5-FT4"}


def test_what_failed_migrates_whatever_its_contract_says():
    flow = Workflow.of(
        "f",
        [WorkflowTask("a", 1), WorkflowTask("b", 1), WorkflowTask("c", 1)],
        [("a", "b"), ("b", "c")],
    )
    rest = remaining_graph(flow, ["completed", "failed", "queued"], {}, 0.5)
    assert (names(flow, rest.migrating), names(flow, rest.queued)) == ({"b"}, {"c"})
    assert arrows(flow, rest.edges) == {"b-c"}


def test_a_transfer_that_migrates_takes_along_what_ran_where_it_comes_from():
    flow = Workflow.of(
        "f",
        [
            WorkflowTask("job", 1, machine="A"),
            WorkflowTask("move", 1, "transfer", "A", "B"),
            WorkflowTask("use", 1),
        ],
        [("job", "move"), ("move", "use")],
    )
    assert migrating(flow, ["completed", "failed", "queued"], {}, 0.5) == {0, 1}


def test_what_is_left_on_a_machine_takes_along_what_it_needs_there():
    tasks = [
        WorkflowTask("one", 1, machine="A"),
        WorkflowTask("two", 1, machine="A"),
        WorkflowTask("end", 1, machine="A"),
    ]
    flow = Workflow.of("f", tasks, [("one", "end"), ("two", "end")])
    assert migrating(flow, ["completed", "failed", "queued"], {}, 0.5) == {0, 1}
    assert migrating(flow, ["completed", "failed", "completed"], {}, 0.5) == {1}


def test_what_has_run_does_not_hold_up_what_waits_in_this_iteration():
    edges = [("a", "b"), ("b", "c"), ("c", "a"), ("a", "q")]
    flow = Workflow.of("f", [WorkflowTask(name, 1) for name in "abcq"], edges)
    rest = remaining_graph(flow, ["completed", "running", "queued", "queued"], {}, 0.5)
    assert names(flow, rest.later) == {"a"}
    assert arrows(flow, rest.edges) == {"c-a"}


@settings(deadline=None)
@given(
    st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda e: e[0] != e[1])),
    st.lists(st.sampled_from(["queued", "running", "completed", "failed"]), min_size=8, max_size=8),
    st.sets(st.integers(0, 7)),
)
def test_what_is_left_has_no_loop_and_nothing_that_runs_well(edges, states, late):
    tasks = [WorkflowTask(str(i), 1, machine="AB"[i % 2] if i % 3 else "") for i in range(8)]
    flow = Workflow.of("f", tasks, [(str(a), str(b)) for a, b in sorted(edges)])
    rest = remaining_graph(flow, states, dict.fromkeys(late, 1.0), 0.5)
    graph = nx.DiGraph([(int(flow.sources[e]), int(flow.targets[e])) for e in rest.edges])
    assert nx.is_directed_acyclic_graph(graph)
    assert set(graph) <= set(rest.tasks)
    for task, state in enumerate(states):
        runs_well = state == "running" and task not in late
        assert (task in rest.tasks) != runs_well or state == "completed"
    kept = forward_edges(flow, find_loops(flow))
    for edge in range(len(flow.data)):
        a, b = int(flow.sources[edge]), int(flow.targets[edge])
        if kept[edge] and {states[a], states[b]} == {"queued"}:
            assert edge in rest.edges


def test_a_contract_tells_by_which_part_a_task_is_behind():
    assert contract_violation(work=10, done=5, estimate=20, elapsed=10) == 0
    assert contract_violation(work=10, done=5, estimate=20, elapsed=15) == pytest.approx(0.5)
    assert contract_violation(work=10, done=0, estimate=20, elapsed=1) == float("inf")
    assert contract_violation(work=10, done=0, estimate=20, elapsed=0) == 0


def test_without_progress_known_a_contract_is_a_timeout():
    assert contract_violation(work=1, done=1, estimate=20, elapsed=10) == -0.5
    assert contract_violation(work=1, done=1, estimate=20, elapsed=40) == 1
    assert seconds_to_breach(0.5, done=1, pace=0, estimate=20, elapsed=10) == 20


@settings(deadline=None)
@given(
    st.floats(0, 2), st.floats(0.01, 1), st.floats(0, 2), st.floats(1, 100), st.floats(0.01, 100)
)
def test_a_contract_is_broken_when_it_is_foreseen(factor, done, share, estimate, elapsed):
    pace = share / estimate
    wait = seconds_to_breach(factor, done, pace, estimate, elapsed)

    def behind(seconds):
        return contract_violation(1, done + pace * seconds, estimate, elapsed + seconds)

    if wait == float("inf"):
        assert behind(1e6) <= factor + 1e-3
    else:
        assert behind(wait + 1e-6 * estimate) >= factor - 1e-6
        assert wait == 0 or behind(wait * 0.99) <= factor + 1e-9
