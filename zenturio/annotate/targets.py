"""Parsed files, and the places in them that directives fill."""

from __future__ import annotations

import errno
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from zenturio.annotate.clauses import Diagnostics
from zenturio.annotate.dialects import Dialect, dialect_of
from zenturio.annotate.directive_lines import (
    DirectiveLines,
    ParsedDirective,
    Scopes,
    find,
    pair,
    quoted,
)
from zenturio.annotate.file_selection import IGNORE, SIDE, SelectedFile, is_study, match_glob, under
from zenturio.annotate.grammar import read
from zenturio.annotate.model import (
    Annotated,
    Assignment,
    CopiedFile,
    Declaration,
    Hole,
    RegionStatement,
    WrittenDirective,
)
from zenturio.annotate.patterns import check_pattern
from zenturio.annotate.source import FileDigests, Source
from zenturio.errors import AnnotationError, Diagnostic, InputError, Passage, did_you_mean
from zenturio.log_setup import work_progress

_REPORTED_FILES = 128
"""Files read between two reports of progress."""
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
    written: tuple[ParsedDirective, ...]
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
    """Return where a file is that *document* declares to be used."""
    return Path(os.path.normpath(document.base.absolute() / Path(text.text).expanduser()))


class AnnotatedFileReader:
    """Reads the files of an application; those without directives are only hashed."""

    def __init__(self, digests: FileDigests, diagnostics: Diagnostics) -> None:
        self._digests = digests
        self._diagnostics = diagnostics
        self.copied: list[CopiedFile] = []
        """The files without directives."""

    def beside(self, members: Iterable[SelectedFile]) -> Iterator[ParsedFile]:
        """Yield files that are no part of the experiment: NAME.zen, study.zen."""
        for member in members:
            kind: Kind = "study" if is_study(member.name) else "side"
            document = self._parsed(member.path, member.name, kind)
            if document is not None:
                yield document

    def files(self, members: list[SelectedFile]) -> Iterator[ParsedFile]:
        """Yield those of *members* that have directives, or what looks like one.

        *members* is empty afterwards: what is known of a hundred thousand files is held once.
        """
        members.reverse()
        report, count = work_progress.get(), len(members)
        while members:
            member = members.pop()
            number = count - len(members)
            if number % _REPORTED_FILES == 0:
                report("reading the files", number, count)
            folder, name, stamp, follows_links = member
            location = member.location
            try:
                facts = self._digests.facts(name, location, stamp, follows_links=follows_links)
            except OSError as error:
                self._cannot_read(location, error)
                continue
            if facts.is_marked:
                reported = len(self._diagnostics.errors) + len(self._diagnostics.warnings)
                document = self._parsed(member.path, name, "file")
                if document is None:
                    continue
                if (
                    document.lines
                    or len(self._diagnostics.errors) + len(self._diagnostics.warnings) > reported
                ):
                    yield document
                    continue
            self.copied.append(CopiedFile(folder, name, facts.stamp, facts.digest))

    def _parsed(self, path: Path, name: str, kind: Kind) -> ParsedFile | None:
        try:
            source = Source.read(path)
        except OSError as error:
            self._cannot_read(str(path), error)
            return None
        return _document(source, name, kind, self._diagnostics)

    def _cannot_read(self, location: str, error: OSError) -> None:
        hint = "change its permissions"
        if error.errno == errno.EBUSY:
            hint = f"wait until no program writes to it, or exclude it by a line in {IGNORE}"
        message = f"{location} cannot be read: {error.strerror}"
        self._diagnostics.errors.append(Diagnostic(message, hint=hint))


def open_copied(copied: CopiedFile) -> ParsedFile:
    """Parse a file without directives, in which something may be replaced all the same."""
    try:
        source = Source.read(Path(copied.location))
    except OSError as error:
        message = f"{copied.location} cannot be read: {error.strerror}"
        raise AnnotationError(message, hint="change its permissions") from error
    return _document(source, copied.path, "file", Diagnostics())


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
        written.append(ParsedDirective(line, statement))
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
    """The files of an application, and the replacements in each."""

    files: list[ParsedFile]
    """Those with directives; those join them in which something is replaced."""
    copied: Mapping[str, CopiedFile]
    """All others by path."""
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
        """Return the parameter that a declaration is about."""
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
        names = self.names_of(document, declaration)
        # A study.zen concerns every file of a folder: holes only where the text occurs at all.
        candidates = [file for file in self.texts(names) if self.may_hold(file, declaration)]
        # If none holds it, all get a hole, so that the missing target is reported with its files.
        files = candidates or list(self.texts(names))
        if names and not files:
            raise _only_binary(document, declaration)
        self.join(files)
        for file in files:
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
                "MATCH" in declaration.places,
            )
            self.check_twice(file, hole)
            self.holes[file.name].append(hole)

    def may_hold(self, file: ParsedFile, declaration: Declaration) -> bool:
        """Return whether the target can occur in a file at all: a hole elsewhere would be idle."""
        text = file.source.text or ""
        return declaration.match == "regex" or declaration.target.text in text

    def check_twice(self, file: ParsedFile, hole: Hole) -> None:
        """Two parameters for one target in the same lines are one too many."""
        same = (file.name, hole.target, hole.match, hole.first, hole.last)
        other = self._taken.setdefault(same, hole)
        if other.parameter != hole.parameter:
            raise AnnotationError(
                f"{hole.target} is already replaced on the same lines by {other.place}",
                place=hole.place,
                hint="remove one of them, or give each a scope with BEGIN and END",
            )

    def join(self, files: Iterable[ParsedFile]) -> None:
        """Count *files* among those in which something is replaced."""
        joined = {file.name for file in self.files}
        self.files += [file for file in files if file.name not in joined]

    def texts(self, names: Iterable[str]) -> Iterator[ParsedFile]:
        """Yield those of the files *names* that are text."""
        parsed = {file.name: file for file in self.files}
        for name in names:
            file = parsed.get(name) or open_copied(self.copied[name])
            if file.source.text is not None:
                yield file

    def names_of(self, document: ParsedFile, declaration: Declaration) -> list[str]:
        """Return the files, text or not, whose lines are in the scope of a SUBSTITUTE."""
        if declaration.begins and (document.kind != "file" or declaration.glob is not None):
            raise AnnotationError(
                "BEGIN cannot be used for another file: the scope is always the whole file",
                place=declaration.places["BEGIN"],
                hint="remove BEGIN and its END",
            )
        if declaration.glob is None and document.kind == "file":
            return [document.name]
        every = sorted([*(file.name for file in self.files), *self.copied.keys()])
        every = list(dict.fromkeys(every))
        if declaration.glob is not None:
            return self.matching(declaration.glob, every)
        if document.kind == "side":
            of = document.name.removesuffix(SIDE)
            return [of] if of in every else []
        names = list(under(document.name, every))
        if not names:
            raise _only_binary(document, declaration)
        return names

    def matching(self, glob: Passage, every: Sequence[str]) -> list[str]:
        names = [name for name in every if match_glob(glob.text, name)]
        if not names:
            place = glob.place(0, len(glob.text))
            hint = (
                f"{did_you_mean(glob.text, every)}; *.c matches in any folder, src/*.c only in src"
            )
            raise AnnotationError(f"no file matches {glob.text}", place=place, hint=hint)
        return names

    def assign(
        self, document: ParsedFile, declaration: Declaration, line: WrittenDirective, parameter: str
    ) -> None:
        target = quoted(declaration.target.text)
        if document.kind != "file":
            raise AnnotationError(
                "ASSIGN must be in the file itself, at the place of the assignment",
                place=declaration.place,
                hint=f"write SUBSTITUTE {target} = … here",
            )
        if document.dialect.form is None:
            raise AnnotationError(
                f"{document.dialect.name} files have no assignments",
                place=declaration.place,
                hint=f"write SUBSTITUTE {target} = …, and {target} where the value belongs",
            )
        assignment = Assignment(parameter, declaration.target.text, line)
        self.assignments[document.name].append(assignment)

    def export(self, target: Passage, parameter: str) -> None:
        place = target.place(0, len(target.text))
        if "=" in target.text or "\0" in target.text:
            message = f"{target.text} cannot be the name of an environment variable"
            raise AnnotationError(message, place=place, hint="letters, digits and _")
        if self.environment.setdefault(target.text, parameter) != parameter:
            first = self._variables[target.text]
            other = f"{self.environment[target.text]} at {first.place(0)}"
            message = f"{target.text} is already {other}"
            raise AnnotationError(message, place=place, hint="remove one of them")
        self._variables.setdefault(target.text, target)

    def annotated(self) -> tuple[Annotated, ...]:
        """Return every file that directives change, with its changes, sorted by path."""
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

    def remaining(self) -> tuple[CopiedFile, ...]:
        """Return the files that go over as they are, sorted by path."""
        joined = {file.name for file in self.files}
        remaining = [copied for copied in self.copied.values() if copied.path not in joined]
        return tuple(sorted(remaining, key=lambda copied: copied.path))


def _only_binary(document: ParsedFile, declaration: Declaration) -> AnnotationError:
    """What is wrong with a SUBSTITUTE that concerns no text."""
    glob, place = declaration.glob, declaration.place
    if glob is not None:
        message = f"only binary files match {glob.text}: values cannot be replaced in binary files"
        place = glob.place(0, len(glob.text))
        return AnnotationError(message, place=place, hint="name text files")
    if document.kind == "side":
        name = document.name.removesuffix(SIDE)
        return AnnotationError(
            f"{name} is binary: zenturio copies it and cannot replace values in it",
            place=place,
            hint="use ENV, or {name} in the RUN command, to pass the value",
        )
    message = "there is no text file to which this applies"
    return AnnotationError(message, place=place, hint="name a folder")


def _check_region(document: ParsedFile, name: Passage) -> None:
    if document.kind != "file":
        message = "CR must be in the program itself, around the region to measure"
        place = name.place(0, len(name.text))
        raise AnnotationError(message, place=place, hint="move it there")
