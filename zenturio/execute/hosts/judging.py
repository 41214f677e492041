"""From what an attempt left to the outcome of its experiment."""

from __future__ import annotations

from pathlib import Path
from time import time

from zenturio.execute import outputs
from zenturio.execute.hosts.building import Broken
from zenturio.execute.hosts.logs import KEPT
from zenturio.execute.hosts.stages import Finished
from zenturio.execute.machine_codec import conditions, machine_parts
from zenturio.execute.matching import missing_outputs
from zenturio.execute.verdict import IDLE_BUILD, usage, verdict
from zenturio.execute.words import words
from zenturio.experiment import (
    Evidence,
    Experiment,
    MetricReaders,
    MetricValue,
    Missing,
    Outcome,
    Status,
    Step,
)
from zenturio.experiment.machine import MachineKind


class Judge:
    """Measures what came back; artifacts are kept below *kept*."""

    def __init__(self, kept: Path) -> None:
        self._kept = kept
        self._meters = MetricReaders()

    def outcome(self, experiment: Experiment, host: str, found: Finished) -> Outcome:
        """What happened, as the host tells it."""
        facts, steps = found.facts, experiment.steps
        step = steps[facts["step"]] if steps else Step("")
        shell = words(step.command) is None
        status, cause = verdict(facts, step, shell=shell, stderr=found.stderr)
        meter = self._meters.of(experiment.recipe)
        evidence = Evidence(
            found.stdout, found.stderr, found.folder, found.reported, usage(facts, "keeper")
        )
        metrics = meter.measure(experiment.values, evidence)
        if status == "ok":
            cause = (
                ("a large input file was written to" if found.spoilt else found.fault)
                or missing_outputs(str(found.folder), experiment.recipe.required)
                or meter.lacking(metrics)
            )
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
            found.stdout.trimmed(KEPT),
            found.stderr.trimmed(KEPT),
            kept,
            remark=IDLE_BUILD if found.is_build_idle else "",
            conditions=conditions(facts),
            **({} if found.machine is None else machine_parts(found.machine)),
        )

    def unbuilt(
        self,
        experiment: Experiment,
        host: str,
        broken: Broken,
        began: float,
        machine: MachineKind | None = None,
    ) -> Outcome:
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
            stdout=broken.stdout.trimmed(KEPT),
            stderr=broken.stderr.trimmed(KEPT),
            machine=machine,
        )

    def nothing(
        self,
        experiment: Experiment,
        status: Status,
        cause: str,
        host: str,
        began: float,
        machine: MachineKind | None = None,
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
            machine=machine,
        )


def _nothing(experiment: Experiment, cause: str) -> dict[str, MetricValue]:
    why = Missing("nothing came of it: " + cause)
    return {metric.name: why for metric in experiment.recipe.metrics}
