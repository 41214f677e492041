"""The verbs of places and hosts."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio.cli import output
from zenturio.cli.options import Json, Trust

if TYPE_CHECKING:
    from zenturio.execute.hosts.attempt_journal import HostEvent
    from zenturio.execute.hosts.executor import HostState
    from zenturio.execute.places import NamedPlace


Name = Annotated[str, typer.Argument(help="Name of a place, or dask://host:8786.")]


def add_to(app: typer.Typer) -> None:
    """Register the verbs of this module in *app*."""
    group = typer.Typer(
        invoke_without_command=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    group.callback()(places)
    group.command()(check)
    group.command()(show)
    app.add_typer(group, name="places")
    app.command()(hosts)


def places(context: typer.Context, json: Json = False) -> None:
    """List the places where experiments can run.

    Examples: zen places; zen places check dask; zen run matmul.c --on dask
    """
    if context.invoked_subcommand is not None:
        return
    from zenturio.execute.places import known_places
    from zenturio.record.open import project_folder

    rows_of_facts = [_facts(facts) for facts in known_places(project_folder()).values()]
    if json:
        output.facts(rows_of_facts)
        return
    rows = [
        (facts["name"], facts["kind"], facts["from"], facts["about"]) for facts in rows_of_facts
    ]
    output.table(("place", "kind", "from", "description"), rows)
    typer.echo("\nsettings: zen places show NAME; test it: zen places check NAME")


def _facts(named_place: "NamedPlace") -> dict[str, Any]:
    from zenturio.settings.document import FILE

    place = named_place.table.place
    return {
        "name": named_place.name,
        "kind": named_place.kind,
        "from": f"{FILE}:{place.line}" if place else "built in",
        "about": _plain((named_place.load().__doc__ or "").strip().partition("\n")[0]),
    }


def _plain(text: str) -> str:
    return text.replace("``", "").replace("*", "")


def check(
    name: Name,
    trust: Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Run a small experiment at a place and report what is wrong.

    Exits with 4 if something is wrong.

    Examples: zen places check dask; zen places check tls://head:8786
    """
    from dataclasses import asdict

    from zenturio.execute.places import find_place, probe_place
    from zenturio.record.open import FOLDER, project_folder

    project = project_folder()
    named_place = find_place(name, project)
    # Before anything is started: a mistake in zenturio.toml is an error, not a finding.
    named_place.options()
    findings = []
    for finding in probe_place(named_place, project / FOLDER):
        findings.append(finding)
        if not json:
            typer.echo(f"{'good ' if finding.good else 'WRONG'}  {finding.text}")
            for line in finding.hint.splitlines():
                typer.echo(f"       {line}")
    good = all(finding.good for finding in findings)
    if json:
        facts = {"name": name, "kind": named_place.kind, "ok": good}
        output.facts({**facts, "findings": [asdict(finding) for finding in findings]})
    if not good:
        raise typer.Exit(4)


def show(
    name: Name,
    script: Annotated[
        bool, typer.Option("--script", help="Print the script of a job; nothing is submitted.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the settings of a place, or the script of its jobs.

    Examples: zen places show dask; zen places show cluster --script
    """
    from zenturio.execute.places import find_place
    from zenturio.record.open import project_folder

    named_place = find_place(name, project_folder())
    if script:
        text = _script(named_place)
        output.facts({"script": text, "submitted": False}) if json else typer.echo(text)
        return
    options, entries = named_place.options(), named_place.table.entries
    rows = [
        (s.name, output.kind(s), getattr(options, s.name), s.name in entries, s.help)
        for s in named_place.settings()
    ]
    if json:
        settings = [
            {"name": n, "type": kind, "value": value, "configured": is_configured, "help": about}
            for n, kind, value, is_configured, about in rows
        ]
        output.facts({**_facts(named_place), "jobs": named_place.jobs, "settings": settings})
        return
    facts = _facts(named_place)
    typer.echo(f"{facts['name']} ({facts['kind']}, {facts['from']}): {facts['about']}\n")
    if named_place.jobs is not None:
        typer.echo(f"jobs: {named_place.jobs}\n")
    if rows:
        shown = [(n, kind, "" if v is None else v, about) for n, kind, v, _, about in rows]
        output.table(("setting", "type", "value", "description"), shown)
    else:
        typer.echo("no settings but jobs")


def _script(named_place: "NamedPlace") -> str:
    """Return the script of a job of the place."""
    from zenturio.errors import InputError
    from zenturio.record.open import FOLDER, project_folder

    write = getattr(named_place.load(), "script", None)
    if write is None:
        raise InputError(f"the place {named_place.name} starts no jobs", hint="see zen places show")
    # To stderr: stdout is the script alone, and can be a file.
    typer.echo("nothing was submitted; the script of a job:", err=True)
    text: str = write(project_folder() / FOLDER, named_place.options())
    return text


NAMED = 500
"""Jobs that are called by their values in a chart; others by their digests."""
_HEADS = ("host", "address", "state", "arch", "cores", "slots", "memory", "speed", "load", "cost")


def hosts(
    file: Annotated[Path, typer.Argument(help="File that lists the hosts.")] = Path("hosts.toml"),
    events: Annotated[
        bool, typer.Option("--events", help="List the events of the project's jobs instead.")
    ] = False,
    gantt: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw a Gantt chart of the jobs: .html, .svg or .png."),
    ] = None,
    digest: Annotated[
        list[str] | None, typer.Option(help="Only jobs whose digest begins with this; repeatable.")
    ] = None,
    calibrate: Annotated[bool, typer.Option(help="Measure the speed of each host again.")] = False,
    trust: Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Connect to hosts and show their state.

    Speed is in millions of steps per second of a short benchmark, which runs when a host is first
    contacted. If the host was busy at that time, repeat the benchmark with --calibrate.

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
        survey_results = survey_hosts(configuration, folder, remeasure=calibrate)
    if json:
        output.facts([_host_facts(host) for host in survey_results])
    else:
        output.table(_HEADS, map(_host_row, survey_results), right="llllrrrrrr")
        for host in survey_results:
            if host.why:
                typer.echo(f"{host.name}: {host.why}")
    if not any(host.up for host in survey_results):
        raise typer.Exit(4)


def _happened(folder: Path, digests: list[str], chart: Path | None, json: bool) -> None:
    from zenturio.execute.hosts.attempt_journal import read_events

    host_events = read_events(folder, digests)
    if chart is not None:
        from zenturio.show.charts.schedule_charts import jobs_gantt
        from zenturio.show.report_store import save

        save(jobs_gantt(host_events, _names(host_events)), chart)
        facts: dict[str, Any] = {"file": str(chart), "events": len(host_events)}
        output.facts(facts) if json else typer.echo(f"{chart}: {len(host_events)} events")
    elif json:
        output.facts([{n: getattr(e, n) for n in type(e).__slots__} for e in host_events])
    else:
        from zenturio.quantities import iso_time

        heads = ("time", "event", "job", "host", "why")
        rows = [
            (iso_time(e.time), e.kind, e.digest[:12], e.host, e.why or _iteration(e.iteration))
            for e in host_events
        ]
        output.table(heads, rows)


def _names(events: "list[HostEvent]") -> dict[str, str]:
    """Return names of jobs: by the values in which they differ, if these are recorded."""
    from zenturio.errors import ZenError
    from zenturio.study.overview import opened_repository

    values: dict[str, Mapping[str, object]] = {}
    with suppress(ZenError), opened_repository(None) as repository:
        for digest in list(dict.fromkeys(e.digest for e in events if e.digest))[:NAMED]:
            for _, studies in repository.find_digests(digest, 1):
                values[digest] = repository.experiment_record(studies[0], digest).values
    all_of_them = [set(point.items()) for point in values.values()]
    # Values that all jobs share tell none of them apart.
    same = dict(set.intersection(*all_of_them)) if len(all_of_them) > 1 else {}
    differs = {d: {n: v for n, v in point.items() if n not in same} for d, point in values.items()}
    return {digest: output.values_text(point) or digest[:8] for digest, point in differs.items()}


def _iteration(number: int | None) -> str:
    return "" if number is None else f"iteration {number}"


def _host_row(host: "HostState") -> tuple[Any, ...]:
    facts = host.facts
    memory = facts.get("memory")
    return (
        host.name,
        host.address,
        "up" if host.up else "down",
        facts.get("arch"),
        facts.get("cores"),
        facts.get("slots"),
        f"{memory / 1e9:.3g} GB" if isinstance(memory, int | float) else "",
        output.number(facts.get("speed")),
        output.number(facts.get("load")),
        output.number(facts.get("cost")),
    )


def _host_facts(host: "HostState") -> dict[str, Any]:
    return {"host": host.name, "up": host.up, "why": host.why, **host.facts}
