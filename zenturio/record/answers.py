"""What SQL repositories answer: outcomes, records, attempts, logs, events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import bindparam, select

from zenturio.experiment.experiment import Artifact, Log, Measure, Outcome
from zenturio.record import codec, complaints, events, rows, studies
from zenturio.record.database import Transaction
from zenturio.record.facts import RECORDED, STATES, Attempt, AttemptState, Key, Logs, Record, State
from zenturio.record.layout import Layout
from zenturio.record.rows import Desk
from zenturio.record.schema import artifacts, attempts, experiments, hosts, logs

BATCH = 2000
"""How many records are fetched at a time."""

_RUN = (
    experiments.c.digest, experiments.c.state, experiments.c.cause, experiments.c.attempt,
    hosts.c.name, experiments.c.started, experiments.c.ended, experiments.c.exit,
)  # fmt: skip
_HOSTED = experiments.outerjoin(hosts, hosts.c.id == experiments.c.host)
_OUTCOMES = select(experiments.c.id, experiments.c.study, *_RUN).select_from(_HOSTED)
_NEWEST = (
    select(experiments.c.id, experiments.c.driver, *_RUN)
    .select_from(_HOSTED)
    .where(experiments.c.digest == bindparam("of_digest"))
)
_OTHERS = (
    select(
        attempts.c.number, attempts.c.state, attempts.c.driver, hosts.c.name,
        attempts.c.started, attempts.c.ended, attempts.c.cause, attempts.c.exit,
        attempts.c.metrics,
    )
    .select_from(attempts.outerjoin(hosts, hosts.c.id == attempts.c.host))
    .where(attempts.c.experiment == bindparam("of_experiment"))
)  # fmt: skip
_LOGS = (
    select(
        logs.c.driver,
        logs.c.stdout_head, logs.c.stdout_tail, logs.c.stdout_size,
        logs.c.stderr_head, logs.c.stderr_tail, logs.c.stderr_size,
    )
    .where(logs.c.experiment == bindparam("of_experiment"), logs.c.attempt == bindparam("number"))
    .order_by(logs.c.driver)
)  # fmt: skip
_MATCHING = (
    select(experiments.c.id, experiments.c.digest)
    .where(experiments.c.digest.between(bindparam("low"), bindparam("high")))
    .order_by(experiments.c.digest)
    .limit(bindparam("most"))
)
_DIGITS = 32
_ARTIFACTS = (
    select(
        artifacts.c.driver, artifacts.c.path, artifacts.c.size, artifacts.c.sha256,
        artifacts.c.kept,
    )
    .where(
        artifacts.c.experiment == bindparam("of_experiment"),
        artifacts.c.attempt == bindparam("number"),
    )
    .order_by(artifacts.c.id)
)  # fmt: skip


def find(transaction: Transaction, digests: Sequence[str], study: str | None) -> dict[str, Outcome]:
    """The accepted outcomes, with the metrics of *study* or of each one's own."""
    keys = dict.fromkeys(map(codec.key, digests))
    found = [
        row
        for row in transaction.among(_OUTCOMES, experiments.c.digest, keys)
        if row[3] in RECORDED
    ]
    by_study: dict[int, list[tuple[Any, ...]]] = {}
    if study is None:
        for row in found:
            by_study.setdefault(row[1], []).append(row)
        desks = {n: Desk(transaction, _layout(transaction, n)) for n in by_study}
    else:
        desk = Desk(transaction, studies.read_layout(transaction, study))
        by_study, desks = {desk.study: found}, {desk.study: desk}
    outcomes = {}
    for number, its in by_study.items():
        metrics = rows.read_metrics(desks[number], [row[0] for row in its])
        for experiment, _, *run in its:
            if experiment in metrics:
                outcomes[run[0].hex()] = _outcome(run, metrics[experiment])
    return outcomes


def _layout(transaction: Transaction, study: int) -> Layout:
    return studies.read_layout(transaction, studies.name_of(transaction, study))


def _outcome(run: Sequence[Any], metrics: dict[str, Any]) -> Outcome:
    digest, state, cause, attempt, host, started, ended, exit_code = run
    return Outcome(
        bytes(digest).hex(),
        state,
        codec.unescape(cause),
        metrics,
        attempt,
        host or "",
        started,
        ended,
        exit_code,
    )


def records(desk: Desk, after: Key | None, states: Iterable[State]) -> list[Record]:
    """The next records behind *after*, a batch of them."""
    flavour = desk.transaction.flavour
    wanted = sorted(set(states) & set(STATES))
    mark = flavour.mark
    conditions = [f"e.state IN ({', '.join([mark] * len(wanted))})" if wanted else "1 = 0"]
    given: list[Any] = list(wanted)
    if after is not None:
        conditions.append(f"(v.position, v.repeat, v.experiment) > ({mark}, {mark}, {mark})")
        given += [flavour.position(after.number), after.repeat, after.row]
    return _where(desk, conditions, given)


def row(desk: Desk, digest: str) -> Record:
    """The record of one experiment."""
    found = _where(desk, [f"e.digest = {desk.transaction.flavour.mark}"], [codec.key(digest)])
    if not found:
        raise complaints.no_experiment([digest])
    return found[0]


def matching(
    transaction: Transaction, prefix: str, limit: int
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Digests that begin with *prefix*, and the names of the studies that have each."""
    low, high = (codec.key(prefix.ljust(_DIGITS, filler)) for filler in "0f")
    found = transaction.rows(_MATCHING, low=low, high=high, most=limit)
    mark = transaction.flavour.mark
    having: dict[int, list[str]] = {number: [] for number, _ in found}
    for study in studies.all_studies(transaction) if found else ():
        table = studies.read_layout(transaction, study.name).table
        marks = ", ".join([mark] * len(having))
        query = f"SELECT experiment FROM {table} WHERE experiment IN ({marks})"  # noqa: S608
        for (number,) in transaction.sql(query, list(having)):
            having[number].append(study.name)
    return tuple((bytes(digest).hex(), tuple(having[number])) for number, digest in found)


def _where(desk: Desk, conditions: Sequence[str], given: Sequence[Any]) -> list[Record]:
    """The first records that meet the conditions, in their order."""
    reader = desk.layout.reader
    columns = [column.name for column in _RUN if column.table is experiments]
    chosen = [f"e.{name}" for name in columns] + [f"v.{name}" for name in reader.columns]
    found = desk.transaction.sql(
        f"SELECT v.position, v.repeat, v.experiment, h.name, {', '.join(chosen)}"  # noqa: S608
        f" FROM {desk.layout.table} v JOIN experiments e ON e.id = v.experiment"
        " LEFT JOIN hosts h ON h.id = e.host"
        f" WHERE {' AND '.join(conditions)}"
        f" ORDER BY v.position, v.repeat, v.experiment LIMIT {BATCH}",
        given,
    )
    return [_record(desk, row, len(columns)) for row in found]


def _record(desk: Desk, row: tuple[Any, ...], facts: int) -> Record:
    position, repeat, experiment, host, *rest = row
    digest, state, cause, attempt, started, ended, exit_code = rest[:facts]
    values, reader = rest[facts:], desk.layout.reader
    run = (digest, state, cause, attempt, host, started, ended, exit_code)
    return Record(
        Key(desk.transaction.flavour.index(position), repeat, experiment),
        bytes(digest).hex(),
        state,
        reader.values(values),
        _outcome(run, reader.metrics(values)) if state in RECORDED else None,
    )


def all_attempts(transaction: Transaction, digest: str) -> tuple[Attempt, ...]:
    """The newest attempt, which is part of the experiment's row, and all others."""
    number, driver, *run = _newest(transaction, digest)
    _, state, cause, attempt, host, started, ended, exit_code = run
    others = transaction.rows(_OTHERS, of_experiment=number)
    found = [_attempt(*facts, metrics=codec.load(metrics)) for *facts, metrics in others]
    if state != "waiting":
        found.append(_attempt(attempt, state, driver, host, started, ended, cause, exit_code))
    return tuple(sorted(found, key=lambda each: (each.number, each.driver)))


def _attempt(
    number: int,
    state: AttemptState,
    driver: int,
    host: str | None,
    *facts: Any,
    metrics: Mapping[str, Measure] | None = None,
) -> Attempt:
    started, ended, cause, code = facts
    return Attempt(
        number,
        state,
        driver,
        host or "",
        started,
        ended,
        codec.unescape(cause),
        code,
        metrics or {},
    )


def note(desk: Desk, kind: str, text: str, digest: str | None) -> None:
    """Adds an event, of an experiment if one is named."""
    number = None if digest is None else rows.required(desk, [digest])[digest].id
    events.note(desk.transaction, desk.study, kind, text, number)


def _newest(transaction: Transaction, digest: str) -> tuple[Any, ...]:
    row = transaction.row(_NEWEST, of_digest=codec.key(digest))
    if row is None:
        raise complaints.no_experiment([digest])
    return row


def logs_of(transaction: Transaction, digest: str, attempt: int | None) -> Logs:
    for out_head, out_tail, out_size, *err in _of_attempt(transaction, _LOGS, digest, attempt):
        return Logs(Log(bytes(out_head), bytes(out_tail), out_size), _log(err))
    return Logs()


def _log(parts: Sequence[Any]) -> Log:
    head, tail, size = parts
    return Log(bytes(head), bytes(tail), size)


def artifacts_of(
    transaction: Transaction, digest: str, attempt: int | None
) -> tuple[Artifact, ...]:
    found = _of_attempt(transaction, _ARTIFACTS, digest, attempt)
    return tuple(
        Artifact(codec.unescape(path), size, sha256, Path(codec.unescape(kept)))
        for path, size, sha256, kept in found
    )


def _of_attempt(
    transaction: Transaction, statement: Any, digest: str, attempt: int | None
) -> list[tuple[Any, ...]]:
    """Rows of an attempt; where several drivers made one of that number, the accepted one's."""
    experiment, driver, *run = _newest(transaction, digest)
    number = run[3] if attempt is None else attempt
    found = transaction.rows(statement, of_experiment=experiment, number=number)
    drivers = [row[0] for row in found]
    chosen = driver if driver in drivers and number == run[3] else min(drivers, default=None)
    return [row[1:] for row in found if row[0] == chosen]
