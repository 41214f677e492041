"""Random layered graphs, and the worked example of HEFT."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zenturio.errors import InputError
from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine
from zenturio.schedule.model.problem import Instance
from zenturio.schedule.model.workflow import Floats, Indices, Workflow, WorkflowTask
from zenturio.search.settings import setting

_MAX_TIMES = 50_000_000
"""Limit of tasks times machines for unrelated machines, which need a time for each pair."""


@dataclass(frozen=True)
class Layered:
    """Random layers, as scheduling papers use them: each task follows some of the layer above.

    Layers have about equally many tasks. Work is uniform around its mean within the spread. A
    transfer takes, on average over a link, *ccr* times the mean work.
    """

    tasks: int = setting(100, "tasks", low=1, high=10_000_000)
    layers: int | None = setting(None, "layers; auto: the square root of tasks", low=1)
    degree: float = setting(2.5, "tasks that one follows, on average", low=1, high=1000)
    work: float = setting(20.0, "mean work, in seconds", low=0, high=1e9)
    spread: float = setting(0.75, "by which part work differs", low=0, high=1)
    ccr: float = setting(0.5, "time of a transfer by time of a task", low=0, high=1e6)
    machines: int = setting(8, "machines", low=1, high=100_000)
    heterogeneity: float = setting(0.5, "by which part speeds differ", low=0, high=0.99)
    unrelated: bool = setting(False, "a task's times on the machines have nothing in common")

    def count(self) -> int:
        return self.tasks

    def instance(self, seed: int) -> Instance:
        rng = np.random.default_rng(seed)
        layer = self._layers(rng)
        sources, targets = self._edges(rng, layer)
        work = self._about(rng, self.work, self.spread, self.tasks)
        bandwidth = 1e8
        data = self._about(rng, self.ccr * self.work * bandwidth, self.spread, len(sources))
        speeds = self._about(rng, 1.0, self.heterogeneity, self.machines)
        name = f"layered-{self.tasks}"
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
        return Instance(flow, Platform(name, machines, (), NetworkLink("", "", bandwidth)))

    def _layers(self, rng: np.random.Generator) -> Indices:
        """Return the layer of each task, ascending; no layer is empty."""
        count = min(self.layers or max(round(self.tasks**0.5), 1), self.tasks)
        extra = np.sort(rng.integers(0, count, self.tasks - count))
        layers = np.concatenate([np.arange(count), extra])
        return np.sort(layers).astype(np.int32)

    def _edges(self, rng: np.random.Generator, layer: Indices) -> tuple[Indices, Indices]:
        """Join each task to one task of the layer above, and to some more."""
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

    def _times(
        self, rng: np.random.Generator, names: list[str], work: Floats
    ) -> dict[int, WorkflowTask]:
        if self.tasks * self.machines > _MAX_TIMES:
            raise InputError(
                f"{self.tasks:,} tasks on {self.machines:,} unrelated machines are too many times",
                hint=f"tasks times machines up to {_MAX_TIMES:,}, or unrelated=false",
            )
        factors = self._about(rng, 1.0, self.heterogeneity, self.tasks * self.machines)
        times = (work[:, None] * factors.reshape(self.tasks, self.machines)).tolist()
        return {
            i: WorkflowTask(name, float(work[i]), times=tuple(times[i]))
            for i, name in enumerate(names)
        }

    @staticmethod
    def _about(rng: np.random.Generator, mean: float, spread: float, count: int) -> Floats:
        values: Floats = rng.uniform(mean * (1 - spread), mean * (1 + spread), count)
        return values


@dataclass(frozen=True)
class Topcuoglu:
    """The worked example of HEFT: 10 tasks on 3 unrelated machines; HEFT 80, CPOP 86.

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
