"""Several drivers at one study: beside each other with --join, and after one fell silent."""

import os
import signal
import time

import pytest

from study import oracle

BRIEF = 'echo $n >> "$FLAKY/runs"; sleep 0.01'


def runs(study):
    return sorted(map(int, (study.folder / "flaky" / "runs").read_text().split()))


def test_a_second_driver_is_told_who_has_the_study(study):
    small = study(100, work="sleep 0.05")
    first = small.start("jobs=1")
    oracle.wait_for(first, "ok")
    second = small.zen()
    _, err = oracle.finished(second, 5)
    assert str(first.pid) in err
    assert "--join" in err
    first.send_signal(signal.SIGINT)
    oracle.finished(first, 130)


def test_a_search_takes_what_another_study_runs_for_it(study):
    small = study(6, work='echo $n >> "$FLAKY/runs"; sleep 0.3')
    first = small.zen("--name", "all", "-j", "2")
    while not (small.folder / "flaky" / "runs").exists():
        assert first.poll() is None
        time.sleep(0.02)
    search = small.zen("-j", "2", "--search", "random", "--budget", "6")
    oracle.finished(first)
    out, _ = oracle.finished(search)
    assert "best: square = 36" in out
    assert runs(small) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("drivers", "kind"),
    [
        (2, "sqlite"),
        pytest.param(2, "postgresql", marks=pytest.mark.slow),
        pytest.param(4, "sqlite", marks=pytest.mark.slow),
        pytest.param(8, "sqlite", marks=pytest.mark.slow),
        pytest.param(8, "postgresql", marks=pytest.mark.slow),
    ],
)
def test_drivers_that_join_share_the_work_and_run_nothing_twice(study, request, drivers, kind):
    url = request.getfixturevalue("postgres_url") if kind == "postgresql" else ""
    small = study(120, work=BRIEF, url=url)
    running = [small.start("join", "jobs=1") for _ in range(drivers)]
    outs = [oracle.finished(process)[0] for process in running]
    expected = sorted([*range(1, 121)])
    assert runs(small) == expected
    assert sum(map(oracle.told, outs)) == 120
    assert sum(oracle.told(out) > 0 for out in outs) > 1
    assert oracle.faults(small) == []


def test_drivers_that_join_take_over_from_one_that_is_killed(study, tmp_path):
    took_over(study, str(tmp_path / "zenturio.db"))


@pytest.mark.slow
def test_drivers_that_join_take_over_on_a_server(study, postgres_url):
    took_over(study, postgres_url)


def took_over(study, url):
    small = study(150, work=BRIEF, url=url)
    killed = small.start("join")
    oracle.wait_for(killed, "ok")
    others = [small.start("join", "jobs=1") for _ in range(2)]
    oracle.wait_for(others[0], "planned")
    killed.kill()
    killed.communicate()
    for process in others:
        oracle.finished(process)
    assert oracle.faults(small) == []


def test_what_a_stopped_driver_brings_too_late_is_superseded(study, url):
    """It is stopped beyond its lease, another takes its claims over, and it goes on."""
    small = study(8, work="sleep 0.4", url=url)
    stopped = small.start("lease=1", "jobs=2")
    oracle.wait_for(stopped, "planned")
    while small.states()["running"] < 2:
        time.sleep(0.01)
    os.kill(stopped.pid, signal.SIGSTOP)
    time.sleep(1.1)
    oracle.finished(small.start("join", "jobs=2"))
    os.kill(stopped.pid, signal.SIGCONT)
    _, err = oracle.finished(stopped, 5)
    assert "another driver took the study over" in err
    assert oracle.faults(small) == []
    # Where it sees the loss of its lease before its results, on a busy machine, they are dropped.
    assert attempts(small) & {"superseded", "stale"}


def attempts(study):
    from zenturio.record.open import open_repository

    repository = open_repository(study.url, finds_unique=True)
    try:
        records = repository.records("study")
        return {a.state for record in records for a in repository.attempts(record.digest)}
    finally:
        repository.close()
