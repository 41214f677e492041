"""Trials of an Optuna study as a study of ours, read from Optuna's SQLite storage.

The file is opened for reading alone, and Optuna itself is not needed. Each finished trial becomes
an experiment that nothing runs: its digest is made of what identifies the trial, so that a second
import adds what was finished since, and an interrupted one goes on.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from zenturio.errors import InputError, NotFoundError
from zenturio.experiment import Experiment, Outcome
from zenturio.experiment.experiment import MetricValue, Missing, Recipe, Series, Status
from zenturio.expression import Type, Value, quoted
from zenturio.record import Repository, StudyDefinition
from zenturio.record.entities import Field
from zenturio.study.driver.experiment_source import RunOrder
from zenturio.study.driver.function_study import CallStudy
from zenturio.study.driver.in_flight import Calls
from zenturio.study.driver.progress import RunProgress
from zenturio.study.recorded_definition import PROGRAM, measured_fields

IMPORTED = "imported"
"""The note of a study whose results were imported: from what, and which."""
HOST = "imported from optuna"
"""What stands for the host of imported attempts."""
STATUS: Mapping[str, Status] = {"COMPLETE": "ok", "FAIL": "failed", "PRUNED": "failed"}
"""Of trials that have finished; WAITING and RUNNING ones are left for a later import."""
PREFIX = "sqlite:///"
METRIC_NAMES = "study:metric_names"
INTERMEDIATE = "intermediate"
"""The metric with all values that a trial reported, in the order of their steps."""

_WALL_TIME = tuple(field for field in measured_fields() if field.name == "wtime")
_INFINITE = {"INF_POS": math.inf, "INF_NEG": -math.inf}


@dataclass(frozen=True)
class OptunaTrial:
    """A trial as Optuna stored it."""

    number: int
    state: str
    started: datetime | None
    ended: datetime | None
    params: dict[str, Value] = field(default_factory=dict)
    values: dict[int, float] = field(default_factory=dict)
    """By the number of the objective."""
    intermediate: list[float] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OptunaStudy:
    """A study of an Optuna storage, with all its trials."""

    name: str
    directions: tuple[str, ...]
    metrics: tuple[str, ...]
    trials: tuple[OptunaTrial, ...]

    @property
    def finished(self) -> list[OptunaTrial]:
        """The trials that have an outcome."""
        return [trial for trial in self.trials if trial.state in STATUS]


@dataclass(frozen=True)
class ImportResult:
    """What was imported."""

    study: str
    source: str
    """The name of Optuna's study."""
    imported: int
    cached: int
    """Trials that were imported before."""
    unfinished: int
    """Trials that have not finished, and were left out."""

    def facts(self) -> dict[str, Any]:
        """Return the numbers as JSON has them."""
        return {
            "study": self.study, "source": self.source, "imported": self.imported,
            "cached": self.cached, "unfinished": self.unfinished,
        }  # fmt: skip


def import_optuna(
    repository: Repository,
    url: str,
    study: str = "",
    name: str = "",
    *,
    listener: Callable[[RunProgress], None] = lambda _progress: None,
) -> ImportResult:
    """Import the trials of Optuna's *study* at *url* as the study *name*; default: the same name.

    What was imported before is left as it is. InputError where there is no such study, where *url*
    names several, or where *name* is a study of another kind.
    """
    source = read_optuna(url, study)
    name = name or source.name
    finished = source.finished
    if not finished:
        raise InputError(
            f"study {source.name} at {url} has no finished trials", hint="run some by Optuna first"
        )
    experiments, outcomes = _converted(source)
    _check_target(repository, name, source, {experiment.digest for experiment in experiments})
    program = blake2b(f"optuna {source.name}".encode()).hexdigest()
    definition = StudyDefinition(
        parameters=tuple(_parameter_fields(finished)),
        metrics=(*_WALL_TIME, *(Field(metric) for metric in _metrics(source))),
        goals=tuple(
            {"direction": direction, "expression": quoted(metric)}
            for direction, metric in zip(source.directions, source.metrics, strict=True)
        ),
        notes={
            PROGRAM: {f"optuna study {source.name}": program},
            IMPORTED: {"from": "optuna", "study": source.name, "first": experiments[0].digest},
            "experiments": len(experiments),
        },
    )

    def in_order(_order: RunOrder) -> Iterator[Experiment]:
        return iter(experiments)

    summary, _ = CallStudy(name, definition, in_order, len(experiments)).drive(
        repository, [Calls(lambda one: outcomes[one.digest])], lambda _place: None, listener
    )
    imported = len(experiments) - summary.cached
    if imported:
        repository.add_event(name, IMPORTED, f"{imported:,} trials of Optuna's {source.name}")
    unfinished = len(source.trials) - len(finished)
    return ImportResult(name, source.name, imported, summary.cached, unfinished)


def _check_target(
    repository: Repository, name: str, source: OptunaStudy, digests: set[str]
) -> None:
    """Raise InputError where *name* is a study that was not imported from *source*."""
    try:
        notes = repository.definition(name).notes
    except NotFoundError:
        return
    before = notes.get(IMPORTED, {})
    if before.get("study") == source.name and before.get("first") in digests:
        return
    raise InputError(
        f"study {name} exists already, and does not hold these trials",
        hint=f"choose another name: --name {name}-optuna",
    )


def read_optuna(url: str, study: str = "") -> OptunaStudy:
    """Return the *study* in Optuna's storage at *url*, a ``sqlite:///`` address or a path."""
    if "://" in url and not url.startswith(PREFIX):
        raise InputError(
            f"{url.partition('://')[0]}:// storages cannot be imported, only {PREFIX}FILE",
            hint='copy the study in Python: optuna.copy_study(from_study_name="NAME",'
            f' from_storage=..., to_storage="{PREFIX}copy.db")',
        )
    path = Path(url.removeprefix(PREFIX))
    if not path.is_file():
        raise InputError(f"there is no file {path}", hint=f"write {PREFIX}FILE")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            return _StorageReader(database).study(url, study)
    except (sqlite3.DatabaseError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} is not an SQLite storage of Optuna 3 or later: {error}",
            hint=f"an older one: optuna storage upgrade --storage {PREFIX}{path}",
        ) from error


class _StorageReader:
    """Reads the tables of a storage."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def study(self, url: str, name: str) -> OptunaStudy:
        rows = self._rows("SELECT study_id, study_name FROM studies ORDER BY study_id")
        names = [str(name_found) for _, name_found in rows]
        if name not in names and (name or len(names) != 1):
            obstacle = f"has no study {name}" if name else f"has {len(names)} studies"
            raise InputError(
                f"{url} {obstacle}", hint=f"name one: --study NAME, of {', '.join(names) or 'none'}"
            )
        number, name = next(row for row in rows if name in ("", row[1]))
        directions = self._rows(
            "SELECT direction FROM study_directions WHERE study_id = ? ORDER BY objective", number
        )
        return OptunaStudy(
            name,
            tuple(str(direction).lower() for (direction,) in directions),
            self._metric_names(number, len(directions)),
            tuple(self._trials(number)),
        )

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        return self._database.execute(statement, values).fetchall()

    def _metric_names(self, study: int, count: int) -> tuple[str, ...]:
        rows = self._rows(
            "SELECT value_json FROM study_system_attributes WHERE study_id = ? AND key = ?",
            study, METRIC_NAMES,
        )  # fmt: skip
        names = json.loads(rows[0][0]) if rows else []
        if len(names) == count == len(set(names)):
            return tuple(map(str, names))
        return ("value",) if count == 1 else tuple(f"value_{at}" for at in range(count))

    def _trials(self, study: int) -> Iterable[OptunaTrial]:
        trials = {
            key: OptunaTrial(int(number), state, _time(started), _time(ended))
            for key, number, state, started, ended in self._rows(
                "SELECT trial_id, number, state, datetime_start, datetime_complete FROM trials"
                " WHERE study_id = ? ORDER BY number", study,
            )
        }  # fmt: skip
        for key, name, value, distribution in self._rows(
            "SELECT trial_id, param_name, param_value, distribution_json FROM trial_params"
            " JOIN trials USING (trial_id) WHERE study_id = ? ORDER BY param_id", study,
        ):  # fmt: skip
            trials[key].params[str(name)] = _value(value, json.loads(distribution))
        for key, objective, value, kind in self._rows(
            "SELECT trial_id, objective, value, value_type FROM trial_values"
            " JOIN trials USING (trial_id) WHERE study_id = ?", study,
        ):  # fmt: skip
            trials[key].values[int(objective)] = _INFINITE.get(kind, value)
        for key, value, kind in self._rows(
            "SELECT trial_id, intermediate_value, intermediate_value_type"
            " FROM trial_intermediate_values JOIN trials USING (trial_id) WHERE study_id = ?"
            " ORDER BY step", study,
        ):  # fmt: skip
            reported = math.nan if kind == "NAN" else float(_INFINITE.get(kind, value))
            trials[key].intermediate.append(reported)
        for key, name, text in self._rows(
            "SELECT trial_id, key, value_json FROM trial_user_attributes"
            " JOIN trials USING (trial_id) WHERE study_id = ?", study,
        ):  # fmt: skip
            trials[key].attributes[str(name)] = json.loads(text)
        return trials.values()


def _value(stored: float, distribution: Mapping[str, Any]) -> Value:
    """Return a parameter's value: Optuna stores a real, for a category its position."""
    if "choices" in distribution["attributes"]:
        choice: Value = distribution["attributes"]["choices"][int(stored)]
        return "None" if choice is None else choice
    is_int = distribution["name"].startswith("Int")
    return round(stored) if is_int else float(stored)


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _converted(source: OptunaStudy) -> tuple[list[Experiment], dict[str, Outcome]]:
    """Return an experiment for each finished trial, and the outcome of each."""
    finished = source.finished
    types = {field.name: field.type for field in _parameter_fields(finished)}
    metrics, recipe = _metrics(source), Recipe()
    experiments: list[Experiment] = []
    outcomes: dict[str, Outcome] = {}
    repeats: Counter[tuple[object, ...]] = Counter()
    for trial in source.trials:
        values = {name: _typed(value, types.get(name)) for name, value in trial.params.items()}
        point = tuple(sorted((name, repr(value)) for name, value in values.items()))
        repeats[point] += 1  # unfinished ones, too: they keep their number when they are finished
        if trial.state not in STATUS:
            continue
        digest = _digest(source.name, trial)
        everything = {name: values.get(name) for name in types}
        experiments.append(
            Experiment(digest, trial.number, repeats[point], everything, (), (), {}, None, recipe)
        )
        outcomes[digest] = _outcome(digest, trial, source.metrics, metrics)
    return experiments, outcomes


def _digest(study: str, trial: OptunaTrial) -> str:
    """Return what identifies *trial*, in whatever file it is stored."""
    params = sorted((name, repr(value)) for name, value in trial.params.items())
    identity = ("optuna", study, trial.number, params, str(trial.started))
    return blake2b(repr(identity).encode("utf-8", "replace"), digest_size=16).hexdigest()


def _outcome(
    digest: str, trial: OptunaTrial, objectives: Sequence[str], names: Sequence[str]
) -> Outcome:
    # Optuna writes local times without their zone.
    started, ended = (time.timestamp() if time else 0.0 for time in (trial.started, trial.ended))
    metrics: dict[str, MetricValue] = {
        name: trial.attributes[name] for name in names if name in trial.attributes
    }
    for at, name in enumerate(objectives):
        if at in trial.values:
            metrics[name] = trial.values[at]
    if trial.intermediate:
        metrics[INTERMEDIATE] = Series(tuple(trial.intermediate))
    metrics["wtime"] = ended - started if trial.started and trial.ended else Missing("not stored")
    cause = {"FAIL": "failed in Optuna", "PRUNED": "pruned in Optuna"}.get(trial.state, "")
    if trial.state == "PRUNED" and trial.intermediate:
        cause += f" after {len(trial.intermediate)} reports"
    return Outcome(
        digest, STATUS[trial.state], cause, metrics,
        host=HOST, started=started, ended=max(started, ended),
    )  # fmt: skip


def _metrics(source: OptunaStudy) -> list[str]:
    """Return the objectives, what trials reported, and attributes that are numbers or texts."""
    reserved = {field.name for field in (*_parameter_fields(source.finished), *measured_fields())}
    names = dict.fromkeys(source.metrics)
    for trial in source.finished:
        if trial.intermediate:
            names[INTERMEDIATE] = None
        for name, value in trial.attributes.items():
            if isinstance(value, bool | int | float | str) and name not in reserved:
                names[name] = None
    return list(names)


def _parameter_fields(trials: Sequence[OptunaTrial]) -> list[Field]:
    values: dict[str, set[type]] = {}
    for trial in trials:
        for name, value in trial.params.items():
            values.setdefault(name, set()).add(type(value))
    return [Field(name, _type(kinds), kind="param") for name, kinds in values.items()]


def _type(kinds: set[type]) -> Type:
    """Return the type that values of all *kinds* have in one column."""
    if kinds <= {int, float}:
        return "int" if kinds == {int} else "real"
    return "bool" if kinds == {bool} else "str"


def _typed(value: Value, kind: Type | None) -> Value:
    if kind == "real" and isinstance(value, int):
        return float(value)
    return str(value) if kind == "str" else value
