"""What a search has found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from zenturio.search.factors import Ints
from zenturio.search.genome import Genome
from zenturio.search.objective import Goals, Trial
from zenturio.search.pilot import Scores

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Result:
    """The trials of a search in the order in which they were asked for, and the best of them."""

    trials: Sequence[Trial]
    """All of them; of a compiled objective, those that were better than all before."""
    best: Trial | None
    goals: Goals
    ended: str
    """What ended it: exhausted, budget, time, target, stall."""
    count: int
    """How many trials there were; of a compiled objective, how often it was evaluated."""
    seconds: float
    numbers: Sequence[int] = ()
    """The number of each of the trials, from 1, if they are not all."""

    @property
    def front(self) -> list[Trial]:
        """The trials that no other is better than in every respect."""
        return self.goals.front(self.trials)

    def frame(self) -> pd.DataFrame:
        """A row for each trial: its number, the point's values, its scores, the best so far.

        ``zen.chart(result.frame(), "convergence")`` draws it.
        """
        import pandas as pd  # noqa: PLC0415 - a second, for those who want frames

        numbers = self.numbers or range(1, len(self.trials) + 1)
        frame = pd.DataFrame([dict(trial.point) for trial in self.trials])
        parameters, scores = list(map(str, frame.columns)), []
        frame.insert(0, "trial", pd.Series(list(numbers), dtype="int64"))
        single = len(self.goals) == 1
        for at in range(len(self.goals)):
            column = [trial.scores[at] if trial.scores else None for trial in self.trials]
            name = _unused("score" if single else f"score{at + 1}", frame.columns)
            frame[name] = pd.Series(column, dtype="float64")
            scores.append(name)
        if single:
            frame[_unused("best", frame.columns)] = pd.Series(
                list(self._running()), dtype="float64"
            )
        goals = zip(self.goals.directions, scores, strict=True)
        frame.attrs = {
            "parameters": parameters,
            "goals": [" ".join(goal) for goal in goals],
            "visit": "trial",
            "noun": "trials",
            "of": self.count,
        }
        return frame

    def _running(self) -> Iterator[float | None]:
        """The best score after each trial."""
        best, score = self.goals.worst, None
        for trial in self.trials:
            losses = self.goals.losses(trial.scores)
            if losses < best:
                best, score = losses, trial.scores[0]
            yield score


class Rows(Sequence[Trial]):
    """Trials that are rows of genes until somebody looks at them."""

    def __init__(self, genome: Genome, genes: Ints, scores: Sequence[Scores]) -> None:
        self._genome = genome
        self._genes = genes
        self.scores = scores
        """Of all trials; to look at these makes no points."""

    def __len__(self) -> int:
        return len(self.scores)

    @overload
    def __getitem__(self, at: int) -> Trial: ...
    @overload
    def __getitem__(self, at: slice) -> list[Trial]: ...
    def __getitem__(self, at: int | slice) -> Trial | list[Trial]:
        if isinstance(at, slice):
            return self._made(at)
        at = range(len(self))[at]
        return self._made(slice(at, at + 1))[0]

    def __iter__(self) -> Iterator[Trial]:
        return iter(self._made(slice(None)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(len(self))

    def _made(self, at: slice) -> list[Trial]:
        points = self._genome.points(self._genes[at])
        return [Trial(*pair) for pair in zip(points, self.scores[at], strict=True)]


def _unused(name: str, names: Any) -> str:
    """*name*, longer if a parameter is called so."""
    while name in names:
        name += "_"
    return name
