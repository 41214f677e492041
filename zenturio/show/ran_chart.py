"""Which host ran which experiment, and when: a row for each that ran at the same time."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from zenturio.errors import NotFoundError, Passage
from zenturio.expression import text_of
from zenturio.record import Repository
from zenturio.show.charts import Axis
from zenturio.show.gantt_chart import NAMED
from zenturio.show.notebook import ShownScene
from zenturio.show.scene import Box, Scene, levels_of

if TYPE_CHECKING:
    import pandas as pd

MOST = 10_000
"""Experiments that are drawn; of more it is a sample."""


def attempted(
    repository: Repository, study: str, *, where: str | Passage | None = None, colour: str = ""
) -> pd.DataFrame:
    """The last attempts at the experiments of *study*, those that failed too, for `ran`."""
    from zenturio.query import frame  # noqa: PLC0415 - pandas takes its time

    wanted = [colour] if colour else []
    return frame(repository, study, where=where, everything=True, columns=wanted, most=MOST)


def ran(table: pd.DataFrame, *, colour: str = "", title: str = "") -> Scene:
    """What ran where, by the *table* of what was attempted.

    *colour* is a parameter or metric; else the colour says how they ended.
    """
    study, facts = table.attrs["study"], table.attrs["facts"]
    known = table.dropna(subset=[facts["started"], facts["ended"], facts["host"]])
    known = known.sort_values([facts["started"], facts["digest"]])
    if known.empty:
        raise NotFoundError(f"no experiment of {study} has run yet", hint=f"zen status {study}")
    starts, ends = known[facts["started"]].tolist(), known[facts["ended"]].tolist()
    rows, row = _rows(known[facts["host"]].tolist(), starts, ends)
    levels, level = levels_of([_said(each) for each in known[colour or facts["status"]]])
    first, last = min(starts), max(ends)
    boxes = tuple(
        Box(start - first, end - first, row[i], row[i], level[i], digest[:8], told)
        for i, (start, end, digest, told) in enumerate(
            zip(starts, ends, known[facts["digest"]], _told(known, facts), strict=True)
        )
    )
    found = table.attrs.get("sampled", (0, len(table)))[1]
    return ShownScene(
        title or f"{study}: what ran where",
        f"{len(boxes):,} of {found:,} experiments; {last - first:.4g} s",
        Axis("time", "s", ends=(0.0, last - first)),
        rows,
        "host",
        levels,
        boxes,
        labelled=len(boxes) <= NAMED,
    )


def _rows(
    hosts: list[str], starts: list[float], ends: list[float]
) -> tuple[tuple[str, ...], list[int]]:
    """The rows by host, as many for each as it ran at the same time, and the row of each run."""
    free: dict[str, list[int]] = {}
    busy: dict[str, list[tuple[float, int]]] = {}
    lanes: list[tuple[str, int]] = []
    for host, start, end in zip(hosts, starts, ends, strict=True):
        waiting, running = free.setdefault(host, []), busy.setdefault(host, [])
        while running and running[0][0] <= start:
            heappush(waiting, heappop(running)[1])
        lane = heappop(waiting) if waiting else len(running)
        heappush(running, (end, lane))
        lanes.append((host, lane))
    order = sorted(set(lanes))
    several = {host for host, lane in order if lane}
    names = tuple(f"{host}/{lane}" if host in several else host for host, lane in order)
    place = {lane: at for at, lane in enumerate(order)}
    return names, [place[lane] for lane in lanes]


def _told(known: pd.DataFrame, facts: dict[str, str]) -> list[str]:
    """What each was asked, and what came of it."""
    shown = [*known.attrs["parameters"], facts["status"], facts["cause"]]
    cells = [[_said(each) for each in known[name]] for name in shown]
    spent = known[facts["ended"]] - known[facts["started"]]
    return [
        ", ".join([*(each for each in said if each), f"{seconds:.4g} s"])
        for *said, seconds in zip(*cells, spent, strict=True)
    ]


def _said(value: Any) -> str:
    """A cell of the table in words; nothing where there is none."""
    import pandas as pd  # noqa: PLC0415 - it takes its time

    if pd.isna(value):
        return ""
    return text_of(value.item() if hasattr(value, "item") else value)
