"""Times of the tasks of a workflow that was run, recorded as a study.

Each run of a task is an experiment: its parameters are the task, its program, cores and host, the
run of the workflow, and what the task has as its point. ``zen schedule --times STUDY`` plans with
these times.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from zenturio.experiment import Experiment, Outcome, Recipe
from zenturio.experiment.identity import experiment_digest
from zenturio.experiment.provenance import provenance
from zenturio.record import Field, Repository, StudyDefinition
from zenturio.record.entities import DriverProcess
from zenturio.schedule.formats.task_times import SPEED
from zenturio.schedule.simulate.trace import ExecutionTrace

PARAMETERS = ("task", "program", "cores", "host", "run")
"""Parameters of each such study, besides those of the points of tasks."""
SECONDS, PREDICTED = "seconds", "predicted"


def default_study(workflow: str) -> str:
    """Return the name of the study in which the times of *workflow* are recorded."""
    return f"{workflow}-tasks"


def record_task_times(
    repository: Repository, study: str, trace: ExecutionTrace, started: float | None = None
) -> int:
    """Record the tasks of *trace* that ended, and return how many.

    Metrics of a task are its measured and its predicted seconds. *started* is when the run began,
    in seconds since 1970; default: its makespan ago.
    """
    began = time.time() - trace.makespan if started is None else started
    run = datetime.fromtimestamp(began, UTC).isoformat(timespec="milliseconds")
    tasks = {number: trace.problem.workflow.task(number) for number in {r.task for r in trace.good}}
    points = dict.fromkeys(name for task in tasks.values() for name, _ in task.point)
    repository.open(
        study,
        StudyDefinition(
            parameters=tuple(Field(name) for name in dict.fromkeys((*PARAMETERS, *points))),
            metrics=tuple(
                Field(name, None, unit, how="workflow run")
                for name, unit in ((SECONDS, "s"), (PREDICTED, "s"), (SPEED, ""))
            ),
            provenance=provenance(Path.cwd()),
            notes={"workflow": trace.problem.workflow.name},
        ),
    )
    results = []
    machines, node = trace.problem.platform.machines, trace.problem.node
    for number, ended in enumerate(trace.good):
        task, machine = tasks[ended.task], machines[node[ended.processor]]
        values = {
            **dict(task.point), "task": task.name, "program": task.program, "cores": task.cores,
            "host": machine.name, "run": run,
        }  # fmt: skip
        metrics = {
            SECONDS: ended.end - ended.start,
            PREDICTED: trace.problem.time(ended.task, ended.processor),
            SPEED: machine.speed,
        }
        environment = {name: str(value) for name, value in values.items()}
        digest = experiment_digest((), (), {**environment, "number": str(number)}, 1)
        results.append(
            (
                Experiment(digest, -1, 1, values, (), (), {}, None, Recipe()),
                Outcome(
                    digest, "ok", metrics=metrics, host=machine.name,
                    started=began + ended.start, ended=began + ended.end,
                ),
            )
        )  # fmt: skip
    lease = repository.acquire_lease(study, DriverProcess.current(), join=True)
    try:
        repository.add_results(study, lease.number, results)
    finally:
        repository.release_lease(lease)
    return len(results)
