"""Rows of studies: names, versions, definitions and fields, rounds and events.

A version has one round until another is begun; only then, or once the order of its experiments is
drawn, has it rows in ``rounds``, the first round included. New results belong to the newest round.
A round is open until the driver of a run that measures it notes its completion as an event.
"""

from __future__ import annotations

import json
import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

from zenturio.failpoints import Failpoint
from zenturio.record import codec, repository, sql_names
from zenturio.record.codec import Form, unescape
from zenturio.record.database import DatabaseDialect, Row, Transaction
from zenturio.record.entities import (
    ALWAYS,
    REDACTION_EVENT,
    Field,
    MeasurementRound,
    RepositoryEvent,
    StudyDefinition,
    StudyInfo,
)
from zenturio.record.field_layout import (
    CHUNK,
    FieldDeclaration,
    FieldLayout,
    FieldLocation,
    StoredField,
)
from zenturio.record.sql_names import literal

WIDENED = Failpoint("record.widened")

NO_VERSION = 0
"""The number of a pruned version, in rows that are kept."""
OPENED_SECONDS = 60.0
"""Seconds between two updates of the time at which a study was opened last."""

VERSION_COLUMNS = (
    "v.id, s.id, s.name, s.sql_name, v.number, v.created, s.current, s.revision, s.view_revision,"
    " (SELECT coalesce(max(number), 1) FROM rounds WHERE version = v.id)"
)
JOINED = "versions v JOIN studies s ON s.id = v.study LEFT JOIN projects p ON p.id = s.project"
"""FROM for the columns of a version."""
# The index is by project and name: with the few projects named, no other study is looked at. They
# are taken from the index itself, one step for each, for a damaged file may have lost rows of
# ``projects``, and its studies are to be found all the same.
_OF_PROJECTS = (
    "s.project IN (WITH RECURSIVE named(id) AS (SELECT min(project) FROM studies UNION ALL"
    " SELECT (SELECT min(project) FROM studies WHERE project > named.id) FROM named"
    " WHERE named.id IS NOT NULL) SELECT id FROM named)"
)
FIELD_COLUMNS = (
    "study", "number", "role", "name", "sql_name", "place", "forms", "type", "unit", "kind",
    "exact",
)  # fmt: skip


_FIELDS_AT_ONCE = 50
"""Fields written by one statement: SQLite may refuse more than 999 values."""
_REVISIONS_OF_FIELDS = 1_000_000
"""More revisions than a study has: each changes a field of at most 10,000."""


def _view_revision(revision: int) -> int:
    """Return the revision of a view that shows the fields of *revision* and all facts."""
    return revision + sql_names.FACTS_REVISION * _REVISIONS_OF_FIELDS


@dataclass(frozen=True, slots=True)
class StudyVersion:
    """A version of a study, as a row of the database."""

    id: int
    study: int
    base: str
    """The study's name."""
    sql_name: str
    number: int
    created: float
    current: int | None
    """The current version of the study; below 0: the number of a pruned one."""
    revision: int
    """Revision of the study's fields."""
    view_revision: int | None
    """The revision that the view in the database shows; None if there is no view."""
    round: int
    """The newest round: new results belong to it."""
    label: str
    """The prefix of the name, if the study is of another project: see ``sql_names``."""
    is_new: bool = False
    """Whether this transaction creates it: nothing is recorded of it."""

    @property
    def has_stale_view(self) -> bool:
        """Whether the view in the database lacks fields or facts, or does not exist."""
        return self.current == self.id and self.view_revision != self.newest_view_revision

    @property
    def newest_view_revision(self) -> int:
        """The revision of a view that shows all fields, and all facts that this program knows."""
        return _view_revision(self.revision)

    @property
    def name(self) -> str:
        """NAME, or NAME@NUMBER if this is not the current version."""
        return self._base_name if self.current == self.id else self.fixed_name

    @property
    def fixed_name(self) -> str:
        """NAME@NUMBER, which always names this version."""
        return f"{self._base_name}@{self.number}"

    @property
    def _base_name(self) -> str:
        return f"{self.label}/{self.base}" if self.label else self.base

    @property
    def view(self) -> str:
        if self.current == self.id:
            return self.sql_name
        return sql_names.version_view(self.sql_name, self.number)

    @property
    def study_facts(self) -> StudyInfo:
        return StudyInfo(
            self.name, self.view, sql_names.all_view(self.view), self.created, self.number
        )


def version_columns(transaction: Transaction) -> str:
    """Return the columns of a ``StudyVersion``, with the study's name as seen in this project."""
    return f"{VERSION_COLUMNS}, {transaction.project.label_sql}"


def all_versions(transaction: Transaction) -> list[StudyVersion]:
    """Return all versions of all studies, in the order of their creation."""
    query = f"SELECT {version_columns(transaction)} FROM {JOINED} ORDER BY v.id"
    return [StudyVersion(*row) for row in transaction.sql(query)]


def all_studies(transaction: Transaction) -> tuple[StudyInfo, ...]:
    return tuple(version.study_facts for version in all_versions(transaction))


def find_version(
    transaction: Transaction, name: str, *, locked: bool = False
) -> StudyVersion | None:
    """Return the version that *name* means: the current one for a study, else NAME@NUMBER.

    A study of this project takes precedence over a shared one, and that over OWNER/NAME. *locked*:
    lock it and the study's fields until the transaction ends.
    """
    if not sql_names.is_storable(name):
        return None
    project, mark = transaction.project, transaction.dialect.mark
    is_own = f"{project.is_own_sql} AND "
    version = _find_named(transaction, is_own, (), name, locked=locked)
    if version is None and project.finds_unique:
        unique = f"{sql_names.UNIQUE_SQL} AND "
        version = _find_named(transaction, unique, (), name, locked=locked)
    if version is not None or "/" not in name:
        return version
    of_label = f"{project.label_sql} = {mark} AND "
    for label, base in sql_names.split(name):
        version = _find_named(transaction, of_label, (label,), base, locked=locked)
        if version is not None:
            return version
    return None


def _find_named(
    transaction: Transaction, whose: str, before: Sequence[str], name: str, *, locked: bool
) -> StudyVersion | None:
    mark, lock = transaction.dialect.mark, ""
    if locked and transaction.dialect.row_lock:
        lock = f"{transaction.dialect.row_lock} OF s"
    order = "ORDER BY coalesce(p.owner, '') = '' LIMIT 1"
    query = (
        f"SELECT {version_columns(transaction)} FROM {JOINED}"
        f" WHERE {_OF_PROJECTS} AND {whose}s.name = {mark}"
    )
    rows = transaction.sql(f"{query} AND s.current = v.id {order}{lock}", (*before, name))
    parts = sql_names.parse_version_name(name)
    if not rows and parts:
        condition = f"AND v.number = {mark} {order}{lock}"
        rows = transaction.sql(f"{query} {condition}", (*before, *parts))
    return StudyVersion(*rows[0]) if rows else None


def get_version(transaction: Transaction, name: str, *, locked: bool = False) -> StudyVersion:
    """Return the version like `find_version`; NotFoundError with the nearest names if none."""
    version = find_version(transaction, name, locked=locked)
    if version is None:
        raise repository.no_study(
            name, (version_of_name.name for version_of_name in all_versions(transaction))
        )
    return version


def versions_by_id(transaction: Transaction, numbers: Iterable[int]) -> dict[int, StudyVersion]:
    """Return versions by their numbers, in the order of their creation."""
    query = f"SELECT {version_columns(transaction)} FROM {JOINED} WHERE {{among}}"
    rows = transaction.among_sql(query, "v.id", sorted(set(numbers)))
    return {row[0]: StudyVersion(*row) for row in sorted(rows)}


# Opening


def open_study(
    transaction: Transaction, name: str, definition: StudyDefinition
) -> tuple[StudyVersion, FieldLayout]:
    """Create the study in this project, or a new version, or update it to *definition*.

    Return the version and its fields.
    """
    version = find_version(transaction, name, locked=True)
    if version is None:
        version, layout = _create(transaction, name, definition)
    else:
        now, mark = transaction.dialect.now, transaction.dialect.mark
        transaction.sql(
            f"UPDATE studies SET opened = {now}"
            f" WHERE id = {mark} AND opened < {now} - {OPENED_SECONDS}",
            (version.study,),
        )
        layout = read_layout(transaction, version)
    return _define(transaction, version, layout, definition)


def _create(
    transaction: Transaction, name: str, definition: StudyDefinition
) -> tuple[StudyVersion, FieldLayout]:
    """Return a new study with its fields, or a new version of a study without a current one."""
    mark, now = transaction.dialect.mark, transaction.now
    # Serializes transactions that create studies, so that their names in SQL differ.
    project, owner = enter_project(transaction)
    if transaction.dialect.row_lock:  # who writes a file is alone
        namesake = find_version(transaction, name)
        if namesake is not None:  # another one was faster
            return namesake, read_layout(transaction, namesake)
    present = transaction.sql("SELECT name, project, sql_name FROM studies")
    row: list[Row] = []
    if any(study == name and home in (project, sql_names.COMMON) for study, home, _ in present):
        row = transaction.sql(
            "SELECT id, sql_name, revision, view_revision, current,"
            " (SELECT coalesce(max(number), 0) FROM versions WHERE study = s.id)"
            f" FROM studies s WHERE name = {mark}"
            f" AND (project = {project} OR project = {sql_names.COMMON})"
            f" ORDER BY project DESC LIMIT 1{transaction.dialect.row_lock}",
            (name,),
        )
    empty = FieldLayout(transaction.dialect.name, 0, 0)
    layout = empty if row else _declared(empty, definition)
    row = row or transaction.sql(
        "INSERT INTO studies (project, name, sql_name, revision, opened, pinned)"
        f" VALUES ({', '.join([mark] * 6)})"
        " RETURNING id, sql_name, revision, view_revision, current, 0",
        (
            project, name, sql_names.study_view(name, [s[2] for s in present], owner),
            int(layout.fields != ()), now, 0,
        ),
    )  # fmt: skip
    ((study, sql_name, revision, view_revision, current, last),) = row
    number = 1 + max(last, -(current or 0))
    ((id_,),) = transaction.sql(
        "INSERT INTO versions (study, number, created, edits, members)"
        f" VALUES ({', '.join([mark] * 5)}) RETURNING id",
        (study, number, now, 0, members_text(layout.members)),
    )
    transaction.sql(
        f"UPDATE studies SET current = {mark}, opened = {mark} WHERE id = {mark}",
        (id_, now, study),
    )
    version = StudyVersion(
        id_, study, name, sql_name, number, now, id_, revision, view_revision, 1, "", is_new=True
    )
    if not layout.fields:
        return version, read_layout(transaction, version)
    _write_fields(transaction, study, layout.fields)
    WIDENED()
    layout = replace(layout, study=study, version=id_, revision=revision)
    note_renamed(transaction, id_, empty, layout)
    return version, layout


def enter_project(transaction: Transaction) -> tuple[int, str]:
    """Return the number and the owner of the transaction's project; enter it if it is new.

    The login at the server owns a new one. The rows of all projects are locked, which serializes
    transactions that create studies.
    """
    mark, project = transaction.dialect.mark, transaction.project
    columns = "INSERT INTO projects (id, uuid, owner, name, created)"
    query = f"SELECT id, uuid, owner, name FROM projects{transaction.dialect.row_lock}"
    rows = transaction.sql(query)
    if all(number != sql_names.COMMON for number, *_ in rows):
        transaction.sql(
            f"{columns} VALUES ({', '.join([mark] * 5)}) ON CONFLICT DO NOTHING",
            (sql_names.COMMON, secrets.token_hex(16), "", "", transaction.now),
        )
    if not project.uuid:
        return sql_names.COMMON, ""
    rows = rows or transaction.sql(query)
    for number, uuid, owner, _ in rows:
        if uuid == project.uuid:
            return number, owner
    ((person,),) = transaction.sql(f"SELECT {transaction.dialect.session_user}")
    folder = project.folder.parent.name if project.folder else ""
    names = {name for _, _, owner, name in rows if owner == person}
    candidates = (folder, *(f"{folder}-{n}" for n in range(2, len(names) + 3)))
    name = next(candidate for candidate in candidates if candidate not in names)
    number = max(number for number, *_ in rows) + 1
    transaction.sql(
        f"{columns} VALUES ({', '.join([mark] * 5)})",
        (number, project.uuid, person, name, transaction.now),
    )
    return number, str(person)


def archive(transaction: Transaction, version: StudyVersion) -> StudyVersion:
    """Archive *version*: from now on it is named NAME@NUMBER."""
    mark = transaction.dialect.mark
    transaction.sql(
        f"UPDATE studies SET current = NULL WHERE id = {mark} AND current = {mark}",
        (version.study, version.id),
    )
    return replace(version, current=None)


def forget_version(transaction: Transaction, version: StudyVersion) -> None:
    """Delete the row of *version*, whose results were removed. Its number is not used again."""
    mark = transaction.dialect.mark
    transaction.sql(f"DELETE FROM versions WHERE id = {mark}", (version.id,))
    current = version.current or 0
    if current <= 0 or current == version.id:
        pruned = min(current, -version.number)
        changes = f"UPDATE studies SET current = {mark} WHERE id = {mark}"
        transaction.sql(changes, (pruned, version.study))
    if not transaction.sql(f"SELECT id FROM versions WHERE study = {mark}", (version.study,)):
        transaction.sql(f"DELETE FROM fields WHERE study = {mark}", (version.study,))
        changes = f"UPDATE studies SET view_revision = NULL WHERE id = {mark}"
        transaction.sql(changes, (version.study,))


def next_archived(transaction: Transaction, name: str) -> str:
    """Return the name of the current version of a study once it is archived."""
    version = find_version(transaction, name)
    return f"{name}@{version.number if version else 1}"


# Fields


def read_layout(
    transaction: Transaction, version: StudyVersion, cached: FieldLayout | None = None
) -> FieldLayout:
    """Return the fields of a version; *cached* itself if nothing has changed."""
    if cached is not None and (cached.version, cached.revision) == (version.id, version.revision):
        return cached
    if version.revision == 0:  # each change of the fields counts
        return FieldLayout(transaction.dialect.name, version.study, version.id)
    mark = transaction.dialect.mark
    ((members,),) = transaction.sql(
        f"SELECT members FROM versions WHERE id = {mark}", (version.id,)
    )
    own_fields = read_members(members)
    rows = transaction.sql(
        f"SELECT {', '.join(FIELD_COLUMNS[1:])} FROM fields WHERE study = {mark} ORDER BY number",
        (version.study,),
    )
    fields = tuple(field_of(row) for row in rows)
    dialect_name = transaction.dialect.name
    return FieldLayout(
        dialect_name, version.study, version.id, version.revision, fields, own_fields
    )


def members_of_others(
    transaction: Transaction, version: StudyVersion
) -> list[Mapping[int, FieldDeclaration]]:
    """Return how the other versions of its study declare their fields."""
    mark = transaction.dialect.mark
    rows = transaction.sql(
        f"SELECT members FROM versions WHERE study = {mark} AND id <> {mark}",
        (version.study, version.id),
    )
    return [read_members(members) for (members,) in rows]


def members_text(members: Mapping[int, FieldDeclaration]) -> str:
    """Return the fields of versions as they are stored."""
    return json.dumps({
        n: [codec.escape(m.how), m.type, codec.escape(m.unit), codec.escape(m.kind),
            int(m.exact), int(m.forms)]
        for n, m in members.items()
    })  # fmt: skip


@codec.decoding()
def read_members(text: str) -> dict[int, FieldDeclaration]:
    """Parse the result of ``members_text``."""
    return {
        int(number): FieldDeclaration(
            unescape(how), type_, unescape(unit), unescape(kind), bool(exact), Form(forms)
        )
        for number, (how, type_, unit, kind, exact, forms) in json.loads(text).items()
    }


@codec.decoding()
def field_of(row: Sequence[Any]) -> StoredField:
    """Return the field that a row of ``fields`` describes, as the last version defined it."""
    number, role, name, sql_name, place, forms, type_, unit, kind, exact = row
    field = Field(unescape(name), type_, unescape(unit), unescape(kind), exact=bool(exact))
    return StoredField(number, role, field, sql_name, FieldLocation.parse(place), Form(forms))


def widen(transaction: Transaction, old: FieldLayout, new: FieldLayout) -> FieldLayout | None:
    """Store the fields of *new*; return None if another driver has changed them since."""
    mark = transaction.dialect.mark
    # Optimistic locking: the update requires the revision that was read. If it has changed, the
    # caller reads again and widens the new layout.
    changes = "revision = revision + 1"
    if _views_alike(transaction.dialect, old, new):
        # Otherwise each new type of values would cause the views to be read and rendered again.
        shown = _view_revision(old.revision)
        changes += f", view_revision = CASE view_revision WHEN {shown} THEN {shown + 1}"
        changes += " ELSE view_revision END"
    changed = transaction.changed(
        f"UPDATE studies SET {changes} WHERE id = {mark} AND revision = {mark}",
        (old.study, old.revision),
    )
    if not changed:
        return None
    before = {stored.number: stored for stored in old.fields}
    _write_fields(transaction, new.study, [s for s in new.fields if before.get(s.number) != s])
    if old.members != new.members:
        members = members_text(new.members)
        transaction.sql(
            f"UPDATE versions SET members = {mark} WHERE id = {mark}", (members, new.version)
        )
    WIDENED()
    return replace(new, revision=old.revision + 1)


def field_sql(dialect: DatabaseDialect, stored: StoredField, schema: str = "") -> tuple[str, str]:
    """Return the SQL of a field in a row ``e``, and its type."""
    place, forms = stored.place, stored.forms
    sql = {slot[0]: f"e.{slot}" for slot in place.slots}
    if place.chunk is not None:
        chunk = dialect.chunk_sql("e.id", place.chunk // CHUNK, place.chunk % CHUNK)
        sql["chunk"] = chunk.replace("FROM ", f"FROM {schema}")
    key = literal(codec.remark_key(stored.role, stored.field.name))
    for form, part in ((Form.BIG, "int"), (Form.SERIES, "series")):
        if form in forms:
            sql[part] = dialect.remark_sql("e.remarks", key, part)
    return dialect.value_sql(forms, sql)


def _views_alike(dialect: DatabaseDialect, old: FieldLayout, new: FieldLayout) -> bool:
    """Return whether the text of a view is the same for both layouts."""
    if len(old.fields) != len(new.fields):
        return False
    # Columns of views have a type in PostgreSQL, but not in SQLite.
    parts = slice(2 if dialect.name == "postgresql" else 1)
    for before, after in zip(old.fields, new.fields, strict=True):
        if before != after and (
            before.sql_name != after.sql_name
            or field_sql(dialect, before)[parts] != field_sql(dialect, after)[parts]
        ):
            return False
    return True


def _write_fields(transaction: Transaction, study: int, fields: Iterable[StoredField]) -> None:
    """Insert or update *fields* of a study."""
    mark = transaction.dialect.mark
    rows = [field_row(study, stored) for stored in fields]
    updates = ", ".join(f"{name} = excluded.{name}" for name in FIELD_COLUMNS[5:])
    marks = f"({', '.join([mark] * len(FIELD_COLUMNS))})"
    for start in range(0, len(rows), _FIELDS_AT_ONCE):
        batch = rows[start : start + _FIELDS_AT_ONCE]
        all_marks = ", ".join([marks] * len(batch))
        transaction.sql(
            f"INSERT INTO fields ({', '.join(FIELD_COLUMNS)}) VALUES {all_marks}"
            f" ON CONFLICT (study, number) DO UPDATE SET {updates}",
            [value for row in batch for value in row],
        )


def field_row(study: int, stored: StoredField) -> tuple[Any, ...]:
    """Return a row of ``fields``."""
    field = stored.field
    return (
        study, stored.number, stored.role, codec.escape(field.name), stored.sql_name,
        str(stored.place), int(stored.forms), field.type, codec.escape(field.unit),
        codec.escape(field.kind), int(field.exact),
    )  # fmt: skip


def renamed(old: FieldLayout, new: FieldLayout) -> list[tuple[str, str]]:
    """Return the new fields with another name in SQL, and why; not those of every study."""
    pairs = []
    for stored in new.fields[len(old.fields) :]:
        name = stored.field.name
        if stored.sql_name != name and new.members[stored.number].how != ALWAYS:
            why = (
                "too long"
                if len(name.encode()) > sql_names.LONGEST
                else "taken, or differs too little"
            )
            pairs.append((name, f"{name!r} is {stored.sql_name!r} in SQL: its name is {why}"))
    return pairs


# Definitions


def _declared(layout: FieldLayout, definition: StudyDefinition) -> FieldLayout:
    """Return *layout* with the fields of *definition*; itself if it has them."""
    layout = layout.declared("parameter", definition.parameters)
    return layout.declared("metric", definition.metrics)


def _define(
    transaction: Transaction,
    version: StudyVersion,
    layout: FieldLayout,
    definition: StudyDefinition,
) -> tuple[StudyVersion, FieldLayout]:
    """Store *definition* unless it is the newest one already; return the updated version.

    Equal contents of files are stored once.
    """
    new_layout = _declared(layout, definition)
    if new_layout is not layout:
        widened = widen(transaction, layout, new_layout)
        assert widened is not None, "the study is locked"
        note_renamed(transaction, version.id, layout, new_layout)
        version, new_layout = replace(version, revision=widened.revision), widened
    hashes = {path: sha256(content).digest() for path, content in definition.sources.items()}
    document = json.dumps(
        {
            "parameters": [asdict(field) for field in definition.parameters],
            "metrics": [asdict(field) for field in definition.metrics],
            "goals": definition.goals,
            "provenance": dict(definition.provenance),
            "notes": dict(definition.notes),
            "sources": {path: digest.hex() for path, digest in hashes.items()},
        }
    )
    _keep(transaction, version.id, document, definition.sources, hashes)
    return version, new_layout


def note_renamed(
    transaction: Transaction, version: int, old: FieldLayout, new: FieldLayout
) -> None:
    """Add an event for new fields that have another name in SQL."""
    rows = [
        (version, None, transaction.now, "name", codec.escape(text))
        for _, text in renamed(old, new)
    ]
    transaction.insert("events", ("version", "digest", "at", "kind", "text"), rows)


def _keep(
    transaction: Transaction,
    version: int,
    document: str,
    sources: Mapping[str, bytes],
    hashes: Mapping[str, bytes],
) -> None:
    """Store *document* and its files, unless it is that of the newest definition."""
    mark = transaction.dialect.mark
    newest = f"SELECT document FROM definitions WHERE version = {mark} ORDER BY id DESC LIMIT 1"
    rows = transaction.sql(
        "INSERT INTO definitions (version, at, document)"
        f" SELECT {mark}, {transaction.dialect.now}, {mark}"
        f" WHERE {mark} <> coalesce(({newest}), '') RETURNING id",
        (version, document, document, version),
    )
    if not rows:
        return
    ((number,),) = rows
    new = {hashes[path]: content for path, content in sources.items()}
    store_contents(transaction, new)
    transaction.insert(
        "sources",
        ("definition", "path", "mode", "content"),
        [(number, path, 0o644, digest) for path, digest in hashes.items()],
    )


def store_contents(transaction: Transaction, contents: Mapping[bytes, bytes]) -> None:
    """Store the bytes of *contents* that the table does not have, by SHA-256."""
    mark = transaction.dialect.mark
    # An output of an attempt may have the same content, which is then in the artifact store.
    transaction.sql_many(
        f"INSERT INTO contents (digest, size, body) VALUES ({mark}, {mark}, {mark})"
        " ON CONFLICT (digest) DO UPDATE SET body = excluded.body WHERE contents.body IS NULL",
        [(digest, len(body), body) for digest, body in sorted(contents.items())],
    )


def definition(transaction: Transaction, name: str, at: float | None) -> StudyDefinition:
    """Return the newest definition, or that at the time *at*; the oldest, if *at* is earlier."""
    version = get_version(transaction, name).id
    mark = transaction.dialect.mark
    query = f"SELECT id, document FROM definitions WHERE version = {mark}"
    if at is None:
        rows = transaction.sql(f"{query} ORDER BY id DESC LIMIT 1", (version,))
    else:
        rows = transaction.sql(
            f"{query} AND at <= {mark} ORDER BY id DESC LIMIT 1", (version, at)
        ) or transaction.sql(f"{query} ORDER BY id LIMIT 1", (version,))
    if not rows:
        raise codec.damage_error()
    ((number, document),) = rows
    sources = transaction.sql(
        "SELECT s.path, c.body FROM sources s JOIN contents c ON c.digest = s.content"
        f" WHERE s.definition = {mark} ORDER BY s.path",
        (number,),
    )
    with codec.decoding():
        stored = codec.parse_object(document)
        return StudyDefinition(
            parameters=tuple(map(_stored_field, stored["parameters"])),
            metrics=tuple(map(_stored_field, stored["metrics"])),
            goals=tuple(map(_stored_goal, stored["goals"])),
            provenance=_object(stored["provenance"]),
            sources={path: bytes(body) for path, body in sources if body is not None},
            notes=_object(stored["notes"]),
        )


def _stored_field(values: Mapping[str, Any]) -> Field:
    """Return a field of a definition's document; TypeError if it is not one."""
    field = Field(**values)
    texts = (field.name, field.unit, field.kind, field.how, field.type or "")
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a field is described by texts")
    return field


def _stored_goal(value: Any) -> Any:
    """Return an objective of a definition: an object, or a pair as in early versions."""
    if not isinstance(value, dict | list):
        raise TypeError("an objective is an object")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("an object stands here")
    return value


COLUMNS = ("version", "digest", "at", "kind", "text")


def add_event(
    transaction: Transaction, version: int, kind: str, text: str, digest: bytes | None = None
) -> None:
    """Add an event."""
    facts = (version, digest, transaction.now, codec.escape(kind), codec.escape(text))
    transaction.insert("events", COLUMNS, [facts])


def study_events(
    transaction: Transaction, name: str, digest: str | None
) -> tuple[RepositoryEvent, ...]:
    """Return the events of a study, or those of one experiment in it."""
    version, mark = get_version(transaction, name).id, transaction.dialect.mark
    query = f"SELECT at, kind, text, digest FROM events WHERE version = {mark}"
    if digest is None:
        rows = transaction.sql(f"{query} ORDER BY id", (version,))
    else:
        condition = f"AND digest = {mark} ORDER BY id"
        rows = transaction.sql(f"{query} {condition}", (version, codec.digest_key(digest)))
    return tuple(
        RepositoryEvent(at, codec.unescape(kind), codec.unescape(text), of and bytes(of).hex())
        for at, kind, text, of in rows
    )


def redactions(transaction: Transaction, study: str, digest: str) -> tuple[RepositoryEvent, ...]:
    """Return when the record of an experiment was redacted, or that of its study."""
    version, mark = get_version(transaction, study).id, transaction.dialect.mark
    rows = transaction.sql(
        f"SELECT at, kind, text, digest FROM events WHERE version = {mark} AND kind = {mark}"
        f" AND (digest = {mark} OR digest IS NULL) ORDER BY id",
        (version, REDACTION_EVENT, codec.digest_key(digest)),
    )
    return tuple(
        RepositoryEvent(at, kind, codec.unescape(text), of and bytes(of).hex())
        for at, kind, text, of in rows
    )


KIND = "round"
"""Kinds of events of rounds."""
_COLUMNS = ("version", "number", "began", "person", "reason", "seed")


def notes(transaction: Transaction, name: str) -> dict[str, Any]:
    """Return the notes of the newest definition; empty if there is no such study."""
    version = find_version(transaction, name)
    if version is None:
        return {}
    rows = transaction.sql(
        f"SELECT document FROM definitions WHERE version = {transaction.dialect.mark}"
        " ORDER BY id DESC LIMIT 1",
        (version.id,),
    )
    return notes_and_sources_of(rows[0][0] if rows else None)[0]


@codec.decoding()
def notes_and_sources_of(document: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the notes and the digests of files in a document of a definition."""
    if document is None:
        raise codec.damage_error()
    stored = codec.parse_object(document)
    sources = _object(stored["sources"])
    return _object(stored["notes"]), {path: str(digest) for path, digest in sources.items()}


def rounds_of(transaction: Transaction, version: StudyVersion) -> tuple[MeasurementRound, ...]:
    """Return the rounds of *version*, oldest first."""
    rounds = rounds_of_versions(transaction, [version.id]).get(version.id)
    return rounds or (_first(transaction, version),)


def rounds_of_versions(
    transaction: Transaction, numbers: Sequence[int]
) -> dict[int, tuple[MeasurementRound, ...]]:
    """Return the rounds of the versions that have rows in ``rounds``, oldest first."""
    rows: dict[int, list[Row]] = defaultdict(list)
    for version, *row in transaction.among_sql(
        "SELECT version, number, began, person, reason, seed FROM rounds WHERE {among}"
        " ORDER BY number",
        "version",
        numbers,
    ):
        rows[int(version)].append(tuple(row))
    repeated = sorted(version for version, rounds in rows.items() if rounds[-1][0] > 1)
    query = (
        f"SELECT version, text FROM events WHERE kind = {transaction.dialect.mark} AND {{among}}"
    )
    ended = {
        (int(version), codec.unescape(text))
        for version, text in transaction.among_sql(query, "version", repeated, [KIND])
    }
    return {
        version: tuple(
            MeasurementRound(
                int(number), began, codec.unescape(person), codec.unescape(reason),
                number == rounds[-1][0] > 1 and (version, _ended(number)) not in ended,
                codec.unescape(seed or ""),
            )
            for number, began, person, reason, seed in rounds
        )
        for version, rounds in rows.items()
    }  # fmt: skip


def begin_round(transaction: Transaction, version: StudyVersion, person: str, reason: str) -> int:
    """Return the number of the open round of *version*; of a new one, if none is open."""
    earlier = rounds_of(transaction, version)
    if earlier[-1].is_open:
        return earlier[-1].number
    number = earlier[-1].number + 1
    begun = MeasurementRound(number, transaction.now, person, reason)
    _add_rounds(transaction, version, (*earlier, begun))
    add_event(transaction, version.id, KIND, f"round {number} begun")
    return number


def _add_rounds(
    transaction: Transaction, version: StudyVersion, rounds: Iterable[MeasurementRound]
) -> None:
    """Insert those of *rounds* that have no row yet."""
    rows = [
        (
            version.id, r.number, r.began, codec.escape(r.person), codec.escape(r.reason),
            codec.escape(r.seed) if r.seed else None,
        )
        for r in rounds
    ]  # fmt: skip
    transaction.insert_new("rounds", _COLUMNS, rows)


def order_seed(transaction: Transaction, version: StudyVersion) -> str:
    """Return the seed of the order of the newest round; empty before a run drew one."""
    mark = transaction.dialect.mark
    rows = transaction.sql(
        f"SELECT seed FROM rounds WHERE version = {mark} AND number = {mark}",
        (version.id, version.round),
    )
    return codec.unescape(rows[0][0] or "") if rows else ""


def draw_order_seed(transaction: Transaction, version: StudyVersion) -> str:
    """Return the seed of the newest round, drawn now unless it has one."""
    mark = transaction.dialect.mark
    # From the system's source, so that the order is independent of anything on the machine.
    drawn = codec.escape(secrets.token_hex(8))
    # A version with one round may have no row yet: see `_first`.
    ((seed,),) = transaction.sql(
        f"INSERT INTO rounds ({', '.join(_COLUMNS)}) SELECT {mark}, {mark}, {mark},"
        f" coalesce((SELECT person FROM leases WHERE version = {mark} ORDER BY id LIMIT 1), ''),"
        f" '', {mark} WHERE true ON CONFLICT (version, number)"
        " DO UPDATE SET seed = coalesce(rounds.seed, excluded.seed) RETURNING seed",
        (version.id, version.round, version.created, version.id, drawn),
    )
    return codec.unescape(seed)


def end_round(transaction: Transaction, version: StudyVersion, number: int) -> None:
    """Note that a round is complete; do nothing if it is not open."""
    newest = rounds_of(transaction, version)[-1]
    if newest.number == number and newest.is_open:
        add_event(transaction, version.id, KIND, _ended(number))


def _ended(number: int) -> str:
    return f"round {number} ended"


def _first(transaction: Transaction, version: StudyVersion) -> MeasurementRound:
    """Return the first round of a version, which has no row until a second one begins."""
    mark = transaction.dialect.mark
    rows = transaction.sql(
        f"SELECT person FROM leases WHERE version = {mark} ORDER BY id LIMIT 1", (version.id,)
    )
    return MeasurementRound(1, version.created, codec.unescape(rows[0][0]) if rows else "")
