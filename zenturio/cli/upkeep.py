"""The verbs that look after the repository: those of db, and prune."""

from pathlib import Path
from typing import Annotated

import typer

from zenturio.cli import output
from zenturio.cli.options import Database, Json
from zenturio.record.timestamps import iso_time, utc_time


def add_to(app: typer.Typer) -> None:
    """Put the verbs of this file into *app*."""
    db = typer.Typer(
        help="Check, upgrade, back up and repair the database.",
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    db.command()(check)
    db.command()(upgrade)
    db.command()(backup)
    db.command()(salvage)
    db.command()(views)
    db.command()(grant)
    app.add_typer(db, name="db")
    app.command()(prune)


def check(
    artifacts: Annotated[
        bool, typer.Option("--artifacts", help="Read all artifacts, and verify their hashes.")
    ] = False,
    identity: Annotated[
        bool,
        typer.Option("--identity", help="Compute digests of a sample of results again."),
    ] = False,
    db: Database = None,
    json: Json = False,
) -> None:
    """Look for damage: the database's own check, what must hold between the tables, and files.

    Every artifact has to be there with its size; --artifacts also verifies the contents.
    --identity computes digests again, from the files and values that were recorded.

    Examples: zen db check; zen db check --artifacts; zen db check --identity
    """
    from zenturio.record import maintenance
    from zenturio.study.identity_check import check_identity
    from zenturio.study.overview import opened_repository

    damage = maintenance.check_repository(db, contents=artifacts)
    found = [diagnostic.message for diagnostic in damage]
    facts: dict[str, object] = {}
    if identity and not found:
        with opened_repository(db) as repository:
            checked = check_identity(repository)
        found += checked.wrong
        facts = {"identities": checked.right, "unknown_identities": checked.unknown}
        if not json:
            typer.echo(
                f"{checked.right:,} digests are right;"
                f" of {checked.unknown:,} results too little was recorded to tell"
            )
    if json:
        output.facts({"ok": not found, "diagnostics": found, **facts})
    else:
        for line in [*map(str, damage), *found[len(damage) :]]:
            typer.echo(line)
        if not found:
            typer.echo("nothing is wrong")
    if found:
        raise typer.Exit(4)


def upgrade(db: Database = None, json: Json = False) -> None:
    """Bring a repository of an earlier version up to date, and keep it as it was.

    It may be interrupted: the same command goes on.

    Example: zen db upgrade
    """
    from dataclasses import asdict

    from zenturio.record import maintenance

    done = maintenance.upgrade_repository(db)
    if json:
        output.facts(asdict(done))
    elif done.before == done.after:
        typer.echo(f"it is up to date: {done.after}")
    else:
        kept = f"; as it was: {done.copy}" if done.copy else ""
        typer.echo(f"upgraded from {done.before} to {done.after}{kept}")


def backup(
    target: Annotated[
        Path | None,
        typer.Argument(help="The file to write; without, a new one in .zenturio/backups."),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(metavar="N", help="Remove all but the N newest copies in .zenturio/backups."),
    ] = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Copy the database as it is at one moment, while others may be at work in it.

    Examples: zen db backup before-the-move.db; zen db backup --keep 5
    """
    from zenturio.errors import InputError
    from zenturio.output_files import note_database
    from zenturio.record import maintenance

    if target is not None and keep is not None:
        raise InputError("--keep is for the copies in .zenturio/backups", hint="leave out one")
    removed: tuple[Path, ...] = ()
    if target is not None:
        path = maintenance.backup(db, target)
        note_database(path)
    else:
        done = maintenance.rotate(db, keep)
        path, removed = done.copy, done.removed
    if json:
        size = path.stat().st_size
        output.facts({"copy": str(path), "bytes": size, "removed": [str(p) for p in removed]})
        return
    typer.echo(f"copied to {path} ({path.stat().st_size:,} bytes)")
    for old in removed:
        typer.echo(f"removed {old}")


def salvage(
    source: Annotated[Path, typer.Argument(help="The damaged file; it stays as it is.")],
    target: Annotated[Path, typer.Argument(help="The new file.")],
    json: Json = False,
) -> None:
    """Save what can be read of a damaged database into a new one.

    Example: zen db salvage .zenturio/zenturio.db saved.db
    """
    from dataclasses import asdict

    from zenturio.record import maintenance

    saved = maintenance.salvage(source, target)
    if json:
        output.facts({**asdict(saved), "target": str(target)})
        return
    output.table(
        ("table", "rows saved"), [(n, f"{c:,}") for n, c in saved.rows.items()], right="lr"
    )
    if saved.pages or saved.unreadable:
        typer.echo(
            f"\n{saved.pages:,} pages are destroyed; {saved.unreadable:,} rows elsewhere, too"
        )
    waits = "experiment waits" if saved.waiting == 1 else "experiments wait"
    typer.echo(f"\n{saved.waiting:,} {waits} for the next zen run; the new database: {target}")


def grant(
    role: Annotated[
        str, typer.Option(metavar="NAME", help="Let this existing role read, and make none.")
    ] = "",
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the SQL statements, and execute none of them.")
    ] = False,
    db: Database = None,
    json: Json = False,
) -> None:
    """Let SQL of your own run on PostgreSQL: create a login role that can only read.

    Its password is kept in your configuration folder. Without the right to create roles, give the
    statements that are printed to the administrator of the server. ZENTURIO_SQL_URL names another
    login for `zen sql` and the portal's SQL page.

    Examples: zen db grant; zen db grant --role alice; zen db grant --sql > grant.sql
    """
    from zenturio.errors import PlaceError
    from zenturio.record import maintenance

    done = maintenance.grant(db, role, execute=not sql)
    if json:
        output.facts({"role": done.role, "done": done.done, "statements": done.statements})
    elif done.done:
        typer.echo(f"the role {done.role} can read the repository, and nothing else")
    else:
        for statement in done.statements:
            typer.echo(f"{statement};")
    if done.why:
        raise PlaceError(
            f"the server did not execute the statements: {done.why}",
            hint="give them to its administrator: `zen db grant --sql` prints them again",
        )


def views(
    pin: Annotated[
        list[str] | None,
        typer.Option(metavar="STUDY", help="Keep the views of a study; may be given repeatedly."),
    ] = None,
    unpin: Annotated[
        list[str] | None, typer.Option(metavar="STUDY", help="Let the views of a study go.")
    ] = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """List the views that the database keeps for other programs, and pin some of them.

    A file of SQLite keeps those of the 100 studies that were opened last, and pinned ones; a
    PostgreSQL server keeps all. zen sql and the portal need none of them.

    Examples: zen db views; zen db views --pin matmul; zen db views --unpin matmul
    """
    from dataclasses import asdict

    from zenturio.record import maintenance

    found = maintenance.stored_views(db, pin=pin or (), unpin=unpin or ())
    if json:
        output.facts([{**asdict(view), "opened": iso_time(view.opened)} for view in found])
        return
    output.table(
        ("study", "view", "stored", "pinned", "opened"),
        [
            (v.study, v.name, _yes(v.is_stored), _yes(v.is_pinned), utc_time(v.opened))
            for v in found
        ],
    )


def _yes(holds: bool) -> str:
    return "yes" if holds else ""


def prune(
    studies: Annotated[
        list[str] | None, typer.Argument(metavar="[STUDY]...", help="Studies to forget.")
    ] = None,
    folders: Annotated[bool, typer.Option(help="Kept folders and builds, too.")] = True,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it; without, only say it.")] = False,
    db: Database = None,
    json: Json = False,
) -> None:
    """Show what can be removed; remove it with --yes.

    Kept folders, builds, and the studies that are named.

    Examples: zen prune; zen prune matmul --yes
    """
    from zenturio.study.prune import prune as remove

    found = remove(db, studies or [], folders=folders, really=yes)
    if json:
        output.facts({"removed": yes, **found.facts()})
        return
    for line in found.lines():
        typer.echo(("removed " if yes else "would remove ") + line)
    if not found.lines():
        typer.echo("there is nothing to remove")
    elif not yes:
        typer.echo("give --yes to remove it")
