"""Where a run stands, which results were cached, and how the run ended."""

from __future__ import annotations

import math
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from time import monotonic, time
from typing import Any

import numpy as np

from zenturio.annotate.commands import undeclared_programs
from zenturio.annotate.model import MEASURED, Annotated, Application, Goal, Metric
from zenturio.errors import ExpressionError
from zenturio.experiment import (
    Experiment,
    MachineKind,
    MetricValue,
    Missing,
    Outcome,
    Series,
)
from zenturio.experiment.experiment import (
    SUCCEEDED,
    log_end,
    missing_names,
    missing_reasons,
    written_failure,
)
from zenturio.experiment.identity import file_digest
from zenturio.experiment.metrics import RegexFinder
from zenturio.experiment.number_hints import describe_text, number_hint
from zenturio.expression import Expression, Value
from zenturio.record import Repository
from zenturio.regular_expressions import SlowPatternError
from zenturio.study.recorded_definition import ArchivedVersion

# Cached results: which count, with which programs, and what is said of the others

Array = np.ndarray[Any, Any]

_VARYING = MEASURED.keys() - {"exit"}
"""Metrics that each run measures again, for any program."""


def is_exact(application: Application, goals: tuple[Goal, ...]) -> bool:
    """Return whether all that a study measures has the same value on every machine.

    Each METRIC is declared EXACT or computed from such ones, and neither a formula nor one of
    *goals* asks for times or memory. A study without a METRIC is one of times.
    """
    metrics = {metric.name: metric for metric in application.metrics}
    return (
        bool(metrics)
        and all(_metric_is_exact(metric, metrics) for metric in application.metrics)
        and not any(goal.expression.names & _VARYING for goal in goals)
    )


def _metric_is_exact(metric: Metric, metrics: Mapping[str, Metric]) -> bool:
    if metric.formula is None:
        return metric.exact
    names = metric.formula.names
    used = [metrics[name] for name in names if name in metrics]
    return not names & _VARYING and (
        metric.exact or all(_metric_is_exact(other, metrics) for other in used)
    )


def machines_with_results(repository: Repository, digests: Sequence[str]) -> Counter[MachineKind]:
    """Count the results of these experiments by the kind of machine, where it is known."""
    outcomes = repository.find_outcomes(digests).values() if digests else ()
    return Counter(outcome.machine for outcome in outcomes if outcome.machine is not None)


def other_machine_notes(kinds: Counter[MachineKind]) -> tuple[str, ...]:
    """Say which kinds of machine have results that are not used; nothing if there are none."""
    if not kinds:
        return ()
    names = "; ".join(f"{kind.label} ({count:,})" for kind, count in kinds.most_common())
    count = sum(kinds.values())
    verb = "have results" if count > 1 else "has a result"
    return (f"{count:,} {verb} of another kind of machine: {names}; --machine any uses them",)


def round_begins(number: int) -> str:
    """Print that a new round is measured."""
    return (
        f"round {number} begins: experiments that have results are measured again, and the "
        "earlier results are kept"
    )


def round_goes_on(number: int) -> str:
    """Print that the run continues a round that was begun before."""
    return (
        f"round {number} continues: experiments that have a result of this round are not run again"
    )


@dataclass(frozen=True)
class CachedTally:
    """What is counted of cached results whose experiments are not made."""

    count: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    """By cause."""
    outdated: Counter[str] = field(default_factory=Counter)
    """By executable that has changed since."""
    has_succeeded: bool = False


PROGRAMS = "programs"
"""The note of a study that holds them."""
_KEPT = 100
"""Changes of one executable that are remembered."""


@dataclass
class ExecutableChanges:
    """The content of each executable from a time on, as the drivers of a study saw it."""

    _paths: Mapping[str, str] = field(default_factory=dict)
    _changes: Mapping[str, list[tuple[float, str]]] = field(default_factory=dict)

    @staticmethod
    def of(application: Application, notes: Mapping[str, Any]) -> ExecutableChanges:
        """What *notes* hold of the executables that *application* starts, and what they are now."""
        before = notes.get(PROGRAMS, {})
        paths, changes = {}, {}
        for word, path in undeclared_programs(application).items():
            try:
                digest = file_digest(path)
            except OSError:  # executable, but not readable
                continue
            known = [(float(t), str(d)) for t, d in before.get(word, {}).get("changes", ())]
            if not known or known[-1][1] != digest:
                known.append((time(), digest))
            paths[word], changes[word] = str(path), known[-_KEPT:]
        return ExecutableChanges(paths, changes)

    def notes(self) -> dict[str, Any]:
        """Return the same as JSON has it."""
        return {
            word: {"path": path, "changes": self._changes[word]}
            for word, path in self._paths.items()
        }

    def count_changed(self, started: Array) -> Counter[str]:
        """Count by executable the outcomes of which `changed_since` would name it."""
        counts = Counter[str]()
        for word, changes in self._changes.items():
            times, digests = zip(*changes, strict=True)
            at = np.searchsorted(times, started, "right") - 1
            differs = np.array([*(digest != digests[-1] for digest in digests), False])
            counts[word] = int(differs[at].sum())  # -1 is before the first one: nothing is known
        return +counts

    def changed_since(self, outcome: Outcome) -> Iterable[str]:
        """The executables that are not what they were when *outcome* was made, if that is known."""
        for word, changes in self._changes.items():
            before = [digest for since, digest in changes if since <= outcome.started]
            if before and before[-1] != changes[-1][1]:
                yield word


def changed_program_notes(counts: Counter[str]) -> list[str]:
    """Return the note on cached results whose executables have changed since."""
    return [
        f"{word} has changed since {count:,} cached {'results were' if count > 1 else 'result was'}"
        f' made: ZEN$ USE PROGRAM "{word}" makes it part of the experiments, and runs them again'
        for word, count in counts.items()
    ]


# Plan, progress and summary of a run


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run is going to do, as far as it can be known beforehand."""

    study: str
    points: int
    repeats: int
    experiments: int
    cached: int
    """Have an outcome already, among those that were looked at."""
    looked_at: int
    """As many as fit into one batch: all of them, if it equals ``experiments``."""
    slots: int
    archived: ArchivedVersion | None = None
    """The study of another version of the program that had the name before."""
    engine: str = ""
    """What searches; ``points`` are as many as it may visit then, or 0 if nobody knows."""
    before: tuple[RunPlan, ...] = ()
    """Of the stages that it waits for."""
    remarks: tuple[str, ...] = ()
    """What should be known of the cached results."""
    kinds: int = 1
    """Kinds of machine, each of which measures all; ``experiments`` are those of all of them."""
    least: int | None = None
    """Repeats that each point has in any case, if ``repeats`` are as many as needed."""
    until: str = ""
    """When the repeats of a point suffice."""
    warmup: int = 0
    """Runs of each point that do not count."""
    is_as_needed: bool = False
    """Whether the search of a later stage says which of its experiments run."""


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Where a run stands."""

    total: int
    cached: int
    ok: int
    failed: int
    """Of any sort, in this run."""
    running: int
    rate: float
    """Experiments a second, lately."""
    seconds_left: float | None
    """An estimate from the rate; None before there is one, and while the last ones run: how long
    these take does not follow from the rate."""
    goal: str = ""
    last: Value = None
    best: BestPoint | None = None
    remarks: tuple[str, ...] = ()
    """What the place has to say, each once."""
    only_last_run: bool = False
    """Whether all that are not finished are running."""

    @property
    def done(self) -> int:
        return self.cached + self.ok + self.failed


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Experiments that failed for the same cause, and one that shows it."""

    cause: str
    count: int
    digest: str
    values: Mapping[str, Value]
    end: str = ""
    """The last lines of what that one said."""
    reasons: tuple[str, ...] = ()
    """Where a metric is missing: why it was not found."""
    written: str = ""
    """The cause with numbers as the program wrote them, if all experiments wrote the same."""

    @property
    def text(self) -> str:
        """The cause as people read it."""
        return self.written or self.cause


@dataclass(frozen=True, slots=True)
class BestPoint:
    """The best value of an objective, and where it was found."""

    goal: str
    value: Value
    at: Mapping[str, Value]
    repeat: int | None = None
    """Which repeat it is, where points are repeated: its value alone, not the mean of the point."""
    confirmed: int = 0
    """Of how many measurements the value is the mean, which were made when the search was over."""
    objectives: int = 1
    """How many objectives there are: the point is the best by the first of them."""
    is_known: bool = False
    """Whether it was measured before the search, perhaps by another study of the program."""


@dataclass(frozen=True, slots=True)
class ExpectedPoint:
    """The point that a model of all expects to be the best, where each was measured once."""

    goal: str
    value: float
    """The expected value."""
    measured: float
    at: Mapping[str, Value]
    scatter: float
    """By how much single values deviate from the model."""
    is_share: bool
    """Whether that is a share of the value."""
    confirmed: int = 0
    """Of how many measurements after the search the value is the mean; 0: of a model alone."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """How a run ended."""

    study: str
    total: int
    cached: int
    """Had an outcome before the run, or from another driver meanwhile; the failed ones among
    them are in ``failures`` too."""
    ok: int
    failed: int
    unfinished: int
    seconds: float
    interrupted: bool = False
    """Somebody stopped it; with --fail-fast, a failure did, and this stays false."""
    failures: tuple[FailureGroup, ...] = ()
    best: BestPoint | None = None
    expected: ExpectedPoint | None = None
    """Of a search with one objective and without repeats, whose results scatter."""
    ended: str = ""
    """What ended a search: exhausted, budget, time, target, stall; empty if it is to go on."""
    alone: int = 0
    """Asked for more CPUs than the place has slots, and ran alone with all of them."""
    blocked: int = 0
    """Waited for experiments of another stage that did not succeed."""
    remarks: tuple[str, ...] = ()
    """What is likely not meant, though nothing failed."""
    before: tuple[RunSummary, ...] = ()
    """Of the stages that it waited for."""
    notes: tuple[str, ...] = ()
    """What was said of cached results before it began."""
    round: int | None = None
    """The round in which what had results was measured again, if it was."""
    wrong: int = 0
    """How many of the failed ones ended well with a result that a VERIFY refuses."""
    skipped: int = 0
    """How many of the unfinished ones are in no state that the run was to run: ``--only failed``
    leaves those that never ran."""
    stops: Mapping[str, int] = field(default_factory=dict)
    """How many points needed no more repeats, by the reason: see `StopReason`."""


FAULTY = 8
"""So many experiments that fail before any succeeds stop the run."""
STOPPED = "stopped, because the first"
"""How the remark begins that says why."""

CAUSES = 4
"""Reasons that are named where a run stops; all are listed at its end."""
BUILD_FAILED = "build failed"
"""How the cause begins of what failed before it could run."""


class RateMeter:
    """How fast it goes: experiments a second over the last seconds."""

    def __init__(self, window: float = 10.0) -> None:
        self._window = window
        self._seen: deque[tuple[float, int]] = deque([(monotonic(), 0)])
        self._count = 0

    def add(self, count: int) -> None:
        """Note that *count* more have finished now."""
        self._count += count
        now = monotonic()
        if now - self._seen[-1][0] > self._window / 50 or len(self._seen) == 1:
            self._seen.append((now, self._count))
        while len(self._seen) > 2 and now - self._seen[0][0] > self._window:
            self._seen.popleft()

    @property
    def rate(self) -> float:
        first, before = self._seen[0]
        passed = monotonic() - first
        return (self._count - before) / passed if passed > 0 else 0.0


class BestScore:
    """The best value of the first objective so far; what is not a number is never the best."""

    def __init__(self, goals: tuple[Goal, ...]) -> None:
        self._goal = goals[0] if goals else None
        self._goals = len(goals)
        self.name = self._goal.expression.text if self._goal else ""
        self.last: Value = None
        self._best: BestPoint | None = None
        self._rank: tuple[float, int, int] | None = None
        self._has_repeats = False

    @property
    def found(self) -> BestPoint | None:
        best = self._best
        return best if best is None or self._has_repeats else replace(best, repeat=None)

    def see(self, experiment: Experiment, outcome: Outcome) -> None:
        """Learn of one more experiment that succeeded; of equals the first point is the best."""
        if self._goal is None:
            return
        self._has_repeats |= experiment.repeat > 1
        value = score(self._goal.expression, experiment.values, outcome)
        if value is None:
            return
        self.last = value
        sign = -1 if self._goal.direction == "maximize" else 1
        rank = (sign * value, experiment.index, experiment.repeat)
        if self._rank is None or rank < self._rank:
            self._rank = rank
            self._best = BestPoint(
                self.name, value, dict(experiment.values), experiment.repeat, objectives=self._goals
            )


def score(expression: Expression, values: Mapping[str, Value], outcome: Outcome) -> float | None:
    """Return the value of an objective, or none where it has none that can be compared."""
    return score_of_values(expression, {**values, **scalars(outcome.metrics)})


def score_of_values(expression: Expression, values: Mapping[str, Value]) -> float | None:
    """Return the same of the parameters and metrics together."""
    try:
        value = expression.value({**dict.fromkeys(expression.optional_names), **values})
    except ExpressionError:
        return None
    if isinstance(value, str) or value is None:
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer beyond all reals is as infinite as they are
        return None
    return number if math.isfinite(number) else None


def scalars(metrics: Mapping[str, MetricValue]) -> dict[str, Value]:
    """Metrics as values of expressions: what is missing, or a series, is NULL."""
    return {
        name: None if isinstance(measured, Missing | Series) else measured
        for name, measured in metrics.items()
    }


# Repeats that are to give the same, and do not.

_MEASURED_NAME = re.compile(
    r"time|sec|wall|elapsed|latenc|flop|rate|speed|band|through|per_s|[fi]ps|clock|cycle|hz"
    r"|mem|rss|bytes|energy|power|watt|joule|temp|(?:^|_)(?:t|s|ms|us|ns)(?:$|_)",
    re.IGNORECASE,
)
"""Names of metrics that each run measures again, for any program."""
_MEASURED_UNIT = re.compile(
    r".*/\s*(?:s|sec|min|h)|[mun]?s|sec|min|h|d|[kMGT]?Hz|[kKMGT]?i?B|J|W|°?C"
)
_RANDOM = re.compile(
    r"s?rand\w*|\w*random\w*|\w*seed\w*|mt19937\w*|\w*rng\w*|runif|rnorm", re.IGNORECASE
)
"""Words of programs that draw random numbers."""
_MOST_POINTS = 10_000
"""Points of which a repeat is remembered."""


class DeterminismCheck:
    """Finds out whether repeats of one point, to which nothing gives a seed, differ in a result.

    Times differ in any case; so only metrics count that are declared EXACT or, where the program
    speaks of random numbers or a parameter is called a seed, that look like no measurement.
    """

    def __init__(self, application: Application) -> None:
        self._count = application.repeat.count
        names = [p.name for p in application.space.parameters if "seed" in p.name.lower()]
        self._seed = names[0] if names else ""
        draws = bool(names) or any(_is_random(file) for file in application.files)
        self._metrics = [
            metric.name
            for metric in application.metrics
            if metric.exact or (draws and not _is_measurement(metric))
        ]
        # With a seed of REPEAT each run has another one; `zen check` says if nothing uses it.
        self._is_over = application.repeat.seed is not None or not self._metrics or self._count < 2
        self._first: dict[tuple[Value, ...], tuple[MetricValue | None, ...]] = {}

    def see(self, experiment: Experiment, outcome: Outcome) -> str:
        """Learn of one that succeeded; return what is to be said, once."""
        if self._is_over or experiment.repeat < 1:
            return ""
        point = tuple(experiment.values.values())
        values = tuple(outcome.metrics.get(name) for name in self._metrics)
        if len(self._first) < _MOST_POINTS:
            first = self._first.setdefault(point, values)
        else:
            first = self._first.get(point, values)
        for name, one, other in zip(self._metrics, first, values, strict=True):
            is_measured = isinstance(one, int | float | str) and isinstance(
                other, int | float | str
            )
            if is_measured and str(one) != str(other):  # NaN is not equal to itself
                self._is_over, self._first = True, {}
                return self._remark(experiment, f"{name} ({one} and {other})")
        return ""

    def _remark(self, experiment: Experiment, difference: str) -> str:
        if self._seed:
            seed = f"{self._seed} = {experiment.values.get(self._seed)}"
            return (
                f"repeats with {seed} differ in {difference}: the program draws a seed of its own;"
                f" ZEN$ ASSIGN seed = @{self._seed} gives it this one, or {{{self._seed}}} in RUN"
            )
        return (
            f"repeats of one point differ in {difference}: the program draws a seed of its own;"
            f" ZEN$ REPEAT {self._count} SEED seed and ZEN$ ASSIGN seed = @seed, or {{seed}} in"
            " RUN, give it one"
        )


def _is_random(file: Annotated) -> bool:
    return _RANDOM.search(file.source.text or "") is not None


def _is_measurement(metric: Metric) -> bool:
    """Return whether a metric differs by run though the program computes the same."""
    return bool(
        metric.observed
        or metric.formula is not None
        or _MEASURED_UNIT.fullmatch(metric.unit)
        or _MEASURED_NAME.search(metric.name)
    )


# Metrics that are likely not what they should be

_SAME = 8
"""Points at which all metrics are the same before that is worth a remark."""
_MATCHES = 10_000
"""Matches of a pattern in one output that are looked at."""


class MetricSanityCheck:
    r"""Finds metrics that the first output has in several meanings, those that never change, and
    numbers that are texts for something around them.

    ``rays: (\d+)`` matches in "Rays: 9" and in "Reflected Rays: 3", and the last match counts.
    """

    def __init__(self, application: Application) -> None:
        # By the metrics that are to change together: what they were in the first experiment.
        self._same: dict[tuple[str, ...], tuple[MetricValue | None, ...]] = dict.fromkeys(
            _expected_to_change(application), ()
        )
        self._patterns = [metric for metric in application.metrics if _takes_last_match(metric)]
        self._uncut = {metric.name for metric in application.metrics if metric.regex is not None}
        """Metrics of which nobody said that they are a part of a number."""
        self._points: set[tuple[Value, ...]] = set()
        self._seen = 0
        self._texts = set[str]()
        """Metrics of which it was said that a value is a text."""

    def overlook(self) -> None:
        """Some experiments succeeded that it does not see: nothing can be said of all."""
        self._same = {}

    def see(self, experiment: Experiment, outcome: Outcome) -> Iterator[str]:
        """Take in an experiment that succeeded; yield the remarks on the first output."""
        patterns, self._patterns = self._patterns, []
        for metric in patterns:
            log = outcome.stdout if metric.source == "stdout" else outcome.stderr
            # Of an output that was cut nobody knows what its middle holds.
            if log.size == len(log.head) + len(log.tail):
                yield from _several_meanings(metric, log.head + log.tail)
        for name, remark in outcome.metric_remarks.items():
            if name in self._uncut:
                self._uncut.remove(name)
                yield remark
        for name, value in outcome.metrics.items():
            if type(value) is str and name not in self._texts and number_hint(value):
                self._texts.add(name)
                yield f"{name} is {describe_text(value)}"
        self._seen += 1
        for names, first in list(self._same.items()):
            values = tuple(outcome.metrics.get(name) for name in names)
            if not first:
                self._same[names] = values
            elif repr(values) != repr(first):  # NaN is not equal to itself
                del self._same[names]
        if self._same and len(self._points) < _SAME:
            self._points.add(tuple(experiment.values.values()))

    def conclude(self) -> Iterator[str]:
        """Yield a remark if no metric of an objective, or none at all, tells experiments apart."""
        same = [
            name
            for names, first in self._same.items()
            if any(isinstance(value, int | float | str) for value in first)
            for name in names
        ]
        if same and len(self._points) >= _SAME:
            names = list(dict.fromkeys(same))
            verb = "is" if len(names) == 1 else "are"
            yield (
                f"{', '.join(names[:5])} {verb} the same in all {self._seen:,} experiments: does"
                " the program read what varies? zen diff compares two of them"
            )


def _expected_to_change(application: Application) -> list[tuple[str, ...]]:
    """Metrics of which at least one differs between points, if the program uses the values.

    Those of each objective, where there is one: others, as a sum that proves the result right, may
    well be the same, as may what a VERIFY checks. Times never are.
    """
    formulas = {metric.name: metric.formula for metric in application.metrics}
    measured = [name for name, formula in formulas.items() if formula is None]
    if not application.goals:
        checks = [v.expression for v in application.verifications if v.expression is not None]
        names = [name for name in measured if not any(name in check.names for check in checks)]
        return [tuple(names)] if names else []
    used = [_metrics_used(goal.expression, formulas) for goal in application.goals]
    groups = (tuple(n for n in measured if n in names) for names in used if not names & _VARYING)
    return [names for names in groups if names]


def _metrics_used(expression: Expression, formulas: Mapping[str, Expression | None]) -> set[str]:
    """Return the names in *expression*, and in the formulas of these."""
    used = set[str]()
    names = list(expression.names)
    while names:
        if (name := names.pop()) not in used:
            used.add(name)
            names.extend(formula.names if (formula := formulas.get(name)) else ())
    return used


def _takes_last_match(metric: Metric) -> bool:
    """Return whether a pattern matches anywhere in a line, and no TAKE selects a match."""
    return (
        metric.regex is not None
        and metric.source in ("stdout", "stderr")
        and metric.take == "last"
        and not metric.has_take
        and not metric.regex.startswith("^")
    )


def _several_meanings(metric: Metric, content: bytes) -> Iterator[str]:
    """Yield a remark if matches with different values stand behind different words."""
    value_by_words: dict[str, str] = {}
    try:
        for before, value in islice(RegexFinder(metric).matches_in_lines(content), _MATCHES):
            # A number in front counts something: "step 1 loss" has the meaning of "step 2 loss".
            # What touches it is its exponent or its unit: "t = 1e-05", "after 59s".
            words = " ".join(re.findall(r"(?<!\w)[^\W\d]+", before.decode("utf-8", "replace")))
            value_by_words[words] = value.decode("utf-8", "replace")
    except SlowPatternError:
        return
    if len(value_by_words) > 1 and len(set(value_by_words.values())) > 1:
        behind = ", ".join(f'"{words}" ({value})' for words, value in value_by_words.items())
        yield (
            f"{metric.name}: its pattern matches behind {_cut(behind)}; the last match counts:"
            " begin the pattern with ^ or more words, or write TAKE last if that is meant"
        )


def _cut(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + "..."


class ResultChecks:
    """What is checked of the results of a run, beside what the study declares."""

    def __init__(self, application: Application) -> None:
        self._repeats = DeterminismCheck(application)
        self._metrics = MetricSanityCheck(application)

    def overlook(self) -> None:
        """Some experiments succeeded whose outcomes are not passed to `see`."""
        self._metrics.overlook()

    def see(self, experiment: Experiment, outcome: Outcome) -> Iterator[str]:
        """Yield the remarks on the outcome of an experiment that succeeded."""
        if remark := self._repeats.see(experiment, outcome):
            yield remark
        yield from self._metrics.see(experiment, outcome)

    def conclude(self) -> Iterator[str]:
        """Yield the remarks on all outcomes together."""
        yield from self._metrics.conclude()


LINES = 5
"""Of the end of what a failed experiment said."""


class RunCounts:
    """Counts each experiment of a study once."""

    def __init__(
        self,
        study: str,
        slots: int,
        goals: tuple[Goal, ...],
        programs: ExecutableChanges | None = None,
        *,
        is_one_machine: bool = False,
        is_search: bool = False,
        checks: ResultChecks | None = None,
    ) -> None:
        self._study = study
        self._is_search = is_search
        self._slots = slots
        self._is_one_machine = is_one_machine
        self._checks = checks
        self._meter = RateMeter()
        self._best = BestScore(goals)
        self._failures: dict[str, FailureGroup] = {}
        self._more_failures = Counter[str]()
        """Cached failures that were only counted, by cause; one of each is in *_failures*."""
        self.cached = 0
        self.ok = 0
        self.failed = 0
        self._wrong = 0
        self._hosts: set[str] = set()
        self._has_succeeded = False
        self._ended_by_limit = False
        self._alone = 0
        self._programs = programs or ExecutableChanges()
        self._outdated: Counter[str] = Counter()
        self._remarks: dict[str, None] = {}
        self._news: list[str] = []
        self._announced: set[str] = set()

    @property
    def rate(self) -> float:
        """Experiments a second, lately."""
        return self._meter.rate

    def recalled(self, experiment: Experiment, outcome: Outcome) -> None:
        """Note an experiment with a cached outcome, or one that another driver recorded."""
        self.cached += 1
        self._outdated.update(self._programs.changed_since(outcome))
        self._learn(experiment, outcome)

    def recall(self, tally: CachedTally) -> None:
        """Count cached ones of which nothing else is to be said."""
        self.cached += tally.count
        if tally.count and self._checks:
            self._checks.overlook()
        self._outdated.update(tally.outdated)
        self._more_failures.update(tally.failures)
        self._has_succeeded |= tally.has_succeeded

    def ended(self, experiment: Experiment, outcome: Outcome) -> None:
        """Note a recorded experiment that this run has run."""
        self._meter.add(1)
        self._alone += experiment.cpus > self._slots
        if outcome.remark:
            self._remark(outcome.remark)
        if outcome.status in SUCCEEDED:
            self.ok += 1
        else:
            self.failed += 1
            self._wrong += outcome.status == "wrong"
            self._ended_by_limit |= outcome.status in ("timeout", "pruned")
            self._hosts.add(outcome.host)
        self._learn(experiment, outcome)

    def progress(self, total: int, running: int, skipped: int) -> RunProgress:
        """Return where the run of *total* stands, with so many *running* and *skipped*."""
        unfinished = total - self.cached - self.ok - self.failed - skipped
        rate = self._meter.rate
        only_last_run = 0 < unfinished <= running
        return RunProgress(
            total,
            self.cached,
            self.ok,
            self.failed,
            running,
            rate,
            unfinished / rate if rate > 0 and not only_last_run else None,
            self._best.name,
            self._best.last,
            self._best.found,
            only_last_run=only_last_run,
        )

    def summary(self, total: int, seconds: float, *, interrupted: bool) -> RunSummary:
        """Return how the run ended."""
        return RunSummary(
            self._study,
            total,
            self.cached,
            self.ok,
            self.failed,
            total - self.cached - self.ok - self.failed,
            seconds,
            interrupted=interrupted,
            failures=tuple(sorted(self._counted_failures(), key=lambda f: -f.count)),
            best=self._best.found,
            alone=self._alone,
            remarks=tuple(self._remarks),
            wrong=self._wrong,
        )

    def _counted_failures(self) -> Iterator[FailureGroup]:
        for cause, failure in self._failures.items():
            yield replace(failure, count=failure.count + self._more_failures[cause])

    @property
    def is_study_faulty(self) -> bool:
        """Whether all that ended has failed, so that the others are likely to fail, too.

        A search learns from points that fail, and a time limit or a pruner ends experiments as
        it was asked to: then the run goes on unless no point can escape the cause.
        """
        if self._has_succeeded or self.failed < FAULTY:
            return False
        missing = [frozenset(missing_names(cause)) for cause in self._failures]
        if frozenset.intersection(*missing):
            return True
        # Where there are several hosts, what fails may be the fault of one.
        if not self._is_one_machine and len(self._hosts) < 2:
            return False
        return self._is_one_fault() or not (self._is_search or self._ended_by_limit)

    def _is_one_fault(self) -> bool:
        """Return whether all failed for one cause that no point can escape."""
        causes = list(self._failures)
        is_build = len(causes) == 1 and causes[0].startswith(BUILD_FAILED)
        return is_build or all(cause.startswith(("exit 126", "exit 127")) for cause in causes)

    def report_fault(self) -> None:
        """Say why the run stops before its end."""
        failures = sorted(self._counted_failures(), key=lambda group: -group.count)
        if len(failures) == 1:
            causes = f": {failures[0].text}"
        else:
            listed = ", ".join(f"{f.count:,} x {f.text}" for f in failures[:CAUSES])
            more = len(failures) - CAUSES
            causes = f", for {len(failures):,} reasons: {listed}"
            causes += f", and {more:,} more reasons" if more > 0 else ""
        self._remark(
            f"{STOPPED} {self.failed:,} experiments failed{causes}; --go-on (in Python: "
            "go_on=True) runs the others anyway"
        )

    def conclude(self) -> None:
        """Nothing more comes: what can only be counted in the end becomes remarks."""
        for remark in changed_program_notes(self._outdated):
            self._remark(remark)
        if self._checks and not self.failed:
            for remark in self._checks.conclude():
                self._remark(remark)

    def news(self) -> tuple[str, ...]:
        """Return the remarks of outcomes that were not printed yet."""
        news, self._news = self._news, []
        return tuple(news)

    def announce(self, text: str) -> None:
        """Report *text* with the next progress, once; the end of the run does not repeat it."""
        if text not in self._announced:
            self._announced.add(text)
            self._news.append(text)

    def _remark(self, remark: str) -> None:
        if remark not in self._remarks:
            self._news.append(remark)
        self._remarks[remark] = None

    def _learn(self, experiment: Experiment, outcome: Outcome) -> None:
        if outcome.status in SUCCEEDED:
            self._has_succeeded = True
            if outcome.status == "ok":
                self._best.see(experiment, outcome)
                for remark in self._checks.see(experiment, outcome) if self._checks else ():
                    self._remark(remark)
        else:
            count_failure(self._failures, experiment, outcome)


def count_failure(
    failures: dict[str, FailureGroup], experiment: Experiment, outcome: Outcome
) -> None:
    """Count an *experiment* that failed among those that failed for the same cause."""
    cause = outcome.cause or outcome.status
    group = failures.get(cause)
    if group is None:
        _, end = log_end(outcome.stderr, outcome.stdout, LINES)
        reasons = missing_reasons(cause, outcome.metrics)
        values = dict(experiment.values)
        failures[cause] = FailureGroup(
            cause,
            1,
            experiment.digest,
            values,
            end,
            reasons,
            written_failure(cause, outcome.stderr),
        )
    else:
        is_read = group.written and "#" in cause
        is_same = not is_read or group.written == written_failure(cause, outcome.stderr)
        failures[cause] = replace(
            group, count=group.count + 1, written=group.written if is_same else ""
        )
