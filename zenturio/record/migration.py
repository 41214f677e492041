"""Migration of a repository of an earlier revision into new tables, in resumable steps.

Each step commits together with its mark in the table ``upgrade``, so that one that was cut off is
done again and none twice. Every row is read back from where it was written and compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from zenturio.errors import RecordError
from zenturio.experiment.experiment import Artifact, HostDetails, Log, MachineKind, Outcome
from zenturio.failpoints import Failpoint
from zenturio.log_setup import work_progress
from zenturio.record import (
    codec,
    outcome_recording,
    result_rows,
    schema_version,
    sql_names,
    studies,
)
from zenturio.record.artifact_store import ArtifactStore
from zenturio.record.codec import to_local, to_portable
from zenturio.record.database import Database, Transaction
from zenturio.record.outcome_recording import UnacceptedAttempt
from zenturio.record.result_rows import FIRST_ROUND, NewResult
from zenturio.record.schema_version import LegacyRepositoryReader, OldAttempt, OldRow, OldStudy
from zenturio.record.sql_names import COMMON
from zenturio.record.study_transaction import RepositoryCache, StudyTransaction
from zenturio.safe_text import one_line

BASE = Failpoint("upgrade.base")
BATCH = Failpoint("upgrade.batch")
FILLED = Failpoint("upgrade.filled")

STEP = 2000
"""Experiments that are moved at a time."""
_COPIED = {
    "leases": ("id", "study", "token", "host", "pid", "born", "since", "until", "seconds", "ended"),
    "submissions": (
        "id", "token", "person", "study", "request", "submitted", "turn", "begun", "ended",
        "cause", "progress",
    ),
}  # fmt: skip


class Migrator:
    """An older repository on its way into new tables."""

    def __init__(self, older: LegacyRepositoryReader, new: Database, store: ArtifactStore) -> None:
        self._older = older
        self._new = new
        self._store = store
        self._mark = new.dialect.mark
        self._cache = RepositoryCache()

    def run(self) -> None:
        """Move all that is not moved yet."""
        self._step("base", self._base)
        BASE()
        for study in self._older.studies.values():
            self._in_batches(f"results {study.number}", study, self._older.results, self._results)
        for study in self._older.studies.values():
            self._in_batches(f"shared {study.number}", study, self._older.shared, self._shared)
        while self._attempts():
            BATCH()
        # Last: what these refer to has moved.
        self._step("running", self._running)
        self._step("events", self._events)
        FILLED()

    # Steps

    def _done(self, step: str) -> int | None:
        # Read anew for each batch: the batch and its mark were committed together.
        query = f"SELECT done FROM upgrade WHERE step = {self._mark}"
        rows = self._new.read(lambda t: t.sql(query, (step,)))
        return int(rows[0][0]) if rows else None

    def _step(self, step: str, work: Callable[[Transaction], object]) -> None:
        """Do *work* with its mark, unless it is done."""

        def marked(transaction: Transaction) -> None:
            work(transaction)
            self._set(transaction, step, 1)

        if self._done(step) is None:
            self._new.write(marked)

    def _set(self, transaction: Transaction, step: str, done: int) -> None:
        mark = self._mark
        transaction.sql(
            f"INSERT INTO upgrade (step, done, at) VALUES ({mark}, {mark}, {mark})"
            " ON CONFLICT (step) DO UPDATE SET done = excluded.done, at = excluded.at",
            (step, done, transaction.now),
        )

    def _in_batches(
        self,
        step: str,
        study: OldStudy,
        read: Callable[[OldStudy, int, int], list[OldRow]],
        write: Callable[[StudyTransaction, OldStudy, Sequence[OldRow]], None],
    ) -> None:
        report, last = work_progress.get(), self._older.last_experiment(study)
        while old := read(study, self._done(step) or 0, STEP):
            report(f"upgrading {one_line(study.name)}", old[0].number, last)

            def work(transaction: Transaction) -> StudyTransaction:
                context = self._context(transaction, study.number)
                write(context, study, old)
                self._set(transaction, step, old[-1].number)
                return context

            self._new.write(work).committed()
            BATCH()

    def _context(self, transaction: Transaction, study: int) -> StudyTransaction:
        """Return the version that a study has become: it has the study's number."""
        version = studies.versions_by_id(transaction, [study])[study]
        return StudyTransaction.at(transaction, version, self._cache)

    # What they move

    def _base(self, transaction: Transaction) -> None:
        """Studies, their versions, fields and definitions; leases, and what a service has to do."""
        old = self._older
        schema_version.mark_upgraded(transaction)
        self._names(transaction)
        for study in old.studies.values():
            context = self._context(transaction, study.number)
            layout = context.layout
            for role in ("parameter", "metric"):
                fields = [stored.field for stored in study.fields if stored.role == role]
                layout = layout.declared(role, fields)
            if layout is not context.layout:
                studies.widen(transaction, context.layout, layout)
        contents = old.sql("SELECT sha256, content FROM contents ORDER BY sha256")
        transaction.insert(
            "contents",
            ("digest", "size", "body"),
            [(bytes(sha), len(body), bytes(body)) for sha, body in contents],
        )
        sources = old.sql("SELECT definition, path, sha256 FROM sources ORDER BY definition, path")
        transaction.insert(
            "sources",
            ("definition", "path", "mode", "content"),
            [(definition, path, 0o644, bytes(sha)) for definition, path, sha in sources],
        )
        transaction.insert(
            "definitions", ("id", "version", "at", "document"), list(self._documents(sources))
        )
        self._plain(transaction)
        self._restart_numbers(transaction)

    def _names(self, transaction: Transaction) -> None:
        """NAME@1, NAME@2 and NAME are versions of one study, in the order of their creation."""
        now = transaction.now
        project = (COMMON, _uuid(self._older), "", "", now)
        transaction.insert("projects", ("id", "uuid", "owner", "name", "created"), [project])
        names: dict[str, dict[int, OldStudy]] = {}
        for study in self._older.studies.values():
            base, number = sql_names.parse_version_name(study.name) or (study.name, 0)
            names.setdefault(base, {})[number] = study
        view_names: list[str] = []
        for base, numbers in names.items():
            current = numbers.pop(0, None)
            last = max(numbers, default=0)
            view_names.append(sql_names.study_view(base, view_names))
            every = {**numbers, **({last + 1: current} if current else {})}
            opened = max(old_study.created for old_study in every.values())
            transaction.insert(
                "studies",
                ("project", "name", "sql_name", "current", "revision", "opened", "pinned"),
                [(COMMON, base, view_names[-1], current and current.number, 0, opened, 0)],
            )
            ((schema_name,),) = transaction.sql(
                f"SELECT id FROM studies WHERE name = {self._mark}", (base,)
            )
            transaction.insert(
                "versions",
                ("id", "study", "number", "created", "edits", "members"),
                [
                    (v.number, schema_name, number, v.created, 0, "{}")
                    for number, v in every.items()
                ],
            )

    def _documents(
        self, sources: Iterable[tuple[int, str, Any]]
    ) -> Iterable[tuple[int, int, float, str]]:
        """Return the definitions; paths in the project are seen from there."""
        hashes: dict[int, dict[str, str]] = {}
        for definition, path, sha in sources:
            hashes.setdefault(definition, {})[path] = bytes(sha).hex()
        query = "SELECT id, study, at, document FROM definitions ORDER BY id"
        for number, study, at, document in self._older.sql(query):
            read = json.loads(document)
            if folder := self._store.project:
                # The last programs of this revision did so, too.
                read["notes"] = to_portable(to_local(read["notes"], folder), folder)
            yield number, study, at, json.dumps({**read, "sources": hashes.get(number, {})})

    def _plain(self, transaction: Transaction) -> None:
        """Tables that hardly changed."""
        leases = self._older.sql(f"SELECT {', '.join(_COPIED['leases'])} FROM leases ORDER BY id")
        names = _COPIED["leases"]
        until, ended = names.index("until"), names.index("ended")
        transaction.insert(
            "leases",
            ("person", *("version" if name == "study" else name for name in names)),
            # No driver lives: nobody may upgrade beside one.
            [
                ("", *row[:ended], row[until] if row[ended] is None else row[ended])
                for row in leases
            ],
        )
        if "submissions" in self._tables:
            names = _COPIED["submissions"]
            rows = self._older.sql(f"SELECT {', '.join(names)} FROM submissions ORDER BY id")
            transaction.insert("submissions", (*names, "verified"), [(*row, 0) for row in rows])

    @cached_property
    def _tables(self) -> set[str]:
        return {name for (name,) in self._older.sql(self._older.database.dialect.tables)}

    def _restart_numbers(self, transaction: Transaction) -> None:
        """Number new attempts after the experiments, whose numbers their accepted attempts keep.

        Restart sequences after the highest numbers written.
        """
        ((last,),) = self._older.sql("SELECT coalesce(max(id), 0) FROM experiments")
        if transaction.dialect.name == "sqlite":
            transaction.sql("INSERT INTO sqlite_sequence (name, seq) VALUES ('claims', ?)", (last,))
            return
        transaction.sql("SELECT setval('claims_id_seq', %s)", (last + 1,))
        for table in ("versions", "definitions", "leases", "submissions", "projects"):
            transaction.sql(
                f"SELECT setval('{table}_id_seq', 1 + (SELECT coalesce(max(id), 0) FROM {table}))"
            )

    def _results(self, context: StudyTransaction, study: OldStudy, old: Sequence[OldRow]) -> None:
        """Outcomes with the logs and artifacts of the accepted attempts."""
        numbers = [row.number for row in old]
        files = self._files(numbers, {row.number: row.digest for row in old})
        new = []
        for row in old:
            logs, artifacts = files((row.number, row.outcome.attempt, row.driver))
            with_files = replace(
                self._hosted(study.number, row.outcome),
                stdout=logs[0], stderr=logs[1], artifacts=artifacts,
            )  # fmt: skip
            new.append(_new(row.number, row, with_files))
        result_rows.write_results(context, new)
        self._compare(context, study, new)

    def _shared(self, context: StudyTransaction, study: OldStudy, old: Sequence[OldRow]) -> None:
        """Rows of experiments that another study ran: copies of its results."""
        homes = dict(
            self._older.among(
                "SELECT id, study FROM experiments WHERE {among}", "id", [r.number for r in old]
            )
        )
        names = {number: old_study.name for number, old_study in self._older.studies.items()}
        new, copies = [], []
        for number, row in zip(context.transaction.numbers(len(old)), old, strict=True):
            home = homes[row.number]
            new.append(_new(number, row, self._hosted(home, row.outcome)))
            copies.append(
                (number, row.number, "shared", "", context.transaction.now, names.get(home, ""))
            )
        context.transaction.insert(
            "copies", ("result", "source", "kind", "person", "at", "note"), copies
        )
        result_rows.write_results(context, new, files=False)
        self._compare(context, study, new)

    def _compare(
        self, context: StudyTransaction, study: OldStudy, new: Sequence[NewResult]
    ) -> None:
        """Raise RecordError unless the written rows equal the original ones."""
        numbers = [row.number for row in new]
        results = result_rows.read_results(
            context.transaction, context.layout, "", among=("e.id", numbers)
        )
        read = {result.number: result for result in results}
        for row in new:
            copied = read.get(row.number)
            same = copied is not None and (
                _essence(row.values, row.outcome) == _essence(copied.record.values, copied.outcome)
            )
            if not same:
                raise RecordError(
                    f"experiment {row.outcome.digest[:12]} of study {study.name!r} would not be"
                    " the same after the upgrade",
                    hint="please report this; the database was not changed",
                )

    def _attempts(self) -> bool:
        """Move the next attempts that were not accepted; return false if there are no more."""
        after = self._done("attempts") or 0
        old = self._older.attempts(after, STEP)
        work_progress.get()("upgrading attempts", after, self._older.last_experiment())
        if old:
            self._new.write(lambda t: self._keep(t, old, "attempts"))
        return bool(old)

    def _running(self, transaction: Transaction) -> None:
        self._keep(transaction, self._older.running(), "")

    def _keep(self, transaction: Transaction, old: Sequence[OldAttempt], step: str) -> None:
        by_study: dict[int, list[OldAttempt]] = {}
        for attempt in old:
            by_study.setdefault(attempt.study, []).append(attempt)
        for number, attempts in by_study.items():
            study = self._older.studies[number]
            experiments = sorted({attempt.experiment for attempt in attempts})
            points = self._older.points(study, experiments)
            files = self._files(experiments, {a.experiment: a.digest for a in attempts})
            unaccepted = []
            for new_id, old_attempt in zip(
                transaction.numbers(len(attempts)), attempts, strict=True
            ):
                key = (old_attempt.experiment, old_attempt.outcome.attempt, old_attempt.driver)
                (out, err), artifacts = files(key)
                outcome = self._hosted(number, old_attempt.outcome)
                with_files = replace(outcome, stdout=out, stderr=err, artifacts=artifacts)
                row = points.get(old_attempt.experiment)
                place: tuple[Any, int, str | None] = (-1, 1, None)
                if row is not None:
                    place = (row.position, row.repeat, codec.dump_values(row.values))
                state: Any = old_attempt.state
                unaccepted.append(
                    UnacceptedAttempt(
                        new_id, *place, FIRST_ROUND, with_files, old_attempt.driver, state
                    )
                )
            context = self._context(transaction, number)
            outcome_recording.keep_attempts(context, unaccepted)
        if step:
            self._set(transaction, step, old[-1].experiment)

    def _events(self, transaction: Transaction) -> None:
        query = (
            "SELECT v.study, e.digest, v.at, v.kind, v.text FROM events v"
            " LEFT JOIN experiments e ON e.id = v.experiment ORDER BY v.id"
        )
        rows = [
            (study, None if digest is None else bytes(digest), *facts)
            for study, digest, *facts in self._older.sql(query)
        ]
        transaction.insert("events", ("version", "digest", "at", "kind", "text"), rows)
        transaction.sql("UPDATE machines SET assumed = 1")

    # What an attempt said and left, and where it ran

    def _files(
        self, experiments: Sequence[int], digests: dict[int, bytes]
    ) -> Callable[[tuple[int, int, int]], tuple[tuple[Log, Log], tuple[Artifact, ...]]]:
        logs = self._older.logs(experiments)
        artifacts = self._older.artifacts(experiments)

        def files(
            key: tuple[int, int, int],
        ) -> tuple[tuple[Log, Log], tuple[Artifact, ...]]:
            digest = digests[key[0]].hex()
            rows = (
                Artifact(codec.unescape(path), size, sha, Path(codec.unescape(file)))
                for path, size, sha, file in artifacts.get(key, ())
            )
            return (
                logs.get(key, (Log(), Log())),
                tuple(self._store.adopt(artifact, digest) for artifact in rows),
            )

        return files

    def _hosted(self, study: int, outcome: Outcome) -> Outcome:
        """With the kind of machine of the driver, which is only supposed to have run it."""
        facts = self._drivers_host(study, outcome.started)
        cores, memory = (facts.get(name) for name in ("cores", "memory"))
        machine = MachineKind(str(facts.get("cpu") or ""), cores if isinstance(cores, int) else 0)
        details = None
        if facts.get("name") == outcome.host:
            kernel = str(facts.get("kernel") or "")
            details = HostDetails(outcome.host, kernel, memory if isinstance(memory, int) else 0)
        machine_kind = machine if machine.cpu or machine.cores else None
        return replace(outcome, machine=machine_kind, host_details=details)

    def _drivers_host(self, study: int, started: float | None) -> dict[str, Any]:
        """Return the facts on the driver's machine in the definition of that time."""
        held: dict[str, Any] = {}
        for at, facts in self._hosts.get(study, ()):
            if not held or (started is not None and at <= started):
                held = facts
        return held

    @cached_property
    def _hosts(self) -> dict[int, list[tuple[float, dict[str, Any]]]]:
        facts_by_attempt: dict[int, list[tuple[float, dict[str, Any]]]] = {}
        for study, at, document in self._older.sql(
            "SELECT study, at, document FROM definitions ORDER BY id"
        ):
            facts = json.loads(document)["provenance"].get("host")
            facts_by_attempt.setdefault(study, []).append(
                (at, facts if isinstance(facts, dict) else {})
            )
        return facts_by_attempt


def _new(number: int, row: OldRow, outcome: Outcome) -> NewResult:
    return NewResult(number, row.position, row.repeat, FIRST_ROUND, row.values, outcome, row.driver)


def _essence(values: Any, outcome: Outcome) -> str:
    """Return what must not change, as a text that tells minus zero and NaN apart."""
    point = {name: value for name, value in values.items() if value is not None}
    facts = (
        outcome.digest, outcome.status, outcome.cause, outcome.attempt, outcome.host,
        outcome.started, outcome.ended, outcome.exit,
    )  # fmt: skip
    metrics = sorted((name, repr(value)) for name, value in outcome.metrics.items())
    return repr((facts, sorted((name, repr(value)) for name, value in point.items()), metrics))


def _uuid(older: LegacyRepositoryReader) -> str:
    """Return the same each time that the step is done."""
    facts = older.sql("SELECT id, name, created FROM studies ORDER BY id")
    return blake2b(repr(facts).encode(), digest_size=16).hexdigest()
