"""Stored recipes: the parts of which the digests of a version are made, each stored once."""

from __future__ import annotations

from typing import NamedTuple

from zenturio.experiment.experiment import ProgramIdentity
from zenturio.record.study_context import StudyContext


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
    name = context.version.id, program.digest
    number = context.cache.recipes.get(name) or context.new_recipes.get(name)
    if number is None:
        number = context.new_recipes[name] = _recipe(context, program)
    return number


def _recipe(context: StudyContext, program: ProgramIdentity) -> int:
    transaction, mark = context.transaction, context.transaction.dialect.mark
    head = f'{{"digest": "{program.digest}", '
    query = (
        f"SELECT min(id) FROM recipes WHERE version = {mark}"
        f" AND substr(document, 1, {len(head)}) = {mark}"
    )
    values = (context.version.id, head)
    ((number,),) = transaction.sql(query, values)
    if number is None:
        document = head + program.document().removeprefix("{")
        row = (context.version.id, program.format, document)
        transaction.insert("recipes", ("version", "format", "document"), [row])
        ((number,),) = transaction.sql(query, values)
    return int(number)
