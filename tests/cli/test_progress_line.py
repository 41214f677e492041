"""The progress_line that says where a run stands."""

import io

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


def test_the_line_fits_on_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    best = BestPoint("height", 1.0, {f"parameter{at}": at for at in range(30)})
    stream = Terminal()
    ProgressLine(stream)(RunProgress(60, 0, 20, 1, 3, 3.0, 9.0, "height", 5.0, best))
    assert len(stream.getvalue().removeprefix("\r\x1b[K")) < 60
