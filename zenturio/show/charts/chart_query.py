"""A chart as a request: kind, columns and options, and the address that states them.

The command line, Python, the portal and reports all build a `ChartQuery`. It needs no database and
no pandas, so that an address can be read and written without loading either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from zenturio import plugins
from zenturio.errors import (
    InputError,
    NotFoundError,
    Passage,
    PluginError,
    SafetyError,
    did_you_mean,
)
from zenturio.experiment.aggregates import default_aggregate
from zenturio.record.entities import RowChoice, read_round
from zenturio.show.chart import Chart, Errors

if TYPE_CHECKING:
    from zenturio.schedule.algorithm import AlgorithmDescription


Pairs = Sequence[tuple[str, str]]
"""The query string of an address, as names and values."""
Source = Literal["groups", "rows", "search", "attempts", "design"]
"""What a kind is made from: groups of experiments, experiments one by one, the points of a search,
the latest attempts with their times, or the points of a design."""

MOST_STUDIES = 12
MOST_METRICS = 6


@dataclass(frozen=True, slots=True)
class ChartKind:
    """What a kind of chart is made from, and which fields of a `ChartQuery` apply to it."""

    name: str
    label: str
    group: str
    """Heading under which the chart builder offers it."""
    source: Source
    options: frozenset[str]
    has_series: bool = False
    """Whether it shows one metric over a column, so that several metrics make several charts."""
    log_axes: str = ""
    """Letters of the axes that may be logarithmic."""
    draw: Callable[[Any], Chart] | None = None
    """Makes the chart of a `ChartTable`, for a plug-in's kind."""

    @property
    def has_objective(self) -> bool:
        return self.source == "search"

    @property
    def is_grid(self) -> bool:
        """Whether a third column, z, has a value for each pair of x and y."""
        return "z" in self.options


def _kind(
    name: str, group: str, source: Source, options: str, *, label: str = "", log: str = ""
) -> ChartKind:
    has_series = group == "By column"
    return ChartKind(
        name, label or name.capitalize(), group, source, frozenset(options.split()), has_series, log
    )


class ChartPlugIn(Protocol):
    """A kind of chart of one study's columns; the entry points are classes without arguments."""

    @property
    def label(self) -> str:
        """What a form calls it."""
        ...

    @property
    def source(self) -> Literal["groups", "rows"]:
        """Whether its table has groups of experiments, or the experiments one by one."""
        ...

    @property
    def options(self) -> str:
        """The fields of a `ChartQuery` that apply: ``x y colour facet aggregate log``."""
        ...

    @property
    def log_axes(self) -> str:
        """Letters of the axes that may be logarithmic."""
        ...

    def draw(self, table: Any) -> Chart:
        """Return the chart of *table*, a `ChartTable`, whose method ``chart`` makes it of panels.

        InputError where the table cannot be drawn in this way.
        """
        ...


GROUP = "charts"
"""Entry points in ``zenturio.charts`` are classes that make a `ChartPlugIn`."""

_SERIES = "x y colour facet free log"
BUILT_IN: Mapping[str, ChartKind] = {
    kind.name: kind
    for kind in (
        _kind("line", "By column", "groups", f"{_SERIES} aggregate errors", log="xy"),
        _kind("bar", "By column", "groups", f"{_SERIES} aggregate errors", log="y"),
        _kind("scatter", "By column", "rows", _SERIES, log="xy"),
        _kind("box", "By column", "rows", _SERIES, log="y"),
        _kind("scaling", "By column", "rows", "x y colour facet rate log", log="xy"),
        _kind("pie", "By column", "groups", "x y facet aggregate"),
        _kind("heatmap", "By two columns", "groups", "x y z facet aggregate log", log="z"),
        _kind("surface", "By two columns", "groups", "x y z facet aggregate log", log="xyz"),
        _kind("convergence", "Search", "search", "y objective colour aggregate log", log="xy"),
        _kind("importance", "Search", "search", "y objective axes"),
        _kind(
            "dependence",
            "Search",
            "search",
            "y objective axes log",
            label="Partial dependence",
            log="y",
        ),
        _kind("slice", "Search", "search", "y objective axes log", log="xy"),
        _kind("pareto", "Search", "search", "objective log", label="Pareto front", log="xyz"),
        _kind("parallel", "Search", "search", "y objective axes", label="Parallel axes"),
        _kind("sensitivity", "Search", "design", "y"),
        _kind("gantt", "Runs", "attempts", "colour", label="Gantt chart"),
    )
}
"""The kinds that come with zenturio, in the order in which they are offered."""


class _ChartKinds(Mapping[str, ChartKind]):
    """The built-in kinds, and behind them those of plug-ins, which are loaded when asked for."""

    def __getitem__(self, name: str) -> ChartKind:
        if name in BUILT_IN:
            return BUILT_IN[name]
        if name not in plugins.names(GROUP):
            raise KeyError(name)
        plug_in: ChartPlugIn = plugins.load(GROUP, name)()
        return ChartKind(
            name,
            plug_in.label,
            "Plug-ins",
            plug_in.source,
            frozenset(plug_in.options.split()),
            has_series=True,
            log_axes=plug_in.log_axes,
            draw=plug_in.draw,
        )

    def __iter__(self) -> Iterator[str]:
        yield from BUILT_IN
        yield from (name for name in plugins.names(GROUP) if name not in BUILT_IN)

    def __len__(self) -> int:
        return len(list(iter(self)))


KINDS: Mapping[str, ChartKind] = _ChartKinds()
"""Every kind of chart that a query can ask for, in the order in which they are offered."""


@dataclass(frozen=True)
class ChartQuery:
    """A chart of one or more studies; what is empty is chosen from the study or left out."""

    studies: tuple[str, ...] = ()
    kind: str = "line"
    x: str = ""
    y: tuple[str, ...] = ()
    """The metrics; the y axis of a heatmap and of a surface, whose metric is z."""
    z: str = ""
    colour: str = ""
    facet: str = ""
    free: str = ""
    """``y`` where each panel has a y axis of its own."""
    aggregate: str = ""
    """Empty: the median of times, the mean of other metrics."""
    errors: Errors | None = None
    """None: the 95 % interval of the mean or the median where there are repeats."""
    rate: bool | None = None
    """Whether y is a rate, of which more is better; None: if the study's objective maximizes it."""
    log: str = ""
    """Letters of the logarithmic axes, such as ``xy``."""
    axes: tuple[str, ...] = ()
    """The parameters of parallel axes, slices, importance and dependence, from left to right."""
    where: str | Passage = ""
    """A condition on the experiments."""
    objective: str = ""
    """``MINIMIZE expr, MAXIMIZE expr``, if not the study's."""
    title: str = ""
    machine: str = ""
    """The kind of machine whose results are shown: its label, or a part of it."""
    round: str = ""
    """The round whose results are shown: a number, or ``all``; default: the newest."""
    rows: str = ""
    """A condition on the table below a chart: the experiments that were selected in it."""
    outside: bool = False
    """Whether points count that the present space of the study does not contain."""
    goals: tuple[str, ...] = ()
    """Objectives as columns of a given table, ``minimize column``; not part of an address."""

    @classmethod
    def of(cls, **options: Any) -> ChartQuery:
        """Return the query with these *options*; a text stands for a list of one.

        Raise InputError if an option is unknown.
        """
        fields_by_name = {field.name: field for field in fields(cls)}
        for name in options:
            if name not in fields_by_name:
                hint = did_you_mean(name, fields_by_name)
                raise InputError(f"a chart has no option {name!r}", hint=hint)
        values: dict[str, Any] = {
            name: _as_tuple(value) if _is_list(fields_by_name[name]) else value
            for name, value in options.items()
            if value is not None
        }
        if "log" in values:  # "x,y" as on the command line, or "xy"
            values["log"] = values["log"].replace(",", "")
        return cls(**values)

    @classmethod
    def from_address(cls, pairs: Pairs) -> ChartQuery:
        """Return the query that an address states; names that it does not know are ignored.

        Raise InputError if it asks for more studies or metrics than a page can show.
        """
        values: dict[str, Any] = {}
        for field in _address_fields():
            texts = [value for name, value in pairs if name == address_name(field.name) and value]
            if texts:
                values[field.name] = _decode(field, texts)
        query = cls(**values)
        if len(query.studies) > MOST_STUDIES or len(query.y) > MOST_METRICS:
            raise InputError(
                "the chart has too many studies or metrics",
                hint=f"up to {MOST_STUDIES} studies and {MOST_METRICS} metrics",
            )
        return query

    def to_address(self) -> dict[str, Any]:
        """Return the names and values of the query string; defaults are left out."""
        return {
            address_name(field.name): _encode(value)
            for field in _address_fields()
            if (value := getattr(self, field.name)) != field.default or field.name == "kind"
        }

    @property
    def row_choice(self) -> RowChoice:
        """The results to show, by machine and round; raise InputError if there is no such round."""
        return RowChoice(self.machine, read_round(str(self.round)))

    @property
    def metric(self) -> str:
        """The column whose values are shown."""
        return self.z if self.is_grid else self.y_column

    @property
    def y_column(self) -> str:
        """The first metric, or the column along the y axis of a grid."""
        return self.y[0] if self.y else ""

    @property
    def is_grid(self) -> bool:
        return self.kind in KINDS and KINDS[self.kind].is_grid

    def column(self, part: str) -> str:
        """Return the column of the *part* ``x``, ``y``, ``z``, ``colour`` or ``facet``."""
        return self.y_column if part == "y" else str(getattr(self, part))

    def charts(self) -> list[ChartQuery]:
        """Return a query for each chart of a page, without options that its kind does not have.

        A form keeps all that was chosen when somebody tries another kind; what does not apply to
        that kind must not be an error.
        """
        kind = self.check_kind()
        dropped: dict[str, Any] = {
            field.name: field.default
            for field in fields(self)
            if field.name in _KIND_OPTIONS and field.name not in kind.options
        }
        where = Passage.of(self.where, "filter") if self.where else ""
        query = replace(self, **dropped, where=where, rows="")
        if query.objective:
            query = replace(query, y=())
        if kind.has_series and len(query.y) > 1:
            return [replace(query, y=(metric,)) for metric in query.y]
        return [replace(query, y=query.y[:1])]

    def check_kind(self) -> ChartKind:
        """Return the kind of chart, or raise InputError if there is none of that name."""
        if self.kind not in KINDS:
            hint = did_you_mean(self.kind, KINDS)
            raise InputError(f"there is no chart kind {self.kind!r}", hint=hint)
        return KINDS[self.kind]

    def with_aggregate(self, unit: str) -> ChartQuery:
        """Return the query with the aggregate of a metric in *unit*, if none is named.

        A standard deviation is one around the mean.
        """
        default = "mean" if self.errors == "std" else default_aggregate(unit)
        return replace(self, aggregate=self.aggregate or default)

    def check(self) -> None:
        """Raise InputError if the options contradict each other or name nothing that exists."""
        from zenturio.query.aggregates import check_aggregate  # noqa: PLC0415 - loads NumPy

        self.check_kind()
        if self.aggregate:
            check_aggregate(self.aggregate)
        needed = {"interval": ("mean", "median"), "std": ("mean",)}.get(self.errors or "")
        if self.aggregate and needed and self.aggregate not in needed:
            raise InputError(
                f"error bars ({self.errors}) need the aggregate {' or '.join(needed)},"
                f" not {self.aggregate}",
                hint="leave out the error bars, or use mean",
            )
        if unknown := set(self.log) - set("xyz"):
            raise InputError(f"there is no axis {min(unknown)!r}", hint="x, y or z")
        if self.free not in ("", "y"):
            raise InputError(
                f"panels cannot have axes {self.free!r} of their own", hint="y, or nothing"
            )


_ADDRESS_NAMES = {"studies": "study", "colour": "color", "aggregate": "agg", "outside": "all"}
_NOT_IN_ADDRESS = ("goals",)
_STRIPPED = ("where", "objective", "title", "machine", "round", "rows")
"""Texts that people type: spaces around them mean nothing."""
_KIND_OPTIONS = (
    "x", "y", "z", "colour", "facet", "free", "aggregate", "errors", "rate", "log", "axes",
    "objective",
)  # fmt: skip


def address_name(field: str) -> str:
    """Return the name that a *field* of the query has in an address."""
    return _ADDRESS_NAMES.get(field, field)


def _address_fields() -> list[Field[Any]]:
    return [field for field in fields(ChartQuery) if field.name not in _NOT_IN_ADDRESS]


def _is_list(field: Field[Any]) -> bool:
    return field.default == ()


def _as_tuple(value: str | Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(value)


def _decode(field: Field[Any], texts: Sequence[str]) -> Any:
    if _is_list(field):
        return tuple(dict.fromkeys(texts))
    if field.name == "log":  # log=x&log=y, and log=xy
        return "".join(letter for letter in "xyz" if letter in "".join(texts))
    if field.name == "outside":
        return texts[-1] == "1"
    if field.name == "rate":
        return {"1": True, "0": False}.get(texts[-1])
    return texts[-1].strip() if field.name in _STRIPPED else cast("Any", texts[-1])


def _encode(value: Any) -> Any:
    if isinstance(value, bool):
        return "1" if value else "0"
    return value.text if isinstance(value, Passage) else value


# Charts of schedules: workflow, machines and algorithm

CHARTS = {"gantt": "Gantt chart", "front": "Front of plans", "graph": "Workflow graph"}
STATIC_KINDS = ("static", "just-in-time", "moldable", "exact")
"""Kinds of algorithms that plan before anything runs."""
SLOW_ALGORITHMS = (
    "anneal", "cp-sat", "ga", "ga-2005", "ic-pcp", "moheft", "moldable-front", "portfolio", "tabu",
)  # fmt: skip
"""Those that search: only for users who may run something."""
MOST_TASKS = 5_000
"""Tasks of a workflow, and machines: more cannot be told apart in a page."""
MOST_FILE_BYTES = 16_000_000
"""Of a file of tasks or machines."""
_TERMINAL_HINT = "zen schedule in a terminal has no such limit"


@dataclass(frozen=True)
class ScheduleQuery:
    """What the schedule page shows."""

    workflow: str = "wien2k:kpoints=8"
    on: str = "identical:4"
    algorithm: str = "heft"
    seed: int = 0
    show: str = "gantt"

    @classmethod
    def from_address(cls, pairs: Pairs) -> ScheduleQuery:
        """Return the query that an address states; raise InputError if it makes no sense."""
        values = dict(pairs)
        seed = values.get("seed") or "0"
        if not (seed.isascii() and seed.isdecimal() and len(seed) < 10):
            raise InputError(f"seed {seed!r} is not a whole number", hint="0, 1, 2 ...")
        default = cls()
        query = cls(
            values.get("workflow", default.workflow).strip(),
            values.get("on", default.on).strip(),
            values.get("algorithm") or default.algorithm,
            int(seed),
            values.get("show") or default.show,
        )
        if query.show not in CHARTS:
            hint = did_you_mean(query.show, CHARTS)
            raise InputError(f"there is no chart of a schedule {query.show!r}", hint=hint)
        return query

    def to_address(self) -> Mapping[str, Any]:
        """Return the names and values of the query string."""
        return {"workflow": self.workflow, "on": self.on, "algorithm": self.algorithm,
                "seed": self.seed or "", "show": self.show}  # fmt: skip


def schedule_chart(query: ScheduleQuery, folder: Path, *, slow: bool = False) -> Chart:
    """Return the first of `schedule_charts`."""
    return schedule_charts(query, folder, slow=slow)[0]


def schedule_charts(query: ScheduleQuery, folder: Path, *, slow: bool = False) -> list[Chart]:
    """Return the chart of *query*, and beside a Gantt chart the front of its algorithm.

    With *slow*, algorithms that search are allowed.

    Raise NotFoundError if there is no such algorithm, SafetyError if a file is not in *folder*, and
    InputError if the workflow is larger than a page can show.
    """
    from zenturio.schedule.commands import PlanRequest  # noqa: PLC0415
    from zenturio.schedule.generators.generator import instance_of  # noqa: PLC0415 - loads numba
    from zenturio.show.charts.schedule_charts import (  # noqa: PLC0415
        gantt,
        plan_front,
        workflow_graph,
    )

    check_limits(query, folder)
    if query.show == "graph":
        path = folder / query.workflow
        flow = instance_of(str(path) if path.is_file() else query.workflow).workflow
        _check_count(query.workflow, len(flow))
        return [workflow_graph(flow)]
    names = [algorithm.name for algorithm in offered_algorithms(slow=slow)]
    if query.algorithm not in names:
        hint = did_you_mean(query.algorithm, names)
        if query.algorithm in SLOW_ALGORITHMS:
            hint = "use zen schedule in a terminal, or a portal with --allow-run"
        raise NotFoundError(f"the algorithm {query.algorithm!r} is not available here", hint=hint)
    request = PlanRequest(query.workflow, query.on, query.algorithm, seed=query.seed, folder=folder)
    plan = request.plan()
    if query.show == "front":
        return [plan_front(plan)]
    return [gantt(plan), *([plan_front(plan)] if plan.notes.get("front") else [])]


def offered_algorithms(*, slow: bool = False) -> list[AlgorithmDescription]:
    """Return the algorithms that a page offers."""
    from zenturio.schedule.algorithm import describe, names  # noqa: PLC0415 - loads numba

    algorithms = []
    for name in names():
        if name in SLOW_ALGORITHMS and not slow:
            continue
        try:
            description = describe(name)
        except PluginError:  # one that does not load must not hide the others
            continue
        if description.kind in STATIC_KINDS:
            algorithms.append(replace(description, settings=()))
    return algorithms


def check_limits(query: ScheduleQuery, folder: Path) -> None:
    """Refuse files outside of *folder*, and more than a page can show, before any work is done."""
    from zenturio.schedule.generators.generator import count_of  # noqa: PLC0415 - loads numba

    for text in (query.workflow, query.on):
        _check_paths(folder, text)
    for setting in query.on.partition(":")[2].split(","):
        _check_count(query.on, _number(setting.rpartition("=")[2]))
    _check_count(query.workflow, count_of(query.workflow) or 0)


def _check_count(text: str, count: float) -> None:
    if count > MOST_TASKS:
        raise InputError(
            f"{text!r} is too large for a page: {count:,.0f}, limit {MOST_TASKS:,}",
            hint=_TERMINAL_HINT,
        )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _check_paths(folder: Path, text: str) -> None:
    """Check every part of *text* that may name a file: it is in *folder*, and not too long."""
    settings = text.partition(":")[2]
    parts = [text, settings, *(pair.partition("=")[2] for pair in settings.split(","))]
    home = folder.resolve()
    for part in filter(None, parts):
        try:
            path = (home / part).resolve()
            inside, size = path.is_relative_to(home), path.stat().st_size if path.is_file() else 0
        except (OSError, ValueError):  # not a path at all
            inside, size = False, 0
        if not inside:
            raise SafetyError(f"{part} is not in the project's folder", hint="copy it there")
        if size > MOST_FILE_BYTES:
            raise InputError(
                f"{part} has {size:,} bytes; a page reads at most {MOST_FILE_BYTES:,}",
                hint=_TERMINAL_HINT,
            )


_WORKERS = re.compile(
    r"(?:.*_)?(?:n|num|max)?_?(?:threads?|cores?|cpus?|gpus?|proc(?:s|ess|esses|essors)?|nodes?"
    r"|workers?|ranks?|tasks?|jobs?|slots?|islands?|np|nt|nprocs?)",
    re.IGNORECASE,
)


def counts_workers(name: str) -> bool:
    """Return whether the parameter *name* is likely a number of threads, nodes or the like."""
    return _WORKERS.fullmatch(name) is not None
