"""A chart of a schedule as an address states it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zenturio.errors import InputError, NotFoundError, PluginError, SafetyError, did_you_mean
from zenturio.show.charts.chart_query import Pairs

if TYPE_CHECKING:
    from zenturio.schedule.algorithm import AlgorithmDescription
    from zenturio.show.scene import Scene


SHOWS = {"gantt": "who runs what and when", "graph": "what waits for what"}
OFFERED = ("static", "just-in-time", "moldable", "exact")
"""Kinds of algorithms that make a plan before anything runs."""
LONG = ("anneal", "cp-sat", "ga", "ga-2005", "moldable-front")
"""Those that search: for who may run something."""
MOST_TASKS = 5_000
"""Of a workflow, and machines: more than that nobody tells apart in a page."""
MOST_READ = 16_000_000
"""Bytes of a file of tasks or machines."""


@dataclass(frozen=True)
class PlanView:
    """A state of the page: its address says all of it."""

    workflow: str = "wien2k:kpoints=8"
    on: str = "identical:4"
    algorithm: str = "heft"
    seed: int = 0
    show: str = "gantt"

    @classmethod
    def of(cls, pairs: Pairs) -> PlanView:
        given = dict(pairs)
        seed = given.get("seed") or "0"
        if not (seed.isascii() and seed.isdecimal() and len(seed) < 10):
            raise InputError(f"seed {seed}", hint="a whole number from 0 on")
        usual = cls()
        found = cls(
            given.get("workflow", usual.workflow).strip(),
            given.get("on", usual.on).strip(),
            given.get("algorithm") or usual.algorithm,
            int(seed),
            given.get("show") or usual.show,
        )
        if found.show not in SHOWS:
            hint = did_you_mean(found.show, SHOWS)
            raise InputError(f"nothing is shown by {found.show!r}", hint=hint)
        return found

    @property
    def given(self) -> Mapping[str, Any]:
        return {"workflow": self.workflow, "on": self.on, "algorithm": self.algorithm,
                "seed": self.seed or "", "show": self.show}  # fmt: skip


def scene(view: PlanView, folder: Path, *, slow: bool = False) -> Scene:
    """The picture; *slow*: algorithms that search may be asked, too."""
    from zenturio.schedule.commands import PlanRequest  # noqa: PLC0415
    from zenturio.schedule.generators.generator import instance_of  # noqa: PLC0415 - numba loads slowly
    from zenturio.show.charts.schedule_charts import gantt, graph  # noqa: PLC0415

    check(view, folder)
    if view.show == "graph":
        path = folder / view.workflow
        flow = instance_of(str(path) if path.is_file() else view.workflow).workflow
        _few(view.workflow, len(flow))
        return graph(flow)
    known = [each.name for each in offered(slow=slow)]
    if view.algorithm not in known:
        hint = did_you_mean(view.algorithm, known)
        if view.algorithm in LONG:
            hint = "zen schedule in a terminal, or a portal with --allow-run"
        raise NotFoundError(f"nothing plans here that is called {view.algorithm!r}", hint=hint)
    asked = PlanRequest(view.workflow, view.on, view.algorithm, seed=view.seed, folder=folder)
    return gantt(asked.plan())


def offered(*, slow: bool = False) -> list[AlgorithmDescription]:
    """The algorithms that can be asked."""
    from zenturio.schedule.algorithm import describe, names  # noqa: PLC0415

    found = []
    for name in names():
        if name in LONG and not slow:
            continue
        try:
            each = describe(name)
        except PluginError:  # one that does not load does not hide the others
            continue
        if each.kind in OFFERED:
            found.append(replace(each, settings=()))
    return found


def check(view: PlanView, folder: Path) -> None:
    """Refuse files outside of the project, and more than a page can show, before it is made."""
    from zenturio.schedule.generators.generator import count_of  # noqa: PLC0415 - numba loads slowly

    for text in (view.workflow, view.on):
        _check_paths(folder, text)
    for setting in view.on.partition(":")[2].split(","):
        _few(view.on, _number(setting.rpartition("=")[2]))
    _few(view.workflow, count_of(view.workflow) or 0)


def _few(text: str, count: float) -> None:
    if count > MOST_TASKS:
        raise InputError(
            f"{text!r}: {count:,.0f} are more than a page shows",
            hint=f"up to {MOST_TASKS:,}; zen schedule in a terminal has no such limit",
        )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _check_paths(folder: Path, text: str) -> None:
    """Whatever in *text* may be the name of a file must be in the *folder*, and not too long."""
    pieces = [text, *(pair.partition("=")[2] for pair in text.partition(":")[2].split(","))]
    pieces.append(text.partition(":")[2])
    home = folder.resolve()
    for piece in filter(None, pieces):
        try:
            path = (home / piece).resolve()
            inside, size = path.is_relative_to(home), path.stat().st_size if path.is_file() else 0
        except (OSError, ValueError):  # what no path can be
            inside, size = False, 0
        if not inside:
            raise SafetyError(f"{piece} is not in the project's folder", hint="copy it to there")
        if size > MOST_READ:
            raise InputError(
                f"{piece} has {size:,} bytes: a page reads {MOST_READ:,}",
                hint="zen schedule in a terminal has no such limit",
            )
