"""The grammar of BUILD and RUN: a command and its limits."""

from __future__ import annotations

import re
from typing import Literal

from zenturio.annotate.clauses import Clauses
from zenturio.annotate.diagnostics import Diagnostics
from zenturio.annotate.directive_tokens import DirectiveToken, tokens, unclosed, unquote
from zenturio.annotate.model import Command
from zenturio.annotate.parameter_grammar import condition
from zenturio.errors import AnnotationError, Passage
from zenturio.expression import parse

_LIMITS = ("TIMEOUT", "RETRY", "CPUS", "MEMORY")
_AMOUNT = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]*)")
_UNITS = {
    "TIMEOUT": ("", "ns", "us", "ms", "s", "min", "h", "d"),
    "MEMORY": ("", "B", *(prefix + unit for prefix in "KMGTP" for unit in ("B", "iB"))),
}
LONGEST = 10_000
"""A command has at most so many characters."""


def command(body: Passage, token: DirectiveToken) -> Command:
    """``"cmd"`` and its limits."""
    keyword = token.upper()
    text, at = quoted_text(body, token, f'{keyword} "./program {{n}}"')
    if len(text.text) > LONGEST:
        place = text.place(0, len(text.text))
        message = f"a command has at most {LONGEST:,} characters"
        raise AnnotationError(message, place=place, hint="put it into a script, and run that")
    diagnostics = Diagnostics()
    clauses = Clauses(body, keyword, _LIMITS, diagnostics).read(at)
    command = Command(
        text=text,
        timeout=_amount(clauses, "TIMEOUT"),
        retry=_count(clauses, "RETRY"),
        cpus=condition(clauses, "CPUS"),
        memory=_bytes(clauses),
    )
    diagnostics.close()
    return command


def quoted_text(body: Passage, token: DirectiveToken, example: str) -> tuple[Passage, int]:
    """The quoted text behind *token*, and where it ends."""
    found = next(tokens(body.text, token.end), None)
    if found is None or found.kind != "text":
        if found is not None and found.text in "\"'":
            raise unclosed(body, found)
        start, end = (found.start, _bare_end(body, found)) if found else (token.start, token.end)
        keyword = token.upper()
        hint = f'write {keyword} "{body.text[start:end]}"' if found else f"write {example}"
        raise AnnotationError(
            f"{keyword} needs a quoted text", place=body.place(start, end), hint=hint
        )
    text = unquote(body.cut(found.start, found.end))
    if not text.text.strip():
        place = body.place(found.start, found.end)
        message = f"the text of {token.upper()} is empty"
        raise AnnotationError(message, place=place, hint=f"write {example}")
    return text, found.end


def _bare_end(body: Passage, first: DirectiveToken) -> int:
    """Where a text without quotes ends: before the first clause, or with the directive."""
    clauses = (t.start for t in tokens(body.text, first.end) if t.upper() in (*_LIMITS, "ON"))
    return len(body.text[: next(clauses, len(body.text))].rstrip())


def _amount(clauses: Clauses, keyword: Literal["TIMEOUT", "MEMORY"]) -> float | None:
    """A number with a unit, above zero: seconds or bytes."""
    clause = clauses.found.get(keyword)
    if clause is None:
        return None
    found = _AMOUNT.fullmatch(clause.text.text)
    example = "TIMEOUT 30s, 10min or 2h" if keyword == "TIMEOUT" else "MEMORY 512MB or 4GiB"
    if found and found[1] in _UNITS[keyword]:
        value = parse(re.sub(r"\s", "", clause.text.text)).value({})
        if isinstance(value, int | float) and 0 < value < 2**62:
            return float(value)
    message = f"{clause.text.text} is no {'time' if keyword == 'TIMEOUT' else 'size'}"
    clauses.diagnostics.error(message, clause.value_place, f"write {example}")
    return None


def _bytes(clauses: Clauses) -> int | None:
    amount = _amount(clauses, "MEMORY")
    return None if amount is None else max(int(amount), 1)


def _count(clauses: Clauses, keyword: str) -> int:
    clause = clauses.found.get(keyword)
    if clause is None:
        return 0
    if re.fullmatch(r"[0-9]{1,6}", clause.text.text):
        return int(clause.text.text)
    message = f"{clause.text.text} is no number of times"
    clauses.diagnostics.error(message, clause.value_place, f"write {keyword} 2")
    return 0
