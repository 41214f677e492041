"""A service that runs submitted studies and shares the slots of its places by a policy.

The queue in the repository is the only truth: it is looked at now and then, and what is in it is
run. So a restart loses nothing: what waited still waits, and what ran is run on, where no outcome
that was recorded is asked for again.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from threading import Event, Lock, Thread
from time import monotonic, time
from typing import Any, Literal

from zenturio.errors import ConflictError, Interrupted, RecordError, ZenError
from zenturio.execute.executor import Executor
from zenturio.failpoints import Failpoint
from zenturio.record import Repository, StudySubmission, SubmissionState
from zenturio.study.driver.progress import RunPlan, RunProgress, RunSummary
from zenturio.study.driver.slot_pool import Allotment, RunningSeconds, SlotPool
from zenturio.study.driver.stop_requests import CancelRequests
from zenturio.study.driver.study_driver import StudyDriver
from zenturio.study.service.slot_policy import (
    StudyLoad,
    mean_seconds,
    next_owner,
    seconds_alone,
    slowdown,
)
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
        pool: SlotPool,
        cancel_requests: CancelRequests | None = None,
        notify: Callable[[str], None] = lambda _words: None,
    ) -> None:
        self.submission = submission
        self.number = submission.number
        self.place = place
        self.end: SubmissionEnd | None = None
        self.cause = ""
        self._repository = repository
        self._pool = pool
        self._cancel_requests = cancel_requests
        self._notify = notify
        self._studies = [submission.study]
        self._allotments: list[Allotment] = []
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
        return self.end is not None or any(
            allotment.waiting for allotment in list(self._allotments)
        )

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
        """Return what its turn depends on."""
        spent, ended = self._spent()
        mean = spent / ended if ended else None
        # What had a slot has ended, though it is not recorded yet.
        done = max(self._done, self._known + ended - self._before[1])
        unfinished = max(self._total - done, 0)
        return StudyLoad(self.submission.submitted, max(self._total, 1), unfinished, running, mean)

    def facts(self, mean: float) -> dict[str, Any]:
        """Return where it stands, as the queue tells it; an experiment takes *mean* seconds."""
        load, slots = self.load(), self._pool.slots
        spent, ended = self._spent()
        return {
            "total": self._total,
            "done": self._done,
            "lent": self._pool.slots_in_use(self.number),
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
        allotments = list(self._allotments)
        return seconds + sum(s.spent for s in allotments), count + sum(s.ended for s in allotments)

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
            for allotment in self._allotments:
                allotment.close()
        self.end = end

    def _run(self) -> tuple[str, SubmissionEnd]:
        session = StudyRequest.read(self.submission.request).session(self._repository)
        if session.application.after:
            pipeline = Pipeline(session, self._tell_plan, self._heard, self._cancel_requests)
            self._studies = [stage.name for stage in pipeline.stages[:-1]] + [session.study]
            self._total = pipeline.experiments
            self._begun(pipeline)
            summary = pipeline.run(self._pool, self.number, self._allotments.append)
        else:
            allotment = self._pool.allot(self.number)
            self._allotments.append(allotment)
            summary = session.run(allotment, self._planned, self._heard, self._begun)
        if summary.interrupted:
            return "", "stopped"
        self._total = sum(each.total for each in (*summary.before, summary))
        self._done = self._total - summary.unfinished
        return _words(summary), "done"

    def _begun(self, run: StudyDriver | Pipeline) -> None:
        with self._turn:
            self._runs.append(run)
            stopped = self._stopped
        if self._cancel_requests is not None and isinstance(run, StudyDriver):
            run.watch(self._cancel_requests)
        if stopped:
            run.stop()
            run.stop()

    def _planned(self, plan: RunPlan) -> None:
        self._tell_plan(plan)
        self._total, self._done = plan.experiments, max(self._done, plan.known)

    def _tell_plan(self, plan: RunPlan) -> None:
        for remark in plan.remarks:
            self._notify(f"{plan.study}: {remark}")

    def _heard(self, progress: RunProgress) -> None:
        for remark in progress.remarks:
            self._notify(f"{self.place}: {remark}")
        self._total, self._done, self._known = progress.total, progress.done, progress.known


def _words(summary: RunSummary) -> str:
    failures = [group for stage in (*summary.before, summary) for group in stage.failures]
    words = [f"{group.count} x {group.cause}" for group in failures]
    if summary.unfinished:
        words.append(f"{summary.unfinished} were not run")
    return ", ".join(words)


TAKEN = Failpoint("serve.taken")
SETTLING = Failpoint("serve.settling")
SETTLED = Failpoint("serve.settled")

POLL = 0.5
"""Seconds between two looks at the queue."""
ACTIVE = 32
"""Studies that are driven at the same time at the most; the others keep their turn."""
LATER = 5.0
"""Seconds until what somebody else drives is tried again."""
BEGINNING = 5.0
"""Seconds for which studies have to ask for slots before the first are lent."""
GLANCE = 0.02
PATIENCE = 15.0
"""Seconds that studies have to stop."""
STANDING: tuple[SubmissionState, ...] = ("waiting", "running")


class StudyService:
    """Drives what is submitted."""

    def __init__(
        self,
        repository: Repository,
        places: Mapping[str, Executor],
        policy: str,
        notify: Callable[[str], None] = lambda _words: None,
        cancel_requests: CancelRequests | None = None,
    ) -> None:
        """*notify* hears what begins and ends, a line each."""
        self.policy = policy
        self._repository = repository
        self._notify = notify
        self._cancel_requests = cancel_requests
        self._orders: dict[int, SubmissionWorker] = {}
        self._later: dict[int, float] = {}
        self._lenders = {
            name: SlotPool(place, partial(self._choose, name)) for name, place in places.items()
        }
        self._away = False
        self._said: dict[int, object] = {}

    def run(self, over: Event) -> None:
        """Serve until *over*; what runs then is stopped, and waits for the next service."""
        try:
            self._begin_in_turn(over)
            while not over.is_set():
                self._look_patiently()
                over.wait(POLL)
        finally:
            self.close()

    def _begin_in_turn(self, over: Event) -> None:
        """Lend slots when all that waits has asked for them: else who asks first has them."""
        for pool in self._lenders.values():
            pool.close()
        self._look_patiently()
        end = monotonic() + BEGINNING
        while not all(order.waits for order in self._orders.values()) and monotonic() < end:
            if over.wait(GLANCE):
                return
        for pool in self._lenders.values():
            pool.open()

    def look(self) -> None:
        """See what was submitted, cancelled and has ended meanwhile."""
        self._settle()
        standing = self._repository.submissions(STANDING)
        numbers = {submission.number for submission in standing}
        for number, order in self._orders.items():
            if number not in numbers and order.end is None:
                order.stop()
        now = monotonic()
        for submission in standing:
            if len(self._orders) >= ACTIVE:
                break
            if (
                submission.number not in self._orders
                and self._later.get(submission.number, 0.0) <= now
            ):
                self._begin(submission)
        self._report()

    def close(self) -> None:
        """Stop all studies, which wait for the next service."""
        for pool in self._lenders.values():
            pool.close()
        for order in self._orders.values():
            order.stop()
        end = monotonic() + PATIENCE
        for order in self._orders.values():
            order.join(max(0.0, end - monotonic()))

    def _look_patiently(self) -> None:
        """A repository that is away may come back; meanwhile what runs goes on."""
        try:
            self.look()
            self._away = False
        except RecordError as error:
            if not self._away:
                self._notify(f"the queue cannot be read now: {error}")
            self._away = True

    def _begin(self, submission: StudySubmission) -> None:
        place = str(submission.request.get("on", "")) or self._roomiest()
        name = f"{submission.number}: {submission.study} of {submission.user}"
        if place not in self._lenders:
            self._repository.update_submission(
                submission.number, "failed", f"the service has no place {place!r} (any more)"
            )
            return
        begun = self._repository.update_submission(submission.number, "running")
        if begun.turn != "running":
            return  # it was cancelled in this very moment
        TAKEN()
        pool = self._lenders[place]
        order = SubmissionWorker(
            begun, self._repository, place, pool, self._cancel_requests, self._notify
        )
        self._orders[submission.number] = order
        order.start()
        if submission.number not in self._later:
            self._notify(f"{name} begins on {place}")

    def _roomiest(self) -> str:
        """Return the place with the most slots for each study that it has."""

        def room(name: str) -> float:
            studies = sum(order.place == name for order in self._orders.values())
            return self._lenders[name].slots / (studies + 1)

        return max(self._lenders, key=room)

    def _settle(self) -> None:
        """Write down how those ended that have."""
        means = self._means()
        for number, order in list(self._orders.items()):
            if not order.over:
                continue
            name = f"{number}: {order.submission.study} of {order.submission.user}"
            if order.end in ("done", "failed"):
                SETTLING()
                self._repository.report_progress(number, order.facts(means[number]))
                turned = self._repository.update_submission(number, order.end, order.cause)
                SETTLED()
                self._notify(
                    f"{name} is {turned.turn}" + (f": {turned.cause}" * bool(turned.cause))
                )
            elif order.end == "later":
                if number not in self._later:
                    self._notify(f"{name} waits: {order.cause}")
                self._later[number] = monotonic() + LATER
            else:
                self._notify(f"{name} was stopped")
            del self._orders[number]
            self._said.pop(number, None)

    def _report(self) -> None:
        """Tell where studies stand, if that changed."""
        means = self._means()
        for number, order in self._orders.items():
            if not order.begun:
                continue
            facts = order.facts(means[number])
            essence = {n: v for n, v in facts.items() if n != "slowdown"}
            if self._said.get(number) != essence:
                self._repository.report_progress(number, facts)
                self._said[number] = essence

    def _means(self) -> dict[Hashable, float]:
        return mean_seconds({number: order.load() for number, order in self._orders.items()})

    def _choose(self, place: str, owners: Sequence[Hashable], running: RunningSeconds) -> Hashable:
        """Whose turn it is at a place; called by who lends its slots."""
        loads: dict[Hashable, StudyLoad] = {
            number: order.load(running.get(number, ()))
            for number, order in list(self._orders.items())
            if order.place == place
        }
        loaded = [owner for owner in owners if owner in loads]
        if not loaded:
            return owners[0]
        return next_owner(self.policy, time(), self._lenders[place].slots, loads, loaded)
