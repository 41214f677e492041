"""Paths relative to the project in stored notes, so that they survive a move or copy of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_MARK = "zen-project:"


def to_portable(value: Any, folder: Path) -> Any:
    """Return *value*, anything JSON, with each path in *folder* as seen from there."""

    def convert(text: str) -> str:
        if text == str(folder) or text.startswith(f"{folder}/"):
            return f"{_MARK}.{text[len(str(folder)) :]}"
        return f"{_MARK}={text}" if text.startswith(_MARK) else text

    return _converted(value, convert)


def to_local(value: Any, folder: Path) -> Any:
    """Return what ``portable`` was given, if the project is in *folder* now."""

    def convert(text: str) -> str:
        if not text.startswith(_MARK):
            return text
        kind, rest = text[len(_MARK) :][:1], text[len(_MARK) + 1 :]
        return f"{folder}{rest}" if kind == "." else rest

    return _converted(value, convert)


def _converted(value: Any, convert: Any) -> Any:
    if isinstance(value, str):
        return convert(value)
    if isinstance(value, dict):
        return {key: _converted(element, convert) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_converted(element, convert) for element in value)
    return value
