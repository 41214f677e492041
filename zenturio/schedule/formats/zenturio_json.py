"""zenturio's own JSON format: everything about a workflow, and its platform if it has one.

Tasks are a list of objects, or an object of columns, which large files use. A parameter-sweep task
stands for many subtasks; its edges join whole layers or single subtasks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.formats import platforms
from zenturio.schedule.formats.document import MAX_EDGES, MAX_TASKS, FormatDocument
from zenturio.schedule.model.platform import Platform, RuntimeCurve
from zenturio.schedule.model.problem import Instance
from zenturio.schedule.model.workflow import (
    Floats,
    Indices,
    Workflow,
    WorkflowTask,
    merge_parallel_edges,
)
from zenturio.settings.document import KeyPath

_EDGE_KEYS = ("from", "to", "bytes", "join")


@dataclass(frozen=True)
class EdgeColumns:
    """The edges of a workflow as columns."""

    sources: Indices
    targets: Indices
    data: Floats


@dataclass(frozen=True)
class SweepSubtasks:
    """The subtasks of each parameter-sweep task."""

    ranges: Mapping[str, range]

    def edges(
        self, document: FormatDocument, number: Mapping[str, int], rows: list[Any]
    ) -> EdgeColumns:
        """Return the edges of *rows*: between sweeps, each with each or all with all."""
        sources: list[Indices] = []
        targets: list[Indices] = []
        data: list[Floats] = []
        count = 0
        for i, row in enumerate(rows):
            path: KeyPath = ("edges", i)
            edge = _edge_object(document, row, path)
            a, b = (self._ends(document, number, edge.get(key), path) for key in ("from", "to"))
            size = document.number(edge.get("bytes", 0.0), (*path, "bytes"))
            join = document.words(edge.get("join", "all"), (*path, "join"))
            if join not in {"all", "each"}:
                document.wrong((*path, "join"), f"join is {join!r}", "write 'all' or 'each'")
            if join == "each" and len(a) != len(b):
                document.wrong(
                    path, f"{len(a)} subtasks cannot be joined each with one of {len(b)}"
                )
            # Count before allocating: a short file can ask for billions of edges.
            pairs = len(a) if join == "each" else len(a) * len(b)
            count += pairs
            if count > MAX_EDGES:
                document.wrong(path, f"more than {MAX_EDGES:,} edges")
            sources.append(np.array(a) if join == "each" else np.repeat(a, len(b)))
            targets.append(np.array(b) if join == "each" else np.tile(b, len(a)))
            data.append(np.full(pairs, size))
        return EdgeColumns(
            _concatenated(sources), _concatenated(targets), np.concatenate([np.zeros(0), *data])
        )

    def _ends(
        self, document: FormatDocument, number: Mapping[str, int], name: Any, path: KeyPath
    ) -> range:
        document.words(name, path)
        if name in self.ranges:
            return self.ranges[name]
        if name not in number:
            hint = did_you_mean(name, [*self.ranges, *number])
            document.wrong(path, f"no task is named {name!r}", hint)
        return range(number[name], number[name] + 1)


def _edge_object(document: FormatDocument, row: Any, path: KeyPath) -> dict[str, Any]:
    if isinstance(row, dict):
        document.keys(row, _EDGE_KEYS, path)
        return row
    if not isinstance(row, list) or not 2 <= len(row) <= 3:
        document.wrong(path, "an edge is [from, to], [from, to, bytes] or an object")
    return dict(zip(_EDGE_KEYS, row, strict=False))


def _concatenated(columns: list[Indices]) -> Indices:
    return np.concatenate([np.zeros(0, np.int32), *columns]).astype(np.int32)


_PLAIN_KEYS = {"name", "work", "program"}
_TEXTS = ("kind", "machine", "target", "program", "tag")
_TASK_KEYS = (
    "name", "work", *_TEXTS, "cores", "memory", "accelerators", "times", "curve", "point", "when",
    "sweep",
)  # fmt: skip
TASK_COLUMNS = ("name", "work", "program", "programs", "more")


@dataclass(frozen=True)
class TaskColumns:
    """The columns of a workflow that describe its tasks."""

    names: Sequence[str]
    work: Floats
    more: Mapping[int, WorkflowTask]
    program: Indices
    programs: Sequence[str]


def tasks_from_rows(document: FormatDocument, rows: list[Any]) -> tuple[TaskColumns, SweepSubtasks]:
    """Return the tasks of a list of objects; a sweep becomes its subtasks."""
    if not set(map(type, rows)) <= {dict}:
        index = next(i for i, row in enumerate(rows) if not isinstance(row, dict))
        document.wrong(("tasks", index), "a task is an object with a name")
    unknown = set[str]().union(*rows) - set(_TASK_KEYS)
    if unknown:
        index = next(i for i, row in enumerate(rows) if row.keys() & unknown)
        document.keys(rows[index], _TASK_KEYS, ("tasks", index))
    names = [row.get("name") for row in rows]
    document.texts(names, lambda i: ("tasks", i, "name"))
    if any("sweep" in row for row in rows):
        return _tasks_with_sweeps(document, rows)
    # Checked by column, not by task: a file may have millions of tasks, and most are plain.
    work = document.numbers([row.get("work", 0.0) for row in rows], _key_path("work"))
    programs = [row.get("program", "") for row in rows]
    document.texts(programs, _key_path("program"))
    number = {program: i for i, program in enumerate(dict.fromkeys(programs))}
    detailed_tasks = {
        i: _read_task(document, row, ("tasks", i), float(work[i]))
        for i, row in enumerate(rows)
        if not row.keys() <= _PLAIN_KEYS
    }
    column = np.array([number[program] for program in programs], np.int32)
    return TaskColumns(
        names, work, _not_plain(detailed_tasks), column, tuple(number)
    ), SweepSubtasks({})


def _key_path(key: str) -> Any:
    return lambda i: ("tasks", i, key)


def _not_plain(tasks: Mapping[int, WorkflowTask]) -> dict[int, WorkflowTask]:
    """Return the tasks that have more than a name, work and program."""
    return {i: t for i, t in tasks.items() if t != WorkflowTask(t.name, t.work, program=t.program)}


def _tasks_with_sweeps(
    document: FormatDocument, rows: list[dict[str, Any]]
) -> tuple[TaskColumns, SweepSubtasks]:
    tasks: list[WorkflowTask] = []
    ranges: dict[str, range] = {}
    for i, row in enumerate(rows):
        path = ("tasks", i)
        if "sweep" in row:
            if len(tasks) + document.whole(row["sweep"], (*path, "sweep")) > MAX_TASKS:
                document.wrong((*path, "sweep"), f"more than {MAX_TASKS:,} tasks")
            ranges[row["name"]] = range(len(tasks), len(tasks) + row["sweep"])
            tasks += _subtasks(document, row, path)
        else:
            work = document.number(row.get("work", 0.0), (*path, "work"))
            tasks.append(_read_task(document, row, path, work))
    number = {name: i for i, name in enumerate(dict.fromkeys(t.program for t in tasks))}
    return TaskColumns(
        [task.name for task in tasks],
        np.array([task.work for task in tasks], np.float64),
        _not_plain(dict(enumerate(tasks))),
        np.array([number[task.program] for task in tasks], np.int32),
        tuple(number),
    ), SweepSubtasks(ranges)


def _subtasks(document: FormatDocument, row: dict[str, Any], path: KeyPath) -> list[WorkflowTask]:
    """Return the subtasks ``NAME.1`` to ``NAME.N`` of a sweep; its work may be a list."""
    count, name, work = row["sweep"], row["name"], row.get("work", 0.0)
    if isinstance(work, list) and len(work) != count:
        document.wrong((*path, "work"), f"work has {len(work)} numbers for {count} subtasks")
    if isinstance(work, list):
        lengths = document.numbers(work, lambda i: (*path, "work", i))
    else:
        lengths = np.full(count, document.number(work, (*path, "work")))
    template = {"program": name, **{k: v for k, v in row.items() if k != "sweep"}}
    if "machine" in template:
        document.wrong((*path, "machine"), "the subtasks of a sweep share no abstract machine")
    return [
        _read_task(document, {**template, "name": f"{name}.{j}"}, path, length)
        for j, length in enumerate(lengths.tolist(), 1)
    ]


def tasks_from_columns(document: FormatDocument, value: dict[str, Any]) -> TaskColumns:
    """Return the tasks of an object of columns: name, work, program, programs, more."""
    document.keys(value, TASK_COLUMNS, ("tasks",))
    names = document.items(value.get("name", []), ("tasks", "name"))
    document.texts(names, lambda i: ("tasks", "name", i))
    work_values = document.items(value.get("work", []), ("tasks", "work"))
    work = document.numbers(work_values, lambda i: ("tasks", "work", i))
    programs = document.items(value.get("programs", [""]), ("tasks", "programs"))
    document.texts(programs, lambda i: ("tasks", "programs", i))
    program = document.items(value.get("program", [0] * len(names)), ("tasks", "program"))
    for key, column in (("work", work_values), ("program", program)):
        if len(column) != len(names):
            message = f"{key} has {len(column)} values for {len(names)} tasks"
            document.wrong(("tasks", key), message)
    # The quick test of the column comes first; the slow one finds the index for the message.
    if not set(map(type, program)) <= {int} or (
        program and not 0 <= min(program) <= max(program) < len(programs)
    ):
        for i, program_number in enumerate(program):
            document.whole(program_number, ("tasks", "program", i), 0, len(programs) - 1)
    rows = document.items(value.get("more", []), ("tasks", "more"))
    detailed_tasks = _read_more(document, names, rows)
    return TaskColumns(names, work, detailed_tasks, np.array(program, np.int32), tuple(programs))


def _read_more(
    document: FormatDocument, names: list[str], rows: list[Any]
) -> dict[int, WorkflowTask]:
    number = {name: i for i, name in enumerate(names)} if rows else {}
    tasks = {}
    for i, row in enumerate(rows):
        path = ("tasks", "more", i)
        document.keys(row, _TASK_KEYS[:-1], path)
        name = document.words(row.get("name"), (*path, "name"))
        if name not in number:
            hint = did_you_mean(name, number)
            document.wrong((*path, "name"), f"no task is named {name!r}", hint)
        work = document.number(row.get("work", 0.0), (*path, "work"))
        tasks[number[name]] = _read_task(document, row, path, work)
    return tasks


def _read_task(
    document: FormatDocument, row: dict[str, Any], path: KeyPath, work: float
) -> WorkflowTask:
    for key in _TEXTS:
        document.words(row.get(key, ""), (*path, key))
    if row.get("kind", "job") not in {"job", "transfer"}:
        document.wrong((*path, "kind"), f"kind is {row['kind']!r}", "write 'job' or 'transfer'")
    times = document.items(row.get("times", []), (*path, "times"))
    return WorkflowTask(
        row["name"],
        work,
        row.get("kind", "job"),
        row.get("machine", ""),
        row.get("target", ""),
        row.get("program", ""),
        row.get("tag", ""),
        document.whole(row.get("cores", 1), (*path, "cores")),
        document.number(row.get("memory", 0.0), (*path, "memory")),
        tuple(_read_seconds(document, time, (*path, "times", i)) for i, time in enumerate(times)),
        _read_curve(document, row.get("curve"), (*path, "curve")),
        document.whole(row.get("accelerators", 0), (*path, "accelerators"), 0),
        _read_point(document, row.get("point", {}), (*path, "point")),
        _read_when(document, row.get("when", {}), (*path, "when")),
    )


def _read_when(
    document: FormatDocument, value: Any, path: KeyPath
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the exit codes with which a task runs, by its predecessors: one, or a list."""
    if not isinstance(value, dict):
        document.wrong(path, "when is an object of predecessors and their exit codes")
    when = []
    for name, item in value.items():
        codes = item if isinstance(item, list) else [item]
        when.append((name, tuple(document.whole(c, (*path, name), 0, 255) for c in codes)))
    return tuple(when)


def _read_point(
    document: FormatDocument, value: Any, path: KeyPath
) -> tuple[tuple[str, str | float], ...]:
    if not isinstance(value, dict):
        document.wrong(path, "point is an object of parameters and their values")
    for name, item in value.items():
        if not isinstance(item, str | int | float):
            document.wrong((*path, name), f"{name} is neither a number nor a text")
    return tuple(value.items())


def _read_seconds(document: FormatDocument, value: Any, path: KeyPath) -> float:
    """Return a time on one machine; null means that it cannot run there."""
    return float("inf") if value is None else document.number(value, path)


def _read_curve(document: FormatDocument, value: Any, path: KeyPath) -> RuntimeCurve | None:
    if value is None:
        return None
    document.keys(value, ("nodes", "seconds"), path)
    nodes = document.items(value.get("nodes"), (*path, "nodes"))
    seconds = document.items(value.get("seconds"), (*path, "seconds"))
    try:
        return RuntimeCurve(
            tuple(document.whole(count, (*path, "nodes", i)) for i, count in enumerate(nodes)),
            tuple(document.number(count, (*path, "seconds", i)) for i, count in enumerate(seconds)),
        )
    except InputError as error:
        # An error of a number has its place in the file already; one of the curve has none.
        if error.diagnostics[0].place:
            raise
        document.wrong(path, str(error))


def task_row(task: WorkflowTask) -> dict[str, Any]:
    """Return *task* as an object, without attributes that have their default."""
    row: dict[str, Any] = {"name": task.name, "work": task.work}
    for key in ("kind", "machine", "target", "program", "tag", "cores", "memory", "accelerators"):
        if getattr(task, key) != getattr(_DEFAULT_TASK, key):
            row[key] = getattr(task, key)
    if task.times:
        row["times"] = [None if time == float("inf") else time for time in task.times]
    if task.curve:
        row["curve"] = {"nodes": list(task.curve.nodes), "seconds": list(task.curve.seconds)}
    if task.point:
        row["point"] = dict(task.point)
    if task.when:
        row["when"] = {name: list(codes) for name, codes in task.when}
    return row


_DEFAULT_TASK = WorkflowTask("")


FORMAT = "zenturio-workflow"
MAX_ROWS = 10_000
"""Workflows with more tasks are written as columns."""

_DOCUMENT_KEYS = ("format", "name", "notes", "tasks", "edges", "platform")
_EDGE_COLUMNS = ("from", "to", "bytes")


def read_zenturio_json(document: FormatDocument) -> Instance:
    """Return the workflow of *document*, and its platform if it has one."""
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
        document.wrong(("notes",), "notes is not an object")
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


def _read_tasks(document: FormatDocument, value: Any) -> tuple[TaskColumns, SweepSubtasks]:
    if isinstance(value, dict):
        tasks, sweeps = tasks_from_columns(document, value), SweepSubtasks({})
    else:
        tasks, sweeps = tasks_from_rows(document, document.items(value, ("tasks",)))
    if not 0 < len(tasks.names) <= MAX_TASKS:
        document.wrong(("tasks",), f"{len(tasks.names):,} tasks: from 1 to {MAX_TASKS:,} are read")
    if len(set(tasks.names)) < len(tasks.names):
        names: set[str] = set()
        duplicate = next(i for i, n in enumerate(tasks.names) if n in names or names.add(n))  # type: ignore[func-returns-value]
        path = ("tasks", *(("name", duplicate) if isinstance(value, dict) else (duplicate, "name")))
        document.wrong(
            path if not sweeps.ranges else (), f"two tasks are named {tasks.names[duplicate]!r}"
        )
    return tasks, sweeps


def _read_edges(
    document: FormatDocument, tasks: TaskColumns, sweeps: SweepSubtasks, value: Any
) -> EdgeColumns:
    if isinstance(value, dict):
        return _edge_columns(document, value, len(tasks.names))
    rows = document.items(value, ("edges",))
    if len(rows) > MAX_EDGES:
        document.wrong(("edges",), f"more than {MAX_EDGES:,} edges")
    number = {name: i for i, name in enumerate(tasks.names)}
    # Plain rows take the fast path: columns are checked as a whole.
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
        numbers = np.array([number.get(name, -1) for name in names], np.int32)
        for i in np.flatnonzero(numbers < 0)[:1].tolist():
            hint = did_you_mean(names[i], number)
            document.wrong(("edges", i, end), f"no task is named {names[i]!r}", hint)
        ends.append(numbers)
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
    """Return the index of the first value that is not an integer below *count*, as a list."""
    # The exact type, because True and False are instances of int.
    if not set(map(type, values)) <= {int}:
        return [next(i for i, value in enumerate(values) if type(value) is not int)]
    if values and (min(values) < 0 or max(values) >= count):
        return [next(i for i, value in enumerate(values) if not 0 <= value < count)]
    return []


def write_zenturio_json(flow: Workflow, platform: Platform | None = None) -> Iterator[str]:
    """Yield the text of *flow*; each task and edge is on a line of its own."""
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
