"""Regular expressions of users, compiled by RE2: matching takes linear time."""

from __future__ import annotations

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
