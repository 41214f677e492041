"""Recording of outcomes in SQL: which are accepted, and what becomes of the others.

An outcome is accepted if the claim of its driver and attempt is still there; one transaction
deletes the claim and inserts the result. A driver may send the same outcome again (it did not hear
the answer) or too late (its lease has ended, and another driver has the claim): the one changes
nothing, the other is kept as a superseded attempt.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from zenturio.experiment.experiment import Experiment, Kinds, Outcome
from zenturio.record import (
    codec,
    entities,
    leases,
    result_rows,
    reused_results,
    studies,
    study_transaction,
)
from zenturio.record.codec import Form
from zenturio.record.database import Transaction
from zenturio.record.entities import AttemptState
from zenturio.record.field_layout import NO_FORM
from zenturio.record.leases import ClaimRow, LeaseRow
from zenturio.record.result_rows import CounterChanges, NewResult
from zenturio.record.secret_masking import mask_outcomes
from zenturio.record.study_transaction import StudyTransaction

_log = logging.getLogger(__name__)

_ATTEMPT = (
    "id", "digest", "version", "round", "machine", "number", "lease", "state", "host", "started",
    "ended", "exit", "cause", "position", "repeat", "point", "metrics",
)  # fmt: skip

_Pair = tuple[ClaimRow, Outcome]


def record(
    context: StudyTransaction, lease: LeaseRow, outcomes: Iterable[Outcome], *, final: bool
) -> frozenset[str]:
    """Store the outcomes of what a driver claimed; return the digests of those accepted."""
    masked = mask_outcomes(outcomes, context.transaction.dialect.secrets)
    masked = _by_one_clock(context, masked)
    outcomes = [entities.limit_metrics(outcome) for outcome in masked]
    keys = {codec.digest_key(outcome.digest) for outcome in outcomes}
    deleted_claims = leases.delete_claims(context.transaction, lease.number, keys)
    if context.transaction.careful:
        deleted_claims = _without_results(context, deleted_claims, outcomes)
    accepted: dict[str, _Pair] = {}
    unclaimed = []
    for outcome in outcomes:
        claim = deleted_claims.get(codec.digest_key(outcome.digest))
        if claim and claim.attempt == outcome.attempt and outcome.digest not in accepted:
            accepted[outcome.digest] = claim, outcome
        elif outcome.digest not in accepted or accepted[outcome.digest][1] != outcome:
            unclaimed.append(outcome)
    # An outcome of an older attempt does not use up the claim of the present one.
    unmatched = [c for c in deleted_claims.values() if bytes(c.digest).hex() not in accepted]
    leases.restore_claims(context.transaction, unmatched)
    context.settled += [(lease.number, digest) for digest in accepted]
    repeated: frozenset[str] = frozenset()
    # The common case ends here: each outcome had its claim, in two statements for all of them.
    if unclaimed:
        repeated, lost = _match_without_claims(context, lease, unclaimed, accepted, final=final)
        accepted |= lost
    (_accept if final else _set_aside)(context, lease.number, list(accepted.values()))
    if _log.isEnabledFor(logging.DEBUG):
        became = "accepted" if final else "set aside for a retry"
        for digest, (claim, outcome) in accepted.items():
            context.transaction.log(
                _log, "attempt %d of %s: %s, %s", claim.attempt, digest, outcome.status, became
            )
        for digest in repeated:
            context.transaction.log(_log, "%s was accepted before", digest)
    return repeated | accepted.keys() if final else frozenset()


def _match_without_claims(
    context: StudyTransaction,
    lease: LeaseRow,
    outcomes: Sequence[Outcome],
    accepted: dict[str, _Pair],
    *,
    final: bool,
) -> tuple[frozenset[str], dict[str, _Pair]]:
    """Decide on outcomes that have no claim: repeated, lost, or late.

    Return the digests of those that were accepted before, and new claims for those whose claim
    was lost: claims are committed without waiting for the disk, so a power failure of the server
    may undo them while their drivers run on. All others are late, and superseded.
    """
    transaction = context.transaction
    keys = sorted({codec.digest_key(outcome.digest) for outcome in outcomes})
    results = {
        (bytes(digest), holder, attempt)
        for digest, version, holder, attempt in transaction.among_sql(
            "SELECT digest, version, lease, attempt FROM results WHERE {among}", "digest", keys
        )
        if version == context.version.id
    }
    late, repeated, lost = [], set(), {}
    for outcome in outcomes:
        key = codec.digest_key(outcome.digest)
        attempt_key = (key, lease.number, outcome.attempt)
        at = accepted.get(outcome.digest)
        if attempt_key in results or (at is not None and at[1].attempt == outcome.attempt):
            repeated.add(outcome.digest)
        # A driver whose lease has ended lost its claims to the one that ended it, not to a crash.
        elif at is None and outcome.digest not in lost and lease.ended is None:
            claim = _lost_claim(context, lease, outcome, key)
            if claim is None:
                late.append(outcome)
            else:
                lost[outcome.digest] = claim, outcome
        else:
            late.append(outcome)
    _keep_late_outcomes(context, lease.number, late)
    return frozenset(repeated if final else ()), lost


def _lost_claim(
    context: StudyTransaction, lease: LeaseRow, outcome: Outcome, key: bytes
) -> ClaimRow | None:
    """Return a new claim in place of one that the database has lost; None if it was taken away.

    Lost is what this process was granted, if nothing is left of it: no claim of anybody, no usable
    result and no attempt. Any of these shows that another driver has taken it over.
    """
    transaction, mark = context.transaction, context.transaction.dialect.mark
    granted = context.cache.granted.get((lease.number, outcome.digest))
    if granted is None or granted.attempt != outcome.attempt:
        return None
    if transaction.sql(f"SELECT 1 FROM claims WHERE digest = {mark}", (key,)):
        return None
    machine = study_transaction.machine_number(context, outcome.machine)
    if any(
        result.machine == machine
        and (result.version != context.version.id or result.round == granted.round)
        for result in leases.usable_results(context, leases.results_of(transaction, [key]))
    ):
        return None
    recorded = (
        f"SELECT 1 FROM attempts WHERE digest = {mark} AND number = {mark} AND lease = {mark}"
    )
    if transaction.sql(recorded, (key, outcome.attempt, lease.number)):
        return None
    (number,) = transaction.numbers(1)
    return ClaimRow(
        number, key, granted.round, leases.ANY_MACHINE, context.version.id, lease.number,
        outcome.attempt, codec.escape(lease.host), transaction.now, granted.position,
        granted.repeat, codec.dump_values(granted.values),
    )  # fmt: skip


def _without_results(
    context: StudyTransaction, deleted_claims: dict[bytes, ClaimRow], outcomes: Iterable[Outcome]
) -> dict[bytes, ClaimRow]:
    """Return those of the claims that have no result yet.

    A driver of functions adds results without claims, so one may be there. The unique index has
    refused this transaction once for that: only then is it worth a statement.
    """
    rows = context.transaction.among_sql(
        "SELECT digest, machine, round FROM results WHERE version = "
        f"{context.transaction.dialect.mark} AND {{among}}",
        "digest",
        sorted(deleted_claims),
        (context.version.id,),
    )
    kinds = {
        codec.digest_key(o.digest): study_transaction.machine_number(context, o.machine)
        for o in outcomes
    }
    recorded = {(bytes(digest), machine, number) for digest, machine, number in rows}
    return {
        key: claim
        for key, claim in deleted_claims.items()
        if (key, kinds.get(key), claim.round) not in recorded
    }


def _accept(context: StudyTransaction, lease: int, pairs: Sequence[_Pair]) -> None:
    if pairs:
        values = [claim.values(context) for claim, _ in pairs]
        result_rows.write_results(
            context,
            [
                NewResult(
                    c.id, c.position, c.repeat, c.round, point, outcome, lease, *c.named(context)
                )
                for (c, outcome), point in zip(pairs, values, strict=True)
            ],
        )


def _set_aside(context: StudyTransaction, lease: int, pairs: Sequence[_Pair]) -> None:
    """Store attempts that will be retried: their experiments may be claimed again."""
    attempts = [
        UnacceptedAttempt(
            c.id, c.position, c.repeat, c.point, c.round, outcome, lease, outcome.status
        )
        for c, outcome in pairs
    ]
    keep_attempts(context, attempts)


def _by_one_clock(context: StudyTransaction, outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return *outcomes* with times by the database's clock.

    They are shifted by the measured offset of the driver's clock. A time that is in the future all
    the same is that of another host, whose clock is wrong: it becomes now, and an event says so.
    """
    transaction = context.transaction
    corrected = []
    for outcome in outcomes:
        shift = transaction.clock_offset
        ahead = outcome.ended + shift - transaction.now
        if ahead > leases.CLOCK_TOLERANCE:
            shift -= ahead
            text = f"the clock of {outcome.host or 'its host'} was {ahead:,.0f} s ahead: corrected"
            key = codec.digest_key(outcome.digest)
            studies.add_event(transaction, context.version.id, "clock", text, key)
        started, ended = outcome.started + shift, outcome.ended + shift
        corrected.append(replace(outcome, started=started, ended=ended) if shift else outcome)
    return corrected


class ExperimentPosition(NamedTuple):
    """Which experiment an attempt is of, and in which round."""

    position: Any
    repeat: int
    point: str | None
    round: int


class UnacceptedAttempt(NamedTuple):
    """An attempt that is kept but does not count: superseded, retried or set aside."""

    number: int
    position: Any
    repeat: int
    point: str | None
    round: int
    outcome: Outcome
    lease: int
    state: AttemptState


def keep_attempts(
    context: StudyTransaction, attempts: Sequence[UnacceptedAttempt], *, files: bool = True
) -> None:
    """Insert attempts that are not accepted; with *files*, their logs and artifacts, too."""
    if not attempts:
        return
    transaction = context.transaction
    hosts = study_transaction.host_numbers(context, [attempt.outcome for attempt in attempts])
    table = []
    for attempt, (machine, host) in zip(attempts, hosts, strict=True):
        o = attempt.outcome
        table.append((
            attempt.number, codec.digest_key(o.digest), context.version.id, attempt.round, machine,
            o.attempt, attempt.lease, attempt.state, host, o.started, o.ended, o.exit,
            codec.escape(o.cause) if o.cause else None, attempt.position, attempt.repeat,
            attempt.point, codec.dump_values(o.metrics),
        ))  # fmt: skip
    transaction.insert("attempts", _ATTEMPT, table)
    if files:
        _keep_files(transaction, [(attempt.number, attempt.outcome) for attempt in attempts])


def _keep_files(transaction: Transaction, attempts: Sequence[tuple[int, Outcome]]) -> None:
    result_rows.keep(transaction, attempts)
    study_transaction.keep_conditions(
        transaction, ((n, outcome.conditions) for n, outcome in attempts)
    )


def _keep_late_outcomes(context: StudyTransaction, lease: int, outcomes: Sequence[Outcome]) -> None:
    """Store late outcomes as superseded attempts, unless they are stored already."""
    transaction = context.transaction
    keys = sorted({codec.digest_key(outcome.digest) for outcome in outcomes})
    past: dict[tuple[bytes, int], tuple[int | None, AttemptState | None, ExperimentPosition]] = {
        (bytes(digest), number): (row, state, ExperimentPosition(*place))
        for digest, number, holder, row, state, *place in transaction.among_sql(
            "SELECT digest, number, lease, id, state, position, repeat, point, round FROM attempts"
            " WHERE {among}",
            "digest",
            keys,
        )
        if holder == lease
    }
    new = []
    for outcome in outcomes:
        attempt_key = (codec.digest_key(outcome.digest), outcome.attempt)
        unknown = ExperimentPosition(-1, 1, None, context.version.round)
        row, state, place = past.get(attempt_key, (None, None, unknown))
        if entities.replaces_attempt(state):
            new.append((outcome, row, place))
            past[attempt_key] = (row, "superseded", place)
    # A stale attempt keeps its id, and so its place among the attempts, when its outcome arrives.
    numbers = iter(transaction.numbers(sum(row is None for _, row, _ in new)))
    replaced = [row for _, row, _ in new if row is not None]
    transaction.among_sql("DELETE FROM attempts WHERE {among}", "id", replaced)
    attempts = [
        UnacceptedAttempt(
            next(numbers) if row is None else row, place.position, place.repeat, place.point,
            place.round, outcome, lease, "superseded",
        )
        for outcome, row, place in new
    ]  # fmt: skip
    keep_attempts(context, attempts)
    for attempt in attempts:
        text = f"attempt {attempt.outcome.attempt} came late"
        key = codec.digest_key(attempt.outcome.digest)
        studies.add_event(transaction, context.version.id, "superseded", text, key)
        transaction.log(
            _log, "attempt %d of %s is superseded: it came after lease %d had lost its claim",
            attempt.outcome.attempt, attempt.outcome.digest, lease, level=logging.INFO,
        )  # fmt: skip


def add_results(
    context: StudyTransaction,
    lease: LeaseRow,
    results: Iterable[tuple[Experiment, Outcome]],
    kinds: Kinds = None,
    round_: int | None = None,
) -> frozenset[str]:
    """Store outcomes of experiments that were never claimed; return the digests of those accepted.

    For functions, which take less time than a claim. Whoever inserts the result first wins.
    """
    transaction = context.transaction
    results = list(results)
    masked = mask_outcomes([outcome for _, outcome in results], transaction.dialect.secrets)
    masked = _by_one_clock(context, masked)
    pairs = {
        experiment.digest: (experiment, entities.limit_metrics(outcome))
        for (experiment, _), outcome in zip(results, masked, strict=True)
    }
    keys = sorted(map(codec.digest_key, pairs))
    reused_results.cached_digests(
        context, [experiment for experiment, _ in pairs.values()], kinds, round_
    )
    present = leases.results_of(transaction, keys)
    own_results = [
        result
        for result in present
        if result.version == context.version.id and round_ in (None, result.round)
    ]
    holders = {
        result.digest: result.lease
        for result in leases.results_for_machine(transaction, own_results, kinds)
    }
    claimed = _claimed(transaction, keys)
    # A dead driver's claim must not turn down a result that is there: end its lease, look again.
    other_leases = {claim.lease for claim in claimed.values()} - {lease.number}
    if other_leases and leases.end_leases_of_dead_drivers(transaction, other_leases):
        claimed = _claimed(transaction, keys)
    deleted_claims = leases.delete_claims(
        transaction, lease.number, [k for k in keys if k not in holders]
    )
    last = leases.last_attempts(transaction, keys, present)
    repeated, late = set(), []
    new: list[tuple[Experiment, Outcome, int | None]] = []
    for digest, (experiment, outcome) in pairs.items():
        key = codec.digest_key(digest)
        if key in holders:
            if holders[key] == lease.number:
                repeated.add(digest)
            else:
                late.append(outcome)
        elif key in deleted_claims:
            claim = deleted_claims[key]
            new.append((experiment, replace(outcome, attempt=claim.attempt), claim.id))
        elif key in claimed:
            late.append(outcome)
        else:
            number = last.get(key, 0) + 1
            if outcome.attempt != number:
                outcome = replace(outcome, attempt=number)  # noqa: PLW2901 - its own number
            new.append((experiment, outcome, None))
    _keep_late_outcomes(context, lease.number, late)
    _enter_new(context, lease.number, new, round_ or context.version.round)
    context.settled += [(lease.number, digest) for digest in pairs]
    return frozenset(repeated.union(outcome.digest for _, outcome, _ in new))


def _enter_new(
    context: StudyTransaction,
    lease: int,
    new: Sequence[tuple[Experiment, Outcome, int | None]],
    round_: int,
) -> None:
    if not new:
        return
    position = context.transaction.dialect.position
    numbers = iter(context.transaction.numbers(sum(number is None for *_, number in new)))
    result_rows.write_results(
        context,
        [
            NewResult(
                next(numbers) if number is None else number, position(e.index), e.repeat, round_,
                e.values, outcome, lease, e.program, e.key,
            )
            for e, outcome, number in new
        ],
    )  # fmt: skip


def _claimed(transaction: Transaction, keys: Sequence[bytes]) -> dict[bytes, ClaimRow]:
    claim_rows = transaction.among_sql(
        f"SELECT {', '.join(leases.COLUMNS)} FROM claims"
        f" WHERE target = {leases.ANY_MACHINE} AND {{among}}",
        "digest",
        keys,
    )
    return {bytes(row[1]): ClaimRow(*row) for row in claim_rows}


# Changes of what is recorded


def remeasure(context: StudyTransaction, outcomes: Iterable[Outcome]) -> int:
    """Replace status, cause and metrics of recorded experiments; return how many there were."""
    outcomes = [entities.limit_metrics(outcome) for outcome in outcomes]
    keys = sorted({codec.digest_key(outcome.digest) for outcome in outcomes})
    recorded = result_rows.read_results(
        context.transaction, context.layout, "", among=("e.digest", keys)
    )
    remeasured = entities.match_remeasured(outcomes, [row.outcome for row in recorded])
    pairs = [(row, remeasured[at]) for at, row in enumerate(recorded) if at in remeasured]
    if not pairs:
        return 0
    changed_rows, new_outcomes = [row for row, _ in pairs], [outcome for _, outcome in pairs]
    result_rows.rewrite_results(
        context,
        [row.number for row in changed_rows],
        [row.record.values for row in changed_rows],
        new_outcomes,
    )
    tally = CounterChanges(context.transaction)
    for row, outcome in zip(changed_rows, new_outcomes, strict=True):
        tally.add(context.version.id, row.machine, row.round, row.outcome.status, -1)
        tally.add(context.version.id, row.machine, row.round, outcome.status)
    result_rows.record_edit(context, [row.number for row in changed_rows])
    tally.write()
    return len(changed_rows)


def forget_forms(context: StudyTransaction) -> Mapping[int, Form]:
    """Forget which forms of values the metrics of a version have, and return what was forgotten.

    What is written next adds its forms: those of values that it replaces are gone, such as the
    texts that a wrong pattern captured. `settle_forms` is called when all of it is written.
    """
    metrics = [stored for stored in context.layout.own_fields if stored.role == "metric"]
    context.set_forms(lambda _layout: {stored.number: NO_FORM for stored in metrics})
    return {stored.number: stored.forms for stored in metrics}


def settle_forms(context: StudyTransaction, forms: Mapping[int, Form], rewritten: int) -> None:
    """Remember *forms* again if results that are not among the *rewritten* ones may have them."""
    transaction, version = context.transaction, context.version
    mark = transaction.dialect.mark
    ((results,),) = transaction.sql(
        f"SELECT count(*) FROM results WHERE version = {mark}", (version.id,)
    )
    # A driver may just be recording a value of a form that the study has, without a word of it.
    drivers = transaction.sql(
        f"SELECT 1 FROM leases WHERE version = {mark} AND ended IS NULL AND until > {mark}",
        (version.id, transaction.now),
    )
    if rewritten < results or drivers:
        context.set_forms(
            lambda layout: {
                number: layout.members[number].forms | forms[number] for number in forms
            }
        )


def reopen(context: StudyTransaction, digests: Sequence[str], kinds: Kinds = None) -> int:
    """Set aside this version's outcomes that are not ok; return how many there were.

    Rows of other versions stay. From now on this one refuses them, unless they are of a later
    attempt: see `leases.usable_results`.
    """
    transaction = context.transaction
    keys = sorted(map(codec.digest_key, dict.fromkeys(digests)))
    condition = "AND e.newest = 1 AND e.status NOT IN ('ok', 'warmup')"
    failed = result_rows.read_results(
        transaction, context.layout, condition, among=("e.digest", keys)
    )
    if failed and kinds is not None:
        counting = study_transaction.numbers_of(transaction, kinds)
        failed = [row for row in failed if row.machine in counting]
    if not failed:
        return 0
    result_rows.remove_results(context, failed)
    context.transaction.log(_log, "%d results were set aside to be run again", len(failed))
    # A copy stays one: its logs and artifacts are those of the attempt that it was made of.
    aside = [
        UnacceptedAttempt(
            row.number, transaction.dialect.position(row.record.index), row.record.repeat,
            codec.dump_values(row.record.values), row.round, row.outcome, row.lease,
            row.outcome.status,
        )
        for row in failed
    ]  # fmt: skip
    keep_attempts(context, aside, files=False)
    result_rows.record_edit(context, [row.number for row in failed])
    for row in failed:
        text = f"attempt {row.outcome.attempt} set aside"
        key = codec.digest_key(row.record.digest)
        studies.add_event(transaction, context.version.id, "reopened", text, key)
    return len(failed)
