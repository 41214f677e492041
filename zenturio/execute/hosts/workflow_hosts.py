"""
A workflow on real hosts: what the simulator plays with numbers, played with processes.

Policies see the same grid: they send tasks, cancel them, and are asked whenever something happens.
Here the time is that of the clock, a task that starts is an experiment at its host, it ends when
that does, and how far it is its profile tells. A machine gives the share of its speed at which its
tasks are seen to go on; where none tells, it is taken to be whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from heapq import heappop, heappush
from itertools import count
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from numpy.typing import ArrayLike

from zenturio.errors import ExperimentsFailed, PlaceError
from zenturio.execute.hosts.executor import Hosts
from zenturio.execute.hosts.progress_profile import ProgressProfile
from zenturio.experiment import Experiment, Log, Outcome
from zenturio.schedule.model.platform import Platform, PlatformMachine
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.simulate.machine_state import MachineState
from zenturio.schedule.simulate.trace import TraceEvent

POLL_SECONDS = 0.1
"""Seconds between two looks at hosts, and at how far tasks are."""
CHANGE_FRACTION = 0.25
"""By which part the share of a machine has to be another one to be told."""
_SHOWN_LINES = 10
"""Lines that are told of a task that failed."""
MakeExperiment = Callable[[int, str], Experiment]
"""The experiment of a task at a host."""


def platform_of(place: Hosts) -> Platform:
    """Return the hosts that are up, as machines."""
    machines = [
        PlatformMachine(host.name, float(speed), host.slots)
        for host in place.hosts
        if host.up and isinstance(speed := host.facts.get("speed"), int | float) and speed > 0
    ]
    if not machines:
        raise PlaceError("no connected host has a known speed")
    return Platform("hosts", tuple(machines))


class WorkflowHosts(MachineState):
    """The machines of a place, as they are now."""

    def __init__(
        self, problem: Problem, place: Hosts, make: MakeExperiment, forward: ArrayLike | None = None
    ) -> None:
        super().__init__(problem, None, forward)
        self.outcomes: dict[int, Outcome] = {}
        """What came of each task, the last time that it was run."""
        self._place = place
        self._make = make
        self._begun = monotonic()
        self._names = [machine.name for machine in problem.platform.machines]
        self._jobs: dict[int, Future[Outcome]] = {}
        """What runs on each processor."""
        self._back: SimpleQueue[tuple[int, int, Future[Outcome]]] = SimpleQueue()
        self._numbers = count(1)
        self._alarms: list[float] = []
        self._looked = 0.0
        self._lost: dict[int, float] = {}
        """Since when a machine has been gone."""

    def moments(self) -> Iterator[list[TraceEvent]]:
        """Wait for things to happen, and tell them, until all is done or nothing is left."""
        self._tell("began")
        while True:
            self.now = monotonic() - self._begun
            if self._news:
                events, self._news = self._news, []
                yield events
            stirred, self._stirred = sorted(self._stirred), set()
            for processor in stirred:
                self._start(processor)
            if self._news or self._stirred:
                continue
            if not self._open or not (self._jobs or self._alarms):
                return
            self._wait()

    def close(self) -> None:
        """End what runs."""
        for future in self._jobs.values():
            future.cancel()

    def wake(self, time: float) -> None:
        heappush(self._alarms, max(time, self.now + POLL_SECONDS))

    def remaining(self, task: int) -> float:
        """By the task's own profile; by the clock, if it has none."""
        processor = self.where[task]
        whole = self.time(task, processor)
        profile = self._profile(processor)
        if profile is not None and profile.of:
            return whole * (1 - min(profile.iteration / profile.of, 1.0))
        return super().remaining(task)

    def _wait(self) -> None:
        """Until something ends, somebody is to be woken, or it is time for a look."""
        soon = self._alarms[0] - (monotonic() - self._begun) if self._alarms else POLL_SECONDS
        try:
            ended = [self._back.get(timeout=max(min(soon, POLL_SECONDS), 0.0))]
        except Empty:
            ended = []
        while not self._back.empty():
            ended.append(self._back.get_nowait())
        self.now = monotonic() - self._begun
        for processor, number, future in ended:
            run = self.running[processor]
            if run and run.number == number:
                self._heard(processor, future)
        if self._alarms and self._alarms[0] <= self.now:
            while self._alarms and self._alarms[0] <= self.now:
                heappop(self._alarms)
            self._tell("woke")
        self._spare(self.now - self._looked)
        self._looked = self.now
        for machine in range(len(self._names)):
            self._look(machine)

    def _spare(self, seconds: float) -> None:
        """Tasks that are on their way, there or back, do not run: they begin as much later."""
        for processor, job in self._jobs.items():
            run = self.running[processor]
            if run is not None and not getattr(job, "runs", True):
                run.start = min(run.start + seconds, self.now)
                run.since = run.start

    def _heard(self, processor: int, future: Future[Outcome]) -> None:
        run = self.running[processor]
        assert run is not None
        outcome = future.result()
        if outcome.status != "ok":
            self._place.forget(outcome.digest)  # who runs it again wants another try
            last_lines = _last_lines(outcome.stderr) or _last_lines(outcome.stdout)
            raise ExperimentsFailed(
                f"task {self._name(run.task)} on {outcome.host}: {outcome.cause}",
                hint="" if last_lines in outcome.cause else last_lines,
            )
        self.outcomes[run.task] = outcome
        self._end(processor)

    def _look(self, machine: int) -> None:
        """Whether a machine is there, and how fast its tasks go on."""
        host = self._place.host(self._names[machine])
        gone = host is None or not host.up
        if not gone:
            self._lost.pop(machine, None)
            self._changes(machine, self._seen(machine))
        elif self.now > self._lost.setdefault(machine, self.now) + self._place.options.patience:
            self._changes(machine, 0.0)

    def _seen(self, machine: int) -> float:
        """Return the share of its speed that the tasks of a machine tell of.

        What it was, if none does.
        """
        shares = [self.share[machine]] if self.share[machine] else [1.0]
        for processor in self._costs.processors[machine]:
            run, profile = self.running[processor], self._profile(processor)
            if run is not None and profile is not None and profile.of and profile.now:
                expected = self.time(run.task, processor) / profile.of
                shares.append(min(expected / profile.now, 1.0))
        return max(shares[1:], default=shares[0])

    def _profile(self, processor: int) -> ProgressProfile | None:
        profile = getattr(self._jobs.get(processor), "profile", None)
        return profile if isinstance(profile, ProgressProfile) else None

    def _changes(self, machine: int, share: float) -> None:
        before = self.share[machine]
        if share == before or (
            share and before and abs(share - before) <= CHANGE_FRACTION * before
        ):
            return
        self.share[machine] = share
        kind: Any = "load" if share and before else "back" if share else "failed"
        self._tell(kind, machine=machine, share=share)
        for processor in self._costs.processors[machine]:
            if not share and self.running[processor]:
                self._tell("lost", self._stop(processor, "lost"), machine)
            self._stirred.add(processor)

    # What the simulator foresees, and here is done.

    def _foresee(self, processor: int) -> None:
        run = self.running[processor]
        assert run is not None
        run.number = number = next(self._numbers)
        experiment = self._make(run.task, self._names[self.node[processor]])
        future = self._jobs[processor] = self._place.submit(experiment)
        future.add_done_callback(lambda done: self._back.put((processor, number, done)))

    def _stop(self, processor: int, kind: Any) -> int:
        future = self._jobs.pop(processor)
        if kind != "ended":
            future.cancel()
        return super()._stop(processor, kind)

    def _arrival(self, task: int, processor: int, ready: float) -> float:  # noqa: ARG002
        """Data are here, and go with the task."""
        return ready

    def _await_step(self, machine: int) -> None:
        """Nobody knows what is to come."""


def _last_lines(log: Log) -> str:
    """Return the last lines of what a task said."""
    text = (log.head + log.tail).decode("utf-8", "replace")
    return "\n".join(text.splitlines()[-_SHOWN_LINES:])
