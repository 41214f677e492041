"""Tasks as the project's own JSON has them: rows or columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.curve import Curve
from zenturio.schedule.formats.document import MOST_TASKS, Document, Way
from zenturio.schedule.formats.sweeps import Sweeps
from zenturio.schedule.workflow import Floats, Indices, Task

_PLAIN = {"name", "work", "program"}
_TEXTS = ("kind", "machine", "target", "program", "tag")
_KEYS = ("name", "work", *_TEXTS, "cores", "memory", "times", "curve", "sweep")
COLUMNS = ("name", "work", "program", "programs", "more")


@dataclass(frozen=True)
class Tasks:
    """The columns of a workflow that concern its tasks."""

    names: Sequence[str]
    work: Floats
    more: Mapping[int, Task]
    program: Indices
    programs: Sequence[str]


def from_rows(document: Document, rows: list[Any]) -> tuple[Tasks, Sweeps]:
    """Tasks each of which is an object; those that are sweeps become their subtasks."""
    if not set(map(type, rows)) <= {dict}:
        wrong = next(i for i, each in enumerate(rows) if not isinstance(each, dict))
        document.wrong(("tasks", wrong), "a task is an object with a name")
    unknown = set[str]().union(*rows) - set(_KEYS)
    if unknown:
        wrong = next(i for i, each in enumerate(rows) if each.keys() & unknown)
        document.keys(rows[wrong], _KEYS, ("tasks", wrong))
    names = [each.get("name") for each in rows]
    document.texts(names, lambda i: ("tasks", i, "name"))
    if any("sweep" in each for each in rows):
        return _swept(document, rows)
    work = document.numbers([each.get("work", 0.0) for each in rows], _way("work"))
    programs = [each.get("program", "") for each in rows]
    document.texts(programs, _way("program"))
    number = {each: i for i, each in enumerate(dict.fromkeys(programs))}
    more = {
        i: _task(document, each, ("tasks", i), float(work[i]))
        for i, each in enumerate(rows)
        if not each.keys() <= _PLAIN
    }
    column = np.array([number[each] for each in programs], np.int32)
    return Tasks(names, work, _special(more), column, tuple(number)), Sweeps({})


def _way(key: str) -> Any:
    return lambda i: ("tasks", i, key)


def _special(more: Mapping[int, Task]) -> dict[int, Task]:
    """Those of which there is more to know than name, work and program."""
    return {i: t for i, t in more.items() if t != Task(t.name, t.work, program=t.program)}


def _swept(document: Document, rows: list[dict[str, Any]]) -> tuple[Tasks, Sweeps]:
    tasks: list[Task] = []
    ranges: dict[str, range] = {}
    for i, each in enumerate(rows):
        way = ("tasks", i)
        if "sweep" in each:
            if len(tasks) + document.whole(each["sweep"], (*way, "sweep")) > MOST_TASKS:
                document.wrong((*way, "sweep"), f"more than {MOST_TASKS:,} tasks")
            ranges[each["name"]] = range(len(tasks), len(tasks) + each["sweep"])
            tasks += _subtasks(document, each, way)
        else:
            work = document.number(each.get("work", 0.0), (*way, "work"))
            tasks.append(_task(document, each, way, work))
    number = {each: i for i, each in enumerate(dict.fromkeys(t.program for t in tasks))}
    return Tasks(
        [task.name for task in tasks],
        np.array([task.work for task in tasks], np.float64),
        _special(dict(enumerate(tasks))),
        np.array([number[task.program] for task in tasks], np.int32),
        tuple(number),
    ), Sweeps(ranges)


def _subtasks(document: Document, given: dict[str, Any], way: Way) -> list[Task]:
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
        _task(document, {**like, "name": f"{name}.{j}"}, way, length)
        for j, length in enumerate(lengths.tolist(), 1)
    ]


def from_columns(document: Document, value: dict[str, Any]) -> Tasks:
    """Tasks as an object of columns: names, work, numbers of programs, and their names."""
    document.keys(value, COLUMNS, ("tasks",))
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
    more = _more(document, names, document.items(value.get("more", []), ("tasks", "more")))
    return Tasks(names, work, more, np.array(program, np.int32), tuple(programs))


def _more(document: Document, names: list[str], rows: list[Any]) -> dict[int, Task]:
    number = {name: i for i, name in enumerate(names)} if rows else {}
    found = {}
    for i, each in enumerate(rows):
        way = ("tasks", "more", i)
        document.keys(each, _KEYS[:-1], way)
        name = document.words(each.get("name"), (*way, "name"))
        if name not in number:
            hint = did_you_mean(name, number)
            document.wrong((*way, "name"), f"no task is named {name!r}", hint)
        work = document.number(each.get("work", 0.0), (*way, "work"))
        found[number[name]] = _task(document, each, way, work)
    return found


def _task(document: Document, given: dict[str, Any], way: Way, work: float) -> Task:
    for key in _TEXTS:
        document.words(given.get(key, ""), (*way, key))
    if given.get("kind", "job") not in {"job", "transfer"}:
        document.wrong((*way, "kind"), f"kind is {given['kind']!r}", "write 'job' or 'transfer'")
    times = document.items(given.get("times", []), (*way, "times"))
    return Task(
        given["name"],
        work,
        given.get("kind", "job"),
        given.get("machine", ""),
        given.get("target", ""),
        given.get("program", ""),
        given.get("tag", ""),
        document.whole(given.get("cores", 1), (*way, "cores")),
        document.number(given.get("memory", 0.0), (*way, "memory")),
        tuple(_seconds(document, each, (*way, "times", i)) for i, each in enumerate(times)),
        _curve(document, given.get("curve"), (*way, "curve")),
    )


def _seconds(document: Document, value: Any, way: Way) -> float:
    """A time on one machine; null, where it cannot run."""
    return float("inf") if value is None else document.number(value, way)


def _curve(document: Document, value: Any, way: Way) -> Curve | None:
    if value is None:
        return None
    document.keys(value, ("nodes", "seconds"), way)
    nodes = document.items(value.get("nodes"), (*way, "nodes"))
    seconds = document.items(value.get("seconds"), (*way, "seconds"))
    try:
        return Curve(
            tuple(document.whole(each, (*way, "nodes", i)) for i, each in enumerate(nodes)),
            tuple(document.number(each, (*way, "seconds", i)) for i, each in enumerate(seconds)),
        )
    except InputError as error:
        if error.diagnostics[0].place:
            raise
        document.wrong(way, str(error))


def row(task: Task) -> dict[str, Any]:
    """*task* as an object, without what is as it is commonly."""
    found: dict[str, Any] = {"name": task.name, "work": task.work}
    for key in ("kind", "machine", "target", "program", "tag", "cores", "memory"):
        if getattr(task, key) != getattr(_COMMON, key):
            found[key] = getattr(task, key)
    if task.times:
        found["times"] = [None if each == float("inf") else each for each in task.times]
    if task.curve:
        found["curve"] = {"nodes": list(task.curve.nodes), "seconds": list(task.curve.seconds)}
    return found


_COMMON = Task("")
