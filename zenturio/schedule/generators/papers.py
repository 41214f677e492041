"""Workflows of single papers: WIEN2k, k-Wave, parameter sweeps, and three from bioinformatics.

Durations of the bioinformatics workflows are whole seconds that match Table 1 of Bolze, Desprez and
Isnard, "Evaluation of Online Multi-Workflow Heuristics based on List-Scheduling Algorithms": number
of tasks, total work, and time with four machines (MAXDo 80 and 33 s, PipeAlign 125 and 96 s, GEE
200 and 123 s). Their transfers take no time.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from zenturio.errors import InputError
from zenturio.schedule.model import shape_and_runtimes as predict
from zenturio.schedule.model.platform import (
    Platform,
    PlatformMachine,
    RuntimeCurve,
    grid_2005,
    identical,
)
from zenturio.schedule.model.problem import Instance
from zenturio.schedule.model.workflow import Indices, Workflow, WorkflowTask
from zenturio.settings.schema import setting

FLOPS = 1e9
"""Operations per second of a machine of speed 1: speeds are in GHz."""


@dataclass(frozen=True)
class Wien2k:
    """WIEN2k: electronic structure of a solid, k-points in parallel, repeated until it converges.

    R. Prodan, T. Fahringer: Dynamic Scheduling of Scientific Workflow Applications on the Grid (SAC
    2005). LAPW1 takes 7 A N^2 + N^3 operations for each k-point, LAPW2 a tenth of that, and 200 N A
    bytes go between them (sections 3 and 4.2). The settings describe the other tasks.
    """

    kpoints: int = setting(50, "k-points, each with an LAPW1 and an LAPW2", low=1, high=1_000_000)
    atoms: int = setting(64, "atoms: A", low=1, high=100_000)
    size: int = setting(5000, "size of the matrix: N", low=1, high=1_000_000)
    spread: float = setting(0.1, "relative spread of the work of k-points", low=0, high=0.9)
    lapw0: float = setting(0.5, "work of LAPW0, relative to LAPW1", low=0, high=1000)
    rest: float = setting(
        0.05, "work of LCORE, FERMI, mixer and test, relative to LAPW1", low=0, high=1000
    )
    loop: bool = setting(False, "add the edge from the test of convergence back to LAPW0")
    transfers: bool = setting(False, "make file transfers between k-points tasks of their own")
    shared: bool = setting(False, "run LAPW1 and LAPW2 of a k-point on the same machine")

    def count(self) -> int:
        return 5 + self.kpoints * (3 if self.transfers else 2)

    def instance(self, seed: int) -> Instance:
        flops = predict.lapw1_operations(self.atoms, self.size)
        rng = np.random.default_rng(seed)
        lapw1 = flops / FLOPS * rng.uniform(1 - self.spread, 1 + self.spread, self.kpoints)
        kpoints = range(1, self.kpoints + 1)
        mean = flops / FLOPS
        tasks = [
            self._job("lapw0", self.lapw0 * mean),
            *(self._job("lapw1", lapw1[k - 1], k) for k in kpoints),
            self._job("lapw2_fermi", self.rest * mean),
            *(self._job("lapw2", predict.LAPW2_SHARE * lapw1[k - 1], k) for k in kpoints),
            *(self._job(program, self.rest * mean) for program in ("lcore", "mixer", "converged")),
        ]
        edges = [("lapw0", "lcore", 0.0), ("lcore", "mixer", 0.0), ("mixer", "converged", 0.0)]
        for k in kpoints:
            edges += [
                ("lapw0", f"lapw1_{k}", 0.0),
                (f"lapw1_{k}", "lapw2_fermi", 0.0),
                ("lapw2_fermi", f"lapw2_{k}", 0.0),
                (f"lapw2_{k}", "mixer", 0.0),
            ]
        vector = predict.vector_bytes(self.atoms, self.size)
        if self.transfers:
            for k in kpoints:
                a, b, transfer = f"lapw1_{k}", f"lapw2_{k}", f"vector_{k}"
                source, target = self._machine("lapw1", k), self._machine("lapw2", k)
                tasks.append(
                    WorkflowTask(transfer, vector, "transfer", source, target, "case.vector")
                )
                edges += [(a, transfer, 0.0), (transfer, b, 0.0)]
        else:
            edges += [(f"lapw1_{k}", f"lapw2_{k}", vector) for k in kpoints]
        if self.loop:
            edges.append(("converged", "lapw0", 0.0))
        return Instance(Workflow.of(f"wien2k-{self.kpoints}", tasks, edges), grid_2005())

    def _job(self, program: str, work: float, number: int = 0) -> WorkflowTask:
        name = f"{program}_{number}" if number else program
        return WorkflowTask(
            name, float(work), machine=self._machine(program, number), program=program
        )

    def _machine(self, program: str, number: int) -> str:
        """Return the abstract machine of a task, if it needs one (Definition 1)."""
        if self.shared and number:
            return f"kpoint_{number}"
        return f"{program}_{number}".removesuffix("_0") if self.transfers else ""


MAX_NODES = 36
BEST_NODES = 35
_EXPONENT = 0.9
"""On 2^k nodes a task is 2^(0.9 k) times as fast as on one node."""
_UNEVEN_FACTOR = 1.05
"""Slowdown on numbers of nodes that are not powers of two."""


def simulation_curve(
    seconds: float, exponent: float = _EXPONENT, serial: float = 0.0
) -> RuntimeCurve:
    """Return the time of a simulation on 1 to 36 nodes that takes *seconds* on one node.

    The curve has the shape of figure 3: faster at powers of two than just beside them, but fastest
    on 35 nodes. Between powers of two it is linear in the logarithms and 5% slower. The *serial*
    share of the time does not depend on the nodes.
    """
    counts = np.arange(1, MAX_NODES + 1)
    power_of_two = 2.0 ** np.floor(np.log2(counts))
    progress = np.where(
        counts == power_of_two, 0.0, (counts - power_of_two - 1) / np.maximum(power_of_two - 1, 1)
    )
    factors = (power_of_two * 2.0**progress) ** -exponent
    factors[counts != power_of_two] *= _UNEVEN_FACTOR
    factors[BEST_NODES - 1] = 0.97 * 32.0**-exponent
    factors = np.where(counts == 1, 1.0, serial + (1 - serial) * factors)
    return RuntimeCurve(tuple(counts.tolist()), tuple((seconds * factors).tolist()))


@dataclass(frozen=True)
class KwaveSettings:
    """What the tasks of all three k-Wave workflows have in common (section 3.1).

    J. Jaros, M. Jaros: Performance-Cost Optimization of Moldable Scientific Workflows (JSSPP 2021).
    """

    nodes: int = setting(64, "nodes of the cluster", low=1, high=100_000)
    seconds: float = setting(3600.0, "seconds of a simulation on one node", low=1e-6, high=1e9)
    processing: float = setting(60.0, "seconds to process a file on one node", low=1e-6, high=1e9)
    steps: float = setting(
        0.25, "relative spread of the time steps of simulations", low=0, high=0.9
    )
    noise: float = setting(0.05, "relative spread of the speeds of processors", low=0, high=0.9)
    exponent: float = setting(
        _EXPONENT, "2^k nodes are 2^(exponent k) times as fast", low=0.1, high=1
    )
    serial: float = setting(0.0, "serial fraction of a simulation", low=0, high=1)

    def simulation(self, name: str, rng: np.random.Generator) -> WorkflowTask:
        """Return a simulation ("ST"), with up to 25% fewer steps and 5% noise by default."""
        share = 1 - rng.uniform(0, self.steps)
        curve = simulation_curve(
            self.seconds * share * self._noise(rng), self.exponent, self.serial
        )
        return WorkflowTask(name, curve.seconds[0], program="simulation", curve=curve)

    def process(self, name: str, files: int, rng: np.random.Generator) -> WorkflowTask:
        """Return a task that processes *files* ("PT"), on one or two nodes."""
        seconds = self.processing * files * self._noise(rng)
        curve = RuntimeCurve((1, 2), (seconds, seconds / 2**_EXPONENT))
        return WorkflowTask(name, seconds, program="processing", curve=curve)

    def _noise(self, rng: np.random.Generator) -> float:
        return float(rng.uniform(1 - self.noise, 1 + self.noise))

    def cluster(self) -> Platform:
        platform = identical(self.nodes, f"cluster-{self.nodes}")
        return replace(platform, machines=tuple(replace(m, cost=1.0) for m in platform.machines))


@dataclass(frozen=True)
class KwaveBarrier(KwaveSettings):
    """k-Wave with barriers: levels of simulations, each followed by a task that processes all.

    The paper's workflows have 7, 8, 15, 16, 31, 32, 63 and 64 tasks; here two levels of 3, 7, 15 or
    31 simulations make 8, 16, 32 or 64 tasks.
    """

    simulations: int = setting(7, "simulations in each level", low=1, high=1_000_000)
    levels: int = setting(2, "levels", low=1, high=1000)

    def count(self) -> int:
        return self.levels * (self.simulations + 1)

    def instance(self, seed: int) -> Instance:
        rng = np.random.default_rng(seed)
        tasks: list[WorkflowTask] = []
        edges: list[tuple[str, str]] = []
        for level in range(1, self.levels + 1):
            names = [f"sim{level}_{i}" for i in range(1, self.simulations + 1)]
            tasks += [self.simulation(name, rng) for name in names]
            edges += [(f"proc{level - 1}", name) for name in names if level > 1]
            edges += [(name, f"proc{level}") for name in names]
            tasks.append(self.process(f"proc{level}", self.simulations, rng))
        return Instance(Workflow.of("kwave-barrier", tasks, edges), self.cluster())


@dataclass(frozen=True)
class KwaveTree(KwaveSettings):
    """k-Wave with a reduction tree: the results of simulations are merged two by two.

    4, 8, 16 or 32 simulations make 7, 15, 31 or 63 tasks, as in the paper.
    """

    simulations: int = setting(8, "simulations", low=1, high=1_000_000)

    def count(self) -> int:
        return 2 * self.simulations - 1

    def instance(self, seed: int) -> Instance:
        rng = np.random.default_rng(seed)
        unmerged = [f"sim{i}" for i in range(1, self.simulations + 1)]
        tasks = [self.simulation(name, rng) for name in unmerged]
        edges: list[tuple[str, str]] = []
        level = 0
        while len(unmerged) > 1:
            level += 1
            merged = [f"proc{level}_{i}" for i in range(1, len(unmerged) // 2 + 1)]
            tasks += [self.process(name, 2, rng) for name in merged]
            edges += [(unmerged[i], merged[i // 2]) for i in range(len(merged) * 2)]
            unmerged = merged + unmerged[len(merged) * 2 :]
        return Instance(Workflow.of("kwave-tree", tasks, edges), self.cluster())


@dataclass(frozen=True)
class KwaveIndependent(KwaveSettings):
    """k-Wave without dependencies: simulations only."""

    simulations: int = setting(16, "simulations", low=1, high=1_000_000)

    def count(self) -> int:
        return self.simulations

    def instance(self, seed: int) -> Instance:
        rng = np.random.default_rng(seed)
        numbers = range(1, self.simulations + 1)
        tasks = [self.simulation(f"sim{i}", rng) for i in numbers]
        return Instance(Workflow.of("kwave-independent", tasks), self.cluster())


MAX_SUBTASKS = 1_000_000
"""Limit of subtasks; the limit of edges is twice as large."""

Pairs = tuple[Indices, Indices]
"""Indices within their layers of subtasks, and of the subtasks that depend on them."""


@dataclass(frozen=True)
class SweepSettings:
    """What the subtasks and resources of the sweep graphs are drawn from (section IV-A).

    T. Ma, R. Buyya: Critical-Path and Priority based Algorithms for Scheduling Workflows with
    Parameter Sweep Tasks on Global Grids (SBAC-PAD 2005). A subtask's tag is that of its layer's
    resources; its program is the layer.
    """

    rss: float = setting(5.0, "RSS: ratio of the longest to the shortest subtask", low=1, high=1e6)
    rrt: float = setting(5.0, "RRT: ratio of the fastest to the slowest resource", low=1, high=1e6)
    rsr: float = setting(5.0, "RSR: ratio of subtasks to resources in each layer", low=1, high=1e6)
    length: float = setting(20.0, "minimum length of a subtask", low=0, high=1e9)
    throughput: float = setting(10.0, "minimum throughput of a resource", low=1e-9, high=1e9)

    def made(
        self, name: str, counts: list[int], joins: list[Pairs], rng: np.random.Generator
    ) -> Instance:
        """Return layers of *counts* subtasks; *joins* are the edges between adjacent layers."""
        tasks: list[WorkflowTask] = []
        machines: list[PlatformMachine] = []
        for i, count in enumerate(counts, 1):
            layer = f"T{i}"
            lengths = rng.uniform(1, self.rss, count) * self.length
            tasks += [
                WorkflowTask(f"{layer}.{j}", value, program=layer, tag=layer)
                for j, value in enumerate(lengths.tolist(), 1)
            ]
            resources = max(round(count / self.rsr), 1)
            speeds = rng.uniform(1, self.rrt, resources) * self.throughput
            machines += [
                PlatformMachine(f"R{i}.{j}", value, tags=frozenset([layer]))
                for j, value in enumerate(speeds.tolist(), 1)
            ]
        edges = [
            (f"T{i}.{a + 1}", f"T{i + 1}.{b + 1}")
            for i, (above, below) in enumerate(joins, 1)
            for a, b in zip(above.tolist(), below.tolist(), strict=True)
        ]
        return Instance(Workflow.of(name, tasks, edges), Platform(name, tuple(machines)))


def _check_size(name: str, counts: list[int], edges: float) -> list[int]:
    """Return *counts*; InputError if there are too many subtasks or *edges*."""
    if sum(counts) > MAX_SUBTASKS:
        raise InputError(f"{name}: {sum(counts):,} subtasks", hint=f"up to {MAX_SUBTASKS:,}")
    if edges > 2 * MAX_SUBTASKS:
        raise InputError(f"{name}: {edges:,.0f} dependencies", hint=f"up to {2 * MAX_SUBTASKS:,}")
    return counts


@dataclass(frozen=True)
class RandomSweep(SweepSettings):
    """Random layers of a parameter sweep, as in section IV-B, with a fixed total of subtasks."""

    pst: int = setting(5, "#PST: layers", low=1, high=1000)
    adps: float = setting(2.0, "ADPS: mean number of predecessors of a subtask", low=1, high=1000)
    total: int = setting(512, "subtasks in all layers", low=1, high=MAX_SUBTASKS)

    def count(self) -> int:
        return self.total

    def instance(self, seed: int) -> Instance:
        rng = np.random.default_rng(seed)
        if self.total < self.pst:
            raise InputError(f"total={self.total} subtasks are too few for pst={self.pst} layers")
        # Layer sizes vary by a factor of three, and each layer has at least one subtask.
        weights = rng.uniform(0.5, 1.5, self.pst)
        bounds = np.round(np.cumsum(weights) / weights.sum() * (self.total - self.pst)).astype(int)
        counts = (1 + np.diff(bounds, prepend=0)).tolist()
        _check_size("sweep", counts, self.adps * self.total)
        return self.made("sweep", counts, self._joins(rng, counts), rng)

    def _joins(self, rng: np.random.Generator, counts: list[int]) -> list[Pairs]:
        """Join each subtask to one of the layer above, and some to more: ADPS on average."""
        below = np.array(counts[1:], np.int64)
        capacity = np.array(counts[:-1], np.int64) * below
        edges = round(self.adps * int(below.sum()))
        if edges > capacity.sum():
            raise InputError(
                f"adps={self.adps:g}: a subtask has too few above it",
                hint=f"up to {capacity.sum() / max(below.sum(), 1):.3g} with these layers",
            )
        extra = rng.multivariate_hypergeometric(capacity - below, edges - int(below.sum()))
        return [
            _random_joins(rng, above, count, int(extra_edges))
            for above, count, extra_edges in zip(counts, counts[1:], extra, strict=False)
        ]


def _random_joins(rng: np.random.Generator, above: int, below: int, more: int) -> Pairs:
    """Return one random predecessor in *above* for each of *below*, and *more* further edges."""
    predecessor = rng.integers(0, above, below)
    used = np.arange(below, dtype=np.int64) * above + predecessor
    extra = np.sort(rng.choice(below * (above - 1), more, replace=False)) if more else used[:0]
    # The p-th unused edge is in row p // (above - 1); the used column of that row is skipped.
    row, column = np.divmod(extra, max(above - 1, 1))
    pairs = np.sort(np.concatenate([used, row * above + column + (column >= predecessor[row])]))
    return (pairs % above).astype(np.int32), (pairs // above).astype(np.int32)


@dataclass(frozen=True)
class Ptg(SweepSettings):
    """PTG: a parallel graph of chains, figure 10(a); Table II has 12 layers and RSR 6."""

    pst: int = setting(12, "#PST: layers", low=1, high=1000)
    width: int = setting(40, "subtasks in each layer", low=1, high=MAX_SUBTASKS)

    def count(self) -> int:
        return self.pst * self.width

    def instance(self, seed: int) -> Instance:
        subtasks = np.arange(self.width, dtype=np.int32)
        counts = _check_size("ptg", [self.width] * self.pst, 0)
        joins = [(subtasks, subtasks)] * (self.pst - 1)
        return self.made("ptg", counts, joins, np.random.default_rng(seed))


_TREES = (
    "parallel trees; branches - 1 trees have branches ** pst - 1 subtasks in all, as in the paper"
)
"""One tree has the layers of section IV-C, but its number of subtasks only if lambda is 2."""


@dataclass(frozen=True)
class Otg(SweepSettings):
    """OTG: an out-tree, figure 10(b); Table II: 10 layers with 2 branches, or 7 with 3."""

    pst: int = setting(10, "#PST: layers", low=1, high=20)
    branches: int = setting(2, "lambda: successors of each subtask", low=2, high=100)
    trees: int = setting(1, _TREES, low=1, high=1000)

    def count(self) -> int:
        return sum(_powers(self.trees, self.branches, self.pst))

    def instance(self, seed: int) -> Instance:
        counts = _check_size("otg", _powers(self.trees, self.branches, self.pst), 0)
        joins = [_out_tree(count, self.branches) for count in counts[:-1]]
        return self.made("otg", counts, joins, np.random.default_rng(seed))


@dataclass(frozen=True)
class Itg(SweepSettings):
    """ITG: an in-tree, figure 10(c); Table II: 10 layers with 2 branches, or 7 with 3."""

    pst: int = setting(10, "#PST: layers", low=1, high=20)
    branches: int = setting(2, "lambda: predecessors of each subtask", low=2, high=100)
    trees: int = setting(1, _TREES, low=1, high=1000)

    def count(self) -> int:
        return sum(_powers(self.trees, self.branches, self.pst))

    def instance(self, seed: int) -> Instance:
        counts = _check_size("itg", _powers(self.trees, self.branches, self.pst), 0)[::-1]
        joins = [_out_tree(count, self.branches)[::-1] for count in counts[1:]]
        return self.made("itg", counts, joins, np.random.default_rng(seed))


def _powers(first: int, base: int, count: int) -> list[int]:
    powers = [first]
    while len(powers) < count and sum(powers) <= MAX_SUBTASKS:
        powers.append(powers[-1] * base)
    return powers


def _out_tree(count: int, branches: int) -> Pairs:
    """Return the edges from each of *count* subtasks to *branches* successors of its own."""
    below = np.arange(count * branches, dtype=np.int32)
    return (below // branches).astype(np.int32), below


@dataclass(frozen=True)
class DensifiedOutTree(SweepSettings):
    """DOTG: a densified out-tree, figure 10(d); Table II: branches and step (3, 1) and (4, 2)."""

    pst: int = setting(5, "#PST: layers", low=1, high=100)
    branches: int = setting(3, "lambda: successors of each subtask", low=1, high=1000)
    step: int = setting(1, "delta: offset between the successors of neighbouring subtasks", low=1)
    narrow: int = setting(30, "subtasks in the smallest layer", low=1, high=MAX_SUBTASKS)

    def count(self) -> int:
        return sum(_dense_counts(self.narrow, self.branches, self.step, self.pst))

    def instance(self, seed: int) -> Instance:
        counts = self._counts("dotg")
        joins = [_dense_joins(count, self.branches, self.step) for count in counts[:-1]]
        return self.made("dotg", counts, joins, np.random.default_rng(seed))

    def _counts(self, name: str) -> list[int]:
        counts = _dense_counts(self.narrow, self.branches, self.step, self.pst)
        return _check_size(name, counts, sum(counts[:-1]) * self.branches)


@dataclass(frozen=True)
class DensifiedInTree(DensifiedOutTree):
    """DITG: a densified in-tree, figure 10(e); Table II: branches and step (3, 1) and (4, 2)."""

    def instance(self, seed: int) -> Instance:
        counts = self._counts("ditg")[::-1]
        joins = [_dense_joins(count, self.branches, self.step)[::-1] for count in counts[1:]]
        return self.made("ditg", counts, joins, np.random.default_rng(seed))


def _dense_counts(first: int, branches: int, step: int, count: int) -> list[int]:
    """Return the layer sizes N(T_i) = step (N(T_i-1) - 1) + branches."""
    counts = [first]
    while len(counts) < count and sum(counts) <= MAX_SUBTASKS:
        counts.append(step * (counts[-1] - 1) + branches)
    return counts


def _dense_joins(count: int, branches: int, step: int) -> Pairs:
    """Return the edges from each subtask k to *branches* successors, from number k * step on."""
    above = np.repeat(np.arange(count, dtype=np.int32), branches)
    below = above * step + np.tile(np.arange(branches, dtype=np.int32), count)
    order = np.lexsort((above, below))
    return above[order], below[order]


@dataclass(frozen=True)
class Ctg(SweepSettings):
    """CTG: out-trees and in-trees in turn, figure 10(f); Table II has 13 layers."""

    pst: int = setting(13, "#PST: layers", low=1, high=1000)
    first: int = setting(16, "subtasks in the first layer", low=1, high=MAX_SUBTASKS)
    inner: int = setting(3, "lambda of the inner trees", low=1, high=100)
    outer: int = setting(2, "lambda of the outer trees", low=1, high=100)

    def count(self) -> int:
        return sum(self._counts())

    def instance(self, seed: int) -> Instance:
        counts = _check_size("ctg", self._counts(), 0)
        joins = [
            _out_tree(above, below // above)
            if below >= above
            else _out_tree(below, above // below)[::-1]
            for above, below in itertools.pairwise(counts)
        ]
        return self.made("ctg", counts, joins, np.random.default_rng(seed))

    def _counts(self) -> list[int]:
        turns = (self.outer, self.inner, -self.inner, -self.outer)
        counts = [self.first]
        while len(counts) < self.pst and sum(counts) <= MAX_SUBTASKS:
            turn = turns[(len(counts) - 1) % 4]
            counts.append(counts[-1] * turn if turn > 0 else counts[-1] // -turn)
        return counts


TaskRow = tuple[str, float, tuple[str, ...]]
"""A task, its seconds, and its predecessors."""


@dataclass(frozen=True)
class _BioinformaticsWorkflow:
    spread: float = setting(0.0, "relative spread of durations", low=0, high=0.9)

    def made(self, name: str, rows: list[TaskRow], seed: int) -> Instance:
        factors = np.random.default_rng(seed).uniform(1 - self.spread, 1 + self.spread, len(rows))
        tasks = [
            WorkflowTask(task, float(seconds * factor), program=task.rstrip("0123456789"))
            for (task, seconds, _), factor in zip(rows, factors, strict=True)
        ]
        edges = [
            (predecessor, task) for task, _, predecessors in rows for predecessor in predecessors
        ]
        return Instance(Workflow.of(name, tasks, edges), identical(4))


@dataclass(frozen=True)
class MaxDo(_BioinformaticsWorkflow):
    """MAXDo: docking of two proteins in four parts, 6 tasks in a diamond, 80 s of work."""

    def count(self) -> int:
        return 6

    def instance(self, seed: int) -> Instance:
        docks = [f"dock{i}" for i in range(1, 5)]
        rows: list[TaskRow] = [("prepare", 5, ())]
        rows += [(dock, 15 if dock == "dock4" else 16, ("prepare",)) for dock in docks]
        return self.made("maxdo", [*rows, ("collect", 12, tuple(docks))], seed)


@dataclass(frozen=True)
class PipeAlign(_BioinformaticsWorkflow):
    """PipeAlign: alignment of proteins, 9 tasks nearly in a row, 125 s of work."""

    def count(self) -> int:
        return 9

    def instance(self, seed: int) -> Instance:
        rows: list[TaskRow] = [
            ("ballast", 30, ()),
            ("blastpdb", 13, ()),
            ("dbclustal", 20, ("ballast", "blastpdb")),
            ("rascal", 12, ("dbclustal",)),
            ("normd1", 8, ("dbclustal",)),
            ("normd2", 8, ("rascal",)),
            ("leon", 14, ("normd1", "normd2")),
            ("normd3", 8, ("leon",)),
            ("secator", 12, ("leon",)),
        ]
        return self.made("pipealign", rows, seed)


@dataclass(frozen=True)
class Gee(_BioinformaticsWorkflow):
    """GEE: evolution of gene expression, 17 tasks in two forks and joins, 200 s of work."""

    def count(self) -> int:
        return 17

    def instance(self, seed: int) -> Instance:
        maps = tuple(f"map{i}" for i in range(1, 8))
        families = tuple(f"family{i}" for i in range(1, 9))
        rows: list[TaskRow] = [(name, 7, ()) for name in maps]
        rows.append(("integrate", 40, maps))
        rows += [(name, 7, ("integrate",)) for name in families]
        return self.made("gee", [*rows, ("select", 55, families)], seed)
