"""Documents of workflows, machines and plans: numbers may have units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zenturio.errors import InputError, PlaceError
from zenturio.expression import parse
from zenturio.files import write_whole
from zenturio.schedule.model.workflow import Floats
from zenturio.settings.document import Document, KeyPath, name_at

MAX_TASKS = 10**7

MAX_EDGES = 5 * 10**7

_STANDARD_STREAM = Path("-")


class FormatDocument(Document):
    """A document in which a number may be a text with a unit, as in ``4GB``."""

    def number(self, value: Any, path: KeyPath, low: float = 0.0, *, finite: bool = True) -> float:
        """Return *value* as a number of at least *low*; texts may carry a unit."""
        if isinstance(value, str):
            value = self._measured(value, path)
        return super().number(value, path, low, finite=finite)

    def numbers(self, values: Sequence[Any], path_of: Callable[[int], KeyPath]) -> Floats:
        """Return *values* as an array of numbers; *path_of* gives the path of the i-th."""
        if set(map(type, values)) <= {int, float}:
            column = np.array(values, np.float64)
            invalid = np.flatnonzero(~(np.isfinite(column) & (column >= 0)))
            if len(invalid):
                self.number(values[invalid[0]], path_of(int(invalid[0])))
            return column
        return np.array(
            [self.number(value, path_of(i)) for i, value in enumerate(values)], np.float64
        )

    def _measured(self, text: str, path: KeyPath) -> Any:
        """Return the value of a number with a unit, such as 4GB or 100ms."""
        try:
            return parse(text).value({})
        except InputError:
            self.wrong(
                path, f"{name_at(path)} is {text!r:.60}", "write a number, or one such as '4GB'"
            )


def file_exists(path: Path) -> bool:
    """Return whether *path* exists; False for what cannot be a path."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def write_text(path: Path, pieces: Iterable[str]) -> None:
    """Write *pieces* to *path* atomically: an existing file stays until the new one is complete.

    ``-`` is standard output. Raise PlaceError if the file cannot be written.
    """
    try:
        write_whole(
            Path("/dev/stdout") if path == _STANDARD_STREAM else path,
            (piece.encode() for piece in pieces),
        )
    except UnicodeEncodeError as error:
        invalid = error.object[error.start : error.end]
        raise InputError(f"{path} cannot be written: {invalid!r} is not a character") from None
    except OSError as error:
        raise PlaceError(f"cannot write {path}: {error.strerror or error}") from error
