"""What every verb prints with: facts as JSON, tables, progress that a pipe never sees."""

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from zenturio.cli import terminal
from zenturio.safe_text import one_line, visible_in_json

if TYPE_CHECKING:
    from rich.console import Console

    from zenturio.search import Setting


def facts(value: Any) -> None:
    """Print *value* as JSON; what JSON has no number for is written as text."""
    text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, indent=2)
    typer.echo(visible_in_json(text))


def report(line: bytes) -> None:
    """Tell the study *line*, if this is one of its experiments."""
    from zenturio.experiment import METRICS

    path = os.environ.get(METRICS)
    if path:
        with Path(path).open("ab") as file:
            file.write(line)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and (not math.isfinite(value)):
        return "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], *, right: str = "") -> None:
    """Print aligned columns; those whose letter in *right* is ``r`` stand to the right."""
    cells = [[one_line("" if value is None else str(value)) for value in row] for row in rows]
    titles = [one_line(head) for head in heads]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    for number, row in enumerate([titles, *cells]):
        pairs = enumerate(zip(row, widths, strict=True))
        line = "  ".join(
            text.rjust(width) if right[i : i + 1] == "r" else text.ljust(width)
            for i, (text, width) in pairs
        ).rstrip()
        if number == 0:
            terminal.styled(line, "bold")
            line = ""
        typer.echo(line)


@contextmanager
def progress(words: str, total: int | None) -> Iterator[Any]:
    """Yield ``step(n=1)``; on a terminal a bar moves with it, on a pipe nothing is printed."""
    if not sys.stderr.isatty():
        yield lambda _n=1: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Left

    columns = (TextColumn(words), BarColumn(), MofNCompleteColumn(), Left())
    with Progress(*columns, console=_console(), transient=True) as bar:
        task = bar.add_task(words, total=total)
        yield lambda n=1: bar.advance(task, n)


@contextmanager
def waiting(words: str) -> Iterator[None]:
    """On a terminal, say what one waits for while the block works; on a pipe, nothing."""
    if not sys.stderr.isatty():
        yield
        return
    with _console().status(words):
        yield


def _console() -> "Console":
    from rich.console import Console

    return Console(file=terminal.unguarded(sys.stderr))


def number(value: Any) -> str:
    """A value as a table shows it: four digits of a fraction, all of a whole number."""
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) < 1e15
        return f"{value:.0f}" if whole else f"{value:.4g}"
    return "" if value is None else str(value)


def kind(setting: "Setting") -> str:
    """What a setting of an engine can be: its choices, or its type and limits."""
    if setting.choices:
        return "|".join(setting.choices)
    limits = [
        f"{word} {at:g}"
        for word, at in (("from", setting.low), ("to", setting.high))
        if at is not None
    ]
    return " ".join([setting.type, *limits])
