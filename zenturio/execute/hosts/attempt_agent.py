"""
The submission agent: one for each attempt, in a thread of its own.

Prolog, wrapper, and a watch until the end; then the epilog. On the way it listens to the host, to
the program (how far it is, what it needs) and to the user, and moves the job where that is better.
"""

from __future__ import annotations

import time
from typing import Any

from zenturio.errors import InputError
from zenturio.execute.file_staging import remove_tree
from zenturio.execute.hosts.attempt_journal import HostAttempt
from zenturio.execute.hosts.connection import DroppedError, RefusedError
from zenturio.execute.hosts.file_transfer import fetch_restart_files
from zenturio.execute.hosts.host_builds import HostBuildError
from zenturio.execute.hosts.host_faults import LEAST_DISK, fault_sign, needed_program
from zenturio.execute.hosts.host_job import HostJob
from zenturio.execute.hosts.progress_profile import ProgressProfile
from zenturio.execute.hosts.remote_attempt import (
    AttemptServices,
    JobCancelledError,
    MoveToOtherHostError,
    RemoteAttempt,
    RequirementUnmetError,
    SupervisorLostError,
)
from zenturio.execute.hosts.remote_host import RemoteHost
from zenturio.execute.hosts.stage_context import StageContext
from zenturio.execute.hosts.stages import FinishedAttempt
from zenturio.experiment import Outcome

_ENDING_SECONDS = 30.0
"""Seconds that a job may take to end when it is told to."""
_MOST_SUPERVISOR_LOSSES = 5
"""How often an experiment is begun whose keeper dies each time."""
_PROGRESS_FRACTION = 0.01
"""The part of a job's age after which its progress is recorded again."""


class AttemptAgent:
    """Sees one job through an attempt at a host."""

    def __init__(self, desk: AttemptServices, job: HostJob, host: RemoteHost) -> None:
        self._desk = desk
        self._job = job
        self._host = host
        self._ways = desk.ways
        self._hold = RemoteAttempt(desk, job, host)
        self._begun = self._told = time.monotonic()

    def run(self) -> None:
        """The whole attempt; at its end the job is over, or waits for another one."""
        job, desk, host = self._job, self._desk, self._host.name
        attempt: HostAttempt | None = None
        outcome: Outcome | None = None
        fault: BaseException | None = None
        again = False
        try:
            attempt, adopted = self._begin()
            outcome = self._attempt(self._site(attempt), adopted=adopted)
            if outcome.status != "cancelled":
                desk.journal.deliver(outcome)
        except MoveToOtherHostError as error:
            again = True
            self._hold.note("left", str(error))
        except (SupervisorLostError, RequirementUnmetError) as error:
            outcome = desk.judge.nothing(
                job.experiment, "failed", str(error), host, job.began, self._host.kind
            )
            desk.journal.deliver(outcome)
        except JobCancelledError:
            outcome = desk.judge.nothing(job.experiment, "cancelled", "cancelled", host, job.began)
        except BaseException as error:  # noqa: BLE001 - the future carries it to who waits
            fault = error
        if attempt is not None:
            if outcome is None or outcome.status == "cancelled":
                desk.journal.abandon(job.digest)
            self._host.discard(attempt.token)
        desk.broker.left(job)
        self._hand_on(outcome, fault, again=again)
        desk.broker.changed()

    def _hand_on(
        self, outcome: Outcome | None, fault: BaseException | None, *, again: bool
    ) -> None:
        job = self._job
        if again:
            outcome = self._desk.journal.outcome(job.digest)  # of another driver, meanwhile
        if again and outcome is None:
            job.kill = lambda: self._desk.take_off(job)
            self._desk.broker.put(job)
            if job.stopped:
                self._desk.take_off(job)
            return
        self._desk.broker.stays(job)
        self._desk.broker.assign()  # before anybody is told: the host is not to wait for that
        if outcome is not None:
            self._hold.note("ended" if outcome.status == "ok" else "failed", outcome.cause)
            job.set_result(outcome)
        else:
            self._hold.note("failed", str(fault))
            job.set_exception(fault)

    def _begin(self) -> tuple[HostAttempt, bool]:
        """The attempt that counts at this host, or a new one."""
        journal, job = self._desk.journal, self._job
        job.host = self._host.name
        job.kill = job.stop
        job.runs = False
        job.profile = ProgressProfile(max(self._ways.breaches, 1))
        job.forget_news()
        known = journal.attempt(job.digest)
        if known is not None and known.host == self._host.name:
            return journal.take_over(job.digest, known), True
        return journal.begin(job.digest, self._host.name), False

    def _site(self, attempt: HostAttempt) -> StageContext:
        journal = self._desk.journal
        entry = journal.entry(self._job.digest)
        return StageContext(
            self._job.experiment,
            self._host,
            attempt.token,
            self._ways,
            entry / "back",
            journal.restart(self._job.digest),
            journal,
            self._hold.check,
        )

    def _attempt(self, site: StageContext, *, adopted: bool) -> Outcome:
        job, stages = self._job, self._desk.stages
        self._host.listen(site.token, job.hear)
        try:
            if not adopted or not self._adopted(site):
                self._hold.note("prolog")
                begun = time.monotonic()
                self._hold.stage(site, "prolog", lambda: stages.prolog(site))
                self._hold.stage(site, "wrapper", lambda: stages.wrapper(site))
                self._hold.note("started")
                job.staging = time.monotonic() - begun
            self._arrived()
            job.runs = True
            self._watch(site)
            job.runs = False
            self._hold.note("epilog")
            found = self._hold.stage(site, "epilog", lambda: stages.epilog(site), ending=True)
        except HostBuildError as error:
            broken = error.broken
            why = fault_sign("", broken.exit or 0, "", broken.stderr)
            if why:
                self._hold.suspect(why)
            self._hold.judge_hosts()
            return self._desk.judge.unbuilt(
                job.experiment, self._host.name, broken, job.began, self._host.kind
            )
        finally:
            self._host.silence(site.token)
        if found.spoilt:
            self._hold.forget_staged()
        self._look_for_fault(site, found)
        outcome = self._desk.judge.outcome(job.experiment, self._host.name, found)
        remove_tree(str(site.scratch))
        return outcome

    def _look_for_fault(self, site: StageContext, found: FinishedAttempt) -> None:
        """Sends the job elsewhere where the host may be why it failed."""
        facts, steps = found.facts, self._job.experiment.steps
        if facts["stop"] == "cancelled" or self._job.stopped:
            return
        why = fault_sign(facts["stop"], facts["status"], facts["why"], found.stderr)
        if not why and facts["status"] and not facts["stop"] and self._is_full(site):
            why = "its disk is full"
        if why:
            self._hold.suspect(why, needed_program(steps[facts["step"]]) if steps else "")
        self._hold.judge_hosts()

    def _is_full(self, site: StageContext) -> bool:
        try:
            answer, _ = site.host.ask("facts", whole=False, calibrate=False, probe="")
        except (DroppedError, RefusedError):
            return False
        disk = answer["facts"].get("disk")
        return isinstance(disk, int) and disk < LEAST_DISK

    def _adopted(self, site: StageContext) -> bool:
        """Goes on with what an earlier driver began; false where it was not started yet."""
        if not self._host.up:
            state = self._hold.reattach(site)
        else:
            state = str(self._hold.stage(site, "watch", lambda: site.ask("state"))[0]["state"])
        if state in ("unknown", "prepared"):
            return False
        self._hold.note("adopted", state)
        self._hold.rewatch(site, state)
        return True

    def _arrived(self) -> None:
        if self._job.left_at:
            self._desk.broker.moved(time.monotonic() - self._job.left_at)
            self._job.left_at = 0.0

    # While it runs.

    def _watch(self, site: StageContext) -> None:
        """Until the job has ended there."""
        copied = time.monotonic()
        while True:
            kind, event = self._hold.next(1.0)
            match kind:
                case "over" if event["state"] == "ended":
                    return
                case "over":
                    self._lost()
                case "cancel":
                    self._cancel(site)
                case "dropped":
                    self._hold.rewatch(site, self._hold.reattach(site))
                case "profile":
                    self._progress(site, event)
                case "demands":
                    self._demand(site, event["text"])
                case "better":
                    self._improve(site, event["host"])
            every = self._ways.checkpoint
            if every and time.monotonic() >= copied + every:
                fetch_restart_files(site)
                copied = time.monotonic()

    def _lost(self) -> None:
        """Its keeper was killed; nothing of it is alive any more."""
        self._job.losses += 1
        if self._job.losses >= _MOST_SUPERVISOR_LOSSES and not self._job.stopped:
            raise SupervisorLostError(f"its keeper died {_MOST_SUPERVISOR_LOSSES} times")
        self._hold.suspect("the keeper of an experiment died")
        raise MoveToOtherHostError("its keeper died")

    def _cancel(self, site: StageContext) -> None:
        """Tells it to end; that it has is heard as of any other."""
        try:
            site.ask("cancel")
        except (DroppedError, RefusedError):
            raise JobCancelledError from None  # its host ends it when it is back

    def _progress(self, site: StageContext, event: dict[str, Any]) -> None:
        job, profile = self._job, self._job.profile
        profile.hear(event["text"], event["told"])
        if time.monotonic() >= self._told:
            # Ever more seldom: a month leaves some hundred lines.
            self._hold.note("progress", iteration=profile.iteration)
            elapsed = time.monotonic() - self._begun
            self._told = time.monotonic() + elapsed * _PROGRESS_FRACTION
        why = self._desk.stages.evaluator(profile, self._ways)
        if not why or job.moves >= self._ways.migrations:
            return
        target = self._desk.broker.better(job, self._host)
        if target is not None:
            job.avoid(self._host.name, self._ways.exists)
            self._move(site, why)

    def _improve(self, site: StageContext, name: str) -> None:
        if self._job.moves < self._ways.migrations:
            self._move(site, f"{name} is better")
        self._desk.broker.stays(self._job)

    def _demand(self, site: StageContext, text: str) -> None:
        """The program has said anew what it needs."""
        job, broker = self._job, self._desk.broker
        try:
            wants = job.wants.anew(text)
            suits = broker.suits(wants, self._host)
        except InputError as error:
            self._hold.note("requires", f"not understood: {error.diagnostics[0].message}")
            return
        job.wants = wants
        self._hold.note("requires", "; ".join(text.split("\n")).strip("; "))
        if suits:
            return
        if broker.refusal(job) is not None:
            asked = " and ".join(each.text for each in wants.requires)
            raise RequirementUnmetError(f"no host is as the program requires: {asked}")
        self._move(site, "the program requires another host")

    def _move(self, site: StageContext, why: str) -> None:
        """Ends the job here, takes its restart files along, and sends it elsewhere."""
        job = self._job
        job.left_at = time.monotonic()
        self._hold.note("moving", why)
        try:
            site.ask("cancel")
            self._until_over()
            told, _ = site.ask("reply")
            if told["reply"]["stop"] != "cancelled":
                job.hear("over", {"state": "ended"})
                return
            fetch_restart_files(site)
        except (DroppedError, RefusedError):
            raise MoveToOtherHostError(f"{why}; the host is gone") from None
        self._hold.check()
        job.moves += 1
        raise MoveToOtherHostError(why)

    def _until_over(self) -> None:
        end = time.monotonic() + _ENDING_SECONDS
        while time.monotonic() < end:
            kind, _ = self._hold.next(1.0)
            if kind == "over":
                return
            if kind == "dropped":
                raise DroppedError
        raise RefusedError("it does not end")
