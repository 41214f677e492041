"""From what a run left to its outcome: wherever it ran, the same for the same fault."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zenturio.execute.call import exception_name, read_metrics
from zenturio.execute.command_line import plain_words
from zenturio.execute.machine_json import SlotUse, run_conditions
from zenturio.execute.output_patterns import missing_outputs
from zenturio.experiment import (
    METRICS,
    Artifact,
    Evidence,
    Experiment,
    Log,
    MetricReader,
    MetricValue,
    Missing,
    Outcome,
    Status,
    Step,
)
from zenturio.experiment.failure import describe_failure

IDLE_BUILD = (
    "BUILD left every file as it was: check that it makes something of the files that hold values, "
    "and leave what it made before out of the application (.zenignore)"
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
    """Return what came of the first attempt at *experiment*; *collect* sets its outputs apart."""
    recipe, steps = experiment.recipe, experiment.steps
    status, cause = judge_steps(run.facts, steps, recipe.verifiers, run.stderr)
    facts = program_facts(run.facts, len(steps), len(recipe.verifiers))
    used = usage_metrics(facts, run.starter)
    if run.is_call:
        metrics = {**used, **read_metrics(run.reported)}
        cause = (exception_name(run.stderr.head + run.stderr.tail) if cause else "") or cause
    else:
        evidence = Evidence(run.stdout, run.stderr, run.folder, run.reported, used)
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
        remark=run_remark(facts, metrics, is_build_idle=run.is_build_idle),
        conditions=run_conditions(facts, slots),
        **machine,
    )


def _report_fault(reported: bytes) -> str:
    """Say that metrics may be lacking, also some that nobody declared, and so nobody would miss."""
    return "" if len(reported) < LONGEST_REPORT else f"${METRICS} of {LONGEST_REPORT} bytes or more"


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
    """Return the metrics that every run has, and those that OBSERVE asks for.

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
    facts: Mapping[str, Any], metrics: Mapping[str, MetricValue], *, is_build_idle: bool
) -> str:
    """Return what is to be said of a run though nothing failed: the same for the same machine."""
    unobserved: dict[str, list[str]] = {}
    for name in facts.get("observed", {}):
        if isinstance(missing := metrics.get(name), Missing):
            unobserved.setdefault(missing.why, []).append(name)
    parts = [f"no {', '.join(names)}: {reason}" for reason, names in unobserved.items()]
    return "; ".join([IDLE_BUILD, *parts] if is_build_idle else parts)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
