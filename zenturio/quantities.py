"""Quantities and times as a person reads them: counts, durations, rates, sizes, dates in UTC."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime


def count(number: int) -> str:
    """Return ``349,853``; beyond a trillion with its power of ten."""
    if number < 10**12:
        return f"{number:,}"
    digits = len(str(number)) - 1
    return f"{str(number)[0]}.{str(number)[1:3]}e+{digits}"


def amount(number: int, noun: str) -> str:
    """Return ``1 point``, ``349,853 points``."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def listing(words: Sequence[str]) -> str:
    """Return ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def duration(seconds: float | None) -> str:
    """Return ``0.42 s``, ``12 s``, ``3 min 20 s``, ``5 h 12 min``, ``3 d 4 h``; nothing of none."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    if seconds < 10:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    for large, small, unit, part in (("d", "h", 86400, 3600), ("h", "min", 3600, 60)):
        if whole >= unit:
            return f"{whole // unit} {large} {whole % unit // part} {small}"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


def rate(each_second: float) -> str:
    """Return ``820/s``, ``12/min``, ``3/h``."""
    for unit, seconds in (("s", 1), ("min", 60)):
        if each_second * seconds >= 1:
            return f"{each_second * seconds:.3g}/{unit}"
    return f"{each_second * 3600:.2g}/h"


def size(number: int) -> str:
    """Return ``12.3 KB``"""
    value = float(number)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


# Times, in UTC; the database of somebody else may hold any number


def utc_time(seconds: float | None) -> str:
    """Return a time as a person reads it; one that no calendar has, as its seconds."""
    if not seconds:
        return ""
    time = _time(seconds)
    return time.strftime("%Y-%m-%d %H:%M:%SZ") if time else f"{seconds:g} s after 1970"


def utc_day(seconds: float) -> str:
    """Return the day of a time, such as 2026-11-19."""
    time = _time(seconds)
    return str(time.date()) if time else utc_time(seconds)


def iso_time(seconds: float | None) -> str | None:
    """Return a time as a program reads it; None for none, and for one that no calendar has."""
    time = _time(seconds) if seconds else None
    return time.isoformat() if time else None


def _time(seconds: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):  # beyond the year 9999, infinite, or NaN
        return None
