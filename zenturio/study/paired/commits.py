"""Commits beside each other: the first one that differs, and a metric over a history."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

from zenturio.errors import InputError
from zenturio.experiment.aggregates import median
from zenturio.experiment.git import Commit, commits_between, find_commit
from zenturio.experiment.signed_ranks import BlockPlan, LookedAt, decide_in_looks, is_clear
from zenturio.record import Repository
from zenturio.study.paired.bisect import BLOCK_VERSIONS, MOST_RUNS, Bisection
from zenturio.study.paired.compared import PairedOptions
from zenturio.study.paired.designs import ALPHA, FAILURES, differences
from zenturio.study.paired.paired_source import WARMUP, MeasuredBlocks, VersionBlock
from zenturio.study.paired.paired_study import PairedResult, PairedStudy, plan_of
from zenturio.study.paired.versions import (
    LABEL_DIGITS,
    Version,
    commit_version,
    present_version,
)

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
    anchor = find_commit(folder, reference) if reference else str(noted) or newest[0].oid
    labels = {commit.oid[:LABEL_DIGITS]: commit.oid for commit in newest}
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


@dataclass
class ConfirmingBlocks:
    """Blocks of one pair of commits after the other, of each until it has a word."""

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
