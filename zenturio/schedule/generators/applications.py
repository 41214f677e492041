"""Recipes of real applications: their stages, with round times and sizes of our own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from zenturio.errors import unknown_name
from zenturio.schedule.model.platform import identical
from zenturio.schedule.model.problem import Instance
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.settings.schema import setting

ALL, SAME, NEXT = "all", "same", "next"
"""Which tasks of a former stage a task reads: all; that of its number; that and the next one."""


@dataclass(frozen=True)
class _Stage:
    """The tasks of one program."""

    program: str
    is_wide: bool
    """One task for each input; otherwise one task."""
    seconds: float
    output: float
    """Megabytes that a task writes for each task that reads them."""
    reads: tuple[tuple[str, str], ...] = ()
    """Programs of former stages, each with ALL, SAME or NEXT."""


def _one(program: str, seconds: float, output: float, **reads: str) -> _Stage:
    return _Stage(program, False, seconds, output, tuple(reads.items()))


def _wide(program: str, seconds: float, output: float, **reads: str) -> _Stage:
    return _Stage(program, True, seconds, output, tuple(reads.items()))


# The graphs follow the published descriptions of the applications (WfCommons, Pegasus, Makeflow).
_RECIPES = {
    "blast": (
        _one("split", 5, 1),
        _wide("search", 120, 2, split=ALL),
        _one("collect", 4, 5, search=ALL),
        _one("errors", 2, 0, search=ALL),
    ),
    "cycles": (
        _wide("baseline", 20, 4),
        _wide("simulate", 25, 4, baseline=SAME),
        _wide("fertilize", 25, 4, baseline=SAME, simulate=SAME),
        _wide("parse", 3, 1, simulate=SAME, fertilize=SAME),
        _one("summary", 10, 1, parse=ALL),
        _one("plots", 30, 1, summary=ALL),
    ),
    "epigenomics": (
        _one("split", 35, 60),
        _wide("filter", 60, 40, split=ALL),
        _wide("convert", 15, 30, filter=SAME),
        _wide("pack", 12, 8, convert=SAME),
        _wide("align", 200, 6, pack=SAME),
        _one("merge", 40, 90, align=ALL),
        _one("index", 45, 90, merge=ALL),
        _one("pileup", 60, 20, index=ALL),
    ),
    "genomes": (
        _wide("individuals", 90, 15),
        _one("merge", 60, 30, individuals=ALL),
        _one("sifting", 20, 1),
        _wide("overlap", 40, 1, merge=ALL, sifting=ALL),
        _wide("frequency", 110, 1, merge=ALL, sifting=ALL),
    ),
    "montage": (
        _wide("project", 12, 8),
        _wide("difference", 4, 1, project=NEXT),
        _one("fit", 6, 1, difference=ALL),
        _one("model", 25, 1, fit=ALL),
        _wide("background", 3, 8, project=SAME, model=ALL),
        _one("table", 5, 1, background=ALL),
        _one("add", 30, 160, background=ALL, table=ALL),
        _one("view", 10, 5, add=ALL),
    ),
    "seismology": (
        _wide("deconvolve", 15, 1),
        _one("sift", 8, 1, deconvolve=ALL),
    ),
    "soykb": (
        _wide("align", 180, 90),
        _wide("sort", 60, 90, align=SAME),
        _wide("mark", 70, 80, sort=SAME),
        _wide("realign", 150, 80, mark=SAME),
        _wide("call", 160, 20, realign=SAME),
        _one("genotype", 120, 40, call=ALL),
        _one("variants", 15, 5, genotype=ALL),
        _one("deletions", 15, 5, genotype=ALL),
        _one("filter", 10, 1, variants=ALL, deletions=ALL),
    ),
    "srasearch": (
        _one("build", 6, 10),
        _wide("dump", 150, 700),
        _wide("align", 90, 30, build=ALL, dump=SAME),
        _one("merge", 10, 1, align=ALL),
    ),
}


@dataclass(frozen=True)
class Application:
    """A real application by name, such as montage, blast or epigenomics, of any width.

    The stages and what they read are those of the application; the mean times and sizes are round
    numbers in the proportion of published ones.
    """

    name: str = setting("montage", f"one of {', '.join(_RECIPES)}")
    inputs: int = setting(10, "inputs, one for each task of a wide stage", low=1, high=1_000_000)
    spread: float = setting(0.4, "relative spread of times and sizes", low=0, high=0.9)
    machines: int = setting(8, "machines", low=1, high=100_000)

    def count(self) -> int:
        return sum(self.inputs if stage.is_wide else 1 for stage in self._stages())

    def instance(self, seed: int) -> Instance:
        rng = np.random.default_rng(seed)
        stages = {stage.program: stage for stage in self._stages()}
        tasks: list[WorkflowTask] = []
        edges: list[tuple[str, str, float]] = []
        for stage in stages.values():
            numbers = self._numbers(stage)
            for number, factor in zip(numbers, self._factors(rng, len(numbers)), strict=True):
                task = _task_name(stage, number)
                seconds = round(stage.seconds * factor, 3)
                tasks.append(WorkflowTask(task, seconds, program=stage.program))
                edges += [
                    (source, task, size) for source, size in self._inputs(stage, number, stages)
                ]
        factors = self._factors(rng, len(edges))
        edges = [
            (source, target, float(round(megabytes * 1e6 * factor)))
            for (source, target, megabytes), factor in zip(edges, factors, strict=True)
        ]
        flow = Workflow.of(f"{self.name}-{self.inputs}", tasks, edges)
        return Instance(flow, identical(self.machines))

    def _stages(self) -> tuple[_Stage, ...]:
        if self.name not in _RECIPES:
            raise unknown_name("application", self.name, _RECIPES)
        return _RECIPES[self.name]

    def _numbers(self, stage: _Stage) -> range:
        return range(1, self.inputs + 1) if stage.is_wide else range(1, 2)

    def _factors(self, rng: np.random.Generator, count: int) -> list[float]:
        factors: list[float] = rng.uniform(1 - self.spread, 1 + self.spread, count).tolist()
        return factors

    def _inputs(
        self, stage: _Stage, number: int, stages: dict[str, _Stage]
    ) -> Iterator[tuple[str, float]]:
        """Yield the tasks that task *number* of *stage* reads, with the megabytes."""
        for program, join in stage.reads:
            former = stages[program]
            numbers = self._numbers(former)
            if join != ALL:
                # The last task has no neighbour: it reads its own input alone.
                numbers = range(number, min(number + (join == NEXT), self.inputs) + 1)
            for source in numbers:
                yield _task_name(former, source), former.output


def _task_name(stage: _Stage, number: int) -> str:
    return f"{stage.program}_{number}" if stage.is_wide else stage.program
