"""Run the versions of a comparison or a gate: which versions, where, and how often."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple

from zenturio.annotate.model import MEASURED, Application
from zenturio.errors import InputError, NotFoundError
from zenturio.experiment.aggregates import median
from zenturio.experiment.signed_ranks import (
    LEAST_BLOCKS,
    MOST_BLOCKS,
    BlockPlan,
    Estimate,
    Interval,
    LookedAt,
    decide_in_looks,
    fewest_blocks,
    is_clear,
)
from zenturio.record import Repository
from zenturio.study.driver.progress import RunPlan, RunProgress
from zenturio.study.paired.paired_study import (
    BlockDesign,
    FixedBlocks,
    MeasuredBlocks,
    PairedResult,
    PairedStudy,
    Version,
    VersionBlock,
    commit_version,
    distinct_labels,
    following,
    kept_version,
    present_version,
)
from zenturio.study.recorded_definition import base_of
from zenturio.study.study_request import read_seconds

# Sufficiency: when two versions were measured often enough, for a comparison and for a gate

ALPHA = 0.05
"""At most so many comparisons of equal programs have a wrong word."""


EPSILON = 1e-9
"""Values that do not vary may lie exactly at the bound: then rounding must not decide."""
FAILURES = 3
"""A version that failed more often at a point is not measured further."""


class Differences(NamedTuple):
    """The differences of two versions: by point, and by block; logarithms of ratios if possible."""

    points: Sequence[Mapping[int, float]]
    is_ratio: bool

    def common(self) -> dict[int, float]:
        """Return the mean over the points of each block that has all of them."""
        blocks = set(self.points[0]).intersection(*self.points[1:])
        return {
            block: math.fsum(point[block] for point in self.points) / len(self.points)
            for block in sorted(blocks)
        }


def differences(measured: MeasuredBlocks, labels: tuple[str, str], points: int) -> Differences:
    """Return by how much the second of *labels* is above the first."""
    sides = [[measured.of(label, point) for point in range(points)] for label in labels]
    is_ratio = all(value > 0 for side in sides for point in side for value in point.values())
    scale = math.log if is_ratio else float
    by_point = [
        {block: scale(second[block]) - scale(value) for block, value in first.items()
         if block in second}
        for first, second in zip(*sides, strict=True)
    ]  # fmt: skip
    return Differences(by_point, is_ratio)


@dataclass
class UntilCompared:
    """Blocks of two versions until each point, and all together, have a word."""

    labels: tuple[str, str]
    points: int
    plan: BlockPlan
    margin: float
    """Of ratios: such as 0.02, within which they are the same."""
    warmup: bool = True
    _open: tuple[int, ...] = field(default=(), init=False)

    def next_block(self, measured: MeasuredBlocks) -> VersionBlock | None:
        """Return the next block; points that are decided leave once all together are."""
        number = following(measured, warmup=self.warmup)
        if number > self.plan.most or max(measured.failures.values(), default=0) > FAILURES:
            return None
        everywhere = tuple(range(self.points))
        if number - 1 in self.plan.sizes:
            self._open = self._undecided(measured)
            if not self._open:
                return None
        return VersionBlock(number, self.labels, self._open or everywhere)

    def end_early(self, measured: MeasuredBlocks, /) -> None:
        """The last test is made when the results are read: see `query.compare_studies`."""

    def _undecided(self, measured: MeasuredBlocks) -> tuple[int, ...]:
        by_point, is_ratio = pairs = differences(measured, self.labels, self.points)
        clear = partial(is_clear, margin=math.log1p(self.margin) if is_ratio else 0.0)
        decide = partial(decide_in_looks, plan=self.plan, reached=measured.reached)
        if not decide(pairs.common(), alpha=ALPHA, is_decided=clear).is_decided:
            return tuple(range(self.points))
        level = ALPHA / self.points
        return tuple(
            point
            for point, values in enumerate(by_point)
            if not decide(values, alpha=level, is_decided=clear).is_decided
        )


GateState = Literal["worse", "no worse", "unclear"]


class GatedPoint(NamedTuple):
    """What a gate says of a point."""

    state: GateState
    looked_at: LookedAt
    """The look that decided, or the last one; its ends are at 5% each by themselves."""
    medians: tuple[float | None, float | None]
    failures: tuple[int, int]


@dataclass
class UntilGated:
    """Blocks of a baseline and a new version until it is worse at a point, or at none.

    It is worse where the lower end of an interval at 5% / points lies beyond the bound, and no
    worse where the upper end lies below it at every point, at 5% each: the intersection-union test
    (R. L. Berger: Multiparameter hypothesis testing and acceptance sampling, Technometrics 24
    (1982)). Differences are taken so that more is worse.
    """

    labels: tuple[str, str]
    points: int
    plan: BlockPlan
    worse: float
    """Relative change that counts as worse, such as 0.05."""
    more_is_better: bool = False
    warmup: bool = True
    is_ratio: bool = field(default=True, init=False)
    _open: tuple[int, ...] = field(default=(), init=False)

    def next_block(self, measured: MeasuredBlocks) -> VersionBlock | None:
        """Return the next block of those points that are not decided."""
        number = following(measured, warmup=self.warmup)
        if number > self.plan.most or max(measured.failures.values(), default=0) > FAILURES:
            return None
        if number - 1 in self.plan.sizes:
            states = [point.state for point in self.judge(measured)]
            self._open = tuple(p for p, state in enumerate(states) if state == "unclear")
            if "worse" in states or not self._open:
                return None
        return VersionBlock(number, self.labels, self._open or tuple(range(self.points)))

    def end_early(self, measured: MeasuredBlocks, /) -> None:
        """Look once more, with all that is left of the level."""
        self.plan = replace(self.plan, ended=measured.reached)

    def judge(self, measured: MeasuredBlocks) -> tuple[GatedPoint, ...]:
        """Return what is to be said of each point now."""
        by_point, self.is_ratio = differences(measured, self.labels, self.points)
        return tuple(self._point(measured, at, values) for at, values in enumerate(by_point))

    def _point(self, measured: MeasuredBlocks, at: int, values: Mapping[int, float]) -> GatedPoint:
        sign = -1.0 if self.more_is_better else 1.0
        shifted = {block: sign * value for block, value in values.items()}
        bound = self._bound()
        decide = partial(decide_in_looks, shifted, self.plan, reached=measured.reached, sides=1)
        worse = decide(alpha=ALPHA / self.points, is_decided=lambda i: i.low > bound + EPSILON)
        good = decide(alpha=ALPHA, is_decided=lambda i: i.high < bound - EPSILON)
        first, second = self.labels
        failures = (measured.failures.get((first, at), 0), measured.failures.get((second, at), 0))
        state: GateState = "unclear"
        if worse.is_decided:
            state = "worse"
        elif good.is_decided and failures[1] == 0:
            # Runs of the new version that failed might have been its slow ones.
            state = "no worse"
        looked_at = worse if worse.is_decided else good
        medians = (
            median([*measured.of(first, at).values()]),
            median([*measured.of(second, at).values()]),
        )
        return GatedPoint(state, _signed(looked_at, sign), medians, failures)

    def _bound(self) -> float:
        """Return the difference, taken so that more is worse, that is too much."""
        if not self.is_ratio:
            return self.worse
        return -math.log1p(-self.worse) if self.more_is_better else math.log1p(self.worse)


def _signed(looked_at: LookedAt, sign: float) -> LookedAt:
    """Return the same with its differences turned over where *sign* is negative."""
    value, interval = looked_at.estimate
    if sign > 0:
        return looked_at
    turned = interval and Interval(-interval.high, -interval.low)
    return looked_at._replace(estimate=Estimate(-value, turned))


# Comparisons and gates

DEFAULT_PLAN = BlockPlan()


@dataclass(frozen=True)
class PairedOptions:
    """How versions are run beside each other."""

    metric: str = ""
    """That of the objective, or wtime, by default."""
    overrides: tuple[str, ...] = ()
    limit: int | None = None
    plan: BlockPlan = DEFAULT_PLAN
    warmup: bool = True
    """Whether one block is run first that does not count."""
    seconds: float | None = None
    """After so long no further block begins."""
    settle: bool = False
    """Whether a run of the same version that does not count comes before each run that does."""
    command: tuple[str, ...] = ()
    """The words behind ``zen`` that resume it."""
    planned: Callable[[RunPlan], None] = lambda _plan: None
    listener: Callable[[RunProgress], None] = lambda _progress: None

    def run(
        self, study: PairedStudy, repository: Repository, design: BlockDesign, blocks: int
    ) -> PairedResult:
        """Run *study* with these options: see `PairedStudy.run`."""
        return study.run(
            repository, design, blocks, seconds=self.seconds, settle=self.settle,
            planned=self.planned, listener=self.listener,
        )  # fmt: skip

    def metric_of(self, application: Application) -> str:
        """Return the metric that is meant: that of the first objective if it is one."""
        names = [*MEASURED, *(metric.name for metric in application.metrics)]
        objectives = [goal.expression.text for goal in application.goals[:1]]
        return self.metric or next((text for text in objectives if text in names), "wtime")

    def check_blocks(self, points: int, alpha: float = ALPHA, *, sides: int = 2) -> None:
        """InputError where so few blocks could never have a verdict at so many points."""
        if not self.plan.looks(alpha / points, sides=sides):
            needed = fewest_blocks(alpha / points)
            raise InputError(
                f"--repeat {self.plan.least}:{self.plan.most}: {points} points need {needed} blocks"
                " for a verdict",
                hint=f"--repeat {LEAST_BLOCKS}:{max(MOST_BLOCKS, needed)}",
            )


def read_blocks(text: str) -> BlockPlan:
    """Return what ``--repeat 8:50`` or ``--repeat 20`` says."""
    least, colon, most = text.partition(":")
    try:
        numbers = int(least), int(most if colon else least)
    except ValueError:
        raise InputError(f"--repeat {text}", hint="write 8:50, or one number") from None
    if not 1 <= numbers[0] <= numbers[1]:
        raise InputError(f"--repeat {text}", hint="from at least 1 to at least as many: 8:50")
    return BlockPlan(*numbers)


def read_time(budget: str) -> float | None:
    """Return the seconds that ``--budget 10min`` gives a comparison; None if it is empty."""
    try:
        return read_seconds(budget)
    except InputError:
        raise InputError(f"--budget {budget}: write a time, such as 10min or 2h") from None


def named_version(repository: Repository, name: str, overrides: Sequence[str] = ()) -> Version:
    """Return the version that *name* says: NAME@NUMBER as it was kept, else the present files."""
    base = base_of(name)
    if base is None:
        return present_version(repository, name, overrides)
    return kept_version(repository, name, present_version(repository, base, overrides))


def baseline_version(repository: Repository, name: str, present: Version) -> Version:
    """Return the baseline *name*: NAME@NUMBER of the repository, else a commit of Git."""
    if base_of(name) is not None:
        try:
            repository.definition(name)
        except NotFoundError:
            pass
        else:
            return kept_version(repository, name, present)
    return commit_version(present, name)


def compared_versions(
    repository: Repository, names: Sequence[str], commits: Sequence[str], options: PairedOptions
) -> tuple[Version, Version]:
    """Return the two versions that studies and commits name, commits first."""
    if len(names) + len(commits) != 2 and not (len(names) == 1 and len(commits) == 2):
        raise InputError(
            "two versions are compared",
            hint="name two studies (matmul@1 matmul), or a study and --commit HEAD~3",
        )
    present = [named_version(repository, name, options.overrides) for name in names]
    versions = [commit_version(present[0], commit) for commit in commits]
    first, second = distinct_labels([*versions, *present][:2])
    return first, second


def gated_versions(
    repository: Repository, name: str, baseline: str, options: PairedOptions
) -> tuple[Version, Version]:
    """Return the *baseline* and the version *name* that is judged by it."""
    present = named_version(repository, name, options.overrides)
    first, second = distinct_labels([baseline_version(repository, baseline, present), present])
    return first, second


def run_comparison(
    repository: Repository,
    versions: tuple[Version, Version],
    options: PairedOptions,
    margin: float,
) -> PairedResult:
    """Run two versions in blocks until each point, and all together, have a word."""
    study = _study("compare", versions, options)
    options.check_blocks(len(study.points))
    labels = (versions[0].label, versions[1].label)
    design = UntilCompared(labels, len(study.points), options.plan, margin, options.warmup)
    return options.run(study, repository, design, options.plan.most)


@dataclass(frozen=True)
class GateRun:
    """What a gate measured, and what it says of each point."""

    result: PairedResult
    design: UntilGated
    points: tuple[GatedPoint, ...]


def run_gate(
    repository: Repository,
    versions: tuple[Version, Version],
    options: PairedOptions,
    worse: float,
) -> GateRun:
    """Run a baseline and a new version until it is worse by more than *worse*, or is not."""
    study = _study("gate", versions, options)
    options.check_blocks(len(study.points), sides=1)
    goals = [g for g in study.base.goals if g.expression.text == study.metric]
    design = UntilGated(
        (versions[0].label, versions[1].label),
        len(study.points),
        options.plan,
        worse,
        more_is_better=any(goal.direction == "maximize" for goal in goals),
        warmup=options.warmup,
    )
    result = options.run(study, repository, design, options.plan.most)
    return GateRun(result, design, design.judge(result.measured))


def _study(verb: str, versions: tuple[Version, Version], options: PairedOptions) -> PairedStudy:
    application = versions[1].application
    notes: dict[str, Any] = {"verb": verb, "blocks": [options.plan.least, options.plan.most]}
    return PairedStudy(
        f"{application.name}-{verb}",
        versions,
        options.metric_of(application),
        options.limit,
        notes=notes,
        command=options.command,
    )


NOISE_LABELS = ("first", "second")
"""The labels of the same files, run as if they were two versions."""


def run_noise(repository: Repository, name: str, options: PairedOptions) -> PairedResult:
    """Run the present files beside themselves, in as many blocks as the plan has at the most."""
    present = named_version(repository, name, options.overrides)
    first, second = (replace(present, label=label) for label in NOISE_LABELS)
    study = _study("noise", (first, second), options)
    design = FixedBlocks(NOISE_LABELS, len(study.points), options.plan.most, options.warmup)
    return options.run(study, repository, design, options.plan.most)
