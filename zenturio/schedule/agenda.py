"""What is to happen, and when: the heap below every simulation."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count

TASK_ENDS, LOAD_CHANGES, TASK_ARRIVES, DATA_ARRIVE, POLICY_WAKES = range(5)
"""What can happen; at one moment, a task that ends comes before its machine fails."""
MAX_IDLE_WAKES = 10_000
"""How often in a row a policy may wake while nothing else is to happen."""


class EventQueue:
    """Things to come, by their time, their kind, and the order in which they were put in."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, int, int]] = []
        self._counter = count()
        self._awaited = 0
        self._idle = 0

    @property
    def over(self) -> bool:
        """Whether nothing is to come, or nothing but wakes, again and again."""
        return not self._heap or self._idle >= MAX_IDLE_WAKES

    def put(self, time: float, kind: int, subject: int) -> int:
        """Something is to happen to *subject*; returns a number that nothing else has."""
        number = next(self._counter)
        heappush(self._heap, (time, kind, number, subject))
        self._awaited += kind != POLICY_WAKES
        return number

    @property
    def next(self) -> float:
        return self._heap[0][0]

    def moment(self) -> Iterator[tuple[int, int, int]]:
        """Kind, number and subject of all that happens next at one time."""
        self._idle = 0 if self._awaited else self._idle + 1
        now = self.next
        while self._heap and self._heap[0][0] == now:
            _, kind, number, subject = heappop(self._heap)
            self._awaited -= kind != POLICY_WAKES
            yield kind, number, subject
