"""zenturio.toml: its tables, such as ``[places.NAME]``, each with the line that it stands in."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zenturio import trust
from zenturio.errors import InputError, Place, did_you_mean

FILE = "zenturio.toml"
PLACES = "places"
_WHERE = re.compile(r"\(at line (\d+), column (\d+)\)")


@dataclass(frozen=True)
class Entry:
    """A value of a table, and where it stands."""

    value: Any
    place: Place | None = None


@dataclass(frozen=True)
class Table:
    """A table by its keys."""

    entries: Mapping[str, Entry]
    place: Place | None = None


def read_places(path: Path) -> dict[str, Table]:
    """All places that the file tells of, in its order; none if there is no such file."""
    lines, whole = _read(path)
    for name in whole:
        if name != PLACES and did_you_mean(name, [PLACES]).startswith("did you mean"):
            place = _heading(path, lines, name) or _key(path, lines, 0, name)
            raise InputError(f"[{name}] means nothing", place=place, hint="write [places.NAME]")
    found = whole.get(PLACES, {})
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        place = _heading(path, lines, PLACES) or _key(path, lines, 0, PLACES)
        raise InputError("places are tables", place=place, hint="write [places.NAME]")
    return {name: _table(path, lines, f"{PLACES}.{name}", found[name]) for name in found}


def read_table(path: Path, name: str) -> Table | None:
    """The table ``[NAME]``; none if the file, or the table, is not there."""
    lines, whole = _read(path)
    if name not in whole:
        return None
    if not isinstance(whole[name], dict):
        raise InputError(
            f"{name} is a table", place=_key(path, lines, 0, name), hint=f"write [{name}]"
        )
    return _table(path, lines, name, whole[name])


def _read(path: Path) -> tuple[list[str], dict[str, Any]]:
    """The lines of the file, and all that it says."""
    trust.check_owner(path, "file of settings")
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return [], {}
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    lines = text.splitlines()
    return lines, _parsed(path, text, lines)


def _parsed(path: Path, text: str, lines: list[str]) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InputError(f"{path}: values are nested too deeply", hint="write tables") from None
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        where = _WHERE.search(message)
        line, column = map(int, where.groups()) if where else (max(len(lines), 1), 1)
        shown = lines[line - 1] if line <= len(lines) else ""
        raise InputError(
            f"this is no TOML: {_WHERE.sub('', message).strip()}",
            place=Place(str(path), line, column, shown),
            hint='a line is key = "text", key = 12, or [places.NAME]',
        ) from None


def _table(path: Path, lines: list[str], name: str, found: dict[str, Any]) -> Table:
    heading = _heading(path, lines, name)
    first = heading.line if heading else 0
    entries = {key: Entry(each, _key(path, lines, first, key)) for key, each in found.items()}
    return Table(entries, heading)


def _heading(path: Path, lines: list[str], name: str) -> Place | None:
    """Where the line ``[name]`` stands, or the first one below it."""
    parts = (f"[\"']?{re.escape(part)}[\"']?" for part in name.split(".", 1))
    pattern = re.compile(r"\s*\[+\s*(" + r"\s*\.\s*".join(parts) + r")\s*[].]")
    for number, line in enumerate(lines, 1):
        match = pattern.match(line)
        if match:
            width = match.end(1) - match.start(1)
            return Place(str(path), number, match.start(1) + 1, line, width)
    return None


def _key(path: Path, lines: list[str], first: int, key: str) -> Place | None:
    """Where ``key =`` stands behind line *first* (from 1) and before the next table."""
    pattern = re.compile(rf'\s*(["\']?{re.escape(key)}["\']?)\s*[.=]')
    for number, line in enumerate(lines[first:], first + 1):
        match = pattern.match(line)
        if match:
            width = match.end(1) - match.start(1)
            return Place(str(path), number, match.start(1) + 1, line, width)
        if first and line.lstrip().startswith("["):
            break
    return Place(str(path), first, 1, lines[first - 1]) if first else None
