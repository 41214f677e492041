"""The verbs of the portal and of the service: portal, serve, submit, queue."""

import os
import sys
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio.cli import options, output
from zenturio.cli.options import Database
from zenturio.errors import InputError
from zenturio.quantities import iso_time, utc_time

if TYPE_CHECKING:
    from zenturio.record import Repository, StudySubmission
    from zenturio.study.study_request import StudyRequest


LATELY = 10
"""Finished studies that are still listed."""


def add_to(app: typer.Typer) -> None:
    """Register the verbs of this module in *app*."""
    app.command()(serve)
    app.command(cls=options.DefaultEngineCommand)(submit)
    app.command()(queue)
    app.command()(portal)


def serve(
    host: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="Address of the portal; default: this machine only."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of the portal; 0 for a free one.")
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            metavar="POLICY", help="Policy that assigns the next slot: fcfs, srpt, foft, ..."
        ),
    ] = "",
    on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PLACE", help="Place to use; repeatable; default: those of zenturio.toml."
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Number of slots of each place.")
    ] = None,
    hash_password: Annotated[
        bool,
        typer.Option("--hash", help="Print the hash of a password for [serve.users], and exit."),
    ] = False,
    proxy_secret: Annotated[
        bool, typer.Option("--proxy-secret", help="Print a secret to share with a proxy, and exit.")
    ] = False,
    metrics_token: Annotated[
        bool,
        typer.Option("--metrics-token", help="Print a token for Prometheus at /metrics, and exit."),
    ] = False,
    token: Annotated[
        str,
        typer.Option(metavar="USER", help="Print a token for submissions as USER, and exit."),
    ] = "",
    check: Annotated[
        bool,
        typer.Option("--check", help="Check settings, database and places, and exit."),
    ] = False,
    db: options.Database = None,
) -> None:
    """Run submitted studies as a service.

    Runs until it is stopped; after a restart it resumes its studies. The table [serve] of
    zenturio.toml sets the places and users of the service, and the policy by which studies share
    slots.

    Examples: zen serve; zen serve --policy srpt -j 8; zen serve --check
    """
    if hash_password:
        _hash()
        return
    if proxy_secret:
        _make_secret()
        return
    if metrics_token:
        _make_metrics_token()
        return
    if token:
        _make_user_token(token)
        return

    try:
        from zenturio.cli.service_process import check_here, serve_here
    except ModuleNotFoundError as error:
        raise missing(error) from error
    if check:
        for line in check_here(host, port, policy, on or [], jobs, db):
            typer.echo(line)
        return
    serve_here(host, port, policy, on or [], jobs, db)


def submit(
    paths: options.Paths,
    param: options.Overrides = None,
    limit: options.Limit = None,
    sample: options.Sample = None,
    design: options.Design = "",
    search: options.Engine = "",
    budget: options.Budget = "",
    stop: options.Stop = None,
    settings: options.Settings = None,
    learn_from: options.LearnFrom = "",
    ordered: options.Ordered = False,
    confirm: options.Confirm = 0,
    replay: options.Replay = "",
    objective: options.Objective = "",
    seed: options.Seed = 0,
    only: options.Only = "missing",
    name: options.Name = None,
    on: Annotated[
        str, typer.Option(metavar="PLACE", help="Place of the service; default: any.")
    ] = "",
    machine: options.MachineKind = "same",
    each_machine: options.EachMachine = False,
    again: options.Again = False,
    order: options.Order = "blocks",
    token_file: options.TokenFile = None,
    db: options.Database = None,
    json: options.Json = False,
) -> None:
    """Submit a study to the service.

    The submission contains a copy of the files: later edits have no effect on it. Experiments that
    have a result are not run again, unless another kind of machine measured it: see zen run --help.

    Examples: zen submit matmul.c; zen submit model.py --search ga --set population=50
    --budget 500
    """
    from zenturio.record.open import FOLDER, open_repository, project_folder
    from zenturio.study.service.service_status import is_served
    from zenturio.study.study_request import StudyRequest

    request = StudyRequest(
        tuple(paths), tuple(param or ()), limit, sample, search, budget, tuple(stop or ()),
        tuple(settings or ()), objective, seed, only, name or "", on, machine, again,
        each_machine, order=order, design=design, learn_from=learn_from, ordered=ordered,
        replay=replay, confirm=confirm,
    )  # fmt: skip
    repository = open_repository(db)
    try:
        submission = _hand_in(repository, request, options.read_token(token_file))
        before = sum(s.number < submission.number for s in repository.submissions(("waiting",)))
    finally:
        repository.close()
    if json:
        output.facts(_facts(submission))
        return
    ahead = f", {before} before it" if before else ""
    typer.echo(
        f"{submission.number}: {submission.study} of {submission.user} {_turns(submission)}{ahead}"
    )
    if db is None and not is_served(project_folder() / FOLDER):
        typer.echo("no service is running: zen serve", err=True)


def _hand_in(repository: "Repository", request: "StudyRequest", token: str) -> "StudySubmission":
    """Submit through the service, which checks who submits; without one write the queue."""
    from zenturio.study.service.submission_client import prepare_submission, submit_study
    from zenturio.study.service.submission_socket import ServiceClient, refuse_read_only

    service = ServiceClient.of(repository, token)
    if service is None and token:
        raise InputError("tokens need a service on a SQLite file")
    if service is None:
        refuse_read_only(repository)
        return submit_study(repository, request, repository.current_user())
    number = service.submit(prepare_submission(request, repository))
    return next(s for s in repository.submissions() if s.number == number)


def queue(
    list_all: Annotated[
        bool, typer.Option("--all", help="List all submissions, not only the last ones.")
    ] = False,
    db: options.Database = None,
    json: options.Json = False,
) -> None:
    """List submitted studies and their progress.

    The slowdown of a study is its time divided by the time that it would take with all slots.

    Example: zen queue
    """
    from zenturio.record import FINISHED_SUBMISSION_STATES
    from zenturio.study.overview import opened_repository

    with opened_repository(db) as repository:
        submissions = repository.submissions()
    finished = [
        submission for submission in submissions if submission.turn in FINISHED_SUBMISSION_STATES
    ]
    hidden = set() if list_all else {submission.number for submission in finished[:-LATELY]}
    shown = [submission for submission in submissions if submission.number not in hidden]
    if json:
        output.facts([_facts(submission) for submission in shown])
    elif not submissions:
        typer.echo("nothing was submitted yet: zen submit PATH")
    else:
        heads = ("number", "user", "study", "turn", "done", "slots", "slowdown", "submitted", "")
        output.table(heads, [_row(submission) for submission in shown], right="rlllrrr")
        if hidden:
            typer.echo(f"{len(shown):,} of {len(submissions):,}; zen queue --all lists all")


def _hash() -> None:
    """Ask for a password, or read it from a pipe, and print what is kept of it."""
    from zenturio.show.portal.access import PasswordHash

    if sys.stdin.isatty():
        text = typer.prompt("password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        text = sys.stdin.readline().rstrip("\r\n")
    if not text:
        raise InputError("the password is empty")
    typer.echo(PasswordHash.of(text).text)


def _make_secret() -> None:
    """Print a new secret, as a proxy takes it and as zenturio.toml does."""
    import secrets

    from zenturio.show.portal.access import PROXY_HEADER, hash_secret

    secret = secrets.token_urlsafe(32)
    typer.echo(f'nginx:          proxy_set_header {PROXY_HEADER} "{secret}";')
    typer.echo(f'zenturio.toml:  proxy_secret = "{hash_secret(secret)}"')


def _make_metrics_token() -> None:
    """Print a new token, as Prometheus takes it and as zenturio.toml does."""
    import secrets

    from zenturio.show.portal.access import hash_secret

    token = secrets.token_urlsafe(32)
    typer.echo(f"prometheus.yml: authorization: {{ credentials: {token} }}")
    typer.echo(f'zenturio.toml:  metrics_token = "{hash_secret(token)}"')


def _make_user_token(user: str) -> None:
    """Print a new token, as a file holds it and as zenturio.toml does."""
    import secrets

    from zenturio.study.service.submission_socket import hash_token

    token = secrets.token_urlsafe(32)
    typer.echo(f"a file of {user}:  {token}")
    typer.echo(f'zenturio.toml:  {user} = {{ role = "run", token = "{hash_token(token)}" }}')


def _turns(submission: "StudySubmission") -> str:
    return {"waiting": "waits", "running": "runs"}.get(submission.turn, f"is {submission.turn}")


def _row(submission: "StudySubmission") -> tuple[Any, ...]:
    from zenturio.study.service.submission_client import service_has_exited

    progress, turn = submission.progress, str(submission.turn)
    done = f"{progress['done']:,}/{progress['total']:,}" if progress.get("total") else ""
    lent = progress.get("lent", 0) if turn == "running" else ""
    slowdown = f"{progress['slowdown']:.2f}" if "slowdown" in progress else ""
    cause = submission.cause.splitlines()[0] if submission.cause else ""
    if "waits_for" in progress and submission.turn in ("waiting", "running"):
        cause = f"waits for {progress['waits_for']}"
    if service_has_exited(submission):
        turn, lent, cause = "stopped", "", "its service was killed; the next zen serve resumes it"
    user = submission.user if submission.verified else f"{submission.user} (unverified)"
    return (
        submission.number, user, submission.study, turn, done, lent, slowdown,
        utc_time(submission.submitted), cause,
    )  # fmt: skip


def _facts(submission: "StudySubmission") -> dict[str, Any]:
    return {
        "number": submission.number,
        "user": submission.user,
        "verified": submission.verified,
        "study": submission.study,
        "turn": submission.turn,
        "cause": submission.cause,
        "submitted": iso_time(submission.submitted),
        "begun": iso_time(submission.begun) if submission.begun else None,
        "ended": iso_time(submission.ended) if submission.ended else None,
        "request": dict(submission.request),
        **submission.progress,
    }


PASSWORD = "ZENTURIO_PORTAL_PASSWORD"  # noqa: S105 - the name of a variable, not a password


def portal(
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Address to listen on; default: this machine only.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for a free one.")
    ] = 0,
    socket: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Listen on a Unix socket, for a proxy, instead of a port."
        ),
    ] = None,
    proxy_user: Annotated[
        str, typer.Option(metavar="USER", help="User of the proxy at the socket; default: you.")
    ] = "",
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="Host name by which browsers reach the proxy."),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the portal in a browser.")
    ] = True,
    allow_run: Annotated[
        bool, typer.Option("--allow-run", help="Allow starting and stopping studies.")
    ] = False,
    db: Database = None,
) -> None:
    """Start the web portal: studies, failures, tables and charts.

    The portal prints a single-use link, and a new link whenever one was used. It accepts
    connections from other machines only with a password, set in ZENTURIO_PORTAL_PASSWORD.

    Only you, root and --proxy-user may connect to a Unix socket.

    Examples: zen portal; zen portal --port 8600 --no-browser --allow-run; zen portal --socket
    /run/user/1000/zen.sock --proxy-user www-data --name lab.example.org
    """
    from zenturio.errors import InputError
    from zenturio.record.open import project_folder

    try:
        from zenturio.show.portal.server import PortalServer
    except ModuleNotFoundError as error:
        raise missing(error) from error
    from zenturio.show.portal.state import PortalSettings

    settings = PortalSettings(db, project_folder(), allow_run)
    # Taken out of the environment, so that no experiment or program of the portal inherits it.
    password = os.environ.pop(PASSWORD, "")
    if socket is None:
        if proxy_user or name:
            raise InputError("--proxy-user and --name are for a proxy", hint="add --socket")
        service = PortalServer(settings, host, port, password, _print_next_link)
        where = ""
    else:
        from zenturio.system.unix_socket import allowed_users, listen_at

        system_users = allowed_users(proxy_user)
        listening = listen_at(socket, others=bool(proxy_user))
        service = PortalServer(
            settings,
            password=password,
            on_link_used=_print_next_link,
            names=name or (),
            listening=listening,
            system_users=system_users,
        )
        where = f" at {socket}"
    link = service.link()
    typer.echo(f"portal of {settings.folder}{where}\n{link}")
    # A pipe is buffered, and who started the portal reads the link from it.
    sys.stdout.flush()
    if browser and socket is None and sys.stdout.isatty():
        with suppress(webbrowser.Error):
            webbrowser.open(link)
    try:
        service.run()
    finally:
        if socket is not None:
            socket.unlink(missing_ok=True)


def missing(error: ModuleNotFoundError) -> Exception:
    """Return the error for a missing package of the portal extra, or *error* itself."""
    from zenturio.errors import PlaceError
    from zenturio.install_hint import extra_hint

    if error.name and error.name.partition(".")[0] in ("starlette", "uvicorn", "anyio"):
        return PlaceError(
            f"the portal needs the extra 'portal': {error.name} is not installed",
            hint=extra_hint("portal"),
        )
    return error


def _print_next_link(link: str) -> None:
    """Print the next link after one was used."""
    if sys.stderr.isatty():
        typer.echo(f"link used; for another browser: {link}", err=True)
