"""Times of the repository as text, in UTC; a database of others may hold any number."""

from __future__ import annotations

from datetime import UTC, datetime


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
