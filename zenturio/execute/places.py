"""Places by name: a plug-in's, an address, a file of hosts, or ``[places.NAME]`` of zenturio.toml.

    [places.cluster]
    kind = "dask"                    # the plug-in; NAME itself, if it is not said
    address = "tls://head:8786"      # what else there is: a setting of that plug-in

A class of the group ``zenturio.places`` is called with a folder, the number of jobs, *keep* and
*pin*. If it has an attribute ``Options``, a frozen dataclass of settings, it is given one as
*options*; if it has a method ``check``, that says in words what is wrong with the place; if it has
a function ``script``, that is what a job of it would be: the text, of a folder and options.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import TimeoutError as TooLateError
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, time_ns
from types import TracebackType
from typing import Any, Protocol, Self

from zenturio import plugins, trust
from zenturio.annotate.counter_events import counter_metric
from zenturio.annotate.model import OBSERVED, Metric
from zenturio.errors import InputError, ZenError, did_you_mean
from zenturio.execute.executor import Executor
from zenturio.execute.file_staging import disk_errors
from zenturio.execute.workspace import Keep
from zenturio.experiment import Experiment, ExperimentFile, Missing, Outcome, Recipe, Step
from zenturio.experiment.identity import experiment_digest
from zenturio.settings.document import FILE, Entry, Table, read_project_file
from zenturio.settings.schema import NoSettings, Setting, described, settings_of

_PLACES = "places"
INLINE = "inline"
"""A place that calls functions of this process, and runs no commands."""
_COMMON_SETTINGS = {"kind": str, "jobs": int}
"""What any place may be told besides its settings."""


class ClosableExecutor(Executor, Protocol):
    """A place that ``with`` closes."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...


@dataclass(frozen=True)
class NamedPlace:
    """A place as the user named it: its plug-in, and the settings for that."""

    name: str
    kind: str
    table: Table = field(default_factory=Table)

    @property
    def jobs(self) -> int | None:
        """How many at once, if it is configured."""
        entry = self.table.entries.get("jobs")
        if entry is None:
            return None
        if type(entry.value) is not int or entry.value < 1:
            raise InputError(
                f"jobs = {entry.value!r} is not possible",
                place=entry.place,
                hint="a whole number from 1",
            )
        return entry.value

    def load(self) -> Any:
        """Return the plug-in's class."""
        return plugins.load("places", self.kind)

    @property
    def runs_commands(self) -> bool:
        """Whether it runs the commands of experiments, as all but a simulation do."""
        return bool(getattr(self.load(), "commands", True))

    def settings(self) -> tuple[Setting, ...]:
        """Return what can be set."""
        return described(getattr(self.load(), "Options", NoSettings))

    def texts(self) -> dict[str, str]:
        """Shell text and programs that the file sets, by where they stand."""
        executed = {setting.name for setting in self.settings() if setting.executes}
        return {
            f"{entry.place or FILE} {name}": str(entry.value)
            for name, entry in self.table.entries.items()
            if name in executed
        }

    def options(self, overrides: Mapping[str, str] = {}) -> Any:
        """Return the settings of the file, then those that are *overrides*.

        None if the place has none.
        """
        entries = {n: e for n, e in self.table.entries.items() if n not in _COMMON_SETTINGS}
        kind = getattr(self.load(), "Options", None)
        options = settings_of(
            kind or NoSettings, {**entries, **overrides}, f"the place {self.kind}", _COMMON_SETTINGS
        )
        return options if kind is not None else None


def read_places(path: Path) -> dict[str, Table]:
    """Return the tables ``[places.NAME]`` of the file at *path*, in its order."""
    document = read_project_file(path)
    for name in document.value:
        if name != _PLACES and did_you_mean(name, [_PLACES]).startswith("did you mean"):
            document.wrong((name,), f"[{name}] is not a table of {FILE}", "write [places.NAME]")
    places = document.value.get(_PLACES, {})
    if not isinstance(places, dict) or not all(isinstance(t, dict) for t in places.values()):
        document.wrong((_PLACES,), "places have to be tables", "write [places.NAME]")
    return {name: document.table((_PLACES, name), table) for name, table in places.items()}


def configured_places(project: Path) -> dict[str, NamedPlace]:
    """Return the places of the project's zenturio.toml, by name."""
    kinds = [name for name in plugins.names("places") if name != INLINE]
    places = {}
    for name, table in read_places(project / FILE).items():
        entry = table.entries.get("kind", Entry(name, table.place))
        if name in kinds and entry.value != name:
            raise InputError(
                f"[places.{name}] would replace the built-in place {name}",
                place=entry.place,
                hint="give it another name",
            )
        if entry.value not in kinds:
            if "kind" in table.entries:
                message = f"no place is of the kind {entry.value!r}"
                hint = did_you_mean(str(entry.value), kinds)
            else:
                message = f"[places.{name}] does not say of which kind it is"
                hint = f'kind = "dask", or another one; {did_you_mean(name, kinds)}'
            raise InputError(message, place=entry.place, hint=hint)
        places[name] = NamedPlace(name, str(entry.value), table)
    return places


def known_places(project: Path) -> dict[str, NamedPlace]:
    """Return all places that have a name: those of zenturio.toml, then those that are installed."""
    places = configured_places(project)
    installed = [name for name in plugins.names("places") if name != INLINE and name not in places]
    return places | {name: NamedPlace(name, name) for name in installed}


def find_place(text: str, project: Path) -> NamedPlace:
    """Return what *text* names in the *project*: see above."""
    if text.endswith(".toml"):
        return NamedPlace(text, "hosts", Table({"file": Entry(text)}))
    scheme, sign, address = text.partition("://")
    if sign:
        kind = "dask" if scheme in ("tcp", "tls") else scheme
        _check_kind(kind, text, ())
        if not address:
            raise InputError(f"{text!r} is not an address", hint="write dask://host:8786")
        return NamedPlace(text, kind, Table({"address": Entry(text)}))
    places = configured_places(project)
    if text in places:
        return places[text]
    _check_kind(text, text, places)
    return NamedPlace(text, text)


def _check_kind(kind: str, text: str, configured: Any) -> None:
    kinds = [name for name in plugins.names("places") if name != INLINE]
    if kind not in kinds:
        raise InputError(
            f"no place is named {text!r}", hint=did_you_mean(kind, (*kinds, *configured))
        )


def open_place(
    text: str,
    folder: Path,
    jobs: int | None = None,
    *,
    keep: Keep = "never",
    pin: bool = False,
    overrides: Mapping[str, str] = {},
) -> ClosableExecutor:
    """Return the place that *text* names, which works below *folder*, the project's ``.zenturio``.

    *overrides* are settings that override those of zenturio.toml.
    """
    place_spec = find_place(text, folder.absolute().parent)
    return open_named(place_spec, folder, jobs, keep=keep, pin=pin, overrides=overrides)


def open_named(
    place_spec: NamedPlace,
    folder: Path,
    jobs: int | None = None,
    *,
    keep: Keep = "never",
    pin: bool = False,
    overrides: Mapping[str, str] = {},
) -> ClosableExecutor:
    """Return the place, opened."""
    options = place_spec.options(overrides)
    if place_spec.kind != "hosts":  # Its texts stand in a file of its own, which asks by itself.
        trust.require(folder, place_spec.texts())
    arguments: dict[str, Any] = {} if options is None else {"options": options}
    place: ClosableExecutor = place_spec.load()(
        folder, jobs or place_spec.jobs, keep=keep, pin=pin, **arguments
    )
    return place


# Check of a place: it is opened, asked, and given a small experiment to run

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
        if place_spec.runs_commands:
            yield from _run_probe(place)
        else:
            yield ProbeFinding(True, "it runs no commands of users: there is nothing to probe")


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
        yield ProbeFinding(False, "the metric that the probe reported was not returned")
    for artifact in outcome.artifacts:
        if artifact.kept.is_file() and artifact.kept.read_bytes() == _CONTENT:
            artifact.kept.unlink()
            artifact.kept.parent.rmdir()
            return
    yield ProbeFinding(False, "the file that the probe wrote was not returned")
