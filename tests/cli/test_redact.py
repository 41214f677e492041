"""A secret leaves a project: `zen redact`."""

import os
import signal
import subprocess
import sys

import pytest

from cli.conftest import zen

SECRET = "tok-5f0e'8d\"2c"
PROGRAM = f"""\
n = 1
#ZEN$ ASSIGN n = {{ 1:3 }}
#ZEN$ BUILD "cp leaky.py built.txt"
#ZEN$ RUN "python3 leaky.py"
#ZEN$ OUTPUT "kept.txt"
#ZEN$ METRIC total FROM stdout REGEX "total (\\d+)"
#ZEN$ METRIC word FROM stdout REGEX "word (.*)"
secret = {SECRET!r}
print("total", n * 10)
print("word", secret)
open("kept.txt", "w").write(secret + str(n))
open("scratch.txt", "w").write("as " + secret)
if n == 3:
    raise SystemExit(secret)
"""


def held(folder, secret=SECRET):
    """The files that have the secret, in any spelling of these files."""
    spelled = {secret.encode(), secret.replace('"', '\\"').encode()}
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and any(s in path.read_bytes() for s in spelled)
    )


@pytest.fixture
def leaky(tmp_path):
    """A project in whose record a secret is everywhere."""
    path = tmp_path / "leaky.py"
    path.write_text(PROGRAM)
    zen("run", path.name, "--keep", "always", cwd=tmp_path, code=3)
    (tmp_path / "secret.txt").write_text(SECRET + "\n")
    return tmp_path


def test_a_secret_is_shown_first_and_goes_with_yes(leaky):
    home = leaky / ".zenturio"
    zen("db", "backup", cwd=leaky)
    zen("results", "leaky", "-o", "table.csv", cwd=leaky)
    before = held(home)
    would = zen("redact", "--from-file", "secret.txt", cwd=leaky).out
    assert "would redact 3 rows of logs" in would
    assert "a copy of the database may have it" in would
    assert f"still there: {leaky / 'table.csv'}" in would
    assert held(home) == before
    told = zen("redact", "--from-file", "secret.txt", "--yes", "--backups", cwd=leaky)
    assert "redacted 3 rows of logs" in told.out
    assert SECRET not in told.out + told.err
    assert held(home) == []
    assert (leaky / "leaky.py").read_text() == PROGRAM
    assert zen("db", "check", "--artifacts", cwd=leaky).out == "no damage found\n"
    asked = "SELECT digest FROM study_leaky_all ORDER BY n"
    (digest,) = zen("sql", asked, "--json", cwd=leaky).facts["rows"][0]
    shown = zen("show", digest, "--json", cwd=leaky).facts
    assert shown["metrics"]["word"] == "********"
    assert {each["of"] for each in shown["redactions"]} == {"study", "experiment"}
    assert "redacted: " in zen("show", digest, cwd=leaky).out
    again = zen("redact", "--from-file", "secret.txt", "--json", cwd=leaky).facts
    assert (again["rows"], again["artifacts"], again["files"]) == ({}, [], [])


def test_holes_of_a_sparse_file_are_neither_read_nor_written(tmp_path):
    home = tmp_path / ".zenturio"
    kept = home / "work" / "kept"
    objects = home / "store" / "objects" / "ab"
    for folder in (kept, objects):
        folder.mkdir(parents=True)
    (tmp_path / "secret.txt").write_text(SECRET + "\n")
    (tmp_path / "p.sh").write_text('#ZEN$ RUN "true"\n')
    zen("run", "p.sh", cwd=tmp_path)
    sparse = [kept / "sparse.txt", objects / ("cd" * 31)]
    for path in sparse:
        with path.open("wb") as file:
            file.seek(2**39 - 3)
            file.write(SECRET.encode())
            file.truncate(2**40)
    (kept / "empty.txt").write_bytes(b"")
    os.truncate(kept / "empty.txt", 2**40)
    result = zen("redact", "--from-file", "secret.txt", "--yes", "--json", cwd=tmp_path).facts
    assert sorted(result["remaining"]) == sorted(map(str, sparse))
    assert all(path.stat().st_size == 2**40 for path in sparse)


def test_the_secret_is_read_from_standard_input(leaky):
    done = subprocess.run(
        [sys.executable, "-m", "zenturio", "redact", "-", "--yes"],
        cwd=leaky,
        input=SECRET.encode(),
        check=False,
    )
    assert done.returncode == 0
    assert held(leaky / ".zenturio") == []


def test_a_killed_redaction_is_given_again(leaky):
    command = [sys.executable, "-m", "zenturio", "redact", "--from-file", "secret.txt", "--yes"]
    failing = os.environ | {"ZENTURIO_FAILPOINT": "redact.compacted:1"}
    killed = subprocess.run(command, cwd=leaky, env=failing, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert held(leaky / ".zenturio") != []
    zen("redact", "--from-file", "secret.txt", "--yes", cwd=leaky)
    assert held(leaky / ".zenturio") == []


def test_what_is_no_secret_is_refused(leaky):
    assert "characters would be replaced" in zen("redact", "abc", cwd=leaky, code=2).err
    assert "no secret is named" in zen("redact", cwd=leaky, code=2).err
    assert "named twice" in zen("redact", "a", "--from-file", "secret.txt", cwd=leaky, code=2).err
    assert "cannot read" in zen("redact", "--from-file", "nothing", cwd=leaky, code=2).err
    assert "not in the record" in zen("redact", "something else", cwd=leaky).out
