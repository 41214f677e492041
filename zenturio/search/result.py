"""What a search has found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from zenturio.search.gene_encoding import Ints
from zenturio.search.genome import Genome
from zenturio.search.loop import Scores
from zenturio.search.objective import Directions, Trial

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class SearchResult:
    """The trials of a search in the order in which they were asked for, and the best of them."""

    trials: Sequence[Trial]
    """All trials; of a compiled objective only those that improved the best score."""
    best: Trial | None
    directions: Directions
    stop_reason: str
    """Why it ended: exhausted, budget, time, target or stall."""
    count: int
    """The number of trials; of a compiled objective, of evaluations. Evaluations that confirm the
    best point are not counted."""
    seconds: float
    numbers: Sequence[int] = ()
    """The number of each trial, from 1, if ``trials`` are not all."""
    confirmed: tuple[float, ...] = ()
    """The scores by which the best point was confirmed; ``best`` has their mean."""

    @property
    def front(self) -> list[Trial]:
        """The Pareto front of the trials."""
        return self.directions.front(self.trials)

    def frame(self) -> pd.DataFrame:
        """Return a row for each trial: its number, the point's values, its scores, the best so far.

        ``zen.chart(result.frame(), "convergence")`` draws it.
        """
        import pandas as pd  # noqa: PLC0415 - takes a second

        numbers = self.numbers or range(1, len(self.trials) + 1)
        frame = pd.DataFrame([dict(trial.point) for trial in self.trials])
        parameters, scores = list(map(str, frame.columns)), []
        frame.insert(0, "trial", pd.Series(list(numbers), dtype="int64"))
        single = len(self.directions) == 1
        for index in range(len(self.directions)):
            column = [trial.scores[index] if trial.scores else None for trial in self.trials]
            name = _unused("score" if single else f"score{index + 1}", frame.columns)
            frame[name] = pd.Series(column, dtype="float64")
            scores.append(name)
        if single:
            frame[_unused("best", frame.columns)] = pd.Series(
                list(self._best_so_far()), dtype="float64"
            )
        directions = zip(self.directions.names, scores, strict=True)
        frame.attrs = {
            "parameters": parameters,
            "goals": [" ".join(objective) for objective in directions],
            "visit": "trial",
            "noun": "trials",
            "of": self.count,
        }
        return frame

    def _best_so_far(self) -> Iterator[float | None]:
        """Yield the best score after each trial."""
        best, score = self.directions.worst, None
        for trial in self.trials:
            losses = self.directions.losses(trial.scores)
            if losses < best:
                best, score = losses, trial.scores[0]
            yield score


class LazyTrials(Sequence[Trial]):
    """Trials that are kept as rows of genes and decoded when they are read."""

    def __init__(self, genome: Genome, genes: Ints, scores: Sequence[Scores]) -> None:
        self._genome = genome
        self._genes = genes
        self.scores = scores
        """The scores of all trials; reading them decodes no points."""

    def __len__(self) -> int:
        return len(self.scores)

    @overload
    def __getitem__(self, at: int) -> Trial: ...
    @overload
    def __getitem__(self, at: slice) -> list[Trial]: ...
    def __getitem__(self, at: int | slice) -> Trial | list[Trial]:
        if isinstance(at, slice):
            return self._decode(at)
        at = range(len(self))[at]
        return self._decode(slice(at, at + 1))[0]

    def __iter__(self) -> Iterator[Trial]:
        return iter(self._decode(slice(None)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(len(self))

    def _decode(self, at: slice) -> list[Trial]:
        points = self._genome.points(self._genes[at])
        return [Trial(*pair) for pair in zip(points, self.scores[at], strict=True)]


def _unused(name: str, names: Any) -> str:
    """Return *name*, with underscores appended if a parameter has this name."""
    while name in names:
        name += "_"
    return name
