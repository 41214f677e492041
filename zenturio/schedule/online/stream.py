"""Workflows that arrive one after the other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zenturio.errors import InputError
from zenturio.schedule.formats.document import FormatDocument, file_exists, read_text, read_toml
from zenturio.schedule.formats.plan_json import plan_facts
from zenturio.schedule.generators.generator import instance_of
from zenturio.schedule.generators.papers import Gee, MaxDo, PipeAlign
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.platform import Platform, identical
from zenturio.schedule.model.problem import Instance, Problem
from zenturio.schedule.model.workflow import (
    Floats,
    Indices,
    Workflow,
    WorkflowTask,
    merge_transfers,
)
from zenturio.search.settings import pairs, setting, settings_of


@dataclass(frozen=True, eq=False)
class WorkflowSubmission:
    """A workflow, and when it is submitted; until then nobody knows of it."""

    workflow: Workflow
    arrival: float = 0.0
    name: str = ""

    def __post_init__(self) -> None:
        if not (isfinite(self.arrival) and self.arrival >= 0):
            raise InputError(
                f"workflow {self.name or self.workflow.name!r} arrives at {self.arrival}",
                hint="in seconds, 0 or more",
            )


@dataclass(frozen=True, eq=False)
class WorkflowStream:
    """Workflows in the order in which they arrive, each with a name of its own."""

    name: str
    submissions: tuple[WorkflowSubmission, ...]

    @classmethod
    def of(cls, name: str, submissions: Iterable[WorkflowSubmission]) -> WorkflowStream:
        """*submissions* by their arrival; those that share a name are numbered."""
        found = sorted(submissions, key=lambda each: each.arrival)
        if not found:
            raise InputError(f"stream {name!r} has no workflow")
        for each in found:
            if not len(each.workflow):
                raise InputError(f"workflow {each.workflow.name!r} has no task")
        labels = _distinct_names([each.name or each.workflow.name for each in found])
        return cls(
            name,
            tuple(replace(each, name=label) for each, label in zip(found, labels, strict=True)),
        )

    def __len__(self) -> int:
        return len(self.submissions)

    def __repr__(self) -> str:
        return f"<Stream {self.name}: {len(self)} workflows, {len(self.workflow)} tasks>"

    @cached_property
    def arrivals(self) -> Floats:
        return np.array([each.arrival for each in self.submissions], np.float64)

    @cached_property
    def first(self) -> Indices:
        """The tasks of workflow w are those from ``first[w]`` to before ``first[w + 1]``."""
        counts = [len(flow) for flow in self._flows]
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    @cached_property
    def owner(self) -> Indices:
        """The workflow of each task."""
        return np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.first))

    @cached_property
    def workflow(self) -> Workflow:
        """All of them as one; a task is named ``workflow/task``."""
        flows, shifts = self._flows, self.first.tolist()
        programs: dict[str, int] = {}
        columns = [_program_numbers(flow, programs) for flow in flows]
        names: list[str] = []
        more: dict[int, WorkflowTask] = {}
        for each, flow, shift in zip(self.submissions, flows, shifts, strict=False):
            names += [f"{each.name}/{name}" for name in flow.names]
            more |= {
                shift + i: replace(
                    task, name=names[shift + i], machine=_abstract_machine(each, task)
                )
                for i, task in flow.more.items()
            }
        pairs = list(zip(flows, shifts, strict=False))
        return Workflow(
            self.name,
            tuple(names),
            np.concatenate([flow.work for flow in flows]),
            np.concatenate([flow.sources + np.int32(shift) for flow, shift in pairs]),
            np.concatenate([flow.targets + np.int32(shift) for flow, shift in pairs]),
            np.concatenate([flow.data for flow in flows]),
            more,
            np.concatenate(columns),
            tuple(programs),
        )

    @cached_property
    def _flows(self) -> list[Workflow]:
        """The workflows as they are planned: transfers are bytes along edges."""
        known: dict[int, Workflow] = {}
        for each in self.submissions:
            if id(each.workflow) not in known:
                known[id(each.workflow)] = merge_transfers(each.workflow)
        return [known[id(each.workflow)] for each in self.submissions]


def _distinct_names(names: list[str]) -> list[str]:
    """Each of *names*, if no other is the same; else the first number that makes it so."""
    several = {name for name, count in Counter(names).items() if count > 1}
    taken, used = set(names), Counter[str]()
    found = []
    for name in names:
        label = name
        while name in several and label in taken:
            used[name] += 1
            label = f"{name}-{used[name]}"
        taken.add(label)
        found.append(label)
    return found


def _abstract_machine(each: WorkflowSubmission, task: WorkflowTask) -> str:
    """The abstract machine of *task*: no other workflow shares it."""
    return f"{each.name}/{task.machine}" if task.machine else ""


def _program_numbers(flow: Workflow, programs: dict[str, int]) -> Indices:
    """The program of each task by its number in *programs*, which grows."""
    names = flow.programs if flow.program is not None else ("",)
    numbers = [programs.setdefault(name, len(programs)) for name in names]
    given = np.zeros(len(flow), np.int32) if flow.program is None else flow.program
    return np.array(numbers, np.int32)[given]


@dataclass(frozen=True)
class Online51:
    """The experiment of the paper: 51 workflows, one every 12 s, and 51 more after 1200 s.

    10 are GEE, 25 MAXDo and 16 PipeAlign, in an order by chance; so each takes as much work.
    """

    spread: float = setting(0.0, "by which part durations differ", low=0, high=0.9)
    every: float = setting(12.0, "seconds between two workflows of a series", low=0)

    def stream(self, seed: int) -> WorkflowStream:
        chance = np.random.default_rng(seed)
        made = [kind(self.spread) for kind in (Gee, MaxDo, PipeAlign)]
        known = [each.instance(0).workflow for each in made]
        found = []
        for begin in (0.0, 1200.0):
            kinds = chance.permutation(np.repeat([0, 1, 2], [10, 25, 16]))
            seeds = chance.integers(2**31, size=len(kinds)).tolist()
            for i, kind in enumerate(kinds.tolist()):
                flow = known[kind] if self.spread == 0 else made[kind].instance(seeds[i]).workflow
                found.append(WorkflowSubmission(flow, begin + i * self.every))
        return WorkflowStream.of("online-51", found)


STREAMS: Mapping[str, Any] = {"online-51": Online51}
MAX_WORKFLOWS = 10**6
"""Workflows in a stream."""


def is_stream(words: Sequence[str]) -> bool:
    """Whether *words* tell a stream, and not one workflow."""
    word = words[0]
    return (
        len(words) > 1
        or (word.partition(":")[0] in STREAMS and not file_exists(Path(word)))
        or Path(word).suffix.lower() == ".toml"
        or _split_times(word)[0] != word
    )


def stream_of(words: Sequence[str], seed: int = 0) -> tuple[WorkflowStream, Platform | None]:
    """The stream that *words* tell, and the platform on which its workflows agree, if any.

    A file such as stream.toml, a generator of streams such as ``online-51``, or workflows:
    ``gee@0 maxdo:spread=0.1@10 montage.json@0:600:12``.
    """
    if len(words) == 1:
        name, _, rest = words[0].partition(":")
        if name in STREAMS and not file_exists(Path(words[0])):
            return _generated_stream(name, rest, seed)
        if Path(words[0]).suffix.lower() == ".toml":
            return _read_stream_file(Path(words[0]), seed)
    found: list[tuple[Instance, WorkflowSubmission]] = []
    for word in words:
        workflow, times = _split_times(word)
        instance = instance_of(workflow, seed=seed)
        found += [(instance, WorkflowSubmission(instance.workflow, time)) for time in times]
    return _stream_and_platform("stream", found)


def times_of(text: str) -> Iterator[float]:
    """``12``, or ``0:600:12``: from 0 to 600, every 12 seconds."""
    try:
        numbers = [float(each) for each in text.split(":")]
    except ValueError:
        numbers = []
    if len(numbers) == 1 and math.isfinite(numbers[0]):
        yield numbers[0]
        return
    if len(numbers) != 3 or not all(map(math.isfinite, numbers)) or numbers[2] <= 0:
        raise InputError(f"{text!r} is no time", hint="@12, or @FIRST:LAST:EVERY as in @0:600:12")
    first, last, every = numbers
    count = math.floor((last - first) / every + 1e-9) + 1
    if not 1 <= count <= MAX_WORKFLOWS:
        raise InputError(
            f"{text!r} are {max(count, 0):,} times", hint=f"from 1 to {MAX_WORKFLOWS:,}"
        )
    for i in range(count):
        yield first + i * every


def _generated_stream(name: str, rest: str, seed: int) -> tuple[WorkflowStream, Platform]:
    given = pairs(rest.split(",") if rest else [])
    text = given.pop("seed", str(seed))
    if not text.isdecimal() or len(text) > 18:
        raise InputError(f"seed={text} is not possible", hint="write a whole number from 0 on")
    kind = STREAMS[name]
    stream: WorkflowStream = settings_of(kind, given, name).stream(int(text))
    return stream, identical(4)


def _split_times(word: str) -> tuple[str, list[float]]:
    """A workflow and its times: time 0, if it tells none."""
    workflow, sign, times = word.rpartition("@")
    if not sign or file_exists(Path(word)):
        return word, [0.0]
    return workflow, list(times_of(times))


def _read_stream_file(path: Path, seed: int) -> tuple[WorkflowStream, Platform | None]:
    """What a file says: for each ``[[submit]]`` a workflow, and ``at`` which times."""
    document = read_toml(path, read_text(path))
    document.keys(document.value, ("name", "submit"), ())
    name = document.words(document.value.get("name", path.stem), ("name",))
    found: list[tuple[Instance, WorkflowSubmission]] = []
    for i, each in enumerate(document.items(document.value.get("submit", []), ("submit",))):
        way = ("submit", i)
        document.keys(each, ("workflow", "at", "name"), way)
        if "workflow" not in each:
            document.wrong(way, "a [[submit]] without a workflow", 'workflow = "montage.json"')
        text = document.words(each["workflow"], (*way, "workflow"))
        label = document.words(each.get("name", ""), (*way, "name"))
        beside = path.parent / text
        try:
            instance = instance_of(str(beside) if file_exists(beside) else text, seed=seed)
        except InputError as error:
            if error.diagnostics[0].place:
                raise
            diagnostic = error.diagnostics[0]
            document.wrong((*way, "workflow"), diagnostic.message, diagnostic.hint)
        times = _read_times(document, each.get("at", 0), (*way, "at"))
        found += [(instance, WorkflowSubmission(instance.workflow, time, label)) for time in times]
    if not found:
        document.wrong((), f"{path} submits no workflow", '[[submit]]\nworkflow = "montage.json"')
    return _stream_and_platform(name, found)


def _read_times(document: FormatDocument, value: Any, way: tuple[str | int, ...]) -> list[float]:
    """One time, several, or ``"0:600:12"``."""
    if isinstance(value, list):
        return [document.number(each, (*way, i)) for i, each in enumerate(value)]
    if isinstance(value, str) and ":" in value:
        try:
            return list(times_of(value))
        except InputError as error:
            diagnostic = error.diagnostics[0]
            document.wrong(way, diagnostic.message, diagnostic.hint)
    return [document.number(value, way)]


def _stream_and_platform(
    name: str, found: list[tuple[Instance, WorkflowSubmission]]
) -> tuple[WorkflowStream, Platform | None]:
    if len(found) > MAX_WORKFLOWS:
        raise InputError(f"{len(found):,} workflows: more than {MAX_WORKFLOWS:,} are not played")
    known = {id(each.platform): each.platform for each, _ in found if each.platform}
    platforms = list(known.values())
    agreed = platforms and all(each.machines == platforms[0].machines for each in platforms)
    return WorkflowStream.of(name, [each for _, each in found]), platforms[0] if agreed else None


def slowdowns(arrived: ArrayLike, ended: ArrayLike, alone: ArrayLike) -> Floats:
    """For each workflow, its time from arrival to end by its makespan if it were alone."""
    came, went, least = (np.asarray(each, np.float64) for each in (arrived, ended, alone))
    if not came.shape == went.shape == least.shape:
        raise InputError("slowdown: an arrival, an end and a makespan for each workflow")
    if not ((least > 0).all() and (went >= came).all()):
        raise InputError(
            "slowdown: a workflow ends after it arrives, and takes time if it is alone"
        )
    found: Floats = (went - came) / least
    return found


def slowdown_quartiles(values: ArrayLike) -> dict[str, float]:
    """The slowdowns *values* as the numbers of a box plot."""
    found = _finite_numbers(values)
    names = ("slowdown_min", "slowdown_q1", "slowdown_median", "slowdown_q3", "slowdown_max")
    quartiles = np.quantile(found, (0, 0.25, 0.5, 0.75, 1)).tolist()
    return {"slowdown_mean": float(found.mean()), **dict(zip(names, quartiles, strict=True))}


def fairness_metrics(values: ArrayLike) -> dict[str, float]:
    """How far the slowdowns *values* lie apart: in four ways, 0 where all suffer the same."""
    found = _finite_numbers(values)
    low, high = np.quantile(found, (0.25, 0.75))
    return {
        "fairness_range": float(np.ptp(found)),
        "fairness_interquartile": float(high - low),
        "fairness_average": float(np.abs(found - found.mean()).mean()),
        "fairness_std": float(found.std()),
    }


def ase(makespans: ArrayLike, shuffled: ArrayLike) -> float:
    """Average scheduling effectiveness: percent of the makespan of shuffle, over many workflows.

    The lower the better; the reciprocal of a speedup.
    """
    found, base = _finite_numbers(makespans), _finite_numbers(shuffled)
    if found.shape != base.shape or not (base > 0).all():
        raise InputError("ASE: a makespan for each one, above 0, of shuffle")
    return float((found / base).mean() * 100)


def bdt(makespans: Mapping[str, Sequence[float]]) -> dict[str, int]:
    """Beat-down time: for how many workflows each algorithm had the best makespan.

    Algorithms that share the best one have all beaten the rest down.
    """
    rows = [_finite_numbers(each) for each in makespans.values()]
    if len({len(row) for row in rows}) != 1:
        raise InputError("BDT: each algorithm has a makespan for each workflow")
    table = np.array(rows)
    wins = (table == table.min(axis=0)).sum(axis=1).tolist()
    return dict(zip(makespans, wins, strict=True))


def _finite_numbers(values: ArrayLike) -> Floats:
    found = np.asarray(values, np.float64)
    if found.ndim != 1 or not len(found) or not np.isfinite(found).all():
        raise InputError("one number at least, and all of them finite")
    return found


CountSeries = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StreamResult:
    """The workflows of *stream*, carried out as *plan* has it; NaN where tasks did not end."""

    stream: WorkflowStream
    plan: Plan
    alone: Floats
    """Seconds that each workflow would have taken if there were no other."""
    wasted: float = 0.0
    """Seconds of processors in runs that came to nothing."""

    @cached_property
    def ended(self) -> Floats:
        """When the last task of each workflow ended; NaN, if one of them did not."""
        return np.maximum.reduceat(self.plan.end, self.stream.first[:-1])

    @cached_property
    def left(self) -> list[str]:
        """The workflows that did not end."""
        pairs = zip(self.stream.submissions, self.ended, strict=True)
        return [each.name for each, end in pairs if np.isnan(end)]

    @property
    def makespan(self) -> float:
        """From time 0 to the end of all; infinite, if one did not."""
        return float("inf") if self.left else float(self.ended.max())

    @property
    def makespans(self) -> Floats:
        """From the arrival of each workflow to its end."""
        return self.ended - self.stream.arrivals

    @property
    def slowdowns(self) -> Floats:
        """The makespans of the workflows that ended, by what they would have been alone."""
        there = np.isfinite(self.ended)
        arrivals = self.stream.arrivals[there]
        return slowdowns(arrivals, self.ended[there], self.alone[there])

    @cached_property
    def lower_bound(self) -> float:
        """No policy makes an end of all earlier."""
        return stream_lower_bound(self.stream, self.plan.problem)

    @property
    def metrics(self) -> dict[str, float]:
        """All figures of the whole; none, unless all workflows ended."""
        if self.left:
            return {}
        found = self.slowdowns
        return {
            "makespan": self.makespan,
            "lower_bound": self.lower_bound,
            "excess": self.makespan / self.lower_bound - 1,
            "makespan_mean": float(self.makespans.mean()),
            **slowdown_quartiles(found),
            **fairness_metrics(found),
        }

    def workflows(self) -> tuple[Floats, CountSeries]:
        """How many workflows were there, from each time on at which that changed."""
        return _counts_over_time(self.stream.arrivals, self.ended)

    def ready(self) -> tuple[Floats, CountSeries]:
        """How many tasks waited for nothing but a processor and their data, from each time on."""
        flow = self.plan.problem.workflow
        since = self.stream.arrivals[self.stream.owner]
        with np.errstate(invalid="ignore"):  # NaN, where a task waits for one that did not end
            np.maximum.at(since, flow.targets, self.plan.end[flow.sources])
        return _counts_over_time(since, self.plan.start)

    def rows(self) -> Iterator[dict[str, Any]]:
        """What became of each workflow."""
        columns = (self.ended.tolist(), self.makespans.tolist(), self.alone.tolist())
        for each, end, makespan, alone in zip(self.stream.submissions, *columns, strict=True):
            known = (
                {"end": end, "makespan": makespan, "alone": alone, "slowdown": makespan / alone}
                if end == end  # noqa: PLR0124 - not NaN
                else {"end": None, "makespan": None, "alone": alone, "slowdown": None}
            )
            yield {
                "name": each.name,
                "workflow": each.workflow.name,
                "arrival": each.arrival,
                **known,
            }

    def facts(self) -> dict[str, Any]:
        """All that is known, as JSON has it."""
        whole = {} if self.left else plan_facts(self.plan)
        counts = {"workflows": self.workflows(), "ready": self.ready()}
        return {
            "algorithm": self.plan.algorithm,
            **whole,
            "makespan": None if self.left else self.makespan,
            "metrics": self.metrics,
            "wasted": self.wasted,
            "left": self.left,
            "workflows": list(self.rows()),
            "counts": {
                name: {"time": times.tolist(), "count": each.tolist()}
                for name, (times, each) in counts.items()
            },
        }


def stream_lower_bound(stream: WorkflowStream, problem: Problem) -> float:
    """A makespan that cannot be beaten: tasks as if they could be cut at will, or one workflow.

    What arrives from some time on cannot end before all machines together have done it; nor can a
    workflow before its longest way is through. Where machines differ in what they are good at,
    each counts by its mean speed; that is still a bound, for every task is taken at its best.
    """
    fits = np.isfinite(problem.pace)
    mean = np.where(fits, problem.pace, 0.0).sum(axis=0) / np.maximum(fits.sum(axis=0), 1)
    speed = np.divide(1.0, mean, out=np.zeros_like(mean), where=mean > 0)
    share = np.where(fits, problem.pace * (speed / speed.sum()), np.inf)
    least = problem.work * share.min(axis=1)[problem.row]
    load = np.bincount(stream.owner, least, len(stream))
    after = np.cumsum(load[::-1])[::-1]
    return float(max((stream.arrivals + after).max(), _latest_path_end(stream, problem)))


def _latest_path_end(stream: WorkflowStream, problem: Problem) -> float:
    """When the last workflow would end, each task on the machine where it is fastest."""
    from zenturio.schedule.static.list_scheduling import upward_ranks  # noqa: PLC0415 - loads Numba

    times = problem.work * problem.pace.min(axis=1)[problem.row]
    ways = upward_ranks(problem, times, np.zeros(len(problem.workflow.data)))
    return float((stream.arrivals[stream.owner] + ways).max())


def _counts_over_time(come: Floats, go: Floats) -> tuple[Floats, CountSeries]:
    """The times at which a number changes that grows with *come* and shrinks with *go*."""
    go = go[np.isfinite(go)]
    come = come[np.isfinite(come)]
    times, index = np.unique(np.concatenate([come, go]), return_inverse=True)
    change = np.repeat([1, -1], [len(come), len(go)])
    counts = np.cumsum(np.bincount(index, change, len(times)).astype(np.int64))
    kept = np.append(True, np.diff(counts) != 0)
    return times[kept], counts[kept]
