"""Logs of clusters in the Standard Workload Format, as a load that leaves a share of the speed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.formats.document import FormatDocument, KeyPath, place_at, read_text
from zenturio.schedule.model.platform import LoadStep, NetworkLink, Platform, PlatformMachine
from zenturio.schedule.model.workflow import Floats

_SWF_FIELDS = 18
_MAX_FIELD = 1e15
_SIZE_HEADER = re.compile(r"^;\s*Max(Procs|Nodes):\s*(\d{1,15})\b", re.MULTILINE)


@dataclass(frozen=True, eq=False)
class SwfJobs:
    """The jobs of a log that ran, in the order of the file."""

    start: Floats
    """Seconds since the log began: when it was submitted, and how long it waited."""
    end: Floats
    processors: NDArray[np.int64]
    size: int
    """Processors of the cluster: what the log says, or the most that were ever busy."""


def read_swf(path: str | Path) -> SwfJobs:
    """The jobs of the log *path*; those that never ran (no time, no processors) are left out."""
    text = read_text(Path(path))
    rows = _swf_rows(str(path), text)
    submit, wait, run = rows[:, 1], np.maximum(rows[:, 2], 0), rows[:, 3]
    allocated = np.where(rows[:, 4] > 0, rows[:, 4], rows[:, 7])
    ran = (run > 0) & (allocated > 0)
    start = (submit + wait)[ran]
    processors = allocated[ran].astype(np.int64)
    said = {kind: int(number) for kind, number in _SIZE_HEADER.findall(text)}
    end = start + run[ran]
    size = (
        said.get("Procs")
        or said.get("Nodes")
        or int(max(_busy_processors(start, end, processors)[1], default=0))
    )
    return SwfJobs(start, end, processors, size)


def _swf_rows(file: str, text: str) -> Floats:
    rows = []
    offset = 0
    for line in text.split("\n"):
        if line.strip() and not line.lstrip().startswith(";"):
            try:
                rows.append([float(each) for each in line.split()])
            except ValueError:
                at = place_at(file, text, offset)
                raise InputError("not a line of numbers", place=at) from None
            if len(rows[-1]) != _SWF_FIELDS or not all(abs(each) < _MAX_FIELD for each in rows[-1]):
                raise InputError(
                    f"{len(rows[-1])} numbers: a job of SWF has {_SWF_FIELDS} numbers, "
                    f"each below {_MAX_FIELD:g}",
                    place=place_at(file, text, offset),
                )
        offset += len(line) + 1
    return np.array(rows, np.float64).reshape(-1, _SWF_FIELDS)


def _busy_processors(
    start: Floats, end: Floats, processors: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """The times at which the number of busy processors changes, and the number from then on."""
    times = np.concatenate([start, end])
    change = np.concatenate([processors, -processors]).astype(np.float64)
    at, which = np.unique(times, return_inverse=True)
    return at, np.cumsum(np.bincount(which, change, len(at)))


def load_steps(jobs: SwfJobs, size: int | None = None, start: float = 0.0) -> tuple[LoadStep, ...]:
    """The share of a cluster that *jobs* leave free, from *start* of the log on.

    Never 0, which would be a failure: where every processor is busy, the share of one is left.
    """
    size = size or jobs.size
    at, busy = _busy_processors(jobs.start, jobs.end, jobs.processors)
    share = np.maximum(1 - busy / max(size, 1), 1 / max(size, 1))
    before = int(np.searchsorted(at, start, "right"))
    now = float(share[before - 1]) if before else 1.0
    steps = [(0.0, now), *zip((at[before:] - start).tolist(), share[before:].tolist(), strict=True)]
    changes = [s for i, s in enumerate(steps) if i == 0 or s[1] != steps[i - 1][1]]
    return tuple(LoadStep(time, left) for time, left in changes)


def load_of_log(path: Path) -> tuple[LoadStep, ...]:
    return load_steps(read_swf(path))


MAX_MACHINES = 10**5

_MACHINE_KEYS = ("name", "count", "speed", "cores", "memory", "site", "tags", "cost", "load")
_LINK_KEYS = ("between", "bandwidth", "latency")


def read_platform_values(document: FormatDocument, value: Any, way: KeyPath, name: str) -> Platform:
    """The platform that *value* describes; *name* if it does not name itself."""
    machine, link = ("machine", "link") if document.toml else ("machines", "links")
    document.keys(value, ("name", machine, link, "default"), way)
    machines: list[PlatformMachine] = []
    for i, each in enumerate(document.items(value.get(machine, []), (*way, machine))):
        machines += _read_machines(document, each, (*way, machine, i), len(machines))
    links = [
        _read_link(document, each, (*way, link, i))
        for i, each in enumerate(document.items(value.get(link, []), (*way, link)))
    ]
    _check_distinct(document, machines, value.get(machine, []), (*way, machine))
    sites = {each.site for each in machines}
    for i, each in enumerate(links):
        for site in (each.one, each.other):
            if site not in sites:
                hint = did_you_mean(site, sites)
                at = (*way, link, i, "between")
                document.wrong(at, f"no machine is at site {site!r}", hint)
    default = value.get("default", {})
    document.keys(default, _LINK_KEYS[1:], (*way, "default"))
    try:
        found = Platform(
            document.words(value.get("name", name), (*way, "name")),
            tuple(machines),
            tuple(links),
            NetworkLink("", "", *_bandwidth_and_latency(document, default, (*way, "default"))),
        )
    except InputError as error:
        if error.diagnostics[0].place:
            raise
        diagnostic = error.diagnostics[0]
        document.wrong(way, diagnostic.message, diagnostic.hint)
    return found


def _read_machines(
    document: FormatDocument, given: Any, way: KeyPath, before: int
) -> list[PlatformMachine]:
    """One machine, or as many as ``count`` says, numbered from 1."""
    document.keys(given, _MACHINE_KEYS, way)
    if "name" not in given:
        document.wrong(way, "a machine without a name")
    name = document.words(given["name"], (*way, "name"))
    count = document.whole(given.get("count", 1), (*way, "count"), 1, MAX_MACHINES)
    if before + count > MAX_MACHINES:
        document.wrong((*way, "count"), f"more than {MAX_MACHINES:,} machines")
    speed = document.number(given.get("speed", 1.0), (*way, "speed"))
    memory = document.number(given.get("memory", math.inf), (*way, "memory"), finite=False)
    for key, number in (("speed", speed), ("memory", memory)):
        if number == 0:
            document.wrong((*way, key), f"{key} is 0; it has to be more")
    tags = document.items(given.get("tags", []), (*way, "tags"))
    document.texts(tags, lambda i: (*way, "tags", i))
    width = len(str(count))
    names = [f"{name}{i:0{width}}" for i in range(1, count + 1)] if "count" in given else [name]
    cores = document.whole(given.get("cores", 1), (*way, "cores"), 1, 10**5)
    site = document.words(given.get("site", ""), (*way, "site"))
    cost = document.number(given.get("cost", 0.0), (*way, "cost"))
    load = _read_load(document, given.get("load", []), (*way, "load"))
    return [
        PlatformMachine(each, speed, cores, memory, site, frozenset(tags), cost, load)
        for each in names
    ]


def _check_distinct(
    document: FormatDocument, machines: list[PlatformMachine], rows: list[Any], way: KeyPath
) -> None:
    """Refuse the row that names a machine again."""
    names = iter(machine.name for machine in machines)
    seen: set[str] = set()
    for i, row in enumerate(rows):
        for name in islice(names, row.get("count", 1)):
            if name in seen:
                document.wrong((*way, i, "name"), f"two machines are named {name!r}")
            seen.add(name)


def _read_load(document: FormatDocument, value: Any, way: KeyPath) -> tuple[LoadStep, ...]:
    """Pairs of a time and the share of the speed from then on, or the name of an SWF log."""
    if isinstance(value, str):
        try:
            return load_of_log(Path(document.file).parent / value)
        except InputError as error:
            if error.diagnostics[0].place:
                raise
            document.wrong(way, error.diagnostics[0].message)
    steps = []
    for i, each in enumerate(document.items(value, way)):
        if not isinstance(each, list) or len(each) != 2:
            document.wrong((*way, i), "a step of load is [time, share]")
        share = document.number(each[1], (*way, i, 1))
        if share > 1:
            document.wrong((*way, i, 1), f"share is {share:g}; it has to be from 0 to 1")
        steps.append(LoadStep(document.number(each[0], (*way, i, 0)), share))
        if len(steps) > 1 and steps[-1].time <= steps[-2].time:
            document.wrong((*way, i, 0), f"time {each[0]} is not after the one before")
    return tuple(steps)


def _read_link(document: FormatDocument, given: Any, way: KeyPath) -> NetworkLink:
    document.keys(given, _LINK_KEYS, way)
    between = document.items(given.get("between"), (*way, "between"))
    document.texts(between, lambda i: (*way, "between", i))
    if not 1 <= len(between) <= 2:
        document.wrong((*way, "between"), "between names two sites, or one for inside it")
    return NetworkLink(between[0], between[-1], *_bandwidth_and_latency(document, given, way))


def _bandwidth_and_latency(
    document: FormatDocument, given: dict[str, Any], way: KeyPath
) -> tuple[float, float]:
    bandwidth = given.get("bandwidth", math.inf)
    found = document.number(bandwidth, (*way, "bandwidth"), finite=False)
    if found == 0:
        document.wrong((*way, "bandwidth"), "bandwidth is 0; it has to be more")
    return found, document.number(given.get("latency", 0.0), (*way, "latency"))


def platform_facts(platform: Platform) -> dict[str, Any]:
    """*platform* as values of JSON, without what is as it is commonly."""
    found: dict[str, Any] = {"name": platform.name}
    found["machines"] = [_machine_facts(each) for each in platform.machines]
    if platform.links:
        found["links"] = [
            {"between": [link.one, link.other], **_link_facts(link)} for link in platform.links
        ]
    default = _link_facts(platform.default)
    return {**found, "default": default} if default else found


def _machine_facts(machine: PlatformMachine) -> dict[str, Any]:
    found: dict[str, Any] = {"name": machine.name}
    for key in ("speed", "cores", "memory", "site", "cost"):
        if getattr(machine, key) != getattr(_DEFAULT_MACHINE, key):
            found[key] = getattr(machine, key)
    if machine.tags:
        found["tags"] = sorted(machine.tags)
    if machine.load:
        found["load"] = [[step.time, step.share] for step in machine.load]
    return found


def _link_facts(link: NetworkLink) -> dict[str, float]:
    found = {} if math.isinf(link.bandwidth) else {"bandwidth": link.bandwidth}
    return {**found, "latency": link.latency} if link.latency else found


_DEFAULT_MACHINE = PlatformMachine("")


def platform_toml(platform: Platform) -> Iterator[str]:
    """*platform* as a platform file."""
    known = platform_facts(platform)
    yield f"name = {_toml_value(known['name'])}\n"
    if "default" in known:
        yield from _toml_table("[default]", known["default"])
    for machine in known["machines"]:
        yield from _toml_table("[[machine]]", machine)
    for link in known.get("links", []):
        yield from _toml_table("[[link]]", link)


def _toml_table(head: str, values: dict[str, Any]) -> Iterator[str]:
    yield f"\n{head}\n"
    for key, value in values.items():
        yield f"{key} = {_toml_value(value)}\n"


def _toml_value(value: Any) -> str:
    """What JSON and TOML write alike: texts, numbers, lists."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
