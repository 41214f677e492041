"""Colours that colour-blind readers tell apart, dark enough on white, in print too."""

from __future__ import annotations

from collections.abc import Sequence

INK = "#1a1a1a"
FAINT = "#5c5c5c"
GRID = "#e4e4e4"

DISTINCT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's colours without the yellow, which vanishes on white."""

SCALE = ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30",
         "#fde725")  # fmt: skip
"""Viridis: even steps of lightness, the same for every kind of colour vision."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""By their names in matplotlib; every colour has its own."""

MARKED = 40
"""Marks on a line at most: more of them would hide it."""

DASHES = ("solid", "dashed", "dotted", "dashdot")
"""What tells colours apart that come again."""

BRIGHTEST = 0.88
"""How far up the scale a line or a point may stand on white."""


def colour(rank: int, count: int, *, ordered: bool) -> str:
    """The colour of the *rank*-th of *count* series; along the scale where they are *ordered*."""
    if not ordered or count < 2:
        return DISTINCT[rank % len(DISTINCT)]
    return shade(BRIGHTEST * rank / (count - 1))


PALE = "#b4bcc4"
"""What stands behind that which is looked at."""

RING = "#d00000"
"""What marks the best point, on any colour of the scale."""


def dash(rank: int, *, ordered: bool) -> str:
    """The dash of the *rank*-th series: another one each time that the colours begin anew."""
    return DASHES[0 if ordered else rank // len(DISTINCT) % len(DASHES)]


def marker(rank: int) -> str:
    """The marker of the *rank*-th series."""
    return MARKERS[rank % len(MARKERS)]


def slices(names: Sequence[str], categories: Sequence[str]) -> tuple[str, ...]:
    """Colours of a pie's slices: a category keeps its own where all have one; others are grey."""
    known = list(categories if len(categories) <= len(DISTINCT) else names)
    return tuple(
        DISTINCT[known.index(name) % len(DISTINCT)] if name in categories else "#a6a6a6"
        for name in names
    )


def shade(at: float) -> str:
    """The colour of the scale at 0 to 1, mixed from its neighbours."""
    place = min(max(at, 0.0), 1.0) * (len(SCALE) - 1)
    below = min(int(place), len(SCALE) - 2)
    share = place - below
    pair = zip(_parts(SCALE[below]), _parts(SCALE[below + 1]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pair)


def _parts(text: str) -> Sequence[int]:
    return [int(text[i : i + 2], 16) for i in (1, 3, 5)]


def dark(text: str) -> bool:
    """Whether white letters read better on the colour than black ones (relative luminance)."""
    red, green, blue = (part / 255 for part in _parts(text))
    luminance: float = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2
    return luminance < 0.18
