"""The files of an experiment that ran, made again from what the repository kept."""

from __future__ import annotations

from zenturio.annotate.filler import Filler
from zenturio.annotate.model import Application
from zenturio.annotate.scan import scan_kept
from zenturio.errors import InputError, SpaceError
from zenturio.record import ExperimentRecord, StudyDefinition


class UnfilledError(Exception):
    """The files cannot be made again; says why."""


def files_of(definition: StudyDefinition, record: ExperimentRecord) -> dict[str, str]:
    """Return the annotated files by path, filled as *definition* fills them."""
    application = kept_application(definition)
    seed = application.repeat.seed  # a value of the row, but no dimension of the space
    values = {name: value for name, value in record.values.items() if name != seed}
    try:
        point = application.space.find(values)
    except SpaceError as error:
        reason = error.diagnostics[0].message
        message = f"the study's directives have changed since it ran: {reason}"
        raise UnfilledError(message) from error
    seeds = application.repeat.texts(record.repeat)
    filled = Filler(application).files(point, seeds)
    return {file.path: file.content.decode("utf-8", "backslashreplace") for file in filled}


def kept_application(definition: StudyDefinition) -> Application:
    """Return the application as the repository kept it: its annotated files, and its overrides."""
    try:
        return scan_kept(definition.sources, definition.notes.get("overrides", ()))
    except InputError as error:
        raise UnfilledError(str(error)) from error
