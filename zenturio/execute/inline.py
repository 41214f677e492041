"""Python functions as experiments, run in this process: no folder, no process, no limits."""

from __future__ import annotations

import platform
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from time import perf_counter, thread_time, time
from typing import Any

from zenturio.execute.function_metrics import measure_of, metrics_of
from zenturio.execute.machines import own_machine, own_machine_parts
from zenturio.experiment import (
    Evidence,
    Experiment,
    ExperimentFunction,
    Log,
    MetricReader,
    MetricValue,
    Missing,
    Outcome,
)

_PLAIN_TYPES = frozenset({int, float, str, bool})
_NO_SIZE = Missing("it ran inside the driver, whose memory use is not that of the experiment")
_EMPTY = Log()


class Inline:
    """Calls *function* for each experiment with its values; its answer is the metrics.

    The answer is a dict, a number (the metric ``value``) or None. An exception is an outcome: its
    type is the cause, and the traceback stands in stderr.
    """

    slots = 1

    def __init__(self, function: ExperimentFunction | Callable[..., Any]) -> None:
        self._function = (
            function if isinstance(function, ExperimentFunction) else ExperimentFunction(function)
        )
        self._meter = MetricReader(self._function.recipe) if self._function.recipe.metrics else None
        self._host = platform.node()
        self.machine = own_machine()
        self._machine_parts = own_machine_parts()

    def submit(self, experiment: Experiment) -> Future[Outcome]:
        """Run it at once, in the calling thread."""
        future: Future[Outcome] = Future()
        future.set_running_or_notify_cancel()
        future.set_result(self.call(experiment))
        return future

    def close(self) -> None:
        """Nothing runs and nothing is held: there is nothing to release."""

    def call(self, experiment: Experiment) -> Outcome:
        """Run it without a future: the cheapest way for very many."""
        values = self._arguments(experiment.values)
        # Wall time from a monotonic clock, the start from the calendar: the latter may be set back.
        started, clock, cpu = time(), perf_counter(), thread_time()
        try:
            answer = self._function.function(**values)
            wall, used = perf_counter() - clock, thread_time() - cpu
            metrics: dict[str, MetricValue] = {
                "wtime": wall,
                "ctime": used,
                "maxrss": _NO_SIZE,
                "exit": 0,
            }
            if type(answer) is dict:
                for name, value in answer.items():
                    metrics[name] = value if type(value) in _PLAIN_TYPES else measure_of(value)
            elif answer is not None:
                metrics.update(metrics_of(answer))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - what the function raises is an outcome
            return self._failed(experiment, error, started, perf_counter() - clock)
        cause = ""
        if self._meter is not None:
            metrics = self._meter.measure(experiment.values, Evidence(usage=metrics))
            cause = self._meter.lacking(metrics)
        return Outcome(
            experiment.digest,
            "failed" if cause else "ok",
            cause,
            metrics,
            1,
            self._host,
            started,
            started + wall,
            0,
            _EMPTY,
            _EMPTY,
            **self._machine_parts,
        )

    def _arguments(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the values that the function takes.

        A parameter it does not know is none of its.
        """
        names = self._function.arguments
        if self._function.takes_all or values.keys() <= names:
            return values
        return {name: values[name] for name in names if name in values}

    def _failed(
        self, experiment: Experiment, error: BaseException, started: float, wall: float
    ) -> Outcome:
        text = "".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace")
        metrics: dict[str, MetricValue] = {"wtime": wall, "maxrss": _NO_SIZE, "exit": 1}
        return Outcome(
            experiment.digest,
            "failed",
            type(error).__name__,
            metrics,
            host=self._host,
            started=started,
            ended=started + wall,
            exit=1,
            stderr=Log(text, b"", len(text)),
            **self._machine_parts,
        )
