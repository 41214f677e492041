"""The page of a study: its parameters, failures and experiments."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.responses import HTMLResponse, Response

from zenturio.errors import InputError
from zenturio.experiment.failure import log_end
from zenturio.expression import quoted
from zenturio.expression.syntax_tree import Literal
from zenturio.expression.writer import write
from zenturio.query.catalog import Column
from zenturio.query.listing import Listing, listed
from zenturio.query.wanted import Cause, Row, Taken
from zenturio.record import STATES, Definition
from zenturio.record.open import flavour
from zenturio.show.portal.origins import origins_offered
from zenturio.show.portal.state import PATIENCE, Answer, Portal, portal_of
from zenturio.show.portal.study_query import Asked, study_in
from zenturio.show.portal.watch import Seen
from zenturio.study.define import PROGRAM
from zenturio.study.stages import AFTER

if TYPE_CHECKING:
    from starlette.requests import Request

    from zenturio.query.wanted import Numbers


def rerun_command(definition: Definition, study: str, db: str | None, *options: str) -> str:
    """The command that runs *study* again; empty where it was not run from files."""
    notes = definition.notes
    paths = [str(path) for path in notes.get("paths", ())]
    if not paths or not notes.get("runs"):
        return ""
    words = ["zen", "run", *(path if path[:1] != "-" else f"./{path}" for path in paths)]
    for override in notes.get("overrides", ()):
        words += ["-P", str(override)]
    if len(paths) > 1 or Path(paths[0]).stem != study:
        words += ["--name", study]
    if db:
        words += ["--db", without_password(db)]
    command = shlex.join([*words, *options])
    root = notes.get("root")
    return f"cd {shlex.quote(str(root))} && {command}" if root else command


def without_password(db: str) -> str:
    """A URL without its password; a path as it is."""
    return flavour(db).place if "://" in db else db


CAUSES = 30
"""That a page shows; of more it says that there are."""
LOG_LINES = 12
"""Of a log's end."""


@dataclass(frozen=True)
class Failing:
    """A cause, and what an example of it says."""

    cause: Cause
    point: Sequence[tuple[Column, Any]]
    stream: str
    end: str
    where: str
    """The condition that chooses these experiments."""


@dataclass(frozen=True)
class Failures:
    """The causes, the frequent ones first."""

    causes: Sequence[Failing]
    more: bool
    """Whether there are causes beside these."""
    sql: str


def failures(request: Request) -> Response:
    """What failed, by its cause."""
    portal = portal_of(request)
    name = portal.named(study_in(request.query_params))
    values = {
        "failures": causes(portal, name),
        "name": name,
        "rerun": rerun_failed_command(portal, name),
    }
    return HTMLResponse(portal.render("_failures.html", **values))


def rerun_failed_command(portal: Portal, name: str) -> str:
    """The command that runs the failed ones again; empty where nothing is known of it."""
    definition = portal.definition(name)
    return rerun_command(definition, name, portal.settings.db, "--only", "failed")


def causes(portal: Portal, name: str) -> Failures:
    """Why experiments of a study failed."""

    def ask(found: Listing) -> Failures:
        each = [_failing(portal, found, cause) for cause in found.causes(CAUSES + 1)]
        return Failures(each[:CAUSES], len(each) > CAUSES, found.causes_sql(CAUSES))

    wanted = Asked(name).wanted()
    return portal.keep(name, "causes", lambda: listed(portal.repository, wanted, ask)).value


def _failing(portal: Portal, found: Listing, cause: Cause) -> Failing:
    facts = found.known.facts
    status, why = (quoted(facts[fact].name) for fact in ("status", "cause"))
    logs = portal.repository.logs(cause.example.digest)
    return Failing(
        cause,
        [
            (column, cell)
            for column, cell in zip(found.columns, cause.example.cells, strict=True)
            if column.role == "parameter" and cell is not None
        ],
        *log_end(logs.stderr, logs.stdout, LOG_LINES),
        f"{status} == {write(Literal(cause.status))} and {why} == {write(Literal(cause.cause))}",
    )


PAGE = 50
"""Rows of a page."""
SMALL = 20_000
"""Experiments of a study that are counted at once; of larger ones, when the page is there."""
FEW = 12
"""Values of a parameter that are shown."""
OTHERS = ("index", "repeat", "machine", "round", "cause", "host", "attempt", "started", "ended")
"""What is known of every experiment, and is shown if somebody wants it."""


@dataclass(frozen=True)
class Table:
    """A page of a table."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    sql: str
    earlier: str = ""
    """The digest that the page before ends in front of; empty on the first page."""
    later: str = ""
    found: int | None = None
    """How many rows there are; none while that is not counted."""
    start: int = 0
    """How many stand before this page."""
    as_of: float = 0.0
    """When order and number were found out, where that was not now."""


@dataclass(frozen=True)
class Values:
    """What parameters took."""

    taken: Sequence[Taken]
    sql: str


def study(request: Request) -> Response:
    """The page of a study."""
    portal = portal_of(request)
    asked = Asked.of(request.query_params, portal.named)
    repository = portal.repository
    counts = repository.counts(asked.name)
    small = sum(counts.values()) <= SMALL
    table, diagnostic, status = None, "", 200
    try:
        table = _table(portal, asked, counted=small)
    except InputError as error:
        diagnostic, status = str(error), 400
    repeats = portal.repeated(asked.name)
    columns, facts = listed(repository, Asked(asked.name).wanted(repeats=repeats), _offered)
    return portal.page(
        request,
        "study.html",
        status,
        asked=asked,
        seen=portal.seen(asked.name),
        origins=origins_offered(portal, (asked.name,)),
        counts={state: counts[state] for state in STATES if counts[state]},
        goals=_goals(portal, asked.name),
        before=_before(portal, asked.name),
        columns=columns,
        facts=facts,
        table=table,
        diagnostic=diagnostic,
        small=small,
        values=_taken(portal, asked.name) if small else None,
        failures=causes(portal, asked.name) if small else None,
        rerun=rerun_failed_command(portal, asked.name),
    )


def found(request: Request) -> Response:
    """How many rows a table has, and which of them a page shows: what a large one tells late."""
    portal = portal_of(request)
    asked = Asked.of(request.query_params, portal.named)
    table = _table(portal, asked, counted=True)
    return HTMLResponse(portal.render("_found.html", table=table))


def parameters(request: Request) -> Response:
    """What each parameter took."""
    portal = portal_of(request)
    name = portal.named(study_in(request.query_params))
    text = portal.render("_parameters.html", values=_taken(portal, name))
    return HTMLResponse(text)


def _before(portal: Portal, name: str) -> list[Seen]:
    """The stages that it waits for, as they stand now."""
    parts = portal.definition(name).notes.get(PROGRAM) or {}
    names = {part.removeprefix(AFTER) for part in parts if part.startswith(AFTER)}
    return [seen for seen in portal.watch.look() if seen.name in names] if names else []


def _goals(portal: Portal, name: str) -> list[Mapping[str, str]]:
    """What the study aims at, and where its best are; nowhere for a goal that is computed."""
    definition = portal.definition(name)
    metrics = {field.name for field in definition.metrics}

    def best(goal: Mapping[str, str]) -> str:
        column = goal["expression"]
        sort = f"-{column}" if goal["direction"] == "maximize" else column
        return Asked(name).address(state="ok", sort=sort) if column in metrics else ""

    return [{**goal, "best": best(goal)} for goal in definition.goals]


def _offered(found: Listing) -> tuple[Sequence[Column], Sequence[Column]]:
    """The columns that are shown if none are chosen, and those that can be chosen beside them."""
    facts = found.known.facts
    others = [facts[name] for name in OTHERS if facts[name] not in found.columns]
    return found.columns, others


def _table(portal: Portal, asked: Asked, *, counted: bool) -> Table:
    """The page that is asked for; *counted* says that all rows are to be counted, too."""
    repository, repeats = portal.repository, portal.repeated(asked.name)
    wanted = asked.wanted(repeats=repeats)
    anchor = asked.after or asked.before
    at = _row_number(portal, asked.name, anchor) if anchor not in ("", "end") else None
    if not wanted.plain:
        order = portal.order(wanted) if anchor or counted else portal.known_order(wanted)
        if order is not None:
            return listed(repository, wanted, lambda found: _cut(found, order, asked, at))

    def page(found: Listing) -> Table:
        if at is None:
            rows = found.before(None, PAGE + 1) if anchor else found.first(PAGE + 1)
        else:
            ask = found.behind if asked.after else found.before
            rows = ask(at, PAGE + 1)
        backwards = bool(asked.before)
        rows, more = (rows[-PAGE:] if backwards else rows[:PAGE]), len(rows) > PAGE
        earlier = rows and (more if backwards else bool(anchor))
        later = rows and (asked.before != "end" if backwards else more)
        total = found.known.total if wanted.plain else None
        start = found.rank(rows[0].number) if rows and counted and wanted.plain else 0
        return Table(
            found.columns,
            rows,
            found.sql(PAGE),
            _anchor(found, rows[0]) if earlier else "",
            _anchor(found, rows[-1]) if later else "",
            total if counted else None,
            start,
        )

    return listed(repository, wanted, page)


def _anchor(found: Listing, row: Row) -> str:
    """How an address names a row: by its digest, unless several rows may have that."""
    return f"{row.digest}-{row.number}" if found.known.has_several else row.digest


def _row_number(portal: Portal, name: str, anchor: str) -> int:
    """The number of the row that an address names."""
    digest, _, number = anchor.partition("-")
    return int(number) if number.isdecimal() else portal.repository.row(name, digest).key.row


def _cut(found: Listing, order: Answer[Numbers], asked: Asked, at: int | None) -> Table:
    """A page out of an order that is known."""
    numbers = order.value
    start = 0
    if asked.before == "end":
        start = max(len(numbers) - 1, 0) // PAGE * PAGE
    elif at is not None:
        places = np.flatnonzero(numbers == at)
        place = int(places[0]) if len(places) else 0  # it is not among them any more
        start = place + 1 if asked.after and len(places) else max(place - PAGE, 0)
    rows = found.those(numbers[start : start + PAGE])
    return Table(
        found.columns,
        rows,
        found.sql(PAGE),
        _anchor(found, rows[0]) if rows and start else "",
        _anchor(found, rows[-1]) if rows and start + PAGE < len(numbers) else "",
        len(numbers),
        start,
        order.at if time.time() - order.at > PATIENCE else 0.0,
    )


def _taken(portal: Portal, name: str) -> Values:
    def ask(found: Listing) -> Values:
        columns = (*found.known.parameters, *found.known.seeds)
        asked = [found.taken_sql(column, FEW + 1) for column in columns]
        return Values([found.taken(column, FEW) for column in columns], ";\n".join(asked))

    wanted = Asked(name).wanted()
    return portal.keep(name, "taken", lambda: listed(portal.repository, wanted, ask)).value
