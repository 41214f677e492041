"""The verb that removes a secret which was recorded: redact."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zenturio.cli import output
from zenturio.cli.options import Database, Json

if TYPE_CHECKING:
    from zenturio.study.redact import RedactResult

_STANDARD_INPUT = ("-",)


def add_to(app: typer.Typer) -> None:
    """Put the verb of this file into *app*."""
    app.command()(redact)


def redact(
    secret: Annotated[
        str | None,
        typer.Argument(help="The secret; - reads it from standard input.", show_default=False),
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="FILE", help="Read the secret from a file."),
    ] = None,
    backups: Annotated[
        bool, typer.Option("--backups", help="Remove copies of the database, too.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it; without, only say it.")] = False,
    db: Database = None,
    json: Json = False,
) -> None:
    """Show where a secret was recorded; remove it with --yes.

    Asterisks take its place in commands, values, metrics, logs, artifacts, recorded programs and
    every other text of the database, and in the files below .zenturio. The record says who did
    so, when, and in how many places. Digests stay as they are, and so do your own files. A secret
    that is typed stays in the history of the shell: use - or --from-file.

    Examples: zen redact --from-file leaked.txt; pass show token | zen redact - --yes --backups
    """
    from zenturio.study.redact import redact as remove

    found = remove(db, _read(secret, from_file), backups=backups, really=yes)
    if json:
        output.facts({"redacted": yes, "backups_removed": yes and backups, **found.facts()})
        return
    for line in _lines(found, really=yes, backups=backups):
        typer.echo(line)


def _read(secret: str | None, from_file: Path | None) -> str:
    """The secret, without the end of its last line."""
    import sys

    from zenturio.errors import InputError

    if (secret is None) == (from_file is None):
        raise InputError(
            "no secret is named" if secret is None else "the secret is named twice",
            hint="zen redact --from-file FILE, or - to read it from standard input",
        )
    try:
        if from_file is not None:
            data = from_file.read_bytes()
        elif secret in _STANDARD_INPUT:
            data = sys.stdin.buffer.read()
        else:
            return secret or ""
    except OSError as error:
        raise InputError(f"cannot read {from_file}: {error.strerror}") from error
    text = data.decode(errors="surrogateescape")
    return text.removesuffix("\n").removesuffix("\r")


def _lines(found: "RedactResult", *, really: bool, backups: bool) -> list[str]:
    did = "redacted" if really else "would redact"
    lines = [
        f"{did} {count:,} {'row' if count == 1 else 'rows'} of {table}"
        for table, count in found.repository.tables.items()
    ]
    lines += [f"{did} an artifact: {path}" for path in found.repository.artifacts]
    lines += [f"{did} {path}" for path in found.files]
    if not lines:
        lines.append("the secret is nowhere in the record")
    if found.repository.numbers:
        count = found.repository.numbers
        lines.append(f"{count:,} recorded numbers are equal to it, and stay: zen prune STUDY")
    if found.remaining:
        lines += [f"still there: {path}" for path in found.remaining]
    lines += _about_copies(found, really=really, backups=backups)
    if found.places and not really:
        lines.append("give --yes to do it")
    elif found.places:
        lines.append(
            "change the secret where it is used; if your program still has it, the next run"
            " records it again"
        )
    return lines


def _about_copies(found: "RedactResult", *, really: bool, backups: bool) -> list[str]:
    lines = [
        f"a copy of the tables may have it: schema {name}, which its administrator can drop"
        for name in found.repository.schemas
    ]
    for path in found.backups:
        if backups:
            lines.append(f"{'removed' if really else 'would remove'} the copy {path}")
        else:
            lines.append(f"a copy of the database may have it: {path} (--backups removes it)")
    if found.repository.server and really and found.repository.tables:
        tables = ", ".join(found.repository.tables)
        lines.append(
            f"the server's files have the old rows until VACUUM FULL {tables}; its logs and"
            " backups are the administrator's"
        )
    return lines
