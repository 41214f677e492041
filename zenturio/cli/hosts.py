"""The verb of hosts: which there are, how they do, and what happened on them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio.cli import output
from zenturio.cli.options import Json

if TYPE_CHECKING:
    from zenturio.execute.hosts.survey import Seen

_HEADS = ("host", "address", "state", "arch", "cores", "slots", "memory", "speed", "load", "cost")


def add_to(app: typer.Typer) -> None:
    """Put the verb of this file into *app*."""
    app.command()(hosts)


def hosts(
    file: Annotated[Path, typer.Argument(help="The file of hosts.")] = Path("hosts.toml"),
    events: Annotated[
        bool, typer.Option("--events", help="What happened to the project's jobs, in order.")
    ] = False,
    gantt: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw where jobs were: .html .svg .png.")
    ] = None,
    digest: Annotated[
        list[str] | None, typer.Option(help="Only jobs whose digests begin so.")
    ] = None,
    calibrate: Annotated[bool, typer.Option(help="Measure speeds anew.")] = False,
    json: Json = False,
) -> None:
    """Show the hosts of a file: what they are, how they do, and which cannot be reached.

    Speed is in millions of steps a second of a short computation, made at the first contact: when
    a host had other things to do then, --calibrate makes it again.

    Examples: zen hosts; zen hosts lab.toml --json; zen hosts --events --digest 3f2a; zen hosts
    --gantt jobs.svg
    """
    from zenturio.record.open import FOLDER, project_folder

    folder = project_folder() / FOLDER
    if events or gantt is not None:
        _happened(folder, digest or [], gantt, json)
        return
    from zenturio.execute.hosts.survey import survey

    with output.waiting("asking hosts"):
        found = survey(file, folder, anew=calibrate)
    if json:
        output.facts([_facts(each) for each in found])
    else:
        output.table(_HEADS, map(_row, found), right="llllrrrrrr")
        for each in found:
            if each.why:
                typer.echo(f"{each.name}: {each.why}")
    if not any(each.up for each in found):
        raise typer.Exit(4)


def _happened(folder: Path, digests: list[str], picture: Path | None, json: bool) -> None:
    from zenturio.execute.hosts.events import read_events

    found = read_events(folder, digests)
    if picture is not None:
        from zenturio.show import save
        from zenturio.show.jobs_chart import jobs

        save(jobs(found), picture)
        said: dict[str, Any] = {"picture": str(picture), "events": len(found)}
        output.facts(said) if json else typer.echo(f"{picture}: {len(found)} events")
    elif json:
        output.facts([{n: getattr(e, n) for n in type(e).__slots__} for e in found])
    else:
        from zenturio.cli.experiment import iso

        heads = ("time", "event", "job", "host", "why")
        rows = [
            (iso(e.time), e.kind, e.digest[:12], e.host, e.why or _iteration(e.iteration))
            for e in found
        ]
        output.table(heads, rows)


def _iteration(number: int | None) -> str:
    return "" if number is None else f"iteration {number}"


def _row(each: "Seen") -> tuple[Any, ...]:
    facts = each.facts
    memory = facts.get("memory")
    return (
        each.name,
        each.address,
        "up" if each.up else "down",
        facts.get("arch"),
        facts.get("cores"),
        facts.get("slots"),
        f"{memory / 1e9:.3g} GB" if isinstance(memory, int | float) else "",
        output.number(facts.get("speed")),
        output.number(facts.get("load")),
        output.number(facts.get("cost")),
    )


def _facts(each: "Seen") -> dict[str, Any]:
    return {"host": each.name, "up": each.up, "why": each.why, **each.facts}
