"""Which experiments are of points that their study's space does not hold any more.

A set that was narrowed, a constraint or a parameter that was added leave outcomes behind that
answer another question. The present space is that of the annotated files in the project; where
they are not there (or are another program by now), that of the files as they were run last.
Points of ``--set`` count, too, while the last run has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from zenturio.annotate.model import Application
from zenturio.annotate.scan import scan, scan_kept
from zenturio.errors import InputError
from zenturio.expression import Value
from zenturio.query.catalog import read_catalog
from zenturio.query.reading import open_snapshot
from zenturio.query.statement import SelectItem, StudySelect, restore_rows
from zenturio.query.wide import WIDTH, select_rows
from zenturio.record import SEED, Definition, Repository
from zenturio.record.open import project_folder
from zenturio.space import Space
from zenturio.space.space import SPACES


def digests_outside(repository: Repository, study: str) -> frozenset[str]:
    """The digests of the experiments of *study* whose points the present space does not hold.

    None are outside where the space cannot be known: of a study that was run from Python.
    """
    definition = repository.definition(study)
    if _unchanged(definition):
        return frozenset()
    spaces = _spaces(definition, archived="@" in study)
    return frozenset(_outside(repository, study, spaces)) if spaces else frozenset()


def left_out_notes(count: int) -> tuple[str, ...]:
    """What is said of experiments that an answer leaves out."""
    if not count:
        return ()
    was, points = ("is", "its point") if count == 1 else ("are", "their points")
    noun = "experiment" if count == 1 else "experiments"
    return (f"{count:,} {noun} {was} left out: the space does not hold {points} any more (--all)",)


def _unchanged(definition: Definition) -> bool:
    """Whether the study had one space, and its files are as they were when it was run last."""
    notes = definition.notes
    if len(notes.get(SPACES, ())) != 1:
        return False
    root = _of_project(notes.get("root"))
    return root is None or all(
        _content(root / path) in (None, content) for path, content in definition.sources.items()
    )


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _of_project(path: object) -> Path | None:
    """A recorded path, if it leads into this project: others are not looked at."""
    if not isinstance(path, str):
        return None
    found, project = Path(path).resolve(), project_folder().resolve()
    return found if found.is_relative_to(project) and found.exists() else None


def _spaces(definition: Definition, *, archived: bool) -> list[Space]:
    """The present space, and that of the last run where it had a ``--set``; none if unknown."""
    overrides = tuple(definition.notes.get("overrides", ()))
    found = [] if archived else _scanned(definition, overrides)
    names = {field.name for field in definition.parameters if field.kind != SEED}
    if found and names <= {parameter.name for parameter in found[-1].parameters}:
        return found
    return _read(lambda given: scan_kept(definition.sources, given), overrides)


def _read(read: Callable[[Sequence[str]], Application], overrides: Sequence[str]) -> list[Space]:
    try:
        return [read(given).space for given in ((), *([overrides] if overrides else []))]
    except InputError:
        return []


def _scanned(definition: Definition, overrides: Sequence[str]) -> list[Space]:
    """Of the files in the project."""
    paths = [_of_project(path) for path in definition.notes.get("paths", ())]
    there = [path for path in paths if path is not None]
    if not there or len(there) < len(paths):
        return []
    return _read(lambda given: scan(there, overrides=given), overrides)


def _outside(repository: Repository, study: str, spaces: Sequence[Space]) -> Iterator[str]:
    with open_snapshot(repository) as reader:
        known = read_catalog(reader, study)
        statement = StudySelect(reader.dialect, known, None, every_status=True)
        columns = known.parameters
        digest_fact, remarks = known.facts["digest"], known.facts["remarks"]
        heads = [SelectItem.of(column) for column in (digest_fact, *columns, remarks)]
        held: dict[tuple[object, ...], bool] = {}
        wide = len(heads) > WIDTH
        rows = (
            select_rows(reader, statement, heads) if wide else reader.each(statement.select(heads))
        )
        for row in rows:
            ((digest, *cells),) = restore_rows((digest_fact, *columns), [row])
            point = tuple(cells)
            key = (*point, *map(type, point))  # 1 and true are equal, and no one value
            if key not in held:
                values = {c.name: v for c, v in zip(columns, point, strict=True) if v is not None}
                held[key] = any(_holds(space, values) for space in spaces)
            if not held[key]:
                yield digest


def _holds(space: Space, values: Mapping[str, Value]) -> bool:
    try:
        return space.contains(values)
    except InputError:  # a constraint has no answer for such a value
        return False
