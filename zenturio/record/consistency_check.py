"""The invariants of a repository, as queries that must find nothing, whatever was killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from zenturio.record import studies
from zenturio.record.database import Database, Transaction
from zenturio.record.entities import OUTCOME_STATES
from zenturio.record.field_layout import FieldLocation
from zenturio.record.stored_value_check import foreign_slots, foreign_values

_STATES = ", ".join(f"'{state}'" for state in sorted(OUTCOME_STATES))
_MISSING = "NOT EXISTS (SELECT 1 FROM {table} o WHERE o.{column} = t.{own})"


def _lost(table: str, reference: str, *targets: tuple[str, str]) -> str:
    """Return a query that counts rows of *table* whose *reference* no target column holds."""
    nowhere = " AND ".join(
        _MISSING.format(table=target, column=column, own=reference) for target, column in targets
    )
    return f"SELECT count(*) FROM {table} t WHERE {nowhere}"


_TRIED = (("results", "id"), ("attempts", "id"), ("claims", "id"), ("copies", "source"))

_LAWS = {
    "results in a state that there is not": (
        f"SELECT count(*) FROM results WHERE status NOT IN ({_STATES})"
    ),
    "results without an attempt": "SELECT count(*) FROM results WHERE attempt < 1",
    "results that are marked as the newest, or not, against their rounds": (
        "SELECT count(*) FROM results t WHERE (newest = 1) = EXISTS (SELECT 1 FROM results o"
        " WHERE o.digest = t.digest AND o.version = t.version AND o.round > t.round"
        " AND (o.machine = t.machine OR t.machine = 0))"
    ),
    "results of rounds that nobody began": (
        "SELECT count(*) FROM results t WHERE round > 1 AND NOT EXISTS"
        " (SELECT 1 FROM rounds o WHERE o.version = t.version AND o.number = t.round)"
    ),
    "claims of drivers that have no lease": (
        "SELECT count(*) FROM claims t WHERE NOT EXISTS"
        " (SELECT 1 FROM leases o WHERE o.id = t.lease AND o.ended IS NULL)"
    ),
    # What other versions or kinds of machine have measured may be claimed: `claims.usable_results`.
    "claims on experiments that their driver has recorded": (
        "SELECT count(*) FROM claims t WHERE EXISTS (SELECT 1 FROM results o WHERE"
        " o.digest = t.digest AND o.round = t.round AND o.version = t.version"
        " AND o.lease = t.lease AND o.attempt = t.attempt)"
    ),
    "numbers of attempts that are there twice": (
        "SELECT count(*) FROM attempts t WHERE EXISTS (SELECT 1 FROM results o WHERE o.id = t.id)"
        " OR EXISTS (SELECT 1 FROM claims o WHERE o.id = t.id)"
    ),
    **{
        f"{table} of versions that are not there": (
            f"{_lost(table, 'version', ('versions', 'id'))} AND t.version <> {studies.NO_VERSION}"
        )
        for table in (
            "results", "claims", "attempts", "leases", "definitions", "recipes", "events",
            "counters", "edits", "rounds",
        )
    },
    "versions of studies that are not there": _lost("versions", "study", ("studies", "id")),
    "fields of studies that are not there": _lost("fields", "study", ("studies", "id")),
    "studies whose present version is not there": (
        "SELECT count(*) FROM studies t WHERE current > 0 AND NOT EXISTS"
        " (SELECT 1 FROM versions o WHERE o.id = t.current AND o.study = t.id)"
    ),
    "chunks of results that are not there": _lost("chunks", "result", ("results", "id")),
    "copies that are not there": _lost("copies", "result", ("results", "id"), ("attempts", "id")),
    "aliases of results that are not there": _lost("aliases", "result", ("results", "id")),
    **{
        f"{table} of attempts that are not there": _lost(table, "attempt", *_TRIED)
        for table in ("logs", "artifacts", "conditions")
    },
    "artifacts whose content is not known": _lost("artifacts", "content", ("contents", "digest")),
    "sources whose content is not known": _lost("sources", "content", ("contents", "digest")),
    "sources of definitions that are not there": _lost(
        "sources", "definition", ("definitions", "id")
    ),
    "results of hosts that are not known": _lost("results", "host", ("hosts", "id")),
    "results of machines that are not known": (
        f"{_lost('results', 'machine', ('machines', 'id'))} AND t.machine <> 0"
    ),
}  # fmt: skip

_COUNTED = "SELECT version, machine, round, status, count FROM counters WHERE count <> 0"
_COUNT = "SELECT version, machine, round, status, count(*) FROM results GROUP BY 1, 2, 3, 4"


def check_consistency(database: Database) -> list[str]:
    """Return everything that is wrong, in words."""
    return database.read(lambda transaction: list(_found(transaction)))


def _found(transaction: Transaction) -> Iterator[str]:
    for (message,) in transaction.sql(transaction.dialect.self_check):
        if message != "ok":
            yield str(message)
    if transaction.dialect.name == "sqlite" and (foreign := foreign_values(transaction)):
        yield from foreign
        return  # what follows reads these values
    if transaction.dialect.name == "sqlite":
        yield from foreign_slots(transaction)
    for law, statement in _LAWS.items():
        ((count,),) = transaction.sql(statement)
        if count:
            yield f"{count} {law}"
    yield from _counters(transaction)
    yield from _places(transaction)


def _counters(transaction: Transaction) -> Iterator[str]:
    """Counters agree with what they count."""
    names = {version.id: version.name for version in studies.all_versions(transaction)}
    counted = Counter({tuple(row[:4]): int(row[4]) for row in transaction.sql(_COUNTED)})
    counts = Counter({tuple(row[:4]): int(row[4]) for row in transaction.sql(_COUNT)})
    for key in sorted(counted.keys() | counts.keys()):
        if counted[key] != counts[key]:
            name, status = names.get(key[0], key[0]), key[3]
            stored, actual = counted[key], counts[key]
            yield f"study {name!r} counts {stored} experiments as {status} and has {actual}"


def _places(transaction: Transaction) -> Iterator[str]:
    """No two fields of a study have the same place."""
    taken: Counter[tuple[int, str]] = Counter()
    for study, text in transaction.sql("SELECT study, place FROM fields"):
        place = FieldLocation.parse(text)
        taken.update((study, slot) for slot in place.slots)
        if place.chunk is not None:
            taken[study, f"c{place.chunk}"] += 1
    for (study, place_name), count in taken.items():
        if count > 1:
            yield f"{count} fields of study number {study} stand at {place_name}"
