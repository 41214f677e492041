"""An evolutionary search of placements for any metric of plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zenturio.schedule.model.evaluation import evaluate, topological_orders
from zenturio.schedule.model.metrics import MetricCalculator, metric
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Indices
from zenturio.schedule.static.list_scheduling import mean_delays, mean_times, upward_ranks

Ints = NDArray[np.int64]
_COPY_SHARE = 0.5
"""Share of mutations that copy another group's processor: many metrics favour few processors."""


@dataclass(frozen=True)
class MetricSearch:
    """A search for the plan with the best *objective*; among equals, for the shortest."""

    problem: Problem
    objective: str
    population: int
    seed: int

    def plan(
        self,
        starts: Sequence[tuple[NDArray[np.uint32], Indices]],
        ended: Callable[[int], str | None],
        algorithm: str,
    ) -> Plan:
        """Return the best plan of a search that begins with *starts*: orders and processors.

        *ended* says for a number of evaluations why the search is over, or None.
        """
        rng = np.random.default_rng(self.seed)
        groups = PlacementGroups(self.problem)
        orders, placements = self._first(groups, starts, rng)
        losses, makespans = self._evaluated(groups, orders, placements)
        evaluations, last = len(placements), len(placements)
        while (reason := ended(evaluations)) is None:
            parents = self._parents(losses, makespans, rng)
            # A child has the order of its first parent.
            child_orders = orders[parents[0]]
            children = groups.children(placements, parents, rng)
            child_losses, child_makespans = self._evaluated(groups, child_orders, children)
            evaluations += len(children)
            best = losses.min()
            # Parents and children compete for the places of the next generation, so that the best
            # plan is never lost.
            losses = np.concatenate([losses, child_losses])
            makespans = np.concatenate([makespans, child_makespans])
            survivors = np.lexsort((makespans, losses))[: self.population]
            losses, makespans = losses[survivors], makespans[survivors]
            orders = np.concatenate([orders, child_orders])[survivors]
            placements = np.concatenate([placements, children])[survivors]
            last = evaluations if losses[0] < best else last
        best_row = np.lexsort((makespans, losses))[0]
        notes: dict[str, Any] = {
            "objective": self.objective,
            "evaluations": evaluations,
            "found": last,
            "ended": reason,
        }
        processors = placements[best_row][groups.of_task]
        return evaluate(self.problem, processors, orders[best_row], algorithm, notes)

    def _first(
        self,
        groups: PlacementGroups,
        starts: Sequence[tuple[NDArray[np.uint32], Indices]],
        rng: np.random.Generator,
    ) -> tuple[Ints, Ints]:
        """Return the first orders and placements: *starts*, the cheapest one, and random ones."""
        rank = upward_ranks(self.problem, mean_times(self.problem), mean_delays(self.problem))
        order = topological_orders(self.problem, -rank).astype(np.int64)
        orders = np.tile(order, (self.population, 1))
        placements = groups.random(self.population, rng)
        placements[0] = groups.cheapest()
        for row, (start_order, processors) in enumerate(starts[: self.population - 1], 1):
            orders[row], placements[row] = start_order, processors[groups.first]
        return orders, placements

    def _evaluated(
        self, groups: PlacementGroups, orders: Ints, placements: Ints
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the losses and makespans; a loss is infinite where the metric is undefined."""
        values = groups.gauge.all(placements[:, groups.of_task], orders)
        sign = 1.0 if metric(self.objective).direction == "minimize" else -1.0
        losses = sign * values[self.objective]
        return np.where(np.isfinite(losses), losses, np.inf), values["makespan"]

    def _parents(
        self,
        losses: NDArray[np.float64],
        makespans: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> Ints:
        """Return two rows of parents, each the winner of a tournament of two."""
        rank = np.empty(len(losses), np.int64)
        rank[np.lexsort((makespans, losses))] = np.arange(len(losses))
        contestants = rng.integers(len(losses), size=(2, self.population, 2))
        winner = rank[contestants].argmin(axis=2)[..., None]
        parents: Ints = np.take_along_axis(contestants, winner, axis=2)[..., 0]
        return parents


class PlacementGroups:
    """The groups of tasks of a problem, and the processors that can run each."""

    def __init__(self, problem: Problem) -> None:
        self.gauge = MetricCalculator(problem)
        self.first, self.of_task = np.unique(problem.group, return_inverse=True)
        self._problem = problem
        self._fits = np.isfinite(problem.pace)[problem.row[self.first]]
        self._allowed = np.argsort(~self._fits, axis=1, kind="stable")
        self._sizes = self._fits.sum(axis=1)

    def random(self, rows: int, rng: np.random.Generator) -> Ints:
        """Return *rows* placements of each group on any processor that can run it."""
        picks = rng.integers(self._sizes, size=(rows, len(self.first)))
        placements: Ints = self._allowed[np.arange(len(self.first)), picks]
        return placements

    def cheapest(self) -> Ints:
        """Return the placement of least cost: each group where its core seconds cost least."""
        problem = self._problem
        core_work = problem.work.copy()
        for task, description in problem.workflow.more.items():
            core_work[task] *= description.cores
        seconds = np.zeros(self._fits.shape)
        pace = np.where(np.isfinite(problem.pace), problem.pace, 0.0)
        np.add.at(seconds, self.of_task, core_work[:, None] * pace[problem.row])
        price = np.array([machine.cost for machine in problem.platform.machines])[problem.node]
        # Among equal prices, the fastest.
        cost = np.where(self._fits, seconds * price, np.inf)
        ties = np.where(cost <= cost.min(axis=1, keepdims=True), seconds, np.inf)
        cheapest: Ints = ties.argmin(axis=1)
        return cheapest

    def children(self, placements: Ints, parents: Ints, rng: np.random.Generator) -> Ints:
        """Return a child of each pair of *parents*, by uniform crossover and mutation."""
        shape = (parents.shape[1], len(self.first))
        children = np.where(rng.random(shape) < 0.5, placements[parents[0]], placements[parents[1]])
        moved = rng.random(shape) < 1 / shape[1]
        copied = np.take_along_axis(children, rng.integers(shape[1], size=shape), axis=1)
        possible = self._fits[np.arange(shape[1]), copied] & (rng.random(shape) < _COPY_SHARE)
        mutated = np.where(possible, copied, self.random(shape[0], rng))
        mixed: Ints = np.where(moved, mutated, children)
        return mixed
