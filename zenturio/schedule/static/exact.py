"""The shortest plan there is, by constraint programming."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from zenturio.errors import PlaceError
from zenturio.schedule.algorithm import Kind
from zenturio.schedule.model.metrics import gap, lower_bound
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.static.genetic import (
    FREE,
    GeneticScheduler,
    GeneticSchedulerSettings,
    decoded_plan,
    decoding_problem_of,
    start_order,
)
from zenturio.search.settings import setting

_STEPS_OF_FIRST_PLAN = 10_000_000
"""Steps of time in the first plan, if times are no whole numbers: what is less is rounded down."""
_MAX_STEPS = 2**40
"""The largest number of steps; numbers beyond may be refused."""
_GA_EVALUATIONS = 5000
"""Plans tried by the GA that gives the first one."""


@dataclass(frozen=True)
class CpSatSettings:
    effort: float = setting(
        60.0, "work at the most, in about seconds of one processor, the same in each run", low=0
    )
    seconds: float | None = setting(
        None, "how long it may take; where this ends it, no two runs need be equal", low=0
    )


class CpSat:
    """The shortest plan, and the proof, by the CP-SAT solver of OR-Tools: for small workflows.

    Begins with a plan by ga. When the effort is spent it gives the best plan so far; the notes
    have the bound that was proved, and the gap between them. Times that are no whole numbers are
    rounded down in the model, each by less than a ten millionth of the plan: so the bound holds.
    Unrelated machines with transfers: up to some 20 tasks. Processors that are all alike without
    transfers: some hundred tasks.
    Cost: exponential. Needs the extra: pip install 'zenturio[exact]'.
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
            model = _CpModel(problem, best)
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
        solver = _load_cp_model().CpSolver()
        chosen, given = self._settings, solver.parameters
        given.num_workers = 1  # several are not the same in each run, or never end (9.15)
        given.random_seed = self._seed % 2**31
        given.max_deterministic_time = chosen.effort
        if chosen.seconds is not None:
            given.max_time_in_seconds = chosen.seconds
        return solver


class _CpModel:
    """The constraints of *problem*, with *first* as a hint."""

    def __init__(self, problem: Problem, first: Plan) -> None:
        self.problem, self.first = problem, first
        self.case = decoding_problem_of(problem)
        self.model = _load_cp_model().CpModel()
        self.times = problem.work[:, None] * problem.pace[problem.row]
        self.scale = self._scale()
        self.horizon = int(np.ceil(first.makespan * self.scale))
        self.start = [self._number(f"start{t}") for t in range(problem.tasks)]
        self.end = [self._number(f"end{t}") for t in range(problem.tasks)]
        self.on: dict[int, dict[int, Any]] = {}
        """Of each group, for each processor whether it runs there."""
        self.at: dict[tuple[str, int, int], Any] = {}
        """Whether a group runs on a machine, and at a site."""
        if self.case.loose:
            self._alike()
        else:
            self._places()
            self._intervals()
        self._edges()
        self._goal()

    def read(self, solver: Any) -> Plan:
        """The plan that *solver* has found, each task as soon as it can be."""
        problem = self.problem
        start = np.array([solver.value(each) for each in self.start], np.float64)
        end = np.array([solver.value(each) for each in self.end], np.float64)
        genes = np.full(problem.tasks, FREE, np.int32)
        for group, places in self.on.items():
            genes[group] = next(place for place, here in places.items() if solver.value(here))
        found = Plan(problem, "", genes, start, end)
        return decoded_plan(problem, self.case, "cp-sat", start_order(found), genes, {})

    def _scale(self) -> float:
        numbers = self.problem
        moved = [numbers.latency.ravel(), np.outer(numbers.workflow.data, numbers.slowness).ravel()]
        all_times = np.concatenate([self.times[np.isfinite(self.times)], *moved])
        whole = bool((all_times == np.floor(all_times)).all())
        if whole and self.first.makespan < _MAX_STEPS:
            return 1.0
        return _STEPS_OF_FIRST_PLAN / (self.first.makespan or 1.0)

    def _steps(self, seconds: float) -> int:
        return int(np.floor(seconds * self.scale))

    def _number(self, name: str) -> Any:
        return self.model.new_int_var(0, self.horizon, name)

    def _alike(self) -> None:
        """Which of the processors runs a task does not matter: no more at a time than there are."""
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
            self.on[group] = {p: self.model.new_bool_var(f"on{group}_{p}") for p in places}
            self.model.add_exactly_one(self.on[group].values())
            hint = int(self.first.processor[group])
            for place, here in self.on[group].items():
                self.model.add_hint(here, place == hint)

    def _intervals(self) -> None:
        spans: list[list[Any]] = [[] for _ in range(self.problem.processors)]
        for task, group in enumerate(self.problem.group.tolist()):
            begin, end, lengths = self.start[task], self.end[task], {}
            for place, here in self.on[group].items():
                lengths[place] = self._steps(float(self.times[task, place]))
                if self.times[task, place] > 0:
                    span = self.model.new_optional_interval_var(
                        begin, lengths[place], end, here, ""
                    )
                    spans[place].append(span)
            taken = sum(here * lengths[place] for place, here in self.on[group].items())
            self.model.add(end == begin + taken)
        for each in spans:
            self.model.add_no_overlap(each)

    def _edges(self) -> None:
        flow = self.problem.workflow
        for edge, (a, b) in enumerate(
            zip(flow.sources.tolist(), flow.targets.tolist(), strict=True)
        ):
            self.model.add(self.start[b] >= self.end[a])
            if self.case.forth.moves:
                self._transfer(a, b, float(flow.data[edge]))

    def _transfer(self, a: int, b: int, data: float) -> None:
        """From each processor of *a* to each site of *b*, if it is not on the same machine."""
        problem = self.problem
        one, other = int(problem.group[a]), int(problem.group[b])
        sites = sorted({int(problem.site[place]) for place in self.on[other]})
        for place, here in self.on[one].items():
            away = self._lies("node", other, int(problem.node[place])).negated()
            for site in sites:
                origin = int(problem.site[place])
                seconds = problem.latency[origin, site] + data * problem.slowness[origin, site]
                if steps := self._steps(float(seconds)):
                    there = self._lies("site", other, site)
                    wait = self.model.add(self.start[b] >= self.end[a] + steps)
                    wait.only_enforce_if(here, there, away)

    def _lies(self, what: str, group: int, number: int) -> Any:
        """Whether *group* runs on machine, or at site, *number*."""
        key = what, group, number
        if key not in self.at:
            column = getattr(self.problem, what)
            inside = [here for place, here in self.on[group].items() if column[place] == number]
            self.at[key] = self.model.new_bool_var("")
            self.model.add(sum(inside) == self.at[key])
        return self.at[key]

    def _goal(self) -> None:
        last = self._number("makespan")
        for end in self.end:
            self.model.add(last >= end)
        self.model.add(last >= self._steps(lower_bound(self.problem)))
        for task, begin in enumerate(self.start):
            self.model.add_hint(begin, self._steps(float(self.first.start[task])))
        self.model.minimize(last)


def _load_cp_model() -> Any:
    try:
        from ortools.sat.python import cp_model  # noqa: PLC0415 - an extra, and a second
    except ImportError as error:
        raise PlaceError(
            "this algorithm needs OR-Tools", hint="pip install 'zenturio[exact]'"
        ) from error
    return cp_model
