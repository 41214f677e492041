"""What makes an experiment the same: a digest of all that could change what it does.

Covered are the files with their paths and executable bits, links with their texts, the commands to
the letter, the environment that the experiment sets, what USE declares, and the repeat number; not
covered are limits (TIMEOUT, RETRY, CPUS, MEMORY), metrics, empty folders, and the machine. Every
part is framed by its length, so that no two experiments can be read from the same bytes.

The digest of the files is the root of a trie over the hashes of their paths (``FileTrie``): a node
has 16 children, one for each hexadecimal digit, and up to 16 files stand in one leaf. The trie is
the same for the same files, whatever their order. What never changes is hashed once; a point costs
the ways from its own files to the root.

The key of a point (``PointKeys``) has 128 bits of the names and texts of its values. Beside the
digest of everything else (``ProgramIdentity``) it names an experiment without filling a file. It
is a sum, so that the keys of a whole table of points are a look-up and an addition for each column.

Format 1 hashed the records of all files in their order, and followed symbolic links. A repository
holds digests and cannot compute another format from them, for it never had the files. The program
can, while it is what it was then: so each experiment whose digest is not known is looked up by its
former digest as well (``Format1Files``), and the result takes the present one.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import Literal

from zenturio.annotate.commands import find_program
from zenturio.annotate.model import Application, Use
from zenturio.annotate.source import FileDigests, read_facts, stamp_of
from zenturio.errors import InputError, PlaceError, SafetyError
from zenturio.experiment.experiment import ExperimentFile, Step

SIZE = 16
"""Bytes of a hash."""
LEAF = 16
"""Files that stand in one leaf at the most."""
CHILDREN = 16
_DEPTH = 2 * SIZE
"""Digits of a hash: below the last one nothing can be told apart."""
_EMPTY = bytes(SIZE)

FileKind = Literal["file", "executable", "link"]
_KINDS: dict[FileKind, bytes] = {"file": b"-", "executable": b"x", "link": b"l"}


@lru_cache(maxsize=4096)
def path_hash(path: str) -> bytes:
    """Return where a file stands in the trie."""
    return _hash(path.encode("utf-8", "surrogateescape"))


def file_record(path: str, kind: FileKind, content: bytes) -> bytes:
    """What a file adds, always of the same length; *content* is the digest of its content."""
    return path_hash(path) + _KINDS[kind] + content


class FileTrie:
    """The files of an application: those that never change, and room for those that are filled."""

    def __init__(self, constants: Iterable[bytes], filled: Sequence[str] = ()) -> None:
        """*constants* are records; *filled* are paths, whose records come with each point."""
        numbers = {path_hash(path): at for at, path in enumerate(filled)}
        self._root = _built(sorted([*constants, *numbers]), numbers, 0)

    def root(self, filled: Sequence[bytes] = ()) -> bytes:
        """The digest of all files, with the records of those that were filled in their order."""
        return self._root if isinstance(self._root, bytes) else self._root.digest(filled)


class _TrieNode:
    """A leaf or a node with something in it that is filled."""

    __slots__ = ("_below", "_pieces", "_slots")

    def __init__(
        self,
        mark: bytes,
        pieces: Sequence[bytes],
        slots: Sequence[tuple[int, int]],
        below: Sequence[tuple[int, _TrieNode]] = (),
    ) -> None:
        self._pieces = [mark, *pieces]
        self._slots = [(place + 1, number) for place, number in slots]
        self._below = [(place + 1, part) for place, part in below]

    def digest(self, filled: Sequence[bytes]) -> bytes:
        pieces = self._pieces.copy()
        for place, number in self._slots:
            pieces[place] = filled[number]
        for place, part in self._below:
            pieces[place] = part.digest(filled)
        return _hash(b"".join(pieces))


def _built(entries: Sequence[bytes], numbers: Mapping[bytes, int], depth: int) -> bytes | _TrieNode:
    """Return the trie of *entries*, which are sorted and agree in the first *depth* digits.

    These are records, which begin with the hash of a path, and such hashes alone of files that are
    filled: *numbers* are theirs.
    """
    # At the last digit all hashes are equal: the files must share a leaf, however many they are.
    if len(entries) <= LEAF or depth == _DEPTH:
        slots = [(at, numbers[entry]) for at, entry in enumerate(entries) if len(entry) == SIZE]
        part = _TrieNode(b"leaf", entries, slots)  # what is filled takes the place of its hash
        return part if slots else part.digest(())
    groups: list[list[bytes]] = [[] for _ in range(CHILDREN)]
    for entry in entries:
        groups[_digit(entry, depth)].append(entry)
    children = [_built(group, numbers, depth + 1) if group else _EMPTY for group in groups]
    below = [(at, child) for at, child in enumerate(children) if isinstance(child, _TrieNode)]
    pieces = [child if isinstance(child, bytes) else b"" for child in children]
    part = _TrieNode(b"node", pieces, (), below)
    return part if below else part.digest(())


def _digit(key: bytes, depth: int) -> int:
    byte = key[depth // 2]
    return byte & 15 if depth % 2 else byte >> 4


def _hash(content: bytes) -> bytes:
    return blake2b(content, digest_size=SIZE).digest()


_HALVES = Struct(">QQ")
_MASK = 2**64 - 1
_REMEMBERED = 2**14
Term = tuple[int, int]


class PointKeys:
    """Makes keys; the terms of values that come again are remembered."""

    def __init__(self) -> None:
        self._terms: dict[tuple[str, str | None], Term] = {}

    def sum(self, texts: Mapping[str, str | None]) -> Term:
        """The sum of the terms of *texts* by name; None is the text of an inactive parameter."""
        first = second = 0
        for pair in texts.items():
            term = self._terms.get(pair) or self._remember(pair)
            first += term[0]
            second += term[1]
        return first & _MASK, second & _MASK

    def key(self, point: Term, repeat: int, seeds: Mapping[str, str]) -> bytes:
        """Return the key of one repeat of a point, whose own terms add up to *point*."""
        first, second = self.sum({"": str(repeat), **seeds})
        return _HALVES.pack((point[0] + first) & _MASK, (point[1] + second) & _MASK)

    def _remember(self, pair: tuple[str, str | None]) -> Term:
        # Cleared as a whole: values of a sweep come again soon or never, an LRU would cost more
        # than it saves.
        if len(self._terms) >= _REMEMBERED:
            self._terms.clear()
        term = self._terms[pair] = value_term(*pair)
        return term


def value_term(name: str, text: str | None) -> Term:
    """Return the term of a value in the sum: the two halves of a hash of its name and text."""
    encoded = [part.encode("utf-8", "surrogateescape") for part in (name, text) if part is not None]
    framed = b"".join(b"%d:%b" % (len(part), part) for part in encoded)
    first, second = _HALVES.unpack(blake2b(framed, digest_size=16).digest())
    return first, second


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
    """Return *text* if it is written as a digest: nothing else ever becomes a part of a path."""
    if _DIGEST.fullmatch(text) is None:
        raise SafetyError(f"{text!r} is not a digest, so it names no folder or file")
    return text


def content_digest(content: bytes) -> bytes:
    """Return the digest of a file's bytes only."""
    return blake2b(content, digest_size=SIZE).digest()


def content_hash() -> blake2b:
    """Return the hash behind ``content_digest``, for content that is read in pieces."""
    return blake2b(digest_size=SIZE)


def hashed_record(filed: ExperimentFile) -> bytes:
    """What a file adds: its path, its kind, and its content."""
    digest = filed.digest
    content = bytes.fromhex(digest) if digest else content_digest(filed.content or b"")
    return file_record(filed.path, kind_of(filed), content)


def kind_of(filed: ExperimentFile) -> FileKind:
    """What is hashed of a file's mode and kind: permissions but the executable bit are not."""
    return kind_of_mode(filed.mode)


def kind_of_mode(mode: int) -> FileKind:
    """Return the kind of a file with these permissions, or of a link."""
    if stat.S_ISLNK(mode):
        return "link"
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
    # Each part is framed by its length: "ab", "c" and "a", "bc" must not hash alike.
    commands = b"".join(
        [_framed(step.command.encode("utf-8", "surrogateescape")) for step in steps]
    )
    # Sorted, for the order in which variables are declared changes nothing.
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
    """Return the digest of several parts, each framed by its length."""
    return blake2b(b"".join(map(_framed, parts)), digest_size=SIZE).hexdigest()


def _named(name: str, text: str) -> bytes:
    encoded = (part.encode("utf-8", "surrogateescape") for part in (name, text))
    return b"".join(map(_framed, encoded))


def _framed(part: bytes) -> bytes:
    return b"%d:" % len(part) + part


FORMER_FORMAT = 1

Hashed = tuple[str, int, bytes]
"""A file as format 1 knew it: path, mode, digest of the content."""


class Format1Files:
    """The files of a program as format 1 hashed them."""

    def __init__(self, constants: Iterable[Hashed]) -> None:
        self._records = [_record(*file) for file in constants]

    def digest(self, filled: Iterable[Hashed]) -> bytes:
        """Return the digest of all files, with those that were *filled*."""
        return content_digest(b"".join(sorted([*self._records, *(_record(*f) for f in filled)])))


def _record(path: str, mode: int, content: bytes) -> bytes:
    return path_record(path, executable=kind_of_mode(mode) == "executable") + content


# Used inputs (USE): counted by their content
#
# A program and a file are read here, which executes nothing. What a version command prints is asked
# by who runs experiments (``ask_versions``); all others take what was recorded then.

_ANSWER = 60.0
"""Seconds within which a version command answers."""
_LONGEST = 2**16
"""Bytes of an answer that are recorded; all of it counts."""
_UNKNOWN = "unknown"
"""The digest of a version that was never determined."""


def used_digests(application: Application) -> dict[str, str]:
    """Return a digest of each thing that is used, by the words that declare it."""
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
    """Return the digest of a file's content, read again only if its stamp has changed; OSError."""
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
    """Return the digest of all files below *folder*: paths and contents; links by their texts."""
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
    """Return *application* with the last output of its version commands."""
    texts = {use.text for use in application.uses if use.kind == "version"}
    recalled = {text: output for text, output in versions.items() if text in texts}
    return replace(application, versions={**recalled, **application.versions})


def ask_versions(application: Application) -> Application:
    """Return *application* with what its version commands print now; each is asked once."""
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
