"""What is searched: for each problem sets of values, and what a choice of them costs.

A choice is a tuple with the number of a value for each set. All costs are to be minimised, and
all is made from fixed seeds, so that every library sees the same problems; nothing here imports
zenturio.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
import runpy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np

HERE = Path(__file__).parent
GEMM = HERE.parents[1] / "annotations" / "gemm" / "gemm.py"

Choice = tuple[int, ...]


@dataclass(frozen=True)
class Problem:
    """Sets of values, ordered if they are numbers, and the cost of a choice: None if invalid."""

    name: str
    about: str
    sets: dict[str, Sequence[float | str]]
    cost: Callable[[Choice], float | None]
    budget: int = 200
    constraints: tuple[str, ...] = ()
    when: tuple[tuple[str, str], ...] = ()
    """What makes a set matter: its name, and a condition."""

    @property
    def ordered(self) -> list[bool]:
        """Which sets hold numbers."""
        return [not isinstance(values[0], str) for values in self.sets.values()]

    @property
    def sizes(self) -> list[int]:
        """How many values each set has."""
        return [len(values) for values in self.sets.values()]


def layers() -> Problem:
    """Thirty tasks in six layers on eight machines, each of which suits other tasks."""
    rng = np.random.default_rng(11)
    tasks, machines = 30, 8
    times = rng.lognormal(3, 0.6, (tasks, 1)) * rng.lognormal(0, 0.5, (tasks, machines))
    parents = [
        sorted({int(p) for p in rng.integers((t // 5 - 1) * 5, t // 5 * 5, 3)}) if t >= 5 else []
        for t in range(tasks)
    ]
    sizes = rng.uniform(1, 15, (tasks, tasks))

    def cost(choice: Choice) -> float:
        free, ends = [0.0] * machines, [0.0] * tasks
        for task, machine in enumerate(choice):
            ready = free[machine]
            for parent in parents[task]:
                delay = 0.0 if choice[parent] == machine else sizes[parent, task]
                ready = max(ready, ends[parent] + delay)
            ends[task] = free[machine] = ready + times[task, machine]
        return float(max(ends))

    names = [f"m{i}" for i in range(machines)]
    sets = {f"task{i}": names for i in range(tasks)}
    return Problem("layers", "schedule: 30 tasks in layers, 8 unrelated machines", sets, cost)


def wien2k() -> Problem:
    """WIEN2k with eight k-points on twelve machines of three sites, partly busy."""
    rng = np.random.default_rng(2005)
    points = 8
    speeds = np.array([3.0] * 3 + [0.7] * 4 + [1.8] * 5) * rng.uniform(0.2, 1, 12)
    sites = [0] * 3 + [1] * 4 + [2] * 5
    work = [40.0] + [230.0] * points + [23.0] * points + [1.0]
    needs = [[]] + [[0]] * points + [[i] for i in range(1, points + 1)]
    needs += [list(range(points + 1, 2 * points + 1))]
    size = [2.0] + [77.0] * points + [1.0] * points

    def cost(choice: Choice) -> float:
        free, ends = [0.0] * 12, []
        for task, machine in enumerate((*choice, choice[0])):
            ready = free[machine]
            for parent in needs[task]:
                where = choice[parent]
                rate = 10.0 if sites[where] == sites[machine] else 1.0
                delay = 0.0 if where == machine else size[parent] / rate
                ready = max(ready, ends[parent] + delay)
            ends.append(ready + work[task] / speeds[machine])
            free[machine] = ends[-1]
        return float(max(ends))

    names = [f"host{i}" for i in range(12)]
    sets = {f"task{i}": names for i in range(2 * points + 1)}
    return Problem("wien2k", "schedule: WIEN2k, 17 tasks, 12 machines of 3 sites", sets, cost)


def gemm() -> Problem:
    """The annotated program annotations/gemm: one combination in 13 is possible."""
    with contextlib.redirect_stdout(io.StringIO()), mock.patch("sys.argv", ["gemm.py"]):
        predict = runpy.run_path(str(GEMM))["predict"]
    sets: dict[str, Sequence[float | str]] = {
        "MWG": [16, 32, 64, 128], "NWG": [16, 32, 64, 128], "KWG": [16, 32],
        "MDIMC": [8, 16, 32], "NDIMC": [8, 16, 32], "MDIMA": [8, 16, 32], "NDIMB": [8, 16, 32],
        "VWM": [1, 2, 4, 8], "VWN": [1, 2, 4, 8], "SA": [0, 1], "SB": [0, 1],
    }  # fmt: skip

    def cost(choice: Choice) -> float | None:
        v = {name: sets[name][at] for name, at in zip(sets, choice, strict=True)}
        threads = v["MDIMC"] * v["NDIMC"]
        local = 4 * v["KWG"] * (v["SA"] * v["MWG"] + v["SB"] * v["NWG"])
        valid = (
            v["MWG"] % (v["MDIMC"] * v["VWM"]) == v["NWG"] % (v["NDIMC"] * v["VWN"]) == 0
            and v["MWG"] % (v["MDIMA"] * v["VWM"]) == v["NWG"] % (v["NDIMB"] * v["VWN"]) == 0
            and threads // v["MDIMA"] > 0
            and threads // v["NDIMB"] > 0
            and v["KWG"] % (threads // v["MDIMA"]) == v["KWG"] % (threads // v["NDIMB"]) == 0
            and 64 <= threads <= 512
            and local <= 16384
            and (v["SA"] == 1 or v["MDIMA"] == v["MDIMC"])
            and (v["SB"] == 1 or v["NDIMB"] == v["NDIMC"])
        )
        return -predict(**v)[0] if valid else None

    return Problem("gemm", "annotations/gemm: 12,288 of 165,888 combinations", sets, cost, 100)


def sorting() -> Problem:
    """The annotated program annotations/sorting, measured: parameters that matter under WHEN."""
    with (HERE / "sorting.csv").open() as file:
        rows = {tuple(row[:4]): float(row[4]) for row in list(csv.reader(file))[1:]}
    kinds = ["quick", "shell", "radix"]
    sets: dict[str, Sequence[float | str]] = {"algorithm": kinds}
    for at, name in ((1, "cutoff"), (2, "ratio"), (3, "bits")):
        sets[name] = sorted({float(row[at]) for row in rows if row[at]})
    times = {
        (row[0], float(next(value for value in row[1:] if value))): us for row, us in rows.items()
    }

    def cost(choice: Choice) -> float:
        kind = kinds[choice[0]]
        name = ("cutoff", "ratio", "bits")[choice[0]]
        return times[kind, float(sets[name][choice[1 + choice[0]]])]

    when = tuple(
        (name, f"algorithm == '{kind}'")
        for name, kind in zip(("cutoff", "ratio", "bits"), kinds, strict=True)
    )
    about = "annotations/sorting, measured: 416 points, parameters under WHEN"
    return Problem("sorting", about, sets, cost, 30, when=when)


def rotation(rng: np.random.Generator, size: int) -> np.ndarray:
    """A rotation by chance."""
    found: np.ndarray = np.linalg.qr(rng.normal(size=(size, size)))[0]
    return found


def rugged() -> Problem:
    """Rastrigin's function in five dimensions, turned and moved: some 10^5 local minima."""
    rng = np.random.default_rng(7)
    turn, middle = rotation(rng, 5), rng.uniform(-2.5, 2.5, 5)
    values = np.linspace(-5.12, 5.12, 257)

    def cost(choice: Choice) -> float:
        x = turn @ (values[list(choice)] - middle)
        return float(10 * len(x) + (x * x - 10 * np.cos(2 * math.pi * x)).sum())

    sets = {f"x{i}": range(257) for i in range(5)}
    return Problem("rugged", "rugged: Rastrigin, turned, 5 x 257 values", sets, cost)


def nk() -> Problem:
    """Kauffman's NK landscape: what a gene is worth depends on it and on four others."""
    rng = np.random.default_rng(3)
    genes, others, kinds = 20, 4, 3
    tables = rng.random((genes, kinds ** (others + 1)))
    partners = [
        [i, *rng.choice([j for j in range(genes) if j != i], others, replace=False)]
        for i in range(genes)
    ]
    powers = kinds ** np.arange(others + 1)

    def cost(choice: Choice) -> float:
        at = np.array(choice)
        return float(np.mean([tables[i, at[partners[i]] @ powers] for i in range(genes)]))

    sets = {f"g{i}": ["a", "b", "c"] for i in range(genes)}
    return Problem("nk", "rugged: Kauffman's NK, 20 unordered genes of 3 values, K=4", sets, cost)


def smooth() -> Problem:
    """A long valley, turned: an ellipsoid whose axes are 1 to 10."""
    rng = np.random.default_rng(5)
    turn, middle = rotation(rng, 6), rng.uniform(20, 80, 6)
    axes = np.logspace(0, 2, 6)

    def cost(choice: Choice) -> float:
        x = turn @ (np.array(choice) - middle)
        return float((axes * x * x).sum())

    sets = {f"x{i}": range(101) for i in range(6)}
    return Problem("smooth", "ordered and smooth: a turned ellipsoid, 6 x 101 values", sets, cost)


def mixed() -> Problem:
    """Settings of a program: sizes that have a best value, which flags and kinds move."""
    rng = np.random.default_rng(9)
    kinds = ["a", "b", "c", "d"]
    moves = rng.uniform(-12, 12, (3, 4, 4))
    worth = rng.uniform(0, 30, (3, 4))
    middle = rng.uniform(20, 44, 4)

    def cost(choice: Choice) -> float:
        best = middle + sum(moves[at, kind] for at, kind in enumerate(choice[:3]))
        away = np.array(choice[3:]) - best
        price = sum(worth[at, kind] for at, kind in enumerate(choice[:3]))
        return float(100 + price + np.abs(away).sum() + 5 * abs(math.sin(away[0] * away[1] / 40)))

    sets: dict[str, Sequence[float | str]] = {f"kind{i}": kinds for i in range(3)}
    sets |= {f"size{i}": range(64) for i in range(4)}
    return Problem("mixed", "3 kinds of 4 values that move the best of 4 sizes", sets, cost, 100)


PROBLEMS = {
    make.__name__: make for make in (layers, wien2k, gemm, sorting, rugged, nk, smooth, mixed)
}
