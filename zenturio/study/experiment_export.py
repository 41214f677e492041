"""A folder for each experiment that would be run, and a manifest of them all."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zenturio.annotate.file_selection import IGNORE
from zenturio.annotate.model import Application
from zenturio.errors import ConflictError, Interrupted, PlaceError
from zenturio.execute.file_staging import checked_link
from zenturio.experiment import Experiment, ExperimentFile, ExperimentGenerator, Step
from zenturio.study.driver.experiment_source import PointSelection

MANIFEST = "manifest.jsonl"
DRAFT = f".{MANIFEST}"
IGNORE_ALL = "# What zen expand has written here is no part of the application around it.\n*\n"


def expand(
    application: Application,
    points: PointSelection,
    out: Path,
    step: Callable[[], object] = lambda: None,
) -> int:
    """Write the experiments of *points* under *out*; one that is there already is left alone.

    Each folder is made under another name and renamed when it is whole, and the manifest comes
    last: whatever stops this, what is there is right, and the same call goes on.
    """
    generator = ExperimentGenerator(application)
    _claim(out)
    written = 0
    try:
        draft = out / DRAFT
        with draft.open("w", encoding="utf-8") as manifest:
            for index, point in points.numbered():
                for experiment in generator.experiments(point, index):
                    _write(experiment, out)
                    manifest.write(_line(experiment, application.repeat.count > 1))
                    written += 1
                    step()
        draft.replace(out / MANIFEST)
    except KeyboardInterrupt:
        raise Interrupted(
            f"stopped: {written:,} experiments are in {out}",
            hint="run the same command again to continue",
        ) from None
    except OSError as error:
        raise PlaceError(f"cannot write into {out}: {error.strerror}", hint=_hint(error)) from error
    return written


def _claim(out: Path) -> None:
    """Make *out*, or find that it is empty or an earlier expansion."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        entries = {entry.name for entry in os.scandir(out)} - {IGNORE}
        if not entries or entries & {MANIFEST, DRAFT}:
            (out / IGNORE).write_text(IGNORE_ALL, encoding="utf-8")
            return
    except OSError as error:
        raise PlaceError(f"cannot make the folder {out}: {error.strerror}") from error
    raise ConflictError(
        f"{out} contains other files, and no {MANIFEST}",
        hint="name a new or empty folder: --out DIR",
    )


def _write(experiment: Experiment, out: Path) -> None:
    target = f"{out}/{experiment.digest}"
    if os.path.isdir(target):  # noqa: PTH112 - in a hot loop
        return
    draft = f"{out}/.{experiment.digest}"
    shutil.rmtree(draft, ignore_errors=True)
    os.mkdir(draft)  # noqa: PTH102 - in a hot loop
    for filed in experiment.files:
        _put(filed, draft)
    os.rename(draft, target)  # noqa: PTH104 - in a hot loop


def _put(filed: ExperimentFile, folder: str) -> None:
    path = f"{folder}/{filed.path}"
    if "/" in filed.path:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - in a hot loop
    if filed.kind == "folder":
        os.makedirs(path, exist_ok=True)  # noqa: PTH103
        return
    if filed.kind == "link":
        os.symlink(checked_link(filed), path)  # noqa: PTH211
        return
    if filed.content is None:
        if filed.original is not None:
            shutil.copy2(filed.original, path)
        return
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.fchmod(target, filed.mode)
        remaining = memoryview(filed.content)
        while remaining:
            remaining = remaining[os.write(target, remaining) :]
        if filed.mtime is not None:  # as in an experiment: what is filled in is newer
            os.utime(target, ns=(filed.mtime, filed.mtime))
    finally:
        os.close(target)


def _line(experiment: Experiment, repeated: bool) -> str:
    facts: dict[str, Any] = {
        "index": experiment.index,
        "digest": experiment.digest,
        "parameters": dict(experiment.values),
        "path": experiment.digest,
        "environment": dict(experiment.environment),
        "commands": [step.command for step in _steps(experiment)],
    }
    if repeated:
        facts["repeat"] = experiment.repeat
    return json.dumps(facts, ensure_ascii=False) + "\n"


def _steps(experiment: Experiment) -> tuple[Step, ...]:
    return (*(experiment.build.steps if experiment.build else ()), *experiment.steps)


def _hint(error: OSError) -> str:
    return "free disk space, and run the same command again" if error.errno == 28 else ""
