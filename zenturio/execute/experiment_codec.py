"""
Experiments as bytes, and outcomes: what travels to another machine, and back.

A word and a number that tell the format, a length, a manifest in JSON, and the bytes of files
behind it, each once however often it is used. Nothing in it does anything when it is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from zenturio.errors import PlaceError
from zenturio.execute.file_staging import content_of, is_small
from zenturio.execute.json_checks import (
    any_text,
    digest,
    first_of,
    integer,
    list_of,
    nullable,
    number,
    object_of,
    one_of,
    record,
    text,
    tuple_of,
)
from zenturio.execute.message_frame import frame_message, unframe_message
from zenturio.execute.outcome_codec import pack_failure, pack_outcome, unpack_outcome
from zenturio.execute.recipe_json import read_recipe, recipe_text
from zenturio.execute.value_json import check_value, value_from_json, value_to_json, values_to_json
from zenturio.experiment import Build, Experiment, ExperimentFile, Step
from zenturio.experiment.experiment import ExperimentValues, positions_of

__all__ = [
    "pack_experiment",
    "pack_experiments",
    "pack_failure",
    "pack_outcome",
    "unpack_experiment",
    "unpack_experiments",
    "unpack_outcome",
]

_MAGIC = b"zen-parcel 2\n"
_TEXT = any_text(2**24)
_CONTENT = first_of(one_of(""), digest)
"""How a file is counted: empty where its content is."""
_TIME = nullable(integer(-(2**63)))
_FILES = list_of(
    tuple_of(_TEXT, integer(0, 0o177777), nullable(integer()), nullable(text()), _CONTENT, _TIME)
)
_STEPS = list_of(
    tuple_of(_TEXT, nullable(number(0)), integer(), nullable(integer(1)), nullable(integer()))
)
_EXPERIMENT = tuple_of(
    digest, check_value, integer(), object_of(_TEXT, check_value), object_of(_TEXT, integer()),
    _FILES, _STEPS, object_of(_TEXT, _TEXT), nullable(integer()), integer(),
)  # fmt: skip
_check_manifest = record({
    "recipes": list_of(_TEXT), "builds": list_of(tuple_of(digest, _FILES, _STEPS)),
    "experiments": list_of(_EXPERIMENT),
})  # fmt: skip


def pack_experiment(experiment: Experiment, *, shared: bool = False) -> bytes:
    """*experiment* as bytes; with *shared* large files are only named: the disk is the same."""
    return pack_experiments((experiment,), shared=shared)


def unpack_experiment(parcel: bytes) -> Experiment:
    """Return the experiment that was packed."""
    experiments = unpack_experiments(parcel)
    if len(experiments) != 1:
        raise PlaceError(f"a parcel holds {len(experiments)} experiments, not one")
    return experiments[0]


def pack_experiments(experiments: Iterable[Experiment], *, shared: bool = False) -> bytes:
    """Several that travel together; what they have in common is in it once."""
    writer = _Writer(shared=shared)
    rows = [writer.experiment(experiment) for experiment in experiments]
    manifest = {"recipes": writer.recipes, "builds": writer.builds, "experiments": rows}
    return frame_message(_MAGIC, manifest, writer.blobs)


def unpack_experiments(parcel: bytes) -> list[Experiment]:
    """Return the experiments that were packed together, in their order."""
    manifest, blobs = unframe_message(_MAGIC, parcel, _check_manifest)
    try:
        return _experiments_from_json(manifest, blobs)
    except (IndexError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise PlaceError(f"a packed experiment was damaged on its way: {error!r}") from error


def _experiments_from_json(manifest: dict[str, Any], blobs: list[bytes]) -> list[Experiment]:
    recipes = [read_recipe(text) for text in manifest["recipes"]]
    builds = [
        Build(digest, _files_from_json(files, blobs), _steps_from_json(steps))
        for digest, files, steps in manifest["builds"]
    ]
    return [
        Experiment(
            digest,
            value_from_json(index),
            repeat,
            ExperimentValues(
                {name: value_from_json(value) for name, value in values.items()}, positions
            ),
            _files_from_json(files, blobs),
            _steps_from_json(steps),
            environment,
            None if build is None else builds[build],
            recipes[recipe],
        )
        for (
            digest,
            index,
            repeat,
            values,
            positions,
            files,
            steps,
            environment,
            build,
            recipe,
        ) in manifest["experiments"]
    ]


class _Writer:
    """Collects what several experiments share."""

    def __init__(self, *, shared: bool) -> None:
        self._shared = shared
        self.blobs: list[bytes] = []
        self.recipes: list[str] = []
        self.builds: list[list[Any]] = []
        self._blobs: dict[bytes, int] = {}
        self._recipes: dict[str, int] = {}
        self._builds: dict[str, int] = {}

    def experiment(self, experiment: Experiment) -> list[Any]:
        text, indexed = recipe_text(experiment.recipe)
        recipe = self._recipes.setdefault(text, len(self._recipes))
        if recipe == len(self.recipes):
            self.recipes.append(text)
        return [
            experiment.digest,
            value_to_json(experiment.index),
            experiment.repeat,
            values_to_json(experiment.values),
            positions_of(experiment.values, indexed) if indexed else {},
            [self._file(filed) for filed in experiment.files],
            [_step_to_json(step) for step in experiment.steps],
            dict(experiment.environment),
            None if experiment.build is None else self._build(experiment.build),
            recipe,
        ]

    def _build(self, build: Build) -> int:
        at = self._builds.setdefault(build.digest, len(self._builds))
        if at == len(self.builds):
            files = [self._file(filed) for filed in build.files]
            self.builds.append([build.digest, files, [_step_to_json(step) for step in build.steps]])
        return at

    def _file(self, filed: ExperimentFile) -> list[Any]:
        original = filed.original
        content = filed.content
        if original is not None and (is_small(filed) or not self._shared):
            content, original = content_of(filed), None
        return [
            filed.path,
            filed.mode,
            None if content is None else self._blob(content),
            None if original is None else str(original.absolute()),
            filed.digest,
            filed.mtime,
        ]

    def _blob(self, content: bytes) -> int:
        # Each content once, however many experiments share it: most files of a study are the same.
        at = self._blobs.setdefault(content, len(self._blobs))
        if at == len(self.blobs):
            self.blobs.append(content)
        return at


def _step_to_json(step: Step) -> list[Any]:
    return [step.command, step.timeout, step.retry, step.cpus, step.memory]


def _files_from_json(rows: list[list[Any]], blobs: list[bytes]) -> tuple[ExperimentFile, ...]:
    return tuple(
        ExperimentFile(
            path,
            mode,
            None if blob is None else blobs[blob],
            None if original is None else Path(original),
            digest,
            mtime,
        )
        for path, mode, blob, original, digest, mtime in rows
    )


def _steps_from_json(rows: list[list[Any]]) -> tuple[Step, ...]:
    return tuple(Step(*row) for row in rows)
