"""The generational genetic algorithm of ZENTURIO (Prodan and Fahringer 2005), and its variants."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from zenturio.errors import InputError
from zenturio.search.engine import SearchProblem
from zenturio.search.gene_encoding import Ints
from zenturio.search.generator_engine import GeneratorEngine, SearchGenerator, lag_for
from zenturio.settings.schema import setting

if TYPE_CHECKING:
    from zenturio.search.kernels.genetic_search import Rules

Selection = Literal["remainder", "roulette", "tournament", "rank", "steady"]
Crossover = Literal["single", "two", "uniform"]
Mutation = Literal["random", "step"]

_SELECTIONS = ("remainder", "roulette", "tournament", "rank", "steady")
_CROSSOVERS = ("single", "two", "uniform")
_MUTATIONS = ("random", "step")

FEWEST, MOST = 20, 150
BROODS = 20
"""With several slots: children are bred by a twentieth of a generation at a time, since to rank the
parents anew for each two of them takes most of the time of a search."""


@dataclass(frozen=True)
class GaSettings:
    """Settings of the genetic algorithm.

    The values of the paper: population=150 selection=remainder mutation_rate=0.001.
    """

    population: int | None = setting(
        None, "individuals in a generation; auto: 150, fewer for small budgets", low=2
    )
    generations: int = setting(500, "largest number of generations, including the first", low=1)
    selection: Selection = setting("tournament", "how parents are chosen by their fitness")
    crossover: Crossover = setting("single", "how two parents exchange genes")
    crossover_rate: float = setting(0.9, "chance that two parents exchange genes", low=0, high=1)
    mutation: Mutation = setting(
        "random", "new value of a mutated gene: any, or a step up or down if ordered"
    )
    mutation_rate: float | None = setting(
        None, "chance that a gene mutates; auto: half a gene of each child", low=0, high=1
    )
    reach: float = setting(0.1, "largest step of a mutation, as a share of the set", low=0, high=1)
    scaling: float = setting(2.0, "fitness of the best, as a multiple of the mean; 1: off", low=1)
    elite: int = setting(1, "best individuals that are kept unchanged", low=0)
    tournament: int = setting(3, "individuals in a tournament", low=1)
    parents: float = setting(
        0.5, "share of individuals that have children, if selection=steady", low=0, high=1
    )
    steady: float = setting(
        20.0, "stop after this % of the generations without improvement", low=0, high=100
    )


class Ga(GeneratorEngine):
    """A genetic algorithm: for large spaces of any kind."""

    Settings: ClassVar[type[GaSettings]] = GaSettings

    def __init__(self, problem: SearchProblem, settings: GaSettings) -> None:
        super().__init__(problem, settings)
        self._settings = settings
        if settings.elite >= self.population:
            raise InputError(
                f"elite={settings.elite} leaves no room for children: "
                f"a generation has {self.population} individuals",
                hint=f"elite={self.population - 1} at the most, or a larger population",
            )

    @property
    def population(self) -> int:
        """Individuals in a generation; the budget holds at least ten generations."""
        if self._settings.population is not None:
            return self._settings.population
        budget = self.problem.budget
        return MOST if budget is None else min(max(budget // 10, FEWEST), MOST)

    @property
    def lag(self) -> int:  # type: ignore[override] # follows the slots
        """With several slots, rows that were proposed last, whose losses a child does without."""
        return 0 if (self.problem.slots or 1) == 1 else lag_for(self.problem)

    @property
    def generations(self) -> int:
        """The largest number of generations."""
        return self._settings.generations

    @property
    def patience(self) -> int:
        """Generations without improvement after which the search ends."""
        return max(1, round(self._settings.generations * self._settings.steady / 100))

    def first(self) -> Ints:
        """Return the first generation; up to a half of it are the best rows of known ones."""
        best = sorted(filter(None, self.evaluated), key=self.evaluated.__getitem__)
        known = self.rows_of(best[: self.population // 2])
        return np.concatenate([known, self.genome.scatter(self.rng, self.population - len(known))])

    def rules(self) -> Rules:
        """Return the settings in the form that the kernels take."""
        from zenturio.search.kernels.genetic_search import Rules  # noqa: PLC0415 - needs Numba

        settings = self._settings
        rate = settings.mutation_rate
        if rate is None:
            rate = 0.5 / max(self.genome.length, 1)
        return Rules(
            _SELECTIONS.index(settings.selection),
            _CROSSOVERS.index(settings.crossover),
            _MUTATIONS.index(settings.mutation),
            settings.tournament,
            settings.elite,
            settings.parents,
            settings.crossover_rate,
            rate,
            settings.reach,
            settings.scaling,
        )

    def walk(self) -> SearchGenerator:
        return self._steady_state() if self.lag else self._generational()

    def _steady_state(self) -> SearchGenerator:
        """Breed a few children at a time from the losses that are there: no slot is idle.

        Parents are the best of the rows of the last four generations, so that few rows are sorted.
        """
        size, limit = self.population, self._settings.generations * self.population
        brood_size = max(self.problem.slots or 1, size // BROODS)
        yield self.first()
        breeding = _Breeding(self, self._brood_rules())
        parent_count = size
        if self._settings.selection == "steady":
            parent_count = min(max(round(self._settings.parents * size), 2), size)
        rows, losses = np.empty((0, self.genome.length), dtype=np.int64), np.empty(0)
        best, worst, improved_at, seen_count = np.inf, -np.inf, 0, 0
        while (count := len(self.evaluated)) < limit:
            arrived = islice(reversed(self.evaluated.items()), min(count - seen_count, 4 * size))
            # A row without genes is a known point of another space.
            new = {row: bounds[0] for row, bounds in arrived if row}
            new_losses, seen_count = np.array(list(new.values()), dtype=np.float64), count
            rows = np.concatenate([self.rows_of(new), rows])[: 4 * size]
            losses = np.concatenate([new_losses, losses])[: 4 * size]
            worst = max(worst, new_losses[new_losses < np.inf].max(initial=-np.inf))
            if new_losses.min(initial=np.inf) < best:
                best, improved_at = new_losses.min(), count
            if count - improved_at >= self.patience * size:
                return
            if len(rows) < 2:
                yield self.genome.scatter(self.rng, 1)
                continue
            order = _smallest(losses, parent_count)
            brood = breeding.children(rows[order], losses[order], worst, brood_size)
            yield self.genome.repair(brood)

    def _brood_rules(self) -> Rules:
        """Return the rules for a few children at a time: the elite is there anyway.

        Few children cannot take the best parents in turn, so these are drawn.
        """
        rules = self.rules()._replace(elite=0)
        if self._settings.selection != "steady":
            return rules
        return rules._replace(selection=_SELECTIONS.index("tournament"), rounds=1)

    def _generational(self) -> SearchGenerator:
        genome = self.genome
        genes = self.first()
        # Nothing is bred before the first generation is evaluated: Numba compiles meanwhile.
        compilation = Thread(target=self._compile, args=(genes.copy(),), daemon=True)
        compilation.start()
        breeding: _Breeding | None = None
        best, worst, last = np.inf, -np.inf, 0
        for generation in range(self._settings.generations):
            losses = np.ascontiguousarray((yield genes)[:, 0])
            worst = max(worst, losses[losses < np.inf].max(initial=-np.inf))
            if losses.min() < best:
                best, last = losses.min(), generation
            if generation - last >= self.patience:
                return
            if breeding is None:
                compilation.join()
                breeding = _Breeding(self, self.rules())
            genes = genome.repair(breeding.children(genes, losses, worst))

    def _compile(self, genes: Ints) -> None:
        """Have Numba compile what breeds generations, or read it from its cache."""
        with suppress(Exception):  # whoever calls it next is told
            _Breeding(self, self.rules()).children(genes, np.zeros(len(genes)), 0.0)


class _Breeding:
    """The kernel that makes generations, with its random numbers; loaded when it is made."""

    def __init__(self, engine: Ga, rules: Rules) -> None:
        from zenturio.search.kernels.genetic_search import breed  # noqa: PLC0415 - needs Numba
        from zenturio.search.kernels.rng import stream  # noqa: PLC0415

        self._breed, self._genome, self._rules = breed, engine.genome, rules
        self._state = stream(engine.problem.seed)

    def children(self, genes: Ints, losses: Any, worst: float, count: int | None = None) -> Ints:
        """Return *count* children of *genes*, or a generation; they may have to be repaired."""
        children = np.empty((count or len(genes), genes.shape[1]), dtype=np.int64)
        parents = np.zeros((len(children), 2), dtype=np.int64)
        genome = self._genome
        self._breed(
            genes, losses, worst, genome.sizes, genome.ordered, self._rules, self._state,
            children, parents,
        )  # fmt: skip
        return children


def _smallest(losses: Any, count: int) -> Any:
    """Return which *losses* are the smallest ones, in order, of equal ones the first."""
    if count < len(losses):
        candidates = np.flatnonzero(losses <= np.partition(losses, count - 1)[count - 1])
    else:
        candidates = np.arange(len(losses))
    return candidates[np.argsort(losses[candidates], kind="stable")][:count]
