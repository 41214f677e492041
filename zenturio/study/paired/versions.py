"""Versions of a program: the present files, one that the repository kept, a commit of Git.

Each becomes an application of its own; their studies have one more parameter, which says of each
experiment of which version it is.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp

from zenturio.annotate.model import MEASURED, Application
from zenturio.annotate.scan import scan, write_source
from zenturio.errors import AnnotationError, InputError, NotFoundError
from zenturio.experiment import ExperimentGenerator
from zenturio.experiment.git import check_out, find_commit, top_folder
from zenturio.files import make_folder, refuse_link
from zenturio.record import Repository, StudyDefinition
from zenturio.record.open import FOLDER, project_folder
from zenturio.space import Parameter, Space
from zenturio.space.domain import elements
from zenturio.study.study_definition import (
    DIGESTS,
    FORMER_PROGRAM,
    PROGRAM,
    changes_of,
    is_same_program,
)

COMMITS = "commits"
"""The folder below .zenturio that holds the files of commits."""
VERSIONS = "versions"
"""The folder below .zenturio that holds the files of versions that the repository kept."""
LABEL_DIGITS = 10
"""Of the name of a commit, as a label."""


@dataclass(frozen=True)
class Version:
    """A version of a program, and what it is called in tables."""

    label: str
    application: Application


def present_version(repository: Repository, target: str, overrides: Sequence[str] = ()) -> Version:
    """Return the present files of *target*: a study that was run, else an annotated file or folder.

    The label is the study's name. *overrides* give parameters other sets, as in ``zen run -P``.
    """
    try:
        notes = repository.definition(target).notes
    except NotFoundError:
        if not Path(target).exists():
            raise InputError(
                f"{target!r} is neither a study nor a file",
                hint="see zen list, or name the annotated file or folder",
            ) from None
        application = scan([Path(target)], overrides=overrides)
        return Version(application.name, _checked(application))
    paths = [Path(path) for path in notes.get("paths", ())]
    if not paths:
        raise InputError(
            f"study {target} has no annotated files", hint="name a file, or a study of files"
        )
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise InputError(f"study {target} was run from {missing[0]}, which is gone")
    application = scan(paths, overrides=overrides or notes.get("overrides", ()))
    return Version(target, _checked(application))


def commit_version(present: Version, name: str) -> Version:
    """Return the files of *present* as they are in the commit *name*, in a folder of their own."""
    application = present.application
    folder = application.root.absolute()
    commit = find_commit(folder, name)
    files = check_out(folder, commit, make_folder(project_folder(), FOLDER, COMMITS))
    top = top_folder(folder)
    paths = [files / path.resolve().relative_to(top) for path in application.paths]
    for path in paths:
        if not path.exists():
            raise InputError(f"commit {name} has no {path.relative_to(files)}")
    return Version(commit[:LABEL_DIGITS], _moved(application, paths))


def kept_version(repository: Repository, name: str, present: Version) -> Version:
    """Return the program of the study *name*, such as matmul@1.

    The repository kept its annotated files; all others must be as they were.
    """
    definition = repository.definition(name)
    store = make_folder(project_folder(), FOLDER, VERSIONS)
    folder = _written(definition, present.application, store)
    root = present.application.root.absolute()
    paths = [folder / path.relative_to(root) for path in present.application.paths]
    application = _moved(present.application, paths, definition.notes.get("overrides", ()))
    recorded = definition.notes.get(PROGRAM, {})
    generator = ExperimentGenerator(application)
    notes = {
        PROGRAM: generator.program,
        FORMER_PROGRAM: generator.former_program,
        DIGESTS: definition.notes.get(DIGESTS),
    }
    if not is_same_program(definition.notes, notes):
        changes = ", ".join(changes_of(recorded, generator.program)) or "its digests differ"
        commit = (definition.provenance.get("git") or {}).get("commit") or "COMMIT"
        raise InputError(
            f"{name} cannot be run again: {changes}, and the repository keeps annotated files only",
            hint=f"take it from Git: --commit {commit[:LABEL_DIGITS]}",
        )
    return Version(name, application)


def label_parameter(versions: Iterable[Version]) -> str:
    """Return a name for the parameter that holds labels, which no version uses."""
    names = {*MEASURED}
    for version in versions:
        names |= {parameter.name for parameter in version.application.space.parameters}
        names |= {metric.name for metric in version.application.metrics}
    return next(name for name in ("version", "compared_version", "version_") if name not in names)


def labelled(application: Application, parameter: str, labels: Sequence[str]) -> Application:
    """Return *application* with a parameter that holds one of *labels*, and that nothing uses.

    So experiments of equal files have digests of their own for each label.
    """
    space = application.space
    label = Parameter(parameter, elements(list(labels), "str"))
    return replace(application, space=Space((*space.parameters, label), space.constraints))


def _checked(application: Application) -> Application:
    if application.after:
        raise InputError(
            f"{application.name} has stages (AFTER): versions of stages cannot be compared",
            hint="compare the versions of one stage by a file of its own",
        )
    if not application.runs:
        raise InputError(
            f"{application.name} says nowhere what to run", hint='write ZEN$ RUN "./program"'
        )
    return application


def _moved(
    present: Application, paths: Sequence[Path], overrides: Sequence[str] | None = None
) -> Application:
    """Return the application of *paths*, with the name of the *present* one."""
    try:
        application = scan(paths, overrides=present.overrides if overrides is None else overrides)
    except AnnotationError as error:
        raise InputError(f"this version cannot be run: {error}") from error
    return _checked(replace(application, name=present.name))


def _written(definition: StudyDefinition, present: Application, store: Path) -> Path:
    """Return a folder with the files that *definition* kept, and else the *present* ones."""
    digest = blake2b(digest_size=10)
    for path, content in sorted(definition.sources.items()):
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    copied = [file for file in present.copied if file.path not in definition.sources]
    for file in copied:
        digest.update(f"{file.path}\0".encode() + file.digest)
    target = store / digest.hexdigest()
    refuse_link(target)
    if target.is_dir():
        return target
    temporary = Path(mkdtemp(prefix="writing-", dir=store))
    try:
        for path, content in definition.sources.items():
            write_source(temporary, path, content)
        for file in copied:
            shutil.copy2(file.location, _inside(temporary, file.path))
        modes = {file.path: file.source.mode for file in present.files}
        for written in definition.sources:
            (temporary / written).chmod(modes.get(written, 0o644) & 0o777)
        for link, text in present.links:
            _inside(temporary, link).symlink_to(text)
        for name in present.folders:
            make_folder(temporary, *PurePosixPath(name).parts)
        temporary.chmod(0o755)
        try:
            temporary.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster, with the same files
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def _inside(folder: Path, path: str) -> Path:
    """Return *path* below *folder*, in a folder that exists."""
    *parents, name = PurePosixPath(path).parts
    return make_folder(folder, *parents) / name
