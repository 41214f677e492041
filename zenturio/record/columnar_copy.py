"""A columnar copy of the results of a version, for questions that read all of them.

A database reads a row to look at one of its values. The copy has an array for each column, so that
groups, orders and aggregates of ten million results take tenths of a second. It lies in the user's
cache folder, never in the project, and nothing needs it: whoever asks goes to the database where
there is no copy, or where it lacks a column.

It is never stale. Before it is used, the database is asked, in the snapshot of the question itself:
for the changes in place since (``edits``), for the counters, which must be as many as the copy has
rows, and for the last row of each segment, which a restored backup would not have. Segments that
changed are read again; rows that came are added.

Segments hold the results in the order of their numbers. Parameters and texts are codes of a
dictionary, which only grows; metrics are as they are. A file that is damaged, or is another
person's, is not believed: the copy is made anew.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import shutil
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from zenturio.errors import SafetyError
from zenturio.files import make_folder, open_regular, read_regular, replace_whole
from zenturio.log_setup import work_progress
from zenturio.record.codec import Form
from zenturio.record.entities import REDACTION_EVENT
from zenturio.record.field_layout import StoredField
from zenturio.record.sql_names import DialectName
from zenturio.trust import check_owner

_log = logging.getLogger(__name__)

COPY_ROWS = 1_000_000
"""Results from which on a copy is made: measured in decisions/columnar-copy.md."""
SEGMENT_ROWS = 65_536
MOST_VALUES = 30_000
"""Different values of a column that are numbered; their codes take two bytes."""
ROWS_AT_ONCE = 1 << 14
"""Rows whose arrays fit the processor's cache, and are not handed back to the system each time."""
UNUSED_SECONDS = 30 * 86_400.0
"""Seconds after which an unused copy of a study is removed."""
_FORMAT = 3
_LARGEST_MANIFEST = 64_000_000
_EXACT = 2**53

Array = np.ndarray[Any, Any]
Fetch = Callable[[str], Sequence[Sequence[Any]]]
"""Returns what a query answers, in the snapshot of the question."""
Kind = Literal["int", "real", "str", "bool"]

FACTS: dict[str, tuple[str, Kind]] = {
    "number": ("e.id", "int"),
    "position": ("e.position", "int"),
    "repeat": ("e.repeat", "int"),
    "round": ("e.round", "int"),
    "machine": ("e.machine", "int"),
    "host": ("e.host", "int"),
    "newest": ("e.newest", "int"),
    "status": ("e.status", "str"),
}
"""What the copy has of each result, beside its fields."""
_POSITION = "CASE WHEN e.position < 9e18 THEN e.position::bigint END"
"""What PostgreSQL has as a decimal of any size."""
_KINDS: dict[Form, Kind] = {
    Form.REAL: "real",
    Form.INTEGER: "int",
    Form.REAL | Form.INTEGER: "real",
    Form.TEXT: "str",
    Form.TRUTH: "bool",
}

_TYPES: dict[Kind, set[type]] = {
    "real": {float, int}, "int": {int}, "str": {str}, "bool": {int, bool},
}  # fmt: skip
"""Of what types the values are that a database answers with."""


class NotInCopyError(Exception):
    """The copy lacks a requested column: the database does."""


def row_parts(length: int, least: int = 0) -> Iterator[slice]:
    """Yield slices of rows, each of `ROWS_AT_ONCE`, or of *least* where these are more."""
    step = max(ROWS_AT_ONCE, least)
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))


def look_up(table: Array, codes: Array) -> Array:
    """``table[codes]``, some rows at a time: as a whole it takes eight bytes more for each row."""
    answers = np.empty(len(codes), dtype=table.dtype)
    for part in row_parts(len(codes)):
        answers[part] = table[codes[part]]
    return answers


@dataclass(frozen=True)
class CopiedField:
    """A column of the copy."""

    key: str
    """A fact, or the role and the name of a field."""
    sql: str
    kind: Kind
    is_coded: bool
    """Whether its values are numbered while they are few."""
    is_mixed: bool = False
    """Whether integers are among its reals: which of two equal ones stands for both is open."""


def copied_fields(dialect: DialectName, fields: Sequence[StoredField]) -> list[CopiedField]:
    """Return the columns of a copy: the facts, and the fields whose values are all of one kind."""
    facts = FACTS if dialect == "sqlite" else FACTS | {"position": (_POSITION, "int")}
    columns = [
        CopiedField(name, text, kind, is_coded=name not in ("number", "position"))
        for name, (text, kind) in facts.items()
    ]
    for stored in fields:
        kind = _KINDS.get(stored.forms)
        if kind is None or stored.place.chunk is not None:
            continue
        letters = "v" if dialect == "sqlite" else {"str": "t", "int": "i", "bool": "i"}.get(kind)
        slots = [stored.place.slot(letter) for letter in letters or "ri"]
        parts = [f"e.{slot}" for slot in slots if slot]
        if not parts or (stored.forms == Form.REAL | Form.INTEGER and len(parts) < len(slots)):
            continue
        columns.append(
            CopiedField(
                f"{stored.role}:{stored.field.name}",
                parts[0] if len(parts) == 1 else f"coalesce({', '.join(parts)}::double precision)",
                kind,
                stored.role == "parameter" or kind in ("str", "bool"),
                stored.forms == Form.REAL | Form.INTEGER,
            )
        )
    return columns


@dataclass(frozen=True)
class CopiedColumn:
    """The values of a column in all rows of the copy."""

    field: CopiedField
    data: Array
    """Values, NaN where a real is NULL; or places in *values*, -1 where there is none."""
    values: tuple[Any, ...] | None
    """The values of the codes; none where the data are the values themselves."""
    nulls: Array | None
    """Where an integer is NULL; none where none is."""

    def reals(self) -> Array:
        """The values as reals, NaN where there is none; NotInCopyError where that is not exact."""
        if self.field.kind in ("str", "bool"):
            raise NotInCopyError(self.field.key)
        if self.values is not None:
            table = np.array([*self.values, np.nan], dtype=np.float64)
            if self.field.kind == "int" and any(abs(value) > _EXACT for value in self.values):
                raise NotInCopyError(self.field.key)
            return look_up(table, self.data)
        if self.field.kind == "real":
            return self.data
        if len(self.data) and max(abs(int(self.data.min())), abs(int(self.data.max()))) > _EXACT:
            raise NotInCopyError(self.field.key)
        reals = self.data.astype(np.float64)
        if self.nulls is not None:
            reals[self.nulls] = np.nan
        return reals

    def codes(self) -> tuple[Array, list[Any]]:
        """Return a number for the value of each row, and the values; that of NULL comes last."""
        if self.field.is_mixed:
            raise NotInCopyError(self.field.key)
        if self.values is not None:
            codes = self.data if len(self.data) and self.data.min() >= 0 else None
            if codes is not None:
                return codes, list(self.values)
            return np.where(self.data < 0, len(self.values), self.data), [*self.values, None]
        values, codes = np.unique(self.data, return_inverse=True)
        listed: list[Any] = values.tolist()
        # NaN, which np.unique sorts behind all numbers, stands for NULL here.
        if self.field.kind == "real" and listed and listed[-1] != listed[-1]:
            listed[-1] = None
        if self.nulls is not None:
            codes = np.where(self.nulls, len(listed), codes)
            listed.append(None)
        return codes, listed


@dataclass
class _Segment:
    """Rows of the copy that follow each other, and where their arrays stand in a file."""

    file: str
    first: int
    last: int
    count: int
    proof: list[Any]
    """Of the last row what no other row of the same number has."""
    parts: dict[str, list[Any]]
    """By column: offset, type, checksum; of NULL integers a part ``?column``."""
    arrays: dict[str, Array] | None = None
    """Of rows that are not worth a file."""


class ColumnarCopy:
    """The copy of one version, as of the snapshot of a question."""

    def __init__(
        self, folder: Path, fields: Mapping[str, CopiedField], manifest: _Manifest
    ) -> None:
        self._folder = folder
        self._fields = fields
        self._manifest = manifest
        self.rows = sum(segment.count for segment in manifest.segments)
        self._columns: dict[str, CopiedColumn] = {}
        self._checked: set[tuple[str, str]] = set()
        """Parts of files whose checksums were right: means read them again."""

    def field(self, key: str) -> CopiedField:
        """Return the description of a column; NotInCopyError if the copy lacks it."""
        if key not in self._fields or key in self._manifest.left_out:
            raise NotInCopyError(key)
        return self._fields[key]

    def column(self, key: str) -> CopiedColumn:
        """Return a column; NotInCopyError if the copy lacks it."""
        self.field(key)
        if key not in self._columns:
            with self._reading(key):
                self._columns[key] = self._column(key)
        return self._columns[key]

    def is_coded(self, key: str) -> bool:
        """Return whether the values of a column are numbered; as `column`."""
        return self.field(key).kind in ("str", "bool") or key in self._manifest.dictionaries

    def reals(self, key: str) -> Reals:
        """Return the reals of a column, of which not all rows need be in memory; as `column`."""
        if key in self._columns or self.is_coded(key):
            return self.column(key).reals()
        return StoredReals(self, key)

    def segment_counts(self) -> list[int]:
        """Return how many rows each segment has."""
        return [segment.count for segment in self._manifest.segments]

    def segment_reals(self, key: str, at: int) -> Array:
        """Return the reals of a column without a dictionary in one segment; as `column`."""
        segment = self._manifest.segments[at]
        with self._reading(key):
            column = CopiedColumn(
                self._fields[key], self._read(key, [segment]), None,
                self._read(f"?{key}", [segment]) if f"?{key}" in _parts(segment) else None,
            )  # fmt: skip
        return column.reals()

    @contextmanager
    def _reading(self, key: str) -> Iterator[None]:
        """Let a copy that cannot be read be one that lacks the column."""
        try:
            yield
        except (_DamagedError, OSError, TypeError, ValueError, LookupError) as error:
            _log.warning("the columnar copy is damaged, and made anew next time: %s", error)
            # Without its manifest a copy does not exist; this question goes to the database.
            with suppress(OSError):
                (self._folder / "manifest.json").unlink()
            raise NotInCopyError(key) from error

    def _column(self, key: str) -> CopiedColumn:
        values = self._manifest.dictionaries.get(key)
        data = self._read(key, self._manifest.segments)
        if values is not None and len(data) and not -1 <= data.min() <= data.max() < len(values):
            raise _DamagedError(key)
        has_nulls = any(f"?{key}" in _parts(segment) for segment in self._manifest.segments)
        nulls = self._read(f"?{key}", self._manifest.segments) if has_nulls else None
        return CopiedColumn(
            self._fields[key], data, None if values is None else tuple(values), nulls
        )

    def _read(self, key: str, segments: Sequence[_Segment]) -> Array:
        """Return the arrays of *segments*, one behind the other."""
        types = [np.dtype(_parts(s)[key][1]) for s in segments if key in _parts(s)]
        rows = sum(segment.count for segment in segments)
        whole = np.zeros(rows, dtype=np.result_type(*types) if types else np.int8)
        at = 0
        for segment in segments:
            target = whole[at : at + segment.count]
            at += segment.count
            if key not in _parts(segment):
                continue
            if segment.arrays is not None:
                target[:] = segment.arrays[key]
                continue
            is_checked = (segment.file, key) in self._checked
            read_part(self._folder / segment.file, segment.parts[key], target, checked=is_checked)
            self._checked.add((segment.file, key))
        return whole


class StoredReals:
    """The reals of a column of a copy, read from the file on each access.

    For ten million of them the system needs longer to provide 80 MB than to read a file again, a
    segment at a time.
    """

    dtype = np.dtype(np.float64)

    def __init__(self, copy: ColumnarCopy, key: str) -> None:
        self._copy = copy
        self._key = key
        self._starts = np.cumsum([0, *copy.segment_counts()])
        self._last: tuple[int, Array] = -1, np.empty(0)
        """The segment that was read last."""

    def __len__(self) -> int:
        return self._copy.rows

    def __getitem__(self, rows: slice | Array) -> Array:
        """Some rows that follow each other, or those of an array of places."""
        if isinstance(rows, slice):
            return self._between(*rows.indices(len(self))[:2])
        if len(rows) > SEGMENT_ROWS:
            return self._copy.column(self._key).reals()[rows]
        segments = np.searchsorted(self._starts, rows, side="right") - 1
        answers = np.empty(len(rows))
        for at in np.unique(segments).tolist():
            is_there = segments == at
            answers[is_there] = self._segment(at)[rows[is_there] - self._starts[at]]
        return answers

    def _between(self, start: int, stop: int) -> Array:
        parts = []
        at = int(np.searchsorted(self._starts, start, side="right")) - 1
        while start < stop:
            first, end = int(self._starts[at]), min(stop, int(self._starts[at + 1]))
            parts.append(self._segment(at)[start - first : end - first])
            start, at = end, at + 1
        return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0)])

    def _segment(self, at: int) -> Array:
        if self._last[0] != at:
            self._last = at, self._copy.segment_reals(self._key, at)
        return self._last[1]


Reals = Array | StoredReals
"""Reals of all rows, in memory or not: parts of them and places are taken alike."""


def _parts(segment: _Segment) -> Mapping[str, Any]:
    if segment.arrays is not None:
        return {key: [0, array.dtype.str, 0] for key, array in segment.arrays.items()}
    return segment.parts


def read_part(path: Path, part: Sequence[Any], target: Array, *, checked: bool = False) -> None:
    """Read an array of a file into *target*, which may have a wider type.

    *checked*: its checksum was found right, and is not computed again.
    """
    offset, kind, checksum = part
    dtype = np.dtype(str(kind))
    if dtype.kind not in "ifb":
        raise _DamagedError(path)
    array = target if dtype == target.dtype else np.empty(len(target), dtype)
    with open_regular(path) as file:
        file.seek(int(offset))
        count = file.readinto(array.data.cast("B")) if len(array) else 0
    # A file may be half written: a copy does not wait for the disk, so a power failure can cut it.
    if count != array.nbytes or not (checked or zlib.crc32(array.data) == checksum):
        raise _DamagedError(path)
    if array is not target:
        target[:] = array


class _DamagedError(Exception):
    """A file of the copy is not as it was written."""


class _TooManyValuesError(Exception):
    """A column has too many values to number them."""


@dataclass
class _Manifest:
    """What a copy consists of."""

    fields: list[list[Any]]
    edits: int = 0
    edit_proof: list[Any] = field(default_factory=list)
    """Of the last of these edits what a database that was restored would not have."""
    redacted: int = 0
    """The last removal of a secret that the copy knows of."""
    segments: list[_Segment] = field(default_factory=list)
    dictionaries: dict[str, list[Any]] = field(default_factory=dict)
    raw: list[str] = field(default_factory=list)
    """Columns with too many values to number them."""
    left_out: list[str] = field(default_factory=list)
    """Columns whose values the copy cannot hold."""

    @staticmethod
    def read(path: Path) -> _Manifest:
        """Read the manifest; ValueError if that is none of ours."""
        try:
            document = json.loads(read_regular(path, _LARGEST_MANIFEST))
            if document.pop("format") != _FORMAT:
                raise ValueError("another format")
            segments = [_Segment(**segment) for segment in document.pop("segments")]
            manifest = _Manifest(segments=segments, **document)
            numbers = [manifest.edits, manifest.redacted]
            for segment in segments:
                numbers += [segment.first, segment.last, segment.count]
                if "/" in segment.file or segment.count < 0 or not isinstance(segment.parts, dict):
                    raise ValueError("no file of a copy")
            if any(type(number) is not int for number in numbers):
                raise ValueError("no number")
            if any(not isinstance(values, list) for values in manifest.dictionaries.values()):
                raise ValueError("no values")
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(str(error)) from error
        return manifest

    def write(self, path: Path) -> None:
        segments = [
            {"file": s.file, "first": s.first, "last": s.last, "count": s.count,
             "proof": s.proof, "parts": s.parts}
            for s in self.segments if s.arrays is None
        ]  # fmt: skip
        document = {
            "format": _FORMAT, "fields": self.fields, "edits": self.edits,
            "edit_proof": self.edit_proof, "redacted": self.redacted, "segments": segments,
            "dictionaries": self.dictionaries, "raw": self.raw, "left_out": self.left_out,
        }  # fmt: skip
        replace_whole(path, [json.dumps(document).encode()])


def cache_folder() -> Path:
    """Return the folder of all copies, in the user's cache folder; it need not be there."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    home = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return home / "zenturio" / "columns"


def open_copy(
    fetch: Fetch,
    dialect: DialectName,
    place: str,
    version: int,
    fields: Sequence[StoredField],
    *,
    build: bool = True,
) -> ColumnarCopy | None:
    """Return the copy of a version, up to date with the snapshot that *fetch* reads; or None.

    *place* is where the database is. Without *build* only what is there is brought up to date. None
    too where the cache folder cannot be written, or is not the caller's alone.
    """
    columns = {column.key: column for column in copied_fields(dialect, fields)}
    ((uuid, edits),) = fetch(
        f"SELECT (SELECT min(uuid) FROM projects), edits FROM versions WHERE id = {int(version)}"
    )
    name = hashlib.sha256(json.dumps([place, uuid, version]).encode()).hexdigest()[:32]
    try:
        folder = _own_folder(name)
    except (OSError, SafetyError) as error:
        _log.info("no columnar copy: %s", error)
        return None
    shape = [[c.key, c.sql, c.kind, c.is_coded, c.is_mixed] for c in columns.values()]
    for _ in range(2 + len(columns)):
        manifest = _manifest_in(folder, shape)
        if manifest is None and not build:
            return None
        copier = _Copier(fetch, version, folder, columns, manifest or _Manifest(shape), int(edits))
        try:
            return copier.copy()
        except _TooManyValuesError:
            copier.start_again()
        except OSError as error:  # as of a full disk
            _log.warning("no columnar copy: %s", error)
            return None
    return None


def _own_folder(name: str) -> Path:
    base = cache_folder()
    base.parent.parent.mkdir(parents=True, exist_ok=True)
    folder = make_folder(base.parent.parent, base.parent.name, base.name, name, mode=0o700)
    for path in (base, folder, folder / "manifest.json"):
        check_owner(path, "a columnar copy")
    return folder


def _manifest_in(folder: Path, shape: list[list[Any]]) -> _Manifest | None:
    """Return the existing copy, if it has the same fields."""
    path = folder / "manifest.json"
    try:
        manifest = _Manifest.read(path)
    except (OSError, ValueError):
        return None
    return manifest if manifest.fields == shape else None


class _Copier:
    """Brings a copy up to date."""

    def __init__(
        self,
        fetch: Fetch,
        version: int,
        folder: Path,
        fields: Mapping[str, CopiedField],
        manifest: _Manifest,
        edits: int,
    ) -> None:
        self._fetch = fetch
        self._version = version
        self._folder = folder
        self._fields = fields
        self._manifest = manifest
        self._edits = edits
        self._codes: dict[str, dict[Any, int]] = {}

    def start_again(self) -> None:
        """Forget all rows, but not which columns have too many values."""
        manifest = self._manifest
        raw, left_out = manifest.raw, manifest.left_out
        _Manifest(manifest.fields, raw=raw, left_out=left_out).write(self._path)

    @property
    def _path(self) -> Path:
        return self._folder / "manifest.json"

    def copy(self) -> ColumnarCopy:
        """Return the copy with exactly the rows of the snapshot."""
        manifest = self._manifest
        query = f"SELECT coalesce(sum(count), 0) FROM counters WHERE version = {self._version}"
        ((total,),) = self._fetch(query)
        before = [segment.file for segment in manifest.segments]
        self._drop_changed()
        last = manifest.segments[-1].last if manifest.segments else 0
        has_gaps = self._held + self._count(last) != int(total)
        if has_gaps:
            self._drop_miscounted()
        if manifest.segments and manifest.segments[-1].count < SEGMENT_ROWS and self._count(last):
            manifest.segments.pop()  # an open segment is read once more with what came behind it
        segments: list[_Segment] = []
        start = 0
        for segment in [*manifest.segments, None]:
            if has_gaps or segment is None:
                end = None if segment is None else segment.first
                segments += self._read_between(start, end, int(total))
            if segment is not None:
                segments.append(segment)
                start = segment.last
        manifest.segments = segments
        if manifest.edits != self._edits:
            manifest.edits, manifest.edit_proof = self._edits, self._edit_proof(self._edits)
        if [s.file for s in segments if s.arrays is None] != before or not before:
            manifest.write(self._path)
            self._remove_unused()
        elif time.time() - self._path.stat().st_mtime > UNUSED_SECONDS / 30:
            os.utime(self._path)
        return ColumnarCopy(self._folder, self._fields, manifest)

    @property
    def _held(self) -> int:
        return sum(segment.count for segment in self._manifest.segments)

    def _count(self, after: int, until: int | None = None) -> int:
        """Return how many results the database has of these numbers."""
        behind = "" if until is None else f" AND id <= {until}"
        query = f"SELECT count(*) FROM results WHERE version = {self._version} AND id > {after}"
        ((count,),) = self._fetch(query + behind)
        return int(count)

    def _drop_changed(self) -> None:
        """Drop segments with rows that were changed, or that are not the database's."""
        manifest = self._manifest
        ranges: list[Sequence[Any]] = []
        if manifest.edit_proof != self._edit_proof(manifest.edits):
            # A backup from before some edit was restored: which rows it was is not known.
            self._forget_secrets()
            manifest.segments, manifest.edits = [], -1
        elif manifest.edits != self._edits:
            self._forget_secrets()
            query = "SELECT first, last FROM edits"
            ranges = list(
                self._fetch(
                    f"{query} WHERE version = {self._version} AND number > {manifest.edits}"
                )
            )
            if len(ranges) < self._edits - manifest.edits:  # who changed it noted less
                ranges = [(0, 2**63)]
        proofs = self._proofs([segment.last for segment in manifest.segments])
        manifest.segments = [
            segment
            for segment in manifest.segments
            if proofs.get(segment.last) == segment.proof
            and not any(first <= segment.last and last >= segment.first for first, last in ranges)
        ]

    def _forget_secrets(self) -> None:
        """Remove all that was copied before a secret was removed: dictionaries may have it."""
        query = "SELECT coalesce(max(id), 0) FROM events"
        ((newest,),) = self._fetch(
            f"{query} WHERE version = {self._version} AND kind = '{REDACTION_EVENT}'"
        )
        manifest = self._manifest
        if int(newest) != manifest.redacted:
            manifest.redacted = int(newest)
            manifest.segments, manifest.dictionaries = [], {}
            for path in self._folder.glob("*.columns"):
                path.unlink(missing_ok=True)

    def _edit_proof(self, number: int) -> list[Any]:
        """Return values that identify the edit with this number; empty if there is none."""
        query = "SELECT first, last FROM edits"
        edits = self._fetch(f"{query} WHERE version = {self._version} AND number = {int(number)}")
        return [[*edit, self._proofs(edit).get(edit[1])] for edit in edits]

    def _proofs(self, numbers: Sequence[int]) -> dict[int, list[Any]]:
        """Return values that identify the rows with these numbers."""
        listed = ", ".join(map(str, numbers)) or "0"
        query = "SELECT id, digest, started, ended FROM results"
        rows = self._fetch(f"{query} WHERE version = {self._version} AND id IN ({listed})")
        return {row[0]: [bytes(row[1]).hex(), row[2], row[3]] for row in rows}

    def _drop_miscounted(self) -> None:
        """Drop segments that other rows lie between by now: a number is drawn before its row is."""
        kept, start = [], 0
        for segment in self._manifest.segments:
            if self._count(start, segment.last) == segment.count:
                kept.append(segment)
            start = segment.last
        self._manifest.segments = kept

    def _read_between(self, after: int, until: int | None, total: int) -> Iterator[_Segment]:
        """Yield the rows behind a number and before another one, in segments."""
        constants = self._constants()
        present = [c for c in self._fields.values() if c.key not in self._manifest.left_out]
        columns = [column for column in present if column.key not in constants]
        heads = ", ".join(column.sql for column in columns)
        below = "" if until is None else f" AND e.id < {until}"
        done = 0
        while True:
            rows = self._fetch(
                f"SELECT {heads} FROM results e"
                f" WHERE e.version = {self._version} AND e.id > {after}{below}"
                f" ORDER BY e.id LIMIT {SEGMENT_ROWS}"
            )
            if not rows:
                return
            arrays: dict[str, Array] = {}
            for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
                self._pack(column, cells, arrays)
            for key, value in constants.items():
                code = int(self._coded(self._fields[key], [value])[0])
                arrays[key] = np.full(len(rows), code, dtype=np.int8)
            first, after, count = int(rows[0][0]), int(rows[-1][0]), len(rows)
            del rows
            segment = _Segment("", first, after, count, self._proofs([after])[after], {}, arrays)
            # A short last segment of a study that runs would be read again soon: it gets no file.
            if count >= SEGMENT_ROWS // 16:
                self._write(segment)
            yield segment
            done += count
            work_progress.get()("copying the results, once", done, total)
            if count < SEGMENT_ROWS:
                return

    def _constants(self) -> dict[str, int]:
        """Facts that are the same in all rows, as the counters tell."""
        query = "SELECT DISTINCT machine, round FROM counters"
        pairs = self._fetch(f"{query} WHERE version = {self._version} AND count <> 0")
        machines, rounds = ({int(pair[at]) for pair in pairs} for at in (0, 1))
        constants = {"machine": min(machines)} if len(machines) == 1 else {}
        return constants | ({"round": min(rounds), "newest": 1} if len(rounds) == 1 else {})

    def _pack(self, column: CopiedField, cells: Sequence[Any], arrays: dict[str, Array]) -> None:
        """Put the array of a column beside the others; a column that it cannot hold is left out."""
        manifest, key = self._manifest, column.key
        types = set(map(type, cells)) - {type(None)}
        if not types <= _TYPES[column.kind]:
            self._leave_out(key)
        if column.is_coded and key not in manifest.raw:
            arrays[key] = self._coded(column, cells)
            return
        if column.kind in ("str", "bool"):
            self._leave_out(key)
        if column.kind == "real":
            data = np.array(cells, dtype=np.float64)
            if int in types and np.nanmax(np.abs(data)) >= _EXACT:
                self._leave_out(key)
            arrays[key] = data
            return
        if None in cells:
            arrays[f"?{key}"] = np.array([cell is None for cell in cells], dtype=np.bool_)
            cells = [0 if cell is None else cell for cell in cells]
        try:
            whole = np.array(cells, dtype=np.int64)
        except OverflowError:
            self._leave_out(key)
        low, high = (int(whole.min()), int(whole.max())) if len(whole) else (0, 0)
        narrow = next(t for t in (np.int8, np.int16, np.int32, np.int64)
                      if np.iinfo(t).min <= low and high <= np.iinfo(t).max)  # fmt: skip
        arrays[key] = whole.astype(narrow)

    def _leave_out(self, key: str) -> None:
        """Make the copy anew without this column."""
        self._manifest.left_out.append(key)
        raise _TooManyValuesError

    def _coded(self, column: CopiedField, cells: Sequence[Any]) -> Array:
        manifest, key = self._manifest, column.key
        values = manifest.dictionaries.setdefault(key, [])
        if key not in self._codes:
            self._codes[key] = {value: code for code, value in enumerate(values)}
        codes = self._codes[key]
        for value in sorted(set(cells) - codes.keys() - {None}):
            if value != value:  # noqa: PLR0124 - NaN, which no dictionary finds again
                self._leave_out(key)
            if len(values) >= MOST_VALUES or (column.is_mixed and abs(value) >= _EXACT):
                manifest.raw.append(key)
                raise _TooManyValuesError
            codes[value] = len(values)
            values.append(bool(value) if column.kind == "bool" else value)
        wide = np.int8 if len(values) <= 127 else np.int16
        with_null = codes | {None: -1}
        return np.fromiter(map(with_null.__getitem__, cells), dtype=wide, count=len(cells))

    def _write(self, segment: _Segment) -> None:
        """Write the arrays of a segment into a file."""
        assert segment.arrays is not None, "its rows were read"
        parts, pieces, offset = {}, [], 0
        for key, array in segment.arrays.items():
            content = array.tobytes()
            parts[key] = [offset, array.dtype.str, zlib.crc32(content)]
            pieces.append(content)
            offset += len(content)
        segment.file = f"{segment.first:016x}-{secrets.token_hex(4)}.columns"
        replace_whole(self._folder / segment.file, pieces)
        segment.parts, segment.arrays = parts, None

    def _remove_unused(self) -> None:
        """Remove files that no manifest names, and unused copies of studies."""
        used = {segment.file for segment in self._manifest.segments}
        now = time.time()
        for path in self._folder.glob("*.columns"):
            # Another process may be reading what it was told of, or be about to write its manifest.
            if path.name not in used and now - path.stat().st_mtime > 3600:
                path.unlink(missing_ok=True)
        for folder in self._folder.parent.iterdir():
            manifest = folder / "manifest.json"
            with suppress(OSError):
                if now - manifest.stat().st_mtime > UNUSED_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)


def remove_copies() -> None:
    """Remove all copies of this user; the next questions make them anew."""
    shutil.rmtree(cache_folder(), ignore_errors=True)
