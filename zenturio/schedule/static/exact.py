"""Optimal plans by constraint programming."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import Any, ClassVar

import numpy as np

from zenturio.errors import PlaceError
from zenturio.install_hint import extra_hint
from zenturio.schedule.algorithm import Kind
from zenturio.schedule.model.lower_bounds import gap, lower_bound
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import MAX_SECONDS, Problem
from zenturio.schedule.model.shared_resources import Resources
from zenturio.schedule.static.genetic import (
    FREE,
    GeneticScheduler,
    GeneticSchedulerSettings,
    decoded_plan,
    decoding_problem_of,
    start_order,
)
from zenturio.settings.schema import setting

_STEPS_OF_FIRST_PLAN = 10_000_000
"""Time steps in the first plan, if times are not whole numbers; the rest is rounded down."""
_MAX_STEPS = 2**40
"""The solver may refuse larger numbers."""
_GA_EVALUATIONS = 5000
"""Evaluations of the GA that finds the first plan."""


@dataclass(frozen=True)
class CpSatSettings:
    effort: float = setting(
        60.0, "deterministic limit of work; a unit takes one to six seconds of a processor", low=0
    )
    seconds: float | None = setting(
        None, "time limit; if it ends the search, runs may differ", low=0
    )


class CpSat:
    """Find the optimal plan and prove it, by the CP-SAT solver of OR-Tools.

    Good for small workflows. It begins with a plan by ga; when the effort is spent, it returns the
    best plan so far. The notes have the proven bound and the gap. Times that are not whole numbers
    are rounded down in the model, each by less than a ten millionth of the plan, so the bound
    holds. Unrelated machines with transfers: up to some 20 tasks. Identical processors without
    transfers: some hundred tasks. With hundreds of machines the model alone takes seconds, and the
    default effort minutes: set seconds. Cost: exponential. Needs the extra exact.
    """

    kind: ClassVar[Kind] = "exact"
    Settings: ClassVar[type[CpSatSettings]] = CpSatSettings

    def __init__(self, settings: CpSatSettings | None = None, seed: int = 0) -> None:
        self._settings = settings or CpSatSettings()
        self._seed = seed

    def plan(self, problem: Problem) -> Plan:
        solver = self._solver()
        best = GeneticScheduler(
            GeneticSchedulerSettings(evaluations=_GA_EVALUATIONS), self._seed
        ).plan(problem)
        bound, status, effort = lower_bound(problem), "optimal", 0.0
        if best.makespan > bound:
            model = CpModel(problem, best)
            status = solver.status_name(solver.solve(model.model)).lower()
            bound = max(bound, solver.best_objective_bound / model.scale)
            effort = solver.deterministic_time
            if status in {"optimal", "feasible"}:
                best = min(model.read(solver), best, key=lambda plan: plan.makespan)
        notes = {
            "bound": min(bound, best.makespan),
            "gap": gap(best.makespan, bound),
            "status": status,
            "effort": effort,
        }
        return Plan(problem, "cp-sat", best.processor, best.start, best.end, notes)

    def _solver(self) -> Any:
        solver = load_cp_model().CpSolver()
        settings, parameters = self._settings, solver.parameters
        parameters.num_workers = 1  # with several, runs differ or hang (OR-Tools 9.15)
        parameters.random_seed = self._seed % 2**31
        # Deterministic time, unlike seconds, gives the same result on every machine.
        parameters.max_deterministic_time = settings.effort
        if settings.seconds is not None:
            parameters.max_time_in_seconds = settings.seconds
        return solver


_FULL_PLACEMENTS = 500
"""Tasks times processors up to which the whole problem is solved first."""
_NEIGHBOURHOOD_SECONDS = 2.0
"""Time limit of one neighbourhood."""


_SOLVER_STOP_SECONDS = 0.1
"""How long the solver takes to stop after its limit, about."""


class CpSatNeighbourhoods:
    """Large-neighbourhood search: parts of a plan are solved while the rest keeps its order.

    A small problem is solved as a whole first. A neighbourhood is a span of time in the plan, or
    tasks that follow each other. It grows while it is solved to the end, and shrinks if it is not.
    """

    def __init__(self, problem: Problem, seed: int) -> None:
        self._problem = problem
        self._rng = np.random.default_rng(seed)
        self._seed = seed
        self._size = 20
        self._is_whole_next = problem.tasks * problem.processors <= _FULL_PLACEMENTS
        self._failures = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether many neighbourhoods in a row gave nothing, or an optimum is proven."""
        return self._failures >= 100

    def improved(self, plan: Plan, seconds: float) -> tuple[Plan | None, float]:
        """Return a shorter plan, or None, and a bound of the makespan (0 if there is none)."""
        began = monotonic()
        whole = self._is_whole_next
        self._is_whole_next = False
        free = None if whole else self._free_groups(plan)
        model = CpModel(self._problem, plan, free)
        solver = load_cp_model().CpSolver()
        seconds_left = seconds - (monotonic() - began) - _SOLVER_STOP_SECONDS
        if seconds_left <= 0:
            return None, 0.0
        solver.parameters.num_workers = 1
        # Another seed after each failure: the same neighbourhood may be drawn again.
        solver.parameters.random_seed = (self._seed + self._failures) % 2**31
        solver.parameters.max_time_in_seconds = (
            seconds_left * 0.7 if whole else min(seconds_left, _NEIGHBOURHOOD_SECONDS)
        )
        status = solver.status_name(solver.solve(model.model)).lower()
        bound = solver.best_objective_bound / model.scale if whole else 0.0
        better = None
        if status in {"optimal", "feasible"}:
            better = model.read(solver)
            better = better if better.makespan < plan.makespan * (1 - 1e-9) else None
        self._failures = 0 if better else self._failures + 1
        # A proven optimum cannot be improved: is_exhausted is true from now on.
        if whole and status == "optimal":
            self._failures = 100
        elif not whole:
            self._resize(is_solved=status == "optimal")
        return better, bound

    def _resize(self, *, is_solved: bool) -> None:
        tasks = self._problem.tasks
        self._size = min(self._size + 2, tasks) if is_solved else max(self._size * 3 // 4, 5)

    def _free_groups(self, plan: Plan) -> set[int]:
        """Return the groups of tasks whose processors and order are to be chosen anew."""
        problem, rng = self._problem, self._rng
        if rng.random() < 0.6:  # those nearest to a random moment
            moment = rng.uniform(0, plan.makespan)
            distance = np.maximum(plan.start - moment, moment - plan.end)
            tasks = np.argsort(distance, kind="stable")[: self._size].tolist()
        else:
            tasks = self._connected(int(rng.integers(problem.tasks)))
        return set(problem.group[tasks].tolist())

    def _connected(self, task: int) -> list[int]:
        """Return tasks that are joined by edges with *task*, the nearest first."""
        tasks, pending = {task: None}, [task]
        while pending and len(tasks) < self._size:
            current = pending.pop(0)
            neighbours = np.concatenate(
                [self._problem.before.of(current), self._problem.after.of(current)]
            )
            for neighbour in self._rng.permutation(neighbours).tolist():
                if neighbour not in tasks and len(tasks) < self._size:
                    tasks[neighbour] = None
                    pending.append(neighbour)
        return list(tasks)


class CpModel:
    """The constraint model of *problem*, with the plan *first* as a hint.

    With *free*, only these groups change their processor and their place in the order.
    """

    def __init__(self, problem: Problem, first: Plan, free: set[int] | None = None) -> None:
        self.problem, self.first, self.free = problem, first, free
        self.case = decoding_problem_of(problem)
        self.model = load_cp_model().CpModel()
        pace = problem.pace[problem.row]
        # No work in infinite time would be NaN.
        self.times = np.where(
            np.isfinite(pace), problem.work[:, None] * np.minimum(pace, MAX_SECONDS), np.inf
        )
        self.scale = self._scale()
        # No better plan ends after the first one.
        self.horizon = int(np.ceil(first.makespan * self.scale))
        self.start = [self._number(f"start{t}") for t in range(problem.tasks)]
        self.end = [self._number(f"end{t}") for t in range(problem.tasks)]
        self.on: dict[int, dict[int, Any]] = {}
        """Of each group, for each processor whether it runs there."""
        self.at: dict[tuple[str, int, int], Any] = {}
        """Whether a group runs on a machine, and at a site."""
        # Identical processors without transfers need no placement variables: a cumulative
        # constraint does.
        if self.case.loose and free is None:
            self._alike()
        else:
            self._places()
            if problem.resources is None:
                self._intervals()
            else:
                self._intervals_by_capacity(problem.resources)
        self._keep_order()
        self._edges()
        self._goal()

    def read(self, solver: Any) -> Plan:
        """Return the plan that *solver* found, with each task as early as possible."""
        problem = self.problem
        start = np.array([solver.value(variable) for variable in self.start], np.float64)
        end = np.array([solver.value(variable) for variable in self.end], np.float64)
        genes = np.full(problem.tasks, FREE, np.int32)
        for group, places in self.on.items():
            genes[group] = next(place for place, literal in places.items() if solver.value(literal))
        plan = Plan(problem, "", genes, start, end)
        # Rounded down, times of the model may overlap by steps: the decoder computes true ones.
        return decoded_plan(problem, self.case, "cp-sat", start_order(plan), genes, {})

    def _scale(self) -> float:
        problem = self.problem
        delays = [
            problem.latency.ravel(),
            np.outer(problem.workflow.data, problem.slowness).ravel(),
        ]
        all_times = np.concatenate([self.times[np.isfinite(self.times)], *delays])
        is_whole = bool((all_times == np.floor(all_times)).all())
        if is_whole and self.first.makespan < _MAX_STEPS:
            return 1.0
        return _STEPS_OF_FIRST_PLAN / (self.first.makespan or 1.0)

    def _steps(self, seconds: float) -> int:
        return int(np.floor(seconds * self.scale))

    def _number(self, name: str) -> Any:
        return self.model.new_int_var(0, self.horizon, name)

    def _alike(self) -> None:
        """Limit how many tasks run at a time; which of the identical processors does not matter."""
        lengths = [self._steps(time) for time in self.times[:, 0]]
        for begin, end, length in zip(self.start, self.end, lengths, strict=True):
            self.model.add(end == begin + length)
        spans = [
            self.model.new_interval_var(begin, length, end, "")
            for begin, end, length in zip(self.start, self.end, lengths, strict=True)
        ]
        self.model.add_cumulative(spans, [1] * len(spans), self.problem.processors)

    def _places(self) -> None:
        problem = self.problem
        fits = np.isfinite(problem.pace)
        for group in np.unique(problem.group).tolist():
            places = np.flatnonzero(fits[problem.row[group]]).tolist()
            hint = int(self.first.processor[group])
            if self.free is not None and group not in self.free:
                places = [hint]
            self.on[group] = {p: self.model.new_bool_var(f"on{group}_{p}") for p in places}
            self.model.add_exactly_one(self.on[group].values())
            for place, literal in self.on[group].items():
                self.model.add_hint(literal, place == hint)

    def _intervals(self) -> None:
        spans: list[list[Any]] = [[] for _ in range(self.problem.processors)]
        for task, group in enumerate(self.problem.group.tolist()):
            begin, end, lengths = self.start[task], self.end[task], {}
            for place, literal in self.on[group].items():
                lengths[place] = self._steps(float(self.times[task, place]))
                # Tasks of zero length delay no others, but `no_overlap` would keep them out of
                # intervals.
                if self.times[task, place] > 0:
                    span = self.model.new_optional_interval_var(
                        begin, lengths[place], end, literal, ""
                    )
                    spans[place].append(span)
            duration = sum(literal * lengths[place] for place, literal in self.on[group].items())
            self.model.add(end == begin + duration)
        for processor_spans in spans:
            self.model.add_no_overlap(processor_spans)

    def _intervals_by_capacity(self, resources: Resources) -> None:
        """Limit what the tasks of each machine need at a time."""
        spans: list[list[tuple[int, Any]]] = [[] for _ in range(self.problem.processors)]
        for task, group in enumerate(self.problem.group.tolist()):
            begin, end = self.start[task], self.end[task]
            if resources.overlap or not self.problem.work[task]:
                length = sum(
                    literal * self._steps(float(self.times[task, place]))
                    for place, literal in self.on[group].items()
                )
                self.model.add(end == begin + length)
            size = self._number("")
            self.model.add(size == end - begin)
            for place, literal in self.on[group].items():
                steps = self._steps(float(self.times[task, place]))
                self.model.add(end >= begin + steps).only_enforce_if(literal)
                self.model.add(begin >= self._steps(float(resources.boot[place]))).only_enforce_if(
                    literal
                )
                if self.problem.work[task] > 0:
                    span = self.model.new_optional_interval_var(begin, size, end, literal, "")
                    spans[place].append((task, span))
        for place, members in enumerate(spans):
            for kind, capacity in enumerate(resources.capacity[place].tolist()):
                needs = [float(resources.need[task, kind]) for task, _ in members]
                if any(needs) and np.isfinite(capacity):
                    # Rounded so that no plan is lost: the decoder sees the true needs.
                    unit = 1.0 if kind != 1 else max(capacity / 1e6, 1e-300)
                    self.model.add_cumulative(
                        [span for _, span in members],
                        [int(np.floor(need / unit)) for need in needs],
                        int(np.ceil(capacity / unit)),
                    )

    def _keep_order(self) -> None:
        """Let the tasks that are not free follow each other on their processors as they did."""
        if self.free is None:
            return
        problem, last = self.problem, dict[int, int]()
        for task in start_order(self.first).tolist():
            if int(problem.group[task]) in self.free or not problem.work[task]:
                continue
            place = int(self.first.processor[task])
            if place in last:
                before = self.start if problem.resources is not None else self.end
                self.model.add(self.start[task] >= before[last[place]])
            last[place] = task

    def _edges(self) -> None:
        flow = self.problem.workflow
        for edge, (a, b) in enumerate(
            zip(flow.sources.tolist(), flow.targets.tolist(), strict=True)
        ):
            self.model.add(self.start[b] >= self.end[a])
            staged = self.problem.staged and self.problem.work[b] > 0
            if self.case.forth.moves:
                self._transfer(a, b, float(flow.data[edge]), staged=bool(staged))

    def _transfer(self, a: int, b: int, data: float, *, staged: bool) -> None:
        """Delay *b* after *a* for each processor of *a* and site of *b*, unless on one machine."""
        problem = self.problem
        source, target = int(problem.group[a]), int(problem.group[b])
        sites = sorted({int(problem.site[place]) for place in self.on[target]})
        # By site of the target, not by processor: far fewer clauses say the same.
        for place, runs_here in self.on[source].items():
            elsewhere = self._lies("node", target, int(problem.node[place])).negated()
            for site in sites:
                origin = int(problem.site[place])
                seconds = problem.latency[origin, site] + data * problem.slowness[origin, site]
                if steps := self._steps(float(seconds)):
                    runs_there = self._lies("site", target, site)
                    if not staged:
                        wait = self.model.add(self.start[b] >= self.end[a] + steps)
                        wait.only_enforce_if(runs_here, runs_there, elsewhere)
                        continue
                    # The task holds its machine from the start of the transfer on.
                    for machine, there in self.on[target].items():
                        if problem.site[machine] == site:
                            length = steps + self._steps(float(self.times[b, machine]))
                            wait = self.model.add(self.end[b] >= self.start[b] + length)
                            wait.only_enforce_if(runs_here, there, elsewhere)

    def _lies(self, attribute: str, group: int, number: int) -> Any:
        """Return the literal that *group* runs on machine (or at site) *number*."""
        key = attribute, group, number
        if key not in self.at:
            column = getattr(self.problem, attribute)
            literals = [
                literal for place, literal in self.on[group].items() if column[place] == number
            ]
            self.at[key] = self.model.new_bool_var("")
            self.model.add(sum(literals) == self.at[key])
        return self.at[key]

    def _goal(self) -> None:
        last = self._number("makespan")
        for end in self.end:
            self.model.add(last >= end)
        # A bound that the solver need not derive by itself.
        self.model.add(last >= self._steps(lower_bound(self.problem)))
        for task, begin in enumerate(self.start):
            self.model.add_hint(begin, self._steps(float(self.first.start[task])))
        self.model.minimize(last)


def load_cp_model() -> Any:
    try:
        from ortools.sat.python import cp_model  # noqa: PLC0415 - an extra, and a second
    except ImportError as error:
        raise PlaceError("this algorithm needs OR-Tools", hint=extra_hint("exact")) from error
    return cp_model
