"""Worked examples of the literature."""

from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask

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
        "wired",
        tuple(PlatformMachine(f"p{i}") for i in range(count)),
        default=NetworkLink("", "", 1.0),
    )


def _three(name, times, edges):
    tasks = [WorkflowTask(f"n{i + 1}", times=each) for i, each in enumerate(times)]
    flow = Workflow.of(name, tasks, [(f"n{a}", f"n{b}", float(c)) for a, b, c in edges])
    return Problem.of(flow, wired(3))


def master_slave():
    """As figure 5 of Ma and Buyya (2005) is described: M-S takes 22, pM-S takes 15.

    Of the layer with one resource, two tasks take 4; the longest task of the last layer waits,
    through one of the second, for the first and the fourth.
    """
    layers = {
        "a": {"t11": 1, "t12": 4, "t13": 4, "t14": 1},
        "b": {"t21": 3, "t22": 1, "t23": 1},
        "c": {"t31": 1, "t32": 9},
    }
    edges = [
        ("t11", "t21"), ("t14", "t21"), ("t12", "t22"), ("t13", "t23"),
        ("t22", "t31"), ("t23", "t31"), ("t21", "t32"),
    ]  # fmt: skip
    tasks = [
        WorkflowTask(name, work, tag=tag)
        for tag, each in layers.items()
        for name, work in each.items()
    ]
    resources = [("r11", "a"), ("r21", "b"), ("r22", "b"), ("r31", "c")]
    machines = tuple(PlatformMachine(name, tags=frozenset(tag)) for name, tag in resources)
    return Problem.of(Workflow.of("figure 5", tasks, edges), Platform("resources", machines))
