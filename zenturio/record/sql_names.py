"""Names in the database: of tables, columns and views, of its schema, and of the projects in it.

Names are the same on every database, so that a query moves with its study: at most 63 bytes (the
limit of PostgreSQL), and never two that differ only in case (which are one in SQLite) or in how
Unicode composes their letters.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2s
from pathlib import Path
from typing import Literal

from zenturio.errors import Diagnostic, InputError
from zenturio.files import replace_whole
from zenturio.record.entities import StudyDefinition

LONGEST = 63
_ALL = "_all"
_STUDY = 50
"""Bytes of a study's view: behind it come a version and ``_all``."""

FACTS = (
    "digest", "index", "repeat", "round", "machine", "status", "cause", "host", "attempt",
    "started", "ended", "exit", "remarks", "host_cpu", "host_cores", "host_memory", "host_kernel",
    "host_load", "run_order", "run_block", "run_turn",
    "host_runnable", "host_delay", "host_others", "host_pressure", "host_steal", "host_mhz",
    "host_governor", "host_slots", "host_cpus", "host_pinned", "host_slots_start",
    "host_slots_end", "host_load_end", "host_mhz_end", "host_celsius", "host_celsius_end",
    "host_throttled", "host_memory_pressure", "host_gpu_mhz", "host_gpu_mhz_end",
    "host_unmeasured",
)  # fmt: skip
"""The columns that ``study_NAME_all`` has beside those of the study."""
FACTS_REVISION = 4
"""To be raised with each change of FACTS or of the names of views: stored ones are made again."""
_VERSION = re.compile(r"(.+)@([1-9][0-9]{0,8})", re.DOTALL)


def check_names(name: str, definition: StudyDefinition) -> None:
    """Raise InputError unless every name can be kept and no parameter or metric is named twice."""
    fields = (*definition.parameters, *definition.metrics)
    diagnostics = [
        Diagnostic(f"{n!r} cannot be a name", hint="a name is not empty and holds no NUL byte")
        for n in (name, *(column.name for column in fields))
        if not is_storable(n)
    ]
    unique_names: set[str] = set()
    for column in fields:
        if column.name in unique_names:
            diagnostics.append(
                Diagnostic(
                    f"{column.name!r} names two parameters or metrics of study {name!r}",
                    hint="rename one of them",
                )
            )
        unique_names.add(column.name)
    if diagnostics:
        raise InputError.all(diagnostics)


def is_storable(name: str) -> bool:
    """Return whether every database can hold *name*."""
    return bool(name) and "\0" not in name and _encodable(name)


def _encodable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_version_name(name: str) -> tuple[str, int] | None:
    """Return the study and the version that NAME@NUMBER means; none if it is no such name."""
    match = _VERSION.fullmatch(name)
    return (match[1], int(match[2])) if match else None


def version_view(sql_name: str, number: int) -> str:
    """Return the view of a version that its study's name does not mean any longer."""
    return f"{sql_name}@{number}"


def all_view(view: str) -> str:
    """Return the view of all experiments, beside the one of those that succeeded."""
    return view + _ALL


def study_view(name: str, taken: Iterable[str], owner: str = "") -> str:
    """Return ``study_NAME``, unless that or its larger view is taken.

    Then it is ``study_OWNER_NAME``, or has a number behind.
    """
    used = {folded(used_name) for view in taken for used_name in (view, all_view(view))}
    names = (f"study_{name}", f"study_{owner}_{name}") if owner else (f"study_{name}",)
    candidates = [_fit(candidate, _STUDY, 1) for candidate in names]
    attempt = 1
    while not used.isdisjoint(
        (folded(candidate := candidates.pop(0)), folded(all_view(candidate)))
    ):
        attempt += 1
        candidates = candidates or [_fit(names[-1], _STUDY, attempt)]
    return candidate


def plain_views(views: Iterable[str]) -> dict[str, str]:
    """Return by its view the name that each study has in SQL without quotes, if it is another.

    It has small letters, digits and ``_``. Exact names win; of several studies that would have the
    same name, the first one has it.
    """
    exact = list(views)
    used = {folded(name) for view in exact for name in (view, all_view(view))}
    plain_names = {}
    for view in exact:
        plain = plain_view(view)
        names, own = ({folded(n), folded(all_view(n))} for n in (plain, view))
        if plain != view and used.isdisjoint(names - own):
            used |= names
            plain_names[view] = plain
    return plain_names


def plain_view(view: str) -> str:
    # Databases take capitals for small letters in ASCII alone.
    return re.sub(r"\W", "_", re.sub(r"[A-Z]+", lambda match: match[0].lower(), view))


def folded(name: str) -> str:
    """Return the same for names that a database, or a reader, takes for one."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


_FOLDED = frozenset(map(folded, FACTS))


def column_name(name: str, role: str, taken: Collection[str], names: Collection[str]) -> str:
    """Return the column of a new field: its name, unless that is taken.

    *taken*: the columns that there are, folded. *names*: of other fields, which these would want
    for themselves. What every study has keeps its name: a field called so is ``param_NAME`` or
    ``metric_NAME``.
    """
    base = name
    if folded(name) in _FOLDED:
        base = f"{'param' if role == 'parameter' else 'metric'}_{name}"
    attempt = 1
    while True:
        candidate = _fit(base, LONGEST, attempt)
        spoken_for = attempt > 1 or base != name
        if folded(candidate) not in taken and not (
            spoken_for and candidate != name and candidate in names
        ):
            return candidate
        attempt += 1


def _fit(name: str, limit: int, attempt: int) -> str:
    """Return *name* within *limit* bytes, with ``__ATTEMPT`` behind it from the second on.

    What is too long ends in a hash of the whole, so that it stays apart from its like.
    """
    suffix = f"__{attempt}" if attempt > 1 else ""
    name = name.replace("\0", "\ufffd").encode(errors="replace").decode()
    room = limit - len(suffix)
    encoded = name.encode()
    if len(encoded) > room:
        mark = "~" + blake2s(encoded, digest_size=4).hexdigest()
        name = encoded[: room - len(mark)].decode(errors="ignore") + mark
    return name + suffix


TOKEN = re.compile(
    r"""(?P<text>'(?:[^']|'')*')"""
    r"""|(?P<comment>--[^\n]*|/\*.*?\*/)"""
    r"""|(?P<dollar>\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)"""
    r"""|(?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])"""
    r"""|(?P<bare>[^\W\d][\w$]*)"""
    r"""|(?P<star>\*)""",
    re.DOTALL,
)
_START = re.compile(
    r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*(WITH\b(?:\s+RECURSIVE\b)?)?", re.DOTALL | re.IGNORECASE
)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def with_parts(text: str, parts: Sequence[str]) -> str:
    """Return *text*, one query, with more common table expressions before its own."""
    if not parts:
        return text
    start = _START.match(text)
    assert start is not None, "it may be empty"
    keyword, query, expressions = start[1], text[start.end() :], ", ".join(parts)
    return f"{keyword} {expressions}, {query}" if keyword else f"WITH {expressions} {query}"


def plain_name(token: re.Match[str]) -> str:
    """Return the name in a token."""
    text = token[0]
    if token["bare"]:
        return text
    closing = {'"': '"', "`": "`", "[": "]"}[text[0]]
    return text[1:-1].replace(closing * 2, closing)


def with_names(text: str, tokens: Iterable[re.Match[str]], names: Mapping[str, str]) -> str:
    """Return *text* with other names for some of its tokens."""
    if not names:
        return text
    parts, end = [], 0
    for token in tokens:
        if (token["quoted"] or token["bare"]) and plain_name(token) in names:
            parts += [text[end : token.start()], quoted(names[plain_name(token)])]
            end = token.end()
    return "".join([*parts, text[end:]])


# The schema that every start needs, without SQLAlchemy: revisions, tables and slots

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008")
"""Every revision of the schema, oldest first; ``schema`` has the tables of the last one."""

DialectName = Literal["sqlite", "postgresql"]

TABLES = frozenset({
    "aliases", "artifacts", "attempts", "chunks", "claims", "conditions", "contents", "copies",
    "counters", "definitions", "edits", "events", "fields", "hosts", "leases", "logs", "machines",
    "projects", "recipes", "results", "rounds", "sources", "studies", "submissions", "upgrade",
    "versions",
})  # fmt: skip

SLOT_NAMES: dict[DialectName, tuple[str, ...]] = {
    "sqlite": tuple(f"v{i}" for i in range(32)),
    "postgresql": (
        *(f"i{i}" for i in range(16)),
        *(f"r{i}" for i in range(24)),
        *(f"t{i}" for i in range(12)),
    ),
}
"""The columns of ``results`` that all studies share; on PostgreSQL the letter is the type."""


# Projects on a shared database: whose study a name means
#
# A project folder has an id of its own, in ``.zenturio/project.json``, which a copy of the folder
# replaces at its first write. On PostgreSQL a study belongs to the project that created it: another
# project's study of the same name is another study, called ``OWNER/NAME`` there. Studies of a
# database that knew no projects belong to all. In a file of SQLite all studies are one project's.

FILE = "project.json"
COMMON = 1
"""The number of the project whose studies belong to all."""
UNIQUE_SQL = "NOT EXISTS (SELECT 1 FROM studies o WHERE o.name = s.name AND o.id <> s.id)"
"""The condition that no other study has the name of a study ``s``."""
_UUID = re.compile(r"[0-9a-f]{32}")


@dataclass
class Project:
    """The project of a folder, as a database knows it."""

    folder: Path | None = None
    """Its ``.zenturio``; none for a database that is a project's file."""
    finds_unique: bool = False
    """Whether a plain name also means the only study of that name, of whatever project."""
    _uuid: str = field(default="", init=False)

    @classmethod
    def of(cls, uuid: str) -> Project:
        """Return the project with that id, wherever its folder is."""
        project = cls()
        project._uuid = uuid
        return project

    @property
    def uuid(self) -> str:
        """The id, empty if the folder has none yet."""
        if not self._uuid and self.folder is not None:
            self._uuid = _read(self.folder).get("uuid", "")
        return self._uuid

    def begin(self) -> None:
        """Give the folder an id, if it has none, or that of a project that it was copied from."""
        if self.folder is None or not self.folder.is_dir():
            return
        facts = _read(self.folder)
        uuid = facts.get("uuid", "")
        if not uuid or _is_copy(self.folder, facts):
            uuid = secrets.token_hex(16)
        place = _place(self.folder)
        if {**facts, "uuid": uuid, **place} != facts:
            text = json.dumps({"uuid": uuid, **place}, indent=1)
            replace_whole(self.folder / FILE, [text.encode()])
        self._uuid = uuid

    @property
    def is_own_sql(self) -> str:
        """Return the condition that a study ``s`` of a project ``p`` needs no owner's name.

        Who looks from no project at all needs one only where several projects have the name. Who
        runs or removes studies there means none of another project: a run begins a project.
        """
        if self.uuid:
            own = f"p.uuid = {literal(self.uuid)}"
        else:
            own = UNIQUE_SQL if self.finds_unique or self.folder is None else "false"
        return f"(coalesce(p.owner, '') = '' OR {own})"

    @property
    def label_sql(self) -> str:
        """Return what stands before the name of a study ``s`` of a project ``p``.

        The owner, and for all but the owner's first project its name, too.
        """
        return (
            f"CASE WHEN {self.is_own_sql} THEN '' WHEN p.id = (SELECT min(q.id) FROM projects q"
            " WHERE q.owner = p.owner) THEN p.owner ELSE p.owner || '/' || p.name END"
        )


def split(name: str) -> list[tuple[str, str]]:
    """Return the labels and names that ``OWNER/NAME`` or ``OWNER/PROJECT/NAME`` may mean."""
    parts = name.split("/")
    return [("/".join(parts[:i]), "/".join(parts[i:])) for i in range(1, min(3, len(parts)))]


def _read(folder: Path) -> dict[str, str]:
    """Return what the file says; nothing where it is damaged or not a plain file."""
    with suppress(OSError, ValueError):
        path = folder / FILE
        if path.is_symlink() or not path.is_file():
            return {}
        with path.open("rb") as file:
            facts = json.loads(file.read(10_000))
        if isinstance(facts, dict) and _UUID.fullmatch(str(facts.get("uuid"))):
            return {str(name): str(value) for name, value in facts.items()}
    return {}


def _place(folder: Path) -> dict[str, str]:
    status = folder.stat()
    return {"folder": os.fspath(folder.absolute()), "inode": str(status.st_ino)}


def _is_copy(folder: Path, facts: dict[str, str]) -> bool:
    """Return whether the project that *facts* are of is elsewhere still; else it was moved."""
    if facts.get("inode") == _place(folder)["inode"]:
        return False
    elsewhere = Path(facts.get("folder", ""))
    if not facts.get("folder") or elsewhere == folder.absolute():
        return False
    return _read(elsewhere).get("uuid") == facts["uuid"]
