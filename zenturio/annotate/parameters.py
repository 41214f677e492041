"""Parameters of a study: declared, merged and overridden, and what each name means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from zenturio.annotate.diagnostics import Diagnostics
from zenturio.annotate.grammar import declaration
from zenturio.annotate.model import MEASURED, Declaration
from zenturio.annotate.set_reader import MOST, read_set
from zenturio.errors import AnnotationError, InputError, Passage, Place
from zenturio.expression import Expression, Type
from zenturio.expression.syntax_tree import Index, Name, walk
from zenturio.space.domain import Continuous, Domain
from zenturio.space.parameter import Dependent, Parameter


@dataclass
class NameTable:
    """Everything that an expression may name, and diagnostics about what it may not."""

    diagnostics: Diagnostics
    parameters: dict[str, Type | None] = field(default_factory=dict)
    metrics: dict[str, Type | None] = field(default_factory=dict)
    unplaced: set[str] = field(default_factory=set)
    """Parameters without positions: computed, continuous, or bounded by others."""
    lists: set[str] = field(default_factory=set)
    """Metrics that keep all their values."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Targets whose parameters have other names."""
    seed: str | None = None
    declared: set[str] = field(default_factory=set)
    """NameTable of declarations, right or wrong."""
    words: set[str] = field(default_factory=set)
    """Words of directives that cannot be read: they may be names, but are no advice."""

    def check(
        self, expression: Expression, who: str, *, metrics: bool = False, host: bool = False
    ) -> Type | None:
        """The type of *expression*, which *who* says; all that is wrong becomes diagnostics."""
        used = expression.names | expression.indexed
        # Of unknown type: a name that is declared wrongly has its diagnostic already.
        types: dict[str, Type | None] = dict.fromkeys(self.declared | (self.words & used))
        types.update(self.metrics if metrics else {})
        types.update(self.parameters)
        for node in walk(expression.node):
            if isinstance(node, Name | Index):
                place = expression.passage.place(node.start, node.end)
                for message, hint in self.wrong(node, who, metrics=metrics):
                    self.diagnostics.error(message, place, hint)
                    types[node.name] = None
        try:
            return expression.check(types, host=host)
        except InputError as error:
            for diagnostic in error.diagnostics:
                hint = diagnostic.hint or "name a parameter whose values fit, or write a number"
                self.diagnostics.errors.append(replace(diagnostic, hint=hint))
            return None

    def may_be(self, name: str) -> bool:
        """Whether *name* may be a parameter, as far as can be read."""
        return name in self.parameters or name in self.declared or name in self.words

    def wrong(self, node: Name | Index, who: str, *, metrics: bool) -> Iterator[tuple[str, str]]:
        """What is wrong with a name, as far as the expression alone cannot know it."""
        name = node.name
        if isinstance(node, Index) and (name in self.unplaced or name in self.metrics):
            what = "a metric" if name in self.metrics else "no listed set"
            yield f"{name} has {what}, so index({name}) is not a number", "compare its value"
        elif name == self.seed:
            hint = "use it in files and commands; for values to compare make it a dimension"
            yield f"{name} is the seed, which differs run by run: {who} cannot name it", hint
        elif name in self.parameters:
            return
        elif name in self.metrics and not metrics:
            yield f"{name} is a metric, known only after a run", f"{who} may name parameters only"
        elif name in self.lists:
            hint = "TAKE mean, min, max, first or last gives one"
            yield f"{name} keeps all its values (TAKE all), and a formula needs one", hint
        elif name in self.renamed and name not in self.metrics:
            right = self.renamed[name]
            yield f"{name} is the target; its parameter is {right}", f"write {right}"

    def truth(
        self, expression: Expression, who: str, *, metrics: bool = False, host: bool = False
    ) -> None:
        """A condition: true or false."""
        type_ = self.check(expression, who, metrics=metrics, host=host)
        if type_ not in ("bool", None):
            kind = "a text" if type_ == "str" else "a number"
            message = f"{who} is true or false, but {_short(expression.text)} is {kind}"
            self.diagnostics.error(message, whole(expression), "compare it, as n * threads <= 2048")

    def number(
        self, expression: Expression, who: str, *, metrics: bool = False, host: bool = False
    ) -> None:
        type_ = self.check(expression, who, metrics=metrics, host=host)
        if type_ in ("str", "bool"):
            kind = "a text" if type_ == "str" else "true or false"
            message = f"{who} is a number, but {_short(expression.text)} is {kind}"
            hint = "write 1 if … else 0" if type_ == "bool" else "name a number"
            self.diagnostics.error(message, whole(expression), hint)


def whole(expression: Expression) -> Place:
    """The place of all of an expression."""
    return expression.passage.place(0, len(expression.passage.text))


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def in_order(
    needs: Mapping[str, frozenset[str]],
    places: Mapping[str, Place | None],
    diagnostics: Diagnostics,
) -> tuple[list[str], set[str]]:
    """The names, each behind those that it needs; and those that need themselves, printed."""
    walk = _Walk(needs)
    for name in needs:
        walk.visit(name)
    rank = {name: at for at, name in enumerate(needs)}
    for circle in walk.circles:
        at = min(range(len(circle)), key=lambda i: rank[circle[i]])
        shown = [*circle[at:], *circle[:at], circle[at]]
        message = f"{shown[0]} needs itself: {' -> '.join(shown)}"
        diagnostics.error(message, places.get(shown[0]), "let one of them not depend on the others")
    return list(walk.done), {name for circle in walk.circles for name in circle}


class _Walk:
    """Depth first through what needs what, without recursion: a chain may be long."""

    def __init__(self, needs: Mapping[str, frozenset[str]]) -> None:
        self.needs = needs
        self.done: dict[str, None] = {}
        self.circles: list[list[str]] = []

    def visit(self, name: str) -> None:
        if name in self.done:
            return
        # A dict is both the stack, in order of insertion, and the set of what is on it.
        path = {name: iter(sorted(self.needs[name]))}
        while path:
            last, rest = next(reversed(path.items()))
            following = next((n for n in rest if n in self.needs and n not in self.done), None)
            if following is None:
                self.done[last] = None
                del path[last]
            elif following in path:
                names = list(path)
                self.circles.append(names[names.index(following) :])
            else:
                path[following] = iter(sorted(self.needs[following]))


OPTION = "-P"


@dataclass(frozen=True, slots=True)
class Declared:
    """A declaration, and the folder that its set's files are sought from."""

    declaration: Declaration
    base: Path


@dataclass
class Parameters:
    """All parameters by name, in the order of their first declarations."""

    by_name: dict[str, Parameter] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    """Names whose declarations are wrong: diagnostics about their use would only confuse."""


def merge(
    declared: Iterable[Declared], overrides: Mapping[str, Declaration], diagnostics: Diagnostics
) -> Parameters:
    """One parameter for each name; what does not agree names both places."""
    groups: dict[str, list[Declared]] = {}
    for declared_one in declared:
        if declared_one.declaration.same is None:
            groups.setdefault(declared_one.declaration.name.text, []).append(declared_one)
    for name, override in overrides.items():
        groups[name] = [_overridden(groups.get(name), override)]
    parameters = Parameters()
    for name, group in groups.items():
        with diagnostics.gather():
            # Until it is read: an error leaves it there.
            parameters.broken.add(name)
            _check_name(group[0].declaration)
            parameters.by_name[name] = _parameter(group)
            parameters.broken.discard(name)
    return parameters


def read_overrides(texts: Sequence[str], diagnostics: Diagnostics) -> dict[str, Declaration]:
    """What ``-P name={…}`` says, by name."""
    overrides: dict[str, Declaration] = {}
    for text in texts:
        with diagnostics.gather():
            override = declaration(Passage.of(text, OPTION), 0, "PARAM")
            if override.name.text in overrides:
                message = f"{override.name.text} is given twice"
                raise AnnotationError(message, place=override.place, hint="remove one of them")
            overrides[override.name.text] = override
    return overrides


def _overridden(group: Sequence[Declared] | None, override: Declaration) -> Declared:
    """The override with what it does not say itself taken from the first declaration."""
    if not group:
        return Declared(override, Path())
    first = group[0].declaration
    kept: dict[str, Any] = {
        clause: next((v for d in group if (v := getattr(d.declaration, clause)) is not None), None)
        for clause in ("type", "unit", "default", "when", "words")
        if getattr(override, clause) is None
    }
    if override.expression is not None:
        # A derived parameter has no set, so TYPE, DEFAULT and WHEN do not apply to it.
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
    clauses = {
        clause: _agreed(group, clause, diagnostics)
        for clause in ("type", "unit", "default", "when", "words")
    }
    domain = _read(group[0], clauses["type"]) if first.expression is None else None
    for other in group[1:]:
        with diagnostics.gather():
            if not _same(group[0], other, domain, clauses["type"]):
                _differ(first, other.declaration)
    diagnostics.close()
    return Parameter(
        first.name.text,
        domain,
        first.way,
        clauses["unit"] or "",
        clauses["default"],
        clauses["when"],
        first.expression,
        first.place,
        words=bool(clauses["words"]),
    )


def _agreed(group: Sequence[Declared], clause: str, diagnostics: Diagnostics) -> Any:
    """What the declarations say in a clause; one may leave it out, none may contradict."""
    keyword = clause.upper()
    declarations = [d.declaration for d in group if getattr(d.declaration, clause) is not None]
    for other in declarations[1:]:
        if getattr(other, clause) != getattr(declarations[0], clause):
            message = (
                f"{other.name.text} has another {keyword} at {declarations[0].places[keyword]}"
            )
            hint = "say it once, or the same in both"
            diagnostics.error(message, other.places[keyword], hint)
    return getattr(declarations[0], clause) if declarations else None


def _same(first: Declared, second: Declared, domain: Domain | None, kind: Type | None) -> bool:
    """Whether another declaration means what the first one does."""
    if domain is None or second.declaration.elements is None:
        return second.declaration.expression == first.declaration.expression
    same_text = _written(second.declaration) == _written(first.declaration)
    return (same_text and second.base == first.base) or _equal(_read(second, kind), domain)


def _read(declared: Declared, kind: Type | None) -> Domain:
    elements = declared.declaration.elements
    assert elements is not None, "a declaration without a set has an expression"
    return read_set(elements, declared.base, kind)


def _equal(first: Domain, second: Domain) -> bool:
    """Whether two sets have the same texts in the same order."""
    if first == second:
        return True
    if isinstance(first, Continuous | Dependent) or isinstance(second, Continuous | Dependent):
        return False
    # Larger sets are equal only if they are written alike, which was compared before.
    if first.size != second.size or first.size > MOST:
        return False
    return list(first.texts()) == list(second.texts())


def _written(declaration: Declaration) -> str:
    content = declaration.elements or (declaration.expression and declaration.expression.passage)
    return " ".join(content.text.split()) if content else ""


def _differ(first: Declaration, second: Declaration) -> NoReturn:
    """The diagnostic about one name with two meanings."""
    name = second.name.text
    second_text, first_text = (_short(_written(text)) for text in (second, first))
    hint = "the same in both, or another name for one of them: AS …"
    if sorted(second_text.strip("{} ").split(", ")) == sorted(first_text.strip("{} ").split(", ")):
        hint = "the same in both, in the same order"
    raise AnnotationError(
        f"{name} is {second_text} here, but {first_text} at {first.place}",
        place=second.place,
        hint=hint,
    )


def known_names(parameters: Parameters) -> frozenset[str]:
    """Names that are declared, rightly or wrongly."""
    return frozenset(parameters.by_name) | parameters.broken
