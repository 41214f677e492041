"""What zen noise, bisect, history and gate answer: tables, sentences and a chart."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np

from zenturio.errors import InputError, did_you_mean
from zenturio.experiment.aggregates import median, outliers
from zenturio.experiment.signed_ranks import (
    DETECTABLE,
    Interval,
    LookedAt,
    expected_half_width,
    hodges_lehmann,
)
from zenturio.quantities import amount
from zenturio.query.result_table import ResultTable
from zenturio.query.statistics import LEAST_SEGMENT, change_points
from zenturio.record import Repository
from zenturio.safe_text import one_line
from zenturio.show.chart import Chart, ChartAxis, Line, Mark, Panel, Points
from zenturio.study.paired.bisect_and_history import (
    CONFIRM_MARGIN,
    BisectRun,
    BisectState,
    ConfirmingRun,
    HistoryRow,
    HistoryRun,
    run_confirmations,
)
from zenturio.study.paired.compare_and_gate import (
    ALPHA,
    NOISE_LABELS,
    GatedPoint,
    GateRun,
    GateState,
    PairedOptions,
    differences,
)
from zenturio.study.paired.paired_study import LABEL_DIGITS, PairedResult

NOISE_BLOCKS = (5, 10, 20, 50)
"""Numbers of blocks for which the noise is foretold."""


def noise_table(result: PairedResult) -> ResultTable:
    """Return which differences can be seen at each point, and at all together."""
    study = result.study
    by_point, is_ratio = pairs = differences(result.measured, NOISE_LABELS, len(study.points))
    names = tuple(parameter.name for parameter in study.base.space.parameters)
    heads = tuple(f"{blocks} blocks" for blocks in NOISE_BLOCKS)
    columns = (*names, study.metric, "outliers", *heads, "equal")
    rows = []
    for at, (point, by_block) in enumerate(zip(study.points, by_point, strict=True)):
        values = [
            value for label in NOISE_LABELS for value in result.measured.of(label, at).values()
        ]
        cells = _noise_cells(list(by_block.values()), ALPHA / len(study.points), is_ratio)
        rows.append(
            (*(point[name] for name in names), median(values), sum(outliers(values)), *cells)
        )
    meaning = (
        "differences between two versions that this number of blocks would detect in 8 of 10"
        " comparisons, from the same files run as two versions; empty where it detects none"
    )
    notes = [meaning]
    if len(study.points) > 1:
        cells = _noise_cells(list(pairs.common().values()), ALPHA, is_ratio)
        words = ", ".join(
            f"{cell} with {head}"
            for cell, head in zip(cells[:-1], heads, strict=True)
            if cell is not None
        )
        notes.append(f"over all points together: {words}")
    if any(row[-1] == "no" for row in rows):
        notes.append(
            "equal files seem to differ: this happens by chance in 5% of commands; if it happens"
            " again, one run disturbs the next"
        )
    notes.append(
        "this is the noise of this machine now; two builds may differ by their layout beside it"
    )
    units = {study.metric: study.unit} if study.unit else {}
    return ResultTable(columns, tuple(rows), units, found=len(rows), notes=tuple(notes))


def _noise_cells(
    values: list[float], alpha: float, is_ratio: bool
) -> tuple[str | float | None, ...]:
    """Return the detectable difference for each number of blocks, and whether both are equal."""
    cells: list[str | float | None] = []
    for blocks in NOISE_BLOCKS:
        half = expected_half_width(values, blocks, alpha)
        if half is None:
            cells.append(None)
        else:
            smallest = DETECTABLE * half
            cells.append(f"{math.expm1(smallest):.1%}" if is_ratio else smallest)
    interval = hodges_lehmann(values, alpha).interval if values else None
    if interval is None:
        return *cells, "unclear"
    return *cells, "yes" if interval.low <= 0 <= interval.high else "no"


def bisect_lines(run: BisectRun) -> list[str]:
    """Return what a search came to, in sentences."""
    search, commits = run.search, run.commits
    runs = f"{run.result.measured.runs:,} runs"
    ends = search.ends.estimate if search.ends else None
    if search.state == "no value":
        ends_text = f"{_name(run, 0)} and {_name(run, -1)}"
        never = f"never had a {run.result.study.metric} above zero in the same block"
        return [f"nothing to compare: {ends_text} {never} ({runs})"]
    if search.state == "no difference" and ends is not None:
        ends_text = f"{_name(run, 0)} and {_name(run, -1)} cannot be told apart"
        return [f"nothing to find: {ends_text} ({_change(ends.value, ends.interval)}, {runs})"]
    if search.state == "found" and search.confirmed is not None:
        suspects = search.suspects()
        change = _change(
            math.copysign(search.confirmed.estimate.value, ends.value if ends else 1.0), None
        )
        if len(suspects) > 1:
            names = ", ".join(_name(run, at) for at in suspects)
            return [f"one of {len(suspects)} commits changed it by {change} ({runs}): {names}",
                    "those before the last one cannot be run"]  # fmt: skip
        commit = commits[search.first_different]
        return [
            f"{commit.oid[:LABEL_DIGITS]} changed it by {change} ({runs}): {commit.subject}",
            f"committed {_day(commit.time)}, confirmed against the commit before",
        ]
    first, last = search.credible
    between = f"{_name(run, first)} and {_name(run, last)}, {last - first + 1} commits"
    return [f"unclear after {runs}: the change lies between {between}, with about 95%"]


def bisect_facts(run: BisectRun) -> dict[str, object]:
    """Return the same as JSON."""
    search, commits = run.search, run.commits
    return {
        "state": search.state,
        "commits": list(_suspected(run)),
        "ratio": _ratio(search.ends.estimate.value if search.ends else None),
        "runs": run.result.measured.runs,
        "skipped": [commits[at].oid for at in sorted(search.skipped)],
    }


def _suspected(run: BisectRun) -> tuple[str, ...]:
    search = run.search
    places: Sequence[int] = ()
    if search.state == "found":
        places = search.suspects()
    elif search.state == "open":
        places = range(search.credible[0], search.credible[1] + 1)
    return tuple(run.commits[at].oid for at in places)


def _name(run: BisectRun, at: int) -> str:
    return run.commits[at].oid[:LABEL_DIGITS]


def _change(value: float, interval: Interval | None) -> str:
    if interval is None:
        return f"{math.expm1(value):+.1%}"
    low, high = map(math.expm1, interval)
    return f"{math.expm1(value):+.1%}, {low:+.1%} to {high:+.1%}"


def _ratio(value: float | None) -> float | None:
    return None if value is None else math.exp(value)


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


@dataclass(frozen=True)
class NoiseReport:
    """What `Study.noise` measured."""

    result: PairedResult

    @property
    def table(self) -> ResultTable:
        """A row for each point, as ``zen noise`` prints it."""
        return noise_table(self.result)

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


@dataclass(frozen=True)
class HistoryReport:
    """What `Study.history` measured."""

    run: HistoryRun
    confirmed: ConfirmingRun | None = None

    @property
    def changes(self) -> Mapping[str, float]:
        """The relative changes of the level, by the full names of the commits."""
        rows = self.run.rows
        return {rows[at].commit.oid: change for at, change in sorted(_changes(self.run).items())}

    @property
    def table(self) -> ResultTable:
        """A row for each commit, as ``zen history`` prints it."""
        return history_table(self.run, self.confirmed)

    @property
    def chart(self) -> Chart:
        """The ratio over the commits; ``zen.save`` writes it."""
        return history_chart(self.run)

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


@dataclass(frozen=True)
class BisectReport:
    """What `Study.bisect` came to."""

    run: BisectRun

    @property
    def state(self) -> BisectState:
        """found, no difference, no value, or open: the runs did not suffice."""
        return self.run.search.state

    @property
    def commits(self) -> tuple[str, ...]:
        """The commit that was found, or those that are left."""
        return _suspected(self.run)

    @property
    def ratio(self) -> float | None:
        """Of the bad commit to the good one."""
        ends = self.run.search.ends
        return _ratio(ends.estimate.value if ends else None)

    @property
    def runs(self) -> int:
        """How many runs it took."""
        return self.run.result.measured.runs

    def __str__(self) -> str:
        return "\n".join(bisect_lines(self.run))


def _changes(run: HistoryRun) -> dict[int, float]:
    """Return by how much the level changes, by the place of the commit among the rows."""
    measured = [(at, row.ratio) for at, row in enumerate(run.rows) if row.ratio is not None]
    points = change_points([math.log(ratio) for _, ratio in measured])
    return {measured[p.position][0]: math.expm1(p.after - p.before) for p in points}


def confirm_changes(
    repository: Repository, name: str, run: HistoryRun, options: PairedOptions
) -> ConfirmingRun:
    """Measure each change of a history again, the commit beside the one before."""
    return run_confirmations(repository, name, run, sorted(_changes(run)), options)


def _confirmed(looked_at: LookedAt | None) -> str | None:
    if looked_at is None:
        return None
    value, interval = looked_at.estimate
    if interval is None:
        return f"unclear ({amount(looked_at.blocks, 'block')})"
    low, high = map(math.expm1, interval)
    change = f"{_change(value, None)} ({low:+.1%} to {high:+.1%})"
    if interval.low > 0 or interval.high < 0:
        return f"yes, {change}"
    return f"{'no' if looked_at.is_decided else 'unclear'}, {change}"


def history_table(run: HistoryRun, confirmed: ConfirmingRun | None = None) -> ResultTable:
    """Return a row for each commit, the oldest first, with the change of level at it."""
    study = run.result.study
    changes = _changes(run)
    rows = tuple(
        (
            row.commit.oid[:LABEL_DIGITS], _day(row.commit.time), row.value, row.ratio, row.blocks,
            row.failures, f"{changes[at]:+.1%}" if at in changes else None,
            *([] if confirmed is None else [_confirmed(confirmed.changes.get(at))]),
            row.commit.subject,
        )
        for at, row in enumerate(run.rows)
    )  # fmt: skip
    columns = (
        "commit", "date", study.metric, "ratio", "blocks", "failed", "change",
        *([] if confirmed is None else ["confirmed"]), "subject",
    )  # fmt: skip
    units = {study.metric: study.unit} if study.unit else {}
    count = sum(row.ratio is not None for row in run.rows)
    notes = []
    if any(row.ratio is None and row.value is not None for row in run.rows):
        notes.append(f"no ratio where {study.metric} is not above zero, or the reference failed")
    notes += [
        f"ratio: to the reference {run.reference[:LABEL_DIGITS]}, which ran beside each commit",
        f"change: of the level from this commit on; never marked in the last {LEAST_SEGMENT - 1}",
    ]
    if confirmed is None:
        notes.append("confirm changes before you rely on them: --confirm")
    else:
        notes.append(
            "confirmed: measured again beside the commit before; yes: wrong for at most 5% of"
            f" commits that change nothing; no: within {CONFIRM_MARGIN:.0%}"
        )
        if any(
            not str(_confirmed(change)).startswith("yes") for change in confirmed.changes.values()
        ):
            notes.append(
                "a change may belong to a neighbouring commit: zen bisect finds the commit"
            )
    if 0 < count < 20:
        notes.append(
            f"{count} commits miss some changes: of 5% at 2% noise, 20 detect 65%, 40 detect 98%"
        )
    return ResultTable(columns, rows, units, found=len(rows), notes=tuple(notes))


def history_chart(run: HistoryRun) -> Chart:
    """Return the ratio over the commits, its levels, and where these change."""
    study = run.result.study
    rows: list[tuple[HistoryRow, float]] = [
        (row, row.ratio) for row in run.rows if row.ratio is not None
    ]
    names = tuple(row.commit.oid[:LABEL_DIGITS] for row, _ in rows)
    ratios = tuple(ratio for _, ratio in rows)
    points = change_points([math.log(ratio) for ratio in ratios])
    edges = [0, *(point.position for point in points), len(ratios)]
    levels = [
        Line("", 1, names[first:last], (float(np.exp(np.median(np.log(ratios[first:last])))),)
             * (last - first))
        for first, last in pairwise(edges)
    ]  # fmt: skip
    changed = tuple(names[point.position] for point in points)
    marks: tuple[Mark, ...] = (
        Points("", 0, names, ratios),
        *levels,
        Points("", 1, changed, tuple(ratios[point.position] for point in points), role="best"),
    )
    return Chart(
        "history",
        f"{study.metric} of {study.name.removesuffix('-history')} over {len(names)} commits",
        f"ratio to {run.reference[:LABEL_DIGITS]}, median of blocks;"
        f" {amount(len(points), 'change')} of level",
        ChartAxis("commit", categories=names),
        ChartAxis(f"{study.metric} against {run.reference[:LABEL_DIGITS]}",
                  ends=(min(ratios, default=1.0), max(ratios, default=1.0))),
        (Panel(marks=marks),),
    )  # fmt: skip


# Gates: as text, as Markdown for a pull request, as JUnit XML, as JSON

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
            text += " On a busy machine --metric ctime decides more: it contains no waiting time."
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
