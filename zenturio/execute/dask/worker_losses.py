"""Workers that were lost under experiments: whose fault that is, and what becomes of those."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from zenturio.errors import PlaceError
from zenturio.execute.dask.job_renewal import LossReason
from zenturio.execute.dask.ticket import DaskTicket

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
    """The loss that a KilledWorker of Dask tells of; it may be inert, with whatever arguments.

    The names of workers matter only where the scheduler is ours, and so the error is not inert.
    """
    args: tuple[Any, ...] = (*error.args, None, None, None)
    _, worker, failures, *_ = args
    times = min(failures, MOST_DEATHS) + 1 if type(failures) is int and failures >= 0 else 1
    name, address = getattr(worker, "name", ""), getattr(worker, "address", "")
    return WorkerLoss(tickets, str(name), str(address), times)


def judge_loss(loss: WorkerLoss, ending: LossReason) -> list[DaskTicket]:
    """Return those that are to be begun again; the others are settled.

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
            message = f"experiment {ticket.experiment.digest[:12]} was not over when its job was"
            hint = "a longer walltime (pilot_time) in [places.NAME] of zenturio.toml"
            ticket.fail(PlaceError(f"{message}, {MOST_EXPIRIES} times", hint=hint))
    return [ticket for ticket in loss.tickets if not ticket.done()]
