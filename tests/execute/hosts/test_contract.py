"""Hosts over SSH promise what every place that runs commands promises."""

import pytest

from zenturio.execute.hosts.executor import Hosts, HostsSettings
from zenturio.testing.executor import CommandContract


@pytest.fixture(scope="module")
def described(testbed, tmp_path_factory):
    path = tmp_path_factory.mktemp("hosts") / "hosts.toml"
    return testbed.write(path, one={"slots": 2, "speed": 1.0})


class TestHosts(CommandContract):
    @pytest.fixture
    def place(self, described, tmp_path):
        with Hosts(tmp_path / "zen", options=HostsSettings(str(described))) as place:
            yield place
