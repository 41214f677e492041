"""A cluster of Dask as a place."""

import logging
import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import dask.config
import pytest
from distributed import LocalCluster

from dask_cluster import certificate
from ports import free_port
from zenturio.errors import InputError, PlaceError, SafetyError
from zenturio.execute.dask import executor, worker_plugin
from zenturio.execute.dask.executor import Dask, worker_problems
from zenturio.execute.dask.ticket_queue import BatchSizer, DaskOptions
from zenturio.execute.file_staging import belongs_to_attempt
from zenturio.execute.machines import own_machine
from zenturio.experiment import INCOMING, ExperimentFile, Recipe, Step
from zenturio.experiment.identity import content_digest
from zenturio.testing.executor import (
    CommandContract,
    experiment,
    long,
    outcome,
    running,
    until,
)


@pytest.fixture(scope="module")
def cluster():
    """Two slots on this machine, for all tests of this file."""
    ways = {
        "distributed.nanny.pre-spawn-environ": {},
        "distributed.nanny.environ": {"OMP_NUM_THREADS": "7"},
    }
    with dask.config.set(ways), LocalCluster(
        n_workers=1, threads_per_worker=2, host="127.0.0.1", dashboard_address="127.0.0.1:0",
        memory_limit=0, silence_logs=logging.CRITICAL,
    ) as cluster:  # fmt: skip
        yield cluster


@pytest.fixture
def opened(cluster, tmp_path):
    """Opens places at the cluster."""
    address = cluster.scheduler_address.replace("tcp://", "dask://")
    return lambda **ways: Dask(tmp_path / "zen", options=DaskOptions(address, grace=0.3, **ways))


@pytest.fixture
def place(opened):
    with opened() as place:
        yield place


class TestDask(CommandContract):
    pass


def test_workers_say_which_kinds_of_machine_they_are(opened):
    with opened(prologue="module load gcc") as place:
        assert place.machines == {replace(own_machine(), setup="module load gcc")}
        assert outcome(place, experiment("true")).machine in place.machines


def test_a_machine_without_our_disk_gets_the_files_and_sends_them_back(
    opened, tmp_path, monkeypatch
):
    monkeypatch.setattr(platform, "node", lambda: "elsewhere")
    content = os.urandom(2**21)
    big = ExperimentFile("big", 0o644, None, tmp_path / "big", content_digest(content).hex())
    recipe = Recipe(outputs=("left",))
    look = f"cmp big {tmp_path}/same && pwd > left"
    each = [replace(experiment(look, recipe=recipe), files=(big,)) for _ in range(2)]
    (tmp_path / "same").write_bytes(content)
    with opened() as place:
        with pytest.raises(PlaceError, match="big has changed since the study began"):
            outcome(place, each[0])
        (tmp_path / "big").write_bytes(content)
        monkeypatch.setattr(Path, "exists", lambda path: path.name != "big" and path.is_file())
        for what in each:
            (left,) = outcome(place, what).artifacts
            assert belongs_to_attempt(left.kept, "left", tmp_path / "zen" / INCOMING, what.digest)
            where = Path(left.kept.read_text())
            assert not where.is_relative_to(tmp_path)
    assert not where.parents[2].is_dir()  # what it had there is cleared away


def test_a_long_one_among_short_ones_holds_up_nobody(opened, tmp_path):
    go = tmp_path / "go"
    long = f"while ! test -e {go}; do sleep 0.02; done"
    with opened(batch="8") as place:
        waits, *others = [place.submit(experiment(c)) for c in [long, *["echo on"] * 9]]
        assert {future.result().status for future in others} == {"ok"}
        assert not waits.done()
        go.touch()
        assert waits.result().status == "ok"


def test_one_of_several_that_travel_together_is_cancelled_alone(opened):
    with opened(batch="4") as place:
        futures = [
            place.submit(experiment(f"sleep {s}; echo")) for s in (long("95.6"), "0.2", "0.1")
        ]
        until(lambda: running(long("95.6")))
        assert futures[0].cancel()
        assert [f.result().status for f in futures] == ["cancelled", "ok", "ok"]
        assert not running(long("95.6"))


def test_experiments_do_not_get_the_environment_of_nannies(place):
    look = "echo $OMP_NUM_THREADS"
    assert outcome(place, experiment(look)).stdout.head == b"1\n"
    assert outcome(place, experiment(Step(look, cpus=2))).stdout.head == b"2\n"


def test_what_cannot_be_sent_fails_and_the_others_do_not(place, monkeypatch):
    def broken(*_words, **_more):
        raise RuntimeError("it broke")

    with monkeypatch.context() as patch:
        patch.setattr(executor, "pack_experiments", broken)
        with pytest.raises(PlaceError, match="it broke"):
            outcome(place, experiment("true"))
    assert outcome(place, experiment("true")).status == "ok"


@pytest.mark.parametrize("address", ["dask://10.1.2.3:8786", "tcp://head:8786", "[2001:db8::1]:1"])
def test_what_others_could_listen_to_is_refused(tmp_path, address):
    with pytest.raises(SafetyError) as caught:
        Dask(tmp_path, options=DaskOptions(address))
    assert caught.value.exit_code == 6
    assert "tls://" in caught.value.diagnostics[0].hint
    assert not list((tmp_path / "places").iterdir())


def test_what_a_dead_driver_left_is_taken_away_by_the_next(opened, tmp_path):
    left = tmp_path / "zen" / "places" / "dask-0123456789abcdef"
    left.mkdir(parents=True)
    (left / "lock").touch()
    (left / "key.pem").touch()
    with opened() as one:
        assert not left.exists()
        with opened():
            assert outcome(one, experiment("echo on")).status == "ok"
    assert not list(left.parent.iterdir())


@pytest.mark.parametrize("host", ["127.0.0.2", "localhost", "[::1]"])
def test_what_stays_on_this_machine_needs_no_tls(tmp_path, host):
    with pytest.raises(PlaceError, match="no Dask scheduler answers"):
        Dask(tmp_path, options=DaskOptions(f"dask://{host}:{free_port()}", patience=0.2))


def test_an_insecure_address_can_be_allowed(tmp_path):
    with pytest.raises(PlaceError, match="no Dask scheduler answers"):
        Dask(tmp_path, options=DaskOptions("dask://192.0.2.1:9", insecure=True, patience=0.2))


@pytest.mark.parametrize("address", ["dask://", "dask://host", "http://host:80", "host:port"])
def test_what_is_no_address_is_said_to_be_none(tmp_path, address):
    with pytest.raises(InputError, match="not the address"):
        Dask(tmp_path, options=DaskOptions(address))


def test_a_certificate_that_is_not_there_is_named(tmp_path):
    with pytest.raises(PlaceError, match=r"nowhere\.pem, which does not exist"):
        Dask(tmp_path, options=DaskOptions("tls://127.0.0.1:1", ca="nowhere.pem"))


def test_a_file_that_is_no_certificate_is_named(tmp_path):
    (tmp_path / "junk.pem").write_text("no certificate")
    junk = str(tmp_path / "junk.pem")
    good = str(certificate(tmp_path))
    for told, named in (
        ({"ca": junk, "cert": good}, r"junk\.pem holds no CA certificate"),
        (
            {"ca": good, "cert": junk},
            r"junk\.pem and .*junk\.pem are not a certificate and its key",
        ),
        (
            {"ca": good, "cert": good, "key": junk},
            r"both\.pem and .*junk\.pem are not a certificate",
        ),
    ):
        with pytest.raises(PlaceError, match=named):
            Dask(tmp_path, options=DaskOptions("tls://127.0.0.1:1", **told))


@pytest.mark.parametrize("batch", ["0", "x", "-1", "501", "1.5", ""])
def test_a_batch_is_auto_or_a_number(tmp_path, batch):
    with pytest.raises(InputError, match="batch"):
        Dask(tmp_path, options=DaskOptions(batch=batch))


def test_batches_grow_with_what_was_measured_and_shrink_at_once():
    batches = BatchSizer(None)
    assert (batches.size, batches.sends_ahead) == (1, False)
    batches.observe(0.001)
    assert (batches.size, batches.sends_ahead) == (250, True)
    batches.observe(0.5)
    assert (batches.size, batches.sends_ahead) == (1, True)
    batches.observe(10)
    assert (batches.size, batches.sends_ahead) == (1, False)
    for _ in range(200):
        batches.observe(0.001)
    assert batches.size > 100


def test_one_that_takes_a_little_longer_makes_no_small_batches():
    batches = BatchSizer(None)
    for _ in range(50):
        batches.observe(0.001)
    batches.observe(0.02)
    assert batches.size > 50


def test_a_batch_leaves_something_for_every_slot():
    batches = BatchSizer(100)
    assert [batches.next_size(waiting, 4) for waiting in (1, 4, 40, 4000)] == [1, 1, 10, 100]
    assert batches.next_size(10, 0) == 10


def test_the_script_of_a_job_asks_for_what_was_configured(tmp_path):
    options = DaskOptions(
        cluster="slurm", cores=4, account="physics", lines="-x y", prologue="module load gcc\n\n"
    )
    text = Dask.script(tmp_path, options)
    for line in (
        "#SBATCH --cpus-per-task=4",
        "#SBATCH -A physics",
        "#SBATCH -t 01:00:00",
        "#SBATCH -x y",
        "distributed.cli.dask_worker tls://",
        "--nthreads 4",
        "module load gcc",
        f"--tls-key {tmp_path}/places/jobs/key.pem",
    ):
        assert line in text
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_stays_ours(tmp_path):
    """The library takes it when it is imported."""
    ask = (
        "import signal; from pathlib import Path;"
        "from zenturio.execute.dask.ticket_queue import DaskOptions;"
        "from zenturio.execute.dask.executor import Dask;"
        "Dask.script(Path.cwd(), DaskOptions(cluster='slurm'));"
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    )
    done = subprocess.run([sys.executable, "-c", ask], stdout=subprocess.PIPE, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"True\n")


def test_a_place_that_starts_no_jobs_has_no_script(tmp_path):
    with pytest.raises(InputError, match="starts no jobs"):
        Dask.script(tmp_path, DaskOptions())


def test_a_worker_that_is_not_as_we_are_is_told_of(opened, monkeypatch):
    with opened() as place:
        assert list(place.check()) == []
        monkeypatch.setattr(worker_plugin, "worker_versions", lambda: ("here", "3.99.1", "9.9"))
        host = platform.node()
        told = list(worker_problems("tcp://w:1", (host, "3.11.7", "0.1.0")))
        assert told == [
            f"worker tcp://w:1 on {host} has zenturio 0.1.0; this machine has 9.9",
            f"worker tcp://w:1 on {host} has Python 3.11.7; this machine has 3.99.1",
        ]
        (none,) = worker_problems("tcp://w:2", ModuleNotFoundError("No module named 'zenturio'"))
        assert "cannot import zenturio" in none
