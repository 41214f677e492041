"""The verb bugreport: one file with the facts that a developer needs first, without secrets.

Nothing of the project is executed: settings are read as text, places are listed and not opened, and
a part that cannot be read is replaced by its error.
"""

from __future__ import annotations

import io
import json
import os
import platform
import shutil
import sqlite3
import sys
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from zenturio.cli import output
from zenturio.cli.options import Database, Json
from zenturio.errors import ZenError
from zenturio.log_setup import recent_files
from zenturio.safe_text import is_secret_name, mask_secrets, mask_values

_SETTINGS_FILES = ("zenturio.toml", "hosts.toml")
_MOST_BYTES = 2**20
"""Of a file of settings or of log lines that are read."""
_VARIABLES = (
    "ZENTURIO_", "PYTHON", "LANG", "LC_", "TERM", "TMPDIR", "XDG_CONFIG_HOME", "VIRTUAL_ENV",
    "CONDA_PREFIX", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "SLURM_CONF", "MODULEPATH",
)  # fmt: skip
"""How the names begin of environment variables that change what zenturio does."""
_PROGRAMS = (
    "sh", "git", "ssh", "sbatch", "squeue", "scancel", "qsub", "dask", "dask-worker",
    "gcc", "gfortran", "nvcc", "docker", "podman", "apptainer", "psql", "pg_dump", "strace",
)  # fmt: skip
"""Programs that places use, which are looked for on the PATH and not started."""


def add_to(app: typer.Typer) -> None:
    """Put the verb of this file into *app*."""
    app.command()(bugreport)


def bugreport(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="File to write; default: a name with the date."
        ),
    ] = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Write one file to attach to a bug report, without secrets.

    The zip file holds versions, settings, the last log lines, the check of the database and the
    known places. Passwords and tokens are replaced by asterisks; programs, parameters and results
    are not included. Read it before you send it.

    Examples: zen bugreport; zen bugreport -o report.zip
    """
    from zenturio.files import write_output
    from zenturio.record.open import project_folder

    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    path = out or Path(f"zen-bugreport-{stamp}.zip")
    with output.waiting("collecting"):
        parts = list(_parts(project_folder(), db))
    if not json:
        output.table(("file", "bytes", "content"), [p.row for p in parts], right="lrl")
    write_output(path, [_zipped(parts)])
    if json:
        names = {part.name: len(part.content) for part in parts}
        output.facts({"file": str(path), "bytes": path.stat().st_size, "parts": names})
    else:
        typer.echo(f"\nwrote {path} ({path.stat().st_size:,} bytes); read it before you send it")


@dataclass(frozen=True)
class _ReportFile:
    """A file of the report."""

    name: str
    about: str
    content: bytes

    @property
    def row(self) -> tuple[str, str, str]:
        return self.name, f"{len(self.content):,}", self.about


def _parts(project: Path, db: str | None) -> Iterator[_ReportFile]:
    """Yield the files of the report."""
    yield _json("versions.json", "versions of zenturio, Python, system, packages", _versions)
    yield _json("environment.json", "environment variables that matter", _environment)
    for name in _SETTINGS_FILES:
        if (project / name).is_file():
            yield _json(f"{name}.json", "settings", partial(_settings, project / name))
    yield _json("places.json", "known places, and programs on the PATH", partial(_places, project))
    yield _json("database.json", "kind, version and check of the database", partial(_database, db))
    for path in recent_files(project):
        yield _ReportFile(f"logs/{path.name}", "last log lines of a command", _lines(path))


def _json(name: str, about: str, collect: Callable[[], Any]) -> _ReportFile:
    try:
        facts = collect()
    except (ZenError, OSError, ValueError, RecursionError) as error:
        facts = {"error": f"{type(error).__name__}: {error}"}
    text = json.dumps(mask_values(facts), indent=2, ensure_ascii=True, default=str)
    return _ReportFile(name, about, text.encode())


def _versions() -> dict[str, Any]:
    return {
        "zenturio": metadata.version("zenturio"),
        "python": sys.version,
        "prefix": sys.prefix,
        "system": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "encoding": sys.stdout.encoding,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "sqlite": sqlite3.sqlite_version,
        "packages": sorted(f"{d.name} {d.version}" for d in metadata.distributions()),
    }


def _environment() -> dict[str, str]:
    return {
        name: "(set)" if is_secret_name(name) else value
        for name, value in sorted(os.environ.items())
        if name.startswith(_VARIABLES)
    }


def _settings(path: Path) -> Mapping[str, Any]:
    """Return what a file of settings holds; comments, which may hold anything, are left out."""
    return tomllib.loads(_read(path).decode("utf-8"))


def _places(project: Path) -> dict[str, Any]:
    from zenturio.execute.places import known_places

    places = {
        named.name: {"kind": named.kind, "from": str(named.table.place or "built in")}
        for named in known_places(project).values()
    }
    return {"places": places, "programs": {name: shutil.which(name) for name in _PROGRAMS}}


def _database(db: str | None) -> dict[str, Any]:
    from zenturio.record import maintenance

    described = maintenance.describe(db)
    wrong = [str(diagnostic) for diagnostic in maintenance.check_repository(db)]
    return {**described, "check": wrong or "nothing is wrong"}


def _lines(path: Path) -> bytes:
    text = _read(path).decode("utf-8", "replace")
    # Masked when they were written; the environment may hold another secret by now.
    return mask_secrets(text).encode()


def _read(path: Path) -> bytes:
    # A link in a received project may lead to a key, and a pipe would be waited for.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags), "rb") as file:
        return file.read(_MOST_BYTES)


def _zipped(parts: list[_ReportFile]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in parts:
            archive.writestr(part.name, part.content)
    return stream.getvalue()
