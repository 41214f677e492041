"""No verb sends a control character of others to a terminal; `zen logs --raw` and exports do."""

import io
import json
import os
import pty
import re
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from tests.cli.conftest import zen
from tests.cli.test_reference import _commands
from zenturio import safe_text
from zenturio.cli import safe_streams
from zenturio.cli.main import app

CLIPBOARD = "\x1b]52;c;ZXZpbA==\x07"
EVIL = CLIPBOARD + "\x9b2J\u202egnp.\u2066\r\x08\x7f\u2028"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\u061c]")

SOURCE = f"""\
import sys
from pathlib import Path
#ZEN$ ASSIGN n = {{ 1, 2 }} UNIT "J{EVIL.replace(chr(13), "")}"
#ZEN$ SUBSTITUTE low = {{ "a{CLIPBOARD}b", high }} AS level
#ZEN$ RUN "python3 hostile.py"
#ZEN$ METRIC total FROM stdout REGEX "total (\\d+)"
#ZEN$ METRIC word FROM stdout REGEX "word (.*)" OPTIONAL
#ZEN$ OBJECTIVE MAXIMIZE total
level = "low"
n = 1
print("total", n * 10)
print("word", {EVIL!r})
print({EVIL!r}, file=sys.stderr)
sys.exit({EVIL!r} if n == 2 else 0)
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A study whose source, values, units, metrics, output and causes hold such characters."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "hostile.py").write_text(SOURCE, newline="")
    (folder / "report.md").write_text(f"# {EVIL}\n\n```zen\n{EVIL}\n```\n")
    (folder / f"{CLIPBOARD}.py").write_text("#ZEN$ RUN\n")
    told = zen("run", "hostile.py", cwd=folder, code=None)
    assert not UNSAFE.search(told.out + told.err)
    return folder


def digests(folder):
    found = zen("sql", "SELECT digest FROM study_hostile_all ORDER BY 1", "--json", cwd=folder)
    return [digest for (digest,) in found.facts["rows"]]


DIGEST = "DIGEST"
LOOKS = (
    ["check", "hostile.py"],
    ["check", f"{CLIPBOARD}.py"],
    ["check", "--show", "hostile.py"],
    ["space", "hostile.py"],
    ["space", "hostile.py", "--json"],
    ["run", "hostile.py", "--only", "failed"],
    ["list"],
    ["status"],
    ["status", "hostile"],
    ["status", "hostile", "--json"],
    ["show", DIGEST],
    ["show", DIGEST, "--json"],
    ["logs", DIGEST, "--safe"],
    ["logs", DIGEST, "--json"],
    ["diff", DIGEST, f"{DIGEST}2"],
    ["diff", DIGEST, f"{DIGEST}2", "--json"],
    ["results", "hostile"],
    ["results", "hostile", "--json"],
    ["results", "hostile", "--sql", "--where", f"word == '{CLIPBOARD}'"],
    ["results", "hostile", "--where", f"n == '{EVIL}"],
    ["sql", "SELECT * FROM study_hostile_all"],
    ["sql", f"SELECT '{EVIL}' AS \"{EVIL}\""],
    ["sql", f'SELECT "{EVIL}" FROM study_hostile'],
    ["compare", "hostile", "hostile", "--metric", "total"],
    ["fit", "hostile", "--y", "word", "--x", "n"],
    ["plot", "hostile", "-o", "-", "--color", "low"],
    ["report", "report.md", "-o", "out.html"],
    ["best", "hostile"],
    ["extract", "hostile", "--dry-run"],
    ["expand", "hostile.py", "-o", "out"],
    ["queue"],
    ["prune"],
    ["redact", "low\nhigh"],
    ["db", "check"],
)


@pytest.mark.parametrize("words", LOOKS, ids=lambda words: ascii(" ".join(words))[:50])
def test_what_a_hostile_study_holds_is_shown_and_not_sent(hostile, words):
    one, *others = digests(hostile)
    given = [word.replace(f"{DIGEST}2", others[0]).replace(DIGEST, one) for word in words]
    told = zen(*given, cwd=hostile, code=None)
    assert told.out + told.err
    assert "Traceback" not in told.err
    assert not UNSAFE.search(told.out + told.err)


LISTENS = {("serve",), ("portal",)}
"""Verbs that take no words and would not end: they get an option that there is not."""


@pytest.mark.parametrize(
    "path", [path for path, _ in _commands(get_command(app), ())], ids=" ".join
)
def test_every_verb_shows_a_hostile_word_and_does_not_send_it(hostile, path):
    """Each verb there is, so also the next one: with such words for all that it takes."""
    command = dict(_commands(get_command(app), ()))[path]
    required = [parameter for parameter in command.params if parameter.required]
    words = [f"x{EVIL}" for each in required if each.param_type_name == "argument"]
    for each in required:
        words += [each.opts[0], f"x{EVIL}"] if each.param_type_name == "option" else []
    if not words:
        words = [f"--{EVIL}"] if path in LISTENS else [f"x{EVIL}"]
    told = zen(*path, *words, cwd=hostile, code=None)
    assert told.out + told.err
    assert not UNSAFE.search(told.out + told.err)


def test_json_keeps_the_values_that_it_escapes(hostile):
    found = zen("sql", "SELECT word FROM study_hostile", "--json", cwd=hostile).facts
    assert found["rows"]
    assert all(CLIPBOARD in word for (word,) in found["rows"])


def test_logs_and_exports_are_exact_on_a_pipe(hostile):
    one, *_ = digests(hostile)
    assert CLIPBOARD in zen("logs", one, cwd=hostile).out
    assert CLIPBOARD not in zen("logs", one, "--safe", cwd=hostile).out
    assert "--raw prints them" in zen("logs", one, "--safe", cwd=hostile).err
    assert CLIPBOARD in zen("results", "hostile", "--format", "csv", cwd=hostile).out
    assert not UNSAFE.search(zen("results", "hostile", cwd=hostile).out)


def on_a_terminal(*words, cwd):
    """What a process prints on a terminal of its own."""
    pid, wire = pty.fork()
    if not pid:
        os.chdir(cwd)
        os.execv(sys.executable, [sys.executable, "-P", "-m", "zenturio", *words])
    parts = []
    try:
        while part := os.read(wire, 65536):
            parts.append(part)
    except OSError:  # the other end is closed
        pass
    os.close(wire)
    os.waitpid(pid, 0)
    return b"".join(parts).decode(errors="replace")


def test_on_a_terminal_logs_and_exports_are_safe_and_headings_are_bold(hostile):
    one, *_ = digests(hostile)
    safe = on_a_terminal("logs", one, cwd=hostile)
    assert CLIPBOARD not in safe
    assert "\\x1b]52;c;" in safe
    assert CLIPBOARD in on_a_terminal("logs", one, "--raw", cwd=hostile)
    assert CLIPBOARD not in on_a_terminal("results", "hostile", "--format", "csv", cwd=hostile)
    listed = on_a_terminal("list", cwd=hostile)
    assert listed.startswith("\x1b[1mstudy")


def test_every_character_that_controls_is_escaped():
    text = "".join(map(chr, range(0x2100)))
    found = safe_text.visible(text)
    assert not UNSAFE.search(found)
    assert "\t" in found
    assert "\n" in found
    assert safe_text.visible("Größe → 3 µs 👩‍🔬") == "Größe → 3 µs 👩‍🔬"
    assert json.loads(safe_text.visible_in_json(json.dumps(EVIL, ensure_ascii=False))) == EVIL


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_character_that_the_encoding_lacks_is_escaped(encoding):
    target = io.BytesIO()
    stream = safe_streams.EscapingStream(io.TextIOWrapper(target, encoding, write_through=True))
    stream.write("a→b\udc80")
    arrow = "→" if encoding == "utf-8" else "\\u2192"
    assert target.getvalue().decode(encoding) == f"a{arrow}b\\udc80"
    assert stream.encoding != "ascii"


PAST_THE_DOOR = {
    "output.py": "progress bars, whose words are ours",
    "results.py": "exports to a pipe",
    "safe_streams.py": "the door, and output of experiments, byte for byte",
}


def test_no_other_module_of_the_command_line_writes_past_the_door():
    past = re.compile(r"\.buffer\.write|unguarded|__std(out|err)__|os\.write\(")
    modules = Path(safe_streams.__file__).parent.glob("*.py")
    found = {path.name for path in modules if past.search(path.read_text(encoding="utf-8"))}
    assert found == set(PAST_THE_DOOR)
