"""What became of a stream of workflows: how long each took, and what it suffered from others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zenturio.schedule.fairness import fairness_metrics, slowdown_quartiles, slowdowns
from zenturio.schedule.plan import Plan
from zenturio.schedule.plan_json import plan_facts
from zenturio.schedule.problem import Problem
from zenturio.schedule.stream import WorkflowStream
from zenturio.schedule.workflow import Floats

CountSeries = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StreamResult:
    """The workflows of *stream*, carried out as *plan* has it; NaN where tasks did not end."""

    stream: WorkflowStream
    plan: Plan
    alone: Floats
    """Seconds that each workflow would have taken if there were no other."""
    wasted: float = 0.0
    """Seconds of processors in runs that came to nothing."""

    @cached_property
    def ended(self) -> Floats:
        """When the last task of each workflow ended; NaN, if one of them did not."""
        return np.maximum.reduceat(self.plan.end, self.stream.first[:-1])

    @cached_property
    def left(self) -> list[str]:
        """The workflows that did not end."""
        pairs = zip(self.stream.submissions, self.ended, strict=True)
        return [each.name for each, end in pairs if np.isnan(end)]

    @property
    def makespan(self) -> float:
        """From time 0 to the end of all; infinite, if one did not."""
        return float("inf") if self.left else float(self.ended.max())

    @property
    def makespans(self) -> Floats:
        """From the arrival of each workflow to its end."""
        return self.ended - self.stream.arrivals

    @property
    def slowdowns(self) -> Floats:
        """The makespans of the workflows that ended, by what they would have been alone."""
        there = np.isfinite(self.ended)
        arrivals = self.stream.arrivals[there]
        return slowdowns(arrivals, self.ended[there], self.alone[there])

    @cached_property
    def lower_bound(self) -> float:
        """No policy makes an end of all earlier."""
        return stream_lower_bound(self.stream, self.plan.problem)

    @property
    def metrics(self) -> dict[str, float]:
        """All figures of the whole; none, unless all workflows ended."""
        if self.left:
            return {}
        found = self.slowdowns
        return {
            "makespan": self.makespan,
            "lower_bound": self.lower_bound,
            "excess": self.makespan / self.lower_bound - 1,
            "makespan_mean": float(self.makespans.mean()),
            **slowdown_quartiles(found),
            **fairness_metrics(found),
        }

    def workflows(self) -> tuple[Floats, CountSeries]:
        """How many workflows were there, from each time on at which that changed."""
        return _counts_over_time(self.stream.arrivals, self.ended)

    def ready(self) -> tuple[Floats, CountSeries]:
        """How many tasks waited for nothing but a processor and their data, from each time on."""
        flow = self.plan.problem.workflow
        since = self.stream.arrivals[self.stream.owner]
        with np.errstate(invalid="ignore"):  # NaN, where a task waits for one that did not end
            np.maximum.at(since, flow.targets, self.plan.end[flow.sources])
        return _counts_over_time(since, self.plan.start)

    def rows(self) -> Iterator[dict[str, Any]]:
        """What became of each workflow."""
        columns = (self.ended.tolist(), self.makespans.tolist(), self.alone.tolist())
        for each, end, makespan, alone in zip(self.stream.submissions, *columns, strict=True):
            known = (
                {"end": end, "makespan": makespan, "alone": alone, "slowdown": makespan / alone}
                if end == end  # noqa: PLR0124 - not NaN
                else {"end": None, "makespan": None, "alone": alone, "slowdown": None}
            )
            yield {
                "name": each.name,
                "workflow": each.workflow.name,
                "arrival": each.arrival,
                **known,
            }

    def facts(self) -> dict[str, Any]:
        """All that is known, as JSON has it."""
        whole = {} if self.left else plan_facts(self.plan)
        counts = {"workflows": self.workflows(), "ready": self.ready()}
        return {
            "algorithm": self.plan.algorithm,
            **whole,
            "makespan": None if self.left else self.makespan,
            "metrics": self.metrics,
            "wasted": self.wasted,
            "left": self.left,
            "workflows": list(self.rows()),
            "counts": {
                name: {"time": times.tolist(), "count": each.tolist()}
                for name, (times, each) in counts.items()
            },
        }


def stream_lower_bound(stream: WorkflowStream, problem: Problem) -> float:
    """A makespan that cannot be beaten: tasks as if they could be cut at will, or one workflow.

    What arrives from some time on cannot end before all machines together have done it; nor can a
    workflow before its longest way is through. Where machines differ in what they are good at,
    each counts by its mean speed; that is still a bound, for every task is taken at its best.
    """
    fits = np.isfinite(problem.pace)
    mean = np.where(fits, problem.pace, 0.0).sum(axis=0) / np.maximum(fits.sum(axis=0), 1)
    speed = np.divide(1.0, mean, out=np.zeros_like(mean), where=mean > 0)
    share = np.where(fits, problem.pace * (speed / speed.sum()), np.inf)
    least = problem.work * share.min(axis=1)[problem.row]
    load = np.bincount(stream.owner, least, len(stream))
    after = np.cumsum(load[::-1])[::-1]
    return float(max((stream.arrivals + after).max(), _latest_path_end(stream, problem)))


def _latest_path_end(stream: WorkflowStream, problem: Problem) -> float:
    """When the last workflow would end, each task on the machine where it is fastest."""
    from zenturio.schedule.listing import upward_ranks  # noqa: PLC0415 - loads Numba

    times = problem.work * problem.pace.min(axis=1)[problem.row]
    ways = upward_ranks(problem, times, np.zeros(len(problem.workflow.data)))
    return float((stream.arrivals[stream.owner] + ways).max())


def _counts_over_time(come: Floats, go: Floats) -> tuple[Floats, CountSeries]:
    """The times at which a number changes that grows with *come* and shrinks with *go*."""
    go = go[np.isfinite(go)]
    come = come[np.isfinite(come)]
    times, index = np.unique(np.concatenate([come, go]), return_inverse=True)
    change = np.repeat([1, -1], [len(come), len(go)])
    counts = np.cumsum(np.bincount(index, change, len(times)).astype(np.int64))
    kept = np.append(True, np.diff(counts) != 0)
    return times[kept], counts[kept]
