"""What an application uses besides its files (USE), as identity counts it: by content.

A program and a file are read here, which executes nothing. What a version command prints is asked
by who runs experiments (``ask_versions``); all others take what was recorded then.
"""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from zenturio.annotate.commands import find_program
from zenturio.annotate.file_digests import FileDigests, read_facts, stamp_of
from zenturio.annotate.model import Application, Use
from zenturio.errors import InputError, PlaceError
from zenturio.experiment.identity import framed_digest

_ANSWER = 60.0
"""Seconds within which a version command answers."""
_LONGEST = 2**16
"""Bytes of an answer that are recorded; all of it counts."""
_UNKNOWN = "unknown"
"""The digest of a version that was never asked for."""


def used_digests(application: Application) -> dict[str, str]:
    """A digest of each thing that is used, by the words that declare it."""
    remembered = FileDigests(application.root, ("USE",))
    digests = {
        f"USE {use.kind.upper()} {use.text}": _digest(use, application, remembered)
        for use in application.uses
    }
    remembered.save()
    return dict(sorted(digests.items()))


def _digest(use: Use, application: Application, remembered: FileDigests) -> str:
    if use.kind == "version":
        output = application.versions.get(use.text)
        return (
            _UNKNOWN
            if output is None
            else framed_digest([output.encode("utf-8", "surrogateescape")])
        )
    if use.kind == "program":
        path = find_program(use.text, application.root)
        if path is None:
            raise InputError(
                f"there is no program {use.text!r}",
                place=use.place,
                hint="install it, correct its name, or extend PATH",
            )
        return file_digest(path, remembered)
    if use.text in application.recorded_uses:
        return application.recorded_uses[use.text]
    assert use.path is not None, "a file has a path"
    try:
        if use.path.is_dir():
            return _folder_digest(use.path, remembered)
        return file_digest(use.path, remembered)
    except OSError as error:
        raise InputError(
            f"{use.text} cannot be read: {error.strerror}",
            place=use.place,
            hint=f"paths begin at {use.base}",
        ) from error


def file_digest(path: Path, remembered: FileDigests | None = None) -> str:
    """Of the content of a file, read again only if it looks changed; OSError if it cannot be."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is neither a file nor a folder", str(path))
    key = str(path), stamp_of(status)
    digest = _recent.get(key)
    if digest is None:
        if remembered is None:
            facts = read_facts(str(path), follows_links=True)
        else:
            facts = remembered.facts(str(path), *key, follows_links=True)
        digest = facts.digest.hex()
        if len(_recent) >= _MOST_RECENT:
            _recent.clear()
        _recent[str(path), facts.stamp] = digest
    return digest


_recent: dict[tuple[str, bytes], str] = {}
"""Digests by path and stamp: a process asks several times, and what is young is not remembered."""
_MOST_RECENT = 4096


def _folder_digest(folder: Path, remembered: FileDigests | None = None) -> str:
    """Of all files below *folder*: their paths and contents; links count as what they say."""
    return framed_digest(_parts(folder, remembered))


def _parts(folder: Path, remembered: FileDigests | None) -> Iterator[bytes]:
    for above, folders, names in os.walk(folder):
        folders.sort()
        links = [name for name in folders if Path(above, name).is_symlink()]
        for name in sorted([*names, *links]):
            path = Path(above, name)
            yield os.fsencode(path.relative_to(folder))
            if path.is_symlink():
                yield b"link " + os.fsencode(os.readlink(path))  # noqa: PTH115 - the text itself
            elif path.is_file():
                yield file_digest(path, remembered).encode()


def recall_versions(application: Application, versions: Mapping[str, str]) -> Application:
    """*application* with what its version commands printed when they were asked last."""
    texts = {use.text for use in application.uses if use.kind == "version"}
    recalled = {text: output for text, output in versions.items() if text in texts}
    return replace(application, versions={**recalled, **application.versions})


def ask_versions(application: Application) -> Application:
    """*application* with what its version commands print now; each is asked once."""
    outputs = dict(application.versions)
    for use in application.uses:
        if use.kind == "version" and use.text not in outputs:
            outputs[use.text] = _answer(use, application.root)
    return replace(application, versions=outputs)


def _answer(use: Use, folder: Path) -> str:
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", use.text],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_ANSWER,
            check=False,
        )
    except subprocess.TimeoutExpired:
        reason = f"it takes longer than {_ANSWER:g} s"
    else:
        output = done.stdout.decode("utf-8", "backslashreplace").strip()
        if done.returncode == 0:
            # Only the start of a long answer is kept, so the digest of all of it is kept beside.
            whole = blake2b(done.stdout, digest_size=16).hexdigest()
            return output if len(output) <= _LONGEST else f"{output[:_LONGEST]}\n... {whole}"
        last = output.rpartition("\n")[2]
        reason = f"exit {done.returncode}{': ' + last if last else ''}"
    message = f"USE VERSION {use.text!r} cannot be asked: {reason}"
    raise PlaceError(message, place=use.place, hint="try the command by hand, or leave it out")
