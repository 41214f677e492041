"""A group that shares a SQLite file shares what SQLite puts beside it."""

import os
import stat
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from unprivileged import NOBODY
from zenturio.record.open import open_repository
from zenturio.record.sqlite import SQLite

GROUP = 60


@contextmanager
def member_of(group):
    """A user of that group whose own one is another; only root can become one."""
    groups, own_group = os.getgroups(), os.getegid()
    os.setgroups([group])
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(own_group)
        os.setgroups(groups)


@pytest.fixture
def open_folder():
    """A folder that other users can reach, unlike those of pytest."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_log_has_the_group_and_the_permissions_of_the_database(open_folder, monkeypatch):
    path = open_folder / "a.db"
    open_repository(path).close()
    os.chown(path, NOBODY, GROUP)
    os.chown(open_folder, NOBODY, NOBODY)
    path.chmod(0o664)
    monkeypatch.chdir(open_folder)
    with member_of(GROUP):
        repository = open_repository(path)
        assert repository.studies() == ()
        facts = {
            p.name: (p.stat().st_gid, stat.S_IMODE(p.stat().st_mode)) for p in open_folder.iterdir()
        }
        repository.close()
    assert facts == dict.fromkeys(("a.db", "a.db-wal", "a.db-shm"), (GROUP, 0o664))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to a group")
def test_a_link_that_stands_where_the_log_would_be_is_not_followed(open_folder):
    target = open_folder / "target"
    target.touch()
    path = open_folder / "a.db"
    path.touch()
    os.chown(path, -1, GROUP)
    log = open_folder / "a.db-wal"
    log.symlink_to(target)
    SQLite(path, 5)._share_log()
    assert log.lstat().st_gid == GROUP
    assert target.stat().st_gid == os.getegid()
