"""
What every batch system promises, as tests: those of a batch system inherit them.

::

    class TestMine(BatchContract):
        executor = Mine

Its tests should inherit ``zenturio.testing.executor.CommandContract`` as well, which says what
every place promises.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from zenturio.errors import PlaceError
from zenturio.execute.batch.executor import BatchExecutor
from zenturio.execute.batch.system import (
    ArrayTask,
    BatchJob,
    BatchOptions,
    BatchSystem,
    JobDemand,
    UnansweredError,
)
from zenturio.experiment import Experiment
from zenturio.testing.executor import experiment, outcome, until

_SLEEP = "sleep 120"


class BatchContract:
    """Say which executor it is; its batch system must be there, and free."""

    executor: type[BatchExecutor]

    def options(self, **changes: object) -> BatchOptions:
        """Settings with which jobs begin, and are looked at often."""
        return self.executor.Options(**{"poll": 0.1, "grace": 2.0, **changes})  # type: ignore[arg-type]

    # The system

    def test_each_task_knows_its_array_and_its_number_and_has_a_log(self, tmp_path: Path) -> None:
        system = self.executor.System(self.options())
        text = f'echo "{system.array_number} {system.task_number}"'
        array = _submit(system, tmp_path, 3, text)
        logs = [tmp_path / "logs" / f"zen-test-{number}" for number in (1, 2, 3)]
        until(lambda: all(log.exists() and log.read_text() for log in logs))
        assert [log.read_text() for log in logs] == [f"{array} {n}\n" for n in (1, 2, 3)]

    def test_tasks_are_shown_while_they_run_and_by_name(self, tmp_path: Path) -> None:
        system = self.executor.System(self.options())
        array = _submit(system, tmp_path, 2, _SLEEP)
        try:
            tasks = until(lambda: _running_tasks(system, 2))
            assert set(tasks) == {("zen-test", 1), ("zen-test", 2)}
            assert [[job.array for job in jobs] for jobs in tasks.values()] == [[array]] * 2
            assert not system.look(["zen-another"])
        finally:
            system.cancel([(array, None)])
        until(lambda: not _alive_tasks(system))

    def test_one_task_is_cancelled_and_no_other(self, tmp_path: Path) -> None:
        system = self.executor.System(self.options())
        array = _submit(system, tmp_path, 2, _SLEEP)
        until(lambda: _running_tasks(system, 2))
        system.cancel([(array, 1)])
        until(lambda: list(_alive_tasks(system)) == [("zen-test", 2)])
        system.cancel([(array, 1), (array, 2)])
        until(lambda: not _alive_tasks(system))
        system.cancel([(array, None)])

    # The place

    def test_a_submission_that_was_not_answered_is_not_repeated(self, tmp_path: Path) -> None:
        class Deaf(self.executor.System):  # type: ignore[name-defined, misc]
            def submit(self, script: Path) -> str:
                super().submit(script)
                raise UnansweredError("it said nothing")

        class Place(self.executor):  # type: ignore[name-defined, misc]
            System = Deaf

        log = tmp_path / "log"
        with Place(tmp_path / "zen", 2, options=self.options()) as place:
            assert outcome(place, _counted_experiment(log)).status == "ok"
            assert any("does not respond" in remark for remark in place.remarks)
        assert log.read_text() == "run\n"

    def test_of_two_arrays_of_one_name_one_does_nothing(self, tmp_path: Path) -> None:
        class Eager(self.executor.System):  # type: ignore[name-defined, misc]
            def submit(self, script: Path) -> str:
                super().submit(script)
                number: str = super().submit(script)
                return number

        class Place(self.executor):  # type: ignore[name-defined, misc]
            System = Eager

        log = tmp_path / "log"
        with Place(tmp_path / "zen", 2, options=self.options()) as place:
            assert outcome(place, _counted_experiment(log, "sleep 0.5")).status == "ok"
            system = self.executor.System(self.options())
            until(lambda: not _alive_tasks(system, *_names(tmp_path)))
        assert log.read_text() == "run\n"

    def test_a_job_that_somebody_cancels_is_begun_again(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        counted_experiment = _counted_experiment(
            log, f"test $(wc -l < {shlex.quote(str(log))}) -gt 1 || {_SLEEP}"
        )
        with self.executor(tmp_path / "zen", 2, options=self.options()) as place:
            future = place.submit(counted_experiment)
            until(lambda: log.exists() and log.read_text())
            system = self.executor.System(self.options())
            tasks = until(lambda: _alive_tasks(system, *_names(tmp_path)))
            for (_, number), jobs in tasks.items():
                system.cancel([(job.array, number) for job in jobs])
            assert future.result().status == "ok"
        assert log.read_text() == "run\n" * 2

    def test_a_setup_that_fails_is_an_error_of_the_place(self, tmp_path: Path) -> None:
        options = self.options(setup="echo loading\nno-such-module load gcc\ntrue")
        with self.executor(tmp_path / "zen", 2, options=options) as place:
            error = place.submit(experiment("true")).exception()
        assert isinstance(error, PlaceError)
        assert "the setup of the place failed" in str(error)
        assert "the setup failed at: no-such-module load gcc" in str(error)

    def test_what_runs_is_seen_from_outside(self, tmp_path: Path) -> None:
        log, options = tmp_path / "log", self.options()
        counted_experiment = _counted_experiment(log, _SLEEP)
        with self.executor(tmp_path / "zen", 2, options=options) as place:
            future = place.submit(counted_experiment)
            until(log.exists)
            orphans = self.executor.left(tmp_path / "zen", options)
            until(lambda: orphans.stages() == {counted_experiment.digest: "running"})
            assert orphans.cancel([counted_experiment.digest]) == 0  # its driver lives
            future.cancel()
            assert future.result().status == "cancelled"

    def test_what_was_not_forgotten_outlives_its_place(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        counted_experiment = _counted_experiment(log)
        for _ in range(2):
            with self.executor(tmp_path / "zen", 2, options=self.options()) as place:
                assert outcome(place, counted_experiment).status == "ok"
        assert log.read_text() == "run\n"


def _counted_experiment(log: Path, *commands: str) -> Experiment:
    """Return an experiment that leaves a mark each time that it runs."""
    return experiment(f"echo run >> {shlex.quote(str(log))}", *commands)


def _submit(system: BatchSystem[BatchOptions], session: Path, count: int, command: str) -> str:
    """Submit an array of tasks that each run *command*; return its number."""
    for folder in ("batches", "logs"):
        (session / folder).mkdir()
    head = system.head("zen-test", count, JobDemand(), session / "logs" / "zen-test")
    script = session / "batches" / "zen-test.sh"
    script.write_text("\n".join(["#!/bin/bash -l", *head, command, ""]))
    script.with_suffix(".list").write_text("digest\n" * count)
    return system.submit(script)


def _alive_tasks(
    system: BatchSystem[BatchOptions], *names: str
) -> Mapping[ArrayTask, list[BatchJob]]:
    """Return the tasks of arrays, of the test's own if none is named, that have not ended."""
    tasks = system.look(names or ["zen-test"])
    alive_tasks = {task: [job for job in jobs if not job.ended] for task, jobs in tasks.items()}
    return {task: jobs for task, jobs in alive_tasks.items() if jobs}


def _running_tasks(
    system: BatchSystem[BatchOptions], count: int
) -> Mapping[ArrayTask, list[BatchJob]]:
    """Return the test's tasks as soon as *count* of them run; nothing before."""
    alive_tasks = _alive_tasks(system)
    return (
        alive_tasks
        if sum(job.begun for jobs in alive_tasks.values() for job in jobs) == count
        else {}
    )


def _names(project: Path) -> list[str]:
    """Return the names of the arrays that places of the *project* submitted."""
    lists = (project / "zen" / "places").glob("*/session-*/batches/*.list")
    return [path.stem for path in lists]
