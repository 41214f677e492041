"""The Standard Task Graph format: a task count, then each task with its time and predecessors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np

from zenturio.errors import InputError
from zenturio.schedule.formats.document import MAX_TASKS
from zenturio.schedule.formats.wfformat import lost_of_tasks
from zenturio.schedule.model.workflow import Workflow, merge_parallel_edges
from zenturio.settings.document import place_at


class _StgLines:
    """The lines that are not empty or comments, and errors at the current line."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text, self.offset = str(path), text, 0

    def __iter__(self) -> Iterator[list[str]]:
        next_offset = 0
        for line in self.text.split("\n"):
            self.offset, next_offset = next_offset, next_offset + len(line) + 1
            words = line.partition("#")[0].split()
            if words:
                yield words

    def wrong(self, message: str, hint: str = "") -> NoReturn:
        raise InputError(message, place=place_at(self.path, self.text, self.offset), hint=hint)


def read_stg(path: Path, text: str) -> Workflow:
    """Parse a workflow, including the dummy tasks (of no work) at both ends."""
    lines = _StgLines(path, text)
    rows = iter(lines)
    count = _count(lines, next(rows, []))
    work: list[float] = []
    sources: list[int] = []
    targets: list[int] = []
    for words in rows:
        if len(work) >= count + 2:
            lines.wrong(f"more than {count} tasks and two dummies")
        predecessors = _predecessors(lines, words, len(work), count + 2)
        work.append(_task_time(lines, words[1]))
        sources += predecessors
        targets += [len(work) - 1] * len(predecessors)
    if len(work) not in {count, count + 2}:
        lines.wrong(f"{len(work)} tasks of {count} and two dummies: the file ends too soon")
    if sources and max(sources) >= len(work):
        lines.wrong(f"a task waits for {max(sources)}, but the last is {len(work) - 1}")
    flow = Workflow(
        path.stem,
        tuple(map(str, range(len(work)))),
        np.array(work, np.float64),
        *merge_parallel_edges(
            np.array(sources, np.int32), np.array(targets, np.int32), np.zeros(len(sources))
        ),
    )
    flow.check()
    return flow


def _count(lines: _StgLines, words: list[str]) -> int:
    if len(words) != 1 or not words[0].isdecimal() or len(words[0]) > 9:
        lines.wrong("an STG file begins with the number of its tasks")
    if not 1 <= int(words[0]) <= MAX_TASKS:
        lines.wrong(f"{words[0]} tasks: from 1 to {MAX_TASKS:,} are read")
    return int(words[0])


def _predecessors(lines: _StgLines, words: list[str], task: int, limit: int) -> list[int]:
    """Return the predecessors of *task* that its line lists."""
    fields = [words[0], *words[2:]]
    if len(words) < 3 or not all(field.isdecimal() and len(field) < 10 for field in fields):
        lines.wrong("a task has a number, a time, a number of predecessors, and those")
    number, count, *predecessors = (int(field) for field in fields)
    if number != task:
        lines.wrong(f"expected task {task}, not {number}")
    if count != len(predecessors):
        lines.wrong(f"task {task} has {len(predecessors)} predecessors, and says {count}")
    for other in predecessors:
        if other >= limit or other == task:
            lines.wrong(f"task {task} cannot wait for {other}")
    return predecessors


def _task_time(lines: _StgLines, word: str) -> float:
    try:
        time = float(word)
    except ValueError:
        time = math.nan
    if not 0 <= time < math.inf:
        lines.wrong(f"{word!r:.60} is not a time", "write a number from 0 on")
    return time


def write_stg(flow: Workflow) -> Iterator[str]:
    """Yield *flow* as an STG file, adding dummy tasks at both ends if it has none."""
    # Tasks that are numbered in topological order keep their numbers.
    is_ordered = bool((flow.sources < flow.targets).all())
    order = range(len(flow)) if is_ordered else flow.order.tolist()
    waits = [len(flow.before.of(task)) for task in range(len(flow))]
    first, last = _dummy_tasks(flow)
    middle = [task for task in order if task not in {first, last}]
    number = {task: i for i, task in enumerate(middle, 1)}
    if first is not None:
        number[first] = 0
    if last is not None:
        number[last] = len(middle) + 1
    with_successors = set(flow.sources.tolist())
    yield f"{len(middle)}\n{0:11}{0:11}{0:11}\n"
    for task in middle:
        predecessors = (
            sorted(number[b] for b in flow.before.of(task).tolist()) if waits[task] else [0]
        )
        yield _task_line(number[task], float(flow.work[task]), predecessors)
    last_predecessors = (
        sorted(number[t] for t in middle if t not in with_successors)
        if last is None
        else sorted(number[b] for b in flow.before.of(last).tolist())
    )
    yield _task_line(len(middle) + 1, 0.0, last_predecessors)


def _dummy_tasks(flow: Workflow) -> tuple[int | None, int | None]:
    """Return the tasks of no work before and after all others, or None for both."""
    entries = np.flatnonzero(np.bincount(flow.targets, minlength=len(flow)) == 0)
    exits = np.flatnonzero(np.bincount(flow.sources, minlength=len(flow)) == 0)
    first = int(entries[0]) if len(entries) == 1 and not flow.work[entries[0]] else None
    last = int(exits[0]) if len(exits) == 1 and not flow.work[exits[0]] else None
    return (None, None) if first is None or last is None or first == last else (first, last)


def _task_line(number: int, work: float, before: list[int]) -> str:
    time = str(int(work)) if work.is_integer() else repr(work)
    return f"{number:11} {time:>10} {len(before):10}" + "".join(f" {b:10}" for b in before) + "\n"


def stg_losses(flow: Workflow) -> Iterator[str]:
    edges_with_data = int(np.count_nonzero(flow.data))
    if edges_with_data:
        yield f"the bytes along {edges_with_data} of {len(flow.data)} edges"
    if tuple(flow.names) != tuple(map(str, range(len(flow)))):
        yield f"the names of {len(flow)} tasks"
    if any(flow.programs):
        yield "the programs of tasks"
    yield from lost_of_tasks(flow, ())
