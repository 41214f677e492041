"""Run the versions of a comparison or a gate: which versions, where, and how often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zenturio.annotate.model import MEASURED, Application
from zenturio.errors import InputError, NotFoundError
from zenturio.experiment.signed_ranks import LEAST_BLOCKS, MOST_BLOCKS, BlockPlan, fewest_blocks
from zenturio.record import Repository
from zenturio.study.driver.progress import RunPlan, RunProgress
from zenturio.study.paired.designs import ALPHA, GatedPoint, UntilCompared, UntilGated
from zenturio.study.paired.paired_source import BlockDesign, FixedBlocks
from zenturio.study.paired.paired_study import PairedResult, PairedStudy, distinct_labels
from zenturio.study.paired.versions import (
    Version,
    commit_version,
    kept_version,
    present_version,
)
from zenturio.study.pinned_versions import base_of
from zenturio.study.study_request import read_seconds

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
