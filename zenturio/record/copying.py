"""Results that another study has, or another version of this one: copied, and never run again.

A copy has the metrics that its own study would have measured in the same way. It names the result
that it was made of, on which logs and artifacts hang, and does not follow it. Copies of the kind
``shared`` are the same experiment; one that is ``equated`` is another one, of another version of
the program, which somebody accepts as equal. A copy of such a copy says so, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from zenturio.experiment.experiment import Experiment
from zenturio.experiment.machine import Kinds
from zenturio.record import claims, codec, former_digests, leases, messages, rows, studies
from zenturio.record.database import Transaction
from zenturio.record.desk import Desk
from zenturio.record.facts import Equality
from zenturio.record.rows import New, Read
from zenturio.record.sharing import shared_metrics
from zenturio.record.studies import Version

_COPY = ("result", "source", "kind", "person", "at", "note")
_EQUATED = "FROM copies c JOIN results r ON r.id = c.result WHERE c.kind = 'equated'"
_BATCH = 2000
"""Copies that are removed at a time."""


class _Origin(NamedTuple):
    """Why a row is a copy, and since when."""

    kind: str
    person: str
    at: float
    note: str


def cached(
    desk: Desk,
    experiments: Sequence[Experiment],
    kinds: Kinds = None,
    round_: int | None = None,
) -> frozenset[str]:
    """Return the digests of those that have an outcome that is usable here.

    What other versions have run has a row in this one afterwards, too.
    """
    by_key = {codec.key(experiment.digest): experiment for experiment in experiments}
    results = claims.results_of(desk.transaction, by_key)
    usable = claims.usable(desk, results, kinds, round_)
    known = {result.digest for result in (usable if round_ is None else results)}
    if former_digests.adopt(desk, [e for key, e in by_key.items() if key not in known]):
        results = claims.results_of(desk.transaction, by_key)
        usable = claims.usable(desk, results, kinds, round_)
    own = {result.digest for result in usable if result.version == desk.version.id}
    others: dict[bytes, claims.Result] = {}
    for result in sorted(usable, key=lambda result: result.rank):
        if result.digest not in own:
            others.setdefault(result.digest, result)
    _copy(desk, list(others.values()), by_key)
    return frozenset(by_key[key].digest for key in own | others.keys())


def _copy(
    desk: Desk, results: Sequence[claims.Result], experiments: Mapping[bytes, Experiment]
) -> None:
    """Add a copy of each of *results* for its experiment, by the keys of *experiments*."""
    transaction = desk.transaction
    numbers_of_versions = {result.version for result in results}
    versions = studies.of_numbers(transaction, numbers_of_versions)
    if len(versions) < len(numbers_of_versions):
        # Nobody could read these results, and no claim is granted beside them.
        raise messages.foreign_rows("it has results of versions that are not there")
    for version in versions.values():
        numbers = sorted(result.id for result in results if result.version == version.id)
        sources = rows.read(transaction, desk.beside(version).layout, "", among=("e.id", numbers))
        shared = _Origin("shared", "", transaction.now, version.name)
        accepted = _acceptances(transaction, numbers)
        _write(
            desk,
            version,
            [(row, experiments[codec.key(row.record.digest)]) for row in sources],
            [accepted.get(row.number, shared) for row in sources],
        )


def _write(
    desk: Desk,
    source: Version,
    pairs: Sequence[tuple[Read, Experiment]],
    origins: Sequence[_Origin],
) -> None:
    """Adds a copy of each of these results of *source* as the outcome of its experiment."""
    transaction, ways = desk.transaction, desk.beside(source).layout.ways
    roots = roots_of(transaction, [row.number for row, _ in pairs])
    new, copies = [], []
    numbers = transaction.numbers(len(pairs))
    for number, (row, experiment), origin in zip(numbers, pairs, origins, strict=True):
        metrics = shared_metrics(row.outcome.metrics, source.name, ways, desk.layout.ways)
        place = transaction.flavour.position(experiment.index), experiment.repeat
        outcome = replace(row.outcome, digest=experiment.digest, metrics=metrics)
        named = experiment.program, experiment.key
        round_ = desk.version.round
        new.append(New(number, *place, round_, experiment.values, outcome, row.lease, *named))
        copies.append((number, roots.get(row.number, row.number), *origin))
    transaction.insert("copies", _COPY, copies)
    rows.write(desk, new, files=False)


def roots_of(transaction: Transaction, numbers: Iterable[int]) -> dict[int, int]:
    """Return the attempt that each of these was copied from, of those that are copies."""
    pairs = transaction.among_sql(
        "SELECT result, source FROM copies WHERE {among}", "result", sorted(set(numbers))
    )
    return {int(number): int(source) for number, source in pairs}


# Results of another version that somebody accepts


def equate(desk: Desk, source: Version, experiments: Mapping[str, Experiment], person: str) -> int:
    """Copies results of *source*, by their digests, as outcomes of the experiments beside them.

    What has an outcome here already keeps it. ConflictError while somebody drives either version.
    """
    transaction = desk.transaction
    leases.refuse_drivers(transaction, (desk.version, source))
    former_digests.adopt(desk, experiments.values())
    wanted = {codec.key(digest): experiment for digest, experiment in experiments.items()}
    layout = desk.beside(source).layout
    found = rows.read(transaction, layout, "AND e.newest = 1", among=("e.digest", sorted(wanted)))
    there = _digests(desk, experiments.values())
    pairs: dict[tuple[str, int], tuple[Read, Experiment]] = {}
    for row in sorted(found, key=lambda row: row.number):
        experiment = wanted[codec.key(row.record.digest)]
        if experiment.digest not in there:  # of two points that are one experiment now, the first
            pairs.setdefault((experiment.digest, row.machine), (row, experiment))
    origin = _Origin("equated", codec.escape(person), transaction.now, source.fixed_name)
    if pairs:
        _write(desk, source, list(pairs.values()), [origin] * len(pairs))
    return len(pairs)


def _digests(desk: Desk, experiments: Iterable[Experiment]) -> frozenset[str]:
    """The digests of those that have a result in this version."""
    found = desk.transaction.among_sql(
        f"SELECT digest FROM results WHERE version = {desk.transaction.flavour.mark} AND {{among}}",
        "digest",
        sorted({codec.key(experiment.digest) for experiment in experiments}),
        (desk.version.id,),
    )
    return frozenset(bytes(digest).hex() for (digest,) in found)


def undo_equate(desk: Desk, source: Version) -> int:
    """Removes what `equate` copied from *source*; how many results of this version it were.

    Where other studies have copies of these, they lose them, too: otherwise they would hand them
    back. ConflictError while somebody drives one of the versions.
    """
    transaction, mark = desk.transaction, desk.transaction.flavour.mark
    leases.refuse_drivers(transaction, (desk.version, source))
    note = source.fixed_name
    own = transaction.sql(
        f"SELECT DISTINCT r.digest {_EQUATED} AND r.version = {mark} AND c.note = {mark}",
        (desk.version.id, note),
    )
    keys = sorted(bytes(digest) for (digest,) in own)
    for start in range(0, len(keys), _BATCH):
        copies = transaction.among_sql(
            f"SELECT r.version, r.id {_EQUATED} AND c.note = {mark} AND {{among}}",
            "r.digest",
            keys[start : start + _BATCH],
            (note,),
        )
        versions = studies.of_numbers(transaction, {version for version, _ in copies})
        leases.refuse_drivers(transaction, versions.values())
        for version in versions.values():
            beside = desk if version.id == desk.version.id else desk.beside(version)
            numbers = sorted(number for of, number in copies if of == version.id)
            transaction.among_sql("DELETE FROM copies WHERE {among}", "result", numbers)
            rows.remove(beside, rows.read(transaction, beside.layout, "", among=("e.id", numbers)))
            rows.note_edit(beside, numbers)
    return len(keys)


def equality(desk: Desk, digest: str) -> Equality | None:
    """Of which version's experiment this one's result is a copy that somebody accepted."""
    transaction, mark = desk.transaction, desk.transaction.flavour.mark
    found = transaction.sql(
        f"SELECT c.note, c.person, c.at, c.source {_EQUATED} AND r.version = {mark}"
        f" AND r.digest = {mark} ORDER BY r.id DESC LIMIT 1",
        (desk.version.id, codec.key(digest)),
    )
    if not found:
        return None
    note, person, at, source = found[0]
    origin = transaction.sql(
        f"SELECT digest FROM results WHERE id = {mark}"
        f" UNION SELECT digest FROM attempts WHERE id = {mark}",
        (source, source),
    )
    of = bytes(origin[0][0]).hex() if origin else ""
    return Equality(note, codec.unescape(person), at, of)


def _acceptances(transaction: Transaction, numbers: Iterable[int]) -> dict[int, _Origin]:
    """Of those results that somebody accepted as equal, who, when, and as equal to what."""
    found: Sequence[Sequence[Any]] = transaction.among_sql(
        "SELECT result, kind, person, at, note FROM copies WHERE kind = 'equated' AND {among}",
        "result",
        sorted(set(numbers)),
    )
    return {int(result): _Origin(*origin) for result, *origin in found}
