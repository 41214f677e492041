"""A cluster of Dask as a place: a local one, one at an address, or one in jobs of a batch system.

What a worker does with a task is in `worker_runtime`; what waits for one is in `ticket_queue`.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from threading import Condition, Lock, Thread
from time import monotonic
from typing import Any, ClassVar

from zenturio.errors import PlaceError, ZenError
from zenturio.execute.dask.cluster_client import DaskCluster, connect
from zenturio.execute.dask.slurm_workers import LossReason
from zenturio.execute.dask.ticket_queue import (
    BatchSizer,
    DaskOptions,
    DaskTicket,
    TaskBatch,
    TicketQueue,
)
from zenturio.execute.dask.worker_runtime import DaskSession, SessionSettings, read_report
from zenturio.execute.executor import ClosesOnExit
from zenturio.execute.experiment_codec import pack_experiments, unpack_outcome
from zenturio.execute.workspace import Keep
from zenturio.experiment import INCOMING, Experiment, Outcome
from zenturio.experiment.experiment import Kinds

_log = logging.getLogger(__name__)

# Tasks: one thread keeps a cluster busy, and hears of what comes back
#
# Short experiments travel together in one task of Dask. A task whose worker is lost is begun again;
# `judge_loss` decides what that means for its experiments. When the scheduler is lost, what was
# there has ended with it; it is sent again if the scheduler comes back.

MOST_DEATHS = 5
"""So many workers may die under an experiment before it is taken for the cause."""
MOST_EXPIRIES = 3
"""So often the time of a job may be over under an experiment before it is too short for it."""


@dataclass(frozen=True, slots=True)
class WorkerLoss:
    """A worker that was lost under *tickets*, which were one task."""

    tickets: Sequence[DaskTicket]
    worker: str = ""
    """Its name."""
    address: str = ""
    times: int = 1
    """How many were lost one after the other: what a scheduler of somebody else counts."""
    since: float = field(default_factory=monotonic)


def loss_of(error: Exception, tickets: Sequence[DaskTicket]) -> WorkerLoss:
    """Return the lost worker that a KilledWorker of Dask reports; it may be inert, with whatever
    arguments.

    The names of workers matter only where the scheduler is ours, and so the error is not inert.
    """
    args: tuple[Any, ...] = (*error.args, None, None, None)
    _, worker, failures, *_ = args
    times = min(failures, MOST_DEATHS) + 1 if type(failures) is int and failures >= 0 else 1
    name, address = getattr(worker, "name", ""), getattr(worker, "address", "")
    return WorkerLoss(tickets, str(name), str(address), times)


def judge_loss(loss: WorkerLoss, ending: LossReason) -> list[DaskTicket]:
    """Return those that have to start again; the others are settled.

    Only where a worker died by itself one of its experiments may be the cause. That is found out by
    keeping suspects apart: no worker has two of them. So what is beside the cause when it strikes
    is suspected once, and never beside it again.
    """
    # Nobody knows which of them killed the worker: each is tried again with no other suspect.
    if ending in ("died", "over") and len(loss.tickets) > 1:
        for ticket in loss.tickets:
            ticket.is_suspect = ending == "died" or ticket.is_suspect
    elif ending == "died":
        (ticket,) = loss.tickets
        ticket.is_suspect = True
        ticket.deaths += loss.times
        if ticket.deaths >= MOST_DEATHS:
            ticket.lost()
    elif ending == "over":
        (ticket,) = loss.tickets
        ticket.expired += 1
        if ticket.expired >= MOST_EXPIRIES:
            message = (
                f"experiment {ticket.experiment.digest[:12]} had not finished when its job ended"
            )
            hint = "a longer walltime (pilot_time) in [places.NAME] of zenturio.toml"
            ticket.fail(PlaceError(f"{message}, {MOST_EXPIRIES} times", hint=hint))
    return [ticket for ticket in loss.tickets if not ticket.done()]


_CHECK_SECONDS = 1.0
"""Seconds between two checks whether the scheduler is there."""
_REPEAT_STOP_SECONDS = 0.2
"""Seconds after which requests to kill are sent again."""
_LINGER_SECONDS = 0.003
"""Seconds that short experiments wait for others while all slots are busy."""
_CLOSING_SECONDS = 10.0
"""The most seconds until killed experiments are back."""
_NOT_OURS = "install the same version of zenturio there, unless the worker belongs to another user"
_RESULT_SECONDS = 10.0
"""How long the result of a finished task may be under way before it is taken for lost."""
_COMMUNICATION_ERRORS = ("CommClosedError", "TimeoutError")
"""What Dask raises when its words have not come through: no proof that a worker is lost."""


class TicketDispatcher:
    """Sends tickets in the order in which they came, as soon as the cluster has room."""

    def __init__(
        self,
        cluster: DaskCluster,
        session: SessionSettings,
        batches: BatchSizer,
        incoming: Path,
        patience: float,
        *,
        hands_back: bool = False,
    ) -> None:
        """With *hands_back* what has lost its worker is cancelled: somebody else runs it."""
        self._cluster = cluster
        self._settings = session
        self._batches = batches
        self._incoming = incoming
        self._patience = patience
        self._hands_back = hands_back
        self._turn = Condition()
        self._queue = TicketQueue(batches)
        self._losses: list[WorkerLoss] = []
        """Lost workers whose loss has no known reason yet."""
        self._in_flight: dict[str, tuple[TaskBatch, Any]] = {}
        self._stop_orders: list[int] = []
        """Numbers of experiments to stop, whose workers have not confirmed the request."""
        self._stopping: set[int] = set()
        """Experiments to stop that have not come back."""
        self._numbers = count(1)
        self._last_seen = monotonic()
        """When the scheduler was there, and had workers if they were needed."""
        self._last_stop_sent = 0.0
        self._stop_thread: Thread | None = None
        self._last_check = 0.0
        self._fault: PlaceError | None = None
        self._end = float("inf")
        self._thread = Thread(target=self._loop, name="zenturio-dask", daemon=True)
        self._thread.start()
        cluster.begin(lambda: not self._is_idle)

    def put(self, ticket: DaskTicket) -> None:
        """Submit a ticket; thread-safe."""
        with self._turn:
            fault = self._fault
            if fault is None:
                self._queue.put(ticket)
                self._turn.notify()
        if fault is not None:
            ticket.fail(fault)

    def stop(self, ticket: DaskTicket) -> None:
        """Stop a ticket: kill it if it has begun, also if it waits to start again. Thread-safe."""
        with self._turn:
            waits = self._queue.remove(ticket) or ticket in self._lost_tickets()
            if not waits:
                self._stop_orders.append(ticket.number)
            self._turn.notify()
        if waits:
            ticket.finish_cancelled()

    def close(self) -> None:
        """Take off what waits, has all else killed, and waits until it is back."""
        with self._turn:
            self._end = monotonic() + _CLOSING_SECONDS
            waiting = [*self._queue.drain(), *self._lost_tickets()]
            self._losses.clear()
            for batch, _ in self._in_flight.values():
                for ticket in batch.tickets:
                    ticket.cancel_requested = True
                self._stop_orders += batch.numbers
            self._turn.notify()
        self._cancel_all(waiting)
        self._thread.join(2 * _CLOSING_SECONDS)  # it may wait for an answer of Dask

    def cancel_unreturned(self) -> None:
        """Cancel the tickets that have not come back, whose processes are all dead."""
        with self._turn:
            unreturned = self._take_all()
        self._cancel_all(unreturned)

    def _lost_tickets(self) -> list[DaskTicket]:
        return [ticket for loss in self._losses for ticket in loss.tickets]

    def _take_all(self) -> list[DaskTicket]:
        """Return all that were here, sent or not."""
        sent = [ticket for batch, _ in self._in_flight.values() for ticket in batch.tickets]
        tickets = [*sent, *self._queue.drain(), *self._lost_tickets()]
        self._in_flight.clear()
        self._losses.clear()
        return tickets

    @staticmethod
    def _cancel_all(tickets: Iterable[DaskTicket]) -> None:
        for ticket in tickets:
            if not ticket.try_start():
                continue  # it was cancelled before it began
            ticket.finish_cancelled()

    @property
    def _is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not (self._in_flight or self._queue or self._losses)

    @property
    def _closing(self) -> bool:
        return self._end < float("inf")

    def _loop(self) -> None:
        try:
            while self._step():
                pass
        except Exception as error:  # noqa: BLE001 - who waits is not to wait for ever
            self._fail(PlaceError(f"{self._cluster.where}: {error}"))

    def _step(self) -> bool:
        """Wait for something to do, and do it; false when all is over."""
        with self._turn:
            self._turn.wait_for(
                self._has_work, _REPEAT_STOP_SECONDS if self._stopping else _CHECK_SECONDS
            )
            if self._closing and (not self._in_flight or monotonic() > self._end or self._fault):
                return False
            if self._queue.lingers(len(self._in_flight), self._cluster.slots):
                self._turn.wait(_LINGER_SECONDS)
            connected = self._cluster.is_connected
            goes = connected and not self._closing
            batch = self._queue.next(self._batches_in_flight, self._cluster.slots) if goes else None
            numbers = self._due_stops() if connected else ()
        if numbers:
            self._send_stops(numbers)
        if batch is not None:
            self._send(batch)
        if monotonic() - self._last_check > _CHECK_SECONDS:
            self._check_scheduler(connected)
        return True

    def _has_work(self) -> bool:
        if self._stop_orders:
            return True
        if self._closing:
            return not self._in_flight
        return self._queue.fits(self._batches_in_flight, self._cluster.slots)

    @property
    def _batches_in_flight(self) -> list[TaskBatch]:
        """Those that are sent."""
        return [batch for batch, _ in self._in_flight.values()]

    def _send_stops(self, numbers: tuple[int, ...]) -> None:
        """Has them stopped; a worker that does not listen holds up nobody here."""
        if self._stop_thread is not None and self._stop_thread.is_alive():
            return  # it is said again soon
        words = (self._settings.name, numbers)
        self._stop_thread = Thread(target=self._cluster.stop, args=words, daemon=True)
        self._stop_thread.start()

    def _due_stops(self) -> tuple[int, ...]:
        """Who is to be stopped: it is said again while they do not come back.

        They may have been under way to a worker that had not begun them.
        """
        numbers, self._stop_orders = self._stop_orders, []
        self._stopping.update(numbers)
        if monotonic() - self._last_stop_sent > _REPEAT_STOP_SECONDS:
            # An order may overtake its experiment on the way to a worker: it is repeated.
            numbers = list(self._stopping)
        if numbers:
            self._last_stop_sent = monotonic()
        return tuple(numbers)

    def _send(self, batch: TaskBatch) -> None:
        if not batch.is_running:
            for ticket in batch.tickets:
                ticket.number = next(self._numbers)
        tickets = [ticket for ticket in batch.tickets if ticket.try_start()]
        if not tickets:
            return
        key = f"zen-{self._settings.name}-{next(self._numbers)}"
        try:
            among = batch.eligible_workers or self._cluster.eligible(batch.cpus)
            sent = replace(batch, tickets=tickets, eligible_workers=() if batch.worker else among)
            data = None
            if not batch.is_running:
                data = pack_experiments(
                    (t.experiment for t in tickets), shared=not batch.with_files
                )
            future = self._cluster.send(data, sent, self._settings, key)
        except Exception as error:  # noqa: BLE001 - it belongs to those that were to be sent
            names_file = isinstance(error, OSError) and error.filename
            reason = f"{error.filename}: {error.strerror}" if names_file else str(error)  # type: ignore[attr-defined]
            self._give_up(batch, PlaceError(reason))
            return
        with self._turn:
            self._in_flight[key] = (sent, future)
            _log.debug("sent task %s with %d experiments", key, len(tickets))
            self._stop_orders += [ticket.number for ticket in tickets if ticket.cancel_requested]
        # Registered outside of the lock: Dask may call it at once, in this thread.
        future.add_done_callback(lambda completed: self._on_task_done(key, completed))

    def _on_task_done(self, key: str, future: Any) -> None:
        """Take the report of a task that is over, in a thread of Dask."""
        report: object = None
        failure: Exception | None = None
        try:
            report = future.result(timeout=_RESULT_SECONDS)
        except Exception as error:  # noqa: BLE001 - whatever Dask raises
            failure = error
        if isinstance(failure, TimeoutError) and future.status != "error":
            # Its worker died with the result that it had announced, and Dask runs the task again as
            # soon as there is a worker. Till then it is in flight: only for such do workers come.
            future.add_done_callback(lambda completed: self._on_task_done(key, completed))
            return
        with self._turn:
            batch, _ = self._in_flight.pop(key, (None, None))
            if batch is not None and not batch.is_running:
                self._stopping.difference_update(batch.numbers)
            self._turn.notify()
        if batch is None:
            return
        if failure is None:
            self._handle_report(batch, report)
        else:
            self._handle_failure(batch, failure)

    def _handle_failure(self, batch: TaskBatch, failure: Exception) -> None:
        name = type(failure).__name__
        if isinstance(failure, CancelledError):
            # The scheduler is lost, or it was told to forget everything.
            self._requeue(batch.tickets)
        elif isinstance(failure, ZenError):
            self._give_up(batch, failure)
        elif name == "KilledWorker":
            self._on_worker_lost(loss_of(failure, batch.tickets))
        elif name in _COMMUNICATION_ERRORS:
            self._on_interrupted(batch)
        else:
            reason = f"a worker of {self._cluster.where} cannot run experiments: {failure!r}"
            hint = "install the same version of zenturio there"
            self._give_up(batch, PlaceError(reason, hint=hint))

    def _handle_report(self, batch: TaskBatch, value: object) -> None:
        by_number = {ticket.number: ticket for ticket in batch.tickets}
        report = read_report(value, by_number)
        if report is None:
            reason = f"a worker of {self._cluster.where} reported experiments that it was not given"
            self._give_up(batch, PlaceError(reason, hint=_NOT_OURS))
            return
        if report.missing_files:
            self._put_first(TaskBatch(batch.tickets, with_files=True, worker=report.worker))
        if report.running:
            running = [by_number.pop(number) for number in report.running]
            self._put_first(TaskBatch(running, worker=report.worker, is_running=True))
        self._requeue([by_number.pop(number) for number in report.returned])
        for number, data in report.done.items():
            self._settle(by_number[number], data)

    def _settle(self, ticket: DaskTicket, data: bytes) -> None:
        try:
            sender = f"a worker of {self._cluster.where}"
            outcome = unpack_outcome(data, ticket.experiment.digest, self._incoming, sender)
        except ZenError as error:
            ticket.fail(error)
        else:
            if outcome.status == "ok":
                self._batches.observe(outcome.ended - outcome.started)
            ticket.finish(outcome)

    def _put_first(self, batch: TaskBatch) -> None:
        with self._turn:
            self._queue.put_first(batch)
            self._turn.notify()

    def _requeue(self, tickets: Iterable[DaskTicket]) -> None:
        """They were not run, or not to their end: they are the next to go."""
        tickets = list(tickets)
        with self._turn:
            fault, is_over = self._fault, self._closing
            ended = [ticket for ticket in tickets if is_over or ticket.cancel_requested]
            if fault is None:
                self._queue.put_back([ticket for ticket in tickets if ticket not in ended])
                self._turn.notify()
        for ticket in ended:
            ticket.finish_cancelled()
        if fault is not None:
            for ticket in tickets:
                ticket.fail(fault)

    def _on_worker_lost(self, loss: WorkerLoss) -> None:
        """Note the loss of a worker; the batch system may report the reason later."""
        if self._hands_back and len(loss.tickets) == 1:
            loss.tickets[0].taken()
            return
        with self._turn:
            self._losses.append(loss)
        self._resolve_losses()

    def _resolve_losses(self) -> None:
        """Begin again what has lost its worker, as soon as it is known why."""
        with self._turn:
            losses, self._losses = self._losses, []
        for loss in losses:
            ending = self._cluster.ending(loss.worker, loss.address, loss.since)
            if ending or monotonic() - loss.since > self._patience:
                self._requeue(judge_loss(loss, ending or "taken"))
            else:
                with self._turn:
                    self._losses.append(loss)

    def _on_interrupted(self, batch: TaskBatch) -> None:
        """Dask's words did not come through twice: then the worker counts as lost."""
        if all(ticket.is_suspect for ticket in batch.tickets):
            self._requeue(judge_loss(WorkerLoss(batch.tickets), "died"))
            return
        for ticket in batch.tickets:
            ticket.is_suspect = True
        self._requeue(batch.tickets)

    def _give_up(self, batch: TaskBatch, error: ZenError) -> None:
        for ticket in batch.tickets:
            ticket.fail(error)

    def _check_scheduler(self, connected: bool) -> None:
        """Give up when the scheduler, or every worker, has been away for too long."""
        self._last_check = monotonic()
        self._resolve_losses()
        if connected:
            self._recall_unrunnable()
        if self._cluster.fault is not None:
            self._fail(self._cluster.fault)
        elif connected and (self._cluster.look() or self._is_idle):
            self._last_seen = monotonic()
        elif monotonic() - self._last_seen > self._patience or self._cluster.is_gone:
            lost = "has no worker left" if self._cluster.answers else "does not answer"
            lost = lost if connected else "is lost"
            self._fail(
                PlaceError(
                    f"the scheduler of {self._cluster.where} {lost}",
                    hint="run the same command again when it is back",
                )
            )

    def _recall_unrunnable(self) -> None:
        """Take back what only workers may run that are gone: Dask would wait for them for ever."""
        with suppress(OSError):
            workers = self._cluster.threads()
            present = workers.keys()
            with self._turn:
                self._queue.workers = workers
                bound = [
                    (key, batch)
                    for key, (batch, _) in self._in_flight.items()
                    if batch.eligible_workers
                ]
                unrunnable = [
                    (k, p, self._in_flight.pop(k)[1])
                    for k, p in bound
                    if present.isdisjoint(p.eligible_workers)
                ]
            for _, batch, future in unrunnable:
                future.cancel()
                self._requeue(batch.tickets)

    def _fail(self, fault: PlaceError) -> None:
        with self._turn:
            _log.warning("the cluster is no longer used: %s", fault)
            self._fault = fault
            unfinished = self._take_all()
        for ticket in unfinished:
            if ticket.try_start():
                ticket.fail(fault)


# The executor

_DEFAULTS = DaskOptions()
_HAND_BACK_SECONDS = 1.0
"""Seconds after which a task gives back what it has not begun."""


class Dask(ClosesOnExit):
    """Run experiments in the workers of a Dask cluster."""

    Options: ClassVar = DaskOptions

    def __init__(
        self,
        folder: Path = Path(".zenturio"),
        jobs: int | None = None,
        *,
        keep: Keep = "never",
        pin: bool = False,
        options: DaskOptions = _DEFAULTS,
        hands_back: bool = False,
    ) -> None:
        """*jobs* at once in a local cluster; in others, workers report their slots.

        With *hands_back* an experiment that has lost its worker is cancelled, for somebody else.
        """
        self._batches = batches = BatchSizer(options.together)
        self._prologue = options.prologue.strip()
        folder = folder.absolute()
        self._session = DaskSession(folder)
        name, node = self._session.name, platform.node()
        self._settings = SessionSettings(
            name, node, str(folder), keep, pin, options.grace, _HAND_BACK_SECONDS
        )
        try:
            self._cluster = connect(options, self._session.folder, jobs)
        except BaseException:
            self._session.close()
            raise
        incoming = folder.absolute() / INCOMING
        self._tracker = TicketDispatcher(
            self._cluster,
            self._settings,
            batches,
            incoming,
            options.patience,
            hands_back=hands_back,
        )
        self._closed = False
        self._lock = Lock()

    @property
    def slots(self) -> int:
        """How many at once: workers come and go."""
        return self._cluster.slots

    @property
    def machines(self) -> Kinds:
        """The kinds of machine of the present workers, with the setup that each runs first."""
        setup = self._prologue
        return frozenset(replace(kind, setup=setup) for kind in self._cluster.machines())

    @property
    def wants(self) -> int:
        """How many it likes to have: batches that run, that wait for a slot, that come back."""
        return self.slots * (self._batches.size * 3 if self._batches.sends_ahead else 2)

    @property
    def has_workers(self) -> bool:
        """Whether there is a worker at this moment."""
        with suppress(OSError):
            return bool(self._cluster.threads())
        return False

    def submit(self, experiment: Experiment) -> Future[Outcome]:
        """Take an experiment; it starts when a worker has room for it."""
        ticket = DaskTicket(experiment, self.slots, self._tracker.stop)
        ticket.setup = self._prologue
        if self._closed:
            ticket.set_exception(PlaceError("this place is closed"))
        else:
            self._tracker.put(ticket)
        return ticket

    def close(self) -> None:
        """Kill what runs, cancel what waits, and leave the cluster, or ends its own."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._tracker.close()
        self._cluster.leave(self._settings.name)
        self._tracker.cancel_unreturned()
        self._cluster.close()
        self._session.close()

    @staticmethod
    def script(folder: Path, options: DaskOptions) -> str:
        """Return what a job of workers would be."""
        from zenturio.execute.dask.slurm_workers import worker_script  # noqa: PLC0415 - loads Dask

        return worker_script(options, folder)

    def check(self) -> Iterable[str]:
        """What is wrong with the cluster, in words."""
        return cluster_problems(self._cluster)


def cluster_problems(cluster: DaskCluster) -> Iterator[str]:
    """Workers that cannot work for us, or that are not what we are."""
    client = cluster.client
    own_version = client.get_versions()["client"]["packages"]["distributed"]
    scheduler_version = client.get_versions()["scheduler"]["packages"]["distributed"]
    if scheduler_version != own_version:
        yield (
            f"the scheduler of {cluster.where} has Dask {scheduler_version}; "
            f"this machine has {own_version}"
        )
    from zenturio.execute.dask import worker_plugin  # noqa: PLC0415 - loads Dask

    answers = client.run(worker_plugin.worker_versions, on_error="return")
    if not answers and not cluster.queued:
        yield f"{cluster.where} has no worker at this moment"
    for worker, answer in answers.items():
        yield from worker_problems(worker, answer)


def worker_problems(worker: str, answer: tuple[str, str, str] | Exception) -> Iterator[str]:
    """What is wrong with a worker that says so of itself."""
    if isinstance(answer, Exception):
        yield f"worker {worker} cannot import zenturio: {answer}; install it there"
        return
    from zenturio.execute.dask import worker_plugin  # noqa: PLC0415 - loads Dask

    _, python, tool = worker_plugin.worker_versions()
    host, its_python, its_tool = answer
    if its_tool != tool:
        yield f"worker {worker} on {host} has zenturio {its_tool}; this machine has {tool}"
    if its_python.split(".")[:2] != python.split(".")[:2]:
        yield f"worker {worker} on {host} has Python {its_python}; this machine has {python}"
