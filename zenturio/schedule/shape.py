"""What a workflow looks like, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zenturio.schedule.workflow import Floats, Workflow


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
