"""How many results of a study there are: by status, kind of machine and round."""

from __future__ import annotations

from zenturio.experiment.machine import UNKNOWN_KIND
from zenturio.query.reading import SnapshotReader
from zenturio.record import EXPERIMENT_STATES, codec
from zenturio.record.row_filter import RowChoice, RowFilter, machine_named

ResultCounts = tuple[dict[str, int], RowFilter, frozenset[int], frozenset[int]]
"""Results by status, which ones these are, their kinds of machine, their rounds."""


def count_results(reader: SnapshotReader, version: int, choice: RowChoice) -> ResultCounts:
    """Count the results of *choice*; InputError where it names no kind of machine that has any.

    The study's counters tell, unless only the newest of several rounds are chosen.
    """
    rows = [
        (status, int(machine), int(number), int(count))
        for status, machine, number, count in reader.fetch(
            "SELECT status, machine, round, count FROM counters"  # noqa: S608 - a number
            f" WHERE version = {version} AND count <> 0"
        )
    ]
    machine = _machine(reader, choice.machine, {row[1] for row in rows}) if choice.machine else None
    seen = [row for row in rows if machine in (None, row[1]) and _of_round(choice, row[2])]
    found = RowFilter(machine, choice.round)
    rounds = {row[2] for row in seen}
    counts: dict[str, int] = dict.fromkeys(EXPERIMENT_STATES, 0)
    if choice.round == "newest" and len(rounds) > 1:
        newest = reader.fetch(
            "SELECT e.status, count(*) FROM results e"  # noqa: S608 - numbers
            f" WHERE e.version = {version}{found.conditions} GROUP BY e.status"
        )
        counts |= {status: int(count) for status, count in newest}
    else:
        for status, _, _, count in seen:
            counts[status] += count
    return counts, found, frozenset(row[1] for row in seen), frozenset(rounds)


def _of_round(choice: RowChoice, number: int) -> bool:
    return not isinstance(choice.round, int) or choice.round == number


def _machine(reader: SnapshotReader, text: str, numbers: set[int]) -> int:
    """The number of the kind of machine that *text* means, among those with results."""
    listed = ", ".join(map(str, sorted(numbers))) or "0"
    known = reader.fetch(f"SELECT id, label FROM machines WHERE id IN ({listed})")  # noqa: S608 - numbers
    labels = {codec.unescape(label): int(number) for number, label in known}
    if 0 in numbers:
        labels[UNKNOWN_KIND] = 0
    return labels[machine_named(text, labels)]
