"""The peers, as their users would call them: each asks for choices until the budget is spent.

    python peers.py PEER SEEDS TRIALS [PROBLEM ...]

prints the best cost after each trial, for each problem and seed, as JSON. It runs in the peers'
environment, and imports nothing of zenturio.
"""

from __future__ import annotations

import json
import logging
import math
import os
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from problems import PROBLEMS, Choice, Problem

PATIENCE = 20
"""Proposals for each trial of the budget: then a peer that repeats itself is stopped."""


class SpentError(Exception):
    """The budget is spent."""


class Counter:
    """Costs of choices. Only what is valid and new counts: nobody would run the others.

    What cannot be is told to be as bad as the worst that was seen.
    """

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem = problem
        self._draw = random.Random(seed)
        self._lowest = math.inf
        """The lowest cost that was told; ``best`` holds the true costs, where these differ."""
        self.known: dict[Choice, float | None] = {}
        self.best: list[float] = []
        self.worst = 0.0
        self.asked = 0

    def __call__(self, choice: Choice) -> float:
        self.asked += 1
        if len(self.best) >= self.problem.budget or self.asked > PATIENCE * self.problem.budget:
            raise SpentError
        key = self._key(choice)
        if key not in self.known:
            true = self.problem.cost(choice)
            cost = self.known[key] = self.problem.told(true, self._draw)
            if cost is not None and true is not None:
                self.worst = max(self.worst, cost) if self.best else cost
                self.best.append(true if cost < self._lowest else self.best[-1])
                self._lowest = min(self._lowest, cost)
        cost = self.known[key]
        return self.worst if cost is None else cost

    def valid(self, choice: Choice) -> bool:
        """Whether *choice*, which has been asked about, can be."""
        return self.known[self._key(choice)] is not None

    def _key(self, choice: Choice) -> Choice:
        """*choice* without what does not matter in it."""
        return self.problem.active(choice) if self.problem.active else choice


Peer = Callable[[Problem, Counter, int], None]


def tpe(problem: Problem, cost: Counter, seed: int) -> None:
    """Optuna's default, told of constraints by its own means."""
    import optuna

    def bound(trial: optuna.trial.FrozenTrial) -> tuple[float]:
        return (trial.user_attrs["bound"],)

    sampler = (
        optuna.samplers.TPESampler(seed=seed, constraints_func=bound)
        if problem.constraints or problem.name == "gemm"
        else optuna.samplers.TPESampler(seed=seed)
    )
    _optuna(problem, cost, sampler, kinds=True)


def cmaes(problem: Problem, cost: Counter, seed: int) -> None:
    """CMA-ES with margins for whole numbers; kinds are numbers to it."""
    import optuna

    sampler = optuna.samplers.CmaEsSampler(seed=seed, with_margin=True)
    _optuna(problem, cost, sampler, kinds=False)


def _optuna(problem: Problem, cost: Counter, sampler: object, *, kinds: bool) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=sampler)
    sets = {
        name: optuna.distributions.CategoricalDistribution(range(size))
        if kinds and not ordered
        else optuna.distributions.IntDistribution(0, size - 1)
        for name, size, ordered in zip(problem.sets, problem.sizes, problem.ordered, strict=True)
    }
    while True:
        trial = study.ask(sets)
        choice = tuple(trial.params[name] for name in sets)
        found = cost(choice)
        trial.set_user_attr("bound", 0.0 if cost.valid(choice) else 1.0)
        study.tell(trial, found)


def ngopt(problem: Problem, cost: Counter, seed: int) -> None:
    """Nevergrad's choice among its optimisers."""
    import nevergrad as ng

    sets = [
        ng.p.Scalar(lower=0, upper=size - 1).set_integer_casting()
        if ordered
        else ng.p.Choice(list(range(size)))
        for size, ordered in zip(problem.sizes, problem.ordered, strict=True)
    ]
    space = ng.p.Tuple(*sets)
    space.random_state.seed(seed)
    search = ng.optimizers.NGOpt(space, budget=problem.budget)
    while True:
        asked = search.ask()
        search.tell(asked, cost(tuple(int(value) for value in asked.value)))


def pygad(problem: Problem, cost: Counter, seed: int) -> None:
    """A genetic algorithm, ten generations of it in the budget."""
    import pygad as library

    search = library.GA(
        num_generations=PATIENCE * 10,
        num_parents_mating=max(problem.budget // 20, 2),
        fitness_func=lambda _ga, genes, _at: -cost(tuple(int(gene) for gene in genes)),
        sol_per_pop=max(problem.budget // 10, 4),
        num_genes=len(problem.sets),
        gene_type=int,
        gene_space=[range(size) for size in problem.sizes],
        parent_selection_type="tournament",
        crossover_type="single_point",
        mutation_type="random",
        mutation_probability=1 / len(problem.sets),
        keep_elitism=1,
        random_seed=seed,
        suppress_warnings=True,
    )
    search.run()


PEERS: dict[str, Peer] = {
    "Optuna TPE": tpe, "Optuna CMA-ES": cmaes, "Nevergrad NGOpt": ngopt, "PyGAD": pygad
}  # fmt: skip


def contest(peer: Peer, problem: Problem, seed: int) -> list[float]:
    """The best cost after each trial."""
    cost = Counter(problem, seed)
    with suppress(SpentError):
        peer(problem, cost, seed)
    return cost.best


@contextmanager
def quiet() -> Iterator[None]:
    """No words of libraries, on no stream."""
    warnings.simplefilter("ignore")
    logging.disable()
    told = os.dup(1)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        try:
            yield
        finally:
            sys.stdout.flush()
            os.dup2(told, 1)
            os.close(told)


def main(name: str, seeds: int, trials: int, wanted: list[str]) -> None:
    found = {}
    began = time.process_time()
    with quiet():
        for each in wanted or PROBLEMS:
            problem = PROBLEMS[each]()
            problem = replace(problem, budget=trials or problem.budget)
            found[each] = [contest(PEERS[name], problem, seed) for seed in range(1, seeds + 1)]
    print(json.dumps({"seconds": time.process_time() - began, "best": found}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
