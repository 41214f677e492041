"""Studies to be harmed, remembered in each kind of database."""

import pytest

from postgres import postgres, postgres_url
from study.oracle import Study
from zenturio.execute import machines
from zenturio.record.open import open_repository

__all__ = ["postgres", "postgres_url"]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path) -> str:
    """An empty place, of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "zenturio.db")
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def study(tmp_path):
    """Makes studies, of the sizes that a test wants."""

    def make(count: int, repeats: int = 1, work: str = "", url: str = "") -> Study:
        place = url or str(tmp_path / "zenturio.db")
        return Study(tmp_path / "project", place, count, repeats, work).write()

    return make


@pytest.fixture
def on(monkeypatch):
    """Makes this machine another one, by the name of its processor."""
    facts = machines.machine_facts()

    def become(cpu):
        monkeypatch.setattr(machines, "machine_facts", lambda: {**facts, "cpu": cpu})
        machines.own_machine_parts.cache_clear()

    yield become
    machines.own_machine_parts.cache_clear()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """The repository of a project, in whose folder the test runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".zenturio").mkdir()
    project_repository = open_repository(str(tmp_path / ".zenturio" / "zenturio.db"))
    yield project_repository
    project_repository.close()
