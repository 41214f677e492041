"""Parts too large to join at once, as a lazy tree of blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np

from zenturio.errors import SpaceError
from zenturio.space.code_table import TooManyRows
from zenturio.space.decision_diagram import EDGES, DecisionDiagram
from zenturio.space.dependent import Dependent
from zenturio.space.independent_parts import Part
from zenturio.space.join import Join, Progress
from zenturio.space.point_columns import PointColumns

_FEWEST, _MANY = 2, 64

Window = tuple[int, int]


@dataclass(frozen=True)
class Block:
    """The points with codes in *windows* of the first dimensions, all but the last of size 1."""

    windows: tuple[Window, ...] = ()
    share: float = field(default=1.0, compare=False)
    """The share of the plain product that the block covers."""


WHOLE = Block()


class BlockTree:
    """The blocks of a part; a block is divided when its diagram is too large."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.join = Join(part)
        self._children: dict[Block, tuple[Block, ...]] = {}
        self._counts: dict[Block, int] = {}
        self._diagram = lru_cache(maxsize=8)(self._make_diagram)

    @property
    def diagram(self) -> DecisionDiagram | None:
        """The diagram of all points, None if it is too large."""
        return self._diagram(WHOLE)

    def count(self) -> int:
        """Return the number of points; SpaceError if counting would take hours."""
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
                f"the valid combinations of {names} are too many to count",
                hint="sample them, walk them with a limit, or let a search engine choose",
            )

    def locate(self, row: int) -> tuple[int, DecisionDiagram]:
        """Return the diagram with point number *row*, and the number of its first point."""
        block, first = WHOLE, 0
        while (diagram := self._diagram(block)) is None:
            children = self._children[block]
            counts = [self._count(child, Progress()) for child in children]
            starts = list(accumulate(counts, initial=first))
            at = next(i for i, (_, end) in enumerate(pairwise(starts)) if row < end)
            block, first = children[at], starts[at]
        return first, diagram

    def find(self, codes: dict[str, int]) -> int | None:
        """Return the number of the point with *codes*; None if it is not valid."""
        block, first = WHOLE, 0
        while (diagram := self._diagram(block)) is None:
            inside = None
            for child in self._children[block]:
                code = codes[self.part.names[len(child.windows) - 1]]
                low, high = child.windows[-1]
                if low <= code < high:
                    inside = child
                    break
                first += self._count(child, Progress())
            if inside is None:
                return None
            block = inside
        at = diagram.find(codes)
        return None if at is None else first + at

    def _make_diagram(self, block: Block) -> DecisionDiagram | None:
        """Return the diagram of *block*; None, after dividing the block, if it is too large."""
        if block in self._children:
            return None
        try:
            return self.join.diagram(self._windows(block))
        except TooManyRows as error:
            self._divide(block, error.rows)
            return None

    def _divide(self, block: Block, rows: int) -> None:
        """Divide *block* in order, into more children the more *rows* it would have had."""
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
        """Return the window of the next dimension, where those before have one code each."""
        parameter = self.part.dimensions[len(windows)]
        codes = {
            name: np.array([low]) for name, (low, _) in zip(self.part.names, windows, strict=False)
        }
        rows = PointColumns(self.part.parameters, codes, 1)
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
