"""Requests of ``zen schedule`` and ``zen simulate``.

The command line builds them, and simulated experiments (place ``simulate``) parse them from a
command line that no shell runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

from zenturio.errors import InputError, PluginError, did_you_mean
from zenturio.expression import parse
from zenturio.log_setup import reported
from zenturio.schedule.algorithm import describe, make, make_task_scheduler, names
from zenturio.schedule.cluster.flexible import replay_flexible
from zenturio.schedule.cluster.replay import Replay, read_job_log, replay
from zenturio.schedule.formats.files import read_platform
from zenturio.schedule.formats.plan_json import read_plan
from zenturio.schedule.formats.task_times import TaskTimeSource, with_times
from zenturio.schedule.generators.generator import ProblemCache
from zenturio.schedule.model.loops import (
    LoopIterations,
    find_loops,
    single_iteration,
    single_iteration_problem,
)
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
from zenturio.schedule.static.islands import IslandRunner
from zenturio.schedule.static.list_scheduling import plan_as_assigned
from zenturio.settings.schema import pairs


@dataclass(frozen=True)
class ParsedArguments:
    """Arguments of ``zen schedule`` or ``zen simulate``: workflows, options, settings, seed."""

    workflows: tuple[str, ...]
    options: dict[str, str]
    settings: list[str]
    seed: int

    @classmethod
    def read(cls, verb: str, words: Sequence[str], allowed: Sequence[str]) -> ParsedArguments:
        """Parse *words*; InputError for an option that is not *allowed*, or a missing workflow."""
        options_by_name: dict[str, str] = {}
        workflows: list[str] = []
        settings: list[str] = []
        remaining = iter(words)
        for word in remaining:
            name, sign, value = word.partition("=") if word.startswith("--") else ("", "", word)
            if name and name not in allowed:
                raise InputError(f"{verb} has no option {name}", hint=did_you_mean(name, allowed))
            if name and name != "--json" and not sign:
                value = next(remaining, "")
            if name in ("", "--set"):
                (settings if name else workflows).append(value)
            elif name in options_by_name:
                raise InputError(f"{verb}: {name} is given twice")
            else:
                options_by_name[name] = value
        seed = options_by_name.get("--seed", "0")
        if not workflows or not seed.isdecimal():
            raise InputError(f"{verb} WORKFLOW: a workflow, and a seed that is a number")
        options = {name.removeprefix("--"): value for name, value in options_by_name.items()}
        return cls(tuple(workflows), options, settings, int(seed))

    def only(self, verb: str) -> str:
        """Return the only workflow; InputError if there are several."""
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
    "--exit",
    "--seed",
    "--json",
)


@dataclass(frozen=True)
class SimulationRequest:
    """A workflow, its platform, what decides where tasks run, and perturbations."""

    workflow: str
    on: str = ""
    plan: str = ""
    algorithm: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    perturb: str = ""
    seed: int = 0
    iterations: str = ""
    exit: str = ""
    """Exit codes of tasks, such as check=1,test=2."""
    folder: Path = Path()
    """Folder of relative file names."""

    @classmethod
    def read(cls, words: Sequence[str], folder: Path) -> SimulationRequest:
        """Parse the arguments of ``zen simulate``."""
        arguments = ParsedArguments.read("zen simulate", words, SIMULATE_OPTIONS)
        names = ("on", "plan", "algorithm", "perturb", "iterations", "exit")
        texts = {name: arguments.options.get(name, "") for name in names}
        return cls(
            arguments.only("zen simulate"),
            **texts,
            settings=pairs(arguments.settings),
            seed=arguments.seed,
            folder=folder,
        )

    def problem(self, cache: ProblemCache | None = None) -> Problem:
        """Return the workflow on its platform; *cache* avoids reading files again."""
        problems = cache or ProblemCache()
        problem: Problem = problems.problem(self._file(self.workflow), self._file(self.on))
        return problem

    def what(self, problem: Problem) -> Plan | Policy:
        """Return what is simulated: a plan, a policy, or the assignment in the workflow.

        A plan has one iteration of each loop; the simulator repeats it.
        """
        if self.plan and self.algorithm:
            raise InputError("--plan and --algorithm exclude each other", hint="leave one out")
        single = single_iteration_problem(problem, find_loops(problem.workflow))
        if self.plan:
            return read_plan(self._file(self.plan), single)
        if not self.algorithm:
            return plan_as_assigned(single)
        algorithm = make_task_scheduler(self.algorithm, self.settings, self.seed)
        decider: Plan | Policy = (
            algorithm if hasattr(algorithm, "react") else algorithm.plan(single)
        )
        return decider

    @property
    def disturbance(self) -> Perturbation | None:
        return Perturbation.read(self.perturb) if self.perturb else None

    def played(self, problem: Problem, what: Plan | Policy, seed: int) -> ExecutionTrace:
        """Return the trace with the perturbations and loop iterations of *seed*."""
        repeats, exits = self._repeats(problem, seed), self._exits()
        perturbation = self.disturbance
        if perturbation is None:
            return simulate(problem, what, repeats=repeats, exits=exits)
        return simulate_perturbed(problem, what, perturbation, seed, repeats=repeats, exits=exits)

    def _exits(self) -> dict[str, int]:
        exits = {}
        for name, value in pairs(self.exit.split(",") if self.exit else []).items():
            if not value.isdecimal() or len(value) > 3 or int(value) > 255:
                raise InputError(f"--exit {name}={value}: an exit code is from 0 to 255")
            exits[name] = int(value)
        return exits

    def _repeats(self, problem: Problem, seed: int) -> LoopIterations:
        if self.iterations and not problem.workflow.looped:
            raise InputError(
                f"--iterations {self.iterations}: {self.workflow} has no loop", hint="leave it out"
            )
        return LoopIterations.read(self.iterations, seed)

    def _file(self, text: str) -> str:
        """Return *text* as a path in the folder if the file exists; otherwise unchanged."""
        return str(self.folder / text) if text and (self.folder / text).exists() else text


def simulation_report(trace: ExecutionTrace) -> bytes:
    """Return the metrics of *trace* as a program reports them to its study.

    A workflow with loops or skipped tasks has its makespan only, because metrics are defined for
    tasks that run once.
    """
    if trace.left:
        return b""
    runs_once = not (trace.again or trace.skipped)
    values = metrics(trace.plan) if runs_once else {"makespan": trace.makespan}
    defined: dict[str, Any] = {n: v for n, v in values.items() if v == v}  # noqa: PLR0124
    return json.dumps({**defined, "wasted": trace.wasted}).encode() + b"\n"


SCHEDULE_OPTIONS = (
    "--on",
    "--algorithm",
    "--objective",
    "--set",
    "--within",
    "--front",
    "--deadline",
    "--budget",
    "--seed",
    "--json",
)


@dataclass(frozen=True)
class PlanRequest:
    """A workflow, its platform, and the algorithm that plans it."""

    workflow: str
    on: str = ""
    algorithm: str = ""
    """Empty: heft, or portfolio with a time limit."""
    objective: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    folder: Path = Path()
    """Folder of relative file names."""
    within: str = ""
    """Time limit, such as 10s."""
    front: str = ""
    """Goals of a front, such as makespan+cost."""
    deadline: str = ""
    """Time in which the plan must end, such as 1h."""
    budget: str = ""
    """What the plan may cost."""
    times: TaskTimeSource | None = None
    """Measured times of tasks, instead of those of the workflow."""

    @classmethod
    def read(cls, words: Sequence[str], folder: Path) -> PlanRequest:
        """Parse the arguments of ``zen schedule``."""
        arguments = ParsedArguments.read("zen schedule", words, SCHEDULE_OPTIONS)
        names = ("on", "algorithm", "objective", "within", "front", "deadline", "budget")
        texts: dict[str, Any] = {n: v for n, v in arguments.options.items() if n in names}
        return cls(
            arguments.only("zen schedule"),
            **texts,
            settings=pairs(arguments.settings),
            seed=arguments.seed,
            folder=folder,
        )

    @property
    def name(self) -> str:
        """The algorithm, with its default."""
        if self.algorithm:
            return self.algorithm
        if self.front or self.deadline or self.budget:
            return "moheft"
        if self.objective not in ("", "makespan") and self.within:
            return "ga"
        return "portfolio" if self.within else "heft"

    def plan(
        self, cache: ProblemCache | None = None, islands: IslandRunner | None = None
    ) -> Plan | MoldablePlan:
        """Return the plan, checked; *cache* avoids reading files again.

        *islands* lets the islands of the algorithm evolve elsewhere, as many as it has slots.
        """
        settings = {
            **({} if islands is None else {"islands": str(islands.slots)}),
            **self.settings,
            **_objective_setting(self.name, self.objective),
            **_limit_setting(self.name, self.within),
            **self._goal_settings(),
        }
        if islands is not None:
            self._check_islands()
        algorithm = make(self.name, settings, self.seed)
        if islands is not None:
            algorithm.island_runner = islands
        # Online and dynamic algorithms react to events; they have no plan in advance.
        if not hasattr(algorithm, "plan"):
            raise InputError(
                f"--algorithm {self.name} is {algorithm.kind}: it decides while workflows run",
                hint=f"zen simulate {self.workflow} --algorithm {self.name}",
            )
        kind: Any = MoldableProblem if algorithm.kind == "moldable" else Problem
        problems = cache or ProblemCache()
        problem = problems.problem(self._file(self.workflow), self._file(self.on), kind)
        flow = problem.workflow
        if self.times is not None:
            flow = with_times(flow, self.times).workflow
        flow = single_iteration(flow, find_loops(flow))
        if flow is not problem.workflow:
            problem = kind.of(flow, problem.platform)
        plan: Plan | MoldablePlan = check(algorithm.plan(problem))
        return plan

    def _check_islands(self) -> None:
        """InputError if the algorithm has no islands for this objective."""
        if not any(item.name == "islands" for item in describe(self.name).settings):
            raise InputError(
                f"--islands-on: {self.name} has no islands", hint="--algorithm ga, or leave it out"
            )
        objective = self.objective or self.settings.get("objective", "makespan")
        if objective != "makespan":
            raise InputError(
                f"--islands-on: islands only optimise the makespan, not {objective}",
                hint="leave out --islands-on",
            )

    @property
    def seconds_within(self) -> float:
        """The time after which planning ends; 0 where it has none."""
        return _seconds("--within", self.within, least=0.1) if self.within else 0.0

    def _goal_settings(self) -> dict[str, str]:
        """Return the settings of the front and its limits; InputError if there is none."""
        settings = {
            "objectives": self.front,
            "deadline": str(_seconds("--deadline", self.deadline)) if self.deadline else "",
            "budget": self.budget,
        }
        available = {item.name for item in describe(self.name).settings}
        for option, name in _GOAL_OPTIONS.items():
            if settings[name] and name not in available:
                raise InputError(
                    f"{option} {getattr(self, option.removeprefix('--'))}: "
                    f"{self.name} has no setting {name}",
                    hint=f"leave out --algorithm, or --algorithm {_GOAL_ALGORITHMS[option]}",
                )
        return {name: value for name, value in settings.items() if value}

    def _file(self, text: str) -> str:
        """Return *text* as a path in the folder if the file exists; otherwise unchanged."""
        return str(self.folder / text) if text and (self.folder / text).exists() else text


_GOAL_OPTIONS = {"--front": "objectives", "--deadline": "deadline", "--budget": "budget"}
_GOAL_ALGORITHMS = {
    "--front": "moheft",
    "--deadline": "moheft or ic-pcp",
    "--budget": "moheft or heft-budget",
}


def plan_report(plan: Plan | MoldablePlan) -> bytes:
    """Return the metrics of *plan* as a program reports them to its study, as a line of JSON.

    Includes numeric notes of the algorithm, such as generations or a bound.
    """
    numeric_notes = {
        name: value for name, value in plan.notes.items() if isinstance(value, int | float)
    }
    values = {
        name: value for name, value in (numeric_notes | metrics(plan)).items() if not isnan(value)
    }
    return json.dumps(values).encode() + b"\n"


def _objective_setting(algorithm: str, objective: str) -> dict[str, str]:
    """Return the setting that selects *objective*; InputError if the algorithm has none."""
    if not objective:
        return {}
    metric(objective)
    if any(item.name == "objective" for item in describe(algorithm).settings):
        return {"objective": objective}
    if objective == "makespan":
        return {}
    if describe(algorithm).kind == "moldable":
        raise InputError(
            f"{algorithm} only optimises the makespan",
            hint="moldable-global weighs it with the cost, moldable-static with idle nodes: "
            "--algorithm moldable-static --set alpha=0.2",
        )
    raise InputError(
        f"{algorithm} cannot optimise {objective}: it only optimises the makespan",
        hint=f"--algorithm ga --objective {objective}",
    )


def _limit_setting(algorithm: str, within: str) -> dict[str, str]:
    """Return the setting of the time limit; InputError if the algorithm has none."""
    if not within:
        return {}
    if not any(item.name == "seconds" for item in describe(algorithm).settings):
        raise InputError(
            f"--within {within}: {algorithm} has no time limit",
            hint="leave out --algorithm, or --algorithm portfolio, tabu, ga, moheft or cp-sat",
        )
    return {"seconds": str(_seconds("--within", within, least=0.1))}


def _seconds(option: str, text: str, least: float = 0.0) -> float:
    """Return the seconds of a time such as 10s; InputError if it is none, or below *least*."""
    try:
        value = parse(text).value({})
    except InputError:
        value = None
    seconds = float(value) if isinstance(value, int | float) else nan
    if not least <= seconds < inf:
        raise InputError(f"{option} {text}: a time from {least:g} s on", hint=f"{option} 10s")
    return seconds


@dataclass(frozen=True)
class StreamRequest:
    """A stream of workflows, its platform, the policy, and perturbations."""

    workflows: tuple[str, ...]
    on: str = ""
    algorithm: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    perturb: str = ""
    seed: int = 0

    @classmethod
    def read(cls, words: Sequence[str], folder: Path) -> StreamRequest | None:
        """Parse the arguments of ``zen simulate``; None if they do not name a stream."""
        arguments = ParsedArguments.read("zen simulate", words, SIMULATE_OPTIONS)
        workflows = tuple(_path_in_folder(word, folder) for word in arguments.workflows)
        if not is_stream_request(workflows, arguments.options.get("algorithm", "")):
            return None
        if arguments.options.keys() & {"plan", "iterations"}:
            raise InputError("a stream has neither --plan nor --iterations", hint="leave them out")
        texts = {n: v for n, v in arguments.options.items() if n in ("on", "algorithm", "perturb")}
        texts["on"] = _path_in_folder(texts.get("on", ""), folder)
        return cls(workflows, **texts, settings=pairs(arguments.settings), seed=arguments.seed)

    def played(self, machines: Callable[[str], Platform] = read_platform) -> list[StreamResult]:
        """Return the results; *machines* reads a platform."""
        check_online(self.algorithm)
        online = online_simulation(self.workflows, self.on, self.seed, machines)
        return play_stream(online, self.algorithm, self.settings, self.perturb, self.seed)


def stream_report(result: StreamResult) -> bytes:
    """Return the metrics of *result* as a program reports them to its study."""
    if not result.metrics:
        return b""
    return json.dumps({**result.metrics, "wasted": result.wasted}).encode() + b"\n"


def is_stream_request(words: Sequence[str], algorithm: str) -> bool:
    """Return whether *words* name a stream, or *algorithm* is an online algorithm."""
    return is_stream(words) or (bool(algorithm) and describe(algorithm).kind == "online")


def online_simulation(
    words: Sequence[str],
    on: str = "",
    seed: int = 0,
    machines: Callable[[str], Platform] = read_platform,
    iterations: str = "",
) -> OnlineSimulation:
    """Return the stream of *words* on its platform; *machines* reads a platform."""
    stream, platform = stream_of(words, seed, iterations)
    platform = machines(on) if on else platform
    if platform is None:
        raise InputError(
            "the workflows have no machines, or different ones",
            hint="--on grid.toml, or identical:8",
        )
    return OnlineSimulation(stream, platform)


def play_stream(
    online: OnlineSimulation, algorithm: str, settings: Mapping[str, str], perturb: str, seed: int
) -> list[StreamResult]:
    """Return the results of the stream under *algorithm*, or under all online algorithms."""
    algorithms = [algorithm] if algorithm else online_algorithms()
    perturbation = Perturbation.read(perturb) if perturb else None
    return [
        make(name, settings, seed).play(online, perturbation, seed)
        for name in reported("simulating all algorithms", algorithms)
    ]


def check_online(algorithm: str) -> None:
    """Raise InputError if *algorithm* is not an online algorithm."""
    kind = describe(algorithm).kind if algorithm else "online"
    if kind != "online":
        raise InputError(
            f"{algorithm} is {kind}: it does not share machines among workflows",
            hint=f"--algorithm {', '.join(online_algorithms())}",
        )


def online_algorithms() -> list[str]:
    """Return all online algorithms that load; broken plug-ins are skipped."""
    return _named_by_kind("online")


def _named_by_kind(kind: str) -> list[str]:
    """Return all algorithms of *kind* that load; broken plug-ins are skipped."""
    matching = []
    for name in names():
        with suppress(PluginError):
            if describe(name).kind == kind:
                matching.append(name)
    return matching


def check_replay_options(options: Mapping[str, Any]) -> None:
    """Raise InputError for an option that the replay of a log does not have."""
    for name in ("plan", "perturb", "iterations", "exit", "runs", "gantt"):
        if options.get(name):
            raise InputError(f"--{name} does not apply to a log of jobs", hint="leave it out")


def replay_log(
    path: str, on: str, algorithm: str, settings: Mapping[str, str], seed: int = 0
) -> list[Replay]:
    """Return the replay of the job log *path* under *algorithm*, or under all queue policies.

    *on* is a platform whose cores are the processors; by default the log says how many there are.
    """
    kind = describe(algorithm).kind if algorithm else "cluster"
    if kind != "cluster":
        raise InputError(
            f"{algorithm} is {kind}: it does not queue the jobs of a log",
            hint=f"--algorithm {', '.join(_named_by_kind('cluster'))}",
        )
    policies = {name: make(name, settings, seed) for name in [algorithm] if name}
    if not policies:  # those that give jobs other processors than they asked for are not compared
        made = {name: make(name, settings, seed) for name in _named_by_kind("cluster")}
        policies = {name: policy for name, policy in made.items() if not hasattr(policy, "allot")}
    log = read_job_log(path)
    size = sum(machine.cores for machine in read_platform(on).machines) if on else 0
    return [
        (replay_flexible if hasattr(policy, "allot") else replay)(log, policy, name, size)
        for name, policy in reported("replaying all policies", [*policies.items()])
    ]


def _path_in_folder(word: str, folder: Path) -> str:
    """Return *word* with its file's path in *folder*, if the file exists there."""
    workflow, sign, times = word.rpartition("@")
    if not sign or (folder / word).is_file():
        workflow, sign, times = word, "", ""
    return str(folder / workflow) + sign + times if (folder / workflow).is_file() else word
