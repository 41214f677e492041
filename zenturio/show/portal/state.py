"""State that all pages share: runs, cached results, the repository, templates and settings."""

from __future__ import annotations

import json
import logging
import os
import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from threading import Lock, Thread, Timer
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from starlette.responses import HTMLResponse

from zenturio import trust
from zenturio.errors import ConflictError, InputError, NotFoundError, PlaceError, ZenError
from zenturio.files import make_folder, open_regular, read_regular
from zenturio.query.listing import query_listing
from zenturio.query.study_table import TableQuery
from zenturio.record import Repository, StudyDefinition
from zenturio.record.open import FOLDER, open_repository, project_folder
from zenturio.record.sql_repository import SQLRepository
from zenturio.show.portal import page_templates
from zenturio.show.portal.page_templates import Assets
from zenturio.show.portal.study_watcher import StudyWatcher
from zenturio.study.recorded_definition import pinned_name, resolve_name
from zenturio.system.processes import process_birth

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.requests import Request

    from zenturio.query.study_table import RowNumbers
    from zenturio.show.portal.study_watcher import StudySnapshot

_log = logging.getLogger(__name__)

# Runs that the portal started: processes that continue when the portal ends
#
# The state of a study is in the database. This module keeps which process drives it, and its
# output, so that a restarted portal finds both again.

MOST_FINISHED = 20
"""Finished runs that are kept."""
SECOND_SIGNAL_SECONDS = 0.5
"""Between the two signals that stop a driver: after the second, it kills experiments."""
MOST_OUTPUT_BYTES = 4000
"""Of the output of a run, shown in the page."""
MOST_RECORD_BYTES = 2**20
PLAN_SECONDS = 60.0
"""That a plan may take."""
# -P: the working directory is the project's and may contain modules of any name.
_ZEN_COMMAND = [sys.executable, "-P", "-c", "from zenturio.cli import main; main()"]


@dataclass(frozen=True)
class PortalRun:
    """A process that drives a study, or did."""

    key: str
    study: str
    arguments: tuple[str, ...]
    """Of the command ``zen``."""
    pid: int
    born: str
    began: float

    @property
    def is_alive(self) -> bool:
        return process_birth(self.pid) == self.born

    @property
    def command(self) -> str:
        return shlex.join(["zen", *self.arguments])


class PortalRuns:
    """The runs of a project folder."""

    def __init__(self, folder: Path, db: str | None) -> None:
        self._folder = folder
        self._records = folder / FOLDER / "portal"
        self._environment = {**os.environ, **({"ZENTURIO_DB": db} if db else {})}
        self._children: list[subprocess.Popen[bytes]] = []
        self._lock = Lock()

    def plan(self, arguments: Sequence[str]) -> Mapping[str, Any]:
        """Return what ``zen run`` would do; raise InputError with its message if it would fail."""
        try:
            process = subprocess.run(
                [*_ZEN_COMMAND, "run", "--dry-run", "--json", *arguments],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PLAN_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise PlaceError(f"planning took longer than {PLAN_SECONDS:g} seconds") from error
        if process.returncode:
            raise InputError(process.stderr.decode("utf-8", "backslashreplace").strip())
        plan: Mapping[str, Any] = json.loads(process.stdout)
        return plan

    def start(self, study: str, arguments: Sequence[str]) -> PortalRun:
        """Start ``zen run`` with *arguments* in its own session, so that it outlives the portal."""
        # Names sort by time; the random part parts two portals that start at the same moment.
        key = f"{time.time_ns():x}-{secrets.token_hex(3)}"
        try:
            trust.begin(self._records.parent)
            make_folder(self._records.parent, self._records.name)
            with (self._records / f"{key}.log").open("xb") as log:
                child = subprocess.Popen(
                    [*_ZEN_COMMAND, "run", *arguments],
                    cwd=self._folder,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise PlaceError(f"the study cannot be started: {error.strerror}") from error
        command = ("run", *arguments)
        run = PortalRun(key, study, command, child.pid, process_birth(child.pid) or "", time.time())
        text = json.dumps(asdict(run))
        record = self._records / f"{key}.json"
        record.write_text(f"{_signature(text)}\n{text}", encoding="utf-8")
        with self._lock:
            self._children.append(child)
        return run

    def list_runs(self) -> list[PortalRun]:
        """Return the runs, newest first; forget the oldest finished ones."""
        self._reap()
        runs: list[PortalRun] = []
        for path in sorted(self._records.glob("*.json"), reverse=True):
            run = _read(path)
            if run is None:
                continue
            if len(runs) >= MOST_FINISHED and not run.is_alive:
                path.unlink(missing_ok=True)
                path.with_suffix(".log").unlink(missing_ok=True)
            else:
                runs.append(run)
        return runs

    def find(self, key: str) -> PortalRun:
        """Return a run; raise NotFoundError if there is none of that key."""
        for run in self.list_runs():
            if run.key == key:
                return run
        raise NotFoundError("there is no such run", hint="see the list of runs")

    def output_tail(self, run: PortalRun) -> str:
        """Return the end of the output."""
        try:
            with open_regular(self._records / f"{run.key}.log") as log:
                log.seek(max(log.seek(0, os.SEEK_END) - MOST_OUTPUT_BYTES, 0))
                return log.read(MOST_OUTPUT_BYTES).decode("utf-8", "backslashreplace")
        except OSError:
            return ""

    def resume(self, run: PortalRun) -> None:
        """Start the same command again; cached experiments are not run again."""
        if run.is_alive:
            raise ConflictError(f"study {run.study} is running", hint="pause it first")
        self.start(run.study, run.arguments[1:])

    def pause(self, run: PortalRun) -> None:
        """Let the run finish what it has started, and start nothing more."""
        _interrupt(run)

    def stop(self, run: PortalRun) -> None:
        """Let the run cancel what it has started, too."""
        _interrupt(run)
        timer = Timer(SECOND_SIGNAL_SECONDS, _interrupt_if_alive, [run])
        # The portal may end before: then the first signal alone counts.
        timer.daemon = True
        timer.start()

    def _reap(self) -> None:
        with self._lock:
            self._children = [child for child in self._children if child.poll() is None]


def _read(path: Path) -> PortalRun | None:
    """Return what a portal of this user has written; what came with a project is none of its runs.

    For a record says what is executed when it is resumed, and which process is to be stopped.
    """
    try:
        signature, _, text = read_regular(path, MOST_RECORD_BYTES).decode("utf-8").partition("\n")
        if not compare_digest(signature.encode(), _signature(text).encode()):
            return None
        values = json.loads(text)
        run = PortalRun(**{**values, "arguments": tuple(values["arguments"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return run if run.key == path.stem else None


def _signature(text: str) -> str:
    return blake2b(text.encode(), key=trust.user_key(), digest_size=16).hexdigest()


def _interrupt(run: PortalRun) -> None:
    """Send SIGINT like Ctrl-C; never to another process that has the same number now."""
    if not run.born or not run.is_alive:
        raise ConflictError(f"the run of study {run.study} has finished", hint="resume it")
    os.kill(run.pid, signal.SIGINT)


def _interrupt_if_alive(run: PortalRun) -> None:
    if run.is_alive:
        os.kill(run.pid, signal.SIGINT)


# Results that are computed once, however many requests need them

Value = TypeVar("Value")

FRESH_SECONDS = 2.0
"""For which a result is used whatever has changed."""
FRESH_FACTOR = 20
"""A result is also used for so many times as long as it took to compute: a running study changes
all the time, and those who watch it must not slow it down."""
LONGEST_FRESH_SECONDS = 120.0
"""After which a result is computed again even if nothing seems to have changed."""
THREADS = 4
"""Pages that are made at the same time; each has a connection to the database."""
CACHE_KIB = 1024
"""Of SQLite's page cache, for each connection: the system caches the file anyway."""


@dataclass(frozen=True)
class CachedResult(Generic[Value]):
    """A value, and when it was computed."""

    value: Value
    computed_at: float
    """Seconds since 1970."""


@dataclass
class _Entry:
    lock: Lock = field(default_factory=Lock)
    result: CachedResult[Any] | None = None
    stamp: Hashable = None
    seconds: float = 0.0
    """That it took to compute."""


class ResultCache:
    """The latest results that took long: computed once, however many requests need them.

    Thread-safe. Requests for the same key wait for the one that computes it.
    """

    def __init__(self, most: int = 8) -> None:
        self._most = most
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._lock = Lock()

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()

    def peek(self, key: Hashable, stamp: Hashable) -> CachedResult[Any] | None:
        """Return the result for *key* if there is a fresh one; compute nothing."""
        with self._lock:
            entry = self._entries.get(key)
        if entry is None or entry.result is None or not _is_fresh(entry, stamp):
            return None
        return entry.result

    def get(
        self, key: Hashable, stamp: Hashable, compute: Callable[[], Value]
    ) -> CachedResult[Value]:
        """Return the result for *key*, computed again if the *stamp* of its data has changed."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
        # The table's own lock is free by now: others need not wait for this computation.
        with entry.lock:
            if entry.result is None or not _is_fresh(entry, stamp):
                started = time.monotonic()
                entry.result = CachedResult(compute(), time.time())
                entry.stamp, entry.seconds = stamp, time.monotonic() - started
            return cast("CachedResult[Value]", entry.result)


def _is_fresh(entry: _Entry, stamp: Hashable) -> bool:
    assert entry.result is not None, "only entries with a result are asked"
    age = time.time() - entry.result.computed_at
    limit = max(FRESH_SECONDS, FRESH_FACTOR * entry.seconds)
    return 0 <= age < (LONGEST_FRESH_SECONDS if entry.stamp == stamp else limit)


# The portal


@dataclass(frozen=True)
class PortalSettings:
    """What a portal shows, and what it may do."""

    db: str | None = None
    """A path or a URL; the project's database, if None."""
    folder: Path = field(default_factory=project_folder)
    allow_run: bool = False
    """Whether studies may be started and stopped."""
    serves: bool = False
    """Whether the portal belongs to a service, and shows its queue."""


@dataclass
class Portal:
    """One open portal."""

    settings: PortalSettings
    assets: Assets = field(default_factory=Assets)
    results: ResultCache = field(default_factory=ResultCache)
    _repository: Repository | None = None
    _file_id: tuple[int, int] | None = None
    _lock: Lock = field(default_factory=Lock)
    _templates: Environment | None = None

    @property
    def repository(self) -> Repository:
        """The repository; opened again if its file was replaced.

        Raise NotFoundError as long as nothing was ever run.
        """
        with self._lock:
            # An upgrade or a restored backup replaces the file; an open connection would show the
            # old one.
            if self._repository is not None and self._file_id != _file_id(self._repository):
                self._repository.close()
                self._repository = None
                self.results.clear()
            if self._repository is None:
                repository = open_repository(self.settings.db, create=False, finds_unique=True)
                _prepare(repository)
                self._repository, self._file_id = repository, _file_id(repository)
            return self._repository

    def cached(
        self, study: str, name: Hashable, compute: Callable[[], Value]
    ) -> CachedResult[Value]:
        """Return a result about a study, computed again if the study has changed."""
        return self.results.get((study, name), self._stamp(study), compute)

    def _stamp(self, study: str) -> Hashable:
        """Return a value that changes with the state of an experiment and with each result."""
        counts = tuple(self.repository.count_states(study).values())
        return counts, self.repository.count_results(study)

    def definition(self, study: str) -> StudyDefinition:
        """Return the definition of a study, as it is run or was run last."""
        return self.cached(study, "definition", lambda: self.repository.definition(study)).value

    def row_order(self, table: TableQuery) -> CachedResult[RowNumbers]:
        """Return the numbers of all experiments in a table, in its order."""
        plain = replace(table, columns=(), repeats=False)

        def compute() -> RowNumbers:
            return query_listing(self.repository, plain, lambda listing: listing.numbers())

        return self.cached(table.study, _order_key(table), compute)

    def cached_row_order(self, table: TableQuery) -> CachedResult[RowNumbers] | None:
        """Return the same if it has been computed lately."""
        return self.results.peek((table.study, _order_key(table)), self._stamp(table.study))

    def has_repeats(self, study: str) -> bool:
        """Return whether points of the study were run more than once."""

        def compute() -> bool:
            return query_listing(
                self.repository, TableQuery(study), lambda listing: listing.repeated()
            )

        return self.cached(study, "repeated", compute).value

    def resolve_study(self, name: str) -> str:
        """Return the study that *name*, with or without a version, stands for now."""
        try:
            return resolve_name(self.repository, name)
        except NotFoundError:  # nothing was ever run: whoever needs the study reports it
            return name

    def pinned(self, study: str) -> str:
        """Return the name with its version, for links that outlive a change of the program."""
        try:
            return pinned_name(self.repository, study)
        except NotFoundError:
            return study

    def snapshot(self, study: str) -> StudySnapshot:
        """Return the progress of a study; raise NotFoundError if there is none of that name."""
        for anew in (False, True):
            for snapshot in self.watch.poll(anew=anew):
                if snapshot.name == study:
                    return snapshot
        self.repository.study(study)
        raise NotFoundError(f"study {study} is about to start", hint="reload the page")

    def close(self) -> None:
        with self._lock:
            if self._repository is not None:
                self._repository.close()
                self._repository = None

    @cached_property
    def watch(self) -> StudyWatcher:
        """The progress of all studies."""
        return StudyWatcher(lambda: self.repository)

    @cached_property
    def runs(self) -> PortalRuns:
        """The studies that were started from this portal."""
        return PortalRuns(self.settings.folder, self.settings.db)

    @property
    def templates(self) -> Environment:
        """The templates; all values in them are escaped."""
        if self._templates is None:
            self._templates = page_templates.page_environment(
                self.assets, allow_run=self.settings.allow_run, serves=self.settings.serves
            )
            self._templates.globals["pinned"] = self.pinned
        return self._templates

    def render(self, template: str, **values: Any) -> str:
        return self.templates.get_template(template).render(**values)

    def page(
        self,
        request: Request,
        template: str,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        **values: Any,
    ) -> HTMLResponse:
        """Return the page that a *template* makes of *values*."""
        session_user = getattr(request.state, "session", None)
        path = request.url.path
        text = self.render(
            template, request=request, path=path, session_user=session_user, **values
        )
        return HTMLResponse(text, status, headers)


def page_in(request: Request) -> int:
    """Return the page that an address names; the first where it is no number."""
    number = request.query_params.get("page", "")
    is_number = number.isascii() and number.isdecimal() and len(number) < 10
    return max(int(number), 1) if is_number else 1


def portal_of(request: Request) -> Portal:
    """Return the portal of a request."""
    portal: Portal = request.app.state.portal
    return portal


def _order_key(table: TableQuery) -> Hashable:
    """Return what an order depends on: of a condition its text, not its position in a page."""
    text = table.where.text if table.where else ""
    return "order", text, table.states, table.sort, table.rows


def _file_id(repository: Repository) -> tuple[int, int] | None:
    """Return the device and inode of the database; None if it is not a file, or has gone."""
    if getattr(repository, "dialect", None) != "sqlite":
        return None
    try:
        status = Path(repository.location).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _prepare(repository: Repository) -> None:
    """Give SQLite less memory than a run does, and make columnar copies beside the pages."""
    if isinstance(repository, SQLRepository):
        repository.limit_cache(CACHE_KIB)
        repository.copy_wanted = ColumnarCopyBuilder(repository).start


class ColumnarCopyBuilder:
    """Makes columnar copies of large studies in a thread: pages ask the database until then."""

    def __init__(self, repository: SQLRepository) -> None:
        self._repository = repository
        self._lock = Lock()
        self._studies: set[str] = set()

    def start(self, study: str) -> None:
        """Make the copy of a study, unless that is being done."""
        with self._lock:
            if study in self._studies:
                return
            self._studies.add(study)
        # A copy is made whole or not at all: the end of the process may come at any time.
        Thread(target=self._make, args=(study,), name=f"copy of {study}", daemon=True).start()

    def _make(self, study: str) -> None:
        try:
            self._repository.columnar_copy(study)
        except ZenError as error:  # the study or the database is gone
            _log.info("no columnar copy of %s: %s", study, error)
        finally:
            with self._lock:
                self._studies.discard(study)
