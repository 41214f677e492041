"""Output of the verbs: JSON, tables, diagnostics, progress bars, failures, commands to type."""

import json
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import typer

from zenturio import quantities
from zenturio.cli import safe_streams
from zenturio.errors import Diagnostic
from zenturio.log_setup import work_progress
from zenturio.safe_text import one_line, visible_in_json

if TYPE_CHECKING:
    from rich.console import Console

    from zenturio.search import Setting
    from zenturio.study.driver.progress import BestPoint, ExpectedPoint, FailureGroup


def facts(value: Any) -> None:
    """Print *value* as JSON; NaN and infinities become texts."""
    typer.echo(facts_text(value))


def facts_text(value: Any) -> str:
    """Return *value* as JSON, as `facts` prints it."""
    text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, indent=2)
    return visible_in_json(text)


def report(line: bytes) -> None:
    """Append *line* to ``$ZEN_METRICS``, if this command is itself an experiment of a study."""
    from zenturio.experiment import METRICS

    # Set where this command is itself the RUN of an experiment, as in studies of schedules.
    path = os.environ.get(METRICS)
    if path:
        with Path(path).open("ab") as file:
            file.write(line)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and (not math.isfinite(value)):
        return "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], *, right: str = "") -> None:
    """Print aligned columns; those whose letter in *right* is ``r`` are right-aligned."""
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
            safe_streams.styled(line, "bold")
            line = ""
        typer.echo(line)


SHOWN_DIAGNOSTICS = 100
"""Diagnostics that are printed at most; ``zen check --json`` lists all."""
_SHOWN_ALIKE = 5
"""Lines of equal warnings that are named at most."""


def diagnostics(messages: Iterable[Diagnostic], *, err: bool = False) -> None:
    """Print diagnostics with equal warnings merged, and count those that are not shown."""
    merged = merge_warnings(messages)
    for diagnostic in merged[:SHOWN_DIAGNOSTICS]:
        typer.echo(str(diagnostic), err=err)
    if len(merged) > SHOWN_DIAGNOSTICS:
        hidden = len(merged) - SHOWN_DIAGNOSTICS
        typer.echo(f"... and {hidden:,} more: zen check --json lists all", err=err)


def merge_warnings(messages: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Merge warnings that say the same of different lines into one that names all lines.

    Two warnings are equal if they differ at most in the word that each marks in its line.
    """
    alike: dict[object, list[Diagnostic]] = {}
    for number, diagnostic in enumerate(messages):
        word = _marked_word(diagnostic)
        texts = [
            re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", "\0", text) if word else text
            for text in (diagnostic.message, diagnostic.hint)
        ]
        is_warning = diagnostic.severity == "warning" and diagnostic.place is not None
        alike.setdefault(tuple(texts) if is_warning else number, []).append(diagnostic)
    return [_merged(*same) for same in alike.values()]


def _merged(first: Diagnostic, *alike: Diagnostic) -> Diagnostic:
    lines = _other_lines(first, alike) if alike else ""  # one alone may have no place
    return replace(first, message=f"{first.message} (also {lines})") if lines else first


def _marked_word(diagnostic: Diagnostic) -> str:
    """Return the text above the carets, if the message repeats it."""
    if (place := diagnostic.place) is None:
        return ""
    word = place.text[place.column - 1 : place.column - 1 + place.width].strip()
    return word if word in diagnostic.message else ""


def _other_lines(first: Diagnostic, alike: Sequence[Diagnostic]) -> str:
    """Return ``on lines 7 and 9``; if warnings differ in a word, with it: ``b on line 7``."""
    places = [place for diagnostic in (first, *alike) if (place := diagnostic.place)]
    words = [_marked_word(diagnostic) for diagnostic in (first, *alike)]
    file, is_same_word = places[0].file, len(set(words)) == 1
    if is_same_word and all(place.file == file for place in places):
        lines = [str(line) for line in dict.fromkeys(place.line for place in places)][1:]
        return f"on line{'s' * (len(lines) > 1)} {_listed(lines)}" if lines else ""
    named = (
        ("" if is_same_word else f"{word} ")
        + (f"on line {place.line}" if place.file == file else f"in {place.file}:{place.line}")
        for word, place in zip(words, places, strict=True)
    )
    return _listed(list(dict.fromkeys(named))[1:])


def _listed(texts: Sequence[str]) -> str:
    hidden = [f"{len(texts) - _SHOWN_ALIKE:,} more"] if len(texts) > _SHOWN_ALIKE else []
    return quantities.listing([*texts[:_SHOWN_ALIKE], *hidden])


@contextmanager
def progress(words: str, total: int | None) -> Iterator[Any]:
    """Yield ``step(n=1)``, which advances a bar on a terminal and prints nothing on a pipe."""
    if not safe_streams.is_moving(sys.stderr):
        yield lambda _n=1: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Left

    columns = (TextColumn(words), BarColumn(), MofNCompleteColumn(), Left())
    with Progress(*columns, console=_console(), transient=True) as bar:
        task = bar.add_task(words, total=total)
        yield lambda n=1: bar.advance(task, n)


@contextmanager
def share_progress(words: str) -> Iterator[Callable[[int, int], None]]:
    """Yield ``step(done, total)``; on a terminal it shows the share and the remaining time."""
    if not safe_streams.is_moving(sys.stderr):
        yield lambda _done, _total: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeRemainingColumn as Left

    columns = (TextColumn(words), BarColumn(), TaskProgressColumn(), Left())
    with Progress(*columns, console=_console(), transient=True) as bar:
        task = bar.add_task(words, total=None, visible=False)
        shown = -1

        def step(done: int, total: int) -> None:
            nonlocal shown
            # Drawing may cost more than the step that is reported: a thousand updates are enough.
            if shown < 0 or done >= total or abs(done - shown) * 1000 >= total:
                bar.update(task, completed=done, total=total, visible=True)
                shown = done

        yield step


WAIT_SECONDS = 1.0
"""A command shows progress after this time: most finish sooner, and load nothing for it."""


class WorkBar:
    """A progress bar for work that reports to `work_progress`, shown once it has taken a second.

    So code that reads files or copies results needs no progress bar of its own.
    """

    def __init__(self) -> None:
        self._shown = ExitStack()
        self._step: Callable[[int, int], None] | None = None
        self._label, self._done, self._since = "", 0, 0.0

    def __call__(self, label: str, done: int, total: int) -> None:
        if label != self._label or done < self._done:  # other work, or the same once more
            self.close()
            self._label, self._since = label, monotonic()
        self._done = done
        if done >= total:
            self.close()
        elif self._step is None and monotonic() - self._since >= WAIT_SECONDS:
            self._step = self._shown.enter_context(share_progress(label))
        if self._step is not None:
            self._step(done, total)

    def close(self) -> None:
        """Remove the bar from the terminal."""
        self._shown.close()
        self._step, self._label, self._done = None, "", 0


@contextmanager
def work_shown() -> Iterator[None]:
    """On a terminal, show the progress of long work in the block."""
    if not safe_streams.is_moving(sys.stderr):
        yield
        return
    bar = WorkBar()
    token = work_progress.set(bar)
    try:
        yield
    finally:
        work_progress.reset(token)
        bar.close()


@contextmanager
def waiting(words: str, seconds: float = 0.0) -> Iterator[None]:
    """On a terminal, show what the command waits for once the block has taken a second.

    The line shows the elapsed time and, if the block reports to `work_progress`, the share that is
    done and the remaining time. A block that takes *seconds* need not report.
    """
    if not safe_streams.is_moving(sys.stderr):
        yield
        return
    from threading import Event, Thread

    is_over, steps = Event(), _Steps(words)

    def say() -> None:
        began = monotonic()
        if is_over.wait(WAIT_SECONDS):
            return
        with _work_display(words) as show:
            while not is_over.wait(0.1):
                if seconds:
                    show(words, min(monotonic() - began, seconds), seconds)
                elif steps.total:
                    show(steps.label, steps.done, steps.total)

    thread = Thread(target=say, daemon=True)
    thread.start()
    token = work_progress.set(steps)
    try:
        yield
    finally:
        work_progress.reset(token)
        is_over.set()
        thread.join()


class _Steps:
    """The last progress report of the work in a block of `waiting`."""

    def __init__(self, label: str) -> None:
        self.label, self.done, self.total = label, 0, 0

    def __call__(self, label: str, done: int, total: int) -> None:
        self.label, self.done, self.total = label, done, total


@contextmanager
def _work_display(words: str) -> Iterator[Callable[[str, float, float], None]]:
    """Show a spinner and the elapsed time; yield a function that shows the share done."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.progress import TimeRemainingColumn as Left

    text = TextColumn("{task.description}")
    columns = (SpinnerColumn(), text, BarColumn(), TaskProgressColumn(), Left(), Elapsed())
    console = _console()
    with Progress(SpinnerColumn(), text, Elapsed(), console=console, transient=True) as bar:
        task, label = bar.add_task(words, total=None), ""

        def show(new_label: str, done: float, total: float) -> None:
            nonlocal label
            bar.columns = columns
            if new_label != label:  # other work has a speed of its own
                label = new_label
                bar.reset(task, total=total, description=label)
            bar.update(task, completed=done, total=total)

        yield show


def _console() -> "Console":
    from rich.console import Console

    return Console(file=safe_streams.unguarded(sys.stderr))


def number(value: Any, digits: int = 4) -> str:
    """Return *value* as in tables: integers in full, floats with *digits* significant digits."""
    if isinstance(value, float):
        whole = abs(value) < 1e15 and (value.is_integer() or abs(value) >= 1e4)
        return f"{value:.0f}" if whole else f"{value:.{digits}g}"
    return "" if value is None else str(value)


def metric_rows(metrics: Mapping[str, float]) -> list[tuple[str, str]]:
    """Return names and values of *metrics* for a table; NaN (undefined) is empty."""
    return [(name, "" if math.isnan(value) else number(value)) for name, value in metrics.items()]


def kind(setting: "Setting") -> str:
    """Return the choices of a setting of an engine, or its type and limits."""
    if setting.choices:
        return "|".join(setting.choices)
    limits = [
        f"{word} {at:g}"
        for word, at in (("from", setting.low), ("to", setting.high))
        if at is not None
    ]
    return " ".join([setting.type, *limits])


def values_text(values: Mapping[str, object]) -> str:
    """Return ``n=512, flags="", threads=2``: inactive parameters are left out."""
    return ", ".join(
        f"{name}={_delimited(value)}" for name, value in values.items() if value is not None
    )


def best_text(best: "BestPoint", study: str, db: str | None) -> str:
    """Return the line that names the best point of a run."""
    text = f"{best.goal} = {number(best.value, 6)} at {values_text(best.at)}"
    text += " (measured before this search)" if best.is_known else ""
    if best.confirmed:
        return f"confirmed best: {text}, {_confirmed_by(best.confirmed)}"
    ranked = command_to_type("best", study, db=db)
    if best.objectives > 1:
        return f"best by the first of {best.objectives} objectives: {text}; by all: {ranked}"
    if best.repeat is None:
        return f"best: {text}"
    # Points are ranked by means, so another point may be the best.
    return f"best repeat: {text}, repeat {best.repeat}; of the points: {ranked}"


def _confirmed_by(count: int) -> str:
    return f"the mean of {quantities.amount(count, 'measurement')} after the search"


def expected_text(point: "ExpectedPoint") -> str:
    """Return the line that names the expected best point of a search without repeats."""
    if point.confirmed:
        return (
            f"confirmed best: {point.goal} = {number(point.value)} at {values_text(point.at)},"
            f" {_confirmed_by(point.confirmed)}; points with a single one may be lucky"
        )
    scatter = f"{point.scatter:.0%}" if point.is_share else number(point.scatter)
    return (
        f"expected best: {point.goal} = {number(point.value)} at {values_text(point.at)}, measured"
        f" {number(point.measured)}: single results scatter by about {scatter} around a model of"
        " all points, so the best measured one may be luck; repeats tell (REPEAT 5)"
    )


def _delimited(value: object) -> str:
    """Return *value*, in quotes if it is empty or contains a comma.

    Quotes within a text are kept; reals are rounded as in tables.
    """
    is_short = isinstance(value, float) and (len(str(value)) > 8 or value.is_integer())
    text = f"{value:.6g}" if is_short else str(value)
    is_clear = text == text.strip() != "" and "," not in text
    quote = "'" if '"' in text and "'" not in text else '"'
    return text if is_clear else f"{quote}{text}{quote}"


def command_to_type(*words: str, db: str | None = None) -> str:
    """Return ``zen WORDS``, with ``--db`` where the database was named on the command line."""
    # A command that is copied must reach the same database, without a password in it.
    named = [] if not db or db == os.environ.get("ZENTURIO_DB") else ["--db", _shown(db)]
    return shlex.join(["zen", *words, *named])


def command_for_failed(arguments: Sequence[str] | None = None) -> str:
    """Return the current command line with ``--only failed``."""
    words_left = iter(sys.argv[1:] if arguments is None else arguments)
    words: list[str] = []
    for word in words_left:
        if word in ("--only", "--db"):
            value = next(words_left, "")
            words += [word, _shown(value)] if word == "--db" else []
        elif word.startswith("--db="):
            words.append(f"--db={_shown(word.removeprefix('--db='))}")
        elif not word.startswith("--only="):
            words.append(word)
    return shlex.join(["zen", *words, "--only", "failed"])


def command_given(verb: str) -> tuple[str, ...]:
    """Return the current command line after ``zen``, without ``--db``; empty if not *verb*."""
    words_left = iter(sys.argv[1:])
    words: list[str] = []
    for word in words_left:
        if word == "--db":
            next(words_left, "")
        elif not word.startswith("--db=") and word not in ("--trust", "--json"):
            words.append(word)
    return tuple(words) if words[:1] == [verb] else ()


def _shown(db: str) -> str:
    """Return a URL without its password; a path as it is."""
    if "://" not in db:
        return db
    from zenturio.record.open import dialect_at

    return dialect_at(db).location


GROUPS = 10
"""Causes that are shown; the frequent ones come first."""


def print_failures(failures: "Sequence[FailureGroup]", study: str, db: str | None) -> None:
    """Print each cause with its number of experiments and an example."""
    for failure in failures[:GROUPS]:
        typer.echo(
            f"{failure.count:,} x {one_line(failure.text)}, such as {values_text(failure.values)}"
        )
        for reason in failure.reasons:
            typer.echo(f"    {one_line(reason)}")
        for line in failure.end.splitlines():
            typer.echo(f"    | {one_line(line)}")
        typer.echo(f"    output: {command_to_type('logs', failure.digest[:12], db=db)}")
    if len(failures) > GROUPS:
        listed = command_to_type("results", study, "--where", "status == 'failed'", db=db)
        typer.echo(f"... and {len(failures) - GROUPS:,} more causes: {listed}")


def failures_of_study(study: str, db: str | None) -> "list[FailureGroup]":
    """Return the recorded causes of failure of *study*, one more than is shown."""
    from zenturio.experiment.experiment import log_end, missing_reasons, written_failure
    from zenturio.query.listing import query_listing
    from zenturio.query.study_table import TableQuery
    from zenturio.study.driver.progress import LINES, FailureGroup
    from zenturio.study.overview import opened_repository

    with opened_repository(db) as repository:

        def failures(listing: Any) -> list[FailureGroup]:
            names = [column.name for column in listing.columns]
            parameters = [column.role == "parameter" for column in listing.columns]
            failures = []
            for cause in listing.causes(GROUPS + 1):
                row, logs = cause.example, repository.logs(cause.example.digest)
                cells = zip(names, row.cells, parameters, strict=True)
                values = {name: cell for name, cell, parameter in cells if parameter}
                _, end = log_end(logs.stderr, logs.stdout, LINES)
                why = cause.cause or cause.status
                outcome = repository.find_outcomes([row.digest]).get(row.digest)
                reasons = missing_reasons(why, outcome.metrics) if outcome is not None else ()
                # Numbers in a message are those of one experiment: for several they would be
                # wrong.
                written = written_failure(why, logs.stderr) if cause.count == 1 else ""
                failures.append(
                    FailureGroup(why, cause.count, row.digest, values, end, reasons, written)
                )
            return failures

        return query_listing(repository, TableQuery(study), failures)


def failure_facts(failures: "Sequence[FailureGroup]") -> list[dict[str, Any]]:
    """Return *failures* as plain values for JSON."""
    return [
        {
            "cause": failure.cause,
            "count": failure.count,
            "digest": failure.digest,
            "values": dict(failure.values),
            "end": failure.end,
            "reasons": list(failure.reasons),
        }
        for failure in failures
    ]
