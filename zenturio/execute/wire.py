"""Messages between a driver and a launcher, and checks of values that others sent.

Launchers start with few imports, and hosts get this file, too: only the standard library of Python
3.9 is used here. A length in a message allocates nothing: memory grows with the bytes received, up
to a limit.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

# Checks of values that others sent, before anything uses them: types, ranges and sizes
#
# A check is called with a value and its path in the message, and raises MalformedError, whose
# text begins with that path; enclosing checks prepend theirs. JSON is parsed within limits: no
# message can exhaust the memory or the stack.

ELEMENTS = 2**20
"""The most values in one JSON text; each takes about 100 bytes once parsed."""
DEPTH = 64
_DIGITS = 64
"""The most digits of a number in JSON: int() takes time proportional to their square."""
_LONG = re.compile(rb"[0-9]{%d}" % (_DIGITS + 1))
_WHOLE = 2**63 - 1
_TEXT = 4096
_OPENING = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)
_DIGEST = re.compile(r"[0-9a-f]{32}")
_TOKEN = re.compile(r"[0-9a-f]{32}-[0-9a-z]{1,64}")

Check = Callable[[Any, str], None]


class MalformedError(ValueError):
    """A received value is invalid; the message has its path and what was expected."""


def read_json(data: bytes, elements: int = ELEMENTS) -> Any:
    """Parse a JSON text of at most *elements* values, nested at most DEPTH levels deep."""
    # Counted before parsing: "[[],[],..." of a megabyte takes a hundred megabytes as objects.
    if data.count(b",") + data.count(b"[") + data.count(b"{") > elements:
        raise MalformedError(f"a message has more than {elements} values")
    if data.count(b"[") + data.count(b"{") > DEPTH:
        _check_depth(data)
    try:
        # int() of a long text takes time that grows with the square of its digits.
        if _LONG.search(data):  # in a text, perhaps
            return json.loads(data, parse_int=_whole_number)
        return json.loads(data)
    except MalformedError:
        raise
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"a message is not JSON: {error}") from None


def _check_depth(data: bytes) -> None:
    depth = 0
    for match in _OPENING.finditer(data):
        sign = match.group()
        depth += 1 if sign in b"[{" else -1 if sign in b"]}" else 0
        if depth > DEPTH:
            raise MalformedError(f"a message is nested deeper than {DEPTH} levels")


def _whole_number(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise MalformedError(f"a number has {len(digits)} digits")
    return int(digits)


def is_digest(value: object) -> bool:
    """Return whether *value* has the form of an experiment's digest."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def is_token(value: object) -> bool:
    """Return whether *value* has the form of an attempt's name: a digest and a suffix."""
    return isinstance(value, str) and _TOKEN.fullmatch(value) is not None


def short_repr(value: object) -> str:
    """Return *value* for a message: shortened, in printable ASCII."""
    words = ascii(value) if not isinstance(value, (list, dict)) else f"a {type(value).__name__}"
    return words if len(words) <= 60 else words[:57] + "..."


def mismatch(value: object, where: str, expected: str) -> MalformedError:
    return MalformedError(f"{where} is {short_repr(value)}, not {expected}")


# A check for each kind of value


def anything(_value: Any, _where: str) -> None:
    """Accept any JSON value."""


def boolean(value: Any, where: str) -> None:
    if type(value) is not bool:
        raise mismatch(value, where, "true or false")


def digest(value: Any, where: str) -> None:
    if not is_digest(value):
        raise mismatch(value, where, "a digest")


def path(value: Any, where: str) -> None:
    """Accept a normalized relative path that stays in its folder."""
    text()(value, where)
    parts = value.split("/")
    if any(part in ("", ".", "..") or len(os.fsencode(part)) > 255 for part in parts):
        raise mismatch(value, where, "a path inside a folder")


def text(most: int = _TEXT) -> Check:
    """Return a check for texts of at most *most* characters that may be file names or arguments."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, str):
            raise mismatch(value, where, "a text")
        if len(value) > most:
            raise MalformedError(f"{where} has {len(value)} characters; at most {most} are taken")
        try:
            os.fsencode(value)
        except UnicodeEncodeError:
            raise mismatch(value, where, "a text that can be encoded") from None
        if "\0" in value:
            raise mismatch(value, where, "a text without NUL")

    return check


def any_text(most: int) -> Check:
    """Return a check for texts of at most *most* characters, such as output of programs."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, str):
            raise mismatch(value, where, "a text")
        if len(value) > most:
            raise MalformedError(f"{where} has {len(value)} characters; at most {most} are taken")

    return check


def integer(least: int = 0, most: int = _WHOLE) -> Check:
    """Return a check for integers from *least* to *most*."""

    def check(value: Any, where: str) -> None:
        if type(value) is not int or not least <= value <= most:
            raise mismatch(value, where, f"a whole number from {least} to {most}")

    return check


def number(least: float = -math.inf, most: float = math.inf) -> Check:
    """Return a check for finite numbers from *least* to *most*."""

    def check(value: Any, where: str) -> None:
        if type(value) not in (int, float) or not least <= value <= most or not _finite(value):
            raise mismatch(value, where, "a finite number in its range")

    return check


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def one_of(*values: object) -> Check:
    """Return a check for one of *values*."""

    def check(value: Any, where: str) -> None:
        if not any(type(value) is type(allowed) and value == allowed for allowed in values):
            raise mismatch(value, where, "one of " + ", ".join(map(repr, values)))

    return check


def matching(pattern: str, expected: str) -> Check:
    """Return a check for texts that *pattern* matches as a whole."""
    compiled = re.compile(pattern)

    def check(value: Any, where: str) -> None:
        if not isinstance(value, str) or compiled.fullmatch(value) is None:
            raise mismatch(value, where, expected)

    return check


def nullable(inner: Check) -> Check:
    """Return a check for null, or what *inner* accepts."""

    def check(value: Any, where: str) -> None:
        if value is not None:
            inner(value, where)

    return check


def first_of(*checks: Check) -> Check:
    """Return a check for what any of *checks* accepts."""

    def check(value: Any, where: str) -> None:
        for inner in checks:
            try:
                return inner(value, where)
            except MalformedError as error:
                last = error
        raise last

    return check


def list_of(inner: Check, most: int = ELEMENTS, least: int = 0) -> Check:
    """Return a check for lists of *least* to *most* values that *inner* accepts."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise mismatch(value, where, f"a list of {least} to {most} values")
        for number, element in enumerate(value):
            try:
                inner(element, "")
            except MalformedError as error:
                raise MalformedError(f"{where}[{number}]{error}") from None

    return check


def tuple_of(*checks: Check) -> Check:
    """Return a check for lists with one value for each of *checks*."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, list) or len(value) != len(checks):
            raise mismatch(value, where, f"a list of {len(checks)} values")
        for number, inner in enumerate(checks):
            try:
                inner(value[number], "")
            except MalformedError as error:
                raise MalformedError(f"{where}[{number}]{error}") from None

    return check


def object_of(key: Check, inner: Check, most: int = ELEMENTS) -> Check:
    """Return a check for objects whose names *key* accepts, and whose values *inner* accepts."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict) or len(value) > most:
            raise mismatch(value, where, f"an object of at most {most} names")
        for name, element in value.items():
            try:
                key(name, ", a name,")
                inner(element, "")
            except MalformedError as error:
                raise MalformedError(f"{where}.{short_repr(name)}{error}") from None

    return check


def record(required: Mapping[str, Check], optional: Mapping[str, Check] = {}) -> Check:
    """Return a check for objects with all *required* names, any *optional* ones, and no others."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise mismatch(value, where, "an object")
        for name, inner in required.items():
            if name not in value:
                raise MalformedError(f"{where} has no {name}")
            try:
                inner(value[name], "")
            except MalformedError as error:
                raise MalformedError(f"{where}.{name}{error}") from None
        if len(value) > len(required):
            check_others(value, where)

    def check_others(value: Any, where: str) -> None:
        for name in value.keys() - required.keys():
            if name not in optional:
                raise MalformedError(f"{where} has {short_repr(name)}, which is not expected")
            try:
                optional[name](value[name], "")
            except MalformedError as error:
                raise MalformedError(f"{where}.{name}{error}") from None

    return check


# Messages on a stream

_LENGTH = struct.Struct("!I")
LARGEST_MESSAGE_BYTES = 2**25
"""Bytes of the JSON of one message."""
_PIECE = 2**20
_MOST_BLOBS = 2**17


def send(descriptor: int, message: dict[str, Any], *blobs: bytes) -> None:
    """Write *message*, with the lengths of the *blobs* added to it, then the *blobs*."""
    data = memoryview(encode_message(message, *blobs))
    while data:
        data = data[os.write(descriptor, data) :]


def encode_message(message: dict[str, Any], *blobs: bytes) -> bytes:
    """Return *message* and the *blobs* as bytes to send."""
    text = json.dumps(message).encode()
    return b"".join((_LENGTH.pack(len(text)), text, *blobs))


def receive(descriptor: int, most: int = LARGEST_MESSAGE_BYTES) -> dict[str, Any] | None:
    """Return the next message; None if the other side has closed.

    MalformedError if it is invalid.
    """
    # 4 bytes of length (big-endian), JSON; its "lengths" announce the blobs behind it.
    head = read_exactly(descriptor, _LENGTH.size)
    if head is None:
        return None
    (size,) = _LENGTH.unpack(head)
    if size > most:
        raise MalformedError(f"a message has {size} bytes; at most {most} are taken")
    text = read_exactly(descriptor, size)
    if text is None:
        return None
    message = read_json(text)
    if not isinstance(message, dict):
        raise MalformedError("a message is not an object")
    return message


def receive_blobs(
    descriptor: int,
    message: dict[str, Any],
    *,
    most: int = 2**62,
    least_count: int = 0,
    most_count: int = _MOST_BLOBS,
) -> list[bytes] | None:
    """Return the blobs that follow *message*, at most *most* bytes each.

    None if the other side has closed.
    """
    lengths = message.get("lengths", [])
    list_of(integer(0, most), most_count, least_count)(lengths, "lengths")
    blobs = []
    for length in lengths:
        blob = read_exactly(descriptor, length)
        if blob is None:
            return None
        blobs.append(blob)
    return blobs


def read_exactly(descriptor: int, size: int) -> bytes | None:
    """Read *size* bytes; return None if the other side closes before."""
    data = os.read(descriptor, min(size, _PIECE)) if size else b""
    if len(data) == size:
        return data
    # The buffer grows with the bytes received, not to the announced size, which may be wrong.
    parts = [data]
    missing = size - len(data)
    while missing and parts[-1]:
        parts.append(os.read(descriptor, min(missing, _PIECE)))
        missing -= len(parts[-1])
    return None if missing else b"".join(parts)
