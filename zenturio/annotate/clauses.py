"""Clauses of a directive: tokens, quoted texts and keywords; and the diagnostics of a scan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, TypeVar

from zenturio.errors import AnnotationError, Diagnostic, InputError, Passage, Place, did_you_mean

# Diagnostics of a scan, collected so that they are reported together


@dataclass
class Diagnostics:
    """The errors and warnings found so far."""

    errors: list[Diagnostic] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)

    def error(self, message: str, place: Place | None, hint: str) -> None:
        self.errors.append(Diagnostic(message, place, hint))

    def warn(self, message: str, place: Place | None, hint: str) -> None:
        self.warnings.append(Diagnostic(message, place, hint, severity="warning"))

    def gather(self) -> ErrorCollector:
        """Collect the errors that the block raises, and continue after it."""
        return ErrorCollector(self)

    def close(self) -> None:
        """Raise all errors as one, if there are any; a warning beside them may say why."""
        if self.errors:
            raise AnnotationError.all([*self.errors, *self.warnings])


@dataclass(frozen=True, slots=True)
class ErrorCollector:
    """A ``with`` whose block may end early, in diagnostics."""

    diagnostics: Diagnostics

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if isinstance(error, InputError):
            self.diagnostics.errors += error.diagnostics
            return True
        return False


# Tokens, texts, and the clauses that they make

Kind = Literal["word", "text", "name", "sign"]

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
  | (?P<name>`(?:[^`]|``)*`)
  | (?P<word>\w+)
  | (?P<sign>:=|\\.|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_OPERATORS = frozenset({"AND", "OR", "NOT", "IN", "IF", "ELSE"})


@dataclass(frozen=True, slots=True)
class DirectiveToken:
    """A word, a quoted text, a name in backticks, or a sign."""

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def is_operand(self) -> bool:
        """Whether an expression may end with this token: no operand can follow it directly."""
        if self.kind == "word":
            return self.upper() not in _OPERATORS
        return self.kind != "sign" or self.text in ")]"

    def upper(self) -> str:
        """Return the word as a keyword is compared; nothing for what is no word."""
        return self.text.upper() if self.kind == "word" else ""


def tokens(text: str, start: int = 0) -> Iterator[DirectiveToken]:
    """Yield the tokens of *text* from *start* on; white space parts them and is left out."""
    for match in _TOKEN.finditer(text, start):
        match match.lastgroup:
            case "text" | "name" | "word" | "sign" as kind:
                yield DirectiveToken(kind, match[0], match.start(), match.end())
            case _:
                pass


def unquote(passage: Passage) -> Passage:
    r"""Return the text between the quotes literally: only ``\"`` is an escape."""
    quote = passage.text[0]
    inner = passage.cut(1, len(passage.text) - 1)
    spans: list[tuple[int, int]] = []
    start = 0
    for escape in re.finditer(r"\\.", inner.text, re.DOTALL):
        # All other escapes stay: in a command, a pattern or a path the backslash is part of the
        # text.
        if escape[0][1] == quote:
            spans.append((start, escape.start()))
            start = escape.start() + 1
    return join(inner, [*spans, (start, len(inner.text))])


def join(passage: Passage, spans: list[tuple[int, int]]) -> Passage:
    """Return the parts of *passage* within *spans* as one passage whose places stay right."""
    text, pieces = "", []
    for start, end in spans:
        part = passage.cut(start, end)
        pieces += [(len(text) + offset, place) for offset, place in part.pieces]
        text += part.text
    return Passage(text, tuple(pieces))


def unclosed(passage: Passage, token: DirectiveToken) -> AnnotationError:
    """Return the diagnostic about a quote without its partner."""
    return AnnotationError(
        f"the quote {token.text} is not closed",
        place=passage.place(token.start, token.end),
        hint=f"write a second {token.text} where the text ends",
    )


_SPACE = re.compile(r"\s*")
_BARE = re.compile(r"[^,{}\\]+")
_WORD = re.compile(r"[^\s\\]+")
_INSIDE = {'"': re.compile(r'[^"\\]+'), "'": re.compile(r"[^'\\]+")}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_CODES = {"x": 2, "u": 4, "U": 8}


@dataclass(frozen=True, slots=True)
class WrittenText:
    """A bare word or a quoted text, its escapes read."""

    text: str
    start: int
    end: int


def read_text(passage: Passage, start: int = 0) -> WrittenText:
    """Return a single value, quoted or up to the next white space, with the escapes of elements."""
    return TextReader(passage, start).value()


def write_text(text: str) -> str:
    """Return *text* as one element of a set: bare where that is safe, else quoted."""
    if re.fullmatch(r"[\w.+/@%=-]+", text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    for letter, character in _ESCAPES.items():
        escaped = escaped.replace(character, f"\\{letter}")
    return f'"{_visible(escaped)}"'


def _visible(text: str) -> str:
    """Characters that would end a line somewhere, or that are invisible, as codes."""
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in text)


class TextReader:
    """Reads forward through one passage; ``at`` is the next character."""

    def __init__(self, passage: Passage, at: int) -> None:
        self.passage = passage
        self.text = passage.text
        self.at = at

    def error(self, message: str, start: int, end: int, hint: str) -> AnnotationError:
        return AnnotationError(message, place=self.passage.place(start, end), hint=hint)

    def skip(self) -> None:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def next(self) -> str:
        return self.text[self.at : self.at + 1]

    def quoted(self) -> str:
        start, quote = self.at, self.next()
        self.at += 1
        parts: list[str] = []
        while (character := self.next()) != quote:
            if not character:
                hint = f"write a second {quote} where the text ends"
                raise self.error(f"the quote {quote} is not closed", start, start + 1, hint)
            parts.append(self.escape() if character == "\\" else self.run(_INSIDE[quote]))
        self.at += 1
        return "".join(parts)

    def bare(self, run: re.Pattern[str] = _BARE) -> str:
        """Return a bare part; white space before the end of the element is not part of it."""
        parts: list[str] = []
        while self.next() == "\\" or run.match(self.text, self.at):
            if self.next() == "\\":
                parts.append(self.escape())
            else:
                parts.append(self.run(run))
                if self.next() in ("", ",", "}"):
                    parts[-1] = parts[-1].rstrip()
        return "".join(parts)

    def run(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        return match[0]

    def escape(self) -> str:
        r"""Return the character of an escape, ``\`` and the text that follows it."""
        start, letter = self.at, self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if letter in _CODES:
            return self.code(start, _CODES[letter])
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if not letter or letter.isalnum():
            hint = (
                f"write \\\\{letter} for a backslash; the escapes are \\n, \\t, \\r, \\xHH and "
                "\\uHHHH"
            )
            raise self.error(f"\\{letter} is not valid here", start, self.at, hint)
        return letter

    def code(self, start: int, digits: int) -> str:
        code = self.text[self.at : self.at + digits]
        self.at += digits
        number = int(code, 16) if re.fullmatch(r"[0-9a-fA-F]+", code) else -1
        # Between these are surrogates, which no encoding can write.
        if len(code) == digits and (0 <= number < 0xD800 or 0xE000 <= number < 0x110000):
            return chr(number)
        hint = f"{digits} hexadecimal digits that name a character, as \\x41 for A"
        raise self.error(f"{self.text[start : self.at]} is not a character", start, self.at, hint)

    def value(self) -> WrittenText:
        self.skip()
        start = self.at
        if self.next() in ('"', "'"):
            return WrittenText(self.quoted(), start, self.at)
        return WrittenText(self.bare(_WORD), start, self.at)


T = TypeVar("T", bound=str)
Shape = Literal["flag", "name", "names", "text", "value", "amount", "expression"]

SHAPES: Mapping[str, Shape] = {
    "AS": "name",
    "TYPE": "name",
    "UNIT": "text",
    "DEFAULT": "value",
    "WHEN": "expression",
    "WHERE": "expression",
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
    "SIZE": "flag",
    "WORDS": "flag",
    "COLUMN": "name",
    "TAKE": "name",
    "THOUSANDS": "text",
    "DECIMAL": "text",
    "PMETRIC": "names",
    "ON": "names",
    "UNTIL": "expression",
    "WITHIN": "amount",
    "WARMUP": "amount",
}
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
        self, passage: Passage, head: str, keywords: tuple[str, ...], diagnostics: Diagnostics
    ) -> None:
        self.passage = passage
        self.head = head
        self.keywords = keywords
        self.by_keyword: dict[str, Clause] = {}
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
        """Return where the next known clause begins behind a mistake."""
        text = self.passage.text
        keywords = (t for t in tokens(text, start) if t.upper() in self.keywords)
        # A keyword counts only with blanks around it: `unit=` within a text is none.
        around = ((t, text[t.start - 1] + text[t.end : t.end + 1]) for t in keywords)
        return next((t.start for t, beside in around if not beside.strip()), len(text))

    def clause(self, token: DirectiveToken) -> int:
        keyword = token.upper()
        if keyword not in self.keywords:
            raise self.unknown(token)
        place = self.passage.place(token.start, token.end)
        end, clause = self.content(keyword, place, token.end)
        if keyword in self.by_keyword:
            raise AnnotationError(f"{keyword} stands twice", place=place, hint="remove one of them")
        self.by_keyword[keyword] = clause
        return end

    def content(self, keyword: str, place: Place, start: int) -> tuple[int, Clause]:
        match SHAPES[keyword]:
            case "flag":
                return start, Clause(Passage(""), place)
            case "names":
                names, end = self.names(start, keyword)
                return end, Clause(Passage(""), place, names)
            case "expression":
                end = expression_end(self.passage.text, start, self.keywords)
                text = self.passage.cut(start, end).strip()
                self.need(text.text, keyword, start, "an expression")
                return end, Clause(text, place)
            case "value":
                value = read_text(self.passage, start)
                self.need(value.end > value.start, keyword, start, "a value")
                return value.end, Clause(self.passage.cut(value.start, value.end), place)
            case "amount":
                at = len(self.passage.text) - len(self.passage.text[start:].lstrip())
                match = _AMOUNT.match(self.passage.text, at)
                self.need(match, keyword, start, "a number")
                end = match.end() if match else at
                return end, Clause(self.passage.cut(at, end), place)
            case "text" | "name" as shape:
                text, end = self.word(start, keyword, quoted=shape == "text")
                return end, Clause(text, place)

    def word(self, start: int, keyword: str, *, quoted: bool) -> tuple[Passage, int]:
        """Return a quoted text, or else (where that is allowed) a bare word."""
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
                f"{keyword} needs {what}" if quoted else f"{bare} must be quoted",
                place=self.passage.place(token.start, end),
                hint=f'write {keyword} "{bare}"',
            )
        return text, token.end

    def behind(self, start: int) -> int:
        """Return where the bare word that begins at *start* ends: at white space or a comma."""
        match = re.compile(r"[^\s,]+").match(self.passage.text, start)
        return match.end() if match else start + 1

    def names(self, start: int, keyword: str) -> tuple[tuple[Passage, ...], int]:
        """Words with commas between them."""
        names: list[Passage] = []
        at = start
        while True:
            name, at = self.word(at, keyword, quoted=False)
            names.append(name)
            comma = next(tokens(self.passage.text, at), None)
            if comma is None or comma.text != ",":
                return tuple(names), at
            at = comma.end

    def need(self, value: object, keyword: str, at: int, what: str) -> None:
        if not value:
            raise AnnotationError(
                f"{keyword} needs {what}",
                place=self.passage.place(max(at - len(keyword), 0), at),
                hint=_EXAMPLES[keyword],
            )

    def unknown(self, token: DirectiveToken) -> AnnotationError:
        place = self.passage.place(token.start, token.end)
        keyword = token.upper()
        allowed = ", ".join(self.keywords)
        if keyword in SHAPES:
            hint = f"{self.head} knows {allowed}" if allowed else f"{self.head} ends here"
            return AnnotationError(f"{self.head} takes no {keyword}", place=place, hint=hint)
        if token.kind == "sign" and token.text in "\"'":
            return unclosed(self.passage, token)
        suggestion = did_you_mean(token.text, self.keywords)
        hint = suggestion if suggestion.startswith("did") else f"allowed here: {allowed}"
        if not allowed:
            hint = f"{self.head} ends here"
        return AnnotationError(f"{token.text} is not expected here", place=place, hint=hint)

    def text(self, keyword: str) -> str | None:
        """Return the text of a clause, if it is there."""
        clause = self.by_keyword.get(keyword)
        return clause.text.text if clause else None

    def choice(self, keyword: str, choices: tuple[T, ...]) -> T | None:
        """Return the word after *keyword*, in any case; an error if it is not one of *choices*."""
        clause = self.by_keyword.get(keyword)
        return self.chosen(keyword, clause.text, choices) if clause else None

    def chosen(
        self, keyword: str, word: Passage, choices: tuple[T, ...], similar: Iterable[str] = ()
    ) -> T | None:
        """Return the one of *choices* that *word* is; *similar*: other words that may be meant."""
        for choice in choices:
            if choice.casefold() == word.text.casefold():
                return choice
        place = word.place(0, len(word.text))
        written = [choice.upper() if keyword == "MATCH" else choice for choice in choices]
        hint = did_you_mean(word.text, [*written, *map(str.upper, similar)])
        hint = hint if hint.startswith("did") else did_you_mean(word.text, written)
        self.diagnostics.error(f"{keyword} {word.text} is unknown", place, hint)
        return None


def expression_end(text: str, start: int, keywords: tuple[str, ...]) -> int:
    """Return where the expression that begins at *start* ends and a clause begins.

    No expression has two operands side by side: a word or text right behind an operand is
    outside. ``IN "…"`` is the clause where the directive has one; ``(x in "…")`` is the test.
    """
    depth, operand = 0, False
    read_tokens = list(tokens(text, start))
    for at, token in enumerate(read_tokens):
        depth += (token.text in "([") - (token.text in ")]") if token.kind == "sign" else 0
        if operand and depth == 0 and token.kind != "sign":
            behind = read_tokens[at + 1].kind if at + 1 < len(read_tokens) else "sign"
            clause = token.upper() == "IN" and "IN" in keywords and behind == "text"
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
    "WHERE": "CSV COLUMN time WHERE n == 100",
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
    "THOUSANDS": 'THOUSANDS ","',
    "DECIMAL": 'DECIMAL ","',
    "PMETRIC": "PMETRIC WTIME, CTIME, MAXRSS",
    "ON": "ON n, threads",
    "UNTIL": "UNTIL wtime WITHIN 2%",
    "WITHIN": "WITHIN 2%",
    "WARMUP": "WARMUP 1",
}
