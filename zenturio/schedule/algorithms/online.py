"""Many workflows that share machines as they arrive: whose task is next.

Inside a workflow the order is that of HEFT, its ranks; among them each has its own. A task goes to
the idle processor where it ends first. Whenever a task ends or a workflow arrives, what is ready is
looked at again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.online import OnlineSimulation
from zenturio.schedule.perturb import Perturbation
from zenturio.schedule.sharing import Granularity
from zenturio.schedule.streamed import StreamResult
from zenturio.search.settings import setting


@dataclass(frozen=True)
class OnlineSettings:
    by: Granularity = setting(
        "task", "what is ordered: all ready tasks, or one of each workflow (dag)"
    )


class _OnlineAlgorithm:
    """What all have in common: settings, and being played."""

    kind: ClassVar[Kind] = "online"
    Settings = OnlineSettings
    policy: ClassVar[str]

    def __init__(self, settings: OnlineSettings | None = None, _seed: int = 0) -> None:
        self._by: Granularity = (settings or OnlineSettings()).by

    def play(
        self, online: OnlineSimulation, disturbance: Perturbation | None = None, seed: int = 0
    ) -> StreamResult:
        """What becomes of the workflows of *online*."""
        return online.play(self.policy, self._by, disturbance, seed)


class Basic(_OnlineAlgorithm):
    """Each task to where it ends first, as soon as it is ready; it may wait there (BASIC).

    To compare with: nobody decides whose turn it is, servers run what they are sent in its order.
    Not for use beside others: slowdowns are as long as the queues.
    Cost: tasks x processors.
    R. Bolze, F. Desprez, B. Isnard: Evaluation of online multi-workflow heuristics based on
    list-scheduling algorithms. GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "basic"


class GHeft(_OnlineAlgorithm):
    """The task with the longest way to an end first, whoever it is of (G-HEFT).

    For the end of all, as if they were one workflow. Not while workflows keep coming: what is
    young has long ways, and starves what is nearly done; its slowdowns were the worst of all.
    Cost: tasks x (workflows that are there + processors).
    R. Bolze, F. Desprez, B. Isnard: Evaluation of online multi-workflow heuristics based on
    list-scheduling algorithms. GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "g-heft"


class Aging(_OnlineAlgorithm):
    """As g-heft, but ranks grow with age, in a straight line (aging G-HEFT).

    A rank counts 1 + age / makespan alone. Milder than g-heft, but most workflows still end
    late, together: aging-exp is better.
    Cost: tasks x (workflows that are there + processors).
    R. Bolze, F. Desprez, B. Isnard: Evaluation of online multi-workflow heuristics based on
    list-scheduling algorithms. GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "aging"


class AgingExp(_OnlineAlgorithm):
    """As g-heft, but ranks grow with age exponentially (aging e G-HEFT).

    A rank counts e ** (1 + age / makespan alone), so that soon age alone decides. With foft the
    fairest: slowdowns lie close together. Not where the mean slowdown is all that counts: srpt.
    Cost: tasks x (workflows that are there + processors).
    R. Bolze, F. Desprez, B. Isnard: Evaluation of online multi-workflow heuristics based on
    list-scheduling algorithms. GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "aging-exp"


class Fcfs(_OnlineAlgorithm):
    """First come, first served: what arrived first may use all that it can.

    For a promise that anybody understands. Not for small workflows among large ones: they wait
    as long, and suffer most.
    Cost: tasks x (workflows that are there + processors).
    R. Bolze, F. Desprez, B. Isnard: Evaluation of online multi-workflow heuristics based on
    list-scheduling algorithms. GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "fcfs"


class Srpt(_OnlineAlgorithm):
    """The workflow with the least work left first (SRPT).

    For the lowest mean slowdown, if many workflows are small. Not where large ones must not
    starve: they wait while small ones keep coming.
    Cost: tasks x (workflows that are there + processors).
    R. Bolze, F. Desprez, B. Isnard: Evaluation of online multi-workflow heuristics based on
    list-scheduling algorithms. GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "srpt"


class Foft(_OnlineAlgorithm):
    """The workflow that will have been slowed down most first: fairness on finish time (FOFT).

    The slowdown is what it would be if all that the workflow has left were for it from now on,
    by its makespan alone. With aging-exp the fairest, and next to srpt in the mean. Not for
    streams of huge workflows: each time, all that is left of each is planned again.
    Cost: events x tasks that are there x processors.
    R. Bolze, F. Desprez, B. Isnard: Evaluation of online multi-workflow heuristics based on
    list-scheduling algorithms. GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "foft"
