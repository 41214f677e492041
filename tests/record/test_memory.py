"""The reference keeps the contract."""

import pytest

from record.reference import ReferenceRepository
from zenturio.testing.repository import RepositoryContract


class TestMemory(RepositoryContract):
    @pytest.fixture
    def repository(self) -> ReferenceRepository:
        return ReferenceRepository()
