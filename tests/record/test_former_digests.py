"""Results under digests of an earlier format take the present ones, wherever they stand."""

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest

from zenturio.errors import ConflictError, RecordError
from zenturio.experiment.experiment import HostConditions
from zenturio.record import maintenance, schema
from zenturio.record.database import Database
from zenturio.record.entities import DriverProcess
from zenturio.record.open import dialect_at, open_repository
from zenturio.testing.experiments import DEFINITION, experiment, outcome

OLD = [experiment(i) for i in range(3)]
NEW = [replace(experiment(i, salt="format 2"), former=OLD[i].digest) for i in range(3)]


def sql(url, statement):
    database = Database(dialect_at(url), 5)
    try:
        return database.write(lambda transaction: transaction.sql(statement))
    finally:
        database.close()


def run(repository, study, experiments, status="ok"):
    repository.open(study, DEFINITION)
    lease = repository.acquire_lease(study, DriverProcess.current())
    repository.claim(study, lease.number, experiments)
    outcomes = [outcome(each, status, time=1.5) for each in experiments]
    repository.record(study, lease.number, outcomes)
    repository.release_lease(lease)


def drop_added_columns(url, first):
    """Take from the tables what the revision *first*, and those after it, added."""
    if "://" not in url:  # SQLite refuses to take a column from under a view
        for (view,) in sql(url, "SELECT name FROM sqlite_master WHERE type = 'view'"):
            sql(url, f'DROP VIEW "{view}"')
    for revision, tables in schema.ADDED_COLUMNS.items():
        for table, names in tables if revision >= first else ():
            for name in names:
                cascade = " CASCADE" if "://" in url else ""
                sql(url, f"ALTER TABLE {table} DROP COLUMN {name}{cascade}")


@pytest.fixture
def repository(url):
    """Two studies with results of before."""
    with contextlib.closing(open_repository(url)) as repository:
        run(repository, "s", OLD[:2])
        repository.open("t", DEFINITION)
        assert repository.cached("t", OLD[:1]) == {OLD[0].digest}
        yield repository
    assert maintenance.check_repository(url) == ()


def test_a_result_is_found_by_its_former_digest_and_takes_the_present_one(repository):
    repository.add_event("s", "warning", "about the first", OLD[0].digest)
    before = repository.find_outcomes([OLD[0].digest])[OLD[0].digest]
    assert repository.cached("s", NEW) == {NEW[0].digest, NEW[1].digest}
    found = repository.find_outcomes([each.digest for each in NEW], "s")
    assert found[NEW[0].digest] == replace(before, digest=NEW[0].digest)
    assert repository.find_outcomes([each.digest for each in OLD]) == {}
    assert repository.attempts(NEW[0].digest)[0].state == "ok"
    assert [event.text for event in repository.events("s", NEW[0].digest)] == ["about the first"]
    assert repository.count_states("s")["ok"] == 2


def test_every_study_that_has_it_sees_the_present_digest(repository):
    repository.cached("s", NEW)
    assert [record.digest for record in repository.records("t")] == [NEW[0].digest]
    assert repository.cached("t", NEW[:1]) == {NEW[0].digest}


def test_caches_of_each_study_read_the_results_again(repository, url):
    edits = "SELECT s.name, v.edits FROM versions v JOIN studies s ON s.id = v.study"
    assert dict(sql(url, edits)) == {"s": 0, "t": 0}
    repository.cached("s", NEW)
    assert dict(sql(url, edits)) == {"s": 1, "t": 1}
    rows = dict(sql(url, "SELECT version, last - first FROM edits"))
    assert rows == {1: 1, 2: 0}  # two results of the first one, and the copy of one


def test_the_former_digest_leads_to_the_experiment(repository):
    repository.cached("s", NEW)
    assert repository.find_digests(OLD[0].digest[:12], 5) == ((NEW[0].digest, ("s", "t")),)


def test_without_former_digests_nothing_changes(repository):
    plain = [replace(each, former="") for each in NEW]
    assert repository.cached("s", plain) == frozenset()
    assert repository.find_outcomes([OLD[0].digest])


def test_what_has_a_result_in_both_ways_keeps_both(repository):
    run(repository, "s", [replace(NEW[0], former="")])
    assert repository.cached("s", NEW[:1]) == {NEW[0].digest}
    assert repository.find_outcomes([OLD[0].digest])
    assert repository.count_states("s")["ok"] == 3


def test_attempts_without_a_result_count_on(repository, url):
    lease = repository.acquire_lease("s", DriverProcess.current())
    repository.claim("s", lease.number, OLD[2:])
    repository.record("s", lease.number, [outcome(OLD[2], "failed")], final=False)
    assert repository.cached("s", NEW[2:]) == frozenset()
    assert repository.claim("s", lease.number, NEW[2:]) == {NEW[2].digest: 2}
    repository.release_lease(lease)
    assert [a.number for a in repository.attempts(NEW[2].digest)] == [1, 2]


def test_a_repository_of_revision_0004_gets_its_column_where_it_is(url):
    with contextlib.closing(open_repository(url)) as repository:
        run(repository, "s", OLD)
        lease = repository.acquire_lease("s", DriverProcess.current())
    drop_added_columns(url, "0005")
    sql(url, "UPDATE alembic_version SET version_num = '0004'")
    with pytest.raises(ConflictError, match="study 's' is being run by process"):
        maintenance.upgrade_repository(url)
    sql(url, f"UPDATE leases SET ended = until WHERE id = {lease.number}")
    done = maintenance.upgrade_repository(url)
    assert (done.before, done.after, done.copy is None) == ("0004", "0008", "://" in url)
    assert maintenance.check_repository(url) == ()
    with contextlib.closing(open_repository(url)) as repository:
        assert repository.has_former_digests()
        repository.open("s", DEFINITION)
        assert repository.cached("s", NEW) == {each.digest for each in NEW}
    assert maintenance.upgrade_repository(url).before == "0008"


def test_a_repository_of_revision_0005_gets_the_columns_of_the_order(url):
    with contextlib.closing(open_repository(url)) as repository:
        repository.open("s", DEFINITION)
        lease = repository.acquire_lease("s", DriverProcess.current())
        claims = repository.claim("s", lease.number, NEW[:2])
        conditions = HostConditions(0.5, 1.5, other={"numa": 1})
        outcomes = [
            replace(outcome(each, attempt=claims[each.digest]), conditions=conditions)
            for each in NEW[:2]
        ]
        repository.record("s", lease.number, outcomes)
        repository.release_lease(lease)
    drop_added_columns(url, "0006")
    sql(url, "UPDATE alembic_version SET version_num = '0005'")
    with pytest.raises(RecordError, match="has the schema 0005"):
        open_repository(url)
    done = maintenance.upgrade_repository(url)
    assert (done.before, done.after, done.copy is None) == ("0005", "0008", "://" in url)
    assert maintenance.check_repository(url) == ()
    with contextlib.closing(open_repository(url)) as repository:
        assert not repository.has_former_digests()
        assert [a.conditions for a in repository.attempts(NEW[0].digest)] == [conditions]
    if "://" not in url:  # salvage tells rows by the number of their values
        maintenance.salvage(Path(url), Path(f"{url}.saved"))
        with contextlib.closing(open_repository(f"{url}.saved")) as repository:
            assert [a.conditions for a in repository.attempts(NEW[1].digest)] == [conditions]


def test_a_repository_that_is_saved_keeps_its_former_digests(tmp_path):
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    with contextlib.closing(open_repository(source)) as repository:
        run(repository, "s", OLD)
    maintenance.salvage(source, target)
    with contextlib.closing(open_repository(target)) as repository:
        assert repository.has_former_digests()
