"""A cluster of Dask as a place."""

import logging

import pytest
from distributed import LocalCluster

from zenturio.execute.dask.options import Options
from zenturio.execute.dask.place import Dask
from zenturio.testing.executor import CommandContract


@pytest.fixture(scope="module")
def cluster():
    """Two slots on this machine, for all tests of this file."""
    with LocalCluster(
        n_workers=1, threads_per_worker=2, host="127.0.0.1", dashboard_address=None,
        memory_limit=0, silence_logs=logging.CRITICAL,
    ) as cluster:  # fmt: skip
        yield cluster


@pytest.fixture
def place(cluster, tmp_path):
    address = cluster.scheduler_address.replace("tcp://", "dask://")
    with Dask(tmp_path / "zen", options=Options(address, grace=0.3)) as place:
        yield place


class TestDask(CommandContract):
    pass


SCRIPTS = {
    "slurm": ["#SBATCH --cpus-per-task=4", "#SBATCH -A physics", "#SBATCH -t 01:00:00"],
    "pbs": ["#PBS -l select=1:ncpus=4", "#PBS -A physics", "#PBS -l walltime=01:00:00"],
    "lsf": ["#BSUB -n 4", '#BSUB -P "physics"', "#BSUB -W 01:00\n"],
    "sge": ["#$ -P physics", "#$ -l h_rt=01:00:00"],
    "htcondor": ["RequestCpus", "accounting_group = physics", "MY.DaskWorkerCores = 4"],
}


@pytest.mark.parametrize("cluster", SCRIPTS)
def test_the_script_of_a_batch_system_asks_for_what_was_configured(tmp_path, cluster):
    lines = "x = y" if cluster == "htcondor" else "-x y"
    told = Options(
        cluster=cluster, cores=4, account="physics", lines=lines, prologue="module load gcc\n\n"
    )
    text = Dask.script(tmp_path, told)
    usual = ["distributed.cli.dask_worker tls://", "--nthreads 4", "module load gcc", lines]
    usual.append(f"--tls-key {tmp_path}/places/jobs/key.pem")
    for line in [*SCRIPTS[cluster], *usual]:
        assert line in text
    assert list(tmp_path.iterdir()) == []
