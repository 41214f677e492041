"""Tuning tables of kernels: recorded ones where they are, else analytic models of two machines.

Recorded tables are ``spaces.json`` and NAME.csv.gz in ``$DATA/tuning``. The models are part of the
project, so that a clone alone can run the benchmarks: tiles of a matrix product, with occupancy,
cliffs, settings that cannot run, and a fixed noise for each setting.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import os
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import zenturio as zen

DATA = Path(os.environ.get("DATA", "/work/shared/data")) / "tuning"
DEVELOPED = ("convolution-A4000", "dedispersion-A100", "pnpoly-RTX_2080_Ti", "tiles-small")
"""Tables that constants were chosen on; named before anything was measured on the others."""
REPORTED = ("convolution-MI250X", "dedispersion-A6000", "gemm-RTX_2080_Ti", "tiles-large")


@dataclass(frozen=True)
class Kernel:
    """A space of settings, and the milliseconds of each one that runs."""

    name: str
    space: zen.Space
    times: dict[tuple[Any, ...], float]

    def cost(self, point: zen.Point) -> float | None:
        """Return the time of *point*; None if it cannot run."""
        return self.times.get(tuple(point.values()))

    @property
    def best(self) -> float:
        return min(self.times.values())


def names(half: tuple[str, ...]) -> list[str]:
    """Return the tables of *half* that are there."""
    return [n for n in half if n.startswith("tiles-") or (DATA / f"{n}.csv.gz").exists()]


@cache
def kernel(name: str) -> Kernel:
    """Return the table *name*."""
    if name.startswith("tiles-"):
        return _modelled(name)
    facts: dict[str, Any] = json.loads((DATA / "spaces.json").read_text())[name]
    with gzip.open(DATA / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
        rows = csv.reader(file)
        next(rows)
        times = {tuple(map(int, row[:-1])): float(row[-1]) for row in rows if row[-1]}
    space = zen.Space(constraints=facts["constraints"], **facts["parameters"])
    return Kernel(name, space, times)


def _modelled(name: str) -> Kernel:
    """Return the model of a product of matrices on a machine with so many cores and registers."""
    cores, registers, shared = (24, 128, 48) if name == "tiles-small" else (80, 255, 96)
    space = zen.Space(
        constraints=["32 <= x * y", "x * y <= 1024", "tile_x * tile_y <= 64"],
        x=[1, 2, 4, 8, 16, 32, 64, 128],
        y=[1, 2, 4, 8, 16, 32],
        tile_x=[1, 2, 4, 8],
        tile_y=[1, 2, 4, 8, 16],
        unroll=[1, 2, 4, 8],
        staged=[0, 1],
    )
    times = {}
    for point in space:
        x, y, tile_x, tile_y, unroll, staged = point.values()
        used = 12 + 2 * tile_x * tile_y + 3 * unroll
        kilobytes = staged * 4 * 32 * (x * tile_x + y * tile_y) / 1024
        if kilobytes > shared:
            continue  # too much shared memory: it cannot run
        groups = min(1024 // (x * y), registers * 512 // (used * x * y), 16)
        groups = min(groups, int(shared // kilobytes)) if kilobytes else groups
        busy = min(groups * x * y / 1024, 1.0) if groups else 0.02  # registers are spilled
        blocks = math.ceil(2048 / (x * tile_x)) * math.ceil(2048 / (y * tile_y))
        waves = math.ceil(blocks / (cores * max(groups, 1)))
        work = x * y * tile_x * tile_y * (1 + 0.6 / unroll) * (1 + 0.3 * (x % 32 != 0))
        traffic = (1 / tile_x + 1 / tile_y) * (0.5 if staged else 2.0)
        noise = random.Random(f"{name}{tuple(point.values())}").lognormvariate(0, 0.03)
        times[tuple(point.values())] = waves * work * (1 + traffic) / (0.2 + busy) * 1e-4 * noise
    return Kernel(name, space, times)
