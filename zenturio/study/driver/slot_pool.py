"""One place for several studies: which study gets the next slot is decided when one is free.

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
from zenturio.execute.executor import (
    AdaptsToRuntime,
    CancellableFuture,
    EmitsMessages,
    Executor,
    Resumable,
    RunsAsUsers,
    SelectsMachine,
    machines_of,
)
from zenturio.experiment import Experiment, Outcome
from zenturio.experiment.experiment import Kinds, MachineKind

KILLING = 10.0
"""Seconds within which what was killed is back, at the most: more than any place's grace."""

Urgency = Callable[[Experiment], tuple[int, ...]]
"""The least first, among the experiments of one owner."""


@dataclass(frozen=True, slots=True)
class OwnerDemand:
    """What an owner has of a place, and next wants of it."""

    running: tuple[tuple[float, int], ...] = ()
    """Seconds so far and slots of each experiment that has some."""
    wanted: int = 0
    """Slots that the experiment needs which has waited longest; 0 if none waits."""

    @property
    def seconds(self) -> tuple[float, ...]:
        """For how long each experiment runs by now."""
        return tuple(seconds for seconds, _ in self.running)


Demands = Mapping[Hashable, OwnerDemand]
ChooseOwner = Callable[[Sequence[Hashable], Demands], Hashable | None]
"""Whose turn it is, among those who have something to run; None if nobody may have more. It is not
to ask the lender again."""


class SlotRequest(CancellableFuture):
    """The future of an experiment that waits for a slot, or has one."""

    def __init__(
        self,
        experiment: Experiment,
        allotment: Allotment,
        number: int,
        slots: int,
        machine: MachineKind | None = None,
    ) -> None:
        """With *machine* only that kind of machine may run it."""
        super().__init__()
        self.experiment = experiment
        self.machine = machine
        self.allotment = allotment
        self.number = number
        self.cpus = min(experiment.cpus, slots)
        self.began = 0.0
        self.inner: Future[Outcome] | None = None

    def stop(self) -> None:
        if self.inner is not None:
            self.inner.cancel()

    def begin(self, inner: Future[Outcome]) -> None:
        """Note that the place has started the experiment."""
        self.inner = inner
        if self.cancel_requested:
            inner.cancel()

    def end(self) -> None:
        """Settle it with its outcome; an experiment that the place never began was cancelled."""
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
    _pool: SlotPool
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
        return self._pool.remarks

    @property
    def machines(self) -> Kinds:
        """The kinds of machine that the place has, if they are known."""
        return self._pool.machines

    def forget(self, digest: str) -> None:
        """Tell the place that the outcome is recorded."""
        self._pool.forget(digest)

    def learn(self, outcome: Outcome) -> None:
        """Note the duration of an experiment that was run before."""
        self._pool.learn(outcome)

    def submit(self, experiment: Experiment) -> Future[Outcome]:
        """Take an experiment; it starts when there is a slot for it and it is its turn."""
        return self._pool.submit(self, experiment)

    def close(self) -> None:
        """Kill what runs, and cancel what waits; the place itself stays open."""
        self._pool.leave(self)


@dataclass(eq=False)
class MachineKindAllotment(Allotment):
    """One of a place where an experiment can be run on a certain kind of machine."""

    def slots_of(self, machine: MachineKind) -> int:
        """Return how many experiments that kind of machine runs at once."""
        return self._pool.slots_of(machine)

    def submit_to(self, machine: MachineKind, experiment: Experiment) -> Future[Outcome]:
        """Take an experiment that only this kind of machine may run."""
        return self._pool.submit(self, experiment, machine)


class SlotPool:
    """Lends the slots of a place."""

    def __init__(
        self,
        place: Executor,
        choose: ChooseOwner = lambda owners, _demands: owners[0],
        user_of: Callable[[Hashable], str | None] = lambda _owner: None,
    ) -> None:
        """*user_of* returns the user as whom the experiments of an owner run, if the place supports
        it.
        """
        self.remarks: deque[str] = place.remarks if isinstance(place, EmitsMessages) else deque()
        self._place = place
        self._used = 0
        self._choose = choose
        self._user_of = user_of
        self._allotments: list[Allotment] = []
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

    def allot(self, owner: Hashable, urgency: Urgency | None = None) -> Allotment:
        """Return an executor for a study of *owner*."""
        kind = MachineKindAllotment if isinstance(self._place, SelectsMachine) else Allotment
        allotment = kind(owner, self.slots, self, urgency)
        with self._lock:
            self._allotments.append(allotment)
        return allotment

    def slots_in_use(self, owner: Hashable) -> int:
        """Return how many slots *owner* has now."""
        with self._lock:
            return sum(
                request.cpus for s in self._allotments if s.owner == owner for request in s.running
            )

    def close(self) -> None:
        """Lend nothing any more; what has a slot keeps it until its study is stopped."""
        with self._lock:
            self._closed = True

    def open(self) -> None:
        """Lend again."""
        with self._lock:
            self._closed = False
        self._serve()

    def slots_of(self, machine: MachineKind) -> int:
        """Return how many slots of the place are on that kind of machine."""
        assert isinstance(self._place, SelectsMachine), "others have no such share"
        return self._place.slots_of(machine)

    def submit(
        self, allotment: Allotment, experiment: Experiment, machine: MachineKind | None = None
    ) -> Future[Outcome]:
        request = SlotRequest(experiment, allotment, next(self._numbers), self.slots, machine)
        with self._lock:
            is_open = allotment in self._allotments
            if is_open:
                allotment.waiting.append(request)
        if is_open:
            self._serve()
        else:
            request.set_exception(PlaceError("this share of the place was given back"))
        return request

    def leave(self, allotment: Allotment) -> None:
        with self._lock:
            if allotment in self._allotments:
                self._allotments.remove(allotment)
            running = list(allotment.running)
            requests = [*allotment.waiting, *running]
            allotment.waiting.clear()
        # Without the lock: a cancelled future calls `_ended`, which takes it.
        for request in requests:
            request.cancel()
        wait(running, KILLING)
        self._serve()

    def _serve(self) -> None:
        """Lend what is free; one thread at a time, which does it again for those that came."""
        # A place may complete a future within `submit`: whoever comes in by that finds `_serving`
        # set, leaves the note `_again`, and returns; so the stack does not grow with the queue.
        with self._lock:
            self._again = True
            if self._serving:
                return
            self._serving = True
        while (request := self._next()) is not None:
            try:
                inner = self._begun(request)
            except BaseException as error:  # noqa: BLE001 - the future carries it to who waits
                inner = Future()
                inner.set_exception(error)
            request.begin(inner)
            inner.add_done_callback(partial(self._ended, request))

    def _begun(self, request: SlotRequest) -> Future[Outcome]:
        if isinstance(self._place, RunsAsUsers):
            user = self._user_of(request.allotment.owner)
            if user is None:
                raise PlaceError("the user who submitted this experiment is not known")
            return self._place.submit_as(user, request.experiment)
        if request.machine is None:
            return self._place.submit(request.experiment)
        assert isinstance(self._place, SelectsMachine), "others have no such share"
        return self._place.submit_to(request.machine, request.experiment)

    def _next(self) -> SlotRequest | None:
        """Return the next that is lent a slot; none when nobody waits, or it does not fit yet.

        What does not fit keeps its turn: else one that needs many slots would wait for ever.
        """
        with self._lock:
            while self._again:
                free = self.slots - self._used
                request = self._first() if free > 0 and not self._closed else None
                if request is None or request.cpus > free:
                    self._again = False
                elif request.set_running_or_notify_cancel():
                    # Running from here on: a cancellation now kills it at its place.
                    request.allotment.waiting.remove(request)
                    request.allotment.running.add(request)
                    request.began = monotonic()
                    self._used += request.cpus
                    return request
                else:
                    request.allotment.waiting.remove(request)
            self._serving = False
            return None

    def _first(self) -> SlotRequest | None:
        """Return the most urgent one of whose turn it is."""
        demands = self._demands()
        owners = [owner for owner, demand in demands.items() if demand.wanted]
        owner = self._choose(owners, demands) if owners else None
        if owner is None:
            return None
        allotments = [
            allotment
            for allotment in self._allotments
            if allotment.owner == owner and allotment.waiting
        ]
        plain = len(allotments) == 1 and allotments[0].urgency is None
        if plain:
            return allotments[0].waiting[0]
        return min((request for allotment in allotments for request in allotment.waiting), key=_key)

    def demands(self) -> Demands:
        """Return what each owner has and wants now."""
        with self._lock:
            return self._demands()

    def _demands(self) -> Demands:
        now, demands = monotonic(), dict[Hashable, OwnerDemand]()
        for allotment in self._allotments:
            before = demands.get(allotment.owner, OwnerDemand())
            running = tuple((now - request.began, request.cpus) for request in allotment.running)
            wanted = before.wanted or (allotment.waiting[0].cpus if allotment.waiting else 0)
            demands[allotment.owner] = OwnerDemand(before.running + running, wanted)
        return demands

    def _ended(self, request: SlotRequest, _inner: Future[Outcome]) -> None:
        with self._lock:
            self._used -= request.cpus
            request.allotment.running.discard(request)
            if not request.cancel_requested:
                request.allotment.ended += 1
                request.allotment.spent += (monotonic() - request.began) * request.cpus
        self._serve()  # first of all: the place is not to wait for what follows
        request.end()


def _key(request: SlotRequest) -> tuple[tuple[int, ...], int]:
    urgency = request.allotment.urgency
    return urgency(request.experiment) if urgency else (), request.number
