"""Files that appear whole or not at all."""

import os
import re
import tempfile
import threading
from pathlib import Path

import pytest

import zenturio
from zenturio.files import replace_whole, write_whole


def test_a_file_is_there_whole_with_common_rights(tmp_path):
    path = tmp_path / "a"
    write_whole(path, [b"one ", b"two"])
    assert path.read_bytes() == b"one two"
    assert path.stat().st_mode & 0o777 == 0o666 & ~_mask()


def test_what_was_there_stays_if_the_new_one_does_not_become_whole(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def pieces():
        yield b"new"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_whole(path, pieces())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path):
    path, other = tmp_path / "a", tmp_path / "b"
    other.write_bytes(b"old")
    path.symlink_to(other)
    write_whole(path, [b"new"])
    assert path.is_symlink()
    assert other.read_bytes() == b"new"


def test_a_pipe_is_written_into_and_not_replaced(tmp_path):
    path, found = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()))
    reader.start()
    write_whole(path, [b"one ", b"two"])
    reader.join()
    assert found == [b"one two"]
    assert path.is_fifo()


def test_a_device_is_not_replaced():
    path = Path(os.devnull)
    write_whole(path, [b"gone"])
    assert path.is_char_device()


def _mask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_link_in_place_of_a_file_of_ours_is_replaced_and_its_target_stays(tmp_path):
    target, path = tmp_path / "target", tmp_path / "ours"
    target.write_text("not ours")
    path.symlink_to(target)
    replace_whole(path, [b"ours"])
    assert (path.is_symlink(), path.read_text(), target.read_text()) == (False, "ours", "not ours")


def test_only_files_that_users_name_are_written_through_links():
    package = Path(zenturio.__file__).parent
    writers = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(
            r"^from zenturio.files import .*\bwrite_whole\b", path.read_text(), re.MULTILINE
        )
    }
    assert writers == {
        "schedule/formats/document.py",
        "search/define_by_run.py",
        "search/ask_and_tell.py",
        "study/used_files.py",
    }


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no folder in memory here")
def test_a_file_in_memory_is_replaced_as_a_whole():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder, "out.txt")
        path.write_bytes(b"before")
        inode = path.stat().st_ino
        write_whole(path, [b"after"])
        assert path.read_bytes() == b"after"
        assert path.stat().st_ino != inode
