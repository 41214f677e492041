"""The verb of the portal."""

import os
import sys
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from zenturio.cli.options import Database

PASSWORD = "ZENTURIO_PORTAL_PASSWORD"  # noqa: S105 - where it is, not what


def add_to(app: typer.Typer) -> None:
    """Put the verb of this file into *app*."""
    app.command()(portal)


def portal(
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Where it listens; this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="At which port; 0 takes a free one.")
    ] = 0,
    socket: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Listen at a Unix socket, for a proxy, and at no port."),
    ] = None,
    proxy_user: Annotated[
        str, typer.Option(metavar="USER", help="Who the proxy at the socket runs as, if not you.")
    ] = "",
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="By which name browsers call the proxy."),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open it in the browser.")
    ] = True,
    allow_run: Annotated[
        bool, typer.Option("--allow-run", help="Let studies be started and stopped from it.")
    ] = False,
    db: Database = None,
) -> None:
    """Start the web portal: studies, failures, tables, charts.

    It prints a link that is good once, and shows another when that was used. Beyond this machine it
    listens only with a password, which ZENTURIO_PORTAL_PASSWORD holds.

    At a Unix socket the system says who connects: you, root and --proxy-user alone are let in.

    Examples: zen portal; zen portal --port 8600 --no-browser --allow-run; zen portal --socket
    /run/user/1000/zen.sock --proxy-user www-data --name lab.example.org
    """
    from zenturio.errors import InputError
    from zenturio.record.open import project_folder

    try:
        from zenturio.show.portal.server import Service
    except ModuleNotFoundError as error:
        raise missing(error) from error
    from zenturio.show.portal.state import Settings

    settings = Settings(db, project_folder(), allow_run)
    password = os.environ.pop(PASSWORD, "")
    if socket is None:
        if proxy_user or name:
            raise InputError("--proxy-user and --name are for a proxy", hint="give --socket, too")
        service = Service(settings, host, port, password, _used)
        where = ""
    else:
        from zenturio.show.portal.unix_socket import allowed_users, listen_at

        users = allowed_users(proxy_user)
        listening = listen_at(socket, others=bool(proxy_user))
        service = Service(
            settings,
            password=password,
            told=_used,
            names=name or (),
            listening=listening,
            users=users,
        )
        where = f" at {socket}"
    link = service.link()
    typer.echo(f"portal of {settings.folder}{where}\n{link}")
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
    """What is to be said where something that pages need is not installed."""
    from zenturio.errors import PlaceError

    if error.name and error.name.partition(".")[0] in ("starlette", "uvicorn", "anyio"):
        return PlaceError(
            f"the portal needs {error.name}, which is not installed",
            hint="pip install 'zenturio[portal]'",
        )
    return error


def _used(link: str) -> None:
    """A link was used up: the next one."""
    if sys.stderr.isatty():
        typer.echo(f"used; for another browser: {link}", err=True)
