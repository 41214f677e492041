"""The places where repositories are kept."""

import pytest

from postgres import postgres, postgres_ready, postgres_url
from zenturio.record import sqlite

__all__ = ["postgres", "postgres_ready", "postgres_url"]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path) -> str:
    """An empty place, of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "zenturio.db")
    return request.getfixturevalue("postgres_url")


@pytest.fixture(autouse=True)
def reversed_rows(monkeypatch):
    """Let SQLite return rows backwards wherever a query asks for no order.

    It promises none, and PostgreSQL has another one: no test may depend on that of SQLite.
    """
    backwards = "PRAGMA reverse_unordered_selects = ON"
    monkeypatch.setattr(sqlite, "_GUARDS", (*sqlite._GUARDS, backwards))
