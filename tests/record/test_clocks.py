"""Times are those of the database's clock, whichever clock a driver or another host has."""

from contextlib import closing
from dataclasses import replace

import pytest

from record.worker import DEFINITION, STUDY, result
from zenturio.record import DriverProcess, leases
from zenturio.record.leases import measured_offset
from zenturio.record.open import open_repository
from zenturio.testing.experiments import experiment


@pytest.mark.parametrize("ahead", [7200.0, -86400.0, 0.0])
def test_times_of_a_driver_whose_clock_is_wrong_are_corrected(url, monkeypatch, ahead):
    true_time = leases.time
    monkeypatch.setattr(leases, "time", lambda: true_time() + ahead)
    repository = open_repository(url)
    repository.open(STUDY, DEFINITION)
    lease = repository.acquire_lease(STUDY, DriverProcess.current())
    each = experiment(1)
    claims = repository.claim(STUDY, lease.number, [each])
    now = true_time()
    done = replace(
        result(each, claims[each.digest]), started=now + ahead - 2.5, ended=now + ahead - 0.5
    )
    assert repository.record(STUDY, lease.number, [done]) == {each.digest}
    (record,) = repository.records(STUDY)
    assert record.outcome.ended == pytest.approx(now - 0.5, abs=leases.CLOCK_TOLERANCE)
    assert record.outcome.ended - record.outcome.started == pytest.approx(2.0, abs=1e-3)
    repository.close()


def test_a_time_in_the_future_is_another_hosts_and_is_told(url):
    repository = open_repository(url)
    repository.open(STUDY, DEFINITION)
    lease = repository.acquire_lease(STUDY, DriverProcess.current())
    each = experiment(1)
    claims = repository.claim(STUDY, lease.number, [each])
    now = leases.time()
    done = replace(
        result(each, claims[each.digest]), host="node7", started=now + 7200, ended=now + 7203
    )
    repository.record(STUDY, lease.number, [done])
    (record,) = repository.records(STUDY)
    assert record.outcome.ended == pytest.approx(now, abs=10)
    assert record.outcome.ended - record.outcome.started == pytest.approx(3.0, abs=1e-3)
    texts = [event.text for event in repository.events(STUDY) if event.kind == "clock"]
    assert len(texts) == 1
    assert texts[0].startswith("the clock of node7 was 7,20")
    repository.close()


def test_a_lease_that_reaches_too_far_is_shortened_where_it_stands_in_the_way(url):
    each = experiment(1)
    with closing(open_repository(url)) as repository:
        leased = {}
        for name in ("one", "other"):
            repository.open(name, DEFINITION)
            leased[name] = repository.acquire_lease(name, DriverProcess.current())
        repository.claim("one", leased["one"].number, [each])
        far = f"UPDATE leases SET until = until + 1e6 WHERE id = {leased['one'].number}"
        repository._database.write(lambda transaction: transaction.sql(far))
        assert repository.claim("other", leased["other"].number, [each]) == {}
        ((until,),) = repository._database.read(
            lambda t: t.sql(f"SELECT until FROM leases WHERE id = {leased['one'].number}")
        )
        assert until < leases.time() + 1e5


def test_an_answer_that_took_long_says_nothing_about_the_clock():
    assert measured_offset(110.0, 100.0, 121.0) == 0.0
    assert measured_offset(110.0, 100.0, 100.2) == pytest.approx(9.9)
    assert measured_offset(100.5, 100.0, 100.2) == 0.0
