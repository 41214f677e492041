"""Locks on files and folders: held by one process, and free when it ends, however it ends."""

import os
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from zenturio.files import FileLock, LockedFolder, is_locked, lock_holder
from zenturio.system.file_systems import listed_holder

_HOLD_FILE = """
import sys
from pathlib import Path
from zenturio.files import FileLock
lock = FileLock.acquire(Path(sys.argv[1]), shared=sys.argv[2:] == ["shared"])
lock.write_pid()
print("held", flush=True)
sys.stdin.read()
"""
_HOLD_FOLDER = """
import sys
from pathlib import Path
from zenturio.files import LockedFolder
folder = LockedFolder.begin(Path(sys.argv[1]), "session-")
print(folder.path.name, flush=True)
sys.stdin.read()
"""


@contextmanager
def _process(program, *arguments):
    """Run *program* in another process; yield it, and the line that it printed."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_another_process_gets_a_lock_when_its_holder_was_killed(tmp_path):
    path = tmp_path / "lock"
    with _process(_HOLD_FILE, path) as (holder, _):
        assert is_locked(path)
        assert lock_holder(path) == str(holder.pid)
        assert FileLock.try_acquire(path) is None
        holder.kill()
        holder.wait()
        assert not is_locked(path)
        with FileLock.acquire(path):
            assert is_locked(path)
    assert not is_locked(path)


def test_shared_locks_exclude_only_the_exclusive_one(tmp_path):
    path = tmp_path / "lock"
    with _process(_HOLD_FILE, path, "shared"):
        assert not is_locked(path)
        assert FileLock.try_acquire(path) is None
        FileLock.acquire(path, shared=True).release()


def test_two_locks_of_one_process_exclude_each_other(tmp_path):
    with FileLock.acquire(tmp_path / "lock") as lock:
        assert FileLock.try_acquire(lock.path) is None
        assert lock_holder(lock.path) == "unknown"
    lock.release()  # once more: nothing happens


def test_a_lock_whose_file_is_missing_is_free_and_created_only_if_asked(tmp_path):
    path = tmp_path / "lock"
    assert not is_locked(path)
    with pytest.raises(FileNotFoundError):
        FileLock.try_acquire(path, create=False)
    with FileLock.try_acquire(path, mode=0o644):
        assert path.stat().st_mode & 0o077 == 0o044 & ~_mask()


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_link_or_a_pipe_is_not_locked(tmp_path, kind):
    path, target = tmp_path / "lock", tmp_path / "target"
    path.symlink_to(target) if kind == "link" else os.mkfifo(path)
    with pytest.raises(OSError, match="lock"):
        FileLock.try_acquire(path)
    assert not target.exists()
    assert not is_locked(path)


def test_who_waited_for_a_removed_lock_file_holds_the_new_one(tmp_path):
    path = tmp_path / "lock"
    first, second = FileLock.acquire(path), []
    waiting = threading.Thread(target=lambda: second.append(FileLock.acquire(path)))
    waiting.start()
    first.remove()
    waiting.join()
    assert is_locked(path)
    assert FileLock.try_acquire(path) is None
    second[0].remove()
    assert not path.exists()


def test_at_most_one_thread_holds_a_name_that_is_removed_again_and_again(tmp_path):
    path, holders, most = tmp_path / "lock", set(), []

    def take_often(number):
        for _ in range(200):
            if (lock := FileLock.try_acquire(path)) is not None:
                holders.add(number)
                most.append(len(holders))
                holders.discard(number)
                lock.remove()

    threads = [threading.Thread(target=take_often, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1


def test_a_folder_of_a_killed_process_is_taken_and_one_of_a_living_process_is_not(tmp_path):
    with _process(_HOLD_FOLDER, tmp_path) as (holder, name):
        assert LockedFolder.live_pids(tmp_path, "session-") == [holder.pid]
        assert LockedFolder.take(tmp_path / name) is None
        assert not list(LockedFolder.take_abandoned(tmp_path, "session-"))
        holder.kill()
        holder.wait()
        assert LockedFolder.live_pids(tmp_path, "session-") == []
        for folder in LockedFolder.take_abandoned(tmp_path, "session-"):
            assert folder.path.name == name
            assert is_locked(folder.path / "lock")
        assert not is_locked(tmp_path / name / "lock")


def test_a_folder_that_is_cleared_away_while_it_begins_is_begun_anew(tmp_path, monkeypatch):
    real, cleared = FileLock.try_acquire, []

    def clear_first(path, **options):
        if not cleared:
            cleared.append(path.parent)
            path.unlink()
            path.parent.rmdir()
        return real(path, **options)

    monkeypatch.setattr(FileLock, "try_acquire", clear_first)
    folder = LockedFolder.begin(tmp_path, "session-")
    assert folder.path != cleared[0]
    assert is_locked(folder.path / "lock")
    folder.release()


def test_a_link_to_a_folder_is_not_taken(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "lock").touch()
    (tmp_path / "session-1-a").symlink_to(tmp_path / "elsewhere")
    assert not list(LockedFolder.take_abandoned(tmp_path, "session-"))


def _mask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_what_the_system_lists_tells_who_holds_a_lock(tmp_path):
    path = tmp_path / "lock"
    assert listed_holder(path) == ""
    with FileLock.acquire(path):
        assert listed_holder(path) == str(os.getpid())
        assert listed_holder(path, tmp_path / "no list") == "unknown"
    assert listed_holder(path) == ""
    with FileLock.acquire(path, shared=True):
        assert listed_holder(path) == ""


def test_a_file_that_others_could_lock_is_theirs_no_longer(tmp_path):
    path = tmp_path / "lock"
    path.touch()
    path.chmod(0o664)
    with FileLock.acquire(path, mode=0o644):
        assert path.stat().st_mode & 0o777 == 0o644
