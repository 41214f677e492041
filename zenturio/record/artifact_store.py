"""The files of artifacts, named by their content.

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
from pathlib import Path

from zenturio.errors import PlaceError
from zenturio.experiment.experiment import INCOMING, Artifact, Outcome
from zenturio.failpoints import Failpoint
from zenturio.files import FileLock, make_folder, refuse_link
from zenturio.system.file_systems import sync_files

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
        folders = (self.root / OBJECTS, self.home / "outputs")
        return any(path.is_relative_to(f) for f in folders) and is_inside(self.home, path)

    def content_of(self, path: Path) -> str | None:
        """Return the SHA-256 that the name of a file in the store is; none of other files."""
        sha256 = path.parent.name + path.name
        return sha256 if path == object_path(self.root, sha256) else None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep others from publishing. A store that is a link holds no file that may be removed."""
        needs_lock = self.home.is_dir() and not self.root.is_symlink()
        with _locked(self.root, shared=False) if needs_lock else ExitStack():
            yield

    def remove(self, paths: Iterable[Path]) -> tuple[Path, ...]:
        """Remove files of this project, and says which; all others stay. Within ``alone``."""
        removed = []
        for path in paths:
            if self.owns(path):
                with suppress(OSError):
                    path.unlink()
                    removed.append(path)
                    REMOVED()
                self._remove_empty(path.parent)
        return tuple(removed)

    def _remove_empty(self, folder: Path) -> None:
        with suppress(OSError):
            while folder not in (self.home, self.root, *self.root.iterdir()):
                folder.rmdir()
                folder = folder.parent

    def objects(self, young: float = YOUNG_SECONDS) -> Iterator[tuple[str, Path]]:
        """Yield the contents that are not *young*, each with its file."""
        latest = time.time() - young
        for folder in sorted(_listed(self.root / OBJECTS)):
            for path in sorted(_listed(folder)) if len(folder.name) == 2 else ():
                with suppress(OSError):
                    if _NAME.fullmatch(path.name) and path.lstat().st_ctime <= latest:
                        yield folder.name + path.name, path

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
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
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


def has_content(path: Path, size: int, sha256: str) -> bool:
    """Return whether the file is there and its bytes are those that were recorded."""
    with suppress(OSError), path.open("rb") as file:
        return (
            os.fstat(file.fileno()).st_size == size
            and hashlib.file_digest(file, "sha256").hexdigest() == sha256
        )
    return False


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
