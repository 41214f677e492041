"""Islands of a genetic search at a place: a step of an island is an experiment there.

The experiment calls ``zenturio.execute.island_step``, so zenturio with Numba has to be installed
where it runs. The island travels as arrays, forth and back; nothing is pickled, nor recorded.
"""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import isfinite
from pathlib import Path
from time import time_ns
from typing import Any

import numpy as np

from zenturio.errors import PlaceError
from zenturio.execute.call import ARGUMENTS
from zenturio.execute.executor import Executor, Resumable
from zenturio.execute.spawn import CALL_COMMAND
from zenturio.experiment import Experiment, ExperimentFile, Outcome, Recipe, Step
from zenturio.experiment.identity import experiment_digest
from zenturio.schedule.static.islands import Island, case_as_arrays

CASE, BEFORE, AFTER = "case.npz", "island.npz", "evolved.npz"
"""Files of a step: the problem, the island, and the island as it came out."""
_TARGET = "zenturio.execute.island_step:evolve_island"


class PlaceRunner:
    """Lets each island evolve in an experiment at *place*, which the user called *name*."""

    def __init__(self, place: Executor, name: str) -> None:
        self.slots = place.slots
        self._place, self._name = place, name
        self._case: tuple[object, bytes] = (None, b"")
        self._number = time_ns()
        """Of the next experiment: no other driver has one of this number."""

    def evolve(
        self, islands: Sequence[Island], until: Sequence[int], seconds: float
    ) -> list[float]:
        """Let each island evolve there; return the processor seconds that each took.

        PlaceError if an experiment fails, or returns an invalid island.
        """
        experiments = [
            self._experiment(island, end, seconds)
            for island, end in zip(islands, until, strict=True)
        ]
        futures = [self._place.submit(experiment) for experiment in experiments]
        try:
            outcomes = [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()
        return [
            self._receive(island, outcome)
            for island, outcome in zip(islands, outcomes, strict=True)
        ]

    def _experiment(self, island: Island, until: int, seconds: float) -> Experiment:
        if self._case[0] is not island.case:  # islands of a search have the same
            self._case = island.case, bytes_of(case_as_arrays(island.case))
        settings = {name: np.array(value) for name, value in vars(island.settings).items()}
        arguments = {"until": until, "seconds": seconds if isfinite(seconds) else 0.0}
        files = (
            ExperimentFile(CASE, 0o644, self._case[1]),
            ExperimentFile(BEFORE, 0o644, bytes_of(island.state() | settings)),
            ExperimentFile(ARGUMENTS, 0o644, json.dumps(arguments).encode()),
        )
        root = Path(__file__).parents[2]
        steps = (Step(shlex.join((*CALL_COMMAND, str(root), _TARGET))),)
        self._number += 1
        digest = experiment_digest(files, steps, {}, self._number)
        recipe = Recipe(outputs=(AFTER,))
        return Experiment(digest, -1, self._number, {}, files, steps, {}, None, recipe)

    def _receive(self, island: Island, outcome: Outcome) -> float:
        if isinstance(self._place, Resumable):
            self._place.forget(outcome.digest)
        where = f"{self._name} ({outcome.host})" if outcome.host else self._name
        files = [artifact.kept for artifact in outcome.artifacts]
        try:
            if outcome.status != "ok" or len(files) != 1:
                raise PlaceError(
                    f"an island failed at {where}: {outcome.cause or outcome.status}",
                    hint="zenturio with its extra schedule has to be installed there; "
                    f"zen places check {self._name}",
                )
            try:
                return _restore(island, arrays_of(files[0]))
            except (OSError, ValueError) as error:
                raise PlaceError(
                    f"{where} returned an invalid island: {error}",
                    hint="install the same version of zenturio there",
                ) from error
        finally:
            for file in files:
                with suppress(OSError):
                    file.unlink(missing_ok=True)
                    file.parent.rmdir()


def _restore(island: Island, state: Mapping[str, Any]) -> float:
    """Let *island* go on from the *state* that a place returned; return its processor seconds.

    ValueError if the state is not that of an island that evolved.
    """
    seconds = state.get("processor_seconds")
    if seconds is None or seconds.shape or seconds.dtype != np.float64:
        raise ValueError("its processor seconds are missing")
    if not (np.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"it took {seconds} processor seconds")
    island.restore(state)
    if not island.evaluations:
        raise ValueError("it was not evaluated")
    return float(seconds)


def bytes_of(arrays: Mapping[str, Any]) -> bytes:
    """Return *arrays* as a file of NumPy."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def arrays_of(path: Path) -> dict[str, Any]:
    """Return what :func:`bytes_of` wrote; ValueError or OSError if it is none."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except OSError:
        raise
    except Exception as error:  # of a damaged archive, zipfile and NumPy raise a dozen kinds
        raise ValueError(f"{path.name}: {error}") from error
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise ValueError(f"{path.name}: not only arrays")
    return arrays
