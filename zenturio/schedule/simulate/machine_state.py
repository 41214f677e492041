"""The state of the machines while a workflow is simulated, and the rules of execution.

The rules are those of a plan. A processor runs the tasks sent to it one at a time, in the order in
which they were sent; a machine that tasks share starts them in this order, as soon as there is room
for the next. A task starts when its processor is free, its predecessors have ended and
their data have arrived; data leave when the predecessor has ended and the destination is known.
When a machine's load changes, its tasks get another share of its speed from then on. When a machine
fails, its running tasks are lost and wait to be sent again; results of finished tasks are stored
elsewhere and survive. Where links have a capacity, transfers share them (`network`).
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count, pairwise
from math import inf, isfinite
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zenturio.errors import InputError
from zenturio.schedule.model.loops import Loop
from zenturio.schedule.model.platform import LoadStep, PlatformMachine
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.shared_resources import Occupancy
from zenturio.schedule.simulate.network import SharedNetwork
from zenturio.schedule.simulate.trace import EventKind, TaskRun, TraceEvent

TASK_ENDS, LOAD_CHANGES, TASK_ARRIVES, DATA_ARRIVE, POLICY_WAKES = range(5)
"""Kinds of events; at one moment, a task ends before its machine fails."""
_NETWORK = -1
"""Subject of the event at which a transfer on shared links starts or ends."""
MAX_IDLE_WAKES = 10_000
"""How often in a row a policy may wake up while no other event is pending."""


class EventQueue:
    """Pending events by time, kind and order of insertion."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, int, int]] = []
        self._counter = count()
        self._awaited = 0
        self._idle = 0

    @property
    def over(self) -> bool:
        """Whether no events are pending, or only wake-ups again and again."""
        return not self._heap or self._idle >= MAX_IDLE_WAKES

    def put(self, time: float, kind: int, subject: int) -> int:
        """Schedule an event for *subject*, and return its unique number."""
        number = next(self._counter)
        heappush(self._heap, (time, kind, number, subject))
        self._awaited += kind != POLICY_WAKES
        return number

    @property
    def next(self) -> float:
        """The time of the next event."""
        return self._heap[0][0]

    def moment(self) -> Iterator[tuple[int, int, int]]:
        """Remove and yield kind, number and subject of all events at the next time."""
        # A policy that only wakes itself up would keep the simulation running for ever.
        self._idle = 0 if self._awaited else self._idle + 1
        now = self.next
        while self._heap and self._heap[0][0] == now:
            _, kind, number, subject = heappop(self._heap)
            self._awaited -= kind != POLICY_WAKES
            yield kind, number, subject


class NeighbourEdges:
    """For each task, its neighbours on one side and the bytes of each edge.

    Packed, for a list of pairs takes ten times the memory, and there may be 10^6 tasks.
    """

    def __init__(
        self,
        tasks: int,
        owners: NDArray[np.int32],
        neighbours: NDArray[np.int32],
        data: NDArray[np.float64],
    ) -> None:
        order = np.argsort(owners, kind="stable")
        starts = np.searchsorted(owners[order], np.arange(tasks + 1))
        self._start = array("q", starts.astype(np.int64).tobytes())
        self._neighbours = array("q", neighbours[order].astype(np.int64).tobytes())
        self._data = array("d", data[order].astype(np.float64).tobytes())

    def counts(self) -> list[int]:
        """Return how many each task has."""
        return [last - first for first, last in pairwise(self._start)]

    def of(self, task: int) -> Iterator[tuple[int, float]]:
        """Yield the neighbours of *task*, in the order of the edges."""
        edges = slice(self._start[task], self._start[task + 1])
        return zip(self._neighbours[edges], self._data[edges], strict=True)


class TaskCosts:
    """A problem as plain lists, which are faster than NumPy's arrays for single lookups."""

    def __init__(self, problem: Problem, forward: ArrayLike | None = None) -> None:
        flow = problem.workflow
        mask = np.ones(len(flow.data), bool) if forward is None else np.asarray(forward, bool)
        if len(mask) != len(flow.data):
            raise InputError(f"forward has {len(mask)} values for {len(flow.data)} edges")
        sources, targets, data = flow.sources[mask], flow.targets[mask], flow.data[mask]
        self.before = NeighbourEdges(problem.tasks, targets, sources, data)
        self.after = NeighbourEdges(problem.tasks, sources, targets, data)
        self.steps = [_checked_load(machine) for machine in problem.platform.machines]
        self.processors: list[list[int]] = [[] for _ in problem.platform.machines]
        """Of each machine."""
        for processor, machine in enumerate(problem.node.tolist()):
            self.processors[machine].append(processor)
        self._work: list[float] = problem.work.tolist()
        self._row: list[int] = problem.row.tolist()
        self._pace: list[list[float]] = problem.pace.tolist()
        self._node: list[int] = problem.node.tolist()
        self._site: list[int] = problem.site.tolist()
        self._latency: list[list[float]] = problem.latency.tolist()
        self._slowness: list[list[float]] = problem.slowness.tolist()

    def run(self, task: int, processor: int) -> float:
        """Return the seconds of *task* on *processor* at full speed."""
        return self._work[task] * self._pace[self._row[task]][processor]

    def transfer(self, data: float, a: int, b: int) -> float:
        """Return the seconds that *data* bytes take from processor *a* to *b*."""
        if self._node[a] == self._node[b]:
            return 0.0
        source_site, target_site = self._site[a], self._site[b]
        return (
            self._latency[source_site][target_site]
            + data * self._slowness[source_site][target_site]
        )


def _checked_load(machine: PlatformMachine) -> tuple[LoadStep, ...]:
    """Return the load steps of *machine*; InputError if they are invalid or not in order."""
    for step in machine.load:
        if not (isfinite(step.time) and isfinite(step.share) and step.share >= 0):
            raise InputError(
                f"machine {machine.name!r} has a load of {step.share} from {step.time} s on: "
                "a share of its speed, 0 or more, from a time on"
            )
    for earlier, later in pairwise(machine.load):
        if earlier.time > later.time:
            raise InputError(f"the loads of machine {machine.name!r} are not in their order")
    return machine.load


TaskState = Literal["unknown", "waiting", "sent", "running", "done"]
"""``unknown``: not arrived; ``waiting``: to be sent, for the first time or again."""


@dataclass(slots=True)
class RunningTask:
    """A running task with *left* seconds of full-speed work as of time *since*."""

    task: int
    start: float
    since: float
    left: float
    number: int
    """Number of the event that ends it."""


class Policy(Protocol):
    """A scheduler that is called at each event and acts on the machines: send, cancel, wake.

    It must not look into the loads of the platform, which are the future.
    """

    def react(self, grid: MachineState, events: Sequence[TraceEvent]) -> None:
        """React to *events*, all that happened at ``grid.now``; the first call gets "began"."""
        ...


class MachineState:
    """The machines at the time ``now``: what a policy sees and controls."""

    def __init__(
        self, problem: Problem, arrivals: ArrayLike | None = None, forward: ArrayLike | None = None
    ) -> None:
        tasks, processors = problem.tasks, problem.processors
        self.problem = problem
        self.now = 0.0
        self.state: list[TaskState] = ["waiting"] * tasks
        self.where = [-1] * tasks
        """The processor that each task was sent to; -1, if it was not."""
        self.ended = [0.0] * tasks
        """When each task that is done ended."""
        self.share = [1.0] * len(problem.platform)
        """What each machine gives its tasks of its speed."""
        self.queue: list[deque[int]] = [deque() for _ in range(processors)]
        """The tasks that wait on each processor, the next one first."""
        self.aside: list[list[int]] = [[] for _ in range(processors)]
        """Those of no length that wait beside it."""
        self.running: list[list[RunningTask]] = [[] for _ in range(processors)]
        """The tasks that run on each processor: one at most, unless tasks share machines."""
        self.booted: list[float | None] = [None] * processors
        """When each machine that tasks share has booted, or will have; None if it is off."""
        self.node: list[int] = problem.node.tolist()
        """The machine that each processor is of."""
        self.skipped: set[int] = set()
        """The tasks that are done without having run, because of an exit code."""
        self.exit: dict[int, int] = {}
        """The exit codes of tasks, where they are not 0."""
        self._branches = problem.workflow.branches
        self.notes: dict[str, Any] = {}
        """What a policy tells of itself, for the trace."""
        self.runs: list[TaskRun] = []
        self.events: list[TraceEvent] = []
        self._costs = TaskCosts(problem, forward)
        self._waits = self._costs.before.counts()
        self._sent = [0.0] * tasks
        self._carried: dict[int, list[tuple[float, int, float]]] = {}
        self._agenda = EventQueue()
        self._steps = [iter(steps) for steps in self._costs.steps]
        self._next: list[LoadStep | None] = [None] * len(problem.platform)
        self._news: list[TraceEvent] = []
        self._stirred: set[int] = set()
        self._open = tasks
        self._resources = problem.resources
        self._network = (
            SharedNetwork(problem.platform) if SharedNetwork.is_needed(problem.platform) else None
        )
        self._inputs = [0] * tasks
        """How many transfers to each task are under way."""
        self._expect(arrivals)
        for machine in range(len(problem.platform)):
            self._await_step(machine)

    def moments(self) -> Iterator[list[TraceEvent]]:
        """Run the simulation, yielding the events of each moment, until it is over."""
        self._tell("began")
        while True:
            if self._news:
                events, self._news = self._news, []
                yield events
            processors, self._stirred = sorted(self._stirred), set()
            for processor in processors:
                self._start(processor)
            if self._news or self._stirred:  # a task of no length has ended
                continue
            if self._network is not None:
                change = self._network.next_change(self.now)
                if isfinite(change):
                    self._agenda.put(change, DATA_ARRIVE, _NETWORK)
            if not self._open or self._agenda.over:
                return
            self.now = self._agenda.next
            for kind, number, subject in self._agenda.moment():
                self._happens(kind, number, subject)

    # Actions of a policy

    def send(self, task: int, processor: int, *, first: bool = False) -> None:
        """Append a waiting *task* to a processor's queue, or insert it before the others.

        Raise InputError if it is not waiting, or cannot run there.
        """
        self._may(task, processor)
        self.queue[processor].insert(0 if first else len(self.queue[processor]), task)
        self._sent_to(task, processor)

    def place(self, task: int, processor: int) -> None:
        """Send *task* as `send` does; a task of zero length waits for its data only.

        It delays no other task, as in a plan (`plan.check`).
        """
        if self.time(task, processor) > 0:
            self.send(task, processor)
            return
        self._may(task, processor)
        self.aside[processor].append(task)
        self._sent_to(task, processor)

    def _may(self, task: int, processor: int) -> None:
        self._must(task, "waiting", "cannot be sent")
        if not isfinite(self.time(task, processor)):
            machine = self.problem.platform.machines[self.node[processor]].name
            raise InputError(f"task {self._name(task)} cannot run on {machine}")

    def _sent_to(self, task: int, processor: int) -> None:
        self.state[task], self.where[task], self._sent[task] = "sent", processor, self.now
        self._stirred.add(processor)
        if self._resources is not None and self.booted[processor] is None:
            self.booted[processor] = self.now + float(self._resources.boot[processor])
        if self._network is not None and not self._is_staged(task):
            self._fetch_inputs(task)

    def cancel(self, task: int) -> None:
        """Remove *task* from its queue or kill it; its progress is lost, and it waits again."""
        processor = self.where[task]
        if self.state[task] == "sent":
            queue = (
                self.queue[processor] if task in self.queue[processor] else self.aside[processor]
            )
            queue.remove(task)
            self.state[task], self.where[task] = "waiting", -1
            self._drop_inputs(task)
        else:
            self._must(task, "running", "cannot be cancelled")
            self._stop(self.run(task), "cancelled")
        self._tell("cancelled", task, news=False)
        self._stirred.add(processor)

    def again(self, task: int) -> None:
        """Make a finished *task* wait to run once more: in a loop, or for lost data."""
        self._must(task, "done", "cannot be run again")
        self.state[task], self.where[task] = "waiting", -1
        self.skipped.discard(task)
        self._open += 1
        # Its successors wait for the new run, sent ones included.
        for other, _ in self._costs.after.of(task):
            self.hold(other)

    def repeat(self, loop: Loop) -> TraceEvent:
        """Start another iteration of *loop*, whose tasks are all done.

        The output of its last tasks goes to the first.
        """
        flow = self.problem.workflow
        ends = [(int(flow.sources[edge]), float(flow.data[edge])) for edge in loop.closing]
        # No edge says this: the closing edges of a loop are left out of its graph, or it had no
        # order.
        self._carried[loop.first] = [(self.ended[a], self.where[a], data) for a, data in ends]
        for task in loop.tasks:
            self.again(task)
        return self._tell("again", loop.first, news=False)

    def arrange(self, processor: int, tasks: Iterable[int]) -> None:
        """Reorder the tasks that wait on *processor*; InputError if *tasks* are not those."""
        queue = deque(tasks)
        if sorted(queue) != sorted(self.queue[processor]):
            raise InputError(f"processor {processor} has other tasks to arrange")
        self.queue[processor] = queue
        self._stirred.add(processor)

    def hold(self, task: int) -> None:
        """Make *task* wait for one more condition, until `release` is called."""
        self._waits[task] += 1

    def release(self, task: int) -> None:
        """Remove one condition that *task* waits for."""
        # Held tasks may be sent already: they start once nothing holds them.
        self._waits[task] -= 1
        if not self._waits[task] and self.state[task] == "sent":
            self._stirred.add(self.where[task])

    def wake(self, time: float) -> None:
        """Schedule a call of the policy at *time*."""
        self._agenda.put(max(time, self.now), POLICY_WAKES, 0)

    # Views of a policy

    def ready(self) -> list[int]:
        """Return the waiting tasks whose predecessors have all ended."""
        states = enumerate(self.state)
        return [task for task, state in states if state == "waiting" and not self._waits[task]]

    def up(self, processor: int) -> bool:
        """Return whether the machine of *processor* has not failed."""
        return self.share[self.node[processor]] > 0

    def idle(self, processor: int) -> bool:
        """Return whether *processor* is up, runs nothing, and has an empty queue."""
        return self.up(processor) and not (self.running[processor] or self.queue[processor])

    def has_room(self, task: int, processor: int) -> bool:
        """Return whether *processor* is up and could run *task* beside all that was sent there."""
        if self._resources is None:
            return self.idle(processor)
        return self.up(processor) and self._fits(task, processor, self.queue[processor])

    def room_at(self, task: int, processor: int) -> float:
        """Return when *processor* would have room for *task*, after all that was sent there."""
        if self._resources is None or not self.up(processor):
            return self.free_at(processor)
        share = self.share[self.node[processor]]
        placed = Occupancy(self._resources)
        for run in self.running[processor]:
            placed.place(run.task, processor, self.now, self.now + self.remaining(run.task) / share)
        begin = max(self.now, self.booted[processor] or 0.0)
        for queued in self.queue[processor]:
            arrival = self._arrival(queued, processor, self._sent[queued])
            length = self.time(queued, processor) / share
            begin = placed.earliest(queued, processor, max(begin, arrival), length)
            placed.place(queued, processor, begin, begin + length)
        if self.booted[processor] is None:
            begin = self.now + float(self._resources.boot[processor])
        return placed.earliest(task, processor, begin, self.time(task, processor) / share)

    def left(self) -> Iterator[int]:
        """Yield the tasks that are not done."""
        return (task for task, state in enumerate(self.state) if state != "done")

    def time(self, task: int, processor: int) -> float:
        """Return the seconds of *task* on *processor* at full speed."""
        return self._costs.run(task, processor)

    def run(self, task: int) -> RunningTask:
        """Return the run of *task*, which must be running."""
        self._must(task, "running", "has no progress")
        return next(run for run in self.running[self.where[task]] if run.task == task)

    def remaining(self, task: int) -> float:
        """Return the seconds at full speed that *task* still needs."""
        run = self.run(task)
        share = self.share[self.node[self.where[task]]]
        # A task whose inputs are still arriving computes since a time to come.
        return max(run.left - max(self.now - run.since, 0.0) * share, 0.0)

    def progress(self, task: int) -> float:
        """Return the share of its work that *task* has done, from 0 to 1."""
        if self.state[task] != "running":
            return float(self.state[task] == "done")
        total = self.time(task, self.where[task])
        return 1 - self.remaining(task) / total if total else 1.0

    def arrival(self, task: int, processor: int) -> float:
        """Return when the data of *task*, sent now, would arrive, as far as they exist.

        If it waits there already, its data are on their way.
        """
        is_queued_there = self.state[task] == "sent" and self.where[task] == processor
        return self._arrival(task, processor, self._sent[task] if is_queued_there else self.now)

    def transfer(self, data: float, source: int, target: int) -> float:
        """Return the seconds that *data* bytes take between two processors."""
        return self._costs.transfer(data, source, target)

    def free_at(self, processor: int) -> float:
        """Return when *processor* would finish all its tasks if its load stayed as it is."""
        if not self.up(processor):
            return inf
        backlog = sum(self.time(task, processor) for task in self.queue[processor])
        backlog += sum(self.remaining(run.task) for run in self.running[processor])
        return self.now + backlog / self.share[self.node[processor]]

    def finish(self, task: int, processor: int) -> float:
        """Return when *task*, sent now, would end on *processor* if its load stayed as it is."""
        if not self.up(processor):
            return inf
        begin = max(self.room_at(task, processor), self.arrival(task, processor))
        return begin + self.time(task, processor) / self.share[self.node[processor]]

    # Events

    def _happens(self, kind: int, number: int, subject: int) -> None:
        # An end is void if the task was lost, cancelled or rescheduled since: then its number
        # differs.
        if kind == TASK_ENDS:
            for run in [run for run in self.running[subject] if run.number == number]:
                self._end(run)
        elif kind == LOAD_CHANGES:
            self._step(subject)
        elif kind == TASK_ARRIVES:
            self.state[subject] = "waiting"
            self._tell("arrived", subject)
        elif kind == DATA_ARRIVE and subject == _NETWORK:
            self._receive()
        elif kind == DATA_ARRIVE:
            self._stirred.add(subject)
        else:
            self._tell("woke")

    def _start(self, processor: int) -> None:
        """Start the next task of *processor* if possible, and finish those of zero length."""
        if self.aside[processor] and self.up(processor):
            self._pass(processor)
        while self._start_first(processor):
            pass

    def _start_first(self, processor: int) -> bool:
        """Start the first task of the queue of *processor*, and return whether it could start."""
        queue = self.queue[processor]
        if not queue or self._waits[queue[0]] or not self.up(processor):
            return False
        task = queue[0]
        if not self._fits(task, processor):
            return False
        staged = self._is_staged(task)
        begin = self.booted[processor] or 0.0
        if not staged:
            begin = max(begin, self._inputs_here(task, processor))
        # Data are still on their way, or the machine boots: look again when they are there.
        if begin > self.now:
            if isfinite(begin):
                self._agenda.put(begin, DATA_ARRIVE, processor)
            return False
        queue.popleft()
        self.state[task] = "running"
        run = RunningTask(task, self.now, self.now, self.time(task, processor), 0)
        self.running[processor].append(run)
        self._tell("started", task, self.node[processor], news=False)
        if staged:
            self._sent[task] = self.now
            if self._network is not None:
                self._fetch_inputs(task)
            run.since = self._inputs_here(task, processor)
        if isfinite(run.since):
            self._foresee(run, processor)
        return True

    def _fits(self, task: int, processor: int, queued: Iterable[int] = ()) -> bool:
        """Return whether *processor* has room for *task* beside what runs there, and *queued*."""
        tasks = [*(run.task for run in self.running[processor]), *queued]
        if self._resources is None or not tasks:
            return not tasks
        need = self._resources.need
        return self._resources.fits(need[[task, *tasks]].sum(axis=0), processor)

    # Transfers

    def _is_staged(self, task: int) -> bool:
        """Return whether *task* holds its resources while its inputs arrive."""
        return self.problem.staged and self.problem.work[task] > 0

    def _inputs_here(self, task: int, processor: int) -> float:
        """Return when all inputs of *task* are on *processor*; infinite if that is not known."""
        if self._network is None:
            return self._arrival(task, processor, self._sent[task])
        return inf if self._inputs[task] else self._sent[task]

    def _fetch_inputs(self, task: int) -> None:
        """Start the transfers of all inputs of *task* that exist."""
        for other, data in self._costs.before.of(task):
            if self.state[other] == "done" and other not in self.skipped:
                self._fetch(task, other, self.where[other], data)
        for number, (_, place, data) in enumerate(self._carried.get(task, ())):
            self._fetch(task, -1 - number, place, data)

    def _fetch(self, task: int, origin: int, place: int, data: float) -> None:
        source, target = self.node[place], self.node[self.where[task]]
        if source != target:
            assert self._network is not None
            self._network.start((task, origin), data, source, target, self.now)
            self._inputs[task] += 1

    def _drop_inputs(self, task: int) -> None:
        """Stop the transfers to *task*: its data go elsewhere, or are fetched again."""
        if self._network is None:
            return
        for other, _ in self._costs.before.of(task):
            self._network.stop((task, other))
        for number in range(len(self._carried.get(task, ()))):
            self._network.stop((task, -1 - number))
        self._inputs[task] = 0

    def _receive(self) -> None:
        """Count the transfers that have ended, and start what waited for them."""
        assert self._network is not None
        for key in self._network.completed(self.now):
            assert isinstance(key, tuple)
            task = key[0]
            self._inputs[task] -= 1
            processor = self.where[task]
            self._stirred.add(processor)
            if self.state[task] == "running" and not self._inputs[task]:
                run = self.run(task)
                run.since = self.now
                self._foresee(run, processor)

    def _pass(self, processor: int) -> None:
        """Run the tasks of zero length on *processor* whose data have arrived."""
        for task in [task for task in self.aside[processor] if not self._waits[task]]:
            begin = max(self._inputs_here(task, processor), self.booted[processor] or 0.0)
            if begin > self.now:
                if isfinite(begin):
                    self._agenda.put(begin, DATA_ARRIVE, processor)
                continue
            self.aside[processor].remove(task)
            self._tell("started", task, self.node[processor], news=False)
            self.runs.append(TaskRun(task, processor, self.now, self.now))
            self._done(task, processor)

    def _foresee(self, run: RunningTask, processor: int) -> None:
        """Schedule the end of *run*; an earlier schedule becomes void."""
        share = self.share[self.node[processor]]
        begin = max(run.since, self.now)
        run.number = self._agenda.put(begin + run.left / share, TASK_ENDS, processor)

    def _end(self, run: RunningTask) -> None:
        processor = self.where[run.task]
        self._stop(run, "ended")
        self._done(run.task, processor)

    def _done(self, task: int, processor: int) -> None:
        self.state[task], self.where[task], self.ended[task] = "done", processor, self.now
        self._open -= 1
        self._tell("ended", task, self.node[processor])
        for other, data in self._costs.after.of(task):
            is_sent = self._network is not None and self.state[other] == "sent"
            if is_sent and not self._is_staged(other):
                self._fetch(other, task, processor, data)
            self.release(other)
        self._stirred.add(processor)
        if self._branches:
            self._branch(task)

    def _branch(self, task: int) -> None:
        """Skip the tasks behind *task*, which is done, that are not to run."""
        pending = [task]
        while pending:
            ended = pending.pop()
            for other, _ in self._costs.after.of(ended):
                if self.state[other] != "done" and self._is_skipped(other, ended):
                    self._skip(other, self.where[ended])
                    pending.append(other)

    def _is_skipped(self, task: int, ended: int) -> bool:
        """Return whether the end of *ended*, or that it was skipped, keeps *task* from running."""
        codes = self._branches.get(task, {}).get(ended)
        if codes is not None and (ended in self.skipped or self.exit.get(ended, 0) not in codes):
            return True
        return all(before in self.skipped for before, _ in self._costs.before.of(task))

    def _skip(self, task: int, processor: int) -> None:
        if self.state[task] == "sent":
            self.cancel(task)
        self.state[task], self.where[task], self.ended[task] = "done", processor, self.now
        self.skipped.add(task)
        self._open -= 1
        self._tell("skipped", task)
        for other, _ in self._costs.after.of(task):
            self.release(other)

    def _stop(self, run: RunningTask, kind: Literal["ended", "lost", "cancelled"]) -> int:
        """End *run*, and return its task, which waits to be sent again."""
        processor = self.where[run.task]
        self.running[processor].remove(run)
        self._drop_inputs(run.task)
        self.runs.append(TaskRun(run.task, processor, run.start, self.now, kind))
        self.state[run.task], self.where[run.task] = "waiting", -1
        return run.task

    def _step(self, machine: int) -> None:
        """Apply the next load change of *machine*."""
        step = self._next[machine]
        assert step is not None
        share = step.share
        runs = [(run, p) for p in self._costs.processors[machine] for run in self.running[p]]
        for run, _ in runs:
            # Work done so far was at the old share.
            run.left, run.since = self.remaining(run.task), max(self.now, run.since)
        before, self.share[machine] = self.share[machine], share
        kind: EventKind = "load" if share and before else "back" if share else "failed"
        self._tell(kind, machine=machine, share=share)
        for run, processor in runs:
            if not share:
                self._tell("lost", self._stop(run, "lost"), machine)
            elif isfinite(run.since):
                self._foresee(run, processor)
        self._stirred.update(self._costs.processors[machine])
        self._await_step(machine)

    def _await_step(self, machine: int) -> None:
        """Schedule the next load change; steps up to time 0 apply at once."""
        step = next(self._steps[machine], None)
        while step and step.time <= 0:
            self.share[machine] = step.share
            step = next(self._steps[machine], None)
        self._next[machine] = step
        if step:
            self._agenda.put(step.time, LOAD_CHANGES, machine)

    def _expect(self, arrivals: ArrayLike | None) -> None:
        times = [] if arrivals is None else np.asarray(arrivals, np.float64).tolist()
        if times and len(times) != self.problem.tasks:
            raise InputError(f"{len(times)} arrivals for {self.problem.tasks} tasks")
        for task, time in enumerate(times):
            if not isfinite(time):
                raise InputError(f"task {self._name(task)} arrives at {time}")
            if time > 0:
                self.state[task] = "unknown"
                self._agenda.put(time, TASK_ARRIVES, task)

    def _arrival(self, task: int, processor: int, sent: float) -> float:
        begin = sent
        for other, data in self._costs.before.of(task):
            if self.state[other] == "done" and other not in self.skipped:
                # Data leave when their producer has ended and the destination is known, the later
                # of both.
                moved = self._costs.transfer(data, self.where[other], processor)
                begin = max(begin, max(self.ended[other], sent) + moved)
        for ended, place, data in self._carried.get(task, ()):
            moved = self._costs.transfer(data, place, processor)
            begin = max(begin, max(ended, sent) + moved)
        return begin

    def _tell(
        self,
        kind: EventKind,
        task: int = -1,
        machine: int = -1,
        share: float = 1.0,
        *,
        news: bool = True,
    ) -> TraceEvent:
        event = TraceEvent(self.now, kind, task, machine, share)
        self.events.append(event)
        if news:
            self._news.append(event)
        return event

    def _must(self, task: int, state: TaskState, otherwise: str) -> None:
        if self.state[task] != state:
            raise InputError(f"task {self._name(task)} is {self.state[task]}: it {otherwise}")

    def _name(self, task: int) -> str:
        return repr(self.problem.workflow.names[task])
