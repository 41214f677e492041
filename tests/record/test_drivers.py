"""Several drivers on one study: processes of their own, no claim given twice."""

import os
import subprocess
from collections import Counter
from contextlib import closing

import pytest

from record import oracle
from record.worker import DEFINITION, STUDY
from zenturio.record import DriverProcess
from zenturio.record.codec import Form
from zenturio.record.open import open_repository
from zenturio.system.processes import process_birth
from zenturio.testing.experiments import dead_driver, experiment, outcome


@pytest.mark.parametrize(
    ("drivers", "count"), [(4, 40), pytest.param(8, 80, marks=pytest.mark.slow)]
)
def test_drivers_that_joined_never_get_the_same_claim(url, drivers, count):
    running = [oracle.start(url, count, 3) for _ in range(drivers)]
    lines = []
    for driver in running:
        out, err = driver.communicate()
        assert driver.returncode == 0, err
        lines += out.splitlines()
    claims = Counter(line.split()[1] for line in lines if line.startswith("claim"))
    accepted = Counter(line.split()[1] for line in lines if line.startswith("accepted"))
    assert len(claims) == len(accepted) == count
    assert set(claims.values()) == set(accepted.values()) == {1}
    oracle.holds(url, count)


def test_the_start_of_a_process_tells_it_from_a_later_one_of_its_number():
    here = DriverProcess.current()
    assert not here.has_exited()
    assert DriverProcess(here.host, here.pid, here.born + "0").has_exited()
    assert process_birth(here.pid) == here.born


def test_a_lease_tells_whether_its_driver_is_gone(url):
    with closing(open_repository(url)) as repository:
        for driver, is_gone in ((dead_driver(), True), (DriverProcess.current(), False)):
            repository.open(STUDY, DEFINITION)
            lease = repository.acquire_lease(STUDY, driver)
            assert lease.driver_has_exited() is is_gone
            repository.release_lease(lease)


def test_what_nobody_recorded_is_not_measured_again(url):
    with closing(open_repository(url)) as repository:
        repository.open(STUDY, DEFINITION)
        assert repository.remeasure(STUDY, [outcome(experiment(1))]) == 0
        assert list(repository.records(STUDY)) == []


def test_forms_of_values_that_were_all_measured_again_are_forgotten(url):
    of = [experiment(number) for number in range(2)]

    def stored_forms():
        with closing(open_repository(url)) as other:
            rows = other._database.read(
                lambda t: t.sql("SELECT forms FROM fields WHERE name = 'cut'")
            )
        return Form(rows[0][0])

    with closing(open_repository(url)) as repository:
        repository.open(STUDY, DEFINITION)
        lease = repository.acquire_lease(STUDY, DriverProcess.current())
        results = [(each, outcome(each, metrics={"cut": "1,"})) for each in of]
        repository.add_results(STUDY, lease.number, results)
        repository.release_lease(lease)
        assert stored_forms() == Form.TEXT
        anew = [outcome(each, metrics={"cut": 1.5}) for each in of]
        repository.remeasure(STUDY, anew[:1], DEFINITION)
        assert stored_forms() == Form.TEXT | Form.REAL
        repository.remeasure(STUDY, anew, DEFINITION)
        assert stored_forms() == Form.REAL


def test_a_driver_elsewhere_is_never_said_to_be_gone():
    here = DriverProcess.current()
    assert not DriverProcess("elsewhere", 4_000_000, here.born + "0").has_exited()
    assert not DriverProcess(here.host, 4_000_000, "another boot/another namespace/1").has_exited()


def test_a_driver_that_waits_to_be_buried_is_gone():
    """A zombie has a number and a start, and will never do anything again."""
    child = subprocess.Popen(["sleep", "100"])
    driver = DriverProcess(DriverProcess.current().host, child.pid, process_birth(child.pid))
    assert not driver.has_exited()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert driver.has_exited()
    child.wait()


def test_drivers_of_one_process_see_each_other(url):
    one, two = open_repository(url), open_repository(url)
    one.open(STUDY, DEFINITION)
    lease = one.acquire_lease(STUDY, DriverProcess.current())
    assert two.leases(STUDY) == (lease,)
    one.close()
    two.close()
