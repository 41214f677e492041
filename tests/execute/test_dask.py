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
