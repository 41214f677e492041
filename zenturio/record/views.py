"""The two SQL views of a study: a column for each parameter and metric, named as the user did."""

from __future__ import annotations

from zenturio.record import naming
from zenturio.record.codec import Form, escape
from zenturio.record.database import Transaction
from zenturio.record.facts import Study
from zenturio.record.flavour import Flavour
from zenturio.record.layout import OTHER, Layout, Slot

MOST_COLUMNS = 1500
"""No view has more (PostgreSQL answers with at most 1664); later fields are read otherwise."""

_FACTS = {
    "repeat": "v.repeat",
    "status": "e.state",
    "cause": "e.cause",
    "host": "h.name",
    "attempt": "nullif(e.attempt, 0)",
    "started": "e.started",
    "ended": "e.ended",
    "remarks": f"v.{OTHER['metric']}",
}


def create(transaction: Transaction, study: Study, layout: Layout) -> None:
    """Makes the views of *study* anew, as its table is now."""
    for statement in statements(transaction.flavour, study, layout):
        transaction.sql(statement)


def drop(transaction: Transaction, study: Study) -> None:
    for view in (study.view, study.view_all):
        transaction.sql(f"DROP VIEW IF EXISTS {_quoted(view)}")


def statements(flavour: Flavour, study: Study, layout: Layout) -> list[str]:
    """The SQL that takes the old views away and makes the new ones."""
    facts, fields = _columns(flavour, layout)
    own = ", ".join(fields) or "v.experiment AS experiment"
    # Names are quoted, and no literal of a user's is in it that is not.
    select = f"SELECT {own} FROM {_source(layout)} WHERE e.state = 'ok'"  # noqa: S608
    select_all = f"SELECT {', '.join(facts + fields)} FROM {_source(layout)} {_HOSTS}"  # noqa: S608
    view, view_all = _quoted(study.view), _quoted(study.view_all)
    return [
        f"DROP VIEW IF EXISTS {view}",
        f"DROP VIEW IF EXISTS {view_all}",
        f"CREATE VIEW {view} AS {select}",
        f"CREATE VIEW {view_all} AS {select_all}",
    ]


def keyed(flavour: Flavour, layout: Layout, keys: tuple[str, str, str], *, facts: bool) -> str:
    """What the larger view selects, and under the names *keys* what it is ordered by.

    These are the position, the repeat and the experiment's number, in the order of an index. With
    *facts* false it lacks what every study has, and costs no join.
    """
    known, fields = _columns(flavour, layout)
    order = ("v.position", "v.repeat", "v.experiment")
    keyed = [f"{sql} AS {_quoted(key)}" for sql, key in zip(order, keys, strict=True)]
    if not facts:
        return f"SELECT {', '.join(keyed + fields)} FROM {layout.table} v"  # noqa: S608
    return f"SELECT {', '.join(keyed + known + fields)} FROM {_source(layout)} {_HOSTS}"  # noqa: S608


def _columns(flavour: Flavour, layout: Layout) -> tuple[list[str], list[str]]:
    """What every study has, and what this one has, as columns with the names that views have."""
    slots = layout.slots[:MOST_COLUMNS]
    own, built_in = naming.columns([slot.field.name for slot in slots])
    facts = {
        "digest": flavour.hex_sql("e.digest"),
        "index": flavour.index_sql("v.position"),
        **_FACTS,
    }
    return (
        [f"{sql} AS {_quoted(built_in[name])}" for name, sql in facts.items()],
        [
            f"{_value(flavour, slot)} AS {_quoted(column)}"
            for slot, column in zip(slots, own.values(), strict=True)
        ],
    )


_HOSTS = "LEFT JOIN hosts h ON h.id = e.host"


def _source(layout: Layout) -> str:
    return f"{layout.table} v JOIN experiments e ON e.id = v.experiment"


def _value(flavour: Flavour, slot: Slot) -> str:
    """One field: whichever of its columns is filled, else what stands in the row's JSON."""
    other, name = f"v.{OTHER[slot.role]}", "'" + escape(slot.field.name).replace("'", "''") + "'"
    columns = {form: f"v.{column}" for form, column in slot.columns.items()}
    for form, part in ((Form.BIG, "int"), (Form.SERIES, "series"), (Form.OTHER, None)):
        if form & slot.forms:
            columns[form] = flavour.json_sql(other, name, part)
    return flavour.either_sql(slot.forms, columns)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
