"""A simulator as a place: an experiment is a workflow whose parameters say what runs where.

Its one command is ``zen simulate WORKFLOW --on PLATFORM ...``, which any place can run; this one
carries it out within the driver, in milliseconds. So a schedule is an experiment of a study, and a
search of machines for tasks is a scheduler. ``zen schedule``, which plans and plays nothing, will
do as well: so algorithms and their settings are compared.

One after the other, unless a number of jobs is given: then in as many threads, which is of use
where most of the time is spent in compiled code that lets others go on, as that of ga-2005.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter, thread_time, time
from typing import Any

from zenturio.errors import InputError, PlaceError, ZenError
from zenturio.execute.executor import ClosesOnExit
from zenturio.execute.file_staging import checked_link, content_of, is_small
from zenturio.experiment import (
    Evidence,
    Experiment,
    ExperimentFile,
    Log,
    MetricReader,
    MetricValue,
    Missing,
    Outcome,
    Recipe,
)
from zenturio.schedule import commands as planning
from zenturio.schedule import commands as streaming
from zenturio.schedule.cluster.replay import is_job_log
from zenturio.schedule.commands import (
    SIMULATE_OPTIONS,
    ParsedArguments,
    PlanRequest,
    SimulationRequest,
    StreamRequest,
    check_replay_options,
    simulation_report,
)
from zenturio.schedule.formats.plan_json import plan_facts, trace_facts
from zenturio.schedule.generators.generator import ProblemCache
from zenturio.settings.schema import pairs

_VERBS = (["zen", "simulate"], ["zen", "schedule"])
_CommandResult = tuple[Callable[[], Any], bytes, bool]
"""What ``--json`` would show, the metrics that are reported, and whether something never ended."""
UNFINISHED, UNFINISHED_MESSAGE = 3, b"not everything ended: machines failed for good\n"
"""The exit code then, and what is said."""
_NO_SIZE = Missing(
    "it was simulated inside the driver, whose memory use is not that of the simulation"
)


class Simulate(ClosesOnExit):
    """Simulate schedules, as ``zen simulate`` and ``zen schedule`` do.

    With one slot, the default, this happens in the calling thread.
    """

    commands = False
    """It runs none of one's own."""

    def __init__(self, _folder: Path = Path(), jobs: int | None = None, **_ways: Any) -> None:
        """Folder and what else other places are told: nothing here needs them."""
        import zenturio.schedule.kernels  # noqa: F401, PLC0415 - says what is missing without Numba

        self.slots = jobs or 1
        library = ProblemCache()
        self._players = [_SimulationSlot(library) for _ in range(self.slots)]
        self._idle: SimpleQueue[_SimulationSlot] = SimpleQueue()
        for player in self._players:
            self._idle.put(player)
        self._pool = ThreadPoolExecutor(self.slots, "simulate") if self.slots > 1 else None
        self._closed = False

    def submit(self, experiment: Experiment) -> Future[Outcome]:
        """Play it: at once, or when a slot is free."""
        if self._pool is not None and not self._closed:
            return self._pool.submit(self._play, experiment)
        future: Future[Outcome] = Future()
        future.set_running_or_notify_cancel()
        if self._closed:
            future.set_exception(PlaceError("this place is closed"))
        else:
            future.set_result(self._play(experiment))
        return future

    def close(self) -> None:
        """Take nothing more, and leave nothing behind."""
        self._closed = True
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        for player in self._players:
            player.close()

    def _play(self, experiment: Experiment) -> Outcome:
        player = self._idle.get()
        try:
            return player.play(experiment)
        finally:
            self._idle.put(player)


class _SimulationSlot:
    """One slot: one experiment at a time, with files of its own."""

    def __init__(self, library: ProblemCache) -> None:
        self._host = platform.node()
        self._meter = MetricReader(Recipe())
        self._recipe = Recipe()
        self._scratch = _ScratchFolder()
        self._library = library

    def close(self) -> None:
        self._scratch.close()

    def play(self, experiment: Experiment) -> Outcome:
        started, clock, cpu = time(), perf_counter(), thread_time()
        output, metrics_text, message, code = b"", b"", b"", 0
        try:
            output, metrics_text, code = self._simulated(experiment)
            message = UNFINISHED_MESSAGE if code else b""
        except ZenError as error:
            message, code = f"{error}\n".encode(), error.exit_code
        wall = perf_counter() - clock
        usage: dict[str, MetricValue] = {
            "wtime": wall,
            "ctime": thread_time() - cpu,
            "maxrss": _NO_SIZE,
            "exit": code,
        }
        stdout, stderr = Log(output, b"", len(output)), Log(message, b"", len(message))
        if experiment.recipe is not self._recipe:  # all experiments of a study share one
            self._recipe, self._meter = experiment.recipe, MetricReader(experiment.recipe)
        evidence = Evidence(stdout, stderr, None, metrics_text, usage)
        metrics = self._meter.measure(experiment.values, evidence)
        cause = f"exit {code}" if code else self._meter.lacking(metrics)
        return Outcome(
            experiment.digest,
            "failed" if cause else "ok",
            cause,
            metrics,
            host=self._host,
            started=started,
            ended=started + wall,
            exit=code,
            stdout=stdout,
            stderr=stderr,
        )

    def _simulated(self, experiment: Experiment) -> tuple[bytes, bytes, int]:
        """Return what the command would say with ``--json``, the metrics, and its exit code."""
        verb, *words = _command_words(experiment)
        folder = self._scratch.holding(experiment.files)
        carry_out = self._played if verb == "simulate" else self._planned
        make_json, metrics_text, unfinished = carry_out(words, folder)
        code = UNFINISHED if unfinished else 0
        if "--json" not in words:
            return b"", metrics_text, code
        return json.dumps(make_json(), ensure_ascii=False).encode() + b"\n", metrics_text, code

    def _played(self, words: list[str], folder: Path) -> _CommandResult:
        arguments = ParsedArguments.read("zen simulate", words, SIMULATE_OPTIONS)
        if is_job_log(arguments.workflows):
            return self._replayed(arguments, folder)
        stream = StreamRequest.read(words, folder)
        if stream is not None:
            return self._streamed(stream)
        request = SimulationRequest.read(words, folder)
        problem = request.problem(self._library)
        subject = request.what(problem)
        trace = request.played(problem, subject, request.seed)
        planned = getattr(subject, "makespan", None)
        return lambda: trace_facts(trace, planned), simulation_report(trace), bool(trace.left)

    def _replayed(self, arguments: ParsedArguments, folder: Path) -> _CommandResult:
        options = arguments.options
        check_replay_options(options)
        path, on, algorithm = (
            arguments.workflows[0], options.get("on", ""), options.get("algorithm", ""),
        )  # fmt: skip
        results = streaming.replay_log(
            str(folder / path), on, algorithm, pairs(arguments.settings), arguments.seed
        )
        if not algorithm:
            return lambda: [result.facts() for result in results], b"", False
        (only,) = results
        return only.facts, json.dumps(only.metrics).encode() + b"\n", False

    def _streamed(self, stream: StreamRequest) -> _CommandResult:
        results = stream.played(self._library.platform)
        unfinished = any(result.left for result in results)
        if not stream.algorithm:
            return lambda: [result.facts() for result in results], b"", unfinished
        (only,) = results
        return only.facts, streaming.stream_report(only), unfinished

    def _planned(self, words: list[str], folder: Path) -> _CommandResult:
        plan = PlanRequest.read(words, folder).plan(self._library)
        return lambda: plan_facts(plan), planning.plan_report(plan), False


def _command_words(experiment: Experiment) -> list[str]:
    """Return what stands behind ``zen`` in the only command there is."""
    steps = [*(experiment.build.steps if experiment.build else ()), *experiment.steps]
    try:
        words = shlex.split(steps[0].command) if len(steps) == 1 else []
    except ValueError:  # a quote that is not closed
        words = []
    if words[:2] not in _VERBS:
        commands = "; ".join(step.command for step in steps)
        raise InputError(
            f"the place simulate cannot run {commands!r}",
            hint='one command alone: ZEN$ RUN "zen simulate flow.json --on grid.toml"',
        )
    return words[1:]


class _ScratchFolder:
    """A folder that holds the files of one experiment at a time, and is there when it is needed."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._held: dict[str, ExperimentFile] = {}

    def holding(self, files: Sequence[ExperimentFile]) -> Path:
        """Return the folder, with *files* and no others.

        Those it has already are not written again.
        """
        by_path = {file.path: file for file in files}
        if self._folder is None or not self._held.keys() <= by_path.keys():
            self.close()
            self._folder = tempfile.TemporaryDirectory(prefix="zen-simulate-")
        folder = Path(self._folder.name)
        for path, file in by_path.items():
            if self._held.get(path) is not file:
                _write(file, folder / path)
        self._held = by_path
        return folder

    def close(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
        self._folder, self._held = None, {}


def _write(file: ExperimentFile, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if file.kind == "folder":
        path.mkdir(exist_ok=True)
        return
    path.unlink(missing_ok=True)  # a link must not be written through
    if file.kind == "link":
        path.symlink_to(checked_link(file))
    elif is_small(file):
        path.write_bytes(content_of(file))
    elif file.original is not None:
        os.symlink(Path(file.original).absolute(), path)  # noqa: PTH211
