"""State that all pages share: the repository, cached results, templates and settings."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from sqlalchemy import event
from starlette.responses import HTMLResponse

from zenturio.errors import NotFoundError
from zenturio.query.listing import listed
from zenturio.query.wanted import Wanted
from zenturio.record import Definition, Repository
from zenturio.record.open import open_repository, project_folder
from zenturio.show.portal import page_templates as words
from zenturio.show.portal.page_templates import Assets
from zenturio.show.portal.runs import Runs
from zenturio.show.portal.watch import Watch
from zenturio.study.pinned import pinned, resolve

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.requests import Request

    from zenturio.query.wanted import Numbers
    from zenturio.show.portal.watch import Seen


Value = TypeVar("Value")

PATIENCE = 2.0
"""Seconds for which an answer is good, whatever has changed."""
SHARE = 20
"""An answer that took a second is good for so many seconds more: a study that runs changes always,
and who looks on must not slow it down."""
LONGEST = 120.0
"""Seconds after which an answer is found anew, even if nothing seems to have changed."""


@dataclass(frozen=True)
class Answer(Generic[Value]):
    """What was found, and when."""

    value: Value
    at: float
    """Seconds since 1970."""


@dataclass
class _Place:
    lock: Lock = field(default_factory=Lock)
    answer: Answer[Any] | None = None
    stamp: Hashable = None
    seconds: float = 0.0


class Kept:
    """The newest answers."""

    def __init__(self, most: int = 8) -> None:
        self._most = most
        self._places: OrderedDict[Hashable, _Place] = OrderedDict()
        self._turn = Lock()
        self.found = 0
        """How many answers were found."""

    def forget(self) -> None:
        """All are of something else."""
        with self._turn:
            self._places.clear()

    def known(self, key: Hashable, stamp: Hashable) -> Answer[Any] | None:
        """The answer for *key*, if there is one that is good."""
        with self._turn:
            place = self._places.get(key)
        if place is None or place.answer is None or not _good(place, stamp):
            return None
        return place.answer

    def get(self, key: Hashable, stamp: Hashable, find: Callable[[], Value]) -> Answer[Value]:
        """The answer for *key*; found anew where the *stamp* of what it is about has changed."""
        with self._turn:
            place = self._places.setdefault(key, _Place())
            self._places.move_to_end(key)
            while len(self._places) > self._most:
                self._places.popitem(last=False)
        with place.lock:
            if place.answer is None or not _good(place, stamp):
                began = time.monotonic()
                place.answer = Answer(find(), time.time())
                place.stamp, place.seconds = stamp, time.monotonic() - began
                self.found += 1
            return cast("Answer[Value]", place.answer)


def _good(place: _Place, stamp: Hashable) -> bool:
    assert place.answer is not None, "who has none does not ask"
    age = time.time() - place.answer.at
    fresh = LONGEST if place.stamp == stamp else max(PATIENCE, SHARE * place.seconds)
    return 0 <= age < fresh


Found = TypeVar("Found")

THREADS = 4
"""Pages that are made at once; each has a connection to the database."""
CACHE_KIB = 1024
"""Of SQLite's pages, for each connection: the system's cache holds the file anyway."""


@dataclass(frozen=True)
class Settings:
    """What a portal is of."""

    db: str | None = None
    """A path or a URL; the project's database, if none is given."""
    folder: Path = field(default_factory=project_folder)
    allow_run: bool = False
    """Whether studies may be started and stopped."""
    serves: bool = False
    """Whether a service runs what is submitted, and this portal shows its queue."""


@dataclass
class Portal:
    """One portal while it is open."""

    settings: Settings
    assets: Assets = field(default_factory=Assets)
    kept: Kept = field(default_factory=Kept)
    _opened: Repository | None = None
    _file: tuple[int, int] | None = None
    _turn: Lock = field(default_factory=Lock)
    _templates: Environment | None = None

    @property
    def repository(self) -> Repository:
        """The repository; NotFoundError as long as nothing was ever run.

        One that was removed, or has another in its place, is not looked at any longer.
        """
        with self._turn:
            if self._opened is not None and self._file != _file_of(self._opened):
                self._opened.close()
                self._opened = None
                self.kept.forget()
            if self._opened is None:
                found = open_repository(self.settings.db, create=False)
                _spare_memory(found)
                self._opened, self._file = found, _file_of(found)
            return self._opened

    def keep(self, study: str, what: Hashable, find: Callable[[], Found]) -> Answer[Found]:
        """What *find* finds about a study: found anew where that has changed since."""
        return self.kept.get((study, what), self._stamp(study), find)

    def _stamp(self, study: str) -> Hashable:
        """Another one when an experiment of the study has come to another state, or a result."""
        counts = tuple(self.repository.counts(study).values())
        return counts, self.repository.result_counts(study)

    def definition(self, study: str) -> Definition:
        """What a study is, as it is run or was run last."""
        return self.keep(study, "definition", lambda: self.repository.definition(study)).value

    def order(self, wanted: Wanted) -> Answer[Numbers]:
        """All experiments that are wanted, in their order."""
        plain = replace(wanted, columns=(), repeats=False)

        def find() -> Numbers:
            return listed(self.repository, plain, lambda found: found.numbers())

        return self.keep(wanted.study, _order(wanted), find)

    def known_order(self, wanted: Wanted) -> Answer[Numbers] | None:
        """The same, if somebody has asked for it lately."""
        return self.kept.known((wanted.study, _order(wanted)), self._stamp(wanted.study))

    def repeated(self, study: str) -> bool:
        """Whether points of the study were run more than once."""

        def find() -> bool:
            return listed(self.repository, Wanted(study), lambda found: found.repeated())

        return self.keep(study, "repeated", find).value

    def named(self, name: str) -> str:
        """The study that an address calls *name*, which may say its version, too."""
        try:
            return resolve(self.repository, name)
        except NotFoundError:  # nothing was ever run: who asks for the study says so
            return name

    def pinned(self, study: str) -> str:
        """How addresses call a study, so that they show the same when its program was edited."""
        try:
            return pinned(self.repository, study)
        except NotFoundError:
            return study

    def seen(self, study: str) -> Seen:
        """Where a study stands; NotFoundError if there is none."""
        for anew in (False, True):
            for seen in self.watch.look(anew=anew):
                if seen.name == study:
                    return seen
        self.repository.study(study)
        raise NotFoundError(f"study {study} is about to begin", hint="look again")

    def close(self) -> None:
        with self._turn:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    @cached_property
    def watch(self) -> Watch:
        """Where all studies stand."""
        return Watch(lambda: self.repository)

    @cached_property
    def runs(self) -> Runs:
        """The studies that were started from here."""
        return Runs(self.settings.folder, self.settings.db)

    @property
    def templates(self) -> Environment:
        """The templates; everything that they are handed is escaped."""
        if self._templates is None:
            self._templates = words.templates(
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
        """The answer that a *template* makes of *values*."""
        leaves = getattr(request.state, "session", None)
        text = self.render(
            template, request=request, path=request.url.path, leaves=leaves, **values
        )
        return HTMLResponse(text, status, headers)


def portal_of(request: Request) -> Portal:
    """The portal that a request came to."""
    found: Portal = request.app.state.portal
    return found


def _order(wanted: Wanted) -> Hashable:
    """Of a condition its text: where it stands in which page does not matter."""
    text = wanted.where.text if wanted.where else ""
    return "order", text, wanted.states, wanted.sort, wanted.rows


def _file_of(repository: Repository) -> tuple[int, int] | None:
    """Which file it is; none of a server, or where there is none any more."""
    engine = getattr(repository, "engine", None)
    if engine is None or engine.dialect.name != "sqlite":
        return None
    try:
        found = Path(repository.place).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _spare_memory(repository: Repository) -> None:
    """A run holds as much of its database in memory as helps; who looks on has no need to."""
    engine = getattr(repository, "engine", None)
    if engine is None or engine.dialect.name != "sqlite":
        return

    def shrink(connection: Any, _record: object) -> None:
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")

    event.listen(engine, "connect", shrink)
    engine.dispose()
