"""File transfers as tasks of a workflow, and as bytes along its edges."""

from __future__ import annotations

from dataclasses import replace

from zenturio.schedule.workflow import Workflow


def merge_transfers(flow: Workflow) -> Workflow:
    """*flow* with each file transfer written as bytes on an edge between the jobs it joins.

    A job that several transfers join with the same other gets the sum of their bytes.
    """
    moved = {i for i, task in flow.more.items() if task.kind == "transfer"}
    if not moved:
        return flow
    data: dict[tuple[int, int], float] = {}
    for job in range(len(flow)):
        if job not in moved:
            for target, weight in _jobs_after(flow, job, moved):
                data[job, target] = data.get((job, target), 0.0) + weight
    return Workflow.of(
        flow.name,
        [
            replace(flow.task(i), machine=flow.task(i).machine)
            for i in range(len(flow))
            if i not in moved
        ],
        [(flow.names[a], flow.names[b], weight) for (a, b), weight in data.items()],
        **flow.notes,
    )


def _jobs_after(flow: Workflow, job: int, moved: set[int]) -> list[tuple[int, float]]:
    """The jobs that follow *job* at once or after transfers only, each with its bytes."""
    found = []
    ahead = _edges_from(flow, job, 0.0)
    seen = set()
    while ahead:
        task, weight = ahead.pop()
        if task not in moved:
            found.append((task, weight))
        elif task not in seen:
            seen.add(task)
            ahead += _edges_from(flow, task, weight + float(flow.work[task]))
    return found[::-1]


def _edges_from(flow: Workflow, task: int, weight: float) -> list[tuple[int, float]]:
    first, last = flow.after.start[task], flow.after.start[task + 1]
    edges = zip(flow.after.task[first:last], flow.after.edge[first:last], strict=True)
    return [(int(b), weight + float(flow.data[edge])) for b, edge in edges]
