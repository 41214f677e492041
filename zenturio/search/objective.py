"""Objectives, the trials that they return, and the comparison of trials by direction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from zenturio.errors import InputError, did_you_mean
from zenturio.space import Point

Direction = Literal["minimize", "maximize"]

Losses = tuple[float, ...]
"""One number for each objective, the lower the better; infinite if the trial cannot be used."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A point with its measured scores, one for each objective.

    A score of None is missing. A trial without scores failed.
    """

    point: Point
    scores: tuple[float | None, ...] = ()


class Objective(Protocol):
    """Evaluates points: runs a program, simulates a schedule, or computes a formula."""

    def __call__(self, points: Sequence[Point]) -> Iterable[Trial]:
        """Return one trial for each point, in any order."""
        ...


class Directions:
    """The directions of a search's objectives.

    All comparisons of trials go through this class, so that no other code handles signs.
    """

    def __init__(self, directions: Iterable[str] | str = ("minimize",)) -> None:
        texts = (directions,) if isinstance(directions, str) else tuple(directions)
        if not texts:
            raise InputError("a search needs an objective", hint="minimize or maximize")
        self.names: tuple[Direction, ...] = tuple(map(_direction, texts))
        self._signs = tuple(1.0 if name == "minimize" else -1.0 for name in self.names)
        self.worst: Losses = (math.inf,) * len(texts)

    def __len__(self) -> int:
        return len(self.names)

    def losses(self, scores: Sequence[float | None]) -> Losses:
        """Return *scores* as losses; ``worst`` if a score is missing or not finite."""
        if len(scores) != len(self._signs):
            return self.worst
        if len(scores) == 1:  # the usual case, and called for each trial
            (score,), (sign,) = scores, self._signs
            return self.worst if score is None or not math.isfinite(score) else (sign * score,)
        losses = []
        for score, sign in zip(scores, self._signs, strict=True):
            if score is None or not math.isfinite(score):
                return self.worst
            losses.append(sign * score)
        return tuple(losses)

    def scores(self, losses: Losses) -> tuple[float, ...]:
        """Return *losses* as scores, the inverse of ``losses``; empty for ``worst``."""
        if losses == self.worst:
            return ()
        return tuple(sign * loss for loss, sign in zip(losses, self._signs, strict=True))

    def is_usable(self, trial: Trial) -> bool:
        """Return whether *trial* has a finite score for each objective."""
        return self.losses(trial.scores) != self.worst

    def best(self, trials: Iterable[Trial]) -> Trial | None:
        """Return the best trial by the first objective, ties by the next, then the earliest."""
        usable = [trial for trial in trials if self.is_usable(trial)]
        return min(usable, key=lambda trial: self.losses(trial.scores), default=None)

    def front(self, trials: Iterable[Trial]) -> list[Trial]:
        """Return the Pareto front: the trials that no other trial dominates.

        It is sorted by the first objective, and has the earliest of trials with equal scores.
        """
        usable = ((self.losses(trial.scores), trial) for trial in trials if self.is_usable(trial))
        front: list[tuple[Losses, Trial]] = []
        for losses, trial in sorted(usable, key=lambda pair: pair[0]):
            if not any(covers(other, losses) for other, _ in front):
                front.append((losses, trial))
        return [trial for _, trial in front]


def covers(first: Losses, second: Losses) -> bool:
    """Return whether *first* is at least as good as *second* in every objective."""
    return all(a <= b for a, b in zip(first, second, strict=True))


def _direction(text: str) -> Direction:
    for direction in get_args(Direction):
        if direction == text.lower():
            return direction  # type: ignore[no-any-return] # it is one of them
    raise InputError(f"{text!r} is not a direction", hint=did_you_mean(text, get_args(Direction)))
