"""kill -9 of a service: what was submitted is run, each experiment once, as if nothing had been."""

import os
import random
import signal
import time
from contextlib import chdir
from pathlib import Path

import pytest

from loaded import Program
from study.oracle import alive, wait_for
from study.test_kills import DECLARED
from study.test_serving import STUDY
from zenturio.record import maintenance
from zenturio.record.open import open_repository
from zenturio.study.service.submission_client import submit_study
from zenturio.study.study_request import StudyRequest

SERVICE = Path(__file__).parent / "service.py"
SIZES = {"one": 9, "two": 5, "three": 7}
SERVED = sorted(name for name in DECLARED if name.startswith("serve."))
INSIDE = ("study.leased", "study.claimed", "study.committed", "study.left", "record.committed")
"""Where drivers in it are killed besides, with all others."""


class House:
    """A folder whose service is killed."""

    def __init__(self, folder, url):
        self.folder, self.url = folder, url
        (folder / ".zenturio").mkdir(parents=True)
        for name, count in SIZES.items():
            text = STUDY.format(name=name, count=count, work="sleep 0.02")
            (folder / f"{name}.sh").write_text(text)

    def submit(self):
        """What each of three users wants; asked again, the same."""
        repository = open_repository(self.url, finds_unique=True)
        with chdir(self.folder):
            for user, name in zip(("alice", "bob", "carol"), SIZES, strict=True):
                request = StudyRequest((f"{name}.sh",))
                submit_study(repository, request, user, f"token-{name}")
        repository.close()

    def start(self, policy="srpt", **environment):
        every = os.environ | environment
        return Program(SERVICE, self.url, policy, cwd=self.folder, environment=every)

    def turns(self):
        repository = open_repository(self.url, finds_unique=True)
        try:
            return [each.turn for each in repository.submissions()]
        finally:
            repository.close()

    def finish(self):
        """A service runs the rest, and is stopped."""
        service = self.start()
        wait_for(service, "serving")
        while self.turns() != ["done"] * 3:
            assert service.poll() is None, service.communicate()
            time.sleep(0.05)
        service.terminate()
        _, err = service.communicate()
        assert service.returncode == 0, err

    def settled(self):
        """The oracle."""
        repository = open_repository(self.url, finds_unique=True)
        for name, count in SIZES.items():
            records = list(repository.records(name))
            found = {r.values["n"]: r.outcome.metrics["square"] for r in records}
            assert found == {n: n * n for n in range(1, count + 1)}
            assert len(records) == count
            for record in records:
                states = [a.state for a in repository.attempts(record.digest)]
                assert states.count("ok") == 1, states
            assert repository.leases(name) == ()
        assert len(repository.submissions()) == 3
        repository.close()
        assert maintenance.check_repository(self.url) == ()
        assert alive(self.folder) == []


@pytest.fixture
def house(tmp_path):
    return House(tmp_path / "lab", str(tmp_path / "zenturio.db"))


def killed_at(house, failpoint):
    house.submit()
    service = house.start(ZENTURIO_FAILPOINT=failpoint)
    _, err = service.communicate()
    assert service.returncode == -signal.SIGKILL, err
    house.finish()
    house.settled()


@pytest.mark.parametrize("name", SERVED)
def test_a_service_that_is_killed_at_a_failpoint_goes_on(house, name):
    killed_at(house, f"{name}:2")


@pytest.mark.slow
@pytest.mark.parametrize("passing", [1, 3])
@pytest.mark.parametrize("name", [*SERVED, *INSIDE])
def test_a_service_that_is_killed_at_any_failpoint_goes_on(house, name, passing):
    killed_at(house, f"{name}:{passing}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_service_that_is_killed_again_and_again_goes_on(tmp_path, postgres_url, seed):
    url = postgres_url if seed % 2 else str(tmp_path / "zenturio.db")
    house = House(tmp_path / "lab", url)
    house.submit()
    moment = random.Random(seed)
    for _ in range(4):
        service = house.start(policy=moment.choice(["fcfs", "srpt", "foft"]))
        time.sleep(moment.uniform(0.5, 2.0))
        service.kill()
        service.communicate()
    house.submit()
    house.finish()
    house.settled()
