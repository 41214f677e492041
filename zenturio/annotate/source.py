"""Source files with their text and dialect, and the digests of all files."""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import compress
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from zenturio.annotate.dialects import Dialect
from zenturio.errors import SafetyError
from zenturio.files import make_folder, open_regular
from zenturio.system.file_systems import file_system_kinds


def shown(text: str, dialect: Dialect, opener: str, closer: str) -> str:
    r"""*text* on one line; what would mean something in the comment is written as ``\x..``."""
    if text.isascii() and text.isalnum():
        return text
    text = "".join(c if c.isprintable() else _escaped(c) for c in text)
    for sequence in (closer, opener if closer else "", *dialect.fragile):
        if sequence:
            text = text.replace(sequence, sequence[:-1] + _escaped(sequence[-1]))
    # A comment of C, make or gnuplot goes on in the next line behind these two.
    if text.endswith(("\\", "??/")):
        text = text[:-1] + _escaped(text[-1])
    return text


def _escaped(character: str) -> str:
    r"""Return ``\n`` and its like, or the number of the character."""
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return named.get(character) or f"\\x{ord(character):02x}"


@dataclass(frozen=True, slots=True)
class Span:
    """One construct, from *start* to before *end*."""

    start: int
    end: int
    what: str
    comment: bool

    @property
    def is_string(self) -> bool:
        """Whether it is a text of one line or few: heredocs often are programs themselves."""
        return self.what in {"a string", "a character", "a regular expression"}


class SyntaxSpans:
    """The constructs of a text, asked by position; none if the dialect has no patterns."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self._spans = list(_spans(text, dialect))
        self._starts = [span.start for span in self._spans]

    def at(self, position: int) -> Span | None:
        """Return the construct that the character at *position* belongs to."""
        i = bisect_right(self._starts, position) - 1
        return self._spans[i] if i >= 0 and position < self._spans[i].end else None


def _spans(text: str, dialect: Dialect) -> Iterator[Span]:
    pattern = dialect.constructs
    if pattern is None:
        return
    # Line ends of one form, at the same positions, keep the patterns simple.
    text = text.replace("\\\r\n", " \\\n").replace("\r\n", " \n").replace("\r", "\n")
    position = 0
    while match := pattern.search(text, position):
        kind = match.lastgroup or ""
        what, nested = _meaning(kind, dialect)
        end = _end_of_nested(text, match.start(), nested) if nested else match.end()
        position = max(end, match.start() + 1)
        yield Span(match.start(), position, what, what.startswith("a comment"))


def _meaning(kind: str, dialect: Dialect) -> tuple[str, tuple[str, str] | None]:
    """What a group of the pattern is called, and what may nest in it."""
    number = int(kind[1:]) if kind[1:].isdigit() else 0
    match kind[0]:
        case "v":
            verbatim = dialect.verbatim[number]
            return verbatim.what, verbatim.nested
        case "b" if dialect.nested:
            opener, closer = dialect.block[number]
            return "a comment block", (re.escape(opener), re.escape(closer))
        case "b":
            return "a comment block", None
        case _:
            return "a comment", None


def _end_of_nested(text: str, start: int, nested: tuple[str, str]) -> int:
    """Return where the construct that begins at *start* ends, those within it counted."""
    opener, closer = nested
    depth = 0
    for match in re.compile(f"(?P<opener>{opener})|{closer}").finditer(text, start):
        depth += 1 if match["opener"] is not None else -1
        if depth == 0:
            return match.end()
    return len(text)


# Only these three end a line. str.splitlines also splits at form feeds, NEL and others, which
# compilers and editors do not count, so line numbers in diagnostics would be wrong.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_HEAD = 1 << 16


@dataclass(frozen=True)
class Source:
    """One file. Whatever its encoding, ``bom + encode(text)`` is its content to the byte."""

    path: Path
    text: str | None
    """None: the file is binary; it is copied, never scanned."""
    encoding: str = "utf-8"
    bom: bytes = b""
    mode: int = 0o644
    mtime: int | None = field(default=None, compare=False)
    """When it was last written, in nanoseconds since 1970; none if it is no file on a disk."""

    @staticmethod
    def read(path: Path) -> Source:
        """Return the file at *path*, with the mode bits that it has now."""
        # Not blocking: nobody may ever write into a pipe that lies in a folder.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "it is not a plain file", str(path))
            mode, mtime = stat.S_IMODE(status.st_mode), status.st_mtime_ns
            head = file.read(_HEAD)
            if _is_binary(head):
                return Source(path, None, "binary", mode=mode, mtime=mtime)
            return replace(Source.of(head + file.read(), path, mode), mtime=mtime)

    @staticmethod
    def of(content: bytes, path: Path = Path("<text>"), mode: int = 0o644) -> Source:
        """Return a file of this *content* that need not exist, unless it is binary."""
        for bom, encoding in _MARKS:
            text = _decoded(content[len(bom) :], encoding) if content.startswith(bom) else None
            if text is not None:
                return Source(path, text, encoding, bom, mode)
        if b"\0" in content:
            return Source(path, None, "binary", mode=mode)
        text = _decoded(content, "utf-8")
        if text is not None:
            return Source(path, text, mode=mode)
        return Source(path, content.decode("latin-1"), "latin-1", mode=mode)

    @property
    def content(self) -> bytes:
        """Its bytes; those of a binary are read when they are asked for, not kept in memory."""
        return self.path.read_bytes() if self.text is None else self.bom + self.encode(self.text)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        r"""Its lines with their ends (\n, \r\n or \r, the last one perhaps without)."""
        return split_lines(self.text or "")

    def encode(self, text: str) -> bytes:
        """*text* as bytes of this file, without a mark; UnicodeEncodeError if it cannot hold it."""
        return text.encode(self.encoding)


def split_lines(text: str) -> tuple[str, ...]:
    r"""Lines with their ends, split behind \n, \r\n and \r and nowhere else."""
    return tuple(_LINE.findall(text))


def without_end(line: str) -> str:
    """Return *line* without its line end."""
    return line.rstrip("\r\n")


def _decoded(content: bytes, encoding: str) -> str | None:
    """Return the text, or None if *content* is not text in *encoding*; NUL is in no text."""
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _is_binary(head: bytes) -> bool:
    """Return whether the first bytes already show it, so that a large file need not be read."""
    return b"\0" in head and not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


# Digests, remembered by stamps: a file that did not change is not read again
#
# A stamp is all that tells a change without reading: device, inode, size, both times and mode.
# Stamps with digests are kept for each application in the user's cache folder, never in the
# project: who hands over a project must not be able to say what its files hold.
#
# A file that was written just before it was read could be written again within one tick of the file
# system's clock, and look the same. Its digest is used now, and not remembered (as Git does).

PIECE_BYTES = 2**20
"""A file is read in pieces of this size, so memory does not grow with it."""
_STAMP = Struct("<QQqqqI")
STAMP_BYTES = _STAMP.size
_TABLE_HEAD = Struct("<QQ")
_MAGIC = b"zen-digests 1\n"
_DIGEST_BYTES = 16
_ATTEMPTS = 3
_YOUNG_NS = 2 * 10**9
"""A file changed so shortly before the scan is read again by the next one."""
_YOUNG_ELSEWHERE_NS = 10 * 10**9
"""The same on file systems whose times are coarse, or set by another machine's clock."""
_FINE_TIMES = frozenset(
    ("apfs", "bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs")
)
_WORTH_FILES, _WORTH_BYTES = 200, 2**22
"""Reading less than this again costs no more than to remember it."""
_UNUSED_SECONDS = 90 * 86400.0
"""The cached reading of an application is removed if it was not used for so long."""
_OVERLAP = 64
"""Bytes of a piece that are searched again with the next one, for a mark may lie across both."""
_MARK = re.compile(
    rb"(?i:zen)(?:[ \t]*\$|[&%#@\x80\xa4\xa7]|\xc2\xa7|\xe2\x82\xac|[ \t]+[A-Z])|\$[ \t]*ZEN"
)
"""What a directive begins with, and what is nearly that: in UTF-8 and the common 8-bit codes."""
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_HEAD_BYTES = 1 << 16


class FileFacts(NamedTuple):
    """What is known of a file's content."""

    stamp: bytes
    digest: bytes
    is_marked: bool
    """Whether it is text with something that may be a directive."""


def stamp_of(status: os.stat_result) -> bytes:
    """Return what would differ if the file had been changed."""
    return _STAMP.pack(
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_mode,
    )


def size_of(stamp: bytes) -> int:
    """Return the size of the file in bytes."""
    size: int = _STAMP.unpack(stamp)[2]
    return size


def mtime_of(stamp: bytes) -> int:
    """Return when the file was last modified, in nanoseconds since 1970."""
    mtime: int = _STAMP.unpack(stamp)[3]
    return mtime


def mode_of(stamp: bytes) -> int:
    """Return the permissions of the file."""
    mode: int = _STAMP.unpack(stamp)[5]
    return stat.S_IMODE(mode)


def read_facts(location: str, *, follows_links: bool = False) -> FileFacts:
    """Read the regular file *location* in pieces.

    OSError where it cannot be read, is no regular file, or changes each time that it is read.
    """
    # Not blocking: nobody may ever write into a pipe that lies in a folder.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follows_links else os.O_NOFOLLOW)
    for _ in range(_ATTEMPTS):
        descriptor = os.open(location, flags)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "it is not a plain file", location)
            stamp = stamp_of(status)
            digest, is_marked = _read_pieces(descriptor, status.st_size)
            if stamp_of(os.fstat(descriptor)) == stamp:
                return FileFacts(stamp, digest, is_marked)
        finally:
            os.close(descriptor)
    raise OSError(errno.EBUSY, "the file changes while it is read", location)


def _read_pieces(descriptor: int, size: int) -> tuple[bytes, bool]:
    """Return the digest of what *descriptor* has, and whether it is marked."""
    hashed = blake2b(digest_size=_DIGEST_BYTES)
    # One byte more than there should be: a file that is as long as it says needs no second call.
    piece = os.read(descriptor, min(PIECE_BYTES, size + 1))
    is_wide = piece.startswith(_WIDE)  # UTF-16 has NULs, and is decoded in any case
    is_text, is_marked, end, remaining = not is_wide, False, b"", size
    while piece:
        remaining -= len(piece)
        hashed.update(piece)
        is_text = is_text and b"\0" not in piece
        if is_text and not is_marked:
            searched = end + piece
            is_marked = b"zen" in searched.lower() and _MARK.search(searched) is not None
            end = piece[-_OVERLAP:]
        # No further than it was long: a file may grow as fast as it is read.
        piece = os.read(descriptor, min(PIECE_BYTES, remaining)) if remaining > 0 else b""
    return hashed.digest(), is_wide or (is_text and is_marked)


class FileDigests:
    """The digests of the files of one application, or of another set of files that is read often.

    *root* and *named* tell the set from others. Names of files in it are given by the caller.
    """

    def __init__(self, root: Path, named: Iterable[str] = (), *, began: int | None = None) -> None:
        self._path = _cache_path(root, named)
        self._began = time.time_ns() if began is None else began
        self._names: list[str] = []
        # In columns, as they are saved: what is read may be a hundred thousand files.
        self._stamps = bytearray()
        self._digests = bytearray()
        self._marks = bytearray()
        self._remembered = _load(self._path)
        self._place = 0
        self._read_bytes = 0
        self.read_count = 0
        """Files that were opened, for they were not known."""

    def facts(
        self, name: str, location: str, stamp: bytes, *, follows_links: bool = False
    ) -> FileFacts:
        """Return the facts of the file *name* with this *stamp*, read from *location* if need be.

        OSError as `read_facts` has it.
        """
        facts = self._remembered.facts(name, self._place, stamp)
        self._place += 1
        if facts is None:
            facts = read_facts(location, follows_links=follows_links)
            self.read_count += 1
            self._read_bytes += size_of(facts.stamp)
        self._names.append(name)
        self._stamps += facts.stamp
        self._digests += facts.digest
        self._marks.append(facts.is_marked)
        return facts

    def save(self) -> None:
        """Save the present reading; nothing is said where that is not possible."""
        is_worth = self.read_count >= _WORTH_FILES or self._read_bytes >= _WORTH_BYTES
        if self._path is None or not is_worth:
            return
        with suppress(OSError, SafetyError):
            _save(self._path, *self._believed())

    def _believed(self) -> tuple[list[str], *tuple[bytes | bytearray, ...]]:
        """What need not be read again, in columns: what was not changed just now."""
        old = [*self._old()]
        if all(old):
            return self._names, self._stamps, self._digests, self._marks
        columns = (self._stamps, STAMP_BYTES), (self._digests, _DIGEST_BYTES), (self._marks, 1)
        stamps, digests, marks = (
            b"".join([column[at * n : (at + 1) * n] for at, is_old in enumerate(old) if is_old])
            for column, n in columns
        )
        return [*compress(self._names, old)], stamps, digests, marks

    def _old(self) -> Iterator[bool]:
        """Yield whether each file was not changed just now."""
        young: dict[int, int] = {}
        for device, _, _, mtime, ctime, _ in _STAMP.iter_unpack(self._stamps):
            limit = young.get(device)
            if limit is None:
                limit = young[device] = self._began - _young_ns(device)
            # A time that has not come yet was set by hand, and says nothing.
            yield ctime <= limit and (
                mtime <= limit or mtime > time.time_ns() + _YOUNG_ELSEWHERE_NS
            )


class _Remembered:
    """What was saved, in columns: half a million Python objects would cost more than it saves."""

    def __init__(self, names: list[str], stamps: bytes, digests: bytes, marks: bytes) -> None:
        self._names, self._stamps = names, stamps
        self._digests, self._marks = digests, marks
        self._places: dict[str, int] | None = None

    def facts(self, name: str, place: int, stamp: bytes) -> FileFacts | None:
        """Return the facts of *name*, likely the one at *place*, if it has this *stamp* still."""
        names = self._names
        if place >= len(names) or names[place] != name:
            if self._places is None:
                self._places = {other: at for at, other in enumerate(names)}
            entry = self._places.get(name)
            if entry is None:
                return None
            place = entry
        at = place * _STAMP.size
        if self._stamps[at : at + _STAMP.size] != stamp:
            return None
        at = place * _DIGEST_BYTES
        return FileFacts(stamp, self._digests[at : at + _DIGEST_BYTES], self._marks[place] == 1)


def _cache_path(root: Path, named: Iterable[str]) -> Path | None:
    base = os.environ.get("XDG_CACHE_HOME") or ""
    try:
        home = Path(base) if base.startswith("/") else Path.home() / ".cache"
    except RuntimeError:  # a user without a home
        return None
    parts = [os.path.realpath(root), *named]
    key = blake2b("\0".join(parts).encode("utf-8", "surrogateescape"), digest_size=_DIGEST_BYTES)
    return home / "zenturio" / "digests" / key.hexdigest()


def _load(path: Path | None) -> _Remembered:
    """Return the saved reading in *path*; None if it is damaged, or not this user's."""
    try:
        if path is None:
            raise FileNotFoundError
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                raise PermissionError
            content = file.read()
        return _unpack(content)
    except (OSError, ValueError):
        return _Remembered([], b"", b"", b"")


def _unpack(content: bytes) -> _Remembered:
    start = len(_MAGIC) + _DIGEST_BYTES
    body = memoryview(content)[start:]
    if content[:start] != _MAGIC + blake2b(body, digest_size=_DIGEST_BYTES).digest():
        raise ValueError("damaged")
    count, length = _TABLE_HEAD.unpack(body[: _TABLE_HEAD.size])
    pieces, at = [], _TABLE_HEAD.size
    for size in (length, count * _STAMP.size, count * _DIGEST_BYTES, count):
        pieces.append(bytes(body[at : at + size]))
        at += size
    names = pieces[0].decode("utf-8", "surrogateescape").split("\0") if count else []
    if len(names) != count or at != len(body):
        raise ValueError("damaged")
    return _Remembered(names, *pieces[1:])


def _save(path: Path, names: list[str], *columns: bytes | bytearray) -> None:
    joined = "\0".join(names).encode("utf-8", "surrogateescape")
    body = b"".join([_TABLE_HEAD.pack(len(names), len(joined)), joined, *columns])
    folder = make_folder(path.parents[2], *path.parts[-3:-1], mode=0o700)
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        return
    _remove_unused(folder)
    descriptor, draft = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines([_MAGIC, blake2b(body, digest_size=_DIGEST_BYTES).digest(), body])
        os.replace(draft, path)  # noqa: PTH105
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)  # noqa: PTH108
        raise


def _remove_unused(folder: Path) -> None:
    """Remove old cached readings, and partial files of processes that died while saving."""
    limit = time.time() - _UNUSED_SECONDS
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.stat(follow_symlinks=False).st_mtime < limit:
                os.unlink(entry.path)  # noqa: PTH108


def _young_ns(device: int) -> int:
    """Return how young a file is whose next change might not show in its times."""
    kind = file_system_kinds().get(device, "")
    return _YOUNG_NS if kind in _FINE_TIMES else _YOUNG_ELSEWHERE_NS
