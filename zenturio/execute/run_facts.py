"""What a launcher says of a run, and the check of it: how it ended, and what it used."""

from __future__ import annotations

from typing import Any

from zenturio.execute.json_checks import (
    MalformedError,
    any_text,
    integer,
    list_of,
    nullable,
    number,
    object_of,
    one_of,
    record,
    tuple_of,
)
from zenturio.execute.thread_limits import NAMES

STOPS = ("", "timeout", "cancelled", "memory", "processes", "unstartable")
_MOMENT = number(0, 1e12)
"""Seconds since 1970."""
_SECONDS = number(-1e9, 1e12)
_SIZE = integer(0, 2**62)
_LOAD = nullable(number(0, 1e9))
"""When the run began, and when it ended."""

_THREADS = object_of(one_of(*NAMES), any_text(1024), len(NAMES))

_check_reply = record({
    "stop": one_of(*STOPS), "why": any_text(4096), "step": integer(0, 2**16),
    "status": integer(-255, 255), "wtime": _SECONDS, "ctime": _SECONDS,
    "maxrss": nullable(_SIZE), "hidden": _SIZE, "started": _MOMENT, "ended": _MOMENT,
    "load": tuple_of(_LOAD, _LOAD), "sizes": tuple_of(_SIZE, _SIZE),
    "lengths": list_of(_SIZE, 4, 4),
}, {"threads": _THREADS})  # fmt: skip


def check_run_facts(reply: Any, steps: int) -> None:
    """MalformedError where *reply* is no account of a run of so many *steps*."""
    _check_reply(reply, "reply")
    if reply["step"] >= max(steps, 1):
        raise MalformedError(f"reply.step is {reply['step']} of {steps}")
