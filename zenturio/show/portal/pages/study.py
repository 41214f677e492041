"""The page of a study (parameters, failures, experiments), and the home page."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.responses import HTMLResponse, Response, StreamingResponse

from zenturio.errors import InputError
from zenturio.experiment.experiment import log_end
from zenturio.expression import quoted
from zenturio.expression.syntax_tree import Constant
from zenturio.expression.writer import write
from zenturio.query.catalog import StudyColumn
from zenturio.query.listing import ColumnRange, ExperimentRow, FailureCause, Listing, query_listing
from zenturio.record import EXPERIMENT_STATES, Repository, StudyDefinition
from zenturio.record.open import dialect_at
from zenturio.show.portal.page_templates import StudyQuery, attribute_name, study_name
from zenturio.show.portal.security import origins_offered
from zenturio.show.portal.state import FRESH_SECONDS, CachedResult, Portal, page_in, portal_of
from zenturio.show.portal.study_watcher import StudySnapshot
from zenturio.space import Continuous
from zenturio.study.recorded_definition import PROGRAM, base_of
from zenturio.study.stages.stage_graph import AFTER

if TYPE_CHECKING:
    from starlette.requests import Request

    from zenturio.query.study_table import RowNumbers


PAGE_ROWS = 50
SMALL_STUDY = 20_000
"""Experiments that are counted before the page is sent; of larger studies, afterwards."""
MOST_VALUES = 12
"""Values of a parameter that are listed."""
MOST_CAUSES = 30
LOG_LINES = 12
EXTRA_COLUMNS = (
    "index", "repeat", "machine", "round", "cause", "host", "attempt", "started", "ended",
)  # fmt: skip
"""Columns that every experiment has, shown on request."""


@dataclass(frozen=True)
class TablePage:
    """A page of a study's table."""

    columns: Sequence[StudyColumn]
    rows: Sequence[ExperimentRow]
    sql: str
    earlier: str = ""
    """The row before which the previous page ends, as in an address; empty on the first page."""
    later: str = ""
    row_count: int | None = None
    """Rows of the whole table; None if they are not counted."""
    start: int = 0
    """Rows before this page."""
    as_of: float = 0.0
    """When order and count were computed; 0 if that was just now."""


@dataclass(frozen=True)
class ParameterValues:
    """The values that parameters took."""

    taken: Sequence[ColumnRange]
    sql: str


@dataclass(frozen=True)
class FailureExample:
    """A cause of failures, with the point and the log of one example."""

    cause: FailureCause
    point: Sequence[tuple[StudyColumn, Any]]
    stream: str
    log_end: str
    where: str
    """The condition that selects these experiments."""


@dataclass(frozen=True)
class FailureCauses:
    """The causes of a study's failures, the most frequent first."""

    causes: Sequence[FailureExample]
    more: bool
    """Whether there are other causes."""
    sql: str


def study(request: Request) -> Response:
    """Return the page of a study; what takes long in a large one is loaded later."""
    portal = portal_of(request)
    query = StudyQuery.from_address(request.query_params, portal.resolve_study)
    repository = portal.repository
    counts = repository.count_states(query.name)
    is_small = sum(counts.values()) <= SMALL_STUDY
    table, diagnostic, status = None, "", 200
    try:
        table = _table(portal, query, counted=is_small)
    except InputError as error:
        diagnostic, status = str(error), 400
    all_columns = StudyQuery(query.name).table_query(repeats=portal.has_repeats(query.name))
    columns, extra_columns = query_listing(repository, all_columns, _column_choices)
    return portal.page(
        request,
        "study.html",
        status,
        query=query,
        snapshot=portal.snapshot(query.name),
        origins=origins_offered(portal, (query.name,)),
        counts={state: counts[state] for state in EXPERIMENT_STATES if counts[state]},
        goals=_goals(portal, query.name),
        previous_stages=_previous_stages(portal, query.name),
        columns=columns,
        extra_columns=extra_columns,
        table=table,
        diagnostic=diagnostic,
        values=_parameter_values(portal, query.name) if is_small else None,
        failures=failure_causes(portal, query.name) if is_small else None,
        rerun=rerun_failed_command(portal, query.name),
    )


def row_count(request: Request) -> Response:
    """Return how many rows a table has: the part of a large study's page that is loaded later."""
    portal = portal_of(request)
    query = StudyQuery.from_address(request.query_params, portal.resolve_study)
    table = _table(portal, query, counted=True)
    return HTMLResponse(portal.render("_row_count.html", table=table))


def parameters(request: Request) -> Response:
    """Return the values of each parameter: a part of the page."""
    portal = portal_of(request)
    name = portal.resolve_study(study_name(request.query_params))
    text = portal.render("_parameters.html", values=_parameter_values(portal, name))
    return HTMLResponse(text)


def failures(request: Request) -> Response:
    """Return the failures by cause: a part of the page."""
    portal = portal_of(request)
    name = portal.resolve_study(study_name(request.query_params))
    values = {
        "failures": failure_causes(portal, name),
        "name": name,
        "rerun": rerun_failed_command(portal, name),
    }
    return HTMLResponse(portal.render("_failures.html", **values))


def rerun_failed_command(portal: Portal, name: str) -> str:
    """Return the command that runs failed experiments again; empty if it is not known."""
    definition = portal.definition(name)
    return rerun_command(definition, name, portal.settings.db, "--only", "failed")


def rerun_command(definition: StudyDefinition, study: str, db: str | None, *options: str) -> str:
    """Return the shell command that runs *study* again.

    Empty if it was not run from files, or is an earlier version, whose program has been edited.
    """
    if base_of(study) is not None:
        return ""
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
        words += ["--db", dialect_at(db).location if "://" in db else db]  # without a password
    command = shlex.join([*words, *options])
    root = notes.get("root")
    return f"cd {shlex.quote(str(root))} && {command}" if root else command


def failure_causes(portal: Portal, name: str) -> FailureCauses:
    """Return why experiments of a study failed."""

    def read(listing: Listing) -> FailureCauses:
        causes = listing.causes(MOST_CAUSES + 1)
        examples = [_failure_example(portal, listing, cause) for cause in causes[:MOST_CAUSES]]
        return FailureCauses(examples, len(causes) > MOST_CAUSES, listing.causes_sql(MOST_CAUSES))

    table = StudyQuery(name).table_query()
    return portal.cached(
        name, "causes", lambda: query_listing(portal.repository, table, read)
    ).value


def _failure_example(portal: Portal, listing: Listing, cause: FailureCause) -> FailureExample:
    facts = listing.catalog.facts
    status, why = (quoted(facts[fact].name) for fact in ("status", "cause"))
    logs = portal.repository.logs(cause.example.digest)
    return FailureExample(
        cause,
        [
            (column, cell)
            for column, cell in zip(listing.columns, cause.example.cells, strict=True)
            if column.role == "parameter" and cell is not None
        ],
        *log_end(logs.stderr, logs.stdout, LOG_LINES),
        f"{status} == {write(Constant(cause.status))} and {why} == {write(Constant(cause.cause))}",
    )


def _previous_stages(portal: Portal, name: str) -> list[StudySnapshot]:
    """Return the stages that must finish before this one."""
    parts = portal.definition(name).notes.get(PROGRAM) or {}
    names = {part.removeprefix(AFTER) for part in parts if part.startswith(AFTER)}
    return [state for state in portal.watch.poll() if state.name in names] if names else []


def _goals(portal: Portal, name: str) -> list[Mapping[str, str]]:
    """Return the study's objectives, each with the address of its best experiments.

    The address is empty for an objective that is computed from several columns.
    """
    definition = portal.definition(name)
    metrics = {field.name for field in definition.metrics}

    def best(goal: Mapping[str, str]) -> str:
        column = goal["expression"]
        sort = f"-{column}" if goal["direction"] == "maximize" else column
        return StudyQuery(name).address(state="ok", sort=sort) if column in metrics else ""

    return [{**goal, "best": best(goal)} for goal in definition.goals]


def _column_choices(listing: Listing) -> tuple[Sequence[StudyColumn], Sequence[StudyColumn]]:
    """Return the columns that are shown by default, and those that can be added."""
    facts = listing.catalog.facts
    extra = [facts[name] for name in EXTRA_COLUMNS if facts[name] not in listing.columns]
    return listing.columns, extra


def _table(portal: Portal, query: StudyQuery, *, counted: bool) -> TablePage:
    """Return the page of a table; *counted*, with the number of all rows."""
    repository, repeats = portal.repository, portal.has_repeats(query.name)
    table = query.table_query(repeats=repeats)
    anchor = query.after or query.before
    at = _row_number(portal, query.name, anchor) if anchor not in ("", "end") else None
    if not table.plain:
        order = portal.cached_row_order(table)
        if order is None and (anchor or counted or table.sort):
            copied = query_listing(
                repository, table, lambda listing: _page_of_copy(listing, query, at)
            )
            if copied is not None:
                return copied
            order = portal.row_order(table) if anchor or counted else None
        if order is not None:
            return query_listing(
                repository, table, lambda listing: _page_of_order(listing, order, query, at)
            )

    def page(listing: Listing) -> TablePage:
        if at is None:
            rows = listing.before(None, PAGE_ROWS + 1) if anchor else listing.first(PAGE_ROWS + 1)
        else:
            read = listing.behind if query.after else listing.before
            rows = read(at, PAGE_ROWS + 1)
        # One row more than the page has says whether there is another page.
        is_backwards = bool(query.before)
        has_more = len(rows) > PAGE_ROWS
        rows = rows[-PAGE_ROWS:] if is_backwards else rows[:PAGE_ROWS]
        has_earlier = rows and (has_more if is_backwards else bool(anchor))
        has_later = rows and (query.before != "end" if is_backwards else has_more)
        total = listing.catalog.total if table.plain else None
        return TablePage(
            listing.columns,
            rows,
            listing.sql(PAGE_ROWS),
            _anchor(listing, rows[0]) if has_earlier else "",
            _anchor(listing, rows[-1]) if has_later else "",
            total if counted else None,
            listing.rank(rows[0].number) if rows and counted and table.plain else 0,
        )

    return query_listing(repository, table, page)


def _anchor(listing: Listing, row: ExperimentRow) -> str:
    """Return how an address names a row: by its digest, and its number if several rows have it."""
    return f"{row.digest}-{row.number}" if listing.catalog.has_several else row.digest


def _row_number(portal: Portal, name: str, anchor: str) -> int:
    """Return the number of the row that an address names."""
    digest, _, number = anchor.partition("-")
    return (
        int(number)
        if number.isdecimal()
        else portal.repository.experiment_record(name, digest).key.row
    )


def _page_of_order(
    listing: Listing, order: CachedResult[RowNumbers], query: StudyQuery, at: int | None
) -> TablePage:
    """Return a page of a table whose order has been computed."""
    numbers = order.value
    start = 0
    if query.before == "end":
        start = max(len(numbers) - 1, 0) // PAGE_ROWS * PAGE_ROWS
    elif at is not None:
        places = np.flatnonzero(numbers == at)
        place = int(places[0]) if len(places) else 0  # it may have left the table since
        start = place + 1 if query.after and len(places) else max(place - PAGE_ROWS, 0)
    as_of = order.computed_at if time.time() - order.computed_at > FRESH_SECONDS else 0.0
    return _page_at(listing, numbers[start : start + PAGE_ROWS], start, len(numbers), as_of)


def _page_of_copy(listing: Listing, query: StudyQuery, at: int | None) -> TablePage | None:
    """Return the same page of a large study by its columnar copy; None if that cannot tell."""
    page = listing.page(PAGE_ROWS, at, is_backwards=bool(query.before))
    if page is None:
        return None
    if query.before == "end":  # pages begin where they do from the first one on
        start = max(page.total - 1, 0) // PAGE_ROWS * PAGE_ROWS
        page = page._replace(numbers=page.numbers[start - page.start :], start=start)
    elif query.before and page.start == 0:
        page = listing.page(PAGE_ROWS)
    return page and _page_at(listing, page.numbers, page.start, page.total)


def _page_at(
    listing: Listing, numbers: RowNumbers, start: int, count: int, as_of: float = 0.0
) -> TablePage:
    """Return the page of the rows with these *numbers*, *start* being before them."""
    rows = listing.those(numbers)
    has_later = rows and start + PAGE_ROWS < count
    return TablePage(
        listing.columns,
        rows,
        listing.sql(PAGE_ROWS),
        _anchor(listing, rows[0]) if rows and start else "",
        _anchor(listing, rows[-1]) if has_later else "",
        count,
        start,
        as_of,
    )


def _parameter_values(portal: Portal, name: str) -> ParameterValues:
    def read(listing: Listing) -> ParameterValues:
        columns = (*listing.catalog.parameters, *listing.catalog.seeds)
        statements = [listing.taken_sql(column, MOST_VALUES + 1) for column in columns]
        values = [listing.taken(column, MOST_VALUES) for column in columns]
        return ParameterValues(
            _as_declared(values, portal.repository, name), ";\n".join(statements)
        )

    table = StudyQuery(name).table_query()
    return portal.cached(name, "taken", lambda: query_listing(portal.repository, table, read)).value


def _as_declared(
    taken: Sequence[ColumnRange], repository: Repository, name: str
) -> list[ColumnRange]:
    """Return texts in the order of their sets, and what was drawn from an interval as a range."""
    # It loads the parser of directives.
    from zenturio.query.points_outside import declared_ranks, present_space  # noqa: PLC0415

    space = present_space(repository, name)
    if space is None:
        return list(taken)
    ranks = declared_ranks(space, {column_range.column.name for column_range in taken})
    continuous = {p.name: p.domain for p in space.parameters if isinstance(p.domain, Continuous)}
    declared: list[ColumnRange] = []
    for column_range in taken:
        values, places = column_range.values, ranks.get(column_range.column.name, {})
        domain = continuous.get(column_range.column.name)
        if domain is not None:
            declared.append(replace(column_range, values=None, low=domain.low, high=domain.high))
        elif values is not None and places and column_range.column.type == "str":
            # Python sorts stably: what the set does not have stays in its order, behind it.
            ordered = sorted(values, key=lambda value: places.get(value, len(places)))
            declared.append(replace(column_range, values=tuple(ordered)))
        else:
            declared.append(column_range)
    return declared


# The home page: every study and its progress, and the event stream that keeps pages up to date

PAGE_STUDIES = 100
"""Studies on a page; of more, the stream begins with those that have a driver."""
KEEPALIVE_SECONDS = 15.0
"""Between two comments in a stream without events, so that proxies keep it open."""


def home(request: Request) -> Response:
    """Return the page of all studies, the running ones first."""
    portal = portal_of(request)
    rank = {"running": 0, "silent": 1, "stopped": 2, "empty": 3, "done": 3}
    studies = sorted(portal.watch.poll(), key=lambda s: (rank[s.state], -s.last_active, s.name))
    error = portal.watch.database_error
    status = 503 if error else 200
    pages = max(-(-len(studies) // PAGE_STUDIES), 1)
    page = min(page_in(request), pages)
    shown = studies[(page - 1) * PAGE_STUDIES : page * PAGE_STUDIES]
    return portal.page(
        request, "home.html", status, studies=shown, total=len(studies), page=page, pages=pages,
        database_error=error,
    )  # fmt: skip


async def live(request: Request) -> Response:
    """Return server-sent events: for each study that has changed, its part of a page."""
    portal = portal_of(request)
    headers = {"X-Accel-Buffering": "no"}  # nginx would hold back events
    return StreamingResponse(_events(portal), media_type="text/event-stream", headers=headers)


async def _events(portal: Portal) -> AsyncIterator[str]:
    watch = portal.watch
    sent: Sequence[StudySnapshot] = ()
    with watch.listening():
        while True:
            if watch.latest != sent:
                are_many = len(watch.latest) > PAGE_STUDIES
                before = {snapshot.name: snapshot for snapshot in sent}
                changed = [
                    snapshot
                    for snapshot in watch.latest
                    if snapshot is not (old := before.get(snapshot.name))
                    and snapshot != old
                    and (sent or not are_many or snapshot.state in ("running", "silent"))
                ]
                sent = watch.latest
                parts = {
                    attribute_name(snapshot.name): portal.render(
                        "_progress.html", snapshot=snapshot
                    )
                    for snapshot in changed
                }
                studies = [attribute_name(s.name) for s in sent] if not are_many else None
                news = {"studies": studies, "count": len(sent), "news": parts}
                yield f"data: {json.dumps(news)}\n\n"
            elif not await watch.wait_for_change(KEEPALIVE_SECONDS):
                yield ": keep-alive\n\n"
