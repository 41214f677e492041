"""What an experiment uses and nobody declared is seen, and written down where that is asked for."""

import json
import os
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from needs import needs
from zenturio.annotate.scan import scan
from zenturio.cli.main import app
from zenturio.errors import InputError, PlaceError
from zenturio.study import used_files
from zenturio.study.used_files import trace
from zenturio.testing.executor import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ptrace is Linux's")


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Writes a study that runs *script*; beside it lie a program, data and a place to write to."""
    (tmp_path / "tools" / "bin").mkdir(parents=True)
    sim = tmp_path / "tools" / "bin" / "sim"
    sim.write_text('#!/bin/sh\ncat "$(dirname $0)/../sim.conf" > /dev/null\n')
    sim.chmod(0o755)
    (tmp_path / "tools" / "sim.conf").write_text("x")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mesh.bin").write_bytes(b"\0")
    monkeypatch.setenv("PATH", f"{sim.parent}:{os.environ['PATH']}")
    monkeypatch.delenv("ZENTURIO_DB", raising=False)
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "own.txt").write_text("own")
    monkeypatch.chdir(folder)

    def write(script, head=""):
        path = folder / "a.sh"
        path.write_text(f'#!/bin/sh\n{head}# ZEN$ RUN "sh a.sh"\n{script}\n')
        path.chmod(0o755)
        return folder

    return write


def check(folder, *options, exit_code=0):
    found = CliRunner().invoke(app, ["check", str(folder), *options])
    assert found.exit_code == exit_code, found.output
    return found.output


def test_files_programs_and_what_is_written_elsewhere_are_listed(study, tmp_path):
    script = (
        f"cat own.txt {tmp_path}/data/mesh.bin > {tmp_path}/out; sim; cat {tmp_path}/out > here"
    )
    found = trace(scan(study(script)))
    assert (found.exit, found.is_partial) == (0, False)
    assert found.programs == ("sim",)
    assert found.files == (f"{tmp_path}/data/mesh.bin",)
    assert found.written == (f"{tmp_path}/out",)
    assert found.system > 0
    assert (tmp_path / "out").exists()
    assert sorted(path.name for path in (tmp_path / "app").iterdir()) == ["a.sh", "own.txt"]


@pytest.mark.parametrize(
    "script",
    [
        "python3 -c \"import threading as t; x = t.Thread(target=open, args=['{}']); x.start(); x.join()\"",
        "( ( exec 3< {} ) & wait )",
        "ln -s {} link; cat link",
        "cd $(dirname {}); cat mesh.bin",
    ],
)
def test_threads_children_links_and_relative_paths_hide_nothing(study, tmp_path, script):
    needs("python3")
    data = tmp_path / "data" / "mesh.bin"
    assert str(data) in trace(scan(study(script.format(data)))).files


@pytest.mark.parametrize(
    "change",
    ["mkdir {}/new", "mv {0}/data/mesh.bin {0}/data/moved", "rm {}/data/mesh.bin", "touch {}/data/x",
     "ln -s x {}/data/link", "ln {0}/data/mesh.bin {0}/data/same"],
)  # fmt: skip
def test_all_sorts_of_changes_elsewhere_are_seen(study, tmp_path, change):
    found = trace(scan(study(change.format(tmp_path))))
    assert found.exit == 0
    assert any(path.startswith(f"{tmp_path}/") for path in found.written), found


def test_what_a_build_uses_counts_too(study, tmp_path):
    head = f'# ZEN$ BUILD "cat {tmp_path}/data/mesh.bin > made"\n'
    found = trace(scan(study("cat made", head)))
    assert found.files == (f"{tmp_path}/data/mesh.bin",)


def test_files_of_one_folder_are_told_as_the_folder(study, tmp_path):
    for number in range(20):
        (tmp_path / "data" / str(number)).write_text("x")
    assert trace(scan(study(f"cat {tmp_path}/data/*"))).files == (f"{tmp_path}/data",)


def test_fix_writes_what_makes_the_next_trace_silent(study, tmp_path):
    folder = study(f"cat {tmp_path}/data/mesh.bin; sim")
    said = check(folder, "--trace")
    assert 'ZEN$ USE PROGRAM "sim"' in said
    assert 'ZEN$ USE FILE "../data/mesh.bin"' in said
    before = (folder / "a.sh").read_text()
    assert "wrote 2 directives" in check(folder, "--trace", "--fix")
    text = (folder / "a.sh").read_text()
    lines = ['# ZEN$ USE PROGRAM "sim"', '# ZEN$ USE FILE "../data/mesh.bin"']
    assert [line for line in text.splitlines() if line not in before.splitlines()] == lines
    assert (folder / "a.sh").stat().st_mode & 0o777 == 0o755
    said = check(folder, "--trace")
    assert "not declared" not in said
    assert "written outside" not in said
    assert check(folder, "--trace", "--fix") == said
    assert (folder / "a.sh").read_text() == text


def test_an_input_that_is_opened_for_writing_is_no_output(study, tmp_path):
    data = tmp_path / "data" / "mesh.bin"
    until(lambda: time.time_ns() > data.stat().st_ctime_ns + 30_000_000)
    found = trace(scan(study(f"exec 3<> {data}")))
    assert (found.files, found.written) == ((str(data),), ())
    found = trace(scan(study(f"echo x 1<> {data}")))
    assert (found.files, found.written) == ((), (str(data),))


def test_an_experiment_that_fails_says_so(study, capfd):
    shown = check(study("echo begin; echo why >&2; exit 3"), "--trace")
    assert "the traced experiment failed: exit 3" in shown
    assert "  begin\n  why\n" in shown
    assert "begin" not in check(study("echo begin"), "--trace")
    assert "begin" not in "".join(capfd.readouterr())
    assert json.loads(check(study("exit 3"), "--trace", "--json"))["trace"]["exit"] == 3


def test_one_that_leaves_processes_behind_ends(study):
    assert trace(scan(study("sleep 1000 & sleep 1000 & exit 0"))).exit == 0


_STOPPED_FOR_THE_FIRST_TIME = """
import os, signal, time
from zenturio.system.tracer import Tracer, _TRACEME, _ptrace
if os.fork() == 0:
    _ptrace(_TRACEME, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(1000)
Tracer("/", {})._end()
"""


def test_a_process_that_was_forked_just_before_the_end_is_killed():
    subprocess.run([sys.executable, "-c", _STOPPED_FOR_THE_FIRST_TIME], check=True)


def test_one_that_takes_longer_than_its_timeout_is_stopped(study, tmp_path):
    folder = study("sleep 1000")
    text = (folder / "a.sh").read_text().replace('"sh a.sh"', '"sh a.sh" TIMEOUT 0.3s')
    (folder / "a.sh").write_text(text)
    with pytest.raises(PlaceError, match="longer than its TIMEOUT"):
        trace(scan(folder))


def test_elsewhere_it_says_that_it_cannot(study, monkeypatch):
    monkeypatch.setattr(used_files, "IS_LINUX", False)
    monkeypatch.setattr(used_files.platform, "system", lambda: "Darwin")
    with pytest.raises(PlaceError, match="can be seen on Linux alone, not on Darwin"):
        trace(scan(study("true")))


def test_fix_without_a_trace_is_refused(study):
    with pytest.raises(InputError, match="--fix needs --trace"):
        CliRunner().invoke(app, ["check", str(study("true")), "--fix"], catch_exceptions=False)


def test_check_without_it_runs_nothing(study, tmp_path):
    check(study(f"touch {tmp_path}/ran"))
    assert not (tmp_path / "ran").exists()
