"""A picture of things in their places: boxes on rows, dots, and lines between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from zenturio.show import palette
from zenturio.show.chart import Axis

OTHERS = "others"
GREY = "#8a9199"


@dataclass(frozen=True, slots=True)
class Box:
    """From *left* to *right*, on the rows from *first* to *last*."""

    left: float
    right: float
    first: int
    last: int
    level: int
    """Which of the scene's levels it belongs to."""
    name: str
    told: str = ""
    """What else is said of it where one can point at it."""
    faint: bool = False
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Dot:
    x: float
    y: float
    level: int
    name: str
    told: str = ""


@dataclass(frozen=True)
class Scene:
    """Everything that such a picture says."""

    title: str
    note: str
    x: Axis
    rows: tuple[str, ...] = ()
    """What stands beside the rows of boxes, from the top; empty where there are only dots."""
    row: str = ""
    """What a row is."""
    levels: tuple[str, ...] = ()
    """The texts of the legend; one without a name has no legend."""
    boxes: tuple[Box, ...] = ()
    dots: tuple[Dot, ...] = ()
    lines: tuple[tuple[float, float, float, float], ...] = ()
    """Each from x, y to x, y."""
    labelled: bool = True
    """Whether names stand in boxes and beside dots, where they have room."""

    @property
    def legend(self) -> bool:
        return any(self.levels)


def levels_of(names: Sequence[str]) -> tuple[tuple[str, ...], list[int]]:
    """The levels of *names*, and each one's: the most frequent have their own, few are others."""
    most = len(palette.DISTINCT)
    frequent = [name for name, _ in Counter(names).most_common()]
    own = frequent if len(frequent) <= most else frequent[: most - 1]
    kept = [name for name in dict.fromkeys(names) if name in set(own)]
    number = {name: i for i, name in enumerate(kept)}
    levels = tuple(kept) if len(kept) == len(frequent) else (*kept, OTHERS)
    return levels, [number.get(name, len(kept)) for name in names]


def colour_of(scene: Scene, level: int) -> str:
    """The colour of a level: the same in every painter."""
    if scene.levels[level] == OTHERS:
        return GREY
    return palette.DISTINCT[level % len(palette.DISTINCT)]
