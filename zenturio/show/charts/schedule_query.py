"""A chart of a schedule as an address states it: workflow, machines and algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zenturio.errors import InputError, NotFoundError, PluginError, SafetyError, did_you_mean
from zenturio.show.charts.chart_query import Pairs

if TYPE_CHECKING:
    from zenturio.schedule.algorithm import AlgorithmDescription
    from zenturio.show.chart import Chart

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
    from zenturio.show.charts.plan_front import plan_front  # noqa: PLC0415
    from zenturio.show.charts.schedule_charts import gantt, workflow_graph  # noqa: PLC0415

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
