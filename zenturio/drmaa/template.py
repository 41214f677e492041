"""A job template: what is to be run, and how it becomes an experiment; DRMAA 1.0's constants."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from zenturio.drmaa.errors import InvalidAttributeValueException
from zenturio.errors import InputError, did_you_mean
from zenturio.experiment import Experiment, ExperimentFile, Recipe, Step
from zenturio.experiment.identity import experiment_digest
from zenturio.expression import Expression, parse


class JobState:
    """What ``jobStatus`` answers."""

    UNDETERMINED = "undetermined"
    QUEUED_ACTIVE = "queued_active"
    USER_ON_HOLD = "user_on_hold"
    RUNNING = "running"
    USER_SUSPENDED = "user_suspended"
    DONE = "done"
    FAILED = "failed"


class JobControlAction:
    """What ``control`` can do."""

    SUSPEND = "suspend"
    RESUME = "resume"
    HOLD = "hold"
    RELEASE = "release"
    TERMINATE = "terminate"


class JobSubmissionState:
    """How a job begins."""

    ACTIVE_STATE = "active"
    HOLD_STATE = "hold"


JOB_IDS_SESSION_ANY = "DRMAA_JOB_IDS_SESSION_ANY"
JOB_IDS_SESSION_ALL = "DRMAA_JOB_IDS_SESSION_ALL"
TIMEOUT_WAIT_FOREVER = -1
TIMEOUT_NO_WAIT = 0
HOME_DIRECTORY = "$drmaa_hd_ph$"
WORKING_DIRECTORY = "$drmaa_wd_ph$"
PARAMETRIC_INDEX = "$drmaa_incr_ph$"


# ruff: noqa: N815 - the names are DRMAA's


JOB = "ZEN_JOB"
TASK = "ZEN_TASK_ID"
"""Variables that tell a job its name, and which of a bulk it is."""
OUTPUT, ERRORS, INPUT = "drmaa.stdout", "drmaa.stderr", "drmaa.stdin"
_SECONDS = (1, 60, 3600)


@dataclass
class JobTemplate:
    """The attributes of DRMAA that are known here; all but the command may be left alone."""

    remoteCommand: str = ""
    args: Sequence[str] = ()
    jobEnvironment: Mapping[str, str] = field(default_factory=dict)
    workingDirectory: str = ""
    """A folder of the machine that it runs on; one of its own, if none is named."""
    jobName: str = ""
    inputPath: str = ""
    outputPath: str = ""
    errorPath: str = ""
    """Files of this machine, as ``:/tmp/out.$drmaa_incr_ph$``."""
    joinFiles: bool = False
    hardWallclockTimeLimit: str | int = ""
    jobSubmissionState: str = JobSubmissionState.ACTIVE_STATE
    nativeSpecification: str = ""
    """``--file F`` (brought along), ``--keep 'GLOB'`` (brought back to where one is), ``--cpus``,
    ``--memory``, ``--require`` and ``--rank``."""

    def __setattr__(self, name: str, value: object) -> None:
        """What is not known here is refused: else it would be left out in silence."""
        known = self.__dataclass_fields__
        if name not in known:
            raise InvalidAttributeValueException(
                f"no attribute {name!r} is known here", hint=did_you_mean(name, known)
            )
        object.__setattr__(self, name, value)

    def _check(self) -> None:
        """Check the types of attributes."""
        if not self.remoteCommand:
            raise InvalidAttributeValueException("remoteCommand is empty")
        if isinstance(self.args, str):
            raise InvalidAttributeValueException(
                f"args = {self.args!r} is one text", hint=f"write {self.args.split()!r}"
            )
        if not isinstance(self.jobEnvironment, Mapping):
            raise InvalidAttributeValueException(
                f"jobEnvironment is not a mapping: {self.jobEnvironment!r}",
                hint='{"NAME": "value"}',
            )
        states = (JobSubmissionState.ACTIVE_STATE, JobSubmissionState.HOLD_STATE)
        if self.jobSubmissionState not in states:
            hint = did_you_mean(str(self.jobSubmissionState), states)
            raise InvalidAttributeValueException(
                f"jobSubmissionState = {self.jobSubmissionState!r}", hint=hint
            )

    def experiment(self, job: str, index: int | None) -> Experiment:
        """What runs as *job*, the one with that *index* of a bulk."""
        self._check()
        native = _native(self.nativeSpecification)
        environment = {str(k): self._text(str(v), index) for k, v in self.jobEnvironment.items()}
        environment[JOB] = job
        environment[TASK] = "" if index is None else str(index)
        files = self._files(native.file, index)
        limit, memory = _limit(self.hardWallclockTimeLimit), _bytes(native.memory)
        step = Step(self._command(index), limit, 0, native.cpus, memory)
        streams = ((OUTPUT, self.outputPath), (ERRORS, self._keeps_errors))
        recipe = Recipe(
            outputs=(*(name for name, kept in streams if kept), *native.keep),
            requires=tuple(_expression(text) for text in native.require),
            rank=_expression(native.rank) if native.rank else None,
        )
        named = experiment_digest(files, (step,), environment, 0)
        return Experiment(named, -1, 0, {}, files, (step,), environment, None, recipe)

    def path(self, text: str, index: int | None) -> Path | None:
        """Return the file of this machine that ``[host]:path`` names."""
        if not text:
            return None
        home, _, path = self._text(text, index).partition(":")
        if home:
            raise InvalidAttributeValueException(
                f"{text!r} is a file of another machine", hint="write :/path, a file of this one"
            )
        return Path(path.replace(HOME_DIRECTORY, str(Path.home())).replace(WORKING_DIRECTORY, "."))

    def _command(self, index: int | None) -> str:
        """Return the words, quoted, with streams that go to files of the job's own folder."""
        words = [self.remoteCommand, *map(str, self.args)]
        command = " ".join(shlex.quote(self._text(word, index)) for word in words)
        here = '"$here"/' if self.workingDirectory else ""
        command += f" < {here}{INPUT}" if self.inputPath else ""
        command += f" > {here}{OUTPUT}" if self.outputPath else ""
        command += " 2>&1" if self.joinFiles else ""
        command += f" 2> {here}{ERRORS}" if self._keeps_errors else ""
        if not here:
            return command
        return f"here=$PWD; cd {shlex.quote(self._text(self.workingDirectory, index))} && {command}"

    @property
    def _keeps_errors(self) -> bool:
        return bool(self.errorPath) and not self.joinFiles

    def _text(self, text: str, index: int | None) -> str:
        return text.replace(PARAMETRIC_INDEX, "" if index is None else str(index))

    def _files(self, named: Sequence[str], index: int | None) -> tuple[ExperimentFile, ...]:
        paths = [(Path(self._text(name, index)), Path(name).name) for name in named]
        input_path = self.path(self.inputPath, index)
        paths += [(input_path, INPUT)] if input_path else []
        try:
            return tuple(_filed(path, name) for path, name in paths)
        except OSError as error:
            raise InvalidAttributeValueException(f"{error.filename}: {error.strerror}") from error


def _filed(path: Path, name: str) -> ExperimentFile:
    status = path.stat()
    return ExperimentFile(name, status.st_mode & 0o777, path.read_bytes(), mtime=status.st_mtime_ns)


class _NativeParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidAttributeValueException(f"nativeSpecification: {message}")


def _native(text: str) -> argparse.Namespace:
    parser = _NativeParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("--keep", action="append", default=[])
    parser.add_argument("--require", action="append", default=[])
    parser.add_argument("--rank", default="")
    parser.add_argument("--memory", default="")
    parser.add_argument("--cpus", type=int, default=1)
    try:
        return parser.parse_args(shlex.split(text))
    except ValueError as error:
        raise InvalidAttributeValueException(f"nativeSpecification: {error}") from None


def _expression(text: str) -> Expression:
    try:
        return parse(text)
    except InputError as error:
        raise InvalidAttributeValueException(str(error)) from error


def _bytes(text: str) -> int | None:
    """512MB, as expressions have it."""
    if not text:
        return None
    try:
        value = _expression(text).value({})
    except InputError as error:
        raise InvalidAttributeValueException(str(error), hint="write --memory 512MB") from error
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise InvalidAttributeValueException(f"--memory {text}", hint="write --memory 512MB")
    return int(value)


def _limit(text: str | int) -> float | None:
    """Seconds, or ``h:mm:ss``."""
    if text == "":
        return None
    parts = str(text).split(":")
    if len(parts) > len(_SECONDS) or not all(part.isdecimal() for part in parts):
        raise InvalidAttributeValueException(
            f"hardWallclockTimeLimit = {text!r}", hint="write seconds, or h:mm:ss"
        )
    return float(sum(int(part) * unit for part, unit in zip(reversed(parts), _SECONDS)))  # noqa: B905
