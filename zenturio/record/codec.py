"""How values are written so that they come back as they were.

A field has a column for each form that its values take: real, integer, text, truth. What no column
of a database holds (integers beyond 63 bits, series, missing ones and why, NaN in SQLite, text with
NUL) goes into one JSON object for the row, by name; so does what has no column of its own.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from enum import IntFlag
from typing import TYPE_CHECKING, Any

from zenturio.experiment.experiment import Measure, Missing, Series

if TYPE_CHECKING:
    from zenturio.expression import Value

JSON = None | bool | int | float | str | list["JSON"] | dict[str, "JSON"]


class Form(IntFlag):
    """What a value is stored as; a field's forms are all that its values ever took."""

    REAL = 1
    INTEGER = 2
    TEXT = 4
    TRUTH = 8
    BIG = 16
    """An integer beyond 63 bits."""
    SERIES = 32
    OTHER = 64
    """A plain value in the row's JSON, for want of a column."""


COLUMNS = (Form.REAL, Form.INTEGER, Form.TEXT, Form.TRUTH)
"""The forms that have columns."""


def uniform(values: Sequence[Any], *, exact_reals: bool) -> Form | None:
    """The one form that all *values* have that are not None, if they surely fit its column.

    No form at all (0) if they are all None; none where each has to be looked at: values of several
    forms, or any that may need JSON. *exact_reals*: the columns hold NaN and minus zero.
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
        case "float" if exact_reals or (math.isfinite(sum(values)) and 0.0 not in values):
            return Form.REAL
        case "int" if min(values) >= -(2**63) and max(values) < 2**63:
            return Form.INTEGER
        case "str" if _plain("".join(values)):
            return Form.TEXT
        case "bool":
            return Form.TRUTH
    return None


def form_of(value: Measure | Value, *, exact_reals: bool) -> Form | None:
    """What *value* is stored as: a form that has a column, or one in JSON (0: of no account).

    None for None, which is stored by being absent.
    """
    match value:
        case bool():
            return Form.TRUTH
        case int():
            return Form.INTEGER if -(2**63) <= value < 2**63 else Form.BIG
        case float():
            lost = math.isnan(value) or (value == 0 and math.copysign(1, value) < 0)
            return Form.REAL if exact_reals or not lost else Form(0)
        case str():
            return Form.TEXT if _plain(value) else Form(0)
        case Series():
            return Form.SERIES
        case Missing():
            return Form(0)
        case None:
            return None
    raise _unknown(value)


def key(digest: str) -> bytes:
    """A digest as it is stored, half as long; one that is none is the key of nothing."""
    try:
        return bytes.fromhex(digest)
    except ValueError:
        return b""


_ESCAPED = "base64:"


def escape(text: str) -> str:
    """*text* as every database holds it: itself, unless it has NUL or lone surrogates."""
    if _plain(text) and not text.startswith(_ESCAPED):
        return text
    return _ESCAPED + base64.b64encode(text.encode(errors="surrogatepass")).decode()


def unescape(text: str | None) -> str:
    """What ``escape`` was given; nothing for NULL."""
    if not text or not text.startswith(_ESCAPED):
        return text or ""
    return base64.b64decode(text[len(_ESCAPED) :]).decode(errors="surrogatepass")


def _plain(text: str) -> bool:
    """Whether every database holds *text*: no NUL, no lone surrogates."""
    if "\0" in text:
        return False
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def to_json(value: Measure | Value) -> JSON:
    """*value* as JSON from which it comes back as it was; valid everywhere, NUL included."""
    match value:
        case bool() | None:
            return value
        case int():
            return value if -(2**63) <= value < 2**63 else {"int": str(value)}
        case float():
            return value if math.isfinite(value) else {"real": str(value)}
        case str():
            return value if _plain(value) else {"escaped": escape(value)}
        case Series():
            return {"series": [to_json(each) for each in value.values]}
        case Missing():
            return {"missing": to_json(value.why)}
    raise _unknown(value)


def _unknown(value: object) -> TypeError:
    return TypeError(f"no value of a parameter or metric: {value!r} ({type(value).__name__})")


def from_json(value: Any) -> Any:
    """What ``to_json`` was given."""
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
            return Series(tuple(from_json(each) for each in content))
        case _:
            return Missing(from_json(content))


def dump(values: Mapping[str, Measure | Value]) -> str | None:
    """A JSON object of *values*; none if there are none."""
    if not values:
        return None
    written = {escape(name): to_json(value) for name, value in values.items()}
    return json.dumps(written, ensure_ascii=False, separators=(",", ":"))


def load(text: str | None) -> dict[str, Any]:
    """The values in a JSON object that ``dump`` wrote."""
    read = json.loads(text) if text else {}
    return {unescape(name): from_json(value) for name, value in read.items()}
