"""Several engines on one budget."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from zenturio.errors import InputError
from zenturio.search.engines import make
from zenturio.search.objective import Losses, Trial
from zenturio.search.pilot import LOST
from zenturio.search.rounds import steady
from zenturio.search.search import Search, Task
from zenturio.search.settings import setting
from zenturio.space import Point

FADING = 0.9
"""What an engine earned counts so much less with each of its later rounds."""


@dataclass(frozen=True)
class PortfolioSettings:
    engines: str = setting("model,ga,hill", "which engines, separated by commas")
    round: int = setting(4, "points that an engine is asked for when it is its turn", low=1)
    curiosity: float = setting(0.5, "how much those are favoured that had few turns", low=0)


@dataclass
class Member:
    """An engine, and how it has done."""

    search: Search
    turns: float = 0.0
    earned: float = 0.0

    def value(self, total: float, curiosity: float) -> float:
        """What its next turn may be worth: what it earned, and what is not known of it."""
        if not self.turns:
            return math.inf
        return self.earned / self.turns + curiosity * math.sqrt(math.log(total + 1) / self.turns)

    def credit(self, reward: float) -> None:
        """Count one more turn."""
        self.turns = self.turns * FADING + 1
        self.earned = self.earned * FADING + reward


@dataclass
class Turn:
    """The points of one member, and what came of them."""

    member: Member
    open: list[Point]
    away: Counter[Point] = field(default_factory=Counter)
    tried: list[Trial] = field(default_factory=list)


class Portfolio:
    """Several engines in turns, more for those that find more: where nothing is known."""

    Settings = PortfolioSettings
    steady = True

    def __init__(self, task: Task, settings: PortfolioSettings) -> None:
        names = [name.strip() for name in settings.engines.split(",") if name.strip()]
        if not names or "portfolio" in names:
            raise InputError(
                f"engines={settings.engines} is no portfolio", hint="name others: ga,hill,random"
            )
        self._task = task
        self._settings = settings
        self._members = [Member(steady(make(name, task))) for name in names]
        self._known: dict[Point, Trial] = {}
        self._best: Losses = task.goals.worst
        self._turn: Turn | None = None

    def ask(self, limit: int) -> Sequence[Point]:
        if self._turn is None:
            self._turn = self._next()
        if self._turn is None:
            return []
        asked, self._turn.open = self._turn.open[:limit], self._turn.open[limit:]
        self._turn.away.update(asked)
        return asked

    def tell(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            self._known[trial.point] = trial
            turn = self._turn
            if turn is None or trial.point not in turn.away:
                continue
            for member in self._members:
                if member is not turn.member:
                    member.search.tell([trial])
            turn.away.subtract([trial.point])
            turn.away += Counter()  # without those of which there is none left
            turn.tried.append(trial)
            if not turn.away and not turn.open:
                self._end(turn)

    def _next(self) -> Turn | None:
        """The turn of the most promising member that has something new to try."""
        while self._members:
            total = sum(member.turns for member in self._members)
            curiosity = self._settings.curiosity
            member = max(self._members, key=lambda each: each.value(total, curiosity))
            for _ in range(LOST):
                points = member.search.ask(self._settings.round)
                if not points:
                    break
                new = [point for point in points if self._is_new(point)]
                if new:
                    member.search.tell(
                        [self._known[point] for point in points if not self._is_new(point)]
                    )
                    return Turn(member, new)
                member.search.tell([self._known[point] for point in points])
            self._members.remove(member)
        return None

    def _is_new(self, point: Point) -> bool:
        return self._task.again or point not in self._known

    def _end(self, turn: Turn) -> None:
        """Tell the member of its trials, and credit it if one of them is the best so far."""
        turn.member.search.tell(turn.tried)
        best = min(self._task.goals.losses(trial.scores) for trial in turn.tried)
        turn.member.credit(1.0 if best < self._best else 0.0)
        self._best = min(best, self._best)
        self._turn = None
