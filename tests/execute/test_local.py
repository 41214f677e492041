"""This machine as a place."""

import pytest

from zenturio.execute import Local, Settings
from zenturio.testing.executor import CommandContract


@pytest.fixture
def place(tmp_path):
    with Local(tmp_path / "zen", 2, settings=Settings(grace=0.3)) as place:
        yield place


class TestLocal(CommandContract):
    pass
