"""The reference: dicts. Every other repository behaves like it."""

from __future__ import annotations

import itertools
import os
import pwd
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from record.reference_queue import ReferenceQueue
from record.reference_tables import (
    ReferenceAttempt,
    ReferenceClaim,
    ReferenceResult,
    ReferenceStudy,
)
from zenturio.errors import Diagnostic
from zenturio.experiment.experiment import (
    Artifact,
    Experiment,
    HostConditions,
    Kinds,
    Log,
    MachineKind,
    Outcome,
    Recipe,
)
from zenturio.record import entities, repository, sql_names
from zenturio.record.entities import (
    EXPERIMENT_STATES,
    OUTCOME_STATES,
    REDACTION_EVENT,
    AttemptLogs,
    AttemptRecord,
    AttemptState,
    CachedResults,
    ColumnPage,
    ColumnRequest,
    DriverProcess,
    EquatedResult,
    ExperimentRecord,
    ExperimentState,
    Lease,
    MeasurementRound,
    RecordPosition,
    RepositoryEvent,
    ResultCount,
    ResultRunPosition,
    RowChoice,
    StudyDefinition,
    StudyDeletion,
    StudyInfo,
    StudyStanding,
    shared_metrics,
)
from zenturio.record.leases import END_DESCRIPTIONS, LeaseEnd


class ReferenceRepository(ReferenceQueue):
    """A repository that lasts as long as the process; safe to share among its threads."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self._studies: list[ReferenceStudy] = []
        self._claims: dict[str, ReferenceClaim] = {}
        self._tried: dict[int, ReferenceAttempt] = {}
        self._last: dict[str, tuple[int, AttemptRecord]] = {}
        """By digest, the last attempt of versions that were pruned, where others have it, too."""
        self._logs: dict[int, AttemptLogs] = {}
        self._artifacts: dict[int, tuple[Artifact, ...]] = {}
        self._conditions: dict[int, HostConditions | None] = {}
        self._leases: dict[int, tuple[Lease, DriverProcess, ReferenceStudy]] = {}
        self._ended: dict[int, ReferenceStudy] = {}
        self._sql_names: dict[str, str] = {}
        self._last_versions: dict[str, int] = {}
        """By the study's name; both outlive the last version of it."""
        self._lease_numbers = itertools.count(1)
        self._numbers = itertools.count(1)

    @property
    def location(self) -> str:
        return "memory"

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return ()

    def close(self) -> None:
        """Nothing is held open."""

    # Studies

    def open(self, name: str, definition: StudyDefinition) -> StudyInfo:
        sql_names.check_names(name, definition)
        with self._lock:
            stored = self._find(name) or self._create(name, definition)
            stored.define(definition, self._clock())
            return stored.study

    def _create(self, name: str, definition: StudyDefinition) -> ReferenceStudy:
        if name not in self._sql_names:
            self._sql_names[name] = sql_names.study_view(name, self._sql_names.values())
        number = self._last_versions[name] = self._last_versions.get(name, 0) + 1
        stored = ReferenceStudy(name, number, self._sql_names[name], self._clock(), definition)
        self._studies.append(stored)
        return stored

    def archive(self, study: StudyInfo) -> StudyInfo | None:
        with self._lock:
            stored = self._find(study.name)
            if stored is None or stored.created != study.created or not stored.current:
                return None
            for lease in self._living_leases(stored):
                raise repository.driver_prevents_change(lease)
            self._end_dead_leases(stored)
            stored.current = False
            return stored.study

    def study(self, name: str) -> StudyInfo:
        return self._get_study(name).study

    def studies(self) -> tuple[StudyInfo, ...]:
        return tuple(stored.study for stored in self._studies)

    def definition(self, study: str, at: float | None = None) -> StudyDefinition:
        stored = self._get_study(study)
        return stored.definition if at is None else stored.defined(at)

    def notes(self, study: str) -> Mapping[str, object]:
        stored = self._find(study)
        return stored.definition.notes if stored else {}

    def _find(self, name: str) -> ReferenceStudy | None:
        for stored in self._studies:
            if stored.current and stored.base == name:
                return stored
        parts = sql_names.parse_version_name(name)
        return next((s for s in self._studies if (s.base, s.number) == parts), None)

    def _get_study(self, name: str) -> ReferenceStudy:
        stored = self._find(name)
        if stored is None:
            raise repository.no_study(name, (stored.name for stored in self._studies))
        return stored

    def preview_deletion(self, study: str) -> StudyDeletion:
        with self._lock:
            stored = self._get_study(study)
            rows = list(stored.results())
            alone = [row for row in rows if not self._others(stored, row.outcome.digest)]
            gone = self._gone(stored)
            kept, others = (
                {str(file.kept) for n, files in self._artifacts.items() if (n in gone) == is_gone
                 for file in files}
                for is_gone in (True, False)
            )  # fmt: skip
            streams = [
                stream
                for n in gone
                if n in self._logs
                for stream in (self._logs[n].stdout, self._logs[n].stderr)
            ]
            return StudyDeletion(
                study,
                experiments=len(alone),
                shared=len(rows) - len(alone),
                attempts=len(alone)
                + sum(t.stored is stored and t.source == t.id for t in self._tried.values())
                + sum(claim.stored is stored for claim in self._claims.values()),
                log_bytes=sum(len(stream.head) + len(stream.tail) for stream in streams),
                artifacts=tuple(sorted(kept - others)),
            )

    def _gone(self, stored: ReferenceStudy) -> set[int]:
        """The attempts to which nothing leads, once the study is away."""
        own_attempts: set[int] = set()
        others: set[int] = set()
        for study in self._studies:
            (own_attempts if study is stored else others).update(
                row.source for row in study.results()
            )
        for tried in self._tried.values():
            (own_attempts if tried.stored is stored else others).add(tried.source)
        return own_attempts - others

    def delete(self, study: str) -> StudyDeletion:
        with self._lock:
            stored = self._get_study(study)
            for lease in self._living_leases(stored):
                raise repository.driver_prevents_change(lease)
            self._end_dead_leases(stored)
            removal = self.preview_deletion(study)
            for number in self._gone(stored):
                self._logs.pop(number, None)
                self._artifacts.pop(number, None)
            lasts = self._last_attempts(stored)
            self._tried = {n: t for n, t in self._tried.items() if t.stored is not stored}
            self._ended = {n: s for n, s in self._ended.items() if s is not stored}
            self._studies.remove(stored)
            for digest, last in lasts.items():
                if last[1].number > self._newest_number(digest):
                    self._last[digest] = last
            self._last = {d: last for d, last in self._last.items() if self._is_last(d, last[1])}
            return removal

    def _last_attempts(self, stored: ReferenceStudy) -> dict[str, tuple[int, AttemptRecord]]:
        """Of each experiment of a version the attempt of the highest number, and its own number."""
        own = [(t.digest, t.id, t.attempt) for t in self._tried.values() if t.stored is stored]
        for row in stored.results():
            made = _attempt(row.outcome, row.lease, row.outcome.status, row.round)
            own.append((row.outcome.digest, row.key.row, made))
        lasts: dict[str, tuple[int, AttemptRecord]] = {}
        for digest, number, attempt in sorted(own, key=lambda each: (each[2].number, each[1])):
            lasts[digest] = number, replace(attempt, cause="", metrics={}, conditions=None)
        return lasts

    def _newest_number(self, digest: str) -> int:
        """The highest number of an attempt at an experiment."""
        numbers = [t.attempt.number for t in self._tried.values() if t.digest == digest]
        numbers += [row.outcome.attempt for stored in self._studies for row in stored.of(digest)]
        numbers += [self._last[digest][1].number] if digest in self._last else []
        return max(numbers, default=0)

    def _is_last(self, digest: str, attempt: AttemptRecord) -> bool:
        """Whether somebody has the experiment, and no later attempt at it."""
        others = [t.attempt.number for t in self._tried.values() if t.digest == digest]
        others += [row.outcome.attempt for stored in self._studies for row in stored.of(digest)]
        return bool(others) and max(others) < attempt.number

    def _others(self, stored: ReferenceStudy, digest: str) -> list[ReferenceStudy]:
        """The studies beside *stored* that have a result of the experiment."""
        return [s for s in self._studies if s is not stored and digest in s.rows]

    # Drivers

    def acquire_lease(
        self,
        study: str,
        driver: DriverProcess,
        *,
        join: bool = False,
        seconds: float = 60.0,
        draws_seed: bool = False,
    ) -> Lease:
        with self._lock:
            stored = self._get_study(study)
            for lease, owner, where in self._leases.values():
                if where is stored and owner.token == driver.token:
                    return self.renew_lease(replace(lease, study=study))
            for lease in self._living_leases(stored):
                if not join:
                    raise repository.study_has_driver(lease)
            self._end_dead_leases(stored)
            now = self._clock()
            number = next(self._lease_numbers)
            lease = Lease(
                number, study, driver.host, driver.pid, now, now + seconds, seconds, driver.born
            )
            self._leases[number] = lease, driver, stored
            self.add_event(
                study, "driver", f"lease {number}: process {driver.pid} on {driver.host}"
            )
            return lease

    def renew_lease(self, lease: Lease) -> Lease:
        with self._lock:
            stored = self._lock_lease(lease.study, lease.number)
            current, driver, _ = self._leases[lease.number]
            longer = replace(current, study=stored.name, until=self._clock() + current.seconds)
            self._leases[lease.number] = longer, driver, stored
            return longer

    def release_lease(self, lease: Lease) -> None:
        with self._lock:
            if lease.number in self._leases:
                self._end_lease(lease.number, "left")

    def leases(self, study: str) -> tuple[Lease, ...]:
        stored = self._get_study(study)
        return tuple(
            replace(lease, study=study) for lease, _, s in self._leases.values() if s is stored
        )

    def _lock_lease(self, study: str, number: int, *, ended: bool = False) -> ReferenceStudy:
        """Return the study that the lease is on; ConflictError if the lease has ended."""
        stored = self._leases[number][2] if number in self._leases else None
        if stored is None and ended:
            stored = self._ended.get(number)
        if stored is None or study not in (stored.name, f"{stored.base}@{stored.number}"):
            self._get_study(study)
            raise repository.lease_superseded(study, number)
        return stored

    def _living_leases(self, stored: ReferenceStudy) -> list[Lease]:
        """Return the leases of drivers that are alive."""
        return [
            replace(lease, study=stored.name)
            for lease, driver, s in self._leases.values()
            if s is stored and self._alive(lease, driver)
        ]

    def _end_dead_leases(self, stored: ReferenceStudy) -> None:
        """End the leases of drivers that have exited or whose lease has run out."""
        for number, (lease, driver, s) in list(self._leases.items()):
            if s is stored and not self._alive(lease, driver):
                self._end_lease(number, "superseded")

    def _alive(self, lease: Lease, driver: DriverProcess) -> bool:
        return lease.until > self._clock() and not driver.has_exited()

    def _end_lease(self, number: int, why: LeaseEnd) -> None:
        """End a lease; its claims become stale attempts."""
        _, _, stored = self._leases.pop(number)
        self._ended[number] = stored
        self._note(stored, "driver", f"lease {number}: {END_DESCRIPTIONS[why]}")
        now = self._clock()
        claims = [(d, c) for d, c in self._claims.items() if c.lease == number]
        for digest, claim in sorted(claims, key=lambda pair: pair[1].id):
            attempt = AttemptRecord(
                claim.attempt, "stale", number, claim.host, claim.started, now, why,
                round=claim.round,
            )  # fmt: skip
            attempt_id = claim.id
            self._tried[attempt_id] = ReferenceAttempt(
                attempt_id, digest, stored, attempt, claim.experiment, attempt_id
            )
            del self._claims[digest]
            self._note(stored, "stale", f"attempt {claim.attempt}: driver {why}", digest)

    # Experiments

    def has_former_digests(self) -> bool:
        return False  # it is no older than this process

    def begin_round(self, study: str, reason: str = "") -> int:
        with self._lock:
            stored = self._get_study(study)
            rounds = self.rounds(study)
            if rounds[-1].is_open:
                return rounds[-1].number
            number = rounds[-1].number + 1
            begun = MeasurementRound(
                number, self._clock(), self.current_user(), reason, is_open=True
            )
            stored.rounds = [*rounds, begun]
            self._note(stored, "round", f"round {number} begun")
            return number

    def is_queue_admin(self) -> bool:
        return False

    def begin_project(self) -> str:
        return ""

    def in_project(self, uuid: str):
        return self

    def current_user(self) -> str:
        return pwd.getpwuid(os.getuid()).pw_name

    def end_round(self, study: str, number: int) -> None:
        with self._lock:
            stored = self._get_study(study)
            newest = self.rounds(study)[-1]
            if newest.number == number and newest.is_open:
                self._note(stored, "round", f"round {number} ended")
                stored.rounds[-1] = replace(newest, is_open=False)

    def rounds(self, study: str) -> tuple[MeasurementRound, ...]:
        with self._lock:
            stored = self._get_study(study)
            return tuple(stored.rounds) or (
                MeasurementRound(1, stored.created, self.current_user()),
            )

    def order_seed(self, study: str) -> str:
        with self._lock:
            rounds = self.rounds(study)
            if not rounds[-1].seed:
                seeded = replace(rounds[-1], seed=secrets.token_hex(8))
                self._get_study(study).rounds = [*rounds[:-1], seeded]
            return self.rounds(study)[-1].seed

    def placed_runs(self, study: str, order: str) -> tuple[ResultRunPosition, ...]:
        placed = []
        for record in self.records(study):
            at = self._conditions.get(record.key.row)
            if at is not None and at.run_order == order and record.outcome:
                machine, block, turn = record.outcome.machine, at.run_block or 0, at.run_turn or 0
                placed.append(ResultRunPosition(record.round, machine, record.repeat, block, turn))
        return tuple(sorted(placed, key=lambda run: run.turn))

    def cached(
        self,
        study: str,
        experiments: Iterable[Experiment],
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> frozenset[str]:
        with self._lock:
            stored = self._get_study(study)
            return frozenset(
                e.digest for e in experiments if self._cached(stored, e, kinds, round_)
            )

    def look_up(
        self,
        study: str,
        experiments: Iterable[Experiment],
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> CachedResults:
        batch = list(experiments)
        cached = self.cached(study, batch, kinds, round_)
        if kinds is None or round_ is not None:
            return CachedResults(cached, {})
        machines = {}
        for digest in {e.digest for e in batch} - cached:
            others = [
                row
                for stored in self._studies
                for row in stored.counting(digest)
                if row not in stored.counting(digest, kinds)
            ]
            machine = min(others, key=lambda row: row.rank).outcome.machine if others else None
            if machine is not None:
                machines[digest] = machine
        return CachedResults(cached, machines)

    def _cached(
        self, stored: ReferenceStudy, experiment: Experiment, kinds: Kinds, round_: int | None
    ) -> bool:
        usable = self._usable(stored, experiment.digest, kinds, round_)
        if usable and not any(home is stored for _, home in usable):
            row, home = min(usable, key=lambda pair: pair[0].rank)
            self._copy(home, row, stored, experiment, row.equality)
        return bool(usable)

    def _usable(
        self, stored: ReferenceStudy, digest: str, kinds: Kinds, round_: int | None
    ) -> list[tuple[ReferenceResult, ReferenceStudy]]:
        """Return the results that stand for an experiment in *stored*, and where each is.

        Its own; those of others that are ok; and those that are not, unless *stored* has set that
        attempt aside, or a later one. With a round, its own of that round alone.
        """
        if round_ is not None:
            return [(row, stored) for row in stored.counting(digest, kinds, round_)]
        refused: dict[MachineKind | None, int] = {}
        for tried in self._tried.values():
            attempt = tried.attempt
            is_own = tried.stored is stored and tried.digest == digest
            if is_own and attempt.state in OUTCOME_STATES:
                refused[attempt.machine] = max(attempt.number, refused.get(attempt.machine, 0))
        return [
            (row, home)
            for home in self._studies
            for row in home.counting(digest, kinds)
            if home is stored
            or row.outcome.status == "ok"
            or row.outcome.attempt > refused.get(row.outcome.machine, 0)
        ]

    def _copy(
        self,
        home: ReferenceStudy,
        row: ReferenceResult,
        stored: ReferenceStudy,
        experiment: Experiment,
        equality: EquatedResult | None,
    ) -> None:
        metrics = shared_metrics(
            row.outcome.metrics, home.name, home.metric_sources, stored.metric_sources
        )
        outcome = replace(row.outcome, digest=experiment.digest, metrics=metrics)
        key = RecordPosition(experiment.index, experiment.repeat, next(self._numbers))
        values = dict(experiment.values)
        self._put(
            stored,
            ReferenceResult(key, values, outcome, row.lease, row.source, stored.round, equality),
        )

    def _put(self, stored: ReferenceStudy, row: ReferenceResult) -> None:
        stored.put(row)
        for name in row.outcome.metrics:
            stored.metric_sources.setdefault(name, "")

    def claim(
        self,
        study: str,
        driver: int,
        experiments: Sequence[Experiment],
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> dict[str, int]:
        with self._lock:
            stored = self._lock_lease(study, driver)
            by_digest = {experiment.digest: experiment for experiment in experiments}
            self._end_leases_of_dead_drivers(by_digest, driver)
            claims = {
                digest: self._claim(stored, experiment, driver, kinds, round_)
                for digest, experiment in sorted(by_digest.items())  # as databases number claims
            }
            return {digest: claim.attempt for digest, claim in claims.items() if claim}

    def _claim(
        self,
        stored: ReferenceStudy,
        experiment: Experiment,
        driver: int,
        kinds: Kinds,
        round_: int | None,
    ) -> ReferenceClaim | None:
        """Our claim on the experiment; none if another one holds it, or it has an outcome."""
        digest = experiment.digest
        claim = self._claims.get(digest)
        if self._usable(stored, digest, kinds, round_):
            return None
        if claim is not None:
            return claim if claim.lease == driver else None
        lease = self._leases[driver][0]
        claim = ReferenceClaim(
            next(self._numbers), stored, driver, self._newest_number(digest) + 1, lease.host,
            self._clock(), experiment, round_ or stored.round,
        )  # fmt: skip
        self._claims[digest] = claim
        return claim

    def _end_leases_of_dead_drivers(self, digests: Iterable[str], driver: int) -> None:
        """Ends the leases of dead drivers that hold a claim on one of *digests*."""
        holders = {self._claims[digest].lease for digest in digests if digest in self._claims}
        for holder in sorted(holders - {driver}):
            lease, owner, _ = self._leases[holder]
            if not self._alive(lease, owner):
                self._end_lease(holder, "superseded")

    # Outcomes

    def record(
        self, study: str, driver: int, outcomes: Iterable[Outcome], *, final: bool = True
    ) -> frozenset[str]:
        with self._lock:
            stored = self._lock_lease(study, driver, ended=True)
            capped = [entities.limit_metrics(outcome) for outcome in outcomes]
            # What is accepted is looked for first; what is left came late.
            matched = [o for o in capped if self._is_claimed(o, driver)]
            first = {outcome.digest: outcome for outcome in reversed(matched)}
            late = [o for o in capped if first.get(o.digest) != o]
            repeated = {o.digest for o in late if self._was_accepted(stored, o, driver, first)}
            for outcome in late:
                if not self._was_accepted(stored, outcome, driver, first):
                    self._supersede(stored, driver, outcome)
            for outcome in first.values():
                claim = self._claims.pop(outcome.digest)
                if final:
                    self._accept(stored, claim, outcome)
                else:
                    of = claim.experiment, claim.round
                    self._keep(stored, claim.id, driver, outcome, outcome.status, *of)
            return frozenset(repeated.union(first)) if final else frozenset()

    def _is_claimed(self, outcome: Outcome, driver: int) -> bool:
        claim = self._claims.get(outcome.digest)
        return claim is not None and (claim.lease, claim.attempt) == (driver, outcome.attempt)

    def _was_accepted(
        self, stored: ReferenceStudy, outcome: Outcome, driver: int, now: dict[str, Outcome]
    ) -> bool:
        again = now.get(outcome.digest)
        if again is not None and again.attempt == outcome.attempt:
            return True
        rows = stored.of(outcome.digest)
        return any((r.lease, r.outcome.attempt) == (driver, outcome.attempt) for r in rows)

    def _accept(self, stored: ReferenceStudy, claim: ReferenceClaim, outcome: Outcome) -> None:
        experiment = claim.experiment
        key = RecordPosition(experiment.index, experiment.repeat, claim.id)
        self._logs[claim.id] = AttemptLogs(outcome.stdout, outcome.stderr)
        self._artifacts[claim.id] = outcome.artifacts
        self._conditions[claim.id] = outcome.conditions
        plain = _plain(outcome)
        values = dict(experiment.values)
        self._put(stored, ReferenceResult(key, values, plain, claim.lease, claim.id, claim.round))

    def _supersede(self, stored: ReferenceStudy, driver: int, outcome: Outcome) -> None:
        past = next(
            (
                tried
                for tried in self._tried.values()
                if tried.digest == outcome.digest
                and (tried.attempt.number, tried.attempt.driver) == (outcome.attempt, driver)
            ),
            None,
        )
        if entities.replaces_attempt(past.attempt.state if past else None):
            number = past.id if past else next(self._numbers)
            of = past.experiment if past else None
            round_ = past.attempt.round if past else stored.round
            self._keep(stored, number, driver, outcome, "superseded", of, round_)
            text = f"attempt {outcome.attempt} came late"
            self._note(stored, "superseded", text, outcome.digest)

    def _keep(
        self,
        stored: ReferenceStudy,
        number: int,
        driver: int,
        outcome: Outcome,
        state: AttemptState,
        experiment: Experiment | None,
        round_: int,
    ) -> None:
        """Remembers an attempt that is not the accepted one."""
        attempt = _attempt(outcome, driver, state, round_, with_metrics=True)
        self._tried[number] = ReferenceAttempt(
            number, outcome.digest, stored, attempt, experiment, number
        )
        self._logs[number] = AttemptLogs(outcome.stdout, outcome.stderr)
        self._artifacts[number] = outcome.artifacts

    def add_results(
        self,
        study: str,
        driver: int,
        results: Iterable[tuple[Experiment, Outcome]],
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> frozenset[str]:
        with self._lock:
            stored = self._lock_lease(study, driver)
            by_digest = {e.digest: (e, entities.limit_metrics(outcome)) for e, outcome in results}
            for experiment, _ in by_digest.values():
                self._cached(stored, experiment, kinds, round_)
            self._end_leases_of_dead_drivers(by_digest, driver)
            return frozenset(
                digest
                for digest, pair in by_digest.items()
                if self._enter(stored, driver, *pair, kinds, round_)
            )

    def _enter(
        self,
        stored: ReferenceStudy,
        driver: int,
        experiment: Experiment,
        outcome: Outcome,
        kinds: Kinds,
        round_: int | None,
    ) -> bool:
        if any(row.lease == driver for row in stored.counting(experiment.digest, kinds, round_)):
            return True
        claim = self._claim(stored, experiment, driver, kinds, round_)
        if claim is None:
            self._supersede(stored, driver, outcome)
            return False
        del self._claims[experiment.digest]
        self._accept(stored, claim, replace(outcome, attempt=claim.attempt))
        return True

    def remeasure(
        self, study: str, outcomes: Iterable[Outcome], definition: StudyDefinition | None = None
    ) -> int:
        fresh = list(outcomes)
        with self._lock:
            if definition is not None:
                self.open(study, definition)
            stored = self._get_study(study)
            again = [entities.limit_metrics(outcome) for outcome in fresh]
            rows = [row for o in {o.digest: o for o in again} for row in stored.of(o)]
            replacements = entities.match_remeasured(again, [row.outcome for row in rows])
            for at, outcome in replacements.items():
                row = rows[at]
                anew = (outcome.status, outcome.cause, dict(outcome.metrics))
                status, cause, metrics = anew
                row.outcome = replace(row.outcome, status=status, cause=cause, metrics=metrics)
                self._put(stored, row)
            return len(replacements)

    def reopen(self, study: str, digests: Sequence[str], kinds: Kinds = None) -> int:
        with self._lock:
            stored = self._get_study(study)
            rows = [
                row for digest in sorted(set(digests)) for row in stored.counting(digest, kinds)
            ]
            failed = [row for row in rows if row.outcome.status != "ok"]
            for row in failed:
                stored.take(row)
                self._set_aside(stored, row)
            return len(failed)

    def _set_aside(self, stored: ReferenceStudy, row: ReferenceResult) -> None:
        outcome, number = row.outcome, row.key.row
        attempt = _attempt(outcome, row.lease, outcome.status, row.round, with_metrics=True)
        experiment = Experiment(
            outcome.digest, row.key.number, row.key.repeat, row.values, (), (), {}, None, Recipe()
        )
        self._tried[number] = ReferenceAttempt(
            number, outcome.digest, stored, attempt, experiment, row.source
        )
        text = f"attempt {outcome.attempt} set aside"
        self._note(stored, "reopened", text, outcome.digest)

    def equate(
        self, study: str, source: str, experiments: Mapping[str, Experiment], person: str
    ) -> int:
        with self._lock:
            stored, home = self._get_study(study), self._get_study(source)
            self._refuse_drivers(stored, home)
            now, count = self._clock(), 0
            present = {e.digest for e in experiments.values() if e.digest in stored.rows}
            candidates = [(row, e) for d, e in experiments.items() for row in home.counting(d)]
            for row, experiment in sorted(candidates, key=lambda pair: pair[0].key.row):
                kinds = {machine for machine, _ in stored.rows.get(experiment.digest, {})}
                if experiment.digest not in present and row.outcome.machine not in kinds:
                    of = row.equality.digest if row.equality else row.outcome.digest
                    equality = EquatedResult(home.fixed_name, person, now, of)
                    self._copy(home, row, stored, experiment, equality)
                    count += 1
            return count

    def undo_equate(self, study: str, source: str) -> int:
        with self._lock:
            stored, home = self._get_study(study), self._get_study(source)
            digests = [d for d in stored.rows if _equal(stored, d, home)]
            copies = [
                (s, row) for s in self._studies for d in digests for row in _equal(s, d, home)
            ]
            self._refuse_drivers(stored, home, *(holder for holder, _ in copies))
            for holder, row in copies:
                holder.take(row)
            return len(digests)

    def _refuse_drivers(self, *studies: ReferenceStudy) -> None:
        versions = [stored for stored in self._studies if any(stored is study for study in studies)]
        for stored in versions:
            for lease in self._living_leases(stored):
                raise repository.driver_prevents_change(lease)
        for stored in versions:
            self._end_dead_leases(stored)

    def equated_result(self, study: str, digest: str) -> EquatedResult | None:
        with self._lock:
            copies = [row for row in self._get_study(study).of(digest) if row.equality]
            if not copies:
                return None
            row = copies[-1]
            assert row.equality is not None, "those without are left out"
            numbers = {result.key.row for stored in self._studies for result in stored.results()}
            is_there = row.source in numbers | self._tried.keys()
            return row.equality if is_there else replace(row.equality, digest="")

    # Answers

    def find_outcomes(
        self,
        digests: Sequence[str],
        study: str | None = None,
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> dict[str, Outcome]:
        with self._lock:
            versions = self._studies if study is None else [self._get_study(study)]
            outcomes = {}
            for digest in digests:
                named = None if study is None else round_
                rows = [row for stored in versions for row in stored.counting(digest, kinds, named)]
                if study is None:
                    rows.sort(key=lambda row: row.rank, reverse=True)
                else:
                    rows.sort(
                        key=lambda row: (
                            entities.is_of(row.outcome.machine, kinds),
                            row.key.row,
                        )
                    )
                if rows:
                    outcomes[digest] = rows[-1].outcome
            return outcomes

    def count_states(self, study: str) -> dict[ExperimentState, int]:
        with self._lock:
            stored = self._get_study(study)
            running = {digest for digest, c in self._claims.items() if c.stored is stored}
            ended = [digest for digest in stored.rows if digest not in running]
            states: list[ExperimentState] = [
                stored.of(digest)[-1].outcome.status for digest in ended
            ]
            states += ["running"] * len(running)
            return {state: states.count(state) for state in EXPERIMENT_STATES}

    def count_results(self, study: str) -> tuple[ResultCount, ...]:
        with self._lock:
            rows = self._get_study(study).results()
            counts = Counter((r.outcome.machine, r.round, r.outcome.status) for r in rows)
            return tuple(ResultCount(*key, count) for key, count in counts.items())

    def records(
        self,
        study: str,
        *,
        after: RecordPosition | None = None,
        states: Iterable[ExperimentState] | None = None,
    ) -> Iterator[ExperimentRecord]:
        selected = frozenset(EXPERIMENT_STATES if states is None else states)
        with self._lock:
            records = [item for item in self._all(self._get_study(study)) if item.state in selected]
        records.sort(key=lambda record: record.key)
        return iter([item for item in records if after is None or item.key > after])

    def _all(self, stored: ReferenceStudy) -> Iterator[ExperimentRecord]:
        yield from map(stored.record, stored.results())
        for claim in self._claims.values():
            if claim.stored is stored:
                yield claim.record("running")
        missing = {}
        for tried in self._tried.values():
            record = tried.record() if tried.stored is stored else None
            if record and record.digest not in stored.rows and record.digest not in self._claims:
                missing[record.digest] = record
        yield from missing.values()

    def standings(self, names=None):
        return [
            StudyStanding(
                study, self.count_states(study.name), self.count_results(study.name),
                self.leases(study.name), self.rounds(study.name),
                self.definition(study.name).notes,
                {path: sha256(body).hexdigest()
                 for path, body in self.definition(study.name).sources.items()},
                max((event.at for event in self.events(study.name)[-1:]), default=study.created),
            )
            for study in self.studies() if names is None or study.name in names
        ]  # fmt: skip

    def keyed_results(self, study, program, kinds=None, round_=None, names=()) -> None:
        """None: all of its studies are small."""

    def columnar_copy(self, study: str) -> None:
        return None

    def column_pages(self, study: str, request: ColumnRequest) -> Iterator[ColumnPage]:
        rows = [
            (record, record.outcome)
            for record in self.records(study, states=request.states)
            if record.outcome
            and record.digest not in request.without
            and RowChoice("", request.round).holds(record)
        ]
        kinds = {outcome.machine: n for n, (_, outcome) in enumerate(rows, 1) if outcome.machine}
        yield ColumnPage(
            [record.state for record, _ in rows],
            [kinds.get(outcome.machine, 0) if outcome.machine else 0 for _, outcome in rows],
            [record.round for record, _ in rows],
            {name: [row.values.get(name) for row, _ in rows] for name in request.parameters},
            {name: [o.metrics.get(name) for _, o in rows] for name in request.metrics},
            {number: kind for kind, number in kinds.items()},
        )

    def experiment_record(self, study: str, digest: str) -> ExperimentRecord:
        with self._lock:
            stored = self._get_study(study)
            if rows := stored.counting(digest):
                return stored.record(rows[-1])
            for record in self._all(stored):
                if record.digest == digest:
                    return record
        raise repository.no_experiment([digest])

    def find_digests(self, prefix: str, limit: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
        with self._lock:
            having: dict[str, set[int]] = {}
            for at, stored in enumerate(self._studies):
                for digest in stored.rows:
                    having.setdefault(digest, set()).add(at)
            for digest, where in (
                *((d, claim.stored) for d, claim in self._claims.items()),
                *((tried.digest, tried.stored) for tried in self._tried.values()),
            ):
                having.setdefault(digest, set()).add(self._studies.index(where))
            digests = sorted(digest for digest in having if digest.startswith(prefix))
            return tuple(
                (digest, tuple(self._studies[at].name for at in sorted(having[digest])))
                for digest in digests[:limit]
            )

    def _attempts(self, digest: str) -> list[tuple[int, AttemptRecord, bool]]:
        """Of each attempt its number here, and whether it is the accepted or running one.

        What several versions have of one attempt, as their result or set aside, is told once.
        """
        rows = [row for stored in self._studies for row in stored.of(digest)]
        attempts: dict[int, tuple[int, AttemptRecord, bool]] = {}
        for row in sorted(rows, key=lambda row: row.key.row):
            accepted = _attempt(row.outcome, row.lease, row.outcome.status, row.round)
            attempts.setdefault(row.source, (row.source, accepted, True))
        claim = self._claims.get(digest)
        if claim is not None:
            running = AttemptRecord(
                claim.attempt, "running", claim.lease, claim.host, claim.started, round=claim.round
            )
            attempts[claim.id] = claim.id, running, True
        for tried in sorted(self._tried.values(), key=lambda tried: tried.id):
            if tried.digest == digest:
                attempts.setdefault(tried.source, (tried.source, tried.attempt, False))
        if digest in self._last:
            number, last = self._last[digest]
            attempts.setdefault(number, (number, last, False))
        if not attempts:
            raise repository.no_experiment([digest])
        return sorted(attempts.values(), key=lambda entry: (entry[1].number, entry[1].driver))

    def attempts(self, digest: str) -> tuple[AttemptRecord, ...]:
        with self._lock:
            return tuple(attempt for _, attempt, _ in self._attempts(digest))

    def _chosen(self, digest: str, number: int | None) -> int | None:
        """The attempt of that number; the accepted, running or newest one, if none is named."""
        attempts = self._attempts(digest)
        chiefs = [entry for entry in attempts if entry[2]]
        others = [entry for entry in attempts if not entry[2]]
        if number is None:
            accepted = [entry for entry in chiefs if entry[1].state != "running"]
            return (accepted or chiefs or others)[-1][0]
        return next((entry[0] for entry in (*chiefs, *others) if entry[1].number == number), None)

    def add_event(self, study: str, kind: str, text: str, digest: str | None = None) -> None:
        with self._lock:
            self._note(self._get_study(study), kind, text, digest)

    def _note(
        self, stored: ReferenceStudy, kind: str, text: str, digest: str | None = None
    ) -> None:
        stored.events.append(RepositoryEvent(self._clock(), kind, text, digest))

    def events(self, study: str, digest: str | None = None) -> tuple[RepositoryEvent, ...]:
        happened = self._get_study(study).events
        return tuple(event for event in happened if digest in {None, event.digest})

    def redactions(self, study: str, digest: str) -> tuple[RepositoryEvent, ...]:
        return tuple(
            e for e in self.events(study) if e.kind == REDACTION_EVENT and e.digest == digest
        )

    def logs(self, digest: str, attempt: int | None = None) -> AttemptLogs:
        with self._lock:
            number = self._chosen(digest, attempt)
            return AttemptLogs() if number is None else self._logs.get(number, AttemptLogs())

    def contents(self, sha256: Iterable[str]) -> frozenset[str]:
        return frozenset()

    def artifacts(
        self, digest: str, attempt: int | None = None, *, first: int = 0, most: int | None = None
    ) -> tuple[Artifact, ...]:
        with self._lock:
            number = self._chosen(digest, attempt)
            last = None if most is None else first + most
            return () if number is None else self._artifacts.get(number, ())[first:last]

    def artifact_count(self, digest: str, attempt: int | None = None) -> int:
        return len(self.artifacts(digest, attempt))


def _equal(stored: ReferenceStudy, digest: str, home: ReferenceStudy) -> list[ReferenceResult]:
    """The results that are copies of one that was accepted as equal to one of *home*."""
    return [
        row for row in stored.of(digest) if row.equality and row.equality.study == home.fixed_name
    ]


def _plain(outcome: Outcome) -> Outcome:
    """As it is found again: what it said and left, and under which conditions, stands elsewhere."""
    return replace(
        outcome, stdout=Log(), stderr=Log(), artifacts=(), host_details=None, conditions=None
    )


def _attempt(
    outcome: Outcome,
    driver: int,
    state: AttemptState,
    round_: int,
    *,
    with_metrics: bool = False,
) -> AttemptRecord:
    return AttemptRecord(
        outcome.attempt, state, driver, outcome.host, outcome.started, outcome.ended,
        outcome.cause, outcome.exit, dict(outcome.metrics) if with_metrics else {},
        outcome.machine, outcome.host_details, outcome.conditions, round_,
    )  # fmt: skip
