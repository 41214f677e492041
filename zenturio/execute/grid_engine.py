"""
Grid Engine as a place (Sun's, Son of, Univa's, Altair's): qsub, qstat, qdel and qacct.

Finished jobs are no longer in the queue. The reason is read from the accounting file (qacct), only
for jobs without an outcome.
"""

from __future__ import annotations

import fnmatch
import math
import pwd
import re
import shlex
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from os import getuid
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError
from xml.etree.ElementTree import fromstring as parse_xml  # of qstat, which we have called

from zenturio.errors import PlaceError
from zenturio.execute.batch.executor import BatchExecutor
from zenturio.execute.batch.system import (
    ArrayTask,
    ArrayTooLongError,
    BatchJob,
    BatchOptions,
    BatchSystem,
    JobDemand,
    JobEnd,
    JobTask,
    QueueFullError,
    UnansweredError,
    command_output,
    option_lines,
)
from zenturio.settings.schema import setting

_MIB = 2**20
_CANCELLED_AT_ONCE = 200
"""Tasks that one qdel is given."""
_TOO_LONG = "job with more than"
"""What qsub says of an array that is longer than max_aj_tasks."""
_LIMIT_REACHED = re.compile(r"jobs are allowed per user")
_TRANSIENT_ERRORS = re.compile(
    "commlib|unable to (send|contact)|failed receiving|timeout|got send error|got read error"
    "|connection refused|can't connect",
    re.IGNORECASE,
)
"""What commands say when the same command may succeed later."""
_RESCHEDULED = 25
"""What qacct says of a start behind which another one comes."""
_FAILURES: dict[int, JobEnd] = {
    # The daemon of the node lost the job: the node went down, or its daemon was started anew.
    21: "cluster_fault",
    22: "cancelled",  # removed manually
    37: "time_limit",  # "qmaster enforced h_rt, h_cpu, or h_vmem limit"
}
_OF_HOSTS = ("mem_", "swap_", "virtual_")
"""How the names of resources begin that each host measures."""
_KILLED = 137
"""The status of a job that SIGKILL ended: by qdel, by the kernel, or by itself; nothing tells."""


@dataclass(frozen=True)
class GridEngineOptions(BatchOptions):
    """Where jobs go, what they may use, and how often the queue is looked at."""

    queue: str = setting("", "queue of the jobs; default: any that accepts them")
    project: str = setting("", "project that is charged")
    time: str = setting("", "time limit (h_rt) of experiments without TIMEOUT: 8:00:00, or seconds")
    parallel: str = setting("smp", "parallel environment that puts the CPUs of a job on one node")
    memory: str = setting(
        "mem_total", "resource that requests MEMORY, such as h_vmem; empty for none"
    )
    extra: str = setting("", "further options of qsub, one a line: -l gpu=1", executes=True)


class GridEngineSystem(BatchSystem[GridEngineOptions]):
    """The queue of a cell, and what jobs ask of it."""

    name = "Grid Engine"
    array_number = "$JOB_ID"
    task_number = "$SGE_TASK_ID"
    cpu_count = "$NSLOTS"

    def head(self, name: str, count: int, demand: JobDemand, log: Path) -> list[str]:
        """Return the options of qsub, as lines of a script."""
        return [f"#$ {option}" for option in _qsub_options(name, count, demand, self.options, log)]

    def submit(self, script: Path) -> str:
        """Submit *script* from the folder of its session, to which its paths are relative."""
        command = ["qsub", "-terse", str(script)]
        output = self._output_of(command, folder=script.parents[1])
        number = re.search(r"^(\d+)[.\d:-]*$", output, re.MULTILINE)
        if number is None:  # it may have been submitted: the queue is asked for its name
            raise UnansweredError("qsub printed no job number")
        return number[1]

    def look(self, names: Collection[str]) -> dict[ArrayTask, list[BatchJob]]:
        """Return the tasks of the arrays of these *names* that have not ended."""
        user = pwd.getpwuid(getuid()).pw_name
        # -r has whole names, which are cut off else; -g d has each task of an array.
        output = self._output_of(["qstat", "-u", user, "-r", "-g", "d", "-xml"])
        try:
            document = parse_xml(output)  # noqa: S314 - of the batch system that runs our jobs
        except ParseError as error:
            raise UnansweredError(f"the output of qstat cannot be read: {error}") from error
        tasks: dict[ArrayTask, list[BatchJob]] = {}
        for element in document.iter("job_list"):
            name, number = _text(element, "full_job_name"), _text(element, "tasks")
            if name in names and number.isdecimal():
                tasks.setdefault((name, int(number)), []).append(_queued_job(element))
        return tasks

    def cancel(self, tasks: Collection[JobTask]) -> None:
        """End *tasks*; those that have ended already are no error."""
        waiting = [array if task is None else f"{array}.{task}" for array, task in tasks]
        while waiting:
            chunk, waiting = waiting[:_CANCELLED_AT_ONCE], waiting[_CANCELLED_AT_ONCE:]
            with suppress(PlaceError):  # which is what those that are there no more give
                self._output_of(["qdel", *chunk])

    def how_ended(self, task: JobTask) -> BatchJob | None:
        """Return what the accounting file has of *task*, if this machine can read it."""
        array, number = task
        try:
            output = self._output_of(["qacct", "-j", array, "-t", str(number)])
        except (UnansweredError, PlaceError):
            return None
        # A task that was started several times has an entry for each start.
        for entry in reversed(re.split(r"^=+$", output, flags=re.MULTILINE)):
            facts = dict(line.split(None, 1) for line in entry.splitlines() if " " in line.strip())
            failed = _leading_number(facts.get("failed", ""))
            if failed is not None and failed != _RESCHEDULED:
                return _ended_job(array, failed, facts)
        return None

    def problems(self) -> Iterator[str]:
        """Say what is wrong with the queue."""
        pattern = self.options.queue.partition("@")[0] or "*"
        try:
            if not fnmatch.filter(self._output_of(["qconf", "-sql"]).split(), pattern):
                yield f"there is no queue {self.options.queue}".rstrip()
                return
            command = ["qstat", "-f", "-xml", "-q", self.options.queue or "*"]
            document = parse_xml(self._output_of(command))  # noqa: S314 - as above
        except (PlaceError, UnansweredError, ParseError) as error:
            yield str(error)
            return
        # A queue in the state of an alarm (a) is busy, and takes jobs again later.
        states = [_text(e, "state") for e in document.iter() if e.find("slots_total") is not None]
        if not states:
            yield "no host has a queue that accepts jobs"
        elif all(set(state) & set("uEdDsSC") for state in states):
            yield "no queue accepts jobs: their states are " + ", ".join(sorted(set(states)))

    def _output_of(self, command: list[str], folder: Path | None = None) -> str:
        return command_output(command, self.patience, _refusal, folder=folder)


class GridEngine(BatchExecutor):
    """Run experiments as tasks of job arrays of Grid Engine, and find those of dead drivers."""

    System = GridEngineSystem
    Options = GridEngineOptions


def _qsub_options(
    name: str, count: int, demand: JobDemand, options: GridEngineOptions, log: Path
) -> Iterator[str]:
    yield f"-N {name}"
    yield f"-t 1-{count}"
    yield "-S /bin/bash"
    yield "-cwd"  # of qsub: the folder of the session
    yield f"-o {log.parent.name}/{log.name}-$TASK_ID"
    yield "-j y"
    yield "-V"  # the environment of whoever submits
    yield "-r y"
    yield "-w e"  # refuse what no host could ever run, which would wait for ever
    if demand.cpus > 1:
        yield f"-pe {shlex.quote(options.parallel)} {demand.cpus}"
    if demand.job_bytes is not None and options.memory:
        # What a host has is compared as a whole; resources that jobs consume count for each slot.
        slots = 1 if options.memory.startswith(_OF_HOSTS) else demand.cpus
        yield f"-l {options.memory}={math.ceil(demand.job_bytes / slots / _MIB)}M"
    if demand.job_seconds is not None:
        yield f"-l h_rt={math.ceil(demand.job_seconds)}"
    elif options.time:
        yield f"-l h_rt={options.time}"
    for option, value in (("-q", options.queue), ("-P", options.project)):
        if value:
            yield f"{option} {shlex.quote(value)}"
    yield from option_lines(options.extra, "#$")


def _queued_job(element: Element) -> BatchJob:
    """Return a task as qstat has it."""
    state = _text(element, "state")
    queue = _text(element, "queue_name")
    # d is being deleted, R restarted, h held, t being sent to its node; E could not be started.
    is_running = not set(state) & set("qwE") and bool(set(state) & set("rtsSTd"))
    is_failed = "E" in state
    return BatchJob(
        _text(element, "JB_job_number"),
        state,
        "running" if is_running else "waiting",
        node=queue.partition("@")[2],
        reason="it is held" if "h" in state else "",
        is_stuck="h" in state,
        is_unlaunchable=is_failed and not is_running,
    )


def _ended_job(array: str, failed: int, facts: dict[str, str]) -> BatchJob:
    """Return a task as qacct has it, which ended with the code *failed*."""
    end = _FAILURES.get(failed, "finished")
    status = _leading_number(facts.get("exit_status", "")) or 0
    if end == "finished" and status == _KILLED:
        end = "cancelled"
    words = facts["failed"].partition(":")[2].strip() if failed else ""
    state = f"status {status}" + (f" ({words})" if words else "")
    return BatchJob(array, state, "ended", end, node=facts.get("hostname", "").strip())


def _leading_number(text: str) -> int | None:
    number = re.match(r"\d+", text)
    return int(number[0]) if number else None


def _text(element: Element, name: str) -> str:
    return (element.findtext(name) or "").strip()


def _refusal(words: str) -> Exception:
    """Return what it means that a command failed."""
    if _TOO_LONG in words:
        return ArrayTooLongError(words)
    if _LIMIT_REACHED.search(words):
        return QueueFullError(words)
    if _TRANSIENT_ERRORS.search(words):
        return UnansweredError(words)
    words = words.removesuffix("; Exiting.").replace("Unable to run job: ", "")
    return PlaceError(words, hint="see [places.NAME] in zenturio.toml, and qconf -sql")
