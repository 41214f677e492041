"""What `zen db check` calls wrong: each law, and each value that no program of ours has written."""

import contextlib

import pytest

from record.worker import drive
from zenturio.record import consistency_check, schema
from zenturio.record.database import Database
from zenturio.record.open import dialect_at


class _Undone(Exception):
    """Ends a transaction whose changes are not to stay."""


class Sabotage:
    """Changes a sound repository, sees what is found, and takes the change back."""

    def __init__(self, url):
        drive(str(url), 10, 5)
        self.database = Database(dialect_at(url), 5)

    def found(self, change, find=None):
        found = []

        def attempt(transaction):
            change(transaction)
            look = find or (lambda t: consistency_check._found(t, lambda _done, _total: None))
            found.extend(look(transaction))
            raise _Undone

        with contextlib.suppress(_Undone):
            self.database.write(attempt)
        return found

    def values_found(self, statement, most=20):
        def find(transaction):
            return consistency_check.foreign_values(transaction, most)

        return self.found(lambda transaction: transaction.sql(statement), find)


def sql(*statements):
    def change(transaction):
        for statement in statements:
            transaction.sql(statement)

    return change


def row(table, **values):
    """A change that adds a row: what is not given is of the right type, and of result 3."""

    def change(transaction):
        ((digest,),) = transaction.sql("SELECT digest FROM results WHERE id = 3")
        columns = schema.metadata.tables[table].columns
        cells = {
            column.name: values.get(column.name, _default(column, bytes(digest)))
            for column in columns
            if not column.nullable
        }
        transaction.insert(table, list(cells), [list(cells.values())])

    return change


def _default(column, digest):
    name = type(column.type).__name__
    if name == "LargeBinary":
        return digest
    return {"Text": "[]", "Double": 1.0, "Numeric": 1}.get(name, 1)


CLAIM = {"id": 999, "version": 1, "target": 0}
BROKEN = {
    "results in an unknown state": sql("UPDATE results SET status = 'x' WHERE id = 3"),
    "results without an attempt": sql("UPDATE results SET attempt = 0 WHERE id = 3"),
    "results whose mark as the newest contradicts their rounds": sql(
        "UPDATE results SET newest = 0 WHERE id = 3"
    ),
    "results of rounds that do not exist": sql("UPDATE results SET round = 2 WHERE id = 3"),
    "claims of drivers that have no lease": row("claims", **CLAIM, lease=77, attempt=9),
    "claims on experiments that their driver has recorded": row("claims", **CLAIM),
    "duplicate numbers of attempts": row("attempts", id=3, state="stale"),
    "results of versions that are not there": sql("UPDATE results SET version = 77 WHERE id = 3"),
    "claims of versions that are not there": row("claims", **{**CLAIM, "version": 77}),
    "attempts of versions that are not there": row("attempts", id=99, version=77),
    "leases of versions that are not there": sql("UPDATE leases SET version = 77"),
    "definitions of versions that are not there": sql("UPDATE definitions SET version = 77"),
    "recipes of versions that are not there": row("recipes", id=9, version=77),
    "events of versions that are not there": row("events", id=99, version=77),
    "counters of versions that are not there": row("counters", version=77),
    "edits of versions that are not there": row("edits", version=77),
    "rounds of versions that are not there": row("rounds", version=77),
    "versions of studies that are not there": sql("UPDATE versions SET study = 77"),
    "fields of studies that are not there": row("fields", study=77, role="metric", place="v9"),
    "studies whose present version is not there": sql("UPDATE studies SET current = 77"),
    "chunks of results that are not there": row("chunks", result=77),
    "copies that are not there": row("copies", result=77, source=1),
    "aliases of results that are not there": row("aliases", result=77),
    "logs of attempts that are not there": row("logs", attempt=77),
    "artifacts of attempts that are not there": row("artifacts", attempt=77),
    "conditions of attempts that are not there": row("conditions", attempt=77),
    "artifacts whose content is not known": row("artifacts", attempt=3),
    "sources whose content is not known": row("sources", definition=1),
    "sources of definitions that are not there": row("sources", definition=77),
    "results of hosts that are not known": sql("UPDATE results SET host = 77 WHERE id = 3"),
    "results of machines that are not known": sql("UPDATE results SET machine = 77 WHERE id = 3"),
}


def test_each_law_is_checked_and_a_sound_repository_breaks_none(url):
    assert list(BROKEN) == list(consistency_check._LAWS)
    sabotage = Sabotage(url)
    assert sabotage.found(sql()) == []
    for law, change in BROKEN.items():
        assert f"1 {law}" in sabotage.found(change), law
    for change, message in {
        "UPDATE counters SET count = 7 WHERE status = 'ok'": "counts 7 experiments as ok and has 10",
        "DELETE FROM results WHERE id = 3": "counts 10 experiments as ok and has 9",
        "DELETE FROM counters": "counts 0 experiments as ok and has 10",
        "UPDATE fields SET place = 'v0'": "fields of study number 1 stand at v0",
        "UPDATE fields SET place = 'v0,c3'": "stand at c3",
        "UPDATE results SET version = 77": "10 results of versions that are not there",
    }.items():
        assert any(message in text for text in sabotage.found(sql(change))), change
    # What a version that was pruned has left belongs to none, and that is no fault.
    assert sabotage.found(row("attempts", id=99, version=0, number=1)) == []
    sabotage.database.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    sabotage = Sabotage(tmp_path_factory.mktemp("sound") / "a.db")
    yield sabotage
    sabotage.database.close()


LARGEST = 2**53
END = 253402300800  # of the year 9999
VALUES = {
    "results.started": (["0", "1.5", f"{END}"], ["-0.5", f"{END}.5", "9e999", "'one'", "x'31'"]),
    "results.repeat": ([f"{LARGEST}", f"-{LARGEST}"], [f"{LARGEST + 1}", f"-{LARGEST + 1}", "1.5"]),
    "results.exit": (["NULL", "0"], ["'x'", "1.5"]),
    "results.digest": (["zeroblob(16)", "zeroblob(32)"], ["zeroblob(17)", "zeroblob(0)", "'a'"]),
    "results.position": (
        ["5", "-3", "'000020:12345678901234567890'", "'000003:-12'"],
        ["'00020:12'", "'000020:'", "'000020:1a'", "'0000201'", "1.5", "x'00'"],
    ),
    "results.cause": (["NULL", "''", "'why'"], ["x'00'"]),
    "results.v0": (["NULL", "1", "1.5", "'text'"], ["x'00'"]),
    "results.remarks": (["NULL", "'{}'"], ["'{'", "''"]),
    "results.key": (["NULL", "x'00'"], ["'text'", "1"]),
    "versions.members": (["'{}'"], ["'{'", "x'7b7d'"]),
    "fields.role": (["'metric'", "'parameter'"], ["'other'", "''"]),
    "fields.forms": (["0", "63"], ["-1", "64"]),
    "fields.place": (["'v0'", "'c12'", "'v0,c1'"], ["'v0;'", "'d0'", "x'00'"]),
    "leases.seconds": (["-1.5", "1e300", "7"], ["'x'", "x'00'"]),
    "leases.pid": (["1", f"{LARGEST}"], [f"{LARGEST + 1}", "'x'"]),
}


def test_a_value_that_no_program_of_ours_has_written_is_named(file):
    for name, (good, bad) in VALUES.items():
        table, column = name.split(".")
        for value in (*good, *bad):
            change = (
                f"UPDATE {table} SET {column} = {value} WHERE rowid ="
                f" (SELECT max(rowid) FROM {table})"
            )
            found = file.values_found(change)
            if value in good:
                assert found == [], change
            else:
                assert [text.split(" are no")[0] for text in found] == [f"1 values of {name}"]


def test_every_row_is_looked_at_whatever_the_parts_and_the_first_number(file, monkeypatch):
    for part in (3, 10):
        monkeypatch.setattr(consistency_check, "_PART", part)
        for number in range(1, 11):
            assert (
                len(file.values_found(f"UPDATE results SET host = x'00' WHERE id = {number}")) == 1
            )

        def steps_of(transaction):
            steps = []
            columns = schema.metadata.tables["results"].columns
            assert all(consistency_check._is_sound(transaction, "results", columns, steps.append))
            return steps

        steps = file.found(sql("UPDATE results SET id = id + 50"), steps_of)
        assert (sum(steps), max(steps)) == (10, min(part, 10))


def test_as_many_faults_are_named_as_are_asked_for(file):
    change = "UPDATE results SET started = 'x', ended = 'x', host = 'x', lease = 'x'"
    counts = [len(file.values_found(change, most)) for most in (1, 2, 3, 20)]
    assert counts == [1, 2, 3, 4]


def test_values_of_no_type_that_their_field_has_are_named(file):
    (place,) = file.found(
        sql(), lambda t: [t.sql("SELECT place FROM fields WHERE name = 'n'")[0][0]]
    )
    slot = place.split(",")[0]
    of = consistency_check.foreign_slots
    for value, wrong in (("7", 0), ("NULL", 0), ("'x'", 1), ("1.5", 1)):
        found = file.found(sql(f"UPDATE results SET {slot} = {value} WHERE id = 3"), of)
        assert found == wrong * [f"1 values of the field 'n' ({slot}) are of no type that it has"]
    for place in ("w0", "v0v", "x" * 50):
        found = file.found(sql(f"UPDATE fields SET place = '{place}' WHERE name = 'n'"), of)
        assert found == [f"the place of the field 'n' is none: {place[:40]!r}"]


def test_progress_ends_where_all_is_read(file):
    steps = []
    file.found(
        sql(),
        lambda t: consistency_check._found(t, lambda done, total: steps.append((done, total))),
    )
    rows = file.found(sql(), lambda t: [consistency_check._rows_of_tables(t)])[0]
    assert rows["results"] == 10
    (total,) = {total for _, total in steps}
    assert total >= 2 * sum(rows.values())
    assert steps[0][0] == 2 * sum(rows.values())
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)


def test_what_is_wrong_with_an_opened_file_is_told_while_it_is_open(tmp_path):
    assert not _told(tmp_path / "a.db")
    database = Sabotage(tmp_path / "a.db").database
    assert not _told(tmp_path / "a.db")
    columns = ("started", "ended", "host", "lease")
    for column in columns:
        statement = f"UPDATE results SET {column} = 'x' WHERE id = 3"
        database.write(lambda transaction, text=statement: transaction.sql(text))
    told = _told(tmp_path / "a.db")
    assert len(told) == 3  # of more, three are enough
    assert all("is damaged: 1 values of results." in d.message for d in told)
    assert all("zen db check" in d.hint for d in told)
    database.close()


def _told(path):
    found = consistency_check.damage_of_opened_files()
    return [diagnostic for diagnostic in found if str(path) in diagnostic.message]
