"""The values that files have by themselves: what the program does as it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from zenturio.annotate.model import Annotated, Application, Assignment
from zenturio.expression import Value
from zenturio.space import Domain
from zenturio.space.domain import Continuous
from zenturio.space.parameter import Dependent

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
        for name, text in _texts(file):
            if name in domains and values.get(name) is None:
                values[name] = None if text is None else _element(domains[name], text)
    return values


def _texts(file: Annotated) -> Iterator[tuple[str, str | None]]:
    for hole in file.holes:
        yield hole.parameter, None if hole.match == "regex" else hole.target
    for assignment in file.assignments:
        yield assignment.parameter, _assigned(file, assignment)


def _assigned(file: Annotated, assignment: Assignment) -> str | None:
    """Return what is assigned to the target in the nearest line before, or else behind."""
    pattern = re.compile(rf"(?<!\w){re.escape(assignment.target)}\s*(?::=|=(?!=))\s*([^;#/]+)")
    first, last = assignment.line.first, assignment.line.last
    for number in (*range(first - 1, -1, -1), *range(last + 1, len(file.source.lines))):
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
