"""
What a host may say: the schema of each answer and each event, with limits.

A host is somebody else's machine. What it says is checked before it is used; one that says anything
else is not asked again (see Host.distrust), and its experiments run elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zenturio.execute.matching import FOLDER_FAULTS
from zenturio.execute.schema import (
    Check,
    MalformedError,
    anything,
    first_of,
    flag,
    items,
    loose_text,
    nullable,
    one_of,
    path,
    real,
    record,
    row,
    shown,
    table,
    text,
    whole,
)
from zenturio.execute.this_machine import check_machine_facts

PIECE = 2**20
"""Bytes of a file that go at a time: others use the connection between two pieces."""
STREAM = 2**22
"""Of each stream, so many bytes at its beginning and at its end come back."""
SAID = 2**20
"""Bytes of a stream of a command that is run for its answer."""
FILES = 10**5
"""Files that an attempt may bring back."""
_JOBS = 10**5
_FACTS = 1000
_LINES = 2**17
"""Characters of a profile that are sent at a time."""
_CORES = 4096
_WORDS = loose_text(2**16)

_STATE = one_of("ended", "running", "lost", "prepared", "unknown")
_SIZE = whole(0, 2**62)
_NAME = text(256)

KNOWN_FACTS: Mapping[str, Check] = {
    "node": _NAME, "arch": _NAME, "os": _NAME, "kernel": _NAME, "cpu": _NAME, "python": _NAME,
    "mhz": nullable(real(0, 1e7)), "cores": whole(1, _CORES), "memory": _SIZE,
    "load": nullable(real(0, 1e9)), "free_memory": nullable(_SIZE), "disk": _SIZE,
    "speed": nullable(real(0, 1e12)),
}  # fmt: skip
_OTHER_FACT = nullable(first_of(flag, whole(-(2**63)), real(), loose_text(4096)))


@dataclass(frozen=True)
class Answer:
    """What belongs to an answer: names, and how many pieces of bytes of which size."""

    names: Check
    pieces: int = 0
    most: int = 0
    """Bytes of each piece."""


def sound_facts(told: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Those of the facts that expressions and slots can use, and what is wrong with another."""
    sound, fault = {}, ""
    for name, value in told.items():
        try:
            KNOWN_FACTS.get(name, _OTHER_FACT)(value, f"its fact {name}")
        except MalformedError as error:
            fault = str(error)
        else:
            sound[name] = value
    return sound, fault


_NOTHING = Answer(record({}))

ANSWERS: Mapping[str, Answer] = {
    "hello": Answer(
        record(
            {
                "folder": text(),
                "jobs": table(text(256), _STATE, _JOBS),
                "machine": check_machine_facts,
            }
        )
    ),
    "facts": Answer(record({"facts": table(text(128), anything, _FACTS)})),
    "command": Answer(record({"status": whole(-255, 255)}), 2, SAID),
    "missing": Answer(record({"missing": items(_NAME, FILES)})),
    "put": _NOTHING,
    "prepare": Answer(record({"folder": text()})),
    "start": Answer(record({"state": _STATE})),
    "watch": Answer(record({"state": _STATE})),
    "state": Answer(record({"state": _STATE})),
    "cancel": _NOTHING,
    "signal": _NOTHING,
    "reply": Answer(
        record(
            {
                "reply": table(_NAME, anything, 100),
                "spoilt": flag,
                "idle": flag,
                "machine": check_machine_facts,
                "fault": one_of("", *FOLDER_FAULTS),
            }
        ),
        4,
        STREAM,
    ),
    "found": Answer(record({"files": items(row(path, _SIZE, whole(0, 0o777)), FILES)})),
    "read": Answer(record({}), 1, PIECE),
    "built": Answer(record({"built": flag})),
    "remove": Answer(record({"gone": flag})),
}

_EVENTS: Mapping[str, Check] = {
    "over": record({"event": anything, "token": _NAME, "state": one_of("ended", "lost")}),
    "demands": record({"event": anything, "token": _NAME, "text": _WORDS}),
    "profile": record(
        {"event": anything, "token": _NAME, "text": loose_text(_LINES), "told": _SIZE}
    ),
}


def check_answer(do: str, answer: Mapping[str, Any]) -> None:
    """MalformedError where *answer* is none to the question *do*; an error is one to each."""
    if "error" in answer:
        record({"error": _WORDS})(dict(answer), f"the answer to {do}")
    else:
        ANSWERS[do].names(dict(answer), f"the answer to {do}")


def check_event(message: dict[str, Any]) -> None:
    """MalformedError where *message* is no event."""
    kind = message.get("event")
    if not isinstance(kind, str) or kind not in _EVENTS:
        raise MalformedError(f"there is no event {shown(kind)}")
    _EVENTS[kind](message, f"the event {kind}")
