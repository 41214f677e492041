"""WfFormat 1.4 of WfCommons, read only: tasks refer to each other by name, and have files."""

from __future__ import annotations

from typing import Any

import numpy as np

from zenturio.errors import did_you_mean
from zenturio.schedule.formats.document import MAX_TASKS, FormatDocument
from zenturio.schedule.model.platform import Platform, PlatformMachine
from zenturio.schedule.model.problem import Instance
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.settings.document import KeyPath

_TASKS: KeyPath = ("workflow", "tasks")
_MACHINES: KeyPath = ("workflow", "machines")


def read_wfformat_1_4(document: FormatDocument) -> Instance:
    """Parse the workflow and its machines; work and bytes are defined as for WfFormat 1.5."""
    value = document.value
    flow = value.get("workflow")
    if not isinstance(flow, dict):
        document.wrong((), "WfFormat 1.4 needs an object 'workflow' here")
    name = document.words(value.get("name", "workflow"), ("name",))
    platform = _platform(document, name, flow)
    speeds = {machine.name: machine.speed for machine in platform.machines} if platform else {}
    rows = _rows(document, flow, _TASKS, "name")
    if not rows or len(rows) > MAX_TASKS:
        document.wrong(_TASKS, f"{len(rows)} tasks")
    tasks = [_task(document, i, row, speeds) for i, row in enumerate(rows)]
    notes: dict[str, Any] = {
        key: value[key] for key in ("description", "createdAt", "author") if key in value
    }
    if flow.get("makespanInSeconds"):
        path = ("workflow", "makespanInSeconds")
        notes["makespan"] = document.number(flow["makespanInSeconds"], path)
    return Instance(Workflow.of(name, tasks, _edges(document, rows), **notes), platform)


def _rows(
    document: FormatDocument, flow: dict[str, Any], path: KeyPath, key: str
) -> list[dict[str, Any]]:
    """Return the objects of a list, of which each has a different *key*."""
    rows = document.items(flow.get(str(path[-1]), []), path)
    seen: set[str] = set()
    for i, row in enumerate(rows):
        if not isinstance(row, dict) or not isinstance(row.get(key), str):
            document.wrong((*path, i), f"one of {path[-1]} has no {key}")
        if row[key] in seen:
            document.wrong((*path, i, key), f"two of {path[-1]} have {key} {row[key]!r}")
        seen.add(row[key])
    return rows


def _task(
    document: FormatDocument, i: int, row: dict[str, Any], speeds: dict[str, float]
) -> WorkflowTask:
    path = (*_TASKS, i)
    if "runtimeInSeconds" not in row:
        document.wrong(path, f"task {row['name']!r} has no runtimeInSeconds")
    seconds = document.number(row["runtimeInSeconds"], (*path, "runtimeInSeconds"))
    command = row.get("command", {})
    program = row.get("category", command.get("program") if isinstance(command, dict) else None)
    cores = row.get("cores", 1)
    if isinstance(cores, float) and np.isfinite(cores):
        cores = int(np.ceil(cores))
    machine = document.words(row.get("machine", ""), (*path, "machine"))
    return WorkflowTask(
        row["name"],
        seconds * speeds.get(machine, 1.0),
        program=str(program or ""),
        cores=document.whole(cores, (*path, "cores")),
        memory=document.number(row.get("memoryInBytes", 0), (*path, "memoryInBytes")),
    )


def _edges(document: FormatDocument, rows: list[dict[str, Any]]) -> list[tuple[str, str, float]]:
    """Return each edge, with the bytes of the files that its source writes and its target reads."""
    name_of = {row["id"]: row["name"] for row in rows if isinstance(row.get("id"), str)}
    name_of |= {row["name"]: row["name"] for row in rows}
    read: dict[str, dict[str, float]] = {}
    written: dict[str, set[str]] = {}
    for i, row in enumerate(rows):
        read[row["name"]], written[row["name"]] = _files(document, i, row)
    edges: dict[tuple[str, str], float] = {}
    for i, row in enumerate(rows):
        for relation in ("parents", "children"):
            path = (*_TASKS, i, relation)
            others = document.items(row.get(relation, []), path)
            for other in others:
                if not isinstance(other, str) or other not in name_of:
                    hint = did_you_mean(str(other), name_of)
                    document.wrong(path, f"no task has the name {other!r}", hint)
                pair = (name_of[other], row["name"])
                source, target = pair if relation == "parents" else pair[::-1]
                sizes = read[target]
                edges[source, target] = sum(sizes[f] for f in sizes if f in written[source])
    return [(source, target, size) for (source, target), size in edges.items()]


def _files(
    document: FormatDocument, i: int, row: dict[str, Any]
) -> tuple[dict[str, float], set[str]]:
    """Return the sizes of the files that a task reads, and the names of those that it writes."""
    path = (*_TASKS, i, "files")
    read: dict[str, float] = {}
    written: set[str] = set()
    for j, file in enumerate(document.items(row.get("files", []), path)):
        if not isinstance(file, dict) or not isinstance(file.get("name"), str):
            document.wrong((*path, j), "a file without a name")
        if file.get("link") == "input":
            place = (*path, j, "sizeInBytes")
            read[file["name"]] = document.number(file.get("sizeInBytes", 0), place)
        else:
            written.add(file["name"])
    return read, written


def _platform(document: FormatDocument, name: str, flow: dict[str, Any]) -> Platform | None:
    """Return the machines of the trace, with speeds relative to the fastest."""
    rows = _rows(document, flow, _MACHINES, "nodeName")
    if not rows:
        return None
    facts = []
    for i, row in enumerate(rows):
        path = (*_MACHINES, i, "cpu")
        cpu = row.get("cpu", {})
        if not isinstance(cpu, dict):
            document.wrong(path, "cpu is an object")
        memory = row.get("memoryInBytes", float("inf"))
        if "memoryInBytes" in row:
            memory = document.number(memory, (*_MACHINES, i, "memoryInBytes"), 1)
        facts.append(
            (
                document.number(cpu.get("speed", 0), (*path, "speed")),
                document.whole(cpu.get("count", 1), (*path, "count"), 1, 10**5),
                memory,
            )
        )
    fastest = max(speed for speed, _, _ in facts) or 1.0
    machines = [
        PlatformMachine(row["nodeName"], speed / fastest or 1.0, cores, memory)
        for row, (speed, cores, memory) in zip(rows, facts, strict=True)
    ]
    return Platform(name, tuple(machines))
