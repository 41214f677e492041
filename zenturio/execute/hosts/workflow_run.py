"""A workflow of real tasks: each a command, with the files of those that it waits for.

Running the same workflow again resumes it: tasks that have ended are known to the place, and those
that still run at hosts are attached to. When all is done, they are forgotten.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from numpy.typing import ArrayLike

from zenturio.errors import ExperimentsFailed, InputError, PlaceError
from zenturio.execute.hosts.executor import Hosts
from zenturio.execute.hosts.host_choice import ProgressProfile
from zenturio.experiment import Experiment, ExperimentFile, Log, Outcome, Recipe, Step
from zenturio.experiment.identity import content_digest, experiment_digest
from zenturio.expression import parse
from zenturio.schedule.algorithm import make_workflow_planner
from zenturio.schedule.model import loops
from zenturio.schedule.model.loops import Loop
from zenturio.schedule.model.platform import Platform, PlatformMachine
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow
from zenturio.schedule.moldable.cluster_queue import allotted_plan
from zenturio.schedule.simulate.machine_state import MachineState, RunningTask
from zenturio.schedule.simulate.simulator import FollowPlan, LoopController
from zenturio.schedule.simulate.trace import ExecutionTrace, TraceEvent

POLL_SECONDS = 0.1
"""Seconds between two checks of hosts, and at how far tasks are."""
CHANGE_FRACTION = 0.25
"""By which part the share of a machine has to be another one to be told."""
_SHOWN_LINES = 10
"""Lines of output shown for a failed task."""
MakeExperiment = Callable[[int, str], Experiment]
"""The experiment of a task at a host."""


def platform_of(place: Hosts) -> Platform:
    """Return the hosts that are up, as machines."""
    machines = [
        PlatformMachine(host.name, float(speed), host.slots, _memory_of(host.facts))
        for host in place.hosts
        if host.is_up and isinstance(speed := host.facts.get("speed"), int | float) and speed > 0
    ]
    if not machines:
        raise PlaceError("no connected host has a known speed")
    return Platform("hosts", tuple(machines))


def _memory_of(facts: Mapping[str, Any]) -> float:
    """Return the bytes of memory of a host; infinite if it did not say."""
    memory = facts.get("memory")
    return float(memory) if isinstance(memory, int | float) and memory > 0 else inf


class WorkflowHosts(MachineState):
    """The machines of a place, as they are now."""

    def __init__(
        self, problem: Problem, place: Hosts, make: MakeExperiment, forward: ArrayLike | None = None
    ) -> None:
        super().__init__(problem, None, forward)
        self.outcomes: dict[int, Outcome] = {}
        """The outcome of each task's last run."""
        self._place = place
        self._make = make
        self._begun = monotonic()
        self._names = [machine.name for machine in problem.platform.machines]
        self._accepted: dict[int, set[int]] = {}
        """Exit codes of a task that lead somewhere: with these it has not failed."""
        for codes_of in problem.workflow.branches.values():
            for task, codes in codes_of.items():
                self._accepted.setdefault(task, set()).update(codes - {0})
        self._jobs: dict[int, Future[Outcome]] = {}
        """The job of each task that runs."""
        self._back: SimpleQueue[tuple[int, int, Future[Outcome]]] = SimpleQueue()
        self._numbers = count(1)
        self._alarms: list[float] = []
        self._looked = 0.0
        self._lost: dict[int, float] = {}
        """Since when a machine has been gone."""

    def moments(self) -> Iterator[list[TraceEvent]]:
        """Wait for events and pass them on, until every task has finished or none can run."""
        self._tell("began")
        while True:
            self.now = monotonic() - self._begun
            if self._news:
                events, self._news = self._news, []
                yield events
            stirred, self._stirred = sorted(self._stirred), set()
            for processor in stirred:
                self._start(processor)
            if self._news or self._stirred:
                continue
            if not self._open or not (self._jobs or self._alarms):
                return
            self._wait()

    def close(self) -> None:
        """End what runs."""
        for future in self._jobs.values():
            future.cancel()

    def wake(self, time: float) -> None:
        heappush(self._alarms, max(time, self.now + POLL_SECONDS))

    def remaining(self, task: int) -> float:
        """By the task's own profile; by the clock, if it has none."""
        duration = self.time(task, self.where[task])
        profile = self._profile(task)
        if profile is not None and profile.of:
            return duration * (1 - min(profile.iteration / profile.of, 1.0))
        return super().remaining(task)

    def _wait(self) -> None:
        """Wait until a task ends, an alarm is due, or it is time for the next poll."""
        soon = self._alarms[0] - (monotonic() - self._begun) if self._alarms else POLL_SECONDS
        try:
            ended = [self._back.get(timeout=max(min(soon, POLL_SECONDS), 0.0))]
        except Empty:
            ended = []
        while not self._back.empty():
            ended.append(self._back.get_nowait())
        self.now = monotonic() - self._begun
        for processor, number, future in ended:
            for run in [run for run in self.running[processor] if run.number == number]:
                self._heard(run, future)
        if self._alarms and self._alarms[0] <= self.now:
            while self._alarms and self._alarms[0] <= self.now:
                heappop(self._alarms)
            self._tell("woke")
        self._spare(self.now - self._looked)
        self._looked = self.now
        for machine in range(len(self._names)):
            self._look(machine)

    def _spare(self, seconds: float) -> None:
        """Tasks that are on their way, there or back, do not run: they begin as much later."""
        for task, job in self._jobs.items():
            run = self.run(task)
            if not getattr(job, "runs", True):
                run.start = min(run.start + seconds, self.now)
                run.since = run.start

    def _heard(self, run: RunningTask, future: Future[Outcome]) -> None:
        outcome = future.result()
        code = outcome.exit
        if outcome.status == "failed" and code and code in self._accepted.get(run.task, ()):
            self.exit[run.task] = code
        elif outcome.status != "ok":
            self._place.forget(outcome.digest)  # who runs it again wants another try
            last_lines = _last_lines(outcome.stderr) or _last_lines(outcome.stdout)
            raise ExperimentsFailed(
                f"task {self._name(run.task)} on {outcome.host}: {outcome.cause}",
                hint="" if last_lines in outcome.cause else last_lines,
            )
        else:
            self.exit.pop(run.task, None)
        self.outcomes[run.task] = outcome
        self._end(run)

    def _look(self, machine: int) -> None:
        """Whether a machine is up, and the speed of its tasks."""
        host = self._place.host(self._names[machine])
        is_gone = host is None or not host.is_up
        if not is_gone:
            self._lost.pop(machine, None)
            self._changes(machine, self._seen(machine))
        elif self.now > self._lost.setdefault(machine, self.now) + self._place.options.patience:
            self._changes(machine, 0.0)

    def _seen(self, machine: int) -> float:
        """Return the share of its speed that the tasks of a machine tell of.

        What it was, if none does.
        """
        shares = [self.share[machine]] if self.share[machine] else [1.0]
        for processor in self._costs.processors[machine]:
            for run in self.running[processor]:
                profile = self._profile(run.task)
                if profile is not None and profile.of and profile.now:
                    expected = self.time(run.task, processor) / profile.of
                    shares.append(min(expected / profile.now, 1.0))
        return max(shares[1:], default=shares[0])

    def _profile(self, task: int) -> ProgressProfile | None:
        profile = getattr(self._jobs.get(task), "profile", None)
        return profile if isinstance(profile, ProgressProfile) else None

    def _changes(self, machine: int, share: float) -> None:
        before = self.share[machine]
        if share == before or (
            share and before and abs(share - before) <= CHANGE_FRACTION * before
        ):
            return
        self.share[machine] = share
        kind: Any = "load" if share and before else "back" if share else "failed"
        self._tell(kind, machine=machine, share=share)
        for processor in self._costs.processors[machine]:
            for run in [] if share else list(self.running[processor]):
                self._tell("lost", self._stop(run, "lost"), machine)
            self._stirred.add(processor)

    # What the simulator foresees, and here is done.

    def _foresee(self, run: RunningTask, processor: int) -> None:
        run.number = number = next(self._numbers)
        experiment = self._make(run.task, self._names[self.node[processor]])
        future = self._jobs[run.task] = self._place.submit(experiment)
        future.add_done_callback(lambda future: self._back.put((processor, number, future)))

    def _skip(self, task: int, processor: int) -> None:
        self.outcomes.pop(task, None)  # of an earlier iteration
        super()._skip(task, processor)

    def _stop(self, run: RunningTask, kind: Any) -> int:
        future = self._jobs.pop(run.task)
        if kind != "ended":
            future.cancel()
        return super()._stop(run, kind)

    def _arrival(self, task: int, processor: int, ready: float) -> float:  # noqa: ARG002
        """Data are here, and go with the task."""
        return ready

    def _await_step(self, machine: int) -> None:
        """Nobody knows what is to come."""


def _last_lines(log: Log) -> str:
    """Return the last lines of what a task said."""
    text = (log.head + log.tail).decode("utf-8", "replace")
    return "\n".join(text.splitlines()[-_SHOWN_LINES:])


CONVERGED = "converged"
"""The metric by which the last task of a loop reports convergence."""
LARGE_BYTES = 2**20
_HOLE = re.compile(r"\{(task|program|work|cores|iteration)\}")


@dataclass(frozen=True)
class TaskTemplate:
    """How tasks are run."""

    command: str
    """With ``{task}``, ``{program}``, ``{work}``, ``{cores}`` and ``{iteration}`` in it."""
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
    planner = make_workflow_planner(algorithm)
    platform = platform_of(place)
    found_loops = loops.find_loops(flow)
    policy = planner if hasattr(planner, "react") else None
    if planner.kind == "moldable":
        plan = allotted_plan(
            planner, loops.single_iteration(flow, found_loops), platform, algorithm
        )
        widths = plan.problem.workflow
        # The edges that close loops are those of the workflow.
        flow = replace(flow, work=widths.work, more=widths.more)
        policy = FollowPlan(plan, found_loops)
    problem = Problem.of(flow, platform)
    tasks = _TaskExperiments(flow, template)
    hosts = WorkflowHosts(
        problem,
        place,
        tasks.experiment,
        loops.forward_edges(flow, found_loops) if found_loops else None,
    )
    tasks.outcomes = hosts.outcomes
    if policy is None:
        single = loops.single_iteration_problem(problem, found_loops)
        policy = FollowPlan(planner.plan(single), found_loops)
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
        """Loops that start again."""
        for event in events:
            for task in self._loop_of[event.task]:
                self._iteration[task] += 1

    def experiment(self, task: int, host: str) -> Experiment:
        """Return *task* at *host*, once more if it was there before."""
        self._tries[task] += 1
        handed = {
            artifact.path: _file_of(artifact.path, artifact.kept)
            for predecessor in self._flow.before.of(task).tolist()
            if predecessor in self.outcomes
            for artifact in self.outcomes[predecessor].artifacts
        }
        files = tuple({**{f.path: f for f in self._files}, **handed}.values())
        needs = self._flow.task(task)
        step = Step(
            self._command(task),
            cpus=needs.cores if needs.cores > 1 else None,
            memory=int(needs.memory) or None,
        )
        environment = {"ZEN_TASK": self._flow.names[task], "ZEN_TRY": str(self._tries[task])}
        digest = experiment_digest(files, (step,), environment, self._iteration[task])
        recipe = Recipe(
            outputs=self._doing.hands_on, requires=(parse(f"host.name == {_quoted_text(host)}"),)
        )
        self.digests.append(digest)
        return Experiment(
            digest, task, self._iteration[task], {}, files, (step,), environment, None, recipe
        )

    def _command(self, task: int) -> str:
        flow = self._flow
        values = {
            "task": flow.names[task],
            "program": flow.task(task).program,
            "work": f"{flow.work[task]:g}",
            "cores": str(flow.task(task).cores),
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
        """Return whether no task has reported convergence."""
        ended = [task for task in self._ends[loop] if task in self._live.outcomes]
        metrics = [self._live.outcomes[task].metrics for task in ended]
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
        earlier = paths_by_name.setdefault(path.name, path)
        if earlier != path:
            raise InputError(
                f"{earlier} and {path} would be the same file of a task", hint="rename one of them"
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
    """Return *word* as a text of an expression."""
    return "'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'"
