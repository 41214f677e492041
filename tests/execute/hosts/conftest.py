"""One testbed of servers for all tests of a process, and places on it."""

from contextlib import ExitStack

import pytest

from needs import needs
from sshd import SSHD, Testbed
from zenturio.execute.hosts.executor import Hosts, HostsSettings


@pytest.fixture(scope="session")
def testbed(tmp_path_factory):
    needs("ssh", SSHD)
    with Testbed(tmp_path_factory.mktemp("sshd"), ["one", "two", "three", "four", "five"]) as bed:
        yield bed


@pytest.fixture
def hosts(testbed, tmp_path):
    """Opens a place: ``hosts({"contract": 0.5}, one={"slots": 1})``; told twice, twice."""
    with ExitStack() as stack:

        def make(options=None, *, folder=tmp_path / "zen", **described):
            ways = {"connect": 60, **(options or {})}
            declared = {n: {"slots": 1, "speed": 1.0, **each} for n, each in described.items()}
            path = testbed.write(tmp_path / "hosts.toml", ways, **declared)
            return stack.enter_context(Hosts(folder, options=HostsSettings(str(path))))

        yield make
        for server in testbed.servers.values():
            server.revive()
