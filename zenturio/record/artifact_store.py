"""Content-addressed storage of artifacts.

``.zenturio/store/objects/ab/cdef…`` is the content whose SHA-256 begins with ``abcdef``, read-only
and immutable. An attempt's files wait in ``store/incoming`` until the group of outcomes that they
are of is recorded:

1. they are linked into ``objects`` under a lock that is shared with all who publish,
2. written to the disk, all of the group at once,
3. the caller commits,
4. ``incoming`` is cleared and the lock released.

A process that is killed leaves files without a row, never rows without a file. Whoever removes
objects holds the lock alone, so what is published meanwhile has its row by then.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from zenturio.errors import PlaceError
from zenturio.experiment.experiment import INCOMING, Artifact, Outcome
from zenturio.failpoints import Failpoint
from zenturio.files import FileLock, make_folder, refuse_link
from zenturio.log_setup import reported
from zenturio.record.codec import unescape
from zenturio.system.file_systems import DIRECTORY, sync_files

LINKED = Failpoint("store.linked")
SYNCED = Failpoint("store.synced")
RECORDED = Failpoint("store.recorded")
CLEARED = Failpoint("store.cleared")
REMOVED = Failpoint("store.removed")

STORE, OBJECTS = INCOMING.parent, "objects"
YOUNG_SECONDS = 86400.0
"""What is younger may be of an outcome that is recorded in a moment: it is not collected."""
FILE = "zenturio.db"
"""The database of a project, below its home."""
_DATABASES = "databases"
_NAME = re.compile(r"[0-9a-f]{62}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PIECE_BYTES = 2**20
"""So much of a file is read at a time."""
_MARK = "store:"
_MARKED = re.compile(rf"{_MARK}([0-7]{{1,3}})(?::(/.*))?", re.DOTALL)
"""How a row names a file of the project's own store; what is in no store is named by its path."""


class ArtifactStore:
    """The artifacts of one project, as a repository knows them.

    *home* is the project's ``.zenturio``. Where the database lies in it too (*has_database*), rows
    name no path, so that both may be moved and copied together. A database elsewhere is named in
    the store by its *place*: who removes files asks it, too.
    """

    def __init__(self, home: Path, place: str = "", *, has_database: bool = True) -> None:
        self.home = home.absolute()
        self.root = self.home / STORE
        self._objects = str(self.root / OBJECTS)
        self._place = place
        self._has_database = has_database

    @contextmanager
    def publishing(self, outcomes: Sequence[Outcome]) -> Iterator[list[Outcome]]:
        """The outcomes with their files in the store, safe on the disk; commit them within.

        Files that wait in no store stay where they are.
        """
        waiting = {
            place for outcome in outcomes for a in outcome.artifacts if (place := _waiting_place(a))
        }
        roots = {Path(root) for root, _ in waiting}
        folders: set[str] = set()
        # Linked, on the disk, committed, removed where they waited: killed between any two of these
        # steps, a driver leaves files that no row names, and never a row without its file.
        with ExitStack() as locks:
            for root in sorted(roots):
                locks.enter_context(_locked(root, shared=True))
                self._sign(root)
            published = [_with_artifacts(o, lambda a: _link(a, folders)) for o in outcomes]
            LINKED()
            for root in roots:
                with _explained(root):
                    linked = [a.kept for o in published for a in o.artifacts]
                    sync_files(root, [path for path in linked if path.is_relative_to(root)])
            SYNCED()
            yield [_with_artifacts(outcome, self._named) for outcome in published]
            RECORDED()
            for _, folder in waiting:
                shutil.rmtree(folder, ignore_errors=True)
            CLEARED()

    def _named(self, artifact: Artifact) -> Artifact:
        """With the words for where it is that a row holds, instead of the path."""
        parents = artifact.kept.parents
        root = parents[2] if len(parents) > 2 else Path()
        if artifact.kept != object_path(root, artifact.sha256):
            return artifact
        where = "" if self._is_own(root) else f":{root}"
        return replace(artifact, kept=Path(in_store(artifact.mode) + where))

    @property
    def project(self) -> Path | None:
        """The folder of the project, if the database goes with it."""
        return self.home.parent if self._has_database else None

    def _is_own(self, root: Path) -> bool:
        """Return whether *root* and the database go together."""
        with suppress(OSError):
            return self._has_database and (root == self.root or root.samefile(self.root))
        return False

    def _sign(self, root: Path) -> None:
        """Leaves in the store at *root* where the database is, if that is elsewhere."""
        if self._is_own(root):
            return
        refuse_link(root / _DATABASES)
        with _explained(root), (root / _DATABASES).open("a+", encoding="utf-8") as file:
            file.seek(0)
            if self._place not in file.read().splitlines():
                file.write(f"{self._place}\n")

    def databases(self) -> tuple[str, ...]:
        """Return the other databases whose artifacts may be in this store."""
        try:
            lines = (self.root / _DATABASES).read_text("utf-8").splitlines()
        except OSError:
            lines = []
        if not self._has_database:
            lines.append(str(self.home / FILE))
        return tuple(place for place in lines if place != self._place)

    def located(self, artifact: Artifact, digest: str) -> Artifact:
        """Return an artifact, as a row of experiment *digest* has it, with the path of its file.

        What is in this project's store, or was in its folder of outputs, is found there wherever
        the project has been moved or copied to.
        """
        words = str(artifact.kept)
        if match := _MARKED.fullmatch(words):
            octal, root = match.groups()
            path_here = object_path(self.root, artifact.sha256)
            elsewhere = root is not None and not path_here.exists()
            path = object_path(Path(root), artifact.sha256) if elsewhere else path_here
            return replace(artifact, kept=path, mode=artifact.mode or int(octal, 8))
        old = Path("outputs", digest, artifact.path)
        if words.endswith(f"/{self.home.name}/{old}") and is_inside(self.home, self.home / old):
            mode = (self.home / old).stat().st_mode & 0o777
            return replace(artifact, kept=self.home / old, mode=mode)
        return artifact

    def adopt(self, artifact: Artifact, digest: str) -> Artifact:
        """Return an artifact older than the store as a new row has it: in the store if it was ours.

        The file stays where it was, too, for who goes back to the repository as it was.
        """
        if match := _MARKED.fullmatch(str(artifact.kept)):
            return replace(artifact, mode=int(match[1], 8))
        located = self.located(artifact, digest)
        if not (
            self.owns(located.kept) and has_content(located.kept, located.size, located.sha256)
        ):
            return located
        located.kept.chmod(located.mode & 0o555)
        return self._named(_linked(object_path(self.root, located.sha256), located, set()))

    def sync(self) -> None:
        """Wait until what was adopted is on the disk."""
        if self.root.is_dir():
            with _explained(self.root):
                sync_files(self.root, [self.root])

    def owns(self, path: Path) -> bool:
        """Return whether *path* is an artifact's file in this project, which may remove it."""
        return self.owned([str(path)]) != []

    def owned(self, paths: Iterable[str]) -> list[str]:
        """Return those of *paths* that the project owns; each folder in a row is opened once."""
        return [path for path, *_ in self._owned(paths)]

    def _owned(self, paths: Iterable[str]) -> Iterator[tuple[str, str, int]]:
        """Yield files of this project, each with its name and an open descriptor of its folder."""
        own_folders = (f"{self.root}/{OBJECTS}/", f"{self.home}/outputs/")
        for folder, files in groupby(paths, os.path.dirname):
            is_own = f"{folder}/".startswith(own_folders)
            descriptor = _open_below(self.home, folder) if is_own else None
            if descriptor is None:
                continue
            try:
                for path in files:
                    name = path.rpartition("/")[2]
                    with suppress(OSError):
                        if stat.S_ISREG(os.lstat(name, dir_fd=descriptor).st_mode):
                            yield path, name, descriptor
            finally:
                os.close(descriptor)

    def object_name(self, sha256: str) -> str:
        """Return the path of a content in this project's store, as a text."""
        # There may be 10^6 of them, and path objects cost twenty times as much.
        return f"{self._objects}/{sha256[:2]}/{sha256[2:]}"

    def content_of(self, path: str) -> str | None:
        """Return the SHA-256 that the name of a file in the store is; none of other files."""
        folder, _, name = path.rpartition("/")
        sha256 = folder[-2:] + name
        return sha256 if _DIGEST.fullmatch(sha256) and path == self.object_name(sha256) else None

    def path_of(self, content: bytes, foreign: str | None) -> str:
        """Return where the file of a content is, by its row."""
        sha256 = bytes(content).hex()
        if foreign is None and _DIGEST.fullmatch(sha256):
            return self.object_name(sha256)
        row = Artifact("", 0, sha256, Path(in_store(0) if foreign is None else unescape(foreign)))
        return str(self.located(row, "").kept)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep others from publishing. A store that is a link holds no file that may be removed."""
        needs_lock = self.home.is_dir() and not self.root.is_symlink()
        with _locked(self.root, shared=False) if needs_lock else ExitStack():
            yield

    def remove(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Remove files of this project, and return which; others stay. Call it within ``alone``."""
        removed = []
        for path, name, folder in self._owned(reported("removing kept files", [*paths])):
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
                removed.append(path)
                REMOVED()
        for name in dict.fromkeys(map(os.path.dirname, removed)):
            self._remove_empty(Path(name))
        return tuple(removed)

    def _remove_empty(self, folder: Path) -> None:
        with suppress(OSError):
            while folder not in (self.home, self.root, *self.root.iterdir()):
                folder.rmdir()
                folder = folder.parent

    def objects(self, young: float = YOUNG_SECONDS) -> Iterator[tuple[str, str]]:
        """Yield the contents that are not *young*, each with its file."""
        latest = time.time() - young
        for folder in reported("looking at kept files", sorted(_listed(self.root / OBJECTS))):
            with suppress(OSError), os.scandir(folder) as entries:
                names = sorted(e.name for e in entries if _NAME.fullmatch(e.name))
                for name in names if len(folder.name) == 2 else ():
                    path = f"{folder}/{name}"
                    with suppress(OSError):
                        status = os.lstat(path)
                        # Each further link changes st_ctime, and may be of a driver that has not
                        # committed yet; st_mtime is that of the experiment's file.
                        if status.st_ctime <= latest and not stat.S_ISLNK(status.st_mode):
                            yield folder.name + name, path

    def abandoned(self, young: float = YOUNG_SECONDS) -> list[Path]:
        """Return the folders of attempts that were not recorded, and are not *young*."""
        latest = time.time() - young
        incoming = self.home / INCOMING
        if incoming.resolve() != self.home.resolve() / INCOMING:
            return []
        return [f for f in sorted(_listed(incoming)) if f.lstat().st_mtime <= latest]


def in_store(mode: int) -> str:
    """Return how a row names a file of the project's own store that had these permissions."""
    return f"{_MARK}{mode:o}"


def object_path(root: Path, sha256: str) -> Path:
    """Return where the store at *root* has a content; the name is refused that is no SHA-256."""
    if not _DIGEST.fullmatch(sha256):
        return root / OBJECTS / "00" / "no-such-content"
    return root / OBJECTS / sha256[:2] / sha256[2:]


def make_object_folder(path: Path) -> None:
    """Create the folder of a content in its store, which lies at STORE/objects/ab/REST."""
    make_folder(path.parents[3], *path.parts[-4:-1])


def is_inside(home: Path, path: Path) -> bool:
    """Return whether *path* is a file below *home*, and no link leads to it from there."""
    try:
        folder = home.resolve(strict=True) / path.parent.relative_to(home)
        return path.parent.resolve() == folder and stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def has_content(
    path: Path | str, size: int, sha256: str, step: Callable[[int], None] = lambda _bytes: None
) -> bool:
    """Return whether the file is there and its bytes are those that were recorded.

    *step* is called with the number of bytes of each read.
    """
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_size != size:
                return False
            content = hashlib.sha256()
            while piece := os.read(descriptor, min(size, _PIECE_BYTES)):
                content.update(piece)
                step(len(piece))
            return content.hexdigest() == sha256
        finally:
            os.close(descriptor)
    return False


def _open_below(home: Path, folder: str) -> int | None:
    """Return a descriptor of a folder below *home*; none where a link leads to it from there."""
    names = folder.removeprefix(f"{home}/").split("/")
    if ".." in names:
        return None
    descriptor = -1
    try:
        descriptor = os.open(home, DIRECTORY)
        for name in names:
            below = os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
    except OSError:
        if descriptor >= 0:
            os.close(descriptor)
        return None
    return descriptor


def _waiting_place(artifact: Artifact) -> tuple[str, str] | None:
    """Return the store in whose ``incoming`` a file waits, and the folder of its attempt there."""
    # Texts: there may be 100,000 files, and path objects cost twenty times as much.
    kept, below = str(artifact.kept), f"/{artifact.path}"
    if not kept.endswith(below):
        return None
    folder = kept.removesuffix(below)
    incoming = folder.rpartition("/")[0]
    if not incoming.endswith(f"/{INCOMING}"):
        return None
    return incoming.removesuffix(f"/{INCOMING.name}"), folder


def _with_artifacts(outcome: Outcome, change: Callable[[Artifact], Artifact]) -> Outcome:
    """Return *outcome* with its artifacts changed; itself, if it has none, as most outcomes."""
    artifacts = outcome.artifacts
    return replace(outcome, artifacts=tuple(map(change, artifacts))) if artifacts else outcome


def _link(artifact: Artifact, folders: set[str]) -> Artifact:
    """Return the same file as an object of its store; it stays in ``incoming``, too.

    *folders*: those of objects that are there.
    """
    place = _waiting_place(artifact)
    if place is None:
        return artifact
    return _linked(object_path(Path(place[0]), artifact.sha256), artifact, folders)


def _linked(target: Path, artifact: Artifact, folders: set[str]) -> Artifact:
    with _explained(target):
        folder = os.path.dirname(target)  # noqa: PTH120 - called often
        if folder not in folders:
            make_object_folder(target)
            folders.add(folder)
        # What a machine that lost its power left under this name need not be whole.
        if not has_content(target, artifact.size, artifact.sha256):
            draft = f"{folder}/.{secrets.token_hex(8)}"
            try:
                try:
                    os.link(artifact.kept, draft, follow_symlinks=False)
                except OSError:  # a file system without links
                    shutil.copyfile(artifact.kept, draft, follow_symlinks=False)
                    os.chmod(draft, 0o444)  # noqa: PTH101
                os.replace(draft, target)  # noqa: PTH105
            except BaseException:
                with suppress(OSError):
                    os.unlink(draft)  # noqa: PTH108
                raise
    return replace(artifact, kept=target)


def _locked(root: Path, *, shared: bool) -> FileLock:
    with _explained(root):
        make_folder(root.parent, root.name)
        return FileLock.acquire(root / "lock", shared=shared, mode=0o666)


@contextmanager
def _explained(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PlaceError(
            f"cannot keep artifacts: {error.filename or place}: {error.strerror}",
            hint="make room on the disk and run again: what was recorded is kept",
        ) from error


def _listed(folder: Path) -> list[Path]:
    try:
        return [Path(entry) for entry in os.scandir(folder) if not entry.is_symlink()]
    except OSError:
        return []
