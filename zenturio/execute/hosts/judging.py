"""From what an attempt left to the outcome of its experiment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import time
from typing import Any

from zenturio.execute import outputs
from zenturio.execute.hosts.building import Broken
from zenturio.execute.hosts.logs import trimmed
from zenturio.execute.hosts.stages import Finished
from zenturio.execute.verdict import verdict
from zenturio.execute.words import words
from zenturio.experiment import (
    Evidence,
    Experiment,
    Measure,
    Meter,
    Missing,
    Outcome,
    Recipe,
    Status,
    Step,
)

_HIDDEN = "the run was short, and smaller than its keeper, which has {} B"


class Judge:
    """Measures what came back; artifacts are kept below *kept*."""

    def __init__(self, kept: Path) -> None:
        self._kept = kept
        self._meters: dict[int, tuple[Recipe, Meter]] = {}

    def outcome(self, experiment: Experiment, host: str, found: Finished) -> Outcome:
        """What happened, as the host tells it."""
        facts, steps = found.facts, experiment.steps
        step = steps[facts["step"]] if steps else Step("")
        status, cause = verdict(facts, step, shell=words(step.command) is None)
        meter = self._meter(experiment.recipe)
        evidence = Evidence(found.stdout, found.stderr, found.folder, found.reported, _usage(facts))
        metrics = meter.measure(experiment.values, evidence)
        if status == "ok":
            cause = "a large input file was written to" if found.spoilt else meter.lacking(metrics)
            status = "failed" if cause else "ok"
        patterns = experiment.recipe.outputs
        kept = (
            outputs.collect(str(found.folder), patterns, self._kept, experiment.digest, move=True)
            if patterns
            else ()
        )
        return Outcome(
            experiment.digest,
            status,
            cause,
            metrics,
            1,
            host,
            facts["started"],
            facts["ended"],
            None if facts["stop"] == "unstartable" else facts["status"],
            trimmed(found.stdout),
            trimmed(found.stderr),
            kept,
        )

    def unbuilt(self, experiment: Experiment, host: str, broken: Broken, began: float) -> Outcome:
        """Nothing was run, for there is no program."""
        return Outcome(
            experiment.digest,
            "failed",
            broken.cause,
            _nothing(experiment, broken.cause),
            host=host,
            started=began,
            ended=time(),
            exit=broken.exit,
            stdout=trimmed(broken.stdout),
            stderr=trimmed(broken.stderr),
        )

    def nothing(
        self, experiment: Experiment, status: Status, cause: str, host: str, began: float
    ) -> Outcome:
        """Nothing came of it."""
        return Outcome(
            experiment.digest,
            status,
            cause,
            _nothing(experiment, cause),
            host=host,
            started=began,
            ended=time(),
        )

    def _meter(self, recipe: Recipe) -> Meter:
        """Made once for each recipe; by identity, for its expressions are slow to compare."""
        known = self._meters.get(id(recipe))
        if known is None:
            known = self._meters[id(recipe)] = (recipe, Meter(recipe))
        return known[1]


def _nothing(experiment: Experiment, cause: str) -> dict[str, Measure]:
    why = Missing("nothing came of it: " + cause)
    return {metric.name: why for metric in experiment.recipe.metrics}


def _usage(facts: Mapping[str, Any]) -> dict[str, Measure]:
    """The metrics that every experiment has."""
    unstarted = facts["stop"] == "unstartable"
    return {
        "wtime": facts["wtime"],
        "ctime": facts["ctime"],
        "maxrss": facts["maxrss"] or Missing(_HIDDEN.format(facts["hidden"])),
        "exit": Missing("the command could not be started") if unstarted else facts["status"],
    }
