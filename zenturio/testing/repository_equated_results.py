"""Contract tests of repositories: results of an earlier version that a person accepts as equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from zenturio.errors import ConflictError, NotFoundError
from zenturio.experiment.experiment import Experiment, Log
from zenturio.record.entities import DriverProcess
from zenturio.record.repository import Repository
from zenturio.testing.experiments import DEFINITION, A, B, experiment, outcome
from zenturio.testing.repository_machines import RISCV, ZEN5, run_on

NEW_A, NEW_B = experiment(1, salt="edited"), experiment(2, salt="edited")
NAMES: Mapping[str, Experiment] = {A.digest: NEW_A, B.digest: NEW_B}
"""What the experiments of the version before are called now."""


def edited(repository: Repository, late: Sequence[Experiment] = ()) -> None:
    """Study s has A and B (which failed) as its version 1, and nothing as its version 2.

    Of *late* ones there are superseded attempts, too.
    """
    before = repository.open("s", DEFINITION)
    lease = repository.acquire_lease("s", DriverProcess.current())
    ended = replace(outcome(A, time=2.5), stdout=Log(b"said", size=4))
    repository.add_results("s", lease.number, [(A, ended), (B, outcome(B, "failed"))])
    repository.record("s", lease.number, [outcome(each, "failed", attempt=7) for each in late])
    repository.release_lease(lease)
    repository.archive(before)
    repository.open("s", DEFINITION)


class EquatedResultsContract:
    def test_equated_results_are_cached_with_their_logs(self, repository: Repository) -> None:
        edited(repository)
        assert repository.cached("s", [NEW_A, NEW_B]) == frozenset()
        assert repository.equate("s", "s@1", NAMES, "ann") == 2
        assert repository.cached("s", [NEW_A, NEW_B]) == {NEW_A.digest, NEW_B.digest}
        counts = repository.count_states("s")
        assert (counts["ok"], counts["failed"]) == (1, 1)
        assert (
            repository.find_outcomes([NEW_A.digest], "s")[NEW_A.digest].metrics.get("time") == 2.5
        )
        assert repository.logs(NEW_A.digest).stdout.head == b"said"
        assert [attempt.number for attempt in repository.attempts(NEW_A.digest)] == [1]
        assert repository.count_states("s@1")["ok"] == 1

    def test_an_equality_names_person_and_origin(self, repository: Repository) -> None:
        edited(repository, late=[A, B])
        assert [attempt.state for attempt in repository.attempts(A.digest)] == ["ok", "superseded"]
        assert repository.equated_result("s@1", A.digest) is None
        repository.equate("s", "s@1", NAMES, "ann")
        failed = repository.equated_result("s", NEW_B.digest)
        assert failed is not None
        assert failed.digest == B.digest
        equality = repository.equated_result("s", NEW_A.digest)
        assert equality is not None
        assert (equality.study, equality.person, equality.digest) == ("s@1", "ann", A.digest)
        assert equality.at >= repository.study("s").created

    def test_equating_twice_changes_nothing(self, repository: Repository) -> None:
        edited(repository)
        assert repository.equate("s", "s@1", {A.digest: NEW_A}, "ann") == 1
        assert repository.equate("s", "s@1", NAMES, "bob") == 1
        equality = repository.equated_result("s", NEW_A.digest)
        assert equality is not None
        assert equality.person == "ann"

    def test_undo_removes_the_copies_only(self, repository: Repository) -> None:
        edited(repository)
        lease = repository.acquire_lease("s", DriverProcess.current())
        repository.add_results("s", lease.number, [(NEW_B, outcome(NEW_B, time=7.0))])
        repository.release_lease(lease)
        assert repository.equate("s", "s@1", NAMES, "ann") == 1
        assert repository.undo_equate("s", "s@1") == 1
        assert [record.digest for record in repository.records("s")] == [NEW_B.digest]
        assert repository.count_states("s")["ok"] == 1
        assert repository.count_states("s@1")["ok"] == 1
        assert repository.logs(A.digest).stdout.head == b"said"
        assert repository.undo_equate("s", "s@1") == 0
        assert repository.cached("s", [NEW_A]) == frozenset()

    def test_a_study_that_copied_an_equated_result_says_so_and_loses_it_with_it(
        self, repository: Repository
    ) -> None:
        edited(repository)
        repository.equate("s", "s@1", NAMES, "ann")
        repository.open("t", DEFINITION)
        assert repository.cached("t", [NEW_A]) == {NEW_A.digest}
        assert repository.equated_result("t", NEW_A.digest) == repository.equated_result(
            "s", NEW_A.digest
        )
        repository.undo_equate("s", "s@1")
        assert list(repository.records("t")) == []
        assert repository.cached("s", [NEW_A]) == frozenset()

    def test_what_another_study_has_is_equated_all_the_same(self, repository: Repository) -> None:
        edited(repository)
        repository.open("other", DEFINITION)
        lease = repository.acquire_lease("other", DriverProcess.current())
        repository.add_results("other", lease.number, [(NEW_A, outcome(NEW_A, time=7.0))])
        repository.release_lease(lease)
        assert repository.equate("s", "s@1", NAMES, "ann") == 2
        assert repository.count_states("s")["ok"] == 1

    def test_an_experiment_of_two_machines_is_equated_with_both_and_undone_once(
        self, repository: Repository
    ) -> None:
        before = repository.open("s", DEFINITION)
        lease = repository.acquire_lease("s", DriverProcess.current())
        for machine in (ZEN5, RISCV):
            run_on(repository, lease.number, A, machine, 3.5)
        repository.release_lease(lease)
        repository.archive(before)
        repository.open("s", DEFINITION)
        assert repository.equate("s", "s@1", {A.digest: NEW_A}, "ann") == 2
        assert repository.undo_equate("s", "s@1") == 1
        assert list(repository.records("s")) == []

    def test_results_of_two_versions_that_became_one_are_equated_in_turn(
        self, repository: Repository
    ) -> None:
        edited(repository)
        repository.equate("s", "s@1", NAMES, "ann")
        repository.archive(repository.study("s"))
        repository.open("s", DEFINITION)
        newest = experiment(1, salt="edited again")
        assert repository.equate("s", "s@2", {NEW_A.digest: newest}, "bob") == 1
        equality = repository.equated_result("s", newest.digest)
        assert equality is not None
        assert (equality.study, equality.person, equality.digest) == ("s@2", "bob", A.digest)
        assert repository.logs(newest.digest).stdout.head == b"said"
        assert repository.undo_equate("s", "s@2") == 1
        assert repository.equated_result("s@2", NEW_A.digest) is not None

    def test_what_was_equated_outlives_the_version_that_ran_it(
        self, repository: Repository
    ) -> None:
        edited(repository)
        repository.equate("s", "s@1", NAMES, "ann")
        repository.delete("s@1")
        assert repository.logs(NEW_A.digest).stdout.head == b"said"
        equality = repository.equated_result("s", NEW_A.digest)
        assert equality is not None
        assert (equality.study, equality.digest) == ("s@1", "")
        with pytest.raises(NotFoundError):
            repository.undo_equate("s", "s@1")

    @pytest.mark.parametrize("name", ["s", "s@1"])
    def test_nothing_is_equated_or_undone_while_somebody_drives(
        self, repository: Repository, name: str
    ) -> None:
        edited(repository)
        repository.equate("s", "s@1", {A.digest: NEW_A}, "ann")
        repository.acquire_lease(name, DriverProcess.current())
        with pytest.raises(ConflictError):
            repository.equate("s", "s@1", NAMES, "ann")
        with pytest.raises(ConflictError):
            repository.undo_equate("s", "s@1")
        assert repository.count_states("s")["ok"] == 1
