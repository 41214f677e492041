"""One study that was submitted, while a service runs it: a thread that drives it."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from threading import Lock, Thread
from time import time
from typing import Any, Literal

from zenturio.errors import ConflictError, Interrupted, RecordError, ZenError
from zenturio.record import Repository, StudySubmission
from zenturio.study.driver.cancel_requests import CancelRequests
from zenturio.study.driver.progress import RunPlan, RunProgress, RunSummary
from zenturio.study.driver.slot_pool import Allotment, SlotPool
from zenturio.study.driver.study_driver import StudyDriver
from zenturio.study.service.slot_policy import StudyLoad, seconds_alone, slowdown
from zenturio.study.stages.pipeline import Pipeline
from zenturio.study.study_request import StudyRequest

SubmissionEnd = Literal["done", "failed", "later", "stopped"]
"""All was run; it cannot be run; somebody else has it or the repository is away; we stopped it."""


class SubmissionWorker:
    """A submission at work."""

    def __init__(
        self,
        submission: StudySubmission,
        repository: Repository,
        place: str,
        lender: SlotPool,
        wishes: CancelRequests | None = None,
        told: Callable[[str], None] = lambda _words: None,
    ) -> None:
        self.submission = submission
        self.number = submission.number
        self.place = place
        self.end: SubmissionEnd | None = None
        self.cause = ""
        self._repository = repository
        self._lender = lender
        self._wishes = wishes
        self._told = told
        self._studies = [submission.study]
        self._shares: list[Allotment] = []
        self._runs: list[StudyDriver | Pipeline] = []
        self._stopped = False
        self._turn = Lock()
        known = submission.progress
        self._total, self._done = int(known.get("total", 0)), int(known.get("done", 0))
        self._known = 0
        self._before = float(known.get("spent", 0.0)), int(known.get("ran", 0))
        self._thread = Thread(target=self._drive, name=f"zenturio-{self.number}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def begun(self) -> bool:
        """Whether it has the study: nobody else drives it."""
        return bool(self._runs)

    @property
    def waits(self) -> bool:
        """Whether it asks for slots, or will never do so."""
        return self.end is not None or any(share.waiting for share in list(self._shares))

    @property
    def over(self) -> bool:
        return self.end is not None and not self._thread.is_alive()

    def stop(self) -> None:
        """Kill what runs; what is recorded stays, and the rest waits."""
        with self._turn:
            self._stopped = True
            runs = list(self._runs)
        for run in runs:
            run.stop()
            run.stop()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def load(self, running: tuple[float, ...] = ()) -> StudyLoad:
        """What its turn depends on."""
        spent, ended = self._spent()
        mean = spent / ended if ended else None
        # What had a slot has ended, though it is not recorded yet.
        done = max(self._done, self._known + ended - self._before[1])
        unfinished = max(self._total - done, 0)
        return StudyLoad(self.submission.submitted, max(self._total, 1), unfinished, running, mean)

    def facts(self, mean: float) -> dict[str, Any]:
        """Where it stands, as the queue tells it; an experiment takes *mean* seconds."""
        load, slots = self.load(), self._lender.slots
        spent, ended = self._spent()
        return {
            "total": self._total,
            "done": self._done,
            "lent": self._lender.lent(self.number),
            "place": self.place,
            "studies": self._studies,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "spent": round(spent, 3),
            "ran": ended,
            "alone": round(seconds_alone(load.total, mean, slots), 3),
            "slowdown": round(slowdown(load, mean, slots, time()), 3),
        }

    def _spent(self) -> tuple[float, int]:
        """Seconds in slots, and for how many experiments; those before a restart count too."""
        seconds, count = self._before
        shares = list(self._shares)
        return seconds + sum(s.spent for s in shares), count + sum(s.ended for s in shares)

    def _drive(self) -> None:
        try:
            self.cause, end = self._run()
        except Interrupted:
            end = "stopped"
        except (ConflictError, RecordError) as error:
            self.cause, end = str(error), "later"
        except ZenError as error:
            self.cause, end = str(error), "failed"
        except Exception as error:
            logging.getLogger(__name__).exception("submission %s", self.number)
            self.cause, end = f"a mistake of zenturio's: {error!r}", "failed"
        finally:
            for share in self._shares:
                share.close()
        self.end = end

    def _run(self) -> tuple[str, SubmissionEnd]:
        session = StudyRequest.read(self.submission.request).session(self._repository)
        if session.application.after:
            pipeline = Pipeline(session, self._tell_plan, self._heard, self._wishes)
            self._studies = [stage.name for stage in pipeline.stages[:-1]] + [session.study]
            self._total = pipeline.experiments
            self._begun(pipeline)
            summary = pipeline.run(self._lender, self.number, self._shares.append)
        else:
            share = self._lender.share(self.number)
            self._shares.append(share)
            summary = session.run(share, self._planned, self._heard, self._begun)
        if summary.interrupted:
            return "", "stopped"
        self._total = sum(each.total for each in (*summary.before, summary))
        self._done = self._total - summary.unfinished
        return _words(summary), "done"

    def _begun(self, run: StudyDriver | Pipeline) -> None:
        with self._turn:
            self._runs.append(run)
            stopped = self._stopped
        if self._wishes is not None and isinstance(run, StudyDriver):
            run.watch(self._wishes)
        if stopped:
            run.stop()
            run.stop()

    def _planned(self, plan: RunPlan) -> None:
        self._tell_plan(plan)
        self._total, self._done = plan.experiments, max(self._done, plan.known)

    def _tell_plan(self, plan: RunPlan) -> None:
        for remark in plan.remarks:
            self._told(f"{plan.study}: {remark}")

    def _heard(self, progress: RunProgress) -> None:
        for remark in progress.remarks:
            self._told(f"{self.place}: {remark}")
        self._total, self._done, self._known = progress.total, progress.done, progress.known


def _words(summary: RunSummary) -> str:
    failures = [group for stage in (*summary.before, summary) for group in stage.failures]
    words = [f"{group.count} x {group.cause}" for group in failures]
    if summary.unfinished:
        words.append(f"{summary.unfinished} were not run")
    return ", ".join(words)
