"""What annotated files say: the statements of directives, and the application that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from zenturio.annotate.source import mode_of, mtime_of, size_of
from zenturio.errors import Diagnostic, Passage, Place

if TYPE_CHECKING:
    from zenturio.annotate.dialects import Dialect
    from zenturio.annotate.source import Source
    from zenturio.expression import Expression, Type, Value
    from zenturio.space import Domain, Space


Match = Literal["word", "text", "regex"]
Take = Literal["first", "last", "min", "max", "mean", "sum", "count", "all"]
Direction = Literal["minimize", "maximize"]
UseKind = Literal["program", "file", "version"]
Probe = Literal["WTIME", "CTIME", "MAXRSS"]

MEASURED: Mapping[str, str] = {"wtime": "s", "ctime": "s", "maxrss": "B", "exit": ""}
"""Metrics of every experiment, without asking, and their units: wall and CPU time, largest
resident size, exit status. No parameter or metric may take their names."""


OBSERVED: Mapping[str, Mapping[str, str]] = {
    "perf": {},
    "energy": {"energy": "J", "energy_dram": "J"},
    "gpu": {"gpu_energy": "J", "gpu_utilization": "", "gpu_memory": "B", "gpu_mhz": "MHz"},
    "io": {"io_read": "B", "io_write": "B", "io_disk_read": "B", "io_disk_write": "B"},
    "memory": {"memory_peak": "B", "memory_mean": "B"},
}
"""The observers, and the metrics that each makes with their units; perf has one for each event."""


@dataclass(frozen=True, slots=True)
class WrittenDirective:
    """One directive as it stands in a file: its lines (from 0), opener, body and closer."""

    first: int
    last: int
    indent: str
    opener: str
    closer: str
    body: Passage


@dataclass(frozen=True, slots=True)
class Hole:
    """Where a parameter's text goes: every occurrence of *target* in the lines of the scope."""

    parameter: str
    target: str
    match: Match
    first: int
    """First line of the scope, from 0."""
    last: int
    """Line behind the scope."""
    optional: bool
    place: Place
    is_match_written: bool = False
    """Whether the directive says MATCH, so that what it finds is meant."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """An ASSIGN: the line where ``target = value`` stands in the host language's form."""

    parameter: str
    target: str
    line: WrittenDirective


@dataclass(frozen=True, slots=True)
class MeasuredRegion:
    """A CR: the directives that begin and end a region, and what is measured in it."""

    name: str
    probes: tuple[Probe, ...]
    begin: WrittenDirective
    end: WrittenDirective
    counters: tuple[str, ...] = ()
    """The events that are counted in it."""


@dataclass(frozen=True, slots=True)
class Annotated:
    """A file with the changes to make in it; without holes it goes over as it is."""

    source: Source
    path: str
    """Relative to the application's root, with forward slashes."""
    dialect: Dialect
    lines: tuple[WrittenDirective, ...] = ()
    holes: tuple[Hole, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    regions: tuple[MeasuredRegion, ...] = ()


def location_of(folder: str, name: str) -> str:
    """Return the path of the file *name* of an application in *folder*."""
    return folder + name[name.rfind("/") + 1 :]


class CopiedFile(NamedTuple):
    """A file that is the same for every point; its content is nowhere in memory."""

    folder: str
    """Where it is, with the last slash: one text for all files there."""
    path: str
    """Relative to the application's root, with forward slashes."""
    stamp: bytes
    digest: bytes
    """Of its content."""

    @property
    def location(self) -> str:
        """Where it is."""
        return location_of(self.folder, self.path)

    @property
    def mode(self) -> int:
        """Its permissions."""
        return mode_of(self.stamp)

    @property
    def mtime(self) -> int:
        """When it was last written, in nanoseconds since 1970."""
        return mtime_of(self.stamp)

    @property
    def size(self) -> int:
        """In bytes."""
        return size_of(self.stamp)


@dataclass(frozen=True, slots=True)
class Command:
    """A BUILD or RUN: the shell command with ``{name}`` for values, and its limits."""

    text: Passage
    timeout: float | None = None
    retry: int = 0
    cpus: Expression | None = None
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Metric:
    """A number or text to keep; exactly one of the ways to find it, or a formula, is given."""

    name: str
    source: str = ""
    """``stdout``, ``stderr`` or the path of a file in the experiment's folder."""
    regex: str | None = None
    json: str | None = None
    column: str | None = None
    take: Take = "last"
    unit: str = ""
    optional: bool = False
    formula: Expression | None = None
    place: Place | None = None
    exact: bool = False
    """Declared to have the same value on every machine: an energy or a count, no time."""
    rows: Expression | None = None
    """Of a table: the condition on the columns of the rows that count."""
    size: bool = False
    """Whether it is the number of bytes of the source."""
    when: Expression | None = None
    """The condition on parameters; where it does not hold, the metric is not looked for."""
    observed: str = ""
    """What the place measures it with: an observer, and the event of a counter: ``perf cycles``."""
    has_take: bool = False
    """Whether TAKE is written, and not only meant."""
    thousands: str = ""
    """The sign between groups of digits, as the comma of ``1,560``."""
    decimal: str = ""
    """The decimal sign. With this or *thousands* what is found has to be a number."""


@dataclass(frozen=True, slots=True)
class BaselineFileCheck:
    """A file that has to hold what the same file of the baseline does."""

    path: Passage
    within: float = 0.0
    """How far numbers may differ, times the greater one, or absolutely where both are below 1."""
    where: Mapping[str, Value] = field(default_factory=dict)
    """What the baseline's point has; what is not named is as the files have it."""

    @property
    def text(self) -> str:
        within = f" WITHIN {self.within:g}" if self.within else ""
        terms = " and ".join(f"{name} == {value!r}" for name, value in self.where.items())
        return f'SAME "{self.path.text}"{within} AS BASELINE' + (f" WHERE {terms}" if terms else "")


@dataclass(frozen=True, slots=True)
class Verification:
    """A VERIFY: a condition on the result, a command whose status says if it is right, or a file
    that has to be the same as that of the baseline.
    """

    expression: Expression | None = None
    command: Command | None = None
    same: BaselineFileCheck | None = None

    @property
    def text(self) -> str:
        """The directive as causes and identities name it."""
        if self.command is not None:
            return f'VERIFY "{self.command.text.text}"'
        if self.same is not None:
            return f"VERIFY {self.same.text}"
        assert self.expression is not None, "it is one of the three"
        return f"VERIFY {self.expression.text}"


@dataclass(frozen=True, slots=True)
class Goal:
    """One part of an OBJECTIVE."""

    direction: Direction
    expression: Expression


@dataclass(frozen=True, slots=True)
class After:
    """This stage's experiments wait for those of *stage* that agree on the names in *on*."""

    stage: str
    on: tuple[str, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Use:
    """What experiments use besides their own files."""

    kind: UseKind
    text: str
    """A program's name or path, a file's or folder's path, or a command that prints a version."""
    place: Place
    path: Path | None = None
    """Of a file or folder: where it is."""

    @property
    def base(self) -> Path:
        """The folder of the file that declares it, from which paths begin."""
        return Path(self.place.file).absolute().parent


class ApplicationPaths(NamedTuple):
    """The root and the named paths of an application, absolute."""

    root: Path
    paths: tuple[Path, ...]


class ElementSource(NamedTuple):
    """A file of LINES, or the pattern of a GLOB, from which elements are taken."""

    base: Path
    """The folder in which its path begins."""
    text: str
    is_pattern: bool


@dataclass(frozen=True, slots=True)
class Until:
    """How precise the median of a metric must be before a point has enough repeats."""

    metric: Expression
    within: float
    """Half the width of its 95% interval, as a share of the median."""
    least: int
    """Repeats that each point has in any case."""

    @property
    def text(self) -> str:
        return f"UNTIL {self.metric.text} WITHIN {self.within * 100:g}%"


@dataclass(frozen=True, slots=True)
class Repeat:
    """How often each point runs; *seed* names the parameter that differs run by run."""

    count: int = 1
    """At the most, where there is an *until*."""
    seed: str | None = None
    seeds: Domain | None = None
    """What is declared for the seed: one whole number to count from, or one element for each run.

    If nothing is declared, a run's seed is its number.
    """
    until: Until | None = None
    warmup: int = 0
    """Runs of each point before those that count; their numbers end at 0."""

    @property
    def numbers(self) -> range:
        """The numbers of the runs of a point, those before the first one that counts included."""
        return range(1 - self.warmup, self.count + 1)

    @property
    def at_once(self) -> int:
        """How many runs of a point may begin before any of them has ended."""
        return (self.until.least if self.until else self.count) + self.warmup

    def texts(self, run: int) -> dict[str, str]:
        """The seed's text in a *run*, counted from 1: what a fill and a command need besides.

        Runs that do not count take the seed of the first one.
        """
        run = max(run, 1)
        if self.seed is None:
            return {}
        if self.seeds is None:
            return {self.seed: str(run)}
        if self.seeds.size > 1 or run == 1:
            return {self.seed: self.seeds.text(run - 1)}
        first = self.seeds.value(0)
        assert isinstance(first, int), "a seed to count from is a whole number"
        return {self.seed: str(first + run - 1)}


@dataclass(frozen=True)
class Application:
    """Everything that the directives of one application say."""

    name: str
    """The file's stem or the folder's name: what a study of it is called."""
    root: Path
    """The folder that an experiment's folder mirrors."""
    files: tuple[Annotated, ...]
    """The files that directives concern, sorted by path."""
    space: Space
    copied: tuple[CopiedFile, ...] = ()
    """All others, sorted by path."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Names of environment variables to the parameters whose text they hold."""
    builds: tuple[Command, ...] = ()
    runs: tuple[Command, ...] = ()
    metrics: tuple[Metric, ...] = ()
    goals: tuple[Goal, ...] = ()
    verifications: tuple[Verification, ...] = ()
    repeat: Repeat = Repeat()
    requires: tuple[Expression, ...] = ()
    rank: Expression | None = None
    outputs: tuple[str, ...] = ()
    """Patterns of files to keep."""
    required: tuple[str, ...] = ()
    """Those of *outputs* that were not declared OPTIONAL: an experiment without them has failed."""
    after: tuple[After, ...] = ()
    sides: tuple[tuple[str, Source], ...] = ()
    """NAME.zen and study.zen with their paths: read for directives, no part of an experiment."""
    overrides: tuple[str, ...] = ()
    """Sets that were given instead of those in the files."""
    paths: tuple[Path, ...] = ()
    """The files and folders that were named, absolute."""
    uses: tuple[Use, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    """The output of the commands of USE VERSION that were run."""
    element_sources: tuple[ElementSource, ...] = ()
    recorded_uses: Mapping[str, str] = field(default_factory=dict)
    """Digests of what USE FILE names, of a program whose files came from elsewhere."""
    origin: ApplicationPaths | None = None
    """Where the files came from, if they were submitted and lie elsewhere now."""
    links: tuple[tuple[str, str], ...] = ()
    """Symbolic links to files and folders of the application: path, and where they lead."""
    folders: tuple[str, ...] = ()
    """Folders in which no file of it is: made, and no part of its identity."""
    left_out: tuple[str, ...] = ()
    """Files in its folders that zenturio itself wrote, and that were not edited since."""
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def same_files(self) -> tuple[BaselineFileCheck, ...]:
        """The files that have to be the same as those of a baseline."""
        return tuple(v.same for v in self.verifications if v.same is not None)

    @property
    def file_paths(self) -> list[str]:
        """The paths of all files from the root, sorted."""
        return sorted([file.path for file in self.files] + [file.path for file in self.copied])


Way = Literal["substitute", "assign", "env", "param"]


@dataclass(frozen=True, slots=True)
class Declaration:
    """SUBSTITUTE, ASSIGN, ENV or PARAM: exactly one of set, expression and ``same`` is given."""

    way: Way
    target: Passage
    name: Passage
    elements: Passage | None = None
    expression: Expression | None = None
    same: Passage | None = None
    type: Type | None = None
    unit: str | None = None
    default: str | None = None
    when: Expression | None = None
    glob: Passage | None = None
    match: Match = "word"
    optional: bool = False
    words: bool | None = None
    begins: bool = False
    places: Mapping[str, Place] = field(default_factory=dict)
    """Where each clause stands that was written."""

    @property
    def place(self) -> Place:
        return self.target.place(0, len(self.target.text))


@dataclass(frozen=True, slots=True)
class EndStatement:
    """END, END target, or END CR."""

    name: Passage | None
    region: bool
    place: Place


@dataclass(frozen=True, slots=True)
class ConstraintStatement:
    """CONSTRAINT VALUE."""

    expression: Expression


@dataclass(frozen=True, slots=True)
class ZipStatement:
    """CONSTRAINT INDEX."""

    names: tuple[Passage, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class BuildStatement:
    command: Command


@dataclass(frozen=True, slots=True)
class RunStatement:
    command: Command


@dataclass(frozen=True, slots=True)
class RequireStatement:
    expression: Expression


@dataclass(frozen=True, slots=True)
class RankStatement:
    expression: Expression
    place: Place


@dataclass(frozen=True, slots=True)
class RepeatStatement:
    """REPEAT."""

    repeat: Repeat
    seed: Passage | None
    place: Place


@dataclass(frozen=True, slots=True)
class MetricStatement:
    """METRIC; its name as written."""

    name: Passage
    metric: Metric


@dataclass(frozen=True, slots=True)
class RegionStatement:
    """CR … BEGIN."""

    name: Passage
    probes: tuple[Probe, ...]
    counters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ObjectiveStatement:
    """OBJECTIVE."""

    goals: tuple[Goal, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class VerifyStatement:
    """VERIFY."""

    verification: Verification


@dataclass(frozen=True, slots=True)
class ObserveStatement:
    """OBSERVE: a metric for each figure."""

    metrics: tuple[Metric, ...]


@dataclass(frozen=True, slots=True)
class OutputStatement:
    """OUTPUT."""

    globs: tuple[str, ...]
    optional: bool = False


@dataclass(frozen=True, slots=True)
class UseStatement:
    """USE."""

    kind: UseKind
    texts: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class AfterStatement:
    """AFTER."""

    stage: Passage
    on: tuple[Passage, ...]


Statement = (
    Declaration
    | EndStatement
    | ConstraintStatement
    | ZipStatement
    | BuildStatement
    | RunStatement
    | RequireStatement
    | RankStatement
    | RepeatStatement
    | MetricStatement
    | RegionStatement
    | ObjectiveStatement
    | VerifyStatement
    | ObserveStatement
    | OutputStatement
    | UseStatement
    | AfterStatement
)
