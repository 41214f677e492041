"""Workflows are what they were when they have been written and read again."""

import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.schedule.recorded import recorded
from zenturio.schedule.formats import zenturio_json as ours
from zenturio.schedule.formats.files import read_instance, read_workflow, write_workflow
from zenturio.schedule.formats.graphs import from_networkx, to_networkx
from zenturio.schedule.generators.generator import generate
from zenturio.schedule.model.platform import (
    LoadStep,
    NetworkLink,
    Platform,
    PlatformMachine,
    RuntimeCurve,
)
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask

DATA = Path(__file__).parent / "data"
SEVERAL = settings(
    deadline=None,
    max_examples=settings.default.max_examples * 60 // 100,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

numbers = st.floats(0, 1e12, allow_nan=False)
words = st.text(max_size=8)


@st.composite
def tasks(draw, names):
    curve = draw(
        st.none()
        | st.lists(st.integers(1, 99), min_size=1, max_size=4, unique=True).flatmap(
            lambda nodes: st.tuples(*[st.floats(1e-6, 1e9)] * len(nodes)).map(
                lambda seconds: RuntimeCurve(tuple(sorted(nodes)), seconds)
            )
        )
    )
    return [
        WorkflowTask(
            name,
            draw(numbers),
            draw(st.sampled_from(["job", "transfer"])),
            draw(words),
            draw(words),
            draw(words),
            draw(words),
            draw(st.integers(1, 64)),
            draw(numbers),
            tuple(draw(st.lists(numbers | st.just(float("inf")), max_size=3))),
            curve,
        )
        if draw(st.booleans())
        else WorkflowTask(name, draw(numbers), program=draw(words))
        for name in names
    ]


@st.composite
def workflows(draw, alphabet=None, plain=False, acyclic=False):
    text = st.text(alphabet or st.characters(codec="utf-8"), max_size=6)
    names = draw(st.lists(text, min_size=1, max_size=8, unique=True))
    made = [WorkflowTask(name, draw(numbers)) for name in names] if plain else draw(tasks(names))
    pairs = [(a, b) for i, a in enumerate(names) for j, b in enumerate(names) if i != j]
    pairs = [(a, b) for a, b in pairs if not acyclic or names.index(a) < names.index(b)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=12)) if pairs else []
    return Workflow.of(
        draw(text), made, [(a, b, 0.0 if plain else draw(numbers)) for a, b in chosen]
    )


def content(flow):
    """All that a workflow is, to be compared."""
    return flow.name, list(flow.tasks), list(flow.edges)


def again(flow, path, platform=None, form=""):
    write_workflow(flow, path, platform, form)
    return read_instance(path)


@SEVERAL
@given(workflows())
def test_our_own_json_keeps_all_of_any_workflow(tmp_path, flow):
    assert content(again(flow, tmp_path / "flow.json").workflow) == content(flow)


@SEVERAL
@given(workflows())
def test_so_it_does_as_columns(tmp_path, flow):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ours, "MAX_ROWS", 0)
        assert content(again(flow, tmp_path / "flow.json").workflow) == content(flow)


def test_notes_and_a_platform_are_kept_too(tmp_path):
    flow = Workflow.of("noted", [WorkflowTask("a")], makespan=3.5, author={"name": "Ada"})
    machine = PlatformMachine(
        "m", 2.0, 4, 1e9, "vienna", frozenset(["gpu"]), 0.1, (LoadStep(0, 1), LoadStep(5, 0.5))
    )
    platform = Platform(
        "two", (machine, PlatformMachine("n")), (NetworkLink("vienna", "", 1e6, 0.1),)
    )
    found = again(flow, tmp_path / "flow.json", platform)
    assert found.workflow.notes == flow.notes
    assert (found.platform.machines, found.platform.links) == (platform.machines, platform.links)


@SEVERAL
@given(workflows())
def test_dot_keeps_names_numbers_and_edges_and_says_what_it_does_not(tmp_path, flow):
    lost = write_workflow(flow, tmp_path / "flow.dot")
    found = read_workflow(tmp_path / "flow.dot")
    assert found.name == (flow.name or "flow")
    assert list(found.edges) == list(flow.edges)
    for one, other in zip(found.tasks, flow.tasks, strict=True):
        kept = ("name", "work", "kind", "machine", "target", "program", "tag", "cores", "memory")
        assert all(getattr(one, key) == getattr(other, key) for key in kept)
    hidden = any(task.times or task.curve for task in flow.tasks)
    assert bool(lost) == hidden


@SEVERAL
@given(workflows())
def test_networkx_keeps_the_same(flow):
    graph = to_networkx(flow)
    assert isinstance(graph, nx.DiGraph)
    found = from_networkx(graph)
    assert sorted(found.edges) == sorted(flow.edges)
    assert found.names == flow.names
    assert found.work.tolist() == flow.work.tolist()


@SEVERAL
@given(workflows(plain=True, acyclic=True))
def test_stg_keeps_the_graph_between_its_dummies(tmp_path, flow):
    assume(flow.work.all())
    write_workflow(flow, tmp_path / "flow.stg")
    found = read_workflow(tmp_path / "flow.stg")
    assert found.work.tolist() == [0.0, *flow.work.tolist(), 0.0]
    inner = [(a, b) for a, b, _ in found.edges if a != "0" and int(b) <= len(flow)]
    number = {name: str(i) for i, name in enumerate(flow.names, 1)}
    assert sorted(inner) == sorted((number[a], number[b]) for a, b, _ in flow.edges)
    assert len(found.before.of(len(flow) + 1)) == len(
        set(flow.names) - {a for a, _, _ in flow.edges}
    )


@SEVERAL
@given(workflows(alphabet="ab1-_.", plain=True), st.data())
def test_wfformat_keeps_work_and_whole_bytes(tmp_path, flow, data):
    assume(all(flow.names) and flow.name)
    moved = data.draw(st.lists(st.integers(0, 2**50), min_size=len(flow.data)))
    edges = [(a, b, float(moved[i])) for i, (a, b, _) in enumerate(flow.edges)]
    flow = Workflow.of(flow.name, flow.tasks, edges)
    found = again(flow, tmp_path / "flow.json", form="wfformat").workflow
    assert sorted(found.edges) == sorted(flow.edges)
    assert list(found.tasks) == list(flow.tasks)


@pytest.mark.parametrize(
    ("name", "tasks", "edges", "makespan"),
    [("nextflow", 5, 4, 4243.0), ("pegasus", 22, 30, 3488.0)],
)
def test_traces_are_read_with_their_machines(name, tasks, edges, makespan):
    found = read_instance(DATA / f"{name}.json")
    assert (len(found.workflow), len(found.workflow.data)) == (tasks, edges)
    assert found.workflow.notes["makespan"] == makespan
    assert Problem.of(found.workflow, found.platform).tasks == tasks


def test_a_trace_as_of_pegasus_says_what_its_json_does():
    found = read_instance(DATA / "pegasus.json")
    raw = json.loads((DATA / "pegasus.json").read_text())["workflow"]
    runs = {each["id"]: each for each in raw["execution"]["tasks"]}
    for task in found.workflow.tasks:
        assert task.work == runs[task.name]["runtimeInSeconds"]
        assert task.memory == runs[task.name]["memoryInBytes"]
        assert task.program == runs[task.name]["command"]["program"]
    size = {each["id"]: each["sizeInBytes"] for each in raw["specification"]["files"]}
    data = {(a, b): moved for a, b, moved in found.workflow.edges}
    assert data["index-build_ID0000001", "index-align_ID0000003"] == (
        size["reference.1.idx"] + size["reference.2.idx"]
    )
    assert data["index-align_ID0000003", "merge_ID0000022"] == size["sample0.bam"]
    (machine,) = found.platform.machines
    assert (machine.name, machine.speed, machine.cores) == ("worker-1", 1.0, 48)
    assert machine.memory == 131795960000


def test_a_trace_as_of_nextflow_is_read_with_what_it_leaves_out():
    found = read_instance(DATA / "nextflow.json")
    rows = [(t.name.partition("Y.")[2], t.work, t.cores, t.memory) for t in found.workflow.tasks]
    assert rows == [
        ("CHECK_2", 12.5, 1, 0),
        ("TRIM_1", 37, 1, 356302848),
        ("TRIM_3", 8, 2, 2097152),
        ("ASSEMBLE_4", 4100.25, 4, 6000000000),
        ("REPORT_5", 0, 1, 0),
    ]
    assert {t.program for t in found.workflow.tasks} == {
        f"LAB.ASSEMBLY.{name}" for name in ("CHECK", "TRIM", "ASSEMBLE", "REPORT")
    }
    edges = [
        (a.partition("Y.")[2], b.partition("Y.")[2], data) for a, b, data in found.workflow.edges
    ]
    # Of both ends, of the source alone (without a file), and of the target alone.
    assert sorted(edges) == [
        ("CHECK_2", "REPORT_5", 7),
        ("TRIM_1", "ASSEMBLE_4", 101000000),
        ("TRIM_1", "REPORT_5", 0),
        ("TRIM_3", "ASSEMBLE_4", 11000000),
    ]
    (machine,) = found.platform.machines
    assert (machine.name, machine.cores, machine.memory) == ("node-1", 4, float("inf"))


def assert_same_in(form, path, folder):
    flow = read_workflow(path)
    found = again(flow, folder / f"flow.{form[:3]}", form=form).workflow
    assert sorted(found.edges) == sorted(flow.edges)
    assert [(t.name, t.work) for t in found.tasks] == [(t.name, t.work) for t in flow.tasks]
    assert len(flow.order) == len(flow)


@pytest.mark.parametrize("form", ["json", "wfformat", "dot"])
def test_every_trace_is_the_same_in_other_formats(tmp_path, form):
    for name in ("montage", "epigenomics", "srasearch", "soykb"):
        instance = generate("application", {"name": name})
        path = tmp_path / f"{name}.json"
        write_workflow(instance.workflow, path, instance.platform, "wfformat")
        assert_same_in(form, path, tmp_path)
    for path in DATA.glob("*.json"):
        assert_same_in(form, path, tmp_path)


@pytest.mark.parametrize("form", ["json", "wfformat", "dot"])
def test_every_recorded_trace_is_the_same_in_other_formats(tmp_path, form):
    for path in recorded("wfinstances/*.json"):
        assert_same_in(form, path, tmp_path)


def test_stg_reads_times_predecessors_and_dummies():
    flow = read_workflow(DATA / "padded.stg")
    assert (len(flow), len(flow.data)) == (8, 7 + 3)
    assert flow.work.tolist() == [0, 9, 4, 3, 6, 4, 3, 0]
    assert [flow.before.of(t).tolist() for t in (0, 1, 3, 6, 7)] == [
        [],
        [0],
        [1, 2],
        [3, 4, 5],
        [6],
    ]


@pytest.mark.parametrize("graph", ["layered", "fork-join", "series-parallel"])
def test_an_stg_file_is_written_as_it_was_read(tmp_path, graph):
    made = generate(graph, {"tasks": 50, "whole": True, "ccr": 0}, seed=3).workflow
    write_workflow(made, tmp_path / "made.stg")
    for path in (tmp_path / "made.stg", DATA / "padded.stg"):
        assert_same_stg(path, tmp_path / "again" / path.name)


def assert_same_stg(path, other):
    flow = read_workflow(path)
    other.parent.mkdir(exist_ok=True)
    assert write_workflow(flow, other) == ()
    assert content(read_workflow(other)) == content(flow)


def test_every_recorded_stg_file_is_written_as_it_was_read(tmp_path):
    for path in recorded("stg/50/*.stg"):
        assert_same_stg(path, tmp_path / "again" / path.name)


def test_a_loop_is_kept_but_not_by_stg(tmp_path):
    flow = Workflow.of("loop", [WorkflowTask("a"), WorkflowTask("b")], [("a", "b"), ("b", "a")])
    assert again(flow, tmp_path / "l.json").workflow.looped
    assert again(flow, tmp_path / "l.dot").workflow.looped
    with pytest.raises(Exception, match="has a loop"):
        write_workflow(flow, tmp_path / "l.stg")
    assert not (tmp_path / "l.stg").exists()


SWEEP = """{"name": "pipeline", "tasks": [
  {"name": "collect", "sweep": 3, "work": [1, 2, 3], "tag": "array"},
  {"name": "filter", "sweep": 3, "work": 5},
  {"name": "show", "work": 2}
 ], "edges": [
  {"from": "collect", "to": "filter", "join": "each", "bytes": "1kB"},
  ["filter", "show"], ["collect.2", "show"]
 ]}"""


def test_a_sweep_becomes_its_subtasks(tmp_path):
    (tmp_path / "s.json").write_text(SWEEP.replace("1kB", "1KB"))
    flow = read_workflow(tmp_path / "s.json")
    assert flow.names == (*(f"{t}.{i}" for t in ("collect", "filter") for i in (1, 2, 3)), "show")
    assert flow.work.tolist() == [1, 2, 3, 5, 5, 5, 2]
    assert [(t.program, t.tag) for t in flow.tasks][:4] == [("collect", "array")] * 3 + [
        ("filter", "")
    ]
    assert list(flow.edges) == [
        *((f"collect.{i}", f"filter.{i}", 1000.0) for i in (1, 2, 3)),
        *((f"filter.{i}", "show", 0.0) for i in (1, 2, 3)),
        ("collect.2", "show", 0.0),
    ]


DOT = """
strict digraph "a \\"graph\\"" {  // with a comment
  rankdir=LR; node [shape=box, work=3]
  a [work=1.5 label="first"]; b
  subgraph cluster_x { c; d [work=2]; }
  a -> {b c} -> e [bytes=10];  /* and another */
  e:south -> "graph"
}
"""


def test_dot_knows_chains_groups_subgraphs_and_common_attributes(tmp_path):
    (tmp_path / "g.gv").write_text(DOT)
    flow = read_workflow(tmp_path / "g.gv")
    assert flow.name == 'a "graph"'
    assert {t.name: t.work for t in flow.tasks} == {
        "a": 1.5, "b": 3, "c": 3, "d": 2, "e": 3, "graph": 3,
    }  # fmt: skip
    assert sorted(flow.edges) == [
        ("a", "b", 10), ("a", "c", 10), ("b", "e", 10), ("c", "e", 10), ("e", "graph", 0),
    ]  # fmt: skip


def read(path, text):
    path.write_text(text, encoding="utf-8")
    return read_workflow(path)


def test_what_is_said_of_all_edges_or_in_a_group_holds_there_in_dot(tmp_path):
    text = "digraph { node [work=3] edge [bytes=5] { node [work=7] a } b a -> b -> c [bytes=1] }"
    flow = read(tmp_path / "f.dot", text)
    assert dict(zip(flow.names, flow.work, strict=True)) == {"a": 7, "b": 3, "c": 3}
    assert list(flow.edges) == [("a", "b", 1), ("b", "c", 1)]
    assert list(read(tmp_path / "f.dot", "digraph {edge [bytes=5] a -> b}").data) == [5]


def test_texts_of_dot_are_joined_marked_up_and_escaped(tmp_path):
    text = (
        r"""digraph { "a" + "b" -> "a\nb" -> "a\"b"; "x\\" [label=<<b>x</b> y>, memory="4GB"] }"""
    )
    flow = read(tmp_path / "f.dot", text)
    assert list(flow.names) == ["ab", r"a\nb", 'a"b', "x\\"]
    assert flow.task(3).memory == 4e9


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("f.dot", "digraph { a -> b [bytes=5]; a -> b [bytes=7]; }"),
        ("f.json", '{"tasks": [{"name": "a"}, {"name": "b"}], "edges": [["a","b",5],["a","b",7]]}'),
        (
            "f.json",
            """{"tasks": {"name": ["a", "b"], "work": [1, 1]},
            "edges": {"from": [0, 0], "to": [1, 1], "bytes": [5, 7]}}""",
        ),
    ],
)
def test_edges_between_the_same_tasks_are_one_with_the_bytes_of_all(tmp_path, name, text):
    flow = read(tmp_path / name, text)
    assert list(flow.edges) == [("a", "b", 12)]
    for form in ("f.dot", "f.json"):
        write_workflow(flow, tmp_path / form)
        assert list(read_workflow(tmp_path / form).edges) == [("a", "b", 12)]
    write_workflow(flow, tmp_path / "g.json", form="wfformat")
    assert list(read_workflow(tmp_path / "g.json").edges) == [("a", "b", 12)]
    strict = read(tmp_path / "f.dot", "strict digraph { a -> b [bytes=5]; a -> b [bytes=7]; }")
    assert list(strict.data) == [7]


def test_a_file_without_an_ending_is_known_by_what_it_begins_with(tmp_path):
    for text, tasks in (
        (SWEEP.replace("1kB", "1"), 7),
        (DOT, 6),
        ("1\n0 0 0\n1 5 1 0\n2 0 1 1\n", 3),
    ):
        (tmp_path / "flow").write_text(text)
        assert len(read_workflow(tmp_path / "flow")) == tasks


def test_networkx_attributes_of_other_names_are_work_and_bytes():
    graph = nx.MultiDiGraph()
    graph.add_node(1, weight=4)
    graph.add_node(2, runtime=5.5)
    graph.add_edge(1, 2, size=10)
    graph.add_edge(1, 2, size=5)
    flow = from_networkx(graph, "multi")
    assert (flow.names, flow.work.tolist()) == (("1", "2"), [4, 5.5])
    assert list(flow.edges) == [("1", "2", 15.0)]


def test_what_is_written_is_whole_or_as_before(tmp_path):
    path = tmp_path / "flow.json"
    path.write_text("before")
    flow = Workflow.of("bad", [WorkflowTask("a")], note=float("nan"))
    with pytest.raises(Exception, match="notes cannot be written"):
        write_workflow(flow, path)
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir()] == ["flow.json"]


def test_a_file_of_columns_is_read_with_little_more_than_it_holds(tmp_path):
    import tracemalloc

    def peak(count):
        flow = Workflow(
            "long", tuple(map(str, range(count))), np.ones(count),
            np.arange(count - 1, dtype=np.int32), np.arange(1, count, dtype=np.int32),
            np.zeros(count - 1),
        )  # fmt: skip
        write_workflow(flow, tmp_path / "long.json")
        tracemalloc.start()
        read_workflow(tmp_path / "long.json")
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(80_000) < 5 * peak(20_000)
