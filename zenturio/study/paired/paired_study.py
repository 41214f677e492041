"""A study of versions that run next to each other: opened, leased, run and resumed like any other.

Its experiments have a parameter more, which says of which version they are. It is measured in
rounds: each command begins a new one, and one that was interrupted goes on where it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from zenturio.annotate.model import MEASURED, Application
from zenturio.errors import InputError, NotFoundError, did_you_mean
from zenturio.experiment import Experiment, ExperimentGenerator, Outcome
from zenturio.experiment.experiment import RunPosition
from zenturio.experiment.used_inputs import ask_versions
from zenturio.record import BUDGET_SPENT, PAIRED, PAIRED_ROUND, Repository
from zenturio.space import Point, Space
from zenturio.study.driver.progress import RunPlan, RunProgress, RunSummary, scalars
from zenturio.study.driver.run_order import RunOrder
from zenturio.study.driver.study_driver import DriverSettings
from zenturio.study.driver.study_session import StudySession
from zenturio.study.local_run import run_session
from zenturio.study.paired.paired_source import BlockDesign, MeasuredBlocks, PairedSource
from zenturio.study.paired.versions import Version, label_parameter, labelled
from zenturio.study.place_options import PlaceOptions
from zenturio.study.point_selection import PointSelection, select_points
from zenturio.study.study_definition import recorded_notes

MOST_POINTS = 1000
"""More points are run only if their number is said: --limit."""


@dataclass(frozen=True)
class PairedStudy:
    """Versions that are to be measured beside each other, at the points that all of them have."""

    name: str
    versions: tuple[Version, ...]
    metric: str
    limit: int | None = None
    program: Mapping[str, str] | None = None
    """What tells the studies of other programs apart; the programs of all versions by default."""
    accumulates: bool = False
    """Whether results of earlier commands count: there is one round then."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    """The words behind ``zen`` that run it, where a command line does."""
    labels: tuple[str, ...] = ()
    """All that may be run, where *version_of* makes them; those of *versions* by default."""
    version_of: Callable[[str], Version] | None = None
    abreast: int | None = None
    """How many versions a block has at the most; all by default."""

    @cached_property
    def parameter(self) -> str:
        """The parameter that holds labels."""
        return label_parameter(self.versions)

    @property
    def base(self) -> Application:
        """The application of the last version, which says what a point is."""
        return self.versions[-1].application

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """The points that all versions have, in the order of the last one."""
        space = self.base.space
        selection = select_points(space, limit=self.limit)
        if self.limit is None and selection.count > MOST_POINTS:
            raise InputError(
                f"{selection.count:,} points are too many to measure repeatedly",
                hint="take fewer values (-P 'n={1024}'), or the first points: --limit 10",
            )
        spaces = [version.application.space for version in self.versions]
        names = {frozenset(p.name for p in candidate.dimensions) for candidate in spaces}
        if len(names) > 1:
            differing = sorted(frozenset.union(*names) - frozenset.intersection(*names))
            raise InputError(
                f"the versions have other parameters: {', '.join(differing)} is not in all of them"
            )
        points = tuple(p for p in selection if all(p in candidate for candidate in spaces))
        if not points:
            raise InputError("the versions have no point in common")
        return points

    def check_metric(self) -> None:
        """InputError where a version does not measure the metric."""
        for version in self.versions:
            names = [*MEASURED, *(metric.name for metric in version.application.metrics)]
            if self.metric not in names:
                raise InputError(
                    f"{version.label} has no metric {self.metric!r}",
                    hint=did_you_mean(self.metric, names),
                )

    @property
    def unit(self) -> str:
        """The unit of the metric."""
        declared = {metric.name: metric.unit for metric in self.base.metrics}
        return declared.get(self.metric) or MEASURED.get(self.metric, "")

    def run(
        self,
        repository: Repository,
        design: BlockDesign,
        blocks: int,
        *,
        seconds: float | None = None,
        settle: bool = False,
        planned: Callable[[RunPlan], None] = lambda _plan: None,
        listener: Callable[[RunProgress], None] = lambda _progress: None,
        place: PlaceOptions | None = None,
    ) -> PairedResult:
        """Run the blocks that *design* asks for, *blocks* at the most, and return their values.

        After *seconds* no further block begins. With *settle* each run that counts has one of its
        version before it that does not, so that none follows another version's. One experiment runs
        at a time, so that nothing of the study disturbs its neighbours.
        """
        self.check_metric()
        sources: list[PairedSource] = []
        labels = self.labels or names_of(self.versions)
        makers: dict[str, tuple[Space, ExperimentGenerator]] = {}
        # Runs of a block; that of a warm-up is small beside all of them.
        width = (self.abreast or len(labels)) * len(self.points) * (1 + settle)

        def maker(label: str) -> tuple[Space, ExperimentGenerator]:
            if label not in makers:
                application = ask_versions(self._version(label).application)
                application = labelled(application, self.parameter, [label])
                makers[label] = application.space, ExperimentGenerator(application)
            return makers[label]

        def make(label: str, point: int, block: int, position: RunPosition) -> Experiment:
            space, generator = maker(label)
            at = space.find({**self.points[point], self.parameter: label})
            return generator.experiment(at, block, position, index=-1)

        def source(_generator: ExperimentGenerator, order: RunOrder) -> PairedSource:
            blocks_source = PairedSource(
                design, make, self._read, seed=order.seed, planned=width * blocks, seconds=seconds,
                settle=settle,
            )  # fmt: skip
            sources.append(blocks_source)
            return blocks_source

        program = self.program or {
            f"{label}: {part}": digest
            for label in labels
            for part, digest in maker(label)[1].program.items()
        }
        application = labelled(self.base, self.parameter, labels)
        # Blocks decide how often: UNTIL and WARMUP of the file do not.
        repeat = replace(application.repeat, count=blocks, until=None, warmup=0)
        application = replace(application, repeat=repeat)
        session = StudySession(
            application,
            PointSelection(application.space, width, picked=()),
            repository,
            self.name,
            settings=DriverSettings(retry=0, again=self._begins_round(repository)),
            source=source,
            program=program,
            more_notes={PAIRED: {"labels": labels, "parameter": self.parameter,
                               "metric": self.metric, "points": len(self.points),
                               "command": list(self.command), **self.notes}},
        )  # fmt: skip
        place = place or PlaceOptions(jobs=1)
        summary = run_session(session, replace(place, jobs=1), planned, listener)
        (used,) = sources
        if used.over and not summary.interrupted:
            number = repository.rounds(self.name)[-1].number
            spent = BUDGET_SPENT if used.is_spent else ""
            text = f"round {number}: {used.measured.reached} blocks{spent}"
            repository.add_event(self.name, PAIRED_ROUND, text)
        return PairedResult(
            self, used.measured, summary, is_complete=used.over, is_spent=used.is_spent
        )

    def can_run(self, label: str) -> bool:
        """Whether the version *label* has the points and the metric of the study."""
        try:
            version = self._version(label)
        except InputError:
            return False
        space = version.application.space
        names = [*MEASURED, *(metric.name for metric in version.application.metrics)]
        return self.metric in names and all(point in space for point in self.points)

    def _version(self, label: str) -> Version:
        if self.version_of is not None:
            return self.version_of(label)
        return next(version for version in self.versions if version.label == label)

    def _begins_round(self, repository: Repository) -> bool:
        """Whether what was measured is complete, so that another round begins."""
        if self.accumulates:
            return False
        try:
            newest = repository.rounds(self.name)[-1].number
            events = repository.events(self.name)
        except NotFoundError:
            return False
        if newest > 1:  # an open round goes on
            return True
        return any(event.kind == PAIRED_ROUND for event in events)

    def _read(self, _experiment: Experiment, outcome: Outcome) -> float | None:
        if outcome.status != "ok":
            return None
        value = scalars(outcome.metrics).get(self.metric)
        return float(value) if isinstance(value, int | float) else None


@dataclass(frozen=True)
class PairedResult:
    """What was measured of versions beside each other."""

    study: PairedStudy
    measured: MeasuredBlocks
    summary: RunSummary
    is_complete: bool
    """Whether the design has what it needs; not so where the run was interrupted."""
    is_spent: bool = False
    """Whether time ended it."""


def plan_of(repository: Repository, study: str) -> Mapping[str, Any] | None:
    """Return the note of a study of versions; None of another study."""
    note = recorded_notes(repository, study).get(PAIRED)
    return note if isinstance(note, dict) else None


def distinct_labels(versions: Iterable[Version]) -> tuple[Version, ...]:
    """Return *versions* with labels that differ."""
    labels: dict[str, int] = {}
    distinct: list[Version] = []
    for version in versions:
        count = labels[version.label] = labels.get(version.label, 0) + 1
        label = version.label if count == 1 else f"{version.label} again"
        distinct.append(replace(version, label=label))
    return tuple(distinct)


def names_of(versions: Sequence[Version]) -> tuple[str, ...]:
    """Return the labels of *versions*."""
    return tuple(version.label for version in versions)
