"""Regular expressions and JSON paths by which metrics and targets are found."""

from __future__ import annotations

import re
from typing import Any

from zenturio.errors import AnnotationError, Passage


def check_pattern(passage: Passage) -> Any:
    """The compiled pattern; AnnotationError where RE2 cannot read it."""
    import re2  # noqa: PLC0415 - loaded only where a pattern is used

    place = passage.place(0, len(passage.text))
    options: Any = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(passage.text, options)
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        message = f"the regular expression cannot be read: {text}"
        raise AnnotationError(message, place=place, hint=_hint(text)) from None


def _hint(reason: str) -> str:
    """What would be right, for the commonest mistakes."""
    if "perl operator" in reason:
        return "the syntax is RE2's: no look-around; put what is wanted in a group (…)"
    if "escape sequence: \\" in reason and reason[-1].isdigit():
        return "the syntax is RE2's: no references back to a group"
    if "missing" in reason:
        return "close it; a bracket that is meant itself is written \\( or \\["
    if "repetition" in reason:
        return "a sign that is meant itself has a backslash before it: \\* \\+ \\?"
    return "the syntax is that of RE2, which is Python's without look-around and back references"


_STEP = re.compile(
    r"""
    \.(?P<name>[^\s.\[\]'"]+)
  | \[\s*(?P<number>-?[0-9]{1,9})\s*\]
  | \[\s*(?P<every>\*)\s*\]
  | \[\s*(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*\]
    """,
    re.VERBOSE,
)
EVERY = None
"""The step ``[*]`` or ``.*``: every member of a list or an object."""


def json_steps(path: str | Passage) -> tuple[str | int | None, ...]:
    """The steps of *path*: a name, a number from 0 (from the end below 0), or ``EVERY``."""
    passage = Passage.of(path, "JSON")
    text = passage.text
    if not text.startswith("$"):
        hint = f'write "$.{text}"' if re.fullmatch(r"[\w.]+", text) else _EXAMPLE
        raise AnnotationError("a JSON path begins with $", place=passage.place(0), hint=hint)
    steps: list[str | int | None] = []
    at = 1
    while at < len(text):
        match = _STEP.match(text, at)
        if not match:
            place = passage.place(at, len(text))
            message = f"{text[at:]} is not a step of a JSON path"
            raise AnnotationError(message, place=place, hint=_EXAMPLE)
        steps.append(_step(match))
        at = match.end()
    return tuple(steps)


_EXAMPLE = 'as "$.results[0].time", "$[-1]", "$.runs[*].time" or "$[\'two words\']"'


def _step(match: re.Match[str]) -> str | int | None:
    if match["every"] or match["name"] == "*":
        return EVERY
    if match["number"]:
        return int(match["number"])
    if match["quoted"]:
        return re.sub(r"\\(.)", r"\1", match["quoted"][1:-1])
    return match["name"]
