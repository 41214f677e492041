"""What becomes of an experiment whose job has ended: from what it left, and what Slurm says."""

from __future__ import annotations

from dataclasses import replace
from time import time
from typing import Literal

from zenturio.execute.slurm_commands import CLUSTER_FAULTS, SlurmJob
from zenturio.experiment import Outcome, Status

LossBlame = Literal["nobody", "place", "experiment"]
"""Whose fault it may be that a job was lost."""


def cancelled_outcome(digest: str, stored: Outcome | None) -> Outcome:
    """The outcome of an experiment that was to end before its time, and may have been over."""
    if stored is None:
        now = time()
        return Outcome(digest, "cancelled", "cancelled", started=now, ended=now)
    return (
        stored if stored.status == "ok" else replace(stored, status="cancelled", cause="cancelled")
    )


def job_outcome(
    digest: str, job: SlurmJob | None, stored: Outcome | None, *, begun: bool
) -> Outcome | None:
    """The outcome of an experiment whose *job* has ended and *stored* something, or nothing.

    None stands for a job that was lost. *begun* says whether its last start began the experiment:
    else nothing that happened to the job is an outcome.
    """
    state = job.state if job else ""
    if state in ("TIMEOUT", "DEADLINE") and begun:
        return _outcome_with(digest, job, stored, "timeout", "time limit of its Slurm job")
    if state == "OUT_OF_MEMORY" and begun:
        return _outcome_with(digest, job, stored, "failed", "out of memory in its Slurm job")
    if stored is not None and stored.status != "cancelled" and not (job and job.taken):
        return stored
    return None


def loss_blame(job: SlurmJob | None, *, begun: bool) -> LossBlame:
    """Whose fault it may be that *job* was lost.

    The experiment is suspected only where it had begun and its worker died by itself.
    """
    if job is not None and job.state in CLUSTER_FAULTS:
        return "nobody"
    if job is None or not begun or job.taken:
        return "place"
    return "experiment"


def worker_died_outcome(digest: str, job: SlurmJob | None, times: int) -> Outcome:
    """Return the outcome of an experiment whose worker died each time that it began."""
    return _outcome_with(digest, job, None, "failed", f"its worker died {times} times")


def loss_message(job: SlurmJob | None) -> str:
    """Return why there is no outcome, in words."""
    if job is None:
        return "its Slurm job vanished"
    where = f" on {job.node}" if job.node else ""
    return f"its Slurm job ended{where} as {job.state}"


def _outcome_with(
    digest: str, job: SlurmJob | None, stored: Outcome | None, status: Status, cause: str
) -> Outcome:
    if stored is not None:
        return replace(stored, status=status, cause=cause)
    now, host = time(), job.node if job else ""
    return Outcome(digest, status, cause, host=host, started=now, ended=now)
