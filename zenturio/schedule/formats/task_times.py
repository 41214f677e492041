"""Times of tasks from measurements: of a recorded study, or of formulas that were fitted to one.

    {"study": "lapw1", "metric": "wtime", "models": [
      {"by": {}, "formula": "2e-9 * n ** 3", "values": {"n": [500, 1000, 2000]}}]}

``zen fit --as-model`` writes such a file. A formula takes its columns from the point of a task.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import numpy as np

from zenturio.errors import InputError, did_you_mean
from zenturio.expression import Expression, parse
from zenturio.schedule.formats.document import FormatDocument, write_text
from zenturio.schedule.model.platform import RuntimeCurve
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.settings.document import read_text

CORES = ("cores", "threads", "ranks", "nodes", "cpus")
"""Parameters that say on how many cores a task ran, the first of them that is there."""
RUNS = ("run", "host", "repeat")
"""Parameters over whose values the median is taken."""
METRICS = ("seconds", "wtime")
"""Metrics that are times, the first of them that is there."""
SPEED = "speed"
"""A metric: how fast the machine was; seconds times speed is the work."""


class TaskTimeSource(Protocol):
    """Where times of tasks come from."""

    @property
    def name(self) -> str:
        """The study or file, for messages."""
        ...

    def by_cores(self, task: WorkflowTask) -> Mapping[int, float]:
        """Return the seconds of *task* on a machine of speed 1 by its number of cores.

        The number is 0 if unknown; empty if nothing is known of the task.
        """
        ...


@dataclass(frozen=True)
class TimedTasks:
    """A workflow with times that were measured, and the names of tasks that kept theirs."""

    workflow: Workflow
    untimed: tuple[str, ...]


def with_times(flow: Workflow, times: TaskTimeSource) -> TimedTasks:
    """Return *flow* with the work of each job that *times* knows.

    A task of one core that was measured on several numbers of cores gets a curve, so that
    moldable algorithms may choose. Raise InputError if *times* knows none of the tasks.
    """
    work, more = flow.work.copy(), dict(flow.more)
    untimed: list[str] = []
    for i, task in enumerate(flow.tasks):
        seconds = dict(times.by_cores(task)) if task.kind == "job" else {}
        if not seconds:
            untimed += [task.name] if task.kind == "job" else []
            continue
        work[i] = _on_cores(task, seconds)
        curve = _curve(seconds) if task.cores == 1 else None
        if i in more or curve is not None:
            curve = curve or task.curve
            more[i] = replace(task, work=float(work[i]), times=(), curve=curve)
    if len(untimed) == sum(task.kind == "job" for task in flow.tasks):
        raise InputError(
            f"{times.name} has no times of the tasks of {flow.name}",
            hint="a study needs the parameter task or program, or the name of a program of the "
            "workflow",
        )
    return TimedTasks(replace(flow, work=work, more=more), tuple(untimed))


def _on_cores(task: WorkflowTask, seconds: Mapping[int, float]) -> float:
    """Return the time of *task* on its own number of cores, or else on the nearest."""
    return seconds[
        min(seconds, key=lambda count: (abs(math.log(max(count, 1) / task.cores)), count))
    ]


def _curve(seconds: Mapping[int, float]) -> RuntimeCurve | None:
    counts = sorted(count for count, value in seconds.items() if count > 0 and value > 0)
    if len(counts) < 2:
        return None
    return RuntimeCurve(tuple(counts), tuple(seconds[count] for count in counts))


class MeasuredTimes:
    """Times of the rows of a study; the median where several rows agree in their point.

    A row belongs to a task by the parameter ``task``, else by ``program``. A study with neither
    is one of the program that it is named for.
    """

    def __init__(
        self,
        name: str,
        columns: Mapping[str, Sequence[Any]],
        parameters: Iterable[str],
        metric: str = "",
    ) -> None:
        """*columns* has the *parameters* and the metrics of a study; *metric* is the time.

        Default is the first of `METRICS`.
        """
        self.name = name
        self._parameters = [p for p in parameters if p in columns and p not in RUNS]
        self._cores = next((p for p in CORES if p in self._parameters), "")
        metric = metric or next((m for m in METRICS if m in columns), METRICS[0])
        if metric not in columns:
            raise InputError(f"{name} has no metric {metric!r}", hint=did_you_mean(metric, columns))
        self._points = [p for p in self._parameters if p not in ("task", "program", self._cores)]
        self._of_task: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._of_program: dict[str, list[dict[str, Any]]] = defaultdict(list)
        speeds = columns[SPEED] if SPEED in columns else [1.0] * len(columns[metric])
        values = [columns[p] for p in self._parameters]
        for seconds, speed, *point in zip(columns[metric], speeds, *values, strict=True):
            # A failed experiment has no time, and a metric that was not measured is None or NaN.
            if _is_amount(seconds) and _is_amount(speed):
                row = dict(zip(self._parameters, map(_plain, point), strict=True))
                row["seconds"] = float(seconds) * float(speed)
                self._of_task[str(row.get("task", ""))].append(row)
                program = row.get("program", "" if "task" in row else name.partition("@")[0])
                self._of_program[str(program)].append(row)

    def by_cores(self, task: WorkflowTask) -> Mapping[int, float]:
        rows = self._of_task.get(task.name) if "task" in self._parameters else None
        rows = rows or (self._of_program.get(task.program, []) if task.program else [])
        point = dict(task.point)
        for name in self._points:
            values = {row[name] for row in rows}
            if name not in point and len(values) > 1:
                raise InputError(
                    f"{self.name} was measured for several values of {name}, and task "
                    f"{task.name!r} does not say which it has",
                    hint=f'give it a point in the workflow: "point": {{"{name}": ...}}',
                )
            if name in point:
                rows = [row for row in rows if row[name] == point[name]]
        seconds: dict[int, list[float]] = defaultdict(list)
        for row in rows:
            cores = row[self._cores] if self._cores else 0
            # An inactive parameter, and a text such as "all", say no number of cores.
            seconds[int(cores) if _is_amount(cores) else 0].append(row["seconds"])
        return {count: median(measured) for count, measured in seconds.items()}


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class TimeModel:
    """A formula for the seconds of the tasks that have the values *by*."""

    by: Mapping[str, Any]
    formula: Expression
    values: Mapping[str, Sequence[float]]
    """Of each column of the formula those that were measured."""


@dataclass(frozen=True)
class ModelledTimes:
    """Times that formulas predict."""

    name: str
    study: str
    models: tuple[TimeModel, ...]

    def by_cores(self, task: WorkflowTask) -> Mapping[int, float]:
        model = self.model_of(task)
        return self._predicted(task, model, dict(task.point)) if model else {}

    def model_of(self, task: WorkflowTask) -> TimeModel | None:
        """Return the first model that is for *task*, or None."""
        point = {**dict(task.point), "task": task.name, "program": task.program}
        for model in self.models:
            if any(point.get(name) != value for name, value in model.by.items()):
                continue
            if not {"task", "program"} & model.by.keys() and task.program != self.study:
                continue
            return model
        return None

    def _predicted(
        self, task: WorkflowTask, model: TimeModel, point: dict[str, Any]
    ) -> Mapping[int, float]:
        cores = next((c for c in CORES if c in model.values), "")
        for name in model.values:
            if name != cores and not isinstance(point.get(name), int | float):
                raise InputError(
                    f"the model of {self.study} needs {name}, and task {task.name!r} has no such "
                    "number",
                    hint=f'give it a point in the workflow: "point": {{"{name}": ...}}',
                )
        predicted = {}
        for count in map(int, model.values[cores]) if cores else (0,):
            value = model.formula.value({**point, cores: count} if cores else point)
            if not isinstance(value, int | float) or not 0 < value < math.inf:
                raise InputError(
                    f"the model of {self.study} predicts {value} s for task {task.name!r}",
                    hint="it holds near the points that were measured",
                )
            predicted[count] = float(value)
        return predicted


def extrapolations(flow: Workflow, times: TaskTimeSource) -> list[str]:
    """Return a message for each column of the models in *times* that tasks of *flow* go beyond.

    A formula may say anything where nothing was measured.
    """
    if not isinstance(times, ModelledTimes):
        return []
    beyond: dict[tuple[str, float, float], list[tuple[float, str]]] = defaultdict(list)
    for task in flow.tasks:
        model = times.model_of(task) if task.kind == "job" else None
        for name, measured in model.values.items() if model else ():
            value = dict(task.point).get(name)
            if not measured or name in CORES or not isinstance(value, int | float):
                continue
            low, high = min(measured), max(measured)
            if not low <= value <= high:
                beyond[name, low, high].append((value, task.name))
    return [
        f"{times.name} was measured for {name} from {low:g} to {high:g}; times are extrapolated "
        f"for {len(tasks):,} task{'s' * (len(tasks) > 1)} with {name} from {min(tasks)[0]:g} to "
        f"{max(tasks)[0]:g}, for example {tasks[0][1]}"
        for (name, low, high), tasks in beyond.items()
    ]


def read_time_models(path: Path) -> ModelledTimes:
    """Return the models of the file *path*, as ``zen fit --as-model`` writes them."""
    document = FormatDocument.from_json(path, read_text(path))
    value = document.value
    if not isinstance(value, dict) or "models" not in value:
        document.wrong((), "no models", "write the file with zen fit STUDY ... --as-model FILE")
    document.keys(value, ("study", "metric", "models"), ())
    study = document.words(value.get("study"), ("study",))
    models = []
    for i, row in enumerate(document.items(value["models"], ("models",))):
        where = ("models", i)
        if not isinstance(row, dict) or not isinstance(row.get("values", {}), dict):
            document.wrong(where, "a model is an object with a formula, by and values")
        document.keys(row, ("by", "formula", "values"), where)
        columns = {
            name: document.numbers(document.items(v, (*where, "values", name)), _at(where, name))
            for name, v in row.get("values", {}).items()
        }
        text = document.words(row.get("formula"), (*where, "formula"))
        try:
            formula = parse(text)
        except InputError as error:
            document.wrong((*where, "formula"), error.diagnostics[0].message)
        by = row.get("by", {})
        if not isinstance(by, dict):
            document.wrong((*where, "by"), "by is an object")
        models.append(TimeModel(by, formula, {n: c.tolist() for n, c in columns.items()}))
    return ModelledTimes(str(path), study, tuple(models))


def _at(where: tuple[str | int, ...], name: str) -> Any:
    return lambda i: (*where, "values", name, i)


def write_time_models(
    path: Path, study: str, metric: str, models: Iterable[Mapping[str, Any]]
) -> None:
    """Write *models*, each with ``by``, ``formula`` and ``values``, to *path*."""
    facts = {"study": study.partition("@")[0], "metric": metric, "models": list(models)}
    write_text(path, [json.dumps(facts, ensure_ascii=False, indent=1), "\n"])
