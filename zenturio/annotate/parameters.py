"""Parameters of a study: declared, merged, overridden; their own values; warnings about them."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from zenturio.annotate.clauses import Diagnostics
from zenturio.annotate.grammar import declaration
from zenturio.annotate.model import MEASURED, Annotated, Application, Assignment, Declaration
from zenturio.annotate.set_reader import CALLS, MOST, NUMBER, read_set
from zenturio.errors import AnnotationError, Diagnostic, InputError, Passage, Place, did_you_mean
from zenturio.expression import Expression, Type, Value
from zenturio.expression.syntax_tree import (
    Compare,
    Constant,
    Index,
    Member,
    Name,
    SyntaxNode,
    walk,
)
from zenturio.space import Space, Zip
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
    """The names of declarations, right or wrong."""
    words: set[str] = field(default_factory=set)
    """Words of directives that cannot be read: they may be names, but are no advice."""

    def check(
        self, expression: Expression, role: str, *, metrics: bool = False, host: bool = False
    ) -> Type | None:
        """Return the type of *expression*, which has this *role*; errors become diagnostics."""
        used = expression.names | expression.indexed
        # Of unknown type: a name that is declared wrongly has its diagnostic already.
        types: dict[str, Type | None] = dict.fromkeys(self.declared | (self.words & used))
        types.update(self.metrics if metrics else {})
        types.update(self.parameters)
        for node in walk(expression.node):
            if isinstance(node, Name | Index):
                place = expression.passage.place(node.start, node.end)
                for message, hint in self.wrong(node, role, metrics=metrics):
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
        """Return whether *name* may be a parameter, as far as can be read."""
        return name in self.parameters or name in self.declared or name in self.words

    def wrong(self, node: Name | Index, role: str, *, metrics: bool) -> Iterator[tuple[str, str]]:
        """What is wrong with a name, as far as the expression alone cannot know it."""
        name = node.name
        if isinstance(node, Index) and (name in self.unplaced or name in self.metrics):
            reason = "a metric" if name in self.metrics else "no listed set"
            yield f"{name} has {reason}, so index({name}) is not a number", "compare its value"
        elif name == self.seed:
            hint = "use it in files and commands only; to compare values, make it a dimension"
            yield f"{name} is the seed, which differs in each run: {role} cannot use it", hint
        elif name in self.parameters:
            return
        elif name in self.metrics and not metrics:
            yield (
                (f"{name} is a metric, whose value is known only after a run"),
                f"{role} can use only parameters",
            )
        elif name in self.lists:
            hint = "TAKE mean, min, max, first or last gives a single value"
            yield (
                (f"{name} keeps all its values (TAKE all), but a formula needs a single value"),
                hint,
            )
        elif name in self.renamed and name not in self.metrics:
            right = self.renamed[name]
            yield f"{name} is the target; its parameter is {right}", f"write {right}"

    def truth(
        self, expression: Expression, role: str, *, metrics: bool = False, host: bool = False
    ) -> None:
        """A condition: true or false."""
        type_ = self.check(expression, role, metrics=metrics, host=host)
        if type_ not in ("bool", None):
            kind = "a text" if type_ == "str" else "a number"
            message = f"{role} must be true or false, but {_short(expression.text)} is {kind}"
            self.diagnostics.error(
                message, whole(expression), "write a comparison, such as n * threads <= 2048"
            )

    def number(
        self, expression: Expression, role: str, *, metrics: bool = False, host: bool = False
    ) -> None:
        type_ = self.check(expression, role, metrics=metrics, host=host)
        if type_ in ("str", "bool"):
            kind = "a text" if type_ == "str" else "true or false"
            message = f"{role} must be a number, but {_short(expression.text)} is {kind}"
            hint = "write 1 if … else 0" if type_ == "bool" else "name a number"
            self.diagnostics.error(message, whole(expression), hint)


def whole(expression: Expression) -> Place:
    """Return the place of all of an expression."""
    return expression.passage.place(0, len(expression.passage.text))


def _short(text: str, length: int = 40) -> str:
    return text if len(text) <= length else f"{text[: length - 4]} ..."


def in_order(
    needs: Mapping[str, frozenset[str]],
    places: Mapping[str, Place | None],
    diagnostics: Diagnostics,
) -> tuple[list[str], set[str]]:
    """Return the names, each after those that it depends on, and the names on cycles."""
    walk = _DependencyWalk(needs)
    for name in needs:
        walk.visit(name)
    rank = {name: at for at, name in enumerate(needs)}
    for circle in walk.circles:
        at = min(range(len(circle)), key=lambda i: rank[circle[i]])
        chain = [*circle[at:], *circle[:at], circle[at]]
        message = f"{chain[0]} depends on itself: {' -> '.join(chain)}"
        diagnostics.error(message, places.get(chain[0]), "remove one of these dependencies")
    return list(walk.ordered), {name for circle in walk.circles for name in circle}


class _DependencyWalk:
    """Depth first through what needs what, without recursion: a chain may be long."""

    def __init__(self, needs: Mapping[str, frozenset[str]]) -> None:
        self.needs = needs
        self.ordered: dict[str, None] = {}
        self.circles: list[list[str]] = []

    def visit(self, name: str) -> None:
        if name in self.ordered:
            return
        # A dict is both the stack, in order of insertion, and the set of what is on it.
        path = {name: iter(sorted(self.needs[name]))}
        while path:
            current, needed_names = next(reversed(path.items()))
            following = next(
                (n for n in needed_names if n in self.needs and n not in self.ordered), None
            )
            if following is None:
                self.ordered[current] = None
                del path[current]
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
    """Return one parameter for each name; contradictions are errors with both places."""
    groups: dict[str, list[Declared]] = {}
    for candidate in declared:
        if candidate.declaration.same is None:
            groups.setdefault(candidate.declaration.name.text, []).append(candidate)
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
    """Return the sets of ``-P name={…}``, by name."""
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
    """Return the override with what it does not say itself taken from the first declaration."""
    if not group:
        return Declared(override, Path())
    first_declaration = group[0].declaration
    inherited: dict[str, Any] = {
        clause: next((v for d in group if (v := getattr(d.declaration, clause)) is not None), None)
        for clause in ("type", "unit", "default", "when", "words")
        if getattr(override, clause) is None
    }
    if override.expression is not None:
        # A derived parameter has no set, so TYPE, DEFAULT and WHEN do not apply to it.
        inherited = {"unit": inherited.get("unit")} if "unit" in inherited else {}
    return Declared(replace(override, way=first_declaration.way, **inherited), Path())


def _check_name(declaration: Declaration) -> None:
    name = declaration.name
    if name.text in MEASURED:
        raise AnnotationError(
            f"{name.text} is the name of a metric that is always measured",
            place=name.place(0, len(name.text)),
            hint="give the parameter another name: AS …",
        )


def _parameter(group: Sequence[Declared]) -> Parameter:
    """Return the parameter that a group of declarations agrees on."""
    diagnostics = Diagnostics()
    first_declaration = group[0].declaration
    clauses = {
        clause: _agreed(group, clause, diagnostics)
        for clause in ("type", "unit", "default", "when", "words")
    }
    domain = _domain_of(group[0], clauses["type"]) if first_declaration.expression is None else None
    for declared in group[1:]:
        with diagnostics.gather():
            if not _means_same(group[0], declared, domain, clauses["type"]):
                _differ(first_declaration, declared.declaration)
    diagnostics.close()
    return Parameter(
        first_declaration.name.text,
        domain,
        first_declaration.way,
        clauses["unit"] or "",
        clauses["default"],
        clauses["when"],
        first_declaration.expression,
        first_declaration.place,
        words=bool(clauses["words"]),
    )


def _agreed(group: Sequence[Declared], clause: str, diagnostics: Diagnostics) -> Any:
    """Return the value of a clause on which all declarations that have it agree."""
    keyword = clause.upper()
    declarations = [d.declaration for d in group if getattr(d.declaration, clause) is not None]
    for later_declaration in declarations[1:]:
        if getattr(later_declaration, clause) != getattr(declarations[0], clause):
            message = (
                f"{later_declaration.name.text} has another {keyword} at"
                f" {declarations[0].places[keyword]}"
            )
            hint = "write it once, or the same in both places"
            diagnostics.error(message, later_declaration.places[keyword], hint)
    return getattr(declarations[0], clause) if declarations else None


def _means_same(
    first: Declared, second: Declared, domain: Domain | None, kind: Type | None
) -> bool:
    """Return whether another declaration means what the first one does."""
    if domain is None or second.declaration.elements is None:
        return second.declaration.expression == first.declaration.expression
    same_text = _set_text(second.declaration) == _set_text(first.declaration)
    return (same_text and second.base == first.base) or _equal(_domain_of(second, kind), domain)


def _domain_of(declared: Declared, kind: Type | None) -> Domain:
    elements = declared.declaration.elements
    assert elements is not None, "a declaration without a set has an expression"
    return read_set(elements, declared.base, kind)


def _equal(first: Domain, second: Domain) -> bool:
    """Return whether two sets have the same texts in the same order."""
    if first == second:
        return True
    if isinstance(first, Continuous | Dependent) or isinstance(second, Continuous | Dependent):
        return False
    # Larger sets are equal only if they are written alike, which was compared before.
    if first.size != second.size or first.size > MOST:
        return False
    return list(first.texts()) == list(second.texts())


def _set_text(declaration: Declaration) -> str:
    content = declaration.elements or (declaration.expression and declaration.expression.passage)
    return " ".join(content.text.split()) if content else ""


def _differ(first: Declaration, second: Declaration) -> NoReturn:
    """Return the diagnostic about a name with two meanings."""
    name = second.name.text
    second_text, first_text = (_short(_set_text(text)) for text in (second, first))
    hint = "write the same in both places, or rename one of them: AS …"
    if sorted(second_text.strip("{} ").split(", ")) == sorted(first_text.strip("{} ").split(", ")):
        hint = "write the same in both places, in the same order"
    raise AnnotationError(
        f"{name} is {second_text} here, but {first_text} at {first.place}",
        place=second.place,
        hint=hint,
    )


def known_names(parameters: Parameters) -> frozenset[str]:
    """Names that are declared, rightly or wrongly."""
    return frozenset(parameters.by_name) | parameters.broken


# Own values: what the program does as it stands

MOST_ELEMENTS = 100_000
"""Elements of a set among which the text of a file is looked for."""


def own_values(application: Application) -> Mapping[str, Value | None]:
    """Return the value of each parameter that is filled into files, as the files have it.

    A SUBSTITUTE replaces a text, which is the value; before an ASSIGN the target is assigned. None
    where the text is no element of the set, or nothing is assigned.
    """
    domains = {p.name: p.domain for p in application.space.dimensions if p.domain is not None}
    values: dict[str, Value | None] = {}
    for file in application.files:
        for name, text in _own_texts(file):
            if name in domains and values.get(name) is None:
                values[name] = None if text is None else _element(domains[name], text)
    return values


def _own_texts(file: Annotated) -> Iterator[tuple[str, str | None]]:
    for hole in file.holes:
        yield hole.parameter, None if hole.match == "regex" else hole.target
    for assignment in file.assignments:
        yield assignment.parameter, _assigned(file, assignment)


def _assigned(file: Annotated, assignment: Assignment) -> str | None:
    """Return what is assigned to the target in the nearest line before, or else behind."""
    pattern = re.compile(rf"(?<!\w){re.escape(assignment.target)}\s*(?::=|=(?!=))\s*([^;#/]+)")
    first_line, last_line = assignment.line.first, assignment.line.last
    for number in (*range(first_line - 1, -1, -1), *range(last_line + 1, len(file.source.lines))):
        if match := pattern.search(file.source.lines[number]):
            return match[1].strip().strip("\"'")
    return None


def _element(domain: Domain, text: str) -> Value:
    """Return the element with this *text*, or the number that it is; None if there is none."""
    if not isinstance(domain, Continuous | Dependent) and domain.size <= MOST_ELEMENTS:
        for position in range(domain.size):
            if domain.text(position) == text:
                return domain.value(position)
        return None
    try:
        return float(text)
    except ValueError:
        return None


# Warnings about parameters and constraints

MANY = 1_000_000
"""Points beyond which a study needs a search; also the most that are tried for a warning."""

_LISTED = 10_000
_ARITHMETIC = re.compile(r"[\w\s.+*/%()-]+")
_BRACES = re.compile(r"\{([^{}]+)\}")
_GROUPED_DIGITS = re.compile(r"[-+]?\d{1,3}(?:[_']\d{3})+")
"""A number as Python, Rust (10_000) and C++ (10'000) group its digits; sets do not know it."""
_MEASURE = re.compile(r"[0-9.]+(?:[KMGTP]i?B|B|ns|us|ms|s|min|h|d)")


def warning(message: str, place: Place | None, hint: str) -> Diagnostic:
    return Diagnostic(message, place, hint, severity="warning")


_MOST_LISTED = 10_000


def listed_texts(parameter: Parameter) -> tuple[str, ...]:
    """What may be put in, where that can be listed."""
    domain = parameter.domain
    default = (parameter.default or "",) if parameter.when is not None else ()
    if domain is None or isinstance(domain, Continuous | Dependent) or domain.size > _MOST_LISTED:
        return default
    return (*domain.texts(), *default)


def unused(application: Application) -> Iterator[Diagnostic]:
    """Yield a PARAM that changes nothing: it only multiplies the experiments."""
    used = _used(application)
    for parameter in application.space.parameters:
        if parameter.kind == "param" and parameter.name not in used:
            times = "is computed, but" if parameter.derived is not None else "is"
            message = f"PARAM {parameter.name} {times} used nowhere"
            hint = (
                f"write {{{parameter.name}}} in a command, or SUBSTITUTE, ASSIGN or ENV for PARAM"
            )
            if parameter.place and parameter.place.file == OPTION:
                other_names = {p.name for p in application.space.parameters} - {parameter.name}
                suggestion = did_you_mean(parameter.name, other_names)
                hint = suggestion if suggestion.startswith("did") else hint
            yield warning(message, parameter.place, hint)


def unused_seed(application: Application) -> Iterator[Diagnostic]:
    """Yield a seed of REPEAT that nothing uses: repeats of a program that draws its own differ."""
    seed = application.repeat.seed
    if seed is not None and seed not in _used(application):
        yield warning(
            f"REPEAT sets {seed}, but nothing uses this seed: the program draws its own seed, if "
            "any",
            None,
            f"ZEN$ ASSIGN seed = @{seed} passes the seed to the program; or use {{{seed}}} in a "
            "command",
        )


def added(application: Application) -> Iterator[Diagnostic]:
    """Of these, what an option added: a slip of the fingers, before anything is multiplied."""
    for diagnostic in unused(application):
        if diagnostic.place and diagnostic.place.file == OPTION:
            yield diagnostic


def _used(application: Application) -> set[str]:
    """Names that files, commands, the environment or expressions use."""
    used = set(application.environment.values())
    for file in application.files:
        used.update(hole.parameter for hole in file.holes)
        used.update(assignment.parameter for assignment in file.assignments)
    for command in (*application.builds, *application.runs):
        used.update(_BRACES.findall(command.text.text))
    for expression in _expressions(application):
        used |= expression.names | expression.indexed
    for parameter in application.space.parameters:
        used |= parameter.needs
    used.update(name for after in application.after for name in after.on)
    for constraint in application.space.constraints:
        if isinstance(constraint, Zip) and not used.isdisjoint(constraint.names):
            used.update(
                constraint.names
            )  # names beside what is used: labels, which multiply nothing
    return used


def _expressions(application: Application) -> Iterator[Expression]:
    yield from (c for c in application.space.constraints if isinstance(c, Expression))
    yield from (goal.expression for goal in application.goals)
    yield from application.requires
    for command in (*application.builds, *application.runs):
        if command.cpus is not None:
            yield command.cpus
    if application.rank is not None:
        yield application.rank
    for metric in application.metrics:
        yield from (part for part in (metric.formula, metric.when) if part is not None)


def elements(application: Application) -> Iterator[Diagnostic]:
    """Texts that look like something else: a range that is none, half a pair of brackets."""
    names = {parameter.name for parameter in application.space.parameters}
    for parameter in application.space.parameters:
        for text in _texts(parameter):
            if _is_quoted(text, parameter):
                continue
            if doubt := _doubt(text, names):
                message, hint = doubt
                yield warning(f"{parameter.name}: {message}", parameter.place, hint)
                break


def _is_quoted(text: str, parameter: Parameter) -> bool:
    """Return whether quotes in its directive say that a text is meant."""
    line = parameter.place.text if parameter.place is not None else ""
    return f'"{text}"' in line or f"'{text}'" in line


def _texts(parameter: Parameter) -> Iterator[str]:
    domain = parameter.domain
    if domain is None or isinstance(domain, Continuous | Dependent) or domain.type != "str":
        return
    if domain.size <= _LISTED:
        yield from domain.texts()


def _names(part: str) -> set[str]:
    return set(re.findall(r"[^\W\d]\w*", part))


def _doubt(text: str, names: set[str]) -> tuple[str, str] | None:
    """What an element may have been meant to be."""
    parts = [part.strip() for part in text.split(":")]
    numbers = [bool(NUMBER.fullmatch(part)) for part in parts]
    words = [part for part, number in zip(parts, numbers, strict=True) if not number]
    if 2 <= len(parts) <= 3 and 0 < len(words) < len(parts):
        if words == [""]:
            return f"{text} is a text, not a range", (
                "a bound is missing; use quotes if a text is intended"
            )
        if all(_ARITHMETIC.fullmatch(part) and _names(part) & names for part in words):
            corrected = ":".join(
                part if number else f"({part})" for part, number in zip(parts, numbers, strict=True)
            )
            return (
                f"{text} is a text, not a range",
                f"write {{ {corrected} }} if a range is intended",
            )
    if (head := text.split(maxsplit=1)[:1]) and head[0] in CALLS and text != head[0]:
        return f"{text} is a text, not a call", f"write {CALLS[head[0]]} if that is intended"
    if _GROUPED_DIGITS.fullmatch(text):
        plain_number = re.sub(r"[_']", "", text)
        return f"{text} is a text, not a number", f"write {plain_number} if a number is intended"
    if 2 <= len(parts) <= 3 and all(_MEASURE.fullmatch(part) for part in parts):
        return f"{text} is a text, not a range", "the bounds of a range must be plain numbers"
    for opener, closer in ("()", "[]", '""'):
        imbalance = (
            text.count(opener) % 2 if opener == closer else text.count(opener) - text.count(closer)
        )
        # A comma in brackets has cut one element in two.
        if imbalance:
            message = f"{text} has an unmatched {opener if opener in text else closer}"
            return message, "put quotes around an element that contains a comma"
    return None


def constraints(application: Application) -> Iterator[Diagnostic]:
    """Yield a constraint that takes nothing away, or everything."""
    space = application.space
    by_name = {parameter.name: parameter for parameter in space.parameters}
    empty = False
    for constraint in space.constraints:
        if not isinstance(constraint, Expression):
            continue
        # A constraint is judged by its own parameters: their product is small where the whole is
        # vast.
        alone = _only(by_name, constraint.names | constraint.indexed)
        place = constraint.passage.place(0, len(constraint.passage.text))
        remaining = _size(alone, (constraint,))
        if remaining == 0:
            empty = True
            message = f"{constraint.text} is never true: it excludes all points"
            yield warning(message, place, "compare it with the sets")
        elif remaining is not None and remaining == _size(alone, ()):
            message = f"{constraint.text} is always true: it excludes no points"
            yield warning(message, place, "compare it with the sets, or remove it")
    if not empty and space.constraints and _few(by_name) and _empty(space):
        message = f"{application.name}: the constraints together exclude all points"
        yield warning(message, None, "check whether they contradict each other")


def texts_outside(application: Application) -> Iterator[Diagnostic]:
    """Yield a constraint that compares a parameter with a text that its set does not have."""
    texts = {p.name: frozenset(_texts(p)) for p in application.space.parameters}
    for constraint in application.space.constraints:
        if isinstance(constraint, Expression):
            for name, text, node in _compared_texts(constraint.node):
                if texts.get(name) and text not in texts[name]:
                    place = constraint.passage.place(node.start, node.end)
                    yield warning(
                        f"no value of {name} is {text}", place, _suggestion(text, texts[name])
                    )


def _compared_texts(root: SyntaxNode) -> Iterator[tuple[str, str, SyntaxNode]]:
    """Yield each name that is compared with a text, the text, and where it stands."""
    for node in walk(root):
        pairs: Sequence[tuple[SyntaxNode, SyntaxNode]] = ()
        match node:
            case Compare(first_operand, steps):
                sides = (first_operand, *(step.operand for step in steps))
                are_equalities = [step.operator in ("==", "!=") for step in steps]
                sided_pairs = zip(pairwise(sides), are_equalities, strict=True)
                pairs = [pair for pair, is_equality in sided_pairs if is_equality]
            case Member(item, options):
                pairs = [(item, option) for option in options]
        for pair in pairs:
            for name, constant in (pair, pair[::-1]):
                if isinstance(name, Name) and isinstance(constant, Constant):
                    value = constant.value
                    if isinstance(value, str):
                        yield name.name, value, constant


def _suggestion(text: str, values: Collection[str]) -> str:
    """Return which value was meant, if it is the same but for quotes; else which there are."""
    quoted_values = [value for value in values if value.strip("\"'") == text.strip("\"'")]
    if quoted_values and quoted_values[0] != text:
        mark = "'" if '"' in quoted_values[0] else '"'
        return f"the elements of the set include the quotes: write {mark}{quoted_values[0]}{mark}"
    return did_you_mean(text, values)


def _only(by_name: dict[str, Parameter], names: frozenset[str]) -> dict[str, Parameter]:
    """Return the parameters named, and those that they need."""
    needed: set[str] = set()
    unvisited = set(names)
    while unvisited:
        name = unvisited.pop()
        needed.add(name)
        unvisited |= by_name[name].needs - needed
    return {name: parameter for name, parameter in by_name.items() if name in needed}


def _few(parameters: dict[str, Parameter]) -> bool:
    """Return whether the product of the sets is small enough to be tried."""
    sizes = []
    for parameter in parameters.values():
        if isinstance(parameter.domain, Continuous | Dependent):
            return False
        sizes.append(parameter.domain.size if parameter.domain is not None else 1)
    return math.prod(sizes) <= MANY


def _size(parameters: dict[str, Parameter], constraints: tuple[Expression, ...]) -> int | None:
    """Return how many points there are, if that is soon known."""
    if not _few(parameters):
        return None
    try:
        return Space(tuple(parameters.values()), constraints).size
    except InputError:  # a division by zero, say: the run will tell where
        return None


def _empty(space: Space) -> bool:
    try:
        return space.size == 0
    except InputError:
        return False


def size(application: Application) -> Iterator[Diagnostic]:
    """Too many points to run all, and no objective to search for."""
    if application.goals:
        return
    space = application.space
    hint = (
        "add an objective, such as OBJECTIVE MINIMIZE wtime, and search; or run a sample of the "
        "points"
    )
    continuous = [p.name for p in space.parameters if isinstance(p.domain, Continuous)]
    if continuous:
        message = f"{continuous[0]} is continuous, and there is no OBJECTIVE for a search"
        yield warning(message, _place(space, continuous[0]), hint)
        return
    if any(isinstance(parameter.domain, Dependent) for parameter in space.parameters):
        return
    count = _points(space)
    if count > MANY:
        count_text = f"{count:,}" if count < 10**15 else f"more than 10^{len(str(count)) - 1}"
        message = f"{application.name}: {count_text} points, and no OBJECTIVE for a search"
        yield warning(message, None, hint)


def _points(space: Space) -> int:
    """Return how many points there are; before constraints where these make it hard to say."""
    product = math.prod(p.domain.size for p in space.parameters if p.domain is not None)
    if product <= MANY:
        return product
    try:
        count = space.size if all(part.is_counted for part in space.components) else product
    except InputError:  # an expression that fails on some point: the run will tell where
        count = product
    return count


def _place(space: Space, name: str) -> Place | None:
    return next((p.place for p in space.parameters if p.name == name), None)
