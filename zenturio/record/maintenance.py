"""Maintenance of a repository: check, upgrade, back up, salvage, prune, collect garbage."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path

from zenturio.errors import (
    Diagnostic,
    InputError,
    PlaceError,
    RecordError,
    SafetyError,
    ZenError,
)
from zenturio.files import make_folder
from zenturio.log_setup import reported, work_progress
from zenturio.record import database_roles, schema_version
from zenturio.record.artifact_store import YOUNG_SECONDS, ArtifactStore
from zenturio.record.consistency_check import check_artifacts, check_consistency
from zenturio.record.database import Database, DatabaseDialect
from zenturio.record.database_copy import DatabaseCopy, DatabaseDigest, Progress
from zenturio.record.database_roles import Grant, Team
from zenturio.record.entities import StudyDeletion
from zenturio.record.open import (
    FOLDER,
    artifact_store,
    begin_project,
    dialect_at,
    locate,
    open_repository,
    project_folder,
    refuse_missing,
    wait_seconds,
)
from zenturio.record.postgresql import PostgreSQL
from zenturio.record.repository import Repository
from zenturio.record.salvage import Salvage, salvage_file
from zenturio.record.schema_version import original_revision
from zenturio.record.sql_names import REVISIONS, quoted
from zenturio.record.sql_repository import SQLRepository
from zenturio.record.sqlite import SQLite
from zenturio.record.study_views import DatabaseView, schema_name
from zenturio.record.upgrade import is_older, room_for, upgrade_older

_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What an upgrade did."""

    before: str
    """The revision that the schema had."""
    after: str
    copy: str | None
    """The old one, a file or a schema of the server; None if there was nothing to upgrade."""


def check_repository(
    url: str | Path | None = None,
    *,
    contents: bool = False,
    step: Callable[[int, int], None] = lambda _done, _total: None,
) -> tuple[Diagnostic, ...]:
    """Return everything that is wrong with the repository and with the files of its artifacts.

    With *contents* these are read, and their hashes verified. Nothing is changed. *step* is called
    with the checked and the total size of the database.
    """
    kind = _existing(url)
    try:
        with _connected(kind) as database:
            rows = check_consistency(database, step)
            faults = (*rows, *check_artifacts(database, artifact_store(kind), contents=contents))
            return tuple(Diagnostic(f"{kind.location}: {fault}") for fault in faults)
    except RecordError as error:
        return error.diagnostics


def describe(url: str | Path | None = None) -> dict[str, str]:
    """Return where the repository is, which server or library keeps it, and its revision."""
    kind = _existing(url)
    revision = schema_version.upgradable_revision(kind, wait_seconds())
    facts = {"place": str(kind.location), "revision": revision or "none"}
    if revision != REVISIONS[-1]:
        return facts  # what connects to it might upgrade it
    function = "sqlite_version()" if isinstance(kind, SQLite) else "version()"
    with _connected(kind) as database:
        ((version,),) = database.read(lambda transaction: transaction.sql(f"SELECT {function}"))
    return {**facts, "version": str(version)}


def upgrade_repository(url: str | Path | None = None) -> Upgrade:
    """Upgrade a repository of an earlier revision; keep the old one beside it."""
    kind = _existing(url)
    newest = REVISIONS[-1]
    before = schema_version.upgradable_revision(kind, wait_seconds())
    if before is None:
        schema_version.connect(kind, wait_seconds()).close()
        return Upgrade(newest, newest, None)
    copy = None
    if is_older(before):
        if isinstance(kind, SQLite):
            room_for(kind.path)
        copy = upgrade_older(kind, artifact_store(kind), wait_seconds(), before)
    return Upgrade(original_revision(before), newest, copy)


def backup(
    url: str | Path | None,
    target: Path,
    step: Callable[[int, int], None] = lambda _done, _total: None,
) -> Path:
    """Copy the repository as it is at one moment, while others may be at work in it.

    *step* is told how much of how much was copied; not where a server's own program copies.
    """
    kind = _existing(url)
    if target.exists():
        raise InputError(f"{target} already exists", hint="choose a name that is free")
    part = target.with_name(target.name + ".part")
    try:
        part.unlink(missing_ok=True)  # it might be a link, which SQLite would follow
        if isinstance(kind, SQLite):
            kind.copy(part, step)
        else:
            _dump(kind, part)
        part.rename(target)
    except OSError as error:
        raise PlaceError(f"cannot write {target}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    return target


def _dump(kind: DatabaseDialect, target: Path) -> None:
    """Let pg_dump copy the database of a server, for pg_restore.

    The password is passed in the environment: neither ``ps`` nor an error message shows it.
    """
    if not isinstance(kind, PostgreSQL) or shutil.which("pg_dump") is None:
        raise PlaceError(
            "a backup of a PostgreSQL database needs pg_dump, which is not on the PATH",
            hint="install PostgreSQL's client programs",
        )
    with _connected(kind) as database:
        name = database.read(lambda transaction: transaction.sql("SELECT current_schema()"))[0][0]
    where, secrets = kind.for_programs()
    # In quotes: the option is a pattern, in which capital letters mean small ones. The views have a
    # schema of their own, and the tables say that they are there.
    schemas = [f"--schema={quoted(schema)}" for schema in (name, schema_name(name))]
    command = ["pg_dump", "--format=custom", *schemas, f"--file={target}", where]
    dump = subprocess.run(
        command, env={**os.environ, **secrets}, capture_output=True, text=True, check=False
    )
    if dump.returncode != 0:
        raise RecordError(
            f"pg_dump of {kind.location} failed: {kind.hide(dump.stderr.strip())}",
            hint="let an administrator of the database back it up: zen db grant --admin ROLE"
            if "permission denied" in dump.stderr or "row-level security" in dump.stderr
            else "",
        )


def restore(backup_file: Path, url: str | Path | None) -> None:
    """Fill an empty place with what ``backup`` copied; it is left empty where that fails.

    InputError if there is a repository already.
    """
    kind = dialect_at(locate(url))
    if not backup_file.is_file():
        raise InputError(f"there is no file {backup_file}", hint="zen db backup makes one")
    if isinstance(kind, SQLite):
        _restore_file(kind, backup_file)
    else:
        _restore_server(kind, backup_file)
    with _connected(_existing(url)) as database:
        faults = check_consistency(database, partial(work_progress.get(), "checking"))
    if faults:
        raise RecordError(f"{kind.location}: {faults[0]}", hint="is the backup damaged?")


def _restore_file(kind: SQLite, backup_file: Path) -> None:
    _refuse_database_files(kind.path)
    schema_version.connect(SQLite(backup_file, wait_seconds()), wait_seconds()).close()
    kind.prepare_folder()
    part = kind.path.with_name(f"{kind.path.name}.part")
    try:
        part.unlink(missing_ok=True)  # it might be a link, which SQLite would follow
        SQLite(backup_file, wait_seconds()).copy(part, partial(work_progress.get(), "restoring"))
        _refuse_database_files(kind.path)  # a run might have created one meanwhile
        part.rename(kind.path)
    except OSError as error:
        raise PlaceError(f"cannot write {kind.path}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


def _refuse_database_files(path: Path) -> None:
    """Refuse a place with a database, or with a log that SQLite would apply to the next one."""
    for ending in ("", "-wal", "-shm", "-journal"):
        present = path.with_name(path.name + ending)
        if os.path.lexists(present):
            raise InputError(
                f"{present} already exists",
                hint="stop what uses the database, and move it away together with its -wal and"
                " -shm",
            )


def _restore_server(kind: DatabaseDialect, backup_file: Path) -> None:
    if not isinstance(kind, PostgreSQL) or shutil.which("pg_restore") is None:
        raise PlaceError(
            "restoring a PostgreSQL database needs pg_restore, which is not on the PATH",
            hint="install PostgreSQL's client programs",
        )
    database = Database(kind, wait_seconds())
    try:
        if schema_version.schema_revision(database) is not None:
            raise InputError(
                f"{kind.location} has a database of zenturio already",
                hint="create an empty database: createdb NAME",
            )
    finally:
        database.close()
    where, secrets = kind.for_programs()
    options = ["--clean", "--if-exists", "--no-owner", "--no-privileges", "--exit-on-error"]
    command = ["pg_restore", "--single-transaction", *options, "-d", where, str(backup_file)]
    done = subprocess.run(
        command, env={**os.environ, **secrets}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RecordError(
            f"pg_restore into {kind.location} failed: {kind.hide(done.stderr.strip())}",
            hint="the schemas of the backup are created: may this role do so?",
        )


def copy_repository(source: str | Path, target: str | Path, progress: Progress) -> DatabaseDigest:
    """Copy a repository into an empty database of any kind; what was interrupted goes on."""
    places = [dialect_at(locate(place)) for place in (source, target)]
    if places[0].location == places[1].location:
        raise InputError(f"{places[0].location} cannot be copied into itself")
    refuse_missing(places[0])
    stores = artifact_store(places[0]), artifact_store(places[1])
    with _connected(places[0]) as before, _connected(places[1]) as after:
        return DatabaseCopy(before, after, stores, progress).run()


def stored_views(
    url: str | Path | None = None, *, pin: Collection[str] = (), unpin: Collection[str] = ()
) -> tuple[DatabaseView, ...]:
    """Return the views that the database keeps for other programs, last opened first.

    Those of the studies to *pin* stay, whichever studies are opened; those to *unpin* no longer.
    """
    with opened(url) as (database, store):
        repository = SQLRepository(database, store)
        for study in pin:
            repository.pin_views(study, is_pinned=True)
        for study in unpin:
            repository.pin_views(study, is_pinned=False)
        return repository.stored_views()


def salvage(source: Path, target: Path) -> Salvage:
    """Save what can be read of a damaged file into a new one; the old one stays as it is."""
    for place in (source, target):
        if "://" in str(place) or re.match(r"\w+:/", str(place)):  # a Path has one slash fewer
            raise InputError(
                "salvage reads and writes files of SQLite",
                hint="save into a file, then: zen db copy FILE URL",
            )
    kind = _existing(source)
    assert isinstance(kind, SQLite), "it is a file"
    if target.exists():
        raise InputError(f"{target} already exists", hint="choose a name that is free")
    return salvage_file(kind, SQLite(target, wait_seconds()))


def preview_pruning(repository: Repository, study: str) -> StudyDeletion:
    """Return what ``prune`` would remove."""
    removal = repository.preview_deletion(study)
    if not isinstance(repository, SQLRepository):
        return removal
    return _without_foreign_files(repository, removal)


def prune_study(repository: Repository, study: str) -> StudyDeletion:
    """Remove a study, and those files of its artifacts in this project that nothing else needs.

    The rows go first: a fault in between leaves files that nobody knows, never rows whose files
    are gone. Files elsewhere stay, whatever the database says of them.
    """
    if not isinstance(repository, SQLRepository):
        return repository.delete(study)
    store = repository.store
    with store.alone():
        removal = _without_foreign_files(repository, repository.delete(study))
        contents = {path: store.content_of(path) for path in removal.artifacts}
        needed = needed_contents(repository, {sha for sha in contents.values() if sha})
        # Files of before the store, which have no content in their names, are no other database's.
        store.remove(path for path, sha in contents.items() if sha is None or sha not in needed)
    return removal


def _without_foreign_files(repository: SQLRepository, removal: StudyDeletion) -> StudyDeletion:
    """Return the removal with files outside of the project as foreign: those stay."""
    own_files = repository.store.owned(reported("looking at kept files", removal.artifacts))
    foreign = sorted({*removal.artifacts} - {*own_files})
    return replace(removal, artifacts=tuple(own_files), foreign=tuple(foreign))


@dataclass(frozen=True, slots=True)
class Garbage:
    """What nothing needs any more in the store of a project."""

    objects: tuple[str, ...]
    """Contents that are no artifact's."""
    folders: tuple[Path, ...]
    """Files of attempts that were never recorded."""
    size: int
    """Bytes of both."""


def collect_garbage(
    repository: Repository, *, really: bool, young: float = YOUNG_SECONDS
) -> Garbage:
    """Remove contents and files of attempts that nothing needs, and are not *young*."""
    if not isinstance(repository, SQLRepository):
        return Garbage((), (), 0)
    store = repository.store
    with store.alone() if really else nullcontext():
        objects: list[str] = []
        every = store.objects(young)
        while batch := dict(islice(every, _BATCH)):
            objects += [batch[sha] for sha in batch.keys() - needed_contents(repository, batch)]
        folders = store.abandoned(young)
        inside = [p for folder in folders for p in folder.rglob("*")]
        files = (path for path in (*map(Path, objects), *inside) if path.is_file())
        size = sum(path.lstat().st_size for path in files)
        if really:
            store.remove(objects)
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)
    return Garbage(tuple(sorted(objects)), tuple(folders), size)


def needed_contents(repository: SQLRepository, contents: Collection[str]) -> frozenset[str]:
    """Return those of *contents* that an artifact of any database with files in the store has.

    All of them, where one of these databases cannot be asked.
    """
    needed = repository.contents(contents)
    for place in repository.store.databases():
        if "://" not in place and not Path(place).exists():
            continue
        try:
            sharing_repository = open_repository(place, create=False)
        except ZenError:
            return frozenset(contents)
        try:
            needed |= sharing_repository.contents(contents)
        finally:
            sharing_repository.close()
    return needed


@contextmanager
def opened(url: str | Path | None) -> Iterator[tuple[Database, ArtifactStore]]:
    """Open the existing database at *url*; yield it with the store of its artifacts."""
    kind = _existing(url)
    with _connected(kind) as database:
        yield database, artifact_store(kind)


def _existing(url: str | Path | None) -> DatabaseDialect:
    place = locate(url)
    if place == "memory:":
        raise InputError("a database in memory needs no maintenance", hint="name a database")
    kind = dialect_at(place)
    refuse_missing(kind)
    return kind


@contextmanager
def _connected(kind: DatabaseDialect) -> Iterator[Database]:
    database = schema_version.connect(kind, wait_seconds())
    try:
        yield database
    finally:
        database.close()


def grant(url: str | Path | None = None, role: str = "", *, execute: bool = True) -> Grant:
    """Let *role* of PostgreSQL read the repository, or make a role for this user's own SQL.

    Without *execute* the statements are only returned.
    """
    with _connected(_existing(url)) as database:
        return database_roles.grant_reading(database, role, execute=execute)


def grant_team(url: str | Path | None, team: Team, *, execute: bool = True) -> Grant:
    """Let *team* work on a database of PostgreSQL: see ``database_roles``."""
    with _connected(_existing(url)) as database:
        return database_roles.grant_team(database, team, execute=execute)


BACKUPS = "backups"
"""The folder of the copies, beside the database or in the project's folder."""
_NAME = re.compile(r"zenturio-\d{8}T\d{6}\.\d{6}Z\.(db|dump)")
"""What is named so was made here, and may be removed."""

_UPGRADED = r"\.(\d{4}(-\d+)?|new)(-wal|-shm|-journal)?"
"""Ends the names of the copies that upgrades make."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """A new copy, and the oldest ones that gave way to it."""

    copy: Path
    removed: tuple[Path, ...]


def rotate(
    url: str | Path | None,
    keep: int | None,
    step: Callable[[int, int], None] = lambda _done, _total: None,
) -> Rotation:
    """Copy the repository into the folder of backups; the newest *keep* copies stay there, or all.

    *step* is called as by `backup`. Old copies are removed only after the new one is whole.
    """
    if keep is not None and keep < 1:
        raise InputError(f"cannot keep {keep} copies", hint="keep at least one")
    folder, ending = _folder(url)
    if ending == "dump":
        begin_project()
    try:
        make_folder(folder.parent, folder.name)
    except OSError as error:
        raise PlaceError(f"no folder for copies: {folder}: {error.strerror}") from error
    _check_folder(folder)
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    copy = backup(url, folder / f"zenturio-{now}.{ending}", step)
    old = sorted(p for p in folder.iterdir() if _NAME.fullmatch(p.name) and p != copy)
    removed = tuple(old[: max(len(old) + 1 - keep, 0)] if keep is not None else ())
    for path in removed:
        path.unlink(missing_ok=True)
    return Rotation(copy, removed)


def backup_files(url: str | Path | None) -> tuple[Path, ...]:
    """Return all copies of the repository that were made here: by hand, and by upgrades."""
    from zenturio.record.sqlite import SQLite  # noqa: PLC0415 - imported with the database only

    folder, _ = _folder(url)
    _check_folder(folder)
    copies = [*folder.glob("*")] if folder.is_dir() else []
    place = locate(url)
    kind = dialect_at(place) if place != "memory:" else None
    if isinstance(kind, SQLite):
        upgrades = re.compile(re.escape(kind.path.name) + _UPGRADED)
        copies += [p for p in kind.path.parent.iterdir() if upgrades.fullmatch(p.name)]
    return tuple(sorted(path for path in copies if path.is_file()))


def _check_folder(folder: Path) -> None:
    """Raise SafetyError for a link: copies of somebody else would be removed there."""
    if folder.is_symlink():
        raise SafetyError(
            f"{folder} is a link, and copies are removed there",
            hint="remove it if you did not make it; zen db backup FILE writes a copy anywhere",
        )


def _folder(url: str | Path | None) -> tuple[Path, str]:
    """Return where copies lie, and how their names end."""
    from zenturio.record.sqlite import SQLite  # noqa: PLC0415 - imported with the database only

    place = locate(url)
    kind = dialect_at(place) if place != "memory:" else None
    if isinstance(kind, SQLite):
        return kind.path.parent / BACKUPS, "db"
    return project_folder() / FOLDER / BACKUPS, "dump"
