"""Stored recipes: the parts of which the digests of a version are made, each stored once."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, NamedTuple

from zenturio.experiment.experiment import WRITING, Kinds, ProgramIdentity
from zenturio.record import acceptance_rules, codec, machines
from zenturio.record.column_pages import KeyedResults
from zenturio.record.field_layout import Role, SlotReader
from zenturio.record.study_context import StudyContext

MANY_RESULTS = 10_000
"""Results of a version from which on it pays to read their keys: a tenth of a second."""
_BATCH = 8192


class ResultIdentity(NamedTuple):
    """How a result is named: by its digest, and by its recipe and the key of its point."""

    digest: str
    key: bytes
    document: str
    """Of the recipe."""


def result_identities(context: StudyContext, most: int) -> tuple[list[ResultIdentity], int]:
    """Return the names of some results of a version, and how many have no recipe.

    Copies are left out: they ran with the definition of another study.
    """
    transaction, mark = context.transaction, context.transaction.dialect.mark
    rows = transaction.sql(
        f"SELECT r.digest, r.key, p.document FROM results r JOIN recipes p ON p.id = r.recipe"
        f" WHERE r.version = {mark} AND r.key IS NOT NULL"
        " AND NOT EXISTS (SELECT 1 FROM copies c WHERE c.result = r.id)"
        f" ORDER BY r.digest LIMIT {most}",
        (context.version.id,),
    )
    ((without,),) = transaction.sql(
        f"SELECT count(*) FROM results WHERE version = {mark} AND recipe IS NULL",
        (context.version.id,),
    )
    return [ResultIdentity(bytes(d).hex(), bytes(key), text) for d, key, text in rows], int(without)


def recipe_number(context: StudyContext, program: ProgramIdentity | None) -> int | None:
    """Return the number of a program's recipe in this version; the first use writes it down."""
    if program is None:
        return None
    name = context.version.id, program.digest + program.writing
    number = context.cache.recipes.get(name) or context.new_recipes.get(name)
    if number is None:
        number = context.new_recipes[name] = _recipe(context, program)
    return number


def _recipe(context: StudyContext, program: ProgramIdentity) -> int:
    if numbers := _recipes(context, program):
        return numbers[0]
    document = _head(program) + program.document().removeprefix("{")
    mark = context.transaction.dialect.mark
    ((number,),) = context.transaction.sql(
        "INSERT INTO recipes (version, format, document)"
        f" VALUES ({mark}, {mark}, {mark}) RETURNING id",
        (context.version.id, program.format, document),
    )
    return int(number)


def _head(program: ProgramIdentity) -> str:
    """Return what the document of a program's recipe begins with."""
    return f'{{"digest": "{program.digest}", '


def _recipes(context: StudyContext, program: ProgramIdentity) -> list[int]:
    """Return the numbers of a program's recipe in this version: two drivers may have added one."""
    transaction, mark = context.transaction, context.transaction.dialect.mark
    head = _head(program)
    rows = transaction.sql(
        f"SELECT id, document FROM recipes WHERE version = {mark}"
        f" AND substr(document, 1, {len(head)}) = {mark} ORDER BY id",
        (context.version.id, head),
    )
    name = f'"{WRITING}": '
    part = name + json.dumps(program.writing)
    return [
        int(number)
        for number, document in rows
        if (part in document if program.writing else name not in document)
    ]


_CAUSE = (
    "CASE WHEN e.status = 'ok' THEN ''"
    " WHEN e.cause IS NULL OR e.cause = '' THEN e.status ELSE e.cause END"
)


def keyed_results(
    context: StudyContext,
    program: ProgramIdentity,
    kinds: Kinds,
    round_: int | None,
    names: Collection[str],
) -> KeyedResults | None:
    """Return the results of *program* by the keys of their points: see `Repository`."""
    import numpy as np  # noqa: PLC0415 - takes a tenth of a second

    transaction, version = context.transaction, context.version.id
    reader = SlotReader([f for f in context.layout.own_fields if f.field.name in names])
    query = f"SELECT coalesce(sum(count), 0) FROM counters WHERE version = {version}"
    ((count,),) = transaction.sql(query)
    recipes = _recipes(context, program) if count >= MANY_RESULTS else []
    if not recipes or reader.chunks:
        return None
    condition = "e.newest = 1" if round_ is None else f"e.round = {int(round_)}"
    if kinds is not None:
        counting = sorted(machines.numbers_of(transaction, kinds))
        condition += f" AND e.machine IN ({', '.join(map(str, counting))})"
    columns = ", ".join([_CAUSE, "e.remarks", *[f"e.{slot}" for slot in reader.slots]])
    facts: list[tuple[Any, ...]] = []
    keys: list[bytes] = []
    causes: dict[str, int] = {"": 0}
    codes: list[int] = []
    values: dict[Role, dict[str, list[Any]]] = {"parameter": {}, "metric": {}}
    for rows in transaction.batches(
        f"SELECT e.key, e.id, e.machine, e.started, {columns} FROM results e"
        f" WHERE e.version = {version} AND e.key IS NOT NULL"
        f" AND e.recipe IN ({', '.join(map(str, recipes))}) AND {condition}",
        _BATCH,
    ):
        key, number, machine, began, reasons, remarks, *slots = zip(*rows, strict=True)
        keys.append(b"".join(map(bytes, key)))
        facts.append(tuple(map(np.array, (number, machine, began))))
        codes += [causes.setdefault(reason, len(causes)) for reason in reasons]
        with codec.decoding():
            for role, fields in values.items():
                for name, column in reader.columns(role, remarks, slots, ()).items():
                    fields.setdefault(name, []).extend(column)
    if not keys:
        return None
    numbers, kinds_of, started = map(np.concatenate, zip(*facts, strict=True))
    halves = np.frombuffer(b"".join(keys), ">u8").astype(np.uint64).reshape(-1, 2)
    # As in `find_outcomes`: what is known to be of these machines, and of that the newest.
    by_number = machines.machines_of(transaction, np.unique(kinds_of).tolist())
    chosen = [n for n, kind in by_number.items() if acceptance_rules.is_of(kind, kinds)]
    return KeyedResults(
        (halves[:, 0].copy(), halves[:, 1].copy()),
        numbers + (np.isin(kinds_of, chosen).astype(np.int64) << 62),
        started,
        np.array(codes, np.int32),
        [codec.unescape(cause) for cause in causes],
        values["parameter"],
        values["metric"],
    )
