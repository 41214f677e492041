"""Hosts over SSH promise what every place that runs commands promises."""

import pytest

from zenturio.execute.hosts.executor import Hosts, HostsSettings
from zenturio.testing.executor import CommandContract


@pytest.fixture(scope="module")
def described(testbed, tmp_path_factory):
    path = tmp_path_factory.mktemp("hosts") / "hosts.toml"
    return testbed.write(path, one={"slots": 2, "speed": 1.0})


@pytest.fixture(scope="module")
def shared(described, tmp_path_factory):
    """To connect takes a quarter of a second of processor: most tests share a connection."""
    options = HostsSettings(str(described))
    with Hosts(tmp_path_factory.mktemp("shared") / "zen", options=options) as place:
        yield place


class TestHosts(CommandContract):
    @pytest.fixture
    def place(self, request, described, tmp_path):
        if "close" not in request.function.__name__:
            yield request.getfixturevalue("shared")
            return
        with Hosts(tmp_path / "zen", options=HostsSettings(str(described))) as place:
            yield place
