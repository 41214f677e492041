"""What ``zen check --show`` prints: every place where the text of a parameter goes."""

from typing import TYPE_CHECKING, Any

import typer

from zenturio.cli import terminal

if TYPE_CHECKING:
    from zenturio.annotate.hole_search import Replacement
    from zenturio.annotate.model import Application

SHOWN = 1000
"""Occurrences that are printed at most; as JSON, all are."""


def show(application: "Application", *, in_colour: bool) -> None:
    """Print each occurrence, marked within its line."""
    from zenturio.annotate.hole_search import replacements

    count = 0
    for count, each in enumerate(replacements(application.files), 1):
        if count <= SHOWN:
            _print(each, in_colour=in_colour)
    if count > SHOWN:
        typer.echo(f"... and {count - SHOWN:,} more: --json lists all")
    places = "1 place is" if count == 1 else f"{count:,} places are"
    typer.echo(f"{places} filled in by SUBSTITUTE and ASSIGN")


def facts(application: "Application") -> list[dict[str, Any]]:
    """The occurrences as plain values."""
    from zenturio.annotate.hole_search import replacements

    return [
        {
            "parameter": each.parameter,
            "target": each.target,
            "file": each.place.file,
            "line": each.place.line,
            "column": each.place.column,
            "width": each.place.width,
            "context": each.context,
        }
        for each in replacements(application.files)
    ]


def _print(replacement: "Replacement", *, in_colour: bool) -> None:
    from zenturio.annotate.hole_search import ASSIGNMENT
    from zenturio.errors import Diagnostic

    context = (
        replacement.context if replacement.context == ASSIGNMENT else f"in {replacement.context}"
    )
    message = f"{replacement.parameter}, {context}"
    head, line, carets = str(Diagnostic(message, replacement.place)).rsplit("\n", 2)
    if not in_colour:
        typer.echo(f"{head}\n{line}\n{carets}")
        return
    start, end = carets.index("^"), carets.rindex("^") + 1
    typer.echo(f"{head}\n{line[:start]}", nl=False)
    terminal.styled(line[start:end], "reverse")
    typer.echo(line[end:])
