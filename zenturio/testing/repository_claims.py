"""Contract tests of repositories: claims, logs, artifacts, and results shared by studies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from zenturio.errors import ConflictError, NotFoundError
from zenturio.experiment.experiment import Artifact, Experiment, Log, Missing
from zenturio.record.entities import AttemptLogs, DriverProcess, Field, Lease, StudyDefinition
from zenturio.record.repository import Repository
from zenturio.testing.experiments import (
    DEFINITION,
    A,
    B,
    C,
    dead_driver,
    driven,
    outcome,
    run,
    run_as,
)


class Claims:
    def test_an_experiment_is_claimed_once(self, repository: Repository) -> None:
        driver, second = driven(repository, 2)
        assert repository.claim("s", driver, [A, B]) == {A.digest: 1, B.digest: 1}
        assert repository.claim("s", second, [B, C]) == {C.digest: 1}
        assert repository.count_states("s")["running"] == 3

    def test_a_claim_may_be_repeated_by_its_driver(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        assert repository.claim("s", driver, [A]) == {A.digest: 1}
        # The connection may break after the commit: the driver asks again and gets the same claim.
        assert repository.claim("s", driver, [A, A]) == {A.digest: 1}
        assert len(repository.attempts(A.digest)) == 1

    def test_an_experiment_with_an_outcome_is_not_claimed(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A])
        assert repository.claim("s", driver, [A]) == {}

    def test_an_unknown_experiment_is_not_found(self, repository: Repository) -> None:
        driven(repository)
        for ask in (repository.attempts, repository.logs, repository.artifacts):
            with pytest.raises(NotFoundError, match=f"has no experiment {A.digest}"):
                ask(A.digest)
        with pytest.raises(NotFoundError):
            repository.experiment_record("s", A.digest)

    def test_a_superseded_driver_claims_nothing(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        dead = repository.acquire_lease("s", dead_driver())
        repository.acquire_lease("s", DriverProcess.current())
        with pytest.raises(ConflictError):
            repository.claim("s", dead.number, [A])
        assert repository.count_states("s")["running"] == 0

    def test_a_claim_of_a_lost_driver_of_another_study_is_taken_over(
        self, repository: Repository
    ) -> None:
        (driver,) = driven(repository)
        repository.open("t", DEFINITION)
        dead = repository.acquire_lease("t", dead_driver())
        repository.claim("t", dead.number, [A])
        assert repository.claim("s", driver, [A]) == {A.digest: 2}

    def test_a_claim_of_a_live_driver_of_another_study_is_respected(
        self, repository: Repository
    ) -> None:
        (driver,) = driven(repository)
        repository.open("t", DEFINITION)
        other_lease = repository.acquire_lease("t", DriverProcess("elsewhere", 1, "x"))
        repository.claim("t", other_lease.number, [A])
        assert repository.claim("s", driver, [A]) == {}

    def test_leaving_releases_claims(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        lease = repository.acquire_lease("s", DriverProcess.current())
        repository.claim("s", lease.number, [A])
        repository.release_lease(lease)
        assert repository.count_states("s")["running"] == 0
        assert [a.state for a in repository.attempts(A.digest)] == ["stale"]
        assert repository.experiment_record("s", A.digest).state == "missing"
        assert [r.digest for r in repository.records("s", states=["missing"])] == [A.digest]
        assert list(repository.records("s")) == []

    def test_stale_attempts_keep_the_number_of_their_lease(self, repository: Repository) -> None:
        repository.open("s", DEFINITION)
        for _ in range(3):  # so that numbers of leases and of attempts differ
            lease = repository.acquire_lease("s", DriverProcess.current(), join=True)
        repository.claim("s", lease.number, [A, B, C])
        repository.release_lease(lease)
        for digest in (A.digest, B.digest, C.digest):
            assert [a.driver for a in repository.attempts(digest)] == [lease.number]

    def test_lost_claims_are_told_in_their_order(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        for claimed in (C, A, B):
            repository.claim("s", driver, [claimed])
        (lease,) = repository.leases("s")
        repository.release_lease(lease)
        stale = [event.digest for event in repository.events("s") if event.kind == "stale"]
        assert stale == [C.digest, A.digest, B.digest]

    def test_a_missing_experiment_is_as_its_last_attempt_had_it(
        self, repository: Repository
    ) -> None:
        repository.open("s", DEFINITION)
        # An edit of the space gave it another place and another value beside those of its digest.
        for moved in (replace(A, index=7, values={"n": 7}), replace(A, index=3, values={"n": 3})):
            repository.release_lease(_claiming(repository, moved))
        (listed,) = repository.records("s", states=["missing"])
        one = repository.experiment_record("s", A.digest)
        for record in (one, listed):
            assert (record.key.number, record.values) == (3, {"n": 3})
        repository.release_lease(_claiming(repository, replace(A, index=9, values={"n": 9})))
        assert repository.experiment_record("s", A.digest).key.number == 9


def _claiming(repository: Repository, experiment: Experiment) -> Lease:
    """Return the lease of a driver that has claimed an experiment."""
    lease = repository.acquire_lease("s", DriverProcess.current())
    assert repository.claim("s", lease.number, [experiment])
    return lease


class Files:
    def test_logs_are_kept_byte_for_byte(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        every_byte = Log(bytes(range(256)) * 4, b"\xff\x00\xfe" * 100, 10**10)
        result = replace(outcome(A), stdout=every_byte, stderr=Log(b"\0", b"", 1))
        run_as(repository, driver, [A], [result])
        run(repository, driver, [B])
        assert repository.logs(A.digest) == AttemptLogs(every_byte, Log(b"\0", b"", 1))
        assert repository.logs(A.digest, 1) == repository.logs(A.digest)
        assert repository.logs(B.digest) == AttemptLogs()
        assert repository.logs(A.digest, 2) == AttemptLogs()

    def test_each_attempt_has_its_own_logs(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        for number in (1, 2):
            repository.claim("s", driver, [A])
            stderr = Log(b"%d" % number, b"", 1)
            failed = replace(outcome(A, "failed", attempt=number), stderr=stderr)
            repository.record("s", driver, [failed], final=number == 2)
        assert repository.logs(A.digest).stderr.head == b"2"
        assert repository.logs(A.digest, 1).stderr.head == b"1"

    def test_artifacts_are_kept(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        files = tuple(
            Artifact(f"out/{i}.dat", 2**40 + i, f"{i:064x}", Path(f"/kept/Größe {i}"))
            for i in range(3)
        )
        run_as(repository, driver, [A], [replace(outcome(A), artifacts=files)])
        assert repository.artifacts(A.digest) == files
        assert repository.artifacts(A.digest, 1) == files
        assert repository.artifacts(A.digest, first=1, most=1) == files[1:2]
        assert repository.artifacts(A.digest, first=len(files)) == ()
        assert repository.artifact_count(A.digest) == len(files)
        assert repository.artifact_count(A.digest, 7) == 0
        assert repository.artifacts(A.digest, 7) == ()


class Sharing:
    def test_results_of_one_study_are_cached_for_another(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A], time=2.5)
        repository.open("t", DEFINITION)
        for _ in range(2):
            assert repository.cached("t", [A, B]) == {A.digest}
        assert repository.count_states("t")["ok"] == 1
        (record,) = repository.records("t")
        assert record.outcome == outcome(A, time=2.5)
        assert len(repository.attempts(A.digest)) == 1
        assert repository.find_outcomes([A.digest], "t") == {A.digest: outcome(A, time=2.5)}

    def test_an_experiment_of_several_studies_is_run_by_one_of_them(
        self, repository: Repository
    ) -> None:
        (driver,) = driven(repository)
        numbers = {}
        for name in ("t", "u"):
            repository.open(name, DEFINITION)
            numbers[name] = repository.acquire_lease(name, DriverProcess.current()).number
        assert repository.claim("s", driver, [A]) == {A.digest: 1}
        for name, number in numbers.items():
            assert repository.cached(name, [A]) == frozenset()
            assert repository.claim(name, number, [A]) == {}
        repository.record("s", driver, [outcome(A, time=2)])
        for name, number in numbers.items():
            assert repository.claim(name, number, [A]) == {}
            assert repository.cached(name, [A]) == {A.digest}
            assert next(repository.records(name)).outcome == outcome(A, time=2)
        for name in ("s", "t", "u"):
            assert repository.count_states(name)["ok"] == 1
            assert repository.count_states(name)["running"] == 0

    def test_metrics_that_another_study_measures_otherwise_are_missing(
        self, repository: Repository
    ) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A], time=1.0, wtime=3.0)
        ours = (Field("time", how="stderr"), Field("size", how="stdout"))
        repository.open("t", StudyDefinition(metrics=ours))
        repository.cached("t", [A])
        metrics = repository.find_outcomes([A.digest], "t")[A.digest].metrics
        assert metrics["wtime"] == 3.0
        assert metrics["time"] == Missing(
            "the experiment was run by study 's', which measures it in another way"
        )
        assert metrics["size"] == Missing(
            "the experiment was run by study 's', which did not measure it"
        )
        assert repository.find_outcomes([A.digest])[A.digest].metrics["time"] == 1.0

    def test_remeasuring_a_shared_experiment_leaves_the_other_study_unchanged(
        self, repository: Repository
    ) -> None:
        (driver,) = driven(repository)
        run(repository, driver, [A], time=1.0)
        repository.open("t", DEFINITION)
        repository.cached("t", [A])
        assert repository.remeasure("t", [outcome(A, "failed", time=Missing("gone"))]) == 1
        for study in (None, "s"):
            assert repository.find_outcomes([A.digest], study)[A.digest] == outcome(A, time=1.0)
        accepted = repository.find_outcomes([A.digest], "t")[A.digest]
        assert (accepted.status, accepted.metrics) == ("failed", {"time": Missing("gone")})
        assert (repository.count_states("s")["ok"], repository.count_states("t")["failed"]) == (
            1,
            1,
        )

    def test_deleting_a_study_keeps_results_of_other_studies(self, repository: Repository) -> None:
        (driver,) = driven(repository)
        artifact = Artifact("a", 1, "0" * 64, Path("/artifact/a"))
        result = replace(outcome(B), artifacts=(artifact,), stdout=Log(b"abc", b"de", 9))
        run(repository, driver, [A], time=1.0)
        run_as(repository, driver, [B], [result])
        repository.open("t", DEFINITION)
        repository.cached("t", [A, C])
        repository.release_lease(repository.leases("s")[0])
        burden = repository.preview_deletion("s")
        assert (burden.experiments, burden.shared, burden.attempts) == (1, 1, 1)
        assert (burden.log_bytes, burden.artifacts) == (5, ("/artifact/a",))
        assert repository.delete("s") == burden
        assert [s.name for s in repository.studies()] == ["t"]
        assert repository.find_outcomes([A.digest, B.digest]) == {A.digest: outcome(A, time=1.0)}
        assert sum(repository.count_states("t").values()) == repository.count_states("t")["ok"] == 1
        with pytest.raises(NotFoundError):
            repository.logs(B.digest)
        repository.open("s", DEFINITION)
        assert repository.cached("s", [A, B]) == {A.digest}

    def test_a_preview_of_a_deletion_counts_the_attempts_that_a_dead_driver_left(
        self, repository: Repository
    ) -> None:
        repository.open("s", DEFINITION)
        dead = repository.acquire_lease("s", dead_driver())
        repository.claim("s", dead.number, [A])
        preview = repository.preview_deletion("s")
        assert preview.attempts == 1
        assert repository.delete("s") == preview

    def test_a_study_with_a_driver_cannot_be_deleted(self, repository: Repository) -> None:
        driven(repository)
        with pytest.raises(ConflictError, match="cannot be changed or deleted: process"):
            repository.delete("s")
        assert repository.study("s").name == "s"
