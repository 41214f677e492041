"""Parts too large to join at once, as a tree of blocks: walked, counted and searched lazily."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np

from zenturio.errors import SpaceError
from zenturio.space.components import Part
from zenturio.space.dependent import Dependent
from zenturio.space.diagram import EDGES, Diagram
from zenturio.space.join import Join, Progress
from zenturio.space.rows import Rows
from zenturio.space.table import Overfull

_FEWEST, _MANY = 2, 64

Window = tuple[int, int]


@dataclass(frozen=True)
class Block:
    """The points whose codes in the first dimensions lie in *windows*; all but the last are one."""

    windows: tuple[Window, ...] = ()
    share: float = field(default=1.0, compare=False)
    """How much of the whole product the block is."""


WHOLE = Block()


class Blocks:
    """The blocks of a part, each divided when it turns out to be too large."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.join = Join(part)
        self._children: dict[Block, tuple[Block, ...]] = {}
        self._counts: dict[Block, int] = {}
        self._diagram = lru_cache(maxsize=8)(self._made)

    @property
    def diagram(self) -> Diagram | None:
        """The diagram of all points, if it is not too large."""
        return self._diagram(WHOLE)

    def count(self) -> int:
        """How many points there are; SpaceError if that would take for ever."""
        return self._count(WHOLE, Progress())

    def _windows(self, block: Block) -> dict[str, Window]:
        return dict(zip(self.part.names, block.windows, strict=False))

    def _count(self, block: Block, progress: Progress) -> int:
        if block not in self._counts:
            diagram = self._diagram(block)
            if diagram is None:
                children = self._children[block]
                self._counts[block] = sum(self._count(child, progress) for child in children)
            else:
                self._counts[block] = diagram.size
                progress.rows += EDGES
                progress.share += block.share
                self._refuse_hopeless(progress)
        return self._counts[block]

    def _refuse_hopeless(self, progress: Progress) -> None:
        if progress.is_hopeless:
            names = ", ".join(self.part.names[:6]) + (", ..." if self.part.names[6:] else "")
            raise SpaceError(
                f"the valid combinations of {names} are too many to be counted",
                hint="sample them, walk them with a limit, or let a search engine choose",
            )

    def locate(self, row: int) -> tuple[int, Diagram]:
        """The diagram that holds the point number *row*, and the number of its first point."""
        block, first = WHOLE, 0
        while (diagram := self._diagram(block)) is None:
            children = self._children[block]
            counts = [self._count(child, Progress()) for child in children]
            starts = list(accumulate(counts, initial=first))
            at = next(i for i, (_, end) in enumerate(pairwise(starts)) if row < end)
            block, first = children[at], starts[at]
        return first, diagram

    def find(self, codes: dict[str, int]) -> int | None:
        """The number of the point with *codes*."""
        block, first = WHOLE, 0
        while (diagram := self._diagram(block)) is None:
            found = None
            for child in self._children[block]:
                code = codes[self.part.names[len(child.windows) - 1]]
                low, high = child.windows[-1]
                if low <= code < high:
                    found = child
                    break
                first += self._count(child, Progress())
            if found is None:
                return None
            block = found
        at = diagram.find(codes)
        return None if at is None else first + at

    def _made(self, block: Block) -> Diagram | None:
        """The diagram of *block*, if it is not too large; else there are children."""
        if block in self._children:
            return None
        try:
            return self.join.diagram(self._windows(block))
        except Overfull as error:
            self._divide(block, error.rows)
            return None

    def _divide(self, block: Block, rows: int) -> None:
        """Makes *block* parts, in order, more of them the more *rows* there would have been."""
        windows = block.windows
        while not windows or windows[-1][1] - windows[-1][0] == 1:
            windows = (*windows, self._extent(windows))
        low, high = windows[-1]
        parts = min(max(_FEWEST, rows >> 20), _MANY, high - low)
        cuts = [low + (high - low) * i // parts for i in range(parts + 1)] if parts else []
        self._children[block] = tuple(
            Block((*windows[:-1], cut), block.share / parts) for cut in pairwise(cuts)
        )

    def _extent(self, windows: tuple[Window, ...]) -> Window:
        """All codes of the next dimension, where those before have one code each."""
        parameter = self.part.dimensions[len(windows)]
        codes = {
            name: np.array([low]) for name, (low, _) in zip(self.part.names, windows, strict=False)
        }
        rows = Rows(self.part.parameters, codes, 1)
        for leader in self.part.leaders.get(parameter.name, ()):
            if self.part.parameters[leader].when is None and parameter.when is None:
                code = int(codes[leader][0])
                return code, code + 1
        shift = 0 if parameter.when is None else 1
        if shift and not rows.active(parameter)[0]:
            return 0, 1
        domain = parameter.domain
        assert domain is not None, "only dimensions are divided"
        if isinstance(domain, Dependent):
            return shift, shift + int(rows.counts(domain)[0])
        return shift, shift + domain.size
