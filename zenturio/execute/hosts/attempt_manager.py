"""The submission agent: one for each attempt, in a thread of its own.

Prolog, wrapper, and a watch until the end; then the epilog. On the way it listens to the host, to
the program (how far it is, what it needs) and to the user, and moves the job if that is better.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from zenturio.errors import InputError, PlaceError, PluginError, ZenError
from zenturio.execute import file_staging
from zenturio.execute.folder_files import remove_tree
from zenturio.execute.hosts.attempt_journal import AttemptJournal, EventLog, HostAttempt
from zenturio.execute.hosts.broker import Broker, HostJob
from zenturio.execute.hosts.connection import DroppedError, RequestFailedError
from zenturio.execute.hosts.host_choice import ProgressProfile
from zenturio.execute.hosts.hosts_file import HostsOptions
from zenturio.execute.hosts.prolog_epilog import (
    KEPT_BYTES,
    FinishedAttempt,
    HostBuildError,
    HostBuildFailure,
    StageContext,
    Stages,
    fetch_restart_files,
)
from zenturio.execute.hosts.remote_host import LEAST_DISK, RemoteHost, fault_sign, needed_program
from zenturio.execute.local_runner import FinishedRun, run_outcome, spoilt_input
from zenturio.execute.machines import machine_parts
from zenturio.execute.wire import MalformedError
from zenturio.experiment import (
    Experiment,
    MachineKind,
    MetricReaderCache,
    MetricValue,
    Missing,
    Outcome,
    Status,
)

_log = logging.getLogger(__name__)

# Outcomes: from what an attempt left to the outcome of its experiment


class OutcomeBuilder:
    """Measures returned attempts; their artifacts are stored below *folder*."""

    def __init__(self, folder: Path) -> None:
        self._kept = folder
        self._meters = MetricReaderCache()

    def outcome(self, experiment: Experiment, host: str, finished: FinishedAttempt) -> Outcome:
        """Return what happened, as the host tells it."""
        folder, recipe = str(finished.folder), experiment.recipe
        run = FinishedRun(
            finished.facts,
            finished.stdout,
            finished.stderr,
            folder,
            finished.reported,
            "supervisor",
            lambda: spoilt_input(experiment) if finished.spoilt else finished.fault,
            is_build_idle=finished.is_build_idle,
        )
        return run_outcome(
            experiment,
            run,
            self._meters.of(recipe),
            lambda: file_staging.collect_outputs(
                folder, recipe.outputs, self._kept, experiment.digest, move=True
            ),
            host=host,
            log_bytes=KEPT_BYTES,
            machine={} if finished.machine is None else machine_parts(finished.machine),
        )

    def unbuilt(
        self,
        experiment: Experiment,
        host: str,
        broken: HostBuildFailure,
        began: float,
        machine: MachineKind | None = None,
    ) -> Outcome:
        """Nothing was run, for there is no program."""
        return Outcome(
            experiment.digest,
            "failed",
            broken.cause,
            _missing_metrics(experiment, broken.cause),
            host=host,
            started=began,
            ended=time.time(),
            exit=broken.exit,
            stdout=broken.stdout.trimmed(KEPT_BYTES),
            stderr=broken.stderr.trimmed(KEPT_BYTES),
            machine=machine,
        )

    def nothing(
        self,
        experiment: Experiment,
        status: Status,
        cause: str,
        host: str,
        began: float,
        machine: MachineKind | None = None,
    ) -> Outcome:
        """Nothing came of it."""
        return Outcome(
            experiment.digest,
            status,
            cause,
            _missing_metrics(experiment, cause),
            host=host,
            started=began,
            ended=time.time(),
            machine=machine,
        )


def _missing_metrics(experiment: Experiment, cause: str) -> dict[str, MetricValue]:
    why = Missing("the experiment returned no result: " + cause)
    return {metric.name: why for metric in experiment.recipe.metrics}


# The agent

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
        """Cancel *job* while it waits."""
        if self.broker.remove(job) and not job.cancel_waiting():
            job.set_result(
                self.judge.nothing(job.experiment, "cancelled", "cancelled", job.host, job.began)
            )


class JobCancelledError(Exception):
    """The user wants it to end."""


class SupervisorDiedError(Exception):
    """Its supervisor dies each time: it cannot be run."""


class RequirementUnmetError(Exception):
    """The program wants what no host will ever be."""


class MoveToOtherHostError(Exception):
    """End the attempt, and request another one."""


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
            except RequestFailedError as error:
                attempts += 1
                self.note("retry", f"{name}: {error}")
                self.forget_staged()
                if attempts > self.options.retries:
                    self._give_up(name, error)
                time.sleep(_RETRY_PAUSE_SECONDS * attempts)
            except MalformedError as error:
                self.host.distrust(str(error))
                self._leave(self.host.drain_reason)
            except (ZenError, HostBuildError, JobCancelledError, MoveToOtherHostError):
                raise
            except Exception as error:  # of a module that is not ours, or of a disk here
                why = f"{self.host.name}: the {name} failed: {type(error).__name__}: {error}"
                raise PluginError(why) from error

    def _give_up(self, name: str, error: RequestFailedError) -> None:
        host = self.host.name
        if self.options.then == "stop":
            raise PlaceError(f"{host}: the {name} failed: {error}", hint="resume it: zen run ...")
        self.job.avoid(host, self.options.exists)
        self.host.charge(self.job.digest, str(error))
        self._leave(f"the {name} failed: {error}")

    def suspect(self, why: str, needed: str = "") -> None:
        """Suspect the host of the failure: run the job at another one, if one is suitable.

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
        """Charge the hosts where the job could not run, now that it has finished here."""
        suspects = dict(self.job.suspects)
        self.job.suspects.clear()
        if self.host.name in suspects:
            return  # it went no better here
        self.host.discharge()
        for name, (why, needed) in suspects.items():
            host = self.services.broker.host(name)
            if host is not None:
                host.charge(self.job.digest, why, needed)

    def _leave(self, why: str) -> NoReturn:
        """Give up the host; PlaceError where no other one would do."""
        if not self.services.broker.has_alternative(self.job, self.host):
            raise PlaceError(
                f"{self.host.name}: {why}", hint="no other host can run the experiment"
            )
        self.forget_staged()
        raise MoveToOtherHostError(why)

    def check(self) -> None:
        if self.job.cancel_requested:
            raise JobCancelledError

    def forget_staged(self) -> None:
        """Forget which files the host has: they may be gone and are checked again."""
        with self.host.turn:
            ready = [name for name, transfer in self.host.making.items() if transfer.done()]
            for name in ready:
                transfer = self.host.making[name]
                if transfer.exception() is None and transfer.result() is None:
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
                self._leave(self.host.drain_reason)
            if kind == "back" or (kind == "" and self.host.is_up):
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
        except (DroppedError, RequestFailedError):
            return ""

    def rewatch(self, context: StageContext, state: str) -> None:
        """Listen to a job that runs on; what became of others will be heard at once."""
        if state == "unknown":
            raise MoveToOtherHostError("the host no longer knows the experiment")
        if state == "prepared":
            self.stage(context, "wrapper", lambda: self.services.stages.wrapper(context))
        else:
            offset = self.job.profile.offset
            self.stage(context, "watch", lambda: context.ask("watch", told=offset))

    def next(self, seconds: float) -> tuple[str, dict[str, Any]]:
        return self.job.next_event(seconds)

    def note(self, kind: Any, why: str = "", iteration: int | None = None) -> None:
        self.services.events.note(kind, self.job.digest, self.host.name, why, iteration)


_ENDING_SECONDS = 30.0
"""Seconds that a job may take to exit after a signal."""
_MOST_SUPERVISOR_LOSSES = 5
"""How often an experiment is begun whose supervisor dies each time."""
_PROGRESS_FRACTION = 0.01
"""The part of a job's age after which its progress is recorded again."""


class AttemptManager:
    """Runs one attempt of a job on a host."""

    def __init__(self, services: AttemptServices, job: HostJob, host: RemoteHost) -> None:
        self._services = services
        self._job = job
        self._host = host
        self._options = services.options
        self._remote = RemoteAttempt(services, job, host)
        self._begun = self._next_progress_note = time.monotonic()

    def run(self) -> None:
        """Run the attempt; afterwards the job has finished, or waits for another attempt."""
        job, services, host = self._job, self._services, self._host.name
        attempt: HostAttempt | None = None
        outcome: Outcome | None = None
        fault: BaseException | None = None
        elsewhere = False
        try:
            attempt, adopted = self._begin()
            outcome = self._attempt(self._site(attempt), adopted=adopted)
            if outcome.status != "cancelled":
                services.journal.deliver(outcome)
        except MoveToOtherHostError as error:
            elsewhere = True
            self._remote.note("left", str(error))
        except (SupervisorDiedError, RequirementUnmetError) as error:
            outcome = services.judge.nothing(
                job.experiment, "failed", str(error), host, job.began, self._host.kind
            )
            services.journal.deliver(outcome)
        except JobCancelledError:
            outcome = services.judge.nothing(
                job.experiment, "cancelled", "cancelled", host, job.began
            )
        except BaseException as error:  # noqa: BLE001 - the future carries it to who waits
            fault = error
        if attempt is not None:
            # Without an outcome the attempt counts for nothing: whoever is next begins another one.
            if outcome is None or outcome.status == "cancelled":
                services.journal.abandon(job.digest)
            # Last, behind the journal: a driver that is killed before this line leaves the outcome
            # in the journal or the job at its host, and the next driver finds one of them.
            self._host.discard(attempt.token)
        services.broker.detach(job)
        self._hand_on(outcome, fault, elsewhere=elsewhere)
        services.broker.rebalance()

    def _hand_on(
        self, outcome: Outcome | None, fault: BaseException | None, *, elsewhere: bool
    ) -> None:
        job = self._job
        if elsewhere:
            outcome = self._services.journal.outcome(job.digest)  # of another driver, meanwhile
        if elsewhere and outcome is None:
            job.kill = lambda: self._services.cancel_waiting_job(job)
            self._services.broker.put(job)
            # Asked again: a request that came in between found neither an agent nor the queue.
            if job.cancel_requested:
                self._services.cancel_waiting_job(job)
            return
        self._services.broker.cancel_move(job)
        _log.debug("%.12s ends at %s", job.digest, self._host.name)
        self._services.broker.assign()  # before anybody is told: the host is not to wait for that
        if outcome is not None:
            self._remote.note("ended" if outcome.status == "ok" else "failed", outcome.cause)
            job.set_result(outcome)
        else:
            self._remote.note("failed", str(fault))
            job.set_exception(fault)

    def _begin(self) -> tuple[HostAttempt, bool]:
        """Return the attempt that counts at this host, or a new one."""
        journal, job = self._services.journal, self._job
        job.host = self._host.name
        job.kill = job.stop
        job.runs = False
        job.profile = ProgressProfile(max(self._options.breaches, 1))
        job.discard_events()
        attempt = journal.attempt(job.digest)
        if attempt is not None and attempt.host == self._host.name:
            return journal.take_over(job.digest, attempt), True
        return journal.begin(job.digest, self._host.name), False

    def _site(self, attempt: HostAttempt) -> StageContext:
        journal = self._services.journal
        entry = journal.entry(self._job.digest)
        return StageContext(
            self._job.experiment,
            self._host,
            attempt.token,
            self._options,
            entry / "back",
            journal.restart(self._job.digest),
            journal,
            self._remote.check,
        )

    def _attempt(self, context: StageContext, *, adopted: bool) -> Outcome:
        job, stages = self._job, self._services.stages
        self._host.listen(context.token, job.notify)
        try:
            if not adopted or not self._adopt(context):
                self._remote.note("prolog")
                begun = time.monotonic()
                self._remote.stage(context, "prolog", lambda: stages.prolog(context))
                self._remote.stage(context, "wrapper", lambda: stages.wrapper(context))
                self._remote.note("started")
                job.staging = time.monotonic() - begun
            self._arrived()
            job.runs = True
            self._watch(context)
            job.runs = False
            self._remote.note("epilog")
            finished = self._remote.stage(
                context, "epilog", lambda: stages.epilog(context), ending=True
            )
        except HostBuildError as error:
            broken = error.broken
            why = fault_sign("", broken.exit or 0, "", broken.stderr)
            if why:
                self._remote.suspect(why)
            self._remote.judge_hosts()
            return self._services.judge.unbuilt(
                job.experiment, self._host.name, broken, job.began, self._host.kind
            )
        finally:
            self._host.silence(context.token)
        if finished.spoilt:
            self._remote.forget_staged()
        self._look_for_fault(context, finished)
        outcome = self._services.judge.outcome(job.experiment, self._host.name, finished)
        remove_tree(str(context.scratch))
        return outcome

    def _look_for_fault(self, context: StageContext, finished: FinishedAttempt) -> None:
        """Send the job elsewhere where the host may be why it failed."""
        facts, steps = finished.facts, self._job.experiment.steps
        if facts["stop"] == "cancelled" or self._job.cancel_requested:
            return
        why = fault_sign(facts["stop"], facts["status"], facts["why"], finished.stderr)
        if not why and facts["status"] and not facts["stop"] and self._is_full(context):
            why = "its disk is full"
        if why:
            self._remote.suspect(why, needed_program(steps[facts["step"]]) if steps else "")
        self._remote.judge_hosts()

    def _is_full(self, context: StageContext) -> bool:
        try:
            answer, _ = context.host.ask("facts", whole=False, calibrate=False, probe="")
        except (DroppedError, RequestFailedError):
            return False
        disk = answer["facts"].get("disk")
        return isinstance(disk, int) and disk < LEAST_DISK

    def _adopt(self, context: StageContext) -> bool:
        """Go on with what an earlier driver began; false where it was not started yet."""
        if not self._host.is_up:
            state = self._remote.reattach(context)
        else:
            state = str(
                self._remote.stage(context, "watch", lambda: context.ask("state"))[0]["state"]
            )
        if state in ("unknown", "prepared"):
            return False
        self._remote.note("adopted", state)
        self._remote.rewatch(context, state)
        return True

    def _arrived(self) -> None:
        if self._job.left_at:
            self._services.broker.observe_move(time.monotonic() - self._job.left_at)
            self._job.left_at = 0.0

    # While it runs.

    def _watch(self, context: StageContext) -> None:
        """Until the job has ended there."""
        copied = time.monotonic()
        while True:
            kind, event = self._remote.next(1.0)
            match kind:
                case "over" if event["state"] == "ended":
                    return
                case "over":
                    self._lost()
                case "cancel":
                    self._cancel(context)
                case "dropped":
                    self._remote.rewatch(context, self._remote.reattach(context))
                case "profile":
                    self._progress(context, event)
                case "demands":
                    self._demand(context, event["text"])
                case "better":
                    self._improve(context, event["host"])
            every = self._options.checkpoint
            if every and time.monotonic() >= copied + every:
                fetch_restart_files(context)
                copied = time.monotonic()

    def _lost(self) -> None:
        """Handle the loss of the supervisor, with which all processes of the job died."""
        self._job.losses += 1
        if self._job.losses >= _MOST_SUPERVISOR_LOSSES and not self._job.cancel_requested:
            raise SupervisorDiedError(f"its supervisor died {_MOST_SUPERVISOR_LOSSES} times")
        self._remote.suspect("the supervisor of an experiment died")
        raise MoveToOtherHostError("its supervisor died")

    def _cancel(self, context: StageContext) -> None:
        """Tell it to end; that it has is heard as of any other."""
        try:
            context.ask("cancel")
        except (DroppedError, RequestFailedError):
            # The journal abandons the attempt: its host kills it at the next connection.
            raise JobCancelledError from None  # its host ends it when it is back

    def _progress(self, context: StageContext, event: dict[str, Any]) -> None:
        job, profile = self._job, self._job.profile
        profile.update(event["text"], event["told"])
        if time.monotonic() >= self._next_progress_note:
            # Ever more seldom: a month leaves some hundred lines.
            self._remote.note("progress", iteration=profile.iteration)
            elapsed = time.monotonic() - self._begun
            self._next_progress_note = time.monotonic() + elapsed * _PROGRESS_FRACTION
        why = self._services.stages.evaluator(profile, self._options)
        if not why or job.moves >= self._options.migrations:
            return
        target = self._services.broker.find_better(job, self._host)
        if target is not None:
            job.avoid(self._host.name, self._options.exists)
            self._move(context, why)

    def _improve(self, context: StageContext, name: str) -> None:
        if self._job.moves < self._options.migrations:
            self._move(context, f"{name} is better")
        self._services.broker.cancel_move(self._job)

    def _demand(self, context: StageContext, text: str) -> None:
        """Apply the new requirements that the program has written."""
        job, broker = self._job, self._services.broker
        try:
            requirements = job.requirements.replaced_by(text)
            suits = broker.is_suitable(requirements, self._host)
        except InputError as error:
            self._remote.note("requires", f"not understood: {error.diagnostics[0].message}")
            return
        job.requirements = requirements
        self._remote.note("requires", "; ".join(text.split("\n")).strip("; "))
        if suits:
            return
        if broker.refusal(job) is not None:
            required = " and ".join(expression.text for expression in requirements.requires)
            raise RequirementUnmetError(f"no host meets what the program requires: {required}")
        self._move(context, "the program requires another host")

    def _move(self, context: StageContext, why: str) -> None:
        """End the job here, take its restart files along, and send it elsewhere."""
        job = self._job
        job.left_at = time.monotonic()
        self._remote.note("moving", why)
        try:
            context.ask("cancel")
            self._until_over()
            answer, _ = context.ask("reply")
            if answer["reply"]["stop"] != "cancelled":
                job.notify("over", {"state": "ended"})
                return
            fetch_restart_files(context)
        except (DroppedError, RequestFailedError):
            raise MoveToOtherHostError(f"{why}; the host is gone") from None
        self._remote.check()
        job.moves += 1
        raise MoveToOtherHostError(why)

    def _until_over(self) -> None:
        end = time.monotonic() + _ENDING_SECONDS
        while time.monotonic() < end:
            kind, _ = self._remote.next(1.0)
            if kind == "over":
                return
            if kind == "dropped":
                raise DroppedError
        raise RequestFailedError("it does not end")
