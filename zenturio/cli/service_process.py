"""The process of `zen serve`: places, studies that are driven, and beside it the portal."""

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import typer

from zenturio.cli import safe_streams
from zenturio.errors import InputError, NotFoundError, SafetyError
from zenturio.execute.executor import Executor
from zenturio.execute.places import ClosableExecutor, open_place
from zenturio.execute.runas import RunAs
from zenturio.record.open import (
    FOLDER,
    begin_project,
    dialect_at,
    locate,
    open_repository,
    project_folder,
)
from zenturio.show.portal.access import UserDirectory
from zenturio.show.portal.pages_process import PagesProcess
from zenturio.show.portal.server import check_access_control
from zenturio.show.portal.state import PortalSettings
from zenturio.study.driver.stop_requests import CancelRequests
from zenturio.study.service.service_config import ServiceConfig
from zenturio.study.service.service_status import is_served, locked_alone, locked_repository
from zenturio.study.service.slot_policy import choose_policy
from zenturio.study.service.study_service import StudyService
from zenturio.study.service.submission_socket import SubmissionSocket


def serve_here(
    host: str | None, port: int | None, policy: str, on: Sequence[str], jobs: int | None,
    db: str | None,
) -> None:  # fmt: skip
    """Serve the project until it is stopped."""
    safe_streams.outlive_readers()
    project = project_folder()
    config = _configuration(project, host, port, policy, on)
    with ExitStack() as stack:
        # Before the database is opened: a second service of the project must not resume its
        # studies.
        stack.enter_context(locked_alone(begin_project()))
        repository = open_repository(db)
        stack.callback(repository.close)
        stack.enter_context(locked_repository(repository))
        places: dict[str, Executor] = {}
        for name in config.places:
            opened = _open_place(config, name, project, jobs)
            places[name] = stack.enter_context(opened)
        serving = StudyService(
            repository, places, config.policy, _tell, CancelRequests(project / FOLDER),
            config.shares, run_unverified=config.unverified == "run",
        )  # fmt: skip
        if dialect_at(locate(db)).name == "sqlite":
            stack.enter_context(SubmissionSocket(repository, config.users))
        slots = ", ".join(f"{place.slots} on {name}" for name, place in places.items())
        _tell(f"serving {project}: slots {slots}; policy {config.policy}")
        settings = PortalSettings(db, project, serves=True)
        people = UserDirectory(
            config.users, config.header, config.proxy_secret, config.proxies,
            config.metrics_token, at_socket=config.socket is not None,
        )  # fmt: skip
        if config.socket is not None:
            _tell(f"its pages are at the socket {config.socket}")
        with (
            _stopping() as over,
            PagesProcess(
                settings, config.host, config.port, people, config.names, _say,
                socket_path=config.socket, proxy_user=config.proxy_user,
            ),
        ):  # fmt: skip
            _serve(serving, over)


def check_here(
    host: str | None, port: int | None, policy: str, on: Sequence[str], jobs: int | None,
    db: str | None,
) -> list[str]:  # fmt: skip
    """Return what a service would be, a line each; raise what would keep it from starting.

    Nothing is run, and a service that runs already is not disturbed.
    """
    project = project_folder()
    config = _configuration(project, host, port, policy, on)
    users = UserDirectory(
        config.users, config.header, config.proxy_secret, config.proxies, config.metrics_token,
        at_socket=config.socket is not None,
    )  # fmt: skip
    check_access_control(PortalSettings(db, project, serves=True), config.host, "", users)
    lines = [f"project: {project}", f"policy: {config.policy}"]
    lines.append(f"database: {_check_database(db)}")
    for name in config.places:
        with _open_place(config, name, project, jobs) as place:
            lines.append(f"place {name}: {place.slots} slots")
    if config.runas is not None:
        RunAs.check(config.runas)
        lines.append(f"experiments run as the user who submitted them, by {config.runas}")
    where = str(config.socket) if config.socket else f"http://{config.host}:{config.port}/"
    lines.append(f"pages: {where}, {len(config.users)} users")
    running = is_served(project / FOLDER)
    lines.append("a service runs here" if running else "no service runs here")
    return lines


def _open_place(
    config: ServiceConfig, name: str, project: Path, jobs: int | None
) -> ClosableExecutor:
    if config.runas is None:
        return open_place(name, project / FOLDER, jobs, keep="failed")
    if name != "local":
        raise InputError(
            f"experiments at {name} would run as the service, not as their submitter",
            hint="leave out runas in [serve], or the place",
        )
    return RunAs(project / FOLDER, config.runas, jobs)


def _check_database(db: str | None) -> str:
    """Return where the database is, and its queue; SafetyError if a service may not change it."""
    try:
        repository = open_repository(db, create=False)
    except NotFoundError:
        # The unit file of docs/operate.md checks first, also before the first start.
        return f"{dialect_at(locate(db)).location} does not exist yet; the service creates it"
    try:
        if not repository.is_queue_admin():
            raise SafetyError(
                f"{repository.current_user()} may not change submissions of others in the database",
                hint="zen db grant --owner ROLE --admin"
                f" {repository.current_user()}, or start the service as the owner",
            )
        pending = len(repository.submissions(("waiting", "running")))
        return f"{repository.location}, {pending} studies wait or run"
    finally:
        repository.close()


def _serve(serving: StudyService, over: threading.Event) -> None:
    """Serve in a thread: a signal sets *over*, which who waits for it must not hold just then."""
    failed: list[BaseException] = []

    def serve() -> None:
        try:
            serving.run(over)
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            failed.append(error)

    thread = threading.Thread(target=serve, name="zenturio-serving")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


def _configuration(
    project: Path, host: str | None, port: int | None, policy: str, on: Sequence[str]
) -> ServiceConfig:
    """Return the settings of the file, overridden by options."""
    config = ServiceConfig.of(project)
    if host is not None or port is not None:
        # An address on the command line replaces the socket of the file.
        config = replace(config, socket=None, proxy_user="")
    if host is not None:
        config = replace(config, host=host)
    if port is not None:
        config = replace(config, port=port)
    if policy:
        config = replace(config, policy=choose_policy(policy))
    return replace(config, places=tuple(dict.fromkeys(on))) if on else config


def _tell(words: str) -> None:
    typer.echo(words)


def _say(kind: str, text: str) -> None:
    """Tell what the pages say of themselves."""
    if kind == "link":
        _tell(f"its pages: {text}")
    elif kind == "again":
        _tell(f"{text}, and are started anew: log in again")
    elif kind == "used" and sys.stderr.isatty():
        typer.echo(f"used; for another browser: {text}", err=True)


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM and a lost terminal set."""
    over = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda *_: over.set()) for number in numbers}
    try:
        yield over
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
