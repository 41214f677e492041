"""Regular expressions in bounded time, whoever wrote them and whatever the text.

RE2 matches in time linear in the length of the text. Where it cannot be installed (Python 3.15,
musl), the package *regex* matches the same patterns, with a limit of time for each search: it
backtracks. A pattern is translated for it, so that it means there what it means to RE2; what RE2
refuses is refused by both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from zenturio.errors import InputError, PlaceError

LONGEST_SECONDS = 10.0
"""Limit of one search by *regex*; far more than a sensible pattern takes. RE2 needs none."""
_MOST_REPEATS = 1000
"""RE2's own limit of a counted repetition."""


class PatternError(Exception):
    """A pattern that RE2 cannot read; the text is RE2's message."""


class SlowPatternError(InputError):
    """A search that took longer than `LONGEST_SECONDS`."""


class Match(Protocol):
    """A match of a pattern; its texts are bytes if the pattern is one for bytes."""

    def group(self, group: int = 0, /) -> Any: ...

    def span(self, group: int = 0, /) -> tuple[int, int]: ...

    def start(self) -> int: ...

    def end(self) -> int: ...

    def __getitem__(self, group: int, /) -> Any: ...


class Pattern(Protocol):
    """The methods of Python's `re.Pattern` that both packages have."""

    @property
    def groups(self) -> int: ...

    @property
    def groupindex(self) -> Mapping[Any, int]: ...

    def search(self, text: Any, /) -> Match | None: ...

    def match(self, text: Any, /) -> Match | None: ...

    def finditer(self, text: Any, /) -> Iterator[Match]: ...

    def findall(self, text: Any, /) -> list[Any]: ...

    def sub(self, replacement: Any, text: Any, /) -> Any: ...


def compile_pattern(pattern: str) -> Pattern:
    """Return *pattern*, which RE2 can read, for texts; raise PatternError if RE2 cannot."""
    if (re2 := _re2()) is None:
        return _TimedPattern(pattern)
    options = re2.Options()
    options.log_errors = False  # RE2 would write the mistake to stderr, too
    return _compiled_by_re2(re2, pattern, options)


def compile_bytes_pattern(pattern: str) -> Pattern:
    """Return *pattern* for bytes: ASCII takes each byte for a character, else they are UTF-8."""
    encoding = "latin-1" if pattern.isascii() else "utf-8"
    if (re2 := _re2()) is None:
        return _TimedBytesPattern(pattern, encoding)
    options = re2.Options()
    options.log_errors = False
    if pattern.isascii():  # bytes that are no UTF-8 match like any others
        options.encoding = re2.Options.Encoding.LATIN1
    return _compiled_by_re2(re2, pattern.encode(), options)


def matcher_name() -> str:
    """Return which package matches: ``google-re2`` or ``regex``."""
    return "regex" if _re2() is None else "google-re2"


def _re2() -> Any:
    try:
        import re2  # noqa: PLC0415 - loaded only where a pattern is used
    except ImportError:
        return None
    return re2


def _compiled_by_re2(re2: Any, pattern: str | bytes, options: Any) -> Pattern:
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except re2.error as error:
        reason: Any = error.args[0] if error.args else error
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise PatternError(text) from None
    return compiled


class _TimedPattern:
    """A pattern of the package regex whose searches end after `LONGEST_SECONDS`."""

    def __init__(self, pattern: str) -> None:
        try:
            import regex  # noqa: PLC0415 - only where there is no RE2
        except ImportError:
            from zenturio.install_hint import package_hint  # noqa: PLC0415 - as above

            raise PlaceError(
                "patterns need the package google-re2 or regex, and neither is installed",
                hint=package_hint("regex"),
            ) from None
        self._shown = pattern
        try:
            self._pattern: Any = regex.compile(translated(pattern), regex.V0)
        except regex.error as error:
            raise PatternError(str(error)) from None
        self.groups: int = self._pattern.groups
        self.groupindex: Mapping[Any, int] = self._pattern.groupindex

    def search(self, text: str, /) -> Match | None:
        return self._timed(self._pattern.search, text)  # type: ignore[no-any-return]

    def match(self, text: str, /) -> Match | None:
        return self._timed(self._pattern.match, text)  # type: ignore[no-any-return]

    def findall(self, text: str, /) -> list[Any]:
        return self._timed(self._pattern.findall, text)  # type: ignore[no-any-return]

    def sub(self, replacement: Any, text: str, /) -> str:
        return self._timed(self._pattern.sub, replacement, text)  # type: ignore[no-any-return]

    def finditer(self, text: str, /) -> Iterator[Match]:
        matches = self._pattern.finditer(text, timeout=LONGEST_SECONDS)
        while (match := self._timed_next(matches)) is not None:
            yield match

    def _timed_next(self, matches: Iterator[Match]) -> Match | None:
        try:
            return next(matches, None)
        except TimeoutError:
            raise self._slow() from None

    def _timed(self, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments, timeout=LONGEST_SECONDS)
        except TimeoutError:
            raise self._slow() from None

    def _slow(self) -> SlowPatternError:
        return SlowPatternError(
            f"the search for `{self._shown}` was stopped after {LONGEST_SECONDS:g} s",
            hint="avoid a repetition inside a repetition, such as (a+)+",
        )


class _BytesMatch:
    """A match in a text that represents bytes."""

    def __init__(self, match: Match, text: str, encoding: str) -> None:
        self._match, self._text, self._encoding = match, text, encoding

    def group(self, group: int = 0, /) -> bytes | None:
        text = self._match.group(group)
        return None if text is None else text.encode(self._encoding, "surrogateescape")

    __getitem__ = group

    def span(self, group: int = 0, /) -> tuple[int, int]:
        start, end = self._match.span(group)
        return self._bytes_before(start), self._bytes_before(end)

    def start(self) -> int:
        return self.span()[0]

    def end(self) -> int:
        return self.span()[1]

    def _bytes_before(self, at: int) -> int:
        if self._encoding == "latin-1":
            return at
        return len(self._text[:at].encode(self._encoding, "surrogateescape"))


class _TimedBytesPattern(_TimedPattern):
    """The same for bytes; only `finditer` is needed for them."""

    def __init__(self, pattern: str, encoding: str) -> None:
        super().__init__(pattern)
        self.groupindex = {name.encode(): number for name, number in self.groupindex.items()}
        self._encoding = encoding

    def finditer(self, text: bytes, /) -> Iterator[Match]:  # type: ignore[override]
        decoded = text.decode(self._encoding, "surrogateescape")
        return (
            _BytesMatch(match, decoded, self._encoding)
            for match in super(_TimedBytesPattern, self).finditer(decoded)
        )


# Translation

_REPEAT = re.compile(r"\{(\d+)(,(\d*))?\}")
_GROUP_NAME = re.compile(r"\(\?P?<(\w+)>", re.ASCII)
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_PROPERTY = re.compile(r"([pP])(?:([A-Z])|\{(\^?)([A-Za-z_]+)\})")
_CODE = re.compile(r"x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]+)\})")
_OCTAL = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")
_SPECIAL = frozenset(r"\.^$|?*+()[]{}-&~#")
_WORD, _LAST = "0-9A-Za-z_", "\U0010ffff"
# RE2's classes are those of ASCII; as ranges, so that they stand in brackets, too.
_CLASSES = {
    "d": "0-9", "D": rf"\x00-/:-{_LAST}",
    "w": _WORD, "W": rf"\x00-/:-@\[-\^`{{-{_LAST}",
    "s": r"\t\n\f\r ", "S": rf"\x00-\x08\x0b\x0e-\x1f!-{_LAST}",
}  # fmt: skip
_NAMED_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f", "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~",
    "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\x0b\f\r ", "upper": "A-Z", "word": _WORD,
    "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_ASSERTIONS = {
    "A": r"\A", "z": r"\Z",
    "b": rf"(?:(?<=[{_WORD}])(?![{_WORD}])|(?<![{_WORD}])(?=[{_WORD}]))",
    "B": rf"(?:(?<=[{_WORD}])(?=[{_WORD}])|(?<![{_WORD}])(?![{_WORD}]))",
}  # fmt: skip


def translated(pattern: str) -> str:
    """Return *pattern*, written for RE2, as the package regex has to read it.

    Raise PatternError with RE2's message for what RE2 refuses.
    """
    return _Translator(pattern).translate()


_IN_LINES = {"^": (r"\A", r"(?<![^\n])"), "$": (r"\Z", r"(?![^\n])"), ".": (r"[^\n]", r"(?s:.)")}
"""Without and with the flag m; of the point, s."""


class _Translator:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._out: list[str] = []
        # Flags that hold here, of each group that is open; and how many groups end with it.
        self._open: list[tuple[frozenset[str], int]] = [(frozenset(), 0)]
        self._is_repeatable = self._is_repeated = False
        """Whether something stands before this place that may be repeated; whether it is."""
        # How often the last part, and any part of each open group, is repeated by counts.
        self._last_count, self._counts = 1, [1]

    def translate(self) -> str:
        while self._at < len(self._pattern):
            self._token()
        if len(self._open) > 1:
            raise PatternError(f"missing ): {self._pattern}")
        return "".join(self._out) + ")" * self._open[0][1]

    def _token(self) -> None:
        sign = self._pattern[self._at]
        flags = self._open[-1][0]
        match sign:
            case "\\":
                self._at += 1
                self._escape()
            case "[":
                self._put(self._brackets())
            case "(":
                self._group()
            case ")":
                if len(self._open) == 1:
                    raise PatternError(f"unexpected ): {self._pattern}")
                self._put(")" * (1 + self._open.pop()[1]), 1)
                self._count(self._counts.pop())
            case "|":
                self._put("|", 1, is_repeatable=False)
            case "*" | "+" | "?":
                self._repeat(sign)
            case "{" if count := _REPEAT.match(self._pattern, self._at):
                self._repeat(count[0])
                bounds = [int(text) for text in (count[1], count[3]) if text]
                self._count(self._last_count * max(bounds))
                if self._last_count > _MOST_REPEATS or bounds[0] > bounds[-1]:
                    raise PatternError(f"invalid repetition size: {count[0]}")
            case "^" | "$" | ".":
                self._put(_IN_LINES[sign]["ms"[sign == "."] in flags], 1)
            case _:
                self._put(_literal(sign), 1)

    def _put(self, text: str, width: int = 0, *, is_repeatable: bool = True) -> None:
        self._out.append(text)
        self._at += width
        self._is_repeatable, self._is_repeated = is_repeatable, False
        self._last_count = 1

    def _count(self, count: int) -> None:
        """Note that the last part is repeated so often: its copies take memory."""
        self._last_count = count
        self._counts[-1] = max(self._counts[-1], count)

    def _begin_group(self, text: str, width: int, flags: frozenset[str]) -> None:
        self._open.append((flags, 0))
        self._counts.append(1)
        self._put(text, width, is_repeatable=False)

    def _repeat(self, operator: str) -> None:
        if self._is_repeated:
            raise PatternError(f"bad repetition operator: {operator}")
        if not self._is_repeatable:
            raise PatternError(f"no argument for repetition operator: {operator}")
        self._at += len(operator)
        if self._pattern[self._at : self._at + 1] == "?":
            operator += "?"
            self._at += 1
        self._out.append(operator)
        self._is_repeated = True

    def _group(self) -> None:
        flags = self._open[-1][0]
        if not self._pattern.startswith("(?", self._at):
            self._begin_group("(", 1, flags)
        elif name := _GROUP_NAME.match(self._pattern, self._at):
            self._begin_group(f"(?P<{name[1]}>", len(name[0]), flags)
        else:
            self._set_flags(flags)

    def _set_flags(self, flags: frozenset[str]) -> None:
        match = _FLAGS.match(self._pattern, self._at)
        named = set((match[1] or "") + (match[2] or "")) if match else {"?"}
        if match is None or not named <= set("ims"):
            operator = self._pattern[self._at : self._at + 3]
            raise PatternError(f"invalid perl operator: {operator}")
        own = (flags | set(match[1])) - set(match[2] or "")
        fold = "".join(sign for sign in ("i" if "i" in own else "-i",) if "i" in named)
        if match[3] == ":":
            self._begin_group(f"(?{fold}:", len(match[0]), own)
            return
        self._open[-1] = (own, self._open[-1][1])
        self._at += len(match[0])
        if fold:
            # What follows is a group: it would take the other side of | with it.
            if self._is_repeatable or (self._out and self._out[-1] == "|"):
                raise PatternError("a flag i has to stand first, or as (?i:...), for this matcher")
            self._open[-1] = (own, self._open[-1][1] + 1)
            self._put(f"(?{fold}:", is_repeatable=False)

    def _escape(self) -> None:
        """Put what stands behind a backslash outside of brackets."""
        sign = self._pattern[self._at : self._at + 1]
        if sign == "Q":
            end = self._pattern.find("\\E", self._at)
            quoted = self._pattern[self._at + 1 : end if end >= 0 else None]
            for letter in quoted:
                self._put(_literal(letter))
            self._at = end + 2 if end >= 0 else len(self._pattern)
        elif sign in _ASSERTIONS:
            self._put(_ASSERTIONS[sign], 1)
        elif sign in _CLASSES:
            self._put(f"[{_CLASSES[sign]}]", 1)
        else:
            self._put(self._character())

    def _character(self) -> str:
        """Return the character, or the property, behind a backslash, and move past it."""
        following = self._pattern[self._at :]
        sign = following[:1]
        if not sign:
            raise PatternError("trailing \\")
        if match := _PROPERTY.match(following):
            is_other = (match[1] == "P") != (match[3] == "^")
            text = rf"\{'P' if is_other else 'p'}{{{match[2] or match[4]}}}"
        elif match := _CODE.match(following):
            code = int(match[1] or match[2], 16)
            if code > ord(_LAST):
                raise PatternError(f"invalid escape sequence: \\{match[0]}")
            text = _literal(chr(code))
        elif match := _OCTAL.match(following):
            text = _literal(chr(int(match[0], 8)))
        elif sign in "afnrtv":
            text, match = f"\\{sign}", None
        elif sign.isascii() and not sign.isalnum():
            text, match = _literal(sign), None
        else:
            raise PatternError(f"invalid escape sequence: \\{sign}")
        self._at += len(match[0]) if match else 1
        return text

    def _brackets(self) -> str:
        """Return the class of characters that begins here, and move past it."""
        start = self._at
        self._at += 1
        out = ["["]
        if self._pattern.startswith("^", self._at):
            out.append("^")
            self._at += 1
        first = self._at
        while not self._pattern.startswith("]", self._at) or self._at == first:
            if self._at >= len(self._pattern):
                raise PatternError(f"missing ]: {self._pattern[start:]}")
            out.append(self._member())
        self._at += 1
        return "".join(out) + "]"

    def _member(self) -> str:
        """Return one character, range or class in brackets."""
        if self._pattern.startswith("[:", self._at):
            end = self._pattern.find(":]", self._at)
            name = self._pattern[self._at + 2 : end] if end >= 0 else ""
            if name in _NAMED_CLASSES:
                self._at = end + 2
                return _NAMED_CLASSES[name]
            # RE2 refuses names that it does not know; *regex* would take their letters for a class.
            if end >= 0 and name.lstrip("^") not in _NAMED_CLASSES:
                raise PatternError(f"invalid character class range: [:{name}:]")
            if end >= 0:
                raise PatternError(f"[:{name}:] is not known to this matcher")
        if self._pattern.startswith("\\", self._at):
            sign = self._pattern[self._at + 1 : self._at + 2]
            if sign in _CLASSES and sign:
                self._at += 2
                return _CLASSES[sign]
        low = self._endpoint()
        is_range = self._pattern.startswith("-", self._at)
        if not is_range or self._pattern[self._at + 1 : self._at + 2] in ("]", ""):
            return low
        start = self._at
        self._at += 1
        if self._pattern[self._at : self._at + 2] in {f"\\{sign}" for sign in _CLASSES}:
            raise PatternError(f"invalid character class range: {self._pattern[start:]}")
        high = self._endpoint()
        if low.startswith((r"\p", r"\P")) or high.startswith((r"\p", r"\P")):
            raise PatternError(f"invalid character class range: {low}-{high}")
        return f"{low}-{high}"

    def _endpoint(self) -> str:
        sign = self._pattern[self._at]
        self._at += 1
        return self._character() if sign == "\\" else _literal(sign)


def _literal(sign: str) -> str:
    """Return a character that means itself, in brackets as outside of them."""
    return f"\\{sign}" if sign in _SPECIAL else sign
