"""Digests of results, computed again from what a repository recorded of their programs.

The annotated files stand in the definition, the others with their digests in the recipe, the values
in the row. So nothing of this asks for the program as it is now, and nothing is run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from zenturio.annotate.model import Application
from zenturio.errors import SpaceError
from zenturio.experiment import Experiment, ExperimentGenerator
from zenturio.record import ExperimentRecord, Repository
from zenturio.record.entities import REDACTION_EVENT
from zenturio.record.result_rows import ResultIdentity
from zenturio.record.sql_repository import SQLRepository
from zenturio.study.restore import UnfilledError, kept_application

SAMPLE = 200
"""Results of each version whose digests are computed again."""


@dataclass
class IdentityCheck:
    """How the digests of a sample compare with what was recorded."""

    right: int = 0
    unknown: int = 0
    """Results of which not enough was recorded."""
    wrong: tuple[str, ...] = ()
    """What is wrong, in words."""


def check_identity(repository: Repository, sample: int = SAMPLE) -> IdentityCheck:
    """Compute digests, keys and recipes of a sample of each version again."""
    result = IdentityCheck()
    if not isinstance(repository, SQLRepository):
        return result
    for study in repository.studies():
        names, without = repository.result_identities(study.name, sample)
        result.unknown += without
        if any(event.kind == REDACTION_EVENT for event in repository.events(study.name)):
            result.unknown += len(names)  # its parts are not what was hashed any more
            continue
        programs = _Programs(repository, study.name)
        for name in names:
            experiment = programs.experiment(name)
            if experiment is None:
                result.unknown += 1
            elif _differs(experiment, name):
                text = f"study {study.name}: {name.digest} is not the digest of what was recorded"
                result.wrong += (text,)
            else:
                result.right += 1
    return result


def _differs(experiment: Experiment, name: ResultIdentity) -> bool:
    assert experiment.program is not None, "a generator tells it"
    computed = experiment.digest, experiment.key, experiment.program.digest
    return computed != (name.digest, name.key, json.loads(name.document)["digest"])


class _Programs:
    """The programs of a study as they were recorded."""

    def __init__(self, repository: Repository, study: str) -> None:
        self._repository = repository
        self._study = study
        self._generators: dict[
            tuple[object, ...], tuple[Application, ExperimentGenerator] | None
        ] = {}

    def experiment(self, name: ResultIdentity) -> Experiment | None:
        """The experiment that the values of a result make; None where that cannot be told."""
        record = self._repository.experiment_record(self._study, name.digest)
        started = record.outcome.started if record.outcome else None
        definition = self._repository.definition(self._study, started)
        overrides = definition.notes.get("overrides", ())
        at = (name.document, *sorted(definition.sources.items()), *overrides)
        if at not in self._generators:
            try:
                kept = kept_application(definition)
            except UnfilledError:
                self._generators[at] = None
            else:
                self._generators[at] = kept, recorded_generator(kept, json.loads(name.document))
        generator = self._generators[at]
        return None if generator is None else _experiment_of(*generator, record)


def _experiment_of(
    application: Application, generator: ExperimentGenerator, record: ExperimentRecord
) -> Experiment | None:
    seed = application.repeat.seed
    values = {name: value for name, value in record.values.items() if name != seed}
    try:
        point = application.space.find(values)
    except SpaceError:  # a run with other values for a set
        return None
    every = generator.experiments(point, record.index)
    return next((experiment for experiment in every if experiment.repeat == record.repeat), None)


def recorded_generator(application: Application, recipe: Mapping[str, Any]) -> ExperimentGenerator:
    """Return a generator of *application*, whose other files are known by a recipe alone."""
    modes = {path: _mode(kind) for path, (kind, *_) in recipe["filled"].items()}
    files = tuple(_with_modes(application, modes))
    annotated = replace(application, files=files, links=(), folders=(), uses=())
    constants = {
        path: (_mode(kind), bytes.fromhex(digest))
        for path, (kind, digest) in recipe["constants"].items()
    }
    return ExperimentGenerator(annotated, recorded=(constants, recipe["used"]))


def _with_modes(application: Application, modes: Mapping[str, int]) -> Iterator[Any]:
    for file in application.files:
        if file.path in modes:
            yield replace(file, source=replace(file.source, mode=modes[file.path]))


def _mode(kind: str) -> int:
    return {"link": 0o120777, "executable": 0o755}.get(kind, 0o644)
