"""The verbs that look: list, status, show, logs, diff."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio.cli import again, failures, output
from zenturio.cli.experiment import (
    difference_facts,
    facts_of,
    log_facts,
    print_difference,
    print_found,
)
from zenturio.cli.options import Database, Json
from zenturio.record.timestamps import iso_time, utc_time

if TYPE_CHECKING:
    from zenturio.study.overview import StudyStatus

Digest = Annotated[str, typer.Argument(help="An experiment's digest, or its first digits.")]
Of = Annotated[str | None, typer.Option("--study", help="The study, where several have it.")]

MOST_RUNNING = 20
"""Experiments that run now and are listed."""
NOTHING = "nothing was run here yet: zen run PATH"


def add_to(app: typer.Typer) -> None:
    """Put the verbs of this file into *app*."""
    app.command(name="list")(list_studies)
    app.command()(status)
    app.command()(show)
    app.command()(logs)
    app.command()(diff)


def list_studies(db: Database = None, json: Json = False) -> None:
    """List the studies of the project.

    Example: zen list
    """
    from zenturio.study.overview import study_statuses

    found = study_statuses(db)
    if json:
        output.facts([_standing_facts(each) for each in found])
    elif not found:
        typer.echo(NOTHING)
    else:
        output.table(
            ("study", "experiments", "ok", "failed", "left", "created"),
            [(s.study, s.total, s.ok, s.failed, s.left, utc_time(s.created)) for s in found],
            right="lrrrr",
        )


def status(
    study: Annotated[str | None, typer.Argument(help="The study; all, if none is named.")] = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Show the progress, failures and drivers of studies.

    Of a study that is named, the first experiments that run are listed, and failures are grouped
    by their cause, each with the end of the output of one of them.

    Example: zen status matmul
    """
    from zenturio.cli.live import settings
    from zenturio.study.overview import study_status, study_statuses

    found = study_statuses(db) if study is None else [study_status(db, study)]
    failed = failures.of_study(study, db) if study is not None and found[0].failed else []
    outside = _outside(db, found)
    running = _running(db, study) if study is not None and found[0].running else {}
    if json:
        facts = [{**_standing_facts(each), "outside": outside[each.study]} for each in found]
        more = {"running_experiments": running, "failures": failures.facts(failed)}
        output.facts(facts if study is None else {**facts[0], **more})
        return
    for each in found:
        typer.echo(_standing_line(each, db))
        if count := outside[each.study]:
            was = "experiment is" if count == 1 else "experiments are"
            typer.echo(f"  {count:,} {was} of points that the space does not hold any more")
        for digest, values in running.items():
            typer.echo(f"  running {digest[:12]}  {settings(values)}")
        failures.show(failed, each.study, db)
    if not found:
        typer.echo(NOTHING)


def _running(db: str | None, study: str) -> dict[str, Mapping[str, Any]]:
    """The values of experiments that run now, by digest: the first few, for `zen logs --follow`."""
    from zenturio.study.overview import opened_repository

    with opened_repository(db) as repository:
        records = islice(repository.records(study, states=("running",)), MOST_RUNNING)
        return {record.digest: record.values for record in records}


def show(digest: Digest, study: Of = None, db: Database = None, json: Json = False) -> None:
    """Show an experiment: parameters, metrics, attempts.

    Example: zen show 5c37b9d7
    """
    from zenturio.study.overview import find_experiment, opened_repository

    with opened_repository(db) as repository:
        found = find_experiment(repository, digest, study)
    if json:
        output.facts(facts_of(found))
    else:
        print_found(found, db)


def logs(
    digest: Digest,
    attempt: Annotated[int | None, typer.Option(min=1, help="Which attempt.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print it as it comes, until it has ended.")
    ] = False,
    safe: Annotated[
        bool | None,
        typer.Option(
            "--safe/--raw",
            help="Show control characters, or send them; --safe is the default on a terminal.",
        ),
    ] = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Print the output of an experiment, byte for byte.

    Its stdout goes to stdout, its stderr to stderr. On a terminal control characters are shown as
    escapes, for output may change what a terminal shows or does; --raw sends them. While it runs,
    what it has said so far is known on its own machine only, from the project that runs it.

    Examples: zen logs 5c37b9d7 --follow; zen logs 5c37b9d7 --raw
    """
    from zenturio.cli.log_output import LogOutput
    from zenturio.study.log_follower import follow_log as follow_it
    from zenturio.study.log_follower import log_after, log_so_far
    from zenturio.study.overview import find_experiment, opened_repository

    seen = (0, 0)
    log_output = LogOutput(safe=safe)
    with opened_repository(db) as repository:
        found = find_experiment(repository, digest)
        whole = found.record.digest
        if follow:
            seen = follow_it(repository, found.study, whole, _nothing if json else log_output.put)
        elif found.record.state == "running" and attempt is None and not json:
            log_so_far(whole, log_output.put)
            log_output.close()
            typer.echo("it has not ended: --follow waits for more", err=True)
            return
        said = repository.logs(whole, attempt)
    if json:
        output.facts({"stdout": log_facts(said.stdout), "stderr": log_facts(said.stderr)})
        return
    for number, log in enumerate((said.stdout, said.stderr)):
        for part in log_after(log, seen[number]):
            log_output.put(number, part)
    log_output.close()


def _nothing(_number: int, _content: bytes) -> None:
    """JSON is told at the end, as a whole."""


def diff(
    one: Digest, other: Digest, study: Of = None, db: Database = None, json: Json = False
) -> None:
    """Compare two experiments: parameters, metrics, files.

    Example: zen diff 5c37b9d7 4f1e2baa
    """
    from zenturio.study.overview import compare_experiments, find_experiment, opened_repository

    with opened_repository(db) as repository:
        found = compare_experiments(
            find_experiment(repository, one, study), find_experiment(repository, other, study)
        )
    if json:
        output.facts(difference_facts(found))
    else:
        print_difference(found)


def _standing_line(status: "StudyStatus", db: str | None) -> str:
    parts = [f"{status.ok:,} ok"]
    parts += [f"{status.failed:,} failed"] if status.failed else []
    at_work = "running" if status.drivers or status.stages else "begun"
    parts += [f"{status.running:,} {at_work}"] if status.running else []
    parts += [f"{status.missing:,} not begun"] if status.missing else []
    line = f"{status.study}: {', '.join(parts)}{_several(status)}"
    if status.stages:
        stages = ", ".join(f"{count:,} {stage}" for stage, count in _ordered(status))
        line += f"\n  at {status.place}: {stages}"
    elif status.running and status.place not in ("", "local"):
        line += f"\n  at {status.place}"
    for machine, why in status.drained.items():
        line += f"\n  {machine}: {why}"
    for each in status.history[1:]:
        line += (
            f"\n  round {each.number}: {status.rounds.get(each.number, 0):,} results,"
            f" begun {utc_time(each.began)} by {each.person}"
        )
        line += "; zen run --again goes on with it" if each.is_open else ""
    for driver in status.drivers:
        line += (
            f"\n  driven by process {driver.pid} on {driver.host} since {utc_time(driver.since)}"
        )
    if status.left and not status.drivers:
        known = again.command("attach", status.study, db=db) if status.place else "the same zen run"
        line += f"\n  nobody drives it: {known} goes on"
    return line


def _several(status: "StudyStatus") -> str:
    """How many results the experiments have, where some have several."""
    count = sum(status.machines.values())
    parts = [
        f"{len(several)} {noun}"
        for several, noun in (
            (status.machines, "kinds of machine"),
            (status.rounds, "rounds"),
        )
        if len(several) > 1
    ]
    if not parts:
        return ""
    experiments = f"{status.total:,} of {max(status.planned, status.total):,} experiments"
    return f"\n  {experiments}, {count:,} results of {' and '.join(parts)}"


def _outside(db: str | None, found: Sequence["StudyStatus"]) -> dict[str, int]:
    """How many experiments of each study are of points that its space does not hold any more."""
    from zenturio.query.present import digests_outside
    from zenturio.study.overview import opened_repository

    if not found:
        return {}
    with opened_repository(db) as repository:
        return {each.study: len(digests_outside(repository, each.study)) for each in found}


def _ordered(status: "StudyStatus") -> list[tuple[str, int]]:
    """How many of its experiments are how far at its place; those that are over came last."""
    order = ("running", "queued", "ended")
    return sorted(status.stages.items(), key=lambda item: order.index(item[0]))


def _standing_facts(status: "StudyStatus") -> dict[str, Any]:
    return {
        "study": status.study,
        "planned": status.planned,
        "experiments": status.total,
        **{str(state): count for state, count in status.counts.items()},
        "results": sum(status.machines.values()),
        "machines": status.machines,
        "rounds": [
            {
                "number": each.number,
                "began": iso_time(each.began),
                "person": each.person,
                "reason": each.reason,
                "open": each.is_open,
                "results": status.rounds.get(each.number, 0),
            }
            for each in status.history
        ],
        "created": iso_time(status.created),
        "place": status.place,
        "stages": dict(_ordered(status)),
        "drained": dict(status.drained),
        "drivers": [
            {"host": d.host, "pid": d.pid, "since": iso_time(d.since)} for d in status.drivers
        ],
    }
