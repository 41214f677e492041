"""`zen db check` reads each row a fixed number of times, says how far it is, and can be stopped."""

import _thread

import pytest

from zenturio.record import DriverProcess, StudyDefinition, consistency_check, maintenance
from zenturio.record.database import Transaction
from zenturio.record.open import open_repository
from zenturio.testing.experiments import experiment, outcome


def filled(path, count):
    repository = open_repository(path)
    repository.open("s", StudyDefinition())
    lease = repository.acquire_lease("s", DriverProcess.current())
    experiments = [experiment(number) for number in range(count)]
    repository.add_results("s", lease.number, [(e, outcome(e)) for e in experiments])
    repository.release_lease(lease)
    return repository


def test_a_check_says_how_far_it_is(tmp_path, monkeypatch):
    filled(tmp_path / "zenturio.db", 250).close()
    monkeypatch.setattr(consistency_check, "_PART", 100)
    steps = []
    maintenance.check_repository(tmp_path / "zenturio.db", step=lambda *step: steps.append(step))
    shares = [done / total for done, total in steps]
    assert shares == sorted(shares)
    assert len({total for _, total in steps}) == 1
    assert 0 < shares[0] < shares[-1] <= 1
    assert len(steps) >= 250 // 100 + len(consistency_check._LAWS)


def test_a_value_in_any_part_is_seen(tmp_path, monkeypatch):
    repository = filled(tmp_path / "zenturio.db", 250)
    monkeypatch.setattr(consistency_check, "_PART", 100)
    connection = repository.connections.raw_connection()
    connection.cursor().execute("UPDATE results SET host = 'nowhere' WHERE position = 170")
    connection.cursor().execute("UPDATE results SET host = x'00' WHERE position = 240")
    connection.close()
    repository.close()
    faults = [d.message for d in maintenance.check_repository(tmp_path / "zenturio.db")]
    assert [fault.split(": ", 1)[1] for fault in faults] == [
        "1 values of results.host are no such value (blob)",
        "1 values of results.host are no such value (text)",
    ]


@pytest.mark.parametrize("slot", ["v2", "v9", "v31"])
def test_a_value_that_no_slot_may_have_is_seen_in_any_of_them(tmp_path, slot):
    repository = filled(tmp_path / "zenturio.db", 10)
    connection = repository.connections.raw_connection()
    connection.cursor().execute(f"UPDATE results SET {slot} = x'00' WHERE position = 7")
    connection.close()
    repository.close()
    faults = [d.message for d in maintenance.check_repository(tmp_path / "zenturio.db")]
    assert [fault.split(": ", 1)[1] for fault in faults] == [
        f"1 values of results.{slot} are no such value (blob)"
    ]


def test_the_statements_of_a_check_do_not_grow_with_the_rows_or_the_columns(tmp_path, monkeypatch):
    counts = [0]
    plain = Transaction.sql

    def counted(self, text, parameters=()):
        counts[-1] += 1
        return plain(self, text, parameters)

    monkeypatch.setattr(Transaction, "sql", counted)
    for count in (10, 300):
        filled(tmp_path / f"{count}.db", count).close()
        counts.append(0)
        assert maintenance.check_repository(tmp_path / f"{count}.db") == ()
        counts.append(0)  # what fills the next one
    assert counts[1] == counts[3] < 200


def test_a_statement_that_takes_long_can_be_interrupted(tmp_path):
    repository = filled(tmp_path / "zenturio.db", 10)
    endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT max(n) FROM c"

    def ask(transaction):
        with transaction.interruptible():
            _thread.interrupt_main()
            return transaction.sql(endless)

    with pytest.raises(KeyboardInterrupt):
        repository._database.read(ask)
    assert repository.studies()
    repository.close()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("artifacts SET size = 'many'", "artifacts.size are no such value (text)"),
        ("artifacts SET path = x'00ff'", "artifacts.path are no such value (blob)"),
        ("contents SET foreign_path = x'ff'", "contents.foreign_path are no such value (blob)"),
    ],
)
def test_an_artifact_with_damaged_values_is_told_of(tmp_path, change, fault):
    repository = filled(tmp_path / "zenturio.db", 1)
    cursor = repository.connections.raw_connection().cursor()
    cursor.execute("INSERT INTO contents (digest, size) VALUES (zeroblob(32), 1)")
    cursor.execute("INSERT INTO artifacts VALUES (1, 'a', 0, 420, 1, zeroblob(32))")
    cursor.execute(f"UPDATE {change}")
    repository.close()
    faults = [d.message for d in maintenance.check_repository(tmp_path / "zenturio.db")]
    assert any(fault in message for message in faults)
