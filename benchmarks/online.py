"""How fast streams of workflows are played, and what the policies come to in the paper's study.

    python benchmarks/online.py [--json] [--seeds N] [--times N]

The study is that of Bolze, Desprez and Isnard: 102 workflows, 928 tasks, four servers. One round is
what a person waits for: ranks and makespans alone once, then each of the seven policies with its
metrics, by tasks and by workflows. The peer is the event simulator of this project, which plays
the same on machines that change and gives the same plans. Then longer streams, as many times as
large, to see how the time grows. Quality: means over so many orders of arrival.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from zenturio.priority_rules import POLICIES
from zenturio.schedule.model.platform import identical
from zenturio.schedule.online.policies import OnlineSimulation, SharingPolicy
from zenturio.schedule.online.stream import BioinformaticsStream, WorkflowStream, WorkflowSubmission
from zenturio.schedule.simulate.simulator import simulate

UNITS = ("task", "dag")
TOLD = ("makespan", "excess", "slowdown_mean", "slowdown_median", "fairness_std")


def seconds(work: Callable[[], Any], rounds: int = 3) -> float:
    """The median of the processor time that *work* takes."""
    found = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return statistics.median(found)


def round_of(stream: WorkflowStream) -> None:
    online = OnlineSimulation(stream, identical(4))
    for policy in POLICIES:
        for by in UNITS:
            _ = online.play(policy, by).metrics


def repeated(stream: WorkflowStream, times: int) -> WorkflowStream:
    """*stream* again and again, each time when the one before has been worked off."""
    return WorkflowStream.of(
        "longer",
        [
            WorkflowSubmission(each.workflow, each.arrival + 3100 * i)
            for i in range(times)
            for each in stream.submissions
        ],
    )


def speed(times: int) -> dict[str, Any]:
    stream = BioinformaticsStream().stream(0)
    online = OnlineSimulation(stream, identical(4))
    arrivals = stream.arrivals[stream.owner]
    round_of(stream)  # compiles, if it has to
    facts: dict[str, Any] = {"round": seconds(lambda: round_of(stream)), "policies": {}}
    for policy in POLICIES:
        sharing = SharingPolicy(online.ranked, policy)
        slow = simulate(online.problem, sharing, arrivals=arrivals).plan
        assert (slow.end == online.play(policy).plan.end).all(), "the peer plans otherwise"
        ours = seconds(lambda policy=policy: online.play(policy))
        peer = seconds(
            lambda sharing=sharing: simulate(online.problem, sharing, arrivals=arrivals), 1
        )
        longer = OnlineSimulation(repeated(stream, times), identical(4))
        longer.play(policy)
        facts["policies"][policy] = {
            "ms": 1e3 * ours,
            "events_ms": 1e3 * peer,
            "ratio": peer / ours,
            "longer_ms": 1e3 * seconds(lambda policy=policy, on=longer: on.play(policy)),
        }
    return facts


def quality(seeds: int) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    streams = [
        OnlineSimulation(BioinformaticsStream().stream(seed), identical(4)) for seed in range(seeds)
    ]
    for by in UNITS:
        for policy in POLICIES:
            each = [online.play(policy, by).metrics for online in streams]
            found[f"{policy} {by}"] = {
                name: statistics.mean(metrics[name] for metrics in each) for name in TOLD
            }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    facts = {**speed(given.times), "quality": quality(given.seeds)}
    if given.json:
        print(json.dumps(facts, indent=2))
        return
    print(f"102 workflows, 7 policies by task and by dag: {facts['round']:.2f} s")
    print(f"policy         ms  event simulator  ratio  {given.times} times as many")
    for name, row in facts["policies"].items():
        print(
            f"{name:10} {row['ms']:6.1f} {row['events_ms']:13.0f} ms {row['ratio']:6.0f}"
            f" {row['longer_ms']:12.1f} ms"
        )
    print(f"\n{'policy':16}" + "".join(f"{name:>16}" for name in TOLD))
    for name, row in facts["quality"].items():
        print(f"{name:16}" + "".join(f"{row[each]:16.4g}" for each in TOLD))


if __name__ == "__main__":
    main()
