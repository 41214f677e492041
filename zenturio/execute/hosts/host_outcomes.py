"""From what an attempt left to the outcome of its experiment."""

from __future__ import annotations

from pathlib import Path
from time import time

from zenturio.execute import output_artifacts
from zenturio.execute.hosts.stages import KEPT_BYTES, FinishedAttempt, HostBuildFailure
from zenturio.execute.machine_json import machine_parts, run_conditions
from zenturio.execute.output_patterns import missing_outputs
from zenturio.execute.run_verdict import (
    judge_steps,
    program_facts,
    run_remark,
    usage_metrics,
)
from zenturio.experiment import (
    Evidence,
    Experiment,
    MachineKind,
    MetricReaders,
    MetricValue,
    Missing,
    Outcome,
    Status,
)


class OutcomeBuilder:
    """Measures returned attempts; their artifacts are stored below *folder*."""

    def __init__(self, folder: Path) -> None:
        self._kept = folder
        self._meters = MetricReaders()

    def outcome(self, experiment: Experiment, host: str, finished: FinishedAttempt) -> Outcome:
        """Return what happened, as the host tells it."""
        recipe, steps = experiment.recipe, experiment.steps
        status, cause = judge_steps(finished.facts, steps, recipe.verifiers, finished.stderr)
        facts = program_facts(finished.facts, len(steps), len(recipe.verifiers))
        meter = self._meters.of(experiment.recipe)
        evidence = Evidence(
            finished.stdout,
            finished.stderr,
            finished.folder,
            finished.reported,
            usage_metrics(facts, "supervisor"),
        )
        metrics = meter.measure(experiment.values, evidence)
        if status == "ok":
            cause = (
                ("a large input file was written to" if finished.spoilt else finished.fault)
                or missing_outputs(str(finished.folder), experiment.recipe.required)
                or meter.lacking(metrics)
            )
            status = "failed" if cause else "ok"
        if status == "ok":
            cause = meter.unverified(experiment.values, metrics)
            status = "wrong" if cause else "ok"
        patterns = experiment.recipe.outputs
        artifacts = (
            output_artifacts.collect_outputs(
                str(finished.folder), patterns, self._kept, experiment.digest, move=True
            )
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
            finished.stdout.trimmed(KEPT_BYTES),
            finished.stderr.trimmed(KEPT_BYTES),
            artifacts,
            remark=run_remark(facts, metrics, is_build_idle=finished.is_build_idle),
            conditions=run_conditions(facts),
            **({} if finished.machine is None else machine_parts(finished.machine)),
        )

    def unbuilt(
        self,
        experiment: Experiment,
        host: str,
        broken: HostBuildFailure,
        began: float,
        machine: MachineKind | None = None,
    ) -> Outcome:
        """Nothing was run, for there is no program."""
        return Outcome(
            experiment.digest,
            "failed",
            broken.cause,
            _missing_metrics(experiment, broken.cause),
            host=host,
            started=began,
            ended=time(),
            exit=broken.exit,
            stdout=broken.stdout.trimmed(KEPT_BYTES),
            stderr=broken.stderr.trimmed(KEPT_BYTES),
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
            _missing_metrics(experiment, cause),
            host=host,
            started=began,
            ended=time(),
            machine=machine,
        )


def _missing_metrics(experiment: Experiment, cause: str) -> dict[str, MetricValue]:
    why = Missing("nothing came of it: " + cause)
    return {metric.name: why for metric in experiment.recipe.metrics}
