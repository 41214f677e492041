"""One experiment from its folder to its outcome: built, filled, launched, measured, cleared."""

from __future__ import annotations

import logging
import os
import platform
import shlex
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import time
from typing import Any

from zenturio.execute import file_staging
from zenturio.execute.builds import BuildCache, BuildFailure, BuildResult
from zenturio.execute.call import exception_name, read_metrics
from zenturio.execute.file_staging import InputCache, disk_errors, is_small
from zenturio.execute.folder_files import folder_fault, missing_outputs
from zenturio.execute.launch_request import (
    allowed_threads,
    observe_request,
    plain_words,
    step_request,
)
from zenturio.execute.launcher_client import (
    STOPPED_SECONDS,
    LauncherLostError,
    LauncherProcess,
    LauncherReply,
    LocalTask,
    PreparedRun,
)
from zenturio.execute.machines import SlotUse, own_machine_parts, run_conditions
from zenturio.execute.spawn import CALL_COMMAND
from zenturio.execute.workspace import (
    REPORT,
    FolderPlan,
    Keep,
    StagedFolder,
    WorkspacePool,
    part_files,
)
from zenturio.experiment import (
    INCOMING,
    METRICS,
    Artifact,
    Evidence,
    Experiment,
    ExperimentFile,
    Log,
    MetricReader,
    MetricReaderCache,
    MetricValue,
    Missing,
    Outcome,
    Recipe,
    Status,
    Step,
)
from zenturio.experiment.experiment import describe_failure, files_named
from zenturio.experiment.safe_file_reading import OutsideError, open_inside

_log = logging.getLogger(__name__)

# Verdicts: from what a run left to its outcome; wherever it ran, the same for the same fault

IDLE_BUILD = (
    "BUILD changed no file: check that it compiles the files that contain values, and exclude "
    "the results of earlier builds from the application (.zenignore)"
)
"""The remark of outcomes whose build did nothing."""
LONGEST_REPORT = 64 * 2**20
"""Bytes of ``$ZEN_METRICS`` that are read; hosts send no more either."""
_HIDDEN = "the run was short, and smaller than its {}, which has {} B"


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """What a run left, in a folder here."""

    facts: dict[str, Any]
    stdout: Log
    stderr: Log
    folder: str
    reported: bytes
    """What it appended to ``$ZEN_METRICS``."""
    starter: str
    """What started it, and hides the size of smaller ones: launcher or supervisor."""
    fault: Callable[[], str]
    """Returns why it failed although its commands succeeded: it wrote to what others share."""
    is_call: bool = False
    """Whether it called a function of Python, which answered what is measured."""
    is_build_idle: bool = False
    """Whether the build that it used left every file as it was."""


def run_outcome(
    experiment: Experiment,
    run: FinishedRun,
    meter: MetricReader,
    collect: Callable[[], tuple[Artifact, ...]],
    *,
    host: str,
    log_bytes: int,
    machine: Mapping[str, Any],
    slots: SlotUse | None = None,
) -> Outcome:
    """Return the outcome of the first attempt at *experiment*; *collect* sets its outputs apart."""
    recipe, steps = experiment.recipe, experiment.steps
    status, cause = judge_steps(run.facts, steps, recipe.verifiers, run.stderr)
    facts = program_facts(run.facts, len(steps), len(recipe.verifiers))
    used = usage_metrics(facts, run.starter)
    evidence = Evidence(run.stdout, run.stderr, run.folder, run.reported, used)
    if run.is_call:
        metrics = {**used, **read_metrics(run.reported)}
        cause = (exception_name(run.stderr.head + run.stderr.tail) if cause else "") or cause
    else:
        metrics = meter.measure(experiment.values, evidence)
    if status == "ok":
        cause = (
            run.fault()
            or missing_outputs(run.folder, recipe.required)
            or _report_fault(run.reported)
            or meter.lacking(metrics)
        )
        status = "failed" if cause else "ok"
    if status == "ok":
        cause = meter.unverified(experiment.values, metrics)
        status = "wrong" if cause else "ok"
    # Outputs are moved away when they are collected.
    unchanged = unchanged_sources(experiment, run.folder) if status == "ok" else []
    cuts = meter.cut_numbers(evidence) if status == "ok" and not run.is_call else {}
    return Outcome(
        experiment.digest,
        status,
        cause,
        metrics,
        1,
        host,
        facts["started"],
        facts["ended"],
        None if facts["stop"] == "unstartable" else facts["status"],
        run.stdout.trimmed(log_bytes),
        run.stderr.trimmed(log_bytes),
        collect() if recipe.outputs else (),
        remark=run_remark(facts, metrics, is_build_idle=run.is_build_idle, unchanged=unchanged),
        metric_remarks=cuts,
        conditions=run_conditions(facts, slots),
        **machine,
    )


def _report_fault(reported: bytes) -> str:
    """Return why metrics may be missing, also undeclared ones, which nobody would miss."""
    if len(reported) < LONGEST_REPORT:
        return ""
    return f"${METRICS} has {LONGEST_REPORT:,} bytes or more, and is not read"


def judge_run(
    facts: dict[str, Any], step: Step, *, shell: bool, stderr: Log, where: str = ""
) -> tuple[Status, str]:
    """Status and cause of a run whose last command was *step*.

    *shell*: a shell ran it. *where* stands behind the cause, as `` in RUN 2 of 3``.
    """
    match facts["stop"]:
        case "timeout":
            return "timeout", f"timeout after {step.timeout or 0:g} s{where}"
        case "cancelled":
            return "cancelled", "cancelled"
        case "memory":
            return "failed", f"more than {step.memory} B of memory{where}"
        case "processes":
            return "failed", f"too many processes{where}"
        case "unstartable":
            return "failed", f"cannot start{where}: {facts['why']}"
    status, cause = judge_exit(facts["status"], shell=shell)
    return status, describe_failure(cause + where, stderr) if status == "failed" else cause


def judge_exit(status: int, *, shell: bool) -> tuple[Status, str]:
    """Return what an exit status says: 0, a positive code, or a signal as a negative number."""
    if status == 0:
        return "ok", ""
    if status < 0:
        return "failed", f"killed by {_signal(-status)}"
    if shell and status > 128 and _signal(status - 128).startswith("SIG"):
        return "failed", f"exit {status} ({_signal(status - 128)})"  # as shells report a signal
    return "failed", f"exit {status}"


def judge_steps(
    facts: dict[str, Any], steps: Sequence[Step], verifiers: Sequence[str], stderr: Log
) -> tuple[Status, str]:
    """Status and cause of a run of *steps*, the last of which verify its result.

    A verification that was stopped, or that could not be started, says nothing of the result: then
    the run has failed.
    """
    at = facts["step"]
    step = steps[at] if steps else Step("")
    commands = len(steps) - len(verifiers)
    verifier = at - commands
    where = f" in RUN {at + 1} of {commands}" if commands > 1 and verifier < 0 else ""
    shell = plain_words(step.command) is None
    status, cause = judge_run(facts, step, shell=shell, stderr=stderr, where=where)
    if status in ("ok", "cancelled") or verifier < 0:
        return status, cause
    refused = status == "failed" and not facts["stop"] and 0 < facts["status"] < _NOT_EXECUTED
    return "wrong" if refused else status, f"{verifiers[verifier]}: {cause}"


def program_facts(facts: dict[str, Any], steps: int, verifiers: int) -> dict[str, Any]:
    """Return *facts* as they were before the last steps verified the result."""
    return {**facts, "status": 0} if verifiers and facts["step"] >= steps - verifiers else facts


_NOT_EXECUTED = 126
"""From this status on a shell says that it could not execute a command, or that it was killed."""


def usage_metrics(facts: Mapping[str, Any], supervisor: str) -> dict[str, MetricValue]:
    """Return the metrics that every run has, and those of OBSERVE.

    *supervisor* started it, and hides the size of smaller ones.
    """
    unstarted = facts["stop"] == "unstartable"
    observed = {
        name: Missing(reading) if isinstance(reading, str) else reading
        for name, reading in facts.get("observed", {}).items()
    }
    return {
        **observed,
        "wtime": facts["wtime"],
        "ctime": facts["ctime"],
        "maxrss": facts["maxrss"] or Missing(_HIDDEN.format(supervisor, facts["hidden"])),
        "exit": Missing("the command could not be started") if unstarted else facts["status"],
    }


def run_remark(
    facts: Mapping[str, Any],
    metrics: Mapping[str, MetricValue],
    *,
    is_build_idle: bool,
    unchanged: Iterable[str] = (),
) -> str:
    """Return what is to be said of a run though nothing failed: the same for the same machine."""
    unobserved: dict[str, list[str]] = {}
    for name in facts.get("observed", {}):
        if isinstance(missing := metrics.get(name), Missing):
            unobserved.setdefault(missing.why, []).append(name)
    parts = [f"no {', '.join(names)}: {reason}" for reason, names in unobserved.items()]
    parts += [
        f"{path} is a file of the application, and no RUN changed it: if it is left from an earlier"
        " run, delete it, or exclude it (.zenignore)"
        for path in unchanged
    ]
    return "; ".join([IDLE_BUILD, *parts] if is_build_idle else parts)


def unchanged_sources(experiment: Experiment, folder: str) -> list[str]:
    """Return the files of *folder* that metrics are read from, and that are as they were put there.

    Files that hold values are none of them: a metric may well read what was filled in.
    """
    sources = frozenset(metric.source.removeprefix("./") for metric in experiment.recipe.metrics)
    if sources <= set(_STREAMS):
        return []
    constants = {file.path: file.mtime for file in files_named(experiment.files, sources)}
    return sorted(
        path
        for path, mtime in constants.items()
        if mtime is not None and _written_at(Path(folder, path)) == mtime
    )


def _written_at(path: Path) -> int | None:
    try:
        return path.lstat().st_mtime_ns
    except OSError:
        return None


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# The runner

IDENTITY = "ZEN_EXPERIMENT"
"""The environment variable that tells an experiment its digest."""
SEARCHED_BYTES = 2**22
"""Of each stream, so many bytes at its beginning and at its end are searched for metrics."""
_STREAMS = ("stdout", "stderr", "")
_CALL_PREFIX = " ".join(CALL_COMMAND) + " "
_PLANS = 8
"""Builds whose files are known at a time."""
_LIGHT_FILES = 1000
"""More files are put into a folder by a thread of its own."""
_MOST_LAUNCHER_LOSSES = 3
"""How often an experiment is begun whose launcher is lost each time."""


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """How experiments are run on this machine."""

    keep: Keep = "never"
    """Which folders stay."""
    grace: float = 2.0
    """Seconds between SIGTERM and SIGKILL."""
    stopped: float = STOPPED_SECONDS
    """Seconds after which a launcher that was stopped (SIGSTOP) is killed, and replaced."""
    processes: int = 4096
    """An experiment with more processes at a time is killed."""
    exact: float = 0.02
    """Where runs take so many seconds, even a small largest size is told from the launcher's."""
    log: int = 2**16
    """Of each stream, so many bytes at its beginning and at its end are kept."""
    session: str = ""
    """Runners of one session that share a disk, and are processes of their own, remember together
    which builds failed."""
    memory: int | None = None
    """Bytes that all experiments together may ask for, where that is less than the machine's."""
    without: tuple[str, ...] = ()
    """Variables of this process that experiments do not inherit."""
    slots: int = 0
    """Experiments that the place may run at once on this machine; 0 where it is not known."""
    threads: int = 0
    """Threads of an experiment without CPUS; 0: the cores of this machine divided by the slots."""


class LocalRunner:
    """Runs experiments below a folder; several threads may do so at a time."""

    def __init__(self, folder: Path, settings: RunnerSettings, closed: Event) -> None:
        self.settings = settings
        self._host = platform.node()
        self._incoming = folder.absolute() / INCOMING
        file_staging.remove_stale(self._incoming)
        self._workspace = WorkspacePool(folder)
        self._inputs = InputCache(folder.absolute() / "inputs")
        self._builds = BuildCache(folder, self._inputs, closed, settings.session)
        self._wall = float("inf")
        """About how long the last runs took."""
        self._meters = MetricReaderCache()
        self._plans: list[tuple[FolderPlan, BuildResult | None]] = []
        """The plans of the last folders, the newest first."""

    def is_light(self, experiment: Experiment) -> bool:
        """Return whether preparing and finishing take no time worth a thread."""
        build, recipe = experiment.build, experiment.recipe
        return (
            not recipe.outputs
            and (build is None or self._builds.is_known(build.digest))
            and all(metric.source in _STREAMS for metric in recipe.metrics)
            and len(experiment.files) <= _LIGHT_FILES
            and all(is_small(filed) for filed in experiment.files)
        )

    def run(
        self,
        task: LocalTask,
        slot: LauncherProcess,
        cpus: list[int] | None,
        slots_in_use: Callable[[], int],
    ) -> Outcome:
        """Return the outcome of *task*, run in *slot* while the caller waits."""
        while True:
            try:
                prepared = self.prepare(task, slot, cpus)
                if isinstance(prepared, Outcome):
                    return prepared
                reply = slot.run(task, prepared.request)
                task.slots_end = slots_in_use()
                return self.finish(task, prepared, reply)
            except LauncherLostError:
                outcome = self.lost(task)
                if outcome is not None:
                    return outcome

    def lost(self, task: LocalTask) -> Outcome | None:
        """After the loss of a launcher: the outcome, or none if *task* is to be begun again."""
        self.drop(task)
        task.losses += 1
        if task.losses < _MOST_LAUNCHER_LOSSES and not task.cancel_requested:
            return None
        status: Status = "cancelled" if task.cancel_requested else "failed"
        cause = "cancelled" if task.cancel_requested else "launcher lost"
        now = time()
        return Outcome(
            task.experiment.digest,
            status,
            cause,
            host=self._host,
            started=now,
            ended=now,
            **own_machine_parts(),
        )

    def drop(self, task: LocalTask, *, keep: bool = False) -> None:
        """Clear away the folder of *task*, if it has one."""
        # Taken out first: a second call finds nothing to clear.
        prepared, task.prepared = task.prepared, None
        if prepared is not None:
            self._workspace.drop(prepared.folder, keep=keep)

    def close(self) -> None:
        """Take the folders away."""
        self._workspace.close()

    def prepare(
        self, task: LocalTask, slot: LauncherProcess | None = None, cpus: list[int] | None = None
    ) -> PreparedRun | Outcome:
        """Fill a folder for *task*; what must be built is built in *slot*, and may fail."""
        experiment, began = task.experiment, time()
        built = self._built(task, slot, cpus) if experiment.build else None
        if isinstance(built, BuildFailure):
            return self._build_failed_outcome(experiment, built, began)
        with disk_errors(self._incoming):
            folder = self._filled_folder(experiment, built)
        request = self._request(experiment, folder.path, experiment.steps, experiment.environment)
        request["verifying"] = len(experiment.recipe.verifiers)
        request["observe"] = observe_request(experiment.recipe)
        task.prepared = prepared = PreparedRun(folder, {**request, "cpus": cpus, "shown": True})
        return prepared

    def finish(self, task: LocalTask, prepared: PreparedRun, reply: LauncherReply) -> Outcome:
        """Measure, keep the files to keep, and remove the others."""
        keep = False
        try:
            outcome = self._outcome(task, prepared.folder, reply)
            keep = self.settings.keep == "always" or (
                self.settings.keep == "failed" and outcome.status != "ok"
            )
        finally:
            self.drop(task, keep=keep)
        return outcome

    def _filled_folder(self, experiment: Experiment, built: BuildResult | None) -> StagedFolder:
        constants, filled = part_files(experiment.files, built.paths if built else ())
        plan = self._plan(constants, built)
        folder = self._workspace.make(experiment.digest, plan)
        try:
            folder.fill(plan, filled, self._inputs)
        except OSError as error:
            # What an experiment left cannot be undone: a mount, an attribute, a foreign owner.
            _log.info("%s cannot be filled: %s", folder.path, error)
            self._workspace.drop(folder, usable=False)
            folder = self._workspace.make_new(experiment.digest)
            self._fill_new(folder, plan, filled)
        except BaseException:
            self._workspace.drop(folder)
            raise
        return folder

    def _fill_new(
        self, folder: StagedFolder, plan: FolderPlan, filled: Sequence[ExperimentFile]
    ) -> None:
        try:
            folder.fill(plan, filled, self._inputs)
        except BaseException:
            self._workspace.drop(folder, usable=False)
            raise

    def _plan(self, constants: Sequence[ExperimentFile], built: BuildResult | None) -> FolderPlan:
        """Return the plan of a folder with these files: the same one for the same files."""
        for known_plan, build in self._plans:
            if build is built and known_plan.is_for(constants):
                return known_plan
        if built is None:
            plan = FolderPlan(constants)
        else:
            plan = FolderPlan(constants, built.files, built.shared)
        self._plans = [(plan, built), *self._plans[: _PLANS - 1]]
        return plan

    def _request(
        self,
        experiment: Experiment,
        path: str,
        steps: Sequence[Step],
        environment: Mapping[str, str],
    ) -> dict[str, Any]:
        """Return the message for a launcher: to run *steps* in the folder *path*."""
        return {
            "folder": path,
            "steps": [step_request(step) for step in steps],
            "environment": {
                **environment,
                IDENTITY: experiment.digest,
                METRICS: f"{path}/{REPORT}",
            },
            "without": self.settings.without,
            "threads": allowed_threads(steps, max(self.settings.threads, 1)),
            "shared": self.settings.slots > 1,
            "head": SEARCHED_BYTES,
            "tail": SEARCHED_BYTES,
            "grace": self.settings.grace,
            "processes": self.settings.processes,
            "exact": self._wall >= self.settings.exact or _measures_own_size(experiment.recipe),
        }

    def _built(
        self, task: LocalTask, slot: LauncherProcess | None, cpus: list[int] | None
    ) -> BuildResult | BuildFailure:
        build = task.experiment.build
        assert build is not None

        def run(steps: tuple[Step, ...], path: str) -> BuildFailure | None:
            assert slot is not None, "what is light is built already"
            request = self._request(task.experiment, path, steps, {})
            reply = slot.run(task, {**request, "cpus": cpus})
            status, cause = _judge_reply(reply, steps)
            if status == "ok":
                return None
            out, err = (log.trimmed(self.settings.log) for log in (reply.stdout, reply.stderr))
            if status == "cancelled":
                return BuildFailure("cancelled", "cancelled", None, out, err)
            return BuildFailure("failed", f"build failed: {cause}", reply.facts["status"], out, err)

        return self._builds.get(build, run)

    def _build_failed_outcome(
        self, experiment: Experiment, failure: BuildFailure, began: float
    ) -> Outcome:
        why = Missing("nothing was run: " + failure.cause)
        metrics: dict[str, MetricValue] = {metric.name: why for metric in experiment.recipe.metrics}
        return Outcome(
            experiment.digest,
            failure.status,
            failure.cause,
            metrics,
            host=self._host,
            started=began,
            ended=time(),
            exit=failure.exit,
            stdout=failure.stdout,
            stderr=failure.stderr,
            **own_machine_parts(),
        )

    def _outcome(self, task: LocalTask, folder: StagedFolder, reply: LauncherReply) -> Outcome:
        experiment, slots = task.experiment, self.settings.slots
        # The minimum reacts at once to short runs; the average forgets one that was long.
        wall = reply.facts["wtime"]
        self._wall = min(wall, self._wall * 0.75 + wall * 0.25)
        run = FinishedRun(
            reply.facts,
            reply.stdout,
            reply.stderr,
            folder.path,
            _read_report(folder.path),
            "launcher",
            lambda: self._find_spoilt(experiment, folder) or folder_fault(folder.path),
            is_call=_is_function_call(experiment),
            is_build_idle=self._is_build_idle(experiment),
        )
        return run_outcome(
            experiment,
            run,
            self._meters.of(experiment.recipe),
            lambda: self._artifacts(experiment.digest, folder.path, experiment.recipe.outputs),
            host=self._host,
            log_bytes=self.settings.log,
            machine=own_machine_parts(),
            slots=SlotUse(slots, task.slots_start, task.slots_end) if slots else None,
        )

    def _is_build_idle(self, experiment: Experiment) -> bool:
        build = experiment.build
        return build is not None and self._builds.is_idle(build.digest)

    def _artifacts(self, digest: str, path: str, patterns: Sequence[str]) -> tuple[Any, ...]:
        move = self.settings.keep == "never"
        return file_staging.collect_outputs(path, patterns, self._incoming, digest, move=move)

    def _find_spoilt(self, experiment: Experiment, folder: StagedFolder) -> str:
        """Return the shared files that this run modified, which are then created again."""
        for shared in folder.shared:
            if shared.is_spoilt():
                self._inputs.forget(shared)
                if experiment.build is not None:
                    self._builds.forget(experiment.build.digest)
                return spoilt_input(experiment, shared.digest)
        return ""


def spoilt_input(experiment: Experiment, digest: str = "") -> str:
    """Return the cause of an experiment that wrote to a large input, that of *digest* if known."""
    large = [
        filed.path
        for filed in experiment.files
        if (filed.digest == digest if digest else filed.kind == "file" and not is_small(filed))
    ]
    if not large or (not digest and len(large) > 1):
        return "a large input file was written to; copy it first: cp FILE mine"
    name = shlex.quote(large[0])
    return f"the large input file {name} was written to; copy it first: cp {name} mine"


def _measures_own_size(recipe: Recipe) -> bool:
    """Return whether the program itself looks at its size, in a region with MAXRSS."""
    return any(not metric.source and metric.name.endswith("_maxrss") for metric in recipe.metrics)


def _is_function_call(experiment: Experiment) -> bool:
    """Return whether it is a function of Python that is called, which answers what is measured."""
    steps = experiment.steps
    return len(steps) == 1 and steps[0].command.startswith(_CALL_PREFIX)


def _judge_reply(reply: LauncherReply, steps: Sequence[Step]) -> tuple[Status, str]:
    step = steps[reply.facts["step"]] if steps else Step("")
    shell = plain_words(step.command) is None
    return judge_run(reply.facts, step, shell=shell, stderr=reply.stderr)


def _read_report(path: str) -> bytes:
    """Return what the program appended to ``$ZEN_METRICS``; mostly there is nothing."""
    try:
        os.lstat(f"{path}/{REPORT}")
        report = open_inside(Path(path), REPORT)
    except (OSError, OutsideError):
        return b""
    with os.fdopen(report, "rb") as file:
        return file.read(LONGEST_REPORT)
