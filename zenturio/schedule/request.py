"""What ``zen simulate`` is asked: read from its words, and carried out; by whoever runs it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zenturio.errors import InputError
from zenturio.schedule.algorithm import make
from zenturio.schedule.assigned import plan_as_assigned
from zenturio.schedule.generators import pairs
from zenturio.schedule.library import ProblemCache
from zenturio.schedule.loops import LoopIterations
from zenturio.schedule.metrics import metrics
from zenturio.schedule.perturb import Perturbation, simulate_perturbed
from zenturio.schedule.plan import Plan
from zenturio.schedule.plan_json import read_plan
from zenturio.schedule.policy import Policy
from zenturio.schedule.problem import Problem
from zenturio.schedule.simulate import simulate
from zenturio.schedule.trace import ExecutionTrace
from zenturio.schedule.words import ParsedArguments

SIMULATE_OPTIONS = (
    "--on",
    "--plan",
    "--algorithm",
    "--set",
    "--perturb",
    "--iterations",
    "--seed",
    "--json",
)


@dataclass(frozen=True)
class SimulationRequest:
    """A workflow, the machines, who decides what runs where, and what disturbs it."""

    workflow: str
    on: str = ""
    plan: str = ""
    algorithm: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    perturb: str = ""
    seed: int = 0
    iterations: str = ""
    folder: Path = Path()
    """Where files are looked for."""

    @classmethod
    def read(cls, words: Sequence[str], folder: Path) -> SimulationRequest:
        """What the *words* behind ``zen simulate`` ask."""
        found = ParsedArguments.read("zen simulate", words, SIMULATE_OPTIONS)
        names = ("on", "plan", "algorithm", "perturb", "iterations")
        texts = {each: found.options.get(each, "") for each in names}
        return cls(
            found.only("zen simulate"),
            **texts,
            settings=pairs(found.settings),
            seed=found.seed,
            folder=folder,
        )

    def problem(self, library: ProblemCache | None = None) -> Problem:
        """The workflow on its machines; what *library* knows is not read again."""
        known = library or ProblemCache()
        found: Problem = known.problem(self._file(self.workflow), self._file(self.on))
        return found

    def what(self, problem: Problem) -> Plan | Policy:
        """What is played: the plan in a file, what an algorithm decides, or what tasks name."""
        if self.plan and self.algorithm:
            raise InputError("--plan and --algorithm: one of them", hint="leave the other out")
        if self.plan:
            return read_plan(self._file(self.plan), problem)
        if not self.algorithm:
            return plan_as_assigned(problem)
        made = make(self.algorithm, self.settings, self.seed)
        if made.kind in {"moldable", "online"}:
            raise InputError(
                f"--algorithm {self.algorithm} is {made.kind}: it does not plan tasks one by one",
                hint="zen algorithms shows the kind of each",
            )
        found: Plan | Policy = made if hasattr(made, "react") else made.plan(problem)
        return found

    @property
    def disturbance(self) -> Perturbation | None:
        return Perturbation.read(self.perturb) if self.perturb else None

    def played(self, problem: Problem, what: Plan | Policy, seed: int) -> ExecutionTrace:
        """What happens with the disturbances, and the iterations of loops, of *seed*."""
        repeats = self._repeats(problem, seed)
        how = self.disturbance
        if how is None:
            return simulate(problem, what, repeats=repeats)
        return simulate_perturbed(problem, what, how, seed, repeats=repeats)

    def _repeats(self, problem: Problem, seed: int) -> LoopIterations:
        if self.iterations and not problem.workflow.looped:
            raise InputError(
                f"--iterations {self.iterations}: {self.workflow} has no loop", hint="leave it out"
            )
        return LoopIterations.read(self.iterations, seed)

    def _file(self, text: str) -> str:
        """*text* as the path of a file in the folder, if it is one: it may be a generator."""
        return str(self.folder / text) if text and (self.folder / text).exists() else text


def simulation_report(trace: ExecutionTrace) -> bytes:
    """The metrics of *trace* as a program reports them to the study that it is run by.

    Those of a plan are for tasks that are run once: a loop has but its makespan.
    """
    if trace.left:
        return b""
    found = {"makespan": trace.makespan} if trace.again else metrics(trace.plan)
    known: dict[str, Any] = {n: v for n, v in found.items() if v == v}  # noqa: PLR0124
    return json.dumps({**known, "wasted": trace.wasted}).encode() + b"\n"
