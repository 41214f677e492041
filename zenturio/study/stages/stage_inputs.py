"""What an experiment gets of those of earlier stages: their files, and their share of its name."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from zenturio.errors import PlaceError
from zenturio.experiment import Artifact, Experiment, ExperimentFile
from zenturio.experiment.identity import content_digest, framed_digest
from zenturio.expression.scalar_functions import text_of
from zenturio.record import Repository
from zenturio.study.stages.stage_graph import ExperimentGroup, FinishedExperiment, StageGraph

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


class InputReader:
    """Reads what the experiments of earlier stages left, for each node once."""

    def __init__(self, graph: StageGraph, repository: Repository) -> None:
        self._graph = graph
        self._repository = repository
        self._inputs: dict[ExperimentGroup, StageInputs] = {}

    def attach(self, experiment: Experiment, node: ExperimentGroup) -> Experiment:
        """Return *experiment* with its inputs, which are part of its identity."""
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

    def _gathered(self, node: ExperimentGroup) -> StageInputs:
        files: list[ExperimentFile] = []
        digests: list[str] = []
        former: list[str] = []
        for link, finished, single in self._graph.inputs(node):
            name = self._graph.stages[link.stage].name
            until = self._graph.stages[link.stage].application.repeat.until
            # How many repeats there are beyond the least is an outcome, like the bytes of files.
            sure = [d for d in finished if until is None or d.repeat <= until.least]
            names = [until.text] if until is not None else []
            digests += [name, *names, *(done.digest for done in sure)]
            former += [name, *names, *(done.former for done in sure)]
            for number, done in enumerate(finished, 1):
                folder = name if single else f"{name}/{number}"
                artifacts = self._repository.artifacts(done.digest, done.attempt)
                files += [_filed(artifact, folder) for artifact in artifacts]
            files.append(_table(name, finished, single=single))
        if not digests:
            return StageInputs()
        whole, before = (framed_digest(map(str.encode, texts)) for texts in (digests, former))
        return StageInputs(tuple(files), whole, before)

    def forget(self, node: ExperimentGroup) -> None:
        """Free what was read for *node*."""
        self._inputs.pop(node, None)


def _after(digest: str, inputs: str) -> str:
    """Return the digest of an experiment that gets the files of others."""
    return framed_digest(text.encode() for text in ("after", digest, inputs))


def _filed(artifact: Artifact, folder: str) -> ExperimentFile:
    """Return a file that an earlier experiment left, as one of a later experiment's own."""
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
        f"{path}: this file of an earlier stage has changed: {why}",
        hint="delete the study of that stage, and run it again",
    )


def _table(name: str, finished: Sequence[FinishedExperiment], *, single: bool) -> ExperimentFile:
    """Return which folder holds what of which experiment: a file NAME.csv."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = list(finished[0].values) if finished else []
    writer.writerow(["folder", "repeat", *names])
    for number, done in enumerate(finished, 1):
        folder = name if single else f"{name}/{number}"
        writer.writerow([folder, done.repeat, *(text_of(done.values[n]) for n in names)])
    content = text.getvalue().encode("utf-8", "surrogateescape")
    return ExperimentFile(f"{name}.csv", READABLE, content, digest=content_digest(content).hex())
