"""What pM-S makes more urgent: shared by those who plan workflows and those who run stages."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)
Near = Callable[[Node], Iterable[Node]]


def more_urgent_tasks(
    ended: Node, after: Near[Node], before: Near[Node], done: Callable[[Node], bool]
) -> set[Node]:
    """All that the children of *ended* still wait for: each of them is more urgent by one.

    *after* and *before* tell the children and the parents of a node. Step 5 of the algorithm in
    T. Ma, R. Buyya: Critical-path and priority based algorithms for scheduling workflows with
    parameter sweep tasks on global grids, SBAC-PAD 2005, section III-B.
    """
    ahead, found = list(after(ended)), set[Node]()
    while ahead:
        for parent in before(ahead.pop()):
            if parent not in found and not done(parent):
                found.add(parent)
                ahead.append(parent)
    return found
