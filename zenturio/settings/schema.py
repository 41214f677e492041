"""What can be set: fields of a frozen dataclass with type, limits and help.

Engines, algorithms, generators and places describe their settings so; values come from a command
line (``--set NAME=VALUE``), from a file of settings, or from Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from types import NoneType
from typing import Any, Literal, Self, TypeVar, get_args, get_origin, get_type_hints

from zenturio.errors import Diagnostic, InputError, Place, did_you_mean
from zenturio.settings.document import Entry

S = TypeVar("S")

Reader = Callable[[str, Entry], Any]
"""Makes the value of a setting, by its name, of an entry; InputError says what is wrong with it."""
AUTO = "auto"
"""The text for None: the engine chooses."""

_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class Setting:
    """The description of one setting."""

    name: str
    type: str
    default: Any
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    executes: bool = False
    """Whether its value is shell text or names a program, which needs consent before use."""
    read: Reader | None = None
    """Reads what is neither a number, a text, a truth, nor one of some words."""
    is_secret: bool = False
    """Whether errors do not show the line in which it stands."""

    @property
    def shown_default(self) -> Any:
        """The default as it is written: auto where the program chooses."""
        return AUTO if self.optional and self.default is None else self.default


def setting(
    default: Any,
    help: str,  # noqa: A002
    *,
    low: float | None = None,
    high: float | None = None,
    executes: bool = False,
    read: Reader | None = None,
    is_secret: bool = False,
) -> Any:
    """Return a field with its *default*, a line of *help*, and the smallest and largest value.

    *executes* marks shell text and names of programs; of *read* and *is_secret* see `Setting`. A
    default that is called makes a new value each time.
    """
    metadata = {
        "help": help, "low": low, "high": high, "executes": executes, "read": read,
        "is_secret": is_secret,
    }  # fmt: skip
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class NoSettings:
    """For engines without settings."""


_DESCRIBED: dict[type[Any], tuple[Setting, ...]] = {}


def described(kind: type[Any]) -> tuple[Setting, ...]:
    """Return the settings of the dataclass *kind*, in its order."""
    settings = _DESCRIBED.get(kind)
    if settings is None:  # reading annotations takes longer than many a search
        hints = get_type_hints(kind)
        settings = tuple(
            _described(dataclass_field, hints[dataclass_field.name])
            for dataclass_field in fields(kind)
        )
        _DESCRIBED[kind] = settings
    return settings


def _described(dataclass_field: Any, annotation: Any) -> Setting:
    optional = NoneType in get_args(annotation)
    if optional:
        (annotation,) = (part for part in get_args(annotation) if part is not NoneType)
    choices = tuple(map(str, get_args(annotation))) if get_origin(annotation) is Literal else ()
    name = "str" if choices else annotation.__name__
    metadata = dataclass_field.metadata
    default = None if dataclass_field.default is MISSING else dataclass_field.default
    return Setting(
        dataclass_field.name,
        name,
        default,
        metadata.get("help", ""),
        metadata.get("low"),
        metadata.get("high"),
        choices,
        optional,
        metadata.get("executes", False),
        metadata.get("read"),
        metadata.get("is_secret", False),
    )


class OptionValue(str):
    """A value that an option has, as text, and where it stands."""

    __slots__ = ("place",)
    place: Place

    def __new__(cls, value: str, place: Place) -> Self:
        text = super().__new__(cls, value)
        text.place = place
        return text


def pairs(texts: Iterable[str], option: str = "") -> dict[str, str]:
    """Parse ``key=value`` texts into a dictionary; those of an *option* know that they are its."""
    values: dict[str, str] = {}
    for text in texts:
        place = Place(option, 1, 1, text, max(len(text), 1)) if option else None
        key, sign, value = (part.strip() for part in text.partition("="))
        if not sign or not key:
            raise InputError(f"{text!r} is not a setting", place=place, hint="write NAME=VALUE")
        values[key] = value if place is None else OptionValue(value, place)
    return values


def settings_of(
    kind: type[S],
    values_by_name: Mapping[str, Any],
    owner: str = "",
    other_names: Iterable[str] = (),
) -> S:
    """Make settings of *values_by_name*: texts, values, or entries of a file with their places.

    InputError lists all that is wrong; *owner* is what is set, and *other_names* are what a
    misspelled name could also mean.
    """
    specs = {spec.name: spec for spec in described(kind)}
    diagnostics: list[Diagnostic] = []
    values: dict[str, Any] = {}
    for name, value_or_entry in values_by_name.items():
        entry = value_or_entry if isinstance(value_or_entry, Entry) else Entry(value_or_entry)
        place = entry.place or getattr(value_or_entry, "place", None)
        if name not in specs:
            message = f"{owner} has no setting {name!r}" if owner else f"no setting {name!r}"
            names = (*specs, *other_names)
            hint = did_you_mean(name, names) if names else "it has no settings"
            diagnostics.append(Diagnostic(message, place, hint))
            continue
        spec = specs[name]
        if spec.is_secret and place is not None:
            place = replace(place, text="")
        try:
            values[name] = (
                read_value(spec, entry.value) if spec.read is None else spec.read(name, entry)
            )
        except InputError as error:
            diagnostics += [
                Diagnostic(d.message, d.place or place, d.hint) for d in error.diagnostics
            ]
    if diagnostics:
        raise InputError.all(diagnostics)
    return kind(**values)


def read_value(spec: Setting, value: Any) -> Any:
    """Return *value*, parsed if it is a text, as a value of *spec*."""
    if spec.optional and (value is None or value == AUTO):
        return None
    if spec.choices:
        if value not in spec.choices:
            raise _wrong(spec, value, did_you_mean(str(value), spec.choices))
        return value
    if spec.type == "bool":
        flag = _WORDS.get(value.lower()) if isinstance(value, str) else value
        if not isinstance(flag, bool):
            raise _wrong(spec, value, "write true or false")
        return flag
    if spec.type == "str":
        return str(value)
    return _number(spec, value)


def _number(spec: Setting, value: Any) -> int | float:
    whole = spec.type == "int"
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if math.isnan(number) or (whole and not number.is_integer()):
        raise _wrong(spec, value, f"write {'a whole' if whole else 'a'} number{_limits(spec)}")
    low, high = spec.low, spec.high
    if (low is not None and number < low) or (high is not None and number > high):
        raise _wrong(spec, value, f"write a number{_limits(spec)}")
    return int(number) if whole else number


def _limits(spec: Setting) -> str:
    if spec.low is not None and spec.high is not None:
        return f" from {spec.low:g} to {spec.high:g}"
    if spec.low is not None:
        return f" from {spec.low:g} on"
    return "" if spec.high is None else f" up to {spec.high:g}"


def _wrong(spec: Setting, value: Any, hint: str) -> InputError:
    if isinstance(value, OptionValue) and "=" in value:
        hint += f"; write {value.place.file} before each setting"
    return InputError(f"{spec.name}={value} is not possible", hint=hint)
