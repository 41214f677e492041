"""Find an engine, a place or a dialect by name; the built-in ones come in by the same door."""

import logging
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from zenturio.errors import PluginError, unknown_name

_log = logging.getLogger(__name__)
_ONE = {
    "applications": "application",
    "algorithms": "algorithm",
    "charts": "kind of chart",
    "columns": "column",
    "dialects": "dialect",
    "observers": "observer",
    "places": "place",
    "search": "engine",
}
"""What one of a group is called."""


@cache
def _entry_points(kind: str) -> dict[str, tuple[EntryPoint, ...]]:
    """Entry points of a group by name; one that is listed twice for the same object is one."""
    points_by_name: dict[str, dict[str, EntryPoint]] = {}
    for point in entry_points(group=f"zenturio.{kind}"):
        points_by_name.setdefault(point.name, {})[point.value] = point
    return {name: tuple(points.values()) for name, points in points_by_name.items()}


def names(kind: str) -> list[str]:
    """Return all names in group ``zenturio.<kind>``, sorted."""
    return sorted(_entry_points(kind))


def load(kind: str, name: str) -> Any:
    """Return the object of the entry point *name* in group ``zenturio.<kind>``."""
    match _entry_points(kind).get(name, ()):
        case ():
            raise unknown_name(_ONE.get(kind, kind), name, names(kind))
        case (only,):
            _log.debug("%s %r: loading %s", _ONE.get(kind, kind), name, only.value)
            try:
                return only.load()
            except Exception as error:
                raise PluginError(
                    f"{kind} {name!r} ({only.value}) does not load: {error}"
                ) from error
        case several:
            claims = ", ".join(sorted(point.value for point in several))
            raise PluginError(
                f"{kind} {name!r} is claimed twice: {claims}", hint="remove one of them"
            )
