"""Sets of values as directives, files and folders give them, and the types of their elements."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from zenturio.annotate.clauses import Diagnostics, TextReader, WrittenText, unquote
from zenturio.annotate.patterns import MOST_ENTRIES, PathPattern, TooManyEntries
from zenturio.errors import AnnotationError, InputError, Passage, Place, SpaceError, did_you_mean
from zenturio.expression import Expression, Type, Value, parse, text_of
from zenturio.space.domain import (
    Continuous,
    Domain,
    Elements,
    arithmetic,
    geometric_texts,
    kind_of,
    linear,
    logarithmic,
    read,
    shared_type,
)
from zenturio.space.parameter import Dependent, concatenation, typed

# Syntax: ``{ a, "b, c", 1:10, node{1:2}-{a,b}, LINES("hosts.txt") }``

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
    """Return the set whose ``{`` stands at *start*; its ``end`` is behind the ``}``."""
    return _SetSyntaxReader(passage, start).elements()


class _SetSyntaxReader(TextReader):
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
            hint = 'write at least one element, as in { 1, 2 }; write "" for an empty text'
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
        hint = "write } after the last element"
        return self.error("the set is not closed: its } is missing", start, start + 1, hint)

    def item(self, opening: int) -> Item:
        """Return the next element, up to its comma or brace."""
        self.skip()
        if not self.next():
            raise self.open(opening)
        if self.next() in ",}":
            hint = 'write one comma between two elements; write "" for an empty text'
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
        """Return a number, or an expression in parentheses; nothing where neither stands."""
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
            hint = "put quotes around each text that contains a parenthesis"
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
            hint = (
                f"write a comma, or put quotes around the element if {name} is not a function here"
            )
            raise self.error(f"{name}(…) stands alone", self.at, self.at + 1, hint)
        return WrittenCall(name, arguments, start, end)

    def joined(self) -> WrittenText | WrittenConcatenation:
        """Return a quoted text, a bare word, or several parts with groups between them."""
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
        hint = 'write a comma between two elements; write \\" for a quote inside a quoted text'
        raise self.error(
            "the element continues after its closing quote", self.at, self.at + 1, hint
        )


def _arguments(passage: Passage) -> tuple[Passage, ...]:
    """Return the parts between the commas; a comma inside quotes or parentheses parts nothing."""
    cuts, depth = [0], 0
    for match in re.finditer(_PAIRS.pattern + "|,", passage.text, re.DOTALL):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if match[0] == "," and depth == 0:
            cuts.append(match.end())
    ends = [*(cut - 1 for cut in cuts[1:]), len(passage.text)]
    return tuple(passage.cut(a, b).strip() for a, b in zip(cuts, ends, strict=True))


# Elements with their types, from directives, files and folders

_BASED = re.compile(r"[+-]?0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_FORTRAN = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))[dD]([+-]?[0-9]+)")
_BOOLS = {
    **dict.fromkeys(("true", "yes", "on", "1", ".true."), True),
    **dict.fromkeys(("false", "no", "off", "0", ".false."), False),
}
_HINTS = {
    "bool": "use true or false, yes or no, on or off, 1 or 0, .true. or .false.",
    "int": "write a whole number, such as 16 or 0x10; otherwise use TYPE real or TYPE str",
    "real": "write a number, such as 0.5 or 1e-3; otherwise use TYPE str",
}


@dataclass(frozen=True, slots=True)
class LocatedElement:
    """An element's text, where it is written, and words for where it comes from."""

    text: str
    place: Place
    origin: str = ""


def reading(text: str, kind: Type) -> Value:
    """What *text* stands for in a set of TYPE *kind*; SpaceError if it is not a value."""
    if kind == "bool":
        if text.casefold() not in _BOOLS:
            raise SpaceError(f"{text!r} is not a bool", hint=_HINTS[kind])
        return _BOOLS[text.casefold()]
    if kind == "int" and _BASED.fullmatch(text):
        return int(text, 0)
    if kind == "real" and (fortran := _FORTRAN.fullmatch(text)):
        return read(f"{fortran[1]}e{fortran[2]}", kind)
    return read(text, kind)


def listed(entries: Sequence[LocatedElement], type: Type | None) -> Domain:  # noqa: A002
    """Return the set of these texts; their type is what they share, if *type* does not say it."""
    kind = type or shared_type(kind_of(entry.text) for entry in entries)
    values: list[Value] = []
    seen: dict[Value, LocatedElement] = {}
    for entry in entries:
        value = _value(entry, kind)
        if value in seen:
            raise _equal(seen[value], entry)
        seen[value] = entry
        values.append(value)
    return Elements(kind, tuple(entry.text for entry in entries), tuple(values))


def _value(entry: LocatedElement, kind: Type) -> Value:
    try:
        return reading(entry.text, kind)
    except SpaceError as error:
        message = error.diagnostics[0].message
        if kind != "str" and "is not" in message:
            message = f"{entry.text!r}{entry.origin} is not {'an' if kind == 'int' else 'a'} {kind}"
        hint = _HINTS.get(kind, "")
        raise AnnotationError(message, place=entry.place, hint=hint) from None


def _equal(first: LocatedElement, second: LocatedElement) -> AnnotationError:
    """Return the diagnostic about two elements that are one."""
    if first.text == second.text:
        origins = " and".join(entry.origin for entry in (first, second) if entry.origin)
        message = f"the element {first.text!r} occurs twice{origins and ':'}{origins}"
        hint = "remove one of them"
    else:
        a, b = (f"{entry.text!r}{entry.origin}" for entry in (first, second))
        message = f"the elements {a} and {b} are the same value"
        hint = "remove one of them; use TYPE str if the texts matter"
    return AnnotationError(message, place=second.place, hint=hint)


_LARGEST = 64_000_000


def lines_of(name: Passage, base: Path, place: Place) -> list[LocatedElement]:
    """Return the lines of a file without the white space around them; empty ones are left out."""
    text = _content(name, base, place)
    lines = enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1)
    filled_lines = [
        LocatedElement(line.strip(), place, f" in line {number} of {name.text}")
        for number, line in lines
        if line.strip()
    ]
    if not filled_lines:
        hint = "write one element on each line"
        raise AnnotationError(f"{name.text} has no lines: the set is empty", place=place, hint=hint)
    return filled_lines


def _content(name: Passage, base: Path, place: Place) -> str:
    path = base / name.text
    hint = "name a text file with one element on each line"
    try:
        # Not a pipe or a device, which would be waited for, nor a file that fills the memory.
        if path.is_file() and path.stat().st_size <= _LARGEST:
            # A byte order mark would become part of the first element.
            return path.read_bytes().decode("utf-8-sig")
        reason = "the file is too large" if path.is_file() else ""
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    except (OSError, ValueError) as error:
        reason = str(error)
    if not reason:
        raise _missing(name, base, place)
    raise AnnotationError(f"{name.text} cannot be read: {reason}", place=place, hint=hint)


def _missing(name: Passage, base: Path, place: Place) -> AnnotationError:
    folder = (base / name.text).parent
    try:
        names = [entry.name for entry in folder.iterdir() if not entry.name.startswith(".")]
    except OSError:
        message, hint = f"there is no folder {folder}", f"paths are relative to {base}"
    else:
        message = f"there is no file {name.text} in {base}"
        hint = did_you_mean(Path(name.text).name, names)
    return AnnotationError(message, place=place, hint=hint)


def folder_entries(pattern: Passage, base: Path, place: Place) -> list[LocatedElement]:
    """The paths that match, as the pattern writes them, sorted; hidden ones only if it says so."""
    try:
        names = {name.replace("\\", "/") for name in PathPattern(str(base)).matches(pattern.text)}
    except TooManyEntries:
        message = f"{pattern.text} searches more than {MOST_ENTRIES:,} files"
        hint = "name the folder more precisely"
        raise AnnotationError(message, place=place, hint=hint) from None
    except (OSError, ValueError, RecursionError):
        names = set()
    if not names:
        hint = f"paths are relative to {base}; a pattern looks like data/*.csv"
        message = f"nothing matches {pattern.text}: the set is empty"
        raise AnnotationError(message, place=place, hint=hint)
    if unreadable := [name for name in names if not _is_text(name)]:
        message = f"{unreadable[0]!a} is not a name in UTF-8"
        raise AnnotationError(message, place=place, hint="rename the file")
    # Sorted: the order of a folder differs by file system, and positions depend on it.
    return [LocatedElement(name, place, f" in {pattern.text}") for name in sorted(names)]


def _is_text(name: str) -> bool:
    """Return whether a file's name can be written into a file."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


MOST = 1_000_000
"""Elements of a set that has several kinds of elements."""

LISTED = 1024
"""A set of so many elements is kept element by element."""

_ALONE = "use a separate parameter for it"


def read_set(passage: Passage, base: Path, type: Type | None = None) -> Domain:  # noqa: A002
    """Return the set that *passage* writes; files that it names are sought from *base*."""
    written = read_elements(passage)
    behind = passage.cut(written.end, len(passage.text)).strip()
    if behind.text:
        place = behind.place(0, len(behind.text))
        hint = "a set must end with }"
        raise AnnotationError("there is text after the set", place=place, hint=hint)
    return _Builder(passage, base, type).whole(written)


def file_names(passage: Passage) -> Iterator[tuple[Passage, bool]]:
    """Yield the files and patterns that the set *passage* reads; the flag tells a pattern."""
    with suppress(AnnotationError):  # a set that is wrong has been complained about
        for item in read_elements(passage).items:
            if isinstance(item, WrittenCall) and item.name in ("LINES", "GLOB") and item.arguments:
                yield _file_name(item), item.name == "GLOB"


def _file_name(item: WrittenCall) -> Passage:
    argument = item.arguments[0]
    return unquote(argument) if argument.text[:1] in {'"', "'"} else argument


@dataclass(frozen=True)
class _Builder:
    passage: Passage
    base: Path
    type: Type | None

    def error(self, message: str, item: Item | WrittenElements, hint: str) -> AnnotationError:
        place = self.passage.place(item.start, item.end)
        return AnnotationError(message, place=place, hint=hint)

    @contextmanager
    def placed(self, item: Item | WrittenElements) -> Iterator[None]:
        """Diagnostics of the space, which knows no places, get that of *item*."""
        try:
            yield
        except SpaceError as error:
            diagnostic = error.diagnostics[0]
            hint = diagnostic.hint or "use a smaller set, or write it in another way"
            raise self.error(diagnostic.message, item, hint) from None

    def whole(self, written: WrittenElements) -> Domain:
        """Return the domain of a whole set, in the type that TYPE says."""
        if len(written.items) > 1 or isinstance(written.items[0], WrittenText):
            return self.union(written, self.type)
        item = written.items[0]
        domain = (
            self.lazy(item)
            if isinstance(item, WrittenConcatenation)
            else self.item(item, alone=True)
        )
        if domain is None:
            return self.union(written, self.type)
        if self.type is None or self.type == domain.type:
            return domain
        if isinstance(domain, Dependent) and self.type == "real":
            return replace(domain, type="real")
        if isinstance(domain, Continuous | Dependent):
            message = f"TYPE {self.type} does not fit this set of {domain.type} numbers"
            raise self.error(message, item, "leave TYPE away")
        if domain.size <= LISTED:
            return self.union(written, self.type)
        with self.placed(item):
            return typed(domain, self.type)

    def union(self, written: WrittenElements, type: Type | None) -> Domain:  # noqa: A002
        """All elements of several items, one by one; equal ones are named with their places."""
        diagnostics = Diagnostics()
        entries: list[LocatedElement] = []
        for item in written.items:
            with diagnostics.gather():
                place = self.passage.place(item.start, item.end)
                entries += (
                    LocatedElement(text, place, origin) for text, origin in self.texts(item)
                )
        diagnostics.close()
        return listed(entries, type)

    def texts(self, item: Item) -> Iterator[tuple[str, str]]:
        """Yield the texts of one item, each with where it comes from if that is not seen."""
        if isinstance(item, WrittenText):
            yield item.text, ""
            return
        origin = f" in {' '.join(self.passage.text[item.start : item.end].split())}"
        if isinstance(item, WrittenConcatenation):
            groups = [[p] if isinstance(p, str) else self.group(p).texts() for p in item.parts]
            self.few(item, math.prod(map(len, groups)))
            yield from (("".join(parts), origin) for parts in product(*groups))
            return
        domain = self.item(item)
        self.few(item, domain.size)
        yield from ((text, origin) for text in domain.texts())

    def few(self, item: Item, size: int) -> None:
        if size > MOST:
            raise self.error(
                f"{size:,} elements are too many together with other elements", item, _ALONE
            )

    def item(self, item: WrittenRange | WrittenCall, *, alone: bool = False) -> Domain:
        if isinstance(item, WrittenRange):
            return self.range(item, alone=alone)
        return self.call(item, alone=alone)

    def lazy(self, item: WrittenConcatenation) -> Domain | None:
        """Return a concatenation that is too long to be listed; nothing if it is short."""
        parts = [part if isinstance(part, str) else self.group(part) for part in item.parts]
        if math.prod(part.size for part in parts if not isinstance(part, str)) <= LISTED:
            return None
        with self.placed(item):
            return concatenation(parts)

    def group(self, written: WrittenElements) -> Domain:
        """Return the set within an element; its own type is its own, TYPE concerns the whole."""
        item = written.items[0]
        if len(written.items) > 1 or isinstance(item, WrittenText):
            return self.union(written, "str")
        if isinstance(item, WrittenConcatenation):
            return self.lazy(item) or self.union(written, "str")
        return self.item(item)

    def range(self, item: WrittenRange, *, alone: bool) -> Domain:
        bounds: list[str | Expression] = [self.bound(bound) for bound in item.bounds]
        plain = [bound for bound in bounds if isinstance(bound, str)]
        if len(plain) < len(bounds):
            return self.dependent(item, bounds, alone=alone)
        if item.stride is None and _goes_down(*plain):
            message = f"{plain[0]}:{plain[1]} goes down, but without a stride a range goes up by 1"
            raise self.error(message, item, f"write {plain[0]}:{plain[1]}:-1, or swap the bounds")
        with self.placed(item):
            if item.factor:
                return geometric_texts(*plain)
            return arithmetic(*plain)

    def dependent(
        self, item: WrittenRange, bounds: Sequence[str | Expression], *, alone: bool
    ) -> Domain:
        if not alone:
            message = "a range whose bounds depend on other parameters must be alone in its set"
            raise self.error(message, item, _ALONE)
        with self.placed(item):
            first, last, stride = (*bounds, "1")[:3]
            return Dependent(first, last, stride, geometric=item.factor)

    def bound(self, bound: Passage) -> str | Expression:
        """Return a number as written, or an expression over other parameters."""
        if not bound.text.startswith("("):
            return bound.text
        expression = parse(bound)
        if expression.names or expression.indexed or expression.host_names:
            return expression
        value = expression.value({})
        if isinstance(value, bool) or not isinstance(value, int | float):
            place = bound.place(0, len(bound.text))
            hint = "write a number, or an expression that gives one, such as (n/2)"
            raise AnnotationError("this bound is not a number", place=place, hint=hint)
        return text_of(value)

    def call(self, item: WrittenCall, *, alone: bool) -> Domain:
        want = CALLS[item.name].count(",") + 1
        if len(item.arguments) != want or not all(a.text for a in item.arguments):
            count_of_arguments = sum(bool(a.text) for a in item.arguments)
            message = (
                f"{item.name} takes {want} argument{'s' * (want > 1)}, not {count_of_arguments}"
            )
            hint = f"write {CALLS[item.name]}; for the text itself, put it in quotes"
            raise self.error(message, item, hint)
        if item.name in ("LINES", "GLOB"):
            return self.from_paths(item)
        if item.name in ("LIN", "LOG"):
            return self.spread(item)
        return self.continuous(item, alone=alone)

    def from_paths(self, item: WrittenCall) -> Domain:
        """LINES and GLOB: what is on the disk now."""
        name = _file_name(item)
        place = name.place(0, len(name.text))
        if item.name == "LINES":
            return listed(lines_of(name, self.base, place), None)
        return listed(folder_entries(name, self.base, place), None)

    def spread(self, item: WrittenCall) -> Domain:
        first, last, count = item.arguments
        low, high = self.number(first), self.number(last)
        number = self.number(count)
        if not number.isdigit() or len(number) > 7 or int(number) > MOST:
            place = count.place(0, len(count.text))
            hint = f"write {CALLS[item.name]}: a whole number, {MOST:,} at most"
            raise AnnotationError(f"{count.text} is not a number of points", place=place, hint=hint)
        with self.placed(item):
            return (linear if item.name == "LIN" else logarithmic)(low, high, int(number))

    def continuous(self, item: WrittenCall, *, alone: bool) -> Domain:
        if not alone:
            message = f"{item.name} has no elements that can be listed: it must be alone in its set"
            raise self.error(message, item, _ALONE)
        low, high = (float(self.number(argument)) for argument in item.arguments)
        if math.isinf(low) or math.isinf(high):
            raise self.error("a bound is beyond every real number", item, "as 1e300")
        with self.placed(item):
            return Continuous(low, high, log=item.name == "LOGUNIFORM")

    def number(self, argument: Passage) -> str:
        """Return a number as written, or a constant expression such as ``10**-6`` or ``2*3``."""
        return argument.text if NUMBER.fullmatch(argument.text) else self.constant(argument)

    def constant(self, argument: Passage) -> str:
        try:
            value = parse(argument).value({})
        except InputError:
            value = None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return text_of(value)
        place = argument.place(0, len(argument.text))
        hint = "write a plain number, such as 0.5 or 1e-6"
        raise AnnotationError(f"{argument.text} is not a number", place=place, hint=hint)


def _goes_down(first: str, last: str) -> bool:
    """Return whether the second of two numbers is the smaller one."""
    return float(first) > float(last)
