"""Problems as the kernels that search for plans want them, the plans to begin with, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.model.evaluation import evaluate, problem_arrays, topological_orders
from zenturio.schedule.model.metrics import METRICS, MetricCalculator, gap, lower_bound, metric
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Floats, Indices
from zenturio.schedule.static.batch_mode import MaxMin, MinMin, Sufferage
from zenturio.schedule.static.list_scheduling import (
    Cpop,
    Heft,
    Peft,
    mean_delays,
    mean_times,
    upward_ranks,
)
from zenturio.search.settings import setting

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zenturio.schedule.kernels.genetic import DecodingProblem, GeneCoding
    from zenturio.search.kernels.generation import Rules


FREE = -1
"""A gene that leaves it to the decoder where a group runs."""
_PLACEMENTS = 10_000_000
"""How many tasks are placed if nobody says how many plans: less than a second."""
_MIN_EVALUATIONS, _MAX_EVALUATIONS = 50, 100_000


def decoding_problem_of(problem: Problem) -> DecodingProblem:
    """*problem* for the kernels of ``placing`` and what is built upon them."""
    from zenturio.schedule.kernels.genetic import DecodingProblem  # noqa: PLC0415 - loads Numba

    forth, after = problem_arrays(problem), problem.after
    back = forth._replace(
        start=after.start.astype(np.uint64),
        parent=after.task.astype(np.uint32),
        data=problem.workflow.data[after.edge],
        latency=np.ascontiguousarray(problem.latency.T),
        slowness=np.ascontiguousarray(problem.slowness.T),
    )
    alike = bool((problem.pace == problem.pace[:, :1]).all()) and not problem.grouped
    return DecodingProblem(
        forth,
        back,
        problem.group.astype(np.uint32),
        np.ascontiguousarray(np.isfinite(problem.pace)),
        alike and not forth.moves,
    )


def ranked_orders(problem: Problem, count: int, rng: np.random.Generator) -> NDArray[np.uint32]:
    """Orders by the longest way to an end: that of HEFT first, then ever other times and delays.

    The second takes the fastest processor for each task, the third no transfers; from then on
    chance changes times, some little, some much.
    """
    mean, delays = mean_times(problem), mean_delays(problem)
    ways = [(mean, delays), (_fastest_times(problem), delays), (mean, np.zeros_like(delays))]
    while len(ways) < count:
        times, moved = ways[len(ways) % 3]
        spread = rng.uniform(0.05, 0.6)
        ways.append((times * rng.uniform(1 - spread, 1 + spread, len(times)), moved))
    ranks = np.array([upward_ranks(problem, *way) for way in ways[:count]])
    return np.ascontiguousarray(topological_orders(problem, -ranks), np.uint32)


def decoded_plan(
    problem: Problem,
    case: DecodingProblem,
    algorithm: str,
    order: Any,
    genes: Any,
    notes: dict[str, Any],
) -> Plan:
    """The plan that *order* and *genes* stand for."""
    from zenturio.schedule.kernels.genetic import decode_plan, empty_plan  # noqa: PLC0415

    board = empty_plan(problem.tasks, problem.processors)
    decode_plan(case, case.forth, order, genes, board)
    return Plan(problem, algorithm, board.place.astype(np.int32), board.start, board.end, notes)


def start_order(plan: Plan) -> NDArray[np.uint32]:
    """The tasks of *plan* as they start, each behind what it waits for."""
    at = np.empty(plan.problem.tasks, np.int64)
    at[plan.problem.order] = np.arange(len(at))
    return np.lexsort((at, plan.end, plan.start)).astype(np.uint32)


def default_evaluations(problem: Problem) -> int:
    """How many plans can be tried in less than a second, and for a large problem a little more."""
    return min(max(_PLACEMENTS // max(problem.tasks, 1), _MIN_EVALUATIONS), _MAX_EVALUATIONS)


def _fastest_times(problem: Problem) -> Floats:
    found: Floats = problem.work * problem.pace.min(axis=1)[problem.row]
    return found


@dataclass(frozen=True)
class AnnealingSchedulerSettings:
    evaluations: int | None = setting(
        None, "plans that are tried; auto: as many as fit into about a second", low=1
    )
    hot: float = setting(
        0.01, "first temperature, as a share of HEFT's makespan", low=1e-12, high=10
    )
    cold: float = setting(0.0005, "the last one", low=1e-12, high=10)


class AnnealingScheduler:
    """The plan of HEFT, changed again and again, and ever less often for the worse (annealing).

    Most changes move a task that makes the plan long: to another processor, by chance or to
    where it ends first, or to another place in the order. It is never worse than HEFT, and ends
    when no plan can be better (notes: bound) or after so many evaluations.
    To compare with: ga takes the same moves, and is mostly better for the same effort.
    Cost: evaluations x (edges + tasks x their like on a processor that end later).
    """

    kind: ClassVar[Kind] = "static"
    Settings: ClassVar[type[AnnealingSchedulerSettings]] = AnnealingSchedulerSettings

    def __init__(self, settings: AnnealingSchedulerSettings | None = None, seed: int = 0) -> None:
        self._settings = settings or AnnealingSchedulerSettings()
        self._seed = seed

    def plan(self, problem: Problem) -> Plan:
        from zenturio.schedule.kernels.genetic import anneal  # noqa: PLC0415 - loads Numba
        from zenturio.search.kernels.rng import stream  # noqa: PLC0415

        chosen, bound = self._settings, lower_bound(problem)
        limit, case = (
            chosen.evaluations or default_evaluations(problem),
            decoding_problem_of(problem),
        )
        (order,) = ranked_orders(problem, 1, np.random.default_rng(self._seed))
        genes = np.full(problem.tasks, FREE, np.int32)
        first = decoded_plan(problem, case, "heft", order, genes, {}).makespan
        if (given := Heft().plan(problem)).makespan < first:  # it parts ties otherwise
            order, genes = start_order(given), given.processor[problem.group].astype(np.int32)
            first = decoded_plan(problem, case, "heft", order, genes, {}).makespan
        scale = first or 1.0
        makespan, count, last = anneal(
            case,
            order,
            genes,
            chosen.hot * scale,
            chosen.cold * scale,
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
_TASKS_PER_SLICE = 1_000_000
"""Tasks placed between two looks at the clock, and at the keyboard."""
_MAX_SEEDED_TASKS = 2000
"""Tasks up to which plans of slower heuristics are among the first."""
_HEURISTICS = (Heft, Cpop, Peft, MinMin, MaxMin, Sufferage)


@dataclass(frozen=True)
class GeneticSchedulerSettings:
    evaluations: int | None = setting(
        None, "plans that are tried; auto: as many as fit into about a second", low=1
    )
    seconds: float | None = setting(
        None, "how long it may take; with it no two runs need be equal", low=0
    )
    population: int = setting(40, "plans that are kept", low=2)
    mutation: float = setting(0.5, "chance of each further move in a child", low=0, high=0.9)
    tries: int = setting(20, "moves of critical tasks without use that end an improvement", low=0)


class GeneticScheduler:
    """A genetic algorithm that begins with the list heuristics and improves every plan: the best.

    Evolves the order of tasks as well as where they run. A child has its tasks moved as late and
    then as early as they may be, and its critical tasks moved elsewhere, before it is judged. It
    is never worse than HEFT; it ends when no plan can be better (notes: bound), or after so many
    evaluations, and the same seed makes the same plan.
    For every workflow whose plan is worth a second. Not for a million tasks: take heft.
    Cost: evaluations x (edges + tasks x their like on a processor that end later).
    """

    kind: ClassVar[Kind] = "static"
    Settings: ClassVar[type[GeneticSchedulerSettings]] = GeneticSchedulerSettings

    def __init__(self, settings: GeneticSchedulerSettings | None = None, seed: int = 0) -> None:
        self._settings = settings or GeneticSchedulerSettings()
        self._seed = seed

    def plan(self, problem: Problem) -> Plan:
        from zenturio.schedule.kernels.genetic import evolve_plans, improve_all  # noqa: PLC0415 - loads Numba
        from zenturio.search.kernels.rng import stream  # noqa: PLC0415

        chosen, began = self._settings, monotonic()
        limit = chosen.evaluations or (
            _UNLIMITED if chosen.seconds else default_evaluations(problem)
        )
        case, bound, state = decoding_problem_of(problem), lower_bound(problem), stream(self._seed)
        orders, genes = self._first(problem, limit)
        if case.loose:
            genes[:] = FREE
        marks = np.empty((len(orders), 2))
        count = improve_all(case, orders, genes, marks, chosen.tries, bound, state)
        first, last, born = marks[:, 0].min(), 0, 0
        slices = max(1, _TASKS_PER_SLICE // max(problem.tasks, 1))
        while (ended := self._ended(marks, bound, count, limit, began)) is None:
            stop = min(limit, count + slices)
            count, found, children = evolve_plans(
                case, orders, genes, marks, chosen.tries, chosen.mutation, bound, state, count, stop
            )
            last, born = found or last, born + children
        best = np.lexsort((marks[:, 1], marks[:, 0]))[0]
        makespan = float(marks[best, 0])
        notes = {
            "evaluations": int(count),
            "children": born,
            "found": int(last),
            "first": float(first),
            "bound": bound,
            "gap": gap(makespan, bound),
            "ended": ended,
        }
        return decoded_plan(problem, case, "ga", orders[best], genes[best], notes)

    def _ended(self, marks: Any, bound: float, count: int, limit: int, began: float) -> str | None:
        if marks[:, 0].min() <= bound:
            return "bound"
        seconds = self._settings.seconds
        if seconds and monotonic() - began >= seconds:
            return "seconds"
        return "evaluations" if count >= limit else None

    def _first(self, problem: Problem, limit: int) -> tuple[Any, Any]:
        """Orders and genes of the first plans: HEFT's, of other heuristics, by changed ranks.

        A twentieth of the evaluations may be theirs, but HEFT's is always there.
        """
        count = min(self._settings.population, max(2, limit // 200))
        rng = np.random.default_rng(self._seed)
        others = _heuristic_plans(problem)[: count - 1]
        orders = ranked_orders(problem, count, rng)
        genes = np.full((count, problem.tasks), FREE, np.int32)
        for at, plan in enumerate(others, 1):
            orders[-at], genes[-at] = start_order(plan), plan.processor[problem.group]
        return orders, genes


def _heuristic_plans(problem: Problem) -> list[Plan]:
    """The plans of heuristics, as far as they are quick."""
    some: tuple[Any, ...] = _HEURISTICS if problem.tasks <= _MAX_SEEDED_TASKS else _HEURISTICS[:1]
    return [each().plan(problem) for each in some]


Ints = NDArray[np.int64]
Losses = Callable[[Ints], Floats]
"""What each row of genes is worth: the lower the better."""


@dataclass(frozen=True)
class Ga2005Settings:
    """As section 6 of the paper has them."""

    objective: str = setting("makespan", f"what is made best: {', '.join(METRICS)}")
    population: int = setting(150, "population size", low=2)
    crossover: float = setting(0.9, "crossover probability", low=0, high=1)
    mutation: float = setting(0.001, "mutation probability of a gene", low=0, high=1)
    generations: int = setting(500, "maximum generation", low=1)
    steady: float = setting(
        20.0, "steady state: ends after so many % of them without improvement", low=0, high=100
    )
    scaling: float = setting(2.0, "fitness scaling factor; 1: off", low=1)
    elitist: bool = setting(True, "whether the best individual lives on")
    const: float = setting(1.0, "Const of the fitness Const - T, in worst plans seen", low=1)


@dataclass(frozen=True)
class _SearchResult:
    """Of a search: the best genes, the losses of the best ever, first and last, and how it went."""

    genes: Ints
    best: float
    first: float
    last: float
    visited: int
    generations: int
    settled: int


class Ga2005:
    """The genetic algorithm of Prodan and Fahringer, as it was: to compare with, not to use.

    A gene is an abstract machine: a group of tasks that run together, mostly one. Its alleles are
    the processors that can run them. Individuals begin by chance; remainder stochastic sampling
    with replacement, single point crossover, mutation, linear fitness scaling of Const - T (Const:
    the worst that was seen, if nothing else is said), elitism, steady state. Tasks of a processor
    run in the order of the longest way to an end. With any metric as objective.
    Mostly worse than heft, for it knows nothing of workflows; ga is the one to use.
    Cost: population x generations x edges.
    R. Prodan, T. Fahringer: Dynamic scheduling of scientific workflow applications on the Grid: a
    case study. ACM SAC 2005, sections 4.1 and 6.
    """

    kind: ClassVar[Kind] = "static"
    Settings: ClassVar[type[Ga2005Settings]] = Ga2005Settings

    def __init__(self, settings: Ga2005Settings | None = None, seed: int = 0) -> None:
        self._settings = settings or Ga2005Settings()
        self._seed = seed
        metric(self._settings.objective)

    def plan(self, problem: Problem) -> Plan:
        """Notes: points visited, generations, and in which of them the best was found first.

        The best of the last generation, which without elitism may not be the best of all; and the
        improvement in %, from the best of the first generation to that of the last, as defined in
        section 6. A child that equals a parent is no new point.
        """
        rank = upward_ranks(problem, mean_times(problem), mean_delays(problem))
        order = topological_orders(problem, -rank)
        if not problem.tasks:
            return evaluate(problem, order, order, "ga-2005")
        chosen = self._settings
        coding = _coding(problem, order)
        chance = np.random.default_rng(self._seed)
        genes = chance.integers(coding.sizes, size=(chosen.population, len(coding.sizes)))
        if chosen.objective == "makespan":
            found = self._shortest(coding, genes)
        else:
            found = self._search(
                coding, genes, _loss_function(problem, coding, order, chosen.objective)
            )
        notes = {
            "objective": chosen.objective,
            "visited": found.visited,
            "generations": found.generations,
            "settled": found.settled,
            "last": abs(found.last),
            "improvement": 100 * (found.first - found.last) / abs(found.last or 1.0),
        }
        where = _decoded_processors(coding, order, found.genes[None])[0]
        return evaluate(problem, where, order, "ga-2005", notes)

    @property
    def _patience(self) -> int:
        chosen = self._settings
        return max(1, round(chosen.generations * chosen.steady / 100))

    def _rules(self) -> Rules:
        from zenturio.search.kernels.generation import Rules  # noqa: PLC0415 - loads Numba
        from zenturio.search.kernels.selection import REMAINDER  # noqa: PLC0415
        from zenturio.search.kernels.variation import RANDOM, SINGLE  # noqa: PLC0415

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
        """The search for the shortest plan, compiled as a whole."""
        from zenturio.schedule.kernels.genetic import EvolutionLimits, evolve_2005  # noqa: PLC0415
        from zenturio.search.kernels.rng import stream  # noqa: PLC0415

        chosen = self._settings
        course = EvolutionLimits(chosen.generations, self._patience, chosen.const)
        return _SearchResult(*evolve_2005(coding, genes, self._rules(), course, stream(self._seed)))

    def _search(self, coding: GeneCoding, genes: Ints, losses: Losses) -> _SearchResult:
        """The same for any other objective."""
        from zenturio.schedule.kernels.genetic import zero_fitness_loss  # noqa: PLC0415
        from zenturio.search.kernels.generation import breed  # noqa: PLC0415
        from zenturio.search.kernels.rng import stream  # noqa: PLC0415

        chosen, rules, state = self._settings, self._rules(), stream(self._seed)
        unordered = np.zeros(genes.shape[1], np.bool_)
        kept, best, first, worst, last = genes[0], np.inf, np.inf, -np.inf, 0
        visited = len(genes)
        for generation in range(chosen.generations):
            found = losses(genes)
            at = int(np.argmin(found))
            if found[at] < best:
                best, last, kept = float(found[at]), generation, genes[at]
            first = best if generation == 0 else first
            if generation - last >= self._patience:
                break
            worst = max(worst, float(found[found < np.inf].max(initial=-np.inf)))
            children, parents = np.empty_like(genes), np.zeros((len(genes), 2), np.int64)
            zero = zero_fitness_loss(worst, chosen.const)
            breed(genes, found, zero, coding.sizes, unordered, rules, state, children, parents)
            known = (children[:, None] == genes[parents]).all(axis=2).any(axis=1)
            visited += int((~known).sum()) if generation + 1 < chosen.generations else 0
            genes = children
        return _SearchResult(
            kept, best, first, float(found.min()), visited, generation + 1, last + 1
        )


def _coding(problem: Problem, order: Indices) -> GeneCoding:
    """A gene for each group of tasks, with a value for each processor that can run them."""
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
    """The processor of each task, for each row of genes."""
    found = np.empty((len(genes), len(order)), np.uint32)
    found[:, order] = coding.allele[coding.gene, genes[:, coding.gene]]
    return found


def _loss_function(problem: Problem, coding: GeneCoding, order: Indices, objective: str) -> Losses:
    gauge = MetricCalculator(problem)
    return lambda genes: gauge.losses(objective, _decoded_processors(coding, order, genes), order)
