"""
The submission agent: one for each attempt, in a thread of its own.

Prolog, wrapper, and a watch until the end; then the epilog. On the way it listens to the host, to
the program (how far it is, what it needs) and to the user, and moves the job where that is better.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from zenturio.errors import InputError, PlaceError
from zenturio.execute.filing import remove
from zenturio.execute.hosts.broker import Broker
from zenturio.execute.hosts.building import UnbuiltError
from zenturio.execute.hosts.connection import DroppedError, RefusedError
from zenturio.execute.hosts.events import Events
from zenturio.execute.hosts.host import Host
from zenturio.execute.hosts.job import Job
from zenturio.execute.hosts.journal import Attempt, Journal
from zenturio.execute.hosts.judging import Judge
from zenturio.execute.hosts.machine import Ways
from zenturio.execute.hosts.moving import fetch_all
from zenturio.execute.hosts.profile import Profile
from zenturio.execute.hosts.site import Site
from zenturio.execute.hosts.stages import Stages
from zenturio.experiment import Outcome

_ENDING = 30.0
"""Seconds that a job may take to end when it is told to."""
_LOSSES = 3
"""How often an experiment is begun whose keeper dies each time."""
_PAUSE = 0.2
_SELDOM = 0.01
"""The part of a job's age after which its progress is recorded again."""
T = TypeVar("T")


@dataclass(frozen=True)
class Desk:
    """What all agents of a place share."""

    ways: Ways
    stages: Stages
    journal: Journal
    events: Events
    judge: Judge
    broker: Broker

    def take_off(self, job: Job) -> None:
        """*job* is to end while it waits."""
        if self.broker.drop(job) and not job.cancel_waiting():
            job.set_result(
                self.judge.nothing(job.experiment, "cancelled", "cancelled", job.host, job.began)
            )


class StoppedError(Exception):
    """The user wants it to end."""


class LostError(Exception):
    """Its keeper dies each time: it cannot be run."""


class ElsewhereError(Exception):
    """The attempt is over, and another one is to be made."""


class Agent:
    """Sees one job through an attempt at a host."""

    def __init__(self, desk: Desk, job: Job, host: Host) -> None:
        self._desk = desk
        self._job = job
        self._host = host
        self._ways = desk.ways
        self._begun = self._told = time.monotonic()

    def run(self) -> None:
        """The whole attempt; at its end the job is over, or waits for another one."""
        job, desk, host = self._job, self._desk, self._host.name
        attempt: Attempt | None = None
        outcome: Outcome | None = None
        fault: BaseException | None = None
        again = False
        try:
            attempt, adopted = self._begin()
            outcome = self._attempt(self._site(attempt), adopted=adopted)
            if outcome.status != "cancelled":
                desk.journal.deliver(outcome)
        except ElsewhereError as error:
            again = True
            self._note("left", str(error))
        except LostError:
            outcome = desk.judge.nothing(job.experiment, "failed", "keeper lost", host, job.began)
            desk.journal.deliver(outcome)
        except StoppedError:
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
            self._note("ended" if outcome.status == "ok" else "failed", outcome.cause)
            job.set_result(outcome)
        else:
            self._note("failed", str(fault))
            job.set_exception(fault)

    def _begin(self) -> tuple[Attempt, bool]:
        """The attempt that counts at this host, or a new one."""
        journal, job = self._desk.journal, self._job
        job.host = self._host.name
        job.kill = job.stop
        job.profile = Profile(max(self._ways.breaches, 1))
        job.news = SimpleQueue()  # what was said of an attempt before does not count
        known = journal.attempt(job.digest)
        if known is not None and known.host == self._host.name:
            return journal.take_over(job.digest, known), True
        return journal.begin(job.digest, self._host.name), False

    def _site(self, attempt: Attempt) -> Site:
        journal = self._desk.journal
        entry = journal.entry(self._job.digest)
        return Site(
            self._job.experiment,
            self._host,
            attempt.token,
            self._ways,
            entry / "back",
            journal.restart(self._job.digest),
            journal,
            self._stopped,
        )

    def _attempt(self, site: Site, *, adopted: bool) -> Outcome:
        job, stages = self._job, self._desk.stages
        self._host.listen(site.token, job.hear)
        try:
            if not adopted or not self._adopted(site):
                self._note("prolog")
                begun = time.monotonic()
                self._stage(site, "prolog", lambda: stages.prolog(site))
                self._stage(site, "wrapper", lambda: stages.wrapper(site))
                self._note("started")
                job.staging = time.monotonic() - begun
            self._arrived()
            self._watch(site)
            self._note("epilog")
            found = self._stage(site, "epilog", lambda: stages.epilog(site), ending=True)
        except UnbuiltError as error:
            return self._desk.judge.unbuilt(
                job.experiment, self._host.name, error.broken, job.began
            )
        finally:
            self._host.silence(site.token)
        if found.spoilt:
            self._forget_staged()
        outcome = self._desk.judge.outcome(job.experiment, self._host.name, found)
        remove(str(site.scratch))
        return outcome

    def _adopted(self, site: Site) -> bool:
        """Goes on with what an earlier driver began; false where it was not started yet."""
        if not self._host.up:
            state = self._reattach(site)
        else:
            state = str(self._stage(site, "watch", lambda: site.ask("state"))[0]["state"])
        if state in ("unknown", "prepared"):
            return False
        self._note("adopted", state)
        self._rewatch(site, state)
        return True

    def _arrived(self) -> None:
        if self._job.left_at:
            self._desk.broker.moved(time.monotonic() - self._job.left_at)
            self._job.left_at = 0.0

    # Stages, and what comes between.

    def _stage(self, site: Site, name: str, call: Callable[[], T], *, ending: bool = False) -> T:
        """What *call* answers, tried again as often as is allowed.

        What is *ending* is not stopped: it is cancelled already.
        """
        tries = 0
        while True:
            if not ending:
                self._stopped()
            try:
                return call()
            except DroppedError:
                self._reattach(site)
            except RefusedError as error:
                tries += 1
                self._note("retry", f"{name}: {error}")
                self._forget_staged()
                if tries > self._ways.retries:
                    self._give_up(name, error)
                time.sleep(_PAUSE * tries)

    def _give_up(self, name: str, error: RefusedError) -> None:
        host = self._host.name
        if self._ways.then == "stop":
            raise PlaceError(f"{host}: the {name} failed: {error}", cure="resume it: zen run ...")
        self._job.avoid(host, self._ways.exists)
        if not self._desk.broker.others(self._job, self._host):
            raise PlaceError(f"{host}: the {name} failed: {error}", cure="no other host will do")
        raise ElsewhereError(f"the {name} failed: {error}")

    def _stopped(self) -> None:
        if self._job.stopped:
            raise StoppedError

    def _forget_staged(self) -> None:
        """What was brought there may be gone: it is looked for again."""
        with self._host.turn:
            ready = [name for name, made in self._host.making.items() if made.done()]
            for name in ready:
                made = self._host.making[name]
                if made.exception() is None and made.result() is None:
                    del self._host.making[name]

    def _reattach(self, site: Site) -> str:
        """Waits for the host; how the job stands there when it is back.

        Only where another host would do is this one given up, and never taken back.
        """
        self._note("dropped")
        end = time.monotonic() + self._ways.patience
        while True:
            kind, event = self._next(max(min(end - time.monotonic(), 1.0), 0.05))
            if kind == "cancel":
                raise StoppedError
            if kind == "back" or (kind == "" and self._host.up):
                state = event.get("state") or self._state(site)
                if state:
                    self._note("attached", state)
                    return str(state)
            if time.monotonic() > end and self._desk.broker.others(self._job, self._host):
                self._forget_staged()
                raise ElsewhereError("the host is gone")

    def _state(self, site: Site) -> str:
        try:
            return str(site.ask("state")[0]["state"])
        except (DroppedError, RefusedError):
            return ""

    def _rewatch(self, site: Site, state: str) -> None:
        """Listens to a job that runs on; what became of others will be heard at once."""
        if state == "unknown":
            raise ElsewhereError("the host has forgotten it")
        if state == "prepared":
            self._stage(site, "wrapper", lambda: self._desk.stages.wrapper(site))
        else:
            told = self._job.profile.told
            self._stage(site, "watch", lambda: site.ask("watch", told=told))

    # While it runs.

    def _watch(self, site: Site) -> None:
        """Until the job has ended there."""
        copied = time.monotonic()
        while True:
            kind, event = self._next(1.0)
            match kind:
                case "over" if event["state"] == "ended":
                    return
                case "over":
                    self._lost()
                case "cancel":
                    self._cancel(site)
                case "dropped":
                    self._rewatch(site, self._reattach(site))
                case "profile":
                    self._progress(site, event)
                case "demands":
                    self._demand(site, event["text"])
                case "better":
                    self._improve(site, event["host"])
            every = self._ways.checkpoint
            if every and time.monotonic() >= copied + every:
                self._copy(site)
                copied = time.monotonic()

    def _next(self, seconds: float) -> tuple[str, dict[str, Any]]:
        try:
            return self._job.news.get(timeout=seconds)
        except Empty:
            return "", {}

    def _lost(self) -> None:
        """Its keeper was killed; nothing of it is alive any more."""
        self._job.losses += 1
        if self._job.losses >= _LOSSES and not self._job.stopped:
            raise LostError
        raise ElsewhereError("its keeper died")

    def _cancel(self, site: Site) -> None:
        """Tells it to end; that it has is heard as of any other."""
        try:
            site.ask("cancel")
        except (DroppedError, RefusedError):
            raise StoppedError from None  # its host ends it when it is back

    def _progress(self, site: Site, event: dict[str, Any]) -> None:
        job, profile = self._job, self._job.profile
        profile.hear(event["text"], event["told"])
        if time.monotonic() >= self._told:
            # Ever more seldom: a month leaves some hundred lines.
            self._note("progress", iteration=profile.iteration)
            elapsed = time.monotonic() - self._begun
            self._told = time.monotonic() + elapsed * _SELDOM
        if not profile.broken(self._ways.contract) or job.moves >= self._ways.migrations:
            return
        target = self._desk.broker.better(job, self._host)
        if target is not None:
            job.avoid(self._host.name, self._ways.exists)
            self._move(site, f"an iteration took {profile.now:.3g} s, not {profile.usual:.3g} s")

    def _improve(self, site: Site, name: str) -> None:
        if self._job.moves < self._ways.migrations:
            self._move(site, f"{name} is better")
        self._desk.broker.stays(self._job)

    def _demand(self, site: Site, text: str) -> None:
        """The program has said anew what it needs."""
        job = self._job
        try:
            job.wants = job.wants.anew(text)
            suits = self._desk.broker.suits(job, self._host)
        except InputError as error:
            self._note("requires", f"not understood: {error.complaints[0].message}")
            return
        self._note("requires", "; ".join(text.split("\n")).strip("; "))
        if not suits:
            self._move(site, "the program requires another host")

    def _move(self, site: Site, why: str) -> None:
        """Ends the job here, takes its restart files along, and sends it elsewhere."""
        job = self._job
        job.left_at = time.monotonic()
        self._note("moving", why)
        try:
            site.ask("cancel")
            self._until_over()
            told, _ = site.ask("reply")
            if told["reply"]["stop"] != "cancelled":
                job.hear("over", {"state": "ended"})
                return
            self._copy(site)
        except (DroppedError, RefusedError):
            raise ElsewhereError(f"{why}; the host is gone") from None
        self._stopped()
        job.moves += 1
        raise ElsewhereError(why)

    def _until_over(self) -> None:
        end = time.monotonic() + _ENDING
        while time.monotonic() < end:
            kind, _ = self._next(1.0)
            if kind == "over":
                return
            if kind == "dropped":
                raise DroppedError
        raise RefusedError("it does not end")

    def _copy(self, site: Site) -> None:
        """Brings the restart files here."""
        if not self._ways.restart:
            return
        draft = site.restart.with_name("restart.draft")
        remove(str(draft))
        try:
            if fetch_all(site, self._ways.restart, draft):
                remove(str(site.restart))
                draft.rename(site.restart)
        except (DroppedError, RefusedError):
            remove(str(draft))

    def _note(self, kind: Any, why: str = "", iteration: int | None = None) -> None:
        self._desk.events.note(kind, self._job.digest, self._host.name, why, iteration)
