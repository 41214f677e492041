"""The machines of each kind of a place as places of their own."""

from collections import Counter, deque
from concurrent.futures import Future
from dataclasses import replace

import pytest

from zenturio.errors import InputError
from zenturio.experiment import MachineKind
from zenturio.study.driver.measurement_plan import MachinesOfOneKind, SequentialDrivers, kinds_apart
from zenturio.study.driver.progress import BestPoint, FailureGroup, RunProgress, RunSummary
from zenturio.testing.experiments import experiment, outcome

EPYC, RISCV = MachineKind("EPYC", 16), MachineKind("RISC-V", 4)


class Plain:
    """A place that knows its kinds of machine, or not, and cannot choose between them."""

    slots = 4

    def __init__(self, machines):
        self.machines = machines

    def submit(self, _experiment):
        return Future()

    def close(self):
        raise AssertionError("it is not ours")


class Choosing(Plain):
    """One that can choose, has messages, keeps outcomes, and learns."""

    def __init__(self, machines):
        super().__init__(machines)
        self.remarks = deque(["busy"])
        self.submitted, self.forgotten, self.learnt = [], [], []

    def slots_of(self, machine):
        return {EPYC: 3}.get(machine, 0)

    def submit_to(self, machine, submitted):
        self.submitted.append((machine, submitted.digest))
        return Future()

    def forget(self, digest):
        self.forgotten.append(digest)

    def learn(self, seen):
        self.learnt.append(seen)


def test_a_place_of_one_kind_stays_as_it_is():
    place = Plain(frozenset({EPYC}))
    assert kinds_apart(place) == (place,)


@pytest.mark.parametrize(
    ("machines", "message"),
    [(None, "does not know its kinds of machine"), (frozenset({EPYC, RISCV}), "does not allow you to choose")],
)  # fmt: skip
def test_a_place_that_cannot_tell_its_machines_apart_is_refused(machines, message):
    with pytest.raises(InputError, match=f"--each-machine: this place {message}") as caught:
        kinds_apart(Plain(machines))
    assert "--on PLACE" in caught.value.diagnostics[0].hint


def test_each_kind_is_a_place_in_an_order_that_stays():
    place = Choosing(frozenset({RISCV, EPYC}))
    kinds = kinds_apart(place)
    assert [kind.machine for kind in kinds] == [EPYC, RISCV]
    assert [kind.slots for kind in kinds] == [3, 1]
    assert all(kind.remarks is place.remarks for kind in kinds)
    one, seen = experiment(0), outcome(experiment(0))
    for kind in kinds:
        assert isinstance(kind.submit(one), Future)
        kind.forget(one.digest)
        kind.learn(seen)
        kind.close()
    assert place.submitted == [(EPYC, one.digest), (RISCV, one.digest)]
    assert (place.forgotten, place.learnt) == ([one.digest] * 2, [seen] * 2)


def test_a_place_without_messages_or_memory_is_asked_for_neither():
    class Bare(Plain):
        def slots_of(self, _machine):
            return 2

        def submit_to(self, _machine, _experiment):
            return Future()

    kind = MachinesOfOneKind(Bare(frozenset({EPYC, RISCV})), EPYC)
    kind.forget("ab" * 16)
    kind.learn(outcome(experiment(0)))
    assert not hasattr(kind, "remarks")


class Turned:
    """A driver that has ended as told, unless the one before it was stopped."""

    def __init__(self, summary, *, has_completed=True, is_stopped=False, ahead=(0, 0)):
        self._summary, self._ahead, self.ran = summary, ahead, False
        self._completes, self.is_stopped = has_completed, is_stopped

    @property
    def has_completed(self):
        return self.ran and self._completes

    def look_ahead(self):
        return self._ahead

    def other_machines(self):
        return Counter({EPYC: 3})

    def drive(self):
        self.ran = True
        return self._summary


def group(cause, count, digest):
    return FailureGroup(cause, count, digest, {"n": count})


FIRST = RunSummary(
    "s", 10, 1, 4, 5, 0, 2.0, failures=(group("exit 3", 2, "a"), group("timeout", 3, "b")),
    best=BestPoint("cost", 1.0, {}), alone=1, remarks=("slow", "old"), notes=("n",),
    wrong=1,
)  # fmt: skip
SECOND = RunSummary(
    "s", 9, 2, 6, 1, 0, 3.0, failures=(group("exit 3", 4, "c"),), alone=2,
    remarks=("old", "new"), wrong=2,
)  # fmt: skip


def in_turn(*drivers, total=10, told=None):
    made = iter(drivers)
    listeners = []

    def make(place, listener):
        listeners.append(listener)
        driver = next(made)
        driver.place = place
        return driver

    places = [f"kind {number}" for number in range(len(drivers))]
    turns = SequentialDrivers(places, make, total, (told if told is not None else []).append)
    assert [driver.place for driver in turns.drivers] == places
    return turns, listeners


def test_kinds_are_measured_one_after_the_other_and_their_ends_are_one():
    told = []
    turns, listeners = in_turn(
        Turned(FIRST, ahead=(4, 1)), Turned(SECOND, ahead=(3, 2)), told=told
    )  # fmt: skip
    assert turns.look_ahead() == (7, 3)
    assert turns.other_machine_notes() == ()
    progress = RunProgress(10, 1, 2, 3, 4, 0.5, None)
    listeners[0](progress)
    assert not turns.has_completed
    assert turns.drive() == replace(
        FIRST, total=19, cached=3, ok=10, failed=6, unfinished=0, seconds=5.0,
        failures=(replace(group("exit 3", 2, "a"), count=6), group("timeout", 3, "b")),
        best=None, alone=3, remarks=("slow", "old", "new"), wrong=3,
    )  # fmt: skip
    assert (turns.has_completed, turns.is_stopped) == (True, False)
    listeners[1](progress)
    # Of both kinds in all; those that were measured before count.
    both = (FIRST, SECOND)
    assert told == [
        replace(progress, total=20),
        replace(
            progress, total=20, cached=1 + sum(s.cached for s in both),
            ok=2 + sum(s.ok for s in both), failed=3 + sum(s.failed for s in both),
        ),
    ]  # fmt: skip


def test_behind_a_kind_that_was_stopped_none_is_measured():
    for is_stopped in (True, False):  # by somebody, or by a failure
        first = Turned(FIRST, has_completed=False, is_stopped=is_stopped)
        second, third = Turned(SECOND), Turned(SECOND)
        turns, _ = in_turn(first, second, third)
        summary = turns.drive()
        assert (second.ran, third.ran, turns.has_completed) == (False, False, False)
        assert (summary.total, summary.unfinished) == (30, 20)
        assert summary.interrupted == turns.is_stopped == is_stopped


def test_one_kind_ends_as_its_driver_does():
    told = []
    turns, (listener,) = in_turn(Turned(FIRST), told=told)
    (note,) = turns.other_machine_notes()
    assert EPYC.label in note
    assert turns.drive() is FIRST
    progress = RunProgress(10, 1, 2, 3, 4, 0.5, None)
    listener(progress)
    assert told == [progress]
