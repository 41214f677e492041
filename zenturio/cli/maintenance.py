"""The verbs that maintain the repository: those of db, redact and prune."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zenturio.cli import output, safe_streams
from zenturio.cli.options import Database, Json
from zenturio.quantities import amount, iso_time, utc_time

if TYPE_CHECKING:
    from zenturio.record.database_roles import Team
    from zenturio.study.maintenance import RedactResult


def add_to(app: typer.Typer) -> None:
    """Register the verbs of this module in *app*."""
    db = typer.Typer(
        help="Check, upgrade, back up and repair the database.",
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    db.command()(check)
    db.command()(upgrade)
    db.command()(backup)
    db.command()(restore)
    db.command()(copy)
    db.command()(salvage)
    db.command()(views)
    db.command()(grant)
    app.add_typer(db, name="db")
    app.command()(prune)
    app.command()(redact)


def check(
    artifacts: Annotated[
        bool, typer.Option("--artifacts", help="Read all artifacts and verify their hashes.")
    ] = False,
    identity: Annotated[
        bool,
        typer.Option("--identity", help="Compute the digests of a sample of results again."),
    ] = False,
    db: Database = None,
    json: Json = False,
) -> None:
    """Check the database for damage.

    Runs the integrity check of the database, checks the constraints between tables, and checks that
    each artifact exists and has its recorded size. --artifacts also verifies contents; --identity
    computes digests again from the recorded files and values.

    Examples: zen db check; zen db check --artifacts; zen db check --identity
    """
    from functools import partial

    from zenturio.log_setup import work_progress
    from zenturio.record import maintenance
    from zenturio.study.overview import opened_repository
    from zenturio.study.reprocess_experiments import check_identity

    step = partial(work_progress.get(), "checking")
    damage = maintenance.check_repository(db, contents=artifacts, step=step)
    messages = [diagnostic.message for diagnostic in damage]
    facts: dict[str, object] = {}
    # Digests of a damaged database would only repeat the damage.
    if identity and not messages:
        with opened_repository(db) as repository:
            checked = check_identity(repository)
        messages += checked.wrong
        facts = {"identities": checked.right, "unknown_identities": checked.unknown}
        if not json:
            typer.echo(
                f"{checked.right:,} digests are right;"
                f" {checked.unknown:,} cannot be checked with what was recorded"
            )
    if json:
        output.facts({"ok": not messages, "diagnostics": messages, **facts})
    else:
        for line in [*map(str, damage), *messages[len(damage) :]]:
            typer.echo(line)
        if not messages:
            typer.echo("no damage found")
    if messages:
        raise typer.Exit(4)


def upgrade(db: Database = None, json: Json = False) -> None:
    """Upgrade the database to this version, and keep a copy of it.

    If the upgrade is interrupted, repeat the command.

    Example: zen db upgrade
    """
    from dataclasses import asdict

    from zenturio.record import maintenance

    with output.waiting("upgrading"):
        upgrade = maintenance.upgrade_repository(db)
    if json:
        output.facts(asdict(upgrade))
    elif upgrade.before == upgrade.after:
        typer.echo(f"the database is up to date: {upgrade.after}")
    else:
        note = f"; copy of the earlier one: {upgrade.copy}" if upgrade.copy else ""
        typer.echo(f"upgraded from {upgrade.before} to {upgrade.after}{note}")


def backup(
    target: Annotated[
        Path | None,
        typer.Argument(help="File to write; default: a new one in .zenturio/backups."),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(metavar="N", help="Remove all but the N newest backups in .zenturio/backups."),
    ] = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Back up the database, consistently even while studies run.

    Examples: zen db backup before-the-move.db; zen db backup --keep 5
    """
    from zenturio.errors import InputError
    from zenturio.files import note_database
    from zenturio.record import maintenance

    if target is not None and keep is not None:
        raise InputError("--keep applies to .zenturio/backups", hint="leave out --keep or the file")
    removed: tuple[Path, ...] = ()
    if target is not None:
        with output.share_progress("copying") as step:
            path = maintenance.backup(db, target, step)
        # Noted as an output of ours, so that a copy in the project is not taken for an input.
        note_database(path)
    else:
        with output.share_progress("copying") as step:
            rotation = maintenance.rotate(db, keep, step)
        path, removed = rotation.copy, rotation.removed
    if json:
        size = path.stat().st_size
        output.facts({"copy": str(path), "bytes": size, "removed": [str(p) for p in removed]})
        return
    typer.echo(f"copied to {path} ({path.stat().st_size:,} bytes)")
    for old in removed:
        typer.echo(f"removed {old}")


def restore(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="File that zen db backup wrote.")],
    db: Database = None,
    json: Json = False,
) -> None:
    """Restore a backup into an empty place, and check it.

    A file of SQLite must not exist yet: move it away first, together with its -wal and -shm. A
    database of PostgreSQL must be empty: createdb NAME. Roles and artifacts are not part of a
    backup: repeat zen db grant, and copy the folder .zenturio/store.

    Examples: zen db restore .zenturio/backups/zenturio-20261119T120000.000000Z.db; zen db restore
    lab.dump --db postgresql:///lab_restored
    """
    from zenturio.record import maintenance
    from zenturio.record.open import dialect_at, locate

    with output.waiting("restoring"):
        maintenance.restore(source, db)
    location = dialect_at(locate(db)).location
    if json:
        output.facts({"restored": location})
    else:
        typer.echo(f"restored {location}; no damage found")


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="File or URL to copy.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Empty database, or a new file.")],
    json: Json = False,
) -> None:
    """Copy a database into another one, from SQLite to PostgreSQL or back.

    All studies, versions, results, logs and the queue are copied, with their numbers; files of
    artifacts stay in the store of their project. Counts and a digest over all values are compared
    at the end. If the copy is interrupted, repeat the command. No study may run during the copy.

    Examples: zen db copy .zenturio/zenturio.db postgresql:///lab; zen db copy postgresql:///lab
    lab.db
    """
    import sys

    from zenturio.record import maintenance

    def show(table: str, rows: int) -> None:
        if safe_streams.is_moving(sys.stderr):
            safe_streams.clear_line(sys.stderr)
            typer.echo(f"{table}: {rows:,} rows", nl=False, err=True)

    done = maintenance.copy_repository(source, target, show)
    if safe_streams.is_moving(sys.stderr):
        safe_streams.clear_line(sys.stderr)
    if json:
        output.facts({"rows": done.rows, "digest": done.digest})
        return
    typer.echo(
        f"{done.rows['results']:,} results of {done.rows['studies']:,} studies are in both"
        f" databases, with equal values (digest {done.digest[:8]})"
    )


def salvage(
    source: Annotated[Path, typer.Argument(help="Damaged database; it is not changed.")],
    target: Annotated[Path, typer.Argument(help="New database to write.")],
    json: Json = False,
) -> None:
    """Copy the readable part of a damaged database into a new one.

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
        pages, rows = amount(saved.pages, "page"), amount(saved.unreadable, "row")
        typer.echo(f"\n{pages} and {rows} of other pages could not be read")
    waiting = amount(saved.waiting, "experiment")
    typer.echo(f"\nthe next zen run repeats {waiting}; new database: {target}")


def grant(
    role: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Grant read access to this existing role instead of creating a role.",
        ),
    ] = "",
    owner: Annotated[
        str,
        typer.Option(metavar="ROLE", help="Group role to own the database; created if missing."),
    ] = "",
    admin: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE", help="Role to administer, such as zen serve's; repeatable."),
    ] = None,
    writer: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE", help="Role to run and submit studies; repeatable."),
    ] = None,
    reader: Annotated[
        list[str] | None, typer.Option(metavar="ROLE", help="Role to read only; repeatable.")
    ] = None,
    private: Annotated[
        bool | None,
        typer.Option(
            "--private/--no-private",
            help="Hide recorded programs and the queue from readers.",
            show_default=False,
        ),
    ] = None,
    sql: Annotated[
        bool,
        typer.Option("--sql", "--print", help="Print the SQL statements without executing them."),
    ] = False,
    db: Database = None,
    json: Json = False,
) -> None:
    """Create a read-only role on PostgreSQL for zen sql and the portal, or set up a team.

    The password of the read-only role is kept in your configuration folder. If you may not create
    roles, give the printed statements to the administrator of the server. To use another login,
    set ZENTURIO_SQL_URL.

    With --owner, a team shares the database: a group role owns it, and each other role gets the
    rights that it needs. Repeat the command without --owner to add a role, and after zen db
    upgrade.

    Examples: zen db grant; zen db grant --role alice; zen db grant --sql > grant.sql; zen db grant
    --owner lab --writer alice --writer bob --reader carol
    """
    from zenturio.errors import InputError, PlaceError
    from zenturio.record import maintenance
    from zenturio.record.database_roles import Team

    is_team = bool(owner or admin or writer or reader or private is not None)
    if is_team and role:
        raise InputError("--role is for one reader, --owner for a team", hint="write --reader")
    if is_team:
        team = Team(owner, tuple(admin or ()), tuple(writer or ()), tuple(reader or ()), private)
        granted = maintenance.grant_team(db, team, execute=not sql)
        message = f"{granted.role} owns the database; {_members(team)}"
    else:
        granted = maintenance.grant(db, role, execute=not sql)
        message = f"the role {granted.role} can read the database and nothing else"
    if json:
        output.facts({"role": granted.role, "done": granted.done, "statements": granted.statements})
    elif granted.done:
        typer.echo(message)
    else:
        for statement in granted.statements:
            typer.echo(f"{statement};")
    # Printed before the error: the statements are what an administrator needs.
    if granted.why:
        raise PlaceError(
            f"the server did not execute the statements: {granted.why}",
            hint="give them to its administrator: `zen db grant --sql` prints them again",
        )


def _members(team: "Team") -> str:
    groups = (("administer", team.admins), ("write", team.writers), ("read", team.readers))
    words = [f"{', '.join(roles)} can {verb}" for verb, roles in groups if roles]
    if team.is_private is not None:
        see = "do not see" if team.is_private else "see"
        words.append(f"readers {see} recorded programs and the queue")
    return "; ".join(words) or "add --writer and --reader to let others use it"


def views(
    pin: Annotated[
        list[str] | None,
        typer.Option(metavar="STUDY", help="Keep the views of this study; repeatable."),
    ] = None,
    unpin: Annotated[
        list[str] | None,
        typer.Option(metavar="STUDY", help="Stop keeping the views of this study; repeatable."),
    ] = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """List the views that the database offers to other programs, and pin some.

    SQLite keeps the views of pinned studies and of the 100 studies opened last; PostgreSQL keeps
    all views. zen sql and the portal do not need these views.

    Examples: zen db views; zen db views --pin matmul; zen db views --unpin matmul
    """
    from dataclasses import asdict

    from zenturio.record import maintenance

    stored_views = maintenance.stored_views(db, pin=pin or (), unpin=unpin or ())
    if json:
        output.facts([{**asdict(view), "opened": iso_time(view.opened)} for view in stored_views])
        return
    output.table(
        ("study", "view", "stored", "pinned", "opened"),
        [
            (v.study, v.name, _yes(v.is_stored), _yes(v.is_pinned), utc_time(v.opened))
            for v in stored_views
        ],
    )


def _yes(holds: bool) -> str:
    return "yes" if holds else ""


def prune(
    studies: Annotated[
        list[str] | None, typer.Argument(metavar="[STUDY]...", help="Studies to remove.")
    ] = None,
    folders: Annotated[bool, typer.Option(help="Also remove kept folders and builds.")] = True,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Remove; default: only show what can be removed.")
    ] = False,
    db: Database = None,
    json: Json = False,
) -> None:
    """Show what can be removed; remove it with --yes.

    Removes kept folders, builds, and the studies that you name.

    Examples: zen prune; zen prune matmul --yes
    """
    from zenturio.study.maintenance import prune as remove

    with output.waiting("removing" if yes else "looking for what can be removed"):
        removal = remove(db, studies or [], folders=folders, really=yes)
    if json:
        output.facts({"removed": yes, **removal.facts()})
        return
    for line in removal.lines():
        typer.echo(("removed " if yes else "would remove ") + line)
    if not removal.lines():
        typer.echo("nothing to remove")
    elif not yes:
        typer.echo("to remove it, add --yes")


_STANDARD_INPUT = ("-",)


def redact(
    secret: Annotated[
        str | None,
        typer.Argument(
            help="Secret to look for; - reads it from standard input.", show_default=False
        ),
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="FILE", help="Read the secret from a file."),
    ] = None,
    backups: Annotated[
        bool, typer.Option("--backups", help="Remove backups of the database as well.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Remove the secret; default: only show where it is.")
    ] = False,
    db: Database = None,
    json: Json = False,
) -> None:
    """Show where a secret was recorded; remove it with --yes.

    Replaces the secret by asterisks in all texts of the database (commands, values, metrics, logs,
    artifacts, recorded programs), and in the files below .zenturio. The database records who did
    this, when, and in how many places. Digests and your own files are not changed. Do not type the
    secret, because the shell keeps a history: use - or --from-file.

    Examples: zen redact --from-file leaked.txt; pass show token | zen redact - --yes --backups
    """
    from zenturio.study.maintenance import redact as remove

    text = _read(secret, from_file)
    with output.waiting("looking for the secret"):
        result = remove(db, text, backups=backups, really=yes)
    if json:
        output.facts({"redacted": yes, "backups_removed": yes and backups, **result.facts()})
        return
    for line in _lines(result, really=yes, backups=backups):
        typer.echo(line)


def _read(secret: str | None, from_file: Path | None) -> str:
    """Return the secret, without the end of its last line."""
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
    # A secret need not be UTF-8; escaped, its bytes are looked for as they are.
    text = data.decode(errors="surrogateescape")
    return text.removesuffix("\n").removesuffix("\r")


def _lines(result: "RedactResult", *, really: bool, backups: bool) -> list[str]:
    did = "redacted" if really else "would redact"
    lines = [
        f"{did} {amount(count, 'row')} of {table}"
        for table, count in result.repository.tables.items()
    ]
    lines += [f"{did} an artifact: {path}" for path in result.repository.artifacts]
    lines += [f"{did} {path}" for path in result.files]
    if not lines:
        lines.append("the secret is not in the record")
    if result.repository.numbers:
        count = result.repository.numbers
        lines.append(
            f"{count:,} recorded numbers are equal to it and stay; zen prune STUDY removes them"
        )
    if result.remaining:
        lines += [f"still there: {path}" for path in result.remaining]
    lines += _about_copies(result, really=really, backups=backups)
    if result.places and not really:
        lines.append("to do it, add --yes")
    elif result.places:
        lines.append(
            "change the secret where it is used; if your program still has it, the next run"
            " records it again"
        )
    return lines


def _about_copies(result: "RedactResult", *, really: bool, backups: bool) -> list[str]:
    lines = [
        f"a copy of the tables may have it: schema {name}, which its administrator can drop"
        for name in result.repository.schemas
    ]
    for path in result.backups:
        if backups:
            lines.append(f"{'removed' if really else 'would remove'} the copy {path}")
        else:
            lines.append(f"a copy of the database may have it: {path} (--backups removes it)")
    if result.repository.server and really and result.repository.tables:
        tables = ", ".join(result.repository.tables)
        lines.append(
            f"the server's files have the old rows until VACUUM FULL {tables}; its logs and"
            " backups are the administrator's"
        )
    return lines
