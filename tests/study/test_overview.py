"""Where studies stand, and what is known of one experiment: as people and JSON have it."""

from dataclasses import replace

import pytest

from zenturio.errors import InputError, NotFoundError
from zenturio.experiment.experiment import MachineKind, Missing, Series
from zenturio.record import DriverProcess, Field, StudyDefinition
from zenturio.record.entities import ResultCount
from zenturio.record.open import open_repository
from zenturio.study.overview import (
    ExperimentDetails,
    StudyStatus,
    _file_differences,
    by_machine,
    by_round,
    compare_experiments,
    find_experiment,
    measure_json,
    measure_text,
)
from zenturio.testing.experiments import experiment, outcome


def status(planned, **counts):
    return StudyStatus("s", 0.0, {"ok": 0, "running": 0, **counts}, planned, ())


def test_where_a_study_stands_is_counted_from_its_states():
    standing = status(20, ok=5, running=3, failed=2, timeout=1)
    numbers = (standing.total, standing.ok, standing.running, standing.failed, standing.missing)
    assert numbers == (11, 5, 3, 3, 9)
    assert standing.left == 12
    over = status(4, ok=5)
    assert (over.missing, over.left) == (0, 0)


def test_results_are_counted_by_kind_of_machine_and_by_round():
    epyc = MachineKind("EPYC", 16)
    counts = (
        ResultCount(epyc, 1, "ok", 3), ResultCount(None, 1, "ok", 2), ResultCount(epyc, 2, "failed", 4),
    )  # fmt: skip
    assert by_machine(counts) == {"EPYC, 16 cores": 7, "an unknown kind": 2}
    assert list(by_machine(counts)) == ["EPYC, 16 cores", "an unknown kind"]
    assert by_round(reversed(counts)) == {1: 5, 2: 4}
    standing = replace(status(1), results=counts)
    assert (standing.machines, standing.rounds) == (by_machine(counts), by_round(counts))


@pytest.mark.parametrize(
    ("measure", "text", "json"),
    [
        (None, "", None),
        (3, "3", 3),
        (True, "True", True),
        ("x", "x", "x"),
        (1234567.0, "1.23457e+06", 1234567.0),
        (Missing("no match"), "missing: no match", {"missing": "no match"}),
        (Series((1, 2.123456, None)), "[1, 2.123, None]", [1, 2.123456, None]),
        (Series(tuple(range(6))), "[0, 1, 2, 3, 4, 5]", [0, 1, 2, 3, 4, 5]),
        (Series(tuple(range(7))), "[0, 1, 2, 3, 4, 5, ... (7 in all)]", list(range(7))),
    ],
)
def test_a_metric_is_told_to_people_and_to_programs(measure, text, json):
    assert measure_text(measure) == text
    assert measure_json(measure) == json


def test_files_that_differ_are_told_line_by_line():
    before = {"a": "1\n2\n3\n4\n5\n", "same": "x\n", "gone": "g"}
    after = {"a": "1\n2\nthree\n4\n5\n", "same": "x\n", "new": "n\n"}
    assert _file_differences(before, after) == {
        "a": "@@ -2,3 +2,3 @@\n 2\n-3\n+three\n 4\n",
        "gone": "@@ -1 +0,0 @@\n-g\n",
        "new": "@@ -0,0 +1 @@\n+n\n",
    }


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    repository = open_repository(tmp_path / "a.db")
    definition = StudyDefinition((Field("n", "int", "MB"),), (Field("m", "real", "s"), Field("k")))
    for name in ("one", "two"):
        repository.open(name, definition)
        lease = repository.acquire_lease(name, DriverProcess.current())
        indices = range(40) if name == "one" else range(40, 44)
        pairs = [(experiment(i), outcome(experiment(i), metrics={"m": i / 2})) for i in indices]
        repository.add_results(name, lease.number, pairs)
    yield repository
    repository.close()


def test_an_experiment_is_found_by_the_beginning_of_its_digest(repository):
    digest = experiment(7).digest
    for text in (digest, digest[:12], f" {digest[:12].upper()} "):
        details = find_experiment(repository, text)
        assert (details.study, details.record.digest) == ("one", digest)
    assert details.units == {"n": "MB", "m": "s"}
    assert details.metrics == {"m": 3.5}
    assert [attempt.number for attempt in details.attempts] == [1]
    assert (details.folder, details.equality, details.origin) == (None, None, "")
    assert details.definition.parameters[0].name == "n"
    assert find_experiment(repository, experiment(41).digest).study == "two"


def test_a_digest_that_names_none_or_several_experiments_is_refused(repository):
    for text in ("", " ", "xyz", "12 34"):
        with pytest.raises(InputError, match="is not the digest"):
            find_experiment(repository, text)
    with pytest.raises(NotFoundError, match=f"^no experiment begins with {'f' * 32}"):
        find_experiment(repository, "f" * 32)
    digest = experiment(7).digest
    assert find_experiment(repository, digest, "one").study == "one"
    with pytest.raises(NotFoundError, match=r"^no experiment in study two begins with"):
        find_experiment(repository, digest, "two")
    first = max(
        "0123456789abcdef", key=lambda d: sum(experiment(i).digest[0] == d for i in range(44))
    )
    with pytest.raises(InputError, match=f"^{first} begins several digests: ") as caught:
        find_experiment(repository, first)
    shown = caught.value.diagnostics[0].message.rpartition(": ")[2].split(", ")
    assert {len(digest) for digest in shown} == {5}
    assert all(digest.startswith(first) for digest in shown)


def test_two_experiments_differ_in_what_is_not_equal(repository):
    one, other = (find_experiment(repository, experiment(i).digest) for i in (1, 2))
    difference = compare_experiments(one, other)
    assert difference.digests == (experiment(1).digest, experiment(2).digest)
    assert difference.parameters == {"n": (1, 2)}
    assert difference.metrics == {"m": (0.5, 1.0)}
    assert compare_experiments(one, one).parameters == compare_experiments(one, one).metrics == {}
    unfinished = replace(other, record=replace(other.record, outcome=None))
    assert unfinished.metrics == {}
    assert compare_experiments(one, unfinished).metrics == {"m": (0.5, None)}
    assert isinstance(unfinished, ExperimentDetails)
