"""The verb that accepts results of another version of a program: equate."""

from typing import TYPE_CHECKING, Annotated

import typer

from zenturio.cli import output
from zenturio.cli.options import Database, Json

if TYPE_CHECKING:
    from zenturio.study.equate import EquateResult


def add_to(app: typer.Typer) -> None:
    """Put the verb of this file into *app*."""
    app.command()(equate)


def equate(
    version: Annotated[
        str,
        typer.Argument(metavar="NAME@N", help="Version whose results are accepted; see zen list."),
    ],
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH]...", help="Annotated files, if they were moved."),
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Remove the accepted results of that version again.")
    ] = False,
    db: Database = None,
    json: Json = False,
) -> None:
    """Accept the results of another version for the current program.

    Use it after an edit that cannot change results, such as a comment: nothing is run again. The
    results count for all points that the current program still has. Results of the current program
    itself are kept. zen show prints who accepted a result, and when.

    Examples: zen equate matmul@1; zen equate matmul@1 --undo
    """
    from zenturio.study import equate as equating
    from zenturio.study.overview import opened_repository, result_count

    if undo:
        with opened_repository(db, finds_unique=False) as repository:
            count = equating.undo_equate(repository, version)
        if json:
            output.facts({"version": version, "removed": count})
        else:
            typer.echo(f"removed {_results(count)} of {version}")
        return
    with (
        opened_repository(db, finds_unique=False) as repository,
        output.progress("accepting", result_count(repository, version)) as step,
    ):
        equated = equating.equate(repository, version, paths or [], step)
    if json:
        output.facts(_facts(equated))
        return
    for line in _lines(equated, db):
        typer.echo(line)


def _facts(equated: "EquateResult") -> dict[str, object]:
    return {
        "study": equated.study,
        "version": equated.version,
        "accepted": equated.accepted,
        "cached": equated.cached,
        "outside": equated.outside,
        "person": equated.person,
        "changes": list(equated.changes),
        "archived": equated.archived or None,
    }


def _lines(equated: "EquateResult", db: str | None) -> list[str]:
    version = equated.version
    lines = [
        f"{_results(equated.accepted)} of {version} accepted as equal by {equated.person}",
        f"differences of the two programs: {', '.join(equated.changes)}",
    ]
    # The first equate after an edit archives the version before it, which is often the one named.
    if equated.archived not in ("", version):
        lines.append(f"the version of {equated.study} before the edit is {equated.archived}")
    if equated.cached:
        lines.append(f"{equated.cached:,} had a result in {equated.study} already, which is kept")
    if equated.outside:
        lines.append(f"{equated.outside:,} are of points that the present program does not have")
    if equated.accepted:
        undo = output.command_to_type("equate", version, "--undo", db=db)
        lines.append(f"to undo: {undo}")
    return lines


def _results(count: int) -> str:
    return "1 result" if count == 1 else f"{count:,} results"
