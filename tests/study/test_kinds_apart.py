"""The machines of each kind of a place as places of their own."""

from collections import deque
from concurrent.futures import Future

import pytest

from zenturio.errors import InputError
from zenturio.experiment import MachineKind
from zenturio.study.driver.measurement_plan import MachinesOfOneKind, kinds_apart
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
    [(None, "does not know its kinds of machine"), (frozenset({EPYC, RISCV}), "does not let anybody choose")],
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
