"""A PostgreSQL server of the tests' own: in a temporary folder, on a socket, nothing kept safe.

from postgres import postgres, postgres_ready, postgres_url   # fixtures, in a conftest.py
"""

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from needs import needs
from zenturio.record.open import open_repository

PROGRAMS = ("initdb", "pg_ctl", "postgres")
MEMORY = Path("/dev/shm")
ROOM = 2**31
"""Bytes that are free in memory where a server lies there: each schema is more than 100 files,
which a disk creates and removes ten times as slowly."""
PLACE = "ZENTURIO_TESTS_POSTGRES"
"""In the environment: a folder for servers. A new cluster in it, ``data``, is copied by each server:
to make one takes ten times as long."""


class Server:
    """A cluster with one database; root runs it as another user, as PostgreSQL demands."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="zen-pg-", dir=place_of_servers()))
        self._as_user = []
        if os.getuid() == 0:
            user = next(u for u in ("postgres", "nobody") if _exists(u))
            shutil.chown(self.folder, user)
            self._as_user = ["runuser", "-u", user, "--"]
        self.data = self.folder / "data"
        if (new := self.folder.parent / "data").is_dir() and PLACE in os.environ:
            subprocess.run(["cp", "-a", new, self.data], check=True)
        else:
            self._run(
                "initdb", "-D", self.data, "-A", "trust", "-U", "zen", "-E", "UTF8", "--no-sync"
            )
            # Others than the owner of the tables log in with a password, as on a real server.
            hba = "local all zen trust\nlocal all all scram-sha-256\n"
            (self.data / "pg_hba.conf").write_text(hba)
        self._schemas = itertools.count(1)
        self._ready = ""
        self.start()

    def _run(self, *command: object) -> None:
        done = subprocess.run(
            [*self._as_user, *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            check=False,
            text=True,
        )
        assert done.returncode == 0, done.stdout

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off -c max_connections=60"
        log = self.folder / "log"
        self._run("pg_ctl", "-D", self.data, "-w", "-l", log, "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "-D", self.data, "-w", "-m", mode, "stop")

    def restart(self) -> None:
        """As after a crash: nobody is asked, nothing is finished."""
        self.stop()
        self.start()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def connect(self, database: str = "postgres"):
        """A connection that commits by itself."""
        import psycopg

        return psycopg.connect(f"host={self.folder} user=zen dbname={database}", autocommit=True)

    def new_url(self, database: str = "postgres") -> str:
        """The URL of an empty schema."""
        name = f"s{next(self._schemas)}"
        with self.connect(database) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"postgresql://zen@/{database}?host={self.folder}&options=-csearch_path%3D{name}"

    def ready_url(self) -> str:
        """The URL of an empty repository in a database of its own.

        Its files are copied: to make the tables takes three times as much of a processor.
        """
        with self.connect() as connection:
            if not self._ready:
                connection.execute("CREATE DATABASE ready")
                self._ready = self.new_url("ready")
                open_repository(self._ready).close()
            name = f"copy{next(self._schemas)}"
            connection.execute(f"CREATE DATABASE {name} TEMPLATE ready STRATEGY FILE_COPY")
        return self._ready.replace("@/ready?", f"@/{name}?")

    def drop_ready(self, url: str) -> None:
        """Remove the database of a ``ready_url``."""
        name = url.partition("@/")[2].partition("?")[0]
        with self.connect() as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def drop(self, url: str) -> None:
        """Remove the schema of a URL, if nothing holds it: a killed driver's connection may."""
        import psycopg

        with suppress(psycopg.Error), self.connect() as connection:
            connection.execute("SET lock_timeout = '1s'")
            connection.execute(f"DROP SCHEMA {url.rpartition('%3D')[2]} CASCADE")


def place_of_servers() -> str:
    """Where servers lie: in memory if there is room."""
    is_roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM
    return os.environ.get(PLACE) or (str(MEMORY) if is_roomy else "/tmp")


def new_cluster(folder: Path) -> None:
    """Leave a new cluster in *folder*, for the servers of processes that have it as their PLACE."""
    server = Server()
    try:
        server.stop("fast")
        folder.chmod(0o755)
        subprocess.run(["cp", "-a", server.data, folder / "data"], check=True)
    finally:
        shutil.rmtree(server.folder)


def end_servers(folder: Path) -> None:
    """Kill and remove the servers in *folder* whose processes were killed before they stopped them."""
    for server in folder.glob("zen-pg-*"):
        with suppress(OSError, ValueError):
            number = (server / "data" / "postmaster.pid").read_text().splitlines()[0]
            os.kill(int(number), signal.SIGQUIT)
        shutil.rmtree(server, ignore_errors=True)


def _exists(user: str) -> bool:
    try:
        return bool(pwd.getpwnam(user))
    except KeyError:
        return False


@pytest.fixture(scope="session")
def postgres():
    """A server for this session."""
    needs(*PROGRAMS)
    server = Server()
    yield server
    server.remove()


@pytest.fixture
def postgres_url(postgres):
    """An empty place on the server."""
    url = postgres.new_url()
    yield url
    postgres.drop(url)


@pytest.fixture
def postgres_ready(postgres):
    """An empty repository on the server."""
    url = postgres.ready_url()
    yield url
    postgres.drop_ready(url)


def slow_on_server(fixture: str) -> pytest.MarkDecorator:
    """Leave the run on a server to `make test-all`: what it asks the server, other tests ask, too."""
    params = ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]
    return pytest.mark.parametrize(fixture, params, indirect=True)


def grant_reading(repository) -> None:
    """Let SQL that somebody writes run on *repository*, as ``zen db grant`` does; not on a file."""
    from zenturio.record import maintenance

    if "postgresql" in repository.location:
        maintenance.grant(repository.location)
