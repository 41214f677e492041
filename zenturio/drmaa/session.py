"""A session: jobs that run at a place, are waited for and controlled."""

# ruff: noqa: N802, N803 - the names are DRMAA's

from __future__ import annotations

import secrets
import shutil
import signal
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self

from zenturio.drmaa import template
from zenturio.drmaa.errors import (
    AlreadyActiveSessionException,
    DeniedByDrmException,
    ExitTimeoutException,
    HoldInconsistentStateException,
    InvalidArgumentException,
    InvalidAttributeValueException,
    InvalidJobException,
    NoActiveSessionException,
    ReleaseInconsistentStateException,
    ResumeInconsistentStateException,
    SuspendInconsistentStateException,
)
from zenturio.drmaa.template import (
    ERRORS,
    OUTPUT,
    JobControlAction,
    JobState,
    JobSubmissionState,
    JobTemplate,
)
from zenturio.errors import ZenError
from zenturio.execute.executor import Resumable
from zenturio.execute.places import open_place
from zenturio.experiment import Experiment, Outcome

_SIGNALS = {number.value for number in signal.Signals}


class JobInfo(NamedTuple):
    """How a job ended."""

    jobId: str  # noqa: N815
    hasExited: bool  # noqa: N815
    hasSignal: bool  # noqa: N815
    terminatedSignal: str  # noqa: N815
    hasCoreDump: bool  # noqa: N815
    wasAborted: bool  # noqa: N815
    exitStatus: int  # noqa: N815
    resourceUsage: dict[str, str]  # noqa: N815


@dataclass
class _SessionJob:
    """A job of the session; without a future while it is held."""

    name: str
    experiment: Experiment
    output: Path | None
    errors: Path | None
    future: Future[Outcome] | None = None
    suspended: bool = False


class Session:
    """``with Session("hosts.toml") as session``; the place is named as ``zen run --on`` has it."""

    JOB_IDS_SESSION_ANY: ClassVar[str] = template.JOB_IDS_SESSION_ANY
    JOB_IDS_SESSION_ALL: ClassVar[str] = template.JOB_IDS_SESSION_ALL
    TIMEOUT_WAIT_FOREVER: ClassVar[int] = template.TIMEOUT_WAIT_FOREVER
    TIMEOUT_NO_WAIT: ClassVar[int] = template.TIMEOUT_NO_WAIT

    def __init__(self, contactString: str = "local", folder: Path = Path(".zenturio")) -> None:
        self.contact = contactString
        self._folder = folder
        self._place: Any = None
        self._jobs: dict[str, _SessionJob] = {}
        self._name = secrets.token_hex(3)
        self._count = 0

    def initialize(self, contactString: str = "") -> None:
        """Begins: the place is opened."""
        if self._place is not None:
            raise AlreadyActiveSessionException("the session has begun already")
        self.contact = contactString or self.contact
        self._place = open_place(self.contact, self._folder)

    def exit(self) -> None:
        """Ends: what still runs is ended, too."""
        self._active().close()
        self._place = None
        self._jobs.clear()

    def __enter__(self) -> Self:
        self.initialize()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.exit()

    def createJobTemplate(self) -> JobTemplate:
        """Return an empty one."""
        self._active()
        return JobTemplate()

    def deleteJobTemplate(self, jobTemplate: JobTemplate) -> None:  # noqa: ARG002
        """Nothing is held for it: it may as well be forgotten."""
        self._active()

    def runJob(self, jobTemplate: JobTemplate) -> str:
        """Return the name of a new job."""
        return self._run(jobTemplate, None)

    def runBulkJobs(
        self, jobTemplate: JobTemplate, beginIndex: int, endIndex: int, step: int = 1
    ) -> list[str]:
        """Return the names of new jobs, one for each index; ``$drmaa_incr_ph$`` stands for it."""
        bounds = (beginIndex, endIndex, step)
        if not all(isinstance(bound, int) for bound in bounds) or not step:
            raise InvalidArgumentException(f"a bulk from, to and by {bounds}", hint="whole numbers")
        indices = range(beginIndex, endIndex + (1 if step > 0 else -1), step)
        if not indices:
            raise InvalidArgumentException(f"a bulk from {bounds[0]} to {bounds[1]} has no jobs")
        return [self._run(jobTemplate, i) for i in indices]

    def wait(self, jobId: str, timeout: float = template.TIMEOUT_WAIT_FOREVER) -> JobInfo:
        """Return how that job ended, or the first of all; then it is forgotten."""
        if jobId != template.JOB_IDS_SESSION_ANY:
            return self._reaped(self._ended([self._job(jobId)], timeout))
        self._active()
        if not self._jobs:
            raise InvalidJobException("there is no job to wait for")
        return self._reaped(self._ended(list(self._jobs.values()), timeout))

    def synchronize(
        self,
        jobIds: Sequence[str],
        timeout: float = template.TIMEOUT_WAIT_FOREVER,
        dispose: bool = False,
    ) -> None:
        """Waits until all of them have ended; with *dispose* they are forgotten."""
        if isinstance(jobIds, str):
            raise InvalidArgumentException(f"{jobIds!r} is not a list", hint=f"write [{jobIds!r}]")
        every = template.JOB_IDS_SESSION_ALL in jobIds
        job_ids = self._jobs if every else dict.fromkeys(jobIds)
        jobs = [self._job(job_id) for job_id in list(job_ids)]
        end = None if timeout < 0 else monotonic() + timeout
        for job in jobs:
            self._ended([job], -1 if end is None else max(end - monotonic(), 0.0))
            if dispose:
                self._reaped(job)

    def control(self, jobId: str, operation: str) -> None:
        """Holds, releases, suspends, resumes or ends a job, or all of them."""
        every = jobId == template.JOB_IDS_SESSION_ALL
        for job in list(self._jobs.values()) if every else [self._job(jobId)]:
            self._control(job, operation)

    def jobStatus(self, jobId: str) -> str:
        """One of the JobState."""
        job = self._job(jobId)
        future = job.future
        if future is None:
            return JobState.USER_ON_HOLD
        if future.done():
            ok = not future.cancelled() and not future.exception() and future.result().exit == 0
            return JobState.DONE if ok else JobState.FAILED
        if job.suspended:
            return JobState.USER_SUSPENDED
        return JobState.RUNNING if future.running() else JobState.QUEUED_ACTIVE

    def _active(self) -> Any:
        if self._place is None:
            raise NoActiveSessionException("there is no session", hint="call initialize() first")
        return self._place

    def _job(self, name: str) -> _SessionJob:
        self._active()
        if name not in self._jobs:
            raise InvalidJobException(f"no job {name!r}: was it waited for already?")
        return self._jobs[name]

    def _run(self, template: JobTemplate, index: int | None) -> str:
        place = self._active()
        self._count += 1
        tail = "" if index is None else f".{index}"
        name = f"{template.jobName or 'job'}-{self._name}-{self._count}{tail}"
        job = _SessionJob(
            name,
            template.experiment(name, index),
            template.path(template.outputPath, index),
            template.path(template.errorPath, index),
        )
        if template.jobSubmissionState != JobSubmissionState.HOLD_STATE:
            job.future = place.submit(job.experiment)
        self._jobs[name] = job
        return name

    def _ended(self, jobs: list[_SessionJob], timeout: float) -> _SessionJob:
        """Return the first of *jobs* that has ended."""
        running = {job.future: job for job in jobs if job.future is not None}
        if not running:
            raise ExitTimeoutException(
                "no job has ended, and none will: they are held", hint="release them"
            )
        done, _ = wait(running, None if timeout < 0 else timeout, FIRST_COMPLETED)
        if not done:
            raise ExitTimeoutException(f"no job has ended within {timeout:g} s")
        return running[next(future for future in running if future in done)]

    def _reaped(self, job: _SessionJob) -> JobInfo:
        """What became of it; its output goes to where it is wanted, and it is forgotten."""
        future = job.future
        assert future is not None
        if future.cancelled():
            del self._jobs[job.name]
            return _info(job.name, None)
        try:
            outcome = future.result()
        except ZenError as error:
            del self._jobs[job.name]
            raise DeniedByDrmException(f"{job.name}: {error}") from error
        # Before the job is forgotten: if a file cannot be written, wait() may be called again.
        _bring(job, outcome)
        del self._jobs[job.name]
        if isinstance(self._place, Resumable):
            self._place.forget(outcome.digest)
        return _info(job.name, outcome)

    def _control(self, job: _SessionJob, operation: str) -> None:
        future = job.future
        match operation:
            case JobControlAction.TERMINATE:
                self._terminate(job)
            case JobControlAction.HOLD:
                # A job that waits is taken back and submitted again by RELEASE; one that runs
                # cannot be held.
                if future is not None and not (not future.running() and future.cancel()):
                    raise HoldInconsistentStateException(f"{job.name} has begun")
                job.future = None
            case JobControlAction.RELEASE:
                if future is not None:
                    raise ReleaseInconsistentStateException(f"{job.name} is not held")
                job.future = self._place.submit(job.experiment)
            case JobControlAction.SUSPEND:
                if future is None or not future.running() or job.suspended:
                    raise SuspendInconsistentStateException(f"{job.name} does not run")
                self._suspend(job, resume=False)
            case JobControlAction.RESUME:
                if not job.suspended:
                    raise ResumeInconsistentStateException(f"{job.name} is not suspended")
                self._suspend(job, resume=True)
            case _:
                raise DeniedByDrmException(f"{operation!r} is not an operation")

    def _terminate(self, job: _SessionJob) -> None:
        if job.future is None:
            job.future = Future()
            job.future.cancel()
            # Only so do those who wait() for the future hear that it is cancelled.
            job.future.set_running_or_notify_cancel()
        else:
            job.future.cancel()

    def _suspend(self, job: _SessionJob, *, resume: bool) -> None:
        suspend = getattr(self._place, "suspend", None)
        if suspend is None:
            raise DeniedByDrmException(
                f"{self.contact} cannot suspend jobs", hint="hosts can: --on hosts.toml"
            )
        if not suspend(job.experiment.digest, resume=resume):
            raise SuspendInconsistentStateException(f"{job.name} does not run")
        job.suspended = not resume


def _bring(job: _SessionJob, outcome: Outcome) -> None:
    """Puts what a job left to where it is wanted; where that fails it can be waited for again."""
    targets = {OUTPUT: job.output, ERRORS: job.errors}
    for artifact in outcome.artifacts:
        target = targets.get(artifact.path, Path(artifact.path))
        if target is None:
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(artifact.kept, target)
        except OSError as error:
            raise InvalidAttributeValueException(
                f"{job.name}: {target} cannot be written: {error.strerror}"
            ) from error


def _info(name: str, outcome: Outcome | None) -> JobInfo:
    if outcome is None:
        return JobInfo(name, False, False, "", False, True, 0, {})
    exit_ = outcome.exit or 0
    signalled = exit_ < 0
    aborted = outcome.status == "cancelled"
    usage = {n: str(v) for n, v in outcome.metrics.items() if isinstance(v, int | float | str)}
    usage |= {"start_time": str(outcome.started), "end_time": str(outcome.ended)}
    usage["hosts"] = outcome.host
    return JobInfo(
        name,
        not signalled and not aborted and outcome.exit is not None,
        signalled,
        signal.Signals(-exit_).name if signalled and -exit_ in _SIGNALS else "",
        False,
        aborted,
        max(exit_, 0),
        usage,
    )
