"""Collects all diagnostics of a scan, so that they are reported together."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType

from zenturio.errors import AnnotationError, Diagnostic, InputError, Place


@dataclass
class Diagnostics:
    """What was found to be wrong so far, and what only looks wrong."""

    errors: list[Diagnostic] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)

    def error(self, message: str, place: Place | None, hint: str) -> None:
        self.errors.append(Diagnostic(message, place, hint))

    def warn(self, message: str, place: Place | None, hint: str) -> None:
        self.warnings.append(Diagnostic(message, place, hint, severity="warning"))

    def gather(self) -> Gathering:
        """Keep what the block raises, and go on behind it."""
        return Gathering(self)

    def close(self) -> None:
        """Raise all errors as one, if there are any; a warning beside them may say why."""
        if self.errors:
            raise AnnotationError.all([*self.errors, *self.warnings])


@dataclass(frozen=True, slots=True)
class Gathering:
    """A ``with`` whose block may end early, in diagnostics."""

    diagnostics: Diagnostics

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if isinstance(error, InputError):
            self.diagnostics.errors += error.diagnostics
            return True
        return False
