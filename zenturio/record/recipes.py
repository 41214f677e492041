"""Recipes in SQL: the parts of which the digests of a version are made, each written down once."""

from __future__ import annotations

from typing import NamedTuple

from zenturio.experiment.experiment import ProgramIdentity
from zenturio.record.desk import Desk


class Named(NamedTuple):
    """How a result is named: by its digest, and by its recipe and the key of its point."""

    digest: str
    key: bytes
    document: str
    """Of the recipe."""


def names(desk: Desk, most: int) -> tuple[list[Named], int]:
    """The names of some results of a version, and how many have no recipe.

    Copies are left out: they ran with the definition of another study.
    """
    transaction, mark = desk.transaction, desk.transaction.flavour.mark
    found = transaction.sql(
        f"SELECT r.digest, r.key, p.document FROM results r JOIN recipes p ON p.id = r.recipe"
        f" WHERE r.version = {mark} AND r.key IS NOT NULL"
        " AND NOT EXISTS (SELECT 1 FROM copies c WHERE c.result = r.id)"
        f" ORDER BY r.digest LIMIT {most}",
        (desk.version.id,),
    )
    ((without,),) = transaction.sql(
        f"SELECT count(*) FROM results WHERE version = {mark} AND recipe IS NULL",
        (desk.version.id,),
    )
    return [Named(bytes(d).hex(), bytes(key), text) for d, key, text in found], int(without)


def recipe_number(desk: Desk, program: ProgramIdentity | None) -> int | None:
    """The number of a program's recipe in this version; the first use writes it down."""
    if program is None:
        return None
    name = desk.version.id, program.digest
    number = desk.memory.recipes.get(name) or desk.new_recipes.get(name)
    if number is None:
        number = desk.new_recipes[name] = _recipe(desk, program)
    return number


def _recipe(desk: Desk, program: ProgramIdentity) -> int:
    transaction, mark = desk.transaction, desk.transaction.flavour.mark
    head = f'{{"digest": "{program.digest}", '
    asked = (
        f"SELECT min(id) FROM recipes WHERE version = {mark}"
        f" AND substr(document, 1, {len(head)}) = {mark}"
    )
    given = (desk.version.id, head)
    ((number,),) = transaction.sql(asked, given)
    if number is None:
        document = head + program.document().removeprefix("{")
        row = (desk.version.id, program.format, document)
        transaction.insert("recipes", ("version", "format", "document"), [row])
        ((number,),) = transaction.sql(asked, given)
    return int(number)
