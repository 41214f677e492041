"""
Places by name: a plug-in's, an address, a file of hosts, or ``[places.NAME]`` of zenturio.toml.

    [places.cluster]
    kind = "dask"                    # the plug-in; NAME itself, if it is not said
    address = "tls://head:8786"      # what else there is: a setting of that plug-in

A class of the group ``zenturio.places`` is called with a folder, the number of jobs, *keep* and
*pin*. If it has an attribute ``Options``, a frozen dataclass of settings, it is given one as
*options*; if it has a method ``check``, that says in words what is wrong with the place; if it has
a function ``script``, that is what a job of it would be: the text, of a folder and options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from zenturio import plugins, trust
from zenturio.errors import InputError, did_you_mean
from zenturio.execute.executor import Executor
from zenturio.execute.workspace import Keep
from zenturio.settings.document import Entry, Table
from zenturio.settings.project_file import FILE, read_project_file
from zenturio.settings.schema import NoSettings, Setting, described, settings_of

_PLACES = "places"
INLINE = "inline"
"""A place that calls functions of this process, and runs no commands."""
_COMMON_SETTINGS = {"kind": str, "jobs": int}
"""What any place may be told besides its settings."""


class ClosableExecutor(Executor, Protocol):
    """A place that ``with`` closes."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...


@dataclass(frozen=True)
class NamedPlace:
    """A place as the user named it: its plug-in, and the settings for that."""

    name: str
    kind: str
    table: Table = field(default_factory=Table)

    @property
    def jobs(self) -> int | None:
        """How many at once, if it is configured."""
        entry = self.table.entries.get("jobs")
        if entry is None:
            return None
        if type(entry.value) is not int or entry.value < 1:
            raise InputError(
                f"jobs = {entry.value!r} is not possible",
                place=entry.place,
                hint="a whole number from 1",
            )
        return entry.value

    def load(self) -> Any:
        """Return the plug-in's class."""
        return plugins.load("places", self.kind)

    def settings(self) -> tuple[Setting, ...]:
        """Return what can be set."""
        return described(getattr(self.load(), "Options", NoSettings))

    def texts(self) -> dict[str, str]:
        """Shell text and programs that the file sets, by where they stand."""
        executed = {setting.name for setting in self.settings() if setting.executes}
        return {
            f"{entry.place or FILE} {name}": str(entry.value)
            for name, entry in self.table.entries.items()
            if name in executed
        }

    def options(self, overrides: Mapping[str, str] = {}) -> Any:
        """Return the settings of the file, then those that are *overrides*.

        None if the place has none.
        """
        entries = {n: e for n, e in self.table.entries.items() if n not in _COMMON_SETTINGS}
        kind = getattr(self.load(), "Options", None)
        options = settings_of(
            kind or NoSettings, {**entries, **overrides}, f"the place {self.kind}", _COMMON_SETTINGS
        )
        return options if kind is not None else None


def read_places(path: Path) -> dict[str, Table]:
    """Return the tables ``[places.NAME]`` of the file at *path*, in its order."""
    document = read_project_file(path)
    for name in document.value:
        if name != _PLACES and did_you_mean(name, [_PLACES]).startswith("did you mean"):
            document.wrong((name,), f"[{name}] is not a table of {FILE}", "write [places.NAME]")
    places = document.value.get(_PLACES, {})
    if not isinstance(places, dict) or not all(isinstance(t, dict) for t in places.values()):
        document.wrong((_PLACES,), "places have to be tables", "write [places.NAME]")
    return {name: document.table((_PLACES, name), table) for name, table in places.items()}


def configured_places(project: Path) -> dict[str, NamedPlace]:
    """Return the places that the project's zenturio.toml tells of, by name."""
    kinds = [name for name in plugins.names("places") if name != INLINE]
    places = {}
    for name, table in read_places(project / FILE).items():
        entry = table.entries.get("kind", Entry(name, table.place))
        if name in kinds and entry.value != name:
            raise InputError(
                f"[places.{name}] would replace the place {name} that is built in",
                place=entry.place,
                hint="give it another name",
            )
        if entry.value not in kinds:
            if "kind" in table.entries:
                message = f"no place is of the kind {entry.value!r}"
                hint = did_you_mean(str(entry.value), kinds)
            else:
                message = f"[places.{name}] does not say of which kind it is"
                hint = f'kind = "dask", or another one; {did_you_mean(name, kinds)}'
            raise InputError(message, place=entry.place, hint=hint)
        places[name] = NamedPlace(name, str(entry.value), table)
    return places


def known_places(project: Path) -> dict[str, NamedPlace]:
    """All places that have a name: those of zenturio.toml, then those that are installed."""
    places = configured_places(project)
    installed = [name for name in plugins.names("places") if name != INLINE and name not in places]
    return places | {name: NamedPlace(name, name) for name in installed}


def find_place(text: str, project: Path) -> NamedPlace:
    """Return what *text* names in the *project*: see above."""
    if text.endswith(".toml"):
        return NamedPlace(text, "hosts", Table({"file": Entry(text)}))
    scheme, sign, address = text.partition("://")
    if sign:
        kind = "dask" if scheme in ("tcp", "tls") else scheme
        _check_kind(kind, text, ())
        if not address:
            raise InputError(f"{text!r} is not an address", hint="write dask://host:8786")
        return NamedPlace(text, kind, Table({"address": Entry(text)}))
    places = configured_places(project)
    if text in places:
        return places[text]
    _check_kind(text, text, places)
    return NamedPlace(text, text)


def _check_kind(kind: str, text: str, configured: Any) -> None:
    kinds = [name for name in plugins.names("places") if name != INLINE]
    if kind not in kinds:
        raise InputError(
            f"no place is named {text!r}", hint=did_you_mean(kind, (*kinds, *configured))
        )


def open_place(
    text: str,
    folder: Path,
    jobs: int | None = None,
    *,
    keep: Keep = "never",
    pin: bool = False,
    overrides: Mapping[str, str] = {},
) -> ClosableExecutor:
    """The place that *text* names, which works below *folder*, the project's ``.zenturio``.

    *overrides* are settings that override those of zenturio.toml.
    """
    place_spec = find_place(text, folder.absolute().parent)
    return open_named(place_spec, folder, jobs, keep=keep, pin=pin, overrides=overrides)


def open_named(
    place_spec: NamedPlace,
    folder: Path,
    jobs: int | None = None,
    *,
    keep: Keep = "never",
    pin: bool = False,
    overrides: Mapping[str, str] = {},
) -> ClosableExecutor:
    """Return the place, opened."""
    options = place_spec.options(overrides)
    if place_spec.kind != "hosts":  # Its texts stand in a file of its own, which asks by itself.
        trust.require(folder, place_spec.texts())
    arguments: dict[str, Any] = {} if options is None else {"options": options}
    place: ClosableExecutor = place_spec.load()(
        folder, jobs or place_spec.jobs, keep=keep, pin=pin, **arguments
    )
    return place
