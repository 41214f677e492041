"""Which kinds of machine an answer is of: their times must not be mixed in silence."""

from __future__ import annotations

from zenturio.experiment.machine import UNKNOWN
from zenturio.query.aggregates import rows_counted
from zenturio.query.catalog import Catalog
from zenturio.query.reading import Reader
from zenturio.query.statement import Head, Statement


def machines_in(reader: Reader, known: Catalog, statement: Statement) -> dict[str, int]:
    """How many of the experiments of *statement* each kind of machine has; empty if all are of one.

    The study's counters tell whether there can be several: only then rows are looked at.
    """
    if known.kinds < 2:
        return {}
    heads = [Head.of(known.facts["machine"]), rows_counted("count(*)")]
    rows = reader.rows(statement.select(heads, group=1, facts=True))
    counts = {label or UNKNOWN: int(count) for label, count in rows}
    return counts if len(counts) > 1 else {}
