"""Parsed files, and the places in them that directives fill."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from zenturio.annotate.diagnostics import Diagnostics
from zenturio.annotate.dialects import Dialect, dialect_of
from zenturio.annotate.directive_lines import (
    DirectiveLines,
    Scopes,
    WrittenScope,
    find,
    pair,
    quoted,
)
from zenturio.annotate.file_selection import SIDE, SelectedFile, is_study, match_glob, under
from zenturio.annotate.grammar import read
from zenturio.annotate.metric_patterns import check_pattern
from zenturio.annotate.model import (
    Annotated,
    Assignment,
    Declaration,
    Hole,
    RegionStatement,
    WrittenDirective,
)
from zenturio.annotate.source import Source
from zenturio.errors import AnnotationError, Diagnostic, InputError, Passage, did_you_mean

Kind = Literal["file", "side", "study"]


@dataclass(frozen=True)
class ParsedFile:
    """A file with what its directives say; a side file speaks of another, a study of a folder."""

    source: Source
    name: str
    """Its path in the application."""
    kind: Kind
    dialect: Dialect
    lines: tuple[WrittenDirective, ...]
    written: tuple[WrittenScope, ...]
    scopes: Scopes

    @property
    def base(self) -> Path:
        """The folder that its sets' files are sought from."""
        return self.source.path.parent

    @property
    def failed(self) -> Iterator[str]:
        """The words of directives that cannot be read: they may have named anything."""
        for statement in self.written:
            if statement.statement is None:
                yield from re.findall(r"\w+", statement.line.body.text)


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
    directives = find(source, dialect)
    sort(directives, diagnostics)
    written = []
    for line in directives.directives:
        statement = None
        try:
            statement = read(line.body)
        except InputError as error:
            diagnostics.errors += error.diagnostics
        written.append(WrittenScope(line, statement))
    scopes = pair(written, len(source.lines), diagnostics)
    return ParsedFile(source, name, kind, dialect, directives.lines, tuple(written), scopes)


def sort(directives: DirectiveLines, diagnostics: Diagnostics) -> None:
    """Errors to the errors, warnings to the warnings."""
    for diagnostic in directives.diagnostics:
        (diagnostics.warnings if diagnostic.severity == "warning" else diagnostics.errors).append(
            diagnostic
        )


@dataclass
class Targets:
    """The files of an application, and what is to be replaced in each."""

    files: Sequence[ParsedFile]
    diagnostics: Diagnostics
    parameter_names: frozenset[str]
    """Names that ``= @name`` may say."""
    holes: dict[str, list[Hole]] = field(default_factory=lambda: defaultdict(list))
    assignments: dict[str, list[Assignment]] = field(default_factory=lambda: defaultdict(list))
    environment: dict[str, str] = field(default_factory=dict)
    _variables: dict[str, Passage] = field(default_factory=dict)
    _taken: dict[tuple[object, ...], Hole] = field(default_factory=dict)

    def add(self, document: ParsedFile) -> None:
        """Take up every declaration of a file."""
        for statement in document.written:
            match statement.statement:
                case Declaration() as declaration:
                    with self.diagnostics.gather():
                        self.declare(document, declaration, statement.line)
                case RegionStatement(name=name):
                    with self.diagnostics.gather():
                        _check_region(document, name)
                case _:
                    pass

    def declare(
        self, document: ParsedFile, declaration: Declaration, line: WrittenDirective
    ) -> None:
        parameter = self.parameter(declaration)
        match declaration.way:
            case "substitute":
                self.substitute(document, declaration, line, parameter)
            case "assign":
                self.assign(document, declaration, line, parameter)
            case "env":
                self.export(declaration.target, parameter)
            case "param":
                if declaration.same is not None:
                    message = f"this would only be a second name for {parameter}"
                    hint = f"use {parameter}; = @name is for SUBSTITUTE, ASSIGN and ENV"
                    raise AnnotationError(message, place=declaration.place, hint=hint)

    def parameter(self, declaration: Declaration) -> str:
        """The parameter that a declaration is about."""
        same = declaration.same
        if same is None:
            return declaration.name.text
        if same.text not in self.parameter_names:
            place = same.place(0, len(same.text))
            hint = did_you_mean(same.text, self.parameter_names)
            raise AnnotationError(f"no parameter is named {same.text}", place=place, hint=hint)
        return same.text

    def substitute(
        self, document: ParsedFile, declaration: Declaration, line: WrittenDirective, parameter: str
    ) -> None:
        if declaration.match == "regex":
            check_pattern(declaration.target)
        files = self.files_of(document, declaration)
        # A study.zen concerns every file of a folder: holes only where the text occurs at all.
        held = [file for file in files if self.may_hold(file, declaration)]
        # If none holds it, all get a hole, so that the missing target is reported with its files.
        for file in held or files:
            first, last = 0, len(file.source.lines)
            # In its own file the scope begins below the directive.
            if file is document:
                first = line.last + 1
                last = document.scopes.ends.get(line.first, last)
            hole = Hole(
                parameter,
                declaration.target.text,
                declaration.match,
                first,
                last,
                declaration.optional,
                declaration.place,
            )
            self.check_twice(file, hole)
            self.holes[file.name].append(hole)

    def may_hold(self, file: ParsedFile, declaration: Declaration) -> bool:
        """Whether the target can occur in a file at all: a hole elsewhere would be idle."""
        text = file.source.text or ""
        return declaration.match == "regex" or declaration.target.text in text

    def check_twice(self, file: ParsedFile, hole: Hole) -> None:
        """Two parameters for one target in the same lines are one too many."""
        same = (file.name, hole.target, hole.match, hole.first, hole.last)
        other = self._taken.setdefault(same, hole)
        if other.parameter != hole.parameter:
            raise AnnotationError(
                f"{hole.target} is already replaced in the same lines, at {other.place}",
                place=hole.place,
                hint="leave one of them, or give each a scope with BEGIN and END",
            )

    def files_of(self, document: ParsedFile, declaration: Declaration) -> list[ParsedFile]:
        """The text files whose lines are in the scope of a SUBSTITUTE."""
        if declaration.begins and (document.kind != "file" or declaration.glob is not None):
            raise AnnotationError(
                "BEGIN has no meaning for lines of another file: its scope is all of them",
                place=declaration.places["BEGIN"],
                hint="leave BEGIN and its END away",
            )
        if declaration.glob is not None:
            return self.matching(declaration.glob)
        if document.kind == "file":
            return [document]
        if document.kind == "side":
            return self.beside(document, declaration)
        names = set(under(document.name, (file.name for file in self.files)))
        files = [file for file in self.files if file.name in names and file.source.text is not None]
        if not files:
            message, hint = "there is no text file that this could be about", "name a folder"
            raise AnnotationError(message, place=declaration.place, hint=hint)
        return files

    def beside(self, document: ParsedFile, declaration: Declaration) -> list[ParsedFile]:
        """The one file that a side file is about."""
        name = document.name.removesuffix(SIDE)
        files = [file for file in self.files if file.name == name]
        if files and files[0].source.text is None:
            raise AnnotationError(
                f"{name} is binary: it is copied, and nothing in it can be replaced",
                place=declaration.place,
                hint="use ENV, or {name} in the RUN command, to hand over the value",
            )
        return files

    def matching(self, glob: Passage) -> list[ParsedFile]:
        names = [file.name for file in self.files]
        files = [file for file in self.files if match_glob(glob.text, file.name)]
        place = glob.place(0, len(glob.text))
        if not files:
            hint = f"{did_you_mean(glob.text, names)}; *.c is in any folder, src/*.c from the first"
            raise AnnotationError(f"no file matches {glob.text}", place=place, hint=hint)
        texts = [file for file in files if file.source.text is not None]
        if not texts:
            message = f"only binary files match {glob.text}: nothing in them can be replaced"
            raise AnnotationError(message, place=place, hint="name text files")
        return texts

    def assign(
        self, document: ParsedFile, declaration: Declaration, line: WrittenDirective, parameter: str
    ) -> None:
        target = quoted(declaration.target.text)
        if document.kind != "file":
            raise AnnotationError(
                "ASSIGN stands in the file itself, where the assignment shall be",
                place=declaration.place,
                hint=f"write SUBSTITUTE {target} = … here",
            )
        if document.dialect.form is None:
            raise AnnotationError(
                f"{document.dialect.name} files have no assignment",
                place=declaration.place,
                hint=f"write SUBSTITUTE {target} = …, and {target} where the value belongs",
            )
        assignment = Assignment(parameter, declaration.target.text, line)
        self.assignments[document.name].append(assignment)

    def export(self, target: Passage, parameter: str) -> None:
        place = target.place(0, len(target.text))
        if "=" in target.text or "\0" in target.text:
            message = f"no environment can hold a variable named {target.text}"
            raise AnnotationError(message, place=place, hint="letters, digits and _")
        if self.environment.setdefault(target.text, parameter) != parameter:
            first = self._variables[target.text]
            other = f"{self.environment[target.text]} at {first.place(0)}"
            message = f"{target.text} is already {other}"
            raise AnnotationError(message, place=place, hint="leave one of them")
        self._variables.setdefault(target.text, target)

    def annotated(self) -> tuple[Annotated, ...]:
        """Every file with what is to be done to it, sorted by path."""
        return tuple(
            Annotated(
                file.source,
                file.name,
                file.dialect,
                file.lines,
                tuple(self.holes.get(file.name, ())),
                tuple(self.assignments.get(file.name, ())),
                file.scopes.regions,
            )
            for file in sorted(self.files, key=lambda file: file.name)
        )


def _check_region(document: ParsedFile, name: Passage) -> None:
    if document.kind != "file":
        message = "CR stands in the program itself, around the region that is measured"
        place = name.place(0, len(name.text))
        raise AnnotationError(message, place=place, hint="move it there")
