"""What ``with`` closes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class ClosesOnExit(ABC):
    """A place that is closed behind the last line of a ``with``."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
