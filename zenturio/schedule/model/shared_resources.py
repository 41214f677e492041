"""Resources of machines that several tasks share: cores, memory and accelerators.

A problem has resources only if its input names them: a task of several cores or with accelerators,
memory that cannot hold as many tasks as there are cores, a machine that boots, or a platform whose
transfers hold the cores. Otherwise each core runs one task at a time, whatever the others do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from zenturio.schedule.model.platform import Platform
from zenturio.schedule.model.workflow import Floats, Workflow

if TYPE_CHECKING:
    from zenturio.schedule.kernels.capacities import CapacityArrays

KINDS = ("cores", "memory", "accelerators")
ROUNDING = 1e-9
"""Share of a capacity by which a sum of needs may exceed it: sums of bytes are rounded."""


@dataclass(frozen=True, eq=False)
class Resources:
    """What each task needs of a machine while it runs, and what each machine has."""

    need: Floats
    """A row for each task, a column for each of KINDS."""
    capacity: Floats
    """A row for each machine."""
    boot: Floats
    """Seconds from the start to the first task on each machine."""
    overlap: bool = True
    """Whether inputs arrive while other tasks use the cores; otherwise a task holds its resources
    while its inputs arrive."""

    def of(self, tasks: Sequence[int]) -> Resources:
        """Return the resources with the needs of *tasks* only, in their order."""
        return replace(self, need=self.need[list(tasks)])

    def arrays(self) -> CapacityArrays:
        """Return the resources as bare arrays for kernels."""
        from zenturio.schedule.kernels.capacities import CapacityArrays  # noqa: PLC0415 - Numba

        limit = np.ascontiguousarray(self.capacity * (1 + ROUNDING))
        return CapacityArrays(
            True, np.ascontiguousarray(self.need), limit, self.boot.copy(), self.overlap
        )

    def fits(self, used: Floats, machine: int) -> bool:
        """Return whether needs that add up to *used* fit on *machine*."""
        return bool((used <= self.capacity[machine] * (1 + ROUNDING)).all())


def no_capacities() -> CapacityArrays:
    """Return the arrays of a problem without resources."""
    from zenturio.schedule.kernels.capacities import CapacityArrays  # noqa: PLC0415 - Numba

    return CapacityArrays(False, np.empty((0, 0)), np.empty((0, 0)), np.empty(0), True)


def resources_of(flow: Workflow, platform: Platform) -> Resources | None:
    """Return the resources that *flow* shares on *platform*; None if its input names none."""
    machines = platform.machines
    described = np.array(
        [(task.cores, task.memory, task.accelerators) for task in flow.more.values()], np.float64
    ).reshape(-1, len(KINDS))
    capacity = np.array(
        [(machine.cores, machine.memory, machine.accelerators) for machine in machines], np.float64
    )
    boot = np.array([machine.boot for machine in machines], np.float64)
    is_shared = (
        (described[:, 0] > 1).any()
        or (described[:, 2] > 0).any()
        or boot.any()
        or not platform.overlap
        or _is_memory_scarce(described[:, 1], capacity)
    )
    if not is_shared:
        return None
    need = np.zeros((len(flow), len(KINDS)))
    need[:, 0] = 1.0
    need[list(flow.more)] = described
    return Resources(need, capacity, boot, platform.overlap)


def _is_memory_scarce(memory: Floats, capacity: Floats) -> bool:
    """Return whether the tasks that need most would not fit on all cores of some machine."""
    descending = np.sort(memory[memory > 0])[::-1]
    if not len(descending):
        return False
    for cores, room in np.unique(capacity[:, :2], axis=0):
        fitting = descending[descending <= room][: int(cores)]
        if fitting.sum() > room * (1 + ROUNDING):
            return True
    return False


def overfull(
    resources: Resources, processor: NDArray[np.integer], start: Floats, end: Floats, slack: float
) -> Iterator[tuple[int, float, str]]:
    """Yield machine, time and resource where tasks need more than there is, once for each pair.

    Tasks that overlap by no more than *slack* seconds, or take no longer, are in nobody's way.
    """
    lasting = np.flatnonzero(end - start > slack)
    for machine in np.unique(processor[lasting]).tolist():
        tasks = lasting[processor[lasting] == machine]
        times = np.concatenate([start[tasks] + slack, end[tasks]])
        change = np.concatenate([resources.need[tasks], -resources.need[tasks]])
        order = np.argsort(times, kind="stable")
        used = np.cumsum(change[order], axis=0)
        limit = resources.capacity[machine] * (1 + ROUNDING)
        for kind in np.flatnonzero((used > limit + ROUNDING).any(axis=0)).tolist():
            first = int(np.argmax(used[:, kind] > limit[kind] + ROUNDING))
            yield machine, float(times[order][first]), KINDS[kind]


class Occupancy:
    """When machines have room, as tasks are placed on them one by one."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._placed: dict[int, list[tuple[float, float, Floats]]] = {}

    def earliest(self, task: int, machine: int, ready: float, length: float) -> float:
        """Return the first time from *ready* on at which *task* has room for *length* seconds."""
        placed = self._placed.get(machine, [])
        need = self._resources.need[task]
        later_ends = sorted({end for _, end, _ in placed if end > ready})
        for begin in (ready, *later_ends):
            if self._has_room(placed, need, machine, begin, begin + length):
                return begin
        return ready

    def place(self, task: int, machine: int, begin: float, end: float) -> None:
        """Place *task* from *begin* to *end*."""
        if end > begin:
            self._placed.setdefault(machine, []).append((begin, end, self._resources.need[task]))

    def _has_room(
        self,
        placed: list[tuple[float, float, Floats]],
        need: Floats,
        machine: int,
        begin: float,
        end: float,
    ) -> bool:
        """Return whether *need* fits at each moment; usage can only rise where a task begins."""
        inside = [entry for entry in placed if entry[0] < end and entry[1] > begin]
        for moment in (begin, *(start for start, _, _ in inside if start > begin)):
            used = need.copy()
            for start, stop, other in inside:
                if start <= moment < stop:
                    used = used + other
            if not self._resources.fits(used, machine):
                return False
        return True
