"""One place for several studies: slots go to whose turn it is, and come back."""

from collections import deque
from concurrent.futures import Future
from threading import Thread

import pytest

from study.places import Held, Scrambled, good
from zenturio.errors import PlaceError
from zenturio.execute.executor import SelectsMachine
from zenturio.experiment import MachineKind, Step
from zenturio.study.driver import slot_pool
from zenturio.study.driver.slot_pool import SlotPool
from zenturio.testing.repository import experiment, outcome

EIGHT = [experiment(i) for i in range(8)]


def wide(index, cpus):
    """An experiment that asks for several CPUs."""
    found = experiment(index)
    return type(found)(
        found.digest, index, 1, found.values, (), (Step("x", cpus=cpus),), {}, None, found.recipe
    )


def begun(place):
    return set(place.begun)


def test_no_more_is_handed_on_than_there_are_slots():
    place = Held(2)
    allotment = SlotPool(place).allot("a")
    futures = [allotment.submit(each) for each in EIGHT[:4]]
    assert begun(place) == {each.digest for each in EIGHT[:2]}
    assert [each.running() for each in futures] == [True, True, False, False]
    place.end(EIGHT[0].digest)
    assert futures[0].result() == good(EIGHT[0])
    assert begun(place) == {each.digest for each in EIGHT[1:3]}


def test_a_slot_that_is_free_goes_to_whose_turn_it_is():
    asked = []

    def latest(owners, _running):
        asked.append(list(owners))
        return owners[-1]

    place = Held(1)
    pool = SlotPool(place, latest)
    one, two = pool.allot("one"), pool.allot("two")
    for each in EIGHT[:3]:
        one.submit(each)
    two.submit(EIGHT[5])
    assert begun(place) == {EIGHT[0].digest}
    place.end(EIGHT[0].digest)
    assert begun(place) == {EIGHT[5].digest}
    assert asked[-1] == ["one", "two"]
    assert (pool.slots_in_use("one"), pool.slots_in_use("two")) == (0, 1)
    place.end(EIGHT[5].digest)
    assert begun(place) == {EIGHT[1].digest}


def test_of_one_owner_the_most_urgent_goes_first_whichever_share_has_it():
    place = Held(1)
    pool = SlotPool(place)
    late = pool.allot("a", lambda e: (1, e.index))
    early = pool.allot("a", lambda e: (0, -e.index))
    for each in EIGHT[:3]:
        late.submit(each)
    for each in EIGHT[3:6]:
        early.submit(each)
    order = []
    while place.begun:
        (digest,) = place.begun
        order.append(digest)
        place.end(digest)
    assert order == [EIGHT[i].digest for i in (0, 5, 4, 3, 1, 2)]


def test_what_needs_more_slots_than_are_free_keeps_its_turn():
    place = Held(2)
    allotment = SlotPool(place).allot("a")
    narrow, broad, other = experiment(0), wide(1, 2), experiment(2)
    for each in (narrow, broad, other):
        allotment.submit(each)
    assert begun(place) == {narrow.digest}
    place.end(narrow.digest)
    assert begun(place) == {broad.digest}
    place.end(broad.digest)
    assert begun(place) == {other.digest}


def test_what_asks_for_more_slots_than_there_are_runs_alone():
    place = Held(2)
    allotment = SlotPool(place).allot("a")
    future = allotment.submit(wide(0, 64))
    place.end(experiment(0).digest)
    assert future.result().status == "ok"


def test_what_waits_is_taken_off_and_what_runs_is_killed():
    place = Held(1)
    allotment = SlotPool(place).allot("a")
    first, second, third = (allotment.submit(each) for each in EIGHT[:3])
    assert second.cancel()
    assert second.cancelled()
    assert first.cancel()
    assert first.result().status == "cancelled"
    assert third.running()
    assert not first.cancel()


def test_a_share_that_is_given_back_leaves_its_slots_to_others():
    place = Held(1)
    pool = SlotPool(place)
    one, two = pool.allot("one"), pool.allot("two")
    running, waiting = one.submit(EIGHT[0]), one.submit(EIGHT[1])
    other = two.submit(EIGHT[2])
    one.close()
    assert running.result().status == "cancelled"
    assert waiting.cancelled()
    assert other.running()
    with pytest.raises(PlaceError, match="given back"):
        one.submit(EIGHT[3]).result()


def test_what_is_cancelled_while_its_place_takes_it_is_killed_there():
    class Slow(Held):
        def submit(self, submitted):
            requests[0].cancel()
            return super().submit(submitted)

    requests = []
    allotment = SlotPool(Slow(1), lambda owners, _demands: owners[0] if requests else None).allot(
        "a"
    )
    requests.append(allotment.submit(EIGHT[0]))
    requests.append(allotment.submit(EIGHT[1]))
    assert [request.result().status for request in requests[:1]] == ["cancelled"]
    assert requests[1].running()


def test_a_place_that_refuses_an_experiment_fails_for_whose_it_was():
    class Refusing(Held):
        def submit(self, submitted):
            if submitted.index == 1:
                raise PlaceError("too large")
            return super().submit(submitted)

    place = Refusing(1)
    allotment = SlotPool(place).allot("a")
    first, second, third = (allotment.submit(each) for each in EIGHT[:3])
    place.end(EIGHT[0].digest)
    assert first.result().status == "ok"
    with pytest.raises(PlaceError, match="too large"):
        second.result()
    assert third.running()


def test_who_has_closed_lends_nothing_more():
    place = Held(1)
    pool = SlotPool(place)
    one, two = pool.allot("one"), pool.allot("two")
    one.submit(EIGHT[0])
    waiting = two.submit(EIGHT[1])
    pool.close()
    one.close()
    assert not waiting.running()


def test_a_place_that_fails_fails_for_whose_experiment_it_was():
    def breaks(each):
        if each.index == 1:
            raise PlaceError("out of order")
        return outcome(each)

    with Scrambled(breaks, slots=1) as place:
        allotment = SlotPool(place).allot("a")
        futures = [allotment.submit(each) for each in EIGHT[:3]]
        assert futures[0].result().status == "ok"
        with pytest.raises(PlaceError, match="out of order"):
            futures[1].result()
        assert futures[2].result().status == "ok"


def test_many_threads_that_submit_and_cancel_lose_no_slot():
    with Scrambled(slots=3) as place:
        pool = SlotPool(place)
        allotments = [pool.allot(i) for i in range(4)]
        futures = []

        def submit(allotment, salt):
            for i in range(100):
                future = allotment.submit(experiment(i, salt=str(salt)))
                if i % 7 == 0:
                    future.cancel()
                futures.append(future)

        threads = [Thread(target=submit, args=(s, k)) for k, s in enumerate(allotments)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        done = [each for each in futures if not each.cancelled()]
        assert all(each.result() for each in done)
        assert len(futures) == 400
        assert [pool.slots_in_use(i) for i in range(4)] == [0] * 4
        assert pool.allot("last").submit(EIGHT[0]).result().status == "ok"


class Remembering(Held):
    """A place with messages, which keeps outcomes until they are recorded, and learns."""

    def __init__(self, slots):
        super().__init__(slots)
        self.remarks, self.machines = deque(["busy"]), frozenset({MachineKind("EPYC")})
        self.forgotten, self.learnt = [], []

    def forget(self, digest):
        self.forgotten.append(digest)

    def learn(self, seen):
        self.learnt.append(seen)


def test_what_is_said_to_a_share_reaches_the_place_and_back():
    place = Remembering(2)
    allotment = SlotPool(place).allot("a")
    seen = outcome(EIGHT[0])
    allotment.forget(seen.digest)
    allotment.learn(seen)
    assert (place.forgotten, place.learnt) == ([seen.digest], [seen])
    assert allotment.remarks is place.remarks
    assert allotment.machines == place.machines
    plain = SlotPool(Held(1)).allot("a")
    plain.forget(seen.digest)
    plain.learn(seen)
    assert not plain.remarks


def test_slot_seconds_count_for_each_slot_and_not_for_what_was_stopped(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(slot_pool, "monotonic", lambda: now[0])
    place = Held(3)
    pool = SlotPool(place)
    allotment = pool.allot("a")
    broad, narrow = allotment.submit(wide(0, 2)), allotment.submit(experiment(1))
    waiting = allotment.submit(wide(2, 3))
    assert (allotment.ended, allotment.spent) == (0, 0.0)
    now[0] += 5.0
    demand = pool.demands()["a"]
    assert sorted(demand.running) == [(5.0, 1), (5.0, 2)]
    assert (sorted(demand.seconds), demand.wanted) == ([5.0, 5.0], 3)
    assert pool.slots_in_use("a") == 3
    place.end(experiment(0).digest)
    assert broad.result().status == "ok"
    assert (allotment.ended, allotment.spent) == (1, 10.0)
    narrow.cancel()
    assert narrow.result().status == "cancelled"
    assert (allotment.ended, allotment.spent) == (1, 10.0)
    assert waiting.running()
    assert pool.slots_in_use("a") == 3
    assert pool.slots_in_use("nobody") == 0


def test_a_pool_that_was_closed_lends_again_when_it_is_opened():
    place = Held(1)
    pool = SlotPool(place)
    pool.close()
    future = pool.allot("a").submit(EIGHT[0])
    assert not place.begun
    pool.open()
    assert future.running()


def test_where_nobody_may_have_more_nothing_is_lent():
    place = Held(1)
    pool = SlotPool(place, lambda owners, demands: None)
    assert not pool.allot("a").submit(EIGHT[0]).running()
    assert not place.begun


def test_a_queue_of_any_length_is_lent_one_after_the_other_without_growing_the_stack():
    class AtOnce:
        """A place that has run an experiment when it returns, after the first."""

        slots = 1

        def __init__(self):
            self.first = Future()
            self.futures = [self.first]

        def submit(self, submitted):
            if self.futures:
                return self.futures.pop()
            future = Future()
            future.set_result(outcome(submitted))
            return future

    place = AtOnce()
    allotment = SlotPool(place).allot("a")
    submitted = [allotment.submit(experiment(n)) for n in range(500)]
    place.first.set_result(outcome(experiment(0)))
    assert all(future.done() and not future.exception() for future in submitted)


class Sorted(Held):
    """A place of two kinds of machine, which notes for which kind it was given something."""

    fast, slow = MachineKind("fast", 8), MachineKind("slow", 4)
    machines = frozenset({fast, slow})

    def __init__(self, slots):
        super().__init__(slots)
        self.kinds = {}

    def slots_of(self, machine):
        return {self.fast: 1, self.slow: 2}[machine]

    def submit_to(self, machine, each):
        self.kinds[each.digest] = machine
        return self.submit(each)


def test_an_experiment_of_one_kind_of_machine_waits_for_its_turn_and_is_given_to_that_kind():
    place = Sorted(2)
    allotment = SlotPool(place).allot("a")
    assert isinstance(allotment, SelectsMachine)
    assert not isinstance(SlotPool(Held(2)).allot("a"), SelectsMachine)
    assert [allotment.slots_of(kind) for kind in (place.fast, place.slow)] == [1, 2]
    any_kind, slow, fast = EIGHT[:3]
    futures = [
        allotment.submit(any_kind),
        allotment.submit_to(place.slow, slow),
        allotment.submit_to(place.fast, fast),
    ]
    assert begun(place) == {any_kind.digest, slow.digest}
    assert place.kinds == {slow.digest: place.slow}
    place.end(slow.digest)
    assert place.kinds == {slow.digest: place.slow, fast.digest: place.fast}
    place.end(fast.digest)
    place.end(any_kind.digest)
    assert [future.result() for future in futures] == [good(each) for each in EIGHT[:3]]


def test_at_a_place_that_runs_as_users_each_owner_runs_as_their_own_and_nobody_as_none():
    class AsUsers(Held):
        def submit_as(self, user, each):
            users[each.digest] = user
            return self.submit(each)

    users = {}
    pool = SlotPool(AsUsers(3), user_of={"a": "ann", "b": "bob", "c": None}.get)
    futures = [pool.allot(owner).submit(each) for owner, each in zip("abc", EIGHT, strict=False)]
    assert users == {EIGHT[0].digest: "ann", EIGHT[1].digest: "bob"}
    with pytest.raises(PlaceError, match="the user who submitted this experiment is not known"):
        futures[2].result()
    assert pool.slots_in_use("c") == 0
