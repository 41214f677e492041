"""Where in the text of a file a value stands: looked for only when it is wrong."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from zenturio.errors import InputError, Place, PlaceError, did_you_mean
from zenturio.expression import parse
from zenturio.files import write_whole
from zenturio.schedule.model.workflow import Floats

_SPACE = re.compile(r"[ \t\r\n,]*")
_HEADER = re.compile(r"^[ \t]*\[(\[?)[ \t]*([^\]#]+?)[ \t]*\]", re.MULTILINE)
_JSON_TOKEN = re.compile(
    r'(?P<open>\{)|(?P<close>\})|(?P<key>"(?:[^"\\]|\\.)*")\s*:|"(?:[^"\\]|\\.)*"'
)
_DECODER = json.JSONDecoder()


def in_json(text: str, way: Sequence[str | int]) -> int:
    """The offset of the value (or of its key) to which *way* leads, or the last on it found."""
    at = _skip_space(text, 0)
    for step in way:
        found = (
            _offset_of_key(text, at, step)
            if isinstance(step, str)
            else _offset_of_item(text, at, step)
        )
        if found is None:
            break
        at = found
    return min(at, max(len(text) - 1, 0))


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _offset_of_key(text: str, at: int, wanted: str) -> int | None:
    """The offset of the value of *wanted* in the object that begins at *at*."""
    if text[at : at + 1] != "{":
        return None
    at = _skip_space(text, at + 1)
    while text[at : at + 1] == '"':
        key, at = _DECODER.raw_decode(text, at)
        at = _skip_space(text, _skip_space(text, at) + 1)
        if key == wanted:
            return at
        _, at = _DECODER.raw_decode(text, at)
        at = _skip_space(text, at)
    return None


def _offset_of_item(text: str, at: int, wanted: int) -> int | None:
    """The offset of item *wanted* of the list that begins at *at*."""
    if text[at : at + 1] != "[":
        return None
    at = _skip_space(text, at + 1)
    for _ in range(wanted):
        _, at = _DECODER.raw_decode(text, at)
        at = _skip_space(text, at)
    return at


def duplicate_key(text: str) -> tuple[str, int]:
    """The first key that an object has twice, and where it stands the second time."""
    keys: list[set[str]] = []
    for found in _JSON_TOKEN.finditer(text):
        if found["open"]:
            keys.append(set())
        elif found["close"]:
            keys.pop()
        elif found["key"]:
            key = json.loads(found["key"])
            if key in keys[-1]:
                return key, found.start()
            keys[-1].add(key)
    return "", 0


def in_toml(text: str, way: Sequence[str | int]) -> int:
    """The offset of the line that sets the value, or of the table it belongs to.

    Looked for as such files are commonly written: ``[table]``, ``[[table]]``, ``[table.name]``,
    ``key = value``.
    """
    table, number, key = _table_and_key(way)
    start, end = 0, len(text)
    if table:
        headers = list(_HEADER.finditer(text))
        names = [each for each in way if isinstance(each, str)]
        below = [h for h in headers if len(names) > 1 and _header_names(h[2]) == names[:2]]
        same = [h for h in headers if _header_names(h[2]) == [table]]
        if below:
            same, number, key = below, 0, names[2] if len(names) > 2 else ""
        if len(same) > number:
            start = same[number].start()
            end = next((h.start() for h in headers if h.start() > start), end)
    if key:
        line = re.compile(rf"^[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*=", re.MULTILINE)
        found = line.search(text, start, end) or line.search(text)
        if found:
            return found.start() + len(found[0]) - len(found[0].lstrip())
    return start


def _header_names(header: str) -> list[str]:
    """The names in a header: ``hosts."node 1"`` has two."""
    return [each.strip(" \t\"'") for each in header.split(".")]


def _table_and_key(way: Sequence[str | int]) -> tuple[str, int, str]:
    """A table, which of those so named, and a key in it."""
    names = [each for each in way if isinstance(each, str)]
    numbers = [each for each in way if isinstance(each, int)]
    if len(way) == 1:
        return "", 0, names[0] if names else ""
    number = numbers[0] if numbers else 0
    return (names[0] if names else ""), number, names[1] if len(names) > 1 else ""


MAX_BYTES = 2**30
"""A file that is larger is refused before it is read."""

MAX_TASKS = 10**7

MAX_EDGES = 5 * 10**7

MAX_PARTS = 3 * 10**7
"""Lists and objects in one JSON file: each costs far more memory than it has letters."""

_DIGITS = bytes.maketrans(b"0123456789", b"0" * 10)
_TOO_LONG_NUMBER = b"0" * 300
"""To read a number takes time by the square of its digits."""

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>u[dD][89a-fA-F]..)|.)", re.DOTALL
)
"""What a backslash begins: half of two escapes that are one letter, if it stands alone."""

_STANDARD_STREAM = Path("-")

KeyPath = Sequence[str | int]
"""How one comes to a value from the outermost: keys and numbers."""


@dataclass(frozen=True)
class FormatDocument:
    """What a file says, and where."""

    file: str
    text: str
    value: Any
    toml: bool = False

    def wrong(self, way: KeyPath, message: str, hint: str = "") -> NoReturn:
        """Refuse the value to which *way* leads."""
        find = in_toml if self.toml else in_json
        raise InputError(
            message, place=place_at(self.file, self.text, find(self.text, way)), hint=hint
        )

    def keys(self, value: Any, known: Mapping[str, Any] | Sequence[str], way: KeyPath) -> None:
        """Refuse *value* if it is no object, or has a key that is not *known*."""
        if not isinstance(value, dict):
            self.wrong(
                way, f"{name_at(way)} is {value_kind(value)}; it has to be {_TABLE[self.toml]}"
            )
        for key in value:
            if key not in known:
                self.wrong((*way, key), f"unknown key {key!r}", did_you_mean(key, known))

    def number(self, value: Any, way: KeyPath, low: float = 0.0, *, finite: bool = True) -> float:
        """*value*, if it is a number of at least *low*, or a text of a number with a unit."""
        if isinstance(value, str):
            value = self._measured(value, way)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong(way, f"{name_at(way)} is {value_kind(value)}; it has to be a number")
        if math.isnan(value) or value < low or (finite and math.isinf(value)):
            self.wrong(way, f"{name_at(way)} is {value}; it has to be a number from {low:g} on")
        return float(value)

    def numbers(self, values: Sequence[Any], way: Callable[[int], KeyPath]) -> Floats:
        """All *values* as a column; the way to the i-th is ``way(i)``."""
        if set(map(type, values)) <= {int, float}:
            found = np.array(values, np.float64)
            wrong = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
            if len(wrong):
                self.number(values[wrong[0]], way(int(wrong[0])))
            return found
        return np.array([self.number(each, way(i)) for i, each in enumerate(values)], np.float64)

    def texts(self, values: Sequence[Any], way: Callable[[int], KeyPath]) -> None:
        """Refuse the first of *values* that is no text."""
        if not set(map(type, values)) <= {str}:
            for i, value in enumerate(values):
                self.words(value, way(i))

    def whole(self, value: Any, way: KeyPath, low: int = 1, high: int = MAX_TASKS) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            shown = value if isinstance(value, int | float) else value_kind(value)
            self.wrong(
                way, f"{name_at(way)} is {shown}; it has to be a whole number from {low} to {high}"
            )
        return value

    def words(self, value: Any, way: KeyPath) -> str:
        if not isinstance(value, str):
            self.wrong(way, f"{name_at(way)} is {value_kind(value)}; it has to be a text")
        return value

    def items(self, value: Any, way: KeyPath) -> list[Any]:
        if not isinstance(value, list):
            self.wrong(way, f"{name_at(way)} is {value_kind(value)}; it has to be a list")
        return value

    def _measured(self, text: str, way: KeyPath) -> Any:
        """4GB, 100ms: a number with a unit, as expressions have them."""
        try:
            return parse(text).value({})
        except InputError:
            self.wrong(
                way, f"{name_at(way)} is {text!r:.60}", "write a number, or one such as '4GB'"
            )


_TABLE = {True: "a table", False: "an object"}


def name_at(way: KeyPath) -> str:
    """The last name on *way*: what a person calls the value."""
    return next((each for each in reversed(way) if isinstance(each, str)), "the file")


def value_kind(value: Any) -> str:
    """What *value* is, in words."""
    words = {dict: "an object", list: "a list", str: f"the text {value!r:.40}", type(None): "null"}
    return words.get(type(value), str(value))


def place_at(file: str, text: str, at: int) -> Place:
    """Where in *file* the character *at* of its *text* stands."""
    line = text.count("\n", 0, at) + 1
    first = text.rfind("\n", 0, at) + 1
    last = text.find("\n", at)
    return Place(file, line, at - first + 1, text[first : last if last >= 0 else len(text)])


def file_exists(path: Path) -> bool:
    """Whether *path* exists; what no path can be does not."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def read_text(path: Path) -> str:
    """The text of the file *path*, in UTF-8; ``-`` is the standard input."""
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


def write_text(path: Path, pieces: Iterable[str]) -> None:
    """All of a file or nothing: a file that was there stays until the new one is whole.

    ``-`` is the standard output.
    """
    try:
        write_whole(
            Path("/dev/stdout") if path == _STANDARD_STREAM else path,
            (piece.encode() for piece in pieces),
        )
    except UnicodeEncodeError as error:
        wrong = error.object[error.start : error.end]
        raise InputError(f"{path} cannot be written: {wrong!r} is half a letter") from None
    except OSError as error:
        raise PlaceError(f"cannot write {path}: {error.strerror or error}") from error


def read_json(path: Path, text: str) -> FormatDocument:
    """The JSON *text* of *path*; what is no JSON, too deep or too large is refused."""
    long = text.encode().translate(_DIGITS).find(_TOO_LONG_NUMBER)
    if long >= 0:
        at = place_at(str(path), text, len(text.encode()[:long].decode()))
        raise InputError(f"a number of {len(_TOO_LONG_NUMBER)} digits or more", place=at)
    if text.count("{") + text.count("[") > MAX_PARTS:
        raise InputError(f"{path} has more than {MAX_PARTS:,} lists and objects")
    try:
        value = json.loads(text, parse_constant=_reject_constant, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        at = place_at(str(path), text, min(error.pos, len(text)))
        raise InputError(f"not JSON: {error.msg}", place=at) from None
    except _InvalidConstantError as error:
        at = place_at(str(path), text, max(text.find(str(error)), 0))
        raise InputError(f"{error} is no number of JSON", place=at) from None
    except _DuplicateKeyError:
        key, offset = duplicate_key(text)
        at = place_at(str(path), text, offset)
        raise InputError(f"the key {key!r} is there twice", place=at) from None
    except RecursionError:
        raise InputError(f"{path}: lists and objects are nested too deeply") from None
    half = next((each for each in _ESCAPE.finditer(text) if each["half"]), None)
    if half:
        at = place_at(str(path), text, half.start())
        raise InputError(f"{half[0]} is half a letter", place=at)
    return FormatDocument(str(path), text, value)


def read_toml(path: Path, text: str) -> FormatDocument:
    try:
        return FormatDocument(str(path), text, tomllib.loads(text), toml=True)
    except tomllib.TOMLDecodeError as error:
        message, _, rest = str(error).partition(" (at ")
        numbers = [int(each) for each in re.findall(r"\d+", rest)]
        lines = text.split("\n")
        line, column = numbers if len(numbers) == 2 else (len(lines), len(lines[-1]) + 1)
        at = Place(str(path), line, column, lines[line - 1])
        raise InputError(f"not TOML: {message}", place=at) from None
    except (RecursionError, ValueError) as error:
        raise InputError(f"{path} cannot be read as TOML: {error}") from None


class _InvalidConstantError(Exception):
    pass


class _DuplicateKeyError(Exception):
    pass


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, in which no key is twice: of two values, one would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _DuplicateKeyError
    return found


def _reject_constant(text: str) -> NoReturn:
    raise _InvalidConstantError(text)
