"""Is a place as it should be? It is opened, asked, and given a small experiment to run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import TimeoutError as TooLateError
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, time_ns
from typing import Any

from zenturio.annotate.counter_events import counter_metric
from zenturio.annotate.model import OBSERVED, Metric
from zenturio.errors import ZenError
from zenturio.execute.file_staging import disk_errors
from zenturio.execute.places import ClosableExecutor, NamedPlace, open_named
from zenturio.experiment import Experiment, ExperimentFile, Missing, Outcome, Recipe, Step
from zenturio.experiment.identity import experiment_digest

PATIENCE = 120.0
"""Seconds that a probe may take: it may have to wait until a machine is free."""
_CONTENT = b"read on the other side\n"
_SCRIPT = b"""#!/bin/sh
test "$PROBE" = "one word; not two" || { echo "the environment did not come along"; exit 1; }
cat given.txt > left.txt || exit 1
echo '{"answer": 42}' >> "$ZEN_METRICS"
echo "seen"
sleep 0.05
"""
_PROBED = ("instructions", "task-clock")
"""An event that a processor counts, and one of the kernel."""


@dataclass(frozen=True)
class ProbeFinding:
    """One thing that was looked at."""

    good: bool
    text: str
    hint: str = ""


def probe_place(
    place_spec: NamedPlace, folder: Path, overrides: Mapping[str, str] = {}
) -> Iterator[ProbeFinding]:
    """What is found, one after the other; the first that is wrong may be the last."""
    try:
        yield _check_writable(folder)
        begun = monotonic()
        place = open_named(place_spec, folder, overrides=overrides)
    except ZenError as error:
        yield from _findings_of(error)
        return
    with place:
        count = f"{place.slots} slot{'s' if place.slots > 1 else ''}"
        yield ProbeFinding(True, f"it opened in {monotonic() - begun:.1f} s and has {count}")
        yield from _check_place(place)
        if getattr(place_spec.load(), "commands", True):
            yield from _run_probe(place)
        else:
            yield ProbeFinding(True, "it runs no commands of one's own: there is nothing to probe")


def _check_writable(folder: Path) -> ProbeFinding:
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        trial = folder / f".probe-{os.getpid()}"
        trial.write_bytes(_CONTENT)
        trial.unlink()
    return ProbeFinding(True, f"{folder} can be written")


def _check_place(place: ClosableExecutor) -> Iterator[ProbeFinding]:
    check: Any = getattr(place, "check", None)
    if check is None:
        return
    try:
        for diagnostic in check():
            yield ProbeFinding(False, diagnostic)
    except ZenError as error:
        yield from _findings_of(error)


def _findings_of(error: ZenError) -> Iterator[ProbeFinding]:
    for diagnostic in error.diagnostics:
        where = f"{diagnostic.place}: " if diagnostic.place else ""
        yield ProbeFinding(False, f"{where}{diagnostic.message}", diagnostic.hint)


def _run_probe(place: ClosableExecutor) -> Iterator[ProbeFinding]:
    begun = monotonic()
    future = place.submit(_probe_experiment())
    try:
        outcome = future.result(PATIENCE)
    except TooLateError:
        future.cancel()
        hint = "it may wait for a free machine: look at the queue"
        yield ProbeFinding(False, f"the probe had not ended after {PATIENCE:.0f} s", hint)
        return
    except ZenError as error:
        yield from _findings_of(error)
        return
    faults = list(_probe_faults(outcome))
    yield from faults
    if not faults:
        where = f"on {outcome.host}" if outcome.host else "there"
        yield ProbeFinding(
            True, f"a probe ran {where}, and came back after {monotonic() - begun:.1f} s"
        )
        yield ProbeFinding(True, _observer_report(outcome))
        yield ProbeFinding(True, _conditions_report(outcome))


def _probe_experiment() -> Experiment:
    files = (
        ExperimentFile("probe.sh", 0o755, _SCRIPT),
        ExperimentFile("given.txt", 0o644, _CONTENT),
    )
    steps, environment = (Step("./probe.sh", timeout=60),), {"PROBE": "one word; not two"}
    repeat = time_ns()  # nobody has run this one before
    name = experiment_digest(files, steps, environment, repeat)
    recipe = Recipe((Metric("answer"), *_observed_metrics()), ("left.txt",))
    return Experiment(name, -1, repeat, {}, files, steps, environment, None, recipe)


def _observed_metrics() -> Iterator[Metric]:
    """Yield a metric of each observer."""
    for event in _PROBED:
        yield Metric(counter_metric(event), optional=True, observed=f"perf {event}")
    for observer, metrics in OBSERVED.items():
        for name in metrics:
            yield Metric(name, optional=True, observed=observer)


def _observer_report(outcome: Outcome) -> str:
    """Return which observers the place has, and why it lacks the others."""
    groups = {"perf of the processor": ["instructions"], "perf of the kernel": ["task_clock"]}
    groups |= {observer: list(metrics) for observer, metrics in OBSERVED.items() if metrics}
    present, absent = [], []
    for observer, metrics in groups.items():
        values = [outcome.metrics.get(metric) for metric in metrics]
        reasons = [value.why for value in values if isinstance(value, Missing)]
        if len(reasons) < len(values):
            present.append(observer)
        else:
            absent.append(f"no {observer} ({reasons[0]})")
    return f"OBSERVE: {'; '.join([', '.join(present) or 'nothing', *absent])}"


def _conditions_report(outcome: Outcome) -> str:
    """Return which conditions of runs the place records, and why not the others."""
    if outcome.conditions is None or outcome.host_details is None:
        return "conditions of runs: none are recorded"
    reasons = outcome.host_details.unmeasured
    return f"conditions of runs: no {reasons}" if reasons else "conditions of runs: all"


def _probe_faults(outcome: Outcome) -> Iterator[ProbeFinding]:
    if outcome.status != "ok":
        output = (outcome.stdout.head + outcome.stderr.head).decode("utf-8", "replace").strip()
        yield ProbeFinding(False, f"the probe failed on {outcome.host}: {outcome.cause}", output)
        return
    if outcome.metrics.get("answer") != 42:
        yield ProbeFinding(False, "what the probe reported did not come back")
    for artifact in outcome.artifacts:
        if artifact.kept.is_file() and artifact.kept.read_bytes() == _CONTENT:
            artifact.kept.unlink()
            artifact.kept.parent.rmdir()
            return
    yield ProbeFinding(False, "the file that the probe left did not come back")
