"""kill -9 at every failpoint and at moments that nobody chose: nothing recorded is lost."""

import random
import signal

import pytest

from postgres import slow_on_server
from record import oracle
from record.worker import DEFINITION, STUDY
from zenturio import failpoints
from zenturio.record.open import open_repository


def test_the_room_has_the_failpoints_that_are_tried_here():
    assert {name for name in failpoints.names() if name.startswith("record.")} == {
        "record.begun", "record.committed", "record.created", "record.widened", "record.written",
    }  # fmt: skip


FAILPOINTS = (
    "record.created:1", "record.widened:1", "record.widened:2", "record.begun:4",
    # The schema, the study (its view has a write of its own on a server), the lease, what is
    # cached, the first claim, its outcomes.
    *(f"record.written:{write}" for write in range(1, 8)),
    *(f"record.committed:{write}" for write in (2, 3, 5, 6, 7)),
)  # fmt: skip
QUICK = {
    "sqlite": {
        "record.created:1", "record.widened:2", "record.begun:4", "record.written:2",
        "record.written:4", "record.written:7", "record.committed:3", "record.committed:6",
    },
    "postgresql": {"record.written:2", "record.committed:6"},
}  # fmt: skip
"""Half a second of processor each: the others are tried in make test-all alone."""


@pytest.mark.parametrize(
    ("url", "failpoint"),
    [
        pytest.param(kind, each, marks=[] if each in quick else [pytest.mark.slow])
        for kind, quick in QUICK.items()
        for each in FAILPOINTS
    ],
    indirect=["url"],
)
def test_a_driver_that_is_killed_at_a_failpoint_is_resumed(url, failpoint):
    killed = oracle.start(url, 12, 5, ZENTURIO_FAILPOINT=failpoint)
    out, err = killed.communicate()
    assert killed.returncode == -signal.SIGKILL, err
    accepted_digests = [line.split()[1] for line in out.splitlines() if line.startswith("accepted")]
    if accepted_digests:
        repository = open_repository(url)
        assert set(accepted_digests) <= repository.find_outcomes(accepted_digests).keys()
        repository.close()
    oracle.holds(url, 12)


@slow_on_server("url")
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_driver_that_is_killed_at_any_moment_is_resumed(url, seed):
    moment = random.Random(seed)
    accepted_digests = []
    for _ in range(3):
        driver = oracle.start(url, 150, 4)
        for _ in range(moment.randrange(1, 60)):
            line = driver.stdout.readline()
            accepted_digests += [line.split()[1]] if line.startswith("accepted") else []
        driver.kill()
        driver.communicate()
    repository = open_repository(url)
    assert repository.find_outcomes(accepted_digests).keys() == set(accepted_digests)
    repository.close()
    oracle.holds(url, 150)


def test_a_claim_that_was_committed_but_not_heard_of_strands_no_point(url):
    write = 6 if "://" in url else 5  # a file has the view of the study in the write before
    killed = oracle.start(url, 5, 5, ZENTURIO_FAILPOINT=f"record.committed:{write}")
    out, err = killed.communicate()
    assert "claim" not in out
    repository = open_repository(url)
    repository.open(STUDY, DEFINITION)
    assert repository.count_states(STUDY)["running"] == 5, err
    repository.close()
    oracle.holds(url, 5)
