"""Islands: populations of a genetic search side by side, which exchange their best plans.

An island evolves where its runner puts it: in a thread of this process, or at a place, to which it
travels as arrays. Both give the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zenturio.system.machine import usable_cores

if TYPE_CHECKING:
    from zenturio.schedule.kernels.genetic import DecodingProblem

TASKS_PER_SLICE = 1_000_000
"""Tasks placed between two checks of the clock and for an interrupt."""
MAX_STEP_EVALUATIONS = 1 << 40
"""More than a step can make: at a microsecond each, they take 12 days."""
_STATE = ("orders", "genes", "scores", "random")
_COUNTS = ("evaluations", "children", "found")
_PARTS = ("forth", "back", "capacities")


@dataclass(frozen=True)
class EvolutionSettings:
    """What all islands of a search share."""

    tries: int
    mutation: float
    bound: float
    """A makespan at which the search ends."""


class Island:
    """A population that evolves by itself."""

    def __init__(
        self,
        case: DecodingProblem,
        orders: Any,
        genes: Any,
        settings: EvolutionSettings,
        seed: int,
    ) -> None:
        from zenturio.search.kernels.rng import stream  # noqa: PLC0415 - loads Numba

        self.case, self.settings = case, settings
        self._orders, self._genes, self._state = orders, genes, stream(seed)
        self._scores = np.empty((len(orders), 2))
        self.evaluations = 0
        self.children = 0
        self.found = 0
        """The evaluation that found the best plan; 0: one of the first."""
        self.is_cancelled = False

    @property
    def best(self) -> tuple[float, float]:
        """The makespan and the sum of ends of the best plan."""
        return tuple(self._scores[self._rank()[0]].tolist())

    def plan(self) -> tuple[Any, Any]:
        """Return the order and the genes of the best plan."""
        best = self._rank()[0]
        return self._orders[best], self._genes[best]

    def evolve(self, until: int, seconds: float = inf) -> float:
        """Go on to *until* evaluations, or for *seconds*; return the processor seconds it took.

        The first call only evaluates the first plans.
        """
        from zenturio.schedule.kernels.genetic import evolve_plans, improve_all  # noqa: PLC0415

        began, deadline = thread_time(), monotonic() + seconds
        if not self.evaluations:
            self.evaluations = int(
                improve_all(
                    self.case, self._orders, self._genes, self._scores, self.settings.tries,
                    self.settings.bound, self._state,
                )
            )  # fmt: skip
            return thread_time() - began
        # Compiled code cannot be interrupted: it returns after each slice.
        slice_evaluations = max(1, TASKS_PER_SLICE // max(self._orders.shape[1], 1))
        while (
            self.evaluations < until
            and self.best[0] > self.settings.bound
            and not self.is_cancelled
            and monotonic() < deadline
        ):
            self.evaluations, found, children = map(
                int,
                evolve_plans(
                    self.case, self._orders, self._genes, self._scores, self.settings.tries,
                    self.settings.mutation, self.settings.bound, self._state, self.evaluations,
                    min(until, self.evaluations + slice_evaluations),
                ),
            )  # fmt: skip
            self.found, self.children = found or self.found, self.children + children
        return thread_time() - began

    def receive(self, plan: tuple[Any, Any], score: tuple[float, float]) -> None:
        """Replace the worst plan by *plan*, unless that is worse or here already."""
        worst = self._rank()[-1]
        if score < tuple(self._scores[worst].tolist()) and not (self._scores == score).all(1).any():
            self._orders[worst], self._genes[worst] = plan
            self._scores[worst] = score

    def _rank(self) -> NDArray[Any]:
        ranks: NDArray[Any] = np.lexsort((self._scores[:, 1], self._scores[:, 0]))
        return ranks

    def state(self) -> dict[str, Any]:
        """Return what changes while it evolves, as arrays."""
        arrays = (self._orders, self._genes, self._scores, self._state)
        counts = {name: np.int64(getattr(self, name)) for name in _COUNTS}
        return dict(zip(_STATE, arrays, strict=True)) | counts

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from *state*; ValueError if this island cannot have come to it."""
        self._check(state)
        self._orders, self._genes, self._scores, self._state = (state[name] for name in _STATE)
        self.evaluations, self.children, self.found = (int(state[name]) for name in _COUNTS)

    def _check(self, state: Mapping[str, Any]) -> None:
        # Compiled code does not check array bounds, so nothing else may reach it.
        here = self.state()
        if not here.keys() <= state.keys() or any(
            np.shape(state[name]) != np.shape(value) or state[name].dtype != value.dtype
            for name, value in here.items()
        ):
            raise ValueError("its arrays are not those of this island")
        orders, genes = state["orders"], state["genes"]
        processors = self.case.forth.pace.shape[1]
        if (np.sort(orders, axis=1) != np.arange(orders.shape[1])).any():
            raise ValueError("an order of tasks is not a permutation")
        if not self._keep_dependencies(orders):
            raise ValueError("an order has a task before one that it depends on")
        if (genes < -1).any() or (genes >= processors).any():
            raise ValueError("a gene names no processor")
        if not self._can_run(genes):
            raise ValueError("a gene names a processor that cannot run its task")
        for name in _COUNTS:
            low = getattr(self, name)
            if not low <= state[name] <= low + MAX_STEP_EVALUATIONS:
                raise ValueError(f"{name} went from {low} to {state[name]}")
        # Before the first evaluation, scores are not set.
        scores = state["scores"]
        if state["evaluations"] and not (np.isfinite(scores) & (scores >= 0)).all():
            raise ValueError("a score is not a finite number from 0 up")

    def _keep_dependencies(self, orders: NDArray[np.uint32]) -> bool:
        """Return whether each of *orders*, which are permutations, is topological."""
        starts, sources = self.case.forth.start, self.case.forth.parent
        tasks = np.arange(orders.shape[1])
        targets = np.repeat(tasks, np.diff(starts.astype(np.int64)))
        position = np.empty_like(tasks)
        for order in orders:
            position[order] = tasks
            if (position[sources] >= position[targets]).any():
                return False
        return True

    def _can_run(self, genes: NDArray[np.int32]) -> bool:
        """Return whether each group that *genes* place can run on its processor."""
        groups = np.unique(self.case.group)
        fits, chosen = self.case.fits[self.case.forth.row[groups]], genes[:, groups]
        is_free = chosen < 0
        return bool((is_free | fits[np.arange(len(groups)), np.where(is_free, 0, chosen)]).all())


def case_as_arrays(case: DecodingProblem) -> dict[str, Any]:
    """Return *case* as arrays by name."""
    parts = {f"{part}.{n}": v for part in _PARTS for n, v in getattr(case, part)._asdict().items()}
    return parts | {name: value for name, value in case._asdict().items() if name not in _PARTS}


def case_from_arrays(arrays: Mapping[str, Any]) -> DecodingProblem:
    """Return the case that :func:`case_as_arrays` took apart."""
    from zenturio.schedule.kernels.capacities import CapacityArrays  # noqa: PLC0415 - loads Numba
    from zenturio.schedule.kernels.genetic import DecodingProblem  # noqa: PLC0415
    from zenturio.schedule.kernels.plan_times import ProblemArrays  # noqa: PLC0415

    kinds: dict[str, Any] = dict(
        zip(_PARTS, (ProblemArrays, ProblemArrays, CapacityArrays), strict=True)
    )
    values = {
        name: kinds[name](*(arrays[f"{name}.{field}"][()] for field in kinds[name]._fields))
        if name in kinds
        else arrays[name][()]
        for name in DecodingProblem._fields
    }
    return DecodingProblem(**values)


class IslandRunner(Protocol):
    """Lets islands evolve side by side; *slots* says how many at once."""

    slots: int

    def evolve(
        self, islands: Sequence[Island], until: Sequence[int], seconds: float
    ) -> list[float]:
        """Let each island evolve; return the processor seconds that each took."""
        ...


class ThreadRunner:
    """Islands in threads of this process."""

    def __init__(self) -> None:
        self.slots = usable_cores()

    def evolve(
        self, islands: Sequence[Island], until: Sequence[int], seconds: float
    ) -> list[float]:
        if len(islands) == 1:
            return [islands[0].evolve(until[0], seconds)]
        with ThreadPoolExecutor(min(len(islands), self.slots)) as pool:
            pairs = zip(islands, until, strict=True)
            futures = [pool.submit(island.evolve, end, seconds) for island, end in pairs]
            try:
                return [future.result() for future in futures]
            finally:  # after an interrupt, no island begins, and none goes on to its end
                for future in futures:
                    future.cancel()
                for island in islands:
                    island.is_cancelled = any(not future.done() for future in futures)


class IslandModel:
    """Islands that hand their best plans around in a ring after each step."""

    def __init__(self, islands: Sequence[Island], limit: int, runner: IslandRunner) -> None:
        self._islands, self._runner = islands, runner
        self._limits = [limit * (i + 1) // len(islands) - limit * i // len(islands)
                        for i in range(len(islands))]  # fmt: skip
        self._steps: list[list[float]] = []
        """Processor seconds of each island in each step."""
        self._between = 0.0
        """Processor seconds of exchanges, which are serial."""
        self._clock = 0.0
        """Seconds by the clock of all steps."""
        self._run([0 for _ in islands], inf)

    @property
    def best(self) -> float:
        return min(island.best[0] for island in self._islands)

    @property
    def evaluations(self) -> int:
        return sum(island.evaluations for island in self._islands)

    def advance(self, evaluations: int, seconds: float = inf) -> None:
        """Let each island evolve by *evaluations* or *seconds*, and exchange the best plans.

        None evolves beyond its share of the limit.
        """
        self._run(
            [
                min(limit, island.evaluations + evaluations)
                for island, limit in zip(self._islands, self._limits, strict=True)
            ],
            seconds,
        )
        if len(self._islands) > 1:
            began = thread_time()
            sent = [(island.plan(), island.best) for island in self._islands]
            sent = [((order.copy(), genes.copy()), score) for (order, genes), score in sent]
            for island, (plan, score) in zip(self._islands, sent[-1:] + sent[:-1], strict=True):
                island.receive(plan, score)
            self._between += thread_time() - began

    def _run(self, until: Sequence[int], seconds: float) -> None:
        began = monotonic()
        self._steps.append(self._runner.evolve(self._islands, until, seconds))
        self._clock += monotonic() - began

    def speedups(self) -> dict[str, float]:
        """Return the speedup that was measured, and that of a processor for each island.

        The prediction plays the steps: each takes as long as its slowest island, and exchanges are
        serial.
        """
        total = sum(map(sum, self._steps)) + self._between
        apart = sum(map(max, self._steps)) + self._between
        return {
            "speedup_measured": total / max(self._clock + self._between, 1e-9),
            "speedup_predicted": total / max(apart, 1e-9),
        }
