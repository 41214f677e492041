"""Selects the files of an application: in a fixed order, and none from outside its folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from zenturio.annotate.clauses import Diagnostics
from zenturio.annotate.dialects import is_prefixed
from zenturio.annotate.model import location_of
from zenturio.annotate.source import stamp_of
from zenturio.errors import Diagnostic, Place, did_you_mean
from zenturio.files import OutputFileRecords
from zenturio.name_patterns import name_fits

STUDY = "study.zen"
"""Directives that concern every file of the folder that it stands in."""

SIDE = ".zen"
"""NAME.zen holds the directives of NAME."""

IGNORE = ".zenignore"
"""A file in a folder: a pattern on each line, of what below it is no part of the application."""

_HEAD_BYTES = 8192
"""A file with a NUL byte among its first ones is not text, as Git has it."""

_LEFT_OUT = frozenset({"__pycache__", "zenturio.toml"})
"""What is made by running, and what says where to run."""

_NODE_PROGRAMS = ("node_modules", ".bin")
"""The one folder with a dot that programs do not run without: links to what packages install."""


class SelectedFile(NamedTuple):
    """A file, of which there may be a hundred thousand."""

    folder: str
    """Where it is, with the last slash: one text for all files there."""
    name: str
    """Its path in the application with forward slashes."""
    stamp: bytes = b""
    """As `stamp_of` has it; empty if it could not be determined."""
    follows_links: bool = False
    """Whether it may be a link: it was named, or a link to it is followed."""

    @property
    def location(self) -> str:
        """Where it is."""
        return location_of(self.folder, self.name)

    @property
    def path(self) -> Path:
        return Path(self.location)


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link that is made again: its path in the application, and where it leads."""

    name: str
    text: str


@dataclass
class FileSelection:
    """The files of an application, each list sorted by name when it is complete."""

    name: str
    root: Path
    files: list[SelectedFile] = field(default_factory=list)
    """What an experiment's folder holds."""
    sides: list[SelectedFile] = field(default_factory=list)
    """NAME.zen and study.zen: read, but no part of the experiment."""
    outputs: list[SelectedFile] = field(default_factory=list)
    """Charts, tables and the like that were written here: no part of it either."""
    links: list[Link] = field(default_factory=list)
    """Symbolic links to what is in the folder, too."""
    folders: list[str] = field(default_factory=list)
    """Folders in which nothing of it is."""


def find_files(
    paths: Sequence[str | Path], diagnostics: Diagnostics, *, follow_links: bool = False
) -> FileSelection:
    """Return the files that *paths* name; missing ones are errors, suspicious ones warnings.

    With *follow_links* links are what they lead to, as digests of format 1 have it.
    """
    named = [path for path in map(Path, paths) if _exists(path, diagnostics)]
    folders = [p if p.is_dir() else p.parent for p in named] or [Path()]
    root = Path(os.path.commonpath([_absolute(folder) for folder in folders]))
    # As it was written: messages then name files as the user does.
    if len(folders) == 1:
        root = folders[0]
    selection = FileSelection(_title(named, root), root)
    walk = _FolderWalk(selection, diagnostics, os.path.realpath(root), follow_links)
    for path in named:
        prefix = os.path.relpath(_absolute(path), _absolute(root)).replace(os.sep, "/")
        if path.is_dir():
            below = "" if prefix == "." else prefix + "/"
            walk.folder(path, below, (os.path.realpath(path),))
        else:
            walk.named(path, prefix)
    files_named = {path.absolute() for path in named}
    _part_outputs(selection, files_named)
    # After all files are known: a link is kept only if what it leads to is part of the
    # application.
    if walk.links:
        _Links(walk).settle()
        # Following links may have brought outputs in again.
        _part_outputs(selection, files_named)
    selection.files = _once(selection.files)
    selection.sides = _once(selection.sides)
    selection.folders = _empty(walk.folders, [*selection.files, *selection.links])
    _check_sides(selection, diagnostics)
    return selection


def _absolute(path: Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100 - Path.resolve would follow symbolic links


def _title(named: Sequence[Path], root: Path) -> str:
    """The only file's stem, or the folder's name; ``in.melt`` is itself, as a deck has no stem."""
    if len(named) == 1 and not named[0].is_dir():
        name = named[0].name
        whole = name.removesuffix(SIDE) if name != STUDY else Path(_absolute(root)).name
        return whole if is_prefixed(whole) else Path(whole).stem
    return Path(_absolute(root)).name or "root"


def _exists(path: Path, diagnostics: Diagnostics) -> bool:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        message = f"{path}: there is no such file or folder"
        diagnostics.errors.append(Diagnostic(message, hint=_near(path)))
        return False
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return True
    message = f"{path} is neither a file nor a folder"
    diagnostics.errors.append(Diagnostic(message, hint="name an annotated file, or its folder"))
    return False


def _near(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir() if not entry.name.startswith(".")]
    except (OSError, ValueError):
        return f"there is no folder {path.parent} either"
    return did_you_mean(path.name, names) if names else f"{path.parent} is empty"


def _once(members: Iterable[SelectedFile]) -> list[SelectedFile]:
    """Return each file once, the last one of each name, sorted by name."""
    ordered = sorted(members, key=attrgetter("name"))
    following = chain((member.name for member in islice(ordered, 1, None)), [None])
    return [m for m, name in zip(ordered, following, strict=False) if m.name != name]


def _part_outputs(selection: FileSelection, named: Collection[Path]) -> None:
    """Take out what zenturio itself wrote, unless it was named."""
    written = OutputFileRecords.of(selection.root)
    if not written:
        return
    outputs = {
        member: None
        for member in selection.files
        if written.includes(member.path) and member.path.absolute() not in named
    }
    selection.outputs += outputs
    selection.files = [member for member in selection.files if member not in outputs]


def _empty(folders: Iterable[str], members: Iterable[SelectedFile | Link]) -> list[str]:
    """Return those of *folders* in which none of *members* is, and no other folder."""
    every = {folder for folder in folders if folder}
    parents = {member.name.rpartition("/")[0] for member in members}
    parents.update(folder.rpartition("/")[0] for folder in every)
    return sorted(every - parents - {above for folder in parents for above in _above(folder)})


def _above(name: str) -> Iterator[str]:
    """Yield the folders around *name*, the nearest first."""
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name


def _followed(path: Path, name: str) -> SelectedFile:
    """Return the file that *path* leads to."""
    try:
        stamp = stamp_of(path.stat())
    except OSError:
        stamp = b""
    location = str(path)
    return SelectedFile(location[: location.rfind("/") + 1], name, stamp, follows_links=True)


def _check_sides(selection: FileSelection, diagnostics: Diagnostics) -> None:
    names = {member.name for member in selection.files} if selection.sides else set()
    for side in selection.sides:
        of = side.name.removesuffix(SIDE)
        if not is_study(side.name) and of not in names:
            message = f"there is no file {Path(of).name} to which these directives apply"
            hint = f"{did_you_mean(of, names)}; write directives for a whole folder into {STUDY}"
            diagnostics.error(message, Place(str(side.path), 1, 1), hint)


def is_study(name: str) -> bool:
    return name.rpartition("/")[2] == STUDY


def is_side(name: str) -> bool:
    return name.endswith(SIDE)


def may_have_directives(path: Path) -> bool:
    """Return whether the file *path*, or the one of its directives beside it, holds a ZEN$."""
    if path.with_name(path.name + SIDE).is_file():
        return True
    if not path.is_file():  # to open a pipe would wait for its writer
        return False
    try:
        with path.open("rb") as file:
            if b"\0" in file.read(_HEAD_BYTES):
                return False
            file.seek(0)
            return any(b"ZEN$" in line for line in file)
    except OSError:
        return False


def _ignored(folder: Path, below: str, diagnostics: Diagnostics) -> tuple[str, ...]:
    """Return the patterns of the folder's ``.zenignore``: a name in it or below, a path from it."""
    path = folder / IGNORE
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    except (OSError, UnicodeDecodeError) as error:
        diagnostics.errors.append(Diagnostic(f"{path} cannot be read: {error}"))
        return ()
    patterns = (line.strip().rstrip("/") for line in lines if not line.lstrip().startswith("#"))
    prefix = f"./{below}"
    return tuple(prefix + (p.removeprefix("./") if "/" in p else f"**/{p}") for p in patterns if p)


@dataclass
class _FolderWalk:
    selection: FileSelection
    diagnostics: Diagnostics
    inside: str
    """The real path that no symbolic link may lead out of."""
    follow_links: bool = False
    ignored: tuple[str, ...] = ()
    """Patterns of paths from the root, of the folder that is walked and those around it."""
    links: dict[str, _Met] = field(default_factory=dict)
    """Symbolic links that are not yet known to be reproducible."""
    folders: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """The texts that name folders, each once."""

    def named(self, path: Path, name: str) -> None:
        """A file that was named directly, with the files in its folder."""
        if is_side(name):
            self.selection.sides.append(_followed(path, name))
            of = path.with_name(path.name.removesuffix(SIDE))
            if not is_study(name) and os.path.isfile(of):  # noqa: PTH113 - as below
                self.selection.files.append(_followed(of, name.removesuffix(SIDE)))
            return
        self.selection.files.append(_followed(path, name))
        side = path.with_name(path.name + SIDE)
        if os.path.isfile(side):  # noqa: PTH113 - Path would raise for a name that is too long
            self.selection.sides.append(_followed(side, name + SIDE))

    def folder(self, folder: Path, prefix: str, above: tuple[str, ...]) -> None:
        """Everything in a folder; *above* are the real paths of the folders around it."""
        try:
            with os.scandir(folder) as scanned:
                # The order of a folder differs by file system, and digests depend on it.
                entries = sorted(scanned, key=lambda entry: entry.name)
        except OSError as error:
            message = f"{folder} cannot be read: {error.strerror}"
            self.diagnostics.errors.append(Diagnostic(message, hint="change its permissions"))
            return
        outer = self.ignored
        if any(entry.name == IGNORE for entry in entries):
            self.ignored = (*outer, *_ignored(folder, prefix, self.diagnostics))
        if not self.follow_links:
            self.folders.append(prefix.removesuffix("/"))
        for entry in entries:
            if self.belongs(entry.name, prefix):
                self.entry(entry, prefix + entry.name, above)
        self.ignored = outer

    def belongs(self, name: str, prefix: str) -> bool:
        """Whether an entry may be part of the application, by its name in the folder *prefix*."""
        if name == _NODE_PROGRAMS[1] and not self.follow_links:
            return prefix.endswith(f"{_NODE_PROGRAMS[0]}/")
        return not name.startswith(".") and name not in _LEFT_OUT

    def entry(self, entry: os.DirEntry[str], name: str, above: tuple[str, ...]) -> None:
        if self.ignored and any(match_glob(pattern, name) for pattern in self.ignored):
            return
        if not entry.is_symlink() and entry.is_file() and name.isascii():
            self.file(entry, name)
            return
        path = Path(entry.path)
        if not _is_text(name):
            message = f"{path!a}: the name is not UTF-8"
            self.diagnostics.errors.append(Diagnostic(message, hint="rename the file"))
        elif entry.is_symlink() and not self.follow_links:
            text = os.readlink(path)  # noqa: PTH115 - the text itself
            self.links[name] = _Met(path, name, text, above, self.ignored)
        elif entry.is_symlink():
            self.follow(path, name, above)
        elif entry.is_file():
            self.file(entry, name)
        else:
            self.member(path, name, (*above, str(path)))

    def file(self, entry: os.DirEntry[str], name: str) -> None:
        """Add a plain file."""
        try:
            stamp = stamp_of(entry.stat(follow_symlinks=False))
        except OSError:  # it was removed meanwhile, which is said when it is read
            stamp = b""
        files = self.selection.sides if name.endswith(SIDE) else self.selection.files
        folder = entry.path[: -len(entry.name)]
        files.append(SelectedFile(self.names.setdefault(folder, folder), name, stamp))

    def follow(self, path: Path, name: str, above: tuple[str, ...]) -> None:
        """Add the target of a symbolic link, as if it were in the link's place."""
        if reason := self.leads_away(path, above):
            self.warn(path, f"the symbolic link {reason}; it is left out")
        else:
            self.member(path, name, (*above, os.path.realpath(path)))

    def member(self, path: Path, name: str, above: tuple[str, ...]) -> None:
        """Add a file or folder; *above* ends with itself."""
        if path.is_dir():
            self.folder(path, name + "/", above)
        elif not path.is_file():
            self.warn(path, "this is neither a file nor a folder; it is left out")
        elif is_side(name):
            self.selection.sides.append(_followed(path, name))
        else:
            self.selection.files.append(_followed(path, name))

    def leads_away(self, path: Path, above: tuple[str, ...]) -> str:
        """Return why a symbolic link is not followed; nothing if it is."""
        real = os.path.realpath(path)
        if not os.path.exists(real):  # noqa: PTH110
            return "leads nowhere"
        # A received program could lead to a user's keys, and copy them into its experiments.
        if os.path.commonpath([real, self.inside]) != self.inside:
            return f"leads out of {self.selection.root}"
        return "leads to a folder around it" if self.encloses(real, above) else ""

    def encloses(self, real: str, above: tuple[str, ...]) -> bool:
        return any(os.path.realpath(folder) == real for folder in above)

    def warn(self, path: Path, message: str) -> None:
        hint = "replace the link by a copy if the program needs the file"
        self.diagnostics.warnings.append(
            Diagnostic(f"{path}: {message}", hint=hint, severity="warning")
        )


@dataclass(frozen=True, slots=True)
class _Met:
    """A symbolic link that the walk came upon, and the folders around it."""

    path: Path
    name: str
    text: str
    above: tuple[str, ...]
    ignored: tuple[str, ...]
    """The patterns that hold where it stands."""


class _Links:
    """Tells links that lead to what is in the application from others, which are followed."""

    def __init__(self, walk: _FolderWalk) -> None:
        self._walk = walk
        self._targets: dict[str, str | None] = {}
        """Where each settled link leads; None for one that is followed, or left out."""
        self._pending: set[str] = set()
        self._there = self._listed()

    def settle(self) -> None:
        """Put each link into what was found: as a link, as what it leads to, or not at all."""
        while rest := sorted(self._walk.links.keys() - self._targets.keys()):
            self._settle(rest[0])

    def _settle(self, name: str) -> str | None:
        if name in self._targets or name in self._pending:  # pending: it leads to itself
            return self._targets.get(name)
        if name in self._there:  # it was named itself
            self._targets[name] = None
            return None
        self._pending.add(name)
        link = self._walk.links[name]
        target = self._target(link)
        self._pending.discard(name)
        self._targets[name] = target
        if target is None:
            self._walk.ignored = link.ignored
            self._walk.follow(link.path, name, link.above)
            self._walk.ignored = ()
            self._there = self._listed()
        else:
            self._walk.selection.links.append(Link(name, link.text))
        return target

    def _target(self, link: _Met) -> str | None:
        """Return the path in the application that *link* leads to, without any link in it."""
        if link.text.startswith("/"):  # it would lead out of the experiment's folder
            return None
        if any(d < 0 for d in _depths(link)):  # as experiments' folders have it, too
            return None
        parts: list[str] = []
        for part in (*link.name.split("/")[:-1], *link.text.split("/")):
            if part == "..":
                if not parts:
                    return None
                parts.pop()
            elif part not in ("", "."):
                parts.append(part)
                other = "/".join(parts)
                if other in self._walk.links:
                    target = self._settle(other)
                    if target is not None:
                        parts = target.split("/") if target else []
        whole = "/".join(parts)
        if whole and whole not in self._there:
            return None
        real = os.path.realpath(os.path.join(self._walk.inside, whole))  # noqa: PTH118
        return whole if os.path.realpath(link.path) == real else None

    def _listed(self) -> set[str]:
        """Return all files and folders that an experiment's folder will have."""
        files = {member.name for member in self._walk.selection.files}
        return files | {*self._walk.folders} | {above for name in files for above in _above(name)}


def _depths(link: _Met) -> Iterator[int]:
    """Yield how deep in the application each step of a link's path is, as it is written."""
    depth = link.name.count("/")
    for part in link.text.split("/"):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        yield depth


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def match_glob(pattern: str, name: str) -> bool:
    """Return whether the path *name* matches: ``*.c`` in any folder, ``src/*.c`` from the root.

    ``*`` and ``?`` match within a name, ``**/`` matches any number of folders.
    """
    if "/" not in pattern:
        return name_fits(name.rpartition("/")[2], pattern)
    names = name.split("/")
    # How many of the names the parts so far can stand for; in a set, for ``**`` has many ways.
    matched = {0}
    for part in pattern.removeprefix("./").split("/"):
        if part == "**":
            matched = set(range(min(matched), len(names) + 1))
        else:
            matched = {at + 1 for at in matched if at < len(names) and name_fits(names[at], part)}
        if not matched:
            return False
    return len(names) in matched


def under(study: str, names: Iterable[str]) -> Iterator[str]:
    """Return those of *names* in the folder of the study file *study*, and below."""
    folder = study.removesuffix(STUDY)
    return (name for name in names if name.startswith(folder))
