"""Objectives that define their space while they run, as those of Optuna do, under our engines.

Parameters are not declared: the objective asks for each by ``trial.suggest_...``, some only where
others have a certain value. The space is therefore inferred from all trials so far. Whenever a
trial contradicts it (another parameter, another range, another condition), the space is made anew,
and a new engine learns what is known before it proposes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from zenturio.errors import InputError, SpaceError
from zenturio.files import read_regular, write_whole
from zenturio.search.api import scores_for
from zenturio.search.ask_and_tell import FORMAT, MOST_BYTES, Optimization
from zenturio.search.loop import PendingTrial, Scores, parse_budget
from zenturio.search.objective import Directions
from zenturio.space import Point, Space, loguniform, parameter, span, uniform
from zenturio.space.parameter import Parameter

MOST_CONDITION_VALUES = 64
"""Values of another parameter that a condition names at most."""

JSON_VALUES = "choices and user attributes are texts, numbers, True, False and None"

Coded = int | float | str
"""A value as the space has it: of a category that is no number, a text for its position."""


@dataclass(frozen=True)
class Suggestion:
    """What a call of ``suggest_...`` asked for."""

    kind: Literal["int", "float", "categorical"]
    low: float = 0.0
    high: float = 0.0
    step: float | None = None
    log: bool = False
    choices: tuple[Any, ...] = ()

    def merged(self, other: Suggestion, name: str) -> Suggestion:
        """Return the range that contains both; InputError if they are of different kinds."""
        if self == other:
            return self
        if self.kind == "categorical" or (self.kind, self.step, self.log) != (
            other.kind, other.step, other.log,
        ):  # fmt: skip
            raise InputError(
                f"{name!r} is suggested in two ways: {self} and {other}",
                hint="suggest each name with the same choices, step and log",
            )
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Suggestion(self.kind, low, high, self.step, self.log)

    @property
    def values(self) -> list[Coded] | None:
        """The categories as the space has them; None for a range."""
        if self.kind != "categorical":
            return None
        numbers = [c for c in self.choices if type(c) in (int, float) and math.isfinite(c)]
        if len(numbers) == len(self.choices) == len(set(numbers)):
            return list(numbers)
        return [f"c{at}" for at in range(len(self.choices))]

    def parameter(self, when: str | None) -> Parameter:
        """Return the parameter that it describes."""
        if self.values is not None:
            return parameter(self.values, when=when)
        if self.low == self.high:
            return parameter([self._number(self.low)], when=when)
        if self.log and self.kind == "int":  # each whole number has the reals that round to it
            return parameter(loguniform(self.low - 0.5, self.high + 0.5), when=when)
        if self.log:
            return parameter(loguniform(self.low, self.high), when=when)
        if self.step is None:
            return parameter(uniform(self.low, self.high), when=when)
        ends = (self._number(value) for value in (self.low, self._last(), self.step))
        return parameter(span(*ends), when=when)

    def _last(self) -> float:
        assert self.step is not None, "a range with a step"
        return self.low + math.floor((self.high - self.low) / self.step + 1e-9) * self.step

    def _number(self, value: float) -> int | float:
        # A sum of decimals such as 0.1 + 0.2 is not what anybody would write.
        return int(value) if self.kind == "int" else float(f"{value:.15g}")

    def draw(self, rng: np.random.Generator) -> Coded:
        """Return a random value."""
        if self.values is not None:
            return self.values[int(rng.integers(len(self.values)))]
        if self.low == self.high:
            return self._number(self.low)
        if self.log:
            half = 0.5 if self.kind == "int" else 0.0
            ends = math.log(self.low - half), math.log(self.high + half)
            return float(math.exp(rng.uniform(*ends)))
        if self.step is None:
            return float(rng.uniform(self.low, self.high))
        steps = round((self._last() - self.low) / self.step)
        return self._number(self.low + int(rng.integers(steps + 1)) * self.step)

    def decoded(self, coded: Coded) -> Any:
        """Return what the objective gets for a value of the space."""
        if self.values is not None:
            return self.choices[self.values.index(coded)]
        value = min(max(float(coded), self.low), self.high)
        if self.kind == "int":
            step = int(self.step or 1)
            return int(self.low) + round((value - self.low) / step) * step
        return value

    def __str__(self) -> str:
        if self.kind == "categorical":
            return f"categorical {list(self.choices)}"
        step = f" step {self.step:g}" if self.step else ""
        return f"{self.kind} {self.low:g} to {self.high:g}{step}{' log' if self.log else ''}"


@dataclass
class TrialRecord:
    """A trial of an objective that defines its space: what it was given, and its scores."""

    number: int
    params: dict[str, Any] = field(default_factory=dict)
    """The values by name, in the order in which they were suggested."""
    scores: Scores = ()
    """Empty for a failed trial."""
    user_attrs: dict[str, Any] = field(default_factory=dict)
    suggestions: dict[str, Suggestion] = field(default_factory=dict, repr=False)
    coded: dict[str, Coded] = field(default_factory=dict, repr=False)


class SuggestingTrial:
    """What the objective gets: it has the methods of Optuna's trial that do not prune."""

    def __init__(
        self, trial: TrialRecord, proposed: Mapping[str, Coded], rng: np.random.Generator
    ) -> None:
        self._trial = trial
        self._proposed = proposed
        self._rng = rng

    @property
    def number(self) -> int:
        return self._trial.number

    @property
    def params(self) -> dict[str, Any]:
        return dict(self._trial.params)

    @property
    def user_attrs(self) -> dict[str, Any]:
        return dict(self._trial.user_attrs)

    def set_user_attr(self, key: str, value: Any) -> None:
        """Keep *value* with the trial."""
        self._trial.user_attrs[key] = value

    def suggest_int(
        self, name: str, low: int, high: int, *, step: int = 1, log: bool = False
    ) -> int:
        """Return a whole number from *low* to *high*, both included."""
        return int(self._suggest(name, _range("int", name, low, high, step, log=log)))

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """Return a real from *low* to *high*."""
        return float(self._suggest(name, _range("float", name, low, high, step, log=log)))

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """Return one of *choices*."""
        if not choices:
            raise InputError(f"{name!r} has no choices", hint="give at least one")
        return self._suggest(name, Suggestion("categorical", choices=tuple(choices)))

    def report(self, value: float, step: int) -> None:
        """Raise InputError, because trials are not pruned."""
        del value, step
        raise InputError(
            "the objective reports intermediate values, to be pruned: trial.report()",
            hint="zen.from_optuna does not prune yet: leave out trial.report and"
            " trial.should_prune, or run it by Optuna",
        )

    def should_prune(self) -> bool:
        """Raise InputError, because trials are not pruned."""
        self.report(0.0, 0)
        return False

    def _suggest(self, name: str, suggestion: Suggestion) -> Any:
        trial = self._trial
        if name not in trial.params:
            proposed = self._proposed.get(name)
            coded = suggestion.draw(self._rng) if proposed is None else proposed
            trial.coded[name] = coded
            trial.suggestions[name] = suggestion
            trial.params[name] = suggestion.decoded(coded)
        elif trial.suggestions[name] != suggestion:
            trial.suggestions[name].merged(suggestion, name)
        return trial.params[name]


def _range(
    kind: Literal["int", "float"],
    name: str,
    low: float,
    high: float,
    step: float | None,
    *,
    log: bool,
) -> Suggestion:
    if not low <= high or not math.isfinite(high - low):
        raise InputError(f"{name!r} from {low} to {high} has no values", hint="swap the bounds")
    if log and (low <= 0 or (step is not None and (kind, step) != ("int", 1))):
        raise InputError(
            f"{name!r} cannot be logarithmic from {low} to {high} by {step}",
            hint="log=True needs a low above 0, and no step",
        )
    if step is not None and step <= 0:
        raise InputError(f"{name!r} has step={step}", hint="a step is above 0")
    return Suggestion(kind, low, high, None if log else step, log)


@dataclass(frozen=True)
class _Condition:
    """Where a parameter is asked for: at these values of another one, or above a bound."""

    name: str
    values: frozenset[Coded] = frozenset()
    above: float | None = None
    below: float | None = None

    def holds(self, coded: Mapping[str, Coded]) -> bool:
        if self.name not in coded:
            return False
        value = coded[self.name]
        if self.above is not None:
            return float(value) > self.above
        if self.below is not None:
            return float(value) < self.below
        return value in self.values

    def text(self, name: str) -> str:
        """Return it as a WHEN that calls the other parameter *name*."""
        if self.above is not None:
            return f"{name} > {self.above!r}"
        if self.below is not None:
            return f"{name} < {self.below!r}"
        ordered = sorted(self.values, key=str)
        return " or ".join(f"{name} == {value!r}" for value in ordered)


class DefineByRunSearch:
    """A search with an objective that takes a trial and asks it for its parameters.

    ``run`` may be called again to go on. With one job the same seed makes the same trials.
    ``save`` writes the trials, and a search that is loaded goes on as if it had never stopped.
    """

    def __init__(
        self,
        objective: Callable[[Any], Any],
        directions: Iterable[str] | str = ("minimize",),
        engine: str = "auto",
        *,
        seed: int = 0,
        jobs: int = 1,
        **settings: Any,
    ) -> None:
        if jobs < 1:
            raise InputError(f"jobs={jobs}", hint="1, or more")
        self.directions = Directions(directions)
        self.trials: list[TrialRecord] = []
        """The completed trials, in the order of their numbers where jobs is 1."""
        self.stop_reason = ""
        """Why the last run ended: budget, or exhausted where each point of the space was tried."""
        self._objective = objective
        self._engine, self._settings = engine, settings
        self._seed, self._jobs = seed, jobs
        self._started = 0
        self._model: dict[str, tuple[Suggestion, _Condition | None]] = {}
        """The parameters in their order, and when each is asked for."""
        self._rare: set[str] = set()
        """Those that some trial did not ask for."""
        self._search: Optimization | None = None
        """None where the next engine has to be made."""

    def run(self, budget: int | str = 100) -> DefineByRunSearch:
        """Run *budget* more trials, and return the search itself.

        Errors of the objective are raised; ``optuna.TrialPruned`` counts as a failed trial.
        """
        limit = parse_budget(budget)
        if limit.trials is None or limit.seconds is not None:
            raise InputError(f"budget={budget!r}", hint="a number of trials")
        last = self._started + limit.trials
        self._search, self.stop_reason = None, ""
        self._infer()  # of the trials alone, so that a loaded search goes on in the same way
        running: dict[Future[TrialRecord], PendingTrial | None] = {}
        with ThreadPoolExecutor(self._jobs) as pool:
            try:
                while True:
                    if self._search is None and self.trials and not running:
                        self._renew(last - self._started)
                    while len(running) < self._jobs and self._started < last:
                        # Without a trial nobody knows what to ask an engine for; and one that is
                        # made anew learns of all trials, so they have to be complete.
                        pending = self._ask() if self._search else None
                        if pending is None and self.trials:
                            break
                        trial = TrialRecord(self._started)
                        self._started += 1
                        running[pool.submit(self._evaluate, trial, self._proposed(pending))] = (
                            pending
                        )
                    if not running:
                        break
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        self._complete(future.result(), running.pop(future))
            finally:
                for future in running:
                    future.cancel()
        self.stop_reason = self.stop_reason or "budget"
        return self

    @property
    def best_trial(self) -> TrialRecord:
        """The best trial; InputError before there is a usable one."""
        usable = [trial for trial in self.trials if self._losses(trial) != self.directions.worst]
        if not usable:
            raise InputError("no trial has a score", hint="run more: search.run(100)")
        return min(usable, key=self._losses)

    @property
    def best_params(self) -> dict[str, Any]:
        """The values of the best trial."""
        return dict(self.best_trial.params)

    @property
    def best_value(self) -> float:
        """The first score of the best trial."""
        return float(self.best_trial.scores[0] or 0.0)

    def save(self, path: Path | str) -> None:
        """Write the completed trials to *path* as JSON; the file is replaced at once or not at all.

        InputError if a choice or a user attribute is nothing that JSON has.
        """
        state = {
            "format": FORMAT,
            "directions": list(self.directions.names),
            "engine": self._engine,
            "seed": self._seed,
            "jobs": self._jobs,
            "settings": self._settings,
            "trials": [asdict(trial) for trial in self.trials],
        }
        for choice in (c for t in self.trials for s in t.suggestions.values() for c in s.choices):
            if not isinstance(choice, bool | int | float | str | None):
                raise InputError(
                    f"the search cannot be saved: {choice!r} is a choice", hint=JSON_VALUES
                )
        try:
            text = json.dumps(state)
        except TypeError as error:
            raise InputError(f"the search cannot be saved: {error}", hint=JSON_VALUES) from error
        write_whole(Path(path), [text.encode()])

    @classmethod
    def load(cls, path: Path | str, objective: Callable[[Any], Any]) -> DefineByRunSearch:
        """Return the search that was saved to *path*, with the same *objective*, to ``run`` it on.

        Trials that were running when it was saved are not part of it.
        """
        try:
            state = json.loads(read_regular(Path(path), MOST_BYTES))
            number, settings = state.pop("format"), state.pop("settings")
            trials = [_trial(facts) for facts in state.pop("trials")]
            search = cls(objective, **state, **settings)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path} is not a saved search: {error}") from error
        if number != FORMAT:
            raise InputError(f"{path} was saved by another version of zenturio")
        search.trials = trials
        search._started = max((trial.number + 1 for trial in trials), default=0)
        return search

    def _infer(self) -> None:
        """Infer the parameters and their conditions from all trials."""
        self._model = _inferred(self.trials)
        self._rare = {n for n in self._model for t in self.trials if n not in t.coded}

    def _losses(self, trial: TrialRecord) -> tuple[float, ...]:
        return self.directions.losses(trial.scores)

    def _evaluate(self, trial: TrialRecord, proposed: Mapping[str, Coded]) -> TrialRecord:
        rng = np.random.default_rng([self._seed, trial.number])
        try:
            answer = self._objective(SuggestingTrial(trial, proposed, rng))
        except Exception as error:
            # By name: the objective may import Optuna, we do not.
            if not any(c.__name__ == "TrialPruned" for c in type(error).__mro__):
                raise
            answer = None
        trial.scores = scores_for(self.directions, answer)
        if any(score is None or math.isnan(score) for score in trial.scores):
            trial.scores = ()
        return trial

    def _ask(self) -> PendingTrial | None:
        """Return what the engine proposes; None if it waits for others, or is at its end."""
        assert self._search is not None, "there are trials, so there is a space"
        try:
            return self._search.ask()
        except InputError:
            if not self._search.pending:
                self.stop_reason = "exhausted"
            return None

    def _proposed(self, pending: PendingTrial | None) -> dict[str, Coded]:
        if pending is None:
            return {}
        values = (pending.point[f"p{at}"] for at in range(len(self._model)))
        named = zip(self._model, values, strict=True)
        return {name: value for name, value in named if value is not None}

    def _complete(self, trial: TrialRecord, pending: PendingTrial | None) -> None:
        """Tell the engine of *trial*; drop the engine if the trial contradicts its space."""
        if not trial.params:
            raise InputError(
                "the objective suggested no parameter", hint="call trial.suggest_float(...) in it"
            )
        self.trials.append(trial)
        if not self._is_expected(trial):
            self._infer()
            self._search = None
        elif self._search is not None and pending is not None:
            self._search.tell(pending, trial.scores or None)

    def _is_expected(self, trial: TrialRecord) -> bool:
        """Return whether *trial* asked for what the model says, within its ranges."""
        if not trial.suggestions.keys() <= self._model.keys():
            return False
        for name, (suggestion, when) in self._model.items():
            asked = trial.suggestions.get(name)
            if asked is None:
                if when.holds(trial.coded) if when else name not in self._rare:
                    return False
            elif asked.merged(suggestion, name) != suggestion or (
                when is not None and not when.holds(trial.coded)
            ):
                return False
        return True

    def _renew(self, budget: int) -> None:
        """Make the engine anew for the space as it is known, with all trials so far."""
        internal = {name: f"p{at}" for at, name in enumerate(self._model)}
        parameters = {
            internal[name]: suggestion.parameter(when.text(internal[when.name]) if when else None)
            for name, (suggestion, when) in self._model.items()
        }
        space = Space(replace(parameter, name=name) for name, parameter in parameters.items())
        known: dict[Point, Scores] = {}
        for trial in self.trials:
            point = self._point(space, internal, trial)
            if point is not None:
                known[point] = trial.scores
        self._search = Optimization(
            space, self.directions.names, self._engine, budget=max(budget, 1),
            seed=self._seed + len(self.trials), slots=self._jobs, known=known, **self._settings,
        )  # fmt: skip

    def _point(self, space: Space, internal: Mapping[str, str], trial: TrialRecord) -> Point | None:
        """Return where *trial* is in *space*."""
        coded: dict[str, Coded] = {}
        for name, (suggestion, when) in self._model.items():
            if when is None or when.holds(coded):
                # A parameter that the trial did not ask for can have had any value.
                first = suggestion.draw(np.random.default_rng(0))
                coded[name] = trial.coded.get(name, first)
        try:
            return space.find({internal[name]: value for name, value in coded.items()})
        except SpaceError:  # a value between the steps of what is asked for now
            return None


def _trial(facts: Mapping[str, Any]) -> TrialRecord:
    """Return the trial that was saved as *facts*."""
    suggestions = {
        name: Suggestion(**{**suggestion, "choices": tuple(suggestion["choices"])})
        for name, suggestion in facts["suggestions"].items()
    }
    scores = tuple(facts["scores"])
    return TrialRecord(**{**facts, "scores": scores, "suggestions": suggestions})


def _inferred(
    trials: Sequence[TrialRecord],
) -> dict[str, tuple[Suggestion, _Condition | None]]:
    """Return the parameters of *trials* with the condition under which each is asked for."""
    suggestions: dict[str, Suggestion] = {}
    for trial in trials:
        for name, suggestion in trial.suggestions.items():
            recorded = suggestions.get(name, suggestion)
            suggestions[name] = recorded.merged(suggestion, name)
    model: dict[str, tuple[Suggestion, _Condition | None]] = {}
    for name, suggestion in suggestions.items():
        model[name] = suggestion, _condition(name, trials, model)
    return model


def _condition(
    name: str,
    trials: Sequence[TrialRecord],
    before: Mapping[str, tuple[Suggestion, _Condition | None]],
) -> _Condition | None:
    """Return what decides whether *name* is asked for; None for always, or if nothing known does.

    Of several that could, a category is likelier than a number, and the last before it likeliest.
    """
    having = [trial.coded for trial in trials if name in trial.coded]
    lacking = [trial.coded for trial in trials if name not in trial.coded]
    if not lacking:
        return None
    kinds = {other: suggestion.kind for other, (suggestion, _) in before.items()}
    ranks = {other: (_LIKELY.index(kind), -at) for at, (other, kind) in enumerate(kinds.items())}
    for other in sorted(ranks, key=ranks.__getitem__):
        if any(other not in coded for coded in having):
            continue
        present = {coded[other] for coded in having}
        absent = {coded[other] for coded in lacking if other in coded}
        if not absent:  # it is asked for wherever the other one is
            return before[other][1]
        if kinds[other] == "categorical":
            if not present & absent:
                return _Condition(other, frozenset(present))
            continue
        numbers, others = sorted(map(float, present)), sorted(map(float, absent))
        if numbers[0] > others[-1]:
            return _Condition(other, above=(numbers[0] + others[-1]) / 2)
        if numbers[-1] < others[0]:
            return _Condition(other, below=(numbers[-1] + others[0]) / 2)
        is_exact = kinds[other] == "int" and not before[other][0].log
        if is_exact and not present & absent and len(present) <= MOST_CONDITION_VALUES:
            return _Condition(other, frozenset(present))
    return None


_LIKELY = ("categorical", "int", "float")
"""What conditions are about, the most frequent first: few trials leave several possible."""


def from_optuna(
    objective: Callable[[Any], Any],
    directions: Iterable[str] | str = ("minimize",),
    engine: str = "auto",
    **options: Any,
) -> DefineByRunSearch:
    """Return a search with an *objective* that was written for Optuna.

    >>> search = from_optuna(lambda trial: trial.suggest_int("x", -9, 9) ** 2, engine="hill")
    >>> search.run(30).best_params
    {'x': 0}

    It needs no Optuna unless the objective imports it. *options* are ``seed``, ``jobs`` (threads),
    and settings of the engine. An objective that reports intermediate values is refused.
    """
    return DefineByRunSearch(objective, directions, engine, **options)
