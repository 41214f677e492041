"""Experiments, their outcomes, and the kinds of machine that ran them.

Every field of a kind of machine may be unknown: an executor fills in what the place tells it.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from zenturio.errors import InputError
from zenturio.experiment.number_hints import number_hint
from zenturio.safe_text import without_escapes

if TYPE_CHECKING:
    from zenturio.annotate.model import CopiedFile, Metric
    from zenturio.expression import Expression, Value
    from zenturio.regular_expressions import Pattern
    from zenturio.space import Point


@dataclass(frozen=True, slots=True)
class MachineKind:
    """A kind of machine: results of one kind can be compared, those of two cannot."""

    cpu: str = ""
    """The model, as the system names it; empty where it does not say."""
    cores: int = 0
    """Physical cores; 0 where nobody counted them."""
    accelerators: tuple[str, ...] = ()
    """The model of each."""
    setup: str = ""
    """What the place ran before, such as ``module load gcc/13``."""

    @property
    def label(self) -> str:
        """All of it in words."""
        parts = [self.cpu or "unknown processor"]
        if self.cores:
            parts.append(f"{self.cores} core{'s' if self.cores > 1 else ''}")
        parts += [
            f"{count} x {name}" if count > 1 else name
            for name, count in Counter(self.accelerators).items()
        ]
        label = ", ".join(parts)
        return f"{label} ({' '.join(self.setup.split())})" if self.setup else label


Kinds = AbstractSet[MachineKind] | None
"""The kinds of machine whose results count; None where those of every kind do."""


@dataclass(frozen=True, slots=True)
class HostDetails:
    """One machine as it was when an attempt began."""

    name: str = ""
    kernel: str = ""
    """Name and release of the operating system."""
    memory: int = 0
    """Bytes; 0 where nobody asked."""
    unmeasured: str = ""
    """Which conditions of runs the machine does not tell, and why."""


class RunPosition(NamedTuple):
    """Where an experiment stands in the order of its run."""

    order: str
    """How it was drawn: ``blocks``, ``random`` or ``sorted``."""
    block: int
    """Which block of its round it belongs to, from 1: a block runs each of its points once."""
    turn: int
    """Its place in the block, from 1."""


@dataclass(frozen=True, slots=True)
class HostConditions:
    """What varies on a host from attempt to attempt; None where it was not measured."""

    load_start: float | None = None
    """Processes that ran or waited for a processor, on average over the last minute."""
    load_end: float | None = None
    mhz_start: float | None = None
    mhz_end: float | None = None
    celsius_start: float | None = None
    celsius_end: float | None = None
    steal: float | None = None
    """The share of time that a hypervisor gave to others, from 0 to 1."""
    pressure: float | None = None
    """The share of time that some process waited for a processor, from 0 to 1."""
    slots: int | None = None
    """Experiments that might run beside each other on the host, this one included."""
    cpus: int | None = None
    """Processors that the experiment was bound to."""
    governor: str | None = None
    """What sets the frequency of the processors."""
    other: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    """What else the place told."""
    run_order: str | None = None
    """How the order of the run was drawn; see `RunPosition`."""
    run_block: int | None = None
    run_turn: int | None = None
    runnable: int | None = None
    """Processes that ran or waited for a processor when the run began."""
    run_delay: float | None = None
    """Seconds that the first thread of each command was ready and waited for a processor."""
    others_ctime: float | None = None
    """Seconds of processor time that others used meanwhile, the other slots included."""
    memory_pressure: float | None = None
    """The share of time that some process waited for memory, from 0 to 1."""
    throttled: int | None = None
    """How often the processor was slowed down to cool off."""
    slots_start: int | None = None
    """How many of *slots* were in use when the run began, its own included."""
    slots_end: int | None = None
    pinned: str | None = None
    """The processors that the experiment was bound to, such as ``0-3,8``."""
    gpu_mhz_start: float | None = None
    """The frequency of the fastest GPU."""
    gpu_mhz_end: float | None = None


UNKNOWN_KIND = "an unknown kind"
"""The kind of machine of results that were recorded without one."""


def machine_notes(counts: Mapping[str, int]) -> tuple[str, ...]:
    """What is said of an answer that has results of several kinds of machine."""
    if len(counts) < 2:
        return ()
    labels = "; ".join(f"{label} ({count:,})" for label, count in sorted(counts.items()))
    kinds = f"results of {len(counts)} kinds of machine: {labels}"
    return (f"{kinds}; --machine picks one",)


class ExperimentValues(dict[str, "Value"]):
    """Values that are no point any more, and where those of the point stand in their sets."""

    def __init__(self, values: Mapping[str, Value], where: Point | Mapping[str, int]) -> None:
        """*where* is the point itself, or its positions."""
        super().__init__(values)
        self._position_source = where

    @property
    def positions(self) -> Mapping[str, object]:
        positions: Mapping[str, object] = getattr(
            self._position_source, "positions", self._position_source
        )
        return positions


def positions_of(values: Mapping[str, Value], names: frozenset[str]) -> dict[str, int]:
    """Return where the values of *names* stand in their sets, as far as it is known."""
    positions: Mapping[str, object] = getattr(values, "positions", {})
    return {name: at for name, at in positions.items() if name in names and isinstance(at, int)}


def value_at(
    expression: Expression,
    values: Mapping[str, Value],
    *,
    point: Mapping[str, Value] | None = None,
    host: Mapping[str, Value] | None = None,
) -> Value:
    """Return the value of *expression*; ``index(name)`` is a position in the set of *point*."""
    positions: dict[str, int] | None = None
    if expression.indexed:
        positions = positions_of(values if point is None else point, expression.indexed)
    return expression.value(values, positions, host)


Status = Literal["ok", "warmup", "failed", "wrong", "timeout", "cancelled"]
"""How an attempt ended. Two ended well and are no results: *warmup* ran before those that count,
and of *wrong* a VERIFY refuses the result."""
SUCCEEDED: frozenset[str] = frozenset({"ok", "warmup"})
"""Of experiments that need not run again."""


@dataclass(frozen=True, slots=True)
class ExperimentFile:
    """A file of an experiment: its bytes, or the original that it is linked or copied from."""

    path: str
    """Relative to the experiment's folder, with forward slashes; never absolute, never ``..``."""
    mode: int
    """Its permissions; with the bits of its type where it is a link or a folder."""
    content: bytes | None = None
    original: str | Path | None = None
    """A text where there may be very many files: a path object takes three times the memory."""
    digest: str = ""
    """As identity counts it: of the original, or of the content without the comments that say
    what directives chose; empty where all of the *content* counts."""
    mtime: int | None = None
    """When its original was last written, in nanoseconds since 1970; none if it is filled in, and
    so newer than all that is copied, for `make` goes by it."""
    size: int = field(default=-1, compare=False)
    """Bytes of the original; -1 where nobody asked."""
    stamp: bytes = field(default=b"", compare=False, repr=False)
    """Of the original when it was hashed, as `stamp_of` has it; empty where nobody asked."""

    @property
    def kind(self) -> Literal["file", "link", "folder"]:
        """What it is, as its mode says: ``link_to`` and ``empty_folder`` make what is no file."""
        if stat.S_ISLNK(self.mode):
            return "link"
        return "folder" if stat.S_ISDIR(self.mode) else "file"


def link_to(path: str, text: str) -> ExperimentFile:
    """Return a symbolic link at *path* that leads to *text*, which is its content."""
    return ExperimentFile(path, stat.S_IFLNK | 0o777, os.fsencode(text))


def empty_folder(path: str) -> ExperimentFile:
    """A folder that is made though nothing is in it; it is no part of an experiment's identity."""
    return ExperimentFile(path, stat.S_IFDIR | 0o755, b"")


class UnchangedFiles(Sequence[ExperimentFile]):
    """Files that are the same for every point, each made on access.

    An application may have a hundred thousand: an object for each would take 0.4 kB of memory.
    """

    def __init__(self, files: Sequence[CopiedFile], folder: str) -> None:
        """*folder* is the working folder, from which locations of *files* may be written."""
        self._files = files
        self._folder = folder
        self._named: dict[frozenset[str], tuple[ExperimentFile, ...]] = {}

    def named(self, paths: frozenset[str]) -> tuple[ExperimentFile, ...]:
        """Return those with these *paths*, looked for once: all experiments ask for the same."""
        if paths not in self._named:
            places = (at for at, path in enumerate(self.paths) if path in paths)
            self._named[paths] = tuple(self[at] for at in places)
        return self._named[paths]

    @property
    def paths(self) -> Iterator[str]:
        return (file.path for file in self._files)

    def __len__(self) -> int:
        return len(self._files)

    @overload
    def __getitem__(self, at: int) -> ExperimentFile: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[ExperimentFile]: ...
    def __getitem__(self, at: int | slice) -> ExperimentFile | Sequence[ExperimentFile]:
        if isinstance(at, slice):
            return UnchangedFiles(self._files[at], self._folder)
        file = self._files[at]
        original = os.path.join(self._folder, file.location.removeprefix("./"))  # noqa: PTH118
        facts = file.digest.hex(), file.mtime, file.size, file.stamp
        return ExperimentFile(file.path, file.mode, None, original, *facts)


class FileList(Sequence[ExperimentFile]):
    """The files of an experiment: its *own*, and those that all experiments have in *common*."""

    def __init__(self, own: Iterable[ExperimentFile], common: UnchangedFiles) -> None:
        self.own = tuple(own)
        self.common = common

    def __len__(self) -> int:
        return len(self.own) + len(self.common)

    @overload
    def __getitem__(self, at: int) -> ExperimentFile: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[ExperimentFile]: ...
    def __getitem__(self, at: int | slice) -> ExperimentFile | Sequence[ExperimentFile]:
        if isinstance(at, slice):
            return [self[place] for place in range(len(self))[at]]
        at = range(len(self))[at]
        return self.own[at] if at < len(self.own) else self.common[at - len(self.own)]

    def __iter__(self) -> Iterator[ExperimentFile]:
        yield from self.own
        yield from self.common

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FileList):
            return NotImplemented
        is_common_equal = self.common is other.common or [*self.common] == [*other.common]
        return is_common_equal and self.own == other.own

    def __hash__(self) -> int:
        return hash(self.own)


def own_files(files: Sequence[ExperimentFile]) -> Sequence[ExperimentFile]:
    """Return those of *files* that are in memory; the others are the same for all experiments."""
    return files.own if isinstance(files, FileList) else files


def files_named(files: Sequence[ExperimentFile], paths: frozenset[str]) -> Sequence[ExperimentFile]:
    """Return those of *files* with these *paths*, without an object for each of the others."""
    named = [file for file in own_files(files) if file.path in paths]
    return [*named, *files.common.named(paths)] if isinstance(files, FileList) else named


@dataclass(frozen=True, slots=True)
class Step:
    """A command of the user's, filled in, with its limits."""

    command: str
    timeout: float | None = None
    retry: int = 0
    cpus: int | None = None
    """None where it does not say: then it has one."""
    memory: int | None = None
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Build:
    """What makes the program: shared by all experiments whose digest of it is the same."""

    digest: str
    files: Sequence[ExperimentFile]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What all experiments of a study share: how to measure, and what to keep."""

    metrics: tuple[Metric, ...] = ()
    outputs: tuple[str, ...] = ()
    """Patterns of files to keep."""
    requires: tuple[Expression, ...] = ()
    rank: Expression | None = None
    required: tuple[str, ...] = ()
    """Patterns of which each must match a file, or else the experiment has failed."""
    verified: tuple[Expression, ...] = ()
    """What has to hold of a result, or else it is wrong."""
    verifiers: tuple[str, ...] = ()
    """The last steps, as the files have them: their status says whether a result is right."""
    numbers: tuple[Expression, ...] = ()
    """What is compared between experiments: of a text an objective would know nothing."""


WRITING = "texts written as"
"""As no variable of an environment is called, which is the only other name before a text."""


@dataclass(frozen=True, slots=True, eq=False)
class ProgramIdentity:
    """Everything of an experiment's identity but its point: the same for a whole study."""

    digest: str
    format: int
    document: Callable[[], str]
    """Writes down the parts as JSON, so that digests can be computed from it again."""
    writing: str = ""
    """What decides how texts are written, so that equal keys may have different files: no part of
    the digest, for it is one of the document, by the name WRITING."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One run of one point: all that a place needs to know to run it."""

    digest: str
    """Covers the files, the commands, the environment that it sets and the repeat number."""
    index: int
    """The point's number in the space; -1 where the space cannot be counted."""
    repeat: int
    values: Mapping[str, Value]
    files: Sequence[ExperimentFile]
    steps: tuple[Step, ...]
    environment: Mapping[str, str]
    build: Build | None
    recipe: Recipe
    program: ProgramIdentity | None = field(default=None, compare=False, repr=False)
    """With the *key* it names the experiment, too; None where files of others enter the digest."""
    key: bytes = field(default=b"", compare=False, repr=False)
    """Of the point, the repeat and the seed: see ``PointKeys``."""
    former: str = field(default="", compare=False, repr=False)
    """Its digest in the format before, if a repository may hold results under that."""
    position: RunPosition | None = field(default=None, compare=False, repr=False)
    """Where it stands in the order of its run; None if a search, or the user, chose the point."""

    @property
    def digests(self) -> tuple[str, ...]:
        """Those that a repository may know it by, the present one first."""
        return (self.digest, self.former) if self.former else (self.digest,)

    @property
    def cpus(self) -> int:
        """How many it asks for, its build included, for that may have to be made."""
        return max([step.cpus or 1 for step in self._every_step], default=1)

    @property
    def memory(self) -> int:
        """Bytes that it asks for, its build included; 0, if it says nothing."""
        return max([step.memory or 0 for step in self._every_step], default=0)

    @property
    def _every_step(self) -> tuple[Step, ...]:
        return self.steps if self.build is None else (*self.steps, *self.build.steps)


@dataclass(frozen=True, slots=True)
class Missing:
    """A metric that was not measured, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Series:
    """All values that a metric took (``TAKE all``), in their order."""

    values: tuple[Value, ...]


MetricValue = bool | int | float | str | Series | Missing


@dataclass(frozen=True, slots=True)
class Log:
    """What a stream said: its beginning, its end, and how many bytes it had in all."""

    head: bytes = b""
    tail: bytes = b""
    """Empty while the whole stands in *head*."""
    size: int = 0

    def trimmed(self, most: int) -> Log:
        """No more than *most* bytes of its beginning, and as many of its end."""
        if not self.tail and len(self.head) <= 2 * most:
            return self
        return Log(self.head[:most], (self.tail or self.head)[-most:], self.size)


INCOMING = Path("store", "incoming")
"""Where, below a project's ``.zenturio``, the files of an attempt wait for their commit."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that is kept: where it stood, its size and SHA-256, and where it lies now."""

    path: str
    size: int
    sha256: str
    kept: Path
    mode: int = 0o644
    """The permissions that it had."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened. A program that fails is an outcome, not an exception."""

    digest: str
    status: Status
    cause: str = ""
    """Short and the same for the same fault, so that failures group by it: ``exit 3``, or
    ``exit 1: ValueError: step # diverged`` where the program said why."""
    metrics: Mapping[str, MetricValue] = field(default_factory=dict)
    attempt: int = 1
    host: str = ""
    started: float = 0.0
    """Seconds since 1970, UTC."""
    ended: float = 0.0
    exit: int | None = None
    stdout: Log = Log()
    stderr: Log = Log()
    artifacts: tuple[Artifact, ...] = ()
    machine: MachineKind | None = None
    """The kind of machine that measured it; None where the place did not tell."""
    host_details: HostDetails | None = None
    """The host beyond its name."""
    conditions: HostConditions | None = None
    """What varied on the host meanwhile."""
    remark: str = ""
    """What is likely not meant, though nothing failed; the same for the same fault."""
    metric_remarks: Mapping[str, str] = field(default_factory=dict)
    """What is likely not meant by a metric, by its name; with the values of this run."""


def as_counted(outcome: Outcome, repeat: int) -> Outcome:
    """Return *outcome* of a *repeat*; one that ran before those that count is no result."""
    is_warmup = repeat < 1 and outcome.status == "ok"
    return replace(outcome, status="warmup") if is_warmup else outcome


# Failures: what a failed experiment said, in words that are the same for the same fault

_LONGEST = 120
_SEARCHED = 2**16
_SHOWN = 4000
_TRACEBACK = "Traceback (most recent call last):"
_PANICS = ("panic: ", "fatal error: ")
# Lines that follow every fault of a kind, and so tell none from another.
_NOISE = (
    r"\s*\d*\s*\|",  # the source line that a compiler shows
    r"(?:g|b|c|n)?make(?:\[\d+\])?:\s(?:\*\*\*\s\[|.*\sdirectory\s)",
    r"ninja: build stopped|collect2:|compilation terminated\.",
    r"\d+ (?:error|warning)s?\b.* generated\.|exit status \d",
    # A shell reports a signal.
    (
        r"(?:\S+:\s)*(?:line\s\d+:\s)?\s*(?:\d+\s)?"
        r"(?:Segmentation fault|Aborted|Killed|Terminated|Bus error|Floating point exception"
        r"|Illegal instruction|Hangup|Alarm clock)(?:\s\(core dumped\))?(?:\s{2,}.*)?$"
    ),
    r"#\d+\s|Error termination\.|Backtrace for this error:",  # gfortran
    r"\s+at\s|\s*\.\.\.\s\d+ more|Node\.js v\d",  # Java, JavaScript
    r"note: ",  # Rust
    r"(?:srun|slurmstepd):\s|(?:mpirun|mpiexec|prterun)\s",
    r"Command exited with non-zero status",
    r"(?i)(?:\S+:\s)?(?:please\s)?try\s.*-h(?:elp)?\b",  # GNU's getopt
)
_USAGE = r"(?i)\s*(?:\S+:\s)?(?:correct\s)?usage\b|\s*--?[A-Za-z][\w-]*\b.*\s{2,}\S"
"""A line of how a program is called: its title, or an option with what it does."""
_COLOUR = r"\x1b\[[0-9;]*[A-Za-z]"
_FOLDERS = r"""(^|[^\pL\pN_.])/(?:[^\s:'"<>|,;()/]*/)+"""
_NAME_ENDS = frozenset(":'\"<>|,;()/")
_NUMBER = (
    r"(^|[^\pL\pN_])"
    r"(?:0x[0-9a-fA-F]+\b|([0-9a-f]{8,})\b|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
)


_STAMP = r"^(?:[\[(<]#(?:[-:/.,TZ#\d ]*#)?[\])>]:?\s+|#(?:[-:/.,T][-:/.,T#\d ]*[#\d]Z?:?|:)\s+)+"


@cache
def _compiled(pattern: str) -> Pattern:
    """Compile with RE2, in bounded time, because the text is an experiment's."""
    from zenturio.regular_expressions import compile_pattern  # noqa: PLC0415 - failures need it

    return compile_pattern(pattern)


def describe_failure(cause: str, stderr: Log) -> str:
    """*cause* (``exit 1``) with the last line of *stderr* that says something.

    Numbers in it are ``#`` and folders are left out, so that experiments fail alike whose points,
    steps and addresses differ: ``exit 1: FloatingPointError: overflow in step #``.
    """
    try:
        line = _normalized(_last_line(_text(stderr)))
    except InputError:  # a line that was made to take long says nothing
        line = ""
    return f"{cause}: {line}" if line else cause


def written_failure(cause: str, stderr: Log) -> str:
    """Return *cause*, as `describe_failure` made it of *stderr*, with its numbers as written."""
    try:
        line = _last_line(_text(stderr))
        pattern = _normalized(line)
    except InputError:
        return cause
    if not pattern or not cause.endswith(f": {pattern}"):
        return cause
    return cause.removesuffix(pattern) + _cut(_plain(line))


def log_end(stderr: Log, stdout: Log, lines: int) -> tuple[str, str]:
    """Return the last *lines* of an experiment's output: of stderr, or if that is empty of stdout.

    The name of the stream comes first; both are empty if there is no output. The first line that
    speaks of an error comes before the last ones: what a compiler says later may follow from it.
    """
    for stream, log in (("stderr", stderr), ("stdout", stdout)):
        text = without_escapes(_text(log)).rstrip()
        if text:
            lines_shown = text[-_SHOWN:].split("\n")[-lines:]
            first_error = _first_error(text)
            if lines >= _LEAST_WITH_FIRST and first_error and first_error not in lines_shown:
                lines_shown = [first_error, "...", *lines_shown[2 - lines :]]
            return stream, "\n".join(lines_shown)
    return "", ""


_LEAST_WITH_FIRST = 4
"""Lines of which one may be the first error and one stands for those between."""


def _first_error(text: str) -> str:
    line = next((line for line in text.split("\n") if "error" in line.lower()), "")
    return line if len(line) <= _SHOWN else ""


MISSING = "metric missing: "
"""How the cause begins where a program ended well and a metric was not found."""
NOT_NUMBERS = "not a number: "
"""How it begins where an objective needs a number and the value of a metric is a text."""
MEASURED_WHEN = "it is measured WHEN "
"""How the reason begins, or goes on behind other metrics, where a metric does not apply."""


def missing_names(cause: str) -> list[str]:
    """Return the metrics that *cause* says are missing, or are no numbers."""
    names = cause.removeprefix(MISSING).removeprefix(NOT_NUMBERS)
    return names.split(", ") if names != cause else []


def missing_reasons(cause: str, metrics: Mapping[str, MetricValue]) -> tuple[str, ...]:
    """What metrics that *cause* names are, or why they were not found; else nothing."""
    if cause.startswith("VERIFY ") and not cause.startswith('VERIFY "'):
        names = dict.fromkeys(_compiled(r"[\pL\pN_]+").findall(cause))
        measured = {name: metrics[name] for name in names if name in metrics}
        return tuple(
            f"{name} is {value!r}" + (f"; {hint}" if (hint := number_hint(value)) else "")
            for name, value in measured.items()
            if not isinstance(value, Missing | Series)
        )
    values = {name: metrics.get(name) for name in missing_names(cause)}
    return tuple(f"{n}: {value.why}" for n, value in values.items() if isinstance(value, Missing))


def _text(log: Log) -> str:
    return (log.tail or log.head)[-_SEARCHED:].decode("utf-8", "backslashreplace")


def _last_line(text: str) -> str:
    """Return the line that names the fault, if there is one."""
    panic = _panic(text)
    if panic:
        return panic
    _, traceback, text_behind = text.rpartition(_TRACEBACK)
    lines = (text_behind if traceback else text).splitlines()
    if traceback:  # the exception stands behind its frames, which are indented
        return next((line for line in lines if line[:1].strip()), "")
    last_line = next((line for line in reversed(lines) if not _is_noise(line)), "")
    is_usage = _compiled(_USAGE).match
    if is_usage(last_line):  # the fault stands before the list of options
        before = takewhile(lambda line: is_usage(line) is None, lines)
        said = [line for line in before if not _is_noise(line)]
        return next((line for line in said if "error" in line.lower()), (last_line, *said)[-1])
    return last_line


def _panic(text: str) -> str:
    """Return the message of a Go panic, before the goroutines."""
    lines = text.split("\n")
    last_line = max((n for n, line in enumerate(lines) if line.startswith("goroutine ")), default=0)
    return next((line for line in lines[:last_line] if line.startswith(_PANICS)), "")


def _is_noise(line: str) -> bool:
    if not any(c.isalnum() for c in line):  # rules, carets
        return True
    return _compiled("|".join(_NOISE)).match(line) is not None


def _normalized(line: str) -> str:
    normalized = _compiled(_NUMBER).sub(_hidden, _plain(line))
    # The time, place or rank at the beginning: [#:#] ERROR, #-#-# #:#:#,# ERROR.
    return _cut(_compiled(_STAMP).sub("", normalized))


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."


def _plain(line: str) -> str:
    """Return *line* without colours and folders."""
    line = _without_folders(_compiled(_COLOUR).sub("", line))
    words = "".join(c if c.isprintable() else " " for c in line).split()
    return " ".join(words[1:] if len(words) > 1 and words[0].strip("#") == "" else words)


def _without_folders(line: str) -> str:
    """*line* with the names of its files alone; of two files of one name, the parts that differ."""
    pattern = _compiled(_FOLDERS)
    folders: dict[str, set[str]] = {}
    for match in pattern.finditer(line):
        folders.setdefault(_name_at(line, match.end()), set()).add(match[0][len(match[1]) :])

    def shortened(match: Any) -> str:
        same_name = folders[_name_at(line, match.end())]
        if len(same_name) == 1:
            return str(match[1])
        parent = posixpath.dirname(posixpath.commonpath(same_name)).rstrip("/") + "/"
        return str(match[0]).replace(parent, "", 1) if parent != "/" else str(match[0])

    return str(pattern.sub(shortened, line))


def _name_at(line: str, start: int) -> str:
    ends = (at for at in range(start, len(line)) if line[at] in _NAME_ENDS or line[at].isspace())
    return line[start : next(ends, len(line))]


def _hidden(number: Any) -> str:
    """Return a sign for a number; what looks like a digest without any digit is a word."""
    word = number[2]
    is_word = word is not None and not any(c.isdigit() for c in word)
    return str(number[0]) if is_word else f"{number[1]}#"
