"""WfFormat 1.5 of WfCommons: traces of real runs, with the machines they ran on."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.formats.document import MAX_TASKS, FormatDocument
from zenturio.schedule.formats.wfformat_1_4 import read_wfformat_1_4
from zenturio.schedule.model.platform import Platform, PlatformMachine
from zenturio.schedule.model.problem import Instance
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.settings.document import KeyPath

VERSION = "1.5"
_LAYOUT_VERSIONS = {"1.5", "1.6"}
"""1.6 adds metrics that nobody needs to plan."""
_NOTE_KEYS = ("description", "createdAt", "author", "runtimeSystem")
_INVALID_LETTER = re.compile(r"[^0-9a-zA-Z_.-]")


def read_wfformat(document: FormatDocument) -> Instance:
    """Parse the workflow and its machines.

    The work of a task is its runtime on the fastest machine of the trace, in seconds.
    """
    value = document.value
    version = value.get("schemaVersion", VERSION)
    if version == "1.4":
        return read_wfformat_1_4(document)
    if version not in _LAYOUT_VERSIONS:
        document.wrong(
            ("schemaVersion",), f"WfFormat {version}", "versions 1.4, 1.5 and 1.6 are read"
        )
    flow = _object(document, value.get("workflow"), ("workflow",))
    specification = _object(document, flow.get("specification"), ("workflow", "specification"))
    execution = _object(document, flow.get("execution", {}), ("workflow", "execution"))
    name = document.words(value.get("name", "workflow"), ("name",))
    platform = _platform(document, name, execution)
    speeds = {machine.name: machine.speed for machine in platform.machines} if platform else {}
    rows = _objects_by_name(document, specification, ("workflow", "specification"), "tasks", "id")
    executions = _objects_by_name(document, execution, ("workflow", "execution"), "tasks", "id")
    tasks = [
        _task(document, i, row, executions.get(key, (0, {})), speeds)
        for key, (i, row) in rows.items()
    ]
    if not tasks or len(tasks) > MAX_TASKS:
        document.wrong(("workflow", "specification", "tasks"), f"{len(tasks)} tasks")
    notes = {key: value[key] for key in _NOTE_KEYS if key in value}
    if execution.get("makespanInSeconds"):
        path = ("workflow", "execution", "makespanInSeconds")
        notes["makespan"] = document.number(execution["makespanInSeconds"], path)
    return Instance(
        Workflow.of(name, tasks, _edges(document, specification, rows), **notes), platform
    )


def _object(document: FormatDocument, value: Any, path: KeyPath) -> dict[str, Any]:
    if not isinstance(value, dict):
        document.wrong(path[:-1], f"WfFormat {VERSION} needs an object {path[-1]!r} here")
    return value


def _objects_by_name(
    document: FormatDocument, value: dict[str, Any], parent: KeyPath, key: str, name: str
) -> dict[str, tuple[int, dict[str, Any]]]:
    """Return the objects of the list *key* by their *name*, with their indices."""
    objects: dict[str, tuple[int, dict[str, Any]]] = {}
    for i, row in enumerate(document.items(value.get(key, []), (*parent, key))):
        path = (*parent, key, i)
        if not isinstance(row, dict) or not isinstance(row.get(name), str):
            document.wrong(path, f"one of {key} has no {name}")
        if row[name] in objects:
            document.wrong((*path, name), f"two of {key} have {name} {row[name]!r}")
        objects[row[name]] = (i, row)
    return objects


def _task(
    document: FormatDocument,
    i: int,
    row: dict[str, Any],
    execution: tuple[int, dict[str, Any]],
    speeds: Mapping[str, float],
) -> WorkflowTask:
    index, run = execution
    path = ("workflow", "execution", "tasks", index)
    display_name = document.words(
        row.get("name", row["id"]), ("workflow", "specification", "tasks", i, "name")
    )
    command = run.get("command", {})
    program = command.get("program", "") if isinstance(command, dict) else ""
    if "runtimeInSeconds" not in run:
        document.wrong(("workflow", "execution"), f"task {row['id']!r} has no runtimeInSeconds")
    seconds = document.number(run["runtimeInSeconds"], (*path, "runtimeInSeconds"))
    machines = document.items(run.get("machines", []), (*path, "machines"))
    document.texts(machines, lambda j: (*path, "machines", j))
    # A task that ran on several machines counts with the fastest of them.
    speed = max((speeds.get(machine, 1.0) for machine in machines), default=1.0)
    return WorkflowTask(
        row["id"],
        seconds * speed,
        program=display_name if display_name != row["id"] else str(program),
        cores=document.whole(_rounded(run.get("coreCount", 1)), (*path, "coreCount")),
        memory=document.number(run.get("memoryInBytes", 0), (*path, "memoryInBytes")),
    )


def _rounded(value: Any) -> Any:
    """Return *value* rounded up: a fraction of a core needs a whole one."""
    return int(np.ceil(value)) if isinstance(value, float) and np.isfinite(value) else value


def _edges(
    document: FormatDocument,
    specification: dict[str, Any],
    rows: Mapping[str, tuple[int, dict[str, Any]]],
) -> list[tuple[str, str, float]]:
    """Return each edge, with the bytes of the files that its source writes and its target reads."""
    sizes = _file_sizes(document, specification)
    written = {
        key: set(_name_list(document, i, row, "outputFiles")) for key, (i, row) in rows.items()
    }
    edges: dict[tuple[str, str], float] = {}
    for key, (i, row) in rows.items():
        parents = [(parent, key, "parents") for parent in _name_list(document, i, row, "parents")]
        children = [(key, child, "children") for child in _name_list(document, i, row, "children")]
        # A trace may name an edge at its source, at its target or at both: it counts once.
        for a, b, relation in (*parents, *children):
            neighbour = a if relation == "parents" else b
            if neighbour not in rows:
                path = ("workflow", "specification", "tasks", i, relation)
                document.wrong(path, f"no task has id {neighbour!r}", did_you_mean(neighbour, rows))
            if (a, b) not in edges:
                inputs = _name_list(document, *rows[b], "inputFiles")
                edges[a, b] = sum(sizes.get(f, 0.0) for f in inputs if f in written[a])
    return [(a, b, size) for (a, b), size in edges.items()]


def _name_list(document: FormatDocument, i: int, row: dict[str, Any], key: str) -> list[str]:
    path = ("workflow", "specification", "tasks", i, key)
    names = document.items(row.get(key, []), path)
    document.texts(names, lambda j: (*path, j))
    return names


def _file_sizes(document: FormatDocument, specification: dict[str, Any]) -> dict[str, float]:
    path = ("workflow", "specification")
    files = _objects_by_name(document, specification, path, "files", "id")
    return {
        name: document.number(row.get("sizeInBytes", 0), (*path, "files", i, "sizeInBytes"))
        for name, (i, row) in files.items()
    }


def _platform(document: FormatDocument, name: str, execution: dict[str, Any]) -> Platform | None:
    """Return the machines of the trace, with speeds relative to the fastest."""
    parent = ("workflow", "execution")
    rows = _objects_by_name(document, execution, parent, "machines", "nodeName")
    if not rows:
        return None
    speed, cores, memory = {}, {}, {}
    for node, (i, row) in rows.items():
        path = (*parent, "machines", i)
        cpu = _object(document, row.get("cpu", {}), (*path, "cpu"))
        speed[node] = document.number(cpu.get("speedInMHz", 0), (*path, "cpu", "speedInMHz"))
        cores[node] = document.whole(cpu.get("coreCount", 1), (*path, "cpu", "coreCount"), 1, 10**5)
        if "memoryInBytes" in row:
            memory[node] = document.number(row["memoryInBytes"], (*path, "memoryInBytes"), 1)
    # Clock rates stand for speeds. If the trace has none, or not of this machine, its speed is 1.
    fastest = max(speed.values()) or 1.0
    machines = [
        PlatformMachine(
            node, speed[node] / fastest or 1.0, cores[node], memory.get(node, float("inf"))
        )
        for node in rows
    ]
    return Platform(name, tuple(machines))


def write_wfformat(flow: Workflow, platform: Platform | None = None) -> Iterator[str]:
    """Yield *flow* as WfFormat; runtimes are those on the fastest machine of *platform*."""
    fastest = (
        max((machine.speed for machine in platform.machines), default=1.0) if platform else 1.0
    )
    ids = _ids(flow)
    execution: dict[str, Any] = {
        "makespanInSeconds": flow.measured or 0,
        "executedAt": str(flow.notes.get("createdAt", "unknown")),
        "tasks": [_execution_row(task, ids[i], fastest) for i, task in enumerate(flow.tasks)],
    }
    if platform:
        execution["machines"] = [_machine(machine, fastest) for machine in platform.machines]
    document = {
        "name": flow.name,
        **{key: flow.notes[key] for key in _NOTE_KEYS if key in flow.notes},
        "schemaVersion": VERSION,
        "workflow": {"specification": _specification(flow, ids), "execution": execution},
    }
    yield json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1, default=str)
    yield "\n"


def _ids(flow: Workflow) -> list[str]:
    """Return the task names in the letters that WfFormat allows; InputError if two become equal."""
    ids = [_INVALID_LETTER.sub("_", name) or "_" for name in flow.names]
    if len(set(ids)) < len(ids):
        name, _ = Counter(ids).most_common(1)[0]
        raise InputError(
            f"two tasks would be named {name!r}: WfFormat allows letters, digits, '-', '_', '.'"
        )
    return ids


def _specification(flow: Workflow, ids: list[str]) -> dict[str, Any]:
    """Return the tasks, and a file for each edge with data."""
    # WfFormat has no data on edges: a file that one task writes and one reads carries the bytes.
    rows: list[dict[str, Any]] = [
        {"name": task.program or ids[i], "id": ids[i], "parents": [], "children": [],
         "inputFiles": [], "outputFiles": []}
        for i, task in enumerate(flow.tasks)
    ]  # fmt: skip
    files = []
    for a, b, size in zip(flow.sources, flow.targets, flow.data.tolist(), strict=True):
        rows[a]["children"].append(ids[b])
        rows[b]["parents"].append(ids[a])
        if size:
            name = f"{ids[a]}..{ids[b]}"
            files.append({"id": name, "sizeInBytes": round(size)})
            rows[a]["outputFiles"].append(name)
            rows[b]["inputFiles"].append(name)
    return {"tasks": rows, "files": files}


def _execution_row(task: WorkflowTask, name: str, fastest: float) -> dict[str, Any]:
    row: dict[str, Any] = {"id": name, "runtimeInSeconds": task.work / fastest}
    if task.program:
        row["command"] = {"program": task.program}
    if task.cores > 1:
        row["coreCount"] = task.cores
    return {**row, "memoryInBytes": task.memory} if task.memory else row


def _machine(machine: PlatformMachine, fastest: float) -> dict[str, Any]:
    cpu = {"coreCount": machine.cores, "speedInMHz": max(round(machine.speed / fastest * 1000), 1)}
    row: dict[str, Any] = {"nodeName": machine.name, "cpu": cpu}
    if machine.memory < float("inf"):
        row["memoryInBytes"] = round(machine.memory)
    return row


def wfformat_losses(flow: Workflow, platform: Platform | None = None) -> Iterator[str]:
    """Yield what WfFormat cannot express of *flow* and *platform*, as messages."""
    names = sum(bool(_INVALID_LETTER.search(name)) for name in flow.names)
    if names:
        yield f"{names} names of tasks are written with other letters"
    fractions = int(np.count_nonzero(flow.data != np.round(flow.data)))
    if fractions:
        yield f"{fractions} numbers of bytes are rounded"
    if flow.looped:
        yield "WfFormat does not define loops; the edges of this loop are written anyway"
    yield from lost_of_tasks(flow, ("cores", "memory", "work", "program"))
    if platform and (platform.links or platform.default.bandwidth < float("inf")):
        yield f"the {len(platform.links)} links between the machines"
    if platform and any(m.load or m.tags or m.cost or m.site for m in platform.machines):
        yield "sites, tags, costs and loads of machines"


def lost_of_tasks(flow: Workflow, attributes: tuple[str, ...]) -> Iterator[str]:
    """Yield which attributes of tasks a format with only *attributes* loses."""
    default = WorkflowTask("")
    for key in ("kind", "machine", "target", "tag", "cores", "memory", "times", "curve"):
        if key not in attributes:
            count = sum(getattr(t, key) != getattr(default, key) for t in flow.more.values())
            if count:
                yield f"{key} of {count} tasks"
