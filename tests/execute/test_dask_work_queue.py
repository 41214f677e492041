"""What goes next to a cluster of Dask."""

import pytest

from zenturio.execute.dask.ticket_queue import BatchSizer, DaskTicket, TaskBatch, TicketQueue
from zenturio.experiment import Step
from zenturio.testing.executor import experiment

SLOTS = 4


@pytest.fixture
def queue():
    """Of experiments that travel by threes; two workers are there."""
    found = TicketQueue(BatchSizer(3))
    found.workers = {"a": 2, "b": 2}
    return found


def ticket(cpus=1, *, is_suspect=False) -> DaskTicket:
    made = DaskTicket(experiment(Step("true", cpus=cpus)), SLOTS, lambda _: None)
    made.is_suspect = is_suspect
    return made


def all_of(queue: TicketQueue) -> list[TaskBatch]:
    """What goes while nothing comes back."""
    sent: list[TaskBatch] = []
    while parcel := queue.next(sent, SLOTS):
        sent.append(parcel)
    return sent


def test_short_ones_travel_together_in_their_order(queue):
    tickets = [ticket() for _ in range(18)]
    for each in tickets:
        queue.put(each)
    sent = all_of(queue)
    assert [each for parcel in sent for each in parcel.tickets] == tickets
    assert max(len(parcel.tickets) for parcel in sent) == 3


def test_no_worker_gets_two_suspects(queue):
    queue.put_back([ticket(is_suspect=True) for _ in range(5)])
    first, second = all_of(queue)
    assert (first.eligible_workers, second.eligible_workers) == (("a",), ("b",))
    assert len(first.tickets) == len(second.tickets) == 1
    assert queue.next([first], SLOTS).eligible_workers == ("b",)


def test_others_go_on_while_suspects_wait_for_each_other(queue):
    queue.workers = {"a": 4}
    queue.put_back([ticket(is_suspect=True), ticket(is_suspect=True), ticket()])
    suspect, other = all_of(queue)
    assert suspect.tickets[0].is_suspect
    assert not other.tickets[0].is_suspect
    assert other.eligible_workers == ()


def test_a_wide_suspect_goes_to_a_wide_worker(queue):
    queue.workers = {"a": 1, "b": 4}
    queue.put_back([ticket(3, is_suspect=True)])
    assert all_of(queue)[0].eligible_workers == ("b",)


def test_what_is_about_something_sent_goes_first(queue):
    about = TaskBatch([ticket()], worker="a", is_running=True)
    queue.put(ticket())
    queue.put_first(about)
    assert all_of(queue)[0] is about


def test_all_that_waits_can_be_taken_off(queue):
    several = [ticket(), ticket(is_suspect=True)]
    queue.put_back(several)
    queue.put_first(TaskBatch([ticket()]))
    assert queue.remove(several[1])
    assert not queue.remove(several[1])
    assert len(queue) == len(queue.drain()) == 2
    assert len(queue) == 0
