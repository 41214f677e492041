"""Shape statistics of workflows, and predicted task times.

Task times are predicted by the cost functions of a paper or by fitted models. A model is any
function from columns to seconds, such as the ``predict`` of a fit to a measured study; each program
has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.model.platform import Platform, PlatformMachine, RuntimeCurve
from zenturio.schedule.model.workflow import Floats, Workflow, WorkflowTask


@dataclass(frozen=True, slots=True)
class ProgramTasks:
    """The tasks that run one program."""

    name: str
    tasks: int
    work: float
    """Mean work in seconds on a machine of speed 1."""


@dataclass(frozen=True, slots=True)
class WorkflowShape:
    """Size, depth, width and work of a workflow."""

    name: str
    tasks: int
    transfers: int
    edges: int
    looped: bool
    levels: int | None
    """None if there is a loop, as are width and critical."""
    width: int | None
    """Number of tasks in the largest level."""
    critical: float | None
    """Work on the longest path: no schedule on machines of speed 1 is shorter."""
    work: float
    data: float
    moldable: int
    programs: tuple[ProgramTasks, ...]

    @property
    def parallelism(self) -> float | None:
        """The mean number of busy machines if there are enough of them."""
        return self.work / self.critical if self.critical else None


def shape_of(flow: Workflow) -> WorkflowShape:
    """Return the shape of *flow*; transfers count as tasks without work, and as data."""
    transfers = [i for i, task in flow.more.items() if task.kind == "transfer"]
    work = flow.work.copy()
    work[transfers] = 0.0
    levels = width = critical = None
    if not flow.looped:
        sizes = np.bincount(flow.level)
        levels, width = len(sizes), int(sizes.max(initial=0))
        critical = _critical_work(flow, work)
    return WorkflowShape(
        flow.name, len(flow), len(transfers), len(flow.data), flow.looped, levels, width, critical,
        float(work.sum()), float(flow.data.sum() + flow.work[transfers].sum()),
        sum(task.curve is not None for task in flow.more.values()), _programs(flow, work),
    )  # fmt: skip


def _critical_work(flow: Workflow, work: Floats) -> float:
    """Return the work on the longest path."""
    end = work.tolist()
    start, after = flow.after.start.tolist(), flow.after.task.tolist()
    work_of = work.tolist()
    for task in flow.order.tolist():
        finished = end[task]
        for successor in after[start[task] : start[task + 1]]:
            end[successor] = max(end[successor], finished + work_of[successor])
    return float(max(end, default=0.0))


def _programs(flow: Workflow, work: Floats) -> tuple[ProgramTasks, ...]:
    if flow.program is None:
        return ()
    counts = np.bincount(flow.program, minlength=len(flow.programs))
    sums = np.bincount(flow.program, work, minlength=len(flow.programs))
    summaries = [
        ProgramTasks(name, int(count), float(total / count))
        for name, count, total in zip(flow.programs, counts, sums, strict=True)
        if count
    ]
    return tuple(sorted(summaries, key=lambda program: -program.work * program.tasks))


Model = Callable[[Mapping[str, Any]], Any]
"""A function from columns of equal length to as many seconds."""

Features = Callable[[WorkflowTask], Mapping[str, float]]
"""The columns of a model by task: matrix size, number of atoms."""

LAPW2_SHARE = 0.1
"""Time of LAPW2 relative to LAPW1 (section 4.2)."""


def lapw1_operations(atoms: float, size: float) -> float:
    """Return the operations of LAPW1 for a k-point: ``7 A N^2 + N^3`` (section 4.2)."""
    return 7.0 * atoms * size**2 + float(size) ** 3


def vector_bytes(atoms: float, size: float) -> float:
    """Return the bytes of ``case.vector`` of a k-point: ``200 N A`` (section 4.2)."""
    return 200.0 * size * atoms


def with_predicted_times(
    flow: Workflow,
    models: Mapping[str, Model],
    features: Features = lambda _task: {},
    platform: Platform | None = None,
) -> Workflow:
    """Return *flow* with task times predicted by the *models* of their programs.

    With a *platform*, each task gets a time on each machine, and the models also get the columns
    ``speed``, ``cores`` and ``memory``. Otherwise it gets its work on a machine of speed 1. Tasks
    of programs without a model keep their times. Raise InputError for a model of an unknown program
    and for invalid predictions.
    """
    for program in models:
        if program not in {task.program for task in flow.tasks}:
            program_names = [name for name in flow.programs if name]
            hint = did_you_mean(program, program_names)
            raise InputError(f"no task of {flow.name} runs the program {program!r}", hint=hint)
    changed: dict[str, WorkflowTask] = {}
    for program, model in models.items():
        tasks = [task for task in flow.tasks if task.program == program]
        changed |= {task.name: task for task in _with_predictions(tasks, model, features, platform)}
    return Workflow.of(
        flow.name,
        [changed.get(task.name, task) for task in flow.tasks],
        list(flow.edges),
        **flow.notes,
    )


def predicted_curve(
    model: Model, nodes: Sequence[int], features: Mapping[str, float] | None = None
) -> RuntimeCurve:
    """Return the scaling curve that *model* predicts for the numbers of ``nodes``."""
    counts = tuple(nodes)
    columns = {name: np.full(len(counts), value, float) for name, value in (features or {}).items()}
    seconds = _seconds(model, {**columns, "nodes": np.array(counts, float)}, "a moldable task")
    return RuntimeCurve(counts, tuple(seconds.tolist()))


def _with_predictions(
    tasks: list[WorkflowTask], model: Model, features: Features, platform: Platform | None
) -> Iterator[WorkflowTask]:
    """Yield *tasks* of one program with predicted times; the model is called once for all."""
    machines = platform.machines if platform else (PlatformMachine("one"),)
    feature_rows = [features(task) for task in tasks]
    columns = {
        name: np.repeat([row[name] for row in feature_rows], len(machines))
        for name in (feature_rows[0] if feature_rows else ())
    }
    for name in ("speed", "cores", "memory"):
        columns[name] = np.tile([float(getattr(machine, name)) for machine in machines], len(tasks))
    seconds = _seconds(model, columns, f"program {tasks[0].program!r}")
    for task, times in zip(tasks, seconds.reshape(len(tasks), -1).tolist(), strict=True):
        yield replace(task, times=tuple(times)) if platform else replace(task, work=times[0])


def _seconds(model: Model, columns: Mapping[str, Floats], subject: str) -> Floats:
    seconds = np.asarray(model(columns), np.float64)
    count = len(next(iter(columns.values())))
    if seconds.shape != (count,):
        raise InputError(f"the model of {subject} returned shape {seconds.shape} for {count} rows")
    invalid = np.flatnonzero(~(np.isfinite(seconds) & (seconds >= 0)))
    if len(invalid):
        values_text = ", ".join(
            f"{name}={values[invalid[0]]:g}" for name, values in columns.items()
        )
        raise InputError(
            f"the model of {subject} predicts {seconds[invalid[0]]:g} s for {values_text}",
            hint="a model is reliable only near the measured points",
        )
    return seconds
