"""Recipes as JSON: metrics, and expressions by what they say and where they stand."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from zenturio.annotate.model import Metric
from zenturio.errors import Passage, Place
from zenturio.experiment import Recipe

if TYPE_CHECKING:
    from zenturio.expression import Expression

_EXPRESSIONS = ("formula", "rows", "when")
_FIELDS = tuple(item.name for item in fields(Metric) if item.name not in (*_EXPRESSIONS, "place"))


def place_to_json(place: Place | None) -> list[Any] | None:
    """Return where something stands."""
    if place is None:
        return None
    return [place.file, place.line, place.column, place.text, place.width]


def place_from_json(row: list[Any] | None) -> Place | None:
    return None if row is None else Place(*row)


_last_recipe: tuple[Recipe | None, tuple[str, frozenset[str]]] = (None, ("", frozenset()))
"""The last recipe that was written: all experiments of a study share one."""


def recipe_text(recipe: Recipe) -> tuple[str, frozenset[str]]:
    """A recipe as a text, and the parameters whose positions it asks for."""
    global _last_recipe  # noqa: PLW0603 - one step for any number of threads
    # One tuple, read and replaced at once: two threads never see half of it.
    last, text = _last_recipe
    if last is not recipe:
        text = _recipe_to_json(recipe)
        _last_recipe = (recipe, text)
    return text


def _recipe_to_json(recipe: Recipe) -> tuple[str, frozenset[str]]:
    metrics = [
        [
            {name: getattr(item, name) for name in _FIELDS},
            {name: _expression_to_json(getattr(item, name)) for name in _EXPRESSIONS},
            place_to_json(item.place),
        ]
        for item in recipe.metrics
    ]
    formulas = [part for item in recipe.metrics for part in (item.formula, item.when)]
    used = [part for part in (*formulas, *recipe.requires, *recipe.verified) if part is not None]
    manifest = {
        "metrics": metrics,
        "outputs": recipe.outputs,
        "requires": [_expression_to_json(item) for item in recipe.requires],
        "rank": _expression_to_json(recipe.rank),
        "required": recipe.required,
        "verified": [_expression_to_json(item) for item in recipe.verified],
        "verifiers": recipe.verifiers,
    }
    return json.dumps(manifest), frozenset(name for item in used for name in item.indexed)


@lru_cache(maxsize=64)
def read_recipe(text: str) -> Recipe:
    """Return the recipe.

    The same object for the same text, so that what is made of it is made once.
    """
    manifest = json.loads(text)
    metrics = [
        Metric(
            **plain,
            formula=_expression_from_json(expressions["formula"]),
            rows=_expression_from_json(expressions["rows"]),
            when=_expression_from_json(expressions["when"]),
            place=place_from_json(place),
        )
        for plain, expressions, place in manifest["metrics"]
    ]
    requires = [_expression_from_json(item) for item in manifest["requires"]]
    verified = [_expression_from_json(item) for item in manifest.get("verified", ())]
    return Recipe(
        tuple(metrics),
        tuple(manifest["outputs"]),
        tuple(item for item in requires if item is not None),
        _expression_from_json(manifest["rank"]),
        tuple(manifest.get("required", ())),
        tuple(item for item in verified if item is not None),
        tuple(manifest.get("verifiers", ())),
    )


def _expression_to_json(expression: Expression | None) -> dict[str, Any] | None:
    """Return what an expression says, and where it stands if it stands there as it is."""
    if expression is None:
        return None
    passage = expression.passage
    where = passage.pieces if passage.text == expression.text else ()
    pieces = [[offset, place_to_json(place)] for offset, place in where]
    return {"text": expression.text, "pieces": pieces}


def _expression_from_json(manifest: dict[str, Any] | None) -> Expression | None:
    if manifest is None:
        return None
    from zenturio.expression import parse  # noqa: PLC0415 - most recipes have no formula

    if not manifest["pieces"]:
        return parse(manifest["text"])
    pieces = tuple((offset, Place(*place)) for offset, place in manifest["pieces"])
    return parse(Passage(manifest["text"], pieces))
