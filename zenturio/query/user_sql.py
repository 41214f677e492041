"""SQL that somebody wrote: what stands in double quotes is a name, and wrong names get a hint."""

from __future__ import annotations

import re
from collections.abc import Iterable

from zenturio.errors import InputError, did_you_mean
from zenturio.query.catalog import read_catalog
from zenturio.query.fragments import quote_name as quoted
from zenturio.query.reading import open_snapshot
from zenturio.record import Repository

_QUOTED = re.compile(
    r"""'(?:[^']|'')*+' | --[^\n]*+ | /\*.*?(?:\*/|\Z) | \[[^\]]*+\] | `(?:[^`]|``)*+`
      | "(?P<name>(?:[^"]|"")*+)" """,
    re.DOTALL | re.VERBOSE,
)
"""Texts, comments and names in quotes, each as a whole."""

_NO_COLUMN = re.compile(
    r"""no\ such\ column:\ (?P<sqlite>.+) | column\ "?(?P<postgresql>.+?)"?\ does\ not\ exist""",
    re.VERBOSE,
)
_NO_TABLE = re.compile(
    r"""no\ such\ table:\ (?P<sqlite>.+) | relation\ "(?P<postgresql>.+)"\ does\ not\ exist""",
    re.VERBOSE,
)


def with_names_in_backticks(text: str) -> str:
    """*text* for SQLite, where a name in double quotes that nothing has is taken for a text.

    In backticks it is an error. Nothing else in *text* is touched.
    """
    return _QUOTED.sub(_backticked, text)


def _backticked(match: re.Match[str]) -> str:
    name = match["name"]
    if name is None:
        return match[0]
    return "`" + name.replace('""', '"').replace("`", "``") + "`"


def written_head(head: str, text: str) -> str:
    """The name of an answer's column, which SQLite takes from the query, as *text* has it."""
    written = head.replace("`", '"')
    return head if head in text else written


def with_name_hint(error: InputError, repository: Repository, text: str) -> InputError:
    """*error* with a hint, where it is about a column or a table that there is not."""
    (diagnostic, *_) = error.diagnostics
    for pattern, hint_of in ((_NO_COLUMN, _column_hint), (_NO_TABLE, _table_hint)):
        if match := pattern.search(diagnostic.message):
            unknown = match["sqlite"] or match["postgresql"]
            if hint := hint_of(unknown, repository, text) or diagnostic.hint:
                return InputError(diagnostic.message, place=diagnostic.place, hint=hint)
    return error


def _column_hint(unknown: str, repository: Repository, text: str) -> str:
    last = unknown.rpartition(".")[2].strip('"')
    columns: dict[str, None] = {}
    with open_snapshot(repository) as reader:
        for study in repository.studies():
            if study.view.casefold() in text.casefold():
                found = read_catalog(reader, study.name)
                columns |= dict.fromkeys(column.view for column in found.columns.values())
    hint = _in_quotes(last, columns) or did_you_mean(last, columns)
    in_quotes = any(match["name"] == last for match in _QUOTED.finditer(text))
    if in_quotes and hint.startswith("there is"):  # nothing is near
        return "a text stands in single quotes: '" + last.replace("'", "''") + "'"
    return hint


def _table_hint(unknown: str, repository: Repository, text: str) -> str:  # noqa: ARG001 - as for columns
    views = [view for study in repository.studies() for view in (study.view, study.view_all)]
    return _in_quotes(unknown, views) or did_you_mean(unknown, views)


def _in_quotes(unknown: str, names: Iterable[str]) -> str:
    """The hint for a name that is there, and must stand in quotes for a dot or its capitals."""
    found = next((each for each in names if each.casefold() == unknown.casefold()), None)
    return f"write it in double quotes: {quoted(found)}" if found else ""
