"""The peers, as their users would call them: each asks for choices until the budget is spent.

    python peers.py PEER SEEDS TRIALS SLOTS [PROBLEM ...]

prints the best cost after each trial, for each problem and seed, as JSON. It runs in the peers'
environment, and imports nothing of zenturio.
"""

from __future__ import annotations

import functools
import heapq
import json
import logging
import math
import os
import random
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from problems import PROBLEMS, REAL, Choice, Problem

PATIENCE = 20
"""Proposals for each trial of the budget: then a peer that repeats itself is stopped."""

SPREAD = 0.8
"""Standard deviation of the logarithm of simulated durations."""


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
        key = self.key(choice)
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
        return self.known[self.key(choice)] is not None

    def key(self, choice: Choice) -> Choice:
        """Return *choice* without what does not matter in it."""
        return self.problem.active(choice) if self.problem.active else choice


Asked = tuple[Any, Choice] | None
"""What a peer knows a proposal by, and the proposal; None if it waits for scores."""
Ask = Callable[[], Asked]
Tell = Callable[[Any, float, bool], None]
"""Tells of what was asked the cost, and whether it can be."""
Peer = Callable[[Problem, int, int], tuple[Ask, Tell]]
"""Makes a peer that is asked and told, from a problem, a seed and the number of slots."""
Whole = Callable[[Problem, Counter, int], None]
"""A peer that calls a function: one point at a time."""


def tpe(problem: Problem, seed: int, slots: int) -> tuple[Ask, Tell]:
    """Optuna's default, told of constraints by its own means."""
    import optuna

    bound = {"constraints_func": _bound} if _has_constraints(problem) else {}
    liar = {"constant_liar": True} if slots > 1 else {}
    return _optuna(problem, optuna.samplers.TPESampler(seed=seed, **bound, **liar), kinds=True)


def gaussian(problem: Problem, seed: int, _slots: int) -> tuple[Ask, Tell]:
    """Optuna's Gaussian process, told of constraints by its own means."""
    import optuna
    import torch

    torch.set_num_threads(1)
    bound = {"constraints_func": _bound} if _has_constraints(problem) else {}
    exact = not problem.noise
    sampler = optuna.samplers.GPSampler(seed=seed, deterministic_objective=exact, **bound)
    return _optuna(problem, sampler, kinds=True)


def cmaes(problem: Problem, seed: int, _slots: int) -> tuple[Ask, Tell]:
    """CMA-ES with margins for whole numbers; kinds are numbers to it."""
    import optuna

    sampler = optuna.samplers.CmaEsSampler(seed=seed, with_margin=True)
    return _optuna(problem, sampler, kinds=False)


def _has_constraints(problem: Problem) -> bool:
    return bool(problem.constraints) or problem.name == "gemm"


def _bound(trial: Any) -> tuple[float]:
    return (trial.user_attrs["bound"],)


def _optuna(problem: Problem, sampler: Any, *, kinds: bool) -> tuple[Ask, Tell]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=sampler)
    sets: dict[str, Any] = {}
    for (name, values), ordered in zip(problem.sets.items(), problem.ordered, strict=True):
        if values is REAL:
            sets[name] = optuna.distributions.FloatDistribution(0, 1)
        elif kinds and not ordered:
            sets[name] = optuna.distributions.CategoricalDistribution(range(len(values)))
        else:
            sets[name] = optuna.distributions.IntDistribution(0, len(values) - 1)

    def ask() -> Asked:
        trial = study.ask(sets)
        return trial, _choice(problem, [trial.params[name] for name in sets])

    def tell(trial: Any, cost: float, valid: bool) -> None:
        trial.set_user_attr("bound", 0.0 if valid else 1.0)
        study.tell(trial, cost)

    return ask, tell


def _choice(problem: Problem, values: Iterable[Any]) -> Choice:
    """The choice of *values*: shares of the range of real parameters, numbers of the others."""
    return tuple(
        round(float(value) * (len(REAL) - 1)) if kinds is REAL else int(value)
        for value, kinds in zip(values, problem.sets.values(), strict=True)
    )


def ngopt(problem: Problem, seed: int, slots: int) -> tuple[Ask, Tell]:
    """Nevergrad's choice among its optimisers."""
    import nevergrad as ng

    sets = [
        ng.p.Scalar(lower=0, upper=1)
        if values is REAL
        else ng.p.Scalar(lower=0, upper=len(values) - 1).set_integer_casting()
        if ordered and len(values) > 1
        else ng.p.Choice(list(range(len(values))))
        for values, ordered in zip(problem.sets.values(), problem.ordered, strict=True)
    ]
    space = ng.p.Tuple(*sets)
    space.random_state.seed(seed)
    search = ng.optimizers.NGOpt(space, budget=problem.budget, num_workers=slots)

    def ask() -> Asked:
        asked = search.ask()
        return asked, _choice(problem, asked.value)

    return ask, lambda asked, cost, _valid: search.tell(asked, cost)


def pycma(problem: Problem, seed: int, slots: int) -> tuple[Ask, Tell]:
    """CMA-ES for real parameters, with restarts; a generation fills the slots."""
    import cma

    size, starts = len(problem.sets), random.Random(seed)
    sizes = [max(4 + int(3 * math.log(size)), slots if slots > 1 else 0)]
    asked: list[Any] = []
    told: dict[int, float] = {}
    search: list[Any] = []

    def ask() -> Asked:
        if not search or search[0].stop():
            options = {"seed": seed + len(sizes), "bounds": [0, 1], "popsize": sizes[-1]}
            first = [0.5 if len(sizes) == 1 else starts.random() for _ in range(size)]
            search[:] = [cma.CMAEvolutionStrategy(first, 0.25, {**options, "verbose": -9})]
            sizes.append(2 * sizes[-1])
            asked.clear()
        if not asked:
            told.clear()
            asked.extend(search[0].ask())
            queue.extend(range(len(asked)))
        if not queue:
            return None
        at = queue.pop(0)
        return at, _choice(problem, asked[at])

    def tell(at: int, cost: float, _valid: bool) -> None:
        told[at] = cost
        if len(told) == len(asked):
            search[0].tell(asked, [told[each] for each in range(len(asked))])
            asked.clear()

    queue: list[int] = []
    return ask, tell


def smac(problem: Problem, seed: int, _slots: int) -> tuple[Ask, Tell]:
    """SMAC3's forest, told of conditions by its own means."""
    import ConfigSpace
    from smac import HyperparameterOptimizationFacade as Facade
    from smac import Scenario
    from smac.runhistory.dataclasses import TrialValue
    from smac.runhistory.enumerations import StatusType

    space = ConfigSpace.ConfigurationSpace(seed=seed)
    for (name, values), ordered in zip(problem.sets.items(), problem.ordered, strict=True):
        if values is REAL:
            space.add(ConfigSpace.Float(name, (0.0, 1.0)))
        elif len(values) == 1:
            space.add(ConfigSpace.Constant(name, 0))
        elif ordered:
            space.add(ConfigSpace.Integer(name, (0, len(values) - 1)))
        else:
            space.add(ConfigSpace.Categorical(name, list(range(len(values)))))
    for name, condition in problem.when:
        parent, sign, text = condition.split()
        value = list(map(str, problem.sets[parent])).index(text.strip("'"))
        kind = ConfigSpace.EqualsCondition if sign == "==" else ConfigSpace.GreaterThanCondition
        space.add(kind(space[name], space[parent], value))
    scenario = Scenario(
        space, deterministic=not problem.noise, n_trials=PATIENCE * problem.budget, seed=seed,
        output_directory=Path(tempfile.mkdtemp()),
    )  # fmt: skip
    design = Facade.get_initial_design(
        scenario,
        n_configs_per_hyperparameter=10,
        max_ratio=0.25 * problem.budget / scenario.n_trials,
    )
    search = Facade(
        scenario, lambda _config, seed: float(seed), initial_design=design, overwrite=True
    )

    def ask() -> Asked:
        info = search.ask()
        chosen = dict(info.config)
        return info, _choice(problem, [chosen.get(name, 0) for name in problem.sets])

    def tell(info: Any, cost: float, valid: bool) -> None:
        status = StatusType.SUCCESS if valid else StatusType.CRASHED
        search.tell(info, TrialValue(cost=cost, time=0.1, status=status))

    return ask, tell


def pygad(problem: Problem, cost: Counter, seed: int) -> None:
    """A genetic algorithm, ten generations of it in the budget."""
    import pygad as library

    search = library.GA(
        num_generations=PATIENCE * 10,
        num_parents_mating=max(problem.budget // 20, 2),
        fitness_func=lambda _ga, genes, _at: -cost(_choice(problem, genes)),
        sol_per_pop=max(problem.budget // 10, 4),
        num_genes=len(problem.sets),
        gene_type=[float if values is REAL else int for values in problem.sets.values()],
        gene_space=[
            {"low": 0, "high": 1} if values is REAL else range(len(values))
            for values in problem.sets.values()
        ],
        parent_selection_type="tournament",
        crossover_type="single_point",
        mutation_type="random",
        mutation_probability=1 / len(problem.sets),
        keep_elitism=1,
        random_seed=seed,
        suppress_warnings=True,
    )
    search.run()


def kernel_tuner(strategy: str) -> Whole:
    """One of Kernel Tuner's strategies, which searches a simulated kernel: a table."""

    def search(problem: Problem, cost: Counter, seed: int) -> None:
        import kernel_tuner.util as ktu
        from kernel_tuner.interface import Options, strategy_map
        from kernel_tuner.runners.simulation import SimulationRunner

        space, cache = _simulated(problem.name)
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 - it draws from this one
        device = Options(quiet=True)
        runner = SimulationRunner(None, Options(kernel_name=problem.name), device, 1, None)
        options = Options(
            strategy_options=Options(max_fevals=problem.budget), verbose=False, metrics=None,
            objective=["time"], objective_higher_is_better=[False], cache=cache,
            tune_params=space.tune_params, restrictions=None,
            budget=ktu.TuningBudget(None, problem.budget),
        )  # fmt: skip
        for result in strategy_map[strategy].tune(space, runner, options):
            cost(tuple(v.index(result[n]) for n, v in space.tune_params.items()))

    return search


@functools.cache
def _simulated(name: str) -> tuple[Any, dict[str, dict[str, Any]]]:
    """The space of a table for Kernel Tuner, and what its simulator reads."""
    problem = PROBLEMS[name]()
    from kernel_tuner.searchspace import Searchspace
    from kernel_tuner.util import RuntimeFailedConfig

    sets = {name: list(values) for name, values in problem.sets.items()}
    space = Searchspace(sets, list(problem.constraints), 10**9)
    cache = {}
    for values in space.list:
        found = problem.cost(tuple(s.index(v) for s, v in zip(sets.values(), values, strict=True)))
        told = {"time": found} if found is not None else {"__error__": RuntimeFailedConfig()}
        cache[",".join(map(str, values))] = dict(zip(sets, values, strict=True)) | told
    return space, cache


PEERS: dict[str, Peer] = {
    "Optuna TPE": tpe, "Optuna GP": gaussian, "Optuna CMA-ES": cmaes, "pycma": pycma,
    "Nevergrad NGOpt": ngopt, "SMAC3": smac,
}  # fmt: skip
STRATEGIES = ("genetic_algorithm", "diff_evo", "hybrid_vndx", "adaptive_tabu_greywolf")
WHOLE: dict[str, Whole] = {
    "PyGAD": pygad, **{f"Kernel Tuner {name}": kernel_tuner(name) for name in STRATEGIES}
}  # fmt: skip


def applies(name: str, problem: Problem) -> bool:
    """Whether the peer is made for such problems."""
    if name == "pycma":
        return all(values is REAL for values in problem.sets.values())
    is_table = problem.about.startswith(("recorded", "model")) and not problem.noise
    return is_table or not name.startswith("Kernel Tuner")


def contest(name: str, problem: Problem, seed: int, slots: int) -> tuple[list[float], float]:
    """The best cost after each trial, and the share of time that slots are busy."""
    cost, busy = Counter(problem, seed), 1.0
    with suppress(SpentError):
        if name in WHOLE:
            WHOLE[name](problem, cost, seed)
        else:
            busy = simulate(*PEERS[name](problem, seed, slots), cost, seed, slots)
    return cost.best, busy


def simulate(ask: Ask, tell: Tell, cost: Counter, seed: int, slots: int) -> float:
    """Evaluate what is asked, *slots* at a time; return the share of time these are busy."""
    running: list[tuple[float, int, Choice]] = []
    away: dict[Choice, list[Any]] = {}
    now = spent = 0.0
    number = copies = 0
    while True:
        while len(running) < slots and copies < PATIENCE and number < cost.problem.budget:
            asked = ask()
            if asked is None:
                break
            known_by, choice = asked
            key = cost.key(choice)
            if key in away:  # costs nothing, and is told when the one under way is
                away[key].append(known_by)
                copies += 1
            elif key in cost.known or cost.problem.cost(choice) is None or slots == 1:
                found = cost(choice)
                tell(known_by, found, cost.valid(choice))
            else:
                number, copies, away[key] = number + 1, 0, [known_by]
                # By its number, as for our engines.
                seconds = random.Random(f"{seed} {number}").lognormvariate(0, SPREAD)
                spent += seconds
                heapq.heappush(running, (now + seconds, number, choice))
        if not running:
            return spent / (slots * now) if now else 1.0
        now, _, choice = heapq.heappop(running)
        found, copies = cost(choice), 0
        for known_by in away.pop(cost.key(choice)):
            tell(known_by, found, True)


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


def main(name: str, seeds: int, trials: int, slots: int, wanted: list[str]) -> None:
    """Print what *name* finds on those of the problems that it is made for."""
    found, busy = {}, []
    began = time.process_time()
    with quiet():
        for each in wanted or PROBLEMS:
            problem = PROBLEMS[each]()
            problem = replace(problem, budget=trials or problem.budget)
            if applies(name, problem):
                runs = [contest(name, problem, seed, slots) for seed in range(1, seeds + 1)]
                found[each] = [best for best, _ in runs]
                busy += [share for _, share in runs]
    seconds = time.process_time() - began
    print(json.dumps({"seconds": seconds, "best": found, "busy": statistics.fmean(busy or [1.0])}))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5:])
