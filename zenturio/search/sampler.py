"""The samplers of Optuna behind our seam: TPE, CMA-ES, GP and the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from zenturio.errors import InputError, PlaceError, did_you_mean
from zenturio.search.factors import FINE, Ints
from zenturio.search.search import Task
from zenturio.search.settings import setting
from zenturio.search.walker import Reals, Walk, Walker

REPEATS = 10
"""After so many batches of points that are known, a new one is taken by chance."""

_NO_SEED = {"BruteForce": "exhaustive", "Grid": "exhaustive", "PartialFixed": "optuna:TPE"}


@dataclass(frozen=True)
class SamplerSettings:
    variant: str = setting("TPE", "which sampler of Optuna: TPE, CmaEs, GP, NSGAII, QMC, ...")
    batch: int = setting(1, "points that are asked for before it is told of them", low=1)


class Sampler(Walker):
    """Any sampler of Optuna, such as optuna:TPE or optuna:CmaEs: for few, dear experiments."""

    Settings: ClassVar[type[SamplerSettings]] = SamplerSettings
    several = True

    def __init__(self, task: Task, settings: SamplerSettings) -> None:
        super().__init__(task, settings)
        self._settings = settings
        self._optuna = _optuna()
        self._study = self._optuna.create_study(
            sampler=self._sampler(), directions=["minimize"] * len(task.goals)
        )
        self._sets = {str(at): self._set(at) for at in range(self.genome.length)}
        self._worst: list[float] = []

    def _sampler(self) -> Any:
        """The sampler that the variant names, whatever its capitals and hyphens."""
        found = self._optuna.samplers
        known = {name.removesuffix("Sampler"): name for name in found.__all__ if "Sampler" in name}
        known = {name: whole for name, whole in known.items() if not name.startswith("Base")}
        wanted = self._settings.variant.replace("-", "").lower().removesuffix("sampler")
        for name, whole in known.items():
            if name.lower() != wanted:
                continue
            if name in _NO_SEED:
                raise InputError(
                    f"optuna:{name} is not for this", hint=f"take engine {_NO_SEED[name]}"
                )
            return getattr(found, whole)(seed=self.task.seed % 2**32)
        raise InputError(
            f"Optuna has no sampler {self._settings.variant!r}",
            hint=did_you_mean(self._settings.variant, known),
        )

    def _set(self, gene: int) -> Any:
        """What Optuna is told that a gene can be."""
        sets, size = self._optuna.distributions, int(self.genome.sizes[gene])
        if size > FINE:
            return sets.FloatDistribution(0.0, 1.0)
        if self.genome.ordered[gene] or size > 4096:
            return sets.IntDistribution(0, size - 1)
        return sets.CategoricalDistribution(list(range(size)))

    def walk(self) -> Walk:
        repeats = 0
        while True:
            if repeats >= REPEATS:
                new = self.unseen(self.genome.drawn(self.rng, 64))[:1]
                if len(new):
                    self._add(new[0], (yield new)[0])
                    repeats = 0
                    continue
            asked = [self._ask() for _ in range(self._settings.batch)]
            rows = self.genome.repaired(np.array([self._genes(each.params) for each in asked]))
            repeats = 0 if len(self.unseen(rows)) else repeats + 1
            for trial, losses in zip(asked, (yield rows), strict=True):
                worth = self._worth(losses)
                state = None if worth else self._optuna.trial.TrialState.FAIL
                self._study.tell(trial, worth, state=state)

    def _ask(self) -> Any:
        try:
            return self._study.ask(self._sets)
        except ImportError as error:  # which some samplers do when they begin to learn
            raise PlaceError(
                f"optuna:{self._settings.variant} needs a package that is not there: {error}",
                hint=f"pip install {error.name}" if error.name else "or another engine: optuna:TPE",
            ) from error

    def _genes(self, params: dict[str, Any]) -> list[int]:
        return [
            round(params[name] * FINE) if isinstance(params[name], float) else params[name]
            for name in self._sets
        ]

    def _worth(self, losses: Reals) -> Sequence[float] | None:
        """The *losses*, or the worst so far in the place of a failure; None if there is none."""
        if np.isfinite(losses).all():
            found: list[float] = losses.tolist()
            self._worst = [max(pair) for pair in zip(found, self._worst or found, strict=True)]
            return found
        return self._worst or None

    def _add(self, row: Ints, losses: Reals) -> None:
        """Tell Optuna of a point that it did not ask for."""
        worth = self._worth(losses)
        if worth is None:
            return
        genes = row.tolist()
        params = {
            name: genes[at] / FINE if int(self.genome.sizes[at]) > FINE else genes[at]
            for at, name in enumerate(self._sets)
        }
        self._study.add_trial(
            self._optuna.trial.create_trial(params=params, distributions=self._sets, values=worth)
        )


def _optuna() -> Any:
    try:
        import optuna  # noqa: PLC0415 - an extra, and a second
    except ImportError as error:
        raise PlaceError(
            "this engine needs Optuna", hint="pip install 'zenturio[search]'"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
