"""A schedule as an experiment: which machine each task of a workflow gets is a parameter.

As section 4.1 of "Dynamic Scheduling of Scientific Workflow Applications on the Grid" has it: the
workflow is annotated with directives for the machines that were found, each abstract machine is a
parameter, a schedule is a point, and whichever engine searches the points is the scheduler.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from zenturio.annotate.clauses import write_text
from zenturio.annotate.directive_lines import insert
from zenturio.errors import InputError
from zenturio.schedule.formats.files import write_platform, write_workflow
from zenturio.schedule.model.metrics import metric
from zenturio.schedule.model.platform import Platform
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.static.list_scheduling import processor_names

FLOW, GRID = "workflow.json", "grid.toml"
_HOLE = re.compile(r"\{(\w+)\}")
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
    _create_folder(folder)
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


def annotate_as_stages(
    flow: Workflow,
    folder: str | Path,
    command: str,
    files: Sequence[Path] = (),
    hand_on: Sequence[str] = (),
) -> Path:
    """Write a stage for each task of *flow* into a new *folder*; return that which waits for all.

    A stage runs *command*, in which ``{task}``, ``{program}``, ``{work}`` and ``{cores}`` are
    replaced, with copies of *files*. What matches *hand_on* is there for the tasks that follow, in
    a folder with the name of the stage. A service runs such stages of many users by its policy.
    """
    if flow.looped or flow.branches:
        raise InputError(
            f"{flow.name} has {'loops' if flow.looped else 'branches'}: stages run once each",
            hint="zen workflow run runs it",
        )
    for file in files:
        if not file.is_file():
            raise InputError(f"{file} is not a file", hint="--file names one file; repeat it")
    folder, names = Path(folder), _stage_names(flow)
    _create_folder(folder)
    outputs = [f"OUTPUT {_quoted(pattern)}" for pattern in hand_on]
    ends = []
    for number, task in enumerate(flow.tasks):
        before = [names[i] for i in flow.before.of(number).tolist()]
        values = {
            "task": task.name, "program": task.program, "work": f"{task.work:g}",
            "cores": str(task.cores),
        }  # fmt: skip
        line = _HOLE.sub(partial(_filled, values), command)
        needs = f" CPUS {task.cores}" if task.cores > 1 else ""
        needs += f" MEMORY {task.memory:.0f}" if task.memory else ""
        _write_stage(folder / names[number], before, f"RUN {_quoted(line)}{needs}", outputs)
        for file in files:
            shutil.copy(file, folder / names[number])
        if not len(flow.after.of(number)):
            ends.append(names[number])
    last = folder / names[-1]
    _write_stage(last, ends, 'RUN "true"', [])
    return last


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise InputError(f"{folder} is there already", hint="name a folder that is not") from None
    except OSError as error:
        raise InputError(f"{folder} cannot be created: {error.strerror}") from error


def _filled(values: Mapping[str, str], hole: re.Match[str]) -> str:
    return values.get(hole[1], hole[0])


def _stage_names(flow: Workflow) -> list[str]:
    """Return a name for the stage of each task, and one for the stage that waits for all."""
    names: list[str] = []
    for task in (*flow.names, "all"):
        word = re.sub(r"[^\w-]", "_", f"{flow.name}-{task}")
        name, number = word, 2
        while name in names:
            name, number = f"{word}_{number}", number + 1
        names.append(name)
    return names


def _write_stage(folder: Path, before: Sequence[str], run: str, outputs: Sequence[str]) -> None:
    folder.mkdir()
    lines = [*(f'AFTER "{name}"' for name in before), run, *outputs]
    (folder / "study.zen").write_text("".join(f"ZEN$ {line}\n" for line in lines), "utf-8")


def _quoted(text: str) -> str:
    """Return *text* as that of a directive, in which it names no parameters."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("{{", "{{{{").replace("}}", "}}}}") + '"'


def abstract_workflow(flow: Workflow) -> tuple[Workflow, dict[str, str]]:
    """*flow* with an abstract machine for each job, and for each task which it is.

    Those that it has are kept apart as they are; each other job gets one of its own, named after
    it as in the paper: lapw0_host.
    """
    machines = {task.machine or f"\0{task.name}" for task in flow.tasks if task.kind == "job"}
    used = {*flow.names, *(task.program for task in flow.tasks)}
    hosts = dict(_hosts(sorted(machines), used))

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


def _hosts(machines: list[str], used: set[str]) -> Iterator[tuple[str, str]]:
    """A word for each, that is no name of anything else."""
    for name in machines:
        word = re.sub(r"\W", "_", name.strip("\0"))
        host, number = f"{word}_host", 2
        while host in used:
            host, number = f"{word}_host{number}", number + 1
        used.add(host)
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
