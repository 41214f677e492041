"""The syntax of sets: ``{ a, "b, c", 1:10, node{1:2}-{a,b}, LINES("hosts.txt") }``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from zenturio.annotate.clauses import TextReader, WrittenText
from zenturio.errors import AnnotationError, Passage

CALLS = {
    "LIN": "LIN(first, last, how many)",
    "LOG": "LOG(first, last, how many)",
    "LINES": 'LINES("file")',
    "GLOB": 'GLOB("pattern")',
    "UNIFORM": "UNIFORM(low, high)",
    "LOGUNIFORM": "LOGUNIFORM(low, high)",
}
DEEPEST = 20
EFFORT = 3_000_000

NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_CALL = re.compile(r"(\w+)\s*\(")
_PAIRS = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[()]""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class WrittenRange:
    """``first:last:stride`` or ``first:last:*factor``; a bound in parentheses is an expression."""

    first: Passage
    last: Passage
    stride: Passage | None
    factor: bool
    start: int
    end: int

    @property
    def bounds(self) -> tuple[Passage, ...]:
        return tuple(b for b in (self.first, self.last, self.stride) if b is not None)


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """``LIN(…)`` and its like: the name in capitals and the arguments as written."""

    name: str
    arguments: tuple[Passage, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class WrittenConcatenation:
    """Texts and groups one behind the other: ``node{1:2}-{a,b}``."""

    parts: tuple[str | WrittenElements, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class WrittenElements:
    """What stands between two braces."""

    items: tuple[WrittenText | WrittenRange | WrittenCall | WrittenConcatenation, ...]
    start: int
    end: int


Item = WrittenText | WrittenRange | WrittenCall | WrittenConcatenation


def read_elements(passage: Passage, start: int = 0) -> WrittenElements:
    """The set whose ``{`` stands at *start*; its ``end`` is behind the ``}``."""
    return _Reader(passage, start).elements()


class _Reader(TextReader):
    """Reads a set forward, element by element."""

    def __init__(self, passage: Passage, at: int) -> None:
        super().__init__(passage, at)
        self.depth = 0
        self.effort = 0

    def elements(self) -> WrittenElements:
        start, self.depth = self.at, self.depth + 1
        if self.depth > DEEPEST:
            hint = f"at most {DEEPEST} braces inside each other"
            raise self.error("the braces are nested too deep", start, start + 1, hint)
        self.at += 1
        self.skip()
        if self.next() == "}":
            hint = 'at least one element, as { 1, 2 }; the empty text is written ""'
            raise self.error("the set is empty", start, self.at + 1, hint)
        items = [self.item(start)]
        while self.next() == ",":
            self.at += 1
            items.append(self.item(start))
        if self.next() != "}":
            raise self.open(start)
        self.at += 1
        self.depth -= 1
        return WrittenElements(tuple(items), start, self.at)

    def open(self, start: int) -> AnnotationError:
        hint = "a } behind the last element"
        return self.error("the set is not closed: its } is missing", start, start + 1, hint)

    def item(self, opening: int) -> Item:
        """The next element, up to its comma or brace."""
        self.skip()
        if not self.next():
            raise self.open(opening)
        if self.next() in ",}":
            hint = 'one comma between two elements; the empty text is written ""'
            raise self.error("an element is missing here", self.at, self.at + 1, hint)
        # Ranges and calls first: what is neither is a text, such as 10:30 pm or f(x).
        item = self.range() or self.call()
        if item:
            return item
        return self.joined()

    def range(self) -> WrittenRange | None:
        start = self.at
        bounds = self.bounds()
        self.skip()
        # Back to its start: 1:2-a begins as a range, but is a text.
        if bounds is None or self.next() not in (",", "}"):
            self.at = start
            return None
        first, last, stride, factor = bounds
        return WrittenRange(first, last, stride, factor, start, self.at)

    def bounds(self) -> tuple[Passage, Passage, Passage | None, bool] | None:
        first = self.bound()
        if first is None or not self.take(":"):
            return None
        last = self.bound()
        if last is None:
            return None
        if not self.take(":"):
            return first, last, None, False
        factor = self.take("*")
        stride = self.bound()
        return (first, last, stride, factor) if stride is not None else None

    def take(self, sign: str) -> bool:
        self.skip()
        if self.next() != sign:
            return False
        self.at += 1
        return True

    def bound(self) -> Passage | None:
        """A number, or an expression in parentheses; nothing where neither stands."""
        self.skip()
        start = self.at
        if self.next() == "(":
            end = self.closing(start)
        else:
            match = NUMBER.match(self.text, start)
            end = match.end() if match else None
        if end is None:
            return None
        self.at = end
        return self.passage.cut(start, end)

    def closing(self, start: int) -> int | None:
        """Behind the parenthesis that closes the one at *start*; nothing if none does."""
        depth, end = 0, None
        for match in _PAIRS.finditer(self.text, start):
            depth += {"(": 1, ")": -1}.get(match[0], 0)
            if depth == 0:
                end = match.end()
                break
        # Each element may look for a far parenthesis: the sum of it is bounded.
        self.effort += (end or len(self.text)) - start
        if self.effort > EFFORT:
            hint = "quotes around each text that holds one"
            raise self.error("too many parentheses in a set", start, start + 1, hint)
        return end

    def call(self) -> WrittenCall | None:
        match = _CALL.match(self.text, self.at)
        if not match or match[1].upper() not in CALLS:
            return None
        start, name = self.at, match[1].upper()
        end = self.closing(match.end() - 1)
        if end is None:
            hint = f"write {CALLS[name]}"
            raise self.error(f"{name}( is not closed", start, match.end(), hint)
        arguments = _arguments(self.passage.cut(match.end(), end - 1))
        self.at = end
        self.skip()
        if self.next() not in (",", "}", ""):
            hint = f"a comma, or quotes around the whole if {name} is not a function here"
            raise self.error(f"{name}(…) stands alone", self.at, self.at + 1, hint)
        return WrittenCall(name, arguments, start, end)

    def joined(self) -> WrittenText | WrittenConcatenation:
        """A quoted text, a bare word, or several parts with groups between them."""
        start = self.at
        parts: list[str | WrittenElements] = []
        if self.next() in ('"', "'"):
            parts.append(self.quoted())
            self.after_quote()
        while self.next() not in ("", ",", "}"):
            parts.append(self.elements() if self.next() == "{" else self.bare())
        end = self.at
        if isinstance(parts[-1], str) and not (len(parts) == 1 and self.text[start] in "\"'"):
            end = start + len(self.text[start:end].rstrip())
        if len(parts) == 1 and isinstance(parts[0], str):
            return WrittenText(parts[0], start, end)
        return WrittenConcatenation(tuple(p for p in parts if p != ""), start, end)

    def after_quote(self) -> None:
        behind = self.at
        self.skip()
        if self.next() in ("", ",", "}"):
            return
        # A group may touch the quote; behind a blank it would be another element without a comma.
        if self.next() == "{" and self.at == behind:
            return
        hint = 'a comma between two elements; a quote inside a quoted text is written \\"'
        raise self.error("the text goes on behind its closing quote", self.at, self.at + 1, hint)


def _arguments(passage: Passage) -> tuple[Passage, ...]:
    """The parts between the commas; a comma inside quotes or parentheses parts nothing."""
    cuts, depth = [0], 0
    for match in re.finditer(_PAIRS.pattern + "|,", passage.text, re.DOTALL):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if match[0] == "," and depth == 0:
            cuts.append(match.end())
    ends = [*(cut - 1 for cut in cuts[1:]), len(passage.text)]
    return tuple(passage.cut(a, b).strip() for a, b in zip(cuts, ends, strict=True))
