"""Values and recipes as JSON: numbers of any size, odd text, and expressions by what they say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any

from zenturio.annotate.model import Metric
from zenturio.errors import Passage, Place
from zenturio.experiment import Missing, Recipe, Series
from zenturio.expression import Expression, parse

_EXACT = 2**63
"""Whole numbers beyond are written in hexadecimal: JSON's readers limit the digits."""
_FIELDS = tuple(each.name for each in fields(Metric) if each.name not in ("formula", "place"))


def noted(value: Any) -> Any:
    """A value or a measure as JSON has it."""
    kind = type(value)
    if kind is int and not -_EXACT < value < _EXACT:
        return {"int": hex(value)}
    if kind is Missing:
        return {"missing": value.why}
    if kind is Series:
        return {"series": [noted(each) for each in value.values]}
    return value


def noted_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """All of them by name."""
    return {name: noted(value) for name, value in values.items()}


def read_noted(told: Any) -> Any:
    """What was noted."""
    if type(told) is not dict:
        return told
    ((kind, what),) = told.items()
    if kind == "int":
        return int(what, 16)
    if kind == "missing":
        return Missing(what)
    return Series(tuple(read_noted(each) for each in what))


def noted_place(place: Place | None) -> list[Any] | None:
    """Where something stands."""
    if place is None:
        return None
    return [place.file, place.line, place.column, place.text, place.width]


def read_place(told: list[Any] | None) -> Place | None:
    return None if told is None else Place(*told)


_last: tuple[Recipe | None, tuple[str, frozenset[str]]] = (None, ("", frozenset()))
"""The last recipe that was written: all experiments of a study share one."""


def recipe_text(recipe: Recipe) -> tuple[str, frozenset[str]]:
    """A recipe as a text, and the parameters whose positions it asks for."""
    global _last  # noqa: PLW0603 - one step for any number of threads
    known, text = _last
    if known is not recipe:
        text = _written(recipe)
        _last = (recipe, text)
    return text


def _written(recipe: Recipe) -> tuple[str, frozenset[str]]:
    metrics = [
        [
            {name: getattr(each, name) for name in _FIELDS},
            _expression(each.formula),
            noted_place(each.place),
        ]
        for each in recipe.metrics
    ]
    used = [each.formula for each in recipe.metrics if each.formula is not None]
    used += recipe.requires
    told = {
        "metrics": metrics,
        "outputs": recipe.outputs,
        "requires": [_expression(each) for each in recipe.requires],
        "rank": _expression(recipe.rank),
    }
    return json.dumps(told), frozenset(name for each in used for name in each.indexed)


@lru_cache(maxsize=64)
def read_recipe(text: str) -> Recipe:
    """The recipe; the same object for the same text, so that what is made of it is made once."""
    told = json.loads(text)
    metrics = [
        Metric(**plain, formula=_read(formula), place=read_place(place))
        for plain, formula, place in told["metrics"]
    ]
    requires = [_read(each) for each in told["requires"]]
    return Recipe(
        tuple(metrics),
        tuple(told["outputs"]),
        tuple(each for each in requires if each is not None),
        _read(told["rank"]),
    )


def _expression(expression: Expression | None) -> dict[str, Any] | None:
    """What an expression says, and where it stands if it stands there as it is."""
    if expression is None:
        return None
    passage = expression.passage
    where = passage.pieces if passage.text == expression.text else ()
    pieces = [[offset, noted_place(place)] for offset, place in where]
    return {"text": expression.text, "pieces": pieces}


def _read(told: dict[str, Any] | None) -> Expression | None:
    if told is None:
        return None
    if not told["pieces"]:
        return parse(told["text"])
    pieces = tuple((offset, Place(*place)) for offset, place in told["pieces"])
    return parse(Passage(told["text"], pieces))
