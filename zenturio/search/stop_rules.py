"""When a search ends: its budget of trials and of time, and rules that end it earlier."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from zenturio.errors import InputError, did_you_mean

_UNITS = {"s": 1, "sec": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)")
_RULES = ("target", "stall")


@dataclass(frozen=True, slots=True)
class Budget:
    """What a search may spend: trials and seconds; None for no limit."""

    trials: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class StopRules:
    """Rules that end a search before its budget does."""

    target: float | None = None
    """Stop when the first objective is at least as good as this."""
    stall: int | None = None
    """Stop after this many trials without improvement."""
    share: float | None = None
    """The same as a percentage of the budget's trials."""

    def patience(self, budget: Budget) -> int | None:
        """Return after how many trials without improvement the search stops; None for never."""
        if self.share is None:
            return self.stall
        if budget.trials is None:
            raise InputError(
                "stall in % needs a budget of trials",
                hint="--budget 500, or a number: stall=100",
            )
        share = max(1, round(budget.trials * self.share / 100))
        return share if self.stall is None else min(share, self.stall)


def parse_budget(text: str | int | Budget | None) -> Budget:
    """Parse ``500``, ``10min`` or ``500,10min``."""
    if isinstance(text, Budget):
        return text
    budget = Budget()
    for part in () if text is None else str(text).split(","):
        word = part.strip().lower()
        if word.isdecimal() and int(word) > 0:
            budget = replace(budget, trials=int(word))
        elif (match := _TIME.fullmatch(word)) and match[2] in _UNITS and float(match[1]) > 0:
            budget = replace(budget, seconds=float(match[1]) * _UNITS[match[2]])
        else:
            raise InputError(
                f"{part.strip()!r} is not a budget",
                hint="write a number of trials, a time, or both: 500, 10min, or 500,10min",
            )
    return budget


def parse_stop_rules(texts: Iterable[str] | str | StopRules) -> StopRules:
    """Parse rules such as ``target=12.5``, ``stall=100`` and ``stall=20%``."""
    if isinstance(texts, StopRules):
        return texts
    stops = StopRules()
    parts = [part for text in ([texts] if isinstance(texts, str) else texts) for part in _cut(text)]
    for name, value in parts:
        if name not in _RULES:
            raise InputError(
                f"--stop {name}: there is no such rule", hint=did_you_mean(name, _RULES)
            )
        number = _number(value.removesuffix("%"))
        if name == "target" and number is not None and not value.endswith("%"):
            stops = replace(stops, target=number)
        elif name == "stall" and number is not None and number > 0 and value.endswith("%"):
            stops = replace(stops, share=number)
        elif name == "stall" and number is not None and number >= 1 and number == int(number):
            stops = replace(stops, stall=int(number))
        else:
            hint = "stall=100, or stall=20%" if name == "stall" else "target=12.5"
            raise InputError(f"--stop {name}={value} is not a rule", hint=f"write {hint}")
    return stops


def _cut(text: str) -> list[tuple[str, str]]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    return [(name.strip().lower(), value.strip()) for name, _, value in pairs]


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None
