"""Which values of an engine's settings are tried: as somebody writes them, or a few of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zenturio.annotate.set_reader import read_set
from zenturio.errors import Diagnostic, InputError, Passage, did_you_mean
from zenturio.search import EngineDescription, Setting
from zenturio.settings.schema import AUTO, read_value
from zenturio.space import Domain

MOST = 10_000
"""Values of one setting at the most."""
FIXED = ("str",)
"""Settings of these types are swept only by values that somebody names."""


@dataclass(frozen=True)
class Ranges:
    """For each setting that is tried, its set as a directive writes it."""

    sets: Mapping[str, str]
    given: bool
    """Whether somebody named them; if not, they are a first look at all settings."""


def read_ranges(engine: EngineDescription, written: Iterable[str] | Mapping[str, Any]) -> Ranges:
    """The sets that ``population=50:200:50,selection={rank,roulette}`` writes.

    A name alone stands for a few values of it, and nothing for a few values of every setting.
    InputError with all that is wrong: names, sets, and values that the setting cannot have.
    """
    by_name = {setting.name: setting for setting in engine.settings}
    pairs = _pairs(written) if not isinstance(written, Mapping) else _texts(written)
    diagnostics: list[Diagnostic] = []
    if not by_name:
        raise InputError(
            f"engine {engine.name} has no settings: there is nothing to tune",
            hint="zen engines lists what others can be set to",
        )
    sets: dict[str, str] = {}
    for name, text in pairs.items() if pairs else dict.fromkeys(_swept(engine), "").items():
        if name not in by_name:
            message = f"engine {engine.name} has no setting {name!r}"
            diagnostics.append(Diagnostic(message, hint=did_you_mean(name, by_name)))
            continue
        try:
            sets[name] = _checked(by_name[name], text or _few(by_name[name]))
        except InputError as error:
            diagnostics += error.diagnostics
    if diagnostics:
        raise InputError.all(diagnostics)
    return Ranges(sets, bool(pairs))


def _swept(engine: EngineDescription) -> list[str]:
    return [
        setting.name for setting in engine.settings if setting.type not in FIXED or setting.choices
    ]


def _pairs(written: Iterable[str]) -> dict[str, str]:
    """Names and sets, cut at commas that stand in no braces or quotes."""
    pairs: dict[str, str] = {}
    for part in (part for text in written for part in _cut(text)):
        name, _, text = part.partition("=")
        if name.strip() in pairs:
            raise InputError(f"--settings names {name.strip()} twice", hint="leave one of them")
        pairs[name.strip()] = text.strip()
    return pairs


def _cut(text: str) -> list[str]:
    parts, depth, quote = [""], 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        depth += (sign in "{(") - (sign in "})") if not quote else 0
        if sign == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += sign
    return [part for part in parts if part.strip()]


def _texts(values_by_name: Mapping[str, Any]) -> dict[str, str]:
    """Sets as Python has them: a text, a number, or several of them."""
    texts = {}
    for name, values in values_by_name.items():
        is_sequence = isinstance(values, Sequence | range) and not isinstance(values, str)
        if isinstance(values, str) or not is_sequence:
            texts[name] = _word(values)
        else:
            texts[name] = "{ " + ", ".join(map(_word, values)) + " }"
    return texts


def _word(value: Any) -> str:
    if value is None:
        return AUTO
    return str(value).lower() if isinstance(value, bool) else str(value)


def _checked(setting: Setting, text: str) -> str:
    """*text* as a set in braces, each of whose elements is a value that *setting* can have."""
    whole = text if text.startswith("{") else f"{{ {text} }}"
    domain: Domain = read_set(Passage.of(whole, f"--settings {setting.name}"), Path.cwd())
    if domain.size > MOST:
        raise InputError(f"{setting.name} has {domain.size:,} values", hint=f"at most {MOST:,}")
    diagnostics: list[Diagnostic] = []
    for at in range(domain.size):
        try:
            read_value(setting, domain.text(at))
        except InputError as error:
            diagnostics += error.diagnostics
    if diagnostics:
        raise InputError.all(diagnostics[:1])
    return whole


def _few(setting: Setting) -> str:
    """A few values of a setting, from what is said of it: its choices, its default, its limits."""
    if setting.choices:
        return ", ".join(setting.choices)
    if setting.type == "bool":
        return "true, false"
    whole = setting.type == "int"
    low, high = setting.low, setting.high
    if setting.default is None:
        return ", ".join([AUTO, *map(_plain, _spread(low, high, whole=whole))])
    if setting.type in FIXED:
        return str(setting.default)
    default = setting.default
    tried = [default / 2, default, default * 2]
    if low is not None and high is not None and default > (low + high) / 2:
        tried = [default, high - (high - default) * 2, high - (high - default) / 2]
    kept = (_limited(round(value) if whole else value, low, high) for value in tried)
    return ", ".join(map(_plain, sorted({*kept, default})))


def _spread(low: float | None, high: float | None, *, whole: bool) -> list[float]:
    """Values between the limits; where there is no upper one, some that are usual for counts."""
    if low is not None and high is not None:
        return [low + (high - low) * share for share in (0.01, 0.1)]
    least = max(1, low or 0)
    return [number for number in ((20, 50, 100) if whole else (0.1, 1, 10)) if number >= least]


def _limited(number: float, low: float | None, high: float | None) -> float:
    if low is not None:
        number = max(number, low)
    return number if high is None else min(number, high)


def _plain(number: float) -> str:
    return f"{number:.6g}"
