"""Log lines have one format and no secrets, go where the environment says, and cost little."""

import json
import logging
import os
import re
import subprocess
import sys

import pytest

from zenturio import log_setup
from zenturio.errors import InputError, PlaceError
from zenturio.log_setup import RecentLines, recent_files
from zenturio.safe_text import MASK, mask_secrets, mask_values, secrets_of_environment

LOGGER = logging.getLogger("zenturio.test")


@pytest.fixture(autouse=True)
def as_before():
    yield
    log_setup.configure("")
    log_setup._remove_handlers(None)
    secrets_of_environment.cache_clear()


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / ".zenturio").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def recent(name="20260101T000000-run-1"):
    handler = RecentLines(name, "# zen run")
    log_setup.configure("", recent=handler)
    return handler


def kept(project):
    return [path.read_text() for path in recent_files(project)]


def test_levels_are_set_for_all_loggers_and_for_some():
    assert log_setup.parse_levels("info, zenturio.record=DEBUG") == {
        "zenturio": logging.INFO,
        "zenturio.record": logging.DEBUG,
    }
    assert log_setup.parse_levels("") == {}


@pytest.mark.parametrize("text", ["loud", "info,=debug", "zenturio.record="])
def test_a_level_that_does_not_exist_is_an_error_with_a_hint(text):
    with pytest.raises(InputError, match="is not a level") as error:
        log_setup.parse_levels(text)
    assert "ZENTURIO_LOG=info" in error.value.diagnostics[0].hint


def test_verbosity_replaces_the_general_level_alone():
    assert log_setup.with_verbosity("debug,zenturio.record=info", 1) == "info,zenturio.record=info"
    assert log_setup.with_verbosity("", 3) == "debug"
    assert log_setup.with_verbosity("warning", 0) == "warning"


def test_each_level_shows_its_own_lines(capsys):
    log_setup.configure("info,zenturio.record=debug")
    LOGGER.debug("hidden")
    LOGGER.info("shown")
    logging.getLogger("zenturio.record.sql_repository").debug("a statement")
    err = capsys.readouterr().err
    assert "hidden" not in err
    assert "INFO zenturio.test" in err
    assert "DEBUG zenturio.record.sql" in err


def test_only_warnings_are_shown_by_default(capsys):
    log_setup.configure("")
    LOGGER.info("quiet")
    LOGGER.warning("loud")
    assert "quiet" not in (err := capsys.readouterr().err)
    assert "loud" in err
    assert not LOGGER.isEnabledFor(logging.INFO), "a debug line costs one comparison"


def test_another_librarys_logger_is_shown_when_it_is_named(capsys):
    log_setup.configure("info,somebody.else=debug")
    logging.getLogger("somebody.else").debug("connected")
    logging.getLogger("somebody").warning("not asked for")
    err = capsys.readouterr().err
    assert "DEBUG somebody.else" in err


def test_a_line_has_time_in_utc_level_logger_process_and_message(capsys):
    log_setup.configure("info")
    LOGGER.info("experiment %s", "1f00")
    line = rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{3}}Z INFO zenturio\.test\[{os.getpid()}\]: "
    assert re.fullmatch(line + "experiment 1f00\n", capsys.readouterr().err)


def test_a_message_is_one_line_that_controls_no_terminal(capsys):
    log_setup.configure("info")
    LOGGER.info("%s", "a\n2026-01-01T00:00:00.000Z INFO zenturio: forged\x1b]52;c;eA==\x07\u202e")
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert not re.search("[\x1b\x07\u202e]", err)


def test_a_traceback_is_indented_under_its_line(capsys):
    log_setup.configure("info")
    try:
        getattr(None, "password=hunter22\x1b[2J")
    except AttributeError:
        LOGGER.info("it failed", exc_info=True)
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.endswith("it failed")
    assert all(line.startswith("    ") for line in rest)
    assert "hunter22" not in "".join(rest)
    assert "\x1b" not in "".join(rest)


def test_the_progress_line_is_erased_before_a_line_is_shown(capsys):
    log_setup.configure("info")
    log_setup.set_progress_eraser(lambda: print("erased", file=sys.stderr))
    LOGGER.info("event")
    log_setup.set_progress_eraser(None)
    LOGGER.info("event")
    assert [line[-6:] for line in capsys.readouterr().err.splitlines()] == [
        "erased", " event", " event",
    ]  # fmt: skip


def test_the_log_file_gets_every_line_and_the_terminal_only_its_own(tmp_path, capsys):
    file = tmp_path / "all.log"
    file.write_text("earlier\n")
    log_setup.configure("", str(file))
    LOGGER.debug("a detail")
    assert file.read_text().startswith("earlier\n")
    assert "a detail" in file.read_text()
    assert capsys.readouterr().err == ""


def test_a_log_file_that_was_moved_away_is_begun_anew(tmp_path):
    file = tmp_path / "zen.log"
    log_setup.configure("info", str(file))
    LOGGER.info("before")
    file.rename(tmp_path / "zen.log.1")  # as logrotate does
    LOGGER.info("after")
    assert "before" in (tmp_path / "zen.log.1").read_text()
    assert "after" in file.read_text()
    assert "before" not in file.read_text()


def test_a_log_file_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(PlaceError, match="cannot write the log file"):
        log_setup.configure("", str(tmp_path / "no" / "all.log"))


def test_child_processes_obey_the_environment(tmp_path):
    code = "import zenturio, logging; logging.getLogger('zenturio.child').debug('here')"
    file = tmp_path / "all.log"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "ZENTURIO_LOG": "debug", "ZENTURIO_LOG_FILE": str(file)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "DEBUG zenturio.child" in done.stderr
    assert "DEBUG zenturio.child" in file.read_text()


def test_importing_zenturio_loads_no_logging_unless_it_is_asked_for():
    code = "import sys, zenturio; print('zenturio.log_setup' in sys.modules)"
    environment = {n: v for n, v in os.environ.items() if not n.startswith("ZENTURIO_LOG")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert done.stdout.strip() == b"False"


def test_recent_lines_are_kept_in_the_project(project):
    handler = recent()
    LOGGER.debug("too fine")
    LOGGER.info("first")
    LOGGER.info("second")
    (text,) = kept(project)
    assert text.startswith("# zen run\n")
    assert [line.rpartition(": ")[2] for line in text.splitlines()[1:]] == ["first", "second"]
    assert handler.is_open


def test_without_a_project_nothing_is_created(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recent()
    LOGGER.info("first")
    assert list(tmp_path.iterdir()) == []


def test_lines_from_before_the_project_was_created_are_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    handler = recent()
    LOGGER.info("first")
    (tmp_path / ".zenturio").mkdir()
    handler.close()
    assert "first" in kept(tmp_path)[0]


def test_recent_lines_are_bounded(project, monkeypatch):
    monkeypatch.setattr("zenturio.log_setup._MOST_BYTES", 2000)
    recent()
    for number in range(100):
        LOGGER.info("event %d", number)
    texts = kept(project)
    assert len(texts) == 2
    assert sum(map(len, texts)) < 6000
    assert any("event 99" in text for text in texts)
    assert all(text.startswith("# zen run\n") for text in texts)


def test_files_of_old_commands_are_removed_and_no_others(project, monkeypatch):
    monkeypatch.setattr("zenturio.log_setup._MOST_FILES", 2)
    folder = project / ".zenturio" / "logs"
    folder.mkdir()
    (folder / "my-own.log").write_text("mine")
    for number in range(1, 5):
        recent(f"2026010{number}T000000-run-1")
        LOGGER.info("event")
    names = [path.name for path in recent_files(project)]
    assert names == ["20260103T000000-run-1.log", "20260104T000000-run-1.log"]
    assert (folder / "my-own.log").read_text() == "mine"


@pytest.mark.parametrize("name", ["logs", "logs/20260101T000000-run-1.log"])
def test_recent_lines_follow_no_link_that_came_with_a_project(project, name):
    outside = project / "outside"
    outside.mkdir()
    link = project / ".zenturio" / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside if name == "logs" else outside / "file")
    recent()
    LOGGER.info("first")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "opening postgresql://zen:hunter22@db.example.org/lab",
        "opening postgresql://zen:hun@hunter22@db.example.org/lab",
        "postgresql://db/lab?user=zen&password=hunter22&sslmode=require",
        "http://127.0.0.1:8600/?token=hunter22",
        'api_token = "x hunter22"',
        "{'db_password': 'hunter22'}",
        '{"secret": "a\\"hunter22"}',
        "Authorization: Bearer hunter22hunter22",
        "zen --api-key hunter22 run",
        "zen --password=hunter22",
        "AWS_SECRET_ACCESS_KEY=hunter22",
    ],
)
def test_secrets_are_masked_where_they_stand(text):
    masked = mask_secrets(text)
    assert "hunter22" not in masked
    assert MASK in masked


def test_secrets_of_the_environment_are_masked_wherever_they_stand(monkeypatch):
    monkeypatch.setenv("LAB_TOKEN", "abcd-1234")
    monkeypatch.setenv("ZENTURIO_DB", "postgresql://zen:p%40ssw0rd@db/lab")
    monkeypatch.setenv("PWD", "/home/someone")
    secrets_of_environment.cache_clear()
    said = mask_secrets(
        "the server refused abcd-1234 and p%40ssw0rd, or p@ssw0rd, in /home/someone"
    )
    assert said == f"the server refused {MASK} and {MASK}, or {MASK}, in /home/someone"


def test_text_without_secrets_stays_as_it_is():
    text = "study matmul: 8 points at http://localhost:8600/x, run by alice@host with -j 4"
    assert mask_secrets(text) == text


def test_documents_are_masked_by_the_names_of_their_values():
    document = {
        "serve": {"users": {"alice": "scrypt$1$2"}, "port": 8600},
        "places": {"a": {"env": ["X=1", "API_TOKEN=t0psecret"], "password": ["p1", "p2"]}},
    }
    text = json.dumps(mask_values(document))
    assert not re.search(r"scrypt|t0psecret|p1|p2", text)
    assert "8600" in text
    assert "alice" in text
