"""Scopes and regions of a file: pairs of BEGIN and END."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from zenturio.annotate.diagnostics import Diagnostics
from zenturio.annotate.model import Line, Region
from zenturio.annotate.statements import Declaration, EndStatement, RegionStatement, Statement
from zenturio.errors import Passage, Place


@dataclass(frozen=True, slots=True)
class WrittenScope:
    """A directive of a file; no statement if it cannot be read."""

    line: Line
    statement: Statement | None

    @property
    def begins(self) -> bool:
        """Whether an END belongs to it, as far as can be seen."""
        match self.statement:
            case Declaration(begins=begins):
                return begins
            case RegionStatement():
                return True
            case None:
                return self.line.body.text.upper().split()[-1:] == ["BEGIN"]
            case _:
                return False


@dataclass(frozen=True)
class Scopes:
    """The line behind each scope, by the line that begins it; and the regions."""

    ends: dict[int, int]
    regions: tuple[Region, ...]


def pair(written: Iterable[WrittenScope], length: int, diagnostics: Diagnostics) -> Scopes:
    """Each BEGIN with its END in a file of *length* lines."""
    pairing = _Pairing(diagnostics, [], {}, [])
    for each in written:
        if isinstance(each.statement, EndStatement):
            pairing.end(each.statement, each.line)
        elif each.begins:
            pairing.open.append(each)
    for each in pairing.open:
        place, name = _start(each)
        closing = f"END {name}".rstrip()
        message = f"the scope of {name or 'this'} begins here and never ends"
        diagnostics.error(message, place, f"write {closing} where it shall end")
        pairing.ends[each.line.first] = length
    return Scopes(pairing.ends, tuple(pairing.regions))


@dataclass
class _Pairing:
    diagnostics: Diagnostics
    open: list[WrittenScope]
    ends: dict[int, int]
    regions: list[Region]
    crossed: list[WrittenScope] = field(default_factory=list)
    """What an END of something else has ended already: its own END is no second mistake."""

    def end(self, end: EndStatement, line: Line) -> None:
        at = self.partner(end)
        if at is None:
            return
        begun = self.open[at]
        if at < len(self.open) - 1:
            inner = self.open[-1]
            place, name = _start(inner)
            message = f"this ends {_start(begun)[1]}, but {name} began later at {place}"
            hint = f"end what began last first: END {name}"
            self.diagnostics.error(message, end.place, hint)
            self.crossed += self.open[at + 1 :]
        del self.open[at:]
        self.ends[begun.line.first] = line.first
        if isinstance(begun.statement, RegionStatement):
            region = begun.statement
            self.regions.append(Region(region.name.text, region.probes, begun.line, line))

    def partner(self, end: EndStatement) -> int | None:
        """Which of the open ones *end* ends; a diagnostic if it is none."""
        fitting = [at for at, each in enumerate(self.open) if _fits(each, end)]
        if fitting:
            return fitting[-1]
        late = next((each for each in self.crossed if end.name and _fits(each, end)), None)
        if late is not None:
            self.crossed.remove(late)
            return None
        what = "END CR" if end.region else "END"
        if end.name is not None:
            what += f" {end.name.text}"
        known = ", ".join(_start(each)[1] for each in self.open)
        hint = f"what is open here: {known}" if known else "nothing is open here: leave it away"
        self.diagnostics.error(f"{what} without BEGIN", end.place, hint)
        return None


def _fits(begun: WrittenScope, end: EndStatement) -> bool:
    match begun.statement:
        case Declaration(target=target):
            return not end.region and (end.name is None or end.name.text == target.text)
        case RegionStatement(name=name):
            return end.region and (end.name is None or end.name.text == name.text)
        case _:
            return True


def _start(begun: WrittenScope) -> tuple[Place, str]:
    """Where a scope begins, and how its END is named."""
    body = begun.line.body
    match begun.statement:
        case Declaration(target=target):
            return _whole(target), quoted(target.text)
        case RegionStatement(name=name):
            return _whole(name), f"CR {quoted(name.text)}"
        case _:
            return body.place(0, len(body.text)), ""


def _whole(name: Passage) -> Place:
    return name.place(0, len(name.text))


def quoted(name: str) -> str:
    """*name* as it is written in a directive."""
    return name if name.replace("_", "a").isalnum() else f'"{name}"'
