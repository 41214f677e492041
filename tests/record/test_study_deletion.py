"""What goes with a study, row by row, or changes, and what stays: that of the studies around it."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from postgres import slow_on_server
from zenturio.experiment.experiment import Artifact, HostConditions, Log
from zenturio.record import schema
from zenturio.record.database import Database
from zenturio.record.entities import DriverProcess, Field, StudyDefinition
from zenturio.record.open import dialect_at, open_repository
from zenturio.testing.experiments import dead_driver, experiment, outcome
from zenturio.testing.repository_machines import RISCV, ZEN5

NAMES = ("first", "middle", "last")
WIDE = {f"m{number}": float(number) for number in range(200)}
"""More metrics than a row of results has places for."""
COMMON = [experiment(number, salt="common") for number in range(3)]
FAILED = experiment(9, salt="common")


def ended(of, name, status="ok", attempt=1, **metrics):
    """An outcome with everything that hangs on an attempt; two studies leave the same content."""
    files = tuple(
        Artifact(path, 1, content * 64, Path("/kept", content)) for path, content in
        (("own", str(NAMES.index(name))), ("same", "f"))
    )  # fmt: skip
    conditions = HostConditions(load_start=1.0, slots=2)
    done = outcome(of, status, {"time": 1.0, **metrics}, attempt=attempt)
    return replace(
        done, stdout=Log(name.encode(), size=9), artifacts=files, conditions=conditions,
        machine=ZEN5,
    )  # fmt: skip


def fill(repository, name):
    """A study with rows in every table that deletion is about, some of them shared with others."""
    definition = StudyDefinition(
        (Field("n", "int"),), (Field("time"),), sources={"a.py": b"all", "b.py": name.encode()}
    )
    repository.open(name, definition)
    repository.cached(name, [*COMMON, FAILED])
    dead = repository.acquire_lease(name, dead_driver())
    stale, late = (experiment(number, salt=name) for number in (20, 21))
    repository.claim(name, dead.number, [stale, late])
    lease = repository.acquire_lease(name, DriverProcess.current())
    own = [experiment(number, salt=name) for number in range(4)]
    for batch in ([own[0], *COMMON], [own[1], FAILED]):
        claims = repository.claim(name, lease.number, batch)
        status = "failed" if FAILED in batch else "ok"
        ends = [
            ended(e, name, status, claims[e.digest], **WIDE) for e in batch if e.digest in claims
        ]
        repository.record(name, lease.number, ends)
    again = repository.claim(name, lease.number, [own[2]])[own[2].digest]
    repository.record(name, lease.number, [ended(own[2], name, "failed", again)], final=False)
    repository.record(name, dead.number, [ended(late, name)])
    if name != "first":
        repository.reopen(name, [FAILED.digest])
        attempt = repository.claim(name, lease.number, [FAILED])[FAILED.digest]
        repository.record(name, lease.number, [ended(FAILED, name, "failed", attempt)])
    repository.reopen(name, [own[1].digest])
    number = repository.begin_round(name, "again")
    repository.claim(name, lease.number, [own[0]], None, number)
    anew = replace(ended(own[0], name, attempt=2), machine=RISCV)
    repository.record(name, lease.number, [anew])
    repository.remeasure(name, [ended(own[0], name, attempt=2, time=3.0)])
    repository.add_event(name, "note", f"of {name}", own[0].digest)
    repository.release_lease(lease)


def fail_again(repository, name, times):
    """More attempts at the experiment that failed, the last of all studies."""
    lease = repository.acquire_lease(name, DriverProcess.current())
    for _ in range(times):
        while not (claims := repository.claim(name, lease.number, [FAILED])):
            repository.cached(name, [FAILED])  # a later failure of another study counts here, too
            repository.reopen(name, [FAILED.digest])
        attempt = claims[FAILED.digest]
        repository.record(name, lease.number, [ended(FAILED, name, "failed", attempt)])
    repository.release_lease(lease)


def add_older_rows(url):
    """Rows as an upgrade, or a study with parts of digests, leaves them: one for each result."""
    for statement in (
        "INSERT INTO aliases (digest, result, kind) SELECT digest, id, 'former' FROM results",
        "INSERT INTO recipes (version, format, document) SELECT id, 1, '{}' FROM versions",
    ):
        with closing(Database(dialect_at(url), 5)) as database:
            database.write(lambda transaction, text=statement: transaction.sql(text))


def stored(url):
    """Every row of every table, as pairs of column and value."""
    with closing(Database(dialect_at(url), 5)) as database:
        return database.read(rows_of)


def rows_of(transaction):
    return {
        table.name: {
            tuple(zip(names, map(_plain, row), strict=True))
            for names in [[column.name for column in table.columns]]
            for row in transaction.sql(f"SELECT {', '.join(names)} FROM {table.name}")
        }
        for table in schema.tables_of(transaction.dialect.name)
    }


def _plain(value):
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value)


def cells(rows, name):
    return {dict(row)[name] for row in rows}


OF_VERSIONS = (
    "results", "claims", "counters", "edits", "rounds", "recipes", "events", "definitions",
    "leases",
)  # fmt: skip
OF_ATTEMPTS = ("logs", "artifacts", "conditions")
OF_RESULTS = ("chunks", "copies", "aliases")
UNTOUCHED = ("projects", "machines", "hosts", "submissions", "upgrade")
NOBODY = "0"
"""The version of attempts whose number alone is remembered."""


class Deletion:
    """What the rows of a repository were before a study was deleted, and are afterwards."""

    def __init__(self, name, before, after):
        self.before, self.after = before, after
        self.study = next(dict(row)["id"] for row in before["studies"] if dict(row)["name"] == name)
        versions = {row for row in before["versions"] if dict(row)["study"] == self.study}
        (self.version,) = cells(versions, "id")
        self.attempts = {r for r in before["attempts"] if dict(r)["version"] != NOBODY}

    def others(self, table, column="version"):
        """Rows that are not of the version."""
        return {row for row in self.before[table] if dict(row)[column] != self.version}

    def check(self):
        others, before, after = self.others, self.before, self.after
        for table in OF_VERSIONS:
            assert after[table] == others(table) < before[table], table
        self.check_attempts()
        kept = cells(others("results") | (self.attempts & others("attempts")), "id")
        lent = {dict(row)["source"] for row in before["copies"] if dict(row)["result"] in kept}
        for table in OF_ATTEMPTS:
            rows = {row for row in before[table] if dict(row)["attempt"] in kept | lent}
            assert after[table] == rows, table
            assert rows < before[table]
        for table in OF_RESULTS:
            rows = {row for row in before[table] if dict(row)["result"] in kept}
            assert after[table] == rows, table
        definitions = cells(others("definitions"), "id")
        sources = {row for row in before["sources"] if dict(row)["definition"] in definitions}
        assert after["sources"] == sources < before["sources"]
        used = cells(sources | after["artifacts"], "content")
        contents = {row for row in before["contents"] if dict(row)["digest"] in used}
        assert after["contents"] == contents < before["contents"]
        assert after["versions"] == others("versions", "id")
        for table, column in (("fields", "study"), ("studies", "id")):
            rows = {row for row in before[table] if dict(row)[column] != self.study}
            assert {r for r in after[table] if dict(r)[column] != self.study} == rows, table
        assert self.study not in cells(after["fields"], "study")
        assert all(after[table] == before[table] for table in UNTOUCHED)

    def check_attempts(self):
        """Of an experiment that others have, the number of its last attempt never comes again."""
        present = self.attempts & self.others("attempts")
        assert {r for r in self.after["attempts"] if dict(r)["version"] != NOBODY} == present
        left = [dict(row) for row in self.after["attempts"] if dict(row)["version"] == NOBODY]
        last = last_numbers(self.before["results"], self.before["attempts"])
        others = last_numbers(self.others("results"), present)
        numbers = {digest: last[digest] for digest in others if others[digest] < last[digest]}
        assert sorted((row["digest"], int(row["number"])) for row in left) == sorted(
            numbers.items()
        )
        assert {row[name] for row in left for name in ("cause", "point", "metrics")} <= {"None"}

    def check_summary(self, removal):
        own = self.before["results"] - self.others("results")
        elsewhere = cells(self.others("results"), "digest")
        shared = sum(dict(row)["digest"] in elsewhere for row in own)
        copies = cells(self.before["copies"], "result")
        past = self.before["attempts"] - self.others("attempts")
        tried = sum(dict(row)["id"] not in copies for row in past)
        assert (removal.experiments, removal.shared) == (len(own) - shared, shared)
        # The claim of a driver that was lost is one more attempt by then.
        lost = len(self.before["claims"] - self.others("claims"))
        assert lost == 1
        assert removal.attempts == len(own) - shared + tried + lost
        logs = self.before["logs"] - self.after["logs"]
        assert removal.log_bytes == sum(len(dict(row)["stdout_head"]) for row in logs)
        contents = self.before["contents"] - self.after["contents"]
        paths = cells(contents & self.artifact_contents(), "foreign_path")
        assert removal.artifacts == tuple(sorted(paths))

    def artifact_contents(self):
        used = cells(self.before["artifacts"], "content")
        return {row for row in self.before["contents"] if dict(row)["digest"] in used}


def last_numbers(results, attempts):
    last = {}
    for column, rows in (("attempt", results), ("number", attempts)):
        for row in map(dict, rows):
            last[row["digest"]] = max(int(row[column]), last.get(row["digest"], 0))
    return last


@slow_on_server("url")
@pytest.mark.parametrize(
    "order",
    [
        ("middle", "first", "last"),
        pytest.param(("first", "middle", "last"), marks=pytest.mark.slow),
        pytest.param(("last", "middle", "first"), marks=pytest.mark.slow),
    ],
    ids="-".join,
)
def test_of_three_studies_each_goes_with_its_rows_and_no_others(url, order):
    with closing(open_repository(url)) as repository:
        for name in NAMES:
            fill(repository, name)
        fail_again(repository, order[1], 1)
        fail_again(repository, order[0], 3)
        add_older_rows(url)
        assert cells(stored(url)["sources"], "mode") == {str(0o644)}
        for name in order:
            if name == order[1]:
                # A later attempt than the last of the study that is gone; set aside, too.
                fail_again(repository, order[2], 1)
                repository.reopen(order[2], [FAILED.digest])
            lost = repository.acquire_lease(name, dead_driver())
            repository.claim(name, lost.number, [experiment(22, salt=name)])
            before = stored(url)
            removal = repository.preview_deletion(name)
            assert stored(url) == before
            assert repository.delete(name) == removal
            deletion = Deletion(name, before, stored(url))
            deletion.check()
            deletion.check_summary(removal)
        after = stored(url)
    tables = {
        *OF_VERSIONS,
        *OF_ATTEMPTS,
        *OF_RESULTS,
        "attempts",
        "sources",
        "contents",
        "versions",
    }
    assert not any(after[table] for table in tables)
    assert set(after) == {*tables, *UNTOUCHED, "studies", "fields"}


def changes(before, after):
    """By table how many rows are gone and how many are new; nothing of tables that are the same."""
    counts = {
        table: (len(before[table] - after[table]), len(after[table] - before[table]))
        for table in before
    }
    return {table: both for table, both in counts.items() if any(both)}


def rows_of_others(rows, version, study):
    """All rows but those of that version and its study; what belongs to nobody counts as theirs."""

    def ids(*tables):
        own = (dict(row) for table in tables for row in rows[table])
        return {row["id"] for row in own if row["version"] == version}

    attempts = ids("results", "attempts")
    owners = {"version": {version}, "study": {study}, "definition": ids("definitions")}
    columns = dict.fromkeys(OF_VERSIONS, "version") | {"attempts": "version", "versions": "id"}
    columns |= {"studies": "id", "fields": "study", "sources": "definition"}
    columns |= dict.fromkeys(OF_ATTEMPTS, "attempt") | dict.fromkeys(OF_RESULTS, "result")
    own = owners | {"attempt": attempts, "result": attempts}

    def others(table):
        column = columns.get(table)
        of = {"versions": {version}, "studies": {study}}.get(table) or own.get(column, set())
        return {row for row in rows[table] if column is None or dict(row)[column] not in of}

    return {table: others(table) for table in rows}


def test_what_is_done_to_a_study_changes_no_row_of_another(tmp_path):
    url = str(tmp_path / "a.db")
    with closing(open_repository(url)) as repository:
        for name in NAMES:
            fill(repository, name)
        for name in ("first", "last"):
            for driver, number in ((DriverProcess.current(), 30), (dead_driver(), 31)):
                lease = repository.acquire_lease(name, driver, join=True)
                repository.claim(name, lease.number, [experiment(number, salt=name)])
        before = stored(url)
        version, study = (
            next(dict(row)["id"] for row in before[table] if dict(row)[column] == value)
            for table, column, value in (("versions", "id", "2"), ("studies", "name", "middle"))
        )
        a, b, c, d = (experiment(40 + number, salt="middle") for number in range(4))
        acquired = repository.acquire_lease("middle", DriverProcess.current())
        number = acquired.number
        before, first = stored(url), before
        assert changes(first, before) == {"events": (0, 1), "leases": (0, 1)}

        def record(*outcomes, **more):
            return repository.record("middle", number, outcomes, **more)

        steps = {
            "renew": lambda: repository.renew_lease(acquired),
            "claim": lambda: repository.claim("middle", number, [a, b, c]),
            "record": lambda: record(ended(a, "middle", **WIDE)),
            "record again": lambda: record(ended(a, "middle", **WIDE)),
            "record late": lambda: record(ended(a, "middle", "failed", 2)),
            "set aside": lambda: record(ended(b, "middle", "failed"), final=False),
            "add": lambda: repository.add_results(
                "middle", number, [(d, ended(d, "middle", "failed"))]
            ),
            "remeasure": lambda: repository.remeasure("middle", [ended(a, "middle", time=9.0)]),
            "reopen": lambda: repository.reopen("middle", [d.digest]),
            "end round": lambda: repository.end_round("middle", 2),
            "begin round": lambda: repository.begin_round("middle", "more"),
            "order": lambda: repository.order_seed("middle"),
            "event": lambda: repository.add_event("middle", "note", "more"),
            "release": lambda: repository.release_lease(acquired),
            "define": lambda: repository.open(
                "middle", StudyDefinition((Field("n", "int"),), (Field("time"), Field("new")))
            ),
            "archive": lambda: repository.archive(repository.study("middle")),
        }
        done = {}
        for step, act in steps.items():
            act()
            after = stored(url)
            # Every row of every other study, to the last cell.
            untouched = [rows_of_others(rows, version, study) for rows in (before, after)]
            assert changes(*untouched) == {}, step
            done[step] = changes(before, after)
            before = after
    one, moved = (0, 1), (1, 1)
    kept = {"artifacts": (0, 2), "conditions": one, "logs": one}
    assert done == {
        "renew": {"leases": moved},
        "claim": {"claims": (0, 3)},
        "record": {**kept, "results": one, "chunks": (0, 3), "claims": (1, 0), "counters": one},
        "record again": {},
        "record late": {**kept, "attempts": one, "events": one},
        "set aside": {**kept, "attempts": one, "claims": (1, 0)},
        "add": {**kept, "results": one, "counters": one},
        "remeasure": {
            "results": moved, "chunks": (3, 0), "edits": one, "studies": moved, "versions": moved,
        },
        "reopen": {
            "results": (1, 0), "attempts": one, "counters": moved, "edits": (0, 2), "events": one,
            "versions": moved,
        },
        "end round": {"events": one},
        "begin round": {"events": one, "rounds": one},
        "order": {"rounds": moved},
        "event": {"events": one},
        "release": {"attempts": one, "claims": (1, 0), "events": (0, 2), "leases": moved},
        "define": {"definitions": one, "fields": one, "studies": moved, "versions": moved},
        "archive": {"studies": moved},
    }  # fmt: skip
