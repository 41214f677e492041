"""How many statements a group costs, whatever its size: each is a journey to the server."""

from dataclasses import replace

import pytest

from zenturio.experiment.experiment import Artifact, HostConditions, HostDetails, Log, MachineKind
from zenturio.record import DriverProcess, Field, StudyDefinition, database
from zenturio.record.open import open_repository
from zenturio.testing.experiments import experiment, outcome

DEFINITION = StudyDefinition((Field("n", "int"),), (Field("time", "real"),))


class Counted:
    """A cursor that counts what it is asked; BEGIN and COMMIT are not among it."""

    def __init__(self, cursor, log):
        self._cursor = cursor
        self._log = log

    def __getattr__(self, name):
        found = getattr(self._cursor, name)
        if name not in {"execute", "executemany", "copy"}:
            return found

        def counted(text, *rest):
            self._log.append(text)
            return found(text, *rest)

        return counted


@pytest.fixture
def statements(monkeypatch):
    """All statements of transactions, as they come."""
    log = []
    real = database.Transaction

    def transaction(dialect, cursor, project, **more):
        return real(dialect, Counted(cursor, log), project, **more)

    monkeypatch.setattr(database, "Transaction", transaction)
    return log


@pytest.fixture
def repository(url):
    repository = open_repository(url)
    yield repository
    repository.close()


def _whole(of, folder):
    """An outcome with all that one can have."""
    path = folder / f"{of.index}"
    path.write_bytes(b"x")
    sha256 = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    return replace(
        outcome(of, time=0.5), stdout=Log(b"x", b"", 1), machine=MachineKind("Epyc", 64),
        host_details=HostDetails("karwendel", "Linux", 2**38), conditions=HostConditions(0.5, 1.5),
        artifacts=(Artifact("x", 1, sha256, path),),
    )  # fmt: skip


@pytest.mark.parametrize("size", [1, 60])
def test_a_group_costs_as_many_statements_as_one(repository, statements, tmp_path, size):
    repository.open("s", DEFINITION)
    driver = repository.acquire_lease("s", DriverProcess.current()).number
    for start in (0, 100):  # the second one knows the fields, the host and the machine
        given = [experiment(start + i) for i in range(size)]
        statements.clear()
        assert len(repository.claim("s", driver, given)) == size
        claimed = len(statements)
        statements.clear()
        outcomes = [_whole(each, tmp_path) for each in given]
        assert len(repository.record("s", driver, outcomes)) == size
        recorded = len(statements)
    assert claimed <= 4, statements
    assert recorded <= 9, statements


def test_a_new_study_asks_nothing_of_what_it_has_just_written(repository, statements):
    repository.open("s", DEFINITION)
    opened = len(statements)
    lease = repository.acquire_lease("s", DriverProcess.current(), draws_seed=True)
    acquired = len(statements) - opened
    statements.clear()
    repository.release_lease(lease)
    assert opened <= (13 if repository.dialect == "sqlite" else 30)
    assert acquired <= (4 if repository.dialect == "sqlite" else 6)
    assert len(statements) <= (4 if repository.dialect == "sqlite" else 5)


@pytest.mark.parametrize("others", [0, 40])
def test_opening_costs_the_same_however_many_studies_there_are(repository, statements, others):
    for number in range(others):
        repository.open(f"other {number}", DEFINITION)
    repository.open("s", DEFINITION)
    for _ in range(5):  # a view that PostgreSQL was too busy to replace is made at the next opening
        statements.clear()
        repository.open("s", DEFINITION)
        if len(statements) <= 5:
            break
    assert len(statements) <= 5, statements
    statements.clear()
    repository.study("s")
    repository.count_states("s")
    assert len(statements) <= 4
