"""Rows that no repository has written: each is named, and nobody waits for what they say."""

import sqlite3
import time

import pytest

from zenturio.errors import ConflictError, RecordError
from zenturio.record import DriverProcess, Field, StudyDefinition
from zenturio.record.leases import LONGEST_LEASE_SECONDS
from zenturio.record.open import open_repository
from zenturio.testing.experiments import experiment, outcome

DEFINITION = StudyDefinition((Field("n", "int"),), (Field("time", how="stdout"),))
EXPERIMENTS = [experiment(n) for n in range(3)]


def record(repository, study):
    repository.open(study, DEFINITION)
    lease = repository.acquire_lease(study, DriverProcess.current())
    repository.claim(study, lease.number, EXPERIMENTS)
    repository.record(study, lease.number, [outcome(e, time=1.5) for e in EXPERIMENTS])
    return lease


def change(path, *statements):
    with sqlite3.connect(path, isolation_level=None) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM versions",
        "DELETE FROM studies",
        "UPDATE versions SET study = id + 999",
        "UPDATE results SET version = version + 70",
        "UPDATE results SET version = 9e999",
    ],
)
def test_results_of_versions_that_are_not_there_are_refused(tmp_path, statement):
    path = tmp_path / "zenturio.db"
    repository = open_repository(path)
    repository.open("older", DEFINITION)
    repository.release_lease(record(repository, "newer"))
    repository.close()
    change(path, statement)
    repository = open_repository(path)
    repository.open("s", DEFINITION)
    with pytest.raises(RecordError, match="versions that are not there") as refusal:
        repository.cached("s", EXPERIMENTS)
    assert "zen db check" in str(refusal.value.diagnostics[0].hint)
    repository.close()


@pytest.mark.parametrize("lease", ["7000", "(SELECT id FROM leases WHERE ended IS NOT NULL)"])
def test_what_drivers_without_a_lease_have_claimed_is_granted(tmp_path, lease):
    path = tmp_path / "zenturio.db"
    repository = open_repository(path)
    repository.open("s", DEFINITION)
    repository.release_lease(repository.acquire_lease("s", DriverProcess.current()))
    other = repository.acquire_lease("s", DriverProcess.current())
    assert len(repository.claim("s", other.number, EXPERIMENTS)) == 3
    change(path, f"UPDATE claims SET lease = {lease}")
    repository.release_lease(other)
    own = repository.acquire_lease("s", DriverProcess.current())
    assert repository.claim("s", own.number, EXPERIMENTS) == {e.digest: 2 for e in EXPERIMENTS}
    assert [a.state for a in repository.attempts(EXPERIMENTS[0].digest)] == ["stale", "running"]
    repository.close()


@pytest.mark.parametrize(("until", "seconds"), [("9e999", "60"), ("4e9", "60"), ("4e9", "9e999")])
def test_a_lease_ends_within_its_own_length_however_far_it_reaches(tmp_path, until, seconds):
    path = tmp_path / "zenturio.db"
    repository = open_repository(path)
    repository.open("s", DEFINITION)
    other = repository.acquire_lease("s", DriverProcess("elsewhere", 7, "then"))
    repository.claim("s", other.number, EXPERIMENTS)
    change(path, f"UPDATE leases SET until = {until}, seconds = {seconds}")
    with pytest.raises(ConflictError, match="process 7 on elsewhere"):
        repository.acquire_lease("s", DriverProcess.current())
    (lease,) = repository.leases("s")
    assert lease.until <= time.time() + LONGEST_LEASE_SECONDS
    change(path, f"UPDATE leases SET until = {until}, seconds = {seconds}")
    own = repository.acquire_lease("s", DriverProcess.current(), join=True)
    assert repository.claim("s", own.number, EXPERIMENTS) == {}
    assert repository.leases("s")[0].until <= time.time() + LONGEST_LEASE_SECONDS
    repository.close()


@pytest.mark.parametrize("seconds", ["4e9", "9e999"])
def test_a_lease_is_not_renewed_beyond_the_longest_length(tmp_path, seconds):
    path = tmp_path / "zenturio.db"
    repository = open_repository(path)
    repository.open("s", DEFINITION)
    lease = repository.acquire_lease("s", DriverProcess.current())
    change(path, f"UPDATE leases SET seconds = {seconds}")
    renewed = repository.renew_lease(lease)
    assert lease.until <= renewed.until <= time.time() + LONGEST_LEASE_SECONDS
    repository.close()
