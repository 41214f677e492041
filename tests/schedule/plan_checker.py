"""An independent checker of plans: reads the JSON of a workflow and of a plan, and nothing else.

It shares no code with the package. Times are compared with a relative tolerance.
"""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

INFINITE = float("inf")
TOLERANCE = 1e-7


def faults(instance: dict[str, Any], plan: dict[str, Any]) -> list[str]:
    """Return what is wrong with *plan*, which names tasks and machines of *instance*."""
    platform = instance["platform"]
    tasks = {task["name"]: task for task in instance["tasks"]}
    machines = {machine["name"]: machine for machine in platform["machines"]}
    rows = {row["id"]: row for row in plan["tasks"]}
    if sorted(rows) != sorted(tasks) or len(rows) != len(plan["tasks"]):
        return ["not each task once"]
    slack = TOLERANCE * max(1.0, plan["makespan"])
    found = []
    if abs(max((row["end"] for row in rows.values()), default=0) - plan["makespan"]) > slack:
        found.append("makespan")
    transfers = defaultdict(list)
    for edge in instance["edges"]:
        source, target, size = (*edge, 0)[:3]
        seconds = transfer_seconds(platform, machines, rows[source], rows[target], size)
        transfers[target].append((source, seconds))
    overlap = platform.get("overlap", True)
    for name, row in rows.items():
        task, machine = tasks[name], machines[row["machine"]]
        if task.get("tag", "") and task["tag"] not in machine.get("tags", []):
            found.append(f"{name}: tag")
        length = task.get("work", 0) / machine.get("speed", 1)
        is_staged = not overlap and task.get("work", 0) > 0
        staging = max([seconds for _, seconds in transfers[name]] or [0]) if is_staged else 0
        if abs(row["end"] - row["start"] - length - staging) > slack:
            found.append(f"{name}: length")
        if row["start"] < machine.get("boot", 0) - slack:
            found.append(f"{name}: before its machine has booted")
        for source, seconds in transfers[name]:
            if row["start"] < rows[source]["end"] + (0 if is_staged else seconds) - slack:
                found.append(f"{name}: before {source}")
    found += overfull(tasks, machines, rows, slack)
    found += lanes(rows, slack)
    homes = defaultdict(set)
    for name, task in tasks.items():
        if task.get("machine"):
            homes[task["machine"]].add((rows[name]["machine"], rows[name].get("core")))
    return found + [f"{group}: parted" for group, places in homes.items() if len(places) > 1]


def transfer_seconds(
    platform: dict[str, Any], machines: dict[str, Any], one: Any, other: Any, size: float
) -> float:
    if one["machine"] == other["machine"]:
        return 0.0
    source, target = machines[one["machine"]], machines[other["machine"]]
    ends = {source.get("site", ""), target.get("site", "")}
    links = [link for link in platform.get("links", []) if set(link["between"]) == ends]
    link = links[-1] if links else platform.get("default", {})
    rate = min(
        link.get("bandwidth", INFINITE),
        link.get("capacity", INFINITE),
        source.get("network", INFINITE),
        target.get("network", INFINITE),
    )
    return link.get("latency", 0.0) + size / rate


def overfull(tasks: Any, machines: Any, rows: Any, slack: float) -> list[str]:
    """Add up what runs at the moment when each task starts; nothing rises in between."""
    found = []
    for name, machine in machines.items():
        here = [row for row in rows.values() if row["machine"] == name]
        here = [row for row in here if row["end"] - row["start"] > 2 * slack]
        for kind, usual, unset in (
            ("cores", 1, 1), ("memory", 0, INFINITE), ("accelerators", 0, 0),
        ):  # fmt: skip
            for moment in (row["start"] + slack for row in here):
                used = sum(
                    tasks[row["id"]].get(kind, usual)
                    for row in here
                    if row["start"] <= moment < row["end"] - slack
                )
                if used > machine.get(kind, unset) * (1 + TOLERANCE):
                    found.append(f"{name}: {used} {kind} at {moment}")
    return found


def lanes(rows: Any, slack: float) -> list[str]:
    """Tasks on one core, where a plan names cores, come one after the other."""
    by_core = defaultdict(list)
    for row in rows.values():
        if "core" in row and row["end"] - row["start"] > slack:
            by_core[row["machine"], row["core"]].append((row["start"], row["end"]))
    return [
        f"{core}: overlap"
        for core, spans in by_core.items()
        for one, other in zip(sorted(spans), sorted(spans)[1:], strict=False)
        if other[0] < one[1] - slack
    ]


def random_instance(seed: int) -> dict[str, Any]:
    """Return a workflow of up to 14 tasks on up to 4 machines, with some of all that there is."""
    chance = random.Random(seed)
    sites = ["", "north", "south"][: chance.randint(1, 3)]
    has_memory, has_accelerators = chance.random() < 0.5, chance.random() < 0.3
    has_wide, has_boot, has_network = (chance.random() < 0.5 for _ in range(3))
    machines = []
    for number in range(chance.randint(1, 4)):
        machine = {"name": f"m{number}", "speed": chance.choice([0.5, 1, 1, 3])}
        machine |= {"cores": chance.randint(1, 6), "site": chance.choice(sites)}
        machine |= {"memory": chance.choice([4, 8, 16])} if has_memory else {}
        machine |= {"accelerators": chance.randint(0, 2)} if has_accelerators else {}
        machine |= {"boot": chance.choice([0, 3.5])} if has_boot else {}
        machine |= {"network": chance.choice([2, 5])} if has_network else {}
        machines.append(machine)
    # The last machine can run all tasks.
    machines[-1] |= {"cores": 6, "tags": ["gpu"]}
    machines[-1] |= {"memory": 16} if has_memory else {}
    machines[-1] |= {"accelerators": 2} if has_accelerators else {}
    links = [
        {"between": sorted({one, other}), "bandwidth": chance.choice([1, 3, 10]),
         "latency": chance.choice([0, 0.5])}
        for one in sites for other in sites if one <= other and chance.random() < 0.5
    ]  # fmt: skip
    used = {machine["site"] for machine in machines}
    links = [link for link in links if set(link["between"]) <= used]
    tasks = []
    for number in range(chance.randint(1, 14)):
        task = {"name": f"t{number}", "work": chance.choice([0, 1, 2.5, 7, chance.random()])}
        task |= {"cores": chance.randint(1, 6)} if has_wide and chance.random() < 0.4 else {}
        task |= {"memory": chance.choice([1, 3, 4])} if has_memory and chance.random() < 0.7 else {}
        task |= (
            {"accelerators": chance.randint(1, 2)} if has_accelerators and number % 3 == 0 else {}
        )
        task |= {"tag": "gpu"} if chance.random() < 0.1 else {}
        task |= {"machine": f"group{number % 2}"} if chance.random() < 0.15 else {}
        tasks.append(task)
    edges = [
        [f"t{a}", f"t{b}", chance.choice([0, 1, 6])]
        for a in range(len(tasks)) for b in range(a + 1, len(tasks)) if chance.random() < 0.2
    ]  # fmt: skip
    platform = {"name": "random", "machines": machines, "links": links}
    platform |= {"default": {"bandwidth": 4, "latency": 0.25}} if chance.random() < 0.5 else {}
    platform |= {"overlap": False} if chance.random() < 0.25 else {}
    return {"name": f"random{seed}", "tasks": tasks, "edges": edges, "platform": platform}
