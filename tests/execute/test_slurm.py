"""A real Slurm as a place."""

import pytest

from slurm import cluster, slurm
from zenturio.execute.slurm.options import Options
from zenturio.execute.slurm.place import Slurm
from zenturio.testing.executor import CommandContract

__all__ = ["cluster", "slurm"]

QUICK = Options(poll=0.1, grace=2.0, patience=10.0)


@pytest.fixture
def place(slurm, tmp_path):
    with Slurm(tmp_path / "zen", 3, options=QUICK) as place:
        yield place


class TestSlurm(CommandContract):
    pass
