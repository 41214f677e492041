"""The order of a table of very many rows, in SQLite: its beginning, or all of it.

What is found is what SQLite would find by sorting; of a beginning with too few rows, all are asked.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np

from zenturio.query.fragments import BoundValue, Fragment, join_fragments, sql
from zenturio.query.reading import SnapshotReader
from zenturio.query.wanted import RowNumbers

MANY_ROWS = 100_000
"""Rows for which this is worth the while."""
ROWS_AHEAD = 5_000
"""Rows that are looked at in their order before all are: a condition that many meet needs few."""
SAMPLE_SIZE = 200
"""Rows whose values say from where on a sort is to look."""
SAMPLE_RANK = 3
"""Of the sample's values the one to look from: about as many rows lie before it, times the share
of the sample."""


def top_value_condition(
    reader: SnapshotReader,
    source: Fragment,
    condition: Fragment,
    number: Fragment,
    value: Fragment,
    *,
    falling: bool,
) -> Fragment | None:
    """A condition that the first rows by *value* meet, with some hundreds that come next.

    None where too few of a sample meet the *condition* and have a value: few are soon sorted.
    """
    first, last = (extreme_number(reader, which, number, source) for which in ("min", "max"))
    every = range(first, last + 1)
    drawn = random.Random(1).sample(every, min(SAMPLE_SIZE, len(every)))  # noqa: S311 - no secret
    marks = join_fragments(", ", (Fragment((BoundValue(each),)) for each in sorted(drawn)))
    among = sql("{} IN ({})", number, marks)
    rows = join_fragments(" AND ", (each for each in (among, condition) if each.parts))
    found = reader.rows(sql("SELECT {} {} WHERE {}", value, source, rows))
    values = sorted((v for (v,) in found if v is not None), reverse=falling)
    if len(values) < SAMPLE_SIZE // 2:
        return None
    return sql(
        f"{{}} {'>=' if falling else '<='} {{}}",
        value,
        Fragment((BoundValue(values[SAMPLE_RANK]),)),
    )


def extreme_number(reader: SnapshotReader, which: str, number: Fragment, source: Fragment) -> int:
    """The least or the greatest number; the two at once would be looked for among all rows."""
    ((found,),) = reader.rows(sql(f"SELECT {which}({{}}) {{}}", number, source))
    return int(found)


def numbers_by_value(
    rows: Iterable[tuple[int, float | None]], *, whole: bool, falling: bool
) -> RowNumbers:
    """The numbers of *rows*, ordered by what stands beside them; what is NULL comes last.

    Rows of the same value stay as they come. SQLite takes twice the time and memory for it.
    """
    kind = np.int64 if whole else np.float64
    fields = np.dtype([("number", np.int64), ("none", np.bool_), ("value", kind)])
    found = np.fromiter(((n, v is None, v or 0) for n, v in rows), dtype=fields)
    value = found["value"]
    rising = value if not falling else ~value if whole else -value  # the least has no negative
    numbers: RowNumbers = found["number"][np.lexsort((rising, found["none"]))]
    return numbers
