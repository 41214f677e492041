"""The reference keeps the contract."""

import pytest

from zenturio.record.memory_repository import MemoryRepository
from zenturio.testing.repository import RepositoryContract


class TestMemory(RepositoryContract):
    @pytest.fixture
    def repository(self) -> MemoryRepository:
        return MemoryRepository()
