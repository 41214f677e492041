"""The files of a submitted study, which travel by content.

The client reads the files of a study and puts them into the database, by SHA-256. The service
writes them into a folder of its own and runs the study from there: it needs no access to the folder
of who submitted it, and what is edited there later does not count.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from zenturio.annotate.file_selection import IGNORE
from zenturio.annotate.model import Application, ApplicationPaths, ElementSource, UseKind
from zenturio.annotate.patterns import PathPattern, TooManyEntries
from zenturio.errors import InputError, PlaceError, SafetyError, ZenError
from zenturio.execute.file_staging import disk_errors
from zenturio.execute.folder_files import write_new
from zenturio.execute.wire import (
    MalformedError,
    any_text,
    first_of,
    integer,
    list_of,
    matching,
    object_of,
    one_of,
    path,
    record,
    text,
    tuple_of,
)
from zenturio.experiment import ExperimentGenerator
from zenturio.experiment.identity import ask_versions, used_digests
from zenturio.files import make_folder
from zenturio.space.space import fingerprint
from zenturio.study.stages.stage_graph import Stage, stages_of
from zenturio.study.study_request import StudyRequest

FOLDER = "submitted"
"""Below ``.zenturio``, with a folder for each submission that runs."""
LARGEST_BYTES = 2**28
"""Of all files of a submission together: they pass through memory and the database."""
_USED_FILE = "USE FILE "
_SHA256 = matching("[0-9a-f]{64}", "a SHA-256")
_ANSWER = any_text(2**17)
_check_facts = record({
    "origin": text(), "name": path, "paths": list_of(first_of(one_of("."), path), 4096, 1),
    "files": list_of(tuple_of(path, integer(0, 0o777), integer(-(2**63)), _SHA256)),
    "links": list_of(tuple_of(path, text())), "folders": list_of(path),
    "uses": object_of(text(), matching("[0-9a-f]{1,128}", "a digest")),
    "versions": object_of(text(2**16), _ANSWER),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class SubmittedFile:
    """A file below the root; its content is stored by its SHA-256."""

    path: str
    mode: int
    mtime: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SubmittedProgram:
    """What it takes to write the files of a study elsewhere, and to read them as they were."""

    origin: str
    """The folder that they came from."""
    name: str
    """Of the folder that they lie in, after which a study may be called."""
    paths: tuple[str, ...]
    """What was named, from the root."""
    files: tuple[SubmittedFile, ...]
    links: tuple[tuple[str, str], ...] = ()
    folders: tuple[str, ...] = ()
    uses: Mapping[str, str] | None = None
    """Digests of what USE FILE names."""
    versions: Mapping[str, str] | None = None
    """What the commands of USE VERSION printed."""

    @classmethod
    def read(cls, facts: Any) -> SubmittedProgram:
        """Return the program whose JSON is *facts*; SafetyError for what it cannot be."""
        try:
            _check_facts(facts, "program")
        except MalformedError as error:
            raise SafetyError(f"the submission is malformed: {error}") from error
        if "/" in facts["name"]:
            raise SafetyError(f"the submission is malformed: {facts['name']!r} is not a name")
        files = tuple(SubmittedFile(*row) for row in facts["files"])
        links = tuple((name, target) for name, target in facts["links"])
        return cls(
            facts["origin"], facts["name"], tuple(facts["paths"]), files, links,
            tuple(facts["folders"]), facts["uses"], facts["versions"],
        )  # fmt: skip

    def facts(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "origin": self.origin,
            "name": self.name,
            "paths": list(self.paths),
            "files": [[f.path, f.mode, f.mtime, f.sha256] for f in self.files],
            "links": [list(link) for link in self.links],
            "folders": list(self.folders),
            "uses": dict(self.uses or {}),
            "versions": dict(self.versions or {}),
        }

    @property
    def contents(self) -> list[str]:
        """The SHA-256 of each content, once."""
        return sorted({file.sha256 for file in self.files})

    def write(self, folder: Path, content: Callable[[str], bytes]) -> Path:
        """Write all files below *folder*, which is empty, and return their root.

        *content* returns what has a SHA-256.
        """
        root = folder / self.name
        with disk_errors(root):
            parents = (os.path.dirname(name) for name, _ in self.links)  # noqa: PTH120 - a text
            # Before the first link is made: no folder is made through a link.
            for name in (".", *self.folders, *parents):
                (root / name).mkdir(parents=True, exist_ok=True)
            for file in self.files:
                target = root / file.path
                target.parent.mkdir(parents=True, exist_ok=True)
                write_new(str(target), content(file.sha256), file.mode | 0o400, file.mtime)
            for name, target_text in self.links:
                (root / name).symlink_to(target_text)
            # Links may lead through links, so each is judged when all of them are there.
            for name, target_text in self.links:
                if not (root / name).resolve().is_relative_to(root.resolve()):
                    raise SafetyError(f"the link {name!r} leads out of its folder, {target_text!r}")
        return root

    def application(
        self, request: StudyRequest, root: Path, *, ask_anew: bool = True
    ) -> Application:
        """Read the program of *request* from the files at *root*.

        With *ask_anew* the commands of USE VERSION are asked again where the study runs; else
        their answers are those that were submitted, and a missing one is a SafetyError.
        """
        named = tuple(str(root / path) for path in self.paths)
        origin = Path(self.origin)
        application = replace(
            # What a program could read of the service's own files would be shown to its author.
            replace(request, paths=named).application(confined=True),
            origin=ApplicationPaths(origin, tuple(origin / path for path in self.paths)),
            recorded_uses=dict(self.uses or {}),
        )
        stages = stages_of(application)
        self._check_recorded(stages, "file", application.recorded_uses)
        if ask_anew:
            return application
        versions = dict(self.versions or {})
        self._check_recorded(stages, "version", versions)
        return replace(application, versions=versions)

    @staticmethod
    def _check_recorded(
        stages: Iterable[Stage], kind: UseKind, recorded: Mapping[str, str]
    ) -> None:
        for use in (use for stage in stages for use in stage.application.uses):
            if use.kind == kind and use.text not in recorded:
                raise SafetyError(f"nothing was submitted for USE {kind.upper()} {use.text!r}")


def collect_program(
    request: StudyRequest, application: Application
) -> tuple[SubmittedProgram, dict[str, bytes]]:
    """Return the program of *request* and its contents by SHA-256.

    It is written to a folder of this machine and read there, so that what cannot travel is told to
    who submits it: InputError.
    """
    stages = stages_of(application)
    collector = _Collector(_common_root(stages))
    for stage in stages:
        collector.add(stage.application)
    program, contents = collector.program(application.paths), collector.contents
    with tempfile.TemporaryDirectory(prefix="zenturio-") as name:
        try:
            root = program.write(Path(name), contents.__getitem__)
            copy = program.application(request, root)
            is_same = [_identity(s) for s in stages_of(copy)] == [_identity(s) for s in stages]
        except ZenError as error:
            raise _cannot_travel(application, str(error.diagnostics[0].message)) from error
    if not is_same:
        raise _cannot_travel(application, "a file changed meanwhile, or lies outside of the folder")
    return program, contents


def _identity(stage: Stage) -> tuple[object, ...]:
    program = ExperimentGenerator(stage.application).program
    return stage.name, dict(program), fingerprint(stage.application.space)


def _cannot_travel(application: Application, reason: str) -> InputError:
    return InputError(
        f"{application.name} cannot be submitted: without its folder it is another program:"
        f" {reason}",
        hint="submit the folder that holds all of its files",
    )


def _common_root(stages: Iterable[Stage]) -> Path:
    roots = [str(stage.application.root.absolute()) for stage in stages]
    return Path(os.path.abspath(os.path.commonpath(roots)))  # noqa: PTH100 - links stay


class _Collector:
    """Gathers files below one root."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.contents: dict[str, bytes] = {}
        self._files: dict[str, SubmittedFile] = {}
        self._links: dict[str, str] = {}
        self._folders: set[str] = set()
        self._uses: dict[str, str] = {}
        self._versions: dict[str, str] = {}
        self._size = 0

    def add(self, application: Application) -> None:
        """Add all files of *application*, and the answers to what it uses."""
        root = Path(os.path.abspath(application.root))  # noqa: PTH100
        prefix = self._name(root)
        below = "" if prefix == "." else f"{prefix}/"
        for file in application.file_paths:
            self._add_file(below + file, root / file)
        for file, _ in application.sides:
            self._add_file(below + file, root / file)
        self._links |= {below + name: target for name, target in application.links}
        self._folders |= {below + name for name in application.folders}
        for source in application.element_sources:
            for element in _element_files(source):
                self._add_element(element)
        self._add_ignored(root)
        for name, digest in used_digests(application).items():
            if name.startswith(_USED_FILE):
                self._add_use(name.removeprefix(_USED_FILE), digest)
        self._versions |= ask_versions(application).versions

    def program(self, named: Iterable[Path]) -> SubmittedProgram:
        """Return what was gathered."""
        paths = tuple(self._name(Path(os.path.abspath(path))) for path in named)  # noqa: PTH100
        return SubmittedProgram(
            str(self._root),
            self._root.name or "root",
            paths,
            tuple(self._files[name] for name in sorted(self._files)),
            tuple(sorted(self._links.items())),
            tuple(sorted(self._folders)),
            self._uses,
            self._versions,
        )

    def _name(self, path: Path) -> str:
        return os.path.relpath(path, self._root)

    def _add_file(self, name: str, location: Path) -> None:
        if name in self._files:
            return
        try:
            status = location.stat()
            self._size += status.st_size
            if self._size > LARGEST_BYTES:
                raise InputError(
                    f"the files to submit have more than {LARGEST_BYTES // 2**20} MiB",
                    hint="leave large inputs in a folder that the service can read, and name them"
                    " by absolute paths",
                )
            content = location.read_bytes()
        except OSError as error:
            raise InputError(f"{location} cannot be read: {error.strerror}") from error
        digest = sha256(content).hexdigest()
        self.contents[digest] = content
        self._files[name] = SubmittedFile(name, status.st_mode & 0o777, status.st_mtime_ns, digest)

    def _add_element(self, location: Path) -> None:
        name = self._name(Path(os.path.abspath(location)))  # noqa: PTH100
        if name.startswith("../"):
            raise InputError(
                f"elements are read from {location}, outside of what is submitted",
                hint=f"copy it to {self._root}",
            )
        if location.is_dir():
            self._folders.add(name)
        else:
            self._add_file(name, location)

    def _add_ignored(self, root: Path) -> None:
        """Add the lists of what is no part of it: files of elements may be among that."""
        folders = {Path(name).parent for name in self._files}
        for folder in {above for name in folders for above in (name, *name.parents)}:
            location = self._root / folder / IGNORE
            if location.is_relative_to(root) and location.is_file():
                self._add_file(self._name(location), location)

    def _add_use(self, name: str, digest: str) -> None:
        if self._uses.setdefault(name, digest) != digest:
            raise InputError(
                f"two stages mean different files by USE FILE {name!r}",
                hint="name them by absolute paths",
            )


def _element_files(source: ElementSource) -> Iterator[Path]:
    if not source.is_pattern:
        yield source.base / source.text
        return
    try:
        for name in PathPattern(str(source.base)).matches(source.text):
            yield source.base / name
    except (TooManyEntries, OSError, ValueError) as error:
        raise InputError(f"the files of GLOB {source.text!r} cannot be listed: {error}") from error


class SubmittedFolders:
    """The folders below ``.zenturio`` from which a service runs submitted programs."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def write(
        self, number: int, program: SubmittedProgram, content: Callable[[str], bytes]
    ) -> Path:
        """Write the files of submission *number* again, and return their root."""
        self.remove(number)
        with disk_errors(self._home):
            # A content that others can change would run in the name of who submitted it.
            folder = make_folder(self._home, FOLDER, str(number), mode=0o700)
            if folder.stat().st_uid != os.geteuid():
                raise PlaceError(f"{folder} belongs to another user", hint=f"remove {folder}")
        return program.write(folder, content)

    def clear(self) -> None:
        """Remove what a service that was killed could not."""
        folder = self._home / FOLDER
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        for name in names:
            self.remove(name)

    def remove(self, number: int | str) -> None:
        """Remove the folder of a submission that is over."""
        with disk_errors(self._home):
            folder = make_folder(self._home, FOLDER, mode=0o700) / str(number)
            if folder.is_symlink():
                folder.unlink()
            elif folder.exists():
                shutil.rmtree(folder)
