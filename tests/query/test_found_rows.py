"""How many rows there are is known without reading them, where no condition is put."""

from hashlib import blake2b

import pytest

from zenturio.experiment.experiment import Experiment, MachineKind, Outcome, Recipe
from zenturio.query import study_table
from zenturio.query.select_results import results
from zenturio.query.select_statement import StudySelect
from zenturio.record import DriverProcess, Field, StudyDefinition, columnar_copy


@pytest.fixture(scope="module")
def rounds(shared_repository):
    """Two rounds on two kinds of machine: the second round has the first half of the points."""
    definition = StudyDefinition((Field("n", "int"),), (Field("y", "int"),))
    shared_repository.open("s", definition)
    lease = shared_repository.acquire_lease("s", DriverProcess.current(), seconds=600)
    for round_, points in ((1, 8), (2, 4)):
        if round_ == 2:
            shared_repository.begin_round("s")
        written = []
        for n in range(points):
            digest = blake2b(f"{n}".encode(), digest_size=16).hexdigest()
            kind = MachineKind("fast" if n % 2 else "slow", 4)
            # Only what failed was repeated.
            status, repeat = ("failed", 2) if n in (3, 6) else ("ok", 1)
            outcome = Outcome(digest, status, "", {"y": n}, 1, "kofel", 1.0, 2.0, machine=kind)
            point = Experiment(digest, n, repeat, {"n": n}, (), (), {}, None, Recipe())
            written.append((point, outcome))
        shared_repository.add_results("s", lease.number, written)
    shared_repository.release_lease(lease)
    return shared_repository


@pytest.mark.parametrize("round_", ["", "all", 1])
@pytest.mark.parametrize("machine", ["", "fast", "slow"])
def test_a_limit_changes_neither_how_many_rows_there_are_nor_the_columns(rounds, machine, round_):
    everything = results(rounds, "s", machine=machine, round=round_)
    limited = results(rounds, "s", machine=machine, round=round_, limit=1)
    assert (limited.found, limited.experiments) == (len(everything.rows), len(everything.rows))
    assert limited.columns == everything.columns
    assert "repeat" not in limited.columns


def test_rows_are_counted_only_where_a_condition_is_put(rounds, monkeypatch):
    counted = []
    count = StudySelect.count
    monkeypatch.setattr(StudySelect, "count", lambda self: counted.append(self) or count(self))
    assert results(rounds, "s", limit=1).found == 6
    assert not counted
    assert results(rounds, "s", where="n > 4", limit=1).found == 2
    assert results(rounds, "s", where="status == 'failed'", limit=1).found == 2
    assert len(counted) == 2


@pytest.fixture(scope="module")
def large_study(shared_repository):
    definition = StudyDefinition((Field("n", "int"),), (Field("y", "int"),))
    shared_repository.open("large", definition)
    lease = shared_repository.acquire_lease("large", DriverProcess.current(), seconds=600)
    written = []
    for n in range(2_000):
        digest = blake2b(f"large {n}".encode(), digest_size=16).hexdigest()
        status = "failed" if n % 10 == 0 else "ok"
        outcome = Outcome(digest, status, "", {"y": n % 7}, 1, "kofel", 1.0, 2.0)
        point = Experiment(digest, n, 1, {"n": n}, (), (), {}, None, Recipe())
        written.append((point, outcome))
    shared_repository.add_results("large", lease.number, written)
    shared_repository.release_lease(lease)
    return shared_repository


@pytest.fixture
def large(large_study, monkeypatch):
    """A study of 2,000 results that counts as a large one, without a columnar copy."""
    monkeypatch.setattr(columnar_copy, "COPY_ROWS", 2_000)
    monkeypatch.setattr(study_table, "COUNTED_ROWS", 1_000)
    return large_study


def test_a_condition_on_a_large_study_is_asked_of_a_sample_unless_the_rows_are_to_be_counted(large):
    counted = results(large, "large", where="y == 3", limit=5)
    assert (counted.found, counted.is_estimate) == (257, False)
    table = results(large, "large", where="y == 3", limit=5, exact=False)
    assert table.is_estimate
    assert table.rows == counted.rows
    assert 257 * 0.7 < table.found < 257 * 1.3
    assert float(f"{table.found:.2g}") == table.found
    assert table.summary == f"5 of about {table.found:,} rows, from 2,000 experiments"


@pytest.mark.parametrize(
    ("where", "limit"),
    [("n > 1990", 5), ("n > 1990", 20), (None, 5), ("y == 3", 1_000)],
    ids=["few meet it", "all are shown", "the counters know it", "all that meet it are shown"],
)
def test_no_number_is_estimated_that_is_known_at_once(large, where, limit):
    estimated, counted = (
        results(large, "large", where=where, limit=limit, exact=e) for e in (False, True)
    )
    assert estimated == counted
    assert not estimated.is_estimate
