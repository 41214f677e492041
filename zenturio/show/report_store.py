"""Reports of a project: Markdown files in its folder ``reports``, and their export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from zenturio.errors import (
    ConflictError,
    InputError,
    NotFoundError,
    PlaceError,
    SafetyError,
    ZenError,
    did_you_mean,
)
from zenturio.files import write_whole
from zenturio.show.report import MOST, Report, Words, line, may_be_named, named, read

if TYPE_CHECKING:
    from zenturio.record import Repository
    from zenturio.show.chart import Chart
    from zenturio.show.report import Style
    from zenturio.show.scene import Scene


FOLDER = "reports"
ENDING = ".md"
FORMATS = ("html", "png", "svg", "pdf")


@dataclass(frozen=True)
class Reports:
    """The reports of a project."""

    project: Path

    def names(self) -> list[str]:
        """Sorted; none before there is one. A file that a report cannot be called is none."""
        found = (path.stem for path in (self.project / FOLDER).glob(f"*{ENDING}"))
        return sorted(filter(may_be_named, found))

    def text(self, name: str) -> str:
        """What a report says; NotFoundError if there is none."""
        path = self._path(name)
        try:
            if path.stat().st_size > MOST:
                raise InputError(f"{path.name} has more than {MOST:,} bytes")
            return path.read_text("utf-8")
        except FileNotFoundError:
            hint = did_you_mean(name, self.names())
            raise NotFoundError(f"no report is called {name!r}", hint=hint) from None
        except (OSError, UnicodeDecodeError) as error:
            raise PlaceError(f"cannot read {path}: {error}") from error

    def save(self, name: str, text: str, known: str = "") -> None:
        """Write a report; *known* is the mark of what was read before, empty of a new one.

        ConflictError if it is another one by now, InputError if it is too long.
        """
        now = mark(self.text(name)) if name in self.names() else ""
        if now != known:
            raise ConflictError(
                f"somebody else has changed {name!r} meanwhile",
                hint="keep your text, open the report again, and put it in there",
            )
        read(text)
        path = self._path(name)
        try:
            path.parent.mkdir(exist_ok=True)
            write_whole(path, [text.encode()])
        except OSError as error:
            raise PlaceError(f"cannot write {path}: {error.strerror}") from error

    def add(self, name: str, said: str, target: str) -> None:
        """A picture at the end of a report, which is begun if there is none."""
        there = name in self.names()
        text = self.text(name) if there else f"# {name}\n"
        known = mark(text) if there else ""
        self.save(name, f"{text.rstrip()}\n\n{line(said, target)}\n", known)

    def _path(self, name: str) -> Path:
        path = self.project / FOLDER / f"{named(name)}{ENDING}"
        if not path.resolve().is_relative_to(self.project.resolve()):
            raise SafetyError(f"{path.name} leads out of the project")
        return path


def mark(text: str) -> str:
    """What tells one version of a report from another."""
    return sha256(text.encode()).hexdigest()[:16]


def exported(
    report: Report, kind: str, repository: Repository, folder: Path, *, slow: bool = False
) -> bytes:
    """The report as one file; a picture that cannot be drawn says why in its place."""
    if kind not in FORMATS:
        hint = did_you_mean(kind, FORMATS)
        raise InputError(f"reports are not written as {kind!r}", hint=hint)
    paper: list[Sequence[tuple[Style, str]] | Chart | Scene] = []
    page: list[str | Chart | Scene] = []
    for block in report.blocks:
        if isinstance(block, Words):
            paper.append(block.lines)
            page.append(block.html)
            continue
        try:
            found = block.drawn(repository, folder, slow=slow)
        except ZenError as error:
            failed = _undrawn(block.said, error)
            paper.append(failed.lines)
            page.append(failed.html)
        else:
            paper += [*found, [("text", block.said)]] if block.said else found
            page += [*found, f"<p><em>{escape(block.said)}</em></p>"] if block.said else found
    if kind == "html":
        from zenturio.show.report_page import report_page  # noqa: PLC0415 - plotly loads slowly

        return report_page(report.title, page).encode()
    try:
        from zenturio.show.printed_report import printed  # noqa: PLC0415 - an extra, and slow to load
    except ImportError as error:
        raise PlaceError(
            "images are drawn by matplotlib, which is not installed",
            hint="pip install 'zenturio[images]'; or write an .html file, which needs nothing",
        ) from error
    return printed(paper, kind)


def _undrawn(said: str, error: ZenError) -> Words:
    words = read(f"    {said or 'a picture'} cannot be drawn:\n    {error}".replace("\n", "\n    "))
    (found,) = (block for block in words.blocks if isinstance(block, Words))
    return found
