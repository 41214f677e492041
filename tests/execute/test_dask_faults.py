"""What happens to a cluster of Dask, and what must happen then."""

import os
import signal
import threading

import distributed
import pytest

from dask_cluster import Cluster, certificate
from parent_process import PARENT
from zenturio.errors import PlaceError
from zenturio.execute.dask import cluster_client, executor
from zenturio.execute.dask.executor import Dask
from zenturio.execute.dask.ticket_queue import DaskOptions
from zenturio.experiment import Step
from zenturio.testing.executor import experiment, long, outcome, running, until


@pytest.fixture
def cluster():
    with Cluster() as cluster:
        yield cluster


def opened(cluster, folder, **ways):
    told = {"patience": 200.0, "grace": 0.3, **ways}
    return Dask(folder / "zen", options=DaskOptions(cluster.address, **told))


def test_what_runs_when_its_worker_is_killed_runs_again_elsewhere(cluster, tmp_path):
    worker = cluster.worker()
    log = tmp_path / "log"
    with opened(cluster, tmp_path) as place:
        often = f"echo >> {log}; test $(wc -l < {log}) -gt 2 || sleep {long('95.1')}; echo on"
        futures = [place.submit(experiment(often + f"; : {i}")) for i in range(4)]
        until(lambda: len(running(long("95.1"))) == 2)
        worker.kill()
        until(lambda: not running(long("95.1")))  # they die with their worker
        assert not any(future.done() for future in futures)
        cluster.worker()
        found = [future.result() for future in futures]
    assert {o.status for o in found} == {"ok"}
    assert len(log.read_text()) == 6


@pytest.mark.slow
def test_work_whose_result_is_lost_with_its_worker_is_still_in_flight(
    cluster, tmp_path, monkeypatch
):
    """New workers are asked for only while something is in flight."""
    worker, take, lost = cluster.worker(), distributed.Future.result, threading.Event()

    def lose_it(self, timeout=None):
        if not lost.is_set():
            worker.kill()
            worker.wait()
            lost.set()
        return take(self, timeout)

    monkeypatch.setattr(executor, "_RESULT_SECONDS", 0.2)
    monkeypatch.setattr(distributed.Future, "result", lose_it)
    with opened(cluster, tmp_path) as place:
        future = place.submit(experiment("echo on"))
        until(lost.is_set)
        until(lambda: not place._cluster.threads())
        assert not place._tracker._is_idle
        cluster.worker()
        assert future.result().status == "ok"


@pytest.mark.slow
def test_what_kills_its_worker_each_time_fails_and_the_others_do_not(tmp_path):
    """All are in one worker, which its nanny begins anew."""
    kill = f"{PARENT}; kill -9 $(ps -o ppid= -p $parent); sleep {long('95.2')}"
    commands = (kill, *(f"sleep 0.5; echo {i}" for i in range(4)))
    with Dask(tmp_path / "zen", 3, options=DaskOptions(grace=0.3, batch="2")) as place:
        futures = [place.submit(experiment(command)) for command in commands]
        bad, *others = [future.result() for future in futures]
    assert (bad.status, bad.cause) == ("failed", "its worker died 5 times")
    assert {o.status for o in others} == {"ok"}
    until(lambda: not running(long("95.2")))


@pytest.mark.slow
def test_a_scheduler_that_comes_back_is_given_everything_again(cluster, tmp_path):
    worker = cluster.worker()
    with opened(cluster, tmp_path) as place:
        go = tmp_path / "go"
        waits = [
            place.submit(experiment(f"test -e {go} || sleep {long('95.3')}; : {i}"))
            for i in range(2)
        ]
        until(lambda: len(running(long("95.3"))) == 2)
        go.touch()
        cluster.scheduler.kill()
        cluster.scheduler.wait()
        until(lambda: not running(long("95.3")))  # the worker gives up, and with it what it runs
        worker.wait()
        cluster.schedule()
        cluster.worker()
        assert [future.result().status for future in waits] == ["ok", "ok"]
        assert outcome(place, experiment("echo on")).status == "ok"


@pytest.mark.slow
def test_a_scheduler_that_stays_away_is_an_error_of_the_place(cluster, tmp_path):
    cluster.worker()
    with opened(cluster, tmp_path) as place:
        place._tracker._patience = 2.0
        future = place.submit(experiment(f"sleep {long('95.4')}"))
        until(lambda: running(long("95.4")))
        cluster.scheduler.kill()
        with pytest.raises(PlaceError, match=f"127.0.0.1:{cluster.port} is lost"):
            future.result()
        with pytest.raises(PlaceError, match="is lost"):
            outcome(place, experiment("true"))
        until(lambda: not running(long("95.4")))


@pytest.mark.slow
def test_a_cluster_without_workers_is_an_error_of_the_place(cluster, tmp_path):
    with pytest.raises(PlaceError, match="has no worker") as caught:
        opened(cluster, tmp_path, patience=1.0)
    assert f"dask worker tcp://127.0.0.1:{cluster.port}" in caught.value.diagnostics[0].hint
    worker = cluster.worker()
    with opened(cluster, tmp_path) as place:
        place._tracker._patience = 1.0
        future = place.submit(experiment(f"sleep {long('95.5')}"))
        until(lambda: running(long("95.5")))
        worker.kill()
        with pytest.raises(PlaceError, match="has no worker left"):
            future.result()
    assert not list((tmp_path / "zen" / "places").iterdir())


@pytest.mark.slow
def test_a_worker_that_is_silent_for_a_while_loses_nothing(cluster, tmp_path):
    worker = cluster.worker()
    with opened(cluster, tmp_path) as place:
        waits = f"while test ! -e {tmp_path}/go; do sleep 0.02; done"
        future = place.submit(experiment(f"touch {tmp_path}/begun; {waits}; echo on"))
        until((tmp_path / "begun").exists)
        worker.send_signal(signal.SIGSTOP)
        for _ in range(3):  # the driver looks at the cluster, from which nothing comes
            last = place._tracker._last_check
            until(lambda last=last: place._tracker._last_check > last)
        (tmp_path / "go").touch()
        worker.send_signal(signal.SIGCONT)
        assert future.result().status == "ok"


def ends(place: Dask) -> None:
    """Closing comes to an end, whoever does not answer."""
    thread = threading.Thread(target=place.close, daemon=True)
    thread.start()
    thread.join()
    assert not thread.is_alive()


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer_is_an_error_and_holds_up_nobody(
    cluster, tmp_path, monkeypatch
):
    monkeypatch.setattr(cluster_client, "_ANSWER_SECONDS", 0.5)
    cluster.worker()
    with opened(cluster, tmp_path) as place:
        place._tracker._patience = 1.0
        future = place.submit(experiment(f"sleep {long('95.8')}"))
        until(lambda: running(long("95.8")))
        cluster.scheduler.send_signal(signal.SIGSTOP)
        with pytest.raises(PlaceError, match="does not answer"):
            future.result()
        ends(place)


@pytest.mark.slow
def test_a_worker_that_was_stopped_holds_up_no_end(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_client, "_ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(executor, "_CLOSING_SECONDS", 0.5)
    with Dask(tmp_path / "zen", 2, options=DaskOptions(grace=0.3)) as place:
        future = place.submit(experiment(f"sleep {long('95.9')}"))
        until(lambda: running(long("95.9")))
        (worker,) = place._cluster._workers.workers.values()
        os.kill(worker.pid, signal.SIGSTOP)
        ends(place)
    assert future.result(0).status == "cancelled"
    until(lambda: not running(long("95.9")))


@pytest.mark.slow
def test_workers_that_come_later_are_used(cluster, tmp_path):
    cluster.worker(1)
    with opened(cluster, tmp_path) as place:
        futures = [place.submit(experiment(f"sleep {long('95.7')}")) for _ in range(3)]
        until(lambda: len(running(long("95.7"))) == 1)
        cluster.worker(2)
        until(lambda: len(running(long("95.7"))) == 3)
        assert all(future.cancel() for future in futures)


@pytest.mark.slow
def test_an_experiment_of_two_cpus_goes_where_there_are_two(cluster, tmp_path):
    cluster.worker(1)
    cluster.worker(2)
    with opened(cluster, tmp_path) as place:
        until(lambda: place.slots == 3)
        wide = place.submit(experiment(Step("sleep 0.4", cpus=2)))
        narrow = [place.submit(experiment("sleep 1")) for _ in range(2)]
        span, *others = [future.result() for future in (wide, *narrow)]
        beside = [
            o for o in others if o.started < span.ended - 0.05 and span.started + 0.05 < o.ended
        ]
        assert len(beside) <= 1


@pytest.mark.slow
def test_tls_is_spoken_and_nothing_else(tmp_path):
    both = certificate(tmp_path)
    ways = [f"--tls-{name}={both}" for name in ("ca-file", "cert", "key")]
    with Cluster(*ways, scheme="tls") as cluster:
        cluster.worker()
        told = {"ca": str(both), "cert": str(both), "key": str(both)}
        with opened(cluster, tmp_path, **told) as place:
            assert outcome(place, experiment("echo 1")).status == "ok"
            assert place._cluster.client.scheduler_comm.comm.peer_address.startswith("tls://")
        with pytest.raises(PlaceError, match="needs certificates"):
            opened(cluster, tmp_path)
        cluster.address = cluster.address.replace("tls://", "dask://")
        with pytest.raises(PlaceError, match="no Dask scheduler answers"):
            opened(cluster, tmp_path, patience=0.5)
