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
from zenturio.execute.noted import check_value, noted, noted_values, read_noted
from zenturio.execute.notes import read_recipe, recipe_text
from zenturio.execute.returns import pack_failure, pack_outcome, unpack_outcome
from zenturio.execute.schema import (
    digest,
    first_of,
    items,
    loose_text,
    nullable,
    one_of,
    real,
    record,
    row,
    table,
    text,
    whole,
)
from zenturio.execute.seal import opened, sealed
from zenturio.experiment import Build, Experiment, ExperimentFile, Step
from zenturio.experiment.points import ExperimentValues, positions_of

__all__ = [
    "pack",
    "pack_all",
    "pack_failure",
    "pack_outcome",
    "unpack",
    "unpack_all",
    "unpack_outcome",
]

_MAGIC = b"zen-parcel 2\n"
_TEXT = loose_text(2**24)
_CONTENT = first_of(one_of(""), digest)
"""How a file is counted: empty where its content is."""
_TIME = nullable(whole(-(2**63)))
_FILES = items(row(_TEXT, whole(0, 0o177777), nullable(whole()), nullable(text()), _CONTENT, _TIME))
_STEPS = items(row(_TEXT, nullable(real(0)), whole(), whole(1), nullable(whole())))
_EXPERIMENT = row(
    digest, check_value, whole(), table(_TEXT, check_value), table(_TEXT, whole()), _FILES, _STEPS,
    table(_TEXT, _TEXT), nullable(whole()), whole(),
)  # fmt: skip
_check = record({
    "recipes": items(_TEXT), "builds": items(row(digest, _FILES, _STEPS)),
    "experiments": items(_EXPERIMENT),
})  # fmt: skip


def pack(experiment: Experiment, *, shared: bool = False) -> bytes:
    """*experiment* as bytes; with *shared* large files are only named: the disk is the same."""
    return pack_all((experiment,), shared=shared)


def unpack(parcel: bytes) -> Experiment:
    """The experiment that was packed."""
    experiments = unpack_all(parcel)
    if len(experiments) != 1:
        raise PlaceError(f"a parcel holds {len(experiments)} experiments, not one")
    return experiments[0]


def pack_all(experiments: Iterable[Experiment], *, shared: bool = False) -> bytes:
    """Several that travel together; what they have in common is in it once."""
    writer = _Writer(shared=shared)
    told = [writer.experiment(each) for each in experiments]
    manifest = {"recipes": writer.recipes, "builds": writer.builds, "experiments": told}
    return sealed(_MAGIC, manifest, writer.blobs)


def unpack_all(parcel: bytes) -> list[Experiment]:
    """The experiments that were packed together, in their order."""
    manifest, blobs = opened(_MAGIC, parcel, _check)
    try:
        return _experiments(manifest, blobs)
    except (IndexError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise PlaceError(f"a parcel is not as it was sent: {error!r}") from error


def _experiments(manifest: dict[str, Any], blobs: list[bytes]) -> list[Experiment]:
    recipes = [read_recipe(text) for text in manifest["recipes"]]
    builds = [
        Build(named, _files(files, blobs), _steps(steps))
        for named, files, steps in manifest["builds"]
    ]
    return [
        Experiment(
            named,
            read_noted(index),
            repeat,
            ExperimentValues({name: read_noted(each) for name, each in values.items()}, positions),
            _files(files, blobs),
            _steps(steps),
            environment,
            None if build is None else builds[build],
            recipes[recipe],
        )
        for (
            named,
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

    def experiment(self, each: Experiment) -> list[Any]:
        text, indexed = recipe_text(each.recipe)
        recipe = self._recipes.setdefault(text, len(self._recipes))
        if recipe == len(self.recipes):
            self.recipes.append(text)
        return [
            each.digest,
            noted(each.index),
            each.repeat,
            noted_values(each.values),
            positions_of(each.values, indexed) if indexed else {},
            [self._file(filed) for filed in each.files],
            [_told(step) for step in each.steps],
            dict(each.environment),
            None if each.build is None else self._build(each.build),
            recipe,
        ]

    def _build(self, build: Build) -> int:
        at = self._builds.setdefault(build.digest, len(self._builds))
        if at == len(self.builds):
            files = [self._file(filed) for filed in build.files]
            self.builds.append([build.digest, files, [_told(step) for step in build.steps]])
        return at

    def _file(self, filed: ExperimentFile) -> list[Any]:
        original = filed.original
        content = filed.content
        if content is None and original is not None and not self._shared:
            content, original = original.read_bytes(), None
        return [
            filed.path,
            filed.mode,
            None if content is None else self._blob(content),
            None if original is None else str(original.absolute()),
            filed.digest,
            filed.mtime,
        ]

    def _blob(self, content: bytes) -> int:
        at = self._blobs.setdefault(content, len(self._blobs))
        if at == len(self.blobs):
            self.blobs.append(content)
        return at


def _told(step: Step) -> list[Any]:
    return [step.command, step.timeout, step.retry, step.cpus, step.memory]


def _files(told: list[list[Any]], blobs: list[bytes]) -> tuple[ExperimentFile, ...]:
    return tuple(
        ExperimentFile(
            path,
            mode,
            None if blob is None else blobs[blob],
            None if original is None else Path(original),
            digest,
            mtime,
        )
        for path, mode, blob, original, digest, mtime in told
    )


def _steps(told: list[list[Any]]) -> tuple[Step, ...]:
    return tuple(Step(*each) for each in told)
