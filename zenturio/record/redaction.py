"""Removal of a secret from a repository: tables, artifacts, and the bytes of its file.

1. Artifacts that have it get a second object, without it, beside the first.
2. One transaction takes it from all tables, points their rows to the new objects, and says so.
3. The objects that have it are removed, unless another database still needs them.
4. SQLite writes its file anew: what was overwritten would stand in free pages and in the log.

If it is killed at any moment, the same call resumes it: what it finds is what is still there.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

from sqlalchemy import JSON, LargeBinary, String, Table
from sqlalchemy.types import TypeEngine, UserDefinedType

from zenturio.errors import ConflictError, PlaceError
from zenturio.failpoints import Failpoint
from zenturio.files import make_folder
from zenturio.log_setup import reported
from zenturio.record import codec, leases, maintenance, result_rows, studies, study_views
from zenturio.record.artifact_store import ArtifactStore, make_object_folder, object_path
from zenturio.record.database import Database, Transaction
from zenturio.record.entities import REDACTION_EVENT
from zenturio.record.maintenance import backup_files
from zenturio.record.result_rows import artifact_of
from zenturio.record.schema import dialect, tables_of
from zenturio.record.secret_masking import Secret
from zenturio.record.sql_names import SLOT_NAMES
from zenturio.record.sql_repository import SQLRepository
from zenturio.record.sqlite import SQLite
from zenturio.record.study_transaction import RepositoryCache, StudyTransaction
from zenturio.system.file_systems import sync_files

# Tables: a secret leaves all texts, documents, logs and contents, and an event says so
#
# Which columns there are says the schema: a new one is searched as soon as it is there. Left alone
# are those whose words are this program's (``_OWN``). Everything happens in one transaction, to
# which an event belongs in each version of a study that had the secret, and one for each
# experiment.
#
# Digests stay as they are, for they say what ran: whoever has the secret can still verify them.

_OWN = {
    "projects": {"uuid"},
    "contents": {"digest", "body"},  # bodies change together with their digests
    "sources": {"content"},
    "fields": {"role", "place", "type"},
    "machines": {"digest"},
    "leases": {"token"},
    "claims": {"digest", "position"},
    "results": {"digest", "key", "position", "status"},
    "attempts": {"digest", "position", "state"},
    "artifacts": {"content"},
    "copies": {"kind"},
    "aliases": {"digest", "kind"},
    "counters": {"status"},
    "events": {"digest"},
    "submissions": {"token", "turn"},
    "upgrade": {"step"},
}
_DOCUMENTS = {
    "versions": {"members"},
    "definitions": {"document"},
    "recipes": {"document"},
    "claims": {"point"},
    "results": {"remarks"},
    "chunks": {"doc"},
    "attempts": {"point", "metrics"},
    "conditions": {"other"},
    "machines": {"accelerators"},
    "submissions": {"request", "progress"},
}
"""Columns of JSON."""
_ATTEMPTS = {
    "results": "id", "chunks": "result", "copies": "result", "attempts": "id", "logs": "attempt",
    "artifacts": "attempt", "conditions": "attempt",
}  # fmt: skip
"""Which column has the number of an attempt."""
_STUDIES = {"studies": "id", "fields": "study"}
_OF_VERSIONS = ("definitions", "recipes", "events", "leases", "claims")
_STREAMS = ("stdout", "stderr")
_BATCH = 500
_Kind = Literal["text", "bytes", "json"]


class NewContent(NamedTuple):
    """The object of the store that takes the place of another one."""

    sha256: str
    size: int


@dataclass
class Places:
    """Where the secret was, and whose record that is."""

    tables: Counter[str] = field(default_factory=Counter)
    """Rows that had it."""
    numbers: int = 0
    """Values of results that are a number, and equal to it: these stay."""
    attempts: Counter[int] = field(default_factory=Counter)
    versions: Counter[int] = field(default_factory=Counter)
    studies: set[int] = field(default_factory=set)
    results: set[int] = field(default_factory=set)
    views: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.tables.total()


def redact_rows(
    transaction: Transaction,
    secret: Secret,
    objects: Mapping[str, NewContent],
    person: str | None,
) -> Places:
    """Replace *secret* in all tables; without a *person* only count its places.

    *objects*: what takes the place of contents of the store, by their SHA-256. ConflictError while
    any study has a driver.
    """
    if person is not None:
        leases.refuse_drivers(transaction, studies.all_versions(transaction))
    search = _Search(transaction, secret, Places(), person)
    tables = [*tables_of(transaction.dialect.name)]
    for table in reported("looking for the secret in the tables", tables):
        search.table(table)
    search.contents(objects)
    search.views()
    search.numbers()
    if person is not None and (search.places.total or search.places.views):
        search.tell(person)
    return search.places


@dataclass
class _Search:
    """One search through all tables."""

    transaction: Transaction
    secret: Secret
    places: Places
    person: str | None

    def table(self, table: Table) -> None:
        """All texts of a table, in the order of its keys."""
        own_columns = _OWN.get(table.name, set())
        spoken = dialect(self.transaction.dialect.name)
        kinds = {c.name: _kind(c.type.dialect_impl(spoken)) for c in table.columns}
        columns = {name: kind for name, kind in kinds.items() if kind and name not in own_columns}
        if not columns:
            return
        keys = [column.name for column in table.primary_key.columns]
        condition, parameters = self._condition(columns)
        if table.name == "logs":  # a log may have been cut off within the secret
            condition += "".join(f" OR length({s}_tail) > 0" for s in _STREAMS)
        sizes = [f"{s}_size" for s in _STREAMS] if table.name == "logs" else []
        json = {name for name, kind in columns.items() if kind == "json"}
        as_text = [f"{name}::text" if name in json else name for name in columns]
        select_list = ", ".join((*keys, *as_text, *sizes))
        mark = self.transaction.dialect.mark
        order, after = ", ".join(keys), f"({', '.join([mark] * len(keys))})"
        last: Sequence[Any] = ()
        while True:
            behind = f"({order}) > {after} AND" if last else ""
            rows = self.transaction.sql(
                f"SELECT {select_list} FROM {table.name} WHERE {behind} ({condition})"
                f" ORDER BY {order} LIMIT {_BATCH}",
                (*last, *parameters),
            )
            for row in rows:
                values = dict(zip((*columns, *sizes), row[len(keys) :], strict=True))
                self._row(table.name, dict(zip(keys, row, strict=False)), values, json)
            if len(rows) < _BATCH:
                return
            last = rows[-1][: len(keys)]

    def _condition(self, columns: Mapping[str, _Kind]) -> tuple[str, list[Any]]:
        """Find rows that may have the secret."""
        parts: list[str] = []
        parameters: list[Any] = []
        for name, kind in columns.items():
            holds = self.transaction.dialect.holds_sql(name, kind)
            sought: Sequence[str | bytes] = self.secret.encoded
            if kind != "bytes":
                sought = (*self.secret.spellings, "base64:")
            parts += [holds] * len(sought)
            parameters += sought
        return " OR ".join(parts), parameters

    def _row(
        self, table: str, key: Mapping[str, Any], values: Mapping[str, Any], json: set[str]
    ) -> None:
        documents = _DOCUMENTS.get(table, set())
        if table == "logs":
            without = self._logs(values)
        else:
            without = {name: self._value(v, name in documents) for name, v in values.items()}
        changed = {name: value for name, value in without.items() if value != values[name]}
        if not changed:
            return
        self.places.tables[table] += 1
        self._note(table, key)
        if self.person is None:
            return
        mark = self.transaction.dialect.mark
        marks = {name: f"{mark}::json" if name in json else mark for name in changed}
        self.transaction.sql(
            f"UPDATE {table} SET {', '.join(f'{n} = {m}' for n, m in marks.items())}"
            f" WHERE {' AND '.join(f'{name} = {mark}' for name in key)}",
            (*changed.values(), *key.values()),
        )

    def _value(self, value: Any, is_document: bool) -> Any:
        if isinstance(value, str):
            return self.secret.document(value) if is_document else self.secret.text(value)
        if isinstance(value, bytes | memoryview):
            return self.secret.data(bytes(value))
        return value

    def _logs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        for stream in _STREAMS:
            parts = [values[f"{stream}_{part}"] for part in ("head", "tail", "size")]
            without = self.secret.log(bytes(parts[0]), bytes(parts[1]), parts[2])
            for part, value in zip(("head", "tail", "size"), without, strict=True):
                changes[f"{stream}_{part}"] = value
        return changes

    def _note(self, table: str, key: Mapping[str, Any]) -> None:
        """Whose record a row is part of."""
        places, mark = self.places, self.transaction.dialect.mark
        if table in _ATTEMPTS:
            number = key[_ATTEMPTS[table]]
            places.attempts[number] += 1
            if table in ("results", "chunks"):
                places.results.add(number)
        elif table in _STUDIES:
            places.studies.add(key[_STUDIES[table]])
        elif table == "sources":
            self._of_definition(key["definition"])
        elif table == "versions":
            places.versions[key["id"]] += 1
            query = f"SELECT study FROM versions WHERE id = {mark}"
            places.studies |= {n for (n,) in self.transaction.sql(query, (key["id"],))}
        elif "version" in key:
            places.versions[key["version"]] += 1
        elif table in _OF_VERSIONS:
            query = f"SELECT version FROM {table} WHERE id = {mark}"
            places.versions.update(n for (n,) in self.transaction.sql(query, (key["id"],)))

    def _of_definition(self, number: int) -> None:
        mark = self.transaction.dialect.mark
        query = f"SELECT version FROM definitions WHERE id = {mark}"
        self.places.versions.update(n for (n,) in self.transaction.sql(query, (number,)))

    # Contents

    def contents(self, objects: Mapping[str, NewContent]) -> None:
        """Files of definitions, whose bytes stand here, and artifacts, whose bytes are objects."""
        mark = self.transaction.dialect.mark
        condition, parameters = self._condition({"body": "bytes"})
        digests = self.transaction.sql(
            f"SELECT digest FROM contents WHERE body IS NOT NULL AND ({condition})", parameters
        )
        for (digest,) in digests:
            ((body,),) = self.transaction.sql(
                f"SELECT body FROM contents WHERE digest = {mark}", (digest,)
            )
            without = self.secret.data(bytes(body))
            new = NewContent(sha256(without).hexdigest(), len(without))
            self._replace(bytes(digest), new, without)
        stored = [bytes.fromhex(sha) for sha in objects]
        present = self.transaction.among_sql(
            "SELECT digest FROM contents WHERE {among}", "digest", stored
        )
        for (digest,) in present:
            self._replace(bytes(digest), objects[bytes(digest).hex()], None)

    def _replace(self, old: bytes, new: NewContent, body: bytes | None) -> None:
        """Points all that has a content to another one."""
        sql, mark = self.transaction.sql, self.transaction.dialect.mark
        self.places.tables["contents"] += 1
        for (definition,) in sql(f"SELECT definition FROM sources WHERE content = {mark}", (old,)):
            self._of_definition(definition)
        query = f"SELECT attempt FROM artifacts WHERE content = {mark}"
        self.places.attempts.update(number for (number,) in sql(query, (old,)))
        if self.person is None:
            return
        digest = bytes.fromhex(new.sha256)
        row = (digest, new.size, body)
        self.transaction.insert_new("contents", ("digest", "size", "body"), [row])
        if body is not None:
            sql(f"UPDATE contents SET body = {mark} WHERE digest = {mark}", (body, digest))
        # The document names the contents of its sources, for salvage.
        sql(
            f"UPDATE definitions SET document = replace(document, {mark}, {mark})"
            f" WHERE id IN (SELECT definition FROM sources WHERE content = {mark})",
            (old.hex(), new.sha256, old),
        )
        sql(f"UPDATE sources SET content = {mark} WHERE content = {mark}", (digest, old))
        sql(
            f"UPDATE artifacts SET content = {mark}, size = {mark} WHERE content = {mark}",
            (digest, new.size, old),
        )
        sql(f"DELETE FROM contents WHERE digest = {mark}", (old,))

    # What is not in rows of ours

    def views(self) -> None:
        """Drop views for other programs that contain the secret in the name of a field."""
        for name, text in self.transaction.sql(self.transaction.dialect.view_texts):
            if self.secret.text(text) != text:
                self.places.views.append(name)
                if self.person is not None:
                    self.transaction.sql(f"DROP VIEW IF EXISTS {name}")
        if self.places.views and self.person is not None:
            self.transaction.sql("UPDATE studies SET view_revision = NULL")

    def numbers(self) -> None:
        """Values that are equal to a secret that is a number."""
        dialect = self.transaction.dialect
        for number in self.secret.numbers:
            is_whole = isinstance(number, int) and -(2**63) <= number < 2**63
            slots = [
                name
                for name in SLOT_NAMES[dialect.name]
                if name[0] == "v" or name[0] == "r" or (name[0] == "i" and is_whole)
            ]
            value = number if is_whole else float(number)
            condition = " OR ".join(f"{slot} = {dialect.mark}" for slot in slots)
            query = f"SELECT count(*) FROM results WHERE {condition}"
            ((count,),) = self.transaction.sql(query, [value] * len(slots))
            self.places.numbers += count

    # What says so

    def tell(self, person: str) -> None:
        """Events, and what caches and other processes have to read again."""
        transaction, places = self.transaction, self.places
        versions = {version.id: version for version in studies.all_versions(transaction)}
        of_studies = {v.id for v in versions.values() if v.study in places.studies}
        counts: Counter[int] = Counter({v: n for v, n in places.versions.items() if v in versions})
        counts.update(of_studies)
        experiments: Counter[tuple[int, bytes]] = Counter()
        edited: dict[int, list[int]] = {}
        for number, version, digest in _experiments(transaction, places.attempts):
            counts[version] += places.attempts[number]
            experiments[version, digest] += places.attempts[number]
            if number in places.results:
                edited.setdefault(version, []).append(number)
        if not counts and versions:
            counts[max(versions)] = (
                places.total
            )  # it is in none of them; the record says so, somewhere
        events: list[tuple[int, bytes | None, int]] = [
            (version, None, count) for version, count in sorted(counts.items())
        ]
        events += [(version, key, count) for (version, key), count in sorted(experiments.items())]
        now = transaction.now
        transaction.insert(
            "events",
            studies.COLUMNS,
            [
                (v, key, now, REDACTION_EVENT, codec.escape(_words(n, person)))
                for v, key, n in events
            ],
        )
        for version, numbers in edited.items():
            result_rows.record_edit(
                StudyTransaction.at(transaction, versions[version], RepositoryCache()), numbers
            )
        mark = transaction.dialect.mark
        transaction.sql_many(
            f"UPDATE studies SET revision = revision + 1 WHERE id = {mark}",
            [(study,) for study in sorted(places.studies)],
        )


def _words(count: int, person: str) -> str:
    return f"{count:,} {'place' if count == 1 else 'places'} by {person}"


def _experiments(transaction: Transaction, attempts: Iterable[int]) -> set[tuple[int, int, bytes]]:
    """Of attempts by their numbers: the versions and digests of all that show what these left."""
    attempt_ids = sorted(attempts)
    rows: list[Any] = []
    for table in ("results", "attempts"):
        query = f"SELECT id, version, digest FROM {table} WHERE {{among}}"
        rows += transaction.among_sql(query, "id", attempt_ids)
    rows += transaction.among_sql(
        "SELECT c.source, r.version, r.digest FROM copies c JOIN"
        " (SELECT id, version, digest FROM results UNION ALL"
        " SELECT id, version, digest FROM attempts) r ON r.id = c.result WHERE {among}",
        "c.source",
        attempt_ids,
    )
    return {(int(number), int(version), bytes(digest)) for number, version, digest in rows}


def _kind(column: TypeEngine[Any]) -> _Kind | None:
    """Return how a column is searched; not at all if it holds numbers alone."""
    if isinstance(column, JSON):
        return "json"
    if isinstance(column, LargeBinary):
        return "bytes"
    return "text" if isinstance(column, String | UserDefinedType) else None


# Tables, artifacts and the file of a database together

WRITTEN = Failpoint("redact.written")
RECORDED = Failpoint("redact.recorded")
REMOVED = Failpoint("redact.removed")
COMPACTED = Failpoint("redact.compacted")

LARGEST_HOLES = 2**30
"""Bytes of holes in a file that are written anew; files with more of them are only named."""

_FILES = (
    "SELECT a.path, a.size, a.content, c.foreign_path, a.mode, coalesce(r.digest, t.digest)"
    " FROM artifacts a JOIN contents c ON c.digest = a.content"
    " LEFT JOIN results r ON r.id = a.attempt LEFT JOIN attempts t ON t.id = a.attempt"
    " WHERE c.foreign_path IS NOT NULL"
)


@dataclass(frozen=True, slots=True)
class Redaction:
    """Where a secret was in a repository."""

    tables: Mapping[str, int]
    """By table: how many of its rows."""
    numbers: int
    """Recorded numbers that are equal to it, which stay."""
    artifacts: tuple[Path, ...]
    """Files of the project's store, which have given way to others."""
    foreign: tuple[Path, ...]
    """Files of artifacts that stay: outside of the project, with large holes, or needed by another
    database."""
    copies: tuple[Path, ...]
    """Copies of the database, which may have it."""
    server: bool
    """Whether a server keeps the files of the database, and removes old rows in its own time."""
    schemas: tuple[str, ...]
    """Schemas of the server that upgrades left as copies, which may have it."""


@dataclass
class _AffectedArtifacts:
    """Artifacts that have the secret."""

    new: dict[str, NewContent] = field(default_factory=dict)
    paths: dict[str, list[Path]] = field(default_factory=dict)
    foreign: list[Path] = field(default_factory=list)


def redact(url: str | Path | None, secret: Secret, person: str | None) -> Redaction:
    """Remove *secret* from the repository at *url*; without a *person* only look for it.

    ConflictError while a study has a driver, or somebody reads the file of the database so that it
    cannot be written anew; the latter says that all else is done.
    """
    with maintenance.opened(url) as (database, store):
        with store.alone():
            files = _artifacts(database, store, secret, really=person is not None)
            WRITTEN()
            within = database.read if person is None else database.write
            places = within(lambda t: redact_rows(t, secret, files.new, person))
            RECORDED()
            if person is not None:
                files.foreign += _remove(SQLRepository(database, store), files)
                REMOVED()
        if person is not None:
            from zenturio.record.columnar_copy import remove_copies  # noqa: PLC0415 - loads NumPy

            remove_copies()
            _refresh_views(database, places)
            _compact(database)
            COMPACTED()
        dialect = database.dialect
        return Redaction(
            dict(places.tables),
            places.numbers,
            tuple(sorted(path for paths in files.paths.values() for path in paths)),
            tuple(sorted(set(files.foreign))),
            backup_files(url),
            not isinstance(dialect, SQLite),
            () if isinstance(dialect, SQLite) else database.read(_left_by_upgrades),
        )


def _left_by_upgrades(transaction: Transaction) -> tuple[str, ...]:
    """Return the schemas in which a server has the tables of before."""
    rows = transaction.sql(
        "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, current_schema() || '_')"
        " AND substr(nspname, length(current_schema()) + 2) ~ '^[0-9]{4}(_[0-9]+)?$' ORDER BY 1"
    )
    return tuple(name for (name,) in rows)


def contains_secret(path: Path, secret: Secret) -> bool:
    """Return whether the file has *secret*; one that cannot be read has not.

    Holes are not read: a sparse file may claim any size.
    """
    with suppress(OSError), path.open("rb") as file:
        for begin, end in _extents(file.fileno()):
            offset = begin - begin % mmap.ALLOCATIONGRANULARITY
            with mmap.mmap(
                file.fileno(), end - offset, access=mmap.ACCESS_READ, offset=offset
            ) as data:
                if secret.is_in(data):
                    return True
    return False


def has_large_holes(path: Path) -> bool:
    """Return whether a copy of the file would take far more of the disk than the file does."""
    status = path.stat()
    return status.st_size - status.st_blocks * 512 > LARGEST_HOLES


def _extents(descriptor: int) -> Iterator[tuple[int, int]]:
    """Yield where the bytes of a file begin and end that are not in holes."""
    end, size = 0, os.fstat(descriptor).st_size
    while end < size:
        try:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole is left
                return
            begin, end = end, size  # a file system that knows no holes
        yield begin, end


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap | bytes]:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


def _artifacts(
    database: Database, store: ArtifactStore, secret: Secret, *, really: bool
) -> _AffectedArtifacts:
    """Return the files that have the secret; *really* writes an object without it for each."""
    files = _AffectedArtifacts()
    label = "looking for the secret in the artifacts"
    for sha, name in reported(label, [*store.objects(young=-1)]):
        path = Path(name)
        if contains_secret(path, secret):
            if has_large_holes(path):
                files.foreign.append(path)
            else:
                files.paths.setdefault(sha, []).append(path)
    for *facts, digest in database.read(lambda transaction: transaction.sql(_FILES)):
        artifact = store.located(artifact_of(*facts), bytes(digest or b"").hex())
        if contains_secret(artifact.kept, secret):
            if store.owns(artifact.kept) and not has_large_holes(artifact.kept):
                files.paths.setdefault(artifact.sha256, []).append(artifact.kept)
            else:
                files.foreign.append(artifact.kept)
    for sha, paths in files.paths.items():
        files.new[sha] = _without(store, paths[0], secret) if really else NewContent(sha, 0)
    if really and files.new:
        sync_files(store.root, [object_path(store.root, n.sha256) for n in files.new.values()])
    return files


def _without(store: ArtifactStore, path: Path, secret: Secret) -> NewContent:
    """Return an object with the content of *path* without the secret."""
    digest, size = hashlib.sha256(), 0
    draft = store.root / f".{secrets.token_hex(8)}"
    try:
        make_folder(store.root.parent, store.root.name)
        with _mapped(path) as data, draft.open("wb") as file:
            for piece in secret.pieces(data):
                digest.update(piece)
                size += file.write(piece)
        draft.chmod(path.stat().st_mode & 0o555)
        target = object_path(store.root, digest.hexdigest())
        make_object_folder(target)
        draft.replace(target)
    except OSError as error:
        raise PlaceError(
            f"cannot write artifacts anew: {error.filename or path}: {error.strerror}",
            hint="make room on the disk, and redact again",
        ) from error
    finally:
        draft.unlink(missing_ok=True)
    return NewContent(digest.hexdigest(), size)


def _remove(repository: SQLRepository, files: _AffectedArtifacts) -> list[Path]:
    """Remove what has the secret; what another database needs stays, and is the answer."""
    needed = maintenance.needed_contents(repository, files.paths)
    gone: Iterable[Path] = [p for sha in files.paths.keys() - needed for p in files.paths[sha]]
    repository.store.remove(map(str, gone))
    return [path for sha in needed for path in files.paths.pop(sha)]


def _refresh_views(database: Database, places: Places) -> None:
    """Make the views again that had the secret in them."""
    if places.views:
        for version in database.read(studies.all_versions):
            if version.current == version.id:
                study_views.refresh_views(database, RepositoryCache(), version.name)


def _compact(database: Database) -> None:
    database.close()  # our own connections read, too
    dialect = database.dialect
    if isinstance(dialect, SQLite) and not dialect.compact():
        raise ConflictError(
            f"{dialect.location} is being read, so its file still contains the removed text",
            hint="close the programs that read it (zen portal, sqlite3), and run the same "
            "command again",
        )
