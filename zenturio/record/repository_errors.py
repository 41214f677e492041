"""Errors that repositories raise."""

from __future__ import annotations

from collections.abc import Iterable

from zenturio.errors import ConflictError, NotFoundError, RecordError, unknown_name
from zenturio.record.entities import Lease
from zenturio.record.timestamps import utc_time


def no_study(name: str, names: Iterable[str]) -> NotFoundError:
    return unknown_name("study", name, names)


def no_experiment(digests: Iterable[str], study: str | None = None) -> NotFoundError:
    missing = sorted(set(digests))
    shown = ", ".join(missing[:3]) + (f", ... ({len(missing)} in all)" if missing[3:] else "")
    where = "the repository" if study is None else f"study {study!r}"
    return NotFoundError(f"{where} has no experiment {shown}", hint="add it first")


def study_has_driver(lease: Lease) -> ConflictError:
    """Another driver has the study."""
    return ConflictError(
        f"study {lease.study!r} is driven by process {lease.pid} on {lease.host}"
        f" since {utc_time(lease.since)}",
        hint="wait until it ends, stop it, or help it with --join",
    )


def lease_superseded(study: str, number: int) -> ConflictError:
    """Return the caller's own lease is over."""
    return ConflictError(
        f"lease {number} on study {study!r} has ended: another driver took the study over",
        hint="run the study again: what was recorded is kept",
    )


def driver_prevents_change(lease: Lease) -> ConflictError:
    """Return the error of changing or deleting a study while a driver runs it."""
    return ConflictError(
        f"study {lease.study!r} can neither go nor change: process {lease.pid} on {lease.host}"
        f" drives it since {utc_time(lease.since)}",
        hint="wait until it ends, or stop it",
    )


def no_submission(number: int) -> NotFoundError:
    return NotFoundError(
        f"nothing in the queue has the number {number}", hint="zen queue tells what is there"
    )


def foreign_rows(what: str) -> RecordError:
    """Return rows contradict each other: zenturio has not written them so."""
    return RecordError(
        f"the repository is damaged: {what}",
        hint="see what `zen db check` says; `zen db salvage` saves what can be read",
    )
