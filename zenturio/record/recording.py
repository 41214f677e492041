"""Outcomes in SQL: which are accepted, and where everything that they say is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import bindparam, delete, select, update

from zenturio.experiment.experiment import Experiment, Outcome
from zenturio.record import codec, events, leases, rows, rules
from zenturio.record.database import Transaction
from zenturio.record.facts import RECORDED, AttemptState, State
from zenturio.record.rows import Desk, Entry
from zenturio.record.schema import attempts, experiments
from zenturio.record.tally import Tally, members

_FACTS = ("host", "started", "ended", "exit", "cause")
_ACCEPT = (
    update(experiments)
    .where(experiments.c.id == bindparam("of_id"))
    .values({"state": bindparam("to_state"), **{n: bindparam(f"to_{n}") for n in _FACTS}})
)
_ACCEPTED = ("of_id", "to_state", *(f"to_{name}" for name in _FACTS))
_SET_STATE = (
    update(experiments)
    .where(experiments.c.id == bindparam("of_id"))
    .values(state=bindparam("to_state"))
)
_SET_CAUSE = (
    update(experiments)
    .where(experiments.c.id == bindparam("of_id"))
    .values(state=bindparam("to_state"), cause=bindparam("to_cause"))
)
_PAST = select(attempts.c.experiment, attempts.c.number, attempts.c.driver, attempts.c.state)
_FORGET = delete(attempts).where(
    attempts.c.experiment == bindparam("of_experiment"),
    attempts.c.number == bindparam("of_number"),
    attempts.c.driver == bindparam("of_driver"),
)
_WHOLE = select(
    experiments.c.id, experiments.c.attempt, experiments.c.driver, experiments.c.state,
    *(experiments.c[name] for name in _FACTS),
)  # fmt: skip
_ATTEMPT = ("experiment", "number", "driver", "state", *_FACTS, "metrics")
_LOG = (
    "experiment", "attempt", "driver", "stdout_head", "stdout_tail", "stdout_size",
    "stderr_head", "stderr_tail", "stderr_size",
)  # fmt: skip
_ARTIFACT = ("experiment", "attempt", "driver", "path", "size", "sha256", "kept")
_NEW = ("id", "digest", "study", "state", "attempt", "driver", *_FACTS)

_Pair = tuple[Entry, Outcome]


def record(desk: Desk, driver: int, outcomes: Sequence[Outcome], final: bool) -> frozenset[str]:
    """Keeps the outcomes of what *driver* claimed; the digests of those accepted."""
    found = rows.required(desk, [outcome.digest for outcome in outcomes])
    accepted: list[_Pair] = []
    late: list[_Pair] = []
    known = set()
    for outcome in outcomes:
        digest, entry = outcome.digest, found[outcome.digest]
        match rules.judge(entry.standing, driver, outcome.attempt):
            case "accept":
                accepted.append((entry, outcome))
                found[digest] = entry._replace(state=outcome.status if final else "waiting")
            case "again":
                known.add(digest)
            case "supersede":
                late.append((entry, outcome))
    if accepted:
        (_accept if final else _set_aside)(desk, driver, accepted)
    if late:
        _supersede(desk, driver, late)
    return frozenset(known.union(o.digest for _, o in accepted)) if final else frozenset()


def _accept(desk: Desk, driver: int, pairs: Sequence[_Pair]) -> None:
    transaction = desk.transaction
    numbers = [entry.id for entry, _ in pairs]
    hosts = rows.host_numbers(transaction, (outcome.host for _, outcome in pairs))
    transaction.many(
        _ACCEPT, _ACCEPTED, [(entry.id, o.status, *_facts(o, hosts)) for entry, o in pairs]
    )
    rows.write_metrics(desk, numbers, [outcome.metrics for _, outcome in pairs])
    _keep_files(transaction, driver, pairs)
    tally = Tally(transaction)
    others: dict[int, list[int]] = {}
    having = members(transaction, {entry.id: entry.study for entry, _ in pairs})
    for entry, outcome in pairs:
        tally.move(having[entry.id], "running", outcome.status)
        for study in having[entry.id]:
            if study != desk.study:
                others.setdefault(study, []).append(entry.id)
    tally.write()
    for study, shared in others.items():
        rows.take_over(desk.beside(study), desk, shared)


def _set_aside(desk: Desk, driver: int, pairs: Sequence[_Pair]) -> None:
    """Keeps attempts that are not the last word: their experiments wait for the next one."""
    transaction = desk.transaction
    _keep_attempts(transaction, driver, [(*pair, pair[1].status) for pair in pairs])
    transaction.many(
        _SET_STATE, ("of_id", "to_state"), [(entry.id, "waiting") for entry, _ in pairs]
    )
    tally = Tally(transaction)
    for having in members(transaction, {entry.id: entry.study for entry, _ in pairs}).values():
        tally.move(having, "running", "waiting")
    tally.write()


def _supersede(desk: Desk, driver: int, pairs: Sequence[_Pair]) -> None:
    """Keeps what came late, unless it is kept already."""
    transaction = desk.transaction
    numbers = {entry.id for entry, _ in pairs}
    past: dict[tuple[int, int, int], AttemptState] = {
        (experiment, number, made_by): state
        for experiment, number, made_by, state in transaction.among(
            _PAST, attempts.c.experiment, numbers
        )
    }
    new: list[tuple[Entry, Outcome, AttemptState]] = []
    for entry, outcome in pairs:
        place = (entry.id, outcome.attempt, driver)
        if rules.supersedes(past.get(place)):
            past[place] = "superseded"
            new.append((entry, outcome, "superseded"))
            text = f"attempt {outcome.attempt} came late"
            events.note(transaction, desk.study, "superseded", text, entry.id)
    _keep_attempts(transaction, driver, new)


def _keep_attempts(
    transaction: Transaction, driver: int, kept: Sequence[tuple[Entry, Outcome, AttemptState]]
) -> None:
    """Writes attempts that are not the accepted one, in place of what was known of them."""
    hosts = rows.host_numbers(transaction, (outcome.host for _, outcome, _ in kept))
    places = [(entry.id, outcome.attempt, driver) for entry, outcome, _ in kept]
    transaction.many(_FORGET, ("of_experiment", "of_number", "of_driver"), places)
    facts = [
        (*place, state, *_facts(outcome, hosts), codec.dump(outcome.metrics))
        for place, (_, outcome, state) in zip(places, kept, strict=True)
    ]
    transaction.insert("attempts", _ATTEMPT, facts)
    _keep_files(transaction, driver, [(entry, outcome) for entry, outcome, _ in kept])


def _facts(outcome: Outcome, hosts: dict[str, int]) -> tuple[Any, ...]:
    return (
        hosts[outcome.host],
        outcome.started,
        outcome.ended,
        outcome.exit,
        codec.escape(outcome.cause) if outcome.cause else None,
    )


def _keep_files(transaction: Transaction, driver: int, pairs: Iterable[_Pair]) -> None:
    """Logs and artifacts of those that have any."""
    logs: list[tuple[Any, ...]] = []
    artifacts: list[tuple[Any, ...]] = []
    for entry, outcome in pairs:
        place = (entry.id, outcome.attempt, driver)
        out, err = outcome.stdout, outcome.stderr
        if out.size or err.size or out.head or err.head:
            logs.append((*place, out.head, out.tail, out.size, err.head, err.tail, err.size))
        for file in outcome.artifacts:
            path, kept = codec.escape(file.path), codec.escape(str(file.kept))
            artifacts.append((*place, path, file.size, file.sha256, kept))
    transaction.insert("logs", _LOG, logs)
    transaction.insert("artifacts", _ARTIFACT, artifacts)


def enter(desk: Desk, driver: int, results: Sequence[tuple[Experiment, Outcome]]) -> frozenset[str]:
    """Adds, claims and records in one go; the digests of those accepted."""
    leases.held(desk.transaction, desk.layout.name, driver)
    found = rows.entries(desk.transaction, (experiment.digest for experiment, _ in results))
    new: dict[str, tuple[Experiment, Outcome]] = {}
    rest = []
    for result in results:
        digest = result[0].digest
        if digest in found or digest in new:
            rest.append(result)
        else:
            new[digest] = result
    _enter_new(desk, driver, list(new.values()))
    return frozenset(new) | (_enter_known(desk, driver, rest) if rest else frozenset())


def _enter_new(desk: Desk, driver: int, results: Sequence[tuple[Experiment, Outcome]]) -> None:
    """Experiments that nobody knew, with their outcomes: one row each, here and in the study."""
    transaction, study = desk.transaction, desk.study
    given = [experiment for experiment, _ in results]
    outcomes = [outcome for _, outcome in results]
    hosts = rows.host_numbers(transaction, {outcome.host for outcome in outcomes})
    start = rows.first_free(transaction)
    numbers = range(start, start + len(results))
    transaction.insert(
        "experiments",
        _NEW,
        [
            (number, codec.key(o.digest), study, o.status, 1, driver, *_facts(o, hosts))
            for number, o in zip(numbers, outcomes, strict=True)
        ],
    )
    rows.write_values(desk, numbers, given, [outcome.metrics for outcome in outcomes])
    _keep_files(
        transaction,
        driver,
        [
            (Entry(number, b"", study, o.status, 1, driver), replace(o, attempt=1))
            for number, o in zip(numbers, outcomes, strict=True)
            if o.stdout.size or o.stderr.size or o.artifacts
        ],
    )
    tally = Tally(transaction)
    for status, count in Counter(outcome.status for outcome in outcomes).items():
        tally.add(study, status, count)
    tally.write()


def _enter_known(
    desk: Desk, driver: int, results: Sequence[tuple[Experiment, Outcome]]
) -> frozenset[str]:
    """The same for experiments that are there: a claim decides whose outcome it is."""
    wanted = {experiment.digest: experiment for experiment, _ in results}
    rows.join(desk, wanted, rows.entries(desk.transaction, wanted))
    granted = rows.claim(desk, driver, list(wanted))
    found = rows.entries(desk.transaction, wanted)
    own = {d for d, e in found.items() if e.state in RECORDED and e.driver == driver}
    outcomes = [
        replace(outcome, attempt=granted.get(outcome.digest, outcome.attempt))
        for _, outcome in results
        if outcome.digest not in own
    ]
    return record(desk, driver, outcomes, final=True) | own


def remeasure(desk: Desk, outcomes: Sequence[Outcome]) -> int:
    """Replaces status, cause and metrics of recorded experiments; how many there were."""
    transaction = desk.transaction
    found = rows.required(desk, [outcome.digest for outcome in outcomes])
    pairs = [
        (found[digest], outcome)
        for digest, outcome in {outcome.digest: outcome for outcome in outcomes}.items()
        if found[digest].state in RECORDED
    ]
    rows.clear_metrics(desk, [entry.id for entry, _ in pairs])
    rows.write_metrics(desk, [e.id for e, _ in pairs], [outcome.metrics for _, outcome in pairs])
    having = members(transaction, {entry.id: entry.study for entry, _ in pairs})
    alone = [(entry, outcome) for entry, outcome in pairs if len(having[entry.id]) == 1]
    tally = Tally(transaction)
    for entry, outcome in alone:
        tally.move(having[entry.id], entry.state, outcome.status)
    tally.write()
    transaction.many(
        _SET_CAUSE,
        ("of_id", "to_state", "to_cause"),
        [(e.id, o.status, codec.escape(o.cause) or None) for e, o in alone],
    )
    return len(pairs)


def reopen(desk: Desk, digests: Sequence[str]) -> int:
    """Lets experiments wait again whose outcome is not ok; how many there were."""
    transaction = desk.transaction
    found = rows.required(desk, digests)
    closed = {e.id: e for e in found.values() if e.state in RECORDED and e.state != "ok"}
    _archive(desk, closed)
    having = members(transaction, {entry.id: entry.study for entry in closed.values()})
    by_study: dict[int, list[int]] = {}
    tally = Tally(transaction)
    waiting: State = "waiting"
    for number, studies in having.items():
        tally.move(studies, closed[number].state, waiting)
        for study in studies:
            by_study.setdefault(study, []).append(number)
    tally.write()
    for study, numbers in by_study.items():
        rows.clear_metrics(desk if study == desk.study else desk.beside(study), numbers)
    transaction.many(_SET_STATE, ("of_id", "to_state"), [(n, waiting) for n in closed])
    for number, entry in closed.items():
        text = f"attempt {entry.attempt} set aside"
        events.note(transaction, desk.study, "reopened", text, number)
    return len(closed)


def _archive(desk: Desk, closed: dict[int, Entry]) -> None:
    """Puts the accepted attempts of experiments among their others."""
    metrics = rows.read_metrics(desk, closed)
    facts = desk.transaction.among(_WHOLE, experiments.c.id, closed)
    kept = [(*row, codec.dump(metrics[row[0]])) for row in facts]
    desk.transaction.insert("attempts", _ATTEMPT, kept)
