"""Looking after a repository: check it, bring it up to date, copy it, save it, prune it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from zenturio.errors import Complaint, InputError, PlaceError, RecordError
from zenturio.record import schema, upgrade
from zenturio.record.database import Database
from zenturio.record.facts import Removal
from zenturio.record.flavour import Flavour
from zenturio.record.inspection import inspect
from zenturio.record.open import flavour, located, refuse_missing, waiting
from zenturio.record.postgresql import PostgreSQL
from zenturio.record.repository import Repository
from zenturio.record.salvage import Salvage, salvage_file
from zenturio.record.sqlite import SQLite


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What an upgrade did."""

    before: str
    """The revision that the schema had."""
    after: str
    copy: Path | None
    """The database as it was; none if nothing was to be done, or a server keeps it."""


def check(url: str | Path | None = None) -> tuple[Complaint, ...]:
    """Everything that is wrong with the repository; nothing is changed."""
    kind = _existing(url)
    try:
        with _connected(kind) as database:
            return tuple(Complaint(f"{kind.place}: {found}") for found in inspect(database))
    except RecordError as error:
        return error.complaints


def bring_up_to_date(url: str | Path | None = None) -> Upgrade:
    """Migrates the schema; a file is copied first."""
    kind = _existing(url)
    newest = schema.REVISIONS[-1]
    database = Database(kind, waiting())
    try:
        before = upgrade.version(database)
    finally:
        database.close()
    copy = None
    if isinstance(kind, SQLite) and before in schema.REVISIONS[:-1]:
        copy = backup(kind.path, _unused(kind.path.with_name(f"{kind.path.name}.{before}")))
    upgrade.upgrade(kind, waiting())
    return Upgrade(before or newest, newest, copy)


def _unused(path: Path) -> Path:
    """*path*, or with a number where an upgrade that was interrupted left its copy there."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(each for each in chain([path], numbered) if not each.exists())


def backup(url: str | Path | None, target: Path) -> Path:
    """Copies the repository as it is at one moment, while others may be at work in it."""
    kind = _existing(url)
    if target.exists():
        raise InputError(f"{target} is there already", cure="choose a name that is free")
    part = target.with_name(target.name + ".part")
    try:
        if isinstance(kind, SQLite):
            kind.copy(part)
        else:
            _dump(kind, part)
        part.rename(target)
    except OSError as error:
        raise PlaceError(f"cannot write {target}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    return target


def _dump(kind: Flavour, target: Path) -> None:
    """A server's own copy, for pg_restore; the password goes neither into a list nor a message."""
    if not isinstance(kind, PostgreSQL) or shutil.which("pg_dump") is None:
        raise PlaceError(
            "a copy of a PostgreSQL database is made by pg_dump, which is not on the PATH",
            cure="install PostgreSQL's client programs",
        )
    with _connected(kind) as database:
        name = database.read(lambda transaction: transaction.sql("SELECT current_schema()"))[0][0]
    where, secrets = kind.for_programs()
    command = ["pg_dump", "--format=custom", f"--schema={name}", f"--file={target}", where]
    done = subprocess.run(
        command, env={**os.environ, **secrets}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RecordError(f"pg_dump of {kind.place} failed: {kind.hide(done.stderr.strip())}")


def salvage(source: Path, target: Path) -> Salvage:
    """Saves what can be read of a damaged file into a new one; the old one stays as it is."""
    kind = _existing(source)
    if not isinstance(kind, SQLite):
        raise InputError(
            f"{kind.place} is no file", cure="a PostgreSQL server is restored by its administrator"
        )
    if target.exists():
        raise InputError(f"{target} is there already", cure="choose a name that is free")
    return salvage_file(kind, SQLite(target, waiting()))


def prune(repository: Repository, study: str) -> Removal:
    """Removes a study, and the files of its artifacts that nothing else needs.

    What would be removed is told before by ``repository.burden``. The rows go first: a fault
    in between leaves files that nobody knows, never rows whose files are gone.
    """
    removal = repository.delete(study)
    for path in removal.artifacts:
        with suppress(OSError):
            Path(path).unlink(missing_ok=True)
    return removal


def _existing(url: str | Path | None) -> Flavour:
    place = located(url)
    if place == "memory:":
        raise InputError("a repository in memory needs no upkeep", cure="name a database")
    kind = flavour(place)
    refuse_missing(kind)
    return kind


@contextmanager
def _connected(kind: Flavour) -> Iterator[Database]:
    database = upgrade.connect(kind, waiting())
    try:
        yield database
    finally:
        database.close()
