"""Workers of Dask that are jobs of a real Slurm."""

import pytest

from parent_process import PARENT
from slurm import cluster, slurm
from zenturio.errors import PlaceError
from zenturio.execute.dask.executor import Dask
from zenturio.execute.dask.ticket_queue import DaskOptions
from zenturio.testing.executor import experiment, gflops, long, outcome, running, until

__all__ = ["cluster", "slurm"]

PATIENCE = 60.0


@pytest.fixture
def place(slurm, tmp_path):
    told = {"cores": 2, "nodes": 2, "memory": "512MB", "walltime": "00:05:00", "grace": 0.3}
    with Dask(tmp_path / "zen", options=DaskOptions(cluster="slurm", **told)) as place:
        yield place


@pytest.mark.slow
def test_experiments_run_in_jobs_which_end_with_the_place(place, slurm, tmp_path):
    assert place.slots == 4
    several = [
        experiment(f"echo GFLOPS={i}; echo $SLURM_JOB_ID", recipe=gflops()) for i in range(9)
    ]
    found = [future.result() for future in [place.submit(each) for each in several]]
    assert [o.metrics["gflops"] for o in found] == list(range(9))
    jobs = {o.stdout.head.split()[1].decode() for o in found}
    assert jobs <= set(slurm.run("squeue", "-h", "-o", "%i").split())
    assert place._cluster.client.scheduler_comm.comm.peer_address.startswith("tls://")
    future = place.submit(experiment(f"sleep {long('92.1')}"))
    until(lambda: running(long("92.1")))
    place.close()
    assert future.result(0).status == "cancelled"
    assert not running(long("92.1"))
    until(lambda: not slurm.run("squeue", "-h", "-t", "running,pending", "-o", "%i").split())
    assert not list((tmp_path / "zen" / "places").rglob("*.pem"))


@pytest.mark.slow
def test_a_folder_may_have_any_name_and_workers_may_come_later(slurm, tmp_path):
    told = DaskOptions(cluster="slurm", memory="512MB", grace=0.3)
    with Dask(tmp_path / "my 100% ü's" / "zen", options=told) as place:
        assert list(place.check()) == []
        assert outcome(place, experiment("echo on")).status == "ok"
        (log,) = (tmp_path / "my 100% ü's" / "zen" / "places" / "jobs").iterdir()
        assert "Registered to" in log.read_text()
    assert not log.exists()


@pytest.mark.parametrize(
    ("told", "words"),
    [({"queue": "nowhere"}, "invalid partition"), ({"memory": "two gigs"}, "as a byte unit")],
)
def test_jobs_that_are_refused_are_an_error_in_the_words_of_who_refuses(
    slurm, tmp_path, told, words, capfd
):
    with pytest.raises(PlaceError, match=words):
        Dask(tmp_path / "zen", options=DaskOptions(cluster="slurm", **told))
    assert capfd.readouterr().err == ""
    assert not list((tmp_path / "zen" / "places").glob("dask-*"))


def numbers(slurm) -> list[str]:
    return slurm.run("squeue", "-h", "-t", "running,pending", "-o", "%i").split()


@pytest.mark.slow
def test_jobs_of_workers_that_are_all_cancelled_are_replaced(place, slurm):
    assert outcome(place, experiment("echo on")).status == "ok"
    until(lambda: len(place._cluster.threads()) == 2)
    future = place.submit(experiment("echo $SLURM_JOB_ID; test -e /tmp/never || sleep 1; echo on"))
    until(future.running)
    slurm.run("scancel", *numbers(slurm))
    assert future.result().status == "ok"
    assert outcome(place, experiment("echo on")).status == "ok"


@pytest.mark.slow
def test_workers_are_replaced_before_the_time_of_their_job_is_over(slurm, tmp_path):
    told = DaskOptions(
        cluster="slurm", memory="512MB", walltime="00:01:00", queue="brief", grace=0.3
    )
    with Dask(tmp_path / "zen", options=told) as place:
        futures = [
            place.submit(experiment(f"sleep 4; echo $SLURM_JOB_ID; : {i}")) for i in range(20)
        ]
        found = [future.result() for future in futures]
    assert {each.status for each in found} == {"ok"}
    assert len({each.stdout.head for each in found}) > 1


@pytest.mark.slow
def test_jobs_that_never_bring_a_worker_end_the_run_with_what_they_said(slurm, tmp_path):
    told = DaskOptions(cluster="slurm", memory="512MB", python="/no/such/python", grace=0.3)
    with Dask(tmp_path / "zen", options=told) as place, pytest.raises(PlaceError) as raised:
        outcome(place, experiment("true"))
    assert "the batch system started no worker: job " in str(raised.value)
    assert "/no/such/python" in str(raised.value)


@pytest.mark.slow
def test_a_prologue_that_fails_ends_the_run_with_what_it_said(slurm, tmp_path):
    told = DaskOptions(
        cluster="slurm", memory="512MB", prologue="no-such-module load gcc", grace=0.3
    )
    with Dask(tmp_path / "zen", options=told) as place, pytest.raises(PlaceError) as raised:
        outcome(place, experiment("true"))
    assert "the setup of the workers failed: " in str(raised.value)
    assert "no-such-module: command not found" in str(raised.value)


@pytest.mark.slow
def test_an_experiment_that_kills_its_worker_has_failed_after_five_times(slurm, tmp_path):
    told = DaskOptions(cluster="slurm", memory="512MB", prologue="export SET=1", grace=0.3)
    with Dask(tmp_path / "zen", options=told) as place:
        found = place.submit(experiment(f"{PARENT}; kill -9 $(ps -o ppid= -p $parent)")).result()
        assert (found.status, found.cause) == ("failed", "its worker died 5 times")
        assert found.machine.setup == "export SET=1"
        assert outcome(place, experiment("echo $SET")).stdout.head == b"1\n"
