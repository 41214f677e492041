"""Keeps hold of one attempt at a host, whatever happens to the connection."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from zenturio.errors import PlaceError, PluginError, ZenError
from zenturio.execute.hosts.attempt_journal import AttemptJournal
from zenturio.execute.hosts.broker import Broker
from zenturio.execute.hosts.connection import DroppedError, RefusedError
from zenturio.execute.hosts.event_log import EventLog
from zenturio.execute.hosts.host_builds import HostBuildError
from zenturio.execute.hosts.host_job import HostJob
from zenturio.execute.hosts.host_outcomes import OutcomeBuilder
from zenturio.execute.hosts.hosts_options import HostsOptions
from zenturio.execute.hosts.remote_host import RemoteHost
from zenturio.execute.hosts.stage_context import StageContext
from zenturio.execute.hosts.stages import Stages
from zenturio.execute.json_checks import MalformedError

_RETRY_PAUSE_SECONDS = 0.2
_MOST_ORDINARY = 1000
T = TypeVar("T")


@dataclass(frozen=True)
class AttemptServices:
    """What all agents of a place share."""

    options: HostsOptions
    stages: Stages
    journal: AttemptJournal
    events: EventLog
    judge: OutcomeBuilder
    broker: Broker
    ordinary: set[str] = field(default_factory=set)
    """Signs of a host's fault that were seen at every host: they are the experiments' own."""

    def cancel_waiting_job(self, job: HostJob) -> None:
        """*job* is to end while it waits."""
        if self.broker.remove(job) and not job.cancel_waiting():
            job.set_result(
                self.judge.nothing(job.experiment, "cancelled", "cancelled", job.host, job.began)
            )


class JobCancelledError(Exception):
    """The user wants it to end."""


class SupervisorLostError(Exception):
    """Its supervisor dies each time: it cannot be run."""


class RequirementUnmetError(Exception):
    """The program wants what no host will ever be."""


class MoveToOtherHostError(Exception):
    """The attempt is over, and another one is to be made."""


class RemoteAttempt:
    """One job at one host: stages are tried again, and a lost connection is waited for."""

    def __init__(self, services: AttemptServices, job: HostJob, host: RemoteHost) -> None:
        self.services = services
        self.job = job
        self.host = host
        self.options = services.options

    def stage(
        self, context: StageContext, name: str, call: Callable[[], T], *, ending: bool = False
    ) -> T:
        """Return what *call* answers, tried again as often as is allowed.

        What is *ending* is not stopped: it is cancelled already.
        """
        attempts = 0
        while True:
            if not ending:
                self.check()
            try:
                return call()
            except DroppedError:
                self.reattach(context)
            except RefusedError as error:
                attempts += 1
                self.note("retry", f"{name}: {error}")
                self.forget_staged()
                if attempts > self.options.retries:
                    self._give_up(name, error)
                time.sleep(_RETRY_PAUSE_SECONDS * attempts)
            except MalformedError as error:
                self.host.distrust(str(error))
                self._leave(self.host.drained)
            except (ZenError, HostBuildError, JobCancelledError, MoveToOtherHostError):
                raise
            except Exception as error:  # of a module that is not ours, or of a disk here
                why = f"{self.host.name}: the {name} failed: {type(error).__name__}: {error}"
                raise PluginError(why) from error

    def _give_up(self, name: str, error: RefusedError) -> None:
        host = self.host.name
        if self.options.then == "stop":
            raise PlaceError(f"{host}: the {name} failed: {error}", hint="resume it: zen run ...")
        self.job.avoid(host, self.options.exists)
        self.host.charge(self.job.digest, str(error))
        self._leave(f"the {name} failed: {error}")

    def suspect(self, why: str, needed: str = "") -> None:
        """The host may be why the job failed: it runs at another one, if one would do.

        When that goes better the host is charged with it. What every host shows is no fault of one.
        """
        job, services = self.job, self.services
        if self.options.then == "stop" or why in services.ordinary:
            return
        job.suspects[self.host.name] = (why, needed)
        if services.broker.has_alternative(job, self.host):
            job.avoid(self.host.name, self.options.exists)
            raise MoveToOtherHostError(why)
        if len(job.suspects) > 1 and len(services.ordinary) < _MOST_ORDINARY:
            services.ordinary.add(why)

    def judge_hosts(self) -> None:
        """The job has ended here: hosts where it could not run are charged with that."""
        suspects = dict(self.job.suspects)
        self.job.suspects.clear()
        if self.host.name in suspects:
            return  # it went no better here
        self.host.discharge()
        for name, (why, needed) in suspects.items():
            other = self.services.broker.host(name)
            if other is not None:
                other.charge(self.job.digest, why, needed)

    def _leave(self, why: str) -> NoReturn:
        """Give up the host; PlaceError where no other one would do."""
        if not self.services.broker.has_alternative(self.job, self.host):
            raise PlaceError(f"{self.host.name}: {why}", hint="no other host will do")
        self.forget_staged()
        raise MoveToOtherHostError(why)

    def check(self) -> None:
        if self.job.cancel_requested:
            raise JobCancelledError

    def forget_staged(self) -> None:
        """What was brought there may be gone: it is looked for again."""
        with self.host.turn:
            ready = [name for name, made in self.host.making.items() if made.done()]
            for name in ready:
                made = self.host.making[name]
                if made.exception() is None and made.result() is None:
                    del self.host.making[name]

    def reattach(self, context: StageContext) -> str:
        """Wait for the host; how the job stands there when it is back.

        Only where another host would do is this one given up, and never taken back.
        """
        self.note("dropped")
        end = time.monotonic() + self.options.patience
        while True:
            kind, event = self.next(max(min(end - time.monotonic(), 1.0), 0.05))
            if kind == "cancel":
                raise JobCancelledError
            if self.host.distrusted:
                self._leave(self.host.drained)
            if kind == "back" or (kind == "" and self.host.up):
                state = event.get("state") or self._state(context)
                if state:
                    self.note("attached", state)
                    return str(state)
            # Without an alternative the host is waited for without limit: its job may still run.
            if time.monotonic() > end and self.services.broker.has_alternative(self.job, self.host):
                self.forget_staged()
                raise MoveToOtherHostError("the host is gone")

    def _state(self, context: StageContext) -> str:
        try:
            return str(context.ask("state")[0]["state"])
        except (DroppedError, RefusedError):
            return ""

    def rewatch(self, context: StageContext, state: str) -> None:
        """Listen to a job that runs on; what became of others will be heard at once."""
        if state == "unknown":
            raise MoveToOtherHostError("the host has forgotten it")
        if state == "prepared":
            self.stage(context, "wrapper", lambda: self.services.stages.wrapper(context))
        else:
            offset = self.job.profile.offset
            self.stage(context, "watch", lambda: context.ask("watch", told=offset))

    def next(self, seconds: float) -> tuple[str, dict[str, Any]]:
        return self.job.next_event(seconds)

    def note(self, kind: Any, why: str = "", iteration: int | None = None) -> None:
        self.services.events.note(kind, self.job.digest, self.host.name, why, iteration)
