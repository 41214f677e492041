"""Slurm as a place: its settings, the head of a job's script, and pilots by Dask."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zenturio.errors import InputError, PlaceError
from zenturio.execute.batch.executor import BatchExecutor
from zenturio.execute.batch.pilots import PilotOptions
from zenturio.execute.batch.system import (
    BatchOptions,
    BatchSystem,
    JobDemand,
    UnansweredError,
    option_lines,
)
from zenturio.execute.dask.worker_runtime import remove_dead_sessions
from zenturio.execute.slurm_commands import SlurmCommands
from zenturio.execute.workspace import Keep
from zenturio.experiment import Experiment
from zenturio.settings.schema import setting

if TYPE_CHECKING:
    from zenturio.execute.dask.executor import Dask
    from zenturio.execute.dask.ticket_queue import DaskOptions

_MIB = 2**20
_UNUSABLE_STATES = frozenset(
    ("down", "drained", "draining", "fail", "failing", "unknown", "error", "maint")
)


@dataclass(frozen=True)
class SlurmOptions(PilotOptions):
    """Where jobs go, what they may use, and how often the queue is looked at."""

    partition: str = setting("", "partition of the jobs; default: that of the cluster")
    account: str = setting("", "account that is charged")
    qos: str = setting("", "quality of service")
    constraint: str = setting("", "required features of a node, in sbatch syntax")
    time: str = setting(
        "", "time limit of experiments without TIMEOUT: 30 (minutes), 4:00:00, 1-00:00"
    )
    extra: str = setting("", "further options of sbatch, one a line: --gres=gpu:1", executes=True)


class SlurmSystem(SlurmCommands, BatchSystem[SlurmOptions]):
    """Slurm's queue, and what jobs ask of it."""

    name = "Slurm"
    array_number = "$SLURM_ARRAY_JOB_ID"
    task_number = "$SLURM_ARRAY_TASK_ID"
    start_number = "${SLURM_RESTART_COUNT:-0}"
    cpu_count = "$SLURM_CPUS_PER_TASK"

    def __init__(self, options: SlurmOptions) -> None:
        BatchSystem.__init__(self, options)
        SlurmCommands.__init__(self, options.patience)

    def head(self, name: str, count: int, demand: JobDemand, log: Path) -> list[str]:
        """Return the options of sbatch, as lines of a script."""
        options = _sbatch_options(name, count, demand, self.options, log)
        return [f"#SBATCH {option}" for option in options]

    def problems(self) -> Iterator[str]:
        """Say what is wrong with the partition."""
        partition = self.options.partition
        try:
            states = self.partitions(partition)
        except (PlaceError, UnansweredError) as error:
            yield str(error)
            return
        if not states:
            pool = f"partition {partition}" if partition else "cluster"
            yield f"the {pool} has no node"
        elif not any(available == "up" for available, _ in states):
            yield "the partition is not up: " + ", ".join(a for a, _ in states)
        # sinfo marks states by a character: "idle~" is powered down, "down*" does not respond.
        elif all(state.rstrip("*~#!%$@^-") in _UNUSABLE_STATES for _, state in states):
            yield "no node can run anything: " + ", ".join(sorted({s for _, s in states}))

    def open_workers(self, folder: Path, keep: Keep) -> Dask:
        """Return pilots, submitted."""
        from zenturio.execute.dask.executor import Dask  # noqa: PLC0415 - most runs need none

        return Dask(folder, keep=keep, options=_pilot_options(self.options), hands_back=True)

    def sweep_workers(self, folder: Path) -> None:
        """Cancel pilots that wait in the queue for a driver that is gone."""
        remove_dead_sessions(folder)


class Slurm(BatchExecutor):
    """Run experiments as tasks of job arrays, and find those of a driver that died."""

    System = SlurmSystem
    Options = SlurmOptions

    @classmethod
    def preview(
        cls, experiment: Experiment, count: int, folder: Path, options: BatchOptions
    ) -> str:
        """Return the script of *count* experiments like this one, behind that of pilots."""
        text = super().preview(experiment, count, folder, options)
        if not isinstance(options, SlurmOptions) or options.pilots != "always":
            return text
        from zenturio.execute.dask.slurm_workers import worker_script  # noqa: PLC0415 - loads Dask

        pilots = worker_script(_pilot_options(options), folder)
        return f"{pilots}\n\nscript for experiments that do not fit into pilot jobs:\n\n{text}"


def _sbatch_options(
    name: str, count: int, demand: JobDemand, options: SlurmOptions, log: Path
) -> Iterator[str]:
    yield f"--job-name={name}"
    yield f"--array=1-{count}"
    path = str(log).replace("%", "%%")  # which stands for something there
    yield f"--output={shlex.quote(f'{path}-%a')}"
    yield "--open-mode=append"  # a requeued task would empty the log of its first start
    yield "--nodes=1"
    yield "--ntasks=1"
    yield f"--cpus-per-task={demand.cpus}"
    if demand.job_bytes is not None:
        yield f"--mem={math.ceil(demand.job_bytes / _MIB)}M"
    if demand.job_seconds is not None:
        yield f"--time={math.ceil(demand.job_seconds / 60)}"
    elif options.time:
        yield f"--time={shlex.quote(options.time)}"
    for option in ("partition", "account", "qos", "constraint"):
        value = getattr(options, option)
        if value:
            yield f"--{option}={shlex.quote(value)}"
    yield from option_lines(options.extra, "#SBATCH")


def _pilot_options(options: SlurmOptions) -> DaskOptions:
    """Return the notes on jobs, for the jobs of workers."""
    from zenturio.execute.dask.ticket_queue import DaskOptions  # noqa: PLC0415 - as above

    if options.folder:
        raise InputError(
            "pilot jobs need a project folder that the nodes see",
            hint='leave out folder = "…", or pilots = "always"',
        )
    settings = {name: getattr(options, name) for name in ("qos", "constraint")}
    lines = [f"--{name}={shlex.quote(text)}" for name, text in settings.items() if text]
    return DaskOptions(
        cluster="slurm",
        nodes=options.pilot_jobs,
        cores=options.pilot_cores,
        memory=options.pilot_memory,
        walltime=options.pilot_time,
        queue=options.partition,
        account=options.account,
        lines="\n".join([*lines, *option_lines(options.extra, "#SBATCH")]),
        prologue=options.setup,
        interface=options.interface,
        python=options.python,
        patience=options.patience,
    )
