"""The verb of the portal."""

import os
import sys
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from zenturio.cli.options import Database

PASSWORD = "ZENTURIO_PORTAL_PASSWORD"  # noqa: S105 - the name of a variable, not a password


def add_to(app: typer.Typer) -> None:
    """Put the verb of this file into *app*."""
    app.command()(portal)


def portal(
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Address to listen at; default: this machine only.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen at; 0 for a free one.")
    ] = 0,
    socket: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Listen at a Unix socket, for a proxy, instead of a port."
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

    It prints a single-use link, and another one when that was used. It listens to other machines
    only with a password, set in ZENTURIO_PORTAL_PASSWORD.

    At a Unix socket only you, root and --proxy-user may connect.

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
    password = os.environ.pop(PASSWORD, "")
    if socket is None:
        if proxy_user or name:
            raise InputError("--proxy-user and --name are for a proxy", hint="add --socket")
        service = PortalServer(settings, host, port, password, _used)
        where = ""
    else:
        from zenturio.show.portal.connections import allowed_users, listen_at

        system_users = allowed_users(proxy_user)
        listening = listen_at(socket, others=bool(proxy_user))
        service = PortalServer(
            settings,
            password=password,
            on_link_used=_used,
            names=name or (),
            listening=listening,
            system_users=system_users,
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
    """Return the error for a missing package of the portal extra, or *error* itself."""
    from zenturio.errors import PlaceError

    if error.name and error.name.partition(".")[0] in ("starlette", "uvicorn", "anyio"):
        return PlaceError(
            f"the portal needs {error.name}, which is not installed",
            hint="pip install 'zenturio[portal]'",
        )
    return error


def _used(link: str) -> None:
    """Print the next link after one was used."""
    if sys.stderr.isatty():
        typer.echo(f"link used; for another browser: {link}", err=True)
