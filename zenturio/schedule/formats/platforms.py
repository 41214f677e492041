"""Platform files: TOML, or inside JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.formats.document import FormatDocument
from zenturio.schedule.formats.swf import load_of_log
from zenturio.schedule.model.platform import LoadStep, NetworkLink, Platform, PlatformMachine
from zenturio.settings.document import KeyPath

MAX_MACHINES = 10**5

_MACHINE_KEYS = (
    "name", "count", "speed", "cores", "memory", "site", "tags", "cost", "load", "accelerators",
    "boot", "price", "billing", "power_idle", "power_busy", "network", "mtbf",
)  # fmt: skip
_LINK_KEYS = ("between", "bandwidth", "latency", "capacity")


def read_platform_values(
    document: FormatDocument, value: Any, path: KeyPath, name: str
) -> Platform:
    """Return the platform that *value* describes; *name* is used if it has none."""
    machine, link = ("machine", "link") if document.toml else ("machines", "links")
    document.keys(value, ("name", machine, link, "default", "overlap"), path)
    overlap = value.get("overlap", True)
    if not isinstance(overlap, bool):
        document.wrong((*path, "overlap"), f"overlap is {overlap!r}", "write true or false")
    machines: list[PlatformMachine] = []
    for i, row in enumerate(document.items(value.get(machine, []), (*path, machine))):
        machines += _read_machines(document, row, (*path, machine, i), len(machines))
    links = [
        _read_link(document, row, (*path, link, i))
        for i, row in enumerate(document.items(value.get(link, []), (*path, link)))
    ]
    _check_distinct(document, machines, value.get(machine, []), (*path, machine))
    sites = {row.site for row in machines}
    for i, link_of in enumerate(links):
        for site in (link_of.one, link_of.other):
            if site not in sites:
                hint = did_you_mean(site, sites)
                link_path = (*path, link, i, "between")
                document.wrong(link_path, f"no machine is at site {site!r}", hint)
    default = value.get("default", {})
    document.keys(default, _LINK_KEYS[1:], (*path, "default"))
    try:
        platform = Platform(
            document.words(value.get("name", name), (*path, "name")),
            tuple(machines),
            tuple(links),
            NetworkLink("", "", *_link_numbers(document, default, (*path, "default"))),
            overlap,
        )
    except InputError as error:
        if error.diagnostics[0].place:
            raise
        diagnostic = error.diagnostics[0]
        document.wrong(path, diagnostic.message, diagnostic.hint)
    return platform


def _read_machines(
    document: FormatDocument, row: Any, path: KeyPath, already: int
) -> list[PlatformMachine]:
    """Return one machine, or ``count`` machines numbered from 1."""
    document.keys(row, _MACHINE_KEYS, path)
    if "name" not in row:
        document.wrong(path, "a machine without a name")
    name = document.words(row["name"], (*path, "name"))
    count = document.whole(row.get("count", 1), (*path, "count"), 1, MAX_MACHINES)
    if already + count > MAX_MACHINES:
        document.wrong((*path, "count"), f"more than {MAX_MACHINES:,} machines")
    speed = document.number(row.get("speed", 1.0), (*path, "speed"))
    if speed == 0:
        document.wrong((*path, "speed"), "speed is 0; it has to be more")
    memory = _above_zero(document, row, "memory", path)
    tags = document.items(row.get("tags", []), (*path, "tags"))
    document.texts(tags, lambda i: (*path, "tags", i))
    width = len(str(count))
    names = [f"{name}{i:0{width}}" for i in range(1, count + 1)] if "count" in row else [name]
    cores = document.whole(row.get("cores", 1), (*path, "cores"), 1, 10**5)
    site = document.words(row.get("site", ""), (*path, "site"))
    cost = document.number(row.get("cost", 0.0), (*path, "cost"))
    load = _read_load(document, row.get("load", []), (*path, "load"))
    accelerators = document.whole(row.get("accelerators", 0), (*path, "accelerators"), 0, 10**5)
    numbers = {
        key: document.number(row.get(key, 0.0), (*path, key))
        for key in ("boot", "price", "power_idle", "power_busy")
    }
    numbers["billing"] = _above_zero(document, row, "billing", path, 1.0)
    numbers["network"] = _above_zero(document, row, "network", path)
    numbers["mtbf"] = _above_zero(document, row, "mtbf", path)
    return [
        PlatformMachine(
            machine_name,
            speed,
            cores,
            memory,
            site,
            frozenset(tags),
            cost,
            load,
            accelerators,
            **numbers,
        )
        for machine_name in names
    ]


def _check_distinct(
    document: FormatDocument, machines: list[PlatformMachine], rows: list[Any], path: KeyPath
) -> None:
    """Raise InputError for the row that repeats a machine's name."""
    names = iter(machine.name for machine in machines)
    seen: set[str] = set()
    for i, row in enumerate(rows):
        for name in islice(names, row.get("count", 1)):
            if name in seen:
                document.wrong((*path, i, "name"), f"two machines are named {name!r}")
            seen.add(name)


def _read_load(document: FormatDocument, value: Any, path: KeyPath) -> tuple[LoadStep, ...]:
    """Return load steps from pairs of time and share, or from the name of an SWF log."""
    if isinstance(value, str):
        try:
            return load_of_log(Path(document.file).parent / value)
        except InputError as error:
            if error.diagnostics[0].place:
                raise
            document.wrong(path, error.diagnostics[0].message)
    steps = []
    for i, pair in enumerate(document.items(value, path)):
        if not isinstance(pair, list) or len(pair) != 2:
            document.wrong((*path, i), "a step of load is [time, share]")
        share = document.number(pair[1], (*path, i, 1))
        if share > 1:
            document.wrong((*path, i, 1), f"share is {share:g}; it has to be from 0 to 1")
        steps.append(LoadStep(document.number(pair[0], (*path, i, 0)), share))
        if len(steps) > 1 and steps[-1].time <= steps[-2].time:
            document.wrong((*path, i, 0), f"time {pair[0]} is not after the one before")
    return tuple(steps)


def _read_link(document: FormatDocument, row: Any, path: KeyPath) -> NetworkLink:
    document.keys(row, _LINK_KEYS, path)
    between = document.items(row.get("between"), (*path, "between"))
    document.texts(between, lambda i: (*path, "between", i))
    if not 1 <= len(between) <= 2:
        document.wrong((*path, "between"), "between names two sites, or one for inside it")
    return NetworkLink(between[0], between[-1], *_link_numbers(document, row, path))


def _link_numbers(
    document: FormatDocument, row: dict[str, Any], path: KeyPath
) -> tuple[float, float, float]:
    """Return bandwidth, latency and capacity of a link."""
    return (
        _above_zero(document, row, "bandwidth", path),
        document.number(row.get("latency", 0.0), (*path, "latency")),
        _above_zero(document, row, "capacity", path),
    )


def _above_zero(
    document: FormatDocument,
    row: dict[str, Any],
    key: str,
    path: KeyPath,
    default: float = math.inf,
) -> float:
    number = document.number(row.get(key, default), (*path, key), finite=False)
    if number == 0:
        document.wrong((*path, key), f"{key} is 0; it has to be more")
    return number


def platform_facts(platform: Platform) -> dict[str, Any]:
    """Return *platform* as JSON values, without attributes that have their default."""
    facts: dict[str, Any] = {"name": platform.name}
    facts["machines"] = [_machine_facts(machine) for machine in platform.machines]
    if platform.links:
        facts["links"] = [
            {"between": [link.one, link.other], **_link_facts(link)} for link in platform.links
        ]
    if not platform.overlap:
        facts["overlap"] = False
    default = _link_facts(platform.default)
    return {**facts, "default": default} if default else facts


def _machine_facts(machine: PlatformMachine) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": machine.name}
    for key in _MACHINE_KEYS:
        if key in {"name", "count", "tags", "load"}:
            continue
        if getattr(machine, key) != getattr(_DEFAULT_MACHINE, key):
            facts[key] = getattr(machine, key)
    if machine.tags:
        facts["tags"] = sorted(machine.tags)
    if machine.load:
        facts["load"] = [[step.time, step.share] for step in machine.load]
    return facts


def _link_facts(link: NetworkLink) -> dict[str, float]:
    facts = {} if math.isinf(link.bandwidth) else {"bandwidth": link.bandwidth}
    facts |= {"latency": link.latency} if link.latency else {}
    return facts if math.isinf(link.capacity) else {**facts, "capacity": link.capacity}


_DEFAULT_MACHINE = PlatformMachine("")


def platform_toml(platform: Platform) -> Iterator[str]:
    """Yield *platform* as a platform file."""
    facts = platform_facts(platform)
    yield f"name = {_toml_value(facts['name'])}\n"
    if not platform.overlap:
        yield "overlap = false\n"
    if "default" in facts:
        yield from _toml_table("[default]", facts["default"])
    for machine in facts["machines"]:
        yield from _toml_table("[[machine]]", machine)
    for link in facts.get("links", []):
        yield from _toml_table("[[link]]", link)


def _toml_table(head: str, values: dict[str, Any]) -> Iterator[str]:
    yield f"\n{head}\n"
    for key, value in values.items():
        yield f"{key} = {_toml_value(value)}\n"


def _toml_value(value: Any) -> str:
    """Return a text, number or list in the notation that JSON and TOML share."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
