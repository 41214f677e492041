"""Each state of an experiment and each event: the next state and the commands, or a refusal."""

import logging
from dataclasses import replace

import pytest

from zenturio.experiment import Step
from zenturio.study.driver import experiment_states as states
from zenturio.study.driver.experiment_states import (
    OVER,
    STATES,
    STEPS,
    TRANSITIONS,
    ExperimentStates,
    ImpossibleTransition,
    TrackedExperiment,
)
from zenturio.testing.experiments import experiment, outcome

DIGEST = experiment(0).digest


class Machine:
    """A state machine with one experiment, led to a state by the events of a run."""

    def __init__(self, state, retry=0):
        self.states = ExperimentStates(retry)
        commands = self.states.handle(states.Proposed([experiment(0)], exhausted=True, over=True))
        self.tracked = commands[0].batch[0]
        self.lead_to(state)
        assert self.tracked.state == state

    def handle(self, event):
        return self.states.handle(event)

    def lead_to(self, state):
        if state == "proposed":
            return
        if state in ("cached", "skipped"):
            outcomes = {DIGEST: outcome(experiment(0))} if state == "cached" else {}
            self.handle(states.LookedUp([self.tracked], outcomes, set()))
            return
        self.handle(states.LookedUp([self.tracked], {}, {DIGEST}))
        if state == "waiting":
            return
        self.handle(states.PlaceHasRoom(1))
        if state == "claiming":
            return
        if state == "elsewhere":
            self.handle(states.ClaimAnswered([self.tracked], {}))
            return
        self.handle(states.ClaimAnswered([self.tracked], {DIGEST: 7}))
        if state == "claimed":
            self.handle(states.Returned(self.tracked, 1.0))
        if state == "released":
            self.handle(states.StopRequested())
            self.handle(states.Returned(self.tracked, 1.0))
        if state == "cancelling":
            self.handle(states.CancelRequested(DIGEST))
        if state == "failed":
            self.states._retry = 1
            self.handle(states.Finished([(self.tracked, outcome(experiment(0), "failed"))]))
        if state in ("finished", "recorded"):
            self.handle(states.Finished([(self.tracked, outcome(experiment(0)))]))
        if state == "recorded":
            (record,) = self.handle(states.CommitDue())
            self.handle(states.Recorded(record.outcomes, {DIGEST}))


GOOD, BAD = outcome(experiment(0)), outcome(experiment(0), "failed")
TAKEN = outcome(experiment(0), "cancelled")
NAMED = {  # events that name the experiment
    "looked up: cached": lambda t: states.LookedUp([t], {DIGEST: GOOD}, set()),
    "looked up: missing": lambda t: states.LookedUp([t], {}, {DIGEST}),
    "looked up: left out": lambda t: states.LookedUp([t], {}, set()),
    "claim granted": lambda t: states.ClaimAnswered([t], {DIGEST: 7}),
    "claim refused": lambda t: states.ClaimAnswered([t], {}),
    "claim failed": lambda t: states.ClaimFailed([t]),
    "finished": lambda t: states.Finished([(t, GOOD)]),
    "finished: failed": lambda t: states.Finished([(t, BAD)]),
    "finished: cancelled": lambda t: states.Finished([(t, TAKEN)]),
    "returned": lambda t: states.Returned(t, 1.0),
    "recorded": lambda t: states.Recorded([(t, GOOD)], {DIGEST}),
    "superseded": lambda t: states.Recorded([(t, GOOD)], set()),
    "attempt recorded": lambda t: states.AttemptsRecorded([(t, BAD)]),
}
FREE = {  # events that find what they concern by themselves: elsewhere they change nothing
    "room": lambda _: states.PlaceHasRoom(1),
    "cancel": lambda _: states.CancelRequested(DIGEST),
    "commit": lambda _: states.CommitDue(),
    "look elsewhere": lambda _: states.LookElsewhere(),
    "stop": lambda _: states.StopRequested(),
}
EVENTS = NAMED | FREE

EXPECTED = {
    ("proposed", "looked up: cached"): ("cached", ["ReportCached"]),
    ("proposed", "looked up: missing"): ("waiting", []),
    ("proposed", "looked up: left out"): ("skipped", []),
    ("proposed", "room"): ("proposed", ["LookUp"]),
    ("waiting", "room"): ("claiming", ["ClaimBatch"]),
    ("claiming", "claim granted"): ("submitted", ["Submit"]),
    ("claiming", "claim refused"): ("elsewhere", []),
    ("claiming", "claim failed"): ("waiting", []),
    ("elsewhere", "look elsewhere"): ("elsewhere", ["LookUp"]),
    ("elsewhere", "looked up: cached"): ("cached", ["ReportCached"]),
    ("elsewhere", "looked up: missing"): ("waiting", []),
    ("claimed", "room"): ("submitted", ["Submit"]),
    ("submitted", "finished"): ("finished", ["AwaitCommit"]),
    ("submitted", "finished: failed"): ("finished", ["AwaitCommit"]),
    ("submitted", "finished: cancelled"): ("claimed", []),
    ("submitted", "returned"): ("claimed", []),
    ("submitted", "cancel"): ("cancelling", ["Cancel"]),
    ("cancelling", "cancel"): ("cancelling", ["Cancel"]),
    ("cancelling", "finished"): ("finished", ["AwaitCommit"]),
    ("cancelling", "finished: failed"): ("finished", ["AwaitCommit"]),
    ("cancelling", "finished: cancelled"): ("finished", ["AwaitCommit"]),
    ("cancelling", "returned"): ("finished", ["AwaitCommit"]),
    ("finished", "commit"): ("finished", ["Record"]),
    ("finished", "recorded"): ("recorded", ["Forget", "ReportRecorded"]),
    ("finished", "superseded"): ("elsewhere", ["Forget", "ReportRecorded"]),
    ("failed", "commit"): ("failed", ["RecordAttempts"]),
    ("failed", "attempt recorded"): ("waiting", ["Forget"]),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", EVENTS)
def test_each_event_in_each_state(state, name):
    machine = Machine(state)
    event = EVENTS[name](machine.tracked)
    if (state, name) in EXPECTED:
        after, commands = EXPECTED[state, name]
        assert [type(command).__name__ for command in machine.handle(event)] == commands
        assert machine.tracked.state == after
    elif name in FREE:
        assert machine.handle(event) == ()
        assert machine.tracked.state == state
    else:
        with pytest.raises(ImpossibleTransition, match=f"{DIGEST[:12]} is {state}: (is|has)_"):
            machine.handle(event)
        assert machine.tracked.state == state


def test_each_transition_of_the_table_is_reached_by_an_event():
    reached = set()
    step = ExperimentStates._step

    def noting(machine, batch, name):
        batch = list(batch)
        reached.update((tracked.state, name) for tracked in batch)
        step(machine, batch, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExperimentStates, "_step", noting)
        for state in STATES:
            for event in EVENTS.values():
                for is_stopping in (False, True):
                    machine = Machine(state)
                    machine.states.is_stopping |= is_stopping
                    try:
                        machine.handle(event(machine.tracked))
                    except ImpossibleTransition:
                        continue
        duplicate = Machine("waiting")
        duplicate.states.waiting.append(TrackedExperiment(experiment(0), "waiting"))
        duplicate.handle(states.PlaceHasRoom(2))
    assert set(TRANSITIONS) <= reached
    assert {step for _, step in TRANSITIONS} == set(STEPS)


def test_what_is_over_has_no_next_state_and_everything_else_has_one():
    assert {state for state, _ in TRANSITIONS} == set(STATES) - OVER
    assert set(TRANSITIONS.values()) == set(STATES) - {"proposed"}


def test_nothing_that_is_over_is_held():
    for state in OVER:
        machine = Machine(state).states
        held = [*machine.proposed, *machine.waiting, *machine.elsewhere, *machine.claimed]
        assert held == []
        assert not machine.in_flight
        assert not machine.unrecorded
        assert not machine._held
        assert machine.is_dry


def test_those_that_the_run_is_not_to_run_are_counted():
    machine = ExperimentStates(0)
    every = [experiment(number) for number in range(4)]
    (look_up,) = machine.handle(states.Proposed(every, exhausted=True, over=True))
    assert machine.skipped == 0
    for batch in (look_up.batch[:3], look_up.batch[3:]):
        machine.handle(states.LookedUp(batch, {}, {every[0].digest}))
    assert machine.skipped == 3


@pytest.mark.parametrize(
    ("name", "state", "after"),
    [
        ("returned", "submitted", "released"),
        ("finished: cancelled", "submitted", "released"),
        ("attempt recorded", "failed", "released"),
        ("finished", "submitted", "finished"),
        ("returned", "cancelling", "finished"),
        ("room", "claimed", "claimed"),
        ("room", "waiting", "waiting"),
    ],
)
def test_while_a_run_is_stopped_nothing_new_begins(name, state, after):
    machine = Machine(state)
    machine.handle(states.StopRequested())
    machine.handle(EVENTS[name](machine.tracked))
    assert machine.tracked.state == after


def test_an_experiment_is_tried_as_often_as_it_may_be():
    machine = Machine("submitted", retry=2)
    for tries in (2, 3):
        machine.handle(states.Finished([(machine.tracked, BAD)]))
        (command,) = machine.handle(states.CommitDue())
        machine.handle(states.AttemptsRecorded(command.outcomes))
        assert machine.tracked.tries == tries
        machine.handle(states.PlaceHasRoom(1))
        machine.handle(states.ClaimAnswered([machine.tracked], {DIGEST: 7 + tries}))
        assert machine.tracked.attempt == 7 + tries
    (command,) = machine.handle(states.Finished([(machine.tracked, BAD)]))
    assert command.are_last


@pytest.mark.parametrize(("allowed", "state"), [(1, "failed"), (0, "finished")])
def test_the_run_line_says_how_often_if_nothing_else_does(allowed, state):
    machine = Machine("submitted", retry=None)
    retried = replace(experiment(0), steps=(Step("x", retry=allowed),))
    machine.tracked.experiment = retried
    machine.handle(states.Finished([(machine.tracked, BAD)]))
    assert machine.tracked.state == state


def test_one_that_was_cancelled_by_a_user_is_not_tried_again():
    machine = Machine("cancelling", retry=3)
    machine.handle(states.Finished([(machine.tracked, BAD)]))
    assert machine.tracked.state == "finished"


def test_a_place_that_returns_an_experiment_three_times_is_blamed():
    machine = Machine("submitted")
    for _ in range(states.LOSSES - 1):
        assert machine.handle(states.Returned(machine.tracked, 1.0)) == ()
        machine.handle(states.PlaceHasRoom(1))
    (command,) = machine.handle(states.Returned(machine.tracked, 1.0))
    assert command == states.AbortRun(machine.tracked)
    assert machine.tracked.tries == 1


def test_two_points_that_are_the_same_experiment_are_never_claimed_together():
    machine = ExperimentStates()
    same = [experiment(0), experiment(0), experiment(1)]
    (look_up,) = machine.handle(states.Proposed(same, exhausted=True, over=True))
    machine.handle(states.PlaceHasRoom(3))
    (claim,) = machine.handle(states.LookedUp(look_up.batch, {}, {e.digest for e in same}))
    assert [t.experiment for t in claim.batch] == [experiment(0), experiment(1)]
    assert [t.state for t in look_up.batch] == ["claiming", "elsewhere", "claiming"]
    machine.handle(states.ClaimAnswered(claim.batch, {e.digest: 1 for e in same}))
    (again,) = machine.handle(states.LookElsewhere())
    assert again.again
    machine.handle(states.LookedUp(again.batch, {}, {DIGEST}))
    assert machine.handle(states.PlaceHasRoom(1)) == ()  # the first one is in flight
    assert look_up.batch[1].state == "elsewhere"


def test_what_could_not_be_claimed_keeps_its_place():
    machine = ExperimentStates()
    (look_up,) = machine.handle(
        states.Proposed([experiment(n) for n in range(4)], exhausted=True, over=True)
    )
    machine.handle(states.LookedUp(look_up.batch, {}, {t.experiment.digest for t in look_up.batch}))
    (claim,) = machine.handle(states.PlaceHasRoom(2))
    machine.handle(states.ClaimFailed(claim.batch))
    assert [t.experiment.index for t in machine.waiting] == [0, 1, 2, 3]


def test_a_dry_source_is_asked_again_and_one_that_is_over_is_not():
    machine = ExperimentStates()
    assert machine.handle(states.PlaceHasRoom(5)) == (states.Propose(5),)
    machine.handle(states.Proposed([], exhausted=True, over=False))
    assert machine.is_dry
    assert machine.handle(states.PlaceHasRoom(5)) == (states.Propose(5),)
    machine.handle(states.Proposed([], exhausted=True, over=True))
    assert machine.handle(states.PlaceHasRoom(5)) == ()


def test_refusals_in_a_row_are_a_stall_only_while_nothing_runs():
    machine = Machine("claiming")
    for _ in range(states.REFUSALS):
        assert not machine.states.is_stalled
        machine.handle(states.ClaimAnswered([machine.tracked], {}))
        machine.handle(states.LookedUp([machine.tracked], {}, {DIGEST}))
        machine.handle(states.PlaceHasRoom(1))
    assert machine.states.is_stalled
    machine.handle(states.ClaimAnswered([machine.tracked], {DIGEST: 1}))
    assert not machine.states.is_stalled


def test_refusals_do_not_count_while_something_runs():
    machine = ExperimentStates(0)
    running, refused = experiment(0), experiment(1)
    (look_up,) = machine.handle(states.Proposed([running, refused], exhausted=True, over=True))
    first, second = look_up.batch
    machine.handle(states.LookedUp([first, second], {}, {running.digest, refused.digest}))
    machine.handle(states.PlaceHasRoom(2))
    machine.handle(states.ClaimAnswered([first, second], {running.digest: 7}))
    for _ in range(states.REFUSALS):
        machine.handle(states.LookedUp([second], {}, {refused.digest}))
        machine.handle(states.PlaceHasRoom(1))
        machine.handle(states.ClaimAnswered([second], {}))
    machine.handle(states.Finished([(first, outcome(running))]))
    assert not machine.in_flight
    assert not machine.is_stalled


def test_each_transition_is_logged_with_its_digest(caplog):
    with caplog.at_level(logging.DEBUG, states.__name__):
        Machine("recorded")
    assert [record.getMessage() for record in caplog.records] == [
        f"{DIGEST[:12]}: {before} -> {after} ({step})"
        for before, after, step in [
            ("proposed", "waiting", "is_missing"),
            ("waiting", "claiming", "is_asked_for"),
            ("claiming", "claimed", "is_granted"),
            ("claimed", "submitted", "is_submitted"),
            ("submitted", "finished", "has_finished"),
            ("finished", "recorded", "is_accepted"),
        ]
    ]
