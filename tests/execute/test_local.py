"""This machine as a place."""

import pytest

from zenturio.execute.local import Local
from zenturio.execute.local_runner import RunnerSettings
from zenturio.testing.executor import CommandContract, experiment, outcome


@pytest.fixture
def place(tmp_path):
    with Local(tmp_path / "zen", 2, settings=RunnerSettings(grace=0.3)) as place:
        yield place


class TestLocal(CommandContract):
    pass


def test_a_failed_experiment_that_deleted_its_folder_leaves_none_to_keep(tmp_path):
    with Local(tmp_path, 1, keep="failed") as place:
        found = outcome(place, experiment('rm -rf "$PWD"; exit 3'))
        assert (found.status, found.cause) == ("failed", "exit 3")
        assert outcome(place, experiment("echo on")).stdout.head == b"on\n"
