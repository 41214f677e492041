"""What a workflow looks like, in numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.model.platform import Platform, PlatformMachine, ScalingCurve
from zenturio.schedule.model.workflow import Floats, Workflow, WorkflowTask


@dataclass(frozen=True, slots=True)
class ProgramSummary:
    """The tasks that run one program."""

    name: str
    tasks: int
    work: float
    """The mean, in seconds on a machine of speed 1."""


@dataclass(frozen=True, slots=True)
class WorkflowShape:
    name: str
    tasks: int
    transfers: int
    edges: int
    looped: bool
    levels: int | None
    """None, where there is a loop; so are the other two."""
    width: int | None
    """Tasks in the largest level."""
    critical: float | None
    """Work along the longest way: no schedule on machines of speed 1 is shorter."""
    work: float
    data: float
    moldable: int
    programs: tuple[ProgramSummary, ...]

    @property
    def parallelism(self) -> float | None:
        """How many machines have work, on average, if there are enough."""
        return self.work / self.critical if self.critical else None


def shape_of(flow: Workflow) -> WorkflowShape:
    """The shape of *flow*; file transfers count as tasks without work, and as data."""
    moved = [i for i, task in flow.more.items() if task.kind == "transfer"]
    work = flow.work.copy()
    work[moved] = 0.0
    levels = width = critical = None
    if not flow.looped:
        sizes = np.bincount(flow.level)
        levels, width = len(sizes), int(sizes.max(initial=0))
        critical = _critical_work(flow, work)
    return WorkflowShape(
        flow.name, len(flow), len(moved), len(flow.data), flow.looped, levels, width, critical,
        float(work.sum()), float(flow.data.sum() + flow.work[moved].sum()),
        sum(task.curve is not None for task in flow.more.values()), _programs(flow, work),
    )  # fmt: skip


def _critical_work(flow: Workflow, work: Floats) -> float:
    """Work on the longest way."""
    end = work.tolist()
    start, after = flow.after.start.tolist(), flow.after.task.tolist()
    own = work.tolist()
    for task in flow.order.tolist():
        here = end[task]
        for other in after[start[task] : start[task + 1]]:
            end[other] = max(end[other], here + own[other])
    return float(max(end, default=0.0))


def _programs(flow: Workflow, work: Floats) -> tuple[ProgramSummary, ...]:
    if flow.program is None:
        return ()
    counts = np.bincount(flow.program, minlength=len(flow.programs))
    sums = np.bincount(flow.program, work, minlength=len(flow.programs))
    found = [
        ProgramSummary(name, int(count), float(total / count))
        for name, count, total in zip(flow.programs, counts, sums, strict=True)
        if count
    ]
    return tuple(sorted(found, key=lambda each: -each.work * each.tasks))


Model = Callable[[Mapping[str, Any]], Any]
"""Columns of numbers, equally long, to as many seconds."""

Features = Callable[[WorkflowTask], Mapping[str, float]]
"""What a model is told of a task: the size of its matrix, how many atoms."""

LAPW2_SHARE = 0.1
"""Of the time of LAPW1 (section 4.2)."""


def lapw1_operations(atoms: float, size: float) -> float:
    """Operations of LAPW1 for a k-point: ``7 A N^2 + N^3`` (section 4.2)."""
    return 7.0 * atoms * size**2 + float(size) ** 3


def vector_bytes(atoms: float, size: float) -> float:
    """Bytes of ``case.vector`` between LAPW1 and LAPW2 of a k-point: ``200 N A`` (section 4.2)."""
    return 200.0 * size * atoms


def with_predicted_times(
    flow: Workflow,
    models: Mapping[str, Model],
    features: Features = lambda _task: {},
    platform: Platform | None = None,
) -> Workflow:
    """*flow*, its tasks as long as the *models* of their programs foretell.

    With a *platform* each task gets a time on each of its machines, whose ``speed``, ``cores`` and
    ``memory`` the models are told as well; else its work, for a machine of speed 1. A task whose
    program has no model stays as it is.
    """
    for program in models:
        if program not in {task.program for task in flow.tasks}:
            known = [name for name in flow.programs if name]
            hint = did_you_mean(program, known)
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
) -> ScalingCurve:
    """The scaling curve of a moldable task: what *model* foretells for each number of ``nodes``."""
    counts = tuple(nodes)
    told = {name: np.full(len(counts), value, float) for name, value in (features or {}).items()}
    found = _seconds(model, {**told, "nodes": np.array(counts, float)}, "a moldable task")
    return ScalingCurve(counts, tuple(found.tolist()))


def _with_predictions(
    tasks: list[WorkflowTask], model: Model, features: Features, platform: Platform | None
) -> Iterator[WorkflowTask]:
    """*tasks* of one program with what *model* foretells, which is asked once for all of them."""
    machines = platform.machines if platform else (PlatformMachine("one"),)
    told = [features(task) for task in tasks]
    columns = {
        name: np.repeat([each[name] for each in told], len(machines))
        for name in (told[0] if told else ())
    }
    for name in ("speed", "cores", "memory"):
        columns[name] = np.tile([float(getattr(each, name)) for each in machines], len(tasks))
    seconds = _seconds(model, columns, f"program {tasks[0].program!r}")
    for task, times in zip(tasks, seconds.reshape(len(tasks), -1).tolist(), strict=True):
        yield replace(task, times=tuple(times)) if platform else replace(task, work=times[0])


def _seconds(model: Model, columns: Mapping[str, Floats], what: str) -> Floats:
    found = np.asarray(model(columns), np.float64)
    count = len(next(iter(columns.values())))
    if found.shape != (count,):
        raise InputError(f"the model of {what} answers {found.shape} to {count} questions")
    wrong = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if len(wrong):
        asked = ", ".join(f"{name}={values[wrong[0]]:g}" for name, values in columns.items())
        raise InputError(
            f"the model of {what} foretells {found[wrong[0]]:g} s for {asked}",
            hint="a model is good for what lies near to what was measured",
        )
    return found
