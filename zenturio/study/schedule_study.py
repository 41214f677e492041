"""A schedule as an experiment: which machine each task of a workflow gets is a parameter.

As section 4.1 of "Dynamic Scheduling of Scientific Workflow Applications on the Grid" has it: the
workflow is annotated with directives for the machines that were found, each abstract machine is a
parameter, a schedule is a point, and whichever engine searches the points is the scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from zenturio.annotate.clauses import write_text
from zenturio.annotate.insert import insert
from zenturio.errors import InputError
from zenturio.schedule.formats.files import write_platform, write_workflow
from zenturio.schedule.model.metrics import metric
from zenturio.schedule.model.platform import Platform
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.static.list_scheduling import processor_names

FLOW, GRID = "workflow.json", "grid.toml"
_NUMBERED = re.compile(r"([A-Za-z_][\w.-]*?)(\d+)")


def annotate(
    flow: Workflow, platform: Platform, folder: str | Path, objective: str = "makespan"
) -> Path:
    """Write the study of all schedules of *flow* into a new *folder*, and return it.

    In it stand the workflow, whose tasks run on abstract machines; the platform; and directives,
    by which each abstract machine is any processor that can run its tasks.
    """
    goal, folder = metric(objective), Path(folder)
    if flow.looped and goal.name != "makespan":
        raise InputError(
            f"{flow.name} has loops: of tasks that run several times, only the makespan is defined",
            hint="--objective makespan",
        )
    abstract, names = abstract_workflow(flow)
    sets = dict(_sets(Problem.of(abstract, platform), names))
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise InputError(f"{folder} is there already", hint="name a folder that is not") from None
    write_workflow(abstract, folder / FLOW)
    write_platform(platform, folder / GRID)
    bodies = (
        f'RUN "zen simulate {FLOW} --on {GRID}"',
        f"METRIC {goal.name}",
        f"OBJECTIVE {goal.direction.upper()} {goal.name}",
    )
    directives = insert("", "shell", sets, bodies=bodies)
    (folder / f"{FLOW}.zen").write_text(directives, "utf-8")
    return folder


def abstract_workflow(flow: Workflow) -> tuple[Workflow, dict[str, str]]:
    """*flow* with an abstract machine for each job, and for each task which it is.

    Those that it has are kept apart as they are; each other job gets one of its own, named after
    it as in the paper: lapw0_host.
    """
    machines = {task.machine or f"\0{task.name}" for task in flow.tasks if task.kind == "job"}
    taken = {*flow.names, *(task.program for task in flow.tasks)}
    hosts = dict(_hosts(sorted(machines), taken))

    def host(task: WorkflowTask) -> WorkflowTask:
        if task.kind == "job":
            return replace(task, machine=hosts[task.machine or f"\0{task.name}"])
        source, target = hosts.get(task.machine, ""), hosts.get(task.target, "")
        return replace(task, machine=source, target=target)

    tasks = [host(task) for task in flow.tasks]
    return (
        Workflow.of(flow.name, tasks, list(flow.edges), **flow.notes),
        {task.name: task.machine for task in tasks if task.kind == "job"},
    )


def _hosts(machines: list[str], taken: set[str]) -> Iterator[tuple[str, str]]:
    """A word for each, that is no name of anything else."""
    for name in machines:
        word = re.sub(r"\W", "_", name.strip("\0"))
        host, number = f"{word}_host", 2
        while host in taken:
            host, number = f"{word}_host{number}", number + 1
        taken.add(host)
        yield name, host


def _sets(problem: Problem, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """For each abstract machine the processors that can run all of its tasks."""
    processors = np.array(processor_names(problem), object)
    number = {name: i for i, name in enumerate(problem.workflow.names)}
    members: dict[str, list[int]] = {}
    for name, host in names.items():
        members.setdefault(host, []).append(number[name])
    for host, tasks in members.items():
        fits = np.isfinite(problem.pace[problem.row[tasks]]).all(axis=0)
        yield host, ranged(processors[fits].tolist())


def ranged(names: list[str]) -> str:
    """*names* as a set of the language, those that are numbered one after the other as a range."""
    elements: list[str] = []
    at = 0
    while at < len(names):
        last = at
        while last + 1 < len(names) and _follows(names[last], names[last + 1]):
            last += 1
        one, other = _NUMBERED.fullmatch(names[at]), _NUMBERED.fullmatch(names[last])
        if one and other and last > at + 1:
            elements.append(f"{one[1]}{{{one[2]}:{other[2]}}}")
        else:
            elements += map(write_text, names[at : last + 1])
        at = last + 1
    return f"{{ {', '.join(elements)} }}"


def _follows(one: str, other: str) -> bool:
    """Return whether *other* is the name with the next number, in as many digits."""
    a, b = _NUMBERED.fullmatch(one), _NUMBERED.fullmatch(other)
    if not (a and b) or a[1] != b[1]:
        return False
    padded = a[2].startswith("0") or b[2].startswith("0")
    return int(b[2]) == int(a[2]) + 1 and (not padded or len(a[2]) == len(b[2]))
