"""A service that runs submitted studies and shares the slots of its places by a policy.

The queue in the repository is the only truth: it is looked at now and then, and what is in it is
run. So a restart loses nothing: what waited still waits, and what ran is run on, where no outcome
that was recorded is asked for again.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from threading import BoundedSemaphore, Event, Lock, Thread
from time import monotonic, time
from typing import Any, Literal

from zenturio.annotate.model import Application
from zenturio.errors import ConflictError, Interrupted, RecordError, SafetyError, ZenError
from zenturio.execute.executor import Executor, RunsAsUsers
from zenturio.failpoints import Failpoint
from zenturio.record import Repository, StudySubmission, SubmissionState
from zenturio.record.open import FOLDER, project_folder
from zenturio.study.driver.progress import RunPlan, RunProgress, RunSummary
from zenturio.study.driver.slot_pool import Allotment, Demands, OwnerDemand, SlotPool
from zenturio.study.driver.stop_requests import CancelRequests
from zenturio.study.driver.study_driver import StudyDriver
from zenturio.study.service.slot_policy import (
    FairShare,
    StudyLoad,
    UserLoad,
    UserShare,
    in_turns,
    mean_seconds,
    next_owner,
    seconds_alone,
    slowdown,
)
from zenturio.study.service.submission_client import is_signed
from zenturio.study.service.submitted_program import SubmittedFolders, SubmittedProgram
from zenturio.study.stages.pipeline import Pipeline
from zenturio.study.study_request import StudyRequest
from zenturio.system.processes import process_birth

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
        folders: SubmittedFolders,
        cancel_requests: CancelRequests | None = None,
        notify: Callable[[str], None] = lambda _words: None,
        *,
        as_users: bool = False,
        preparing: BoundedSemaphore | None = None,
    ) -> None:
        """*preparing* is held while the study is read and planned."""
        self.submission = submission
        self.number = submission.number
        self.place = place
        self.end: SubmissionEnd | None = None
        self.cause = ""
        self._repository = repository
        self._pool = pool
        self._folders = folders
        self._as_users = as_users
        self._cancel_requests = cancel_requests
        self._notify = notify
        self._preparing = preparing or BoundedSemaphore()
        self._prepares = False
        self._studies = [submission.study]
        self._allotments: list[Allotment] = []
        self._runs: list[StudyDriver | Pipeline] = []
        self._stopped = False
        self._turn = Lock()
        progress = submission.progress
        self._total, self._done = int(progress.get("total", 0)), int(progress.get("done", 0))
        self._cached_count = 0
        self._before = float(progress.get("spent", 0.0)), int(progress.get("ran", 0))
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
    def wants_slots(self) -> bool:
        """Whether an experiment of it waits for a slot."""
        return any(allotment.waiting for allotment in list(self._allotments))

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
        spent, ended_count = self._spent()
        mean = spent / ended_count if ended_count else None
        # What had a slot has ended, though it is not recorded yet.
        finished = max(self._done, self._cached_count + ended_count - self._before[1])
        unfinished = max(self._total - finished, 0)
        return StudyLoad(self.submission.submitted, max(self._total, 1), unfinished, running, mean)

    @property
    def slot_seconds(self) -> float:
        """Slot-seconds that its experiments had in this service."""
        return sum(allotment.spent for allotment in list(self._allotments))

    def facts(self, mean: float) -> dict[str, Any]:
        """Return where it stands, as the queue tells it; an experiment takes *mean* seconds."""
        load, slots = self.load(), self._pool.slots
        spent, ended_count = self._spent()
        return {
            "total": self._total,
            "done": self._done,
            "lent": self._pool.slots_in_use(self.number),
            "place": self.place,
            "studies": self._studies,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "born": process_birth(os.getpid()) or "",
            "spent": round(spent, 3),
            "ran": ended_count,
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
            self.cause, end = f"a bug in zenturio: {error!r}", "failed"
        finally:
            self._prepared()
            for allotment in self._allotments:
                allotment.close()
        self.end = end

    def _prepared(self) -> None:
        """Let another study of the user be read and planned."""
        if self._prepares:
            self._prepares = False
            self._preparing.release()

    def _run(self) -> tuple[str, SubmissionEnd]:
        self._prepares = self._preparing.acquire()
        if self._stopped:
            return "", "stopped"
        request = StudyRequest.read(self.submission.request)
        repository = self._repository.in_project(request.project)
        session = request.session(repository, self._application(request))
        if session.application.after:
            pipeline = Pipeline(
                session, self._report_plan, self._update_progress, self._cancel_requests
            )
            self._studies = [stage.name for stage in pipeline.stages[:-1]] + [session.study]
            self._total = pipeline.experiments
            self._register_run(pipeline)
            summary = pipeline.run(self._pool, self.number, self._allotments.append)
        else:
            allotment = self._pool.allot(self.number)
            self._allotments.append(allotment)
            summary = session.run(
                allotment, self._update_plan, self._update_progress, self._register_run
            )
        if summary.interrupted:
            return "", "stopped"
        self._total = sum(part.total for part in (*summary.before, summary))
        self._done = self._total - summary.unfinished
        return _words(summary), "done"

    def _application(self, request: StudyRequest) -> Application | None:
        """Return the submitted program; none where the files are read at their paths.

        Submissions of before this version have paths alone. Where experiments run as their users,
        nothing that a user wrote is executed by this process, nor read from a path of theirs.
        """
        facts = self.submission.request.get("program")
        if facts is None and self._as_users:
            raise SafetyError("its files are missing", hint="submit it again")
        if facts is None:
            return None
        program = SubmittedProgram.read(facts)
        root = self._folders.write(self.number, program, self._repository.submitted_content)
        return program.application(request, root, ask_anew=not self._as_users)

    def _register_run(self, run: StudyDriver | Pipeline) -> None:
        with self._turn:
            self._runs.append(run)
            stopped = self._stopped
        if self._cancel_requests is not None and isinstance(run, StudyDriver):
            run.watch(self._cancel_requests)
        if stopped:
            run.stop()
            run.stop()

    def _update_plan(self, plan: RunPlan) -> None:
        self._report_plan(plan)
        self._total, self._done = plan.experiments, max(self._done, plan.cached)

    def _report_plan(self, plan: RunPlan) -> None:
        self._prepared()
        for remark in plan.remarks:
            self._notify(f"{plan.study}: {remark}")

    def _update_progress(self, progress: RunProgress) -> None:
        for remark in progress.remarks:
            self._notify(f"{self.place}: {remark}")
        self._total, self._done, self._cached_count = progress.total, progress.done, progress.cached


def _words(summary: RunSummary) -> str:
    failures = [group for stage in (*summary.before, summary) for group in stage.failures]
    words = [f"{group.count} x {group.text}" for group in failures]
    if summary.unfinished:
        words.append(f"{summary.unfinished} were not run")
    return ", ".join(words)


TAKEN = Failpoint("serve.taken")
SETTLING = Failpoint("serve.settling")
SETTLED = Failpoint("serve.settled")

POLL = 0.5
"""Seconds between two checks of the queue."""
ACTIVE = 128
"""Studies of all users that are driven at the same time at the most; others keep their turn."""
PREPARING = 2
"""Studies of a user that are read and planned at the same time.

A hundred at once would take turns at every step, and none would ask for a slot before the last
ones do; one user's slow commands for versions keep nobody else waiting.
"""
LATER = 5.0
"""Seconds until a study with another driver is tried again."""
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
        shares: Mapping[str, UserShare] | None = None,
        *,
        run_unverified: bool = False,
    ) -> None:
        """*notify* is called with a line when a study begins or ends; *shares* are those of users.

        With *run_unverified*, submissions of unverified users are run; never where a place runs
        experiments as their users.
        """
        self.policy = policy
        self._repository = repository
        self._notify = notify
        self._cancel_requests = cancel_requests
        self._as_users = any(isinstance(place, RunsAsUsers) for place in places.values())
        self._run_unverified = run_unverified and not self._as_users
        self._folders = SubmittedFolders(project_folder() / FOLDER)
        self._workers: dict[int, SubmissionWorker] = {}
        self._preparing: defaultdict[str, BoundedSemaphore] = defaultdict(
            partial(BoundedSemaphore, PREPARING)
        )
        self._retry_at: dict[int, float] = {}
        self._retry_cause: dict[int, str] = {}
        self._fair = {name: FairShare(shares or {}) for name in places}
        self._spent: defaultdict[tuple[str, str], float] = defaultdict(float)
        """Slot-seconds of studies that are over, by place and user."""
        self._ledger = Lock()
        self._pools = {
            name: SlotPool(place, partial(self._choose, name), self._user_of)
            for name, place in places.items()
        }
        self._is_unreachable = False
        self._reported: dict[int, object] = {}

    def run(self, over: Event) -> None:
        """Serve until *over*; what runs then is stopped, and waits for the next service."""
        try:
            self._folders.clear()
            self._begin_in_turn(over)
            while not over.is_set():
                self._look_patiently()
                over.wait(POLL)
        finally:
            self.close()

    def _begin_in_turn(self, stop_event: Event) -> None:
        """Lend slots when all that waits has asked for them: else who asks first has them."""
        for pool in self._pools.values():
            pool.close()
        self._look_patiently()
        end = monotonic() + BEGINNING
        while not all(worker.waits for worker in self._workers.values()) and monotonic() < end:
            if stop_event.wait(GLANCE):
                return
        for pool in self._pools.values():
            pool.open()

    def look(self) -> None:
        """See what was submitted, cancelled and has ended meanwhile."""
        self._settle()
        submissions = self._repository.submissions(STANDING)
        numbers = {submission.number for submission in submissions}
        for number, worker in self._workers.items():
            if number not in numbers and worker.end is None:
                worker.stop()
        now = monotonic()
        pending = self._checked(
            [submission for submission in submissions if submission.number not in self._workers]
        )
        ready = [
            submission
            for submission in pending
            if self._retry_at.get(submission.number, 0.0) <= now
            and (submission.verified or self._run_unverified)
        ]
        active = Counter(worker.submission.user for worker in self._workers.values())
        shares = next(iter(self._fair.values()))
        order = in_turns([submission.user for submission in ready], active, shares)
        for position in order[: max(0, ACTIVE - len(self._workers))]:
            self._begin(ready[position])
        for submission in pending:
            if submission.number not in self._workers:
                self._report_pending_reason(submission)
        self._report()

    def _checked(self, pending: Sequence[StudySubmission]) -> list[StudySubmission]:
        """Return *pending* with what is known of their users, which is also recorded.

        In a file that others may write only what this service, or its owner, signed is believed.
        """
        others_write = bool(pending) and self._repository.may_others_write()
        checked_submissions = []
        for submission in pending:
            is_verified = not others_write or is_signed(submission)
            if is_verified != submission.verified:
                self._repository.set_verified(submission.number, verified=is_verified)
            checked_submissions.append(replace(submission, verified=is_verified))
        return checked_submissions

    def _report_pending_reason(self, submission: StudySubmission) -> None:
        """Record for what a submission waits that has not begun."""
        user = submission.user
        active = sum(worker.submission.user == user for worker in self._workers.values())
        limit = next(iter(self._fair.values())).share(user).active
        if not submission.verified and not self._run_unverified:
            reason = f"{user} to submit it again: who submitted it was not checked"
        elif cause := self._retry_cause.get(submission.number):
            reason = f"another try: {cause}"
        elif active >= limit:
            reason = f"another study of {user} to end: {limit} at a time"
        else:
            reason = f"a study to end: {ACTIVE} at a time"
        if submission.progress.get("waits_for") != reason:
            facts = {**submission.progress, "waits_for": reason}
            self._repository.report_progress(submission.number, facts)

    def close(self) -> None:
        """Stop all studies, which wait for the next service."""
        for pool in self._pools.values():
            pool.close()
        for worker in self._workers.values():
            worker.stop()
        # All are stopped before the first is waited for: they end side by side.
        end = monotonic() + PATIENCE
        for worker in self._workers.values():
            worker.join(max(0.0, end - monotonic()))
        try:
            self._hand_back()
        except ZenError as error:  # the next service finds them as they are
            self._notify(f"the queue cannot be written now: {error}")

    def _hand_back(self) -> None:
        """Record how the studies ended that have; the others wait again, and have no slots."""
        means = self._means()
        stopped = {
            number: worker.facts(means[number]) if worker.begun else None
            for number, worker in self._workers.items()
            if worker.end not in ("done", "failed")
        }
        self._settle()
        for number, facts in stopped.items():
            self._repository.update_submission(number, "waiting")
            if facts is not None:
                self._repository.report_progress(number, {**facts, "lent": 0})

    def _look_patiently(self) -> None:
        """Look at the queue; a repository that is away may come back, and what runs goes on."""
        try:
            self.look()
            self._is_unreachable = False
        except RecordError as error:
            if not self._is_unreachable:
                self._notify(f"the queue cannot be read now: {error}")
            self._is_unreachable = True

    def _begin(self, submission: StudySubmission) -> None:
        place = str(submission.request.get("on", "")) or self._roomiest()
        name = f"{submission.number}: {submission.study} of {submission.user}"
        if place not in self._pools:
            self._repository.update_submission(
                submission.number, "failed", f"the service has no place {place!r} (any more)"
            )
            return
        running_submission = self._repository.update_submission(submission.number, "running")
        if running_submission.turn != "running":
            return  # it was cancelled in this very moment
        TAKEN()
        pool = self._pools[place]
        worker = SubmissionWorker(
            # As it was checked: others may have written into its row meanwhile.
            replace(submission, turn=running_submission.turn, begun=running_submission.begun),
            self._repository,
            place,
            pool,
            self._folders,
            self._cancel_requests,
            self._notify,
            as_users=self._as_users,
            preparing=self._preparing[submission.user],
        )
        self._workers[submission.number] = worker
        worker.start()
        if submission.number not in self._retry_at:
            self._notify(f"{name} begins on {place}")

    def _roomiest(self) -> str:
        """Return the place with the most slots for each study that it has."""

        def room(name: str) -> float:
            studies = sum(worker.place == name for worker in self._workers.values())
            return self._pools[name].slots / (studies + 1)

        return max(self._pools, key=room)

    def _settle(self) -> None:
        """Write down how those ended that have."""
        means = self._means()
        for number, worker in list(self._workers.items()):
            if not worker.over:
                continue
            name = f"{number}: {worker.submission.study} of {worker.submission.user}"
            if worker.end in ("done", "failed"):
                # Killed between the two writes, the next service finds the submission running,
                # drives it again, and finds all of it cached.
                SETTLING()
                self._repository.report_progress(number, worker.facts(means[number]))
                ended_submission = self._repository.update_submission(
                    number, worker.end, worker.cause
                )
                SETTLED()
                self._notify(
                    f"{name} is {ended_submission.turn}"
                    + (f": {ended_submission.cause}" * bool(ended_submission.cause))
                )
            elif worker.end == "later":
                if number not in self._retry_at:
                    self._notify(f"{name} waits: {worker.cause}")
                self._retry_at[number] = monotonic() + LATER
                self._retry_cause[number] = worker.cause.splitlines()[0]
            else:
                self._notify(f"{name} was stopped")
            self._folders.remove(number)
            with self._ledger:  # whose turn it is may be asked at any moment
                user = worker.submission.user
                self._spent[worker.place, user] += worker.slot_seconds
                del self._workers[number]
            self._reported.pop(number, None)

    def _report(self) -> None:
        """Tell where studies stand, if that changed."""
        means = self._means()
        for number, worker in self._workers.items():
            if not worker.begun:
                continue
            facts = worker.facts(means[number])
            # The slowdown changes with each look: alone it is no reason to write.
            essential_facts = {fact: value for fact, value in facts.items() if fact != "slowdown"}
            if not facts["lent"] and worker.wants_slots:
                facts["waits_for"] = essential_facts["waits_for"] = self._why_waiting(worker)
            if self._reported.get(number) != essential_facts:
                self._repository.report_progress(number, facts)
                self._reported[number] = essential_facts

    def _means(self) -> dict[Hashable, float]:
        return mean_seconds({number: worker.load() for number, worker in self._workers.items()})

    def _why_waiting(self, worker: SubmissionWorker) -> str:
        pool = self._pools[worker.place]
        demands = pool.demands()
        _, users = self._loads(worker.place, demands)
        user = worker.submission.user
        return self._fair[worker.place].why_waiting(user, users, pool.slots)

    def _choose(self, place: str, owners: Sequence[Hashable], demands: Demands) -> Hashable | None:
        """Return which study gets the next slot of a place; called by its slot pool, one thread at
        a time.
        """
        loads, users = self._loads(place, demands)
        loaded = [owner for owner in owners if owner in loads]
        if not loaded:
            return owners[0]
        user = self._fair[place].next_user(users)
        owners_of_user = [owner for owner in loaded if self._user_of(owner) == user]
        if not owners_of_user:
            return None
        loads_of_user = {o: load for o, load in loads.items() if self._user_of(o) == user}
        return next_owner(
            self.policy, time(), self._pools[place].slots, loads_of_user, owners_of_user
        )

    def _user_of(self, owner: Hashable) -> str | None:
        worker = self._workers.get(owner) if isinstance(owner, int) else None
        return worker.submission.user if worker is not None else None

    def _loads(
        self, place: str, demands: Demands
    ) -> tuple[dict[Hashable, StudyLoad], dict[str, UserLoad]]:
        """Return what each study, and each user, has of a place and wants of it."""
        with self._ledger:
            workers = {
                number: worker
                for number, worker in list(self._workers.items())
                if worker.place == place
            }
            spent = {
                user: seconds
                for (user_place, user), seconds in self._spent.items()
                if user_place == place
            }
        no_demand = OwnerDemand()
        loads: dict[Hashable, StudyLoad] = {
            number: worker.load(demands.get(number, no_demand).seconds)
            for number, worker in workers.items()
        }
        means = mean_seconds(loads)
        users: dict[str, UserLoad] = {}
        for number, worker in workers.items():
            user, demand = worker.submission.user, demands.get(number, no_demand)
            user_load = users.get(user, UserLoad(spent.get(user, 0.0), arrival=inf))
            running = sum(max(passed, means[number]) * slots for passed, slots in demand.running)
            users[user] = UserLoad(
                user_load.spent + worker.slot_seconds + running,
                user_load.slots + sum(slots for _, slots in demand.running),
                user_load.wanted or demand.wanted,
                min(user_load.arrival, worker.submission.submitted if demand.wanted else inf),
            )
        return loads, users
