"""Who did something is who the system or the server says, never what the environment says."""

import contextlib
import os
import pwd

import pytest

from record.worker import DEFINITION, STUDY
from zenturio.record.open import open_repository

SYSTEM_USER = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture(autouse=True)
def another_name(monkeypatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")


def test_with_a_file_it_is_who_the_operating_system_says(tmp_path):
    repository = open_repository(tmp_path / "a.db")
    repository.open(STUDY, DEFINITION)
    repository.begin_round(STUDY)
    assert repository.current_user() == SYSTEM_USER
    assert repository.rounds(STUDY)[-1].person == SYSTEM_USER
    repository.close()


def test_with_a_server_it_is_who_logged_in(postgres, postgres_url):
    open_repository(postgres_url).close()
    with postgres.connect() as admin:
        admin.execute("CREATE ROLE \"alice b\" LOGIN SUPERUSER PASSWORD 'pw'")
        try:
            repository = open_repository(postgres_url.replace("zen@", "alice%20b:pw@"))
            assert repository.current_user() == "alice b"
            repository.close()
        finally:
            admin.execute('DROP ROLE "alice b"')


def test_the_queue_of_a_file_is_managed_by_its_owner_and_by_root(tmp_path, monkeypatch):
    with contextlib.closing(open_repository(tmp_path / "a.db")) as repository:
        owner = (tmp_path / "a.db").stat().st_uid
        for user, is_admin in ((0, True), (owner, True), (owner + 4711, False)):
            monkeypatch.setattr(os, "getuid", lambda user=user: user)
            assert repository.is_queue_admin() is is_admin
