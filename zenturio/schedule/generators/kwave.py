"""Workflows of moldable tasks, as in Jaros and Jaros, "Performance-Cost Optimization of Moldable
Scientific Workflows": simulations with k-Wave, and tasks that process what they found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from zenturio.schedule.curve import ScalingCurve
from zenturio.schedule.formats.instance import Instance
from zenturio.schedule.platform import Platform, identical
from zenturio.schedule.workflow import Workflow, WorkflowTask
from zenturio.search.settings import setting

MAX_NODES = 36
BEST_NODES = 35
_EXPONENT = 0.9
"""On 2^k nodes a task is 2^(0.9 k) times as fast as on one: less than the nodes, always."""
_UNEVEN_FACTOR = 1.05
"""How much longer it takes where nodes are no power of two."""


def simulation_curve(
    seconds: float, exponent: float = _EXPONENT, serial: float = 0.0
) -> ScalingCurve:
    """The time of a simulation on 1 to 36 nodes that takes *seconds* on one.

    Of the shape that figure 3 has: faster at powers of two than just beside them, but fastest on
    35 nodes. Between powers of two it is straight in the logarithms, and a twentieth longer. The
    *serial* part of it takes as long on any number of nodes.
    """
    counts = np.arange(1, MAX_NODES + 1)
    lower = 2.0 ** np.floor(np.log2(counts))
    reach = np.where(counts == lower, 0.0, (counts - lower - 1) / np.maximum(lower - 1, 1))
    factors = (lower * 2.0**reach) ** -exponent
    factors[counts != lower] *= _UNEVEN_FACTOR
    factors[BEST_NODES - 1] = 0.97 * 32.0**-exponent
    factors = np.where(counts == 1, 1.0, serial + (1 - serial) * factors)
    return ScalingCurve(tuple(counts.tolist()), tuple((seconds * factors).tolist()))


@dataclass(frozen=True)
class KwaveSettings:
    """What the tasks of all three workflows are like (section 3.1)."""

    nodes: int = setting(64, "nodes of the cluster", low=1, high=100_000)
    seconds: float = setting(3600.0, "of a simulation on one node", low=1e-6, high=1e9)
    processing: float = setting(60.0, "seconds to process a file on one node", low=1e-6, high=1e9)
    steps: float = setting(0.25, "by which part simulations differ in time steps", low=0, high=0.9)
    noise: float = setting(0.05, "by which part processors differ", low=0, high=0.9)
    exponent: float = setting(_EXPONENT, "2^k nodes are 2^(exponent k) as fast", low=0.1, high=1)
    serial: float = setting(0.0, "part of a simulation that nodes do not share", low=0, high=1)

    def simulation(self, name: str, chance: np.random.Generator) -> WorkflowTask:
        """A simulation, "ST": up to 25% fewer time steps, up to 5% faster or slower processors."""
        share = 1 - chance.uniform(0, self.steps)
        curve = simulation_curve(
            self.seconds * share * self._noise(chance), self.exponent, self.serial
        )
        return WorkflowTask(name, curve.seconds[0], program="simulation", curve=curve)

    def process(self, name: str, files: int, chance: np.random.Generator) -> WorkflowTask:
        """A task that processes so many *files*, "PT": on one or two nodes."""
        one = self.processing * files * self._noise(chance)
        curve = ScalingCurve((1, 2), (one, one / 2**_EXPONENT))
        return WorkflowTask(name, one, program="processing", curve=curve)

    def _noise(self, chance: np.random.Generator) -> float:
        return float(chance.uniform(1 - self.noise, 1 + self.noise))

    def cluster(self) -> Platform:
        found = identical(self.nodes, f"cluster-{self.nodes}")
        return replace(found, machines=tuple(replace(m, cost=1.0) for m in found.machines))


@dataclass(frozen=True)
class KwaveBarrier(KwaveSettings):
    """k-Wave with barriers: levels of simulations, each ended by one task that processes all.

    7, 8, 15, 16, 31, 32, 63 and 64 tasks have the workflows of the paper: here two levels of 3, 7,
    15 or 31 simulations are 8, 16, 32 or 64 tasks.
    """

    simulations: int = setting(7, "simulations in each level", low=1, high=1_000_000)
    levels: int = setting(2, "levels", low=1, high=1000)

    def count(self) -> int:
        return self.levels * (self.simulations + 1)

    def instance(self, seed: int) -> Instance:
        chance = np.random.default_rng(seed)
        tasks: list[WorkflowTask] = []
        edges: list[tuple[str, str]] = []
        for level in range(1, self.levels + 1):
            each = [f"sim{level}_{i}" for i in range(1, self.simulations + 1)]
            tasks += [self.simulation(name, chance) for name in each]
            edges += [(f"proc{level - 1}", name) for name in each if level > 1]
            edges += [(name, f"proc{level}") for name in each]
            tasks.append(self.process(f"proc{level}", self.simulations, chance))
        return Instance(Workflow.of("kwave-barrier", tasks, edges), self.cluster())


@dataclass(frozen=True)
class KwaveTree(KwaveSettings):
    """k-Wave with a reduction tree: what simulations find is merged two by two.

    4, 8, 16 or 32 simulations are 7, 15, 31 or 63 tasks, as in the paper.
    """

    simulations: int = setting(8, "simulations", low=1, high=1_000_000)

    def count(self) -> int:
        return 2 * self.simulations - 1

    def instance(self, seed: int) -> Instance:
        chance = np.random.default_rng(seed)
        ahead = [f"sim{i}" for i in range(1, self.simulations + 1)]
        tasks = [self.simulation(name, chance) for name in ahead]
        edges: list[tuple[str, str]] = []
        level = 0
        while len(ahead) > 1:
            level += 1
            merged = [f"proc{level}_{i}" for i in range(1, len(ahead) // 2 + 1)]
            tasks += [self.process(name, 2, chance) for name in merged]
            edges += [(ahead[i], merged[i // 2]) for i in range(len(merged) * 2)]
            ahead = merged + ahead[len(merged) * 2 :]
        return Instance(Workflow.of("kwave-tree", tasks, edges), self.cluster())


@dataclass(frozen=True)
class KwaveIndependent(KwaveSettings):
    """k-Wave without dependencies: simulations only."""

    simulations: int = setting(16, "simulations", low=1, high=1_000_000)

    def count(self) -> int:
        return self.simulations

    def instance(self, seed: int) -> Instance:
        chance = np.random.default_rng(seed)
        each = range(1, self.simulations + 1)
        tasks = [self.simulation(f"sim{i}", chance) for i in each]
        return Instance(Workflow.of("kwave-independent", tasks), self.cluster())
