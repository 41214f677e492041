"""The present space of a study, read from its files, and the experiments that lie outside it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from zenturio.annotate.model import Application
from zenturio.annotate.scan import scan, scan_kept
from zenturio.errors import InputError
from zenturio.expression import Value
from zenturio.query.catalog import open_snapshot, read_catalog
from zenturio.query.select_statement import (
    WIDTH,
    SelectItem,
    StudySelect,
    restore_rows,
    select_rows,
)
from zenturio.record import SEED_KIND, Repository, StudyDefinition
from zenturio.record.open import path_in_project
from zenturio.space import Continuous, Dependent, Space


def present_spaces(definition: StudyDefinition, *, archived: bool) -> list[Space]:
    """Return the present space, and that of the last run where it had a ``--set``; none if unknown.

    It is unknown of a study of versions, too: no file declares the parameter that tells them apart.
    """
    programs = [] if archived else _scanned(definition)
    if not _declare_all(programs, definition):
        programs = _as_run_last(definition)
    return [program.space for program in programs] if _declare_all(programs, definition) else []


def _declare_all(programs: Sequence[Application], definition: StudyDefinition) -> bool:
    """Return whether the last of *programs* has each parameter of the study."""
    names = {field.name for field in definition.parameters if field.kind != SEED_KIND}
    return bool(programs) and names <= {p.name for p in programs[-1].space.parameters}


def present_space(repository: Repository, study: str) -> Space | None:
    """Return the space of the last run of *study*; None for that of a function."""
    spaces = present_spaces(repository.definition(study), archived="@" in study)
    return spaces[-1] if spaces else None


MOST_DECLARED = 10_000
"""Values of a set whose order is looked up."""


def declared_ranks(space: Space | None, names: Collection[str]) -> dict[str, dict[Value, int]]:
    """Return the places of values in the sets of these parameters, where the sets can be listed."""
    ranks = {}
    for parameter in space.parameters if space else ():
        domain = parameter.domain if parameter.name in names else None
        if domain is None or isinstance(domain, Continuous | Dependent):
            continue
        if domain.size <= MOST_DECLARED:
            values = (domain.value(place) for place in range(domain.size))
            ranks[parameter.name] = {value: place for place, value in enumerate(values)}
    return ranks


def _read(
    read: Callable[[Sequence[str]], Application], definition: StudyDefinition
) -> list[Application]:
    overrides = tuple(definition.notes.get("overrides", ()))
    try:
        return [read(values) for values in ((), *([overrides] if overrides else []))]
    except InputError:
        return []


def _as_run_last(definition: StudyDefinition) -> list[Application]:
    """Return the application that the recorded files make, without and with ``--set``."""
    return _read(lambda values: scan_kept(definition.sources, values), definition)


def _scanned(definition: StudyDefinition) -> list[Application]:
    """Return the application that the files in the project make, without and with ``--set``."""
    paths = [path_in_project(path) for path in definition.notes.get("paths", ())]
    present = [path for path in paths if path is not None]
    if not present or len(present) < len(paths):
        return []
    return _read(lambda values: scan(present, overrides=values), definition)


def count_unplanned(repository: Repository, study: str) -> int:
    """Return how many experiments of *study* its last run did not plan.

    The space of that run does not hold their points, or its REPEAT has fewer runs of a point. 0
    where its program is not known.
    """
    definition = repository.definition(study)
    programs = _as_run_last(definition)
    if not _declare_all(programs, definition):
        return 0
    program = programs[-1]
    return sum(1 for _ in outside(repository, study, [program.space], program.repeat.numbers))


def outside(
    repository: Repository, study: str, spaces: Sequence[Space], runs: range | None = None
) -> Iterator[str]:
    """Yield the digests of experiments whose points none of *spaces* holds.

    With *runs* also of those whose number among the runs of their point is not one of these.
    """
    with open_snapshot(repository) as reader:
        catalog = read_catalog(reader, study)
        statement = StudySelect(reader.dialect, catalog, None, every_status=True)
        columns = catalog.parameters
        facts = (catalog.facts["digest"], catalog.facts["repeat"])
        heads = [SelectItem.of(c) for c in (*facts, *columns, catalog.facts["remarks"])]
        known_answers: dict[tuple[object, ...], bool] = {}
        wide = len(heads) > WIDTH
        rows = (
            select_rows(reader, statement, heads) if wide else reader.each(statement.select(heads))
        )
        for row in rows:
            ((digest, run, *cells),) = restore_rows((*facts, *columns), [row])
            if runs is not None and run not in runs:
                yield digest
                continue
            point = tuple(cells)
            key = (*point, *map(type, point))  # 1 and true are equal, and no one value
            if key not in known_answers:
                values = {c.name: v for c, v in zip(columns, point, strict=True) if v is not None}
                known_answers[key] = any(_holds(space, values) for space in spaces)
            if not known_answers[key]:
                yield digest


def _holds(space: Space, values: Mapping[str, Value]) -> bool:
    try:
        return space.contains(values)
    except InputError:  # a constraint has no answer for such a value
        return False
