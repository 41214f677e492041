"""Settings of engines: fields of a frozen dataclass that know their type, limits and purpose."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from zenturio.errors import Diagnostic, InputError, did_you_mean

S = TypeVar("S")

AUTO = "auto"
"""How one writes that the engine shall choose: None."""

_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of an engine, as it is listed."""

    name: str
    type: str
    default: Any
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    executes: bool = False
    """Whether its value is shell text or names a program: asked about before it is used."""


def setting(
    default: Any,
    help: str,  # noqa: A002
    *,
    low: float | None = None,
    high: float | None = None,
    executes: bool = False,
) -> Any:
    """Return a field with its *default*, a line of *help*, and the smallest and largest value.

    *executes* marks shell text and names of programs.
    """
    return field(
        default=default, metadata={"help": help, "low": low, "high": high, "executes": executes}
    )


@dataclass(frozen=True)
class NoSettings:
    """For engines that have nothing to set."""


_DESCRIBED: dict[type[Any], tuple[Setting, ...]] = {}


def described(kind: type[Any]) -> tuple[Setting, ...]:
    """The settings that the dataclass *kind* has, in its order."""
    known = _DESCRIBED.get(kind)
    if known is None:  # to read annotations takes longer than many a search
        hints = get_type_hints(kind)
        known = tuple(_described(each, hints[each.name]) for each in fields(kind))
        _DESCRIBED[kind] = known
    return known


def _described(each: Any, annotation: Any) -> Setting:
    optional = NoneType in get_args(annotation)
    if optional:
        (annotation,) = (part for part in get_args(annotation) if part is not NoneType)
    choices = tuple(map(str, get_args(annotation))) if get_origin(annotation) is Literal else ()
    name = "str" if choices else annotation.__name__
    known = each.metadata
    default = None if each.default is MISSING else each.default
    return Setting(
        each.name,
        name,
        default,
        known.get("help", ""),
        known.get("low"),
        known.get("high"),
        choices,
        optional,
        known.get("executes", False),
    )


def pairs(texts: list[str]) -> dict[str, str]:
    """``key=value`` texts as a dictionary."""
    found = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign:
            raise InputError(f"{text!r} is no setting", hint="write NAME=VALUE")
        found[key.strip()] = value.strip()
    return found


def settings_of(kind: type[S], given: Mapping[str, Any], engine: str = "") -> S:
    """*given* values, texts among them, as settings; InputError with all that is wrong."""
    known = {each.name: each for each in described(kind)}
    diagnostics: list[Diagnostic] = []
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            where = f"{engine} has no setting {name!r}" if engine else f"no setting {name!r}"
            diagnostics.append(Diagnostic(where, hint=did_you_mean(name, known)))
            continue
        try:
            values[name] = read_value(known[name], value)
        except InputError as error:
            diagnostics += error.diagnostics
    if diagnostics:
        raise InputError.all(diagnostics)
    return kind(**values)


def read_value(wanted: Setting, value: Any) -> Any:
    """*value*, or what it says as a text, as a value of *wanted*."""
    if wanted.optional and (value is None or value == AUTO):
        return None
    if wanted.choices:
        if value not in wanted.choices:
            raise _wrong(wanted, value, did_you_mean(str(value), wanted.choices))
        return value
    if wanted.type == "bool":
        found = _WORDS.get(value.lower()) if isinstance(value, str) else value
        if not isinstance(found, bool):
            raise _wrong(wanted, value, "write true or false")
        return found
    if wanted.type == "str":
        return str(value)
    return _number(wanted, value)


def _number(wanted: Setting, value: Any) -> int | float:
    whole = wanted.type == "int"
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if math.isnan(number) or (whole and not number.is_integer()):
        raise _wrong(wanted, value, f"write {'a whole' if whole else 'a'} number{_limits(wanted)}")
    low, high = wanted.low, wanted.high
    if (low is not None and number < low) or (high is not None and number > high):
        raise _wrong(wanted, value, f"write a number{_limits(wanted)}")
    return int(number) if whole else number


def _limits(wanted: Setting) -> str:
    if wanted.low is not None and wanted.high is not None:
        return f" from {wanted.low:g} to {wanted.high:g}"
    if wanted.low is not None:
        return f" from {wanted.low:g} on"
    return "" if wanted.high is None else f" up to {wanted.high:g}"


def _wrong(wanted: Setting, value: Any, hint: str) -> InputError:
    return InputError(f"{wanted.name}={value} is not possible", hint=hint)
