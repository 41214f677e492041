"""Plays the loops of a workflow: after each iteration it decides whether there is another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from zenturio.schedule.grid import MachineState
from zenturio.schedule.loops import Loop
from zenturio.schedule.trace import TraceEvent


class LoopDecision(Protocol):
    """Who decides whether a loop is run again: chance, a number, or the program itself."""

    def more(self, loop: int, iteration: int, total: int) -> bool:
        """Whether another follows this *iteration* of a loop, the *total*-th that it has run."""
        ...


class LoopController:
    """The loops of a workflow while it is played; what decides is no scheduler.

    An iteration has ended when all its tasks have, and the loops inside are over. What is outside
    and waits for one of its tasks waits for the last iteration.
    """

    def __init__(self, grid: MachineState, loops: Sequence[Loop], repeats: LoopDecision) -> None:
        """*loops* has those inside before those around them."""
        self._grid = grid
        self._loops = loops
        self._repeats = repeats
        self._iteration = [1] * len(loops)
        self._total = [1] * len(loops)
        self._over = [False] * len(loops)
        ends = grid.problem.workflow.sources
        self._last = [ends[list(loop.closing)].tolist() for loop in loops]
        self._inside = [
            [i for i in range(number) if set(loops[i].tasks) < set(loop.tasks)]
            for number, loop in enumerate(loops)
        ]
        for loop in loops:
            self._hold(loop)

    def turn(self) -> list[TraceEvent]:
        """Lets loops begin anew, or be over, if an iteration has ended; tells which began anew."""
        found = []
        for number, loop in enumerate(self._loops):
            if not self._ended(number):
                continue
            if self._repeats.more(number, self._iteration[number], self._total[number]):
                self._iteration[number] += 1
                self._total[number] += 1
                self._renew(number)
                found.append(self._grid.repeat(loop))
            else:
                self._over[number] = True
                for task in loop.exits:
                    self._grid.release(task)
        return found

    def _ended(self, number: int) -> bool:
        """Whether an iteration of a loop has ended, and none decided what follows."""
        if self._over[number]:
            return False
        state = self._grid.state
        last_first = (self._last[number], self._loops[number].tasks)  # what is open is found sooner
        return all(state[task] == "done" for tasks in last_first for task in tasks)

    def _renew(self, number: int) -> None:
        """The loops inside one that begins anew are to be run anew."""
        for i in self._inside[number]:
            self._iteration[i], self._over[i] = 1, False
            self._hold(self._loops[i])

    def _hold(self, loop: Loop) -> None:
        for task in loop.exits:
            self._grid.hold(task)
