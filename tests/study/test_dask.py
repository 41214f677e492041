"""kill -9 of a driver whose experiments run in a cluster of Dask, and of the cluster under it."""

import random
import time
from dataclasses import replace

import pytest

from dask_cluster import Cluster
from study import oracle
from zenturio.testing.executor import running, until

HELD = 'test -z "$HOLD" || test -e "$HOLD" || sleep {}'


@pytest.fixture
def far(study, monkeypatch):
    """Makes studies that run in a cluster, whose workers know their marks, and what to wait for."""
    clusters = []

    def make(*words, **more):
        made = study(*words, **more)
        monkeypatch.setenv("FLAKY", made.environment()["FLAKY"])
        monkeypatch.setenv("HOLD", str(made.folder / "go"))
        clusters.append(Cluster())
        clusters[0].worker()
        monkeypatch.delenv("HOLD")  # the study that nobody harms waits for nothing
        return replace(made, place=clusters[0].address), clusters[0]

    yield make
    for cluster in clusters:
        cluster.__exit__()


def killed(study, seed, kills, longest):
    """Kills driver after driver; what any of them told is kept."""
    moment = random.Random(seed)
    kept = 0
    for _ in range(kills):
        driver = study.start()
        oracle.wait_for(driver, "planned")
        time.sleep(moment.uniform(0, longest))
        driver.kill()
        out, _ = driver.communicate()
        kept += oracle.told(out)
        assert study.states().get("ok", 0) >= kept
    assert oracle.faults_after_resume(study) == []


@pytest.mark.slow  # six seconds of processor each; the gate kills the one below
@pytest.mark.parametrize("seed", range(6))
def test_a_driver_that_is_killed_at_any_moment_is_resumed(far, seed):
    small, _ = far(60, 2)
    killed(small, seed, 2, 0.8)


@pytest.mark.slow
def test_what_ran_for_a_driver_that_was_killed_ends_with_it(far):
    small, _ = far(4, work=HELD.format("94.1"))
    driver = small.start()
    until(lambda: len(running("94.1")) == 2)
    driver.kill()
    until(lambda: not running("94.1"))  # the scheduler sees that its client is gone
    driver.communicate()
    (small.folder / "go").touch()
    assert oracle.faults_after_resume(small) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_workers_that_are_killed_under_a_driver_cost_no_result(far, seed):
    small, cluster = far(80, 2)
    moment = random.Random(seed)
    driver = small.start()
    oracle.wait_for(driver, "planned")
    for _ in range(2):
        time.sleep(moment.uniform(0, 1))
        cluster.processes[-1].kill()
        cluster.worker()
    oracle.finished(driver)
    assert oracle.faults_after_resume(small) == []


@pytest.mark.slow
def test_a_driver_with_workers_of_its_own_is_resumed(study):
    killed(replace(study(100, 2), place="dask"), 7, 3, 1.0)


@pytest.mark.slow
def test_a_scheduler_that_is_lost_for_good_ends_the_driver_with_words(far):
    small, cluster = far(4, work=HELD.format("94.2"))
    (small.folder / "zenturio.toml").write_text(
        f'[places.lab]\nkind = "dask"\naddress = "{cluster.address}"\npatience = 5\n'
    )
    small = replace(small, place="lab")
    driver = small.start()
    until(lambda: len(running("94.2")) == 2)
    cluster.scheduler.kill()
    _, err = oracle.finished(driver, 4)
    assert "is lost" in err
    assert "run the same command again" in err
    (small.folder / "go").touch()
    cluster.schedule()
    cluster.worker()
    assert oracle.faults_after_resume(small) == []
