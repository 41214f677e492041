"""The query of a study's table, as the address of a page states it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from starlette.datastructures import QueryParams

from zenturio.errors import InputError, Passage, did_you_mean
from zenturio.expression import parse
from zenturio.query.study_table import TableQuery
from zenturio.record import EXPERIMENT_STATES, ExperimentState
from zenturio.record.entities import RowChoice, read_round
from zenturio.show.portal.page_templates import address


@dataclass(frozen=True)
class StudyQuery:
    """A table of a study, and the page of it that is shown."""

    name: str
    where: str = ""
    state: str = ""
    sort: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    after: str = ""
    """The last row of the previous page: its digest, and after a dash its number."""
    before: str = ""
    """The first row of the next page, likewise; ``end`` for the last page."""
    machine: str = ""
    """The kind of machine whose results are shown: its label, or a part of it."""
    round: str = ""
    """The round whose results are shown: a number, or ``all``; default: the newest."""

    @classmethod
    def from_address(cls, parameters: QueryParams, resolve: Callable[[str], str]) -> StudyQuery:
        """Return the query of an address; *resolve* returns the study that a name stands for.

        Raise InputError if there is no such state.
        """
        query = cls(
            resolve(study_name(parameters)),
            parameters.get("where", "").strip(),
            parameters.get("state", ""),
            tuple(filter(None, parameters.getlist("sort"))),
            tuple(filter(None, parameters.getlist("column"))),
            parameters.get("after", ""),
            parameters.get("before", ""),
            parameters.get("machine", "").strip(),
            parameters.get("round", "").strip(),
        )
        if query.state and query.state not in EXPERIMENT_STATES:
            hint = did_you_mean(query.state, EXPERIMENT_STATES)
            raise InputError(f"there is no state {query.state!r}", hint=hint)
        return query

    def table_query(self, *, repeats: bool = False) -> TableQuery:
        """Return the query for the database; an error in the condition has its position."""
        where = parse(Passage.of(self.where, "filter")) if self.where else None
        states = (cast("ExperimentState", self.state),) if self.state else ()
        rows = RowChoice(self.machine, read_round(self.round))
        return TableQuery(
            self.name, where, states, self.sort, self.columns, repeats, rows, own_first=True
        )

    def to_address(self) -> Mapping[str, Any]:
        """Return the names and values of an address, but for the page of the table."""
        return {
            "name": self.name, "where": self.where, "state": self.state,
            "sort": self.sort, "column": self.columns,
            "machine": self.machine, "round": self.round,
        }  # fmt: skip

    def address(self, path: str = "/study", **changes: Any) -> str:
        """Return the address of this table with *changes*, from its first page."""
        return address(path, self.to_address(), **changes)

    def sorted_by(self, column: str) -> str:
        """Return the address of the table sorted by a column: up, then down, then not at all."""
        following = {column: (f"-{column}",), f"-{column}": ()}
        current = self.sort[0] if len(self.sort) == 1 else ""
        return self.address(sort=following.get(current, (column,)))


def study_name(parameters: QueryParams) -> str:
    """Return the study that an address names; raise InputError if it names none."""
    name = parameters.get("name", "")
    if not name:
        raise InputError("no study is named", hint="choose one of the studies")
    return name
