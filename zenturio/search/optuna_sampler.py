"""The samplers of Optuna as an engine: TPE, CMA-ES, GP and the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from zenturio.errors import InputError, PlaceError, did_you_mean
from zenturio.install_hint import extra_hint, package_hint
from zenturio.search.engine import SearchProblem
from zenturio.search.gene_encoding import FINE, Ints
from zenturio.search.generator_engine import GeneratorEngine, Reals, SearchGenerator
from zenturio.settings.schema import setting

MAX_REPEATS = 10
"""After this many batches without a new point, a random one is evaluated."""

_ONE_OBJECTIVE = {"CmaEs"}
"""Samplers that fail when they are first asked for a point for several objectives."""
_NO_SEED = {"BruteForce": "exhaustive", "Grid": "exhaustive", "PartialFixed": "optuna:TPE"}


@dataclass(frozen=True)
class OptunaSettings:
    variant: str = setting("TPE", "which sampler of Optuna: TPE, CmaEs, GP, NSGAII, QMC, ...")
    batch: int = setting(1, "points in a batch", low=1)


class OptunaSampler(GeneratorEngine):
    """Any sampler of Optuna, such as optuna:TPE or optuna:CmaEs: for few, expensive experiments."""

    Settings: ClassVar[type[OptunaSettings]] = OptunaSettings
    multi_objective = True

    def __init__(self, problem: SearchProblem, settings: OptunaSettings) -> None:
        super().__init__(problem, settings)
        self._settings = settings
        self._optuna = _optuna()
        self._study = self._optuna.create_study(
            sampler=self._sampler(), directions=["minimize"] * len(problem.directions)
        )
        self._sets = {str(at): self._set(at) for at in range(self.genome.length)}
        self._worst: list[float] = []

    def _sampler(self) -> Any:
        """Return the sampler that the variant names, ignoring case and hyphens."""
        samplers = self._optuna.samplers
        samplers_by_name = {
            name.removesuffix("Sampler"): name for name in samplers.__all__ if "Sampler" in name
        }
        samplers_by_name = {
            name: full for name, full in samplers_by_name.items() if not name.startswith("Base")
        }
        variant = self._settings.variant.replace("-", "").lower().removesuffix("sampler")
        for name, full in samplers_by_name.items():
            if name.lower() != variant:
                continue
            if name in _NO_SEED:
                raise InputError(
                    f"optuna:{name} cannot be used here", hint=f"use engine {_NO_SEED[name]}"
                )
            objectives = len(self.problem.directions)
            if name in _ONE_OBJECTIVE and objectives > 1:
                raise InputError(
                    f"engine optuna:{name} takes one objective, and there are {objectives}",
                    hint="give one, or take optuna:NSGAII, which finds a Pareto front",
                )
            # NumPy's legacy generators, which Optuna uses, take seeds of 32 bits.
            return getattr(samplers, full)(seed=self.problem.seed % 2**32)
        raise InputError(
            f"Optuna has no sampler {self._settings.variant!r}",
            hint=did_you_mean(self._settings.variant, samplers_by_name),
        )

    def _set(self, gene: int) -> Any:
        """Return the distribution of a gene."""
        sets, size = self._optuna.distributions, int(self.genome.sizes[gene])
        if size > FINE:
            return sets.FloatDistribution(0.0, 1.0)
        # A categorical distribution has a weight for each choice, which large sets cannot afford.
        if self.genome.ordered[gene] or size > 4096:
            return sets.IntDistribution(0, size - 1)
        return sets.CategoricalDistribution(list(range(size)))

    def walk(self) -> SearchGenerator:
        repeats = 0
        while True:
            # Samplers know nothing of points that were evaluated, and converge to one of them.
            # The space is finite, but a sampler may propose the point that it likes best for ever.
            if repeats >= MAX_REPEATS:
                new = self.unseen(self.genome.draw(self.rng, 64))[:1]
                if len(new):
                    self._add(new[0], (yield new)[0])
                    repeats = 0
                    continue
            trials = [self._ask() for _ in range(self._settings.batch)]
            rows = self.genome.repair(np.array([self._genes(trial.params) for trial in trials]))
            repeats = 0 if len(self.unseen(rows)) else repeats + 1
            for trial, losses in zip(trials, (yield rows), strict=True):
                values = self._values(losses)
                state = None if values else self._optuna.trial.TrialState.FAIL
                self._study.tell(trial, values, state=state)

    def _ask(self) -> Any:
        try:
            return self._study.ask(self._sets)
        except ImportError as error:  # which some samplers do when they begin to learn
            raise PlaceError(
                f"optuna:{self._settings.variant} needs a package that is not installed: {error}",
                hint=package_hint(error.name) if error.name else "or another engine: optuna:TPE",
            ) from error

    def _genes(self, params: dict[str, Any]) -> list[int]:
        return [
            round(params[name] * FINE) if isinstance(params[name], float) else params[name]
            for name in self._sets
        ]

    def _values(self, losses: Reals) -> Sequence[float] | None:
        """Return *losses*; for a failure the worst so far, or None if there is none."""
        if np.isfinite(losses).all():
            values: list[float] = losses.tolist()
            self._worst = [max(pair) for pair in zip(values, self._worst or values, strict=True)]
            return values
        # Samplers ignore failed trials; a bad value keeps them away from such points.
        return self._worst or None

    def _add(self, row: Ints, losses: Reals) -> None:
        """Tell Optuna of a point that it did not propose."""
        values = self._values(losses)
        if values is None:
            return
        genes = row.tolist()
        params = {
            name: genes[at] / FINE if int(self.genome.sizes[at]) > FINE else genes[at]
            for at, name in enumerate(self._sets)
        }
        self._study.add_trial(
            self._optuna.trial.create_trial(params=params, distributions=self._sets, values=values)
        )


def _optuna() -> Any:
    try:
        import optuna  # noqa: PLC0415 - an extra, and a second
    except ImportError as error:
        raise PlaceError("this engine needs Optuna", hint=extra_hint("search")) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
