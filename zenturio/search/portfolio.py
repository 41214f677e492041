"""Several engines that share one budget."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from zenturio.errors import InputError
from zenturio.search.batched import order_independent
from zenturio.search.engine import Search, SearchProblem, describe, make
from zenturio.search.loop import MAX_REPEATS
from zenturio.search.objective import Losses, Trial
from zenturio.settings.schema import setting
from zenturio.space import Point

DISCOUNT = 0.9
"""Rewards of earlier turns are discounted by this factor (discounted UCB)."""


@dataclass(frozen=True)
class PortfolioSettings:
    engines: str = setting("model,ga,hill,simplex", "engines, separated by commas")
    round: int = setting(4, "points in a turn of an engine", low=1)
    curiosity: float = setting(0.5, "how strongly engines with few turns are preferred", low=0)


@dataclass
class PortfolioMember:
    """An engine and its rewards."""

    search: Search
    turns: float = 0.0
    reward_sum: float = 0.0

    def value(self, total: float, curiosity: float) -> float:
        """Return the upper confidence bound of its mean reward (UCB1)."""
        if not self.turns:
            return math.inf
        return self.reward_sum / self.turns + curiosity * math.sqrt(
            math.log(total + 1) / self.turns
        )

    def credit(self, reward: float) -> None:
        """Count one more turn with *reward*."""
        # Old turns are forgotten: which engine is best changes during a search.
        self.turns = self.turns * DISCOUNT + 1
        self.reward_sum = self.reward_sum * DISCOUNT + reward


@dataclass
class PortfolioTurn:
    """The points of one member's turn, and their trials."""

    member: PortfolioMember
    queue: list[Point]
    pending: Counter[Point] = field(default_factory=Counter)
    trials: list[Trial] = field(default_factory=list)


class Portfolio:
    """Several engines in turns, more turns for the successful ones: where little is known."""

    Settings = PortfolioSettings
    order_independent = True

    def __init__(self, problem: SearchProblem, settings: PortfolioSettings) -> None:
        names = [name.strip() for name in settings.engines.split(",") if name.strip()]
        if not names or "portfolio" in names:
            raise InputError(
                f"engines={settings.engines} is not a portfolio",
                hint="name other engines: ga,hill,random",
            )
        self._problem = problem
        self._settings = settings
        self._members = [PortfolioMember(order_independent(self._engine(name))) for name in names]
        self._trials: dict[Point, Trial] = {}
        self._best: Losses = problem.directions.worst
        self._turn: PortfolioTurn | None = None

    def _engine(self, name: str) -> Search:
        """Return a member; one that proposes batches has a turn for each of them."""
        has_batches = any(setting.name == "batch" for setting in describe(name).settings)
        batch = {"batch": self._settings.round} if has_batches else {}
        return make(name, self._problem, batch)

    def ask(self, limit: int) -> Sequence[Point]:
        if self._turn is None:
            self._turn = self._next_turn()
        if self._turn is None:
            return []
        points, self._turn.queue = self._turn.queue[:limit], self._turn.queue[limit:]
        self._turn.pending.update(points)
        return points

    def tell(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            self._trials[trial.point] = trial
            turn = self._turn
            if turn is None or trial.point not in turn.pending:
                continue
            for member in self._members:
                # The member itself is told of its whole turn at once, when it is complete.
                if member is not turn.member:
                    member.search.tell([trial])
            turn.pending.subtract([trial.point])
            turn.pending += Counter()  # drops counts of zero
            turn.trials.append(trial)
            if not turn.pending and not turn.queue:
                self._finish(turn)

    def _next_turn(self) -> PortfolioTurn | None:
        """Return the turn of the most promising member that proposes something new."""
        while self._members:
            total = sum(member.turns for member in self._members)
            curiosity = self._settings.curiosity
            member = max(self._members, key=lambda member: member.value(total, curiosity))
            for _ in range(MAX_REPEATS):
                points = member.search.ask(self._settings.round)
                if not points:
                    break
                new = [point for point in points if self._is_new(point)]
                if new:
                    member.search.tell(
                        [self._trials[point] for point in points if not self._is_new(point)]
                    )
                    return PortfolioTurn(member, new)
                member.search.tell([self._trials[point] for point in points])
            self._members.remove(member)
        return None

    def _is_new(self, point: Point) -> bool:
        return self._problem.allow_repeats or point not in self._trials

    def _finish(self, turn: PortfolioTurn) -> None:
        """Tell the member of its trials; reward it if one of them is the best so far."""
        turn.member.search.tell(turn.trials)
        best = min(self._problem.directions.losses(trial.scores) for trial in turn.trials)
        turn.member.credit(1.0 if best < self._best else 0.0)
        self._best = min(best, self._best)
        self._turn = None
