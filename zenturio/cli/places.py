"""The verbs of places: places, places check, places show."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio.cli import output
from zenturio.cli.options import Json, Trust

if TYPE_CHECKING:
    from zenturio.execute.places import NamedPlace

Name = Annotated[str, typer.Argument(help="A place by its name, or dask://host:8786.")]


def add_to(app: typer.Typer) -> None:
    """Put the verbs of this file into *app*."""
    group = typer.Typer(
        invoke_without_command=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    group.callback()(places)
    group.command()(check)
    group.command()(show)
    app.add_typer(group, name="places")


def places(context: typer.Context, json: Json = False) -> None:
    """List the places where experiments can run.

    Examples: zen places; zen places check dask; zen run matmul.c --on dask
    """
    if context.invoked_subcommand is not None:
        return
    from zenturio.execute.places import known_places
    from zenturio.record.open import project_folder

    found = [_facts(each) for each in known_places(project_folder()).values()]
    if json:
        output.facts(found)
        return
    rows = [(each["name"], each["kind"], each["from"], each["about"]) for each in found]
    output.table(("place", "kind", "from", "what it is"), rows)
    typer.echo("\nsettings of one: zen places show NAME; does it work: zen places check NAME")


def _facts(named: "NamedPlace") -> dict[str, Any]:
    from zenturio.settings.project_file import FILE

    place = named.table.place
    return {
        "name": named.name,
        "kind": named.kind,
        "from": f"{FILE}:{place.line}" if place else "built in",
        "about": _plain((named.load().__doc__ or "").strip().partition("\n")[0]),
    }


def _plain(text: str) -> str:
    return text.replace("``", "").replace("*", "")


def check(
    name: Name,
    trust: Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Open a place, run a small experiment there, and say in words what is wrong.

    Ends with 4 if something is. Examples: zen places check dask; zen places check tls://head:8786
    """
    from dataclasses import asdict

    from zenturio.execute.place_probe import probe_place
    from zenturio.execute.places import find_place
    from zenturio.record.open import FOLDER, project_folder

    project = project_folder()
    named = find_place(name, project)
    named.options()
    found = []
    for finding in probe_place(named, project / FOLDER):
        found.append(finding)
        if not json:
            typer.echo(f"{'good ' if finding.good else 'WRONG'}  {finding.text}")
            for line in finding.hint.splitlines():
                typer.echo(f"       {line}")
    good = all(finding.good for finding in found)
    if json:
        facts = {"name": name, "kind": named.kind, "ok": good}
        output.facts({**facts, "findings": [asdict(finding) for finding in found]})
    if not good:
        raise typer.Exit(4)


def show(
    name: Name,
    script: Annotated[
        bool, typer.Option("--script", help="The script that each job would get; none is started.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the settings of a place, or the script of its jobs.

    Examples: zen places show dask; zen places show cluster --script
    """
    from zenturio.execute.places import find_place
    from zenturio.record.open import project_folder

    named = find_place(name, project_folder())
    if script:
        text = _script(named)
        output.facts({"script": text, "submitted": False}) if json else typer.echo(text)
        return
    options, told = named.options(), named.table.entries
    rows = [
        (s.name, output.kind(s), getattr(options, s.name), s.name in told, s.help)
        for s in named.settings()
    ]
    if json:
        settings = [
            {"name": n, "type": kind, "value": value, "configured": given, "help": about}
            for n, kind, value, given, about in rows
        ]
        output.facts({**_facts(named), "jobs": named.jobs, "settings": settings})
        return
    facts = _facts(named)
    typer.echo(f"{facts['name']} ({facts['kind']}, {facts['from']}): {facts['about']}\n")
    if named.jobs is not None:
        typer.echo(f"{named.jobs} at once\n")
    if rows:
        shown = [(n, kind, "" if v is None else v, about) for n, kind, v, _, about in rows]
        output.table(("setting", "type", "value", "what it is"), shown)
    else:
        typer.echo("there is nothing to set but jobs")


def _script(named: "NamedPlace") -> str:
    """What a job of the place would be."""
    from zenturio.errors import InputError
    from zenturio.record.open import FOLDER, project_folder

    write = getattr(named.load(), "script", None)
    if write is None:
        raise InputError(f"the place {named.name} starts no jobs", hint="see zen places show")
    typer.echo("nothing was submitted: this is what a job would get", err=True)
    text: str = write(project_folder() / FOLDER, named.options())
    return text
