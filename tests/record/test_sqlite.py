"""SQLite keeps the contract, and what is particular to a file."""

import pytest

from zenturio.record.open import open_repository
from zenturio.record.repository import Repository
from zenturio.testing.repository import RepositoryContract


class TestSQLite(RepositoryContract):
    @pytest.fixture
    def repository(self, tmp_path) -> Repository:
        repository = open_repository(tmp_path / "zenturio.db")
        yield repository
        repository.close()
