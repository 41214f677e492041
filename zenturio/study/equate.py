"""Results of an earlier version of a program that a user accepts for the current one.

An edit that changes nothing that matters gives every experiment another digest. Each result of the
earlier version is looked up as the experiment that its values make now, and becomes its outcome: a
copy that says who accepted it. Nothing is run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from zenturio.annotate.model import Application
from zenturio.annotate.scan import scan
from zenturio.errors import InputError, NotFoundError, SpaceError
from zenturio.experiment import Experiment, ExperimentGenerator
from zenturio.record import SPACES, ExperimentRecord, Repository, StudyDefinition
from zenturio.record.entities import OUTCOME_STATES
from zenturio.study.driver.progress import PROGRAMS, ExecutableChanges
from zenturio.study.last_options import RUN
from zenturio.study.recorded_definition import (
    PROGRAM,
    ArchivedVersion,
    base_of,
    changes_of,
    define_study,
    is_same_program,
    open_version,
    pinned_name,
    spaces_of,
    with_recorded_versions,
)

BATCH = 500
"""Results that are copied in one transaction."""


@dataclass(frozen=True, slots=True)
class EquateResult:
    """What was accepted."""

    study: str
    version: str
    accepted: int
    cached: int
    """Results whose experiments had an outcome in the present version already."""
    outside: int
    """Results whose values the present program does not have."""
    person: str
    changes: tuple[str, ...]
    """What differs between the two versions of the program."""
    archived: str = ""
    """What the version that was current until now is called, if this began another one."""


def equate(
    repository: Repository,
    version: str,
    paths: Sequence[str] = (),
    step: Callable[[int], object] = lambda _count: None,
) -> EquateResult:
    """Make the results of *version* (``NAME@N``) results of the present version of the study.

    The program is what is at *paths*, else in the files that the study was run from. InputError
    where it has other parameters, or none of the values. ConflictError while somebody drives one
    of the two versions. What stops this leaves whole results: the same call goes on.
    """
    study = _study_of(repository, version)
    before = repository.definition(version)
    application = _application(repository, study, before, paths)
    generator = ExperimentGenerator(application, former_digests=repository.has_former_digests())
    definition = _definition(repository, study, application, generator)
    program = definition.notes[PROGRAM]
    _check_parameters(version, before, definition)
    changes = changes_of(before.notes[PROGRAM], program)
    if is_same_program(before.notes, definition.notes):
        raise InputError(
            f"{version} is of the present program: there is nothing to accept",
            hint="zen equate is for results of a version before an edit; zen list shows them",
        )
    names = _Names(application, generator)
    pairs = names.pairs(repository.records(version, states=OUTCOME_STATES))
    first = next(pairs, None)
    if first is None:
        raise InputError(
            f"no result of {version} is for a point of the present program",
            hint=f"zen results {version} shows what was measured",
        )
    archived = _open_present(repository, study, definition)
    person, results, accepted = repository.current_user(), 0, 0
    every = chain([first], pairs)
    while batch := list(islice(every, BATCH)):
        results += len(batch)
        accepted += repository.equate(study, version, dict(batch), person)
        step(len(batch))
    if accepted:
        repository.add_event(
            study, "equated", f"{accepted:,} results of {version} accepted as equal by {person}"
        )
    name = archived.name if archived else ""
    cached = results - accepted
    return EquateResult(study, version, accepted, cached, names.outside, person, changes, name)


def undo_equate(repository: Repository, version: str) -> int:
    """Take back what ``equate`` accepted of *version*; how many results it were."""
    study = _study_of(repository, version)
    count = repository.undo_equate(study, version)
    if count:
        person = repository.current_user()
        text = (
            f"{count:,} results of {version} are no longer accepted as equal: withdrawn by {person}"
        )
        repository.add_event(study, "equated", text)
    return count


def _study_of(repository: Repository, version: str) -> str:
    """Return the study of which *version* is one that is there."""
    base = base_of(version)
    if base is None:
        names = [pinned_name(repository, s.name) for s in repository.studies()]
        studies = ", ".join(name for name in names if base_of(name) == version)
        raise InputError(
            f"{version!r} names no version of a study",
            hint=f"there is: {studies}" if studies else "write NAME@NUMBER: zen list shows them",
        )
    repository.study(version)
    return base


def _application(
    repository: Repository, study: str, before: StudyDefinition, paths: Sequence[str]
) -> Application:
    """Return the present application with what its version commands printed last."""
    try:
        newest = repository.definition(study)
    except NotFoundError:  # every version of it is archived
        newest = before
    named = list(paths) or list(newest.notes.get("paths", ()))
    if not named or not before.notes.get(PROGRAM):
        raise InputError(
            f"study {study} is not one of annotated files",
            hint="a function is run again where it was edited",
        )
    application = scan(named, overrides=newest.notes.get("overrides", ()))
    application = with_recorded_versions(application, repository, study)
    if application.after:
        raise InputError(
            f"study {study} has stages before it (AFTER): its experiments depend on their results",
            hint="zen run finds what is cached of them",
        )
    for use in application.uses:
        if use.kind == "version" and use.text not in application.versions:
            raise InputError(
                f"the output of {use.text!r} (USE VERSION) has not been recorded",
                hint="zen run --limit 1 records it; then accept the results",
            )
    return application


def _definition(
    repository: Repository, study: str, application: Application, generator: ExperimentGenerator
) -> StudyDefinition:
    """Return the definition that a run of *application* would give the study."""
    try:
        notes = repository.definition(study).notes
    except NotFoundError:
        notes = {}
    space = application.space
    planned = space.size * len(application.repeat.numbers) if space.finite else 0
    experiments = planned or int(notes.get("experiments", 0))
    definition = define_study(application, experiments, generator.program, generator.former_program)
    more = {
        RUN: notes.get(RUN, {}),
        PROGRAMS: ExecutableChanges.of(application, notes).notes(),
        SPACES: spaces_of(repository.notes(study), definition.notes, space, application.repeat),
    }
    return replace(definition, notes={**definition.notes, **more})


def _check_parameters(version: str, before: StudyDefinition, present: StudyDefinition) -> None:
    one, other = ({field.name for field in d.parameters} for d in (before, present))
    if one == other:
        return
    words = [f"{name} is new" for name in sorted(other - one)]
    words += [f"{name} is gone" for name in sorted(one - other)]
    raise InputError(
        f"the program has other parameters than {version}: {', '.join(words)}",
        hint="only results of the same parameters can be accepted: zen run measures the others",
    )


def _open_present(
    repository: Repository, study: str, definition: StudyDefinition
) -> ArchivedVersion | None:
    """Open the version of the present program, if the study's name means another one."""
    with suppress(NotFoundError):
        if is_same_program(repository.definition(study).notes, definition.notes):
            return None
    return open_version(repository, study, definition)


class _Names:
    """Which experiment of the present program the values of a result make."""

    def __init__(self, application: Application, generator: ExperimentGenerator) -> None:
        self._application = application
        self._generator = generator
        self.outside = 0
        """How many results had values that make none."""

    def pairs(self, records: Iterator[ExperimentRecord]) -> Iterator[tuple[str, Experiment]]:
        """Yield the digest of each result, and its experiment."""
        for record in records:
            experiment = self._experiment(record)
            if experiment is None:
                self.outside += 1
            else:
                yield record.digest, experiment

    def _experiment(self, record: ExperimentRecord) -> Experiment | None:
        repeat = self._application.repeat
        values = {name: value for name, value in record.values.items() if name != repeat.seed}
        try:
            point = self._application.space.find(values)
        except SpaceError:
            return None
        for experiment in self._generator.experiments(point):
            if experiment.repeat == record.repeat:
                is_equal = _typed(experiment.values) == _typed(record.values)
                return experiment if is_equal else None
        return None  # fewer repeats than there were


def _typed(values: Any) -> dict[str, tuple[type, object]]:
    """Return values by which 1, 1.0 and true differ."""
    return {name: (type(value), value) for name, value in values.items()}
