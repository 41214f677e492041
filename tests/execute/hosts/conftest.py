"""One testbed of servers for all tests of a process."""

import pytest

from needs import needs
from sshd import SSHD, Testbed


@pytest.fixture(scope="session")
def testbed(tmp_path_factory):
    needs("ssh", SSHD)
    with Testbed(tmp_path_factory.mktemp("sshd"), ["one", "two", "three", "four", "five"]) as bed:
        yield bed
