"""The verbs of a machine that several people share: serve, submit, queue."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio.cli import options, output
from zenturio.errors import InputError
from zenturio.record.timestamps import iso_time, utc_time

if TYPE_CHECKING:
    from zenturio.record import StudySubmission

LATELY = 10
"""Studies that are over and still told of."""


def add_to(app: typer.Typer) -> None:
    """Put the verbs of this file into *app*."""
    app.command()(serve)
    app.command()(submit)
    app.command()(queue)


def serve(
    host: Annotated[
        str | None, typer.Option(metavar="HOST", help="Where its pages are; this machine alone.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="At which port; 0 takes a free one.")
    ] = None,
    policy: Annotated[
        str, typer.Option(metavar="POLICY", help="Who gets the next slot: fcfs, srpt, foft, ...")
    ] = "",
    on: Annotated[
        list[str] | None, typer.Option(metavar="PLACE", help="A place, if not the file's; again.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Slots of each place.")
    ] = None,
    hash_password: Annotated[
        bool, typer.Option("--hash", help="Hash a password for [serve.users], and stop.")
    ] = False,
    proxy_secret: Annotated[
        bool, typer.Option("--proxy-secret", help="Make a secret to share with a proxy, and stop.")
    ] = False,
    db: options.Database = None,
) -> None:
    """Run submitted studies as a service.

    It goes on until it is stopped; started again, it goes on where it was. zenturio.toml says
    under [serve] which places it has, who may come, and by which policy slots are shared.

    Examples: zen serve; zen serve --policy srpt -j 8
    """
    if hash_password:
        _hash()
        return
    if proxy_secret:
        _make_secret()
        return
    from zenturio.cli.portal import missing

    try:
        from zenturio.cli.service import serve_here
    except ModuleNotFoundError as error:
        raise missing(error) from error
    serve_here(host, port, policy, on or [], jobs, db)


def submit(
    paths: options.Paths,
    param: options.Overrides = None,
    limit: options.Limit = None,
    sample: options.Sample = None,
    search: options.Engine = "",
    budget: options.Budget = "",
    stop: options.Stop = None,
    settings: options.Settings = None,
    objective: options.Objective = "",
    seed: options.Seed = 0,
    only: options.Only = "missing",
    name: options.Name = None,
    on: Annotated[
        str, typer.Option(metavar="PLACE", help="One of the service's places; any, if none.")
    ] = "",
    machine: options.MachineKind = "same",
    each_machine: options.EachMachine = False,
    again: options.Again = False,
    db: options.Database = None,
    json: options.Json = False,
) -> None:
    """Submit a study to the service.

    Its files are read at once, and again when its turn has come. What has an outcome already is
    not run again, unless another kind of machine has measured it: see zen run --help.

    Examples: zen submit matmul.c; zen submit model.py --search ga --budget 500
    """
    from zenturio.record.open import FOLDER, open_repository, project_folder
    from zenturio.study.service.submission_queue import current_user, is_served
    from zenturio.study.service.submission_queue import submit_study as hand_in
    from zenturio.study.study_request import StudyRequest

    request = StudyRequest(
        tuple(paths), tuple(param or ()), limit, sample, search, budget, tuple(stop or ()),
        tuple(settings or ()), objective, seed, only, name or "", on, machine, again,
        each_machine,
    )  # fmt: skip
    repository = open_repository(db)
    try:
        found = hand_in(repository, request, current_user())
        before = sum(s.number < found.number for s in repository.submissions(("waiting",)))
    finally:
        repository.close()
    if json:
        output.facts(_facts(found))
        return
    ahead = f", {before} before it" if before else ""
    typer.echo(f"{found.number}: {found.study} of {found.user} {_turns(found)}{ahead}")
    if db is None and not is_served(project_folder() / FOLDER):
        typer.echo("no service runs here yet: zen serve", err=True)


def queue(
    whole: Annotated[
        bool, typer.Option("--all", help="All that was ever submitted, not the last ones.")
    ] = False,
    db: options.Database = None,
    json: options.Json = False,
) -> None:
    """Show submitted studies and who waits.

    The slowdown says how many times as long a study takes as it would if all slots were its own.

    Example: zen queue
    """
    from zenturio.record import FINISHED_SUBMISSION_STATES
    from zenturio.study.overview import opened_repository

    with opened_repository(db) as repository:
        found = repository.submissions()
    over = [each for each in found if each.turn in FINISHED_SUBMISSION_STATES]
    left = set() if whole else {each.number for each in over[:-LATELY]}
    shown = [each for each in found if each.number not in left]
    if json:
        output.facts([_facts(each) for each in shown])
    elif not found:
        typer.echo("nothing was submitted yet: zen submit PATH")
    else:
        heads = ("number", "user", "study", "turn", "done", "slots", "slowdown", "submitted", "")
        output.table(heads, [_row(each) for each in shown], right="rlllrrr")
        if left:
            typer.echo(f"{len(shown):,} of {len(found):,}; all of them: zen queue --all")


def _hash() -> None:
    """Ask for a password, or read it from a pipe, and print what is kept of it."""
    from zenturio.show.portal.access import PasswordHash

    if sys.stdin.isatty():
        text = typer.prompt("password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        text = sys.stdin.readline().rstrip("\r\n")
    if not text:
        raise InputError("a password is not empty")
    typer.echo(PasswordHash.of(text).text)


def _make_secret() -> None:
    """Print a new secret, as a proxy takes it and as zenturio.toml does."""
    import secrets

    from zenturio.show.portal.access import PROXY_HEADER, hash_secret

    secret = secrets.token_urlsafe(32)
    typer.echo(f'nginx:          proxy_set_header {PROXY_HEADER} "{secret}";')
    typer.echo(f'zenturio.toml:  proxy_secret = "{hash_secret(secret)}"')


def _turns(found: "StudySubmission") -> str:
    return {"waiting": "waits", "running": "runs"}.get(found.turn, f"is {found.turn}")


def _row(each: "StudySubmission") -> tuple[Any, ...]:
    told = each.progress
    done = f"{told['done']:,}/{told['total']:,}" if told.get("total") else ""
    lent = told.get("lent", 0) if each.turn == "running" else ""
    slowdown = f"{told['slowdown']:.2f}" if "slowdown" in told else ""
    cause = each.cause.splitlines()[0] if each.cause else ""
    return (
        each.number, each.user, each.study, each.turn, done, lent, slowdown,
        utc_time(each.submitted), cause,
    )  # fmt: skip


def _facts(each: "StudySubmission") -> dict[str, Any]:
    return {
        "number": each.number,
        "user": each.user,
        "study": each.study,
        "turn": each.turn,
        "cause": each.cause,
        "submitted": iso_time(each.submitted),
        "begun": iso_time(each.begun) if each.begun else None,
        "ended": iso_time(each.ended) if each.ended else None,
        "request": dict(each.request),
        **each.progress,
    }
