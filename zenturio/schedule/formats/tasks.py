"""Tasks as the project's own JSON has them: rows or columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.curve import ScalingCurve
from zenturio.schedule.formats.document import MAX_TASKS, FormatDocument, KeyPath
from zenturio.schedule.formats.sweeps import SweepRanges
from zenturio.schedule.workflow import Floats, Indices, WorkflowTask

_PLAIN_KEYS = {"name", "work", "program"}
_TEXTS = ("kind", "machine", "target", "program", "tag")
_TASK_KEYS = ("name", "work", *_TEXTS, "cores", "memory", "times", "curve", "sweep")
TASK_COLUMNS = ("name", "work", "program", "programs", "more")


@dataclass(frozen=True)
class TaskColumns:
    """The columns of a workflow that concern its tasks."""

    names: Sequence[str]
    work: Floats
    more: Mapping[int, WorkflowTask]
    program: Indices
    programs: Sequence[str]


def tasks_from_rows(document: FormatDocument, rows: list[Any]) -> tuple[TaskColumns, SweepRanges]:
    """Tasks each of which is an object; those that are sweeps become their subtasks."""
    if not set(map(type, rows)) <= {dict}:
        wrong = next(i for i, each in enumerate(rows) if not isinstance(each, dict))
        document.wrong(("tasks", wrong), "a task is an object with a name")
    unknown = set[str]().union(*rows) - set(_TASK_KEYS)
    if unknown:
        wrong = next(i for i, each in enumerate(rows) if each.keys() & unknown)
        document.keys(rows[wrong], _TASK_KEYS, ("tasks", wrong))
    names = [each.get("name") for each in rows]
    document.texts(names, lambda i: ("tasks", i, "name"))
    if any("sweep" in each for each in rows):
        return _tasks_with_sweeps(document, rows)
    work = document.numbers([each.get("work", 0.0) for each in rows], _key_path("work"))
    programs = [each.get("program", "") for each in rows]
    document.texts(programs, _key_path("program"))
    number = {each: i for i, each in enumerate(dict.fromkeys(programs))}
    more = {
        i: _read_task(document, each, ("tasks", i), float(work[i]))
        for i, each in enumerate(rows)
        if not each.keys() <= _PLAIN_KEYS
    }
    column = np.array([number[each] for each in programs], np.int32)
    return TaskColumns(names, work, _not_plain(more), column, tuple(number)), SweepRanges({})


def _key_path(key: str) -> Any:
    return lambda i: ("tasks", i, key)


def _not_plain(more: Mapping[int, WorkflowTask]) -> dict[int, WorkflowTask]:
    """Those of which there is more to know than name, work and program."""
    return {i: t for i, t in more.items() if t != WorkflowTask(t.name, t.work, program=t.program)}


def _tasks_with_sweeps(
    document: FormatDocument, rows: list[dict[str, Any]]
) -> tuple[TaskColumns, SweepRanges]:
    tasks: list[WorkflowTask] = []
    ranges: dict[str, range] = {}
    for i, each in enumerate(rows):
        way = ("tasks", i)
        if "sweep" in each:
            if len(tasks) + document.whole(each["sweep"], (*way, "sweep")) > MAX_TASKS:
                document.wrong((*way, "sweep"), f"more than {MAX_TASKS:,} tasks")
            ranges[each["name"]] = range(len(tasks), len(tasks) + each["sweep"])
            tasks += _subtasks(document, each, way)
        else:
            work = document.number(each.get("work", 0.0), (*way, "work"))
            tasks.append(_read_task(document, each, way, work))
    number = {each: i for i, each in enumerate(dict.fromkeys(t.program for t in tasks))}
    return TaskColumns(
        [task.name for task in tasks],
        np.array([task.work for task in tasks], np.float64),
        _not_plain(dict(enumerate(tasks))),
        np.array([number[task.program] for task in tasks], np.int32),
        tuple(number),
    ), SweepRanges(ranges)


def _subtasks(document: FormatDocument, given: dict[str, Any], way: KeyPath) -> list[WorkflowTask]:
    """The subtasks ``NAME.1`` to ``NAME.N`` of a parameter-sweep task; its work may be a list."""
    count, name, work = given["sweep"], given["name"], given.get("work", 0.0)
    if isinstance(work, list) and len(work) != count:
        document.wrong((*way, "work"), f"work has {len(work)} numbers for {count} subtasks")
    if isinstance(work, list):
        lengths = document.numbers(work, lambda i: (*way, "work", i))
    else:
        lengths = np.full(count, document.number(work, (*way, "work")))
    like = {"program": name, **{k: v for k, v in given.items() if k != "sweep"}}
    if "machine" in like:
        document.wrong((*way, "machine"), "the subtasks of a sweep share no abstract machine")
    return [
        _read_task(document, {**like, "name": f"{name}.{j}"}, way, length)
        for j, length in enumerate(lengths.tolist(), 1)
    ]


def tasks_from_columns(document: FormatDocument, value: dict[str, Any]) -> TaskColumns:
    """Tasks as an object of columns: names, work, numbers of programs, and their names."""
    document.keys(value, TASK_COLUMNS, ("tasks",))
    names = document.items(value.get("name", []), ("tasks", "name"))
    document.texts(names, lambda i: ("tasks", "name", i))
    given = document.items(value.get("work", []), ("tasks", "work"))
    work = document.numbers(given, lambda i: ("tasks", "work", i))
    programs = document.items(value.get("programs", [""]), ("tasks", "programs"))
    document.texts(programs, lambda i: ("tasks", "programs", i))
    program = document.items(value.get("program", [0] * len(names)), ("tasks", "program"))
    for key, column in (("work", given), ("program", program)):
        if len(column) != len(names):
            message = f"{key} has {len(column)} values for {len(names)} tasks"
            document.wrong(("tasks", key), message)
    if not set(map(type, program)) <= {int} or (
        program and not 0 <= min(program) <= max(program) < len(programs)
    ):
        for i, each in enumerate(program):
            document.whole(each, ("tasks", "program", i), 0, len(programs) - 1)
    more = _read_more(document, names, document.items(value.get("more", []), ("tasks", "more")))
    return TaskColumns(names, work, more, np.array(program, np.int32), tuple(programs))


def _read_more(
    document: FormatDocument, names: list[str], rows: list[Any]
) -> dict[int, WorkflowTask]:
    number = {name: i for i, name in enumerate(names)} if rows else {}
    found = {}
    for i, each in enumerate(rows):
        way = ("tasks", "more", i)
        document.keys(each, _TASK_KEYS[:-1], way)
        name = document.words(each.get("name"), (*way, "name"))
        if name not in number:
            hint = did_you_mean(name, number)
            document.wrong((*way, "name"), f"no task is named {name!r}", hint)
        work = document.number(each.get("work", 0.0), (*way, "work"))
        found[number[name]] = _read_task(document, each, way, work)
    return found


def _read_task(
    document: FormatDocument, given: dict[str, Any], way: KeyPath, work: float
) -> WorkflowTask:
    for key in _TEXTS:
        document.words(given.get(key, ""), (*way, key))
    if given.get("kind", "job") not in {"job", "transfer"}:
        document.wrong((*way, "kind"), f"kind is {given['kind']!r}", "write 'job' or 'transfer'")
    times = document.items(given.get("times", []), (*way, "times"))
    return WorkflowTask(
        given["name"],
        work,
        given.get("kind", "job"),
        given.get("machine", ""),
        given.get("target", ""),
        given.get("program", ""),
        given.get("tag", ""),
        document.whole(given.get("cores", 1), (*way, "cores")),
        document.number(given.get("memory", 0.0), (*way, "memory")),
        tuple(_read_seconds(document, each, (*way, "times", i)) for i, each in enumerate(times)),
        _read_curve(document, given.get("curve"), (*way, "curve")),
    )


def _read_seconds(document: FormatDocument, value: Any, way: KeyPath) -> float:
    """A time on one machine; null, where it cannot run."""
    return float("inf") if value is None else document.number(value, way)


def _read_curve(document: FormatDocument, value: Any, way: KeyPath) -> ScalingCurve | None:
    if value is None:
        return None
    document.keys(value, ("nodes", "seconds"), way)
    nodes = document.items(value.get("nodes"), (*way, "nodes"))
    seconds = document.items(value.get("seconds"), (*way, "seconds"))
    try:
        return ScalingCurve(
            tuple(document.whole(each, (*way, "nodes", i)) for i, each in enumerate(nodes)),
            tuple(document.number(each, (*way, "seconds", i)) for i, each in enumerate(seconds)),
        )
    except InputError as error:
        if error.diagnostics[0].place:
            raise
        document.wrong(way, str(error))


def task_row(task: WorkflowTask) -> dict[str, Any]:
    """*task* as an object, without what is as it is commonly."""
    found: dict[str, Any] = {"name": task.name, "work": task.work}
    for key in ("kind", "machine", "target", "program", "tag", "cores", "memory"):
        if getattr(task, key) != getattr(_DEFAULT_TASK, key):
            found[key] = getattr(task, key)
    if task.times:
        found["times"] = [None if each == float("inf") else each for each in task.times]
    if task.curve:
        found["curve"] = {"nodes": list(task.curve.nodes), "seconds": list(task.curve.seconds)}
    return found


_DEFAULT_TASK = WorkflowTask("")
