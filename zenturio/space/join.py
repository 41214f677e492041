"""Joins: the table of a part, made depth first in pieces that stay in the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from zenturio.errors import InputError
from zenturio.space.components import Part
from zenturio.space.diagram import Diagram
from zenturio.space.facts import Facts
from zenturio.space.growth import Growing, Growth, Windows
from zenturio.space.plan import Bind, Plan, as_declared, sequential, thrifty
from zenturio.space.table import UNIT, Table, stacked

PIECE = 1 << 19
"""A table that would grow beyond so many rows is worked on in parts, one after the other."""

WIDEST = 1 << 18
"""Beside one row, at most so many codes of a dimension are bound at once."""

LARGEST = 1 << 23
"""A table that cannot be made in parts, because columns are still to come between, has no more."""

TRIALS = ((1 << 20, 1 << 40), (1 << 26, 1 << 37))
"""After so many rows, a part that would take more than so many in all is given up: hours."""


class Unwieldy(Exception):
    """A plan needs a table that is too long, and that cannot be made in parts."""


class Progress:
    """How much work has been done, and which share of the whole product that was."""

    def __init__(self) -> None:
        self.rows = 0
        self.codes = 0
        self.share = 0.0

    @property
    def is_hopeless(self) -> bool:
        """Whether, for all that was done, too little was achieved ever to come to an end."""
        return any(self.rows > rows and self.rows > most * self.share for rows, most in TRIALS)


class Join:
    """Makes tables of a part, of all of it or of the codes inside windows."""

    def __init__(self, part: Part) -> None:
        self.part = part

    def walk(self, windows: Windows, progress: Progress) -> Iterator[Table]:
        """The points inside *windows* as tables: sorted, and one behind the other.

        Between them come empty ones, after each bit of work: so a walk can be given up in time.
        """
        given, complete = 0, False
        while not complete:
            plan, passed = self._plan, 0
            try:
                for table in self._run(UNIT, 0, Growing(self.part, plan, windows), progress):
                    start, passed = max(given - passed, 0), passed + table.length
                    given = max(given, passed)
                    yield table.cut(min(start, table.length), table.length)
                complete = True
            except (InputError, Unwieldy) as error:
                self._demote(plan, error)

    def diagram(self, windows: Windows) -> Diagram:
        """The points inside *windows*, counted; Overfull if that needs too many choices."""
        try:
            return Diagram(Growing(self.part, self._sequential, windows))
        except InputError:
            return Diagram(Growing(self.part, self._declared, windows))

    @cached_property
    def _nothing(self) -> Table:
        return stacked(self.part.names, [])

    @cached_property
    def _plan(self) -> Plan:
        """The plan to follow, until it fails."""
        return self._declared if self._facts is None else thrifty(self._facts)

    @cached_property
    def _sequential(self) -> Plan:
        return self._declared if self._facts is None else sequential(self._facts)

    @cached_property
    def _declared(self) -> Plan:
        return as_declared(self.part)

    @cached_property
    def _facts(self) -> Facts | None:
        """What is known beforehand: nothing, if conditions fail where others do not hold."""
        try:
            return Facts(self.part)
        except InputError:
            return None

    def _demote(self, plan: Plan, error: Exception) -> None:
        """Takes a more careful plan from now on; raises *error* if there is none.

        A condition may fail on rows that another one, declared before it, takes away; and a plan
        that puts dimensions between others may need a table too long to be made in parts.
        """
        if plan is self._declared:
            raise error
        if plan is self._plan:
            wide = isinstance(error, Unwieldy)
            self._plan = self._sequential if wide else self._declared

    def _run(
        self, table: Table, number: int, growing: Growing, progress: Progress, share: float = 1.0
    ) -> Iterator[Table]:
        """The steps from *number* on, for the rows of *table*, which are a *share* of the whole."""
        steps = growing.plan.steps
        while number < len(steps) and table.length:
            step = steps[number]
            if isinstance(step, Bind):
                growth = growing.growth(table, step)
                divided = self._divided(growth, growing, number)
                if divided:
                    for part, inside, rows in divided:
                        own = share * rows / growth.total
                        yield from self._run(part, number, inside, progress, own)
                    return
                table = growth.grown()
                progress.rows += table.length
                progress.codes += table.length * len(table.names)
                yield self._nothing
            else:
                table = table.kept(growing.kept(table, step.rule))
            number += 1
        progress.share += share
        if table.length:
            yield table

    def _divided(
        self, growth: Growth, growing: Growing, number: int
    ) -> list[tuple[Table, Growing, float]]:
        """What is bound one after the other, if *growth* makes too many rows to bind it at once.

        With each part comes how many of the rows it makes, about.
        """
        table, total = growth.table, growth.total
        steps = growing.plan.steps[number:]
        places = [self.part.ranks[each.name] for each in steps if isinstance(each, Bind)]
        if total > PIECE and table.length > 1:
            columns = sum(self.part.ranks[name] < min(places) for name in table.names)
            parts = table.parts(max(table.length * PIECE // total, 1), columns)
            if len(parts) > 1:
                return [(part, growing, total * part.length / table.length) for part in parts]
        if total > WIDEST and table.length == 1 and min(places) == places[0]:
            low, high = growth.choices.ends
            windows = (low, (low + high) // 2), ((low + high) // 2, high)
            return [(table, growing.narrowed(growth.name, each), total / 2) for each in windows]
        if total > LARGEST:
            raise Unwieldy(total)
        return []
