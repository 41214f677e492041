"""The best points are those that every record by itself leads to, in both databases."""

import math
import random
from hashlib import blake2b

import pytest

from postgres import slow_on_server
from record.reference import ReferenceRepository
from study.naive_best import naive_best
from tests.query.conftest import postgres, postgres_ready, repository
from zenturio.experiment.experiment import (
    UNKNOWN_KIND,
    Experiment,
    MachineKind,
    Missing,
    Outcome,
    Recipe,
    Series,
)
from zenturio.record import DriverProcess, Field, StudyDefinition, record_queries
from zenturio.record.entities import RowChoice
from zenturio.study.best_points import best

__all__ = ["postgres", "postgres_ready", "repository"]

KINDS = [None, MachineKind("fast", 8), MachineKind("slow", 2)]
PARAMETERS = {
    "n": [1, 2, 3, 2**70, -(2**70)],
    "x": [1.0, 2, 0.5, math.inf, 2**60, None],
    "name": ["a", "b", "", "nul\0", None],
    "flag": [True, False, 1, 0, None],
    "both": [1, 2],
}
METRICS = {
    "y": [1.0, 1.0, 2.0, 0.1, 0.2, 0.3, 1e200, -1e200, math.nan, math.inf, Missing("none"), None],
    "z": [1, 2, 3, True, 2**70, -(2**64), "text", Series((1.0, 2.0)), None],
    "both": [3, 4.5, None],
}
OBJECTIVES = [
    "MINIMIZE y",
    "MAXIMIZE y",
    "MINIMIZE z",
    "MAXIMIZE both",
    "MINIMIZE y * n + both",
    "MAXIMIZE z if flag else y",
    "MINIMIZE seed % 7",
    "MINIMIZE n",
    "MINIMIZE y, MAXIMIZE both",
    "MINIMIZE y, MINIMIZE z, MAXIMIZE n",
]


def fill(repository, study, random, *, spread=0):
    """Random results of two rounds on several machines; *spread* more metrics need chunks."""
    others = [f"other{i}" for i in range(spread)]
    fields = [Field(name, None) for name in PARAMETERS] + [Field("seed", "int", kind="seed")]
    # What is reported, and not declared, may be called like a parameter.
    units = {"y": "ms"}  # a time is ranked by its median
    metrics = [
        Field(name, None, units.get(name, ""))
        for name in (*others, *METRICS) if name not in PARAMETERS
    ]  # fmt: skip
    repository.open(study, StudyDefinition(tuple(fields), tuple(metrics)))
    lease = repository.acquire_lease(study, DriverProcess.current(), seconds=600)
    points = [
        {name: random.choice(values) for name, values in PARAMETERS.items()} for _ in range(12)
    ]
    digests = []
    for round_ in (1, 2):
        if round_ == 2:
            repository.begin_round(study)
        results = []
        for index, point in enumerate(points):
            for repeat in range(1, random.randint(1, 4)):
                # Now and then a point has two places in the space, as after a change of it.
                place = index % 9 if repeat > 2 else 10**20 * (index % 2) + index
                digest = blake2b(f"{study} {index} {repeat}".encode(), digest_size=16).hexdigest()
                digests.append(digest)
                values = point | {"seed": random.randrange(100)}
                experiment = Experiment(digest, place, repeat, values, (), (), {}, None, Recipe())
                status = random.choice(["ok", "ok", "ok", "failed", "timeout", "wrong"])
                drawn = {name: random.choice(values) for name, values in METRICS.items()}
                drawn |= dict.fromkeys(others, 1.0)
                measured = {name: value for name, value in drawn.items() if value is not None}
                kind = random.choice(KINDS)
                outcome = Outcome(
                    digest, status, "", measured, 1, "kofel", 1.0, 2.0, machine=kind
                )  # fmt: skip
                results.append((experiment, outcome))
        repository.add_results(study, lease.number, results)
    repository.release_lease(lease)
    return digests


def answers(repository, study, objective, choice, without=()):
    found = best(repository, study, 5, objective, without=without, rows=choice)
    rows = [
        (
            tuple(p.values.values()), list(p.scores.values()), p.used, p.ok, p.tried,
            p.machine.label if p.machine else UNKNOWN_KIND, p.round,
        )
        for p in found.points
    ]  # fmt: skip
    return rows, found.of


def agree(repository, study, random, digests):
    labels = ["", *{kind.label if kind else UNKNOWN_KIND for kind in KINDS}]
    present = best(repository, study, 1, "MINIMIZE n").machines
    for objective in OBJECTIVES:
        machine = random.choice([label for label in labels if label in {"", *present}])
        choice = RowChoice(machine, random.choice(["newest", "newest", "all", 1, 2]))
        without = frozenset(random.sample(digests, 2))
        if machine and machine not in best(
            repository, study, 1, "MINIMIZE n", without=without, rows=RowChoice("", choice.round)
        ).machines:  # fmt: skip
            choice = RowChoice("", choice.round)
        expected = naive_best(repository, study, 5, objective, without=without, rows=choice)
        found = answers(repository, study, objective, choice, without)
        assert repr(found) == repr(expected), (objective, choice)


@slow_on_server("repository")
@pytest.mark.parametrize("page", [20, pytest.param(4000, marks=pytest.mark.slow)])
def test_the_best_points_are_those_of_all_records(repository, monkeypatch, page):
    monkeypatch.setattr(record_queries, "_PAGE", page)
    drawn = random.Random(page)
    for study in "abcd":
        agree(repository, study, drawn, fill(repository, study, drawn))


@slow_on_server("repository")
def test_the_best_points_are_those_of_all_records_where_slots_do_not_suffice(repository):
    drawn = random.Random(3)
    agree(repository, "wide", drawn, fill(repository, "wide", drawn, spread=400))


def test_the_best_points_of_the_reference_are_those_of_its_records():
    drawn = random.Random(4)
    reference = ReferenceRepository()
    agree(reference, "s", drawn, fill(reference, "s", drawn))
