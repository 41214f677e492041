"""Which of a space's points are meant: all, the first ones, some drawn at random, or one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from zenturio.errors import InputError
from zenturio.space.point import PointBlock

if TYPE_CHECKING:
    from zenturio.space import Point, Space

MANY = 1_000_000
"""Beyond so many points, whoever wants all of them is asked to say so."""


@dataclass(frozen=True)
class PointSelection:
    """Points of a space in their order, and how many they are (at most, where that is unknown)."""

    space: Space
    count: int
    limit: int | None = None
    picked: tuple[Point, ...] | None = None

    @classmethod
    def none(cls, space: Space) -> PointSelection:
        """No point, of a space of any kind: a search asks for its own."""
        return cls(space, 0, picked=())

    def numbered(self) -> Iterator[tuple[int, Point]]:
        """Yield each point with its number in the space; -1 where the space is not counted."""
        if self.picked is None:
            return enumerate(self)
        return ((self.space.number(point), point) for point in self.picked)

    def blocks(self, size: int) -> Iterator[PointBlock]:
        """Yield the points *size* at a time; the last ones may be fewer."""
        if self.picked is None:
            yield from self.space.blocks(size, self.limit)
            return
        for start in range(0, len(self.picked), size):
            points = self.picked[start : start + size]
            yield PointBlock(len(points), points.__iter__)

    def __iter__(self) -> Iterator[Point]:
        if self.picked is not None:
            return iter(self.picked)
        return islice(iter(self.space), self.limit)


def select_points(
    space: Space,
    *,
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    index: int | None = None,
    design: str = "",
) -> PointSelection:
    """Return the points that the options name; an error where the whole would never end."""
    if sum(option is not None for option in (limit, sample, index, design or None)) > 1:
        raise InputError(
            "--limit, --sample, --design and --index exclude each other",
            hint="give only one of them",
        )
    if design:
        from zenturio.search.designs import Design  # noqa: PLC0415 - most runs have none

        points = tuple(dict.fromkeys(Design.read(design, seed).points(space)))
        return PointSelection(space, len(points), picked=points)
    if sample is not None:
        picked = tuple(space.sample(sample, seed))
        return PointSelection(space, len(picked), picked=picked)
    if not space.finite:
        raise InputError(
            "the space is continuous: it has no first point and no last",
            hint="draw some of its points: --sample 100",
        )
    if index is not None:
        if index >= space.size:
            raise InputError(
                f"--index {index}: there are only {space.size} points",
                hint=f"they are numbered from 0 to {space.size - 1}",
            )
        return PointSelection(space, 1, picked=(space.point(index),))
    if limit is None:
        _refuse_too_many(space)
    if limit is None:
        return PointSelection(space, space.size)
    # The first points can be walked without knowing how many there are.
    return PointSelection(space, min(limit, space.size) if space.is_counted else limit, limit=limit)


def _refuse_too_many(space: Space) -> None:
    """Refuse a space of more than MANY points; where that is certain anyway, without counting."""
    least = 0 if space.is_counted else space.at_least()
    if least > MANY:
        digits = max(0, len(str(least)) - 3)
        number, all_of_them = f"more than {least // 10**digits * 10**digits:,}", "N"
    else:
        number, all_of_them = f"{space.size:,}", str(space.size)
    if least > MANY or space.size > MANY:
        raise InputError(
            f"{number} points are too many to run",
            hint="take the first ones (--limit 1000), draw some (--sample 1000), or say that you "
            f"want all: --limit {all_of_them}",
        )
