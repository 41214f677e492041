"""Slurm's commands: submit, look, cancel; what they say, and what it means when they do not."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from zenturio.errors import PlaceError
from zenturio.execute.batch.system import (
    ArrayTask,
    ArrayTooLongError,
    BatchJob,
    JobEnd,
    JobTask,
    QueueFullError,
    UnansweredError,
    command_output,
)

FINAL_STATES = frozenset(
    (
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    )
)
"""States from which no job comes back, unless it is requeued; all others are alive."""
_ENDS: dict[str, JobEnd] = {
    "BOOT_FAIL": "cluster_fault",
    "CANCELLED": "cancelled",
    "DEADLINE": "time_limit",
    "NODE_FAIL": "cluster_fault",
    "OUT_OF_MEMORY": "memory_limit",
    "PREEMPTED": "cluster_fault",
    "REVOKED": "cancelled",
    "TIMEOUT": "time_limit",
}
_RUNNING_STATES = frozenset(
    ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT")
)
_STUCK_REASONS = re.compile(
    "held|^(partition|bad|invalid|reqnode)|notallowed|neversatisfied", re.IGNORECASE
)
"""Reasons of pending jobs that start only after a user or an administrator intervenes."""
_COLUMNS = {
    "Name": 64,
    "ArrayJobID": 16,
    "ArrayTaskID": 16,
    "State": 24,
    "NodeList": 128,
    "RestartCnt": 12,
    "TimeLeft": 24,
    "TimeLimit": 24,
    "Reason": 128,
}
"""What squeue prints, and how wide: all versions of it know columns of a width."""
_DURATION = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
_CANCELLED_AT_ONCE = 200
"""Jobs that one scancel is given."""
_TRANSIENT_ERRORS = re.compile(
    "socket timed out|unable to contact|connection refused|connection timed out|temporarily"
    "|standby|transport endpoint|zero bytes|communication connection|unexpected message"
    "|try again|munge|authentication",
    re.IGNORECASE,
)
"""What sbatch says when the same command may succeed later."""
_LIMIT_REACHED = re.compile("submit ?job|submit limit|job limit", re.IGNORECASE)
"""What it says when this user has as many jobs as they may."""
_TOO_LONG = "Invalid job array"


_NICE_STEP = 10_000
"""How far jobs step back: more than others of the same user come apart."""


def slurm_job(
    array: str,
    state: str,
    node: str = "",
    reason: str = "",
    restarts: int = 0,
    *,
    seconds_left: float | None = None,
    seconds: float | None = None,
) -> BatchJob:
    """Return a job in the *state* that squeue shows, which waits for *reason*."""
    is_pending = state == "PENDING"
    return BatchJob(
        array,
        state,
        "ended" if state in FINAL_STATES else "running" if state in _RUNNING_STATES else "waiting",
        _ENDS.get(state, "finished"),
        node,
        reason,
        restarts,
        is_stuck=is_pending and _STUCK_REASONS.search(reason) is not None,
        is_unlaunchable=is_pending and "launch failed" in reason.lower(),
        seconds_left=seconds_left,
        seconds=seconds,
    )


class SlurmCommands:
    """The queue of this user, which may be slow to answer; *patience* in seconds for each call."""

    def __init__(self, patience: float = 60.0) -> None:
        self.patience = patience
        self._user = str(os.getuid())

    def submit(self, script: Path) -> str:
        """Return the number of the job array that *script* describes.

        PlaceError where Slurm will never take it, QueueFullError and ArrayTooLongError where it
        would take less, and UnansweredError where it may have taken it.
        """
        output = self._output_of("sbatch", "--parsable", str(script), refusal=_submission_error)
        parts = output.split()
        if not parts:
            # sbatch may have submitted it: the queue is asked for the name of the array.
            raise UnansweredError("sbatch printed no job number")
        return parts[-1].partition(";")[0]

    def look(self, names: Collection[str]) -> dict[ArrayTask, list[BatchJob]]:
        """Return the tasks of the arrays of these *names*; ended ones while they are known.

        A name that was submitted twice has several jobs.
        """
        tasks: dict[ArrayTask, list[BatchJob]] = {}
        for name, number, job in self._list_jobs(names):
            if number.isdecimal():
                tasks.setdefault((name, int(number)), []).append(job)
        return tasks

    def jobs(self, name: str) -> dict[str, BatchJob]:
        """Return the jobs of that *name* that are no arrays, by their numbers."""
        return {job.array: job for _, _, job in self._list_jobs([name])}

    def _list_jobs(self, names: Collection[str]) -> Iterator[tuple[str, str, BatchJob]]:
        """Yield the name of each job, its number in its array, and the rest."""
        columns = ",".join(f"{column}:{width}" for column, width in _COLUMNS.items())
        command = ["squeue", "--noheader", "--array", "--states=all", f"--user={self._user}"]
        command += [f"--name={','.join(names)}"]
        for line in self._output_of(*command, f"--Format={columns}").splitlines():
            name, array, number, state, node, restarts, time_left, time_limit, reason = (
                _split_columns(line)
            )
            restart_count = int(restarts) if restarts.isdecimal() else 0
            yield (
                name,
                number,
                slurm_job(
                    array,
                    state,
                    node,
                    reason,
                    restart_count,
                    seconds_left=_seconds(time_left),
                    seconds=_seconds(time_limit),
                ),
            )

    def partitions(self, name: str = "") -> list[tuple[str, str]]:
        """Availability and state of the nodes of a partition; of all, if none is named."""
        options = [f"--partition={name}"] if name else []
        output = self._output_of("sinfo", "--noheader", *options, "--format=%a|%T")
        return [(a, s) for a, _, s in (line.strip().partition("|") for line in output.splitlines())]

    def cancel(self, tasks: Collection[JobTask]) -> None:
        """End *tasks*; those that have ended already are no error."""
        self._cancel(array if number is None else f"{array}_{number}" for array, number in tasks)

    def recall(self, arrays: Iterable[str]) -> None:
        """Cancel what has not begun of *arrays*."""
        self._cancel(arrays, "--state=PENDING")

    def _cancel(self, jobs: Iterable[str], *options: str) -> None:
        waiting = list(jobs)
        while waiting:
            chunk, waiting = waiting[:_CANCELLED_AT_ONCE], waiting[_CANCELLED_AT_ONCE:]
            with suppress(PlaceError):
                self._output_of("scancel", "--quiet", *options, *chunk, refusal=_submission_error)

    def step_back(self, arrays: Iterable[str]) -> None:
        """Let other jobs of this user go before what has not begun of *arrays*, if that can be."""
        job_list = ",".join(arrays)
        if job_list:
            with suppress(PlaceError, UnansweredError):
                self._output_of("scontrol", "update", f"jobid={job_list}", f"nice={_NICE_STEP}")

    def _output_of(
        self, *command: str, refusal: Callable[[str], Exception] = UnansweredError
    ) -> str:
        environment = _clean_environment(os.environ)
        return command_output(command, self.patience, refusal, environment=environment)


def _split_columns(line: str) -> list[str]:
    """Return the columns of a line of squeue."""
    cells, at = [], 0
    for width in _COLUMNS.values():
        cells.append(line[at : at + width].strip())
        # Columns have fixed widths: a reason may contain any separator.
        at += width
    return cells


def _seconds(text: str) -> float | None:
    """Return the duration that is written as 1-02:03:04, or nothing."""
    parts = _DURATION.fullmatch(text)
    if parts is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in parts.groups())
    return ((days * 24.0 + hours) * 60 + minutes) * 60 + seconds


def _submission_error(words: str) -> Exception:
    """Return what it means that a job was not taken."""
    if _TOO_LONG in words:
        return ArrayTooLongError(words)
    if _LIMIT_REACHED.search(words):
        return QueueFullError(words)
    if _TRANSIENT_ERRORS.search(words):
        return UnansweredError(words)
    return PlaceError(words, hint="see [places.NAME] in zenturio.toml, and sinfo")


def _clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Without what an enclosing job says of itself, which would be taken for options."""
    # Within a job, sbatch takes SLURM_* and SBATCH_* of that job for options of the new one.
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("SLURM_") or name in ("SLURM_CONF", "SLURM_TIME_FORMAT")
    }
