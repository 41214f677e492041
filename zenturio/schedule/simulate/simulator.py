"""Simulation of a workflow on machines that change, by a plan or by a policy.

Simulation is deterministic: the same problem, policy, loads, iterations and seed give the same
trace. Perturbations follow section 7 of the ZENTURIO paper on dynamic scheduling: CPU perturbations
at random intervals with a uniform distribution. Each machine has its own random stream, so that
adding a machine changes nothing for the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.model.evaluation import problem_arrays, topological_orders
from zenturio.schedule.model.loops import (
    Loop,
    LoopIterations,
    find_loops,
    forward_edges,
    single_iteration_problem,
)
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.platform import LoadStep, Platform
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Floats, merge_parallel_edges
from zenturio.schedule.simulate.machine_state import MachineState, Policy
from zenturio.schedule.simulate.network import SharedNetwork
from zenturio.schedule.simulate.trace import ExecutionTrace, TraceEvent

if TYPE_CHECKING:
    from zenturio.schedule.kernels.plan_times import LoadArrays


__all__ = ["FollowPlan", "Policy", "task_sequence"]


class FollowPlan:
    """A policy that sends each task where the plan has it, in the plan's order, whatever happens.

    A task that is lost with its machine waits there until the machine recovers. The plan has one
    iteration of each of *loops*, and every iteration follows it.
    """

    def __init__(self, plan: Plan, loops: Sequence[Loop] = ()) -> None:
        self.plan = plan
        self._sequence = _loop_sequence(plan, loops) if loops else task_sequence(plan)

    def react(self, grid: MachineState, events: Sequence[TraceEvent]) -> None:
        for event in events:
            if event.kind == "lost":
                # First in its queue again: the tasks behind it stay in the plan's order.
                grid.send(event.task, int(self.plan.processor[event.task]), first=True)
        if any(event.kind in {"began", "arrived", "again"} for event in events):
            for task in self._sequence:
                if grid.state[task] == "waiting":
                    grid.place(task, int(self.plan.processor[task]))
        if any(event.kind == "again" for event in events):
            self._requeue(grid)

    @cached_property
    def _position(self) -> dict[int, int]:
        return {task: position for position, task in enumerate(self._sequence)}

    def _requeue(self, grid: MachineState) -> None:
        """Sort all queues by the plan.

        What follows a loop is queued since the beginning; behind it, the next iteration would wait
        for ever.
        """
        for processor, queue in enumerate(grid.queue):
            if len(queue) > 1:
                grid.arrange(processor, sorted(queue, key=self._position.__getitem__))


def task_sequence(plan: Plan) -> list[int]:
    """Return the tasks of *plan* by start time; on ties, by end and topological order."""
    position = np.empty(plan.problem.tasks, np.int64)
    position[plan.problem.order] = np.arange(plan.problem.tasks)
    tasks: list[int] = np.lexsort((position, plan.end, plan.start)).tolist()
    return tasks


def _loop_sequence(plan: Plan, loops: Sequence[Loop]) -> list[int]:
    """Return the tasks as `task_sequence` does, with the exits of a loop behind all its tasks.

    The plan of a single iteration may start an exit before the last task of its loop; in that
    order, the two would wait for each other on one processor.
    """
    problem = plan.problem
    flow = problem.workflow
    gates = [(task, exit_task) for loop in loops for task in loop.tasks for exit_task in loop.exits]
    sources, targets = np.array(gates, np.int32).reshape(-1, 2).T
    edges = merge_parallel_edges(
        np.concatenate([flow.sources, sources]),
        np.concatenate([flow.targets, targets]),
        np.concatenate([flow.data, np.zeros(len(gates))]),
    )
    gated = replace(flow, sources=edges[0], targets=edges[1], data=edges[2])
    rank = np.empty(problem.tasks)
    rank[task_sequence(plan)] = np.arange(problem.tasks)
    tasks: list[int] = topological_orders(replace(problem, workflow=gated), rank).tolist()
    return tasks


class LoopDecision(Protocol):
    """Decides whether a loop runs again: a random draw, a count, or the program itself."""

    def more(self, loop: int, iteration: int, total: int) -> bool:
        """Return whether another iteration follows number *iteration* of a loop.

        *total* counts all iterations of the loop so far.
        """
        ...


class LoopController:
    """Runs the loops of a simulated workflow, independently of the scheduler.

    An iteration ends when all its tasks have ended and the inner loops are over. Tasks outside that
    depend on tasks inside wait for the last iteration.
    """

    def __init__(self, grid: MachineState, loops: Sequence[Loop], repeats: LoopDecision) -> None:
        """Control *loops*, inner loops first, with decisions from *repeats*."""
        self._grid = grid
        self._loops = loops
        self._repeats = repeats
        self._iteration = [1] * len(loops)
        self._total = [1] * len(loops)
        self._over = [False] * len(loops)
        sources = grid.problem.workflow.sources
        self._last = [sources[list(loop.closing)].tolist() for loop in loops]
        self._inside = [
            [i for i in range(number) if set(loops[i].tasks) < set(loop.tasks)]
            for number, loop in enumerate(loops)
        ]
        for loop in loops:
            self._hold(loop)

    def turn(self) -> list[TraceEvent]:
        """Start or end loops whose iteration has ended; return the events of those that start."""
        events = []
        for number, loop in enumerate(self._loops):
            if not self._ended(number):
                continue
            # A loop whose last tasks were skipped has ended by an exit code.
            skipped = self._grid.skipped.issuperset(self._last[number])
            if not skipped and self._repeats.more(
                number, self._iteration[number], self._total[number]
            ):
                self._iteration[number] += 1
                self._total[number] += 1
                self._renew(number)
                events.append(self._grid.repeat(loop))
            else:
                self._over[number] = True
                for task in loop.exits:
                    self._grid.release(task)
        return events

    def _ended(self, number: int) -> bool:
        """Return whether an iteration has ended that no decision was made about."""
        if self._over[number]:
            return False
        state = self._grid.state
        # The tasks that close the loop finish late: checked first, they save checking the rest.
        tasks = chain(self._last[number], self._loops[number].tasks)
        return all(state[task] == "done" for task in tasks)

    def _renew(self, number: int) -> None:
        """Reset the loops inside one that starts anew."""
        for i in self._inside[number]:
            self._iteration[i], self._over[i] = 1, False
            self._hold(self._loops[i])

    def _hold(self, loop: Loop) -> None:
        for task in loop.exits:
            self._grid.hold(task)


def simulate(
    problem: Problem,
    plan_or_policy: Plan | Policy,
    *,
    arrivals: ArrayLike | None = None,
    forward: ArrayLike | None = None,
    repeats: LoopIterations | None = None,
    algorithm: str = "",
    exits: Mapping[str, int] | None = None,
) -> ExecutionTrace:
    """Return the trace of executing a plan or a policy under the machines' loads.

    *arrivals* has the time at which each task becomes known. Loops run as *repeats* decides; a plan
    has a single iteration of each (`single_iteration_problem`). With *forward*, a mask of the edges
    that are waited for, the policy runs the loops itself by calling `MachineState.again`. *exits*
    has exit codes of tasks by their names; others end with 0.
    """
    name = algorithm or (
        plan_or_policy.algorithm
        if isinstance(plan_or_policy, Plan)
        else type(plan_or_policy).__name__.lower()
    )
    loops = find_loops(problem.workflow) if forward is None else ()
    policy = (
        FollowPlan(plan_or_policy, loops) if isinstance(plan_or_policy, Plan) else plan_or_policy
    )
    waited_edges = forward_edges(problem.workflow, loops) if loops else forward
    grid = MachineState(problem, arrivals, waited_edges)
    grid.exit = _exit_codes(problem, exits or {})
    controller = LoopController(grid, loops, repeats or LoopIterations())
    for events in grid.moments():
        policy.react(grid, [*events, *controller.turn()])
    acyclic = single_iteration_problem(problem, loops)
    unfinished = tuple(grid.left())
    return ExecutionTrace(
        acyclic, name, tuple(grid.runs), tuple(grid.events), unfinished, grid.notes
    )


def _exit_codes(problem: Problem, exits: Mapping[str, int]) -> dict[int, int]:
    number = {name: i for i, name in enumerate(problem.workflow.names)} if exits else {}
    for name in exits:
        if name not in number:
            raise InputError(f"no task is named {name!r}", hint=did_you_mean(name, number))
    return {number[name]: code for name, code in exits.items()}


Range = tuple[float, float]

PERTURBATION_SYNTAX = "every=20:60,lasting=10:40,share=0.2:0.8,failing=0.05"
MAX_PERTURBATIONS = 10**6
"""Limit of perturbations of one machine."""


@dataclass(frozen=True, slots=True)
class Perturbation:
    """After *every* seconds, a machine gives a *share* of its speed for *lasting* seconds.

    Each is drawn uniformly from a range; with probability *failing*, the machine fails instead.
    """

    every: Range
    lasting: Range
    share: Range = (0.1, 0.9)
    failing: float = 0.0

    def __post_init__(self) -> None:
        for name, (low, high) in (("every", self.every), ("lasting", self.lasting)):
            if not (0 <= low <= high < float("inf") and high > 0):
                raise InputError(f"{name}={low:g}:{high:g}: seconds from 0 on, the lower first")
        if not 0 < self.share[0] <= self.share[1] < float("inf"):
            raise InputError(f"share={self.share[0]:g}:{self.share[1]:g}: above 0, the lower first")
        if not 0 <= self.failing <= 1:
            raise InputError(f"failing={self.failing:g}: a probability, from 0 to 1")

    @classmethod
    def read(cls, text: str) -> Perturbation:
        """Parse ``every=20:60,lasting=10:40,share=0.2:0.8,failing=0.05``; InputError if invalid."""
        ranges: dict[str, Range] = {}
        for part in text.split(","):
            name, _, value = part.strip().partition("=")
            if name not in {"every", "lasting", "share", "failing"} or name in ranges:
                hint = did_you_mean(name, ("every", "lasting", "share", "failing"))
                raise InputError(
                    f"perturbation {text!r}: {name!r}", hint=f"{hint}\n{PERTURBATION_SYNTAX}"
                )
            ranges[name] = _parse_range(part, value)
        if not {"every", "lasting"} <= ranges.keys():
            raise InputError(
                f"perturbation {text!r}: every and lasting are missing", hint=PERTURBATION_SYNTAX
            )
        failing = ranges.pop("failing", (0.0, 0.0))
        if failing[0] != failing[1]:
            raise InputError(
                f"perturbation {text!r}: failing is a single number", hint=PERTURBATION_SYNTAX
            )
        return cls(**ranges, failing=failing[0])

    def steps(self, seed: int, machine: int, until: float) -> tuple[Floats, Floats]:
        """Return the times at which the share of *machine* changes, and the shares.

        No perturbation starts after *until*.
        """
        rng = np.random.default_rng([seed, machine])
        parts: list[tuple[Floats, Floats]] = []
        now, count = 0.0, 0
        while now <= until:
            # Whole blocks are drawn, whatever *until* is: a later *until* extends the sequence and
            # does not change its beginning.
            drawn = rng.random((64, 4))
            shares = _scaled(self.share, drawn[:, 2])
            shares[drawn[:, 3] < self.failing] = 0.0
            spans = np.stack([_scaled(self.every, drawn[:, 0]), _scaled(self.lasting, drawn[:, 1])])
            times = now + np.cumsum(spans.T.ravel())
            parts.append((times, np.stack([shares, np.ones(64)]).T.ravel()))
            now, count = float(times[-1]), count + 64
            if count > MAX_PERTURBATIONS:
                raise InputError(
                    f"more than {MAX_PERTURBATIONS:,} perturbations of a machine until {until:g} s"
                )
        times, shares = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        count_until = 2 * int(np.count_nonzero(times[::2] <= until))
        return times[:count_until], shares[:count_until]


def perturbed_platform(
    platform: Platform, perturbation: Perturbation, seed: int, until: float
) -> Platform:
    """Return *platform* with perturbations until *until*, on top of its loads."""
    machines = []
    for number, machine in enumerate(platform.machines):
        times, shares = perturbation.steps(seed, number, until)
        drawn = tuple(map(LoadStep, times.tolist(), shares.tolist()))
        machines.append(replace(machine, load=combined_load(machine.load, drawn)))
    return replace(platform, machines=tuple(machines))


def simulate_perturbed(
    problem: Problem,
    plan_or_policy: Plan | Policy,
    perturbation: Perturbation,
    seed: int = 0,
    arrivals: ArrayLike | None = None,
    repeats: LoopIterations | None = None,
    exits: Mapping[str, int] | None = None,
) -> ExecutionTrace:
    """Return the trace of executing *plan_or_policy* on perturbed machines, until it is finished.

    *arrivals*, *repeats* and *exits* are as for `simulate`. The perturbed period is doubled until
    it covers the makespan.
    """

    def play(problem: Problem) -> ExecutionTrace:
        return simulate(problem, plan_or_policy, arrivals=arrivals, repeats=repeats, exits=exits)

    # Perturbations are drawn up to a horizon, which is doubled until the execution fits into it.
    # Steps drawn earlier stay the same.
    until = max(play(problem).events[-1].time, 1.0)
    while True:
        platform = perturbed_platform(problem.platform, perturbation, seed, until)
        trace = play(replace(problem, platform=platform))
        if trace.left or trace.makespan <= until:
            return trace
        until *= 2


def combined_load(
    first: tuple[LoadStep, ...], second: tuple[LoadStep, ...]
) -> tuple[LoadStep, ...]:
    """Return the product of two loads over time."""
    if not first or not second:
        return first or second
    times = sorted({step.time for step in chain(first, second)})
    shares = _shares_at(first, times) * _shares_at(second, times)
    return tuple(map(LoadStep, times, shares.tolist()))


def _shares_at(steps: tuple[LoadStep, ...], times: list[float]) -> NDArray[np.float64]:
    """Return the share at each of *times*."""
    step_times = [step.time for step in steps]
    shares = np.array([1.0, *(step.share for step in steps)])
    at_times: NDArray[np.float64] = shares[np.searchsorted(step_times, times, side="right")]
    return at_times


def _scaled(span: Range, drawn: Floats) -> Floats:
    return span[0] + (span[1] - span[0]) * drawn


def _parse_range(part: str, value: str) -> Range:
    low, separator, high = value.partition(":")
    try:
        return float(low), float(high if separator else low)
    except ValueError:
        raise InputError(
            f"perturbation {part!r} is not a range", hint=PERTURBATION_SYNTAX
        ) from None


def perturbed_makespans(plan: Plan, perturbation: Perturbation, seeds: range) -> Floats:
    """Return the makespan of *plan* under the perturbations of each seed.

    Equal to the makespans of `simulate_perturbed`, but faster.
    """
    makespans = np.empty(len(seeds))
    if _is_shared(plan.problem):
        for i, seed in enumerate(seeds):
            makespans[i] = simulate_perturbed(plan.problem, plan, perturbation, seed).makespan
        return makespans
    for i, seed in enumerate(seeds):
        until = max(plan.makespan, 1.0)
        while True:
            makespans[i] = float(
                replay_under_load(plan, perturbation, seed, until).end.max(initial=0.0)
            )
            # The makespan is infinite if a machine fails that the plan needs: no horizon helps.
            if makespans[i] <= until or not np.isfinite(makespans[i]):
                break
            until *= 2
    return makespans


def replay_under_load(
    plan: Plan, perturbation: Perturbation | None = None, seed: int = 0, until: float = 0.0
) -> Plan:
    """Return *plan* with its times under the machines' loads and perturbations."""
    from zenturio.schedule.kernels.plan_times import play_loaded  # noqa: PLC0415 - loads Numba

    problem = plan.problem
    if _is_shared(problem):
        platform = problem.platform
        if perturbation is not None:
            platform = perturbed_platform(platform, perturbation, seed, until)
        played = simulate(replace(problem, platform=platform), plan).plan
        return Plan(problem, plan.algorithm, plan.processor, played.start, played.end)
    start, end = np.empty(problem.tasks), np.empty(problem.tasks)
    play_loaded(
        problem_arrays(problem),
        _load_arrays(
            problem, perturbation, seed, until, set(problem.node[plan.processor].tolist())
        ),
        plan.processor.astype(np.uint32),
        np.array(task_sequence(plan), np.uint32),
        np.empty(problem.processors),
        start,
        end,
    )
    return Plan(problem, plan.algorithm, plan.processor, start, end)


def _is_shared(problem: Problem) -> bool:
    """Return whether tasks share machines or links, which the fast kernel does not play."""
    return problem.resources is not None or SharedNetwork.is_needed(problem.platform)


def _load_arrays(
    problem: Problem, perturbation: Perturbation | None, seed: int, until: float, used: set[int]
) -> LoadArrays:
    """Return the loads of the machines in *used* as arrays; the others stay undisturbed."""
    from zenturio.schedule.kernels.plan_times import LoadArrays  # noqa: PLC0415

    times, shares = [np.empty(0)], [np.empty(0)]
    for number, machine in enumerate(problem.platform.machines):
        steps = machine.load
        if perturbation is not None and number in used:
            drawn = perturbation.steps(seed, number, until)
            if not steps:
                times.append(drawn[0])
                shares.append(drawn[1])
                continue
            steps = combined_load(steps, tuple(map(LoadStep, drawn[0].tolist(), drawn[1].tolist())))
        times.append(np.array([step.time for step in steps]))
        shares.append(np.array([step.share for step in steps]))
    start = np.cumsum([len(instants) for instants in times]).astype(np.uint64)
    return LoadArrays(start, np.concatenate(times), np.concatenate(shares))
