"""Which kinds of machine and which rounds an answer is of: they must not be mixed in silence."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from zenturio.experiment.machine import UNKNOWN_KIND, machine_notes
from zenturio.query.aggregates import row_count_item
from zenturio.query.catalog import Catalog, StudyColumn
from zenturio.query.reading import SnapshotReader
from zenturio.query.statement import SelectItem, StudySelect
from zenturio.record.row_filter import round_notes


@dataclass(frozen=True, slots=True)
class Origins:
    """Results by their kind of machine and by their round; empty where all are of one."""

    machines: Mapping[str, int] = field(default_factory=dict)
    rounds: Mapping[int, int] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is said of an answer that mixes them."""
        return (*machine_notes(self.machines), *round_notes(self.rounds))

    @property
    def columns(self) -> tuple[str, ...]:
        """What tells the rows of one experiment apart."""
        return (*(["machine"] if self.machines else ()), *(["round"] if self.rounds else ()))

    def attrs(self) -> dict[Hashable, Any]:
        """The same as a table of pandas carries it."""
        return {"machines": dict(self.machines), "rounds": dict(self.rounds)}

    @staticmethod
    def of(attrs: Mapping[Any, Any]) -> Origins:
        """Of a table of pandas."""
        return Origins(attrs.get("machines", {}), attrs.get("rounds", {}))

    @staticmethod
    def together(parts: Iterable[Mapping[Any, Any]]) -> Origins:
        """Of several tables, by their attributes."""
        machines: dict[str, int] = {}
        rounds: dict[int, int] = {}
        for each in map(Origins.of, parts):
            for label, count in each.machines.items():
                machines[label] = machines.get(label, 0) + count
            for number, count in each.rounds.items():
                rounds[number] = rounds.get(number, 0) + count
        return Origins(machines, rounds)


def count_origins(
    reader: SnapshotReader,
    known: Catalog,
    statement: StudySelect,
    keys: Collection[StudyColumn] = (),
) -> Origins:
    """Count the rows of *statement* by kind of machine and by round, where they are of several.

    The study's counters tell whether they can be: only then rows are looked at. What is among the
    *keys* tells groups apart, and mixes nothing.
    """
    found: list[dict[Any, int]] = []
    for fact, several in (("machine", known.machines), ("round", known.rounds)):
        column = known.facts[fact]
        counts: dict[Any, int] = {}
        if len(several) > 1 and column not in keys:
            heads = [SelectItem.of(column), row_count_item("count(*)")]
            rows = reader.rows(statement.select(heads, group=1, facts=True))
            counts = {value: int(count) for value, count in rows}
        found.append(counts if len(counts) > 1 else {})
    machines = {label or UNKNOWN_KIND: count for label, count in found[0].items()}
    return Origins(machines, {int(number): count for number, count in found[1].items()})
