"""The Standard Task Graph format: a number of tasks, then each with its time and predecessors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np

from zenturio.errors import InputError
from zenturio.schedule.formats.document import MAX_TASKS, place_at
from zenturio.schedule.formats.wfformat import lost_of_tasks
from zenturio.schedule.model.workflow import Workflow, merge_parallel_edges


class _StgLines:
    """The lines that say something, and words for what is wrong on one."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text, self.offset = str(path), text, 0

    def __iter__(self) -> Iterator[list[str]]:
        ahead = 0
        for line in self.text.split("\n"):
            self.offset, ahead = ahead, ahead + len(line) + 1
            words = line.partition("#")[0].split()
            if words:
                yield words

    def wrong(self, message: str, hint: str = "") -> NoReturn:
        raise InputError(message, place=place_at(self.path, self.text, self.offset), hint=hint)


def read_stg(path: Path, text: str) -> Workflow:
    """The workflow, its dummy tasks at both ends (of no work) included."""
    lines = _StgLines(path, text)
    rows = iter(lines)
    count = _count(lines, next(rows, []))
    work: list[float] = []
    sources: list[int] = []
    targets: list[int] = []
    for words in rows:
        if len(work) >= count + 2:
            lines.wrong(f"more than {count} tasks and two dummies")
        before = _predecessors(lines, words, len(work), count + 2)
        work.append(_task_time(lines, words[1]))
        sources += before
        targets += [len(work) - 1] * len(before)
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


def _predecessors(lines: _StgLines, words: list[str], task: int, most: int) -> list[int]:
    """What *task* waits for, as its line says."""
    ends = [words[0], *words[2:]]
    if len(words) < 3 or not all(each.isdecimal() and len(each) < 10 for each in ends):
        lines.wrong("a task has a number, a time, a number of predecessors, and those")
    number, many, *before = (int(each) for each in ends)
    if number != task:
        lines.wrong(f"task {number} stands where {task} should")
    if many != len(before):
        lines.wrong(f"task {task} has {len(before)} predecessors, and says {many}")
    for each in before:
        if each >= most or each == task:
            lines.wrong(f"task {task} cannot wait for {each}")
    return before


def _task_time(lines: _StgLines, word: str) -> float:
    try:
        time = float(word)
    except ValueError:
        time = math.nan
    if not 0 <= time < math.inf:
        lines.wrong(f"{word!r:.60} is no time", "a number from 0 on")
    return time


def write_stg(flow: Workflow) -> Iterator[str]:
    """*flow* as an STG file, with dummies at both ends if it has none."""
    given = bool((flow.sources < flow.targets).all())
    order = range(len(flow)) if given else flow.order.tolist()
    waits = [len(flow.before.of(task)) for task in range(len(flow))]
    first, last = _dummy_tasks(flow)
    middle = [task for task in order if task not in {first, last}]
    number = {task: i for i, task in enumerate(middle, 1)}
    if first is not None:
        number[first] = 0
    if last is not None:
        number[last] = len(middle) + 1
    followed = set(flow.sources.tolist())
    yield f"{len(middle)}\n{0:11}{0:11}{0:11}\n"
    for task in middle:
        before = sorted(number[b] for b in flow.before.of(task).tolist()) if waits[task] else [0]
        yield _task_line(number[task], float(flow.work[task]), before)
    ends = (
        sorted(number[t] for t in middle if t not in followed)
        if last is None
        else sorted(number[b] for b in flow.before.of(last).tolist())
    )
    yield _task_line(len(middle) + 1, 0.0, ends)


def _dummy_tasks(flow: Workflow) -> tuple[int | None, int | None]:
    """The tasks of no work that stand before and after all others, if there are such."""
    entries = np.flatnonzero(np.bincount(flow.targets, minlength=len(flow)) == 0)
    exits = np.flatnonzero(np.bincount(flow.sources, minlength=len(flow)) == 0)
    first = int(entries[0]) if len(entries) == 1 and not flow.work[entries[0]] else None
    last = int(exits[0]) if len(exits) == 1 and not flow.work[exits[0]] else None
    return (None, None) if first is None or last is None or first == last else (first, last)


def _task_line(number: int, work: float, before: list[int]) -> str:
    time = str(int(work)) if work.is_integer() else repr(work)
    return f"{number:11} {time:>10} {len(before):10}" + "".join(f" {b:10}" for b in before) + "\n"


def stg_losses(flow: Workflow) -> Iterator[str]:
    moved = int(np.count_nonzero(flow.data))
    if moved:
        yield f"the bytes along {moved} of {len(flow.data)} edges"
    if tuple(flow.names) != tuple(map(str, range(len(flow)))):
        yield f"the names of {len(flow)} tasks"
    if any(flow.programs):
        yield "the programs of tasks"
    yield from lost_of_tasks(flow, ())
