"""Islands of a genetic search at a place: a step of an island is an experiment there.

The experiment calls ``zenturio.execute.island_step``, so zenturio with Numba has to be installed
where it runs. The island travels as arrays, forth and back; nothing is pickled, nor recorded.
"""

from __future__ import annotations

import io
import json
import shlex
import zipfile
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from math import inf, isfinite
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
_HEADER_BYTES = 2**16
"""More than the headers of all arrays of an island take."""


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
            return [
                self._receive(island, outcome, end, seconds)
                for island, outcome, end in zip(islands, outcomes, until, strict=True)
            ]
        finally:  # also of islands that ended when another one failed
            for future in futures:
                future.cancel()
                self._discard(future)

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

    def _receive(self, island: Island, outcome: Outcome, until: int, seconds: float) -> float:
        where = f"{self._name} ({outcome.host})" if outcome.host else self._name
        if outcome.status != "ok":
            raise PlaceError(
                f"an island failed at {where}: {outcome.cause or outcome.status}",
                hint="zenturio with its extra schedule has to be installed there; "
                f"zen places check {self._name}",
            )
        try:
            return _restore(island, outcome, until, seconds)
        except (OSError, ValueError) as error:
            raise PlaceError(
                f"{where} returned an invalid island: {error}",
                hint="install the same version of zenturio there",
            ) from error

    def _discard(self, future: Future[Outcome]) -> None:
        """Remove what is kept of an outcome: it is not recorded."""
        if not future.done() or future.cancelled() or future.exception() is not None:
            return
        outcome = future.result()
        if isinstance(self._place, Resumable):
            self._place.forget(outcome.digest)
        for artifact in outcome.artifacts:
            with suppress(OSError):
                artifact.kept.unlink(missing_ok=True)
                artifact.kept.parent.rmdir()


def _restore(island: Island, outcome: Outcome, until: int, seconds: float) -> float:
    """Continue *island* from the state that a place returned; return its processor seconds.

    OSError or ValueError if that is not an island that evolved *until* then, or for *seconds*.
    """
    if len(outcome.artifacts) != 1:
        raise ValueError(f"{len(outcome.artifacts)} files instead of one")
    most = sum(array.nbytes for array in island.state().values()) + _HEADER_BYTES
    state = arrays_of(outcome.artifacts[0].kept, most)
    took = state.get("processor_seconds")
    if took is None or took.shape or took.dtype != np.float64:
        raise ValueError("its processor seconds are missing")
    if not (np.isfinite(took) and took >= 0):
        raise ValueError(f"it took {took} processor seconds")
    island.restore(state)
    if not island.evaluations:
        raise ValueError("it was not evaluated")
    # Otherwise the search, which waits for its evaluations, would send it again without end.
    if island.evaluations < until and seconds == inf and island.best[0] > island.settings.bound:
        raise ValueError(f"it stopped after {island.evaluations} of {until} evaluations")
    return float(took)


def bytes_of(arrays: Mapping[str, Any]) -> bytes:
    """Return *arrays* as a file of NumPy."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def arrays_of(path: Path, most: float = inf) -> dict[str, Any]:
    """Return what :func:`bytes_of` wrote; ValueError or OSError if it is none.

    ValueError also if it has more than *most* bytes.
    """
    try:
        return _read_arrays(path, most)
    except (OSError, ValueError):
        raise
    except Exception as error:  # of a damaged archive, zipfile and NumPy raise a dozen kinds
        raise ValueError(f"its file is damaged: {error}") from error


def _read_arrays(path: Path, most: float) -> dict[str, Any]:
    size = path.stat().st_size
    if size > most:
        raise ValueError(f"{size:,} bytes are more than the {most:,} of this island")
    with zipfile.ZipFile(path) as archive:
        # Compressed arrays could be a thousand times as large as the file.
        if any(member.compress_type for member in archive.infolist()):
            raise ValueError("it is compressed")
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise ValueError("not only arrays")
    return arrays
