"""The project's own JSON: everything that a workflow knows, and its machines if it has any.

Tasks are a list of objects, or an object of columns, which large files use.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.formats import platforms
from zenturio.schedule.formats.document import MAX_EDGES, MAX_TASKS, FormatDocument
from zenturio.schedule.formats.instance import Instance
from zenturio.schedule.formats.sweeps import EdgeColumns, SweepRanges
from zenturio.schedule.formats.tasks import (
    TaskColumns,
    task_row,
    tasks_from_columns,
    tasks_from_rows,
)
from zenturio.schedule.platform import Platform
from zenturio.schedule.workflow import Indices, Workflow, merge_parallel_edges

FORMAT = "zenturio-workflow"
MAX_ROWS = 10_000
"""Beyond so many tasks a file is written as columns."""

_DOCUMENT_KEYS = ("format", "name", "notes", "tasks", "edges", "platform")
_EDGE_COLUMNS = ("from", "to", "bytes")


def read_zenturio_json(document: FormatDocument) -> Instance:
    """The workflow of *document*, and its platform if it has one."""
    value = document.value
    document.keys(value, _DOCUMENT_KEYS, ())
    if value.get("format", FORMAT) != FORMAT:
        document.wrong(("format",), f"format is not {FORMAT!r}")
    if "tasks" not in value:
        document.wrong((), "no tasks: a workflow has a list of them")
    tasks, sweeps = _read_tasks(document, value["tasks"])
    ends = _read_edges(document, tasks, sweeps, value.get("edges", []))
    notes = value.get("notes", {})
    if not isinstance(notes, dict):
        document.wrong(("notes",), "notes is no object")
    flow = Workflow(
        document.words(value.get("name", Path(document.file).stem), ("name",)),
        tuple(tasks.names), tasks.work,
        *merge_parallel_edges(ends.sources, ends.targets, ends.data),
        tasks.more, tasks.program, tuple(tasks.programs), notes,
    )  # fmt: skip
    flow.check()
    machines = value.get("platform")
    return Instance(
        flow,
        None
        if machines is None
        else platforms.read_platform_values(document, machines, ("platform",), flow.name),
    )


def _read_tasks(document: FormatDocument, value: Any) -> tuple[TaskColumns, SweepRanges]:
    if isinstance(value, dict):
        tasks, sweeps = tasks_from_columns(document, value), SweepRanges({})
    else:
        tasks, sweeps = tasks_from_rows(document, document.items(value, ("tasks",)))
    if not 0 < len(tasks.names) <= MAX_TASKS:
        document.wrong(("tasks",), f"{len(tasks.names):,} tasks: from 1 to {MAX_TASKS:,} are read")
    if len(set(tasks.names)) < len(tasks.names):
        seen: set[str] = set()
        twice = next(i for i, n in enumerate(tasks.names) if n in seen or seen.add(n))  # type: ignore[func-returns-value]
        way = ("tasks", *(("name", twice) if isinstance(value, dict) else (twice, "name")))
        document.wrong(
            way if not sweeps.ranges else (), f"two tasks are named {tasks.names[twice]!r}"
        )
    return tasks, sweeps


def _read_edges(
    document: FormatDocument, tasks: TaskColumns, sweeps: SweepRanges, value: Any
) -> EdgeColumns:
    if isinstance(value, dict):
        return _edge_columns(document, value, len(tasks.names))
    rows = document.items(value, ("edges",))
    if len(rows) > MAX_EDGES:
        document.wrong(("edges",), f"more than {MAX_EDGES:,} edges")
    number = {name: i for i, name in enumerate(tasks.names)}
    if sweeps.ranges or not set(map(type, rows)) <= {list}:
        return sweeps.edges(document, number, rows)
    return _edge_rows(document, number, rows)


def _edge_rows(
    document: FormatDocument, number: Mapping[str, int], rows: list[list[Any]]
) -> EdgeColumns:
    for i in (i for i, edge in enumerate(rows) if not 2 <= len(edge) <= 3):
        document.wrong(("edges", i), "an edge is [from, to] or [from, to, bytes]")
    ends: list[Indices] = []
    for end in (0, 1):
        names = [edge[end] for edge in rows]
        document.texts(names, lambda i, end=end: ("edges", i, end))  # type: ignore[misc]
        found = np.array([number.get(name, -1) for name in names], np.int32)
        for i in np.flatnonzero(found < 0)[:1].tolist():
            hint = did_you_mean(names[i], number)
            document.wrong(("edges", i, end), f"no task is named {names[i]!r}", hint)
        ends.append(found)
    for i in np.flatnonzero(ends[0] == ends[1])[:1].tolist():
        document.wrong(("edges", i), f"task {rows[i][0]!r} waits for itself")
    data = document.numbers(
        [edge[2] if len(edge) > 2 else 0.0 for edge in rows], lambda i: ("edges", i, 2)
    )
    return EdgeColumns(ends[0], ends[1], data)


def _edge_columns(document: FormatDocument, value: dict[str, Any], count: int) -> EdgeColumns:
    document.keys(value, _EDGE_COLUMNS, ("edges",))
    columns = {key: document.items(value.get(key, []), ("edges", key)) for key in _EDGE_COLUMNS}
    if len(columns["from"]) != len(columns["to"]):
        document.wrong(("edges", "to"), "from and to are not equally long")
    for key in ("from", "to"):
        for i in _first_invalid_index(columns[key], count):
            document.whole(columns[key][i], ("edges", key, i), 0, count - 1)
    data = columns["bytes"] or [0.0] * len(columns["to"])
    if len(data) != len(columns["to"]):
        document.wrong(("edges", "bytes"), "bytes and to are not equally long")
    return EdgeColumns(
        np.array(columns["from"], np.int32),
        np.array(columns["to"], np.int32),
        document.numbers(data, lambda i: ("edges", "bytes", i)),
    )


def _first_invalid_index(values: list[Any], count: int) -> list[int]:
    """The first of *values*, if any, that is no number from 0 to below *count*."""
    if not set(map(type, values)) <= {int}:
        return [next(i for i, each in enumerate(values) if type(each) is not int)]
    if values and (min(values) < 0 or max(values) >= count):
        return [next(i for i, each in enumerate(values) if not 0 <= each < count)]
    return []


def write_zenturio_json(flow: Workflow, platform: Platform | None = None) -> Iterator[str]:
    """The text of *flow*, in pieces; a task and an edge each stand on a line of their own."""
    yield f'{{\n"format": "{FORMAT}",\n"name": {json.dumps(flow.name, ensure_ascii=False)},\n'
    if flow.notes:
        yield f'"notes": {_json_text(dict(flow.notes))},\n'
    yield from _columns_text(flow) if len(flow) > MAX_ROWS else _rows_text(flow)
    if platform is not None:
        yield ',\n"platform": '
        yield json.dumps(platforms.platform_facts(platform), ensure_ascii=False, indent=1)
    yield "\n}\n"


def _rows_text(flow: Workflow) -> Iterator[str]:
    yield '"tasks": [\n '
    yield ",\n ".join(_json_text(task_row(task)) for task in flow.tasks)
    yield '\n],\n"edges": [\n '
    yield ",\n ".join(_json_text([a, b, data] if data else [a, b]) for a, b, data in flow.edges)
    yield "\n]"


def _columns_text(flow: Workflow) -> Iterator[str]:
    columns: dict[str, Any] = {"name": list(flow.names), "work": flow.work.tolist()}
    if flow.program is not None:
        columns |= {"program": flow.program.tolist(), "programs": list(flow.programs)}
    if flow.more:
        columns["more"] = [task_row(task) for _, task in sorted(flow.more.items())]
    yield f'"tasks": {_column_lines(columns)},\n'
    edges = {"from": flow.sources.tolist(), "to": flow.targets.tolist()}
    yield f'"edges": {_column_lines({**edges, "bytes": flow.data.tolist()})}'


def _column_lines(columns: Mapping[str, Any]) -> str:
    return (
        "{\n" + ",\n".join(f" {json.dumps(k)}: {_json_text(v)}" for k, v in columns.items()) + "\n}"
    )


def _json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    except ValueError as error:
        raise InputError(f"a workflow's notes cannot be written: {error}") from None
