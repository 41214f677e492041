"""Who gets the next slot: as the online policies of the scheduling room have it."""

from heapq import heapify, heappop, heappush

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zenturio.errors import InputError
from zenturio.schedule.model.platform import identical
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.online.policies import OnlineSimulation
from zenturio.schedule.online.stream import WorkflowStream, WorkflowSubmission
from zenturio.study.service.slot_policy import (
    POLICIES,
    StudyLoad,
    choose_policy,
    mean_seconds,
    next_owner,
    slowdown,
)

STUDIES = st.lists(
    st.tuples(st.integers(0, 12), st.integers(1, 7), st.sampled_from([0.5, 1.0, 2.0, 3.0, 5.0])),
    min_size=1,
    max_size=5,
).map(sorted)
"""When each arrives, how many experiments it has, and how long each of them takes."""


def ends_by_turns(policy, slots, studies):
    """When each experiment of each study ends, if every slot goes to whose turn it is."""
    begun, ends = [0] * len(studies), [[] for _ in studies]
    running: list[tuple[float, int, float]] = []
    times = [float(arrival) for arrival, _, _ in studies]
    heapify(times)
    while times:
        now = heappop(times)
        while times and times[0] == now:
            heappop(times)
        running = [each for each in running if each[0] > now]
        loads = {  # as they are at this moment, for all slots that are free in it
            i: load_of(study, i, now, ends, running)
            for i, study in enumerate(studies)
            if study[0] <= now
        }
        while len(running) < slots:
            ready = [i for i in loads if begun[i] < studies[i][1]]
            if not ready:
                break
            chosen = next_owner(policy, now, slots, loads, ready)
            end = now + studies[chosen][2]
            begun[chosen] += 1
            ends[chosen].append(end)
            running.append((end, chosen, now))
            heappush(times, end)
    return [max(each) for each in ends]


def load_of(study, number, now, ends, running):
    arrival, count, seconds = study
    own = tuple(now - since for _, whose, since in running if whose == number)
    return StudyLoad(arrival, count, count - sum(end <= now for end in ends[number]), own, seconds)


def ends_in_the_scheduling_room(policy, slots, studies):
    flows = [
        WorkflowSubmission(
            Workflow.of(f"s{i}", [WorkflowTask(f"t{k}", seconds) for k in range(count)]), arrival
        )
        for i, (arrival, count, seconds) in enumerate(studies)
    ]
    return (
        OnlineSimulation(WorkflowStream.of("all", flows), identical(slots))
        .play(policy)
        .ended.tolist()
    )


@pytest.mark.parametrize("policy", POLICIES)
@settings(deadline=None)
@given(studies=STUDIES, slots=st.integers(1, 3))
def test_slots_are_shared_as_processors_are(policy, studies, slots):
    wanted = ends_in_the_scheduling_room(policy, slots, studies)
    assert np.allclose(ends_by_turns(policy, slots, studies), wanted)


def test_what_came_first_is_served_first():
    loads = {"late": StudyLoad(5, 1, 1), "early": StudyLoad(1, 900, 900)}
    assert next_owner("fcfs", 9, 2, loads) == "early"


def test_the_study_with_the_least_left_is_next():
    loads = {"large": StudyLoad(1, 900, 3, mean=2.0), "small": StudyLoad(5, 4, 4, mean=1.0)}
    assert next_owner("srpt", 9, 2, loads) == "small"
    assert next_owner("srpt", 9, 2, loads | {"large": StudyLoad(1, 900, 1, mean=2.0)}) == "large"


def test_who_would_be_slowed_down_most_is_next():
    loads = {"large": StudyLoad(0, 100, 100, mean=1.0), "small": StudyLoad(8, 1, 1, mean=1.0)}
    assert next_owner("foft", 10, 1, loads) == "small"
    assert next_owner("foft", 500, 1, loads | {"small": StudyLoad(499, 1, 1, mean=1.0)}) == "large"


def test_only_those_who_have_something_to_run_are_asked():
    loads = {"early": StudyLoad(1, 5, 5), "late": StudyLoad(2, 5, 5)}
    assert next_owner("fcfs", 9, 2, loads, ["late"]) == "late"


def test_the_first_experiment_of_a_study_tells_how_long_its_experiments_take():
    loads = {
        "known": StudyLoad(0, 9, 1, mean=0.1),
        "new": StudyLoad(5, 9, 9),
        "newer": StudyLoad(6, 9, 9),
    }
    assert next_owner("srpt", 9, 2, loads) == "new"
    loads["new"] = StudyLoad(5, 9, 9, (0.5,))
    assert next_owner("srpt", 9, 2, loads) == "newer"
    loads["newer"] = StudyLoad(6, 9, 9, (0.1,))
    assert next_owner("srpt", 9, 2, loads) == "known"
    assert (
        next_owner("fcfs", 9, 2, {"known": StudyLoad(0, 9, 1, mean=0.1), "new": StudyLoad(5, 9, 9)})
        == "known"
    )


def test_an_experiment_is_taken_to_last_as_long_as_those_before_it_or_those_of_others():
    loads = {
        "old": StudyLoad(0, 9, 4, mean=4.0),
        "new": StudyLoad(1, 9, 9),
        "slow": StudyLoad(1, 9, 9, (7.0,)),
    }
    assert mean_seconds(loads) == {"old": 4.0, "new": 4.0, "slow": 7.0}
    assert mean_seconds({"only": StudyLoad(0, 9, 9)}) == {"only": 1.0}


def test_the_slowdown_counts_from_the_submission_and_what_is_still_to_come():
    assert slowdown(StudyLoad(100, 8, 8), 1.0, 4, 100) == 1.0
    assert slowdown(StudyLoad(100, 8, 0), 1.0, 4, 106) == 3.0
    assert slowdown(StudyLoad(100, 8, 4), 1.0, 4, 105) == 3.0


def test_a_policy_is_named_as_the_scheduling_room_names_it():
    assert choose_policy(" SRPT ") == "srpt"
    with pytest.raises(InputError, match="did you mean 'srpt'"):
        choose_policy("srtp")
    with pytest.raises(InputError):
        choose_policy("basic")
