"""VERIFY SAME "out.dat" AS BASELINE: results are compared with those of another point.

The baseline of an experiment is the point with the values that the files have by themselves, or
that WHERE names; parameters that are in no file (PARAM, ENV) have the experiment's own values. It
runs before the experiments that are compared with it.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, NamedTuple

from zenturio.annotate.model import Application, BaselineFileCheck
from zenturio.annotate.parameters import own_values
from zenturio.errors import InputError, SpaceError
from zenturio.experiment import Artifact, Experiment, ExperimentGenerator, Log, Outcome
from zenturio.experiment.experiment import SUCCEEDED, RunPosition
from zenturio.expression import Value
from zenturio.expression.scalar_functions import text_of
from zenturio.study.driver.experiment_source import ExperimentSource, TracksArrivalOrder

# Text files: their first difference, with numbers compared as numbers

LONGEST_LINE = 16 * 2**20
"""Bytes of a line that is compared as text and numbers; a longer one is taken in parts."""
LONGEST_SHOWN = 40
"""Characters of a word that a difference shows."""
_WORD = re.compile(
    r"(?P<number>(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[ed][-+]?\d+)?(?![\w.])"
    r"|(?<![\w.])[-+]?(?:nan|inf|infinity)(?![\w.]))"
    r"|\w+|[^\w\s]",
    re.IGNORECASE,
)


class Word(NamedTuple):
    """A number, a word or a sign of a line; nothing stands for the end of the line."""

    text: str
    number: float | None
    column: int
    """From 1."""


class TextDifference(NamedTuple):
    """Where two files differ first, and by how much."""

    line: int
    column: int
    text: str
    """What stands there; empty at the end of a line or a file."""
    expected: str
    distance: float | None = None
    """Between two numbers."""

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}"
        if self.distance is not None:
            return f"{place}: {self.text} instead of {self.expected}, {self.distance:.3g} off"
        text, expected = self.text or "the end", self.expected or "the end"
        return f"{place}: {text} instead of {expected}"


def first_difference(path: Path, baseline: Path, within: float = 0.0) -> TextDifference | None:
    """Return where *path* is not what *baseline* is; None if it is the same.

    Words and signs are the same to the letter, white space does not count, and numbers may differ
    by *within* times the greater one of them, or by *within* where both are below 1. OSError where
    a file cannot be read.
    """
    with path.open("rb") as file, baseline.open("rb") as before:
        lines = zip_longest(_lines(file), _lines(before))
        for number, (line, expected) in enumerate(lines, 1):
            if line == expected:
                continue
            words = zip_longest(_words(line), _words(expected))
            for word, other in words:
                difference = _difference(number, word, other, within)
                if difference is not None:
                    return difference
    return None


def _lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(LONGEST_LINE):
        yield line


def _words(line: bytes | None) -> Iterator[Word]:
    text = (line or b"").decode("utf-8", "backslashreplace")
    for match in _WORD.finditer(text):
        number = match["number"]
        value = None if number is None else float(number.lower().replace("d", "e"))
        yield Word(match[0], value, match.start() + 1)


def _difference(
    line: int, word: Word | None, expected: Word | None, within: float
) -> TextDifference | None:
    """Return where two words differ; either may be the end of its line."""
    if word is not None and expected is not None:
        if word.text == expected.text:
            return None
        a, b = word.number, expected.number
        if a is not None and b is not None:
            if a == b or (math.isnan(a) and math.isnan(b)):
                return None
            distance = abs(a - b)
            if distance <= within * max(abs(a), abs(b), 1.0) < math.inf:
                return None
            return TextDifference(line, word.column, word.text, expected.text, distance)
    column = word.column if word is not None else expected.column if expected is not None else 1
    text, expected_text = (w.text[:LONGEST_SHOWN] if w else "" for w in (word, expected))
    return TextDifference(line, column, text, expected_text)


# Experiments behind their baselines

MOST_BASELINES = 1024
"""Baselines that are held in memory; others are made again."""


@dataclass(frozen=True)
class _BaselineComparison:
    """A file, and what the points with which it is compared have."""

    same: BaselineFileCheck
    values: Mapping[str, Value]

    @property
    def text(self) -> str:
        return f"VERIFY {self.same.text}"


class ComparedWithBaselines:
    """The experiments of a source, each after the baselines with which it is compared."""

    def __init__(
        self,
        source: ExperimentSource,
        application: Application,
        generator: ExperimentGenerator,
        artifacts: Callable[[str], tuple[Artifact, ...]],
    ) -> None:
        """*artifacts* returns the files of a recorded baseline."""
        self._source = source
        self._space = application.space
        self._make = generator.experiment
        self._is_seeded = application.repeat.seed is not None
        self._artifacts = artifacts
        self._comparisons = [_comparison(application, s) for s in application.same_files]
        self._cache: dict[tuple[object, ...], Experiment | str] = {}
        self._states: dict[str, str] = {}
        """Of baselines, by digest; empty until they are complete."""
        self._besides: dict[str, Outcome | None] = {}
        """What came of baselines that the source has not had yet; None until they are complete."""
        self._waiting: dict[str, list[Experiment]] = {}
        self._ready: deque[Experiment] = deque()

    @property
    def over(self) -> bool:
        return self._source.over and not self._ready and not self._waiting

    @property
    def expecting(self) -> bool:
        return self._source.expecting

    @property
    def total(self) -> int:
        return self._source.total + len(self._besides)

    @property
    def ahead(self) -> int:
        return self._source.ahead

    def __iter__(self) -> Iterator[Experiment | None]:
        while self._ready:
            yield from self._released(self._ready.popleft())
        for experiment in self._source:
            if experiment is None:
                yield None
            else:
                yield from self._released(experiment)

    def arrived(self, experiment: Experiment) -> RunPosition | None:
        """Return what the source says; None where it does not go by the order of arrival."""
        source = self._source
        return source.arrived(experiment) if isinstance(source, TracksArrivalOrder) else None

    def complete(self, experiment: Experiment, outcome: Outcome) -> None:
        """Release what waited for this experiment."""
        digest = experiment.digest
        if digest in self._states:
            self._states[digest] = outcome.status
            self._ready += self._waiting.pop(digest, ())
        if digest in self._besides:
            self._besides[digest] = outcome
        else:
            self._source.complete(experiment, outcome)

    def judge(self, experiment: Experiment, outcome: Outcome) -> Outcome:
        """Return *outcome* as wrong where a file is not that of its baseline."""
        for comparison in self._comparisons:
            if outcome.status not in SUCCEEDED:
                break
            baseline = self._baseline(comparison, experiment)
            if isinstance(baseline, str):
                outcome = replace(outcome, status="failed", cause=f"{comparison.text}: {baseline}")
            elif baseline.digest != experiment.digest:
                outcome = self._compared(comparison, baseline, outcome)
        return outcome

    def _released(self, experiment: Experiment) -> Iterator[Experiment]:
        """Yield *experiment* if its baselines are complete, else the one that it waits for."""
        if experiment.digest in self._besides:
            outcome = self._besides[experiment.digest]
            if outcome is None:
                self._waiting.setdefault(experiment.digest, []).append(experiment)
            else:
                del self._besides[experiment.digest]
                self._source.complete(experiment, outcome)
            return
        for comparison in self._comparisons:
            baseline = self._baseline(comparison, experiment)
            if isinstance(baseline, str):
                continue
            is_new = baseline.digest not in self._states
            state = self._states.setdefault(baseline.digest, "")
            if baseline.digest == experiment.digest or state:
                continue
            self._waiting.setdefault(baseline.digest, []).append(experiment)
            if is_new:
                self._besides[baseline.digest] = None
                yield baseline
            return
        yield experiment

    def _baseline(
        self, comparison: _BaselineComparison, experiment: Experiment
    ) -> Experiment | str:
        """Return what *experiment* is compared with, or why there is nothing."""
        names = [parameter.name for parameter in self._space.dimensions]
        values = {name: experiment.values[name] for name in names} | dict(comparison.values)
        # Without a seed all repeats are to give the same; with one those of the same seed are.
        repeat = max(experiment.repeat, 1) if self._is_seeded else 1
        key = (comparison.text, repeat, *values.values())
        if key not in self._cache:
            if len(self._cache) >= MOST_BASELINES:
                self._cache.clear()
            try:
                self._cache[key] = self._make(self._space.find(values), repeat)
            except SpaceError:
                where = ", ".join(f"{name} = {text_of(value)}" for name, value in values.items())
                self._cache[key] = f"{where} is no point of the space"
        return self._cache[key]

    def _compared(
        self, comparison: _BaselineComparison, baseline: Experiment, outcome: Outcome
    ) -> Outcome:
        cause, path = comparison.text, comparison.same.path.text
        if self._states.get(baseline.digest) not in SUCCEEDED:
            return replace(outcome, status="failed", cause=f"{cause}: the baseline did not succeed")
        ours, theirs = (
            next((artifact for artifact in artifacts if artifact.path == path), None)
            for artifacts in (outcome.artifacts, self._artifacts(baseline.digest))
        )
        if ours is None or theirs is None:
            return replace(outcome, status="failed", cause=f"{cause}: the file is not there")
        if ours.sha256 == theirs.sha256:
            return outcome
        try:
            difference = first_difference(ours.kept, theirs.kept, comparison.same.within)
        except OSError as error:
            why = error.strerror or str(error)
            return replace(outcome, status="failed", cause=f"{cause}: {error.filename}: {why}")
        if difference is None:
            return outcome
        # Where and by how much differs from run to run, and causes group: so it is in the log.
        message = f"{path}: {difference}\n".encode("utf-8", "backslashreplace")
        return replace(
            outcome, status="wrong", cause=cause, stderr=_with_line(outcome.stderr, message)
        )


def _comparison(application: Application, same: BaselineFileCheck) -> _BaselineComparison:
    """Return what the baseline of *same* has; InputError where that is not known."""
    values: dict[str, Value] = {}
    for name, value in {**own_values(application), **same.where}.items():
        if value is None:
            path = same.path
            raise InputError(
                f"the files have no value of {name} that is an element of its set, so it is not"
                " known which point is the baseline",
                place=path.place(0, len(path.text)),
                hint=f"name it: AS BASELINE WHERE {name} == ...",
            )
        values[name] = value
    return _BaselineComparison(same, values)


def _with_line(log: Log, line: bytes) -> Log:
    """Return *log* with another *line* at its end."""
    if log.tail or log.size > len(log.head):
        return Log(log.head, log.tail + line, log.size + len(line))
    return Log(log.head + line, b"", log.size + len(line))
