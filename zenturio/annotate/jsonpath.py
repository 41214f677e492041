"""The paths of ``METRIC … JSON "$.a.b[0]"``: names and numbers from the root down."""

from __future__ import annotations

import re

from zenturio.errors import AnnotationError, Passage

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
        found = _STEP.match(text, at)
        if not found:
            place = passage.place(at, len(text))
            message = f"{text[at:]} is no step of a JSON path"
            raise AnnotationError(message, place=place, hint=_EXAMPLE)
        steps.append(_step(found))
        at = found.end()
    return tuple(steps)


_EXAMPLE = 'as "$.results[0].time", "$[-1]", "$.runs[*].time" or "$[\'two words\']"'


def _step(found: re.Match[str]) -> str | int | None:
    if found["every"] or found["name"] == "*":
        return EVERY
    if found["number"]:
        return int(found["number"])
    if found["quoted"]:
        return re.sub(r"\\(.)", r"\1", found["quoted"][1:-1])
    return found["name"]
