"""The three applications of Bolze, Desprez and Isnard, "Evaluation of Online Multi-Workflow
Heuristics based on List-Scheduling Algorithms".

The durations are whole seconds with which the number of tasks, the sum of the work and the time
with four machines are those of the paper's Table 1: MAXDo 80 and 33 s, PipeAlign 125 and 96 s, GEE
200 and 123 s. No transfer takes time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zenturio.schedule.formats.instance import Instance
from zenturio.schedule.platform import identical
from zenturio.schedule.stream import WorkflowStream, WorkflowSubmission
from zenturio.schedule.workflow import Workflow, WorkflowTask
from zenturio.search.settings import setting

TaskRow = tuple[str, float, tuple[str, ...]]
"""A task, its seconds, and what it waits for."""


@dataclass(frozen=True)
class _BioinformaticsWorkflow:
    spread: float = setting(0.0, "by which part durations differ", low=0, high=0.9)

    def made(self, name: str, rows: list[TaskRow], seed: int) -> Instance:
        factors = np.random.default_rng(seed).uniform(1 - self.spread, 1 + self.spread, len(rows))
        tasks = [
            WorkflowTask(task, float(seconds * factor), program=task.rstrip("0123456789"))
            for (task, seconds, _), factor in zip(rows, factors, strict=True)
        ]
        edges = [(before, task) for task, _, waits in rows for before in waits]
        return Instance(Workflow.of(name, tasks, edges), identical(4))


@dataclass(frozen=True)
class MaxDo(_BioinformaticsWorkflow):
    """MAXDo: docking of two proteins in four parts, 6 tasks in a diamond, 80 s of work."""

    def count(self) -> int:
        return 6

    def instance(self, seed: int) -> Instance:
        docks = [f"dock{i}" for i in range(1, 5)]
        rows: list[TaskRow] = [("prepare", 5, ())]
        rows += [(each, 15 if each == "dock4" else 16, ("prepare",)) for each in docks]
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
        rows: list[TaskRow] = [(each, 7, ()) for each in maps]
        rows.append(("integrate", 40, maps))
        rows += [(each, 7, ("integrate",)) for each in families]
        return self.made("gee", [*rows, ("select", 55, families)], seed)


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
