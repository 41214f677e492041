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
    """The present space, and that of the last run where it had a ``--set``; none if unknown.

    It is unknown of a study of versions, too: no file declares the parameter that tells them apart.
    """
    overrides = tuple(definition.notes.get("overrides", ()))
    names = {field.name for field in definition.parameters if field.kind != SEED_KIND}

    def declares_all(spaces: Sequence[Space]) -> bool:
        return bool(spaces) and names <= {parameter.name for parameter in spaces[-1].parameters}

    present = [] if archived else _scanned(definition, overrides)
    if declares_all(present):
        return present
    stored = _read(lambda values: scan_kept(definition.sources, values), overrides)
    return stored if declares_all(stored) else []


def present_space(repository: Repository, study: str) -> Space | None:
    """Return the space of the last run of *study*; None for that of a function."""
    spaces = present_spaces(repository.definition(study), archived="@" in study)
    return spaces[-1] if spaces else None


MOST_DECLARED = 10_000
"""Values of a set whose order is looked up."""


def declared_ranks(space: Space | None, names: Collection[str]) -> dict[str, dict[Value, int]]:
    """The places of values in the sets of these parameters, where the sets can be listed."""
    ranks = {}
    for parameter in space.parameters if space else ():
        domain = parameter.domain if parameter.name in names else None
        if domain is None or isinstance(domain, Continuous | Dependent):
            continue
        if domain.size <= MOST_DECLARED:
            values = (domain.value(place) for place in range(domain.size))
            ranks[parameter.name] = {value: place for place, value in enumerate(values)}
    return ranks


def _read(read: Callable[[Sequence[str]], Application], overrides: Sequence[str]) -> list[Space]:
    try:
        return [read(values).space for values in ((), *([overrides] if overrides else []))]
    except InputError:
        return []


def _scanned(definition: StudyDefinition, overrides: Sequence[str]) -> list[Space]:
    """Of the files in the project."""
    paths = [path_in_project(path) for path in definition.notes.get("paths", ())]
    present = [path for path in paths if path is not None]
    if not present or len(present) < len(paths):
        return []
    return _read(lambda values: scan(present, overrides=values), overrides)


def outside(repository: Repository, study: str, spaces: Sequence[Space]) -> Iterator[str]:
    """Yield the digests of experiments whose points none of *spaces* holds."""
    with open_snapshot(repository) as reader:
        catalog = read_catalog(reader, study)
        statement = StudySelect(reader.dialect, catalog, None, every_status=True)
        columns = catalog.parameters
        digest_fact, remarks = catalog.facts["digest"], catalog.facts["remarks"]
        heads = [SelectItem.of(column) for column in (digest_fact, *columns, remarks)]
        known_answers: dict[tuple[object, ...], bool] = {}
        wide = len(heads) > WIDTH
        rows = (
            select_rows(reader, statement, heads) if wide else reader.each(statement.select(heads))
        )
        for row in rows:
            ((digest, *cells),) = restore_rows((digest_fact, *columns), [row])
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
