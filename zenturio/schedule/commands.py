"""The words behind ``zen simulate`` or ``zen schedule``, where no shell reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import Any

from zenturio.errors import InputError, PluginError, did_you_mean
from zenturio.schedule.algorithm import describe, make, names
from zenturio.schedule.formats.files import read_platform
from zenturio.schedule.formats.plan_json import read_plan
from zenturio.schedule.generators.generator import ProblemCache
from zenturio.schedule.model.loops import LoopIterations
from zenturio.schedule.model.metrics import MoldablePlan, metric, metrics
from zenturio.schedule.model.plan import Plan, check
from zenturio.schedule.model.platform import Platform
from zenturio.schedule.model.problem import MoldableProblem, Problem
from zenturio.schedule.online.policies import OnlineSimulation
from zenturio.schedule.online.stream import StreamResult, is_stream, stream_of
from zenturio.schedule.simulate.simulator import (
    Perturbation,
    Policy,
    simulate,
    simulate_perturbed,
)
from zenturio.schedule.simulate.trace import ExecutionTrace
from zenturio.schedule.static.list_scheduling import plan_as_assigned
from zenturio.search.settings import pairs


@dataclass(frozen=True)
class ParsedArguments:
    """A workflow or a stream of several, options, settings and a seed, all as written."""

    workflows: tuple[str, ...]
    options: dict[str, str]
    settings: list[str]
    seed: int

    @classmethod
    def read(cls, verb: str, words: Sequence[str], known: Sequence[str]) -> ParsedArguments:
        """What the *words* behind *verb* say; of options, those that are *known*."""
        given: dict[str, str] = {}
        workflows: list[str] = []
        settings: list[str] = []
        rest = iter(words)
        for word in rest:
            name, sign, value = word.partition("=") if word.startswith("--") else ("", "", word)
            if name and name not in known:
                raise InputError(f"{verb}: no {name} here", hint=did_you_mean(name, known))
            if name and name != "--json" and not sign:
                value = next(rest, "")
            if name in ("", "--set"):
                (settings if name else workflows).append(value)
            elif name in given:
                raise InputError(f"{verb}: {name} is given twice")
            else:
                given[name] = value
        seed = given.get("--seed", "0")
        if not workflows or not seed.isdecimal():
            raise InputError(f"{verb} WORKFLOW: a workflow, and a seed that is a number")
        options = {name.removeprefix("--"): value for name, value in given.items()}
        return cls(tuple(workflows), options, settings, int(seed))

    def only(self, verb: str) -> str:
        """The one workflow there is."""
        if len(self.workflows) > 1:
            raise InputError(f"{verb}: a workflow is given twice")
        return self.workflows[0]


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


@dataclass(frozen=True)
class StreamRequest:
    """A stream of workflows, the machines, who decides whose task is next, and what disturbs it."""

    workflows: tuple[str, ...]
    on: str = ""
    algorithm: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    perturb: str = ""
    seed: int = 0

    @classmethod
    def read(cls, words: Sequence[str], folder: Path) -> StreamRequest | None:
        """What the *words* behind ``zen simulate`` ask; nothing, if they tell no stream."""
        found = ParsedArguments.read("zen simulate", words, SIMULATE_OPTIONS)
        workflows = tuple(_path_in_folder(word, folder) for word in found.workflows)
        if not is_stream_request(workflows, found.options.get("algorithm", "")):
            return None
        if found.options.keys() & {"plan", "iterations"}:
            raise InputError("a stream has neither --plan nor --iterations", hint="leave them out")
        texts = {n: v for n, v in found.options.items() if n in ("on", "algorithm", "perturb")}
        texts["on"] = _path_in_folder(texts.get("on", ""), folder)
        return cls(workflows, **texts, settings=pairs(found.settings), seed=found.seed)

    def played(self, machines: Callable[[str], Platform] = read_platform) -> list[StreamResult]:
        """What becomes of it; *machines* reads a platform."""
        check_online(self.algorithm)
        online = online_simulation(self.workflows, self.on, self.seed, machines)
        return play_stream(online, self.algorithm, self.settings, self.perturb, self.seed)


def stream_report(found: StreamResult) -> bytes:
    """The metrics of *found* as a program reports them to the study that it is run by."""
    if not found.metrics:
        return b""
    return json.dumps({**found.metrics, "wasted": found.wasted}).encode() + b"\n"


def is_stream_request(words: Sequence[str], algorithm: str) -> bool:
    """Whether *words* are a stream, or *algorithm* plays nothing else."""
    return is_stream(words) or (bool(algorithm) and describe(algorithm).kind == "online")


def online_simulation(
    words: Sequence[str],
    on: str = "",
    seed: int = 0,
    machines: Callable[[str], Platform] = read_platform,
) -> OnlineSimulation:
    """The stream that *words* tell on its platform; *machines* reads one."""
    stream, platform = stream_of(words, seed)
    platform = machines(on) if on else platform
    if platform is None:
        raise InputError(
            "the workflows name no machines, or not the same",
            hint="--on grid.toml, or identical:8",
        )
    return OnlineSimulation(stream, platform)


def play_stream(
    online: OnlineSimulation, algorithm: str, settings: Mapping[str, str], perturb: str, seed: int
) -> list[StreamResult]:
    """The stream under *algorithm*, or under all that there are for streams."""
    chosen = [algorithm] if algorithm else online_algorithms()
    how = Perturbation.read(perturb) if perturb else None
    return [make(each, settings, seed).play(online, how, seed) for each in chosen]


def check_online(algorithm: str) -> None:
    """InputError, if *algorithm* is one and plays no streams."""
    kind = describe(algorithm).kind if algorithm else "online"
    if kind != "online":
        raise InputError(
            f"{algorithm} is {kind}: it does not share machines among workflows",
            hint=f"--algorithm {', '.join(online_algorithms())}",
        )


def online_algorithms() -> list[str]:
    """All algorithms that play streams; one that does not load does not hide the others."""
    found = []
    for name in names():
        with suppress(PluginError):
            if describe(name).kind == "online":
                found.append(name)
    return found


def _path_in_folder(word: str, folder: Path) -> str:
    """*word*, with the path of the file in *folder* that it names, if it does."""
    workflow, sign, times = word.rpartition("@")
    if not sign or (folder / word).is_file():
        workflow, sign, times = word, "", ""
    return str(folder / workflow) + sign + times if (folder / workflow).is_file() else word
