"""Where a secret is taken out of the files of a project, and where it can only be shown."""

import json

import pytest

from zenturio.errors import ConflictError
from zenturio.files import write_output
from zenturio.record import StudyDefinition
from zenturio.record.maintenance import backup
from zenturio.record.open import open_repository
from zenturio.study import maintenance as module
from zenturio.study.maintenance import redact

SECRET = "tok-5f0e'8d\"2c"
MARK = "********"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The folder of a project with an empty repository."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".zenturio"
    folder.mkdir()
    repository = open_repository()
    repository.open("s", StudyDefinition((), ()))
    repository.close()
    return folder


def put(path, content=SECRET, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)
    return path


def test_files_of_the_project_are_written_anew_and_keep_their_permissions(home):
    log = put(home / "work" / "log.txt", f"as {SECRET}.", 0o640)
    script = put(home / "run.sh", f"echo {SECRET}", 0o755)
    facts = put(home / "facts.json", json.dumps({"word": SECRET, "n": 1}))
    bytes_ = put(home / "odd.json", b"\xff" + SECRET.encode())
    harmless = put(home / "harmless", "nothing")
    log.parent.chmod(0o555)
    before = [log.read_bytes(), harmless.stat().st_ino]
    assert redact(None, SECRET).files == (facts, bytes_, script, log)
    assert [log.read_bytes(), harmless.stat().st_ino] == before
    result = redact(None, SECRET, really=True)
    assert (result.files, result.remaining, result.places) == ((facts, bytes_, script, log), (), 4)
    assert log.read_text() == f"as {MARK}."
    assert script.read_text() == f"echo {MARK}"
    assert json.loads(facts.read_text()) == {"word": MARK, "n": 1}
    assert bytes_.read_bytes() == b"\xff" + MARK.encode()
    assert [path.stat().st_mode & 0o7777 for path in (log, script)] == [0o640, 0o755]
    assert log.parent.stat().st_mode & 0o7777 == 0o555
    assert list(log.parent.iterdir()) == [log]
    assert harmless.stat().st_ino == before[1]
    log.parent.chmod(0o755)


def test_what_a_run_makes_anew_is_removed_as_a_whole(home):
    build = put(home / "builds" / "one" / "deep" / "built.txt", mode=0o444)
    other = put(home / "builds" / "other" / "built.txt", "nothing")
    plain = put(home / "cache" / "plain")
    build.parent.chmod(0o555)
    result = redact(None, SECRET, really=True)
    assert set(result.files) == {build, plain}
    assert list((home / "builds").iterdir()) == [other.parent]
    assert other.read_text() == "nothing"
    assert list((home / "cache").iterdir()) == []


def test_what_cannot_be_written_is_named(home, tmp_path):
    named = put(home / "work" / f"{SECRET}.txt", "nothing")
    database = put(home / "other.db", b"SQLite format 3\0" + SECRET.encode())
    log = put(home / "other.db-wal")
    link = home / "link"
    outside = put(tmp_path / "outside")
    link.symlink_to(outside)
    kept = put(home / "not-a.db-wal")
    for really in (False, True):
        result = redact(None, SECRET, really=really)
        assert result.files == (kept,)
        assert result.remaining == (database, log, named)
    assert [path.read_bytes() for path in (named, log)] == [b"nothing", SECRET.encode()]
    assert outside.read_text() == SECRET
    assert link.is_symlink()
    assert kept.read_text() == MARK


def test_what_was_written_for_people_and_holds_the_secret_is_named(home, tmp_path):
    for name, text in (("report.html", f"<p>{SECRET}</p>"), ("plain.csv", "n\n1\n")):
        write_output(tmp_path / name, [text.encode()])
    put(tmp_path / "mine.txt")
    for really in (False, True):
        assert redact(None, SECRET, really=really).remaining == (tmp_path / "report.html",)
    assert SECRET in (tmp_path / "report.html").read_text()


def test_copies_of_the_database_are_removed_where_that_is_asked_for(home):
    copy = home / "backups" / "a.db"
    copy.parent.mkdir()
    backup(None, copy)
    for words in ({}, {"really": True}, {"backups": True}):
        assert redact(None, SECRET, **words).backups == (copy,)
        assert copy.exists()
    assert redact(None, SECRET, really=True, backups=True).facts()["backups"] == [str(copy)]
    assert not copy.exists()


def test_nothing_is_taken_from_under_a_driver_or_a_service(home, monkeypatch):
    log = put(home / "log.txt")
    monkeypatch.setattr(module, "live_driver_pids", lambda _home: iter([4711]))
    with pytest.raises(ConflictError, match="process 4711 runs experiments"):
        redact(None, SECRET, really=True)
    assert redact(None, SECRET).files == (log,)
    monkeypatch.setattr(module, "live_driver_pids", lambda _home: iter(()))
    monkeypatch.setattr(module, "is_served", lambda _home: True)
    with pytest.raises(ConflictError, match="a service works on this project"):
        redact(None, SECRET, really=True)
    assert log.read_text() == SECRET
