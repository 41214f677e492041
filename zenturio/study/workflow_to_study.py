"""An annotated workflow: a study of which each point is a schedule, a machine for each task.

As section 4.1 of "Dynamic Scheduling of Scientific Workflow Applications on the Grid" has it: the
workflow is annotated with directives for the machines that were found, each abstract machine is a
parameter, a schedule is a point, and whichever engine searches the points is the scheduler.
"""

from __future__ import annotations

import re
import shlex
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
from zenturio.schedule.model.loops import Iteration, LoopIterations, unrolled_iterations
from zenturio.schedule.model.metrics import metric
from zenturio.schedule.model.platform import Platform
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.static.list_scheduling import processor_names

FLOW, GRID = "workflow.json", "grid.toml"
MAX_ITERATIONS = 10
"""Iterations of a loop that are written out as stages, unless more are asked for."""
_HOLE = re.compile(r"\{(\w+)\}")
_WORD = re.compile(r"\w[\w.-]*")
"""Names of tasks that may be names of folders."""
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
    iterations: int = MAX_ITERATIONS,
) -> Path:
    """Write a stage for each task of *flow* into a new *folder*; return that which waits for all.

    A stage runs *command*, in which ``{task}``, ``{program}``, ``{work}``, ``{cores}`` and
    ``{iteration}`` are replaced, with copies of *files*. What matches *hand_on* is there for the
    tasks that follow, in a folder with the name of the stage. A service runs such stages of many
    users by its policy.

    With loops or branches, stages decide by what those before them left whether their task is run:
    of loops, as many *iterations* are written out, and those after the last one pass its files on.
    """
    for file in files:
        if not file.is_file():
            raise InputError(f"{file} is not a file", hint="--file names one file; repeat it")
    has_decisions = bool(flow.looped or flow.branches)
    plain, origin, ends = unrolled_iterations(flow, LoopIterations(iterations))
    folder, names = Path(folder), _stage_names(plain)
    stage_of = dict(zip(plain.names, names, strict=False))
    decisions = _Decisions(flow, plain, origin, ends, stage_of, iterations)
    _create_folder(folder)
    outputs = [f"OUTPUT {_quoted(pattern)}" for pattern in hand_on]
    last_stages = []
    for number, task in enumerate(plain.tasks):
        where = origin[task.name]
        values = {
            "task": where.task, "program": task.program, "work": f"{task.work:g}",
            "cores": str(task.cores), "iteration": str(where.number or 1),
        }  # fmt: skip
        line = _HOLE.sub(partial(_filled, values), command)
        needs = f" CPUS {task.cores}" if task.cores > 1 else ""
        needs += f" MEMORY {task.memory:.0f}" if task.memory else ""
        home = folder / names[number]
        if has_decisions:
            before = decisions.before(task)
            # A task that is skipped leaves no files.
            kept = [f"{output} OPTIONAL" for output in outputs]
            _write_stage(home, before, f'RUN "sh {SCRIPT}"{needs}', [*kept, f'OUTPUT "{STATE}"'])
            (home / SCRIPT).write_text(decisions.script(task, line), "utf-8")
        else:
            before = [names[i] for i in plain.before.of(number).tolist()]
            _write_stage(home, before, f"RUN {_quoted(line)}{needs}", outputs)
        for file in files:
            shutil.copy(file, home)
        if not len(plain.after.of(number)):
            last_stages.append(names[number])
    last, run = folder / names[-1], 'RUN "true"'
    if has_decisions and ends:
        last_stages = list(dict.fromkeys([*last_stages, *(stage_of[e] for e in sum(ends, ()))]))
        run = f'RUN "sh {SCRIPT}"'
    _write_stage(last, last_stages, run, [])
    if has_decisions and ends:
        (last / SCRIPT).write_text(_SCRIPT + "".join(decisions.checks(ends)), "utf-8")
    return last


SCRIPT, STATE = "zen-task.sh", "zen-task.state"
_SCRIPT = """\
#!/bin/sh
# Made by zen workflow annotate: run the task of a stage, or skip it.
# A stage leaves its exit code or "skipped", and "converged" if that ends its loop.

over() {  # whether one of these stages has converged, or all were skipped
    all_skipped=yes
    for stage; do
        if grep -qx converged "$stage/zen-task.state"; then return 0; fi
        grep -qx skipped "$stage/zen-task.state" || all_skipped=no
    done
    test $all_skipped = yes
}
ended_with() {  # whether a stage ended with one of these exit codes
    stage=$1
    shift
    for code; do
        if grep -qx "$code" "$stage/zen-task.state"; then return 0; fi
    done
    return 1
}
all_skipped() {
    for stage; do grep -qx skipped "$stage/zen-task.state" || return 1; done
}
skip() {
    echo "skipped: $1"
    echo skipped > zen-task.state
    exit 0
}
carry() {  # the loop is over: what its last iteration left is the result of this one
    echo "skipped: the loop has converged"
    cp -R "$1/." . && exit 0
    exit 1
}
fail() {
    echo "$1" >&2
    exit 1
}
link() {  # the files of a task are in a folder of its name, whichever its iteration
    test -e "$2" || ln -s "$1" "$2"
}
finish() {
    echo "$1" > zen-task.state
    if grep -Eqs '"converged" *: *(true|[0-9.]*[1-9])' "$ZEN_METRICS"; then
        echo converged >> zen-task.state
    fi
    exit 0
}

"""


class _Decisions:
    """What stages of a workflow with loops or branches look at before they run their tasks."""

    def __init__(
        self,
        flow: Workflow,
        plain: Workflow,
        origin: Mapping[str, Iteration],
        ends: Sequence[tuple[str, ...]],
        stage_of: Mapping[str, str],
        iterations: int,
    ) -> None:
        self._plain, self._origin, self._stage_of = plain, origin, stage_of
        self._number = {name: i for i, name in enumerate(plain.names)}
        self._edges = {(a, b) for a, b, *_ in flow.edges}
        self._ends, self._iterations = ends, iterations
        self._codes: dict[str, set[int]] = {}
        """Exit codes with which a task of the workflow has not failed."""
        for codes_of in flow.branches.values():
            for before, codes in codes_of.items():
                self._codes.setdefault(flow.names[before], set()).update(codes)

    def before(self, task: WorkflowTask) -> list[str]:
        """Return the stages that the one of *task* waits for."""
        names = [*self._parents(task.name)]
        for previous, closed in self._origin[task.name].repeats:
            names += [previous, *closed]
        return [self._stage_of[name] for name in dict.fromkeys(names)]

    def script(self, task: WorkflowTask, command: str) -> str:
        """Return the script of the stage of *task*."""
        where, lines = self._origin[task.name], list[str]()
        # From the outermost loop in: when that is over, what is inside is not asked.
        for previous, closed in reversed(where.repeats):
            lines.append(f"over {self._words(closed)} && carry {self._words([previous])}\n")
        parents = self._parents(task.name)
        lines += self.checks([ends for ends in self._ends if set(ends) <= set(parents)])
        for name, codes in task.when:
            text = " ".join(map(str, sorted(codes)))
            reason = shlex.quote(f"{self._origin[name].task} ended with another exit code")
            lines.append(f"ended_with {self._words([name])} {text} || skip {reason}\n")
        real = [a for a in parents if (self._origin[a].task, where.task) in self._edges]
        if real:
            reason = shlex.quote("all tasks before it were skipped")
            lines.append(f"all_skipped {self._words(real)} && skip {reason}\n")
        lines += [
            f"link {self._words([a])} {shlex.quote(self._origin[a].task)}\n"
            for a in real
            if _WORD.fullmatch(self._origin[a].task)
        ]
        accepted = "|".join(map(str, sorted({0, *self._codes.get(where.task, ())})))
        return "".join(
            [_SCRIPT, *lines, f"(\n{command}\n)\ncode=$?\n",
             f"case $code in {accepted}) finish $code ;; esac\nexit $code\n"]
        )  # fmt: skip

    def checks(self, ends: Sequence[tuple[str, ...]]) -> list[str]:
        """Return lines that fail if a loop that one of *ends* closes has not converged."""
        return [
            f"over {self._words(closed)} || fail "
            + shlex.quote(
                f"the loop of {self._origin[closed[0]].task} has not converged in"
                f" {self._iterations} iterations"
            )
            + "\n"
            for closed in ends
        ]

    def _parents(self, name: str) -> list[str]:
        return [self._plain.names[i] for i in self._plain.before.of(self._number[name]).tolist()]

    def _words(self, names: Sequence[str]) -> str:
        return " ".join(self._stage_of[name] for name in names)


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise InputError(
            f"{folder} already exists", hint="name a folder that does not exist"
        ) from None
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
    """Return *flow* with an abstract machine for each job, and for each task which it is.

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
    """Yield a word for each, that is no name of anything else."""
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
