"""Why experiments failed: a line for each cause, and the end of what one of them said."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from zenturio.cli import again
from zenturio.safe_text import one_line

if TYPE_CHECKING:
    from zenturio.study.driver.progress import FailureGroup

GROUPS = 10
"""Causes that are shown; the frequent ones come first."""


def show(failures: "Sequence[FailureGroup]", study: str, db: str | None) -> None:
    """Print each cause with its number of experiments and an example."""
    from zenturio.cli.live import settings

    for each in failures[:GROUPS]:
        typer.echo(f"{each.count:,} x {one_line(each.cause)}, such as {settings(each.values)}")
        for line in each.end.splitlines():
            typer.echo(f"    | {one_line(line)}")
        typer.echo(f"    look at one: {again.command('logs', each.digest[:12], db=db)}")
    if len(failures) > GROUPS:
        listed = again.command("results", study, "--where", "status == 'failed'", db=db)
        typer.echo(f"... and {len(failures) - GROUPS:,} more causes: {listed}")


def of_study(study: str, db: str | None) -> "list[FailureGroup]":
    """Why experiments of *study* failed, from what is recorded; one cause more than is shown."""
    from zenturio.experiment.failure import log_end
    from zenturio.query.listing import TableQuery, query_listing
    from zenturio.study.driver.progress import LINES, FailureGroup
    from zenturio.study.overview import opened_repository

    with opened_repository(db) as repository:

        def failures(listing: Any) -> list[FailureGroup]:
            names = [column.name for column in listing.columns]
            parameters = [column.role == "parameter" for column in listing.columns]
            found = []
            for cause in listing.causes(GROUPS + 1):
                row, logs = cause.example, repository.logs(cause.example.digest)
                cells = zip(names, row.cells, parameters, strict=True)
                values = {name: cell for name, cell, parameter in cells if parameter}
                _, end = log_end(logs.stderr, logs.stdout, LINES)
                why = cause.cause or cause.status
                found.append(FailureGroup(why, cause.count, row.digest, values, end))
            return found

        return query_listing(repository, TableQuery(study), failures)


def facts(failures: "Sequence[FailureGroup]") -> list[dict[str, Any]]:
    """Them as plain values."""
    return [
        {
            "cause": each.cause,
            "count": each.count,
            "digest": each.digest,
            "values": dict(each.values),
            "end": each.end,
        }
        for each in failures
    ]
