"""The compiled way of sharing machines decides as the policy that is written for reading."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zenturio.priority_rules import POLICIES
from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.online.policies import OnlineSimulation, SharingPolicy
from zenturio.schedule.online.stream import WorkflowStream, WorkflowSubmission
from zenturio.schedule.simulate.simulator import simulate

EXACT = [1.0, 2.0, 3.0, 8.0]
"""Numbers of which no sum, mean or half is rounded, so that what ties does so in both ways."""


@st.composite
def platforms(draw):
    count = draw(st.sampled_from([1, 2, 4]))
    machines = tuple(
        PlatformMachine(
            f"m{i}",
            draw(st.sampled_from([0.5, 1.0, 2.0])),
            tags=frozenset(["big"] if i == 0 or draw(st.booleans()) else []),
            site=draw(st.sampled_from(["", "a"])),
        )
        for i in range(count)
    )
    latency = draw(st.sampled_from([0.0, 0.5]))
    return Platform(
        "drawn", machines, default=NetworkLink("", "", draw(st.sampled_from([2.0, 8.0])), latency)
    )


@st.composite
def flows(draw, name):
    count = draw(st.integers(1, 6))
    some = st.sampled_from
    tasks = [
        WorkflowTask(
            f"t{i}",
            draw(some(EXACT)),
            tag=draw(some(["", "", "big"])),
            machine=draw(some(["", "", "shared"])),
        )
        for i in range(count)
    ]
    edges = [
        (f"t{a}", f"t{b}", draw(some([0.0, 4.0])))
        for b in range(count)
        for a in range(b)
        if draw(st.booleans())
    ]
    return Workflow.of(name, tasks, edges)


@st.composite
def streams(draw):
    kinds = [draw(flows(f"f{i}")) for i in range(draw(st.integers(1, 3)))]
    arrivals = st.sampled_from([0.0, 0.0, 1.0, 2.0, 5.5, 100.0])
    count = draw(st.integers(1, 6))
    return WorkflowStream.of(
        "drawn",
        [WorkflowSubmission(draw(st.sampled_from(kinds)), draw(arrivals)) for _ in range(count)],
    )


@pytest.mark.parametrize("policy", POLICIES)
@settings(deadline=None, max_examples=settings.default.max_examples * 60 // 100)
@given(streams(), platforms(), st.sampled_from(["task", "dag"]))
def test_both_ways_of_sharing_give_the_same_plan(policy, stream, platform, by):
    online = OnlineSimulation(stream, platform)
    fast = online.play(policy, by).plan
    arrivals = stream.arrivals[stream.owner]
    slow = simulate(online.problem, SharingPolicy(online.ranked, policy, by), arrivals=arrivals)
    assert not slow.left
    assert fast.start.tolist() == slow.plan.start.tolist()
    assert fast.end.tolist() == slow.plan.end.tolist()
    assert fast.processor.tolist() == slow.plan.processor.tolist()
    check(fast)
    assert (fast.start >= arrivals).all()
    assert np.isfinite(fast.end).all()
