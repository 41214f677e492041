"""The verb of hosts: which there are, how they do, and what happened on them."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio.cli import output
from zenturio.cli.options import Json, Trust

if TYPE_CHECKING:
    from zenturio.execute.hosts.event_log import HostEvent
    from zenturio.execute.hosts.executor import HostState

NAMED = 500
"""Jobs that are called by their values in a picture; others by their digests."""
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
    trust: Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Connect to hosts and show their state.

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
    from zenturio.execute.hosts.executor import survey_hosts, trusted_hosts_file

    configuration = trusted_hosts_file(file, folder)
    with output.waiting("asking hosts"):
        found = survey_hosts(configuration, folder, remeasure=calibrate)
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
    from zenturio.execute.hosts.event_log import read_events

    found = read_events(folder, digests)
    if picture is not None:
        from zenturio.show.chart_files import save
        from zenturio.show.charts.schedule_charts import jobs_gantt

        save(jobs_gantt(found, _names(found)), picture)
        said: dict[str, Any] = {"picture": str(picture), "events": len(found)}
        output.facts(said) if json else typer.echo(f"{picture}: {len(found)} events")
    elif json:
        output.facts([{n: getattr(e, n) for n in type(e).__slots__} for e in found])
    else:
        from zenturio.record.timestamps import iso_time

        heads = ("time", "event", "job", "host", "why")
        rows = [
            (iso_time(e.time), e.kind, e.digest[:12], e.host, e.why or _iteration(e.iteration))
            for e in found
        ]
        output.table(heads, rows)


def _names(events: "list[HostEvent]") -> dict[str, str]:
    """What jobs are called: by the values in which they differ, where those are recorded."""
    from zenturio.cli.live import settings
    from zenturio.errors import ZenError
    from zenturio.study.overview import opened_repository

    values: dict[str, Mapping[str, object]] = {}
    with suppress(ZenError), opened_repository(None) as repository:
        for digest in list(dict.fromkeys(e.digest for e in events if e.digest))[:NAMED]:
            for _, studies in repository.find_digests(digest, 1):
                values[digest] = repository.experiment_record(studies[0], digest).values
    all_of_them = [set(each.items()) for each in values.values()]
    same = dict(set.intersection(*all_of_them)) if len(all_of_them) > 1 else {}
    differs = {d: {n: v for n, v in each.items() if n not in same} for d, each in values.items()}
    return {digest: settings(each) or digest[:8] for digest, each in differs.items()}


def _iteration(number: int | None) -> str:
    return "" if number is None else f"iteration {number}"


def _row(each: "HostState") -> tuple[Any, ...]:
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


def _facts(each: "HostState") -> dict[str, Any]:
    return {"host": each.name, "up": each.up, "why": each.why, **each.facts}
