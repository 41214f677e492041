"""Recipes, values, experiments and outcomes: what travels to another machine, and back.

Recipes and values are JSON. Experiments and outcomes are bytes: a word and a number that tell the
format, a length, a manifest in JSON, and the bytes of files behind it, each once however often it
is used. Nothing in it does anything when it is read.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from zenturio import errors
from zenturio.annotate.model import Metric
from zenturio.errors import Diagnostic, Passage, Place, PlaceError, ZenError
from zenturio.execute.file_staging import (
    attempt_folder,
    belongs_to_attempt,
    checked_path,
    content_of,
    disk_errors,
    is_small,
)
from zenturio.execute.folder_files import write_new
from zenturio.execute.machines import (
    check_machine_parts,
    machine_parts_from_json,
    machine_parts_to_json,
)
from zenturio.execute.wire import (
    Check,
    MalformedError,
    any_text,
    digest,
    first_of,
    integer,
    list_of,
    matching,
    mismatch,
    nullable,
    number,
    object_of,
    one_of,
    path,
    read_json,
    record,
    text,
    tuple_of,
)
from zenturio.experiment import (
    Artifact,
    Build,
    Experiment,
    ExperimentFile,
    Log,
    Missing,
    Outcome,
    Recipe,
    Series,
    Status,
    Step,
)
from zenturio.experiment.experiment import ExperimentValues, positions_of

if TYPE_CHECKING:
    from zenturio.expression import Expression

__all__ = [
    "pack_experiment",
    "pack_experiments",
    "pack_failure",
    "pack_outcome",
    "unpack_experiment",
    "unpack_experiments",
    "unpack_outcome",
]


# Framing: a manifest in JSON and the bytes that it speaks of; a torn piece is noticed

_LENGTH = struct.Struct("!I")
_ELEMENTS = 2**24
"""Values in a manifest: a series of measures may be long."""
_sizes = list_of(integer())


def frame_message(magic: bytes, manifest: Mapping[str, Any], blobs: Sequence[bytes]) -> bytes:
    """Return a manifest with *blobs* behind it, whose lengths it tells."""
    header = {**manifest, "sizes": [len(blob) for blob in blobs]}
    text = json.dumps(header, separators=(",", ":")).encode()
    return b"".join((magic, _LENGTH.pack(len(text)), text, *blobs))


def unframe_message(magic: bytes, data: bytes, check: Check) -> tuple[dict[str, Any], list[bytes]]:
    """Return what was sealed.

    PlaceError where it is not that, or not all of it, or fails *check*.
    """
    head = len(magic) + _LENGTH.size
    if not data.startswith(magic) or len(data) < head:
        kind = magic.decode().split()[0]
        raise PlaceError(
            f"this is not a {kind} of this version of zenturio: {bytes(data[:16])!r}",
            hint="install the same version of zenturio on both machines",
        )
    # Magic, 4 bytes of length (big-endian), JSON, blobs: the JSON says how long each blob is.
    (length,) = _LENGTH.unpack_from(data, len(magic))
    try:
        manifest = read_json(data[head : head + length], _ELEMENTS)
        sizes = manifest.pop("sizes", None) if isinstance(manifest, dict) else None
        _sizes(sizes, "sizes")
        assert sizes is not None
        check(manifest, "the manifest")
    except MalformedError as error:
        raise PlaceError(f"the message was damaged on its way: {error}") from error
    at, blobs = head + length, []
    for size in sizes:
        blobs.append(data[at : at + size])
        at += size
    if at != len(data):
        raise PlaceError(f"the message is incomplete: {len(data)} bytes instead of {at}")
    return manifest, blobs


# Recipes

_EXPRESSIONS = ("formula", "rows", "when")
_FIELDS = tuple(item.name for item in fields(Metric) if item.name not in (*_EXPRESSIONS, "place"))


def place_to_json(place: Place | None) -> list[Any] | None:
    """Return where something stands."""
    if place is None:
        return None
    return [place.file, place.line, place.column, place.text, place.width]


def place_from_json(row: list[Any] | None) -> Place | None:
    return None if row is None else Place(*row)


_last_recipe: tuple[Recipe | None, tuple[str, frozenset[str]]] = (None, ("", frozenset()))
"""The last recipe that was written: all experiments of a study share one."""


def recipe_text(recipe: Recipe) -> tuple[str, frozenset[str]]:
    """Return a recipe as a text, and the parameters whose positions it asks for."""
    global _last_recipe  # noqa: PLW0603 - one step for any number of threads
    # One tuple, read and replaced at once: two threads never see half of it.
    last, text = _last_recipe
    if last is not recipe:
        text = _recipe_to_json(recipe)
        _last_recipe = (recipe, text)
    return text


def _recipe_to_json(recipe: Recipe) -> tuple[str, frozenset[str]]:
    metrics = [
        [
            {name: getattr(item, name) for name in _FIELDS},
            {name: _expression_to_json(getattr(item, name)) for name in _EXPRESSIONS},
            place_to_json(item.place),
        ]
        for item in recipe.metrics
    ]
    formulas = [part for item in recipe.metrics for part in (item.formula, item.when)]
    expressions = (*formulas, *recipe.requires, *recipe.verified, *recipe.numbers)
    used = [part for part in expressions if part is not None]
    manifest = {
        "metrics": metrics,
        "outputs": recipe.outputs,
        "requires": [_expression_to_json(item) for item in recipe.requires],
        "rank": _expression_to_json(recipe.rank),
        "required": recipe.required,
        "verified": [_expression_to_json(item) for item in recipe.verified],
        "verifiers": recipe.verifiers,
        "numbers": [_expression_to_json(item) for item in recipe.numbers],
    }
    return json.dumps(manifest), frozenset(name for item in used for name in item.indexed)


@lru_cache(maxsize=64)
def read_recipe(text: str) -> Recipe:
    """Return the recipe.

    The same object for the same text, so that what is made of it is made once.
    """
    manifest = json.loads(text)
    metrics = [
        Metric(
            **plain,
            formula=_expression_from_json(expressions["formula"]),
            rows=_expression_from_json(expressions["rows"]),
            when=_expression_from_json(expressions["when"]),
            place=place_from_json(place),
        )
        for plain, expressions, place in manifest["metrics"]
    ]
    requires = [_expression_from_json(item) for item in manifest["requires"]]
    verified = [_expression_from_json(item) for item in manifest.get("verified", ())]
    numbers = [_expression_from_json(item) for item in manifest.get("numbers", ())]
    return Recipe(
        tuple(metrics),
        tuple(manifest["outputs"]),
        tuple(item for item in requires if item is not None),
        _expression_from_json(manifest["rank"]),
        tuple(manifest.get("required", ())),
        tuple(item for item in verified if item is not None),
        tuple(manifest.get("verifiers", ())),
        tuple(item for item in numbers if item is not None),
    )


def _expression_to_json(expression: Expression | None) -> dict[str, Any] | None:
    """Return what an expression says, and where it stands if it stands there as it is."""
    if expression is None:
        return None
    passage = expression.passage
    where = passage.pieces if passage.text == expression.text else ()
    pieces = [[offset, place_to_json(place)] for offset, place in where]
    return {"text": expression.text, "pieces": pieces}


def _expression_from_json(manifest: dict[str, Any] | None) -> Expression | None:
    if manifest is None:
        return None
    from zenturio.expression import parse  # noqa: PLC0415 - most recipes have no formula

    if not manifest["pieces"]:
        return parse(manifest["text"])
    pieces = tuple((offset, Place(*place)) for offset, place in manifest["pieces"])
    return parse(Passage(manifest["text"], pieces))


# Values and measures

_EXACT_LIMIT = 2**63
"""Whole numbers beyond are written in hexadecimal: JSON's readers limit the digits."""


def value_to_json(value: Any) -> Any:
    """Return a value or a measure as JSON has it."""
    kind = type(value)
    # json reads long integers slowly, and limits their digits; hexadecimal has neither problem.
    if kind is int and not -_EXACT_LIMIT < value < _EXACT_LIMIT:
        return {"int": hex(value)}
    if isinstance(value, Missing):  # of any kind: why it is missing says all
        return {"missing": value.why}
    if kind is Series:
        return {"series": [value_to_json(element) for element in value.values]}
    return value


def _plain(value: Any, where: str) -> None:
    if isinstance(value, list | dict):
        raise mismatch(value, where, "a number, a text, true, false or null")


_HEX = matching("-?0x[0-9a-f]+", "a number in hexadecimal")
_BIG = record({"int": _HEX})
_VALUE: Check = first_of(_plain, _BIG)
_MISSING = record({"missing": any_text(2**16)})
_SERIES = record({"series": list_of(_VALUE, 2**24)})
_MEASURE: Mapping[str, Check] = {"int": _BIG, "missing": _MISSING, "series": _SERIES}


def check_value(value: Any, where: str) -> None:
    """MalformedError where *value* was not made by `value_to_json` of a value."""
    if type(value) is dict:
        _BIG(value, where)
    else:
        _plain(value, where)


def check_measure(value: Any, where: str) -> None:
    """MalformedError where *value* was not made by `value_to_json`."""
    if type(value) is not dict:
        _plain(value, where)
    elif len(value) == 1 and (kind := next(iter(value))) in _MEASURE:
        _MEASURE[kind](value, where)
    else:
        raise mismatch(value, where, "a measure")


def values_to_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return all of them by name."""
    return {name: value_to_json(value) for name, value in values.items()}


def value_from_json(value: Any) -> Any:
    """Return what was noted."""
    if type(value) is not dict:
        return value
    ((kind, content),) = value.items()
    if kind == "int":
        return int(content, 16)
    if kind == "missing":
        return Missing(content)
    return Series(tuple(value_from_json(element) for element in content))


# Outcomes and failures

_OUTCOME_MAGIC = b"zen-outcome 3\n"
_LONGEST_TEXT, _MOST_DIAGNOSTICS = 2**16, 10_000
_OUTCOME_TEXT = any_text(_LONGEST_TEXT)
_MOMENT = number(-1e12, 1e12)
"""Seconds since 1970."""
_SHA256 = matching("[0-9a-f]{64}", "a SHA-256")
_ARTIFACT = tuple_of(path, integer(), _SHA256, text(), integer(0, 0o777))
_PLACE = nullable(tuple_of(_OUTCOME_TEXT, integer(), integer(), _OUTCOME_TEXT, integer()))
_DIAGNOSTIC = tuple_of(_OUTCOME_TEXT, _PLACE, _OUTCOME_TEXT, one_of("error", "warning"))
_FAILURE = record({"failure": text(64), "diagnostics": list_of(_DIAGNOSTIC, _MOST_DIAGNOSTICS, 1)})
_OUTCOME = record({
    "digest": digest, "status": one_of(*get_args(Status)), "cause": _OUTCOME_TEXT,
    "metrics": object_of(any_text(4096), check_measure), "attempt": integer(),
    "host": _OUTCOME_TEXT, "started": _MOMENT, "ended": _MOMENT,
    "exit": nullable(integer(-(2**31), 2**32)), "remark": _OUTCOME_TEXT,
    "metric_remarks": object_of(any_text(4096), _OUTCOME_TEXT),
    "logs": tuple_of(integer(), integer()), "artifacts": list_of(_ARTIFACT),
    **check_machine_parts,
})  # fmt: skip


def pack_outcome(outcome: Outcome, *, shared: bool = False) -> bytes:
    """Return *outcome* as bytes; with *shared*, on the same disk, artifacts are only named."""
    logs = (outcome.stdout, outcome.stderr)
    blobs = [part for log in logs for part in (log.head, log.tail)]
    artifacts = [[a.path, a.size, a.sha256, str(a.kept), a.mode] for a in outcome.artifacts]
    if not shared:
        blobs += [artifact.kept.read_bytes() for artifact in outcome.artifacts]
    manifest = {
        "digest": outcome.digest,
        "status": outcome.status,
        "cause": outcome.cause,
        "metrics": values_to_json(outcome.metrics),
        "attempt": outcome.attempt,
        "host": outcome.host,
        "started": outcome.started,
        "ended": outcome.ended,
        "exit": outcome.exit,
        "remark": outcome.remark,
        "metric_remarks": dict(outcome.metric_remarks),
        **machine_parts_to_json(outcome),
        "logs": [log.size for log in logs],
        "artifacts": artifacts,
    }
    return frame_message(_OUTCOME_MAGIC, manifest, blobs)


def pack_failure(error: ZenError) -> bytes:
    """Pack *error*, by which a place failed to run an experiment, to be raised again."""
    rows = [
        [c.message[:_LONGEST_TEXT], place_to_json(c.place), c.hint[:_LONGEST_TEXT], c.severity]
        for c in error.diagnostics[:_MOST_DIAGNOSTICS]
    ]
    return frame_message(_OUTCOME_MAGIC, {"failure": type(error).__name__, "diagnostics": rows}, ())


def unpack_outcome(data: bytes, digest: str, incoming: Path, sender: str = "") -> Outcome:
    """Return the outcome of the experiment *digest*; its artifacts are below *incoming*.

    Those that came with it are written there. PlaceError, which names the *sender*, where it is the
    outcome of another experiment, or none at all; raises what the place could not do.
    """
    incoming = incoming.absolute()
    try:
        manifest, blobs = unframe_message(_OUTCOME_MAGIC, data, _check_outcome_manifest)
        failed = "failure" in manifest
        artifacts = () if failed else _artifacts_of(manifest, blobs, digest, incoming)
    except PlaceError as error:
        if not sender:
            raise
        (diagnostic,) = error.diagnostics
        raise PlaceError(
            f"{sender} returned an invalid outcome: {diagnostic.message}", hint=diagnostic.hint
        ) from error
    if failed:
        raise _failure_from_json(manifest)
    if len(blobs) > 4:
        artifacts = _store_artifacts(artifacts, blobs[4:], incoming, digest)
    heads = ((blobs[0], blobs[1]), (blobs[2], blobs[3]))
    stdout, stderr = (
        Log(*parts, size) for parts, size in zip(heads, manifest["logs"], strict=True)
    )
    return Outcome(
        manifest["digest"],
        manifest["status"],
        manifest["cause"],
        {name: value_from_json(value) for name, value in manifest["metrics"].items()},
        manifest["attempt"],
        manifest["host"],
        manifest["started"],
        manifest["ended"],
        manifest["exit"],
        stdout,
        stderr,
        artifacts,
        remark=manifest["remark"],
        metric_remarks=manifest["metric_remarks"],
        **machine_parts_from_json(manifest),
    )


def _artifacts_of(
    manifest: dict[str, Any], blobs: Sequence[bytes], digest: str, incoming: Path
) -> tuple[Artifact, ...]:
    """Return the artifacts of the outcome of *digest*; PlaceError where it is not that."""
    artifacts = tuple(
        Artifact(p, s, c, Path(stored), mode) for p, s, c, stored, mode in manifest["artifacts"]
    )
    if manifest["digest"] != digest:
        raise PlaceError(
            f"an outcome of {manifest['digest'][:12]} came for experiment {digest[:12]}"
        )
    if len(blobs) not in (4, 4 + len(artifacts)):
        raise PlaceError(f"an outcome came with {len(blobs)} pieces for {len(artifacts)} artifacts")
    # Only paths travelled: a worker must not make any file of this disk an artifact.
    if len(blobs) == 4 and not all(
        belongs_to_attempt(a.kept, a.path, incoming, digest) for a in artifacts
    ):
        raise PlaceError(f"an outcome names artifacts that are not in {incoming}")
    return artifacts


def _check_outcome_manifest(manifest: Any, where: str) -> None:
    (_FAILURE if "failure" in manifest else _OUTCOME)(manifest, where)


def _store_artifacts(
    artifacts: tuple[Artifact, ...], blobs: list[bytes], incoming: Path, digest: str
) -> tuple[Artifact, ...]:
    """Write the received files into a folder of their own."""
    with disk_errors(incoming):
        folder = attempt_folder(incoming, digest)
        return tuple(
            _store_artifact(a, blob, folder) for a, blob in zip(artifacts, blobs, strict=True)
        )


def _store_artifact(artifact: Artifact, content: bytes, folder: Path) -> Artifact:
    if sha256(content).hexdigest() != artifact.sha256:
        raise PlaceError(f"{artifact.path} changed on its way back")
    stored = folder / checked_path(artifact.path)
    stored.parent.mkdir(parents=True, exist_ok=True)
    write_new(str(stored), content, 0o444)
    return replace(artifact, size=len(content), kept=stored)


def _failure_from_json(manifest: dict[str, Any]) -> ZenError:
    # Looked up by name among our errors alone: nothing of the message is executed.
    kind = getattr(errors, manifest["failure"], PlaceError)
    is_known = isinstance(kind, type) and issubclass(kind, ZenError)
    diagnostics = tuple(
        Diagnostic(message, place_from_json(place), hint, severity)
        for message, place, hint, severity in manifest["diagnostics"]
    )
    error: ZenError = (kind if is_known else PlaceError)(diagnostics[0].message)
    error.diagnostics = diagnostics
    return error


# Experiments

_EXPERIMENT_MAGIC = b"zen-parcel 2\n"
_EXPERIMENT_TEXT = any_text(2**24)
_CONTENT = first_of(one_of(""), digest)
"""How a file is counted: empty where its content is."""
_TIME = nullable(integer(-(2**63)))
_FILES = list_of(
    tuple_of(
        _EXPERIMENT_TEXT,
        integer(0, 0o177777),
        nullable(integer()),
        nullable(text()),
        _CONTENT,
        _TIME,
    )
)
_STEPS = list_of(
    tuple_of(
        _EXPERIMENT_TEXT, nullable(number(0)), integer(), nullable(integer(1)), nullable(integer())
    )
)
_EXPERIMENT = tuple_of(
    digest, check_value, integer(), object_of(_EXPERIMENT_TEXT, check_value),
    object_of(_EXPERIMENT_TEXT, integer()),
    _FILES, _STEPS, object_of(_EXPERIMENT_TEXT, _EXPERIMENT_TEXT), nullable(integer()), integer(),
)  # fmt: skip
_check_experiment_manifest = record({
    "recipes": list_of(_EXPERIMENT_TEXT), "builds": list_of(tuple_of(digest, _FILES, _STEPS)),
    "experiments": list_of(_EXPERIMENT),
})  # fmt: skip


def pack_experiment(experiment: Experiment, *, shared: bool = False) -> bytes:
    """Return *experiment* as bytes; with *shared*, on the same disk, large files are only named."""
    return pack_experiments((experiment,), shared=shared)


def unpack_experiment(parcel: bytes) -> Experiment:
    """Return the experiment that was packed."""
    experiments = unpack_experiments(parcel)
    if len(experiments) != 1:
        raise PlaceError(f"a parcel holds {len(experiments)} experiments, not one")
    return experiments[0]


def pack_experiments(experiments: Iterable[Experiment], *, shared: bool = False) -> bytes:
    """Several that travel together; what they have in common is in it once."""
    writer = _ManifestWriter(shared=shared)
    rows = [writer.experiment(experiment) for experiment in experiments]
    manifest = {"recipes": writer.recipes, "builds": writer.builds, "experiments": rows}
    return frame_message(_EXPERIMENT_MAGIC, manifest, writer.blobs)


def unpack_experiments(parcel: bytes) -> list[Experiment]:
    """Return the experiments that were packed together, in their order."""
    manifest, blobs = unframe_message(_EXPERIMENT_MAGIC, parcel, _check_experiment_manifest)
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


class _ManifestWriter:
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
            None if original is None else str(Path(original).absolute()),
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
