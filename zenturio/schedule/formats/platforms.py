"""Platforms as nested values: those of a platform file (TOML), and those inside a JSON file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.formats.document import FormatDocument, KeyPath
from zenturio.schedule.formats.swf import load_of_log
from zenturio.schedule.platform import LoadStep, NetworkLink, Platform, PlatformMachine

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
