"""Whose files are believed, and what is asked about before it is executed.

Tests with files of another user give these away with chown, which wants root.
"""

import os
import pty
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import typer

import loaded
from zenturio import trust
from zenturio.cli.main import app
from zenturio.errors import InputError, SafetyError, ZenError
from zenturio.execute.hosts.hosts_file import read_hosts_file
from zenturio.execute.places import configured_places, read_places
from zenturio.record.open import project_folder
from zenturio.show import python_api
from zenturio.study.driver.stop_requests import CancelRequests

STRANGER = 65534
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can give files to another user"
)


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    """A user who has agreed to nothing yet."""
    folder = tmp_path / "config"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    monkeypatch.delenv("ZENTURIO_TRUST", raising=False)
    return folder / "zenturio"


@pytest.fixture
def shared(tmp_path):
    """A folder as /tmp is, with a project that a stranger has begun in it."""
    folder = tmp_path / "shared"
    (folder / ".zenturio").mkdir(parents=True)
    (folder / "zenturio.toml").write_text('[places.evil]\nkind = "slurm"\nsetup = "touch PWNED"\n')
    for path in (folder, folder / ".zenturio", folder / "zenturio.toml"):
        os.chown(path, STRANGER, STRANGER)
    folder.chmod(0o1777)
    return folder


def share(config, text):
    config.mkdir(parents=True, exist_ok=True)
    (config / "trust.toml").write_text(text)


@needs_root
def test_a_strangers_project_above_is_not_adopted(shared):
    own = shared / "own"
    own.mkdir()
    assert project_folder(own) == own


@needs_root
def test_a_strangers_project_in_the_callers_own_open_folder_is_not_adopted(shared):
    os.chown(shared, 0, 0)
    own = shared / "own"
    own.mkdir()
    assert project_folder(own) == own
    os.chown(shared / ".zenturio", 0, 0)
    assert project_folder(own) == shared


@needs_root
def test_in_the_folder_of_a_stranger_the_project_is_refused(shared):
    with pytest.raises(SafetyError, match="belongs to nobody") as caught:
        project_folder(shared)
    assert "trust.toml" in str(caught.value)


@needs_root
def test_a_folder_that_the_user_lists_is_believed(shared, config):
    share(config, f'folders = ["{shared}"]')
    assert project_folder(shared) == shared
    assert "evil" in configured_places(shared)


@needs_root
def test_settings_of_a_stranger_are_refused(shared):
    with pytest.raises(SafetyError, match="this file of settings belongs to nobody"):
        read_places(shared / "zenturio.toml")


@needs_root
def test_a_group_that_the_user_lists_is_believed(shared, config):
    import grp

    share(config, f'groups = ["{grp.getgrgid(STRANGER).gr_name}"]')
    assert "evil" in read_places(shared / "zenturio.toml")


@needs_root
@pytest.mark.parametrize("owned", ["", "work"])
def test_after_root_ran_there_the_message_says_what_to_do(owned):
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        folder = Path(name, ".zenturio")
        (folder / "work").mkdir(parents=True)
        (folder / "zenturio.db").write_text("")
        if owned:
            os.chown(folder, STRANGER, STRANGER)
            os.chown(folder / "zenturio.db", STRANGER, STRANGER)
        text = said_as(STRANGER, lambda: trust.begin(folder))
        user = trust.user_name(STRANGER)
        assert f"cannot write to {folder / owned}, which belongs to root" in text
        assert f"let root give it back: chown -R {user} {folder}; or name a folder" in text
        assert "zen run --work DIR" in text
        for path in (folder, *folder.rglob("*")):
            os.chown(path, STRANGER, STRANGER)
        assert said_as(STRANGER, lambda: trust.begin(folder)) == ""


def said_as(uid, action):
    """The error of *action* in a process of another user."""
    read, write = os.pipe()
    if not (child := os.fork()):
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            action()
        except ZenError as error:
            os.write(write, str(error).encode())
        except BaseException as error:  # noqa: BLE001 - the test is to see it
            os.write(write, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as file:
        text = file.read()
    os.waitpid(child, 0)
    return text


@pytest.mark.parametrize("mode", [0o666, 0o602])
def test_settings_that_everybody_can_change_are_refused(tmp_path, mode):
    path = tmp_path / "zenturio.toml"
    path.write_text("")
    path.chmod(mode)
    with pytest.raises(SafetyError, match="everybody") as caught:
        read_places(path)
    assert f"chmod go-w {path}" in str(caught.value)


@needs_root
def test_a_group_of_others_may_not_change_settings_but_the_users_own_may(tmp_path):
    path = tmp_path / "zenturio.toml"
    path.write_text("")
    path.chmod(0o664)
    assert read_places(path) == {}
    os.chown(path, 0, STRANGER)
    with pytest.raises(SafetyError, match="by the group"):
        read_places(path)


@needs_root
def test_a_link_of_a_stranger_to_ones_own_settings_is_refused(tmp_path):
    (tmp_path / "mine.toml").write_text("")
    link = tmp_path / "zenturio.toml"
    link.symlink_to("mine.toml")
    os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
    with pytest.raises(SafetyError, match="belongs to nobody"):
        read_places(link)


def test_a_project_folder_that_everybody_can_change_is_refused(tmp_path):
    (tmp_path / ".zenturio").mkdir()
    (tmp_path / ".zenturio").chmod(0o777)
    with pytest.raises(SafetyError, match="everybody"):
        project_folder(tmp_path)


def test_trust_that_others_can_write_is_refused(tmp_path, config):
    share(config, f'folders = ["{tmp_path}"]')
    (config / "trust.toml").chmod(0o666)
    (tmp_path / "zenturio.toml").write_text("")
    (tmp_path / "zenturio.toml").chmod(0o666)
    with pytest.raises(SafetyError, match=r"trust\.toml can be changed by others"):
        read_places(tmp_path / "zenturio.toml")


def test_a_hosts_file_or_its_module_that_others_can_change_is_refused(tmp_path):
    (tmp_path / "choose.py").write_text("class Choose: ...\n")
    (tmp_path / "choose.py").chmod(0o666)
    path = tmp_path / "hosts.toml"
    path.write_text('[options]\nselector = "choose.py:Choose"\n[hosts.a]\nvia = "sh"\n')
    with pytest.raises(SafetyError, match="this module can be changed by everybody"):
        read_hosts_file(path)
    path.chmod(0o666)
    with pytest.raises(SafetyError, match="this file of hosts"):
        read_hosts_file(path)


def test_a_built_in_place_is_not_replaced(tmp_path):
    (tmp_path / "zenturio.toml").write_text('[places.local]\nkind = "slurm"\n')
    with pytest.raises(InputError, match=r"zenturio.toml:2:1: \[places.local\] would replace"):
        configured_places(tmp_path)


def test_a_new_project_is_not_asked_about_nor_is_its_copy(tmp_path):
    folder = tmp_path / "project" / ".zenturio"
    folder.parent.mkdir()
    trust.require(folder, {})
    (folder / "zenturio.db").write_text("")
    trust.require(folder, {})
    folder.parent.rename(tmp_path / "moved")
    trust.require(tmp_path / "moved" / ".zenturio", {})


def test_a_folder_that_a_script_has_made_beforehand_is_the_users_own(tmp_path):
    (tmp_path / "p.sh").write_text(PROGRAM)
    (tmp_path / ".zenturio").mkdir()
    for _ in range(2):
        assert loaded.zen("run", "p.sh", cwd=tmp_path).returncode == 0


def test_a_received_project_is_refused_without_a_terminal_and_agreed_to_once(tmp_path, monkeypatch):
    folder = tmp_path / ".zenturio"
    folder.mkdir()
    (folder / "zenturio.db").write_text("")
    with pytest.raises(SafetyError, match="runs that you did not make here"):
        trust.require(folder, {})
    monkeypatch.setenv("ZENTURIO_TRUST", "1")
    trust.require(folder, {})
    monkeypatch.delenv("ZENTURIO_TRUST")
    trust.require(folder, {})


def test_settings_are_asked_about_again_once_they_change(tmp_path, monkeypatch):
    folder = tmp_path / ".zenturio"
    texts = {"zenturio.toml:3 setup": "module load gcc"}
    with pytest.raises(SafetyError) as caught:
        trust.require(folder, texts)
    assert "module load gcc" in str(caught.value)
    assert "--trust" in str(caught.value)
    monkeypatch.setenv("ZENTURIO_TRUST", "1")
    trust.require(folder, texts)
    monkeypatch.delenv("ZENTURIO_TRUST")
    trust.require(folder, texts)
    with pytest.raises(SafetyError, match="rm -rf"):
        trust.require(folder, {"zenturio.toml:3 setup": "rm -rf ~"})


def test_texts_that_are_shown_cannot_steer_the_terminal(tmp_path):
    with pytest.raises(SafetyError) as caught:
        trust.require(tmp_path / ".zenturio", {"a": "\x1b]52;c;ZXZpbA==\x07 \u202e\x9b1m"})
    assert not set("\x1b\x07\u202e\x9b") & set(str(caught.value))


@needs_root
def test_nothing_is_begun_in_the_folder_of_a_stranger(tmp_path):
    os.chown(tmp_path, STRANGER, STRANGER)
    with pytest.raises(SafetyError, match="could replace what is run there"):
        trust.require(tmp_path / ".zenturio", {})
    assert not (tmp_path / ".zenturio").exists()


def test_a_home_that_cannot_be_written_costs_only_the_memory_of_answers(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    folder = tmp_path / ".zenturio"
    trust.require(folder, {})
    (folder / "zenturio.db").write_text("")
    trust.require(folder, {})
    with pytest.raises(SafetyError):
        trust.require(folder, {"setup": "true"})


PROGRAM = "#ZEN$ SUBSTITUTE 7 = { 7, 8 }\n#ZEN$ RUN 'sh p.sh'\necho 7\n"
HOSTS = """\
[options]
discover = "touch PWNED; echo {{}}"
selector = "choose.py:Choose"
[hosts.here]
via = "sh"
probe = "touch {0}/PWNED; echo {{}}"
folder = "{0}/remote"
"""
MODULE = "import pathlib\npathlib.Path(__file__).with_name('PWNED').touch()\nclass Choose: ...\n"


@pytest.fixture
def received(tmp_path):
    """A project that came from somebody: each thing in it that could be executed is a trap."""
    folder = tmp_path / "received"
    (folder / ".zenturio").mkdir(parents=True)
    (folder / "p.sh").write_text(PROGRAM)
    (folder / "zenturio.toml").write_text('[places.evil]\nkind = "slurm"\nsetup = "touch PWNED"\n')
    (folder / "hosts.toml").write_text(HOSTS.format(folder))
    for name in ("choose", "typer", "numpy", "pandas", "sitecustomize", "zenturio", "select"):
        (folder / f"{name}.py").write_text(MODULE)
    return folder


def test_an_honest_program_runs_and_resumes_without_a_question(tmp_path):
    (tmp_path / "p.sh").write_text(PROGRAM)
    for cached in ("none cached", "2 cached"):
        done = loaded.zen("run", "p.sh", cwd=tmp_path)
        assert done.returncode == 0, done
        assert cached in done.stdout


def test_hosts_of_a_received_project_are_not_asked_nor_its_modules_loaded(received):
    for verb in (["hosts"], ["run", "p.sh", "--on", "hosts.toml"], ["places", "check", "evil"]):
        done = loaded.zen(*verb, cwd=received)
        assert done.returncode in (4, 6), done
        assert "have not agreed" in done.stderr + done.stdout
        assert not (received / "PWNED").exists()


def copy_terminal(terminal, target):
    with suppress(OSError):  # EIO: the last one who had it open has gone
        while piece := os.read(terminal, 4096):
            target.write(piece)


def test_who_agrees_on_a_terminal_is_not_asked_again(received):
    (received / ".zenturio").rmdir()
    (received / "hosts.toml").write_text(
        f'[hosts.here]\nvia = "sh"\nfolder = "{received}/remote"\nprobe = "echo {{}}"\n'
    )
    command = [sys.executable, "-P", "-m", "zenturio", "hosts"]
    ours, theirs = pty.openpty()
    os.write(ours, b"y\n")
    with (received / "terminal").open("wb") as terminal:
        # A thread reads on: a terminal that nobody reads stops whoever writes to it.
        reader = threading.Thread(target=copy_terminal, args=(ours, terminal), daemon=True)
        reader.start()
        done = subprocess.run(
            command, cwd=received, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE
        )
        os.close(theirs)
        reader.join()
    assert done.returncode == 0, done
    assert b"here" in done.stdout
    asked = (received / "terminal").read_bytes()
    assert b"probe" in asked
    assert b"[y/N]" in asked
    again = subprocess.run(command, cwd=received, stdin=subprocess.DEVNULL, capture_output=True)
    assert again.returncode == 0, again
    os.close(ours)


def ask_to_cancel(folder):
    CancelRequests(folder / ".zenturio").ask("ab" * 16)


def keep_a_cell(_folder):
    python_api.write_cell_file("first.py", "n = 1\n")


def start_a_service(folder):
    done = loaded.zen("serve", "--on", "nowhere", "--port", "0", cwd=folder)
    assert "nowhere" in done.stderr


@pytest.mark.parametrize("begin", [ask_to_cancel, keep_a_cell, start_a_service])
def test_nobody_is_asked_about_a_project_folder_that_zenturio_itself_began(
    tmp_path, monkeypatch, begin
):
    folder = tmp_path / "new"
    folder.mkdir()
    monkeypatch.chdir(folder)
    begin(folder)
    assert any(path.name != "trust-id" for path in (folder / ".zenturio").iterdir())
    trust.require(folder / ".zenturio", {})


LOOKING = {
    "algorithms": [],
    "best": ["p"],
    "bugreport": [],
    "check": ["."],
    "compare": ["p", "p"],
    "db backup": ["copy.db"],
    "db check": [],
    "db copy": [".zenturio/zenturio.db", "copied.db"],
    "db grant": [],
    "db restore": ["saved.db"],
    "db salvage": ["saved.db"],
    "db upgrade": [],
    "db views": [],
    "diff": ["a", "b"],
    "engines": [],
    "equate": ["p@1", "p.sh"],
    "expand": ["p.sh", "-o", "out"],
    "explain": ["p", "--objective", "MINIMIZE wtime"],
    "extract": ["p"],
    "fit": ["p"],
    "import": ["optuna", "p.db"],
    "init": ["python"],
    "list": [],
    "logs": ["a"],
    "places": [],
    "places show": ["evil", "--script"],
    "plot": ["p"],
    "prune": ["p"],
    "queue": [],
    "redact": ["no-such-secret"],
    "report": ["p"],
    "results": ["p"],
    "run --dry-run": ["p.sh"],
    "scaling": ["p", "--over", "n"],
    "schedule": ["wien2k:kpoints=2", "--on", "identical:2"],
    "search": [],
    "sensitivity": ["p", "--design", "morris:2"],
    "show": ["a"],
    "simulate": ["wien2k:kpoints=2", "--on", "identical:2"],
    "space": ["p.sh"],
    "sql": ["select 1"],
    "status": [],
    "workflow annotate": ["wien2k:kpoints=2"],
    "workflow convert": ["wien2k:kpoints=2", "flow.json"],
    "workflow generate": ["wien2k:kpoints=2"],
    "workflow generators": [],
    "workflow show": ["wien2k:kpoints=2"],
}
EXECUTING = {
    "attach", "bisect", "cancel", "gate", "history", "hosts", "noise", "places check", "portal",
    "run", "serve", "submit", "tune", "workflow run",
}  # fmt: skip


def verbs(command, prefix=""):
    for name, sub in command.commands.items():
        if not hasattr(sub, "commands") or name == "places":
            yield f"{prefix}{name}"
        if hasattr(sub, "commands"):
            yield from verbs(sub, f"{prefix}{name} ")


NO_PROJECT = {"warm"}
"""Verbs that read nothing of a project."""


def test_each_verb_is_known_to_look_or_to_execute():
    known = {verb.partition(" --")[0] for verb in LOOKING} | EXECUTING | NO_PROJECT
    assert set(verbs(typer.main.get_command(app))) <= known


@pytest.mark.parametrize("verb", LOOKING)
def test_a_verb_that_looks_executes_nothing_of_a_received_project(received, verb):
    done = loaded.zen(*verb.split(), *LOOKING[verb], cwd=received)
    assert "Traceback" not in done.stderr
    assert not (received / "PWNED").exists(), done


@pytest.mark.parametrize("made", ['LINES("{0}/names")', 'GLOB("{0}/*")', 'LINES("../names")'])
def test_elements_from_outside_of_the_project_want_consent_once(tmp_path, monkeypatch, made):
    (tmp_path / "names").write_text("root:x:0:0\n")
    folder = tmp_path / "received"
    folder.mkdir()
    program = folder / "p.sh"
    program.write_text(f"#ZEN$ PARAM x = {{ {made.format(tmp_path)} }}\n#ZEN$ RUN 'true'\n")
    for verb in (["space"], ["check"], ["expand", "-o", "out"]):
        done = loaded.zen(*verb, "p.sh", cwd=folder)
        assert done.returncode == 6, done
        assert "p.sh:1:" in done.stderr
        assert "--trust" in done.stderr
        assert "root:x" not in done.stdout + done.stderr
    assert not (folder / "out").exists()
    assert loaded.zen("space", "p.sh", "--trust", cwd=folder).returncode == 0
    assert loaded.zen("space", "p.sh", cwd=folder).returncode == 0
    assert not (folder / ".zenturio").exists()


def test_elements_from_elsewhere_in_the_project_are_read_with_a_word(tmp_path):
    (tmp_path / ".zenturio").mkdir()
    (tmp_path / "names").write_text("a\nb\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "p.sh").write_text(
        '#ZEN$ PARAM x = { LINES("../names") }\n#ZEN$ RUN "true"\n'
    )
    done = loaded.zen("space", "sub/p.sh", cwd=tmp_path)
    assert done.returncode == 0, done
    assert "elements are read from ../names" in done.stderr


def test_a_link_in_the_project_to_a_file_elsewhere_wants_consent(tmp_path):
    (tmp_path / "names").write_text("a\nb\n")
    (tmp_path / "received").mkdir()
    (tmp_path / "received" / "names").symlink_to(tmp_path / "names")
    (tmp_path / "received" / "p.sh").write_text(
        '#ZEN$ PARAM x = { LINES("names") }\n#ZEN$ RUN "true"\n'
    )
    assert loaded.zen("space", "p.sh", cwd=tmp_path / "received").returncode == 6
