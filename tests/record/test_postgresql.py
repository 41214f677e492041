"""PostgreSQL keeps the contract, and what is particular to a server."""

import pytest

from zenturio.record.open import open_repository
from zenturio.record.repository import Repository
from zenturio.testing.repository import RepositoryContract


class TestPostgreSQL(RepositoryContract):
    @pytest.fixture
    def repository(self, postgres_url) -> Repository:
        repository = open_repository(postgres_url)
        yield repository
        repository.close()
