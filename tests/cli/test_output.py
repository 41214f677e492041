"""How facts and tables are printed."""

import contextlib
import json
import queue
import sqlite3
import sys
from collections import Counter
from csv import DictReader, field_size_limit
from io import StringIO

import pytest

from cli.conftest import zen
from zenturio.annotate.scan import scan
from zenturio.cli import output
from zenturio.cli.status_and_logs import _standing_line, print_difference
from zenturio.errors import Diagnostic
from zenturio.log_setup import reported, work_progress
from zenturio.record.entities import Lease
from zenturio.study.overview import ExperimentDifference, StudyStatus


def test_what_json_has_no_number_for_is_text_that_other_languages_read(capsys):
    output.facts({"nan": float("nan"), "infinite": [float("inf"), -float("inf")], "real": 1.5})
    told = json.loads(capsys.readouterr().out)
    assert told == {"nan": "NaN", "infinite": ["Infinity", "-Infinity"], "real": 1.5}


def test_a_sign_that_would_break_a_line_is_escaped_and_its_neighbours_are_not(capsys):
    output.table(("a",), [("ü\u2028\n\x1b[1m",)])
    assert capsys.readouterr().out == "a\nü\\u2028\\n\\x1b[1m\n"


@contextlib.contextmanager
def shown_work(monkeypatch):
    """Yield a queue of what is shown while one waits."""
    shown = queue.Queue()

    @contextlib.contextmanager
    def display(words):
        shown.put(words)
        yield lambda *step: shown.put(step)

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(output, "_work_display", display)
    yield shown


def test_what_takes_longer_than_a_moment_says_what_it_does_on_a_terminal(monkeypatch):
    with shown_work(monkeypatch) as shown:
        with output.waiting("short"):
            pass
        assert shown.empty()
        monkeypatch.setattr(output, "WAIT_SECONDS", 0.0)
        with output.waiting("long"):
            assert shown.get(timeout=60) == "long"
            for item in reported("tables", ["a", "b"]):
                if item == "b":
                    assert shown.get(timeout=60) == ("tables", 1, 2)
        assert work_progress.get()("nothing", 1, 2) is None


def test_what_ends_after_a_time_shows_the_share_of_it(monkeypatch):
    monkeypatch.setattr(output, "WAIT_SECONDS", 0.0)
    with shown_work(monkeypatch) as shown, output.waiting("planning", 0.01):
        assert shown.get(timeout=60) == "planning"
        assert shown.get(timeout=60) == ("planning", 0.01, 0.01)


def test_the_share_of_work_and_the_time_left_are_drawn(monkeypatch):
    from rich.console import Console

    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    monkeypatch.setattr(output, "_console", lambda: console)
    with output._work_display("restoring") as show:
        show("checking", 1, 4)
    assert "checking" in screen.getvalue()
    assert "25%" in screen.getvalue()


def test_long_work_of_any_verb_gets_a_bar_that_ends_with_it(monkeypatch):
    shown = []

    @contextlib.contextmanager
    def share_progress(words):
        shown.append(words)
        yield lambda *step: shown.append(step)
        shown.append("over")

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(output, "share_progress", share_progress)
    with output.work_shown():
        work_progress.get()("short", 1, 2)
        work_progress.get()("short", 2, 2)
        assert shown == []
        monkeypatch.setattr(output, "WAIT_SECONDS", 0.0)
        for done in (128, 256, 300):
            work_progress.get()("files", done, 300)
        work_progress.get()("results", 1, 9)  # an error ends it in the middle
    assert shown == [
        "files", (128, 300), (256, 300), "over", "results", (1, 9), "over",
    ]  # fmt: skip
    work_progress.get()("nobody", 1, 9)


def test_files_of_a_folder_are_reported_as_they_are_read(tmp_path):
    for number in range(300):
        (tmp_path / f"f{number}").write_text("x")
    (tmp_path / "p.sh").write_text('#ZEN$ PARAM n = { 1 }\n#ZEN$ RUN "sh p.sh {n}"\n')
    steps = []
    token = work_progress.set(lambda *step: steps.append(step))
    scan(tmp_path)
    work_progress.reset(token)
    assert steps == [("reading the files", 128, 301), ("reading the files", 256, 301)]


def test_what_nobody_drives_any_more_has_begun_and_does_not_run():
    driver = Lease(1, "matmul", "kofel", 7, 0.0, 60.0, 60.0)
    told = [
        _standing_line(StudyStatus("matmul", 0.0, Counter(ok=3, running=2), 9, drivers), None)
        for drivers in ((driver,), ())
    ]
    assert [line.splitlines()[0] for line in told] == [
        "matmul: 3 ok, 2 running, 4 missing",
        "matmul: 3 ok, 2 interrupted, 4 missing",
    ]


def test_a_difference_shows_exact_parameters_and_metrics_that_differ(capsys):
    difference = ExperimentDifference(
        ("a" * 32, "b" * 32),
        {"rate": (0.123456789, 0.5), "shift": (-1, -2)},
        {"loss": (1.23456781, 1.23456789), "steps": (100, 200)},
        {},
    )
    print_difference(difference)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert lines == [
        ["parameter", "rate", "0.123456789", "0.5", "4.05"],
        ["parameter", "shift", "-1", "-2"],
        ["metric", "loss", "1.2345678", "1.2345679", "1"],
        ["metric", "steps", "100", "200", "2"],
    ]


def test_values_of_an_example_show_where_each_one_ends():
    values = {"flags": "", "n": 100, "opt": "-O3 -g", "list": "a, b=1", "off": None, "pad": " x"}
    shown = output.values_text(values)
    assert shown == 'flags="", n=100, opt=-O3 -g, list="a, b=1", pad=" x"'
    values = {"alg": '"linsi"', "pair": '"a", "b"', "ca": 9.388219078229689, "x": 0.1, "y": 2.0}
    shown = output.values_text(values)
    assert shown == """alg="linsi", pair='"a", "b"', ca=9.38822, x=0.1, y=2"""


def test_a_metric_that_no_plan_has_is_empty_in_its_table():
    rows = output.metric_rows({"makespan": 12.0, "energy": float("nan")})
    assert rows == [("makespan", "12"), ("energy", "")]


SERIES = """\
#!/bin/sh
#ZEN$ PARAM n = {{ 5, {count} }}
#ZEN$ RUN "sh p.sh {{n}}"
#ZEN$ METRIC steps FROM "loss.csv" CSV COLUMN 1 TAKE all
#ZEN$ METRIC loss FROM "loss.csv" CSV COLUMN 2 TAKE all
#ZEN$ METRIC final FROM "loss.csv" CSV COLUMN 2 TAKE last
#ZEN$ OBJECTIVE MINIMIZE final
seq $1 | awk '{{ print ($1 % 3 ? ($1 % 5 ? $1 : $1 - 4) : "nan") "," $1 * 2 }}' > loss.csv
"""


@pytest.mark.parametrize("count", [1500, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_a_long_series_whose_steps_go_back_and_are_nan_breaks_no_question(tmp_path, count):
    (tmp_path / "p.sh").write_text(SERIES.format(count=count))
    zen("run", "p.sh", cwd=tmp_path)
    table = zen("results", "p", "--metric", "loss,steps", cwd=tmp_path).out
    assert max(map(len, table.splitlines())) < 3000
    assert "characters)" in table
    field_size_limit(2**31)
    rows = list(DictReader(StringIO(zen("results", "p", "--format", "csv", cwd=tmp_path).out)))
    assert json.loads(rows[1]["loss"]) == [2 * number for number in range(1, count + 1)]
    steps = json.loads(rows[1]["steps"])
    assert steps[:6] == [1, 2, {"real": "nan"}, 4, 1, {"real": "nan"}]
    assert len(steps) == count
    assert zen("best", "p", "--json", cwd=tmp_path).facts[0]["parameters"] == {"n": 5}
    query = "SELECT n, count(*) AS c, sum(value) AS s FROM study_p, json_each(loss) GROUP BY n"
    answer = zen("sql", query, "--json", cwd=tmp_path).facts
    assert answer["rows"] == [[5, 5, 30], [count, count, count * (count + 1)]]
    zen("plot", "p", "--x", "n", "--y", "final", "-o", "p.svg", cwd=tmp_path)
    refused = zen("plot", "p", "--x", "n", "--y", "loss", "-o", "q.svg", cwd=tmp_path, code=2)
    assert "'loss'" in refused.err
    zen("db", "check", cwd=tmp_path)


def test_groups_of_texts_stand_in_the_order_of_their_set(tmp_path):
    lines = ("PARAM r = { 1k, 2.2k, 10k, x }", "PARAM n = { 2, 1 }", 'RUN "echo {r} {n}"')
    (tmp_path / "p.sh").write_text("".join(f"# ZEN$ {line}\n" for line in lines))
    zen("run", "p.sh", cwd=tmp_path)
    rows = zen("results", "p", "--by", "n,r", "--json", cwd=tmp_path).facts["rows"]
    order = ["1k", "2.2k", "10k", "x"]
    assert [row[:2] for row in rows] == [[n, r] for n in (1, 2) for r in order]
    rows = zen("results", "p", "--by", "r", "--sort", "r", "--json", cwd=tmp_path).facts["rows"]
    assert [row[0] for row in rows] == sorted(order)
    told = zen("results", "p", "--by", "r", "--limit", 2, "--json", cwd=tmp_path).facts["rows"]
    assert [row[0] for row in told] == order[:2]
    for by in ("n,r", "r,n", "r"):
        shown = zen("results", "p", "--by", by, "--json", cwd=tmp_path).facts["rows"]
        asked = zen("results", "p", "--by", by, "--sql", cwd=tmp_path).out
        with contextlib.closing(sqlite3.connect(tmp_path / ".zenturio/zenturio.db")) as database:
            database.create_aggregate("median", 1, _First)
            rows = database.execute(asked).fetchall()
        assert [list(row[: by.count(",") + 1]) for row in rows] == [
            row[: by.count(",") + 1] for row in shown
        ]


class _First:
    """Stands for the median, which SQLite has not: only the order of the rows is asked."""

    def __init__(self):
        self.values = []

    def step(self, value):
        self.values.append(value)

    def finalize(self):
        return self.values[0]


@pytest.mark.parametrize(
    ("value", "text"),
    [(494912345.6, "494912346"), (84421.7, "84422"), (0.123456, "0.1235"), (1e300, "1e+300")],
)
def test_a_number_is_shown_without_an_exponent_where_its_digits_tell_more(value, text):
    assert output.number(value) == text


def test_a_warning_without_a_place_stands_alone():
    warning = Diagnostic("many points", severity="warning")
    assert output.merge_warnings([warning, warning]) == [warning, warning]
