"""How a secret leaves the tables: all texts, documents, logs and contents, and what says so.

Which columns there are says the schema: a new one is searched as soon as it is there. Left alone
are those whose words are this program's (``_OWN``). Everything happens in one transaction, to which
an event belongs in each version of a study that had the secret, and one for each experiment.

Digests stay as they are, for they say what ran: whoever has the secret can still verify them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from sqlalchemy import JSON, LargeBinary, String, Table
from sqlalchemy.types import TypeEngine, UserDefinedType

from zenturio.record import codec, leases, result_rows, studies
from zenturio.record.database import Transaction
from zenturio.record.entities import REDACTION_EVENT
from zenturio.record.schema import dialect, tables_of
from zenturio.record.schema_names import SLOT_NAMES
from zenturio.record.secret import Secret
from zenturio.record.study_context import RepositoryCache, StudyContext

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
    for table in tables_of(transaction.dialect.name):
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
        """Views for other programs whose text has the secret, in the name of a field: they go."""
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
                StudyContext.at(transaction, versions[version], RepositoryCache()), numbers
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
