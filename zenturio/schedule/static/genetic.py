"""Searches for a plan: simulated annealing, a memetic genetic algorithm, and that of 2005."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError
from zenturio.schedule.algorithm import Kind
from zenturio.schedule.model.evaluation import evaluate, problem_arrays, topological_orders
from zenturio.schedule.model.lower_bounds import gap, lower_bound
from zenturio.schedule.model.metrics import METRICS, MetricCalculator, metric
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.shared_resources import no_capacities
from zenturio.schedule.model.workflow import Floats, Indices
from zenturio.schedule.static.batch_mode import MaxMin, MinMin, Sufferage
from zenturio.schedule.static.islands import (
    TASKS_PER_SLICE,
    EvolutionSettings,
    Island,
    IslandModel,
    IslandRunner,
    ThreadRunner,
)
from zenturio.schedule.static.list_scheduling import (
    Cpop,
    Heft,
    Peft,
    mean_delays,
    mean_times,
    upward_ranks,
)
from zenturio.schedule.static.metric_search import MetricSearch
from zenturio.settings.schema import setting

if TYPE_CHECKING:
    from zenturio.schedule.kernels.genetic import DecodingProblem, GeneCoding
    from zenturio.search.kernels.genetic_search import Rules


FREE = -1
"""A gene that lets the decoder choose the processor of a group."""
_PLACEMENTS = 10_000_000
"""Tasks placed by default, over all plans: takes less than a second."""
_SHARED_PLACEMENTS = 1_000_000
"""The same where tasks share machines."""
_MIN_EVALUATIONS, _MAX_EVALUATIONS = 50, 100_000


def decoding_problem_of(problem: Problem) -> DecodingProblem:
    """Return *problem* as the search kernels take it."""
    from zenturio.schedule.kernels.genetic import DecodingProblem  # noqa: PLC0415 - loads Numba

    forth, after = problem_arrays(problem), problem.after
    # The reversed problem: successors become predecessors, and transfers go the other way.
    back = forth._replace(
        start=after.start.astype(np.uint64),
        parent=after.task.astype(np.uint32),
        data=problem.workflow.data[after.edge],
        latency=np.ascontiguousarray(problem.latency.T),
        slowness=np.ascontiguousarray(problem.slowness.T),
    )
    identical = bool((problem.pace == problem.pace[:, :1]).all()) and not problem.grouped
    return DecodingProblem(
        forth,
        back,
        problem.group.astype(np.uint32),
        np.ascontiguousarray(np.isfinite(problem.pace)),
        no_capacities() if problem.resources is None else problem.resources.arrays(),
        identical and not forth.moves and problem.resources is None,
    )


def ranked_orders(problem: Problem, count: int, rng: np.random.Generator) -> NDArray[np.uint32]:
    """Return *count* orders by upward rank: that of HEFT, then with other times and delays.

    The second uses each task's fastest time, the third no transfers; further ones have random
    times.
    """
    mean, delays = mean_times(problem), mean_delays(problem)
    variants = [(mean, delays), (_fastest_times(problem), delays), (mean, np.zeros_like(delays))]
    while len(variants) < count:
        times, transfer_times = variants[len(variants) % 3]
        # Small spreads stay near HEFT, large ones diversify the first population.
        spread = rng.uniform(0.05, 0.6)
        variants.append((times * rng.uniform(1 - spread, 1 + spread, len(times)), transfer_times))
    ranks = np.array([upward_ranks(problem, *variant) for variant in variants[:count]])
    return np.ascontiguousarray(topological_orders(problem, -ranks), np.uint32)


def decoded_plan(
    problem: Problem,
    case: DecodingProblem,
    algorithm: str,
    order: Any,
    genes: Any,
    notes: dict[str, Any],
) -> Plan:
    """Return the plan that *order* and *genes* encode."""
    from zenturio.schedule.kernels.genetic import decode_plan, empty_plan  # noqa: PLC0415

    board = empty_plan(case)
    decode_plan(case, case.forth, order, genes, board)
    return Plan(problem, algorithm, board.place.astype(np.int32), board.start, board.end, notes)


def start_order(plan: Plan) -> NDArray[np.uint32]:
    """Return the tasks of *plan* by start time, each after its predecessors."""
    position = np.empty(plan.problem.tasks, np.int64)
    # Tasks of zero length start when their predecessors do: the topological position decides.
    position[plan.problem.order] = np.arange(len(position))
    return np.lexsort((position, plan.end, plan.start)).astype(np.uint32)


def default_evaluations(problem: Problem) -> int:
    """Return how many plans can be tried in about a second."""
    placements = _PLACEMENTS if problem.resources is None else _SHARED_PLACEMENTS
    return min(max(placements // max(problem.tasks, 1), _MIN_EVALUATIONS), _MAX_EVALUATIONS)


def _fastest_times(problem: Problem) -> Floats:
    times: Floats = problem.work * problem.pace.min(axis=1)[problem.row]
    return times


@dataclass(frozen=True)
class AnnealingSchedulerSettings:
    evaluations: int | None = setting(
        None, "plans to evaluate; auto: about a second's worth", low=1
    )
    hot: float = setting(
        0.01, "first temperature, as a share of HEFT's makespan", low=1e-12, high=10
    )
    cold: float = setting(0.0005, "last temperature", low=1e-12, high=10)


class AnnealingScheduler:
    """Improve the plan of HEFT by simulated annealing.

    Most moves change a task on the critical path: its processor, at random or to where it finishes
    first, or its position in the order. The result is never worse than HEFT. Stops when the lower
    bound is reached (notes: bound), or after the given evaluations. For comparison: ga uses the
    same moves and usually wins for the same effort. Cost: evaluations x (edges + tasks x later
    tasks on their processor).
    """

    kind: ClassVar[Kind] = "static"
    Settings: ClassVar[type[AnnealingSchedulerSettings]] = AnnealingSchedulerSettings

    def __init__(self, settings: AnnealingSchedulerSettings | None = None, seed: int = 0) -> None:
        self._settings = settings or AnnealingSchedulerSettings()
        self._seed = seed

    def plan(self, problem: Problem) -> Plan:
        from zenturio.schedule.kernels.genetic import anneal  # noqa: PLC0415 - loads Numba
        from zenturio.search.kernels.rng import stream  # noqa: PLC0415

        settings, bound = self._settings, lower_bound(problem)
        limit, case = (
            settings.evaluations or default_evaluations(problem),
            decoding_problem_of(problem),
        )
        (order,) = ranked_orders(problem, 1, np.random.default_rng(self._seed))
        genes = np.full(problem.tasks, FREE, np.int32)
        first = decoded_plan(problem, case, "heft", order, genes, {}).makespan
        if (heft_plan := Heft().plan(problem)).makespan < first:  # HEFT may break ties otherwise
            order, genes = (
                start_order(heft_plan),
                heft_plan.processor[problem.group].astype(np.int32),
            )
            first = decoded_plan(problem, case, "heft", order, genes, {}).makespan
        scale = first or 1.0
        makespan, count, last = anneal(
            case,
            order,
            genes,
            settings.hot * scale,
            settings.cold * scale,
            limit,
            bound,
            stream(self._seed),
        )
        notes = {
            "evaluations": int(count),
            "found": int(last),
            "first": first,
            "bound": bound,
            "gap": gap(float(makespan), bound),
            "ended": "bound" if makespan <= bound else "evaluations",
        }
        return decoded_plan(problem, case, "anneal", order, genes, notes)


_UNLIMITED = 1 << 62
_MAX_SEEDED_TASKS = 2000
"""Larger workflows start with the plan of HEFT only; other heuristics are slower."""
_HEURISTICS = (Heft, Cpop, Peft, MinMin, MaxMin, Sufferage)


@dataclass(frozen=True)
class GeneticSchedulerSettings:
    evaluations: int | None = setting(
        None, "plans to evaluate; auto: about a second's worth", low=1
    )
    seconds: float | None = setting(None, "time limit; with it, runs may differ", low=0)
    population: int = setting(40, "plans in the population", low=2)
    mutation: float = setting(0.5, "chance of each further move in a child", low=0, high=0.9)
    tries: int = setting(
        20, "number of failed moves of critical tasks that ends a local search", low=0
    )
    objective: str = setting("makespan", f"the metric to optimise: {', '.join(METRICS)}")
    islands: int = setting(
        1,
        "populations side by side, on the cores or at a place, which exchange their best plans",
        low=1,
        high=1024,
    )
    exchanges: int = setting(20, "how often islands exchange their best plans", low=1)


_ISLAND_SEEDS = 7_919
"""Distance between the seeds of two islands; seeds of users are small numbers."""


class GeneticScheduler:
    """Evolve plans that start from the list heuristics and are locally improved (memetic GA).

    It evolves the order of tasks as well as their processors. Before a child is evaluated, its
    tasks are shifted late and then early (justification), and its critical tasks are moved. The
    result is never worse than HEFT. Stops when the lower bound is reached (notes: bound), or after
    the given evaluations; the same seed gives the same plan. For another objective, it crosses and
    mutates placements without local search, starting from the same heuristics and the cheapest
    plan; of plans with equal objectives, it prefers the shortest. Islands share the evaluations and
    evolve in threads, or at a place (zen schedule --islands-on); the plan depends on their number,
    not on the number of cores (notes: speedup_measured, and speedup_predicted with a processor for
    each island). Good for every workflow whose plan is worth a second. Not good for a million
    tasks: use heft. Cost: evaluations x (edges + tasks x later tasks on their processor).
    """

    kind: ClassVar[Kind] = "static"
    Settings: ClassVar[type[GeneticSchedulerSettings]] = GeneticSchedulerSettings
    island_runner: IslandRunner | None = None
    """Where islands evolve; None: in threads of this process."""

    def __init__(self, settings: GeneticSchedulerSettings | None = None, seed: int = 0) -> None:
        self._settings = settings or GeneticSchedulerSettings()
        self._seed = seed
        metric(self._settings.objective)
        if self._settings.islands > 1 and self._settings.objective != "makespan":
            raise InputError(
                f"islands only optimise the makespan, not {self._settings.objective}",
                hint="leave out islands",
            )

    def plan(self, problem: Problem) -> Plan:
        if self._settings.objective != "makespan" and problem.tasks:
            return self._plan_by_metric(problem)
        return self._shortest(problem)

    def _plan_by_metric(self, problem: Problem) -> Plan:
        settings, started = self._settings, monotonic()
        limit = self._limit(problem)
        starts = [(start_order(plan), plan.processor) for plan in heuristic_plans(problem)]
        search = MetricSearch(problem, settings.objective, settings.population, self._seed)
        return search.plan(starts, lambda count: self._spent(count, limit, started), "ga")

    def _shortest(self, problem: Problem) -> Plan:
        settings, started = self._settings, monotonic()
        limit, bound = self._limit(problem), lower_bound(problem)
        case = decoding_problem_of(problem)
        orders, genes = self._first(problem, limit)
        # On identical processors without transfers, only the order matters.
        if case.loose:
            genes[:] = FREE
        count = settings.islands
        shared = EvolutionSettings(settings.tries, settings.mutation, bound)
        islands = [
            Island(case, *self._first_of_island(problem, orders, genes, i), shared,
                   self._seed + i * _ISLAND_SEEDS)
            for i in range(count)
        ]  # fmt: skip
        began = monotonic()
        model = IslandModel(islands, limit, self.island_runner or ThreadRunner())
        first = model.best
        # At a place each step starts a program: one that would end too late is not begun.
        start_up = monotonic() - began if self.island_runner else 0.0
        steps = 0
        while (ended := self._ended(model, bound, limit, started - start_up)) is None:
            left = (settings.seconds or inf) - (monotonic() - started)
            model.advance(*self._step(problem, limit, left, start_up, steps))
            steps += 1
        best = min(islands, key=lambda island: island.best)
        makespan = best.best[0]
        notes = {
            "evaluations": model.evaluations,
            "children": sum(island.children for island in islands),
            "found": best.found,
            "first": first,
            "bound": bound,
            "gap": gap(makespan, bound),
            "ended": ended,
        }
        if count > 1:
            notes |= model.speedups()
        return decoded_plan(problem, case, "ga", *best.plan(), notes)

    def _step(
        self, problem: Problem, limit: int, left: float, start_up: float, steps: int
    ) -> tuple[int, float]:
        """Return the evaluations of an island's next step, and its seconds, of those that are left.

        Where evaluations are the limit, they alone decide: the same seed gives the same plan
        wherever islands are.
        """
        settings = self._settings
        count = max(1, TASKS_PER_SLICE // max(problem.tasks, 1))
        if limit < _UNLIMITED and (settings.islands > 1 or self.island_runner):
            count = max(limit // (settings.islands * settings.exchanges), 1)
        if self.island_runner is None or settings.seconds is None:
            return count, inf
        # A step that evolves for less time than it takes to start is not worth its start.
        share = max(left / max(settings.exchanges - steps, 1), 2 * start_up)
        return (count if limit < _UNLIMITED else limit), min(share, left) - start_up

    def _first_of_island(
        self, problem: Problem, orders: Any, genes: Any, number: int
    ) -> tuple[Any, Any]:
        """Return the first plans of an island: those of heuristics, and other changed ranks."""
        if not number:
            return orders, genes
        rng = np.random.default_rng([self._seed, number])
        own = ranked_orders(problem, len(orders), rng)
        is_free = (genes == FREE).all(axis=1)
        return np.where(is_free[:, None], own, orders), genes.copy()

    def _ended(self, model: IslandModel, bound: float, limit: int, started: float) -> str | None:
        if model.best <= bound:
            return "bound"
        return self._spent(model.evaluations, limit, started)

    def _limit(self, problem: Problem) -> int:
        """Return the largest number of evaluations."""
        settings = self._settings
        return settings.evaluations or (
            _UNLIMITED if settings.seconds else default_evaluations(problem)
        )

    def _spent(self, count: int, limit: int, started: float) -> str | None:
        """Return which limit is reached, if one is."""
        seconds = self._settings.seconds
        if seconds and monotonic() - started >= seconds:
            return "seconds"
        return "evaluations" if count >= limit else None

    def _first(self, problem: Problem, limit: int) -> tuple[Any, Any]:
        """Return orders and genes of the first plans: HEFT, other heuristics, and changed ranks.

        The heuristics may take a twentieth of the evaluations; HEFT is always included.
        """
        count = min(self._settings.population, max(2, limit // 200))
        rng = np.random.default_rng(self._seed)
        plans = heuristic_plans(problem)[: count - 1]
        orders = ranked_orders(problem, count, rng)
        genes = np.full((count, problem.tasks), FREE, np.int32)
        for index, plan in enumerate(plans, 1):
            # From the back, so that the order of HEFT's ranks stays the first.
            orders[-index], genes[-index] = start_order(plan), plan.processor[problem.group]
        return orders, genes


def heuristic_plans(problem: Problem) -> list[Plan]:
    """Return the plans of heuristics that are fast enough for *problem*."""
    heuristics: tuple[Any, ...] = (
        _HEURISTICS if problem.tasks <= _MAX_SEEDED_TASKS else _HEURISTICS[:1]
    )
    return [heuristic().plan(problem) for heuristic in heuristics]


Ints = NDArray[np.int64]
Losses = Callable[[Ints], Floats]
"""Maps rows of genes to losses: lower is better."""


@dataclass(frozen=True)
class Ga2005Settings:
    """Defaults of section 6 of the paper."""

    objective: str = setting("makespan", f"the metric to optimise: {', '.join(METRICS)}")
    population: int = setting(150, "population size", low=2)
    crossover: float = setting(0.9, "crossover probability", low=0, high=1)
    mutation: float = setting(0.001, "mutation probability of a gene", low=0, high=1)
    generations: int = setting(500, "maximum generation", low=1)
    steady: float = setting(
        20.0,
        "steady state: stop after this percentage of generations without improvement",
        low=0,
        high=100,
    )
    scaling: float = setting(2.0, "fitness scaling factor; 1: off", low=1)
    elitist: bool = setting(True, "whether the best individual survives")
    const: float = setting(
        1.0, "Const of the fitness Const - T, as a multiple of the worst makespan seen", low=1
    )


@dataclass(frozen=True)
class _SearchResult:
    """The best genes, the best loss, those of the first and last generation, and counts."""

    genes: Ints
    best: float
    first: float
    last: float
    visited: int
    generations: int
    settled: int


class Ga2005:
    """The genetic algorithm of Prodan and Fahringer (2005), for comparison only.

    A gene is an abstract machine: a group of tasks that run together, usually one. Its alleles are
    the processors that can run them. Random initial population, remainder stochastic sampling with
    replacement, single-point crossover, mutation, linear fitness scaling of Const - T (by default
    Const is the worst makespan seen), elitism, steady state. Tasks of a processor run by upward
    rank. Works with any metric as objective. Usually worse than heft, because it ignores the
    structure of the workflow; use ga instead. Cost: population x generations x edges. R. Prodan, T.
    Fahringer: Dynamic scheduling of scientific workflow applications on the Grid: a case study. ACM
    SAC 2005, sections 4.1 and 6.
    """

    kind: ClassVar[Kind] = "static"
    Settings: ClassVar[type[Ga2005Settings]] = Ga2005Settings

    def __init__(self, settings: Ga2005Settings | None = None, seed: int = 0) -> None:
        self._settings = settings or Ga2005Settings()
        self._seed = seed
        metric(self._settings.objective)

    def plan(self, problem: Problem) -> Plan:
        """Return the best plan; the notes have points visited, generations, and when the best was
        found.

        "last" is the best of the last generation, which without elitism may not be the best of all;
        "improvement" is in % from the best of the first generation to that of the last, as defined
        in section 6. A child equal to a parent is not a new point.
        """
        rank = upward_ranks(problem, mean_times(problem), mean_delays(problem))
        order = topological_orders(problem, -rank)
        if not problem.tasks:
            return evaluate(problem, order, order, "ga-2005")
        settings = self._settings
        coding = _coding(problem, order)
        rng = np.random.default_rng(self._seed)
        genes = rng.integers(coding.sizes, size=(settings.population, len(coding.sizes)))
        if settings.objective == "makespan" and problem.resources is None:
            result = self._shortest(coding, genes)
        else:
            result = self._search(
                coding, genes, _loss_function(problem, coding, order, settings.objective)
            )
        notes = {
            "objective": settings.objective,
            "visited": result.visited,
            "generations": result.generations,
            "settled": result.settled,
            "last": abs(result.last),
            "improvement": 100 * (result.first - result.last) / abs(result.last or 1.0),
        }
        processors = _decoded_processors(coding, order, result.genes[None])[0]
        return evaluate(problem, processors, order, "ga-2005", notes)

    @property
    def _patience(self) -> int:
        chosen = self._settings
        return max(1, round(chosen.generations * chosen.steady / 100))

    def _rules(self) -> Rules:
        from zenturio.search.kernels.genetic_search import (  # noqa: PLC0415
            RANDOM,
            REMAINDER,
            SINGLE,
            Rules,
        )

        chosen = self._settings
        return Rules(
            selection=REMAINDER,
            crossover=SINGLE,
            mutation=RANDOM,
            rounds=1,
            elite=int(chosen.elitist),
            share=0.5,
            crossover_rate=chosen.crossover,
            mutation_rate=chosen.mutation,
            reach=1.0,
            scaling=chosen.scaling,
        )

    def _shortest(self, coding: GeneCoding, genes: Ints) -> _SearchResult:
        """Search for the shortest plan, in one compiled call."""
        from zenturio.schedule.kernels.genetic import EvolutionLimits, evolve_2005  # noqa: PLC0415
        from zenturio.search.kernels.rng import stream  # noqa: PLC0415

        settings = self._settings
        limits = EvolutionLimits(settings.generations, self._patience, settings.const)
        return _SearchResult(*evolve_2005(coding, genes, self._rules(), limits, stream(self._seed)))

    def _search(self, coding: GeneCoding, genes: Ints, losses: Losses) -> _SearchResult:
        """Search for the best plan by any other objective."""
        from zenturio.schedule.kernels.genetic import zero_fitness_loss  # noqa: PLC0415
        from zenturio.search.kernels.genetic_search import breed  # noqa: PLC0415
        from zenturio.search.kernels.rng import stream  # noqa: PLC0415

        settings, rules, state = self._settings, self._rules(), stream(self._seed)
        unordered = np.zeros(genes.shape[1], np.bool_)
        best_genes, best, first, worst, best_generation = genes[0], np.inf, np.inf, -np.inf, 0
        visited = len(genes)
        for generation in range(settings.generations):
            values = losses(genes)
            index = int(np.argmin(values))
            if values[index] < best:
                best, best_generation, best_genes = float(values[index]), generation, genes[index]
            first = best if generation == 0 else first
            if generation - best_generation >= self._patience:
                break
            worst = max(worst, float(values[values < np.inf].max(initial=-np.inf)))
            children, parents = np.empty_like(genes), np.zeros((len(genes), 2), np.int64)
            zero = zero_fitness_loss(worst, settings.const)
            breed(genes, values, zero, coding.sizes, unordered, rules, state, children, parents)
            # A child that equals a parent is not a new point, so it is not counted as visited.
            inherited = (children[:, None] == genes[parents]).all(axis=2).any(axis=1)
            visited += int((~inherited).sum()) if generation + 1 < settings.generations else 0
            genes = children
        return _SearchResult(
            best_genes,
            best,
            first,
            float(values.min()),
            visited,
            generation + 1,
            best_generation + 1,
        )


def _coding(problem: Problem, order: Indices) -> GeneCoding:
    """Return a gene for each group of tasks, with an allele for each processor that can run it."""
    from zenturio.schedule.kernels.genetic import GeneCoding  # noqa: PLC0415

    groups = np.unique(problem.group)
    fits = np.isfinite(problem.pace)[problem.row[groups]]
    before, place = problem.before, np.empty(problem.tasks, np.uint32)
    place[order] = np.arange(problem.tasks)
    counts = np.diff(before.start)[order]
    start = np.concatenate([[0], np.cumsum(counts)])
    edges = np.arange(start[-1]) + np.repeat(before.start[order] - start[:-1], counts)
    return GeneCoding(
        gene=np.searchsorted(groups, problem.group[order]).astype(np.uint32),
        allele=np.argsort(~fits, axis=1, kind="stable").astype(np.uint32),
        sizes=fits.sum(axis=1),
        work=problem.work[order],
        row=problem.row[order].astype(np.uint32),
        pace=np.ascontiguousarray(problem.pace),
        start=start.astype(np.uint64),
        parent=place[before.task[edges]],
        data=problem.workflow.data[before.edge[edges]],
        node=problem.node.astype(np.uint32),
        site=problem.site.astype(np.uint32),
        latency=problem.latency.ravel(),
        slowness=problem.slowness.ravel(),
        sites=np.uint32(len(problem.latency)),
    )


def _decoded_processors(coding: GeneCoding, order: Indices, genes: Ints) -> NDArray[np.uint32]:
    """Return the processor of each task, for each row of genes."""
    processors = np.empty((len(genes), len(order)), np.uint32)
    processors[:, order] = coding.allele[coding.gene, genes[:, coding.gene]]
    return processors


def _loss_function(problem: Problem, coding: GeneCoding, order: Indices, objective: str) -> Losses:
    gauge = MetricCalculator(problem)
    return lambda genes: gauge.losses(objective, _decoded_processors(coding, order, genes), order)
