"""Parses clauses behind a set, an expression or a command: in any order, each at most once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from zenturio.annotate.diagnostics import Diagnostics
from zenturio.annotate.directive_tokens import DirectiveToken, tokens, unclosed, unquote
from zenturio.annotate.value_syntax import read_text
from zenturio.errors import AnnotationError, InputError, Passage, Place, did_you_mean

T = TypeVar("T", bound=str)
Shape = Literal["flag", "name", "names", "text", "value", "amount", "expression"]

SHAPES: Mapping[str, Shape] = {
    "AS": "name",
    "TYPE": "name",
    "UNIT": "text",
    "DEFAULT": "value",
    "WHEN": "expression",
    "IN": "text",
    "MATCH": "name",
    "OPTIONAL": "flag",
    "EXACT": "flag",
    "BEGIN": "flag",
    "TIMEOUT": "amount",
    "RETRY": "amount",
    "CPUS": "expression",
    "MEMORY": "amount",
    "SEED": "name",
    "FROM": "name",
    "REGEX": "text",
    "JSON": "text",
    "CSV": "flag",
    "COLUMN": "name",
    "TAKE": "name",
    "PMETRIC": "names",
    "ON": "names",
}
_OPERATORS = frozenset({"AND", "OR", "NOT", "IN", "IF", "ELSE"})
_AMOUNT = re.compile(r"\S+(?:\s+(?:ns|us|ms|s|min|h|d|B|[KMGTP]i?B)\b)?")


@dataclass(frozen=True, slots=True)
class Clause:
    """What stands behind a clause's keyword; *text* is without quotes, its places are right."""

    text: Passage
    place: Place
    """Of the keyword."""
    names: tuple[Passage, ...] = ()

    @property
    def value_place(self) -> Place:
        return self.text.place(0, len(self.text.text)) if self.text.text else self.place


class Clauses:
    """Reads clauses and collects what is wrong with them."""

    def __init__(
        self, passage: Passage, head: str, known: tuple[str, ...], diagnostics: Diagnostics
    ) -> None:
        self.passage = passage
        self.head = head
        self.known = known
        self.found: dict[str, Clause] = {}
        self.diagnostics = diagnostics

    def read(self, start: int) -> Clauses:
        """Read all clauses from *start* to the end of the directive."""
        at = start
        while (token := next(tokens(self.passage.text, at), None)) is not None:
            try:
                at = self.clause(token)
            except InputError as error:
                self.diagnostics.errors += error.diagnostics
                at = self.resume(token.end)
        return self

    def resume(self, start: int) -> int:
        """Where the next known clause begins behind a mistake."""
        text = self.passage.text
        known = (t for t in tokens(text, start) if t.upper() in self.known)
        around = ((t, text[t.start - 1] + text[t.end : t.end + 1]) for t in known)
        return next((t.start for t, beside in around if not beside.strip()), len(text))

    def clause(self, token: DirectiveToken) -> int:
        keyword = token.upper()
        if keyword not in self.known:
            raise self.unknown(token)
        place = self.passage.place(token.start, token.end)
        end, clause = self.content(keyword, place, token.end)
        if keyword in self.found:
            raise AnnotationError(f"{keyword} stands twice", place=place, hint="leave one of them")
        self.found[keyword] = clause
        return end

    def content(self, keyword: str, place: Place, start: int) -> tuple[int, Clause]:
        match SHAPES[keyword]:
            case "flag":
                return start, Clause(Passage(""), place)
            case "names":
                names, end = self.names(start, keyword)
                return end, Clause(Passage(""), place, names)
            case "expression":
                end = expression_end(self.passage.text, start, self.known)
                text = self.passage.cut(start, end).strip()
                self.need(text.text, keyword, start, "an expression")
                return end, Clause(text, place)
            case "value":
                value = read_text(self.passage, start)
                self.need(value.end > value.start, keyword, start, "a value")
                return value.end, Clause(self.passage.cut(value.start, value.end), place)
            case "amount":
                at = len(self.passage.text) - len(self.passage.text[start:].lstrip())
                found = _AMOUNT.match(self.passage.text, at)
                self.need(found, keyword, start, "a number")
                end = found.end() if found else at
                return end, Clause(self.passage.cut(at, end), place)
            case "text" | "name" as shape:
                text, end = self.word(start, keyword, quoted=shape == "text")
                return end, Clause(text, place)

    def word(self, start: int, keyword: str, *, quoted: bool) -> tuple[Passage, int]:
        """A quoted text, or else (where that is allowed) a bare word."""
        what = "a quoted text" if quoted else "a word"
        token = next(tokens(self.passage.text, start), None)
        self.need(token, keyword, start, what)
        assert token is not None
        text = self.passage.cut(token.start, token.end)
        if token.kind in ("text", "name"):
            inner = unquote(text)
            self.need(inner.text or quoted, keyword, start, what)
            return inner, token.end
        if token.text in "\"'":
            raise unclosed(self.passage, token)
        end = self.behind(token.start)
        if token.kind == "sign" or quoted or end > token.end:
            bare = self.passage.text[token.start : end]
            raise AnnotationError(
                f"{keyword} needs {what}" if quoted else f"{bare} has to be quoted",
                place=self.passage.place(token.start, end),
                hint=f'write {keyword} "{bare}"',
            )
        return text, token.end

    def behind(self, start: int) -> int:
        """Where the bare word that begins at *start* ends: at white space or a comma."""
        found = re.compile(r"[^\s,]+").match(self.passage.text, start)
        return found.end() if found else start + 1

    def names(self, start: int, keyword: str) -> tuple[tuple[Passage, ...], int]:
        """Words with commas between them."""
        found: list[Passage] = []
        at = start
        while True:
            name, at = self.word(at, keyword, quoted=False)
            found.append(name)
            comma = next(tokens(self.passage.text, at), None)
            if comma is None or comma.text != ",":
                return tuple(found), at
            at = comma.end

    def need(self, found: object, keyword: str, at: int, what: str) -> None:
        if not found:
            raise AnnotationError(
                f"{keyword} needs {what}",
                place=self.passage.place(max(at - len(keyword), 0), at),
                hint=_EXAMPLES[keyword],
            )

    def unknown(self, token: DirectiveToken) -> AnnotationError:
        place = self.passage.place(token.start, token.end)
        keyword = token.upper()
        allowed = ", ".join(self.known)
        if keyword in SHAPES:
            hint = f"{self.head} knows {allowed}" if allowed else f"{self.head} ends here"
            return AnnotationError(
                f"{keyword} does not go with {self.head}", place=place, hint=hint
            )
        if token.kind == "sign" and token.text in "\"'":
            return unclosed(self.passage, token)
        near = did_you_mean(token.text, self.known)
        hint = near if near.startswith("did") else f"here may stand: {allowed}"
        if not allowed:
            hint = f"{self.head} ends here"
        return AnnotationError(f"{token.text} is not expected here", place=place, hint=hint)

    def text(self, keyword: str) -> str | None:
        """The text of a clause, if it is there."""
        clause = self.found.get(keyword)
        return clause.text.text if clause else None

    def choice(self, keyword: str, choices: tuple[T, ...]) -> T | None:
        """The word behind *keyword*, in any case; a diagnostic where it is none of *choices*."""
        clause = self.found.get(keyword)
        return self.chosen(keyword, clause.text, choices) if clause else None

    def chosen(self, keyword: str, word: Passage, choices: tuple[T, ...]) -> T | None:
        """The one of *choices* that *word* is."""
        for choice in choices:
            if choice.casefold() == word.text.casefold():
                return choice
        place = word.place(0, len(word.text))
        shown = [choice.upper() if keyword == "MATCH" else choice for choice in choices]
        near = did_you_mean(word.text, shown)
        self.diagnostics.error(f"{keyword} {word.text} is not known", place, near)
        return None


def expression_end(text: str, start: int, known: tuple[str, ...]) -> int:
    """Where the expression that begins at *start* ends and a clause begins.

    No expression has two operands side by side: a word or text right behind an operand is
    outside. ``IN "…"`` is the clause where the directive has one; ``(x in "…")`` is the test.
    """
    depth, operand = 0, False
    found = list(tokens(text, start))
    for at, token in enumerate(found):
        depth += (token.text in "([") - (token.text in ")]") if token.kind == "sign" else 0
        if operand and depth == 0 and token.kind != "sign":
            behind = found[at + 1].kind if at + 1 < len(found) else "sign"
            clause = token.upper() == "IN" and "IN" in known and behind == "text"
            if clause or token.upper() not in _OPERATORS:
                return token.start
        operand = token.is_operand
    return len(text)


_EXAMPLES = {
    "AS": "AS threads",
    "TYPE": "TYPE int, real, str or bool",
    "UNIT": 'UNIT "s"',
    "DEFAULT": 'DEFAULT 1, or DEFAULT "two words"',
    "WHEN": "WHEN solver == 'cg'",
    "IN": 'IN "*.c"',
    "MATCH": "MATCH WORD, TEXT or REGEX",
    "TIMEOUT": "TIMEOUT 30s",
    "RETRY": "RETRY 2",
    "CPUS": "CPUS 4",
    "MEMORY": "MEMORY 512MB",
    "SEED": "SEED seed",
    "FROM": 'FROM stdout, FROM stderr, or FROM "results.csv"',
    "REGEX": r'REGEX "time = (\S+)"',
    "JSON": 'JSON "$.time"',
    "COLUMN": "CSV COLUMN time",
    "TAKE": "TAKE last",
    "PMETRIC": "PMETRIC WTIME, CTIME, MAXRSS",
    "ON": "ON n, threads",
}
