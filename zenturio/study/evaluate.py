"""A study of a Python function, run in this process: as cheap as recording allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from time import monotonic

from zenturio.errors import RecordError
from zenturio.execute import Inline
from zenturio.experiment import Experiment, Function, Outcome
from zenturio.experiment.provenance import provenance
from zenturio.record import Definition, Repository
from zenturio.record.driver import Driver
from zenturio.study.choose import Chosen
from zenturio.study.define import PROGRAM, fields_of, measured, open_version
from zenturio.study.progress import Failures, Progress, Summary
from zenturio.study.run import PLAIN

BATCH = 2000
"""Experiments that are looked up together, and committed together at the most."""
WAIT = 0.1
"""Seconds that an outcome waits for others at the most before it is committed."""


def evaluate(
    function: Function,
    points: Chosen,
    repository: Repository,
    *,
    name: str = "",
    listener: Callable[[Progress], None] = lambda _progress: None,
) -> Summary:
    """Call *function* at each of *points* that has no outcome yet, and remember what it answers.

    An interruption loses nothing that has ended; the same call goes on.
    """
    function.check(points.space)
    study = name or function.name
    open_version(repository, study, _definition(function, points))
    lease = repository.lease(study, Driver.here(), seconds=PLAIN.lease)
    run = _Evaluation(function, repository, study, lease.number, points, listener)
    beat = monotonic()
    try:
        for batch in _batches(points, function):
            run.evaluate(batch)
            if monotonic() - beat > PLAIN.lease / 3:
                lease, beat = repository.beat(lease), monotonic()
    finally:
        with suppress(RecordError):  # the first error is the one to tell
            repository.leave(lease)
    return run.summary()


def _definition(function: Function, points: Chosen) -> Definition:
    return Definition(
        parameters=fields_of(points.space, function.repeat),
        metrics=measured(),
        provenance=provenance(Path.cwd()),
        notes={
            "function": function.source,
            PROGRAM: {f"{function.name}()": blake2b(function.source.encode()).hexdigest()},
            "repeat": function.repeat.count,
            "constraints": [each.text for each in points.space.constraints],
            "experiments": points.count * function.repeat.count,
        },
    )


def _batches(points: Chosen, function: Function) -> Iterator[list[Experiment]]:
    experiments = (
        experiment
        for index, point in points.numbered()
        for experiment in function.experiments(point.plain(), index)
    )
    while batch := list(islice(experiments, BATCH)):
        yield batch


class _Evaluation:
    """One run of a function over its points."""

    def __init__(
        self,
        function: Function,
        repository: Repository,
        study: str,
        driver: int,
        points: Chosen,
        listener: Callable[[Progress], None],
    ) -> None:
        self._place = Inline(function)
        self._repository = repository
        self._study = study
        self._driver = driver
        self._total = points.count * function.repeat.count
        self._listener = listener
        self._began = monotonic()
        self._flushed = self._began
        self._done: list[tuple[Experiment, Outcome]] = []
        self._known = self._ok = self._failed = 0
        self._failures: dict[str, Failures] = {}

    def evaluate(self, batch: list[Experiment]) -> None:
        """Call the function for those of *batch* that have no outcome yet."""
        known = self._repository.find([each.digest for each in batch])
        if known:
            self._repository.add(self._study, [each for each in batch if each.digest in known])
            self._known += len(known)
        try:
            for experiment in batch:
                if experiment.digest in known:
                    self._count(experiment, known[experiment.digest], new=False)
                    continue
                self._done.append((experiment, self._place.call(experiment)))
                if monotonic() - self._flushed > WAIT:
                    self._flush()
        finally:
            self._flush()

    def _flush(self) -> None:
        done, self._done = self._done, []
        if done:
            self._repository.enter(self._study, self._driver, done)
            for experiment, outcome in done:
                self._count(experiment, outcome, new=True)
        self._flushed = monotonic()
        self._tell()

    def _count(self, experiment: Experiment, outcome: Outcome, *, new: bool) -> None:
        if outcome.status == "ok":
            self._ok += new
            return
        self._failed += new
        cause = outcome.cause or outcome.status
        seen = self._failures.get(cause)
        count = seen.count + 1 if seen else 1
        shown = seen or Failures(cause, 1, experiment.digest, experiment.values)
        self._failures[cause] = Failures(cause, count, shown.digest, shown.values)

    def _tell(self) -> None:
        ended = self._ok + self._failed
        passed = self._flushed - self._began
        rate = ended / passed if passed > 0 else 0.0
        left = self._total - self._known - ended
        seconds = left / rate if rate > 0 else None
        self._listener(Progress(self._total, self._known, self._ok, self._failed, 0, rate, seconds))

    def summary(self) -> Summary:
        """How it ended."""
        return Summary(
            self._study,
            self._total,
            self._known,
            self._ok,
            self._failed,
            self._total - self._known - self._ok - self._failed,
            monotonic() - self._began,
            failures=tuple(sorted(self._failures.values(), key=lambda each: -each.count)),
        )
