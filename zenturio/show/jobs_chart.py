"""Where jobs were and when: a row for each, a colour for each host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zenturio.errors import NotFoundError
from zenturio.execute.hosts.events import Event
from zenturio.show.charts import Axis
from zenturio.show.scene import Box, Scene, levels_of

_AFTER = {
    "prolog": "prolog",
    "started": "running",
    "adopted": "running",
    "moving": "leaving",
    "left": "",
    "epilog": "epilog",
    "ended": "",
    "failed": "",
}
"""What a job does after an event; nothing where it is at no host."""


@dataclass(frozen=True, slots=True)
class Stay:
    """What a job did at a host, from when to when."""

    digest: str
    host: str
    doing: str
    start: float
    end: float
    why: str = ""
    """Why it went on to something else."""


def stays(events: Sequence[Event]) -> list[Stay]:
    """What jobs did, from what was recorded of them; what runs on ends with the last event."""
    found: list[Stay] = []
    now: dict[str, tuple[str, str, float]] = {}
    for event in events:
        if event.kind not in _AFTER:
            continue
        if event.digest in now:
            doing, host, start = now.pop(event.digest)
            found.append(Stay(event.digest, host, doing, start, event.time, event.why))
        doing = _AFTER[event.kind]
        if doing:
            now[event.digest] = (doing, event.host, event.time)
    last = events[-1].time if events else 0.0
    found += [Stay(digest, host, do, start, last) for digest, (do, host, start) in now.items()]
    return found


def jobs(events: Sequence[Event], names: Mapping[str, str] = {}, title: str = "") -> Scene:
    """A chart of *events*; jobs are called by *names*, or by the beginnings of their digests."""
    found = stays(events)
    if not found:
        raise NotFoundError("no job has run on hosts yet", hint="zen run ... --on hosts.toml")
    first = min(stay.start for stay in found)
    last = max(stay.end for stay in found)
    known = {stay.digest for stay in found}
    rows = [digest for digest in dict.fromkeys(e.digest for e in events) if digest in known]
    row = {digest: at for at, digest in enumerate(rows)}
    levels, level = levels_of([stay.host for stay in found])
    boxes = [
        Box(
            stay.start - first,
            stay.end - first,
            row[stay.digest],
            row[stay.digest],
            level[i],
            stay.host if stay.doing == "running" else "",
            _told(stay),
            faint=stay.doing != "running",
        )
        for i, stay in enumerate(found)
    ]
    moves = sum(event.kind == "left" for event in events)
    return Scene(
        title or "Jobs on hosts",
        f"{len(rows)} jobs, {moves} move{'' if moves == 1 else 's'}, {last - first:.3g} s; "
        "pale: staging and leaving",
        Axis("time", "s", ends=(0.0, last - first)),
        tuple(names.get(digest, digest[:8]) for digest in rows),
        "job",
        levels,
        tuple(boxes),
    )


def _told(stay: Stay) -> str:
    why = f": {stay.why}" if stay.why else ""
    return f"{stay.doing} at {stay.host}, {stay.end - stay.start:.3g} s{why}"
