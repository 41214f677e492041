"""The reference: dicts. Every other repository behaves like it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from zenturio.errors import Complaint
from zenturio.experiment.experiment import Artifact, Experiment, Outcome
from zenturio.record import complaints, naming, rules
from zenturio.record.driver import Driver
from zenturio.record.facts import (
    STATES,
    Attempt,
    Definition,
    Event,
    Key,
    Lease,
    Logs,
    Record,
    Removal,
    State,
    Study,
)
from zenturio.record.line import Line
from zenturio.record.sharing import shared_metrics
from zenturio.record.shelf import Known, Row, Shelf


class Memory(Line):
    """A repository that lasts as long as the process; safe to share among its threads."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self._shelves: dict[str, Shelf] = {}
        self._known: dict[str, Known] = {}
        self._leases: dict[int, tuple[Lease, Driver]] = {}
        self._lease_numbers = itertools.count(1)
        self._row_numbers = itertools.count(1)

    @property
    def place(self) -> str:
        return "memory"

    @property
    def warnings(self) -> tuple[Complaint, ...]:
        return ()

    def close(self) -> None:
        """Nothing is held open."""

    # Studies

    def open(self, name: str, definition: Definition) -> Study:
        naming.check(name, definition)
        with self._lock:
            if name not in self._shelves:
                taken = [v for s in self.studies() for v in (s.view, s.view_all)]
                study = Study(name, *naming.views(name, taken), self._clock())
                self._shelves[name] = Shelf(study, definition)
            self._shelves[name].define(definition, self._clock())
            return self._shelves[name].study

    def archive(self, study: Study) -> Study | None:
        with self._lock:
            shelf = self._shelves.get(study.name)
            if shelf is None or shelf.study.created != study.created:
                return None
            for lease in self._living(study.name):
                raise complaints.still_driven(lease)
            taken = [view for s in self.studies() for view in (s.view, s.view_all)]
            name = naming.archived(study.name, self._shelves)
            shelf.study = Study(name, *naming.views(name, taken), study.created)
            self._shelves = {s.study.name: s for s in self._shelves.values()}
            for known in self._known.values():
                known.home = name if known.home == study.name else known.home
            for lease, driver in list(self._leases.values()):
                if lease.study == study.name:
                    self._leases[lease.number] = replace(lease, study=name), driver
            return shelf.study

    def study(self, name: str) -> Study:
        return self._shelf(name).study

    def studies(self) -> tuple[Study, ...]:
        return tuple(shelf.study for shelf in self._shelves.values())

    def definition(self, study: str, at: float | None = None) -> Definition:
        shelf = self._shelf(study)
        return shelf.definition if at is None else shelf.defined(at)

    def _shelf(self, name: str) -> Shelf:
        if name not in self._shelves:
            raise complaints.no_study(name, self._shelves)
        return self._shelves[name]

    def burden(self, study: str) -> Removal:
        with self._lock:
            rows = self._shelf(study).rows
            alone = [self._known[digest] for digest in rows if not self._others(study, digest)]
            kept = {path for known in alone for path in known.kept()}
            others = (known for known in self._known.values() if known not in alone)
            return Removal(
                study,
                experiments=len(alone),
                shared=len(rows) - len(alone),
                attempts=sum(len(known.attempts) for known in alone),
                log_bytes=sum(known.log_bytes() for known in alone),
                artifacts=tuple(sorted(kept.difference(*(known.kept() for known in others)))),
            )

    def delete(self, study: str) -> Removal:
        with self._lock:
            for lease in self._living(study):
                raise complaints.still_driven(lease)
            self._bury(study)
            removal = self.burden(study)
            for digest in self._shelf(study).rows:
                others = self._others(study, digest)
                if not others:
                    del self._known[digest]
                elif self._known[digest].home == study:
                    self._known[digest].home = others[0]
            del self._shelves[study]
            return removal

    def _others(self, study: str, digest: str) -> list[str]:
        """The studies beside *study* that have the experiment."""
        return [n for n, shelf in self._shelves.items() if n != study and digest in shelf.rows]

    # Drivers

    def lease(
        self, study: str, driver: Driver, *, join: bool = False, seconds: float = 60.0
    ) -> Lease:
        with self._lock:
            self._shelf(study)
            for lease, owner in self._leases.values():
                if lease.study == study and owner.token == driver.token:
                    return self.beat(lease)
            for lease in self._living(study):
                if not join:
                    raise complaints.driven(lease)
            self._bury(study)
            now = self._clock()
            number = next(self._lease_numbers)
            lease = Lease(
                number, study, driver.host, driver.pid, now, now + seconds, seconds, driver.born
            )
            self._leases[number] = lease, driver
            self.note(study, "driver", f"lease {number}: process {driver.pid} on {driver.host}")
            return lease

    def beat(self, lease: Lease) -> Lease:
        with self._lock:
            current, driver = self._held(lease.study, lease.number)
            longer = replace(current, until=self._clock() + current.seconds)
            self._leases[lease.number] = longer, driver
            return longer

    def leave(self, lease: Lease) -> None:
        with self._lock:
            if lease.number in self._leases:
                self._retire(lease, "left")

    def drivers(self, study: str) -> tuple[Lease, ...]:
        self._shelf(study)
        return tuple(lease for lease, _ in self._leases.values() if lease.study == study)

    def _held(self, study: str, number: int) -> tuple[Lease, Driver]:
        """The lease *number*, if it has not ended."""
        self._shelf(study)
        held = self._leases.get(number)
        if held is None or held[0].study != study:
            raise complaints.superseded(study, number)
        return held

    def _living(self, study: str) -> list[Lease]:
        """The leases of drivers that are alive."""
        held = [held for held in self._leases.values() if held[0].study == study]
        return [lease for lease, driver in held if self._alive(lease, driver)]

    def _bury(self, study: str) -> None:
        """Ends the leases of all others."""
        living = self._living(study)
        for lease in self.drivers(study):
            if lease not in living:
                self._retire(lease, "superseded")

    def _alive(self, lease: Lease, driver: Driver) -> bool:
        return lease.until > self._clock() and not driver.gone()

    def _retire(self, lease: Lease, why: str) -> None:
        """Ends a lease; what its driver had claimed is stale and waits again."""
        del self._leases[lease.number]
        self.note(lease.study, "driver", f"lease {lease.number}: {why}")
        for digest, known in self._known.items():
            if known.standing.state == "running" and known.standing.driver == lease.number:
                known.give_up(why, self._clock())
                text = f"attempt {known.standing.attempt}: driver {why}"
                self.note(lease.study, "stale", text, digest)

    # Experiments

    def add(self, study: str, experiments: Iterable[Experiment]) -> frozenset[str]:
        with self._lock:
            shelf = self._shelf(study)
            digests = [self._add(shelf, experiment) for experiment in experiments]
            return frozenset(d for d in digests if self._known[d].outcome is not None)

    def _add(self, shelf: Shelf, experiment: Experiment) -> str:
        digest, name = experiment.digest, shelf.study.name
        if digest not in self._known:
            self._known[digest] = Known(digest, next(self._row_numbers), name)
        if digest in shelf.rows:
            return digest
        known = self._known[digest]
        key = Key(experiment.index, experiment.repeat, known.row)
        shelf.rows[digest] = Row(key, dict(experiment.values))
        shelf.parameters |= dict.fromkeys(experiment.values)
        if known.outcome is not None:
            self._take_over(digest, known.home, name)
        return digest

    def _take_over(self, digest: str, source: str, target: str) -> None:
        """Gives study *target* the metrics that *source* has of an experiment."""
        theirs, ours = self._shelves[source], self._shelves[target]
        ours.rows[digest].metrics = shared_metrics(
            theirs.rows[digest].metrics, source, theirs.ways, ours.ways
        )

    def claim(self, study: str, driver: int, digests: Sequence[str]) -> dict[str, int]:
        with self._lock:
            lease, _ = self._held(study, driver)
            self._require(study, digests)
            self._relieve(digests, driver)
            return {d: n for d in digests if (n := self._claim(d, lease)) is not None}

    def _claim(self, digest: str, lease: Lease) -> int | None:
        known = self._known[digest]
        number = rules.grant(known.standing, lease.number)
        if number is not None and known.standing.state == "waiting":
            known.begin(number, lease.number, lease.host, self._clock())
        return number

    def _relieve(self, digests: Iterable[str], driver: int) -> None:
        """Ends the leases of dead drivers that hold a claim on one of *digests*."""
        standings = [self._known[digest].standing for digest in digests]
        for holder in {s.driver for s in standings if s.state == "running"} - {driver}:
            held = self._leases.get(holder or 0)
            if held is not None and not self._alive(*held):
                self._retire(held[0], "superseded")

    def _require(self, study: str, digests: Iterable[str]) -> None:
        missing = set(digests) - self._shelf(study).rows.keys()
        if missing:
            raise complaints.no_experiment(missing, study)

    # Outcomes

    def record(
        self, study: str, driver: int, outcomes: Iterable[Outcome], *, final: bool = True
    ) -> frozenset[str]:
        with self._lock:
            given = list(outcomes)
            self._require(study, (outcome.digest for outcome in given))
            return frozenset(o.digest for o in given if self._record(study, driver, o, final))

    def _record(self, study: str, driver: int, outcome: Outcome, final: bool) -> bool:
        """Keeps one outcome; whether it was accepted, now or before."""
        known = self._known[outcome.digest]
        match rules.judge(known.standing, driver, outcome.attempt):
            case "supersede":
                return self._supersede(study, driver, outcome)
            case "accept":
                known.keep(outcome, driver, outcome.status, {} if final else outcome.metrics)
                known.end(outcome, outcome.status if final else "waiting")
                if final:
                    self._share(study, outcome)
        return final

    def _share(self, study: str, outcome: Outcome) -> None:
        """Gives the metrics to every study that has the experiment."""
        self._shelves[study].rows[outcome.digest].metrics = dict(outcome.metrics)
        for other in self._others(study, outcome.digest):
            self._take_over(outcome.digest, study, other)

    def _supersede(self, study: str, driver: int, outcome: Outcome) -> bool:
        known = self._known[outcome.digest]
        past = known.attempts.get((outcome.attempt, driver))
        if rules.supersedes(past.state if past else None):
            known.keep(outcome, driver, "superseded", outcome.metrics)
            self.note(study, "superseded", f"attempt {outcome.attempt} came late", outcome.digest)
        return False

    def enter(
        self, study: str, driver: int, results: Iterable[tuple[Experiment, Outcome]]
    ) -> frozenset[str]:
        with self._lock:
            given = list(results)
            lease, _ = self._held(study, driver)
            self.add(study, [experiment for experiment, _ in given])
            self._relieve((experiment.digest for experiment, _ in given), driver)
            return frozenset(o.digest for _, o in given if self._enter(lease, o))

    def _enter(self, lease: Lease, outcome: Outcome) -> bool:
        known = self._known[outcome.digest]
        if known.standing.recorded and known.standing.driver == lease.number:
            return True
        number = self._claim(outcome.digest, lease)
        if number is not None:
            outcome = replace(outcome, attempt=number)
        return self._record(lease.study, lease.number, outcome, final=True)

    def remeasure(
        self, study: str, outcomes: Iterable[Outcome], definition: Definition | None = None
    ) -> int:
        with self._lock:
            given = list(outcomes)
            self._require(study, (outcome.digest for outcome in given))
            if definition is not None:
                self.open(study, definition)
            return sum(self._remeasure(study, outcome) for outcome in given)

    def _remeasure(self, study: str, outcome: Outcome) -> bool:
        known = self._known[outcome.digest]
        if known.outcome is None:
            return False
        self._shelves[study].rows[outcome.digest].metrics = dict(outcome.metrics)
        if not self._others(study, outcome.digest):
            known.judge_anew(outcome)
        return True

    def reopen(self, study: str, digests: Sequence[str]) -> int:
        with self._lock:
            self._require(study, digests)
            closed = [
                known
                for known in (self._known[digest] for digest in dict.fromkeys(digests))
                if known.standing.recorded and known.standing.state != "ok"
            ]
            for known in closed:
                known.reopen(self._shelf(study).rows[known.digest].metrics)
                for name in [study, *self._others(study, known.digest)]:
                    self._shelves[name].rows[known.digest].metrics = {}
                text = f"attempt {known.standing.attempt} set aside"
                self.note(study, "reopened", text, known.digest)
            return len(closed)

    # Answers

    def find(self, digests: Sequence[str], study: str | None = None) -> dict[str, Outcome]:
        with self._lock:
            shelf = None if study is None else self._shelf(study)
            found = {}
            for digest in digests:
                known = self._known.get(digest)
                rows = (shelf or self._shelves[known.home]).rows if known else {}
                if known and digest in rows and (outcome := known.whole(rows[digest])):
                    found[digest] = outcome
            return found

    def counts(self, study: str) -> dict[State, int]:
        with self._lock:
            states = [self._known[digest].standing.state for digest in self._shelf(study).rows]
            return {state: states.count(state) for state in STATES}

    def records(
        self, study: str, *, after: Key | None = None, states: Iterable[State] | None = None
    ) -> Iterator[Record]:
        wanted = frozenset(STATES if states is None else states)
        with self._lock:
            rows = sorted((row.key, digest) for digest, row in self._shelf(study).rows.items())
        for key, digest in rows:
            if after is None or key > after:
                with self._lock:
                    record = self._seen(study, digest, wanted)
                if record is not None:
                    yield record

    def _seen(self, study: str, digest: str, wanted: Collection[State]) -> Record | None:
        shelf = self._shelves.get(study)
        if shelf is None or digest not in shelf.rows:
            return None
        record = self._known[digest].seen(shelf)
        return record if record.state in wanted else None

    def row(self, study: str, digest: str) -> Record:
        with self._lock:
            self._shelf(study)
            record = self._seen(study, digest, STATES)
        if record is None:
            raise complaints.no_experiment([digest])
        return record

    def matching(self, prefix: str, limit: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
        with self._lock:
            digests = sorted(digest for digest in self._known if digest.startswith(prefix))
            return tuple((digest, self._having(digest)) for digest in digests[:limit])

    def _having(self, digest: str) -> tuple[str, ...]:
        return tuple(name for name, shelf in self._shelves.items() if digest in shelf.rows)

    def attempts(self, digest: str) -> tuple[Attempt, ...]:
        known = self._experiment(digest)
        return tuple(known.attempts[at] for at in sorted(known.attempts))

    def _experiment(self, digest: str) -> Known:
        if digest not in self._known:
            raise complaints.no_experiment([digest])
        return self._known[digest]

    def note(self, study: str, kind: str, text: str, digest: str | None = None) -> None:
        with self._lock:
            self._shelf(study).events.append(Event(self._clock(), kind, text, digest))

    def events(self, study: str, digest: str | None = None) -> tuple[Event, ...]:
        happened = self._shelf(study).events
        return tuple(event for event in happened if digest in {None, event.digest})

    def logs(self, digest: str, attempt: int | None = None) -> Logs:
        known = self._experiment(digest)
        at = known.chosen(attempt)
        return known.logs.get(at, Logs()) if at else Logs()

    def contents(self, sha256: Iterable[str]) -> frozenset[str]:  # noqa: ARG002 - it has no store
        return frozenset()

    def artifacts(self, digest: str, attempt: int | None = None) -> tuple[Artifact, ...]:
        known = self._experiment(digest)
        at = known.chosen(attempt)
        return known.artifacts.get(at, ()) if at else ()
