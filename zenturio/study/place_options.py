"""Where experiments of this process run, in how many slots, and which of their folders stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

from zenturio.errors import InputError, did_you_mean
from zenturio.execute.places import find_place
from zenturio.execute.workspace import Keep
from zenturio.record.open import project_folder


@dataclass(frozen=True)
class PlaceOptions:
    """A place, how many experiments it runs at once, and which folders stay."""

    jobs: int | None = None
    keep: Keep = "failed"
    pin: bool = False
    place: str = "local"
    """As `choose_place` has it."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the place; they override those of zenturio.toml."""


DEFAULT_PLACE = PlaceOptions()


def choose_keep(text: str) -> Keep:
    """Return whose folders ``--keep`` lets stay."""
    for keep in get_args(Keep):
        if keep == text.strip().lower():
            return keep  # type: ignore[no-any-return] # it is one of them
    raise InputError(f"--keep {text!r}", hint=did_you_mean(text, get_args(Keep)))


def choose_place(text: str, settings: Mapping[str, str] = {}) -> str:
    """Return *text*, the name or address of a place that runs commands.

    Raise InputError where it cannot be opened with these *settings*.
    """
    find_place(text, project_folder()).options(settings)
    return text
