"""The query of a study's table, as the address of a page states it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from starlette.datastructures import QueryParams

from zenturio.errors import InputError, Passage, did_you_mean
from zenturio.expression import parse
from zenturio.query.wanted import Wanted
from zenturio.record import STATES, State
from zenturio.record.row_filter import RowChoice, read_round
from zenturio.show.portal.page_templates import address


@dataclass(frozen=True)
class Asked:
    """A table of a study, and where in it somebody stands."""

    name: str
    where: str = ""
    state: str = ""
    sort: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    after: str = ""
    """The last row of the page before this one: its digest, and behind a dash its number."""
    before: str = ""
    """The first row of the page behind this one, likewise; ``end`` for the last page."""
    machine: str = ""
    """The kind of machine whose results are shown: its label, or a part of it."""
    round: str = ""
    """The round whose results are shown: a number, or ``all``."""

    @classmethod
    def of(cls, given: QueryParams, named: Callable[[str], str]) -> Asked:
        """InputError if it makes no sense; *named* tells the study that a name means."""
        asked = cls(
            named(study_in(given)),
            given.get("where", "").strip(),
            given.get("state", ""),
            tuple(filter(None, given.getlist("sort"))),
            tuple(filter(None, given.getlist("column"))),
            given.get("after", ""),
            given.get("before", ""),
            given.get("machine", "").strip(),
            given.get("round", "").strip(),
        )
        if asked.state and asked.state not in STATES:
            raise InputError(
                f"no state is called {asked.state!r}", hint=did_you_mean(asked.state, STATES)
            )
        return asked

    def wanted(self, *, repeats: bool = False) -> Wanted:
        """As the query room has it; an error in the condition names its place."""
        where = parse(Passage.of(self.where, "filter")) if self.where else None
        states = (cast("State", self.state),) if self.state else ()
        rows = RowChoice(self.machine, read_round(self.round))
        asked = (self.name, where, states, self.sort, self.columns, repeats, rows)
        return Wanted(*asked, own_first=True)

    @property
    def given(self) -> Mapping[str, Any]:
        """All but where somebody stands, as an address has it."""
        return {
            "name": self.name, "where": self.where, "state": self.state,
            "sort": self.sort, "column": self.columns,
            "machine": self.machine, "round": self.round,
        }  # fmt: skip

    def address(self, path: str = "/study", **changes: Any) -> str:
        """This table in another way; from its beginning, unless *changes* say otherwise."""
        return address(path, self.given, **changes)

    def sorted_by(self, column: str) -> str:
        """The address of the table sorted by a column: up, then down, then not at all."""
        following = {column: (f"-{column}",), f"-{column}": ()}
        now = self.sort[0] if len(self.sort) == 1 else ""
        return self.address(sort=following.get(now, (column,)))


def study_in(given: QueryParams) -> str:
    """The study that an address names."""
    name = given.get("name", "")
    if not name:
        raise InputError("no study is named", hint="choose one of the studies")
    return name
