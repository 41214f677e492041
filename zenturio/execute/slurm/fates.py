"""What becomes of an experiment whose job has ended: from what it left, and what Slurm says."""

from __future__ import annotations

from dataclasses import replace
from time import time

from zenturio.execute.slurm.queue import Job
from zenturio.experiment import Outcome, Status

_SIGNALS = ("SIGTERM", "SIGKILL")


def doubtful(outcome: Outcome) -> bool:
    """Whether it depends on why the job ended what *outcome* means.

    Slurm ends a job by the signals by which a program may end itself.
    """
    if outcome.status == "cancelled":
        return True
    return outcome.status == "failed" and any(name in outcome.cause for name in _SIGNALS)


def stopped(digest: str, left: Outcome | None) -> Outcome:
    """The outcome of an experiment that was to end before its time, and may have been over."""
    if left is None:
        now = time()
        return Outcome(digest, "cancelled", "cancelled", started=now, ended=now)
    return left if left.status == "ok" else replace(left, status="cancelled", cause="cancelled")


def fate(digest: str, job: Job | None, left: Outcome | None) -> Outcome:
    """The outcome of an experiment whose *job* has ended and *left* something, or nothing.

    Status ``cancelled`` stands for a job that was lost: it is no fault of the experiment.
    """
    state = job.state if job else ""
    if state in ("TIMEOUT", "DEADLINE"):
        return _ended(digest, job, left, "timeout", "time limit of its Slurm job")
    if state == "OUT_OF_MEMORY":
        return _ended(digest, job, left, "failed", "out of memory in its Slurm job")
    if left is not None and left.status != "cancelled" and state not in _TAKEN:
        return left
    return _ended(digest, job, left, "cancelled", lost(job))


_TAKEN = frozenset(("CANCELLED", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REVOKED"))
"""States of jobs that somebody else ended."""


def lost(job: Job | None) -> str:
    """Why there is no outcome, in words."""
    if job is None:
        return "its Slurm job vanished"
    where = f" on {job.node}" if job.node else ""
    return f"its Slurm job ended{where} as {job.state}"


def _ended(
    digest: str, job: Job | None, left: Outcome | None, status: Status, cause: str
) -> Outcome:
    if left is not None:
        return replace(left, status=status, cause=cause)
    now, host = time(), job.node if job else ""
    return Outcome(digest, status, cause, host=host, started=now, ended=now)
