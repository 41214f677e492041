"""What is kept of how a study was run last, so that its name alone is enough to go on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zenturio.errors import InputError, ZenError

if TYPE_CHECKING:
    from zenturio.execute.executor import Outstanding
    from zenturio.search.designs import Design

RUN = "run"
"""The note of a study that holds it: the options of ``zen run`` by their names."""

SEARCH = "search"
"""The note that says how the points of a study were searched for, and for how many slots."""


def recall_options(study: str, notes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with which *study* was run; InputError if none were stored."""
    options = notes.get(RUN)
    if not options:
        raise InputError(
            f"it is not known how {study} was run",
            hint="it is of a function in Python, or of an older version: run it again there",
        )
    return dict(options)


def place_of(notes: Mapping[str, Any]) -> str:
    """Return where a study was run last; empty if none was stored."""
    return str(notes.get(RUN, {}).get("on", ""))


def read_design(
    study: str, notes: Mapping[str, Any], text: str = "", seed: int | None = None
) -> Design:
    """Return the design *text* with its *seed*, or that with which *study* was run last."""
    from zenturio.search.designs import Design  # noqa: PLC0415 - most verbs need none

    options = notes.get(RUN, {})
    text = text or str(options.get("design", ""))
    if not text:
        raise InputError(
            f"the last run of {study} had no design",
            hint="run one: zen run FILE --design saltelli:128; or name that of an earlier run:"
            " --design saltelli:128",
        )
    return Design.read(text, int(options.get("seed", 0)) if seed is None else seed)


def orphans_at(notes: Mapping[str, Any], folder: Path) -> Outstanding | None:
    """Return what drivers have at the place where the study was run last, if that outlives them.

    *folder* is the project's ``.zenturio``.
    """
    name = place_of(notes)
    if not name or name == "local":
        return None
    from zenturio.execute.places import find_place  # noqa: PLC0415 - it loads much

    try:
        named = find_place(name, folder.absolute().parent)
        look = getattr(named.load(), "left", None)
        orphans: Outstanding | None = None if look is None else look(folder, named.options())
    except ZenError:  # a place that is not configured any more has nothing to tell
        return None
    return orphans
