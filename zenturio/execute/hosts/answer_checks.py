"""
What a host may say: the schema of each answer and each event, with limits.

A host is somebody else's machine. What it says is checked before it is used; one that says anything
else is not asked again (see Host.distrust), and its experiments run elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zenturio.execute.json_checks import (
    Check,
    MalformedError,
    any_text,
    anything,
    boolean,
    first_of,
    integer,
    list_of,
    nullable,
    number,
    object_of,
    one_of,
    path,
    record,
    short_repr,
    text,
    tuple_of,
)
from zenturio.execute.machine_json import check_machine_facts
from zenturio.execute.output_patterns import FOLDER_FAULTS

PIECE_BYTES = 2**20
"""Bytes of a file that go at a time: others use the connection between two pieces."""
STREAM_BYTES = 2**22
"""Of each stream, so many bytes at its beginning and at its end come back."""
COMMAND_BYTES = 2**20
"""Bytes of a stream of a command that is run for its answer."""
MOST_FILES = 10**5
"""Files that an attempt may bring back."""
_MOST_JOBS = 10**5
_MOST_FACTS = 1000
_PROFILE_CHARACTERS = 2**17
"""Characters of a profile that are sent at a time."""
_CORES = 4096
_MESSAGE = any_text(2**16)

_STATE = one_of("ended", "running", "lost", "prepared", "unknown")
_SIZE = integer(0, 2**62)
_NAME = text(256)

FACT_CHECKS: Mapping[str, Check] = {
    "node": _NAME, "arch": _NAME, "os": _NAME, "kernel": _NAME, "cpu": _NAME, "python": _NAME,
    "mhz": nullable(number(0, 1e7)), "cores": integer(1, _CORES), "memory": _SIZE,
    "load": nullable(number(0, 1e9)), "free_memory": nullable(_SIZE), "disk": _SIZE,
    "speed": nullable(number(0, 1e12)),
}  # fmt: skip
_OTHER_FACT = nullable(first_of(boolean, integer(-(2**63)), number(), any_text(4096)))


@dataclass(frozen=True)
class AnswerCheck:
    """What belongs to an answer: names, and how many pieces of bytes of which size."""

    names: Check
    pieces: int = 0
    most: int = 0
    """Bytes of each piece."""


def valid_facts(facts: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Those of the facts that expressions and slots can use, and what is wrong with another."""
    sound, fault = {}, ""
    for name, value in facts.items():
        try:
            FACT_CHECKS.get(name, _OTHER_FACT)(value, f"its fact {name}")
        except MalformedError as error:
            fault = str(error)
        else:
            sound[name] = value
    return sound, fault


_EMPTY = AnswerCheck(record({}))

ANSWER_CHECKS: Mapping[str, AnswerCheck] = {
    "hello": AnswerCheck(
        record(
            {
                "folder": text(),
                "jobs": object_of(text(256), _STATE, _MOST_JOBS),
                "machine": check_machine_facts,
            }
        )
    ),
    "facts": AnswerCheck(record({"facts": object_of(text(128), anything, _MOST_FACTS)})),
    "command": AnswerCheck(record({"status": integer(-255, 255)}), 2, COMMAND_BYTES),
    "missing": AnswerCheck(record({"missing": list_of(_NAME, MOST_FILES)})),
    "put": _EMPTY,
    "prepare": AnswerCheck(record({"folder": text()})),
    "start": AnswerCheck(record({"state": _STATE})),
    "watch": AnswerCheck(record({"state": _STATE})),
    "state": AnswerCheck(record({"state": _STATE})),
    "cancel": _EMPTY,
    "signal": _EMPTY,
    "reply": AnswerCheck(
        record(
            {
                "reply": object_of(_NAME, anything, 100),
                "spoilt": boolean,
                "idle": boolean,
                "machine": check_machine_facts,
                "fault": one_of("", *FOLDER_FAULTS),
            }
        ),
        4,
        STREAM_BYTES,
    ),
    "found": AnswerCheck(
        record({"files": list_of(tuple_of(path, _SIZE, integer(0, 0o777)), MOST_FILES)})
    ),
    "read": AnswerCheck(record({}), 1, PIECE_BYTES),
    "built": AnswerCheck(record({"built": boolean})),
    "remove": AnswerCheck(record({"gone": boolean})),
}

_EVENT_CHECKS: Mapping[str, Check] = {
    "over": record({"event": anything, "token": _NAME, "state": one_of("ended", "lost")}),
    "demands": record({"event": anything, "token": _NAME, "text": _MESSAGE}),
    "profile": record(
        {"event": anything, "token": _NAME, "text": any_text(_PROFILE_CHARACTERS), "told": _SIZE}
    ),
}


def check_answer(do: str, answer: Mapping[str, Any]) -> None:
    """MalformedError where *answer* is none to the question *do*; an error is one to each."""
    if "error" in answer:
        record({"error": _MESSAGE})(dict(answer), f"the answer to {do}")
    else:
        ANSWER_CHECKS[do].names(dict(answer), f"the answer to {do}")


def check_event(message: dict[str, Any]) -> None:
    """MalformedError where *message* is not an event."""
    kind = message.get("event")
    if not isinstance(kind, str) or kind not in _EVENT_CHECKS:
        raise MalformedError(f"there is no event {short_repr(kind)}")
    _EVENT_CHECKS[kind](message, f"the event {kind}")
