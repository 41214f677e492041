"""What a launcher says of a run, and the check of it: how it ended, and what it used."""

from __future__ import annotations

from typing import Any

from zenturio.execute.schema import (
    MalformedError,
    items,
    loose_text,
    nullable,
    one_of,
    real,
    record,
    row,
    whole,
)

STOPS = ("", "timeout", "cancelled", "memory", "processes", "unstartable")
_MOMENT = real(0, 1e12)
"""Seconds since 1970."""
_SECONDS = real(-1e9, 1e12)
_SIZE = whole(0, 2**62)
_LOAD = nullable(real(0, 1e9))
"""When the run began, and when it ended."""

_check = record({
    "stop": one_of(*STOPS), "why": loose_text(4096), "step": whole(0, 2**16),
    "status": whole(-255, 255), "wtime": _SECONDS, "ctime": _SECONDS,
    "maxrss": nullable(_SIZE), "hidden": _SIZE, "started": _MOMENT, "ended": _MOMENT,
    "load": row(_LOAD, _LOAD), "sizes": row(_SIZE, _SIZE), "lengths": items(_SIZE, 4, 4),
})  # fmt: skip


def check_run_facts(told: Any, steps: int) -> None:
    """MalformedError where *told* is no account of a run of so many *steps*."""
    _check(told, "reply")
    if told["step"] >= max(steps, 1):
        raise MalformedError(f"reply.step is {told['step']} of {steps}")
