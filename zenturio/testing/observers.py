"""
What every observer of runs promises, as tests: a plug-in's tests inherit them.

::

    class TestTimeline(ObserverContract):
        def observer(self) -> Observer:
            return Timeline()
"""

from __future__ import annotations

from dataclasses import asdict

from zenturio.study.driver.experiment_states import TRANSITIONS, State, Transition
from zenturio.study.driver.observers import Observer
from zenturio.testing.experiments import experiment, outcome

WITH_OUTCOME: frozenset[State] = frozenset({"cached", "failed", "finished", "recorded"})


class ObserverContract:
    """Say which observer it is; its tests run in a folder where it may write."""

    def observer(self) -> Observer:
        """Return a new observer."""
        raise NotImplementedError

    def transitions(self) -> list[Transition]:
        """Return every transition that there is, each of an experiment of its own."""
        return [
            Transition(
                of := experiment(number),
                before,
                after,
                1,
                outcome(of, "failed" if "failed" in (before, after) else "ok")
                if after in WITH_OUTCOME
                else None,
            )
            for number, ((before, _), after) in enumerate(TRANSITIONS.items())
        ]

    def test_it_takes_each_transition_in_any_order(self) -> None:
        for transitions in (self.transitions(), self.transitions()[::-1]):
            observer = self.observer()
            observer.begin("s")
            for transition in transitions:
                observer.observe(transition)
            observer.end()

    def test_a_run_without_experiments_is_no_error(self) -> None:
        observer = self.observer()
        observer.begin("s")
        observer.end()

    def test_two_runs_at_a_time_are_observed_apart(self) -> None:
        first, second = self.observer(), self.observer()
        assert first is not second
        first.begin("s")
        second.begin("t")
        for transition in self.transitions():
            first.observe(transition)
            second.observe(transition)
        first.end()
        second.observe(self.transitions()[0])
        second.end()

    def test_what_it_is_told_is_not_changed(self) -> None:
        transitions = self.transitions()
        before = [asdict(transition) for transition in transitions]
        observer = self.observer()
        observer.begin("s")
        for transition in transitions:
            observer.observe(transition)
        observer.end()
        assert [asdict(transition) for transition in transitions] == before
