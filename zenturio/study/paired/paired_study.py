"""A study of versions that run next to each other: opened, leased, run and resumed like any other.

Its experiments have a parameter more, which says of which version they are. It is measured in
rounds: each command begins a new one, and one that was interrupted goes on where it ended.
"""

from __future__ import annotations

import math
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp
from time import monotonic
from typing import Any, NamedTuple, Protocol

from zenturio.annotate.model import MEASURED, Application
from zenturio.annotate.scan import scan, write_source
from zenturio.errors import AnnotationError, InputError, NotFoundError, did_you_mean
from zenturio.experiment import Experiment, ExperimentGenerator, Outcome
from zenturio.experiment.experiment import RunPosition
from zenturio.experiment.identity import ask_versions
from zenturio.experiment.provenance import check_out, find_commit, top_folder
from zenturio.files import make_folder, refuse_link
from zenturio.record import BUDGET_SPENT, PAIRED, PAIRED_ROUND, Repository, StudyDefinition
from zenturio.record.open import FOLDER, project_folder
from zenturio.space import Parameter, Point, Space
from zenturio.space.domain import elements
from zenturio.study.driver.experiment_source import PointSelection, RunOrder, select_points
from zenturio.study.driver.progress import RunPlan, RunProgress, RunSummary, scalars
from zenturio.study.driver.study_driver import DriverSettings
from zenturio.study.driver.study_session import StudySession
from zenturio.study.local_run import run_session
from zenturio.study.recorded_definition import (
    DIGESTS,
    FORMER_PROGRAM,
    PROGRAM,
    changes_of,
    is_same_program,
)
from zenturio.study.study_request import PlaceOptions

# Blocks: experiments of versions that run next to each other, as often as needed
#
# A block runs the versions of each of its points one directly after the other, in an order that is
# drawn for each point and block; the points are shuffled, too. Measured with 50 points, 20 blocks
# and a true difference of 5%, a test sees more so than after a full shuffle of all runs: in 86% of
# points instead of 7% beside bursts of load, 98% instead of 21% where the machine changes its
# speed. Both orders keep the level.

ORDER = "pairs"
"""The kind of order that positions of these runs name."""
WARMUP = 0
"""The number of the block that is run first and not counted."""

MakeVersion = Callable[[str, int, int, RunPosition], Experiment]
"""Makes the experiment of a label, the number of a point, and a block."""


HOPELESS = 2
"""After so many blocks without any value no other begins."""


class VersionBlock(NamedTuple):
    """The versions and points that are run in a block, before they are shuffled."""

    number: int
    """From 1; 0 is that of a warm-up."""
    labels: tuple[str, ...]
    points: tuple[int, ...]


@dataclass
class MeasuredBlocks:
    """The values of a metric by label and point, and by block."""

    values: dict[tuple[str, int], dict[int, float]] = field(default_factory=dict)
    failures: dict[tuple[str, int], int] = field(default_factory=dict)
    """How many runs of a label at a point had no finite value."""
    reached: int = 0
    """The last block whose runs have all ended."""
    runs: int = 0
    """How many runs have ended, warm-ups included."""

    def add(self, label: str, point: int, block: int, value: float | None) -> None:
        """Add the *value* of a run; None where it failed."""
        self.runs += 1
        if block == WARMUP:
            return
        if value is None or not math.isfinite(value):
            self.failures[label, point] = self.failures.get((label, point), 0) + 1
        else:
            self.values.setdefault((label, point), {})[block] = value

    @property
    def is_hopeless(self) -> bool:
        """Whether two blocks had no value at all: others would have none either."""
        return self.reached >= HOPELESS and not self.values

    def of(self, label: str, point: int) -> Mapping[int, float]:
        """Return the values of a version at a point, by block."""
        return self.values.get((label, point), {})


class BlockDesign(Protocol):
    """Decides from what was measured which block is run next."""

    def next_block(self, measured: MeasuredBlocks) -> VersionBlock | None:
        """Return the next block; None where what was measured suffices."""
        ...

    def end_early(self, measured: MeasuredBlocks, /) -> None:
        """Take what was measured for all there will be: the time is over."""
        ...


class PairedSource:
    """The blocks that a design asks for; each is made when the one before has ended."""

    expecting = False
    ahead = 0  # whether there is another block depends on the one before

    def __init__(
        self,
        design: BlockDesign,
        make: MakeVersion,
        read: Callable[[Experiment, Outcome], float | None],
        *,
        seed: str,
        planned: int,
        seconds: float | None = None,
        settle: bool = False,
    ) -> None:
        """*read* returns the value of a run; *planned* is the most runs.

        After *seconds* no further block begins. With *settle* each run that counts has one of the
        same version before it that does not.
        """
        self.measured = MeasuredBlocks()
        self._design = design
        self._make = make
        self._read = read
        self._seed = seed
        self._planned = planned
        self._created = 0
        self._block: VersionBlock | None = None
        self._ready: deque[Experiment] = deque()
        self._pending: dict[str, tuple[str, int, int]] = {}
        self._is_decided = False
        self._settle = settle
        self._seconds = math.inf if seconds is None else seconds
        self._end: float | None = None
        self.is_spent = False
        """Whether the time was over before the design had what it needs."""

    def __iter__(self) -> Iterator[Experiment]:
        if self._end is None:
            self._end = monotonic() + self._seconds
        while self._ready or self._begin_block():
            yield self._ready.popleft()

    @property
    def over(self) -> bool:
        return self._is_decided

    @property
    def total(self) -> int:
        return self._created if self._is_decided else max(self._planned, self._created)

    def complete(self, experiment: Experiment, outcome: Outcome) -> None:
        run = self._pending.pop(experiment.digest, None)
        if run is None:
            return
        self.measured.add(*run, self._read(experiment, outcome))
        if self._block is not None and not self._pending and not self._ready:
            self.measured.reached = self._block.number
            self._block = None

    def _begin_block(self) -> bool:
        """Return whether there is another block now; its experiments are ready then."""
        if self._is_decided or self._block is not None:
            return False
        block = self._design.next_block(self.measured)
        if self.measured.is_hopeless:
            self._design.end_early(self.measured)
            block = None
        is_late = self._end is not None and monotonic() >= self._end
        if block is not None and is_late and self.measured.reached > WARMUP:  # one there must be
            self._design.end_early(self.measured)
            self.is_spent, block = True, None
        if block is None:
            self._is_decided = True
            return False
        self._block = block
        is_settled = self._settle and block.number != WARMUP
        runs = (
            (label, point, repeat)
            for label, point in self._shuffled(block)
            # Runs below 1 count nowhere: each block has one of its own.
            for repeat in ((-block.number, block.number) if is_settled else (block.number,))
        )
        for turn, (label, point, repeat) in enumerate(runs, 1):
            position = RunPosition(ORDER, block.number, turn)
            experiment = self._make(label, point, repeat, position)
            self._pending[experiment.digest] = (label, point, max(repeat, WARMUP))
            self._ready.append(experiment)
        self._created += len(self._ready)
        return True

    def _shuffled(self, block: VersionBlock) -> Iterator[tuple[str, int]]:
        for point in sorted(block.points, key=lambda p: self._draw(block.number, p, "")):
            yield from (
                (label, point)
                for label in sorted(
                    block.labels, key=lambda name: self._draw(block.number, point, name)
                )
            )

    def _draw(self, block: int, point: int, label: str) -> bytes:
        """Return what is drawn by the seed: the same where an interrupted run is resumed."""
        text = f"{self._seed}/{block}/{point}/{label}"
        return blake2b(text.encode(), digest_size=8).digest()


@dataclass(frozen=True)
class FixedBlocks:
    """A number of blocks of the same versions, decided beforehand."""

    labels: Sequence[str]
    points: int
    blocks: int
    warmup: bool = True

    def next_block(self, measured: MeasuredBlocks) -> VersionBlock | None:
        """Return the next of the blocks."""
        number = following(measured, warmup=self.warmup)
        if number > self.blocks:
            return None
        return VersionBlock(number, tuple(self.labels), tuple(range(self.points)))

    def end_early(self, measured: MeasuredBlocks, /) -> None:
        """Nothing is decided here."""


def following(measured: MeasuredBlocks, *, warmup: bool) -> int:
    """Return the number of the block behind those that were measured."""
    if not measured.runs:
        return WARMUP if warmup else 1
    return measured.reached + 1


# Versions: the present files, one that the repository kept, a commit of Git
#
# Each becomes an application of its own; their studies have one more parameter, which says of each
# experiment of which version it is.

COMMITS = "commits"
"""The folder below .zenturio that holds the files of commits."""
VERSIONS = "versions"
"""The folder below .zenturio that holds the files of versions that the repository kept."""
LABEL_DIGITS = 10
"""Of the name of a commit, as a label."""


@dataclass(frozen=True)
class Version:
    """A version of a program, and what it is called in tables."""

    label: str
    application: Application


def present_version(repository: Repository, target: str, overrides: Sequence[str] = ()) -> Version:
    """Return the present files of *target*: a study that was run, else an annotated file or folder.

    The label is the study's name. *overrides* give parameters other sets, as in ``zen run -P``.
    """
    try:
        notes = repository.definition(target).notes
    except NotFoundError:
        if not Path(target).exists():
            raise InputError(
                f"{target!r} is neither a study nor a file",
                hint="see zen list, or name the annotated file or folder",
            ) from None
        application = scan([Path(target)], overrides=overrides)
        return Version(application.name, _checked(application))
    paths = [Path(path) for path in notes.get("paths", ())]
    if not paths:
        raise InputError(
            f"study {target} has no annotated files", hint="name a file, or a study of files"
        )
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise InputError(f"study {target} was run from {missing[0]}, which is gone")
    application = scan(paths, overrides=overrides or notes.get("overrides", ()))
    return Version(target, _checked(application))


def commit_version(present: Version, name: str) -> Version:
    """Return the files of *present* as they are in the commit *name*, in a folder of their own."""
    application = present.application
    folder = application.root.absolute()
    commit = find_commit(folder, name)
    files = check_out(folder, commit, make_folder(project_folder(), FOLDER, COMMITS))
    top = top_folder(folder)
    paths = [files / path.resolve().relative_to(top) for path in application.paths]
    for path in paths:
        if not path.exists():
            raise InputError(f"commit {name} has no {path.relative_to(files)}")
    label = commit[:LABEL_DIGITS]
    return Version(label, _moved(application, f"commit {label}", files, paths))


def kept_version(repository: Repository, name: str, present: Version) -> Version:
    """Return the program of the study *name*, such as matmul@1.

    The repository kept its annotated files; all others must be as they were.
    """
    definition = repository.definition(name)
    store = make_folder(project_folder(), FOLDER, VERSIONS)
    folder = _written(definition, present.application, store)
    root = present.application.root.absolute()
    paths = [folder / path.relative_to(root) for path in present.application.paths]
    overrides = definition.notes.get("overrides", ())
    application = _moved(present.application, name, folder, paths, overrides)
    recorded = definition.notes.get(PROGRAM, {})
    generator = ExperimentGenerator(application)
    notes = {
        PROGRAM: generator.program,
        FORMER_PROGRAM: generator.former_program,
        DIGESTS: definition.notes.get(DIGESTS),
    }
    if not is_same_program(definition.notes, notes):
        changes = ", ".join(changes_of(recorded, generator.program)) or "its digests differ"
        commit = (definition.provenance.get("git") or {}).get("commit") or "COMMIT"
        raise InputError(
            f"{name} cannot be run again: {changes}, and the repository keeps annotated files only",
            hint=f"take it from Git: --commit {commit[:LABEL_DIGITS]}",
        )
    return Version(name, application)


def label_parameter(versions: Iterable[Version]) -> str:
    """Return a name for the parameter that holds labels, which no version uses."""
    names = {*MEASURED}
    for version in versions:
        names |= {parameter.name for parameter in version.application.space.parameters}
        names |= {metric.name for metric in version.application.metrics}
    return next(name for name in ("version", "compared_version", "version_") if name not in names)


def labelled(application: Application, parameter: str, labels: Sequence[str]) -> Application:
    """Return *application* with a parameter that holds one of *labels*, and that nothing uses.

    So experiments of equal files have digests of their own for each label.
    """
    space = application.space
    label = Parameter(parameter, elements(list(labels), "str"))
    return replace(application, space=Space((*space.parameters, label), space.constraints))


def _checked(application: Application) -> Application:
    if application.after:
        raise InputError(
            f"{application.name} has stages (AFTER): versions of stages cannot be compared",
            hint="compare the versions of one stage by a file of its own",
        )
    if not application.runs:
        raise InputError(
            f"{application.name} has no RUN directive", hint='write ZEN$ RUN "./program"'
        )
    return application


def _moved(
    present: Application,
    version: str,
    folder: Path,
    paths: Sequence[Path],
    overrides: Sequence[str] | None = None,
) -> Application:
    """Return the application of *paths* in the *folder* of a *version*, with the *present* name."""
    try:
        application = scan(paths, overrides=present.overrides if overrides is None else overrides)
    except AnnotationError as error:
        # Its files cannot be edited: hints do not apply, and its folder says nothing.
        words = "; ".join(str(replace(d, hint="")) for d in error.diagnostics)
        words = words.replace(f"{folder}/", "")
        raise InputError(f"{version} cannot be run: {words}") from error
    return _checked(replace(application, name=present.name))


def _written(definition: StudyDefinition, present: Application, store: Path) -> Path:
    """Return a folder with the files that *definition* kept, and else the *present* ones."""
    digest = blake2b(digest_size=10)
    for path, content in sorted(definition.sources.items()):
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    copied = [file for file in present.copied if file.path not in definition.sources]
    for file in copied:
        digest.update(f"{file.path}\0".encode() + file.digest)
    target = store / digest.hexdigest()
    refuse_link(target)
    if target.is_dir():
        return target
    temporary = Path(mkdtemp(prefix="writing-", dir=store))
    try:
        for path, content in definition.sources.items():
            write_source(temporary, path, content)
        for file in copied:
            shutil.copy2(file.location, _inside(temporary, file.path))
        modes = {file.path: file.source.mode for file in present.files}
        for written in definition.sources:
            (temporary / written).chmod(modes.get(written, 0o644) & 0o777)
        for link, text in present.links:
            _inside(temporary, link).symlink_to(text)
        for name in present.folders:
            make_folder(temporary, *PurePosixPath(name).parts)
        temporary.chmod(0o755)
        try:
            temporary.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster, with the same files
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def _inside(folder: Path, path: str) -> Path:
    """Return *path* below *folder*, in a folder that exists."""
    *parents, name = PurePosixPath(path).parts
    return make_folder(folder, *parents) / name


# The study

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
        """Return whether the version *label* has the points and the metric of the study."""
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
        """Return whether what was measured is complete, so that another round begins."""
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
    note = repository.notes(study).get(PAIRED)
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
