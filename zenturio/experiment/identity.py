"""
What makes an experiment the same: a digest of all that could change what it does.

Covered are the files with their paths and executable bits, links with their texts, the commands to
the letter, the environment that the experiment sets, what USE declares, and the repeat number; not
covered are limits (TIMEOUT, RETRY, CPUS, MEMORY), metrics, empty folders, and the machine. Every
part is framed by its length, so that no two experiments can be read from the same bytes.

What is hashed says its format. Repositories hold digests, so that another format needs a way for
results of the one before: see ``former``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b

from zenturio.errors import SafetyError
from zenturio.experiment import file_trie
from zenturio.experiment.experiment import ExperimentFile, Step
from zenturio.experiment.file_trie import SIZE, FileKind, FileTrie

FORMAT = 2
"""The format of digests: grows with each change of what is hashed, and how."""
_DIGEST = re.compile(r"[0-9a-f]{32}")


def experiment_digest(
    files: Iterable[ExperimentFile],
    steps: Iterable[Step],
    environment: Mapping[str, str],
    repeat: int,
) -> str:
    """32 hexadecimal digits; *files* in any order."""
    records = (hashed_record(filed) for filed in files if filed.kind != "folder")
    return combined_digest(FileTrie(records).root(), steps, environment, repeat)


def checked_digest(text: str) -> str:
    """*text* if it is written as a digest: nothing else ever becomes a part of a path."""
    if _DIGEST.fullmatch(text) is None:
        raise SafetyError(f"{text!r} is no digest, and so no name of a folder or file")
    return text


def content_digest(content: bytes) -> bytes:
    """Of a file's bytes alone."""
    return blake2b(content, digest_size=SIZE).digest()


def content_hash() -> blake2b:
    """Return the hash behind ``content_digest``, for content that is read in pieces."""
    return blake2b(digest_size=SIZE)


def hashed_record(filed: ExperimentFile) -> bytes:
    """What a file adds: its path, its kind, and its content."""
    known = filed.digest
    content = bytes.fromhex(known) if known else content_digest(filed.content or b"")
    return file_trie.file_record(filed.path, kind_of(filed), content)


def kind_of(filed: ExperimentFile) -> FileKind:
    """What is hashed of a file's mode and kind: permissions but the executable bit are not."""
    return "link" if filed.kind == "link" else kind_of_mode(filed.mode)


def kind_of_mode(mode: int) -> FileKind:
    """The kind of a file with these permissions."""
    return "executable" if mode & 0o111 else "file"


@lru_cache(maxsize=4096)
def path_record(path: str, *, executable: bool) -> bytes:
    """What comes before the digest of the content in the digest of a part of a program."""
    return _framed(path.encode("utf-8", "surrogateescape")) + (b"x" if executable else b"-")


def combined_digest(
    files: bytes,
    steps: Iterable[Step],
    environment: Mapping[str, str],
    repeat: int,
    unseen: Mapping[str, str] = {},
    used: bytes = b"",
    version: int = FORMAT,
) -> str:
    """The experiment's digest from that of its files (the root of a ``FileTrie``) and all else.

    *unseen* are the parameters that neither a file nor the environment shows: those that only
    formulas use would not tell two points apart otherwise, and each point has its own outcome.
    *used* is what USE declares (``used_part``). *version* is the format.
    """
    commands = b"".join(
        [_framed(step.command.encode("utf-8", "surrogateescape")) for step in steps]
    )
    names = b"".join([_named(name, text) for name, text in sorted(environment.items())])
    parts = [b"zenturio experiment %d" % version, files, commands, names, b"%d" % repeat]
    if unseen:
        parts.append(b"".join([_named(name, text) for name, text in sorted(unseen.items())]))
    if used:
        parts.append(used)
    return framed_digest(parts)


def used_part(digests: Mapping[str, str]) -> bytes:
    """What is used besides files, by its declarations; no bytes for nothing.

    It begins with a letter, as no part of *unseen* does: these begin with a length.
    """
    named = b"".join([_named(name, digest) for name, digest in sorted(digests.items())])
    return b"used " + named if named else b""


def framed_digest(parts: Iterable[bytes]) -> str:
    """Of several parts, each framed by its length."""
    return blake2b(b"".join(map(_framed, parts)), digest_size=SIZE).hexdigest()


def _named(name: str, text: str) -> bytes:
    encoded = (part.encode("utf-8", "surrogateescape") for part in (name, text))
    return b"".join(map(_framed, encoded))


def _framed(part: bytes) -> bytes:
    return b"%d:" % len(part) + part
