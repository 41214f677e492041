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
# A check is called with a value and the name of its place in the message, and raises MalformedError
# whose text begins with that name; those around it put their own before it.
# JSON is read within limits of its own: nothing that is sent can exhaust the memory or the stack.

ELEMENTS = 2**20
"""Values in one JSON text: each of them takes about 100 bytes when it is read."""
DEPTH = 64
_DIGITS = 64
"""Digits of a number in JSON: the time that int() takes grows with their square."""
_LONG = re.compile(rb"[0-9]{%d}" % (_DIGITS + 1))
_WHOLE = 2**63 - 1
_TEXT = 4096
_OPENING = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)
_DIGEST = re.compile(r"[0-9a-f]{32}")
_TOKEN = re.compile(r"[0-9a-f]{32}-[0-9a-z]{1,64}")

Check = Callable[[Any, str], None]


class MalformedError(ValueError):
    """A value is not what it has to be; the message names it."""


def read_json(data: bytes, elements: int = ELEMENTS) -> Any:
    """The value of a JSON text of no more than *elements* values, nested no deeper than DEPTH."""
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
    """Return whether *value* is written as digests of experiments are."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def is_token(value: object) -> bool:
    """Return whether *value* is written as the names of attempts are: a digest and a suffix."""
    return isinstance(value, str) and _TOKEN.fullmatch(value) is not None


def short_repr(value: object) -> str:
    """*value* for a message: short, and in printable ASCII."""
    words = ascii(value) if not isinstance(value, (list, dict)) else f"a {type(value).__name__}"
    return words if len(words) <= 60 else words[:57] + "..."


def mismatch(value: object, where: str, expected: str) -> MalformedError:
    return MalformedError(f"{where} is {short_repr(value)}, not {expected}")


# A check for each kind of value


def anything(_value: Any, _where: str) -> None:
    """Whatever JSON can say."""


def boolean(value: Any, where: str) -> None:
    if type(value) is not bool:
        raise mismatch(value, where, "true or false")


def digest(value: Any, where: str) -> None:
    if not is_digest(value):
        raise mismatch(value, where, "a digest")


def path(value: Any, where: str) -> None:
    """A relative path that stays in its folder, as it is written when it is normal."""
    text()(value, where)
    parts = value.split("/")
    if any(part in ("", ".", "..") or len(os.fsencode(part)) > 255 for part in parts):
        raise mismatch(value, where, "a path inside a folder")


def text(most: int = _TEXT) -> Check:
    """A text of at most *most* characters that can be the name of a file or an argument."""

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
    """Any text of at most *most* characters, as programs may print it."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, str):
            raise mismatch(value, where, "a text")
        if len(value) > most:
            raise MalformedError(f"{where} has {len(value)} characters; at most {most} are taken")

    return check


def integer(least: int = 0, most: int = _WHOLE) -> Check:
    """A whole number."""

    def check(value: Any, where: str) -> None:
        if type(value) is not int or not least <= value <= most:
            raise mismatch(value, where, f"a whole number from {least} to {most}")

    return check


def number(least: float = -math.inf, most: float = math.inf) -> Check:
    """A finite number."""

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
    """One of *values*."""

    def check(value: Any, where: str) -> None:
        if not any(type(value) is type(allowed) and value == allowed for allowed in values):
            raise mismatch(value, where, "one of " + ", ".join(map(repr, values)))

    return check


def matching(pattern: str, expected: str) -> Check:
    """A text that *pattern* matches from end to end."""
    compiled = re.compile(pattern)

    def check(value: Any, where: str) -> None:
        if not isinstance(value, str) or compiled.fullmatch(value) is None:
            raise mismatch(value, where, expected)

    return check


def nullable(inner: Check) -> Check:
    """Null, or what *inner* takes."""

    def check(value: Any, where: str) -> None:
        if value is not None:
            inner(value, where)

    return check


def first_of(*checks: Check) -> Check:
    """Return what any of *checks* takes."""

    def check(value: Any, where: str) -> None:
        for inner in checks:
            try:
                return inner(value, where)
            except MalformedError as error:
                last = error
        raise last

    return check


def list_of(inner: Check, most: int = ELEMENTS, least: int = 0) -> Check:
    """A list of *least* to *most* values that *inner* takes."""

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
    """A list of as many values as there are *checks*."""

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
    """Return an object with any names that *key* takes."""

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
    """Return an object with all *required* names, perhaps *optional* ones, and no others."""

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
    """Write *message* and the *blobs*, whose lengths the message tells."""
    data = memoryview(encode_message(message, *blobs))
    while data:
        data = data[os.write(descriptor, data) :]


def encode_message(message: dict[str, Any], *blobs: bytes) -> bytes:
    """Return the bytes in which *message* and the *blobs* travel."""
    text = json.dumps(message).encode()
    return b"".join((_LENGTH.pack(len(text)), text, *blobs))


def receive(descriptor: int, most: int = LARGEST_MESSAGE_BYTES) -> dict[str, Any] | None:
    """Return the next message; nothing where the other side has gone.

    MalformedError if it is none.
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
    """Return the bytes behind *message*, at most *most* in each piece.

    Nothing where the side has gone.
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
    """*size* bytes; nothing where the other side goes before."""
    data = os.read(descriptor, min(size, _PIECE)) if size else b""
    if len(data) == size:
        return data
    # Grown as bytes arrive, not by the announced size: a peer could announce more than there is.
    parts = [data]
    missing = size - len(data)
    while missing and parts[-1]:
        parts.append(os.read(descriptor, min(missing, _PIECE)))
        missing -= len(parts[-1])
    return None if missing else b"".join(parts)
