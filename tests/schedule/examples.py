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


OTHER_TIMES = [
    (22, 21, 36), (22, 18, 18), (32, 27, 43), (7, 10, 4), (29, 27, 35),
    (26, 17, 24), (14, 25, 30), (29, 23, 36), (15, 21, 8), (13, 16, 33),
]  # fmt: skip
OTHER_EDGES = [
    (1, 2, 17), (1, 3, 31), (1, 4, 29), (1, 5, 13), (1, 6, 7), (2, 8, 3), (2, 9, 30), (3, 7, 16),
    (4, 8, 11), (4, 9, 7), (5, 9, 57), (6, 8, 5), (7, 10, 9), (8, 10, 42), (9, 10, 7),
]  # fmt: skip


def topcuoglu():
    """Figure 1 of Topcuoglu, Hariri and Wu (2002)."""
    return _three("topcuoglu", TIMES, EDGES)


def arabnejad():
    """Figure 1 of Arabnejad and Barbosa (2014)."""
    return _three("arabnejad", OTHER_TIMES, OTHER_EDGES)


def wired(count):
    """Equal machines, between which a byte takes a second."""
    return Platform(
        "wired", tuple(Machine(f"p{i}") for i in range(count)), default=Link("", "", 1.0)
    )


def _three(name, times, edges):
    tasks = [Task(f"n{i + 1}", times=each) for i, each in enumerate(times)]
    flow = Workflow.of(name, tasks, [(f"n{a}", f"n{b}", float(c)) for a, b, c in edges])
    return Problem.of(flow, wired(3))
