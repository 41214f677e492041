"""
What one experiment uses beyond what is declared, and what it writes outside of its folder.

The first point is run in a folder of its own, which is thrown away, under the tracer. Files of the
system and of the installation of a program that runs are counted only: the program stands for them.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from zenturio.annotate.commands import find_program, undeclared_programs
from zenturio.annotate.dialects import dialect_of
from zenturio.annotate.directive_lines import insert
from zenturio.annotate.model import Application
from zenturio.annotate.source import Source
from zenturio.errors import InputError, PlaceError
from zenturio.execute.file_staging import InputCache, disk_errors
from zenturio.execute.local_runner import IDENTITY
from zenturio.execute.workspace import REPORT, StagedFolder, fill_folder
from zenturio.experiment import METRICS, Experiment, ExperimentGenerator
from zenturio.files import write_whole
from zenturio.system import tracer
from zenturio.system.platform_detection import IS_LINUX, KERNEL_FOLDERS, MEMORY_FOLDER

_SYSTEM = (
    *("/usr/", "/lib/", "/lib32/", "/lib64/", "/bin/", "/sbin/", "/etc/", *KERNEL_FOLDERS),
    *("/dev/", "/run/", "/var/lib/", "/var/cache/"),
)
_OWN_OF_USERS = ("/usr/local/",)
_PLATFORM = frozenset({"sh", "bash", "dash", "env"})
_CLOCK_STEP = 20_000_000
"""Nanoseconds by which the times of files may lag behind the clock."""
_OUTPUT_BYTES, _OUTPUT_LINES = 16_384, 10
"""How much is shown of what a traced experiment wrote, if it failed."""
_MANY = 10
"""Files of one folder beyond which the folder is declared."""


@dataclass(frozen=True)
class Trace:
    """What one experiment did."""

    exit: int
    """The status of the last command."""
    programs: tuple[str, ...]
    """Undeclared: names on the PATH, or paths."""
    files: tuple[str, ...]
    """Undeclared files, and folders of many."""
    written: tuple[str, ...]
    """Outside of its folder."""
    system: int
    """Files of the system and of the programs' installations, which are not listed."""
    is_partial: bool
    """Whether there were processes that were not understood."""
    output: str = ""
    """The last lines that the commands wrote, if the experiment failed."""

    def directives(self, folder: Path) -> list[str]:
        """Return the bodies that declare what was used, in a file of *folder*."""
        bodies = [f'USE PROGRAM "{_escaped(program)}"' for program in self.programs]
        return bodies + [f'USE FILE "{_escaped(_shortest(path, folder))}"' for path in self.files]


def trace(application: Application) -> Trace:
    """Run the first point of *application*, and trace what it uses; PlaceError if impossible."""
    if not IS_LINUX:
        raise PlaceError(
            f"what a program uses can be seen on Linux alone, not on {platform.system()}",
            hint="declare it by hand: ZEN$ USE FILE, USE PROGRAM",
        )
    if not application.runs:
        raise InputError(
            f"{application.name} has no RUN directive", hint='write ZEN$ RUN "./program"'
        )
    point = next(islice(application.space, 1), None) if application.space.finite else None
    if point is None:
        point = next(iter(application.space.sample(1, 0)))
    experiment = ExperimentGenerator(application).experiments(point, 0)[0]
    with tempfile.TemporaryDirectory(prefix="zenturio-trace-") as name:
        began = time.time_ns() - _CLOCK_STEP
        report = _traced(experiment, Path(os.path.realpath(name)))
        return _judged(report, application, Path(os.path.realpath(name)), began)


def _traced(experiment: Experiment, scratch: Path) -> dict[str, Any]:
    folder = scratch / "folder"
    with disk_errors(folder):
        folder.mkdir()
        fill_folder(StagedFolder(str(folder)), experiment.files, InputCache(scratch / "inputs"))
    steps = (*(experiment.build.steps if experiment.build else ()), *experiment.steps)
    variables = {IDENTITY: experiment.digest, METRICS: f"{folder}/{REPORT}"}
    request = {
        "folder": str(folder),
        "commands": [step.command for step in steps],
        "environment": {**os.environ, **experiment.environment, **variables},
    }
    # All steps run in one process of the tracer: their limits add up, and one without ends none.
    limits = [step.timeout for step in steps]
    timeout = None if None in limits else sum(limit for limit in limits if limit is not None)
    with tempfile.TemporaryFile() as log:
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", tracer.__file__],
                input=json.dumps(request).encode(),
                stdout=subprocess.PIPE,
                stderr=log,
                timeout=timeout,
                check=True,
            )
        except subprocess.TimeoutExpired as error:
            raise PlaceError("the traced experiment took longer than its TIMEOUT") from error
        except subprocess.CalledProcessError as error:
            message = f"the tracer ended with status {error.returncode}"
            raise PlaceError(message, hint=_last_lines(log)) from error
        report: dict[str, Any] = json.loads(done.stdout)
        report["output"] = _last_lines(log) if report.get("exit") else ""
    if "error" in report:
        raise PlaceError(
            f"nothing can be traced here: {report['error']}",
            hint="ptrace is forbidden in some containers, and by kernel.yama.ptrace_scope = 3",
        )
    return report


def _last_lines(log: IO[bytes]) -> str:
    size = log.seek(0, os.SEEK_END)
    log.seek(max(size - _OUTPUT_BYTES, 0))
    lines = log.read().decode("utf-8", "replace").rstrip().splitlines()
    return "\n".join(lines[-_OUTPUT_LINES:])


def _judged(report: dict[str, Any], application: Application, scratch: Path, began: int) -> Trace:
    """*began*: when the commands began, in nanoseconds; what is older was not written by them."""
    uses = report["uses"]
    inside = _Inside(application, scratch)
    executed = [path for path in uses["executed"] if not inside.holds(path)]
    first = undeclared_programs(application)
    programs = {word: None for word, path in first.items() if str(path) in executed}
    for path in executed:
        if not _is_system(path) and Path(path).name not in _PLATFORM:
            programs.setdefault(_named(path))
    declared = {use.text for use in application.uses if use.kind == "program"}
    real = {os.path.realpath(p) for w in declared if (p := find_program(w, application.root))}
    undeclared = [
        p for p in programs if p not in declared and os.path.realpath(_path(p)) not in real
    ]
    # Libraries and modules below the prefix of a program that runs belong to its installation:
    # they are counted, and the program is declared in their place.
    prefixes = tuple(_prefixes(executed, application))
    opened = [path for path in uses["written"] if not inside.holds(path) and not _is_device(path)]
    # Some programs open their inputs for writing, too.
    unchanged = [path for path in opened if _is_older(path, began)]
    others = [path for path in uses["read"] if not inside.holds(path)]
    others += [path for path in unchanged if path not in uses["read"]]
    variables = [
        p for p in others if not _is_system(p) and not p.startswith(prefixes) and p not in executed
    ]
    written = [path for path in opened if path not in unchanged]
    listed = [path for path in variables if os.path.exists(path)]  # noqa: PTH110 - texts
    return Trace(
        report["exit"],
        tuple(undeclared),
        tuple(_folded(listed)),
        tuple(written),
        len(others) - len(variables),
        bool(report["foreign"]),
        report["output"],
    )


def _is_older(path: str, began: int) -> bool:
    """Return whether the file at *path* was changed before *began* only."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and max(found.st_mtime_ns, found.st_ctime_ns) < began


class _Inside:
    """What belongs to the experiment, or is declared."""

    def __init__(self, application: Application, scratch: Path) -> None:
        self._files = {os.path.realpath(file.source.path) for file in application.files}
        self._files.update(os.path.realpath(file.location) for file in application.copied)
        used = [str(use.path) for use in application.uses if use.path is not None]
        folders = [str(scratch), *used, *map(os.path.realpath, used)]
        self._names = frozenset(folders)
        self._folders = tuple(f"{folder}/" for folder in folders)

    def holds(self, path: str) -> bool:
        return path in self._names or path.startswith(self._folders) or path in self._files


def _is_system(path: str) -> bool:
    return path.startswith(_SYSTEM) and not path.startswith((*_OWN_OF_USERS, MEMORY_FOLDER))


def _is_device(path: str) -> bool:
    is_named_so = path.startswith(("/dev/", *KERNEL_FOLDERS))
    return is_named_so and not path.startswith(MEMORY_FOLDER)


def _named(path: str) -> str:
    """Return the name by which the PATH knows a program, or its path."""
    name = Path(path).name
    return name if shutil.which(name) == path else path


def _path(program: str) -> str:
    return shutil.which(program) or program


def _prefixes(executed: Iterable[str], application: Application) -> Iterator[str]:
    """Yield the installations of programs: the folders around their ``bin``."""
    root, home = os.path.realpath(application.root), str(Path.home())
    for path in executed:
        for program in {path, os.path.realpath(path)}:
            folder = Path(program).parent
            prefix = str(folder.parent)
            holds_more = prefix in ("/", home) or f"{root}/".startswith(f"{prefix}/")
            if folder.name in ("bin", "sbin", "libexec") and not holds_more:
                yield f"{prefix}/"


def _folded(paths: list[str]) -> Iterator[str]:
    """*paths*, those of a folder with many as the folder."""
    counts = Counter(os.path.dirname(path) for path in paths)  # noqa: PTH120 - texts
    many = {folder for folder, count in counts.items() if count > _MANY}
    folded = (str(Path(path).parent) if str(Path(path).parent) in many else path for path in paths)
    yield from dict.fromkeys(folded)


def _shortest(path: str, folder: Path) -> str:
    """Return the path as a person would write it: relative, unless that leads far up."""
    relative = os.path.relpath(path, folder)
    return path if relative.startswith("../../../") else relative


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def declaring_folder(application: Application) -> Path:
    """Return the folder of the file that has the first RUN: paths that it declares begin there."""
    return Path(application.runs[0].text.place(0).file).absolute().parent


def declare(application: Application, bodies: Iterable[str]) -> Path:
    """Write directives with these *bodies* before the first RUN; the file that has them now."""
    place = application.runs[0].text.place(0)
    path = Path(place.file).resolve()
    source = Source.read(path)
    text = insert(
        source.text or "", dialect_of(path, source.lines[0]), bodies=bodies, before=place.line
    )
    with disk_errors(path):
        write_whole(path, [source.bom + source.encode(text)])
        path.chmod(source.mode)
    return path
