"""Scan annotated files, or those that a repository stores, into an application."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from zenturio.annotate.assembly import Assembly
from zenturio.annotate.diagnostics import Diagnostics
from zenturio.annotate.file_digests import FileDigests
from zenturio.annotate.file_selection import find_files
from zenturio.annotate.grammar import KEYWORDS, read
from zenturio.annotate.lint_space import added
from zenturio.annotate.model import (
    MEASURED,
    Application,
    CopiedFile,
    Goal,
    ObjectiveStatement,
    UseStatement,
)
from zenturio.annotate.parameters import read_overrides
from zenturio.annotate.targets import DocumentReader, ParsedFile, open_copied, used_path
from zenturio.errors import AnnotationError, Diagnostic, InputError, Passage, Place


def scan(
    paths: Sequence[str | Path] | str | Path,
    *,
    overrides: Sequence[str] = (),
    follow_links: bool = False,
    confined: bool = False,
) -> Application:
    """What the directives of these files and folders say; AnnotationError with all diagnostics.

    Each of *overrides*, as ``n = { 1, 2 }``, gives a parameter another set, or adds one. With
    *follow_links* symbolic links are what they lead to. With *confined* it is a SafetyError to take
    elements from a file outside of the folder.
    """
    diagnostics = Diagnostics()
    named = [paths] if isinstance(paths, str | Path) else list(paths)
    if not named:
        raise AnnotationError("no file is named", hint="name an annotated file, or its folder")
    selection = find_files(named, diagnostics, follow_links=follow_links)
    digests = FileDigests(selection.root, sorted(os.path.realpath(path) for path in named))
    reader = DocumentReader(digests, diagnostics)
    documents = [*reader.files(selection.files), *reader.beside(selection.sides)]
    declared = _declared(documents)
    declared_outputs = [
        member for member in selection.outputs if member.path.absolute() in declared
    ]
    # A file that zenturio wrote is no part of the program, unless a directive declares it.
    documents += reader.files(declared_outputs)
    digests.save()
    # By name, not by the order of reading: it decides which of two declarations is the first.
    documents.sort(key=lambda document: document.name)
    for document in documents:
        _check_side(document, diagnostics)
    if not diagnostics.errors and not any(document.written for document in documents):
        diagnostics.errors.append(_silent(named, documents, reader.copied))
    overridden = read_overrides(overrides, diagnostics)
    assembly = Assembly(documents, reader.copied, overridden, diagnostics, confined)
    application = assembly.application(selection.name, selection.root)
    diagnostics.close()
    assert application is not None, "what is not an application has diagnostics"
    warnings = (*diagnostics.warnings, *(added(application) if overrides else ()))
    return replace(
        application,
        sides=tuple((d.name, d.source) for d in documents if d.kind != "file"),
        overrides=tuple(overrides),
        paths=tuple(Path(path).absolute() for path in named),
        links=tuple(
            (link.name, link.text) for link in sorted(selection.links, key=lambda x: x.name)
        ),
        folders=tuple(selection.folders),
        left_out=tuple(
            member.name for member in selection.outputs if member not in declared_outputs
        ),
        warnings=warnings,
    )


def scan_following(application: Application) -> Application | None:
    """*application* with its links followed, as format 1 of the digests has it.

    None where that is another program, for directives behind a link would be there twice.
    """
    has_links = application.links or any("/.bin/" in path for path in application.file_paths)
    if not has_links:
        return application
    try:
        application_following = scan(
            application.paths, overrides=application.overrides, follow_links=True
        )
    except AnnotationError:
        return None
    if _what_it_does(application_following) != _what_it_does(
        application
    ):  # a directive was read through a link
        return None
    return replace(application_following, versions=application.versions)


def _what_it_does(application: Application) -> tuple[object, ...]:
    """Parameters, commands and variables: what directives in a file behind a link add to."""
    return (
        [parameter.name for parameter in application.space.parameters],
        [command.text.text for command in (*application.builds, *application.runs)],
        dict(application.environment),
        application.repeat.count,
    )


def _declared(documents: Iterable[ParsedFile]) -> set[Path]:
    """The files that USE FILE names: inputs, whoever wrote them."""
    return {
        used_path(document, text)
        for document in documents
        for written in document.written
        if isinstance(written.statement, UseStatement) and written.statement.kind == "file"
        for text in written.statement.texts
    }


def _check_side(document: ParsedFile, diagnostics: Diagnostics) -> None:
    """A side file is there for its directives: one without any is a mistake."""
    if document.kind == "file" or document.lines:
        return
    texts = enumerate(document.source.lines, 1)
    number, text = next(((n, t.rstrip()) for n, t in texts if t.strip()), (0, ""))
    if number:
        place = Place(str(document.source.path), number, 1, text, len(text))
        hint = f"write ZEN$ {text.strip()}" if text.split()[0].upper() in KEYWORDS else "ZEN$ …"
        diagnostics.error("each directive begins with ZEN$, here as well", place, hint)


def _silent(
    named: Sequence[str | Path], documents: Sequence[ParsedFile], copied: Sequence[CopiedFile]
) -> Diagnostic:
    """The diagnostic about files that say nothing."""
    where = ", ".join(map(str, named))
    texts = (d for d in chain(documents, map(open_copied, copied)) if d.source.text is not None)
    first = next(texts, None)
    if first is None:
        hint = "directives for a file that cannot hold comments stand beside it, in NAME.zen"
        return Diagnostic(f"{where}: there are no directives", hint=hint)
    openers = first.dialect.openers or ("#",)
    opener = next((o for o in ("//", "#", "!") if o in openers), openers[0])
    closer = first.dialect.closers.get(opener, "")
    example = f"{opener} ZEN$ PARAM n = {{ 1, 2, 4 }} {closer}".rstrip()
    return Diagnostic(f"{where}: there are no directives", hint=f"write {example}")


def scan_kept(sources: Mapping[str, bytes], overrides: Sequence[str] = ()) -> Application:
    """The application of these files by path; InputError where they make none."""
    if not sources:
        raise InputError("the study has no annotated files")
    with tempfile.TemporaryDirectory(prefix="zenturio-") as name:
        folder = Path(name) / "study"
        for path, content in sources.items():
            write_source(folder, path, content)
        return scan(folder, overrides=overrides)


def write_source(folder: Path, path: str, content: bytes) -> None:
    """Write the file *path* below *folder*; InputError where a database has made up the path."""
    target = folder / path
    try:
        is_inside = target.resolve().is_relative_to(folder.resolve())
        if is_inside:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    except ValueError:  # a NUL in it
        is_inside = False
    except OSError as error:
        if error.errno not in _NO_PATH:
            raise
        is_inside = False
    if not is_inside:
        raise InputError(f"{path[:100]!r} is not a path inside a study")


_NO_PATH = {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST}


_KEYWORD = "OBJECTIVE "


def read_goals(
    text: str, application: Application, origin: str = "--objective"
) -> tuple[Goal, ...]:
    """The goals that ``MINIMIZE expr, MAXIMIZE expr`` says of *application*."""
    metrics = [metric.name for metric in application.metrics]
    parameters = [parameter.name for parameter in application.space.parameters]
    return goals_of(text, [*MEASURED, *metrics, *parameters], origin)


def goals_of(text: str, names: Iterable[str], origin: str = "--objective") -> tuple[Goal, ...]:
    """The goals that ``MINIMIZE expr, MAXIMIZE expr`` says of what has these *names*."""
    aim = read(Passage.of(_KEYWORD + text, origin))
    assert isinstance(aim, ObjectiveStatement), "an OBJECTIVE is an aim"
    known_names = dict.fromkeys(names)
    for goal in aim.goals:
        goal.expression.check(known_names)
    return aim.goals
