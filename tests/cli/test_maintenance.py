"""What the verbs that maintain the repository print."""

import json
from pathlib import Path

import pytest

from record.old import make_old
from record.worker import STUDY, drive
from zenturio.cli import maintenance, safe_streams
from zenturio.errors import InputError
from zenturio.record.database_roles import Team
from zenturio.record.redaction import Redaction
from zenturio.record.sql_names import REVISIONS
from zenturio.study.maintenance import RedactResult


@pytest.fixture
def database(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    drive("a.db", 5, 5)
    capsys.readouterr()
    return "a.db"


def test_a_backup_is_named_with_its_size_and_so_are_those_that_are_removed(database, capsys):
    maintenance.backup(Path("copy.db"), db=database)
    size = Path("copy.db").stat().st_size
    assert capsys.readouterr().out == f"copied to copy.db ({size:,} bytes)\n"
    maintenance.backup(db=database)
    (first,) = capsys.readouterr().out.splitlines()
    maintenance.backup(keep=1, db=database)
    second, removed = capsys.readouterr().out.splitlines()
    assert first.split()[2] == removed.removeprefix("removed ")
    maintenance.backup(keep=1, db=database, json=True)
    facts = json.loads(capsys.readouterr().out)
    assert facts["removed"] == [second.split()[2]]
    assert facts["bytes"] == Path(facts["copy"]).stat().st_size
    with pytest.raises(InputError, match="--keep applies to"):
        maintenance.backup(Path("other.db"), keep=2, db=database)


def test_a_restored_backup_is_named(database, capsys):
    maintenance.backup(Path("copy.db"), db=database)
    for name, is_json in (("b.db", False), ("c.db", True)):
        capsys.readouterr()
        maintenance.restore(Path("copy.db"), db=name, json=is_json)
        told = capsys.readouterr().out
        place = str(Path(name).absolute())
        if is_json:
            assert json.loads(told) == {"restored": place}
        else:
            assert told == f"restored {place}; no damage found\n"


def test_an_upgrade_says_from_where_to_where_and_what_it_keeps(tmp_path, capsys):
    path = tmp_path / "a.db"
    make_old(str(path))
    capsys.readouterr()
    maintenance.upgrade(db=str(path))
    maintenance.upgrade(db=str(path))
    assert capsys.readouterr().out.splitlines() == [
        f"upgraded from 0001 to {REVISIONS[-1]}; copy of the earlier one: {path}.0001",
        f"the database is up to date: {REVISIONS[-1]}",
    ]


def test_a_salvage_says_what_is_saved_and_what_runs_again(database, capsys):
    maintenance.salvage(Path(database), Path("new.db"))
    out = capsys.readouterr().out
    assert out.endswith("\nthe next zen run repeats 0 experiments; new database: new.db\n")
    assert ["results", "5"] in [line.split() for line in out.splitlines()]
    assert "could not be read" not in out
    maintenance.salvage(Path(database), Path("other.db"), json=True)
    facts = json.loads(capsys.readouterr().out)
    assert (facts["target"], facts["rows"]["results"], facts["waiting"]) == ("other.db", 5, 0)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_copy_says_how_far_it_is_on_a_terminal_alone(database, capsys, monkeypatch, is_terminal):
    monkeypatch.setattr(safe_streams, "is_moving", lambda _stream: is_terminal)
    maintenance.copy(database, "b.db")
    told = capsys.readouterr()
    assert ("results: 5 rows" in told.err) == is_terminal
    assert told.out.startswith("5 results of 1 studies are in both databases, with equal values")
    maintenance.copy(database, "c.db", json=True)
    assert json.loads(capsys.readouterr().out)["rows"]["results"] == 5


def test_views_are_a_table_or_facts(database, capsys):
    maintenance.views(pin=[STUDY], db=database)
    assert f"study_{STUDY}" in capsys.readouterr().out
    maintenance.views(db=database, json=True)
    (view,) = json.loads(capsys.readouterr().out)
    assert (view["study"], view["is_pinned"]) == (STUDY, True)


def test_a_team_is_named_by_what_each_role_may_do():
    team = Team("lab", ("dora",), ("alice", "bob"), ("carol",), is_private=True)
    rights = "dora can administer; alice, bob can write; carol can read"
    hidden = "readers do not see recorded programs and the queue"
    assert maintenance._members(team) == f"{rights}; {hidden}"
    shown = Team("lab", readers=("carol",), is_private=False)
    expected = "carol can read; readers see recorded programs and the queue"
    assert maintenance._members(shown) == expected
    assert maintenance._members(Team("lab")) == "add --writer and --reader to let others use it"


def redaction(*, rows, numbers=0, server=False, schemas=(), more=()):
    """A secret in so many *rows* of logs and, with *more*, in these files."""
    tables = {"logs": rows} if rows else {}
    found = Redaction(tables, numbers, more, (), more, server, schemas)
    return RedactResult(found, more, more, more)


def lines(result, *, really=False, backups=False):
    return maintenance._lines(result, really=really, backups=backups)


CHANGE = "change the secret where it is used; if your program still has it, the next run records it again"


def test_a_redaction_says_where_the_secret_is_and_what_becomes_of_it():
    nowhere = redaction(rows=0)
    assert lines(nowhere) == lines(nowhere, really=True) == ["the secret is not in the record"]
    here = redaction(rows=1200, more=(Path("f"),))
    stays = "a copy of the database may have it: f (--backups removes it)"
    assert lines(here) == [
        "would redact 1,200 rows of logs", "would redact an artifact: f", "would redact f",
        "still there: f", stays, "to do it, add --yes",
    ]  # fmt: skip
    assert lines(here, really=True, backups=True) == [
        "redacted 1,200 rows of logs", "redacted an artifact: f", "redacted f", "still there: f",
        "removed the copy f", CHANGE,
    ]  # fmt: skip
    assert "would remove the copy f" in lines(here, backups=True)
    assert stays in lines(here, really=True)


def test_a_redaction_says_what_it_leaves_on_a_server():
    on_server = redaction(rows=1, numbers=2, server=True, schemas=("team-0007",))
    numbers = "2 recorded numbers are equal to it and stay; zen prune STUDY removes them"
    schema = "a copy of the tables may have it: schema team-0007, which its administrator can drop"
    vacuum = "the server's files have the old rows until VACUUM FULL logs; its logs and backups are"
    assert lines(on_server) == [
        "would redact 1 row of logs", numbers, schema, "to do it, add --yes",
    ]  # fmt: skip
    done = lines(on_server, really=True)
    assert done[:3] == ["redacted 1 row of logs", numbers, schema]
    assert done[3:] == [f"{vacuum} the administrator's", CHANGE]
