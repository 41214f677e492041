"""Random graphs of tasks: layered, fork-join and series-parallel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from zenturio.errors import InputError
from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine
from zenturio.schedule.model.problem import Instance
from zenturio.schedule.model.workflow import Floats, Indices, Workflow, WorkflowTask
from zenturio.settings.schema import setting

_MAX_TASKS = 10_000_000
_MAX_TIMES = 50_000_000
"""Limit of tasks times machines for unrelated machines, which need a time for each pair."""
_BANDWIDTH = 1e8
"""Bytes per second between any two machines."""

Edges = tuple[Indices, Indices]
"""The sources and the targets."""


@dataclass(frozen=True)
class _RandomGraph(ABC):
    """Work, transfers and machines of a random graph, whose edges a subclass draws.

    Work is uniform around its mean within the spread. A transfer takes, on average over a link,
    *ccr* times the mean work.
    """

    tasks: int = setting(100, "tasks", low=1, high=_MAX_TASKS)
    work: float = setting(20.0, "mean work, in seconds", low=0, high=1e9)
    spread: float = setting(0.75, "relative spread of the work", low=0, high=1)
    whole: bool = setting(False, "work in whole seconds, as in the Standard Task Graph set")
    ccr: float = setting(0.5, "ratio of the time of a transfer to that of a task", low=0, high=1e6)
    machines: int = setting(8, "machines", low=1, high=100_000)
    heterogeneity: float = setting(0.5, "relative spread of the speeds", low=0, high=0.99)
    unrelated: bool = setting(False, "draw the times of a task on each machine independently")

    def count(self) -> int:
        return self.tasks

    @abstractmethod
    def _edges(self, rng: np.random.Generator) -> Edges:
        """Draw the edges, none of them twice."""

    def _instance(self, kind: str, seed: int) -> Instance:
        rng = np.random.default_rng(seed)
        sources, targets = self._edges(rng)
        work = _about(rng, self.work, self.spread, self.tasks)
        if self.whole:
            work = np.round(work)
        data = _about(rng, self.ccr * self.work * _BANDWIDTH, self.spread, len(sources))
        speeds = _about(rng, 1.0, self.heterogeneity, self.machines)
        name = f"{kind}-{self.tasks}"
        names = [f"t{i}" for i in range(1, self.tasks + 1)]
        more = self._times(rng, names, work) if self.unrelated else {}
        flow = Workflow(
            name, tuple(names), work, sources, targets, np.round(data), more,
            np.zeros(self.tasks, np.int32), ("",),
        )  # fmt: skip
        machines = tuple(
            PlatformMachine(f"m{i}", 1.0 if self.unrelated else float(speed))
            for i, speed in enumerate(speeds, 1)
        )
        return Instance(flow, Platform(name, machines, (), NetworkLink("", "", _BANDWIDTH)))

    def _times(
        self, rng: np.random.Generator, names: list[str], work: Floats
    ) -> dict[int, WorkflowTask]:
        if self.tasks * self.machines > _MAX_TIMES:
            raise InputError(
                f"{self.tasks:,} tasks on {self.machines:,} unrelated machines are too many times",
                hint=f"tasks times machines up to {_MAX_TIMES:,}, or unrelated=false",
            )
        factors = _about(rng, 1.0, self.heterogeneity, self.tasks * self.machines)
        times = (work[:, None] * factors.reshape(self.tasks, self.machines)).tolist()
        return {
            i: WorkflowTask(name, float(work[i]), times=tuple(times[i]))
            for i, name in enumerate(names)
        }


def _about(rng: np.random.Generator, mean: float, spread: float, count: int) -> Floats:
    values: Floats = rng.uniform(mean * (1 - spread), mean * (1 + spread), count)
    return values


@dataclass(frozen=True)
class Layered(_RandomGraph):
    """Random layers, as scheduling papers use them: each task follows some of the layer above.

    Layers have about equally many tasks.
    """

    layers: int | None = setting(None, "layers; auto: the square root of tasks", low=1)
    degree: float = setting(2.5, "mean number of predecessors of a task", low=1, high=1000)

    def instance(self, seed: int) -> Instance:
        return self._instance("layered", seed)

    def _layers(self, rng: np.random.Generator) -> Indices:
        """Return the layer of each task, ascending; no layer is empty."""
        count = min(self.layers or max(round(self.tasks**0.5), 1), self.tasks)
        extra = np.sort(rng.integers(0, count, self.tasks - count))
        layers = np.concatenate([np.arange(count), extra])
        return np.sort(layers).astype(np.int32)

    def _edges(self, rng: np.random.Generator) -> Edges:
        """Join each task to one task of the layer above, and to some more."""
        layer = self._layers(rng)
        start = np.searchsorted(layer, np.arange(layer[-1] + 2))
        below = np.arange(start[1], self.tasks)
        degrees = 1 + rng.poisson(self.degree - 1, len(below))
        available = (start[1:] - start[:-1])[layer[below] - 1]
        targets = np.repeat(below, np.minimum(degrees, available))
        above = layer[targets] - 1
        low, high = start[above], start[above + 1]
        sources = rng.integers(low, high)
        # Packed into one integer: duplicates of an edge are removed by sorting.
        pairs = np.sort(targets.astype(np.int64) * self.tasks + sources)
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        return (pairs % self.tasks).astype(np.int32), (pairs // self.tasks).astype(np.int32)


@dataclass(frozen=True)
class ForkJoin(_RandomGraph):
    """Forks and joins in turn: a task, its branches, the task that joins them, and so on.

    The branches are distributed over the stages at random; each stage has at least one.
    """

    tasks: int = setting(100, "tasks", low=3, high=_MAX_TASKS)
    stages: int | None = setting(None, "stages; auto: half the square root of tasks", low=1)

    def instance(self, seed: int) -> Instance:
        return self._instance("fork-join", seed)

    def _edges(self, rng: np.random.Generator) -> Edges:
        stages = min(self.stages or max(round(self.tasks**0.5 / 2), 1), (self.tasks - 1) // 2)
        extra = rng.integers(0, stages, self.tasks - 1 - 2 * stages)
        branches = 1 + np.bincount(extra, minlength=stages)
        joins = np.concatenate([[0], np.cumsum(branches + 1)])  # the first is the first fork
        middle = np.setdiff1d(np.arange(self.tasks), joins)
        forks = np.repeat(joins[:-1], branches)
        sources = np.concatenate([forks, middle]).astype(np.int32)
        targets = np.concatenate([middle, np.repeat(joins[1:], branches)]).astype(np.int32)
        return sources, targets


@dataclass(frozen=True)
class SeriesParallel(_RandomGraph):
    """Series-parallel: from one edge, each task is inserted into or parallel to an edge."""

    tasks: int = setting(100, "tasks", low=2, high=1_000_000)
    parallel: float = setting(
        0.6, "probability that a task is inserted in parallel to an edge", low=0, high=1
    )

    def instance(self, seed: int) -> Instance:
        return self._instance("series-parallel", seed)

    def _edges(self, rng: np.random.Generator) -> Edges:
        beside = (rng.random(self.tasks) < self.parallel).tolist()
        choices = rng.random(self.tasks).tolist()
        # The first task and the last one are the two terminals.
        edges = [(0, self.tasks - 1)]
        for task in range(1, self.tasks - 1):
            edge = int(choices[task] * len(edges))
            source, target = edges[edge]
            edges.append((task, target))
            if beside[task]:
                edges.append((source, task))
            else:
                edges[edge] = (source, task)
        pairs = np.array(edges, np.int32)
        return pairs[:, 0].copy(), pairs[:, 1].copy()
