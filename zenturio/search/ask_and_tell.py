"""Ask and tell in the open: a search whose points the caller evaluates."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from zenturio.errors import InputError
from zenturio.files import read_regular, write_whole
from zenturio.search.api import scores_for
from zenturio.search.engine import SearchProblem, make
from zenturio.search.loop import (
    Confirmation,
    PendingTrial,
    SearchLoop,
    check_confirmation,
    parse_budget,
    parse_stop_rules,
)
from zenturio.search.objective import Directions, Trial
from zenturio.search.transfer_learning import TransferSearch
from zenturio.space import Point, Space
from zenturio.space.space import fingerprint

FORMAT = 1
MOST_BYTES = 1 << 30
"""A saved search is at most so large; it has some hundred bytes for each trial."""


class Optimization:
    """A search that is asked for points and told their scores.

    >>> from zenturio.space import Space
    >>> search = Optimization(Space(x=range(-9, 10)), engine="hill", budget=20)
    >>> trial = search.ask()
    >>> search.tell(trial, trial.point["x"] ** 2)

    Several points may be pending (*slots*), and be told in any order. If the search is *ordered*,
    its points do not depend on that order; otherwise it uses each score as soon as it is told. Its
    state is the sequence of what was asked and told: ``save`` writes it, and ``load`` makes the
    same search again. The last *confirm* evaluations of the budget measure the leading points
    again, as in `search`; they are asked for and told as others, and are not among ``trials``. It
    is not safe to be used by several threads at a time.
    """

    def __init__(
        self,
        space: Space,
        directions: Iterable[str] | str = ("minimize",),
        engine: str = "auto",
        *,
        budget: int | None = None,
        seed: int = 0,
        slots: int = 1,
        ordered: bool = True,
        stops: Iterable[str] | str = (),
        known: Mapping[Point, Any] | None = None,
        learn_from: Mapping[Point, Any] | None = None,
        confirm: int = 0,
        **settings: Any,
    ) -> None:
        ordering = Directions(directions)
        scores = {point: scores_for(ordering, score) for point, score in (known or {}).items()}
        advice = {p: scores_for(ordering, score) for p, score in (learn_from or {}).items()}
        rules = [stops] if isinstance(stops, str) else list(stops)
        self.space = space
        self._definition: dict[str, Any] = {
            "directions": list(ordering.names),
            "engine": engine,
            "budget": budget,
            "seed": seed,
            "slots": slots,
            "ordered": ordered,
            "stops": rules,
            "known": [[self._values(point), list(score)] for point, score in scores.items()],
            "learn_from": [[self._values(point), list(score)] for point, score in advice.items()],
            "settings": settings,
            **({"confirm": confirm} if confirm else {}),
        }
        limits = check_confirmation(confirm, parse_budget(budget), ordering)
        problem = SearchProblem(space, ordering, seed, limits.trials, slots=slots, ordered=ordered)
        searcher = make(engine, problem, settings)
        if advice:
            searcher = TransferSearch(searcher, problem, advice)
        stop_rules = parse_stop_rules(rules)
        self._loop = SearchLoop(
            searcher, ordering, limits, stop_rules, known=scores, ordered=ordered
        )
        self._confirmation = Confirmation(confirm, ordering) if confirm else None
        self._points_to_confirm: deque[Point] = deque()
        """The rest of a round of the confirmation."""
        self._confirming: set[int] = set()
        """The numbers of pending trials that measure a point again."""
        self._pending: dict[int, PendingTrial] = {}
        self._trial_count = 0
        self._events: list[list[Any]] = []
        """What was asked (number, values) and told (number, scores), in this order."""

    def ask(self) -> PendingTrial:
        """Return a trial to evaluate: its ``point``, and the ``number`` that tells it apart.

        InputError if the search is over, or the engine waits for pending trials.
        """
        trials = self._loop.ask(1) or self._ask_to_confirm()
        if not trials and self._loop.stop_reason and not self._pending:
            raise InputError(f"the search is over: {self._loop.stop_reason}", hint="see is_over")
        if not trials:
            raise InputError(
                f"the engine waits for {len(self._pending)} pending trials",
                hint="tell their scores first, or say how many are evaluated at a time: slots=8",
            )
        (trial,) = trials
        self._pending[trial.number] = trial
        self._trial_count += 1
        self._events.append([trial.number, self._values(trial.point)])
        return trial

    def tell(self, trial: PendingTrial, scores: Any) -> None:
        """Report the score of *trial*, one for each direction, or None for a failure."""
        if self._pending.get(trial.number) != trial:
            raise InputError(
                f"trial {trial.number} is not pending", hint="tell each trial that was asked once"
            )
        values = scores_for(self._loop.directions, scores)
        del self._pending[trial.number]
        self._events.append([trial.number, list(values)])
        if self._confirmation and trial.number in self._confirming:
            self._confirming.remove(trial.number)
            self._confirmation.tell(trial.point, values[0] if values else None)
        else:
            self._loop.tell(trial.number, values)

    def _ask_to_confirm(self) -> list[PendingTrial]:
        """Return a leading point that is to be measured again, if the search itself is over."""
        self._fill_points_to_confirm()
        if not self._points_to_confirm:
            return []
        self._confirming.add(self._trial_count)
        return [PendingTrial(self._trial_count, self._points_to_confirm.popleft())]

    def _fill_points_to_confirm(self) -> None:
        """Begin the next round of the confirmation, if the last one is complete."""
        if self._confirmation and not self._points_to_confirm and self._loop.is_over:
            trials = [*self._loop.known_trials, *self._loop.trials]
            self._points_to_confirm += [point for point, _ in self._confirmation.next_round(trials)]

    @property
    def pending(self) -> list[PendingTrial]:
        """The trials that were asked and not told; after ``load`` they have to be evaluated."""
        return list(self._pending.values())

    @property
    def is_over(self) -> bool:
        """Whether the budget is spent, a rule ended the search, or ``ask`` had no more points."""
        self._fill_points_to_confirm()
        return self._loop.is_over and not self._confirming and not self._points_to_confirm

    @property
    def trials(self) -> Sequence[Trial]:
        """The trials in the order in which they were asked, up to the first pending one.

        Of a search that is not ordered: in the order in which they were told.
        """
        return tuple(self._loop.trials)

    @property
    def best(self) -> Trial | None:
        """The best trial or known point; None before there is a usable one.

        The confirmed one with the mean of its ``confirmed`` scores, as soon as there are some.
        """
        if self._confirmation and self._confirmation.best:
            point, scores = self._confirmation.best
            return Trial(point, (fmean(scores),))
        return self._loop.best

    @property
    def confirmed(self) -> tuple[float, ...]:
        """The scores by which the best point was confirmed."""
        best = self._confirmation and self._confirmation.best
        return tuple(best[1]) if best else ()

    @property
    def front(self) -> list[Trial]:
        """The Pareto front of the trials."""
        return self._loop.front

    def save(self, path: Path | str) -> None:
        """Write the state to *path* as JSON; the file is replaced at once or not at all."""
        state = {
            "format": FORMAT,
            "space": fingerprint(self.space),
            **self._definition,
            "events": self._events,
        }
        write_whole(Path(path), [json.dumps(state).encode()])

    @classmethod
    def load(cls, path: Path | str, space: Space) -> Optimization:
        """Return the search of *space* that was saved to *path*, in the same state.

        InputError if it is of another space, or the engine of this version proposes other points.
        """
        try:
            state = json.loads(read_regular(Path(path), MOST_BYTES))
            events, settings = state.pop("events"), state.pop("settings")
            is_same_space = state["space"] == fingerprint(space)
            known, learn_from = (
                {space.find(values): tuple(score) for values, score in state.pop(name, ())}
                if is_same_space
                else {}
                for name in ("known", "learn_from")
            )
            number = state.pop("format")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path} is not a saved search: {error}") from error
        if number != FORMAT or not is_same_space:
            raise InputError(
                f"{path} is a search of another space, or of another version of zenturio",
                hint="load it with the space that it was saved with",
            )
        del state["space"]
        search = cls(space, known=known, learn_from=learn_from, **state, **settings)
        for trial_number, content in events:
            search._replay(path, trial_number, content)
        return search

    def _replay(self, path: Path | str, number: int, content: Any) -> None:
        """Repeat an event; InputError if the engine proposes another point than it did."""
        if not isinstance(content, dict):
            self.tell(self._pending[number], content or None)
            return
        trial = self.ask()
        if (trial.number, self._values(trial.point)) != (number, content):
            raise InputError(
                f"{path}: trial {number} was {content}, and is {dict(trial.point)} now",
                hint="the engine has changed: begin anew with known={point: score}",
            )

    def _values(self, point: Point) -> dict[str, Any]:
        """Return the values of the parameters that are chosen."""
        return {parameter.name: point[parameter.name] for parameter in self.space.dimensions}


def optimize(
    space: Space,
    directions: Iterable[str] | str = ("minimize",),
    engine: str = "auto",
    **options: Any,
) -> Optimization:
    """Return a search of *space* to ask for points and to tell their scores.

    *options* are those of `Optimization`, and settings of the engine.
    """
    return Optimization(space, directions, engine, **options)
