"""Everything that is wrong is said together: a place to collect it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from zenturio.errors import AnnotationError, Complaint, InputError, Place


@dataclass
class Complaints:
    """What was found to be wrong so far, and what only looks wrong."""

    errors: list[Complaint] = field(default_factory=list)
    warnings: list[Complaint] = field(default_factory=list)

    def error(self, message: str, place: Place | None, cure: str) -> None:
        self.errors.append(Complaint(message, place, cure))

    def warn(self, message: str, place: Place | None, cure: str) -> None:
        self.warnings.append(Complaint(message, place, cure, severity="warning"))

    @contextmanager
    def gather(self) -> Iterator[None]:
        """Keep what the block raises, and go on behind it."""
        try:
            yield
        except InputError as error:
            self.errors += error.complaints

    def close(self) -> None:
        """Raise all errors as one, if there are any."""
        if self.errors:
            raise AnnotationError.all(self.errors)
