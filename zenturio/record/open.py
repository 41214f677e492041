"""Opening a repository by its path or URL, and finding the folder of the project."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING
from weakref import finalize

from zenturio import trust
from zenturio.errors import InputError, NotFoundError
from zenturio.record.repository import Repository

if TYPE_CHECKING:
    from zenturio.record.artifact_store import ArtifactStore
    from zenturio.record.database import DatabaseDialect
    from zenturio.record.sql_repository import SQLRepository

FOLDER = ".zenturio"
WORK_VARIABLE = "ZENTURIO_WORK"
FILE = "zenturio.db"
WAIT = 60.0
"""Seconds to wait for a lock, or for a server to come back, unless ZENTURIO_DB_WAIT says more."""

_SQLITE_URL = re.compile(r"sqlite(\+\w+)?:///(?P<path>[^?]+)(\?.*)?")
_HINT = "a path, sqlite:///path/to/file.db, or postgresql://user@host/database"


def open_repository(
    url: str | Path | None = None, *, create: bool = True, finds_unique: bool = False
) -> Repository:
    """Return the repository at *url*, else at ZENTURIO_DB, else that of the project folder.

    A database that does not exist is created; with *create* false a NotFoundError is raised. Its
    schema must be this program's. The URL ``memory:`` names one that goes with the process. With
    *finds_unique* a plain name also means the only study of that name, of whatever project.
    """
    place = locate(url)
    if place == "memory:":
        return temporary_repository()
    dialect = dialect_at(place)
    if not create:
        refuse_missing(dialect)
    elif isinstance(place, Path) and place.parent.name == FOLDER:
        trust.begin(place.parent)
    return _connect(dialect, finds_unique=finds_unique)


def temporary_repository() -> Repository:
    """Return an empty repository that nothing but this object leads to.

    Its file lies in a temporary folder, which is removed with the object, or when the process
    exits. The name of the folder begins with a dot: such a database is not noted in the project.
    """
    folder = mkdtemp(prefix=".zenturio-")
    repository = _connect(dialect_at(Path(folder, FILE)))
    finalize(repository, _remove_own, folder, os.getpid())
    return repository


def _remove_own(folder: str, creator: int) -> None:
    """Remove a temporary folder; a forked child leaves that of its parent alone."""
    if os.getpid() == creator:
        shutil.rmtree(folder, ignore_errors=True)


def _connect(dialect: DatabaseDialect, *, finds_unique: bool = False) -> SQLRepository:
    # Whoever asks for nothing but the project's folder should not pay for a database.
    from zenturio.record.schema_version import connect  # noqa: PLC0415
    from zenturio.record.sql_names import Project  # noqa: PLC0415
    from zenturio.record.sql_repository import SQLRepository  # noqa: PLC0415

    database = connect(dialect, wait_seconds())
    if database.dialect.name == "postgresql":  # a file is one project's
        database.project = Project(project_folder() / FOLDER, finds_unique)
    return SQLRepository(database, artifact_store(dialect))


def artifact_store(dialect: DatabaseDialect) -> ArtifactStore:
    """Return the artifact store of the database's project, or of the current one if it has none."""
    from zenturio.record.artifact_store import ArtifactStore  # noqa: PLC0415
    from zenturio.record.sqlite import SQLite  # noqa: PLC0415

    if isinstance(dialect, SQLite) and dialect.path.parent.name == FOLDER:
        return ArtifactStore(dialect.path.parent, dialect.location)
    return ArtifactStore(project_folder() / FOLDER, dialect.location, has_database=False)


def refuse_missing(dialect: DatabaseDialect) -> None:
    """Raise NotFoundError where *dialect* names a file that is not there, or has nothing in it."""
    if dialect.missing():
        raise NotFoundError(
            f"there is no database at {dialect.location}",
            hint="name another one, or run a study here: that creates it",
        )


def locate(url: str | Path | None = None) -> str | Path:
    """Return the path or URL of the repository that is meant."""
    if isinstance(url, Path):
        return url
    return url or os.environ.get("ZENTURIO_DB") or project_folder() / FOLDER / FILE


def project_folder(start: Path | None = None) -> Path:
    """Return the nearest folder, from *start* upwards, that has a ``.zenturio``; else *start*.

    The search ends at a folder that belongs to somebody else: a project that lies in /tmp or
    /scratch is not adopted by what others do below it. SafetyError if the project's own folder
    can be changed by others.

    ZENTURIO_WORK names another folder, which holds the ``.zenturio`` of a project that is
    read-only.
    """
    if start is None and (work := os.environ.get(WORK_VARIABLE)):
        folder = Path(work).absolute()
        if (folder / FOLDER).is_dir():
            trust.check_home(folder)
            trust.check_owner(folder / FOLDER, "project folder")
        return folder
    start_folder = (start or Path.cwd()).absolute()
    for folder in (start_folder, *start_folder.parents):
        if folder != start_folder and not trust.is_own(folder):
            break
        if (folder / FOLDER).is_dir():
            if (
                folder != start_folder
                and trust.is_open_to_all(folder)
                and not trust.is_own(folder / FOLDER)
            ):
                continue  # root's own /tmp, where anybody may have begun a project
            trust.check_home(folder)
            trust.check_owner(folder / FOLDER, "project folder")
            return folder
    return start_folder


def path_in_project(path: object) -> Path | None:
    """Return a recorded path if it leads into this project: others are not looked at."""
    if not isinstance(path, str):
        return None
    resolved, project = Path(path).resolve(), project_folder().resolve()
    return resolved if resolved.is_relative_to(project) and resolved.exists() else None


def begin_project() -> Path:
    """Return the project's ``.zenturio``; one that is not there becomes the user's own.

    Whatever writes there first calls this: else the user would be asked whose the folder is.
    """
    folder = project_folder() / FOLDER
    trust.begin(folder)
    return folder


def wait_seconds() -> float:
    """Return the seconds to wait for a lock or a server, from ZENTURIO_DB_WAIT."""
    text = os.environ.get("ZENTURIO_DB_WAIT", "")
    try:
        seconds = float(text or WAIT)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 1e6:  # NaN is not either
        raise InputError(
            f"ZENTURIO_DB_WAIT is {text!r}", hint="give a number of seconds, such as 60"
        )
    return seconds


def dialect_at(place: str | Path) -> DatabaseDialect:
    """Return the kind of database that *place* names; InputError if it names none."""
    from zenturio.record.sqlite import SQLite  # noqa: PLC0415

    if isinstance(place, Path) or "://" not in place:
        return SQLite(Path(place), wait_seconds())
    kind = place.partition("://")[0].partition("+")[0]
    if kind == "sqlite" and (file := _SQLITE_URL.fullmatch(place)):
        return SQLite(Path(file["path"]), wait_seconds())
    if kind in {"postgresql", "postgres"}:
        from zenturio.record.postgresql import PostgreSQL, ServerURL  # noqa: PLC0415

        try:
            url = ServerURL.parse(place)
        except ValueError as error:
            raise InputError(f"not a {kind} URL", hint=_HINT) from error
        return PostgreSQL(url, wait_seconds())
    raise InputError(f"no database can be kept at {kind}://…", hint=_HINT)
