"""
A workflow of real tasks: each a command, with the files of those that it waits for.

The same workflow, given again, goes on where it was: tasks that have ended are known to the place,
and those that still run at hosts are attached to. When all is done, they are forgotten.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zenturio.errors import ExperimentsFailed, InputError
from zenturio.execute.hosts.executor import Hosts
from zenturio.execute.hosts.workflow_hosts import WorkflowHosts, platform_of
from zenturio.experiment import Experiment, ExperimentFile, Outcome, Recipe, Step
from zenturio.experiment.identity import content_digest, experiment_digest
from zenturio.expression import parse
from zenturio.schedule.algorithm import make
from zenturio.schedule.model import loops
from zenturio.schedule.model.loops import Loop
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow
from zenturio.schedule.simulate.simulator import FollowPlan, LoopController
from zenturio.schedule.simulate.trace import ExecutionTrace

CONVERGED = "converged"
"""The metric by which the last task of a loop says that there is to be no other iteration."""
LARGE_BYTES = 2**20
_HOLE = re.compile(r"\{(task|program|work|iteration)\}")


@dataclass(frozen=True)
class TaskTemplate:
    """How tasks are run."""

    command: str
    """With ``{task}``, ``{program}``, ``{work}`` and ``{iteration}`` in it."""
    files: tuple[Path, ...] = ()
    """What each of them gets."""
    hands_on: tuple[str, ...] = ()
    """Patterns of what a task leaves for those that wait for it."""
    most: int = 100
    """Iterations after which a loop that does not converge is a fault."""


def run_workflow(
    flow: Workflow, template: TaskTemplate, place: Hosts, algorithm: str = "hybrid"
) -> ExecutionTrace:
    """Return what happened when *flow* was run at *place*, planned by *algorithm*."""
    name = content_digest("\0".join([flow.name, template.command, *flow.names]).encode())
    with place.alone(name.hex()):
        return _run_workflow(flow, template, place, algorithm)


def _run_workflow(
    flow: Workflow, template: TaskTemplate, place: Hosts, algorithm: str = "hybrid"
) -> ExecutionTrace:
    problem = Problem.of(flow, platform_of(place))
    found_loops = loops.find_loops(flow)
    tasks = _TaskExperiments(flow, template)
    hosts = WorkflowHosts(
        problem,
        place,
        tasks.experiment,
        loops.forward_edges(flow, found_loops) if found_loops else None,
    )
    tasks.outcomes = hosts.outcomes
    planner = make(algorithm)
    policy = (
        planner
        if hasattr(planner, "react")
        else FollowPlan(planner.plan(loops.single_iteration_problem(problem, found_loops)))
    )
    rounds = LoopController(
        hosts, found_loops, _ConvergenceTest(flow, found_loops, hosts, template.most)
    )
    try:
        for events in hosts.moments():
            renewed = rounds.turn()
            tasks.renew(renewed)
            policy.react(hosts, [*events, *renewed])
    finally:
        hosts.close()
    for digest in tasks.digests:
        place.forget(digest)
    single = loops.single_iteration_problem(problem, found_loops)
    return ExecutionTrace(
        single, algorithm, tuple(hosts.runs), tuple(hosts.events), tuple(hosts.left()), hosts.notes
    )


class _TaskExperiments:
    """Makes experiments of tasks."""

    def __init__(self, flow: Workflow, template: TaskTemplate) -> None:
        self._flow = flow
        self._doing = template
        self._tries = [0] * len(flow)
        self._iteration = [1] * len(flow)
        self._files = _task_files(template.files)
        self.outcomes: Mapping[int, Outcome] = {}
        self.digests: list[str] = []
        self._loop_of = {loop.first: loop.tasks for loop in loops.find_loops(flow)}

    def renew(self, events: Sequence[Any]) -> None:
        """Loops that begin anew."""
        for event in events:
            for task in self._loop_of[event.task]:
                self._iteration[task] += 1

    def experiment(self, task: int, host: str) -> Experiment:
        """*task* at *host*, once more if it was there before."""
        self._tries[task] += 1
        handed = {
            artifact.path: _file_of(artifact.path, artifact.kept)
            for other in self._flow.before.of(task).tolist()
            if other in self.outcomes
            for artifact in self.outcomes[other].artifacts
        }
        files = tuple({**{f.path: f for f in self._files}, **handed}.values())
        step = Step(self._command(task))
        environment = {"ZEN_TASK": self._flow.names[task], "ZEN_TRY": str(self._tries[task])}
        named = experiment_digest(files, (step,), environment, self._iteration[task])
        recipe = Recipe(
            outputs=self._doing.hands_on, requires=(parse(f"host.name == {_quoted_text(host)}"),)
        )
        self.digests.append(named)
        return Experiment(
            named, task, self._iteration[task], {}, files, (step,), environment, None, recipe
        )

    def _command(self, task: int) -> str:
        flow = self._flow
        values = {
            "task": flow.names[task],
            "program": flow.task(task).program,
            "work": f"{flow.work[task]:g}",
            "iteration": str(self._iteration[task]),
        }
        return _HOLE.sub(lambda hole: shlex.quote(values[hole[1]]), self._doing.command)


class _ConvergenceTest:
    """Loops that are run until one of the tasks that close them says so."""

    def __init__(
        self, flow: Workflow, found_loops: Sequence[Loop], live: WorkflowHosts, most: int
    ) -> None:
        self._flow = flow
        self._ends = [flow.sources[list(loop.closing)].tolist() for loop in found_loops]
        self._live = live
        self._most = most

    def more(self, loop: int, iteration: int, total: int) -> bool:  # noqa: ARG002
        """Return whether nobody has said that it converged."""
        metrics = [self._live.outcomes[task].metrics for task in self._ends[loop]]
        if any(values.get(CONVERGED) for values in metrics):
            return False
        if iteration >= self._most:
            name = self._flow.names[self._ends[loop][0]]
            raise ExperimentsFailed(
                f"the loop of {name} has not converged in {iteration} iterations",
                hint=f"its last task says so: echo '{{\"{CONVERGED}\": true}}' >> $ZEN_METRICS",
            )
        return True


def _task_files(paths: Sequence[Path]) -> tuple[ExperimentFile, ...]:
    """Return what each task gets, by the names of the files, which have to differ."""
    paths_by_name: dict[str, Path] = {}
    for path in paths:
        other = paths_by_name.setdefault(path.name, path)
        if other != path:
            raise InputError(
                f"{other} and {path} would be the same file of a task", hint="rename one of them"
            )
    return tuple(map(_read_input, paths_by_name.values()))


def _read_input(path: Path) -> ExperimentFile:
    try:
        return _file_of(path.name, path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def _file_of(name: str, path: Path) -> ExperimentFile:
    content, status = path.read_bytes(), path.stat()
    mode, mtime = status.st_mode & 0o777, status.st_mtime_ns
    if len(content) <= LARGE_BYTES:
        return ExperimentFile(name, mode, content, mtime=mtime)
    return ExperimentFile(name, mode, None, path.absolute(), content_digest(content).hex(), mtime)


def _quoted_text(word: str) -> str:
    """*word* as a text of an expression."""
    return "'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'"
