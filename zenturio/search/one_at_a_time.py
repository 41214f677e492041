"""One-at-a-time search from a base point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zenturio.errors import InputError
from zenturio.search.engine import SearchProblem
from zenturio.search.gene_encoding import Ints
from zenturio.search.generator_engine import GeneratorEngine, SearchGenerator
from zenturio.search.neighbours import move_gene
from zenturio.settings.schema import setting

MAX_VALUES = 64
"""Of larger sets, this many evenly spaced values are taken."""


@dataclass(frozen=True)
class OneAtATimeSettings:
    base: str = setting("first", "starting point: first, or values: n=128;threads=4")
    keep: bool = setting(True, "continue from the best value of each parameter, not from the base")
    rounds: int = setting(1, "passes over all parameters", low=1)


class OneAtATime(GeneratorEngine):
    """All values of one parameter, then of the next: shows what each one does, in few points."""

    Settings: ClassVar[type[OneAtATimeSettings]] = OneAtATimeSettings

    def __init__(self, problem: SearchProblem, settings: OneAtATimeSettings) -> None:
        super().__init__(problem, settings)
        self._settings = settings
        self._base = self._first()

    def _first(self) -> Ints:
        """Return the base point; by default each parameter's first valid value."""
        text = self._settings.base.strip()
        if text == "first":
            (row,) = self.genome.repair(np.zeros((1, self.genome.length), dtype=np.int64))
            return row  # type: ignore[no-any-return] # a row of an array
        base = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
        types = {
            dimension.name: dimension.domain.type
            for dimension in self.problem.space.dimensions
            if dimension.domain
        }
        values: dict[str, str | float | bool] = {}
        for name, value in ((name.strip(), value.strip()) for name, value in base.items()):
            plain = types.get(name, "str") == "str"
            values[name] = value if plain else _number(name, value)
        return self.genome.row(values)

    def walk(self) -> SearchGenerator:
        row = self._base
        loss = float((yield row[None, :])[0, 0])
        for _ in range(self._settings.rounds):
            before = row
            for gene, size in enumerate(self.genome.sizes.tolist()):
                values = np.unique(np.linspace(0, size - 1, min(size, MAX_VALUES)).round())
                rows = move_gene(self.genome, row, gene, values.astype(np.int64) - row[gene])
                if not len(rows):
                    continue
                losses = (yield rows)[:, 0]
                if self._settings.keep and losses.min() < loss:
                    row, loss = rows[losses.argmin()], float(losses.min())
            # Another pass would propose the same points again.
            if (row == before).all():
                return


def _number(name: str, text: str) -> float | bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return float(text)
    except ValueError:
        raise InputError(f"base: {name}={text!r} is not a number", hint="write a number") from None
