"""Warnings about parameters and constraints."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from zenturio.annotate.model import Application
from zenturio.annotate.parameters import OPTION
from zenturio.annotate.set_syntax import NUMBER
from zenturio.errors import Diagnostic, InputError, Place, did_you_mean
from zenturio.expression import Expression
from zenturio.space import Continuous, Dependent, Parameter, Space, Zip

MANY = 1_000_000
"""Points beyond which a study needs a search; also the most that are tried for a warning."""

_LISTED = 10_000
_ARITHMETIC = re.compile(r"[\w\s.+*/%()-]+")
_BRACES = re.compile(r"\{([^{}]+)\}")
_MEASURE = re.compile(r"[0-9.]+(?:[KMGTP]i?B|B|ns|us|ms|s|min|h|d)")


def warning(message: str, place: Place | None, hint: str) -> Diagnostic:
    return Diagnostic(message, place, hint, severity="warning")


def unused(application: Application) -> Iterator[Diagnostic]:
    """A PARAM that changes nothing: it only multiplies the experiments."""
    used = _used(application)
    for parameter in application.space.parameters:
        if parameter.kind == "param" and parameter.name not in used:
            times = "is computed, but" if parameter.derived is not None else "is"
            message = f"PARAM {parameter.name} {times} used nowhere"
            hint = (
                f"write {{{parameter.name}}} in a command, or SUBSTITUTE, ASSIGN or ENV for PARAM"
            )
            if parameter.place and parameter.place.file == OPTION:
                others = {p.name for p in application.space.parameters} - {parameter.name}
                near = did_you_mean(parameter.name, others)
                hint = near if near.startswith("did") else hint
            yield warning(message, parameter.place, hint)


def unused_seed(application: Application) -> Iterator[Diagnostic]:
    """A seed that nothing is told of: the program draws its own, and no repeat can be repeated."""
    seed = application.repeat.seed
    if seed is not None and seed not in _used(application):
        yield warning(
            f"nothing uses the seed {seed} of REPEAT: the program draws one of its own, if any",
            None,
            f"ZEN$ ASSIGN seed = @{seed} gives it to the program; or {{{seed}}} in a command",
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
            if doubt := _doubt(text, names):
                message, hint = doubt
                yield warning(f"{parameter.name}: {message}", parameter.place, hint)
                break


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
    others = [part for part, number in zip(parts, numbers, strict=True) if not number]
    if 2 <= len(parts) <= 3 and 0 < len(others) < len(parts):
        if others == [""]:
            return f"{text} is a text, not a range", "a bound is missing; quotes if a text is meant"
        if all(_ARITHMETIC.fullmatch(part) and _names(part) & names for part in others):
            right = ":".join(
                part if number else f"({part})" for part, number in zip(parts, numbers, strict=True)
            )
            return (
                f"{text} is a text, not a range",
                f"write {{ {right} }} if a range is meant",
            )
    if 2 <= len(parts) <= 3 and all(_MEASURE.fullmatch(part) for part in parts):
        return f"{text} is a text, not a range", "the bounds of a range are plain numbers"
    for opener, closer in ("()", "[]", '""'):
        odd = (
            text.count(opener) % 2 if opener == closer else text.count(opener) - text.count(closer)
        )
        # A comma in brackets has cut one element in two.
        if odd:
            message = f"{text} has a {opener if opener in text else closer} without its partner"
            return message, "put quotes around an element that holds a comma"
    return None


def constraints(application: Application) -> Iterator[Diagnostic]:
    """A constraint that takes nothing away, or everything."""
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
        kept = _size(alone, (constraint,))
        if kept == 0:
            empty = True
            message = f"{constraint.text} is never true: no point is left"
            yield warning(message, place, "check it against the sets")
        elif kept is not None and kept == _size(alone, ()):
            message = f"{constraint.text} is always true: it takes nothing away"
            yield warning(message, place, "check it against the sets, or leave it away")
    if not empty and space.constraints and _few(by_name) and _empty(space):
        message = f"{application.name}: the constraints together leave no point"
        yield warning(message, None, "check them against each other")


def _only(by_name: dict[str, Parameter], names: frozenset[str]) -> dict[str, Parameter]:
    """The parameters named, and those that they need."""
    needed: set[str] = set()
    rest = set(names)
    while rest:
        name = rest.pop()
        needed.add(name)
        rest |= by_name[name].needs - needed
    return {name: parameter for name, parameter in by_name.items() if name in needed}


def _few(parameters: dict[str, Parameter]) -> bool:
    """Whether the product of the sets is small enough to be tried."""
    sizes = []
    for parameter in parameters.values():
        if isinstance(parameter.domain, Continuous | Dependent):
            return False
        sizes.append(parameter.domain.size if parameter.domain is not None else 1)
    return math.prod(sizes) <= MANY


def _size(parameters: dict[str, Parameter], constraints: tuple[Expression, ...]) -> int | None:
    """How many points there are, if that is soon known."""
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
    """More points than anybody runs, and nothing to search for."""
    if application.goals:
        return
    space = application.space
    hint = "say what is best, OBJECTIVE MINIMIZE wtime, and search; or run a sample of them"
    continuous = [p.name for p in space.parameters if isinstance(p.domain, Continuous)]
    if continuous:
        message = f"{continuous[0]} is continuous, and there is no OBJECTIVE to search for"
        yield warning(message, _place(space, continuous[0]), hint)
        return
    if any(isinstance(parameter.domain, Dependent) for parameter in space.parameters):
        return
    count = _points(space)
    if count > MANY:
        shown = f"{count:,}" if count < 10**15 else f"more than 10^{len(str(count)) - 1}"
        message = f"{application.name}: {shown} points, and no OBJECTIVE to search for"
        yield warning(message, None, hint)


def _points(space: Space) -> int:
    """How many points there are; before constraints where these make it hard to say."""
    product = math.prod(p.domain.size for p in space.parameters if p.domain is not None)
    if product <= MANY:
        return product
    try:
        counted = space.size if all(part.is_counted for part in space.components) else product
    except InputError:  # an expression that fails on some point: the run will tell where
        counted = product
    return counted


def _place(space: Space, name: str) -> Place | None:
    return next((p.place for p in space.parameters if p.name == name), None)
