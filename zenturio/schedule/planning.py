"""What ``zen schedule`` is asked: read from its words, and carried out; by whoever runs it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import Any

from zenturio.errors import InputError
from zenturio.schedule.algorithm import describe, make
from zenturio.schedule.generators import pairs
from zenturio.schedule.library import ProblemCache
from zenturio.schedule.metrics import metric, metrics
from zenturio.schedule.moldable import MoldableProblem
from zenturio.schedule.molded import MoldablePlan
from zenturio.schedule.plan import Plan, check
from zenturio.schedule.problem import Problem
from zenturio.schedule.words import ParsedArguments

SCHEDULE_OPTIONS = ("--on", "--algorithm", "--objective", "--set", "--seed", "--json")


@dataclass(frozen=True)
class PlanRequest:
    """A workflow, the machines, and what plans."""

    workflow: str
    on: str = ""
    algorithm: str = "heft"
    objective: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    folder: Path = Path()
    """Where files are looked for."""

    @classmethod
    def read(cls, words: Sequence[str], folder: Path) -> PlanRequest:
        """What the *words* behind ``zen schedule`` ask."""
        found = ParsedArguments.read("zen schedule", words, SCHEDULE_OPTIONS)
        texts = {n: v for n, v in found.options.items() if n in ("on", "algorithm", "objective")}
        return cls(
            found.only("zen schedule"),
            **texts,
            settings=pairs(found.settings),
            seed=found.seed,
            folder=folder,
        )

    def plan(self, library: ProblemCache | None = None) -> Plan | MoldablePlan:
        """The plan, which can be carried out; what *library* knows is not read again."""
        given = {**self.settings, **_objective_setting(self.algorithm, self.objective)}
        made = make(self.algorithm, given, self.seed)
        if not hasattr(made, "plan"):
            raise InputError(
                f"--algorithm {self.algorithm} is {made.kind}: it decides while workflows run",
                hint=f"zen simulate {self.workflow} --algorithm {self.algorithm}",
            )
        kind: Any = MoldableProblem if made.kind == "moldable" else Problem
        known = library or ProblemCache()
        problem = known.problem(self._file(self.workflow), self._file(self.on), kind)
        plan: Plan | MoldablePlan = check(made.plan(problem))
        return plan

    def _file(self, text: str) -> str:
        """*text* as the path of a file in the folder, if it is one: it may be a generator."""
        return str(self.folder / text) if text and (self.folder / text).exists() else text


def plan_report(plan: Plan | MoldablePlan) -> bytes:
    """The metrics of *plan* as a program reports them to the study that it is run by.

    And what its algorithm tells of itself in numbers: generations, a bound.
    """
    told = {name: value for name, value in plan.notes.items() if isinstance(value, int | float)}
    known = {name: value for name, value in (told | metrics(plan)).items() if not isnan(value)}
    return json.dumps(known).encode() + b"\n"


def _objective_setting(algorithm: str, objective: str) -> dict[str, str]:
    """The setting that says what is made best."""
    if not objective:
        return {}
    metric(objective)
    if any(each.name == "objective" for each in describe(algorithm).settings):
        return {"objective": objective}
    if objective == "makespan":
        return {}
    if describe(algorithm).kind == "moldable":
        raise InputError(
            f"{algorithm} takes no objective but the makespan",
            hint="moldable-global weighs it with the cost, moldable-static with idle nodes: "
            "--algorithm moldable-static --set alpha=0.2",
        )
    raise InputError(
        f"{algorithm} cannot make {objective} best: it looks at the makespan",
        hint=f"--algorithm ga --objective {objective}",
    )
