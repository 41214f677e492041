"""The progress_line that says where a run stands."""

import io
import sys

import pytest

from zenturio.cli import output, run
from zenturio.cli.output import best_text
from zenturio.cli.run import ProgressLine, progress_line
from zenturio.study.driver.progress import BestPoint, RunProgress


def test_the_best_so_far_is_told_with_where_it_was_found():
    best = BestPoint("height", 991.0, {"x": 31, "y": 10, "tile": None})
    words = progress_line(RunProgress(60, 0, 20, 1, 3, 3.27, 9.8, "height", 545.0, best))
    assert words.startswith("running 21/60 · 1 failed · 3 in flight")
    assert words.endswith("height 545, best 991 at x=31, y=10")


def test_the_best_of_several_objectives_is_that_of_the_first():
    best = BestPoint("height", 991.0, {"x": 31}, objectives=2)
    expected = "best by the first of 2 objectives: height = 991 at x=31; by all: zen best s"
    assert best_text(best, "s", None) == expected


def test_what_the_place_says_is_shown_at_once_and_stays():
    stream = io.StringIO()
    live = ProgressLine(stream)
    progress = RunProgress(10, 0, 1, 0, 2, 0.0, None, remarks=("one thing", "another"))
    live(progress)
    assert stream.getvalue() == "one thing\nanother\n"


def test_before_anything_was_measured_there_is_no_best():
    assert (
        progress_line(RunProgress(60, 0, 0, 2, 3, 0.0, None))
        == "running 2/60 · 2 failed · 3 in flight"
    )
    assert progress_line(RunProgress(60, 0, 2, 0, 3, 0.0, None, "height", 2.0)).endswith("height 2")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_without_control_codes_gets_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(run, "SELDOM", 0.0)
    stream = Terminal()
    live = ProgressLine(stream)
    live(RunProgress(60, 0, 20, 1, 3, 3.0, 9.0))
    live.close()
    assert stream.getvalue().startswith("running 21/60")
    assert stream.getvalue().endswith("\n")
    assert not set(stream.getvalue()) & {"\r", "\x1b"}


@pytest.mark.parametrize(
    ("name", "value", "is_bold"),
    [("TERM", "xterm", True), ("TERM", "dumb", False), ("NO_COLOR", "1", False),
     ("NO_COLOR", "", True)],
)  # fmt: skip
def test_bold_is_left_out_where_it_is_not_wanted(monkeypatch, name, value, is_bold):
    monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", Terminal())
    output.table(("head",), [("cell",)])
    assert sys.stdout.getvalue() == ("\x1b[1mhead\x1b[0m" if is_bold else "head") + "\ncell\n"


def test_the_line_fits_on_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    best = BestPoint("height", 1.0, {f"parameter{at}": at for at in range(30)})
    stream = Terminal()
    ProgressLine(stream)(RunProgress(60, 0, 20, 1, 3, 3.0, 9.0, "height", 5.0, best))
    assert len(stream.getvalue().removeprefix("\r\x1b[K")) < 60
