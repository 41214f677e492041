"""What a repository promises of failed outcomes that a study sets aside to try again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from zenturio.errors import NotFoundError
from zenturio.experiment.experiment import Artifact, Log
from zenturio.record.entities import AttemptLogs, DriverProcess
from zenturio.record.repository import Repository
from zenturio.testing.experiments import DEFINITION, A, B, outcome
from zenturio.testing.repository_machines import RISCV, ZEN5, measured, run_on

KEPT = Artifact("a", 1, "0" * 64, Path("/kept/a"))


def shared_failure(repository: Repository) -> dict[str, int]:
    """The failed outcome of A in studies s, t, u and in s@1, which is archived; their leases."""
    first = repository.open("s", DEFINITION)
    lease = repository.acquire_lease("s", DriverProcess.current())
    failed = replace(outcome(A, "failed"), stdout=Log(b"first", b"", 5), artifacts=(KEPT,))
    repository.add_results("s", lease.number, [(A, failed)])
    repository.release_lease(lease)
    repository.archive(first)
    leases = {}
    for study in ("s", "t", "u"):
        repository.open(study, DEFINITION)
        assert repository.cached(study, [A]) == {A.digest}
        leases[study] = repository.acquire_lease(study, DriverProcess.current()).number
    return leases


def states(repository: Repository) -> list[tuple[int, str]]:
    return [(attempt.number, attempt.state) for attempt in repository.attempts(A.digest)]


def status_in(repository: Repository, study: str) -> str:
    """Return how A stands in a study."""
    return repository.experiment_record(study, A.digest).state


class RetriedFailuresContract:
    def test_what_one_study_sets_aside_stays_in_others_and_in_archived_versions(
        self, repository: Repository
    ) -> None:
        shared_failure(repository)
        assert repository.reopen("t", [A.digest]) == 1
        assert status_in(repository, "t") == "missing"
        for study in ("s@1", "s", "u"):
            assert status_in(repository, study) == "failed"
            assert repository.count_states(study)["failed"] == 1
            assert repository.find_outcomes([A.digest], study)[A.digest].status == "failed"
        assert repository.count_states("t")["failed"] == 0
        assert states(repository) == [(1, "failed")]

    def test_a_study_does_not_get_back_from_others_what_it_set_aside(
        self, repository: Repository
    ) -> None:
        leases = shared_failure(repository)
        repository.reopen("t", [A.digest])
        assert repository.cached("t", [A]) == frozenset()
        assert repository.claim("t", leases["t"], [A]) == {A.digest: 2}
        assert repository.claim("u", leases["u"], [A]) == {}
        assert repository.cached("t", [A]) == frozenset()

    def test_the_study_that_ran_it_does_not_get_back_copies_of_what_it_set_aside(
        self, repository: Repository
    ) -> None:
        shared_failure(repository)
        lease = repository.acquire_lease("s@1", DriverProcess.current())
        assert repository.reopen("s@1", [A.digest]) == 1
        assert repository.cached("s@1", [A]) == frozenset()
        assert repository.claim("s@1", lease.number, [A]) == {A.digest: 2}
        for study in ("s", "t", "u"):
            assert status_in(repository, study) == "failed"

    def test_no_number_of_an_attempt_is_used_twice(self, repository: Repository) -> None:
        leases = shared_failure(repository)
        for number, study in enumerate(("t", "u", "s"), 2):
            repository.reopen(study, [A.digest])
            if number > 2:  # it refused the first one, not that which has been made since
                assert repository.cached(study, [A]) == {A.digest}
                assert repository.reopen(study, [A.digest]) == 1
            assert repository.claim(study, leases[study], [A]) == {A.digest: number}
            failed = outcome(A, "failed", attempt=number)
            assert repository.record(study, leases[study], [failed]) == {A.digest}
        assert states(repository) == [(number, "failed") for number in (1, 2, 3, 4)]

    def test_a_later_success_of_one_study_is_every_study_s_that_sets_its_failure_aside(
        self, repository: Repository
    ) -> None:
        leases = shared_failure(repository)
        repository.reopen("t", [A.digest])
        repository.claim("t", leases["t"], [A])
        repository.record("t", leases["t"], [outcome(A, attempt=2, time=2.0)])
        assert status_in(repository, "u") == "failed"
        assert repository.reopen("u", [A.digest]) == 1
        assert repository.claim("u", leases["u"], [A]) == {}
        assert repository.cached("u", [A]) == {A.digest}
        assert repository.find_outcomes([A.digest], "u")[A.digest].metrics == {"time": 2.0}
        assert status_in(repository, "s@1") == "failed"
        assert states(repository) == [(1, "failed"), (2, "ok")]

    def test_a_new_study_gets_the_result_that_is_ok(self, repository: Repository) -> None:
        leases = shared_failure(repository)
        repository.reopen("u", [A.digest])
        repository.claim("u", leases["u"], [A])
        repository.record("u", leases["u"], [outcome(A, attempt=2, time=2.0)])
        repository.open("v", DEFINITION)
        assert repository.cached("v", [A]) == {A.digest}
        assert status_in(repository, "v") == "ok"
        assert repository.find_outcomes([A.digest])[A.digest].status == "ok"

    def test_a_later_failure_of_another_study_counts_again(self, repository: Repository) -> None:
        leases = shared_failure(repository)
        for study in ("t", "u"):
            repository.reopen(study, [A.digest])
        repository.claim("t", leases["t"], [A])
        repository.record("t", leases["t"], [outcome(A, "timeout", attempt=2)])
        assert repository.claim("u", leases["u"], [A]) == {}
        assert repository.cached("u", [A]) == {A.digest}
        assert status_in(repository, "u") == "timeout"

    def test_what_was_set_aside_keeps_its_logs_and_artifacts(self, repository: Repository) -> None:
        leases = shared_failure(repository)
        for study in ("s", "t", "u", "s@1"):
            repository.reopen(study, [A.digest])
        assert states(repository) == [(1, "failed")]
        repository.claim("t", leases["t"], [A])
        second = replace(outcome(A, attempt=2), stdout=Log(b"second", b"", 6))
        repository.record("t", leases["t"], [second])
        assert repository.logs(A.digest).stdout.head == b"second"
        assert repository.logs(A.digest, 1).stdout.head == b"first"
        assert repository.artifacts(A.digest, 1) == (KEPT,)

    def test_what_was_set_aside_outlives_the_version_that_ran_it(
        self, repository: Repository
    ) -> None:
        shared_failure(repository)
        repository.reopen("t", [A.digest])
        removed = repository.delete("s@1")
        assert (removed.shared, removed.log_bytes, removed.artifacts) == (1, 0, ())
        assert repository.logs(A.digest, 1).stdout.head == b"first"
        for study in ("s", "u"):
            repository.release_lease(repository.leases(study)[0])
            assert repository.delete(study).log_bytes == 0
        assert states(repository) == [(1, "failed")]
        assert repository.artifacts(A.digest) == (KEPT,)
        repository.release_lease(repository.leases("t")[0])
        burden = repository.preview_deletion("t")
        assert (burden.log_bytes, burden.artifacts, burden.attempts) == (5, ("/kept/a",), 0)
        assert repository.delete("t") == burden

    def test_the_number_of_an_attempt_does_not_come_back_after_its_version_was_pruned(
        self, repository: Repository
    ) -> None:
        leases = shared_failure(repository)
        for attempt in (2, 3):
            repository.reopen("t", [A.digest])
            assert repository.claim("t", leases["t"], [A]) == {A.digest: attempt}
            said = replace(outcome(A, "failed", attempt=attempt), cause="a secret")
            repository.record("t", leases["t"], [said])
        repository.release_lease(repository.leases("t")[0])
        repository.delete("t")
        assert states(repository) == [(1, "failed"), (3, "failed")]
        first, last = repository.attempts(A.digest)
        assert (last.cause, dict(last.metrics), last.host) == ("", {}, first.host)
        assert repository.logs(A.digest, 3) == AttemptLogs()
        assert dict(repository.find_digests(A.digest, 9)) == {A.digest: ("s@1", "s", "u")}
        repository.reopen("u", [A.digest])
        assert repository.claim("u", leases["u"], [A]) == {A.digest: 4}

    def test_an_experiment_that_is_gone_from_all_versions_leaves_nothing(
        self, repository: Repository
    ) -> None:
        leases = shared_failure(repository)
        repository.reopen("t", [A.digest])
        repository.claim("t", leases["t"], [A])
        repository.record("t", leases["t"], [outcome(A, "failed", attempt=2)])
        for study in ("t", "u", "s"):
            repository.release_lease(repository.leases(study)[0])
            repository.delete(study)
            assert states(repository) == [(1, "failed"), (2, "failed")]
        repository.delete("s@1")
        with pytest.raises(NotFoundError):
            repository.attempts(A.digest)
        repository.open("t", DEFINITION)
        lease = repository.acquire_lease("t", DriverProcess.current()).number
        assert repository.claim("t", lease, [A]) == {A.digest: 1}

    def test_a_study_that_goes_takes_what_it_set_aside_along_and_nothing_else(
        self, repository: Repository
    ) -> None:
        shared_failure(repository)
        repository.reopen("t", [A.digest])
        repository.release_lease(repository.leases("t")[0])
        assert repository.delete("t").attempts == 0
        assert status_in(repository, "u") == "failed"
        assert repository.logs(A.digest).stdout.head == b"first"
        repository.open("t", DEFINITION)
        assert repository.cached("t", [A]) == {A.digest}

    def test_an_accepted_failure_that_is_set_aside_is_tried_under_the_next_number(
        self, repository: Repository
    ) -> None:
        shared_failure(repository)
        repository.release_lease(repository.leases("s")[0])
        assert repository.equate("s", "s@1", {A.digest: B}, "ann") == 1
        assert repository.reopen("s", [B.digest]) == 1
        assert repository.equated_result("s", B.digest) is None
        lease = repository.acquire_lease("s", DriverProcess.current()).number
        assert repository.claim("s", lease, [B]) == {B.digest: 2}
        assert repository.logs(B.digest, 1).stdout.head == b"first"

    def test_only_failures_of_the_kind_of_machine_are_set_aside(
        self, repository: Repository
    ) -> None:
        lease = shared_failure(repository)["t"]
        for machine in (ZEN5, RISCV):
            run_on(repository, lease, B, machine, 1.0, "t")
        anew = [
            replace(measured(B, machine, 1.0, attempt), status="failed", cause="wrong")
            for attempt, machine in enumerate((ZEN5, RISCV), 1)
        ]
        assert repository.remeasure("t", anew) == 2
        assert repository.reopen("t", [B.digest], {RISCV}) == 1
        assert repository.cached("t", [B], {ZEN5}) == {B.digest}
        assert repository.cached("t", [B], {RISCV}) == frozenset()
        assert repository.claim("t", lease, [B], {RISCV}) == {B.digest: 3}
