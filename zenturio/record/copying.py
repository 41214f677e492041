"""Results that another study has, or another version of this one: copied, and never run again.

A copy has the metrics that its own study would have measured in the same way. It names the result
that it was made of, on which logs and artifacts hang, and does not follow it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from zenturio.experiment.experiment import Experiment
from zenturio.record import codec, rows, studies
from zenturio.record.database import Transaction
from zenturio.record.desk import Desk
from zenturio.record.rows import New
from zenturio.record.sharing import shared_metrics
from zenturio.record.tally import ROUND

_COPY = ("result", "source", "kind", "person", "at", "note")


def cached(desk: Desk, experiments: Sequence[Experiment]) -> frozenset[str]:
    """The digests of those that have an outcome; what others have run has a row here, too, then."""
    wanted = {codec.key(experiment.digest): experiment for experiment in experiments}
    found = desk.transaction.among_sql(
        f"SELECT digest, version, id FROM results WHERE round = {ROUND} AND {{among}}",
        "digest",
        sorted(wanted),
    )
    own = {bytes(digest) for digest, version, _ in found if version == desk.version.id}
    others: dict[bytes, tuple[int, int]] = {}
    for digest, version, number in sorted(found, key=lambda row: -row[2]):
        if bytes(digest) not in own:
            others[bytes(digest)] = (version, number)  # the first one of all, in the end
    _copy(desk, others, wanted)
    return frozenset(wanted[key].digest for key in own | others.keys())


def _copy(
    desk: Desk, others: Mapping[bytes, tuple[int, int]], wanted: Mapping[bytes, Experiment]
) -> None:
    transaction = desk.transaction
    for version in studies.of_numbers(transaction, {v for v, _ in others.values()}).values():
        numbers = sorted(n for v, n in others.values() if v == version.id)
        theirs = desk.beside(version).layout
        found = rows.read(transaction, theirs, "", among=("e.id", numbers))
        roots = sources(transaction, numbers)
        new, told = [], []
        for number, row in zip(transaction.numbers(len(found)), found, strict=True):
            experiment = wanted[codec.key(row.record.digest)]
            metrics = shared_metrics(
                row.outcome.metrics, version.name, theirs.ways, desk.layout.ways
            )
            place = transaction.flavour.position(experiment.index), experiment.repeat
            outcome = replace(row.outcome, metrics=metrics)
            new.append(New(number, *place, row.round, experiment.values, outcome, row.lease))
            source = roots.get(row.number, row.number)
            told.append((number, source, "shared", "", transaction.now, version.name))
        transaction.insert("copies", _COPY, told)
        rows.write(desk, new, files=False)


def sources(transaction: Transaction, numbers: Iterable[int]) -> dict[int, int]:
    """Of those results that are copies, the numbers of the attempts that they were made of."""
    found = transaction.among_sql(
        "SELECT result, source FROM copies WHERE {among}", "result", sorted(set(numbers))
    )
    return {int(result): int(source) for result, source in found}
