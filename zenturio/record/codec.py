"""The codec of values: how each is stored so that it is read back exactly as it was.

A value stands in a slot of its row, as a number or a text that SQL can use. What no slot holds as
it is (integers beyond 63 bits, series, missing values with their reasons, NaN in SQLite, text with
NUL) is written exactly into one JSON object for the row, its remarks; where a slot can hold an
approximation, such as the real next to a large integer, it has that, too.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntFlag
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zenturio.errors import RecordError
from zenturio.experiment.experiment import MetricValue, Missing, Series

if TYPE_CHECKING:
    from zenturio.expression import Value


_PARAMETER = "param:"
"""Begins the key of a parameter's remark: a metric may have its name."""

JSON = None | bool | int | float | str | list["JSON"] | dict[str, "JSON"]


class Form(IntFlag):
    """What a value is stored as; a field's forms are all that its values ever took."""

    REAL = 1
    INTEGER = 2
    TEXT = 4
    TRUTH = 8
    BIG = 16
    """An integer whose digits stand in the remarks, for its slot has the real next to it.

    Beyond 63 bits; on PostgreSQL beyond 53, where the field is not declared to be of integers.
    """
    SERIES = 32


SLOTTED = Form.REAL | Form.INTEGER | Form.TEXT | Form.TRUTH | Form.BIG
"""The forms that fill a slot."""


def uniform_form(values: Sequence[Any], *, holds_nan: bool) -> Form | None:
    """Return the form that all *values* but None have, if a slot is sure to hold them exactly.

    No form at all (0) if they are all None; none where each has to be looked at: values of several
    forms, or any that may need remarks. *holds_nan*: slots hold NaN.
    """
    kinds = set(map(type, values))
    if type(None) in kinds:
        kinds.discard(type(None))
        values = [value for value in values if value is not None]
    if not kinds:
        return Form(0)
    if len(kinds) > 1:
        return None
    match kinds.pop().__name__:
        # One sum instead of a million tests: it is finite only if all of them are.
        case "float" if holds_nan or math.isfinite(sum(values)):
            return Form.REAL
        case "int" if min(values) >= -(2**63) and max(values) < 2**63:
            return Form.INTEGER
        case "str" if _plain("".join(values)):
            return Form.TEXT
        case "bool":
            return Form.TRUTH
    return None


def form_of(value: MetricValue | Value, *, holds_nan: bool) -> Form | None:
    """Return what *value* is stored as: a form that fills a slot, or one in the remarks alone (0).

    None for None, which is stored by being absent.
    """
    match value:
        case bool():
            return Form.TRUTH
        case int():
            return Form.INTEGER if -(2**63) <= value < 2**63 else Form.BIG
        case float():
            return Form.REAL if holds_nan or not math.isnan(value) else Form(0)
        case str():
            return Form.TEXT if _plain(value) else Form(0)
        case Series():
            return Form.SERIES
        case Missing():
            return Form(0)
        case None:
            return None
    raise _unknown(value)


def next_real(value: int) -> float:
    """Return the real that represents an integer of any size in SQL."""
    # Rounding keeps the order, so SQL may sort by these reals; equal ones by the exact digits.
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def digest_key(digest: str) -> bytes:
    """Return a digest as it is stored, half as long; one that is none is the key of nothing."""
    try:
        return bytes.fromhex(digest)
    except ValueError:
        return b""


_ESCAPED = "base64:"


def escape(text: str) -> str:
    """Return *text* as every database holds it: itself, unless it has NUL or lone surrogates."""
    return text if _plain(text) and not text.startswith(_ESCAPED) else _in_base64(text)


def _in_base64(text: str) -> str:
    return _ESCAPED + base64.b64encode(text.encode(errors="surrogatepass")).decode()


def unescape(text: str | None) -> str:
    """Return what ``escape`` was given; nothing for NULL."""
    if not text or not text.startswith(_ESCAPED):
        return text or ""
    with decoding():
        return base64.b64decode(text[len(_ESCAPED) :]).decode(errors="surrogatepass")


def unescape_start(text: str | None) -> str:
    """Return the beginning of what ``escape`` was given, of *text* that may have been cut."""
    if not text or not text.startswith(_ESCAPED):
        return text or ""
    coded = text[len(_ESCAPED) :]
    with decoding():  # base64 stands in groups of four; a character may have been cut as well
        raw = base64.b64decode(coded[: len(coded) // 4 * 4])
    return raw.decode(errors="ignore")


def _plain(text: str) -> bool:
    """Return whether every database holds *text*: no NUL, no lone surrogates."""
    if "\0" in text:
        return False
    # Surrogates without their other half come from names of files that are not UTF-8.
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def to_json(value: MetricValue | Value) -> JSON:
    """Return *value* as JSON from which it comes back as it was; valid everywhere, NUL included."""
    match value:
        case bool() | None:
            return value
        case int():
            return value if -(2**63) <= value < 2**63 else digits_json(value)
        case float():
            return value if math.isfinite(value) else {"real": str(value)}
        case str():
            return value if _plain(value) else {"escaped": escape(value)}
        case Series():
            return {"series": [to_json(element) for element in value.values]}
        case Missing():
            return {"missing": to_json(value.why)}
    raise _unknown(value)


def digits_json(value: int) -> JSON:
    """Return an integer of any size as JSON from which SQL can read its digits."""
    return {"int": str(value)}


def _unknown(value: object) -> TypeError:
    return TypeError(f"not a value of a parameter or metric: {value!r} ({type(value).__name__})")


def from_json(value: Any) -> Any:
    """Return what ``to_json`` was given; RecordError if it cannot have written that."""
    try:
        return _from_json(value)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise damage_error() from error


def _from_json(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    match kind:
        case "int":
            return int(content)
        case "real":
            return float(content)
        case "escaped":
            return unescape(content)
        case "series":
            return Series(tuple(_from_json(element) for element in content))
        case _:
            return Missing(_from_json(content))


def remark_key(role: str, name: str) -> str:
    """Under which key the remark on a field stands."""
    if role == "parameter":
        return _PARAMETER + escape(name)
    return _in_base64(name) if name.startswith(_PARAMETER) else escape(name)


def remarks_on(text: str | None) -> dict[str, Any]:
    """Return the remarks on the metrics of a row, by name."""
    read = parse_object(text) if text else {}
    return {
        unescape(key): from_json(value)
        for key, value in read.items()
        if key and not key.startswith(_PARAMETER)
    }


def remarks_on_parameters(text: str | None) -> dict[str, Any]:
    """Return the remarks on the parameters of a row, by name."""
    read = parse_object(text) if text and _PARAMETER in text else {}
    start = len(_PARAMETER)
    return {
        unescape(key[start:]): from_json(value)
        for key, value in read.items()
        if key.startswith(_PARAMETER)
    }


def dump_values(values: Mapping[str, MetricValue | Value]) -> str | None:
    """Return a JSON object of *values*; none if there are none."""
    if not values:
        return None
    return compact_json({escape(name): to_json(value) for name, value in values.items()})


def compact_json(written: JSON) -> str:
    """JSON without blanks."""
    return json.dumps(written, ensure_ascii=False, separators=(",", ":"))


def load_values(text: str | None) -> dict[str, Any]:
    """Return the values in a JSON object written by ``dump``."""
    read = parse_object(text) if text else {}
    return {unescape(name): from_json(value) for name, value in read.items()}


def parse_object(text: str) -> dict[str, Any]:
    """Return the object that a JSON text of the repository is; RecordError if it is none."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damage_error() from error
    if not isinstance(content, dict):
        raise damage_error()
    return content


@contextmanager
def decoding() -> Iterator[None]:
    """Raise RecordError for what stored values are not that the block decodes.

    Around decoders alone, and no queries: a file may hold any type at any place.
    """
    try:
        yield
    except (
        ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
    ) as error:  # fmt: skip
        raise damage_error() from error


def damage_error() -> RecordError:
    """Return the error for a stored value that no version of this program writes."""
    return RecordError("a value of the database is damaged", hint="see what `zen db check` says")


_MARK = "zen-project:"


def to_portable(value: Any, folder: Path) -> Any:
    """Return *value*, anything JSON, with each path in *folder* as seen from there."""

    def convert(text: str) -> str:
        if text == str(folder) or text.startswith(f"{folder}/"):
            return f"{_MARK}.{text[len(str(folder)) :]}"
        return f"{_MARK}={text}" if text.startswith(_MARK) else text

    return _converted(value, convert)


def to_local(value: Any, folder: Path) -> Any:
    """Return what `to_portable` was given, if the project is in *folder* now."""

    def convert(text: str) -> str:
        if not text.startswith(_MARK):
            return text
        kind, rest = text[len(_MARK) :][:1], text[len(_MARK) + 1 :]
        return f"{folder}{rest}" if kind == "." else rest

    return _converted(value, convert)


def _converted(value: Any, convert: Any) -> Any:
    if isinstance(value, str):
        return convert(value)
    if isinstance(value, dict):
        return {key: _converted(element, convert) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_converted(element, convert) for element in value)
    return value
