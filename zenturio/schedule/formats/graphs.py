"""Graphs of networkx as workflows, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from zenturio.errors import InputError
from zenturio.expression import parse
from zenturio.schedule.formats.document import MAX_TASKS
from zenturio.schedule.workflow import Workflow, WorkflowTask

_WORK = ("work", "weight", "runtime", "size", "cost")
_DATA = ("bytes", "data", "size", "weight")
_TEXTS = ("kind", "machine", "target", "program", "tag")


def from_networkx(graph: Any, name: str = "") -> Workflow:
    """The workflow of a directed *graph*.

    A node's ``work``, ``weight``, ``runtime``, ``size`` or ``cost`` is its work, an edge's
    ``bytes``, ``data``, ``size`` or ``weight`` its data; parallel edges are added up.
    """
    if not graph.is_directed():
        raise InputError("a workflow is a directed graph, and this one is not")
    tasks = [task_with(str(node), known) for node, known in graph.nodes(data=True)]
    edges: dict[tuple[str, str], float] = {}
    for a, b, known in graph.edges(data=True):
        ends = str(a), str(b)
        edges[ends] = edges.get(ends, 0.0) + edge_bytes(ends, known)
    return Workflow.of(
        name or str(graph.name) or "graph", tasks, [(a, b, data) for (a, b), data in edges.items()]
    )


def task_with(name: str, known: Mapping[str, Any]) -> WorkflowTask:
    """A task with the attributes that are *known* of it."""
    texts = {key: str(known[key]) for key in _TEXTS if known.get(key)}
    if texts.get("kind", "job") not in {"job", "transfer"}:
        raise InputError(f"task {name!r}: kind is {texts['kind']!r}, not job or transfer")
    return WorkflowTask(
        name,
        _first_number(f"task {name!r}", known, _WORK),
        cores=_cores(name, known),
        memory=_first_number(f"task {name!r}", known, ("memory",)),
        **texts,  # type: ignore[arg-type]
    )


def edge_bytes(ends: tuple[str, str], known: Mapping[str, Any]) -> float:
    """The bytes along an edge with the attributes that are *known* of it."""
    return _first_number(f"edge {ends[0]} -> {ends[1]}", known, _DATA)


def _first_number(
    what: str, known: Mapping[str, Any], keys: tuple[str, ...], default: float = 0.0
) -> float:
    for key in keys:
        if known.get(key) is not None:
            found = _number_of(known[key])
            if found is None:
                raise InputError(f"{what}: {key} is {known[key]!r:.60}, no number")
            if not 0 <= found < float("inf"):
                raise InputError(f"{what}: {key} is {found:g}; it has to be 0 or more")
            return found
    return default


def _number_of(given: Any) -> float | None:
    """*given* as a number: also from a text such as 4GB."""
    try:
        return float(given)
    except (TypeError, ValueError):
        pass
    try:
        found = parse(str(given)).value({})
    except InputError:
        return None
    return float(found) if isinstance(found, int | float) else None


def _cores(name: str, known: Mapping[str, Any]) -> int:
    found = _first_number(f"task {name!r}", known, ("cores",), 1.0)
    if not found.is_integer() or not 1 <= found <= MAX_TASKS:
        raise InputError(
            f"task {name!r}: cores is {found:g}; it has to be a whole number from 1 on"
        )
    return int(found)


def to_networkx(flow: Workflow) -> Any:
    """A ``networkx.DiGraph`` of *flow* with all it knows as attributes."""
    import networkx as nx  # noqa: PLC0415 - loads for half a second

    graph = nx.DiGraph(name=flow.name)
    for each in flow.tasks:
        graph.add_node(each.name, **task_attributes(each))
    for a, b, data in flow.edges:
        before = graph.edges[a, b]["bytes"] if graph.has_edge(a, b) else 0.0
        graph.add_edge(a, b, bytes=before + data)
    return graph


def task_attributes(task: WorkflowTask) -> dict[str, Any]:
    """What is known of *task* beside its name, without what is as it is commonly."""
    common = WorkflowTask("")
    found: dict[str, Any] = {"work": task.work}
    for key in (*_TEXTS, "cores", "memory"):
        if getattr(task, key) != getattr(common, key):
            found[key] = getattr(task, key)
    return found


def attribute_texts(known: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Attributes as texts; of numbers, the shortest that say them exactly."""
    for key, value in known.items():
        yield key, repr(value) if isinstance(value, float) else str(value)
