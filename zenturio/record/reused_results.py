"""Copies of results that other studies or versions have, instead of running them again.

A copy has the metrics that its own study would have measured in the same way. It names the result
that it was made of, on which logs and artifacts hang, and does not follow it. Copies of the kind
``shared`` are the same experiment; one that is ``equated`` is another one, of another version of
the program, which somebody accepts as equal. A copy of such a copy says so, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from zenturio.experiment.experiment import Experiment, Kinds, MachineKind
from zenturio.record import codec, leases, repository, result_rows, studies, study_transaction
from zenturio.record.database import Transaction
from zenturio.record.entities import CachedResults, EquatedResult, shared_metrics
from zenturio.record.result_rows import NewResult, StoredResult
from zenturio.record.schema_version import FORMER
from zenturio.record.studies import StudyVersion
from zenturio.record.study_transaction import StudyTransaction

# Results with digests of an earlier format
#
# A format of digests is a matter of the program, not of the tables: what a digest was computed from
# is not in the repository, so an upgrade cannot compute it again. A repository of that time has a
# mark. Where it stands, experiments come with their former digests, too, and results that are found
# by these take the present ones. The former ones stay as aliases.


def adopt_former_digests(context: StudyTransaction, experiments: Iterable[Experiment]) -> bool:
    """Give what is there under the former digests of *experiments* the present ones.

    In every version, for a digest names the same experiment in all of them; whether there was any.
    """
    transaction, mark = context.transaction, context.transaction.dialect.mark
    present = {
        codec.digest_key(experiment.former): experiment
        for experiment in experiments
        if experiment.former
    }
    results = transaction.among_sql(
        "SELECT digest, id, version FROM results WHERE {among}", "digest", sorted(present)
    )
    tried = transaction.among_sql(
        "SELECT DISTINCT digest FROM attempts WHERE {among}", "digest", sorted(present)
    )
    former = {bytes(digest) for digest, *_ in (*results, *tried)}
    if not former:
        return False
    transaction.sql_many(
        # A row that has the present digest already wins: nothing is lost, and none is there twice.
        f"UPDATE results SET digest = {mark}, key = {mark} WHERE digest = {mark} AND NOT EXISTS"
        f" (SELECT 1 FROM results o WHERE o.digest = {mark} AND o.version = results.version"
        " AND o.round = results.round AND o.machine = results.machine)",
        [
            (
                codec.digest_key(present[old].digest),
                present[old].key or None,
                old,
                codec.digest_key(present[old].digest),
            )
            for old in sorted(former)
        ],
    )
    # What refers to experiments by digest, not by the id of a result, follows them.
    for table in ("attempts", "events"):
        pairs = [(codec.digest_key(present[old].digest), old) for old in sorted(former)]
        transaction.sql_many(f"UPDATE {table} SET digest = {mark} WHERE digest = {mark}", pairs)
    aliases = [(bytes(digest), number, FORMER) for digest, number, _ in results]
    transaction.insert_new("aliases", ("digest", "result", "kind"), aliases)
    _note_edits(context, {int(number): int(version) for _, number, version in results})
    _set_recipes(context, [present[old] for old in sorted(former)])
    return True


def _note_edits(context: StudyTransaction, versions: Mapping[int, int]) -> None:
    """Tell caches of each version which results they have to read again."""
    for version in studies.versions_by_id(context.transaction, set(versions.values())).values():
        beside = context if version.id == context.version.id else context.beside(version)
        result_rows.record_edit(
            beside, [number for number, of in versions.items() if of == version.id]
        )


def _set_recipes(context: StudyTransaction, experiments: Iterable[Experiment]) -> None:
    """Change recipes in this version only: others have their own."""
    by_recipe: dict[int, list[bytes]] = {}
    for experiment in experiments:
        number = result_rows.recipe_number(context, experiment.program)
        if number is not None:
            by_recipe.setdefault(number, []).append(codec.digest_key(experiment.digest))
    mark = context.transaction.dialect.mark
    for number, keys in by_recipe.items():
        context.transaction.among_sql(
            f"UPDATE results SET recipe = {mark} WHERE version = {mark} AND {{among}}",
            "digest",
            sorted(keys),
            (number, context.version.id),
        )


# Copies

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


def cached_digests(
    context: StudyTransaction,
    experiments: Sequence[Experiment],
    kinds: Kinds = None,
    round_: int | None = None,
) -> CachedResults:
    """Return which of *experiments* have an outcome that is usable here.

    What other versions have run has a row in this one afterwards, too.
    """
    by_key = {codec.digest_key(experiment.digest): experiment for experiment in experiments}
    results = leases.results_of(context.transaction, by_key)
    usable = leases.usable_results(context, results, kinds, round_)
    finished = {result.digest for result in (usable if round_ is None else results)}
    # Only what is not found is looked for under its former digest, and only in old repositories.
    if adopt_former_digests(context, [e for key, e in by_key.items() if key not in finished]):
        results = leases.results_of(context.transaction, by_key)
        usable = leases.usable_results(context, results, kinds, round_)
    # Of what others have, one result each is copied: the one that ranks first.
    own_digests = {result.digest for result in usable if result.version == context.version.id}
    from_others: dict[bytes, leases.ResultSummary] = {}
    for result in sorted(usable, key=lambda result: result.rank):
        if result.digest not in own_digests:
            from_others.setdefault(result.digest, result)
    _copy(context, list(from_others.values()), by_key)
    cached = own_digests | from_others.keys()
    unused = [] if kinds is None or round_ is not None else results
    elsewhere = _machines_of_others(
        context.transaction, [r for r in unused if r.digest not in cached], kinds
    )
    return CachedResults(
        frozenset(by_key[key].digest for key in cached),
        {by_key[key].digest: machine for key, machine in elsewhere.items()},
    )


def _machines_of_others(
    transaction: Transaction, results: Sequence[leases.ResultSummary], kinds: Kinds
) -> dict[bytes, MachineKind]:
    """Return the machine of the best result of each experiment on none of *kinds*, if known."""
    # What is not used may be of these kinds, too: another version's failure that was refused here.
    of_kinds = {result.id for result in leases.results_for_machine(transaction, results, kinds)}
    best: dict[bytes, int] = {}
    for result in sorted(results, key=lambda result: result.rank):
        if result.is_newest and result.id not in of_kinds:
            best.setdefault(result.digest, result.machine)
    machines = study_transaction.machines_of(transaction, best.values())
    return {key: machines[number] for key, number in best.items() if number in machines}


def _copy(
    context: StudyTransaction,
    results: Sequence[leases.ResultSummary],
    experiments: Mapping[bytes, Experiment],
) -> None:
    """Add a copy of each of *results* for its experiment, by the keys of *experiments*."""
    transaction = context.transaction
    numbers_of_versions = {result.version for result in results}
    versions = studies.versions_by_id(transaction, numbers_of_versions)
    if len(versions) < len(numbers_of_versions):
        # Nobody could read these results, and no claim is granted beside them.
        raise repository.foreign_rows("it has results of versions that are not there")
    for version in versions.values():
        numbers = sorted(result.id for result in results if result.version == version.id)
        sources = result_rows.read_results(
            transaction, context.beside(version).layout, "", among=("e.id", numbers)
        )
        shared = _Origin("shared", "", transaction.now, version.name)
        accepted = _acceptances(transaction, numbers)
        _write(
            context,
            version,
            [(row, experiments[codec.digest_key(row.record.digest)]) for row in sources],
            [accepted.get(row.number, shared) for row in sources],
        )


def _write(
    context: StudyTransaction,
    source: StudyVersion,
    pairs: Sequence[tuple[StoredResult, Experiment]],
    origins: Sequence[_Origin],
) -> None:
    """Add a copy of each of these results of *source* as the outcome of its experiment."""
    transaction, metric_sources = context.transaction, context.beside(source).layout.metric_sources
    # A copy of a copy refers to the attempt that was run: only that one has logs and artifacts.
    roots = roots_of(transaction, [row.number for row, _ in pairs])
    new, copies = [], []
    numbers = transaction.numbers(len(pairs))
    for number, (row, experiment), origin in zip(numbers, pairs, origins, strict=True):
        metrics = shared_metrics(
            row.outcome.metrics, source.name, metric_sources, context.layout.metric_sources
        )
        place = transaction.dialect.position(experiment.index), experiment.repeat
        outcome = replace(row.outcome, digest=experiment.digest, metrics=metrics)
        identity = experiment.program, experiment.key
        round_ = context.version.round
        new.append(
            NewResult(number, *place, round_, experiment.values, outcome, row.lease, *identity)
        )
        copies.append((number, roots.get(row.number, row.number), *origin))
    transaction.insert("copies", _COPY, copies)
    result_rows.write_results(context, new, files=False)


def roots_of(transaction: Transaction, numbers: Iterable[int]) -> dict[int, int]:
    """Return the attempt that each of these was copied from, of those that are copies."""
    pairs = transaction.among_sql(
        "SELECT result, source FROM copies WHERE {among}", "result", sorted(set(numbers))
    )
    return {int(number): int(source) for number, source in pairs}


# Results of another version that somebody accepts


def equate(
    context: StudyTransaction,
    source: StudyVersion,
    experiments: Mapping[str, Experiment],
    person: str,
) -> int:
    """Copy results of *source*, by their digests, as outcomes of the experiments beside them.

    What has an outcome here already keeps it. ConflictError while somebody drives either version.
    """
    transaction = context.transaction
    leases.refuse_drivers(transaction, (context.version, source))
    adopt_former_digests(context, experiments.values())
    by_key = {codec.digest_key(digest): experiment for digest, experiment in experiments.items()}
    layout = context.beside(source).layout
    results = result_rows.read_results(
        transaction, layout, "AND e.newest = 1", among=("e.digest", sorted(by_key))
    )
    present = _digests(context, experiments.values())
    pairs: dict[tuple[str, int], tuple[StoredResult, Experiment]] = {}
    for row in sorted(results, key=lambda row: row.number):
        experiment = by_key[codec.digest_key(row.record.digest)]
        if experiment.digest not in present:  # of two points that are one experiment now, the first
            pairs.setdefault((experiment.digest, row.machine), (row, experiment))
    origin = _Origin("equated", codec.escape(person), transaction.now, source.fixed_name)
    if pairs:
        _write(context, source, list(pairs.values()), [origin] * len(pairs))
    return len(pairs)


def _digests(context: StudyTransaction, experiments: Iterable[Experiment]) -> frozenset[str]:
    """Return the digests of those that have a result in this version."""
    mark = context.transaction.dialect.mark
    rows = context.transaction.among_sql(
        f"SELECT digest FROM results WHERE version = {mark} AND {{among}}",
        "digest",
        sorted({codec.digest_key(experiment.digest) for experiment in experiments}),
        (context.version.id,),
    )
    return frozenset(bytes(digest).hex() for (digest,) in rows)


def undo_equate(context: StudyTransaction, source: StudyVersion) -> int:
    """Remove what `equate` copied from *source*; return how many results that were here.

    Where other studies have copies of these, they lose them, too: otherwise they would hand them
    back. ConflictError while somebody drives one of the versions.
    """
    transaction, mark = context.transaction, context.transaction.dialect.mark
    leases.refuse_drivers(transaction, (context.version, source))
    note = source.fixed_name
    own_copies = transaction.sql(
        f"SELECT DISTINCT r.digest {_EQUATED} AND r.version = {mark} AND c.note = {mark}",
        (context.version.id, note),
    )
    keys = sorted(bytes(digest) for (digest,) in own_copies)
    # Versions that copied from this one are locked as they are met: which ones, the rows tell.
    for start in range(0, len(keys), _BATCH):
        copies = transaction.among_sql(
            f"SELECT r.version, r.id {_EQUATED} AND c.note = {mark} AND {{among}}",
            "r.digest",
            keys[start : start + _BATCH],
            (note,),
        )
        versions = studies.versions_by_id(transaction, {version for version, _ in copies})
        leases.refuse_drivers(transaction, versions.values())
        for version in versions.values():
            beside = context if version.id == context.version.id else context.beside(version)
            numbers = sorted(number for of, number in copies if of == version.id)
            transaction.among_sql("DELETE FROM copies WHERE {among}", "result", numbers)
            result_rows.remove_results(
                beside,
                result_rows.read_results(transaction, beside.layout, "", among=("e.id", numbers)),
            )
            result_rows.record_edit(beside, numbers)
    return len(keys)


def equated_result(context: StudyTransaction, digest: str) -> EquatedResult | None:
    """Return the experiment of which this one's result is an accepted copy, if it is one."""
    transaction, mark = context.transaction, context.transaction.dialect.mark
    rows = transaction.sql(
        f"SELECT r.id, c.note, c.person, c.at, c.source {_EQUATED} AND r.version = {mark}"
        f" AND r.digest = {mark}",
        (context.version.id, codec.digest_key(digest)),
    )
    if not rows:
        return None
    # Not by ORDER BY and LIMIT: SQLite would walk through all results of the version for it.
    _, note, person, at, source = max(rows, key=lambda row: row[0])
    origin = transaction.sql(
        f"SELECT digest FROM results WHERE id = {mark}"
        f" UNION SELECT digest FROM attempts WHERE id = {mark}",
        (source, source),
    )
    of = bytes(origin[0][0]).hex() if origin else ""
    return EquatedResult(note, codec.unescape(person), at, of)


def _acceptances(transaction: Transaction, numbers: Iterable[int]) -> dict[int, _Origin]:
    """Return who accepted these results, when, and as equal to what."""
    rows: Sequence[Sequence[Any]] = transaction.among_sql(
        "SELECT result, kind, person, at, note FROM copies WHERE kind = 'equated' AND {among}",
        "result",
        sorted(set(numbers)),
    )
    return {int(result): _Origin(*origin) for result, *origin in rows}
