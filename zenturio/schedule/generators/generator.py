"""Generators of workflows by name, and the scaling of a workflow to any number of tasks."""

from __future__ import annotations

import inspect
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError, NotFoundError, did_you_mean, unknown_name
from zenturio.schedule.formats.document import file_exists
from zenturio.schedule.formats.files import read_instance, read_platform
from zenturio.schedule.generators.applications import Application
from zenturio.schedule.generators.papers import (
    Ctg,
    DensifiedInTree,
    DensifiedOutTree,
    Gee,
    Itg,
    KwaveBarrier,
    KwaveIndependent,
    KwaveTree,
    MaxDo,
    Otg,
    PipeAlign,
    Ptg,
    RandomSweep,
    Wien2k,
)
from zenturio.schedule.generators.random_graphs import ForkJoin, Layered, SeriesParallel
from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine
from zenturio.schedule.model.problem import Instance, Problem
from zenturio.schedule.model.workflow import (
    Floats,
    Indices,
    Workflow,
    WorkflowTask,
    merge_transfers,
)
from zenturio.settings.schema import Setting, described, pairs, setting, settings_of

MAX_RECIPE_TASKS = 10_000_000


@dataclass(frozen=True)
class TraceRecipe:
    """A trace, or any workflow in a file, scaled to any number of tasks.

    Tasks are of one kind if they have the same program and the same position in the graph. A kind
    with one task keeps one; the others are copied together, and each copy is joined like the
    original. The work of a task is drawn from the times of its program. Cores and memory are
    dropped.
    """

    trace: str = setting("", "file of the workflow to scale")
    tasks: int = setting(1000, "tasks", low=1, high=MAX_RECIPE_TASKS)
    noise: float = setting(0.05, "relative spread of work and data", low=0, high=0.9)

    def count(self) -> int:
        return self.tasks

    def instance(self, seed: int) -> Instance:
        if not self.trace:
            raise InputError("recipe needs a workflow to scale", hint="write trace=FILE")
        source = read_instance(self.trace)
        return Instance(scale(source.workflow, self.tasks, seed, self.noise), source.platform)


def scale(flow: Workflow, tasks: int, seed: int = 0, noise: float = 0.05) -> Workflow:
    """Return *flow* scaled to *tasks* tasks of the same shape, without cores and memory.

    Raise InputError if there are fewer tasks than kinds of tasks, or too many.
    """
    flow = merge_transfers(flow)
    kinds = _task_kinds(flow)
    if not kinds.count <= tasks <= MAX_RECIPE_TASKS:
        raise InputError(
            f"{flow.name} cannot be scaled to {tasks:,} tasks",
            hint=f"it has {kinds.count} kinds of tasks: from {kinds.count} to {MAX_RECIPE_TASKS:,}",
        )
    rng = np.random.default_rng(seed)
    copies = _copies(rng, kinds, len(flow), tasks)
    original, copy = np.nonzero(copies.T)[::-1]
    number = np.full(copies.shape, -1, np.int64)
    number[original, copy] = np.arange(tasks)
    sources, targets, edge = _copied_edges(flow, kinds, copies, number)
    program = flow.program if flow.program is not None else np.zeros(len(flow), np.int32)
    data = flow.data[edge] * rng.uniform(1 - noise, 1 + noise, len(edge))
    return Workflow(
        f"{flow.name}-{tasks}",
        tuple(_copy_names(flow, original, copy)),
        _drawn_work(rng, flow, program, original) * rng.uniform(1 - noise, 1 + noise, tasks),
        sources.astype(np.int32),
        targets.astype(np.int32),
        np.round(data),
        {},
        program[original],
        tuple(flow.programs) or ("",),
    )


@dataclass(frozen=True)
class _Kinds:
    of: Indices
    """The kind of each task."""
    count: int
    first: Indices
    """A task of each kind, which represents it."""
    many: NDArray[np.bool_]
    """Whether the kind is copied."""


def _task_kinds(flow: Workflow) -> _Kinds:
    """Return the kinds of tasks: same program, and same kinds of ancestors and descendants.

    If no two tasks match, the workflow is copied as a whole.
    """
    above, below = _signatures(flow, up=True), _signatures(flow, up=False)
    number: dict[tuple[int, int], int] = {}
    of = [number.setdefault(pair, len(number)) for pair in zip(above, below, strict=True)]
    kinds = np.array(of, np.int32)
    first = np.unique(kinds, return_index=True)[1].astype(np.int32)
    many = np.bincount(kinds, minlength=len(number)) > 1
    if not many.any():
        many[:] = True
    return _Kinds(kinds, len(number), first, many)


def _signatures(flow: Workflow, *, up: bool) -> list[int]:
    """Return a number for each task, equal where program and neighbours' numbers are equal."""
    links = flow.before if up else flow.after
    number: dict[tuple[int, frozenset[int]], int] = {}
    signatures = [0] * len(flow)
    programs = [0] * len(flow) if flow.program is None else flow.program.tolist()
    for task in flow.order.tolist() if up else flow.order[::-1].tolist():
        neighbours = frozenset(signatures[neighbour] for neighbour in links.of(task).tolist())
        signatures[task] = number.setdefault((programs[task], neighbours), len(number))
    return signatures


def _copies(rng: np.random.Generator, kinds: _Kinds, count: int, tasks: int) -> NDArray[np.bool_]:
    """Return which tasks each copy has: the first all kinds, the last perhaps only some tasks."""
    copied = np.flatnonzero(kinds.many[kinds.of])
    optional = np.setdiff1d(copied, kinds.first)
    missing = tasks - kinds.count
    full_copies, remaining = (
        (0, missing) if missing <= len(optional) else divmod(missing - len(optional), len(copied))
    )
    mask = np.zeros((count, 2 + full_copies), bool)
    mask[kinds.first, 0] = True
    if missing <= len(optional):
        mask[rng.choice(optional, remaining, replace=False), 0] = True
        return mask
    mask[optional, 0] = True
    mask[copied, 1 : 1 + full_copies] = True
    mask[rng.choice(copied, remaining, replace=False), 1 + full_copies] = True
    return mask


def _copied_edges(
    flow: Workflow,
    kinds: _Kinds,
    copies: NDArray[np.bool_],
    task_numbers: NDArray[np.int64],
) -> tuple[Indices, Indices, Indices]:
    """Copy each edge; an end that is missing in a copy is replaced by one of the first copy."""
    numbers = np.where(copies, task_numbers, -1)
    stand_in = np.where(copies[:, 0], task_numbers[:, 0], task_numbers[kinds.first[kinds.of], 0])
    numbers = np.where(numbers < 0, stand_in[:, None], numbers)
    sources, targets = numbers[flow.sources], numbers[flow.targets]
    present = copies[flow.sources] | copies[flow.targets]
    edge = np.broadcast_to(np.arange(len(flow.data))[:, None], present.shape)[present]
    # An edge is packed into one integer, so that duplicates are found by sorting.
    pairs = sources[present] * np.int64(MAX_RECIPE_TASKS + 1) + targets[present]
    pairs, first = np.unique(pairs, return_index=True)
    return (
        (pairs // (MAX_RECIPE_TASKS + 1)).astype(np.int32),
        (pairs % (MAX_RECIPE_TASKS + 1)).astype(np.int32),
        edge[first].astype(np.int32),
    )


def _drawn_work(
    rng: np.random.Generator, flow: Workflow, program: Indices, original: NDArray[Any]
) -> Floats:
    """Draw the work of each task from the quantiles of its program's times."""
    work = np.empty(len(original))
    programs = program[original]
    for number in np.unique(program).tolist():
        times = np.sort(flow.work[program == number])
        members = programs == number
        quantiles = rng.uniform(0, 1, int(members.sum()))
        work[members] = np.quantile(times, quantiles) if len(times) > 1 else times[0]
    return work


def _copy_names(flow: Workflow, original: NDArray[Any], copy: NDArray[Any]) -> list[str]:
    names = flow.names
    mark = "~"
    while any(mark in name for name in names):
        mark += "~"
    pairs = zip(original.tolist(), copy.tolist(), strict=True)
    return [f"{names[i]}{mark}{c}" if c else names[i] for i, c in pairs]


@dataclass(frozen=True)
class HeftExample:
    """The worked example of HEFT: 10 tasks on 3 unrelated machines; makespans HEFT 80, CPOP 86.

    Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling for
    heterogeneous computing" (2002), figure 2.
    """

    def count(self) -> int:
        return len(_TIMES)

    def instance(self, seed: int) -> Instance:  # noqa: ARG002 - not random
        tasks = [
            WorkflowTask(f"n{i}", sum(times) / 3, times=tuple(map(float, times)))
            for i, times in enumerate(_TIMES, 1)
        ]
        edges = [(f"n{a}", f"n{b}", float(data)) for a, b, data in _EDGES]
        machines = tuple(PlatformMachine(f"p{i}") for i in (1, 2, 3))
        platform = Platform("topcuoglu", machines, (), NetworkLink("", "", 1.0))
        return Instance(Workflow.of("topcuoglu", tasks, edges), platform)


_TIMES = (
    (14, 16, 9), (13, 19, 18), (11, 13, 19), (13, 8, 17), (12, 13, 10),
    (13, 16, 9), (7, 15, 11), (5, 11, 14), (18, 12, 20), (21, 7, 16),
)  # fmt: skip
_EDGES = (
    (1, 2, 18), (1, 3, 12), (1, 4, 9), (1, 5, 11), (1, 6, 14), (2, 8, 19), (2, 9, 16), (3, 7, 23),
    (4, 8, 27), (4, 9, 23), (5, 9, 13), (6, 8, 15), (7, 10, 17), (8, 10, 11), (9, 10, 13),
)  # fmt: skip


class WorkflowGenerator(Protocol):
    """A frozen dataclass of settings; the same settings and seed give the same workflow."""

    def count(self) -> int:
        """Return the number of tasks without making them."""
        ...

    def instance(self, seed: int) -> Instance: ...


_GENERATORS: dict[str, type[Any]] = {
    "application": Application,
    "ctg": Ctg,
    "ditg": DensifiedInTree,
    "dotg": DensifiedOutTree,
    "fork-join": ForkJoin,
    "gee": Gee,
    "itg": Itg,
    "kwave-barrier": KwaveBarrier,
    "kwave-independent": KwaveIndependent,
    "kwave-tree": KwaveTree,
    "layered": Layered,
    "maxdo": MaxDo,
    "otg": Otg,
    "pipealign": PipeAlign,
    "ptg": Ptg,
    "recipe": TraceRecipe,
    "series-parallel": SeriesParallel,
    "sweep": RandomSweep,
    "topcuoglu": HeftExample,
    "wien2k": Wien2k,
}


@dataclass(frozen=True, slots=True)
class GeneratorDescription:
    """A generator as it is listed."""

    name: str
    about: str
    settings: tuple[Setting, ...]


def names() -> list[str]:
    """Return the names of all generators, sorted."""
    return sorted(_GENERATORS)


def describe(name: str) -> GeneratorDescription:
    """Return what the generator *name* makes and its settings; NotFoundError if there is none."""
    generator = _generator_class(name)
    about = (inspect.getdoc(generator) or "").partition("\n")[0]
    return GeneratorDescription(name, about, described(generator))


def generate(name: str, settings: Mapping[str, Any] | None = None, seed: int = 0) -> Instance:
    """Return the workflow that the generator *name* makes from *settings* and *seed*."""
    return _generator(name, settings).instance(seed)


def count_of(text: str) -> int | None:
    """Return how many tasks ``NAME:key=value,...`` would make; None if *text* is a file.

    No task is made, so that a server can refuse requests that are too large.
    """
    name, _, settings_text = text.partition(":")
    if name not in _GENERATORS or file_exists(Path(text)):
        return None
    settings = pairs(settings_text.split(",") if settings_text else [])
    settings.pop("seed", None)
    return _generator(name, settings).count()


def _generator(name: str, settings: Mapping[str, Any] | None) -> WorkflowGenerator:
    kind = _generator_class(name)
    setting_names = {item.name for item in described(kind)}
    values = dict(settings or {})
    unknown = next((key for key in values if key not in setting_names), None)
    if unknown is not None:
        raise InputError(
            f"generator {name} has no setting {unknown!r}",
            hint=did_you_mean(unknown, setting_names),
        )
    generator: WorkflowGenerator = settings_of(kind, values)
    return generator


def instance_of(text: str, settings: Mapping[str, Any] | None = None, seed: int = 0) -> Instance:
    """Return the workflow in the file *text*, or of the generator ``NAME:key=value,...``.

    Raise NotFoundError if it is neither.
    """
    name, _, settings_text = text.partition(":")
    exists = file_exists(Path(text))
    if name in _GENERATORS and Path(text).is_dir():  # such as a study that was made of it
        exists = False
    if name not in _GENERATORS or exists:
        if not exists and not Path(text).suffix and text != "-":
            hint = did_you_mean(name, _GENERATORS)
            raise NotFoundError(f"{text!r} is neither a file nor a generator", hint=hint)
        return read_instance(text)
    values = dict(settings or {}) | pairs(settings_text.split(",") if settings_text else [])
    return generate(name, {k: v for k, v in values.items() if k != "seed"}, _seed(values, seed))


def _seed(values: Mapping[str, Any], seed: int) -> int:
    text = str(values.get("seed", seed))
    if not text.isdecimal() or len(text) > 18:
        raise InputError(f"seed={text} is not a valid seed", hint="write a whole number from 0 on")
    return int(text)


def _generator_class(name: str) -> type[Any]:
    if name not in _GENERATORS:
        raise unknown_name("generator", name, _GENERATORS)
    return _GENERATORS[name]


T = TypeVar("T")

_LOG = re.compile(rb"""\bload["']?\s*[=:]\s*(["'])(.*?)\1""")
"""Matches the name of a cluster's log in a platform file, relative to that file."""
MAX_CACHED = 4
"""Number of problems, and of platforms, that are kept; the least recently used is dropped."""


class ProblemCache:
    """Problems and platforms, read once for the many experiments of a study that share them.

    Entries are keyed by the contents of their files, so that a changed file is read again.
    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._platforms: OrderedDict[Any, Platform] = OrderedDict()
        self._problems: OrderedDict[Any, Any] = OrderedDict()

    def platform(self, text: str) -> Platform:
        """Return the platform *text*: a file, or a name such as ``identical:8``."""
        with self._lock:
            return _cached(self._platforms, _cache_key(text), lambda: read_platform(text))

    def problem(self, workflow: str, on: str = "", kind: Any = Problem) -> Any:
        """Return *workflow*, a file or generator, on the platform *on* or on its own."""
        with self._lock:
            mark = kind, _cache_key(workflow), _cache_key(on)
            return _cached(self._problems, mark, lambda: self._read(workflow, on, kind))

    def _read(self, workflow: str, on: str, kind: Any) -> Any:
        instance = instance_of(workflow)
        platform = self.platform(on) if on else instance.platform
        if platform is None:
            raise InputError(f"{workflow} names no machines", hint="--on grid.toml, or identical:8")
        return kind.of(instance.workflow, platform)


def _cached(cache: OrderedDict[Any, T], key: Any, read: Callable[[], T]) -> T:
    """Return the entry of *key*, reading it if it is missing; drop the oldest beyond the limit."""
    if key not in cache:
        entry = read()
        cache[key] = entry
        if len(cache) > MAX_CACHED:
            cache.popitem(last=False)
    cache.move_to_end(key)
    return cache[key]


def _cache_key(text: str) -> tuple[Any, ...]:
    """Return *text* with the contents of the files it refers to.

    These are the file itself and the cluster logs it names, or the files in a generator's settings.
    """
    content = _content(text)
    if content is not None:
        logs = (name.decode(errors="replace") for _, name in _LOG.findall(content))
        return text, content, *(_content(str(Path(text).parent / log)) for log in logs)
    settings = [pair.partition("=")[2] for pair in text.partition(":")[2].split(",")]
    return text, *(_content(value) for value in settings)


def _content(text: str) -> bytes | None:
    try:
        return Path(text).read_bytes() if text and Path(text).is_file() else None
    # Unreadable, or not a valid path at all: the reader will report it.
    except (OSError, ValueError):
        return None
