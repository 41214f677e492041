"""JSON and TOML documents whose errors name file, line and column."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, Self

from zenturio.errors import InputError, Place, did_you_mean
from zenturio.settings.positions import (
    KeyPath,
    Span,
    duplicate_key,
    offset_in_json,
    spans_in_toml,
)

MAX_BYTES = 2**30
"""Larger files are refused before they are read."""

MAX_PARTS = 3 * 10**7
"""Limit of lists and objects in a JSON file: each takes far more memory than its text."""

_DIGITS = bytes.maketrans(b"0123456789", b"0" * 10)
_TOO_LONG_NUMBER = b"0" * 300
"""Parsing a number takes time quadratic in its digits, so longer ones are refused."""

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>u[dD][89a-fA-F]..)|.)", re.DOTALL
)
"""Matches JSON escapes; group ``half`` is a lone surrogate, which is not a character."""

_TOML_POSITION = re.compile(r" \(at line (\d+), column (\d+)\)")
_STANDARD_STREAM = Path("-")


@dataclass(frozen=True)
class Entry:
    """A value of a table, and where its key stands."""

    value: Any
    place: Place | None = None


@dataclass(frozen=True)
class Table:
    """The entries of a table by their keys, and where it begins."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    place: Place | None = None


@dataclass(frozen=True)
class Document:
    """A parsed file; its methods validate values and raise InputError with their place."""

    file: str
    text: str
    value: Any
    toml: bool = False

    @classmethod
    def from_json(cls, path: Path, text: str) -> Self:
        """Parse the JSON *text* of *path*; InputError if it is invalid, too deep or too large."""
        return cls(str(path), text, _json_value(path, text))

    @classmethod
    def from_toml(cls, path: Path, text: str, hint: str = "") -> Self:
        """Parse the TOML *text* of *path*; InputError, with *hint*, if it is invalid."""
        return cls(str(path), text, _toml_value(path, text, hint), toml=True)

    @cached_property
    def _spans(self) -> Mapping[tuple[str | int, ...], Span]:
        return spans_in_toml(self.text)

    def span(self, path: KeyPath) -> Span:
        """Return offset and length of what is at *path*, or of its nearest existing parent."""
        if not self.toml:
            return offset_in_json(self.text, path), 1
        for end in range(len(path), 0, -1):
            span = self._spans.get(tuple(path[:end]))
            if span is not None:
                return span
        return 0, 1

    def place(self, path: KeyPath) -> Place:
        """Return the place of what is at *path*, or of its nearest existing parent."""
        offset, length = self.span(path)
        return place_at(self.file, self.text, offset, length)

    def table(self, path: KeyPath, value: Mapping[str, Any]) -> Table:
        """Return the table *value* at *path* with the places of its keys."""
        entries = {key: Entry(part, self.place((*path, key))) for key, part in value.items()}
        return Table(entries, self.place(path))

    def wrong(self, path: KeyPath, message: str, hint: str = "") -> NoReturn:
        """Raise InputError for the value at *path*."""
        raise InputError(message, place=self.place(path), hint=hint)

    def keys(self, value: Any, allowed: Mapping[str, Any] | Sequence[str], path: KeyPath) -> None:
        """Raise InputError if *value* is not an object, or has a key that is not *allowed*."""
        if not isinstance(value, dict):
            self.wrong(
                path, f"{name_at(path)} is {value_kind(value)}; it has to be {_TABLE[self.toml]}"
            )
        for key in value:
            if key not in allowed:
                self.wrong((*path, key), f"unknown key {key!r}", did_you_mean(key, allowed))

    def number(self, value: Any, path: KeyPath, low: float = 0.0, *, finite: bool = True) -> float:
        """Return *value* as a number of at least *low*."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong(path, f"{name_at(path)} is {value_kind(value)}; it has to be a number")
        if math.isnan(value) or value < low or (finite and math.isinf(value)):
            self.wrong(path, f"{name_at(path)} is {value}; it has to be a number from {low:g} on")
        return float(value)

    def texts(self, values: Sequence[Any], path_of: Callable[[int], KeyPath]) -> None:
        """Raise InputError for the first of *values* that is not a text."""
        if not set(map(type, values)) <= {str}:
            for i, value in enumerate(values):
                self.words(value, path_of(i))

    def whole(self, value: Any, path: KeyPath, low: int = 1, high: int = 10**7) -> int:
        """Return *value*, a whole number from *low* to *high*."""
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            shown = value if isinstance(value, int | float) else value_kind(value)
            self.wrong(
                path,
                f"{name_at(path)} is {shown}; it has to be a whole number from {low} to {high}",
            )
        return value

    def words(self, value: Any, path: KeyPath) -> str:
        """Return *value*, a text."""
        if not isinstance(value, str):
            self.wrong(path, f"{name_at(path)} is {value_kind(value)}; it has to be a text")
        return value

    def items(self, value: Any, path: KeyPath) -> list[Any]:
        """Return *value*, a list."""
        if not isinstance(value, list):
            self.wrong(path, f"{name_at(path)} is {value_kind(value)}; it has to be a list")
        return value


_TABLE = {True: "a table", False: "an object"}


def name_at(path: KeyPath) -> str:
    """Return the last name on *path*, for messages."""
    return next((part for part in reversed(path) if isinstance(part, str)), "the file")


def value_kind(value: Any) -> str:
    """Describe *value* for a message."""
    names = {dict: "an object", list: "a list", str: f"the text {value!r:.40}", type(None): "null"}
    return names.get(type(value), str(value))


def place_at(file: str, text: str, offset: int, width: int = 1) -> Place:
    """Return the place of the *width* characters from *offset* of *text* in *file*."""
    line = text.count("\n", 0, offset) + 1
    first = text.rfind("\n", 0, offset) + 1
    last = text.find("\n", offset)
    shown = text[first : last if last >= 0 else len(text)]
    return Place(file, line, offset - first + 1, shown, width)


def read_text(path: Path) -> str:
    """Return the UTF-8 text of the file *path*; ``-`` is standard input.

    Raise InputError if it cannot be read, is too large, or is not UTF-8.
    """
    path = Path("/dev/stdin") if path == _STANDARD_STREAM else path
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InputError(f"{path} has {size:,} bytes: more than {MAX_BYTES:,} are not read")
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise InputError(f"{str(path)!r} cannot be read: {error}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        raise InputError(
            f"{path} is not a text in UTF-8", place=Place(str(path), line, column)
        ) from None


def _json_value(path: Path, text: str) -> Any:
    long_number = text.encode().translate(_DIGITS).find(_TOO_LONG_NUMBER)
    if long_number >= 0:
        place = place_at(str(path), text, len(text.encode()[:long_number].decode()))
        raise InputError(f"a number of {len(_TOO_LONG_NUMBER)} digits or more", place=place)
    if text.count("{") + text.count("[") > MAX_PARTS:
        raise InputError(f"{path} has more than {MAX_PARTS:,} lists and objects")
    try:
        value = json.loads(text, parse_constant=_reject_constant, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        place = place_at(str(path), text, min(error.pos, len(text)))
        raise InputError(f"not JSON: {error.msg}", place=place) from None
    except _InvalidConstantError as error:
        place = place_at(str(path), text, max(text.find(str(error)), 0))
        raise InputError(f"{error} is not a number in JSON", place=place) from None
    except _DuplicateKeyError:
        key, offset = duplicate_key(text)
        place = place_at(str(path), text, offset)
        raise InputError(f"the key {key!r} occurs twice", place=place) from None
    except RecursionError:
        raise InputError(f"{path}: lists and objects are nested too deeply") from None
    surrogate = next((escape for escape in _ESCAPE.finditer(text) if escape["half"]), None)
    if surrogate:
        place = place_at(str(path), text, surrogate.start())
        raise InputError(f"{surrogate[0]} is a lone surrogate, not a character", place=place)
    return value


def _toml_value(path: Path, text: str, hint: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        position = _TOML_POSITION.search(str(error))
        lines = text.split("\n")
        line, column = map(int, position.groups()) if position else (len(lines), len(lines[-1]) + 1)
        place = Place(str(path), line, column, lines[line - 1])
        message = _TOML_POSITION.sub("", str(error)).partition(" (at ")[0]
        raise InputError(f"not TOML: {message}", place=place, hint=hint) from None
    except RecursionError:
        raise InputError(f"{path}: values are nested too deeply", hint="write tables") from None
    except ValueError as error:
        raise InputError(f"{path} cannot be read as TOML: {error}", hint=hint) from None


class _InvalidConstantError(Exception):
    pass


class _DuplicateKeyError(Exception):
    pass


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object; refuse duplicate keys, of which one value would be lost."""
    result = dict(pairs)
    if len(result) < len(pairs):
        raise _DuplicateKeyError
    return result


def _reject_constant(text: str) -> NoReturn:
    raise _InvalidConstantError(text)
