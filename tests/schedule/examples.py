"""Worked examples of the literature."""

from zenturio.schedule import Link, Machine, Platform, Problem, Task, Workflow

TIMES = [
    (14, 16, 9), (13, 19, 18), (11, 13, 19), (13, 8, 17), (12, 13, 10),
    (13, 16, 9), (7, 15, 11), (5, 11, 14), (18, 12, 20), (21, 7, 16),
]  # fmt: skip
EDGES = [
    (1, 2, 18), (1, 3, 12), (1, 4, 9), (1, 5, 11), (1, 6, 14), (2, 8, 19), (2, 9, 16), (3, 7, 23),
    (4, 8, 27), (4, 9, 23), (5, 9, 13), (6, 8, 15), (7, 10, 17), (8, 10, 11), (9, 10, 13),
]  # fmt: skip


def topcuoglu():
    """Figure 1 of Topcuoglu, Hariri and Wu (2002)."""
    tasks = [Task(f"n{i + 1}", times=times) for i, times in enumerate(TIMES)]
    flow = Workflow.of("topcuoglu", tasks, [(f"n{a}", f"n{b}", float(c)) for a, b, c in EDGES])
    machines = tuple(Machine(f"p{i}") for i in (1, 2, 3))
    return Problem.of(flow, Platform("three", machines, default=Link("", "", 1.0)))
