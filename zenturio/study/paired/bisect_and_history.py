"""Commits side by side: the first one that differs, and a metric over a history."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import numpy as np

from zenturio.errors import InputError
from zenturio.experiment.aggregates import median
from zenturio.experiment.provenance import Commit, commits_between, find_commit
from zenturio.experiment.signed_ranks import (
    BlockPlan,
    Interval,
    LookedAt,
    decide_in_looks,
    hodges_lehmann,
    is_clear,
)
from zenturio.record import Repository
from zenturio.study.paired.compare_and_gate import ALPHA, FAILURES, PairedOptions, differences
from zenturio.study.paired.paired_study import (
    LABEL_DIGITS,
    WARMUP,
    MeasuredBlocks,
    PairedResult,
    PairedStudy,
    Version,
    VersionBlock,
    commit_version,
    following,
    plan_of,
    present_version,
)

# Bisection: the commit that made a program slower or faster, among many, as noise allows
#
# Candidates are chosen by a posterior over the commits, which steers only: a commit is named after
# an exact test against its predecessor. Without that test, a posterior of 95% named the wrong
# commit in 9 to 33% of simulated searches where times are skewed, bimodal or have heavy tails.

MOST_RUNS = 600
"""Runs after which a search ends with the range that is left."""
BLOCK_VERSIONS = 4
"""Both ends and two candidates."""
TEMPER = 0.6
"""The share of the evidence that counts: neighbours in time are less independent than it says."""
SURE = 0.9
"""The posterior of one commit at which it is tested."""
DOUBT = 20.0
"""What the odds of a commit are divided by when its test does not confirm it."""
FREEDOM = 4.0
"""Degrees of freedom of the likelihood: its tails are heavy, as those of times are."""
CONFIRM = BlockPlan(8, 40)
BISECT_ALPHA = 0.05

BisectState = Literal["searching", "found", "no difference", "no value", "open"]
"""No value: the ends never had a positive value in the same block."""


@dataclass
class Bisection:
    """The blocks of a search for the first commit that differs, and what it came to.

    The posterior over the commits is that of M. V. Burnashev & K. Sh. Zigangirov: An interval
    estimation problem for controlled observations, Problems of Information Transmission 10 (1974);
    R. Waeber, P. I. Frazier & S. G. Henderson: Bisection search with noisy responses, SIAM J.
    Control Optim. 51 (2013).
    """

    labels: Sequence[str]
    """The commits in their order: the first is good, the last is bad."""
    can_run: Callable[[str], bool] = lambda _label: True
    points: int = 1
    most_runs: int = MOST_RUNS
    plan: BlockPlan = BlockPlan()  # noqa: RUF009 - it is frozen
    state: BisectState = field(default="searching", init=False)
    ends: LookedAt | None = field(default=None, init=False)
    """The difference between the good and the bad end."""
    confirmed: LookedAt | None = field(default=None, init=False)
    """The difference between the commit that was found and its predecessor."""
    first_different: int = field(default=0, init=False)
    """The commit that was found, by its place among the labels."""
    skipped: set[int] = field(default_factory=set, init=False)
    """Commits that do not build or fail."""
    _posterior: np.ndarray = field(init=False)
    _phase: Literal["ends", "search", "confirm"] = field(default="ends", init=False)
    _block: VersionBlock | None = field(default=None, init=False)
    _tries: int = field(default=0, init=False)
    _pair: tuple[int, int] = field(default=(0, 0), init=False)
    _confirming: dict[int, float] = field(default_factory=dict, init=False)
    _ends: dict[int, float] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        # Of each commit behind the good one: the chance that it is the first that differs.
        self._posterior = np.full(len(self.labels) - 1, 1.0 / (len(self.labels) - 1))

    def next_block(self, measured: MeasuredBlocks) -> VersionBlock | None:
        """Learn from the last block, and return the next one; None at the end of the search."""
        number = following(measured, warmup=True)
        if self._block is not None and self._block.number != WARMUP:
            self._learn(measured, self._block)
        if self.state == "searching" and measured.runs >= self.most_runs:
            self.state = "open"
        if self.state != "searching":
            return None
        labels = self._next_labels(number)
        if labels is None:
            return None
        self._block = VersionBlock(number, labels, tuple(range(self.points)))
        return self._block

    def end_early(self, _measured: MeasuredBlocks, /) -> None:
        """Learn from the last block; what is not found by now stays open."""
        if self.state == "searching":
            self.state = "open"

    @property
    def credible(self) -> tuple[int, int]:
        """The first and the last commit of the shortest range that holds 95% of the posterior."""
        cumulated = np.concatenate([[0.0], np.cumsum(self._posterior)])
        count = len(self._posterior)
        ranges = (
            (last - first, first, last)
            for first in range(count)
            for last in range(first, count)
            if cumulated[last + 1] - cumulated[first] >= 0.95 - 1e-12
        )
        _, first, last = min(ranges)
        return first + 1, last + 1

    def suspects(self) -> tuple[int, ...]:
        """Return the commit that was found, and those before it that could not be run."""
        first = self.first_different
        while first - 1 in self.skipped:
            first -= 1
        return tuple(range(first, self.first_different + 1))

    def _next_labels(self, number: int) -> tuple[str, ...] | None:
        good, bad = self.labels[0], self.labels[-1]
        if self._phase == "ends":
            return good, bad
        if self._phase == "confirm":
            first, second = self._pair
            return self.labels[first], self.labels[second]
        candidates = self._candidates(number)
        if not candidates:
            self._begin_confirming()
            first, second = self._pair
            return self.labels[first], self.labels[second]
        return (good, bad, *(self.labels[at] for at in candidates))

    def _candidates(self, number: int) -> tuple[int, ...]:
        """Return the commits at a third and two thirds of the posterior, or the ones before."""
        # It steers only: the order in which versions run has randomness of its own.
        coins = blake2b(f"{number} {self.labels[0]}".encode(), digest_size=2).digest()
        cumulated = np.cumsum(self._posterior)
        chosen: list[int] = []
        for share, coin in zip((1 / 3, 2 / 3), coins, strict=True):
            at = int(np.searchsorted(cumulated, share)) + 1 - coin % 2
            place = self._runnable_near(at, chosen)
            if place is not None:
                chosen.append(place)
        return tuple(chosen)

    def _runnable_near(self, at: int, chosen: Sequence[int]) -> int | None:
        """Return the commit between the ends that is nearest to *at* and can be run."""
        between = range(1, len(self.labels) - 1)
        for place in sorted(between, key=lambda candidate: (abs(candidate - at), candidate)):
            if place in self.skipped or place in chosen:
                continue
            if self.can_run(self.labels[place]):
                return place
            self.skipped.add(place)
        return None

    def _learn(self, measured: MeasuredBlocks, block: VersionBlock) -> None:
        values = {label: self._value(measured, label, block.number) for label in block.labels}
        if self._phase == "ends":
            self._learn_ends(values, block.number)
        elif self._phase == "confirm":
            self._learn_pair(values, block)
        else:
            self._learn_candidates(values, block)

    def _value(self, measured: MeasuredBlocks, label: str, block: int) -> float | None:
        """Return the mean of the logarithms of all points in a block; None where one failed."""
        logs = []
        for point in range(self.points):
            value = measured.of(label, point).get(block)
            if value is None or value <= 0:
                return None
            logs.append(math.log(value))
        return math.fsum(logs) / self.points

    def _learn_ends(self, values: Mapping[str, float | None], number: int) -> None:
        good, bad = values[self.labels[0]], values[self.labels[-1]]
        if good is not None and bad is not None:
            self._ends[number] = bad - good
        if not self._ends:
            if number >= self.plan.least:
                self.state = "no value"
            return
        self.ends = decide_in_looks(self._ends, self.plan, BISECT_ALPHA, _differs, reached=number)
        if self.ends.is_decided:
            self._phase = "search"
        elif number >= self.plan.most:
            self.state = "no difference"

    def _learn_candidates(self, values: Mapping[str, float | None], block: VersionBlock) -> None:
        good, bad = values[self.labels[0]], values[self.labels[-1]]
        if good is None or bad is None:
            return
        self._ends[block.number] = bad - good
        differences = list(self._ends.values())
        change = hodges_lehmann(differences, BISECT_ALPHA).value
        spread = _spread(differences) * math.sqrt(0.75)
        for label in block.labels[2:]:
            place, value = self.labels.index(label), values[label]
            if value is None:
                self.skipped.add(place)
                continue
            offset = value - (good + bad) / 2
            odds = _log_density(offset - change / 2, spread) - _log_density(
                offset + change / 2, spread
            )
            # The change came with this commit or before, if the commit is like the bad end.
            self._posterior[:place] *= math.exp(TEMPER * odds / 2)
            self._posterior[place:] *= math.exp(-TEMPER * odds / 2)
            self._posterior /= self._posterior.sum()
        self._sharpen()

    def _sharpen(self) -> None:
        """Begin to confirm a commit where the posterior of one is large enough."""
        # A commit that cannot be run is told from its successor by nothing: they count as one.
        if float(self._merged().max()) >= SURE:
            self._begin_confirming()

    def _merged(self) -> np.ndarray:
        """The posterior, with that of commits that cannot be run added to the next that can."""
        merged = self._posterior.copy()
        for at in range(len(merged) - 1):
            if at + 1 in self.skipped:
                merged[at + 1] += merged[at]
                merged[at] = 0.0
        return merged

    def _begin_confirming(self) -> None:
        second = int(np.argmax(self._merged())) + 1
        first = second - 1
        while first in self.skipped or (first > 0 and not self.can_run(self.labels[first])):
            self.skipped.add(first)
            first -= 1
        self._pair, self._confirming, self._phase = (first, second), {}, "confirm"
        self._tries += 1

    def _learn_pair(self, values: Mapping[str, float | None], block: VersionBlock) -> None:
        before, after = (values[label] for label in block.labels)
        first, second = self._pair
        if before is None or after is None:
            self._skip_failing(first if before is None else second)
            return
        assert self.ends is not None, "the ends were told apart before"
        sign = math.copysign(1.0, self.ends.estimate.value)
        # Blocks of this test alone count: those of the search have chosen what is tested.
        count = len(self._confirming) + 1
        self._confirming[count] = sign * (after - before)
        looked_at = decide_in_looks(
            self._confirming, CONFIRM, BISECT_ALPHA * 0.5**self._tries, lambda i: i.low > 0,
            reached=count, sides=1,
        )  # fmt: skip
        if looked_at.is_decided:
            self.state, self.first_different = "found", second
            self.confirmed = looked_at
        elif count >= CONFIRM.most:
            at = second - 1
            self._posterior[at] /= DOUBT
            self._posterior /= self._posterior.sum()
            self._phase = "search"

    def _skip_failing(self, place: int) -> None:
        if 0 < place < len(self.labels) - 1:
            self.skipped.add(place)
            self._phase = "search"
        else:
            self.state = "open"  # an end that fails now ran before


def _differs(interval: Interval) -> bool:
    return interval.low > 0 or interval.high < 0


def _spread(differences: Sequence[float]) -> float:
    """Return the standard deviation from the median absolute deviation, above zero.

    F. R. Hampel: The influence curve and its role in robust estimation, JASA 69 (1974).
    """
    values = np.asarray(differences)
    spread = 1.4826 * float(np.median(np.abs(values - np.median(values))))
    return max(spread, 1e-9, 1e-3 * float(np.abs(values).max()))


def _log_density(offset: float, spread: float) -> float:
    """Return the logarithm of Student's density (1908), without its constants."""
    return -(FREEDOM + 1) / 2 * math.log1p((offset / spread) ** 2 / FREEDOM)


# Runs of commits: a bisection, a history, its confirmation

BEFORE = " before"
"""What the label of a commit ends with where the one before it ran beside it."""
CONFIRM_MARGIN = 0.02
"""A change within this ratio need not be told from none."""
REFERENCE = " reference"
"""What the label of a commit ends with where the reference ran beside it."""


class CommitVersions:
    """The versions of a program by commit, each written and read when it is first needed."""

    def __init__(self, present: Version, commits: Mapping[str, str]) -> None:
        """*commits* are their full names by label."""
        self._present = present
        self._commits = commits
        self._versions: dict[str, Version | InputError] = {}

    def __call__(self, label: str) -> Version:
        """Return the version *label*; InputError where its files cannot be read."""
        if label not in self._versions:
            try:
                self._versions[label] = commit_version(self._present, self._commits[label])
            except InputError as error:
                self._versions[label] = error
        version = self._versions[label]
        if isinstance(version, InputError):
            raise version
        return replace(version, label=label)


@dataclass(frozen=True)
class BisectRun:
    """What a search for the first commit that differs came to."""

    result: PairedResult
    search: Bisection
    commits: tuple[Commit, ...]
    """The good one and all behind it up to the bad one."""


def run_bisect(
    repository: Repository,
    name: str,
    good: str,
    bad: str,
    options: PairedOptions,
    *,
    most_runs: int = MOST_RUNS,
) -> BisectRun:
    """Search the commits behind *good* up to *bad* for the first one that differs."""
    present = present_version(repository, name, options.overrides)
    folder = present.application.root.absolute()
    first, last = find_commit(folder, good), find_commit(folder, bad)
    behind = commits_between(folder, first, last)
    if not behind:
        raise InputError(
            f"{bad} does not come after {good} along first parents", hint="exchange them?"
        )
    commits = (Commit(first, 0, "the good end"), *behind)
    labels = {commit.oid[:LABEL_DIGITS]: commit.oid for commit in commits}
    versions = CommitVersions(present, labels)
    ends = (versions(first[:LABEL_DIGITS]), versions(last[:LABEL_DIGITS]))
    study = PairedStudy(
        f"{present.application.name}-bisect",
        ends,
        options.metric_of(ends[1].application),
        options.limit,
        program={"good": first, "bad": last, "files": _files(present)},
        notes={"verb": "bisect", "blocks": [options.plan.least, options.plan.most]},
        command=options.command,
        labels=tuple(labels),
        version_of=versions,
        abreast=BLOCK_VERSIONS,
    )
    search = Bisection(
        tuple(labels), study.can_run, len(study.points), most_runs * len(study.points), options.plan
    )
    result = options.run(study, repository, search, most_runs // BLOCK_VERSIONS)
    return BisectRun(result, search, commits)


@dataclass
class HistoryBlocks:
    """A number of blocks of each commit beside the reference."""

    labels: Sequence[str]
    points: int
    blocks: int
    _order: list[tuple[int, str]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        # Commits are shuffled: a slow minute must not be one of neighbours.
        self._order = [
            (block, label)
            for block in range(WARMUP, self.blocks + 1)
            for label in sorted(
                self.labels if block != WARMUP else self.labels[:1],
                key=lambda name: blake2b(f"{block} {name}".encode()).digest(),
            )
        ]
        self._order.reverse()

    def next_block(self, measured: MeasuredBlocks) -> VersionBlock | None:
        """Return the next commit and the reference; commits that fail are not run again."""
        while self._order:
            block, label = self._order.pop()
            labels = (label, label + REFERENCE)
            failed = (measured.failures.get((label, point)) for point in range(self.points))
            if not any(failed):
                return VersionBlock(block, labels, tuple(range(self.points)))
        return None

    def end_early(self, measured: MeasuredBlocks, /) -> None:
        """Nothing is decided here."""


class HistoryRow(NamedTuple):
    """A commit, and its metric beside that of the reference."""

    commit: Commit
    value: float | None
    """The median of the metric over blocks and points."""
    ratio: float | None
    """The median over blocks of the geometric mean over points, against the reference."""
    blocks: int
    failures: int


@dataclass(frozen=True)
class HistoryRun:
    """A metric over the commits of a repository."""

    result: PairedResult
    reference: str
    rows: tuple[HistoryRow, ...]


def run_history(
    repository: Repository,
    name: str,
    options: PairedOptions,
    *,
    commits: int,
    last: str = "HEAD",
    reference: str = "",
) -> HistoryRun:
    """Measure the newest *commits* up to *last* beside one *reference*, and those only once.

    The reference is that of earlier commands, else the oldest of these commits.
    """
    present = present_version(repository, name, options.overrides)
    application = present.application
    folder = application.root.absolute()
    paths = [str(path.absolute()) for path in application.paths]
    newest = commits_between(folder, "", find_commit(folder, last), paths)[-commits:]
    if not newest:
        raise InputError(f"no commit up to {last} touches {', '.join(paths)}")
    study_name = f"{application.name}-history"
    noted = (plan_of(repository, study_name) or {}).get("reference", "")
    labels = {commit.oid[:LABEL_DIGITS]: commit.oid for commit in newest}
    anchor = find_commit(folder, reference) if reference else str(noted)
    anchor = anchor or _first_that_runs(CommitVersions(present, labels), labels)
    beside = {label + REFERENCE: anchor for label in labels}
    versions = CommitVersions(present, {**labels, **beside})
    base = versions(next(reversed(beside)))
    notes: dict[str, Any] = {
        "verb": "history",
        "reference": anchor,
        "blocks": [1, options.plan.most],
    }
    study = PairedStudy(
        study_name,
        (base,),
        options.metric_of(base.application),
        options.limit,
        program={"reference": anchor, "files": _files(present)},
        accumulates=True,
        notes=notes,
        command=options.command,
        labels=tuple(label for pair in zip(labels, beside, strict=True) for label in pair),
        version_of=versions,
    )
    runnable = [label for label in labels if study.can_run(label)]
    design = HistoryBlocks(runnable, len(study.points), options.plan.most)
    result = options.run(study, repository, design, options.plan.most)
    rows = tuple(_row(result.measured, commit, len(study.points)) for commit in newest)
    return HistoryRun(result, anchor, rows)


def _first_that_runs(versions: CommitVersions, labels: Mapping[str, str]) -> str:
    """Return the first commit whose files have directives; InputError where none has any."""
    refused: InputError | None = None
    for label, oid in labels.items():
        try:
            versions(label)
        except InputError as error:
            refused = refused or error
        else:
            return oid
    assert refused is not None, "there is a commit"
    raise refused


@dataclass
class ConfirmingBlocks:
    """Runs blocks of one pair of commits after the other, each until it has a verdict."""

    pairs: Sequence[tuple[str, str]]
    points: int
    plan: BlockPlan = BlockPlan()  # noqa: RUF009 - it is frozen
    _at: int = field(default=0, init=False)
    _number: int = field(default=WARMUP, init=False)

    def next_block(self, measured: MeasuredBlocks) -> VersionBlock | None:
        """Return the next block of the first pair without a word."""
        while self._at < len(self.pairs):
            pair, number = self.pairs[self._at], self._number
            failed = any(measured.failures.get((label, 0), 0) > FAILURES for label in pair)
            is_look = number - 1 in self.plan.sizes
            decided = is_look and self.judge(measured, pair, number - 1).is_decided
            if number <= self.plan.most and not failed and not decided:
                self._number += 1
                return VersionBlock(number, pair, tuple(range(self.points)))
            self._at, self._number = self._at + 1, WARMUP
        return None

    def judge(self, measured: MeasuredBlocks, pair: tuple[str, str], reached: int) -> LookedAt:
        """Return by how much the second commit of a pair is above the first, over all points."""
        values = differences(measured, pair, self.points).common()
        clear = partial(is_clear, margin=math.log1p(CONFIRM_MARGIN))
        return decide_in_looks(values, self.plan, ALPHA, clear, reached=reached)

    def end_early(self, measured: MeasuredBlocks, /) -> None:
        """Nothing is decided here."""


@dataclass(frozen=True)
class ConfirmingRun:
    """What measuring changes of a history again came to."""

    result: PairedResult | None
    """None where there was no change to measure."""
    changes: Mapping[int, LookedAt]
    """By the place of the commit among the rows of the history."""


def run_confirmations(
    repository: Repository,
    name: str,
    history: HistoryRun,
    places: Sequence[int],
    options: PairedOptions,
) -> ConfirmingRun:
    """Run the commits at *places* of *history* beside the ones measured before them.

    What was measured for it before is not run again.
    """
    rows = history.rows
    before = {at: max(i for i in range(at) if rows[i].ratio is not None) for at in places if at > 0}
    if not before:
        return ConfirmingRun(None, {})
    present = present_version(repository, name, options.overrides)
    pairs: dict[int, tuple[str, str]] = {}
    commits: dict[str, str] = {}
    for at, earlier in before.items():
        label = rows[at].commit.oid[:LABEL_DIGITS]
        pairs[at] = (label + BEFORE, label)
        commits |= {label + BEFORE: rows[earlier].commit.oid, label: rows[at].commit.oid}
    versions = CommitVersions(present, commits)
    base = versions(pairs[max(pairs)][1])
    plan = BlockPlan()
    study = PairedStudy(
        f"{present.application.name}-confirm",
        (base,),
        history.result.study.metric,
        options.limit,
        program={"files": _files(present)},
        accumulates=True,
        notes={"verb": "history", "blocks": [plan.least, plan.most]},
        command=options.command,
        labels=tuple(commits),
        version_of=versions,
    )
    design = ConfirmingBlocks(tuple(pairs.values()), len(study.points), plan)
    result = options.run(study, repository, design, plan.most)
    return ConfirmingRun(
        result, {at: design.judge(result.measured, pair, plan.most) for at, pair in pairs.items()}
    )


def _row(measured: MeasuredBlocks, commit: Commit, points: int) -> HistoryRow:
    label = commit.oid[:LABEL_DIGITS]
    values: list[float] = []
    ratios: dict[int, list[float]] = {}
    for point in range(points):
        times, beside = measured.of(label, point), measured.of(label + REFERENCE, point)
        values += times.values()
        for block in times.keys() & beside.keys():
            if times[block] > 0 and beside[block] > 0:
                ratios.setdefault(block, []).append(math.log(times[block] / beside[block]))
    complete = [math.fsum(logs) / points for logs in ratios.values() if len(logs) == points]
    middle = median(complete)
    failures = sum(measured.failures.get((label, point), 0) for point in range(points))
    return HistoryRow(
        commit,
        median(values),
        None if middle is None else math.exp(middle),
        len(complete),
        failures,
    )


def _files(present: Version) -> str:
    """Return which files a study of commits is of."""
    root = present.application.root.absolute()
    return ", ".join(str(path.absolute().relative_to(root)) for path in present.application.paths)
