"""Whose files are believed, and what of a project's settings may be executed.

Two questions, asked in this order:

* **Does somebody else control this file?** Settings, modules and project folders must belong to the
  caller (or to root), and nobody else may be able to write to them. Groups and folders that the
  user shares on purpose are listed in ``trust.toml`` in the user's configuration folder::

      groups = ["lab"]
      folders = ["/srv/projects/mesh"]

* **Has the user agreed to execute it?** A project that was copied or received may bring shell text
  in zenturio.toml or hosts.toml, and a ``.zenturio`` with the options of earlier runs. Before such
  text is executed the user is asked once; the answer is kept under the hash of the text, in
  ``trusted`` beside trust.toml. ``ZENTURIO_TRUST=1`` (or ``--trust``) agrees without a question.

This module executes nothing and knows no settings: callers hand over what would be executed.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import stat
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from zenturio.errors import PlaceError, SafetyError

_log = logging.getLogger(__name__)
VARIABLE = "ZENTURIO_TRUST"
_ID = "trust-id"
_WRITTEN = ("zenturio.db", "work", "store", "builds")
"""What each run writes to."""
_MOST_SHOWN = 2000
"""Characters of one text that the question shows; the hash covers all of it."""


@dataclass(frozen=True)
class _Shared:
    """What the user's trust.toml lists."""

    groups: frozenset[int] = frozenset()
    folders: tuple[Path, ...] = ()


def config_folder() -> Path:
    """Return the user's configuration folder of zenturio, which need not be there."""
    base = os.environ.get("XDG_CONFIG_HOME") or ""
    return (Path(base) if base.startswith("/") else Path.home() / ".config") / "zenturio"


def is_own(folder: Path) -> bool:
    """Return whether the caller, or a group or folder that the caller listed, owns *folder*."""
    try:
        return _belongs(folder.stat(), folder, root=False)
    except OSError:
        return False


def is_open_to_all(folder: Path) -> bool:
    """Return whether everybody may put something into *folder*, as into /tmp."""
    needed = stat.S_ISVTX | stat.S_IWOTH
    return folder.stat().st_mode & needed == needed


def check_owner(path: Path, what: str) -> None:
    """SafetyError if another user owns *path* or can write to it; *what* describes it in messages.

    A file that is not there passes. A symbolic link is judged by what it leads to, and must
    belong to a trusted user itself.
    """
    try:
        stats = (path.lstat(), path.stat())
    except OSError:
        return
    for status in stats:
        if not _belongs(status, path, root=True):
            raise SafetyError(
                f"{path}: this {what} belongs to {user_name(status.st_uid)}, not to you",
                hint=_hint(path),
            )
    reason = _writable_by(stats[1], path)
    if reason:
        raise SafetyError(
            f"{path}: this {what} can be changed by {reason}",
            hint=f"chmod go-w {path}, or {_hint(path)}",
        )


def is_writable_by_others(path: Path) -> bool:
    """Whether users other than this one and root can write to the file *path*, or replace it."""
    for part in (path, path.parent):
        status = part.stat()
        if status.st_uid not in (0, os.geteuid()):
            return True
        is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
        if status.st_mode & stat.S_IWOTH and not is_sticky:
            return True
        if status.st_mode & stat.S_IWGRP and not is_sticky and not _is_private(status.st_gid):
            return True
    return False


def check_home(folder: Path) -> None:
    """SafetyError if another user could control a project begun in *folder*.

    Who owns a folder can rename what lies in it while it is used; a sticky folder, as /tmp is,
    protects from others than its owner.
    """
    status = folder.stat()
    if not _belongs(status, folder, root=True):
        raise SafetyError(
            f"{folder} belongs to {user_name(status.st_uid)}, who could replace what is run there",
            hint=f"run in a folder of your own, or {_hint(folder)}",
        )
    reason = "" if status.st_mode & stat.S_ISVTX else _writable_by(status, folder)
    if reason:
        raise SafetyError(
            f"{folder} can be changed by {reason}, who could replace what is run there",
            hint=f"chmod go-w {folder}, or {_hint(folder)}",
        )


def begin(folder: Path) -> None:
    """Create the project's data folder *folder* and remember it as the user's own.

    One that holds something stays as it is. SafetyError if another user could control it.
    """
    if not folder.exists():
        check_home(next(parent for parent in folder.absolute().parents if parent.exists()))
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PlaceError(
                f"cannot create {folder}: {error.strerror or error}",
                hint="name a folder of your own: zen run --work DIR, or ZENTURIO_WORK=DIR",
            ) from error
    elif not _is_empty(folder):
        _check_writable(folder)
        return
    _remember(_project_key(folder))


def _check_writable(folder: Path) -> None:
    """PlaceError where a project's data cannot be written to, as after a run of root's."""
    for path in (folder, *(folder / name for name in _WRITTEN)):
        if not path.exists() or os.access(path, os.W_OK):
            continue
        hint = "name a folder of your own: zen run --work DIR, or ZENTURIO_WORK=DIR"
        if (owner := path.lstat().st_uid) != os.geteuid():
            own = f"chown -R {user_name(os.geteuid())} {folder}"
            hint = f"let {user_name(owner)} give it back: {own}; or {hint}"
        raise PlaceError(f"cannot write to {path}, which belongs to {user_name(owner)}", hint=hint)


def _is_empty(folder: Path) -> bool:
    return all(path.name == _ID for path in folder.iterdir())


def require(folder: Path, texts: Mapping[str, str]) -> None:
    """Return if *texts* may be executed for the project that keeps its data in *folder*.

    *texts* are shell text and modules of settings by where they stand (``zenturio.toml
    [places.local] prolog``). *folder* is the project's ``.zenturio``; one that is not there is
    created and remembered as the user's own. SafetyError where the user says no, or cannot be
    asked because there is no terminal.
    """
    begin(folder)
    questions = {} if _is_remembered(_project_key(folder)) else _about_folder(folder)
    key = _hash_of("texts", texts)
    if texts and not _is_remembered(key):
        questions |= texts
    if questions:
        _ask("execute", questions)
    _remember(_project_key(folder))
    if texts:
        _remember(key)


def require_reading(files: Mapping[str, str]) -> None:
    """Return if the user lets a program read *files* of others' folders, by where it names them.

    SafetyError as of ``require``; nothing is created for a project.
    """
    key = _hash_of("files", files)
    if files and not _is_remembered(key):
        _ask("read", files)
        _remember(key)


def _ask(verb: str, questions: Mapping[str, str]) -> None:
    """Return if the user agrees to *questions* in the environment or on the terminal."""
    unasked = os.environ.get(VARIABLE) == "1"
    agreed = unasked or _agrees(verb, questions)
    how = f"agreed by {VARIABLE}" if unasked else "agreed" if agreed else "not agreed"
    for where in questions:
        _log.info("%s %s: %s", verb, where, how)
    if not agreed:
        raise SafetyError(
            f"this project would {verb} what you have not agreed to yet:\n"
            + "\n".join(_shown(questions)),
            hint=f"look at it; then run the command in a terminal and answer, or with --trust "
            f"(or {VARIABLE}=1 in the environment)",
        )


@cache
def user_key() -> bytes:
    """Return 32 secret bytes of this user, by which files that zenturio made are told from others.

    Where they cannot be kept they hold for this process alone: what earlier ones made is made anew.
    """
    path = config_folder() / "key"
    flags = os.O_NOFOLLOW | os.O_CLOEXEC
    for _ in range(2):
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY | flags)
            with os.fdopen(handle, "rb") as file:
                status = os.fstat(handle)
                key = file.read(33)
            if len(key) == 32 and status.st_uid == os.geteuid() and not status.st_mode & 0o077:
                return key
            path.unlink()  # cut short, or not ours alone: a new one
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Written beside and linked: of two programs that begin at once, one key remains.
            draft = path.with_name(f".key-{secrets.token_hex(8)}")
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | flags, 0o600)
            with os.fdopen(handle, "wb") as new:
                new.write(secrets.token_bytes(32))
            try:
                path.hardlink_to(draft)
            finally:
                draft.unlink()
    return secrets.token_bytes(32)


def _about_folder(folder: Path) -> dict[str, str]:
    """What to ask about a project folder that this user did not create."""
    if not _can_remember() or _is_empty(folder):
        # Without a place for answers every run would be refused; and the owner has been checked.
        return {}
    return {str(folder): "results, builds and the options of runs that you did not make here"}


def _project_key(folder: Path) -> str:
    """Return the key of a project: a random name stored in it, which moves with it."""
    path = folder / _ID
    # Whoever made the folder may have put a link or a pipe here.
    safely = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, os.O_RDONLY | safely)
    except OSError:
        name = secrets.token_hex(16)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | safely, 0o644)
        except OSError:
            return ""
        with os.fdopen(handle, "w") as file:
            file.write(f"{name}\n")
    else:
        with os.fdopen(handle, "rb") as existing:
            name = existing.read(64).decode("ascii", "replace").strip()
    return _hash("project", name)


def _hash_of(kind: str, texts: Mapping[str, str]) -> str:
    return _hash(kind, *(part for pair in sorted(texts.items()) for part in pair))


def _hash(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        piece = part.encode("utf-8", "surrogateescape")
        digest.update(len(piece).to_bytes(8, "big") + piece)
    return digest.hexdigest()


def _is_remembered(key: str) -> bool:
    path = config_folder() / "trusted"
    try:
        check_owner(path, "list of answers")
        return bool(key) and key in path.read_text("ascii").split()
    except (OSError, ValueError):
        return False


def _remember(key: str) -> None:
    if not key or _is_remembered(key) or not _can_remember():
        return
    # One short write to a file that is opened for appending: two programs at once lose nothing.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    handle = os.open(config_folder() / "trusted", flags, 0o600)
    _log.debug("remembering an answer: %s", key[:8])
    try:
        os.write(handle, f"{key}\n".encode("ascii"))
    finally:
        os.close(handle)


def _can_remember() -> bool:
    folder = config_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _agrees(verb: str, questions: Mapping[str, str]) -> bool:
    """Ask on the terminal; false where there is none."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    lines = [f"This project would {verb} what you have not agreed to yet:", *_shown(questions)]
    sys.stderr.write("\n".join(lines) + f"\n{verb.capitalize()} it, now and later? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _shown(questions: Mapping[str, str]) -> list[str]:
    """Return the texts as lines in which nothing can steer the terminal."""
    shown = []
    for where, text in questions.items():
        cut_note = "" if len(text) <= _MOST_SHOWN else f" ... ({len(text):,} characters)"
        shown.append(f"  {_plain(where)}:")
        shown += [f"    {_plain(line)}" for line in (text[:_MOST_SHOWN] + cut_note).splitlines()]
    return shown


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def _belongs(status: os.stat_result, path: Path, *, root: bool) -> bool:
    own = {os.geteuid()} | ({0} if root else set())
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdigit():
        own.add(int(os.environ["SUDO_UID"]))  # as Git does: sudo in one's own folder
    return status.st_uid in own or status.st_gid in _shared().groups or _is_listed(path)


def _is_listed(path: Path) -> bool:
    whole = path.absolute()
    return any(whole.is_relative_to(folder) for folder in _shared().folders)


def _writable_by(status: os.stat_result, path: Path) -> str:
    """Who else can write, in words; empty if nobody can."""
    if stat.S_ISLNK(status.st_mode) or _is_listed(path):
        return ""
    if status.st_mode & stat.S_IWOTH:
        return "everybody on this machine"
    if not status.st_mode & stat.S_IWGRP or status.st_gid in _shared().groups:
        return ""
    return "" if _is_private(status.st_gid) else f"the group {_group(status.st_gid)}"


def _is_private(group: int) -> bool:
    """Whether the caller alone is in *group*: many systems give each user a group of their own."""
    import grp  # noqa: PLC0415 - only files that a group can write to need it
    import pwd  # noqa: PLC0415

    try:
        user = pwd.getpwuid(os.geteuid())
        members = grp.getgrgid(group).gr_mem
    except KeyError:
        return False
    return group == user.pw_gid and set(members) <= {user.pw_name}


def _hint(path: Path) -> str:
    folder = path.absolute() if path.is_dir() else path.absolute().parent
    return (
        f'list what you share in {config_folder() / "trust.toml"}: groups = ["GROUP"] or '
        f'folders = ["{folder}"]'
    )


@cache
def _shared_of(path: Path, changed: int) -> _Shared:
    del changed  # a part of the key: the file is read again after an edit
    import grp  # noqa: PLC0415 - most users have no such file

    try:
        content = tomllib.loads(path.read_text("utf-8"))
        groups = [grp.getgrnam(name).gr_gid for name in content.get("groups", [])]
        folders = tuple(Path(name).expanduser().absolute() for name in content.get("folders", []))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SafetyError(
            f"{path} cannot be read: {error}",
            hint='it holds groups = ["lab"] and folders = ["/srv/project"]',
        ) from error
    return _Shared(frozenset(groups), folders)


def _shared() -> _Shared:
    path = config_folder() / "trust.toml"
    try:
        status = path.stat()
    except OSError:
        return _Shared()
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
        raise SafetyError(f"{path} can be changed by others", hint=f"chmod 600 {path}")
    return _shared_of(path, status.st_mtime_ns)


def user_name(number: int) -> str:
    """Return what the operating system calls the user of that number; the environment may lie."""
    import pwd  # noqa: PLC0415 - few commands need it

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _group(number: int) -> str:
    import grp  # noqa: PLC0415 - for messages alone

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
