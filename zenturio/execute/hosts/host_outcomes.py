"""From what an attempt left to the outcome of its experiment."""

from __future__ import annotations

from pathlib import Path
from time import time

from zenturio.execute import output_artifacts
from zenturio.execute.hosts.stages import KEPT_BYTES, FinishedAttempt, HostBuildFailure
from zenturio.execute.machine_json import machine_parts
from zenturio.execute.run_verdict import FinishedRun, run_outcome
from zenturio.experiment import (
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
        folder, recipe = str(finished.folder), experiment.recipe
        run = FinishedRun(
            finished.facts,
            finished.stdout,
            finished.stderr,
            folder,
            finished.reported,
            "supervisor",
            lambda: "a large input file was written to" if finished.spoilt else finished.fault,
            is_build_idle=finished.is_build_idle,
        )
        return run_outcome(
            experiment,
            run,
            self._meters.of(recipe),
            lambda: output_artifacts.collect_outputs(
                folder, recipe.outputs, self._kept, experiment.digest, move=True
            ),
            host=host,
            log_bytes=KEPT_BYTES,
            machine={} if finished.machine is None else machine_parts(finished.machine),
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
