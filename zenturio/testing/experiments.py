"""Experiments and outcomes for tests: small, told apart, and one of each kind of value."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Mapping
from hashlib import blake2b

from zenturio.experiment.experiment import (
    Experiment,
    MetricValue,
    Missing,
    Outcome,
    Recipe,
    Series,
    Status,
)
from zenturio.expression import Value
from zenturio.record.entities import DriverProcess, Field, StudyDefinition
from zenturio.record.repository import Repository
from zenturio.system.processes import process_birth

ODD_MEASURES: dict[str, MetricValue] = {
    "int": 3,
    "real": 3.0,
    "a third": 1 / 3,
    "minus zero": -0.0,
    "least": 5e-324,
    "largest": 1.7976931348623157e308,
    "nan": math.nan,
    "inf": math.inf,
    "minus inf": -math.inf,
    "yes": True,
    "no": False,
    "last in 63 bits": 2**63 - 1,
    "first in 63 bits": -(2**63),
    "beyond 63 bits": 2**63,
    "far beyond": -(10**200),
    "text": "text",
    "empty": "",
    "number as text": "3.0",
    "letters": "Größe \U0001f600 '\"`\\",
    "nul": "a\0b",
    "surrogate": "\udcff",
    "missing": Missing("no match in stdout"),
    "series": Series((1, 2.5, "a\0", None, True, math.nan, 2**70, -0.0)),
    "no series": Series(()),
}
"""One of each kind of value that a program may come up with."""


def experiment(
    index: int, values: Mapping[str, Value] | None = None, *, repeat: int = 1, salt: str = ""
) -> Experiment:
    """Return an experiment that differs from others in its *index*, *repeat* and *salt*."""
    digest = blake2b(repr((index, repeat, salt)).encode(), digest_size=16).hexdigest()
    point = {"n": index} if values is None else values
    return Experiment(digest, index, repeat, point, (), (), {}, None, Recipe())


def outcome(
    of: Experiment,
    status: Status = "ok",
    metrics: Mapping[str, MetricValue] | None = None,
    *,
    attempt: int = 1,
    **more: MetricValue,
) -> Outcome:
    """Return an outcome of an experiment, with times and a host."""
    cause, code = ("", 0) if status == "ok" else ("exit 3", 3)
    measured = {**(metrics or {}), **more}
    return Outcome(of.digest, status, cause, measured, attempt, "karwendel", 1e9, 1e9 + 2.5, code)


def same(one: object, other: object) -> bool:
    """Return whether two values are one to the bit: type, NaN and the sign of zero included."""
    return _image(one) == _image(other)


def _image(value: object) -> object:
    if isinstance(value, Series):
        return ("series", *map(_image, value.values))
    if isinstance(value, Mapping):
        return {name: _image(v) for name, v in value.items()}
    return (type(value).__name__, repr(value))


DEFINITION = StudyDefinition((Field("n", "int"),), (Field("time", unit="s", how="stdout"),))
FIVE = [experiment(i) for i in range(5)]
A, B, C, D, E = FIVE
ALL = [e.digest for e in FIVE]


def driven(repository: Repository, drivers: int = 1) -> list[int]:
    """Return a study ``s`` and the lease numbers of its *drivers*."""
    repository.open("s", DEFINITION)
    return [
        repository.acquire_lease("s", DriverProcess.current(), join=True).number
        for _ in range(drivers)
    ]


def run(
    repository: Repository,
    driver: int,
    experiments: list[Experiment],
    status: Status = "ok",
    metrics: Mapping[str, MetricValue] | None = None,
    **more: MetricValue,
) -> None:
    measured = {**(metrics or {}), **more}
    outcomes = [outcome(e, status, measured) for e in experiments]
    run_as(repository, driver, experiments, outcomes)


def run_as(
    repository: Repository, driver: int, experiments: list[Experiment], outcomes: list[Outcome]
) -> None:
    digests = [e.digest for e in experiments]
    assert repository.claim("s", driver, experiments) == dict.fromkeys(digests, 1)
    assert repository.record("s", driver, outcomes) == set(digests)


def dead_driver() -> DriverProcess:
    """Return a driver of this host whose process has ended."""
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    driver = DriverProcess(
        DriverProcess.current().host, process.pid, process_birth(process.pid) or ""
    )
    process.communicate()
    return driver
