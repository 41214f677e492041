"""One parameter at a time, from a base point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zenturio.errors import InputError
from zenturio.search.factors import Ints
from zenturio.search.search import Task
from zenturio.search.settings import setting
from zenturio.search.steps import moved
from zenturio.search.walker import Walk, Walker

MOST = 64
"""Of a set that is larger, so many values are taken, evenly."""


@dataclass(frozen=True)
class AxesSettings:
    base: str = setting("first", "where it begins: first, or values: n=128;threads=4")
    keep: bool = setting(True, "go on from the best value of each parameter, not from the base")
    rounds: int = setting(1, "how often all parameters are gone through", low=1)


class OneAtATime(Walker):
    """All values of one parameter, then of the next: what each does, in few points."""

    Settings: ClassVar[type[AxesSettings]] = AxesSettings

    def __init__(self, task: Task, settings: AxesSettings) -> None:
        super().__init__(task, settings)
        self._settings = settings
        self._base = self._first()

    def _first(self) -> Ints:
        """The base point: each parameter at the first value that those before it allow."""
        text = self._settings.base.strip()
        if text == "first":
            (row,) = self.genome.repaired(np.zeros((1, self.genome.length), dtype=np.int64))
            return row  # type: ignore[no-any-return] # a row of an array
        given = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
        types = {each.name: each.domain.type for each in self.task.space.dimensions if each.domain}
        values: dict[str, str | float | bool] = {}
        for name, value in ((name.strip(), value.strip()) for name, value in given.items()):
            plain = types.get(name, "str") == "str"
            values[name] = value if plain else _number(name, value)
        return self.genome.row(values)

    def walk(self) -> Walk:
        row = self._base
        loss = float((yield row[None, :])[0, 0])
        for _ in range(self._settings.rounds):
            before = row
            for gene, size in enumerate(self.genome.sizes.tolist()):
                values = np.unique(np.linspace(0, size - 1, min(size, MOST)).round())
                rows = moved(self.genome, row, gene, values.astype(np.int64) - row[gene])
                if not len(rows):
                    continue
                losses = (yield rows)[:, 0]
                if self._settings.keep and losses.min() < loss:
                    row, loss = rows[losses.argmin()], float(losses.min())
            if (row == before).all():
                return


def _number(name: str, text: str) -> float | bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return float(text)
    except ValueError:
        raise InputError(f"base: {name}={text!r} is no number", hint="write one") from None
