"""What others put into the folder of a host is neither executed nor believed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zenturio.errors import PlaceError
from zenturio.execute.hosts.connection import Connection, packed_agent

SOMEBODY = 65534


@pytest.fixture
def connect(tmp_path):
    opened = []

    def make(folder):
        found = Connection(
            ["/bin/sh", "-c"],
            sys.executable,
            str(folder),
            "me",
            patience=100,
            on_event=lambda _event: None,
            on_dropped=lambda _connection: None,
        )
        opened.append(found)
        return found

    yield make
    for each in opened:
        each.close()


def agent(folder):
    (path,) = Path(folder).glob("agent-*.pyz")
    return path


def test_an_agent_with_other_bytes_is_replaced_not_executed(connect, tmp_path):
    folder = tmp_path / "remote"
    connect(folder).close()
    agent(folder).write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")
    assert connect(folder).ask("hello")[0]["jobs"] == {}
    assert agent(folder).read_bytes() == packed_agent()
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_an_agent_that_is_no_file_is_not_executed(connect, tmp_path, kind):
    folder = tmp_path / "remote"
    connect(folder).close()
    name = agent(folder)
    name.unlink()
    if kind == "link":
        (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")
        name.symlink_to(tmp_path / "evil.py")
    elif kind == "pipe":
        os.mkfifo(name)
    else:
        name.mkdir()
    if kind == "folder":
        with pytest.raises(PlaceError, match="Is a directory"):
            connect(folder)
    else:
        assert connect(folder).ask("hello")
        assert agent(folder).read_bytes() == packed_agent()
    assert not (tmp_path / "executed").exists()


def test_a_folder_that_others_can_write_to_is_refused(connect, tmp_path):
    folder = tmp_path / "remote"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(PlaceError, match="can be written by others") as caught:
        connect(folder)
    assert "chmod go-w" in str(caught.value)
    assert list(folder.iterdir()) == []


def test_a_folder_whose_parent_is_everybodys_is_refused_but_for_a_sticky_one(connect, tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    with pytest.raises(PlaceError, match=r"others can write to .*shared") as caught:
        connect(tmp_path / "shared" / "mine")
    assert "name a folder of your own" in str(caught.value)
    (tmp_path / "shared").chmod(0o1777)
    connect(tmp_path / "shared" / "mine")


def test_a_folder_that_is_a_link_is_refused(connect, tmp_path):
    (tmp_path / "there").mkdir(0o700)
    (tmp_path / "link").symlink_to(tmp_path / "there")
    with pytest.raises(PlaceError, match="name the folder itself"):
        connect(tmp_path / "link")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody")
def test_a_folder_of_somebody_else_is_refused(connect, tmp_path):
    folder = tmp_path / "remote"
    folder.mkdir(0o700)
    os.chown(folder, SOMEBODY, SOMEBODY)
    with pytest.raises(PlaceError, match="belongs to somebody else"):
        connect(folder)


def test_nobody_else_can_look_into_what_is_made(connect, tmp_path):
    connect(tmp_path / "remote" / "below")
    made = subprocess.run(
        ["find", tmp_path / "remote" / "below", "-perm", "/077"], capture_output=True, check=True
    )
    assert made.stdout == b""


def test_a_module_in_the_home_of_the_host_is_not_imported(connect, tmp_path, monkeypatch):
    (tmp_path / "hashlib.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    connect(tmp_path / "remote")
    assert not (tmp_path / "executed").exists()
