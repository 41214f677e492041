"""One step of an island, as a function that an experiment calls: see ``island_runner``.

Importing this loads the compiled search. A launcher does so once, and each step is a fork of it.
"""

from __future__ import annotations

from math import inf
from pathlib import Path

import numpy as np

from zenturio.execute.island_runner import AFTER, BEFORE, CASE, arrays_of, bytes_of
from zenturio.schedule.model.platform import identical
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.static.genetic import decoding_problem_of
from zenturio.schedule.static.islands import EvolutionSettings, Island, case_from_arrays


def _load_search() -> None:
    """Call what a step calls, with a single task."""
    case = decoding_problem_of(
        Problem.of(Workflow.of("one", [WorkflowTask("a", 1.0)]), identical(1))
    )
    orders, genes = np.zeros((2, 1), np.uint32), np.zeros((2, 1), np.int32)
    island = Island(case, orders, genes, EvolutionSettings(0, 0.0, 0.0), 0)
    island.evolve(0)
    island.evolve(island.evaluations + 1)


_load_search()


def evolve_island(until: int, seconds: float) -> None:
    """Let the island in the current folder evolve, until a number of evaluations.

    With *seconds* above 0, it also ends then.
    """
    arrays = arrays_of(Path(BEFORE))
    names = EvolutionSettings.__dataclass_fields__
    settings = EvolutionSettings(*(arrays[name].item() for name in names))
    case = case_from_arrays(arrays_of(Path(CASE)))
    island = Island(case, arrays["orders"], arrays["genes"], settings, 0)
    island.restore(arrays)
    took = island.evolve(until, seconds or inf)
    Path(AFTER).write_bytes(bytes_of({**island.state(), "processor_seconds": np.array(took)}))
