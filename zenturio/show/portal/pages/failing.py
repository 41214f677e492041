"""What failed in a study and why, with the end of what it said and how it is run again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, Response

from zenturio.experiment.failure import log_end
from zenturio.expression import quoted
from zenturio.expression.nodes import Literal
from zenturio.expression.writer import write
from zenturio.query.catalog import Column
from zenturio.query.listing import Listing, listed
from zenturio.query.wanted import Cause
from zenturio.show.portal import commands
from zenturio.show.portal.asked import Asked, study_in
from zenturio.show.portal.state import Portal, portal_of

if TYPE_CHECKING:
    from starlette.requests import Request

CAUSES = 30
"""That a page shows; of more it says that there are."""
LINES = 12
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
    values = {"failures": causes(portal, name), "name": name, "rerun": again(portal, name)}
    return HTMLResponse(portal.render("_failures.html", **values))


def again(portal: Portal, name: str) -> str:
    """The command that runs the failed ones again; empty where nothing is known of it."""
    definition = portal.definition(name)
    return commands.again(definition, name, portal.settings.db, "--only", "failed")


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
        *log_end(logs.stderr, logs.stdout, LINES),
        f"{status} == {write(Literal(cause.status))} and {why} == {write(Literal(cause.cause))}",
    )
