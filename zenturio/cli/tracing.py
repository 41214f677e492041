"""What `zen check --trace` tells of an experiment that it ran."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zenturio.cli import output

if TYPE_CHECKING:
    from zenturio.annotate.model import Application
    from zenturio.study.used_files import Trace

_SHOWN = 50
"""Names of each sort that are printed."""


@dataclass(frozen=True)
class Traced:
    """A trace, the directives that declare what it found, and where they were written."""

    trace: Trace
    directives: list[str]
    written_to: Path | None

    @staticmethod
    def of(application: Application, *, fix: bool) -> Traced:
        """Trace the first point; with *fix*, declare what it used in the file of the first RUN."""
        from zenturio.study.used_files import declare, declaring_folder, trace

        with output.waiting("tracing"):
            found = trace(application)
        bodies = found.directives(declaring_folder(application))
        path = declare(application, bodies) if fix and bodies else None
        return Traced(found, bodies, path)

    def facts(self) -> dict[str, Any]:
        written_to = str(self.written_to) if self.written_to else None
        return {**asdict(self.trace), "directives": self.directives, "written_to": written_to}

    def lines(self) -> Iterator[str]:
        trace = self.trace
        if trace.exit:
            yield f"the traced experiment failed: exit {trace.exit}; it may have used less"
        if trace.is_partial:
            yield "a process of another architecture ran: what it used is not known"
        for title, names in (
            ("used, but not declared", (*trace.programs, *trace.files)),
            ("written outside of its folder", trace.written),
        ):
            if names:
                yield f"{title}:"
                yield from (f"  {name}" for name in names[:_SHOWN])
            if len(names) > _SHOWN:
                yield f"  ... and {len(names) - _SHOWN:,} more: --json lists all"
        yield f"{trace.system:,} files of the system and of programs' installations were read"
        if self.written_to:
            yield f"wrote {len(self.directives)} directives into {self.written_to}"
        elif self.directives:
            yield "declare them (or let --fix write it):"
            yield from (f"  ZEN$ {body}" for body in self.directives[:_SHOWN])
