"""The experiments that a search proposes, in the order in which it gets their outcomes.

`SearchSpec` is the search as the user requested it, `SearchSource` makes its experiments,
`ArrivalOrder` repeats the order in which outcomes arrived, and `RecordedPoints` finds the results
with which a search begins. A run without a search does not load this module.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from zenturio.annotate.model import Goal, Repeat
from zenturio.errors import InputError, NotFoundError, SpaceError
from zenturio.experiment import Experiment, ExperimentGenerator, Outcome
from zenturio.experiment.aggregates import StopReason, mean, noise_of
from zenturio.experiment.experiment import Kinds, RunPosition
from zenturio.expression import Value
from zenturio.quantities import amount
from zenturio.record import ExperimentState, Repository
from zenturio.record.entities import ColumnRequest, ResultRunPosition
from zenturio.search import (
    Budget,
    Direction,
    Directions,
    Scores,
    SearchLoop,
    SearchProblem,
    StopRules,
    make,
)
from zenturio.search.generator_engine import lag_for
from zenturio.search.kriging_search import KrigingSearch, KrigingSettings, expected_best
from zenturio.search.loop import Confirmation, check_confirmation, confirmed
from zenturio.search.transfer_learning import TransferSearch
from zenturio.space import Point, Space
from zenturio.study.driver.experiment_states import LOOK_UPS
from zenturio.study.driver.measurement_plan import PointRuns
from zenturio.study.driver.progress import BestPoint, ExpectedPoint, scalars, score, score_of_values
from zenturio.study.last_options import SEARCH

if TYPE_CHECKING:
    from zenturio.study.driver.cached_points import CachedPoints, LoadCachedPoints


@dataclass(frozen=True)
class SearchSpec:
    """A search as the user requested it: engine, settings, budget and stop rules."""

    engine: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    stops: StopRules = field(default_factory=StopRules)
    seed: int = 0
    slots: int = 1
    """How many points are evaluated at a time."""
    known: tuple[str, ...] | None = None
    """Digests of the experiments of known points, abbreviated; None before they were collected."""
    learn_from: str = ""
    """The study of another version or machine whose results advise the search."""
    advice: tuple[tuple[tuple[Any, ...], float], ...] = ()
    """Values of the parameters and scores in that study when the search began."""
    ordered: bool = False
    """Whether proposals depend on the numbers of trials only. Otherwise they also depend on the
    order in which outcomes arrive, and that order is recorded.
    """
    replay: str = ""
    """The version of a study whose recorded order of arrival this search follows."""
    followed: tuple[ResultRunPosition, ...] = ()
    """The recorded order of arrival."""
    confirm: int = 0
    """How many runs of the budget measure the leading points again."""

    @property
    def is_ordered(self) -> bool:
        """Whether the order of arrival has no effect; with one slot it never has."""
        return self.ordered or self.slots <= 1

    @property
    def order_name(self) -> str:
        """The name of the order of arrival in the record; it is unique to this search."""
        note = json.dumps(self.note(), sort_keys=True).encode()
        return f"search {hashlib.sha256(note).hexdigest()[:12]}"

    def resumed(self, before: Mapping[str, Any], slots: int) -> SearchSpec:
        """Return this search for *slots*, or for as many as it had when it was interrupted.

        *before* are the notes of its study. How far ahead an engine proposes depends on the number
        of slots. So with the recorded number of slots, and the points that were known at the start,
        a search proposes the same points again. With more slots it starts over, because otherwise
        slots would be idle.
        """
        noted = before.get(SEARCH, {})
        recorded = replace(
            self,
            slots=max(slots, int(noted.get("slots", 1))),
            known=tuple(noted.get("known", ())),
            advice=_advice(noted),
            ordered=self.ordered or not noted.get(ARRIVAL),
        )
        return recorded if noted == recorded.note() else replace(self, slots=max(slots, 1))

    def note(self) -> dict[str, Any]:
        """Return what determines the points of this search, as JSON."""
        settings = {name: str(value) for name, value in sorted(self.settings.items())}
        return {
            "engine": self.engine,
            "settings": settings,
            "trials": self.budget.trials,
            "seed": self.seed,
            "slots": self.slots,
            "known": list(self.known or ()),
            **({} if self.is_ordered else {ARRIVAL: True}),
            **({REPLAY: self.replay} if self.replay else {}),
            **({CONFIRM: self.confirm} if self.confirm else {}),
            **(
                {
                    "learn_from": self.learn_from,
                    "advice": [[list(values), score] for values, score in self.advice],
                }
                if self.learn_from
                else {}
            ),
        }

    def loop(
        self,
        space: Space,
        goals: Sequence[Goal],
        known: Mapping[Point, Scores] | None = None,
        shared: tuple[tuple[str, ...], ...] = (),
    ) -> SearchLoop:
        """Return the loop that runs this search; InputError if the engine does not suit the space.

        *shared* is passed to `SearchProblem`.
        """
        if not goals:
            raise InputError(
                "a search needs an objective",
                hint="write ZEN$ OBJECTIVE MAXIMIZE metric, or --objective 'MINIMIZE wtime'",
            )
        directions = Directions(tuple(goal.direction for goal in goals))
        budget = check_confirmation(self.confirm, self.budget, directions)
        task = SearchProblem(
            space,
            directions,
            self.seed,
            budget.trials,
            slots=self.slots,
            shared=shared,
            ordered=self.is_ordered,
        )
        engine = make(self.engine, task, self.settings)
        if self.learn_from:
            names = [parameter.name for parameter in space.dimensions]
            advice = {
                space.find(dict(zip(names, values, strict=True))): (score,)
                for values, score in self.advice
            }
            engine = TransferSearch(engine, task, advice)
        return SearchLoop(
            engine, directions, budget, self.stops, known=known, ordered=self.is_ordered
        )

    def confirmation(self, goals: Sequence[Goal]) -> Confirmation | None:
        """Return how the leading points are measured again; None if they are not."""
        directions = Directions(tuple(goal.direction for goal in goals))
        return Confirmation(self.confirm, directions) if self.confirm else None

    def arrivals(
        self, repository: Repository, study: str, round_: int | None, kinds: Kinds
    ) -> ArrivalOrder | None:
        """Return the order in which outcomes are passed to the engine; None if it has no effect.

        It begins with the outcomes that this search recorded in *study*, in this round and on
        *kinds* of machine, and continues with the order that it follows.
        """
        if self.is_ordered:
            return None
        try:
            placed_runs = repository.placed_runs(study, self.order_name)
            newest_round = round_ or repository.rounds(study)[-1].number
        except NotFoundError:  # it is not opened yet
            placed_runs, newest_round = (), 1
        own_runs = [
            run
            for run in placed_runs
            if run.round == newest_round and (kinds is None or run.machine in kinds)
        ]
        return ArrivalOrder(self.order_name, own_runs, self.followed)

    @property
    def is_endless(self) -> bool:
        """Whether only the space, or the user, ends the search."""
        rules = (self.budget.trials, self.budget.seconds, self.stops.target, self.stops.stall)
        return all(rule is None for rule in (*rules, self.stops.share))

    def lag(self, space: Space) -> int:
        """Return how many of the trials before a trial may still be pending when it is judged."""
        trials = self.budget.trials and self.budget.trials - self.confirm
        return lag_for(SearchProblem(space, budget=trials, slots=self.slots))

    def planned(self, space: Space) -> int:
        """Return the largest number of points that it may evaluate; 0 if unknown."""
        size = space.size + self.confirm if space.finite else None
        limits = [count for count in (self.budget.trials, size) if count is not None]
        return min(limits, default=0)


ARRIVAL, REPLAY, CONFIRM = "arrival", "replay", "confirm"
"""Keys of the note of a search."""


def _advice(note: Mapping[str, Any]) -> tuple[tuple[tuple[Any, ...], float], ...]:
    return tuple((tuple(values), score) for values, score in note.get("advice", ()))


def recorded_search(repository: Repository, study: str) -> SearchSpec:
    """Return the search that *study* recorded, which repeats it in its order of arrival.

    InputError if *study* was not searched.
    """
    note = repository.definition(study).notes.get(SEARCH)
    if not note:
        raise InputError(
            f"--replay {study}: it was not searched", hint="name a study of zen run --search"
        )
    info = repository.study(study)
    spec = SearchSpec(
        note["engine"],
        note["settings"],
        Budget(note["trials"]),
        seed=note["seed"],
        slots=note["slots"],
        known=tuple(note["known"]),
        learn_from=note.get("learn_from", ""),
        advice=_advice(note),
        ordered=not note.get(ARRIVAL),
        replay=note.get(REPLAY, ""),
        confirm=note.get(CONFIRM, 0),
    )
    placed_runs = repository.placed_runs(study, spec.order_name)
    # Of a study that was measured several times: the newest round that was, and one machine.
    last_run = max(placed_runs, key=lambda run: run.round, default=None)
    same_machine_runs = [run for run in placed_runs if last_run and run[:2] == last_run[:2]]
    base = info.name.partition("@")[0]
    return replace(spec, replay=f"{base}@{info.version}", followed=tuple(same_machine_runs))


class CachedRun(NamedTuple):
    """A run whose result was found by the key of its point, without making an experiment."""

    point: Point
    scores: tuple[float | None, ...] | None
    """None if it failed."""


ArrivedRun = tuple[Experiment, Outcome] | CachedRun


class ArrivalOrder:
    """The order in which a search gets outcomes: first the recorded order, then as they arrive.

    A run is identified by the number of its trial, from 1, and its repeat, and has a turn. An
    outcome that arrives before its turn is held back. Runs that are not recorded take a turn, too:
    those that share an experiment with an earlier run, and those of another study. So a turn that
    is not recorded belongs to the first of these runs that can have it.
    """

    def __init__(
        self,
        name: str,
        recorded: Iterable[ResultRunPosition] = (),
        followed: Iterable[ResultRunPosition] = (),
    ) -> None:
        """*recorded* are results of this search, *followed* those of the search that it repeats."""
        followed = tuple(followed)
        self._name = name
        self._recorded = {(run.block, run.repeat): run.turn for run in recorded}
        self._turns = {(run.block, run.repeat): run.turn for run in followed} | self._recorded
        # A result that was recorded before its turn came is not one of the first.
        self._expected = deque(sorted(self._turns, key=self._turns.__getitem__))
        self._last_turn = max(self._turns.values(), default=0)
        self._last_followed = max((run.turn for run in followed), default=0)
        self._turn = 0
        """The turn of the last outcome that was released."""
        self._whole_from = 0
        """Up to this turn, turns that are not recorded belong to no run."""
        self._held_runs: dict[tuple[int, int], ArrivedRun] = {}
        self._unplaced: dict[tuple[int, int], ArrivedRun | None] = {}
        """Outcomes that are not recorded with a turn; None for one that is being looked up."""
        self._earlier: dict[tuple[int, int], tuple[int, int]] = {}
        """The earlier run of each run that equals one; the earlier one is released first."""
        self.has_gaps = len(self._turns) < self._last_turn
        """Whether runs that are not recorded took turns."""
        self.left_at: int | None = None
        """After how many outcomes the recorded order could not be followed; None if it could."""
        self._followed = 0

    @property
    def is_waiting(self) -> bool:
        """Whether outcomes that arrive may be held, since another one is next."""
        return bool(self._expected)

    def may_be_next(self, run: tuple[int, int]) -> bool:
        """Return whether the outcome of *run* may be the next one."""
        if self.is_at_gap:
            return run not in self._turns
        return self._expected[0] == run

    def position(self, run: tuple[int, int]) -> RunPosition:
        """Return the position of a run whose outcome is recorded now; repeated calls agree."""
        if run not in self._turns:
            self._unplaced.pop(run, None)
            self._assign(run)
        return RunPosition(self._name, run[0], self._turns[run])

    def take(self, run: tuple[int, int], arrived: ArrivedRun) -> Iterator[ArrivedRun]:
        """Add an outcome; yield the outcomes whose turn has come."""
        if run in self._turns:
            self._held_runs[run] = arrived
        else:
            self._unplaced[run] = arrived
        yield from self._released()

    def expect(self, run: tuple[int, int]) -> None:
        """Expect the outcome of *run* from the record: it equals a run that was released."""
        if run not in self._turns:
            self._unplaced[run] = None

    def follow(self, earlier: tuple[int, int], run: tuple[int, int]) -> None:
        """Release *run*, which equals *earlier*, after that one if it is held back."""
        if earlier in self._held_runs:
            self._earlier[run] = earlier

    def skip_gap(self) -> Iterator[ArrivedRun]:
        """Skip the turns before the next recorded one; yield like `take`."""
        self._whole_from = self._turns[self._expected[0]] - 1
        yield from self._released()

    def leave(self) -> Iterator[ArrivedRun]:
        """Stop following the other search, or else the record of this one; yield like `take`."""
        if self.left_at is None:
            self.left_at = self._followed
        unrecorded_runs = [run for run in self._expected if run not in self._recorded]
        dropped_runs = set(unrecorded_runs or self._expected) - self._held_runs.keys()
        for run in dropped_runs:
            del self._turns[run]
        self._expected = deque(run for run in self._expected if run not in dropped_runs)
        self._whole_from = self._last_followed if unrecorded_runs else self._last_turn
        yield from self._released()

    @property
    def is_at_gap(self) -> bool:
        """Whether the next turn is one that no record has."""
        next_turn = max(self._turn, self._whole_from) + 1
        return bool(self._expected) and self._turns[self._expected[0]] > next_turn

    def _assign(self, run: tuple[int, int]) -> None:
        self._last_turn += 1
        self._turns[run] = self._last_turn
        self._expected.append(run)

    def _released(self) -> Iterator[ArrivedRun]:
        while True:
            if not self._expected:
                self._turn = self._last_turn
            if not self._expected or self.is_at_gap:
                free = [r for r in self._unplaced if self._earlier.get(r) not in self._held_runs]
                if not free:
                    return
                # Of a later trial, which may have been proposed earlier than when it was recorded,
                # no outcome comes before those of trials that were proposed by then.
                run = min(free)
                outcome = self._unplaced[run]
                if outcome is None:
                    return
                del self._unplaced[run]
                self._held_runs[run] = outcome
                if self._expected:
                    self._turns[run] = max(self._turn, self._whole_from) + 1
                    self._expected.appendleft(run)
                else:
                    self._assign(run)
            run = self._expected[0]
            if run not in self._held_runs:
                return
            self._expected.popleft()
            self._turn = self._turns[run]
            self._followed += 1
            yield self._held_runs.pop(run)


FIRST_REPEATS = 2
"""Repeats of a point before it is compared with the best one."""
CLEARLY = 2.0
"""Standard errors by which a point is behind the best one, so that it gets no more repeats."""
FEWEST_FREEDOM = 5
"""Degrees of freedom of the noise, before which each point gets all its repeats."""


class Race:
    """Compares points with the best one so far, and stops repeats of those that are behind.

    Each point has a few repeats first; further ones, twice as many in all each time, as long as its
    mean is not behind that of the best point by more than noise explains (Birattari and others: A
    racing algorithm for configuring metaheuristics, 2002). So the best point has all its repeats.

    A point is compared with trials that lie *lag* trials or more before it, whichever others are
    complete by then: so its number of repeats does not depend on the order of outcomes.
    """

    def __init__(self, direction: Direction, lag: int) -> None:
        self._sign = 1.0 if direction == "minimize" else -1.0
        self._lag = lag
        self._scores: dict[int, list[float]] = {}
        """The scores of each trial's repeats, by its number."""

    def complete(self, number: int, scores: Sequence[float]) -> None:
        """Count a trial with its *scores*."""
        self._scores[number] = list(scores)

    def is_behind(self, number: int, scores: Sequence[float]) -> bool | None:
        """Return whether trial *number* is not the best one; None while earlier ones are pending.

        *scores* are those of its repeats so far.
        """
        reference = range(max(number - self._lag, 0))
        if any(earlier not in self._scores for earlier in reference):
            return None
        if not scores:
            return True
        trials = [self._scores[earlier] for earlier in reference if self._scores[earlier]]
        noise = noise_of([*trials, list(scores)])
        if not trials or noise is None or noise.freedom < FEWEST_FREEDOM:
            return False
        best = min(trials, key=lambda trial: self._sign * fmean(trial))
        mean, best_mean = fmean(scores), fmean(best)
        is_worse = self._sign * mean > self._sign * best_mean
        return is_worse and noise.tells_apart((mean, len(scores)), (best_mean, len(best)), CLEARLY)


@dataclass
class _PendingPoint:
    """A point that was asked for, and the scores of its repeats so far."""

    numbers: list[int]
    runs: PointRuns
    scores: list[tuple[float | None, ...]] = field(default_factory=list)
    allowed: int = 0
    """How many runs it may have before it is compared with the best point."""


class SearchSource:
    """The experiments that a search asks for; each point's repeats count as their mean."""

    expecting = False
    ahead = 0  # what was asked for too early does not know what was learnt meanwhile

    def __init__(
        self,
        loop: SearchLoop,
        goals: Sequence[Goal],
        generator: ExperimentGenerator,
        repeat: Repeat,
        planned: int,
        lag: int = 0,
        arrivals: ArrivalOrder | None = None,
        confirmation: Confirmation | None = None,
    ) -> None:
        self.loop = loop
        self.arrivals = arrivals
        """The order in which outcomes count; None where they may be told in any order."""
        self.stops: Counter[StopReason] = Counter()
        """How many points needed no more runs, by the reason."""
        self._repeat = repeat
        self._goals = tuple(goals)
        self._generator = generator
        self._load: LoadCachedPoints | None = None
        self._cached: CachedPoints | None = None
        self._planned = planned
        self._made_count = 0
        self._ready: deque[Experiment] = deque()
        self._pending_points: dict[Point, _PendingPoint] = {}
        self._points: dict[int, tuple[Experiment, Point]] = {}
        """Unfinished experiments with their points, by `id`."""
        self._twins: dict[str, list[Experiment]] = {}
        """Experiments that are equal, by digest; only the first of each list is run."""
        self._counted: set[str] = set()
        """Digests of runs that were released, if the order of arrival matters."""
        self._cached_runs: dict[str, tuple[int, int]] = {}
        """Cached runs that may wait for their turn, by the digest of their experiment."""
        self._confirmation = confirmation
        """Measures the leading points again when the search is over."""
        self._confirming: dict[int, tuple[Experiment, Point]] = {}
        """Unfinished experiments of the confirmation with their points, by `id`."""
        has_race = len(goals) == 1 and is_raced(repeat)
        self._race = Race(goals[0].direction, lag) if has_race else None

    def skip_cached(self, load: LoadCachedPoints) -> None:
        """Take the scores of cached points from *load*, without making experiments.

        If the number of repeats depends on the results, each result is looked up instead.
        """
        is_fixed = self._repeat.until is None and not self._repeat.warmup
        if is_fixed and self._confirmation is None:
            self._load = load

    def __iter__(self) -> Iterator[Experiment | None]:
        if self._load:
            self._cached, self._load = self._load(self._generator.identity), None
        while self._ready or self._ask():
            yield self._ready.popleft() if self._ready else None

    @property
    def over(self) -> bool:
        # A pending point may need more runs if their number depends on its results.
        may_grow = bool(self._race or self._repeat.until) and bool(self._pending_points)
        is_over = self.loop.is_over and not self._ready and not may_grow
        return is_over and (self._confirmation is None or self._confirmation.is_over)

    @property
    def ended(self) -> str:
        """Why the search ended; empty while it runs, or if it was abandoned."""
        return self.loop.stop_reason if self.over else ""

    @property
    def best(self) -> BestPoint | None:
        """The best point by the first goal, at the mean of its repeats."""
        trial, goal = self.loop.best, self._goals[0].expression.text
        if self._confirmation and self._confirmation.best:
            point, fresh_scores = self._confirmation.best
            return BestPoint(goal, fmean(fresh_scores), dict(point), confirmed=len(fresh_scores))
        if trial is None:
            return None
        is_known = any(trial is known for known in self.loop.known_trials)
        return BestPoint(
            goal, trial.scores[0], dict(trial.point), objectives=len(self._goals), is_known=is_known
        )

    @property
    def expected(self) -> ExpectedPoint | None:
        """The point that is expected to be the best; see `expected_point`."""
        is_confirmed = self._confirmation and self._confirmation.best
        if len(self._goals) > 1 or self._repeat.count > 1 or is_confirmed:
            return None
        scored = [(t.point, t.scores[0]) for t in self.loop.trials if t.scores]
        return expected_point(self._goals[0], [(p, s) for p, s in scored if s is not None])

    @property
    def total(self) -> int:
        has_made_all = self.loop.stop_reason and (
            self._confirmation is None or self._confirmation.is_over
        )
        return self._made_count if has_made_all else max(self._planned, self._made_count)

    def arrived(self, experiment: Experiment) -> RunPosition | None:
        """Return where the outcome of *experiment* stands in the order of arrival."""
        if self.arrivals is None or id(experiment) not in self._points:
            return None
        return self.arrivals.position(self._run(experiment))

    def complete(self, experiment: Experiment, outcome: Outcome) -> None:
        if id(experiment) in self._confirming:
            self._complete_twins(experiment, outcome)
            return
        if id(experiment) not in self._points:
            return
        if self.arrivals is None:
            self._complete_twins(experiment, outcome)
            return
        for arrived in self.arrivals.take(self._run(experiment), (experiment, outcome)):
            self._count(arrived)

    def point_of(self, experiment: Experiment) -> Point:
        """Return the point of an experiment that is not complete."""
        return self._points[id(experiment)][1]

    def _run(self, experiment: Experiment) -> tuple[int, int]:
        """Return the number of the trial of *experiment*, from 1, and its repeat."""
        return self._pending_points[self.point_of(experiment)].numbers[0] + 1, experiment.repeat

    def _count(self, arrived: ArrivedRun) -> None:
        """Pass on a run whose turn has come."""
        if not isinstance(arrived, CachedRun):
            experiment, outcome = arrived
            if self._is_first(experiment):
                self._complete_twins(experiment, outcome)
            else:
                self._complete(experiment, outcome)
            return
        pending = self._pending_points[arrived.point]
        pending.runs.complete_cached()
        if arrived.scores is not None:
            pending.scores.append(arrived.scores)
        self._go_on_all(arrived.point)

    def _is_first(self, experiment: Experiment) -> bool:
        """Return whether *experiment* is the one of its twins that is run."""
        return next(iter(self._twins.get(self._digest_of(experiment), ())), None) is experiment

    def _digest_of(self, experiment: Experiment) -> str:
        """Return the digest that *experiment* has in common with its twins."""
        return experiment.digest

    def _complete_twins(self, experiment: Experiment, outcome: Outcome) -> None:
        digest = self._digest_of(experiment)
        first_twin, *other_twins = self._twins.pop(digest, [experiment])
        order = self.arrivals
        if order is None or not self._points.keys() >= {id(twin) for twin in other_twins}:
            for twin in (first_twin, *other_twins):
                self._complete(twin, outcome)
            return
        self._counted.add(digest)
        for twin in other_twins:
            order.expect(self._run(twin))
        self._complete(first_twin, outcome)
        for twin in other_twins:
            for arrived in order.take(self._run(twin), (twin, outcome)):
                self._count(arrived)

    def _complete(self, experiment: Experiment, outcome: Outcome) -> None:
        if self._confirmation and id(experiment) in self._confirming:
            _, point = self._confirming.pop(id(experiment))
            goal = self._goals[0].expression
            is_ok = outcome.status == "ok"
            self._confirmation.tell(
                point, score(goal, experiment.values, outcome) if is_ok else None
            )
            return
        _, point = self._points.pop(id(experiment))
        pending = self._pending_points[point]
        pending.runs.complete(experiment, outcome)
        if outcome.status == "ok":
            values = experiment.values
            pending.scores.append(
                tuple(score(goal.expression, values, outcome) for goal in self._goals)
            )
        self._go_on_all(point)

    def _go_on_all(self, point: Point) -> None:
        self._go_on(point)
        # Other points may wait for a comparison with this one.
        for waiting in [p for p, trial in self._pending_points.items() if trial.runs.is_idle]:
            self._go_on(waiting)

    def _go_on(self, point: Point) -> None:
        """Make more runs of *point*, or pass its scores to the search if it needs no more."""
        pending = self._pending_points[point]
        if self.loop.is_over and pending.runs.is_idle:  # it ended before its budget did
            del self._pending_points[point]
            return
        if self._race and pending.runs.is_idle and pending.runs.spared:
            values = [value for (value,) in pending.scores if value is not None]
            is_behind = self._race.is_behind(pending.numbers[0], values)
            if is_behind is None:
                return
            if is_behind:
                pending.runs.stop = "behind"
            pending.allowed *= 2
        if not pending.runs.has_all:
            self._add_runs(point)
            return
        del self._pending_points[point]
        if pending.runs.stop is not None:
            self.stops[pending.runs.stop] += 1
        scores = mean_scores(pending.scores)
        for number in pending.numbers:
            self._tell(number, scores, pending.scores)

    def _tell(
        self,
        number: int,
        scores: tuple[float | None, ...],
        repeats: Sequence[tuple[float | None, ...] | None],
    ) -> None:
        if self._race:
            first_goal = [goal_scores[0] for goal_scores in repeats if goal_scores]
            self._race.complete(number, [value for value in first_goal if value is not None])
        self.loop.tell(number, scores)

    def _ask(self) -> bool:
        """Ask the search for a point; return whether there was news. Cached points are told at
        once.
        """
        has_cached = False
        if self.loop.is_over and self._confirmation:
            return self._confirm(self._confirmation)
        proposed = self.loop.ask(1)
        if not proposed and self._has_left_order():
            return True
        for number, point in proposed:
            if point in self._pending_points:
                self._pending_points[point].numbers.append(number)
                continue
            if self._cached and (
                repeats := self._cached.take_scores(self._generator.keys_of(point))
            ):
                self._made_count += len(repeats)
                self._take_cached(number, point, repeats)
                has_cached = True
                continue
            first_count = first_repeats(self._repeat)
            self._pending_points[point] = _PendingPoint(
                [number], PointRuns(self._repeat), allowed=first_count
            )
            self._add_runs(point)
        return has_cached or bool(self._ready)

    def _take_cached(
        self, number: int, point: Point, repeats: Sequence[tuple[float | None, ...] | None]
    ) -> None:
        """Pass the scores of a cached point to the search, in the order of arrival if any."""
        if self.arrivals is None:
            scores = mean_scores([scored for scored in repeats if scored is not None])
            self._tell(number, scores, repeats)
            return
        self._pending_points[point] = pending = _PendingPoint([number], PointRuns(self._repeat))
        for _ in repeats:
            pending.runs.propose()
        if self.arrivals.has_gaps:  # an experiment that is made later may be one of these
            for repeat in self._repeat.numbers:
                digest = self._generator.experiment(point, repeat).digest
                self._cached_runs.setdefault(digest, (number + 1, repeat))
        for repeat, scored in enumerate(repeats, 1):
            for arrived in self.arrivals.take((number + 1, repeat), CachedRun(point, scored)):
                self._count(arrived)

    def _expect_twin(self, experiment: Experiment) -> None:
        """If *experiment* equals an earlier run, expect its outcome from the record, after that
        run.
        """
        assert self.arrivals is not None
        digest = self._digest_of(experiment)
        earlier = self._cached_runs.get(digest)
        if earlier is not None or digest in self._counted:
            self.arrivals.expect(self._run(experiment))
        if earlier is not None:
            self.arrivals.follow(earlier, self._run(experiment))

    def _confirm(self, confirmation: Confirmation) -> bool:
        """Make the next round of a confirmation; return whether there is one."""
        trials = [*self.loop.known_trials, *self.loop.trials]
        for point, number in confirmation.next_round(trials):
            experiment = self._generator.experiment(point, number)
            self._confirming[id(experiment)] = experiment, point
            self._add(experiment)
        return bool(self._ready)

    def _add(self, experiment: Experiment) -> None:
        if self._is_run(experiment):
            self._ready.append(experiment)
            self._made_count += 1

    def _is_run(self, experiment: Experiment) -> bool:
        """Add *experiment* to its twins, and return whether it is the first, which is run."""
        twins = self._twins.setdefault(self._digest_of(experiment), [])
        twins.append(experiment)
        is_first = twins[0] is experiment
        if is_first and self.arrivals is not None and id(experiment) in self._points:
            self._expect_twin(experiment)
        return is_first

    def _add_runs(self, point: Point) -> None:
        """Make the runs of *point* that are needed regardless of the pending results."""
        runs, allowed = self._pending_points[point].runs, self._pending_points[point].allowed
        while runs.stop is None and runs.spared and (number := runs.next_number) is not None:
            if self._race and runs.proposed >= allowed:
                return
            runs.propose()
            experiment = self._generator.experiment(point, number)
            self._points[id(experiment)] = experiment, point
            self._add(experiment)

    def _has_left_order(self) -> bool:
        """Return whether the recorded order proved to belong to another search, and was left.

        Everything that can be proposed is pending now. If the engine and the results are the same
        as before, the run that arrived next in the recorded order is among them. A search that was
        interrupted after it left an order has turns without a run: these are skipped.
        """
        order = self.arrivals
        if order is None or not order.is_waiting or self.loop.is_over:
            return False
        in_flight = (run for run, _ in self._points.values() if self._is_first(run))
        if any(order.may_be_next(self._run(run)) for run in in_flight):
            return False
        for arrived in order.skip_gap() if order.is_at_gap else order.leave():
            self._count(arrived)
        return True


def expected_point(
    goal: Goal, measured: Sequence[tuple[Mapping[str, Value], float]]
) -> ExpectedPoint | None:
    """Return the point of *measured* that is expected to be the best.

    Each has one score. None if there are too few, or if they scatter too little.
    """
    sign = 1.0 if goal.direction == "minimize" else -1.0
    points, scores = [point for point, _ in measured], [score for _, score in measured]
    best = expected_best(points, scores, sign=sign)
    if best is None:
        return None
    at, text = best.at, goal.expression.text
    return ExpectedPoint(
        text, best.score, scores[at], dict(points[at]), best.scatter, best.is_share
    )


def confirmed_point(
    goal: Goal, measured: Sequence[tuple[Mapping[str, Value], Sequence[float]]]
) -> ExpectedPoint | None:
    """Return the best of the points that were *measured* again when the search was over.

    The first score of each is from the search itself. None if no point was measured again.
    """
    at = confirmed([scores[1:] for _, scores in measured], Directions((goal.direction,)))
    if at is None:
        return None
    point, (search_score, *fresh_scores) = measured[at]
    noise = noise_of([scores[1:] for _, scores in measured])
    return ExpectedPoint(
        goal.expression.text, fmean(fresh_scores), search_score, dict(point),
        noise.deviation if noise else 0.0, noise.is_relative if noise else False, len(fresh_scores),
    )  # fmt: skip


def is_raced(repeat: Repeat) -> bool:
    """Return whether a search with one objective may leave out repeats of a point."""
    return repeat.until is None and repeat.count > FIRST_REPEATS


def first_repeats(repeat: Repeat) -> int:
    """Return how many runs of a point a search begins with."""
    return FIRST_REPEATS + repeat.warmup if is_raced(repeat) else repeat.at_once


def mean_scores(scores: Sequence[tuple[float | None, ...]]) -> tuple[float | None, ...]:
    """Return the mean of the successful repeats for each objective; empty if none succeeded."""
    columns = zip(*scores, strict=True)
    return tuple(mean([value for value in column if value is not None]) for column in columns)


# Recorded points: the results of a program that exist when a search of it begins

MOST_KNOWN, MOST_COMPARED = 1000, 5000
"""The most recorded points with which a search begins, and the most points whose files are filled
in to look for results.
"""
MOST_ADVICE, BEST_ADVICE = 300, 100
"""The most results of another version or machine that advise a search, and how many of them are its
best; the others are spread over all ranks.
"""
REPEATS = "/"
"""Precedes the number of repeats of a point that has not all of them yet."""
ABBREVIATED = 16
"""Characters of a digest in the note of a search."""


class RecordedPoints:
    """Looks for points of a space that have results in a repository, in any of its studies.

    The digest of an experiment identifies the program, its inputs and its environment. So the
    results are those of the same program, whatever the study was named.
    """

    def __init__(
        self,
        repository: Repository,
        generator: ExperimentGenerator,
        goals: Sequence[Goal],
        least: int = 1,
    ) -> None:
        """A point counts if its first *least* repeats, or more, have results."""
        self._repository = repository
        self._generator = generator
        self._goals = goals
        self._least = least

    def collect(
        self, space: Space, kinds: Kinds, frozen: Collection[str] | None = None
    ) -> dict[str, tuple[Point, Scores]]:
        """Return points with results on *kinds* of machine, and their scores, by short digest.

        Only those in *frozen*, if it is not None.
        """
        if frozen is not None and not frozen:
            return {}
        expected = frozenset(frozen or ())
        counts = dict(key.partition(REPEATS)[::2] for key in expected)
        scored: dict[str, tuple[Point, Scores]] = {}
        points = list(self._candidates(space))
        # If there are too many, a random sample is used; the points of a frozen list may be
        # anywhere.
        random.Random(0).shuffle(points)  # noqa: S311 - not for secrets
        compared, limit = (MOST_COMPARED, MOST_KNOWN) if frozen is None else (None, len(expected))
        candidates = iter(points[:compared])
        while len(scored) < limit and (batch := list(islice(candidates, LOOK_UPS))):
            experiments = [tuple(self._generator.experiments(point)) for point in batch]
            digests = [
                digest
                for repeats in experiments
                for experiment in repeats
                for digest in experiment.digests
            ]
            outcomes = self._repository.find_outcomes(digests, kinds=kinds)
            for point, repeats in zip(batch, experiments, strict=True):
                digest = repeats[0].digest[:ABBREVIATED]
                repeat_count = counts.get(digest) or len(repeats)
                measured = self._measured(repeats[: int(repeat_count)], outcomes)
                is_whole = len(measured) == len(repeats)
                key = digest if is_whole else f"{digest}{REPEATS}{len(measured)}"
                scores = self._scores(measured)
                if scores is not None and (frozen is None or key in expected):
                    scored[key] = point, scores
        if frozen is None:
            return scored
        return {key: scored[key] for key in frozen if key in scored}

    def _candidates(self, space: Space) -> Iterator[Point]:
        """Yield the points for which studies with the same parameters have results."""
        names = [parameter.name for parameter in space.dimensions]
        visited: set[Point] = set()
        for study in self._repository.studies():
            fields = self._repository.definition(study.name).parameters
            if not {field.name for field in fields}.issuperset(names):
                continue
            for page in self._repository.column_pages(
                study.name, ColumnRequest(names, (), ("ok", "failed", "wrong", "timeout"))
            ):
                columns = [page.parameters[name] for name in names]
                for values in zip(*columns, strict=True):
                    with suppress(SpaceError):
                        point = space.find(dict(zip(names, values, strict=True)))
                        if point not in visited:
                            visited.add(point)
                            yield point

    @staticmethod
    def _measured(
        repeats: Sequence[Experiment], outcomes: Mapping[str, Outcome]
    ) -> list[tuple[Experiment, Outcome]]:
        """Return the *repeats* up to the first one without an outcome."""
        measured = []
        for experiment in repeats:
            matches = [outcomes[digest] for digest in experiment.digests if digest in outcomes]
            if not matches or matches[0].status == "cancelled":
                break
            measured.append((experiment, matches[0]))
        return measured

    def _scores(self, measured: Sequence[tuple[Experiment, Outcome]]) -> Scores | None:
        """Return the mean scores of a point; None if too few of its repeats were measured."""
        if len(measured) < self._least:
            return None
        return mean_scores(
            [
                tuple(score(goal.expression, experiment.values, outcome) for goal in self._goals)
                for experiment, outcome in measured
                if outcome.status == "ok"
            ]
        )


def collect_advice(
    repository: Repository, study: str, space: Space, goal: Goal
) -> tuple[tuple[tuple[Value, ...], float], ...]:
    """Return values and scores of points of *space* in *study*, the best first.

    They are from the kind of machine with the most results. InputError if *study* has no results
    for this space and *goal*, NotFoundError if there is no such study.
    """
    fields = {field.name for field in repository.definition(study).parameters}
    names = [parameter.name for parameter in space.dimensions]
    if missing := [name for name in names if name not in fields]:
        raise InputError(
            f"--learn-from {study}: it has no parameter {', '.join(missing)}",
            hint="name a study with all parameters of this one",
        )
    measured: defaultdict[int, defaultdict[tuple[Value, ...], list[float]]]
    measured = defaultdict(lambda: defaultdict(list))  # by kind of machine, then by point
    for machine, values, number in _measured(repository, study, names, goal):
        measured[machine][values].append(number)
    largest: Mapping[tuple[Value, ...], list[float]]
    largest = max(measured.values(), key=len, default={})
    scores = {values: mean(repeats) or 0.0 for values, repeats in largest.items()}
    ranked = sorted(scores.items(), key=lambda pair: pair[1], reverse=goal.direction == "maximize")
    advice = [pair for pair in ranked if _is_point(space, dict(zip(names, pair[0], strict=True)))]
    if not advice:
        raise InputError(
            f"--learn-from {study}: none of its results is a point of this space with a number for"
            f" {goal.expression.text}",
            hint=f"see what it has: zen results {study}",
        )
    remaining_advice = advice[BEST_ADVICE:]
    step = max(-(-len(remaining_advice) // (MOST_ADVICE - BEST_ADVICE)), 1)
    return (*advice[:BEST_ADVICE], *remaining_advice[::step])


def _measured(
    repository: Repository, study: str, names: Sequence[str], goal: Goal
) -> Iterator[tuple[int, tuple[Value, ...], float]]:
    """Yield the kind of machine, the values and the score of each result that has a score."""
    needed = goal.expression.names
    states: tuple[ExperimentState, ...] = ("ok",)
    request = ColumnRequest({*names, *needed}, needed, states)
    for page in repository.column_pages(study, request):
        for row, machine in enumerate(page.machines):
            values = {name: column[row] for name, column in page.parameters.items()}
            metrics = {name: column[row] for name, column in page.metrics.items()}
            measured = {name: value for name, value in metrics.items() if value is not None}
            number = score_of_values(goal.expression, {**values, **scalars(measured)})
            if number is not None:
                yield machine, tuple(values[name] for name in names), number


def _is_point(space: Space, values: Mapping[str, Value]) -> bool:
    try:
        space.find(values)
    except SpaceError:
        return False
    return True


FEWEST_NOTED = KrigingSettings().memory
"""Trials that a model keeps unless its settings name another number."""


def left_order(order: ArrivalOrder) -> str:
    """Return the note on a search that could not follow a recorded order of arrival."""
    count = amount(order.left_at or 0, "result")
    return (
        f"the search followed the recorded order of arrival for {count}, and then proposed other"
        " points: results differ from those recorded, or the engine has changed"
    )


def memory_notes(search: SearchSpec, space: Space, goals: Sequence[Goal]) -> tuple[str, ...]:
    """Return the note on a search with more trials than its model keeps."""
    trials = min(search.budget.trials or 0, search.planned(space)) - search.confirm
    if trials <= FEWEST_NOTED and "memory" not in search.settings:
        return ()
    directions = Directions(tuple(goal.direction for goal in goals))
    problem = SearchProblem(space, directions, budget=trials, slots=search.slots)
    engine = make(search.engine, problem, search.settings)
    model = getattr(engine, "chosen", engine)
    if not isinstance(model, KrigingSearch) or trials <= model.memory:
        return ()
    kept = f"the model keeps {model.memory:,} of {trials:,} trials"
    which = f"the last {model.memory // 2:,} and the best of the others"
    return (f"{kept}, {which}: --set memory=N sets how many",)


def known_notes(search: SearchSpec, known: Mapping[Point, Scores]) -> tuple[str, ...]:
    """Return the notes on the results with which a search begins."""
    notes = []
    if known:
        verb = "was" if len(known) == 1 else "were"
        known_points = f"{amount(len(known), 'point')} that {verb} measured before"
        notes.append(f"the search starts with {known_points}, by any study of this program")
    if search.replay:
        count = amount(len(search.followed), "result")
        notes.append(f"the search takes {count} in the order of arrival of {search.replay}")
    if search.learn_from:
        notes.append(
            f"{amount(len(search.advice), 'point')} of {search.learn_from} advise the search: the"
            " best of them are tried while their ranks agree with those of the results here"
        )
    return tuple(notes)
