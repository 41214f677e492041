"""The verbs for what was begun: attach, cancel."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio.cli import output
from zenturio.cli.options import Database, Json, Trust
from zenturio.cli.run import run

if TYPE_CHECKING:
    from zenturio.record import Repository
    from zenturio.study.stop import StopResult


def add_to(app: typer.Typer) -> None:
    """Put the verbs of this file into *app*."""
    app.command()(attach)
    app.command()(cancel)


def attach(
    study: Annotated[str, typer.Argument(help="A study that was run before.")],
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="How many at once; as last time.")
    ] = None,
    on: Annotated[
        str | None, typer.Option(metavar="PLACE", help="Where it runs; as last time.")
    ] = None,
    db: Database = None,
    trust: Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Resume a study whose driver died, by its name.

    Place and options are those of last time. Where jobs outlive their driver (Slurm, hosts),
    those that run on are found again, and what ended meanwhile is recorded. Ends with 5 while
    the study has a driver.

    Examples: zen attach matmul; zen attach matmul -j 8
    """
    from zenturio.study.last_options import recall_options
    from zenturio.study.overview import opened_repository

    with opened_repository(db) as repository:
        repository.study(study)
        options = recall_options(study, repository.definition(study).notes)
    given = {"jobs": jobs, "on": on}
    options |= {name: value for name, value in given.items() if value is not None}
    run(**options, name=study, same=True, db=db, json=json)


def cancel(
    what: Annotated[
        str,
        typer.Argument(
            metavar="STUDY|DIGEST|NUMBER", help="A study, an experiment, or one of the queue."
        ),
    ],
    db: Database = None,
    json: Json = False,
) -> None:
    """Cancel a study, a queued submission or one experiment.

    The drivers of the study kill what they run and end; jobs that dead drivers left in a queue
    are taken off it. What is recorded stays; zen attach goes on. An experiment that its driver
    cancels is recorded as cancelled: zen run --only failed runs it again.

    Examples: zen cancel matmul; zen cancel 5c37b9d7
    """
    from zenturio.study.overview import opened_repository

    with opened_repository(db) as repository:
        if _cancel_submission(repository, what, json):
            return
        if what in {each.name for each in repository.studies()}:
            _cancel_study(repository, what, json)
        else:
            _cancel_experiment(repository, what, json)


def _cancel_submission(repository: "Repository", what: str, json: bool) -> bool:
    """Whether *what* is, or was until now, in the queue of a service."""
    from zenturio.study.service import submission_queue

    found = submission_queue.submissions_of(repository, what) or tuple(
        each for each in repository.submissions() if str(each.number) == what
    )
    over = [
        submission_queue.cancel_submission(repository, each.number, submission_queue.current_user())
        for each in found
    ]
    if json and over:
        output.facts([{"number": s.number, "study": s.study, "turn": s.turn} for s in over])
        return True
    for each in over:
        typer.echo(f"{each.number}: {each.study} of {each.user} is {each.turn}; what ran is kept")
    return bool(over)


def _cancel_study(repository: "Repository", study: str, json: bool) -> None:
    from zenturio.study.stop import stop_study

    found = stop_study(repository, study)
    if json:
        output.facts(_facts(found))
        return
    for lease in found.stopped:
        typer.echo(f"{study}: process {lease.pid} on {lease.host} was stopped")
    for lease in found.told:
        typer.echo(
            f"{study}: process {lease.pid} on {lease.host} ends at its next heartbeat,"
            f" within {lease.seconds / 3:.0f} s"
        )
    if found.jobs:
        typer.echo(f"{study}: {found.jobs:,} experiments that a lost driver left were taken off")
    if not (found.stopped or found.told or found.jobs):
        typer.echo(f"{study}: nothing of it runs")


def _facts(found: "StopResult") -> dict[str, Any]:
    def drivers(leases: Any) -> list[dict[str, Any]]:
        return [{"host": lease.host, "pid": lease.pid} for lease in leases]

    return {
        "study": found.study,
        "stopped": drivers(found.stopped),
        "told": drivers(found.told),
        "jobs": found.jobs,
    }


def _cancel_experiment(repository: "Repository", digits: str, json: bool) -> None:
    from zenturio.errors import InputError, NotFoundError, did_you_mean
    from zenturio.study.overview import find_experiment
    from zenturio.study.stop import stop_experiment

    try:
        found = find_experiment(repository, digits)
    except (InputError, NotFoundError) as error:
        names = [each.name for each in repository.studies()]
        raise NotFoundError(
            f"{digits!r} is neither a study nor an experiment: {error.diagnostics[0].message}",
            hint=did_you_mean(digits, names),
        ) from error
    digest = found.record.digest
    state = stop_experiment(repository, found.study, digest)
    if json:
        output.facts({"digest": digest, "study": found.study, "state": state})
        return
    words = {
        "cancelled": "is cancelled",
        "missing": "does not run; zen run begins it again",
    }
    typer.echo(f"{digest[:12]} of {found.study} {words.get(state, f'has ended already: {state}')}")
