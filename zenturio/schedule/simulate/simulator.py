"""The policy that follows a plan, whatever happens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.model import loops
from zenturio.schedule.model.evaluation import problem_arrays
from zenturio.schedule.model.loops import Loop, LoopIterations
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.platform import LoadStep, Platform
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Floats
from zenturio.schedule.simulate.machine_state import MachineState, Policy
from zenturio.schedule.simulate.trace import ExecutionTrace, TraceEvent

if TYPE_CHECKING:
    from zenturio.schedule.kernels.plan_times import LoadArrays


__all__ = ["FollowPlan", "Policy", "task_sequence"]


class FollowPlan:
    """Sends each task where *plan* has it, in its order, whatever happens.

    A task that was lost with its machine waits there until the machine is back.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._sequence = task_sequence(plan)

    def react(self, grid: MachineState, events: Sequence[TraceEvent]) -> None:
        for event in events:
            if event.kind == "lost":
                grid.send(event.task, int(self.plan.processor[event.task]), first=True)
        if any(event.kind in {"began", "arrived"} for event in events):
            for task in self._sequence:
                if grid.state[task] == "waiting":
                    grid.place(task, int(self.plan.processor[task]))


def task_sequence(plan: Plan) -> list[int]:
    """The tasks by their starts; of equal ones, as the workflow orders them."""
    place = np.empty(plan.problem.tasks, np.int64)
    place[plan.problem.order] = np.arange(plan.problem.tasks)
    found: list[int] = np.lexsort((place, plan.end, plan.start)).tolist()
    return found


class LoopDecision(Protocol):
    """Who decides whether a loop is run again: chance, a number, or the program itself."""

    def more(self, loop: int, iteration: int, total: int) -> bool:
        """Whether another follows this *iteration* of a loop, the *total*-th that it has run."""
        ...


class LoopController:
    """The loops of a workflow while it is played; what decides is no scheduler.

    An iteration has ended when all its tasks have, and the loops inside are over. What is outside
    and waits for one of its tasks waits for the last iteration.
    """

    def __init__(self, grid: MachineState, loops: Sequence[Loop], repeats: LoopDecision) -> None:
        """*loops* has those inside before those around them."""
        self._grid = grid
        self._loops = loops
        self._repeats = repeats
        self._iteration = [1] * len(loops)
        self._total = [1] * len(loops)
        self._over = [False] * len(loops)
        ends = grid.problem.workflow.sources
        self._last = [ends[list(loop.closing)].tolist() for loop in loops]
        self._inside = [
            [i for i in range(number) if set(loops[i].tasks) < set(loop.tasks)]
            for number, loop in enumerate(loops)
        ]
        for loop in loops:
            self._hold(loop)

    def turn(self) -> list[TraceEvent]:
        """Lets loops begin anew, or be over, if an iteration has ended; tells which began anew."""
        found = []
        for number, loop in enumerate(self._loops):
            if not self._ended(number):
                continue
            if self._repeats.more(number, self._iteration[number], self._total[number]):
                self._iteration[number] += 1
                self._total[number] += 1
                self._renew(number)
                found.append(self._grid.repeat(loop))
            else:
                self._over[number] = True
                for task in loop.exits:
                    self._grid.release(task)
        return found

    def _ended(self, number: int) -> bool:
        """Whether an iteration of a loop has ended, and none decided what follows."""
        if self._over[number]:
            return False
        state = self._grid.state
        last_first = (self._last[number], self._loops[number].tasks)  # what is open is found sooner
        return all(state[task] == "done" for tasks in last_first for task in tasks)

    def _renew(self, number: int) -> None:
        """The loops inside one that begins anew are to be run anew."""
        for i in self._inside[number]:
            self._iteration[i], self._over[i] = 1, False
            self._hold(self._loops[i])

    def _hold(self, loop: Loop) -> None:
        for task in loop.exits:
            self._grid.hold(task)


def simulate(
    problem: Problem,
    what: Plan | Policy,
    *,
    arrivals: ArrayLike | None = None,
    forward: ArrayLike | None = None,
    repeats: LoopIterations | None = None,
    algorithm: str = "",
) -> ExecutionTrace:
    """What happens when *what* is played on the machines of *problem* under their loads.

    *arrivals* has for each task when it becomes known. Loops are run as *repeats* has it; but with
    *forward*, which has for each edge whether it is waited for, the policy plays them itself: it
    calls `Grid.again`.
    """
    policy = FollowPlan(what) if isinstance(what, Plan) else what
    name = algorithm or (what.algorithm if isinstance(what, Plan) else type(what).__name__.lower())
    found = loops.find_loops(problem.workflow) if forward is None else ()
    waited = loops.forward_edges(problem.workflow, found) if found else forward
    grid = MachineState(problem, arrivals, waited)
    rounds = LoopController(grid, found, repeats or LoopIterations())
    for events in grid.moments():
        policy.react(grid, [*events, *rounds.turn()])
    once = loops.single_iteration_problem(problem, found)
    left = tuple(grid.left())
    return ExecutionTrace(once, name, tuple(grid.runs), tuple(grid.events), left, grid.notes)


Range = tuple[float, float]

PERTURBATION_SYNTAX = "every=20:60,lasting=10:40,share=0.2:0.8,failing=0.05"
MAX_PERTURBATIONS = 10**6
"""Perturbations of one machine."""


@dataclass(frozen=True, slots=True)
class Perturbation:
    """After *every* so many seconds a machine gives, *lasting* so many, a *share* of its speed.

    Each is drawn evenly from a range; with a probability of *failing*, the machine fails instead.
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
        """What ``every=20:60,lasting=10:40,share=0.2:0.8,failing=0.05`` says."""
        given: dict[str, Range] = {}
        for part in text.split(","):
            name, _, value = part.strip().partition("=")
            if name not in {"every", "lasting", "share", "failing"} or name in given:
                hint = did_you_mean(name, ("every", "lasting", "share", "failing"))
                raise InputError(
                    f"perturbation {text!r}: {name!r}", hint=f"{hint}\n{PERTURBATION_SYNTAX}"
                )
            given[name] = _parse_range(part, value)
        if not {"every", "lasting"} <= given.keys():
            raise InputError(
                f"perturbation {text!r}: every and lasting are missing", hint=PERTURBATION_SYNTAX
            )
        failing = given.pop("failing", (0.0, 0.0))
        if failing[0] != failing[1]:
            raise InputError(
                f"perturbation {text!r}: failing is one number", hint=PERTURBATION_SYNTAX
            )
        return cls(**given, failing=failing[0])

    def steps(self, seed: int, machine: int, until: float) -> tuple[Floats, Floats]:
        """When the share of *machine* changes, and to what; none begins after *until*."""
        chance = np.random.default_rng([seed, machine])
        parts: list[tuple[Floats, Floats]] = []
        now, count = 0.0, 0
        while now <= until:
            drawn = chance.random((64, 4))
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
        times, shares = (np.concatenate(each) for each in zip(*parts, strict=True))
        kept = 2 * int(np.count_nonzero(times[::2] <= until))
        return times[:kept], shares[:kept]


def perturbed_platform(platform: Platform, how: Perturbation, seed: int, until: float) -> Platform:
    """*platform*, with its machines disturbed until then, on top of the loads that they have."""
    machines = []
    for number, machine in enumerate(platform.machines):
        times, shares = how.steps(seed, number, until)
        drawn = tuple(map(LoadStep, times.tolist(), shares.tolist()))
        machines.append(replace(machine, load=combined_load(machine.load, drawn)))
    return replace(platform, machines=tuple(machines))


def simulate_perturbed(
    problem: Problem,
    what: Plan | Policy,
    how: Perturbation,
    seed: int = 0,
    arrivals: ArrayLike | None = None,
    repeats: LoopIterations | None = None,
) -> ExecutionTrace:
    """What happens when *what* is played while machines are disturbed, for as long as it takes.

    *arrivals* has for each task when it becomes known; loops are run as *repeats* has it.
    """

    def play(problem: Problem) -> ExecutionTrace:
        return simulate(problem, what, arrivals=arrivals, repeats=repeats)

    until = max(play(problem).events[-1].time, 1.0)
    while True:
        platform = perturbed_platform(problem.platform, how, seed, until)
        trace = play(replace(problem, platform=platform))
        if trace.left or trace.makespan <= until:
            return trace
        until *= 2


def combined_load(one: tuple[LoadStep, ...], other: tuple[LoadStep, ...]) -> tuple[LoadStep, ...]:
    """Both loads at once: at any time, the share of the share."""
    if not one or not other:
        return one or other
    times = sorted({step.time for step in chain(one, other)})
    found = _shares_at(one, times) * _shares_at(other, times)
    return tuple(map(LoadStep, times, found.tolist()))


def _shares_at(steps: tuple[LoadStep, ...], times: list[float]) -> NDArray[np.float64]:
    """The share at each of *times*."""
    known = [step.time for step in steps]
    shares = np.array([1.0, *(step.share for step in steps)])
    found: NDArray[np.float64] = shares[np.searchsorted(known, times, side="right")]
    return found


def _scaled(span: Range, drawn: Floats) -> Floats:
    return span[0] + (span[1] - span[0]) * drawn


def _parse_range(part: str, value: str) -> Range:
    low, colon, high = value.partition(":")
    try:
        return float(low), float(high if colon else low)
    except ValueError:
        raise InputError(f"perturbation {part!r} is no range", hint=PERTURBATION_SYNTAX) from None


def perturbed_makespans(plan: Plan, how: Perturbation, seeds: range) -> Floats:
    """The makespan of *plan* in the disturbances of each seed: those that `disturbed` plays."""
    found = np.empty(len(seeds))
    for i, seed in enumerate(seeds):
        until = max(plan.makespan, 1.0)
        while True:
            found[i] = float(replay_under_load(plan, how, seed, until).end.max(initial=0.0))
            if found[i] <= until or not np.isfinite(found[i]):
                break
            until *= 2
    return found


def replay_under_load(
    plan: Plan, how: Perturbation | None = None, seed: int = 0, until: float = 0.0
) -> Plan:
    """*plan* as it would be carried out under the loads of its machines, and disturbances."""
    from zenturio.schedule.kernels.plan_times import play_loaded  # noqa: PLC0415 - loads Numba

    problem = plan.problem
    start, end = np.empty(problem.tasks), np.empty(problem.tasks)
    play_loaded(
        problem_arrays(problem),
        _load_arrays(problem, how, seed, until, set(problem.node[plan.processor].tolist())),
        plan.processor.astype(np.uint32),
        np.array(task_sequence(plan), np.uint32),
        np.empty(problem.processors),
        start,
        end,
    )
    return Plan(problem, plan.algorithm, plan.processor, start, end)


def _load_arrays(
    problem: Problem, how: Perturbation | None, seed: int, until: float, used: set[int]
) -> LoadArrays:
    """What befalls the machines that are *used*; others need no chance drawn for them."""
    from zenturio.schedule.kernels.plan_times import LoadArrays  # noqa: PLC0415

    times, shares = [np.empty(0)], [np.empty(0)]
    for number, machine in enumerate(problem.platform.machines):
        steps = machine.load
        if how is not None and number in used:
            drawn = how.steps(seed, number, until)
            if not steps:
                times.append(drawn[0])
                shares.append(drawn[1])
                continue
            steps = combined_load(steps, tuple(map(LoadStep, drawn[0].tolist(), drawn[1].tolist())))
        times.append(np.array([step.time for step in steps]))
        shares.append(np.array([step.share for step in steps]))
    start = np.cumsum([len(each) for each in times]).astype(np.uint64)
    return LoadArrays(start, np.concatenate(times), np.concatenate(shares))
