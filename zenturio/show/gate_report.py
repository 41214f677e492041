"""What a gate says: as text, as Markdown for a pull request, as JUnit XML, as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET

from zenturio.errors import InputError, did_you_mean
from zenturio.quantities import amount
from zenturio.safe_text import one_line
from zenturio.study.paired.compared import GateRun
from zenturio.study.paired.designs import GatedPoint, GateState

EXIT_CODES: Mapping[GateState, int] = {"no worse": 0, "worse": 7, "unclear": 8}
"""What ``zen gate`` exits with."""
MARKS: Mapping[GateState, str] = {"no worse": "✅", "worse": "❌", "unclear": "❔"}
FAILED = 3
"""What it exits with where runs failed, so that a point cannot be judged."""


@dataclass(frozen=True)
class GateRow:
    """A point: the medians of both versions, how much worse the new one is, and the word."""

    point: str
    baseline: float | None
    version: float | None
    ratio: float | None
    """A difference where a value is not above zero."""
    low: float | None
    high: float | None
    """Each end is at 5% by itself, or its share at the look that decided."""
    blocks: int
    failures: tuple[int, int]
    state: GateState

    @property
    def is_failed(self) -> bool:
        """Whether it is unclear because runs of a version failed."""
        return self.state == "unclear" and sum(self.failures) > 0

    @property
    def change(self) -> str:
        """The ratio as a change, with its interval."""
        if self.ratio is None:
            return "not measured"
        if self.low is None or self.high is None:
            return f"{self.ratio - 1:+.1%}"
        return f"{self.ratio - 1:+.1%} ({self.low - 1:+.1%} to {self.high - 1:+.1%})"


@dataclass(frozen=True)
class GateReport:
    """Whether a version is worse than a baseline by more than is allowed."""

    study: str
    baseline: str
    version: str
    metric: str
    unit: str
    worse: float
    is_ratio: bool
    rows: tuple[GateRow, ...]
    is_interrupted: bool = False
    is_spent: bool = False
    """Whether time ended it."""

    @classmethod
    def of(cls, run: GateRun) -> GateReport:
        """Return the report of what a gate measured."""
        study, design = run.result.study, run.design
        names = [parameter.name for parameter in study.base.space.parameters]
        points = [
            ", ".join(f"{name}={point[name]}" for name in names) or "the program"
            for point in study.points
        ]
        rows = tuple(
            _row(text, point, math.exp if design.is_ratio else float)
            for text, point in zip(points, run.points, strict=True)
        )
        return cls(
            study.name, *design.labels, study.metric, study.unit, design.worse,
            design.is_ratio, rows, not run.result.is_complete, run.result.is_spent,
        )  # fmt: skip

    @property
    def state(self) -> GateState:
        """Worse if a point is, no worse if no point is, else unclear."""
        states = {row.state for row in self.rows}
        if "worse" in states:
            return "worse"
        return "unclear" if "unclear" in states else "no worse"

    @property
    def is_failed(self) -> bool:
        """Whether it is unclear because runs of a version failed."""
        return self.state == "unclear" and any(row.is_failed for row in self.rows)

    def exit_code(self, *, unclear_is_ok: bool = False) -> int:
        """Return 0, 7 or 8; 3 where a version fails: that is never ok."""
        if self.is_failed:
            return FAILED
        return 0 if self.state == "unclear" and unclear_is_ok else EXIT_CODES[self.state]

    @property
    def headline(self) -> str:
        """The verdict in a sentence."""
        by = f"{self.worse * 100:.3g}%" if self.is_ratio else f"{self.worse:.3g}"
        words: Mapping[GateState, str] = {
            "worse": f"is worse than {self.baseline} by more than {by}",
            "no worse": f"is not worse than {self.baseline} by {by} or more",
            "unclear": f"may or may not be worse than {self.baseline} by {by}",
        }
        counts = [
            f"{count} {state}"
            for state in ("worse", "no worse", "unclear")
            if (count := sum(row.state == state for row in self.rows))
        ]
        word = words[self.state]
        if self.is_failed:
            word = f"cannot be judged by {self.baseline}"
        text = f"{self.metric}: {self.version} {word} (points: {', '.join(counts)})"
        before, after = (sum(row.failures[side] for row in self.rows) for side in (0, 1))
        text += f"; {after} of its runs failed" if after else ""
        text += f"; {before} runs of {self.baseline} failed" if before else ""
        return text + ("; the budget is spent" if self.is_spent else "")

    @property
    def note(self) -> str:
        """How sure the verdict is, and what may decide more."""
        text = (
            "Both versions ran next to each other in random order. If a version is worse by"
            " exactly this much, at most 5% of gates call it worse, and at most 5% no worse."
        )
        if self.state == "unclear" and self.metric == "wtime" and not self.is_failed:
            text += " On a busy machine --metric ctime decides more: it has no waiting in it."
        return text

    def text(self) -> str:
        """Return the report for a terminal."""
        heads = ("point", f"{self.baseline}{self._unit}", f"{self.version}{self._unit}", "change",
                 "blocks", "verdict")  # fmt: skip
        lines = [heads, *(self._cells(row) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        return "\n".join([self.headline, "", *table, "", self.note])

    def markdown(self) -> str:
        """Return the report for a pull request."""
        heads = (
            "", "point", f"{self.baseline}{self._unit}", f"{self.version}{self._unit}", "change",
            "blocks", "verdict",
        )  # fmt: skip
        rows = ((MARKS[row.state], *self._cells(row)) for row in self.rows)
        lines = [heads, ("---",) * len(heads), *rows]
        table = ["| " + " | ".join(_escaped(cell) for cell in line) + " |" for line in lines]
        title = f"### {MARKS[self.state]} {_escaped(self.headline)}"
        return "\n".join([title, "", *table, "", self.note, ""])

    def junit(self) -> str:
        """Return the report as JUnit XML: a case for each point.

        An unclear one is skipped, or an error if runs failed.
        """
        kinds = {"worse": "failure", "unclear": "skipped"}
        results = ["error" if row.is_failed else kinds.get(row.state, "") for row in self.rows]
        suite = ET.Element(
            "testsuite", name=f"zen gate {self.study} {self.metric}", tests=str(len(results)),
            failures=str(results.count("failure")), errors=str(results.count("error")),
            skipped=str(results.count("skipped")),
        )  # fmt: skip
        for row, result in zip(self.rows, results, strict=True):
            case = ET.SubElement(suite, "testcase", classname=self.study, name=row.point)
            if result:
                ET.SubElement(case, result, message=f"{_word(row)}: {row.change}")
            output = ET.SubElement(case, "system-out")
            output.text = f"{row.change}, {row.blocks} blocks, {_word(row)}"
        suites = ET.Element("testsuites")
        suites.append(suite)
        ET.indent(suites)
        return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"

    def facts(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        rows = [
            {
                "point": row.point, "baseline": row.baseline, "version": row.version,
                "ratio" if self.is_ratio else "difference": row.ratio, "low": row.low,
                "high": row.high, "blocks": row.blocks, "failures": list(row.failures),
                "verdict": row.state,
            }
            for row in self.rows
        ]  # fmt: skip
        return {
            "study": self.study, "baseline": self.baseline, "version": self.version,
            "metric": self.metric, "unit": self.unit, "worse": self.worse, "verdict": self.state,
            "points": rows,
        }  # fmt: skip

    @property
    def _unit(self) -> str:
        return f" ({self.unit})" if self.unit else ""

    def _cells(self, row: GateRow) -> tuple[str, ...]:
        medians = (
            "-" if value is None else f"{value:.4g}" for value in (row.baseline, row.version)
        )
        change = row.change if self.is_ratio else _difference(row)
        return one_line(row.point), *medians, change, str(row.blocks), _word(row)


def _row(text: str, point: GatedPoint, scale: Callable[[float], float]) -> GateRow:
    value, interval = point.looked_at.estimate
    low, high = interval or (None, None)
    return GateRow(
        text,
        *point.medians,
        None if math.isnan(value) else scale(value),
        None if low is None else scale(low),
        None if high is None else scale(high),
        point.looked_at.blocks,
        point.failures,
        point.state,
    )


def _difference(row: GateRow) -> str:
    if row.ratio is None or row.low is None or row.high is None:
        return "not measured" if row.ratio is None else f"{row.ratio:+.4g}"
    return f"{row.ratio:+.4g} ({row.low:+.4g} to {row.high:+.4g})"


def _word(row: GateRow) -> str:
    before, after = row.failures
    if after:
        return f"{row.state} ({amount(after, 'run')} failed)"
    return f"{row.state} (baseline: {amount(before, 'run')} failed)" if before else row.state


def _escaped(text: str) -> str:
    """Return *text* for a cell of Markdown."""
    return one_line(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


FORMATS: Mapping[str, Callable[[GateReport], str]] = {
    "text": lambda report: report.text() + "\n",
    "markdown": GateReport.markdown,
    "junit": GateReport.junit,
}


def check_format(name: str) -> None:
    """InputError where no report has the format *name*."""
    if name not in FORMATS:
        raise InputError(f"--format {name}", hint=did_you_mean(name, FORMATS))


def render(report: GateReport, name: str) -> str:
    """Return the report in the format *name*."""
    check_format(name)
    return FORMATS[name](report)
