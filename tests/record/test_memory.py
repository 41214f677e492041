"""The reference keeps the contract."""

import pytest

from zenturio.record.memory import Memory
from zenturio.testing.repository import RepositoryContract


class TestMemory(RepositoryContract):
    @pytest.fixture
    def repository(self) -> Memory:
        return Memory()
