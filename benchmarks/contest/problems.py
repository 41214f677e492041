"""What is searched: for each problem sets of values, and what a choice of them costs.

A choice is a tuple with the number of a value for each set; a real parameter is a set of a million
values. All costs are to be minimised, and all is made from fixed seeds, so that every library sees
the same problems; nothing here imports zenturio.

Tables of recorded kernels are in ``$DATA/tuning`` (``spaces.json`` and NAME.csv.gz); those that
are not there are left out. ``tiles-small`` and ``tiles-large`` are analytic models of kernels, for
which a clone alone is enough.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import itertools
import json
import math
import os
import random
import runpy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

HERE = Path(__file__).parent
GEMM = HERE.parents[1] / "annotations" / "gemm" / "gemm.py"

DATA = Path(os.environ.get("DATA", "/work/shared/data")) / "tuning"
REAL = range(2**20 + 1)
"""The values of a real parameter: steps of a millionth of its range."""
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
    active: Callable[[Choice], Choice] | None = None
    """Of a choice what matters in it, where not all does."""
    noise: float = 0.0
    """The standard deviation of the logarithm of what is told of a cost."""

    def told(self, cost: float | None, draw: random.Random) -> float | None:
        """Return what a measurement says of *cost*."""
        if not self.noise or cost is None:
            return cost
        return cost * draw.lognormvariate(0, self.noise)

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
    return Problem(
        "sorting", about, sets, cost, 30, when=when,
        active=lambda choice: (choice[0], choice[1 + choice[0]]),
    )  # fmt: skip


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


def function(kind: str, size: int) -> Problem:
    """A function of *size* reals like those of BBOB (not BBOB): moved, and turned where it says."""
    rng = np.random.default_rng([ord(letter) for letter in kind] + [size])
    turn, middle = rotation(rng, size), rng.uniform(-3, 3, size)
    peaks = rng.uniform(-4, 4, (21, size))
    heights = np.append(10.0, rng.uniform(1.1, 9.1, 20))
    widths = np.append(1.0, rng.uniform(0.3, 3.0, 20))
    scale = np.logspace(0, 6, size)
    powers = np.linspace(2, 6, size)

    def cost(choice: Choice) -> float:
        x = np.array(choice) / (len(REAL) - 1) * 10 - 5
        z = x - middle
        match kind:
            case "sphere":
                return float(z @ z)
            case "ellipsoid":
                return float(scale @ (turn @ z) ** 2)
            case "rosenbrock":
                y = z + 1
                return float((100 * (y[:-1] ** 2 - y[1:]) ** 2 + (y[:-1] - 1) ** 2).sum())
            case "rastrigin":
                return float(10 * size + (z * z - 10 * np.cos(2 * math.pi * z)).sum())
            case "powers":
                return float((np.abs(turn @ z) ** powers).sum())
        squares = ((x - peaks) ** 2).sum(axis=1)
        if kind == "holes":  # Shekel's: of unequal depth and width
            return float(30 - (1 / (0.5 / heights + squares / size)).sum())
        return float(10 - (heights * np.exp(-widths * squares / (2 * size))).max())

    sets = {f"x{i}": REAL for i in range(size)}
    return Problem(f"{kind}{size}", f"{kind} of {size} reals", sets, cost)


def algorithms() -> Problem:
    """Three algorithms with four sizes of their own each."""
    rng = np.random.default_rng(31)
    middle, worth = rng.uniform(10, 54, (3, 4)), (0.4, 0.0, 0.2)
    kinds = ["a", "b", "c"]
    sets: dict[str, Sequence[float | str]] = {"kind": kinds}
    sets |= {f"{kind}{i}": range(64) for kind in kinds for i in range(4)}

    def active(choice: Choice) -> Choice:
        return (choice[0], *choice[1 + 4 * choice[0] : 5 + 4 * choice[0]])

    def cost(choice: Choice) -> float:
        kind, *sizes = active(choice)
        return float(worth[kind] + (((np.array(sizes) - middle[kind]) / 64) ** 2).sum() * 4)

    when = tuple((f"{kind}{i}", f"kind == '{kind}'") for kind in kinds for i in range(4))
    return Problem("algorithms", algorithms.__doc__ or "", sets, cost, when=when, active=active)


def network() -> Problem:
    """One to four layers, each with a width and a real rate of its own."""
    rng = np.random.default_rng(41)
    widths, rates = rng.uniform(8, 56, 4), rng.uniform(0.2, 0.8, 4)
    sets: dict[str, Sequence[float | str]] = {"layers": [1, 2, 3, 4]}
    for i in range(4):
        sets |= {f"width{i}": range(64), f"rate{i}": REAL}

    def active(choice: Choice) -> Choice:
        return choice[: 3 + 2 * choice[0]]

    def cost(choice: Choice) -> float:
        layers, *rest = active(choice)
        found = np.array(rest, dtype=float).reshape(-1, 2)
        away = ((found[:, 0] - widths[: layers + 1]) / 64) ** 2
        away += 4 * (found[:, 1] / (len(REAL) - 1) - rates[: layers + 1]) ** 2
        return float((0.9, 0.5, 0.1, 0.3)[layers] + away.sum())

    when = tuple((f"{n}{i}", f"layers > {i}") for i in range(1, 4) for n in ("width", "rate"))
    return Problem("network", network.__doc__ or "", sets, cost, when=when, active=active)


@cache
def _recorded(name: str) -> tuple[dict[str, Any], dict[tuple[float, ...], float]]:
    facts: dict[str, Any] = json.loads((DATA / "spaces.json").read_text())[name]
    with gzip.open(DATA / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
        rows = csv.reader(file)
        next(rows)
        return facts, {tuple(map(float, row[:-1])): float(row[-1]) for row in rows if row[-1]}


def kernel(name: str) -> Problem:
    """A recorded table: the milliseconds of each setting; what did not run is invalid."""
    facts, times = _recorded(name)
    sets = facts["parameters"]

    def cost(choice: Choice) -> float | None:
        return times.get(
            tuple(float(values[at]) for values, at in zip(sets.values(), choice, strict=True))
        )

    return Problem(name, f"recorded: {name}", sets, cost, constraints=tuple(facts["constraints"]))


def tiles(name: str) -> Problem:
    """A model of a matrix product: tiles, occupancy, cliffs, settings that cannot run, noise."""
    cores, registers, shared = (24, 128, 48) if name == "tiles-small" else (80, 255, 96)
    sets: dict[str, Sequence[float | str]] = {
        "x": [1, 2, 4, 8, 16, 32, 64, 128], "y": [1, 2, 4, 8, 16, 32], "tile_x": [1, 2, 4, 8],
        "tile_y": [1, 2, 4, 8, 16], "unroll": [1, 2, 4, 8], "staged": [0, 1],
    }  # fmt: skip

    def cost(choice: Choice) -> float | None:
        chosen = [float(values[at]) for values, at in zip(sets.values(), choice, strict=True)]
        x, y, tile_x, tile_y, unroll, staged = chosen
        used = 12 + 2 * tile_x * tile_y + 3 * unroll
        kilobytes = staged * 4 * 32 * (x * tile_x + y * tile_y) / 1024
        if kilobytes > shared or not 32 <= x * y <= 1024 or tile_x * tile_y > 64:
            return None
        groups = min(1024 // (x * y), registers * 512 // (used * x * y), 16)
        groups = min(groups, shared // kilobytes) if kilobytes else groups
        busy = min(groups * x * y / 1024, 1.0) if groups else 0.02  # registers are spilled
        blocks = math.ceil(2048 / (x * tile_x)) * math.ceil(2048 / (y * tile_y))
        waves = math.ceil(blocks / (cores * max(groups, 1)))
        work = x * y * tile_x * tile_y * (1 + 0.6 / unroll) * (1 + 0.3 * (x % 32 != 0))
        traffic = (1 / tile_x + 1 / tile_y) * (0.5 if staged else 2.0)
        noise = random.Random(f"{name}{choice}").lognormvariate(0, 0.03)
        return waves * work * (1 + traffic) / (0.2 + busy) * 1e-4 * noise

    constraints = ("32 <= x * y", "x * y <= 1024", "tile_x * tile_y <= 64")
    return Problem(name, f"model: {name}", sets, cost, constraints=constraints)


def lowest(problem: Problem) -> float:
    """Return the lowest cost of a small *problem*."""
    choices = itertools.product(*map(range, problem.sizes))
    return min(cost for choice in choices if (cost := problem.cost(choice)) is not None)


def noisy(make: Callable[[], Problem], noise: float) -> Problem:
    """Return the same problem, of which measurements deviate."""
    problem = make()
    return replace(problem, name=f"{problem.name}~{noise:.0%}", noise=noise)


def _named() -> tuple[dict[str, Callable[[], Problem]], dict[str, Callable[[], Problem]]]:
    there = {path.name.removesuffix(".csv.gz") for path in DATA.glob("*.csv.gz")}
    tables: dict[str, Callable[[], Problem]] = {n: partial(kernel, n) for n in sorted(there)}
    tables |= {name: partial(tiles, name) for name in ("tiles-small", "tiles-large")}
    functions: dict[str, Callable[[], Problem]] = {
        f"{kind}{size}": partial(function, kind, size)
        for kind in ("sphere", "rosenbrock", "rastrigin", "ellipsoid", "peaks")
        for size in (2, 5, 20)
    }
    small = ("convolution-A4000", "dedispersion-A100", "pnpoly-RTX_2080_Ti", "tiles-small")
    developed: dict[str, Callable[[], Problem]] = {
        make.__name__: make
        for make in (layers, wien2k, gemm, sorting, rugged, nk, smooth, mixed, algorithms)
    }
    developed |= {name: tables[name] for name in small if name in tables}
    developed |= {n: make for n, make in functions.items() if n[:3] in {"sph", "ros", "ras"}}
    developed |= {"sphere5~10%": partial(noisy, functions["sphere5"], 0.1)}
    for kind, size in (("holes", 2), ("holes", 5), ("powers", 20)):
        developed[f"{kind}{size}"] = partial(function, kind, size)
    reported = {name: make for name, make in tables.items() if name not in small}
    reported |= {name: make for name, make in functions.items() if name not in developed}
    reported |= {"network": network}
    for name in ("ellipsoid5", *(name for name in tables if name not in small)):
        for noise in (0.1, 0.3):
            reported[f"{name}~{noise:.0%}"] = partial(noisy, reported[name], noise)
    return developed, reported


DEVELOPED, REPORTED = _named()
"""The halves: constants were chosen on the first one; what is claimed is measured on the other."""
PROBLEMS = {**DEVELOPED, **REPORTED}
