"""Everything that is wrong is said together: a place to collect it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType

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

    def gather(self) -> Gathering:
        """Keep what the block raises, and go on behind it."""
        return Gathering(self)

    def close(self) -> None:
        """Raise all errors as one, if there are any; a warning beside them may say why."""
        if self.errors:
            raise AnnotationError.all([*self.errors, *self.warnings])


@dataclass(frozen=True, slots=True)
class Gathering:
    """A ``with`` whose block may end early, in complaints."""

    complaints: Complaints

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if isinstance(error, InputError):
            self.complaints.errors += error.complaints
            return True
        return False
