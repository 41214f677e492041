"""No verb and no page believes a database file of others: it answers, or refuses with a reason.

Whatever the file holds: an exit code of those that are documented, no traceback, a bounded time and
memory, and nothing outside of the project is written or removed.
"""

import os
import random

import pytest

import hostile_databases as hostile
from loaded import zen

DOCUMENTED = (0, 2, 3, 4, 5, 6)
CPU_SECONDS = 20
SALVAGE_SECONDS = 90
"""Each page is read in Python, and some of a table's first rows are read to recognise it."""
MEMORY = 2 * 1024**3
VERBS = (
    ("list",),
    ("status",),
    ("status", "p"),
    ("show", "DIGEST"),
    ("logs", "DIGEST"),
    ("diff", "DIGEST", "OTHER"),
    ("results", "p"),
    ("results", "p", "--all", "--json"),
    ("results", "p", "--by", "n", "--agg", "mean"),
    ("results", "p", "--where", "t > 1", "--format", "csv"),
    ("sql", "select * from study_p_all"),
    ("compare", "p", "p@1"),
    ("fit", "p"),
    ("plot", "p", "--x", "n", "--y", "t", "-o", "x.svg"),
    ("plot", "p", "--kind", "gantt", "-o", "y.svg"),
    ("report", "p", "-o", "r.html"),
    ("best", "p"),
    ("queue",),
    ("db", "check"),
    ("db", "check", "--artifacts"),
    ("db", "upgrade"),
    ("db", "backup", "copy.db"),
    ("db", "salvage", ".zenturio/zenturio.db", "saved.db"),
    ("prune",),
    ("prune", "p"),
    ("run", "p.sh", "--dry-run"),
    ("equate", "p@1", "p.sh"),
    ("extract", "p"),
    ("cancel", "p"),
    ("attach", "p"),
    ("run", "p.sh"),
    ("prune", "p", "p@1", "--yes"),
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A project with two versions of a study, series, failures, artifacts."""
    folder = tmp_path_factory.mktemp("sound")
    for points in ("{1:3}", "{1:4}"):
        (folder / "p.sh").write_text(hostile.PROGRAM.replace("{1:3}", points))
        assert zen("run", "p.sh", cwd=folder).returncode == 3
    return folder


@pytest.fixture(scope="module")
def digests(sound):
    done = zen("sql", "SELECT lower(hex(digest)) FROM results ORDER BY id", cwd=sound)
    return [line.strip()[:12] for line in done.stdout.splitlines()[1:]]


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setenv("ZENTURIO_DB_WAIT", "2")


def holds(folder, verb, digests):
    words = [{"DIGEST": digests[0], "OTHER": digests[1]}.get(word, word) for word in verb]
    before = hostile.state_of(folder / "outside")
    seconds = SALVAGE_SECONDS if "salvage" in verb else CPU_SECONDS
    done = zen(*words, cwd=folder / "project", cpu_seconds=seconds, memory=MEMORY)
    assert done.returncode in DOCUMENTED, (words, done.returncode, done.stderr[-2000:])
    assert "Traceback" not in done.stderr, (words, done.stderr[-2000:])
    assert hostile.state_of(folder / "outside") == before, words
    if verb[0] != "logs":
        assert "\x1b" not in done.stdout + done.stderr


def sample():
    """Cases with two verbs each, of every kind; the same ones each time."""
    chance = random.Random(12)
    kinds = (hostile.TRIGGERS, hostile.SCHEMAS, hostile.VALUES, hostile.mistyped())
    names = [name for kind in kinds for name in chance.sample(sorted(kind), 2)]
    names += ["file: pipe", "file: wal is a link", "file: store is a link"]
    drawn = [(name, [*chance.sample(VERBS, 1), VERBS[-1]]) for name in names]
    found = [
        ("conditions.attempt = (1 << 62)", [("db", "check")]),  # a gap that was walked through
        ("file: random bytes", [("db", "backup", "copy.db")]),  # a message that is no UTF-8
    ]
    return [pytest.param(*each, id=each[0]) for each in [*drawn, *found]]


@pytest.mark.parametrize(("case", "verbs"), sample())
def test_a_hostile_database_is_answered_or_refused(sound, digests, tmp_path, case, verbs):
    hostile.make(sound, tmp_path, case)
    for verb in verbs:
        holds(tmp_path, verb, digests)


WHOLE = [
    *hostile.TRIGGERS,
    *hostile.SCHEMAS,
    *hostile.VALUES,
    *(f"file: {name}" for name in hostile.FILES),
    *random.Random(7).sample(sorted(hostile.mistyped()), 40),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", WHOLE)
def test_every_verb_answers_or_refuses(sound, digests, tmp_path, subtests, case):
    hostile.make(sound, tmp_path, case)
    for verb in VERBS:
        with subtests.test(" ".join(verb)):
            holds(tmp_path, verb, digests)


def test_a_sound_database_is_not_called_hostile(sound, digests, tmp_path):
    done = zen("db", "check", "--artifacts", cwd=sound)
    assert (done.returncode, done.stdout) == (0, "no damage found\n")


@pytest.mark.parametrize("name", ["wal is a link", "journal is a link", "shm is a link", "pipe"])
def test_what_is_no_file_of_the_database_is_named(sound, tmp_path, name):
    hostile.make(sound, tmp_path, f"file: {name}")
    done = zen("list", cwd=tmp_path / "project", cpu_seconds=CPU_SECONDS)
    assert done.returncode == 4
    assert "zenturio.db" in done.stderr
    assert "remove it if you did not make it" in done.stderr


@pytest.mark.parametrize("case", [*hostile.TRIGGERS, "generated column", "index of an expression"])
def test_code_in_a_database_is_named_and_salvage_leaves_it_behind(sound, tmp_path, case):
    hostile.make(sound, tmp_path, case)
    project = tmp_path / "project"
    done = zen("list", cwd=project)
    assert done.returncode == 4
    assert "was changed by another program" in done.stderr
    saved = zen("db", "salvage", ".zenturio/zenturio.db", "saved.db", cwd=project)
    assert saved.returncode == 0, saved
    assert zen("list", "--db", "saved.db", cwd=project).returncode == 0


def test_values_of_another_type_are_named_by_table_and_column(sound, digests, tmp_path):
    hostile.make(sound, tmp_path, "results.started = x'00ff1b'")
    for verb in (["db", "check"], ["show", digests[0]]):
        done = zen(*verb, cwd=tmp_path / "project")
        assert done.returncode == 4, done
        assert "results.started" in done.stdout + done.stderr


@pytest.mark.parametrize("case", ["text for a number", "huge ids"])
def test_cells_that_are_no_numbers_and_versions_that_are_none_are_refused(sound, tmp_path, case):
    hostile.make(sound, tmp_path, case)
    done = zen("results", "p", cwd=tmp_path / "project")
    assert done.returncode == 4, done
    assert "zen db check" in done.stderr


def test_an_honest_index_and_view_of_the_user_are_left_alone(sound, tmp_path):
    import sqlite3

    hostile.make(sound, tmp_path, "file: text")  # a copy, of which the database is put back
    database = tmp_path / "project" / ".zenturio" / "zenturio.db"
    database.write_bytes((sound / ".zenturio" / "zenturio.db").read_bytes())
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE INDEX mine ON results (started, ended)")
        connection.execute("CREATE VIEW my_view AS SELECT * FROM results")
        connection.execute("CREATE TABLE my_notes (text)")
    assert zen("list", cwd=tmp_path / "project").returncode == 0
    assert zen("sql", "SELECT count(*) FROM my_view", cwd=tmp_path / "project").returncode == 0


def test_copies_are_neither_made_nor_removed_through_a_link(sound, tmp_path):
    hostile.make(sound, tmp_path, "file: backups is a link")
    project, others = tmp_path / "project", tmp_path / "outside"
    for name in ("zenturio-20200101T000000.000000Z.db", "zenturio-20210101T000000.000000Z.db"):
        (others / name).write_text("keep me, secret-word\n")
    before = hostile.state_of(others)
    for verb in (["db", "backup", "--keep", "1"], ["redact", "secret-word", "--yes", "--backups"]):
        done = zen(*verb, cwd=project)
        assert done.returncode == 6, done
        assert "is a link" in done.stderr
    assert hostile.state_of(others) == before


@pytest.mark.parametrize("name", ["zenturio.toml", "p.sh"])
def test_a_pipe_in_a_project_is_not_waited_for(sound, tmp_path, name):
    hostile.make(sound, tmp_path, "file: text")
    (tmp_path / "project" / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / "project" / name)
    for verb in (["space", "p.sh"], ["places"]):
        assert zen(*verb, cwd=tmp_path / "project", cpu_seconds=20).returncode in (0, 2)
