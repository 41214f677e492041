"""Streams: workflows that arrive one after the other, how to name them, and what became of them.

Slowdown and fairness are those of section 6 of Bolze, Desprez and Isnard, "Evaluation of Online
Multi-Workflow Heuristics based on List-Scheduling Algorithms"; ASE and BDT those of section IV-A of
Ma and Buyya (SBAC-PAD 2005).
"""

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
from zenturio.schedule.formats.document import FormatDocument, file_exists
from zenturio.schedule.formats.plan_json import plan_facts
from zenturio.schedule.generators.generator import instance_of
from zenturio.schedule.generators.papers import Gee, MaxDo, PipeAlign
from zenturio.schedule.model.loops import LoopIterations, unrolled
from zenturio.schedule.model.lower_bounds import critical_bound
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
from zenturio.settings.document import read_text
from zenturio.settings.schema import pairs, setting, settings_of


@dataclass(frozen=True, eq=False)
class WorkflowSubmission:
    """A workflow and its arrival, in seconds; schedulers learn of it when it arrives."""

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
    """Workflows in order of arrival, each with a unique name."""

    name: str
    submissions: tuple[WorkflowSubmission, ...]

    @classmethod
    def of(
        cls,
        name: str,
        submissions: Iterable[WorkflowSubmission],
        repeats: LoopIterations | None = None,
    ) -> WorkflowStream:
        """Return the stream of *submissions*, sorted by arrival; equal names get numbers.

        Iterations of loops are written out, as many as *repeats* decides. Raise InputError if there
        is no workflow, or one without tasks.
        """
        ordered = sorted(submissions, key=lambda submission: submission.arrival)
        flows = {id(submission.workflow): submission.workflow for submission in ordered}
        acyclic = {key: unrolled(flow, repeats or LoopIterations()) for key, flow in flows.items()}
        ordered = [replace(item, workflow=acyclic[id(item.workflow)]) for item in ordered]
        if not ordered:
            raise InputError(f"stream {name!r} has no workflow")
        for submission in ordered:
            if not len(submission.workflow):
                raise InputError(f"workflow {submission.workflow.name!r} has no task")
        labels = _distinct_names(
            [submission.name or submission.workflow.name for submission in ordered]
        )
        return cls(
            name,
            tuple(
                replace(submission, name=label)
                for submission, label in zip(ordered, labels, strict=True)
            ),
        )

    def __len__(self) -> int:
        return len(self.submissions)

    def __repr__(self) -> str:
        return f"<Stream {self.name}: {len(self)} workflows, {len(self.workflow)} tasks>"

    @cached_property
    def arrivals(self) -> Floats:
        return np.array([submission.arrival for submission in self.submissions], np.float64)

    @cached_property
    def first(self) -> Indices:
        """The tasks of workflow w are those from ``first[w]`` up to ``first[w + 1]``."""
        counts = [len(flow) for flow in self._flows]
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    @cached_property
    def owner(self) -> Indices:
        """The workflow of each task."""
        return np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.first))

    @cached_property
    def workflow(self) -> Workflow:
        """All workflows as one; its tasks are named ``workflow/task``."""
        flows, offsets = self._flows, self.first.tolist()
        programs: dict[str, int] = {}
        columns = [_program_numbers(flow, programs) for flow in flows]
        names: list[str] = []
        more: dict[int, WorkflowTask] = {}
        for submission, flow, offset in zip(self.submissions, flows, offsets, strict=False):
            names += [f"{submission.name}/{name}" for name in flow.names]
            more |= {
                offset + i: replace(
                    task,
                    name=names[offset + i],
                    machine=_abstract_machine(submission, task),
                    when=tuple((f"{submission.name}/{name}", codes) for name, codes in task.when),
                )
                for i, task in flow.more.items()
            }
        pairs = list(zip(flows, offsets, strict=False))
        return Workflow(
            self.name,
            tuple(names),
            np.concatenate([flow.work for flow in flows]),
            np.concatenate([flow.sources + np.int32(offset) for flow, offset in pairs]),
            np.concatenate([flow.targets + np.int32(offset) for flow, offset in pairs]),
            np.concatenate([flow.data for flow in flows]),
            more,
            np.concatenate(columns),
            tuple(programs),
        )

    @cached_property
    def _flows(self) -> list[Workflow]:
        """The workflows as they are planned, with transfers as bytes along edges."""
        merged: dict[int, Workflow] = {}
        for submission in self.submissions:
            if id(submission.workflow) not in merged:
                merged[id(submission.workflow)] = merge_transfers(submission.workflow)
        return [merged[id(submission.workflow)] for submission in self.submissions]


def _distinct_names(names: list[str]) -> list[str]:
    """Return *names* with numbers appended to those that occur several times."""
    repeated = {name for name, count in Counter(names).items() if count > 1}
    in_use, counters = set(names), Counter[str]()
    labels = []
    for name in names:
        label = name
        while name in repeated and label in in_use:
            counters[name] += 1
            label = f"{name}-{counters[name]}"
        in_use.add(label)
        labels.append(label)
    return labels


def _abstract_machine(submission: WorkflowSubmission, task: WorkflowTask) -> str:
    """Return a name for the task's abstract machine that no other workflow shares."""
    return f"{submission.name}/{task.machine}" if task.machine else ""


def _program_numbers(flow: Workflow, programs: dict[str, int]) -> Indices:
    """Return the program of each task by its number in *programs*, which grows as needed."""
    names = flow.programs if flow.program is not None else ("",)
    numbers = [programs.setdefault(name, len(programs)) for name in names]
    local = np.zeros(len(flow), np.int32) if flow.program is None else flow.program
    return np.array(numbers, np.int32)[local]


@dataclass(frozen=True)
class BioinformaticsStream:
    """The experiment of the paper: 51 workflows, one every 12 s, and 51 more after 1200 s.

    10 are GEE, 25 MAXDo and 16 PipeAlign in random order, so that each kind has about the same
    work.
    """

    spread: float = setting(0.0, "relative spread of durations", low=0, high=0.9)
    every: float = setting(12.0, "seconds between two workflows of a series", low=0)

    def stream(self, seed: int) -> WorkflowStream:
        rng = np.random.default_rng(seed)
        generators = [kind(self.spread) for kind in (Gee, MaxDo, PipeAlign)]
        workflows = [generator.instance(0).workflow for generator in generators]
        submissions = []
        for begin in (0.0, 1200.0):
            kinds = rng.permutation(np.repeat([0, 1, 2], [10, 25, 16]))
            seeds = rng.integers(2**31, size=len(kinds)).tolist()
            for i, kind in enumerate(kinds.tolist()):
                flow = (
                    workflows[kind]
                    if self.spread == 0
                    else generators[kind].instance(seeds[i]).workflow
                )
                submissions.append(WorkflowSubmission(flow, begin + i * self.every))
        return WorkflowStream.of("online-51", submissions)


STREAMS: Mapping[str, Any] = {"online-51": BioinformaticsStream}
MAX_WORKFLOWS = 10**6
"""Limit of workflows in a stream."""


def is_stream(words: Sequence[str]) -> bool:
    """Return whether *words* name a stream, not a single workflow."""
    word = words[0]
    return (
        len(words) > 1
        or (word.partition(":")[0] in STREAMS and not file_exists(Path(word)))
        or Path(word).suffix.lower() == ".toml"
        or _split_times(word)[0] != word
    )


def stream_of(
    words: Sequence[str], seed: int = 0, iterations: str = ""
) -> tuple[WorkflowStream, Platform | None]:
    """Return the stream that *words* name, and the platform that its workflows agree on, or None.

    Iterations of loops are drawn with *seed*, or as many as *iterations* says.

    *words* are a file such as stream.toml, a stream generator such as ``online-51``, or workflows
    with arrival times: ``gee@0 maxdo:spread=0.1@10 montage.json@0:600:12``.
    """
    repeats = LoopIterations.read(iterations, seed)
    if len(words) == 1:
        name, _, settings_text = words[0].partition(":")
        if name in STREAMS and not file_exists(Path(words[0])):
            return _generated_stream(name, settings_text, seed)
        if Path(words[0]).suffix.lower() == ".toml":
            return _read_stream_file(Path(words[0]), seed, repeats)
    arrivals: list[tuple[Instance, WorkflowSubmission]] = []
    for word in words:
        workflow, times = _split_times(word)
        instance = instance_of(workflow, seed=seed)
        arrivals += [(instance, WorkflowSubmission(instance.workflow, time)) for time in times]
    return _stream_and_platform("stream", arrivals, repeats)


def times_of(text: str) -> Iterator[float]:
    """Yield the times of ``12``, or of ``0:600:12``: from 0 to 600 s, every 12 s."""
    try:
        numbers = [float(part) for part in text.split(":")]
    except ValueError:
        numbers = []
    if len(numbers) == 1 and math.isfinite(numbers[0]):
        yield numbers[0]
        return
    if len(numbers) != 3 or not all(map(math.isfinite, numbers)) or numbers[2] <= 0:
        raise InputError(
            f"{text!r} is not a time", hint="@12, or @FIRST:LAST:EVERY as in @0:600:12"
        )
    first, last, every = numbers
    count = math.floor((last - first) / every + 1e-9) + 1
    if not 1 <= count <= MAX_WORKFLOWS:
        raise InputError(
            f"{text!r} are {max(count, 0):,} times", hint=f"from 1 to {MAX_WORKFLOWS:,}"
        )
    for i in range(count):
        yield first + i * every


def _generated_stream(name: str, settings_text: str, seed: int) -> tuple[WorkflowStream, Platform]:
    settings = pairs(settings_text.split(",") if settings_text else [])
    text = settings.pop("seed", str(seed))
    if not text.isdecimal() or len(text) > 18:
        raise InputError(f"seed={text} is not a valid seed", hint="write a whole number from 0 on")
    kind = STREAMS[name]
    stream: WorkflowStream = settings_of(kind, settings, name).stream(int(text))
    return stream, identical(4)


def _split_times(word: str) -> tuple[str, list[float]]:
    """Return a workflow's name and its arrival times; time 0 if it has none."""
    workflow, sign, times = word.rpartition("@")
    if not sign or file_exists(Path(word)):
        return word, [0.0]
    return workflow, list(times_of(times))


def _read_stream_file(
    path: Path, seed: int, repeats: LoopIterations
) -> tuple[WorkflowStream, Platform | None]:
    """Read a file in which each ``[[submit]]`` has a workflow and ``at`` its times."""
    document = FormatDocument.from_toml(path, read_text(path))
    document.keys(document.value, ("name", "submit"), ())
    name = document.words(document.value.get("name", path.stem), ("name",))
    arrivals: list[tuple[Instance, WorkflowSubmission]] = []
    for i, row in enumerate(document.items(document.value.get("submit", []), ("submit",))):
        row_path = ("submit", i)
        document.keys(row, ("workflow", "at", "name"), row_path)
        if "workflow" not in row:
            document.wrong(row_path, "a [[submit]] without a workflow", 'workflow = "montage.json"')
        text = document.words(row["workflow"], (*row_path, "workflow"))
        label = document.words(row.get("name", ""), (*row_path, "name"))
        sibling = path.parent / text
        try:
            instance = instance_of(str(sibling) if file_exists(sibling) else text, seed=seed)
        except InputError as error:
            if error.diagnostics[0].place:
                raise
            diagnostic = error.diagnostics[0]
            document.wrong((*row_path, "workflow"), diagnostic.message, diagnostic.hint)
        times = _read_times(document, row.get("at", 0), (*row_path, "at"))
        arrivals += [
            (instance, WorkflowSubmission(instance.workflow, time, label)) for time in times
        ]
    if not arrivals:
        document.wrong((), f"{path} submits no workflow", '[[submit]]\nworkflow = "montage.json"')
    return _stream_and_platform(name, arrivals, repeats)


def _read_times(document: FormatDocument, value: Any, path: tuple[str | int, ...]) -> list[float]:
    """Return one time, a list of times, or those of ``"0:600:12"``."""
    if isinstance(value, list):
        return [document.number(item, (*path, i)) for i, item in enumerate(value)]
    if isinstance(value, str) and ":" in value:
        try:
            return list(times_of(value))
        except InputError as error:
            diagnostic = error.diagnostics[0]
            document.wrong(path, diagnostic.message, diagnostic.hint)
    return [document.number(value, path)]


def _stream_and_platform(
    name: str, arrivals: list[tuple[Instance, WorkflowSubmission]], repeats: LoopIterations
) -> tuple[WorkflowStream, Platform | None]:
    if len(arrivals) > MAX_WORKFLOWS:
        raise InputError(f"{len(arrivals):,} workflows: at most {MAX_WORKFLOWS:,} can be simulated")
    platforms_by_id = {
        id(instance.platform): instance.platform for instance, _ in arrivals if instance.platform
    }
    platforms = list(platforms_by_id.values())
    is_common = platforms and all(
        instance.machines == platforms[0].machines for instance in platforms
    )
    return WorkflowStream.of(name, [instance for _, instance in arrivals], repeats), platforms[
        0
    ] if is_common else None


def slowdowns(arrival: ArrayLike, end: ArrayLike, alone: ArrayLike) -> Floats:
    """Return for each workflow its time from arrival to end, divided by its makespan alone."""
    arrivals, ends, makespans = (np.asarray(values, np.float64) for values in (arrival, end, alone))
    if not arrivals.shape == ends.shape == makespans.shape:
        raise InputError("slowdown: an arrival, an end and a makespan for each workflow")
    if not ((makespans > 0).all() and (ends >= arrivals).all()):
        raise InputError(
            "slowdown: a workflow ends after it arrives, and takes time if it is alone"
        )
    result: Floats = (ends - arrivals) / makespans
    return result


def slowdown_quartiles(values: ArrayLike) -> dict[str, float]:
    """Return mean and quartiles of the slowdowns *values*, by metric name."""
    numbers = _finite_numbers(values)
    names = ("slowdown_min", "slowdown_q1", "slowdown_median", "slowdown_q3", "slowdown_max")
    quartiles = np.quantile(numbers, (0, 0.25, 0.5, 0.75, 1)).tolist()
    return {"slowdown_mean": float(numbers.mean()), **dict(zip(names, quartiles, strict=True))}


def fairness_metrics(values: ArrayLike) -> dict[str, float]:
    """Return four measures of the spread of the slowdowns *values*; 0 if all are equal."""
    numbers = _finite_numbers(values)
    low, high = np.quantile(numbers, (0.25, 0.75))
    return {
        "fairness_range": float(np.ptp(numbers)),
        "fairness_interquartile": float(high - low),
        "fairness_average": float(np.abs(numbers - numbers.mean()).mean()),
        "fairness_std": float(numbers.std()),
    }


def ase(makespans: ArrayLike, shuffled: ArrayLike) -> float:
    """Return the average scheduling effectiveness: mean makespan in percent of that of shuffle.

    Lower is better; it is the reciprocal of a speedup.
    """
    numbers, base = _finite_numbers(makespans), _finite_numbers(shuffled)
    if numbers.shape != base.shape or not (base > 0).all():
        raise InputError("ASE: a makespan for each one, above 0, of shuffle")
    return float((numbers / base).mean() * 100)


def bdt(makespans: Mapping[str, Sequence[float]]) -> dict[str, int]:
    """Return the beat-down times: for how many workflows each algorithm had the best makespan.

    Algorithms that tie for the best makespan all count.
    """
    rows = [_finite_numbers(values) for values in makespans.values()]
    if len({len(row) for row in rows}) != 1:
        raise InputError("BDT: each algorithm has a makespan for each workflow")
    table = np.array(rows)
    wins = (table == table.min(axis=0)).sum(axis=1).tolist()
    return dict(zip(makespans, wins, strict=True))


def _finite_numbers(values: ArrayLike) -> Floats:
    numbers = np.asarray(values, np.float64)
    if numbers.ndim != 1 or not len(numbers) or not np.isfinite(numbers).all():
        raise InputError("one number at least, and all of them finite")
    return numbers


CountSeries = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StreamResult:
    """The workflows of *stream*, executed as *plan* says; NaN where tasks did not finish."""

    stream: WorkflowStream
    plan: Plan
    alone: Floats
    """Seconds that each workflow would take if it had all machines for itself."""
    wasted: float = 0.0
    """Processor seconds of runs that were lost or cancelled."""

    @cached_property
    def ended(self) -> Floats:
        """When the last task of each workflow ended; NaN if one did not finish."""
        return np.maximum.reduceat(self.plan.end, self.stream.first[:-1])

    @cached_property
    def left(self) -> list[str]:
        """The names of the workflows that did not finish."""
        pairs = zip(self.stream.submissions, self.ended, strict=True)
        return [submission.name for submission, end in pairs if np.isnan(end)]

    @property
    def makespan(self) -> float:
        """From time 0 to the end of the last workflow; infinite if one did not finish."""
        return float("inf") if self.left else float(self.ended.max())

    @property
    def makespans(self) -> Floats:
        """From the arrival of each workflow to its end."""
        return self.ended - self.stream.arrivals

    @property
    def slowdowns(self) -> Floats:
        """The slowdown of each workflow that finished."""
        finished = np.isfinite(self.ended)
        arrivals = self.stream.arrivals[finished]
        return slowdowns(arrivals, self.ended[finished], self.alone[finished])

    @cached_property
    def lower_bound(self) -> float:
        """A lower bound of the makespan under any policy."""
        return stream_lower_bound(self.stream, self.plan.problem)

    @property
    def metrics(self) -> dict[str, float]:
        """All metrics of the stream; empty unless all workflows finished."""
        if self.left:
            return {}
        values = self.slowdowns
        return {
            "makespan": self.makespan,
            "lower_bound": self.lower_bound,
            "excess": self.makespan / self.lower_bound - 1,
            "makespan_mean": float(self.makespans.mean()),
            **slowdown_quartiles(values),
            **fairness_metrics(values),
        }

    def workflows(self) -> tuple[Floats, CountSeries]:
        """Return the times at which the number of workflows changed, and the numbers."""
        return _counts_over_time(self.stream.arrivals, self.ended)

    def ready(self) -> tuple[Floats, CountSeries]:
        """Return the times at which the number of ready tasks changed, and the numbers."""
        flow = self.plan.problem.workflow
        ready_since = self.stream.arrivals[self.stream.owner]
        with np.errstate(invalid="ignore"):  # NaN, where a task waits for one that did not end
            np.maximum.at(ready_since, flow.targets, self.plan.end[flow.sources])
        return _counts_over_time(ready_since, self.plan.start)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield facts of each workflow: arrival, end, makespan, slowdown."""
        columns = (self.ended.tolist(), self.makespans.tolist(), self.alone.tolist())
        for submission, end, makespan, alone in zip(self.stream.submissions, *columns, strict=True):
            times = (
                {"end": end, "makespan": makespan, "alone": alone, "slowdown": makespan / alone}
                if end == end  # noqa: PLR0124 - not NaN
                else {"end": None, "makespan": None, "alone": alone, "slowdown": None}
            )
            yield {
                "name": submission.name,
                "workflow": submission.workflow.name,
                "arrival": submission.arrival,
                **times,
            }

    def facts(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        base = {} if self.left else plan_facts(self.plan)
        counts = {"workflows": self.workflows(), "ready": self.ready()}
        return {
            "algorithm": self.plan.algorithm,
            **base,
            "makespan": None if self.left else self.makespan,
            "metrics": self.metrics,
            "wasted": self.wasted,
            "left": self.left,
            "workflows": list(self.rows()),
            "counts": {
                name: {"time": times.tolist(), "count": series.tolist()}
                for name, (times, series) in counts.items()
            },
        }


def stream_lower_bound(stream: WorkflowStream, problem: Problem) -> float:
    """Return a lower bound of the makespan under any policy.

    The work that arrives from some time on cannot end before all machines together have done it,
    and a workflow cannot end before its longest path, with transfers between what cannot share a
    machine. If machines differ, each counts with its mean
    speed, and every task is taken at its best, so the bound remains valid.
    """
    fits = np.isfinite(problem.pace)
    mean = np.where(fits, problem.pace, 0.0).sum(axis=0) / np.maximum(fits.sum(axis=0), 1)
    speed = np.divide(1.0, mean, out=np.zeros_like(mean), where=mean > 0)
    # Splitting a task over all machines in proportion to their speeds is the best case.
    share = np.where(fits, problem.pace * (speed / speed.sum()), np.inf)
    fastest = problem.work * share.min(axis=1)[problem.row]
    load = np.bincount(stream.owner, fastest, len(stream))
    # Work that arrives later is summed from the last arrival backwards.
    arriving_later = np.cumsum(load[::-1])[::-1]
    return float(max((stream.arrivals + arriving_later).max(), _latest_path_end(stream, problem)))


def _latest_path_end(stream: WorkflowStream, problem: Problem) -> float:
    """Return when the last workflow would end, each task on its fastest machine.

    What does not share a machine waits for its data.
    """
    from zenturio.schedule.static.list_scheduling import upward_ranks  # noqa: PLC0415 - loads Numba

    arrivals = stream.arrivals[stream.owner]
    if problem.latency.any() or (problem.slowness.any() and problem.workflow.data.any()):
        return critical_bound(problem, arrivals)
    times = problem.work * problem.pace.min(axis=1)[problem.row]
    path_lengths = upward_ranks(problem, times, np.zeros(len(problem.workflow.data)))
    return float((arrivals + path_lengths).max())


def _counts_over_time(rises: Floats, falls: Floats) -> tuple[Floats, CountSeries]:
    """Return the times at which a count changes that *rises* increment and *falls* decrement."""
    falls = falls[np.isfinite(falls)]
    rises = rises[np.isfinite(rises)]
    times, index = np.unique(np.concatenate([rises, falls]), return_inverse=True)
    change = np.repeat([1, -1], [len(rises), len(falls)])
    counts = np.cumsum(np.bincount(index, change, len(times)).astype(np.int64))
    changed = np.append(True, np.diff(counts) != 0)
    return times[changed], counts[changed]
