"""
One thread that keeps a cluster busy, and hears of what comes back.

Short experiments travel together in one task of Dask. A task whose worker is lost is begun again;
what that means for its experiments is said in losses. When the scheduler is lost, what was there
has ended with it; it is sent again if the scheduler comes back.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Condition, Thread
from time import monotonic
from typing import Any

from zenturio.errors import PlaceError, ZenError
from zenturio.execute.dask.batch_size import BatchSizer
from zenturio.execute.dask.cluster_client import DaskCluster
from zenturio.execute.dask.ticket import DaskTicket, TaskBatch
from zenturio.execute.dask.ticket_queue import TicketQueue
from zenturio.execute.dask.worker_losses import WorkerLoss, judge_loss, loss_of
from zenturio.execute.dask.worker_runtime import DriverSettings, read_report
from zenturio.execute.experiment_codec import pack_experiments, unpack_outcome

_CHECK_SECONDS = 1.0
"""Seconds between two looks at whether the scheduler is there."""
_REPEAT_STOP_SECONDS = 0.2
"""Seconds after which it is said again who is to be killed."""
_LINGER_SECONDS = 0.003
"""Seconds that short experiments wait for others while all slots are busy."""
_CLOSING_SECONDS = 10.0
"""Seconds within which what was killed is back, at the most."""
_NOT_OURS = "install the same version of zenturio there, if it is not somebody else's worker"
_COMMUNICATION_ERRORS = ("CommClosedError", "TimeoutError")
"""What Dask raises when its words have not come through: no proof that a worker is lost."""


class TaskTracker:
    """Sends tickets in the order in which they came, as soon as the cluster has room."""

    def __init__(
        self,
        cluster: DaskCluster,
        way: DriverSettings,
        batches: BatchSizer,
        incoming: Path,
        patience: float,
        *,
        hands_back: bool = False,
    ) -> None:
        """With *hands_back* what has lost its worker is cancelled: somebody else runs it."""
        self._cluster = cluster
        self._way = way
        self._batches = batches
        self._incoming = incoming
        self._patience = patience
        self._hands_back = hands_back
        self._turn = Condition()
        self._queue = TicketQueue(batches)
        self._losses: list[WorkerLoss] = []
        """Lost workers of which nobody knows yet why they were lost."""
        self._out: dict[str, tuple[TaskBatch, Any]] = {}
        self._orders: list[int] = []
        """Numbers that are to be stopped, and whose workers have not heard of it."""
        self._stopping: set[int] = set()
        """Those that are to be stopped, and have not come back."""
        self._numbers = count(1)
        self._seen = monotonic()
        """When the scheduler was there, and had workers if they were needed."""
        self._ordered = 0.0
        self._saying: Thread | None = None
        self._looked = 0.0
        self._fault: PlaceError | None = None
        self._end = float("inf")
        self._thread = Thread(target=self._drive, name="zenturio-dask", daemon=True)
        self._thread.start()
        cluster.begin(lambda: not self._is_idle)

    def put(self, ticket: DaskTicket) -> None:
        """From any thread."""
        with self._turn:
            fault = self._fault
            if fault is None:
                self._queue.put(ticket)
                self._turn.notify()
        if fault is not None:
            ticket.fails(fault)

    def stop(self, ticket: DaskTicket) -> None:
        """From any thread: one that has begun is to be killed; it may wait to begin again."""
        with self._turn:
            waits = self._queue.remove(ticket) or ticket in self._lost_tickets()
            if not waits:
                self._orders.append(ticket.number)
            self._turn.notify()
        if waits:
            ticket.killed()

    def close(self) -> None:
        """Takes off what waits, has all else killed, and waits until it is back."""
        with self._turn:
            self._end = monotonic() + _CLOSING_SECONDS
            waiting = [*self._queue.drain(), *self._lost_tickets()]
            self._losses.clear()
            for parcel, _ in self._out.values():
                for ticket in parcel.tickets:
                    ticket.stopped = True
                self._orders += parcel.numbers
            self._turn.notify()
        self._take_off(waiting)
        self._thread.join(2 * _CLOSING_SECONDS)  # it may wait for an answer of Dask

    def bury(self) -> None:
        """What has not come back never will: nothing of it is alive any more."""
        with self._turn:
            left = self._drained()
        self._take_off(left)

    def _lost_tickets(self) -> list[DaskTicket]:
        return [ticket for loss in self._losses for ticket in loss.tickets]

    def _drained(self) -> list[DaskTicket]:
        """All that were here, sent or not."""
        sent = [ticket for parcel, _ in self._out.values() for ticket in parcel.tickets]
        left = [*sent, *self._queue.drain(), *self._lost_tickets()]
        self._out.clear()
        self._losses.clear()
        return left

    @staticmethod
    def _take_off(tickets: Iterable[DaskTicket]) -> None:
        for ticket in tickets:
            if not ticket.starts():
                continue  # it was cancelled before it began
            ticket.killed()

    @property
    def _is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not (self._out or self._queue or self._losses)

    @property
    def _closing(self) -> bool:
        return self._end < float("inf")

    def _drive(self) -> None:
        try:
            while self._step():
                pass
        except Exception as error:  # noqa: BLE001 - who waits is not to wait for ever
            self._fail(PlaceError(f"{self._cluster.where}: {error}"))

    def _step(self) -> bool:
        """Waits for something to do, and does it; false when all is over."""
        with self._turn:
            self._turn.wait_for(
                self._stirred, _REPEAT_STOP_SECONDS if self._stopping else _CHECK_SECONDS
            )
            if self._closing and (not self._out or monotonic() > self._end or self._fault):
                return False
            if self._queue.lingers(len(self._out), self._cluster.slots):
                self._turn.wait(_LINGER_SECONDS)
            connected = self._cluster.is_connected
            goes = connected and not self._closing
            parcel = self._queue.next(self._parcels, self._cluster.slots) if goes else None
            orders = self._due() if connected else ()
        if orders:
            self._say(orders)
        if parcel is not None:
            self._send(parcel)
        if monotonic() - self._looked > _CHECK_SECONDS:
            self._look(connected)
        return True

    def _stirred(self) -> bool:
        if self._orders:
            return True
        if self._closing:
            return not self._out
        return self._queue.fits(self._parcels, self._cluster.slots)

    @property
    def _parcels(self) -> list[TaskBatch]:
        """Those that are sent."""
        return [parcel for parcel, _ in self._out.values()]

    def _say(self, orders: tuple[int, ...]) -> None:
        """Has them stopped; a worker that does not listen holds up nobody here."""
        if self._saying is not None and self._saying.is_alive():
            return  # it is said again soon
        words = (self._way.session, orders)
        self._saying = Thread(target=self._cluster.stop, args=words, daemon=True)
        self._saying.start()

    def _due(self) -> tuple[int, ...]:
        """Who is to be stopped: it is said again while they do not come back.

        They may have been under way to a worker that had not begun them.
        """
        orders, self._orders = self._orders, []
        self._stopping.update(orders)
        if monotonic() - self._ordered > _REPEAT_STOP_SECONDS:
            orders = list(self._stopping)
        if orders:
            self._ordered = monotonic()
        return tuple(orders)

    def _send(self, parcel: TaskBatch) -> None:
        if not parcel.follows:
            for ticket in parcel.tickets:
                ticket.number = next(self._numbers)
        tickets = [ticket for ticket in parcel.tickets if ticket.starts()]
        if not tickets:
            return
        key = f"zen-{self._way.session}-{next(self._numbers)}"
        try:
            among = parcel.among or self._cluster.eligible(parcel.weight)
            sent = replace(parcel, tickets=tickets, among=() if parcel.worker else among)
            data = None
            if not parcel.follows:
                data = pack_experiments((t.experiment for t in tickets), shared=not parcel.whole)
            future = self._cluster.send(data, sent, self._way, key)
        except Exception as error:  # noqa: BLE001 - it belongs to those that were to be sent
            named = isinstance(error, OSError) and error.filename
            reason = f"{error.filename}: {error.strerror}" if named else str(error)  # type: ignore[attr-defined]
            self._give_up(parcel, PlaceError(reason))
            return
        with self._turn:
            self._out[key] = (sent, future)
            self._orders += [ticket.number for ticket in tickets if ticket.stopped]
        future.add_done_callback(lambda done: self._heard(key, done))

    def _heard(self, key: str, future: Any) -> None:
        """A task is over: in a thread of Dask."""
        with self._turn:
            parcel, _ = self._out.pop(key, (None, None))
            if parcel is not None and not parcel.follows:
                self._stopping.difference_update(parcel.numbers)
            self._turn.notify()
        if parcel is None:
            return
        try:
            report = future.result()
        except CancelledError:  # the scheduler is lost, or it was told to forget everything
            self._again(parcel.tickets)
        except ZenError as error:
            self._give_up(parcel, error)
        except Exception as error:  # noqa: BLE001 - whatever Dask raises
            name = type(error).__name__
            if name == "KilledWorker":
                self._bereaved(loss_of(error, parcel.tickets))
            elif name in _COMMUNICATION_ERRORS:
                self._interrupted(parcel)
            else:
                reason = f"a worker of {self._cluster.where} cannot run experiments: {error!r}"
                hint = "install the same version of zenturio there"
                self._give_up(parcel, PlaceError(reason, hint=hint))
        else:
            self._told(parcel, report)

    def _told(self, parcel: TaskBatch, value: object) -> None:
        by_number = {ticket.number: ticket for ticket in parcel.tickets}
        report = read_report(value, by_number)
        if report is None:
            reason = f"a worker of {self._cluster.where} reports what nobody gave it"
            self._give_up(parcel, PlaceError(reason, hint=_NOT_OURS))
            return
        if report.lacks:
            self._first(TaskBatch(parcel.tickets, whole=True, worker=report.worker))
        if report.running:
            running = [by_number.pop(number) for number in report.running]
            self._first(TaskBatch(running, worker=report.worker, follows=True))
        self._again([by_number.pop(number) for number in report.back])
        for number, data in report.done.items():
            self._ended(by_number[number], data)

    def _ended(self, ticket: DaskTicket, data: bytes) -> None:
        try:
            outcome = unpack_outcome(data, ticket.experiment.digest, self._incoming)
        except ZenError as error:
            ticket.fails(error)
        else:
            if outcome.status == "ok":
                self._batches.took(outcome.ended - outcome.started)
            ticket.ends(outcome)

    def _first(self, parcel: TaskBatch) -> None:
        with self._turn:
            self._queue.put_first(parcel)
            self._turn.notify()

    def _again(self, tickets: Iterable[DaskTicket]) -> None:
        """They were not run, or not to their end: they are the next to go."""
        tickets = list(tickets)
        with self._turn:
            fault, is_over = self._fault, self._closing
            ended = [ticket for ticket in tickets if is_over or ticket.stopped]
            if fault is None:
                self._queue.put_back([ticket for ticket in tickets if ticket not in ended])
                self._turn.notify()
        for ticket in ended:
            ticket.killed()
        if fault is not None:
            for ticket in tickets:
                ticket.fails(fault)

    def _bereaved(self, loss: WorkerLoss) -> None:
        """A worker was lost: why that is, the batch system may say later."""
        if self._hands_back and len(loss.tickets) == 1:
            loss.tickets[0].taken()
            return
        with self._turn:
            self._losses.append(loss)
        self._judge()

    def _judge(self) -> None:
        """Begins again what has lost its worker, as soon as it is known why."""
        with self._turn:
            losses, self._losses = self._losses, []
        for loss in losses:
            ending = self._cluster.ending(loss.worker, loss.address, loss.since)
            if ending or monotonic() - loss.since > self._patience:
                self._again(judge_loss(loss, ending or "taken"))
            else:
                with self._turn:
                    self._losses.append(loss)

    def _interrupted(self, parcel: TaskBatch) -> None:
        """Dask's words did not come through twice: then the worker counts as lost."""
        if all(ticket.alone for ticket in parcel.tickets):
            self._again(judge_loss(WorkerLoss(parcel.tickets), "died"))
            return
        for ticket in parcel.tickets:
            ticket.alone = True
        self._again(parcel.tickets)

    def _give_up(self, parcel: TaskBatch, error: ZenError) -> None:
        for ticket in parcel.tickets:
            ticket.fails(error)

    def _look(self, connected: bool) -> None:
        """Gives up when the scheduler, or every worker, has been away for too long."""
        self._looked = monotonic()
        self._judge()
        if connected:
            self._call_back()
        if self._cluster.fault is not None:
            self._fail(self._cluster.fault)
        elif connected and (self._cluster.look() or self._is_idle):
            self._seen = monotonic()
        elif monotonic() - self._seen > self._patience or self._cluster.is_gone:
            lost = "has no worker any more" if self._cluster.answers else "does not answer"
            lost = lost if connected else "is lost"
            self._fail(
                PlaceError(
                    f"the scheduler of {self._cluster.where} {lost}",
                    hint="when it is back, the same command goes on",
                )
            )

    def _call_back(self) -> None:
        """Takes back what only workers may run that are gone: Dask would wait for them for ever."""
        with suppress(OSError):
            workers = self._cluster.threads()
            here = workers.keys()
            with self._turn:
                self._queue.workers = workers
                bound = [(key, parcel) for key, (parcel, _) in self._out.items() if parcel.among]
                gone = [(k, p, self._out.pop(k)[1]) for k, p in bound if here.isdisjoint(p.among)]
            for _, parcel, future in gone:
                future.cancel()
                self._again(parcel.tickets)

    def _fail(self, fault: PlaceError) -> None:
        with self._turn:
            self._fault = fault
            left = self._drained()
        for ticket in left:
            if ticket.starts():
                ticket.fails(fault)
