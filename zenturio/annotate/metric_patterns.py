"""Regular expressions and JSON paths by which metrics and targets are found."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from zenturio.errors import AnnotationError, Passage
from zenturio.regular_expressions import Pattern, PatternError, compile_pattern


def check_pattern(passage: Passage) -> Pattern:
    """The compiled pattern; AnnotationError where RE2 cannot read it."""
    place = passage.place(0, len(passage.text))
    try:
        return compile_pattern(passage.text)
    except PatternError as error:
        message = f"the regular expression cannot be read: {error}"
        raise AnnotationError(message, place=place, hint=_hint(str(error))) from None


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
  | \[\s*\?\s*(?P<open>\()?\s*@
        (?P<path>(?:\.[^\s.\[\]'"()<>=!]+|\[\s*(?:-?[0-9]{1,9}|"[^"]*"|'[^']*')\s*\])*)
        \s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<literal>"[^"]*"|'[^']*'|[^\s\])"']+))?
        \s*(?(open)\))\s*\]
    """,
    re.VERBOSE,
)
EVERY = None
"""The step ``[*]`` or ``.*``: every member of a list or an object."""


@dataclass(frozen=True, slots=True)
class JsonFilter:
    """The step ``[?(@.name == 'cg')]``: the members for which it is true.

    Without an operator, those in which the path leads somewhere.
    """

    path: tuple[JsonStep, ...]
    operator: str
    literal: Any

    def accepts(self, value: Any) -> bool:
        """Whether *value* compares so with the literal: numbers with numbers alone."""
        if _family(value) is not _family(self.literal):
            return self.operator == "!="
        if self.operator in ("==", "!="):
            return bool(value == self.literal) is (self.operator == "==")
        if not isinstance(value, int | float | str) or isinstance(value, bool):
            return False
        below, equal = bool(value < self.literal), bool(value == self.literal)
        return {
            "<": below,
            "<=": below or equal,
            ">": not below and not equal,
            ">=": not below,
        }[self.operator]


JsonStep: TypeAlias = "str | int | JsonFilter | None"


def _family(value: Any) -> type:
    """Numbers of both kinds compare with each other, all else with its own type only."""
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def json_steps(path: str | Passage) -> tuple[JsonStep, ...]:
    """The steps of *path*: a name, a number from 0 (from the end below 0), ``EVERY``, a filter."""
    passage = Passage.of(path, "JSON")
    text = passage.text
    if not text.startswith("$"):
        hint = f'write "$.{text}"' if re.fullmatch(r"[\w.]+", text) else _EXAMPLE
        raise AnnotationError("a JSON path begins with $", place=passage.place(0), hint=hint)
    steps: list[JsonStep] = []
    at = 1
    while at < len(text):
        match = _STEP.match(text, at)
        if not match:
            place = passage.place(at, len(text))
            message = f"{text[at:]} is not a step of a JSON path"
            hint = _FILTER_EXAMPLE if text.startswith("[?", at) else _EXAMPLE
            raise AnnotationError(message, place=place, hint=hint)
        try:
            steps.append(_step(match))
        except ValueError:
            place = passage.place(*match.span("literal"))
            message = f"{match['literal']} is neither a number nor a text in quotes"
            raise AnnotationError(message, place=place, hint=_FILTER_EXAMPLE) from None
        at = match.end()
    return tuple(steps)


_EXAMPLE = 'as "$.results[0].time", "$[-1]", "$.runs[*].time" or "$[\'two words\']"'
_FILTER_EXAMPLE = 'as "$.jobs[?(@.name == \'read\')].time" or "$.runs[?(@.n >= 100)].time"'


def _step(match: re.Match[str]) -> JsonStep:
    if match["path"] is not None:
        literal = json.loads(_double_quoted(match["literal"])) if match["operator"] else None
        return JsonFilter(json_steps("$" + match["path"]), match["operator"] or "", literal)
    if match["every"] or match["name"] == "*":
        return EVERY
    if match["number"]:
        return int(match["number"])
    if match["quoted"]:
        return re.sub(r"\\(.)", r"\1", match["quoted"][1:-1])
    return match["name"]


def _double_quoted(literal: str) -> str:
    """The literal as JSON writes it, which knows no single quotes."""
    return json.dumps(literal[1:-1]) if literal[0] in "\"'" else literal
