"""Reading repositories of revisions 0001 to 0003, which had a table of values for each study.

What stands here is fixed: it describes what earlier programs wrote. A field had a column for each
form of its values (``r3``, ``i3``, ``t3``, ``b3`` for the field at position 3) in the order of
their coming, and JSON for what no column held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from zenturio.experiment.experiment import Log, Outcome
from zenturio.record import codec
from zenturio.record.database import Database, Transaction
from zenturio.record.entities import Field

REVISIONS = ("0001", "0002", "0003")
MIGRATING = "-moving"
"""Behind the revision of a repository that is being upgraded: older programs refuse it."""
TABLES = (
    "alembic_version", "artifacts", "attempts", "contents", "counters", "definitions", "events",
    "experiments", "fields", "hosts", "leases", "logs", "shares", "sources", "studies",
    "submissions",
)  # fmt: skip
"""Beside ``values_N`` for each study."""
RECORDED = ("ok", "failed", "timeout", "cancelled")
_LETTERS = {"r": 1, "i": 2, "t": 4, "b": 8}
"""The forms that have columns, as bits of a field's forms."""
_STATES = ", ".join(f"'{state}'" for state in RECORDED)
_EXPERIMENT = (
    "e.id, e.digest, e.state, e.attempt, e.driver, h.name, e.started, e.ended, e.exit, e.cause"
)
_STREAMS = "stdout_head, stdout_tail, stdout_size, stderr_head, stderr_tail, stderr_size"


@dataclass(frozen=True, slots=True)
class OldField:
    """A field, and its columns by their letters."""

    role: str
    field: Field
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OldStudy:
    """A study as its row says it was."""

    number: int
    name: str
    created: float
    fields: tuple[OldField, ...]


@dataclass(frozen=True, slots=True)
class OldRow:
    """An experiment of a study, with what that study has measured."""

    number: int
    digest: bytes
    state: str
    position: Any
    repeat: int
    driver: int
    values: Mapping[str, Any]
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class OldAttempt:
    """An attempt that was not accepted."""

    experiment: int
    digest: bytes
    study: int
    driver: int
    state: str
    outcome: Outcome


def original(revision: str) -> str:
    """Return the revision that a repository had before its upgrade began."""
    return revision.removesuffix(MIGRATING)


class OldRepository:
    """A repository of an earlier revision."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.mark = database.dialect.mark

    def sql(self, text: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return what *text* answers, with ``?`` for parameters."""
        query = text.replace("?", self.mark)
        return self.database.read(lambda transaction: transaction.sql(query, parameters))

    def among(self, text: str, column: str, keys: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the same with ``{among}``: *column* is one of *keys*."""
        return self.database.read(lambda t: Transaction.among_sql(t, text, column, keys))

    @cached_property
    def studies(self) -> dict[int, OldStudy]:
        """All studies by number."""
        fields: dict[int, list[OldField]] = {}
        for study, at, role, name, kind, unit, how_kind, how, forms in self.sql(
            "SELECT study, position, role, name, type, unit, kind, how, forms FROM fields"
            " ORDER BY study, position"
        ):
            facts = [codec.unescape(text) for text in (unit, how_kind, how)]
            columns = tuple(f"{letter}{at}" for letter, bit in _LETTERS.items() if forms & bit)
            field = Field(codec.unescape(name), kind, *facts)
            fields.setdefault(study, []).append(OldField(role, field, columns))
        rows = self.sql("SELECT id, name, created FROM studies ORDER BY id")
        return {
            number: OldStudy(number, name, created, tuple(fields.get(number, ())))
            for number, name, created in rows
        }

    def results(self, study: OldStudy, after: int, count: int) -> list[OldRow]:
        """Return the next *count* experiments that *study* added first and that have an outcome."""
        condition = f"e.study = ? AND e.id > ? AND e.state IN ({_STATES}) ORDER BY e.id LIMIT ?"
        return self._rows(study, condition, (study.number, after, count))

    def shared(self, study: OldStudy, after: int, count: int) -> list[OldRow]:
        """Return the same for experiments that another study has added first."""
        condition = (
            "e.id IN (SELECT experiment FROM shares WHERE study = ?) AND e.id > ?"
            f" AND e.state IN ({_STATES}) ORDER BY e.id LIMIT ?"
        )
        return self._rows(study, condition, (study.number, after, count))

    def points(self, study: OldStudy, experiments: Sequence[int]) -> dict[int, OldRow]:
        """Return rows of *study* by the experiments' numbers, whatever their state."""
        rows = self.among(f"{self._select(study)} WHERE {{among}}", "e.id", experiments)
        return {row[0]: _row(study, row) for row in rows}

    def _rows(self, study: OldStudy, condition: str, parameters: Sequence[Any]) -> list[OldRow]:
        rows = self.sql(f"{self._select(study)} WHERE {condition}", parameters)
        return [_row(study, row) for row in rows]

    def _select(self, study: OldStudy) -> str:
        columns = [column for field in study.fields for column in field.columns]
        more = "".join(f", v.{column}" for column in columns)
        return (
            f"SELECT {_EXPERIMENT}, v.position, v.repeat, v.other_values, v.other_metrics{more}"
            f" FROM experiments e JOIN values_{study.number} v ON v.experiment = e.id"
            " LEFT JOIN hosts h ON h.id = e.host"
        )

    def attempts(self, after: int, count: int) -> list[OldAttempt]:
        """Return all attempts at the next *count* experiments that have unaccepted ones."""
        rows = self.sql(
            "SELECT a.experiment, e.digest, e.study, a.driver, a.state, a.number, h.name,"
            " a.started, a.ended, a.exit, a.cause, a.metrics FROM attempts a"
            " JOIN experiments e ON e.id = a.experiment LEFT JOIN hosts h ON h.id = a.host"
            " WHERE a.experiment IN (SELECT DISTINCT experiment FROM attempts WHERE experiment > ?"
            " ORDER BY experiment LIMIT ?) ORDER BY a.experiment, a.number, a.driver",
            (after, count),
        )
        return [
            OldAttempt(
                experiment, bytes(digest), study, driver, state,
                _outcome((digest, state, number, host, *facts), codec.load_values(metrics)),
            )
            for experiment, digest, study, driver, state, number, host, *facts, metrics in rows
        ]  # fmt: skip

    def running(self) -> list[OldAttempt]:
        """Attempts whose drivers are gone, and which no other driver has taken over."""
        rows = self.sql(
            f"SELECT {_EXPERIMENT}, e.study FROM experiments e LEFT JOIN hosts h ON h.id = e.host"
            " WHERE e.state = 'running' ORDER BY e.id"
        )
        return [
            OldAttempt(
                number, bytes(digest), study, driver, "stale",
                _outcome((digest, "stale", attempt, host, *facts), {}),
            )
            for number, digest, _, attempt, driver, host, *facts, study in rows
        ]  # fmt: skip

    def logs(self, experiments: Sequence[int]) -> dict[tuple[int, int, int], tuple[Log, Log]]:
        """Return the logs of attempts, by experiment, number and driver."""
        rows = self.among(
            f"SELECT experiment, attempt, driver, {_STREAMS} FROM logs WHERE {{among}}",
            "experiment",
            experiments,
        )
        return {tuple(row[:3]): (_log(row[3:6]), _log(row[6:9])) for row in rows}

    def artifacts(
        self, experiments: Sequence[int]
    ) -> dict[tuple[int, int, int], list[tuple[str, int, str, str]]]:
        """Path, size, SHA-256 and place of the files that attempts left, in their order."""
        rows = self.among(
            "SELECT experiment, attempt, driver, id, path, size, sha256, kept FROM artifacts"
            " WHERE {among}",
            "experiment",
            experiments,
        )
        by_attempt: dict[tuple[int, int, int], list[tuple[str, int, str, str]]] = {}
        for experiment, attempt, driver, _, *facts in sorted(rows, key=lambda row: row[3]):
            by_attempt.setdefault((experiment, attempt, driver), []).append(tuple(facts))
        return by_attempt


def _row(study: OldStudy, row: Sequence[Any]) -> OldRow:
    number, digest, state, attempt, driver, host, *facts = row[:10]
    position, repeat, values, metrics, *cells = row[10:]
    read = {"parameter": codec.load_values(values), "metric": codec.load_values(metrics)}
    values_by_role: dict[str, dict[str, Any]] = {"parameter": {}, "metric": {}}
    remaining = iter(cells)
    for stored in study.fields:
        name, cells_of_field = stored.field.name, [(c[0], next(remaining)) for c in stored.columns]
        value = read[stored.role].get(name)
        for letter, cell in cells_of_field if value is None else ():
            if cell is not None:
                value = bool(cell) if letter == "b" else cell
        if value is not None:
            values_by_role[stored.role][name] = value
    outcome = _outcome((digest, state, attempt, host, *facts), values_by_role["metric"])
    return OldRow(
        number,
        bytes(digest),
        state,
        position,
        repeat,
        driver or 0,
        values_by_role["parameter"],
        outcome,
    )


def _outcome(facts: Sequence[Any], metrics: Mapping[str, Any]) -> Outcome:
    digest, state, attempt, host, started, ended, exit_code, cause = facts
    return Outcome(
        bytes(digest).hex(), state, codec.unescape(cause), metrics, attempt,
        codec.unescape(host), started, ended, exit_code,
    )  # fmt: skip


def _log(parts: Sequence[Any]) -> Log:
    head, tail, size = parts
    return Log(bytes(head), bytes(tail), size)
