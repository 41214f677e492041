"""One place for several studies: who gets the next slot is decided when one is free.

Each study has an executor of its own, an `Allotment`, which takes all that the study
submits.
No more is handed on to the place than it has slots for, so that nothing waits there whose turn it
would not be any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from threading import Lock
from time import monotonic

from zenturio.errors import PlaceError
from zenturio.execute.cancellable_future import CancellableFuture
from zenturio.execute.executor import (
    AdaptsToRuntime,
    EmitsMessages,
    Executor,
    Resumable,
    SelectsMachine,
    machines_of,
)
from zenturio.experiment import Experiment, Outcome
from zenturio.experiment.experiment import Kinds, MachineKind

KILLING = 10.0
"""Seconds within which what was killed is back, at the most: more than any place's grace."""

Urgency = Callable[[Experiment], tuple[int, ...]]
"""The least first, among the experiments of one owner."""
RunningSeconds = Mapping[Hashable, tuple[float, ...]]
"""For how many seconds the experiments of each owner run by now that have a slot."""
ChooseOwner = Callable[[Sequence[Hashable], RunningSeconds], Hashable]
"""Whose turn it is, among those who have something to run; is not to ask the lender again."""


class SlotRequest(CancellableFuture):
    """The future of an experiment that waits for a slot, or has one."""

    def __init__(
        self,
        experiment: Experiment,
        share: Allotment,
        number: int,
        slots: int,
        machine: MachineKind | None = None,
    ) -> None:
        """With *machine* only that kind of machine may run it."""
        super().__init__()
        self.experiment = experiment
        self.machine = machine
        self.share = share
        self.number = number
        self.cpus = min(experiment.cpus, slots)
        self.began = 0.0
        self.inner: Future[Outcome] | None = None

    def stop(self) -> None:
        if self.inner is not None:
            self.inner.cancel()

    def begin(self, inner: Future[Outcome]) -> None:
        """The place has it."""
        self.inner = inner
        if self.cancel_requested:
            inner.cancel()

    def end(self) -> None:
        """What came of it; one that the place never began was cancelled."""
        inner = self.inner
        assert inner is not None
        if inner.cancelled():
            self.set_result(Outcome(self.experiment.digest, "cancelled"))
        elif (error := inner.exception()) is not None:
            self.set_exception(error)
        else:
            self.set_result(inner.result())


@dataclass(eq=False)
class Allotment:
    """An executor for one study of an owner, who may have several."""

    owner: Hashable
    slots: int
    _lender: SlotPool
    urgency: Urgency | None = None
    """If there is none, experiments run as they come."""
    waiting: list[SlotRequest] = field(default_factory=list)
    running: set[SlotRequest] = field(default_factory=set)
    ended: int = 0
    """How many experiments had a slot, and were not stopped."""
    spent: float = 0.0
    """For how many seconds they had it, for each slot."""

    @property
    def remarks(self) -> deque[str]:
        """What the place has to say: to one of those who share it."""
        return self._lender.remarks

    @property
    def machines(self) -> Kinds:
        """The kinds of machine that the place has, if they are known."""
        return self._lender.machines

    def forget(self, digest: str) -> None:
        """The outcome of that experiment is recorded."""
        self._lender.forget(digest)

    def learn(self, outcome: Outcome) -> None:
        """How long an experiment took that was run before."""
        self._lender.learn(outcome)

    def submit(self, experiment: Experiment) -> Future[Outcome]:
        """Takes an experiment; it starts when there is a slot for it and it is its turn."""
        return self._lender.submit(self, experiment)

    def close(self) -> None:
        """Kills what runs, and cancels what waits; the place itself stays open."""
        self._lender.leave(self)


@dataclass(eq=False)
class SelectingAllotment(Allotment):
    """One of a place where an experiment can be run on a certain kind of machine."""

    def slots_of(self, machine: MachineKind) -> int:
        """Return how many experiments that kind of machine runs at once."""
        return self._lender.slots_of(machine)

    def submit_to(self, machine: MachineKind, experiment: Experiment) -> Future[Outcome]:
        """Take an experiment that only this kind of machine may run."""
        return self._lender.submit(self, experiment, machine)


class SlotPool:
    """Lends the slots of a place."""

    def __init__(
        self, place: Executor, choose: ChooseOwner = lambda owners, _running: owners[0]
    ) -> None:
        self.remarks: deque[str] = place.remarks if isinstance(place, EmitsMessages) else deque()
        self._place = place
        self._used = 0
        self._choose = choose
        self._shares: list[Allotment] = []
        self._numbers = count()
        self._lock = Lock()
        self._serving = self._again = self._closed = False

    @property
    def slots(self) -> int:
        return self._place.slots

    @property
    def machines(self) -> Kinds:
        return machines_of(self._place)

    def forget(self, digest: str) -> None:
        if isinstance(self._place, Resumable):
            self._place.forget(digest)

    def learn(self, outcome: Outcome) -> None:
        if isinstance(self._place, AdaptsToRuntime):
            self._place.learn(outcome)

    def share(self, owner: Hashable, urgency: Urgency | None = None) -> Allotment:
        """An executor for a study of *owner*."""
        kind = SelectingAllotment if isinstance(self._place, SelectsMachine) else Allotment
        share = kind(owner, self.slots, self, urgency)
        with self._lock:
            self._shares.append(share)
        return share

    def lent(self, owner: Hashable) -> int:
        """How many slots *owner* has now."""
        with self._lock:
            return sum(loan.cpus for s in self._shares if s.owner == owner for loan in s.running)

    def close(self) -> None:
        """Lends nothing any more; what has a slot keeps it until its study is stopped."""
        with self._lock:
            self._closed = True

    def open(self) -> None:
        """Lends again."""
        with self._lock:
            self._closed = False
        self._serve()

    def slots_of(self, machine: MachineKind) -> int:
        assert isinstance(self._place, SelectsMachine), "others have no such share"
        return self._place.slots_of(machine)

    def submit(
        self, share: Allotment, experiment: Experiment, machine: MachineKind | None = None
    ) -> Future[Outcome]:
        loan = SlotRequest(experiment, share, next(self._numbers), self.slots, machine)
        with self._lock:
            is_open = share in self._shares
            if is_open:
                share.waiting.append(loan)
        if is_open:
            self._serve()
        else:
            loan.set_exception(PlaceError("this share of the place was given back"))
        return loan

    def leave(self, share: Allotment) -> None:
        with self._lock:
            if share in self._shares:
                self._shares.remove(share)
            running = list(share.running)
            loans = [*share.waiting, *running]
            share.waiting.clear()
        for loan in loans:
            loan.cancel()
        wait(running, KILLING)
        self._serve()

    def _serve(self) -> None:
        """Lends what is free; one thread at a time, which does it again for those that came."""
        with self._lock:
            self._again = True
            if self._serving:
                return
            self._serving = True
        while (loan := self._next()) is not None:
            try:
                inner = self._begun(loan)
            except BaseException as error:  # noqa: BLE001 - the future carries it to who waits
                inner = Future()
                inner.set_exception(error)
            loan.begin(inner)
            inner.add_done_callback(partial(self._ended, loan))

    def _begun(self, loan: SlotRequest) -> Future[Outcome]:
        if loan.machine is None:
            return self._place.submit(loan.experiment)
        assert isinstance(self._place, SelectsMachine), "others have no such share"
        return self._place.submit_to(loan.machine, loan.experiment)

    def _next(self) -> SlotRequest | None:
        """The next that is lent a slot; none when nobody waits, or it does not fit yet.

        What does not fit keeps its turn: else one that needs many slots would wait for ever.
        """
        with self._lock:
            while self._again:
                free = self.slots - self._used
                loan = self._first() if free > 0 and not self._closed else None
                if loan is None or loan.cpus > free:
                    self._again = False
                elif loan.set_running_or_notify_cancel():
                    loan.share.waiting.remove(loan)
                    loan.share.running.add(loan)
                    loan.began = monotonic()
                    self._used += loan.cpus
                    return loan
                else:
                    loan.share.waiting.remove(loan)
            self._serving = False
            return None

    def _first(self) -> SlotRequest | None:
        """The most urgent one of whose turn it is."""
        now, running = monotonic(), dict[Hashable, tuple[float, ...]]()
        for share in self._shares:
            passed = tuple(now - loan.began for loan in share.running)
            running[share.owner] = running.get(share.owner, ()) + passed
        owners = list(dict.fromkeys(share.owner for share in self._shares if share.waiting))
        if not owners:
            return None
        owner = owners[0] if len(owners) == 1 else self._choose(owners, running)
        shares = [share for share in self._shares if share.owner == owner and share.waiting]
        plain = len(shares) == 1 and shares[0].urgency is None
        if plain:
            return shares[0].waiting[0]
        return min((loan for share in shares for loan in share.waiting), key=_key)

    def _ended(self, loan: SlotRequest, _inner: Future[Outcome]) -> None:
        with self._lock:
            self._used -= loan.cpus
            loan.share.running.discard(loan)
            if not loan.cancel_requested:
                loan.share.ended += 1
                loan.share.spent += (monotonic() - loan.began) * loan.cpus
        self._serve()  # first of all: the place is not to wait for what follows
        loan.end()


def _key(loan: SlotRequest) -> tuple[tuple[int, ...], int]:
    urgency = loan.share.urgency
    return urgency(loan.experiment) if urgency else (), loan.number
