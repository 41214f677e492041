"""Files with their directives, parsed into statements."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from zenturio.annotate.diagnostics import Diagnostics
from zenturio.annotate.dialects import Dialect, dialect_of
from zenturio.annotate.directive_lines import DirectiveLines, find
from zenturio.annotate.file_selection import SelectedFile, is_study
from zenturio.annotate.grammar import read
from zenturio.annotate.model import Line
from zenturio.annotate.scopes import Scopes, WrittenScope, pair
from zenturio.annotate.source import Source
from zenturio.errors import Diagnostic, InputError, Passage

Kind = Literal["file", "side", "study"]


@dataclass(frozen=True)
class ParsedFile:
    """A file with what its directives say; a side file speaks of another, a study of a folder."""

    source: Source
    name: str
    """Its path in the application."""
    kind: Kind
    dialect: Dialect
    lines: tuple[Line, ...]
    written: tuple[WrittenScope, ...]
    scopes: Scopes

    @property
    def base(self) -> Path:
        """The folder that its sets' files are sought from."""
        return self.source.path.parent

    @property
    def failed(self) -> Iterator[str]:
        """The words of directives that cannot be read: they may have named anything."""
        for each in self.written:
            if each.statement is None:
                yield from re.findall(r"\w+", each.line.body.text)


def used_path(document: ParsedFile, text: Passage) -> Path:
    """Where a file is that *document* declares to be used."""
    return Path(os.path.normpath(document.base.absolute() / Path(text.text).expanduser()))


def read_documents(
    members: Iterable[SelectedFile], diagnostics: Diagnostics, *, beside: bool
) -> Iterator[ParsedFile]:
    """Each file that can be read, *beside* others or part of the experiment."""
    for member in members:
        kind: Kind = "file"
        if beside:
            kind = "study" if is_study(member.name) else "side"
        try:
            source = Source.read(member.path)
        except OSError as error:
            message = f"{member.path} cannot be read: {error.strerror}"
            diagnostics.errors.append(Diagnostic(message, hint="change its permissions"))
            continue
        yield _document(source, member.name, kind, diagnostics)


def _document(source: Source, name: str, kind: Kind, diagnostics: Diagnostics) -> ParsedFile:
    dialect = dialect_of(source.path, source.lines[0] if source.lines else "")
    found = find(source, dialect)
    sort(found, diagnostics)
    written = []
    for line in found.directives:
        statement = None
        try:
            statement = read(line.body)
        except InputError as error:
            diagnostics.errors += error.diagnostics
        written.append(WrittenScope(line, statement))
    scopes = pair(written, len(source.lines), diagnostics)
    return ParsedFile(source, name, kind, dialect, found.lines, tuple(written), scopes)


def sort(found: DirectiveLines, diagnostics: Diagnostics) -> None:
    """Errors to the errors, warnings to the warnings."""
    for each in found.diagnostics:
        (diagnostics.warnings if each.severity == "warning" else diagnostics.errors).append(each)
