"""The experiments of a stage: each as soon as its own inputs are there, and with them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from pathlib import Path

from zenturio.errors import PlaceError
from zenturio.experiment import Artifact, Experiment, ExperimentFile, ExperimentGenerator, Outcome
from zenturio.experiment.identity import content_digest, framed_digest
from zenturio.expression.scalar_functions import text_of
from zenturio.record import Repository
from zenturio.study.stages.stage_graph import (
    FinishedExperiment,
    NumberedPoint,
    StageGraph,
    StageNode,
)

LARGE = 2**20
"""Files beyond so many bytes are named by where they are kept, not carried along."""
READABLE = 0o644


@dataclass(frozen=True)
class StageInputs:
    """What an experiment gets of those that it waited for."""

    files: tuple[ExperimentFile, ...] = ()
    digest: str = ""
    """Of which experiments they are; empty where nothing was waited for."""
    former: str = ""
    """The same of their former digests."""


@dataclass
class StageSource:
    """The source of a stage: in the order of pM-S among what is ready."""

    course: StageGraph
    stage: int
    generator: ExperimentGenerator
    repository: Repository
    total: int
    ahead: int = 0  # what was asked for too early does not know what is urgent by now
    _ready: list[tuple[int, int, int, StageNode]] = field(default_factory=list)
    """A heap by rank, then by number; a node whose rank fell meanwhile is in it once more."""
    _pushed: int = 0
    _points: dict[StageNode, list[NumberedPoint]] = field(default_factory=dict)
    """Of each ready node those that were not handed out, the last one first."""
    _inputs: dict[StageNode, StageInputs] = field(default_factory=dict)
    _made: list[Experiment] = field(default_factory=list)

    def __iter__(self) -> Iterator[Experiment]:
        while self._made or self._next():
            yield self._made.pop()

    @property
    def over(self) -> bool:
        return not (self._made or self._points or self.course.pending(self.stage))

    @property
    def expecting(self) -> bool:
        return not self.over

    def land(self, experiment: Experiment, outcome: Outcome) -> None:
        self.course.land(self.stage, experiment, outcome)

    def _next(self) -> bool:
        """Makes the experiments of the most urgent point, if there is one."""
        for node, points in self.course.fresh(self.stage):
            self._points[node] = points[::-1]
            self._push(node)
        for node in self.course.raised(self.stage):
            if node in self._points:
                self._push(node)
        while self._ready:
            rank, number, _, node = heappop(self._ready)
            points = self._points.get(node, [])
            if not points:
                continue
            if (rank, number) != self._place(node):  # of before
                self._push(node)
                continue
            _, point = points.pop()
            if points:
                self._push(node)
            experiments = self.generator.experiments(point, number)
            self._made = [
                self._with_inputs(experiment, node) for experiment in reversed(experiments)
            ]
            if not points:
                del self._points[node]
                self._inputs.pop(node, None)
            return True
        return False

    def _push(self, node: StageNode) -> None:
        self._pushed += 1
        heappush(self._ready, (*self._place(node), self._pushed, node))

    def _place(self, node: StageNode) -> tuple[int, int]:
        """Where the next point of a node stands in the order: its rank, and its number."""
        number, _ = self._points[node][-1]
        return self.course.rank(node), number

    def _with_inputs(self, experiment: Experiment, node: StageNode) -> Experiment:
        """An experiment is another one if what it gets comes from another one."""
        if node not in self._inputs:
            self._inputs[node] = self._gathered(node)
        inputs = self._inputs[node]
        if not inputs.digest:
            return experiment
        former = experiment.former and _after(experiment.former, inputs.former)
        return replace(
            experiment,
            digest=_after(experiment.digest, inputs.digest),
            files=(*experiment.files, *inputs.files),
            program=None,  # it and the point are not all that names the experiment
            key=b"",
            former=former,
        )

    def _gathered(self, node: StageNode) -> StageInputs:
        files: list[ExperimentFile] = []
        digests: list[str] = []
        former: list[str] = []
        for link, finished, single in self.course.inputs(node):
            name = self.course.stages[link.stage].name
            digests += [name, *(done.digest for done in finished)]
            former += [name, *(done.former for done in finished)]
            for number, done in enumerate(finished, 1):
                folder = name if single else f"{name}/{number}"
                artifacts = self.repository.artifacts(done.digest, done.attempt)
                files += [_filed(artifact, folder) for artifact in artifacts]
            files.append(_table(name, finished, single=single))
        if not digests:
            return StageInputs()
        whole, before = (framed_digest(map(str.encode, texts)) for texts in (digests, former))
        return StageInputs(tuple(files), whole, before)


def _after(digest: str, inputs: str) -> str:
    """The digest of an experiment that gets the files of others."""
    return framed_digest(text.encode() for text in ("after", digest, inputs))


def _filed(artifact: Artifact, folder: str) -> ExperimentFile:
    """A file that an earlier experiment left, as one of a later experiment's own."""
    path = f"{folder}/{artifact.path}"
    try:
        content = artifact.kept.read_bytes()
    except OSError as error:
        raise _gone(artifact.kept, error.strerror or str(error)) from error
    if len(content) != artifact.size:
        raise _gone(artifact.kept, f"it has {len(content)} B, and had {artifact.size} B")
    mode, digest = artifact.mode | 0o200, content_digest(content).hex()
    if len(content) <= LARGE:
        return ExperimentFile(path, mode, content, digest=digest)
    return ExperimentFile(path, mode, None, artifact.kept.absolute(), digest)


def _gone(path: Path, why: str) -> PlaceError:
    return PlaceError(
        f"{path}: what an earlier stage left is not as it was: {why}",
        hint="delete the study of that stage, and run it again",
    )


def _table(name: str, finished: Sequence[FinishedExperiment], *, single: bool) -> ExperimentFile:
    """Which folder holds what of which experiment: a file NAME.csv."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = list(finished[0].values) if finished else []
    writer.writerow(["folder", "repeat", *names])
    for number, done in enumerate(finished, 1):
        folder = name if single else f"{name}/{number}"
        writer.writerow([folder, done.repeat, *(text_of(done.values[n]) for n in names)])
    content = text.getvalue().encode("utf-8", "surrogateescape")
    return ExperimentFile(f"{name}.csv", READABLE, content, digest=content_digest(content).hex())
