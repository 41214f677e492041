"""A small chart out of block characters, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

_PARTS = " ▏▎▍▌▋▊▉"


def bars(
    names: Sequence[str], values: Sequence[float], *, unit: str = "", width: int = 40
) -> list[str]:
    """A line for each name: its bar, in eighths of a character, and its value.

    The longest bar has *width* characters; bars begin at 0, so values must not be negative.
    """
    longest = max(values, default=0.0) or 1.0
    room = max(map(len, names), default=0)
    lines = []
    for name, value in zip(names, values, strict=True):
        eighths = round(value / longest * width * 8)
        bar = "█" * (eighths // 8) + _PARTS[eighths % 8].strip()
        lines.append(f"{name:>{room}}  {bar} {value:.4g} {unit}".rstrip())
    return lines
