"""Merges all declarations of a name into one parameter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from zenturio.annotate.diagnostics import Diagnostics
from zenturio.annotate.model import MEASURED
from zenturio.annotate.parameter_grammar import declaration
from zenturio.annotate.set_reader import MOST, read_set
from zenturio.annotate.statements import Declaration
from zenturio.errors import AnnotationError, Passage
from zenturio.expression import Type
from zenturio.space.continuous import Continuous
from zenturio.space.domain import Domain
from zenturio.space.parameter import Dependent, Parameter

OPTION = "-P"


@dataclass(frozen=True, slots=True)
class Declared:
    """A declaration, and the folder that its set's files are sought from."""

    declaration: Declaration
    base: Path


@dataclass
class Parameters:
    """All parameters by name, in the order of their first declarations."""

    found: dict[str, Parameter] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    """Names whose declarations are wrong: diagnostics about their use would only confuse."""


def merge(
    declared: Iterable[Declared], overrides: Mapping[str, Declaration], diagnostics: Diagnostics
) -> Parameters:
    """One parameter for each name; what does not agree names both places."""
    groups: dict[str, list[Declared]] = {}
    for each in declared:
        if each.declaration.same is None:
            groups.setdefault(each.declaration.name.text, []).append(each)
    for name, override in overrides.items():
        groups[name] = [_overridden(groups.get(name), override)]
    parameters = Parameters()
    for name, group in groups.items():
        with diagnostics.gather():
            parameters.broken.add(name)
            _check_name(group[0].declaration)
            parameters.found[name] = _parameter(group)
            parameters.broken.discard(name)
    return parameters


def read_overrides(texts: Sequence[str], diagnostics: Diagnostics) -> dict[str, Declaration]:
    """What ``-P name={…}`` says, by name."""
    found: dict[str, Declaration] = {}
    for text in texts:
        with diagnostics.gather():
            each = declaration(Passage.of(text, OPTION), 0, "PARAM")
            if each.name.text in found:
                message = f"{each.name.text} is given twice"
                raise AnnotationError(message, place=each.place, hint="leave one of them")
            found[each.name.text] = each
    return found


def _overridden(group: Sequence[Declared] | None, override: Declaration) -> Declared:
    """The override with what it does not say itself taken from the first declaration."""
    if not group:
        return Declared(override, Path())
    first = group[0].declaration
    kept: dict[str, Any] = {
        clause: next((v for d in group if (v := getattr(d.declaration, clause)) is not None), None)
        for clause in ("type", "unit", "default", "when")
        if getattr(override, clause) is None
    }
    if override.expression is not None:
        kept = {"unit": kept.get("unit")} if "unit" in kept else {}
    return Declared(replace(override, way=first.way, **kept), Path())


def _check_name(declaration: Declaration) -> None:
    name = declaration.name
    if name.text in MEASURED:
        raise AnnotationError(
            f"{name.text} is the name of a metric that is always measured",
            place=name.place(0, len(name.text)),
            hint="give the parameter another name: AS …",
        )


def _parameter(group: Sequence[Declared]) -> Parameter:
    """The parameter that a group of declarations agrees on."""
    diagnostics = Diagnostics()
    first = group[0].declaration
    said = {
        clause: _agreed(group, clause, diagnostics)
        for clause in ("type", "unit", "default", "when")
    }
    domain = _read(group[0], said["type"]) if first.expression is None else None
    for other in group[1:]:
        with diagnostics.gather():
            if not _same(group[0], other, domain, said["type"]):
                _differ(first, other.declaration)
    diagnostics.close()
    return Parameter(
        first.name.text,
        domain,
        first.way,
        said["unit"] or "",
        said["default"],
        said["when"],
        first.expression,
        first.place,
    )


def _agreed(group: Sequence[Declared], clause: str, diagnostics: Diagnostics) -> Any:
    """What the declarations say in a clause; one may leave it out, none may contradict."""
    keyword = clause.upper()
    said = [d.declaration for d in group if getattr(d.declaration, clause) is not None]
    for other in said[1:]:
        if getattr(other, clause) != getattr(said[0], clause):
            message = f"{other.name.text} has another {keyword} at {said[0].places[keyword]}"
            hint = "say it once, or the same in both"
            diagnostics.error(message, other.places[keyword], hint)
    return getattr(said[0], clause) if said else None


def _same(first: Declared, other: Declared, domain: Domain | None, kind: Type | None) -> bool:
    """Whether another declaration means what the first one does."""
    if domain is None or other.declaration.elements is None:
        return other.declaration.expression == first.declaration.expression
    same_text = _written(other.declaration) == _written(first.declaration)
    return (same_text and other.base == first.base) or _equal(_read(other, kind), domain)


def _read(declared: Declared, kind: Type | None) -> Domain:
    elements = declared.declaration.elements
    assert elements is not None, "a declaration without a set has an expression"
    return read_set(elements, declared.base, kind)


def _equal(one: Domain, other: Domain) -> bool:
    """Whether two sets have the same texts in the same order."""
    if one == other:
        return True
    if isinstance(one, Continuous | Dependent) or isinstance(other, Continuous | Dependent):
        return False
    if one.size != other.size or one.size > MOST:
        return False
    return list(one.texts()) == list(other.texts())


def _written(declaration: Declaration) -> str:
    content = declaration.elements or (declaration.expression and declaration.expression.passage)
    return " ".join(content.text.split()) if content else ""


def _differ(first: Declaration, second: Declaration) -> NoReturn:
    """The diagnostic about one name with two meanings."""
    name = second.name.text
    here, there = (_short(_written(each)) for each in (second, first))
    hint = "the same in both, or another name for one of them: AS …"
    if sorted(here.strip("{} ").split(", ")) == sorted(there.strip("{} ").split(", ")):
        hint = "the same in both, in the same order"
    raise AnnotationError(
        f"{name} is {here} here, but {there} at {first.place}", place=second.place, hint=hint
    )


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def known_names(parameters: Parameters) -> frozenset[str]:
    """Names that are declared, rightly or wrongly."""
    return frozenset(parameters.found) | parameters.broken
