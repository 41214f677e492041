"""What is wanted, what came of a point that was tried, and which trials are the best."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from zenturio.errors import InputError, did_you_mean
from zenturio.space import Point

Direction = Literal["minimize", "maximize"]

Losses = tuple[float, ...]
"""One number for each goal, the lower the better; infinite where a trial is of no use."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A point that has been tried, and its score for each goal as it was measured.

    A score of None is missing; no scores at all: the trial failed.
    """

    point: Point
    scores: tuple[float | None, ...] = ()


class Objective(Protocol):
    """Tries points: by running a program, simulating a schedule, or evaluating a formula."""

    def __call__(self, points: Sequence[Point]) -> Iterable[Trial]:
        """One trial for each point, in any order."""
        ...


class Goals:
    """The directions of the scores: whoever compares trials asks here, and sees no signs."""

    def __init__(self, directions: Iterable[str] | str = ("minimize",)) -> None:
        named = (directions,) if isinstance(directions, str) else tuple(directions)
        if not named:
            raise InputError("a search needs a goal", hint="minimize or maximize")
        self.directions: tuple[Direction, ...] = tuple(map(_direction, named))
        self._signs = tuple(1.0 if each == "minimize" else -1.0 for each in self.directions)
        self.worst: Losses = (math.inf,) * len(named)

    def __len__(self) -> int:
        return len(self.directions)

    def losses(self, scores: Sequence[float | None]) -> Losses:
        """What *scores* are worth; all infinite if one of them is missing or is no number."""
        if len(scores) != len(self._signs):
            return self.worst
        if len(scores) == 1:  # nearly always, and for each trial
            (score,), (sign,) = scores, self._signs
            return self.worst if score is None or not math.isfinite(score) else (sign * score,)
        found = []
        for score, sign in zip(scores, self._signs, strict=True):
            if score is None or not math.isfinite(score):
                return self.worst
            found.append(sign * score)
        return tuple(found)

    def scores(self, losses: Losses) -> tuple[float, ...]:
        """The scores that are worth *losses*; none where these are of no use."""
        if losses == self.worst:
            return ()
        return tuple(sign * loss for loss, sign in zip(losses, self._signs, strict=True))

    def usable(self, trial: Trial) -> bool:
        """Whether *trial* can be among the best at all."""
        return self.losses(trial.scores) != self.worst

    def best(self, trials: Iterable[Trial]) -> Trial | None:
        """The best by the first goal, then by the next ones; the earlier of equal ones."""
        usable = [trial for trial in trials if self.usable(trial)]
        return min(usable, key=lambda trial: self.losses(trial.scores), default=None)

    def front(self, trials: Iterable[Trial]) -> list[Trial]:
        """The trials that no other is better than in every respect, the Pareto front.

        Sorted by the first goal; of trials with equal scores, the earliest.
        """
        usable = ((self.losses(trial.scores), trial) for trial in trials if self.usable(trial))
        kept: list[tuple[Losses, Trial]] = []
        for losses, trial in sorted(usable, key=lambda pair: pair[0]):
            if not any(covers(other, losses) for other, _ in kept):
                kept.append((losses, trial))
        return [trial for _, trial in kept]


def covers(one: Losses, other: Losses) -> bool:
    """Whether *one* is at least as good as *other* in every respect."""
    return all(a <= b for a, b in zip(one, other, strict=True))


def _direction(text: str) -> Direction:
    for direction in get_args(Direction):
        if direction == text.lower():
            return direction  # type: ignore[no-any-return] # it is one of them
    raise InputError(f"{text!r} is no goal", hint=did_you_mean(text, get_args(Direction)))
