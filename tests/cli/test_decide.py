"""zen compare --run and zen gate: verdicts, reports and exit codes."""

import json
import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

import zenturio
from cli.conftest import zen
from needs import needs
from zenturio.cli.decide import share_of
from zenturio.cli.status_and_logs import _standing_line
from zenturio.errors import InputError
from zenturio.show.paired_reports import GateReport, GateRow, render
from zenturio.study.overview import _command_of, study_status

PROGRAM = """\
n = 1
#ZEN$ ASSIGN n = { 2 }
factor = 1.0
#ZEN$ RUN "python3 -S -E timed.py"
#ZEN$ METRIC time FROM stdout REGEX "time (\\S+)" UNIT "s"
#ZEN$ OBJECTIVE MINIMIZE time
print("time", n * factor)
"""


@pytest.fixture
def project(tmp_path):
    """A program whose times do not vary, committed, and three times slower since."""
    needs("git")
    folder = tmp_path / "project"
    folder.mkdir()
    path = folder / "timed.py"
    path.write_text(PROGRAM)
    for words in (["init", "-b", "main"], ["add", "."], ["commit", "-m", "begin"]):
        who = ["-c", "user.name=n", "-c", "user.email=e@e"]
        subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)
    path.write_text(PROGRAM.replace("factor = 1.0", "factor = 3.0"))
    return folder


def test_two_versions_are_run_and_compared(project):
    told = zen("compare", "timed.py", "--commit", "HEAD", "--run", "--json", cwd=project)
    assert told.facts["verdict"] == "slower"
    assert told.facts["ratio"] == pytest.approx(3)
    again = zen("compare", "timed-compare", cwd=project).out
    assert "time: slower; ratio 3 (3 to 3 at 95%)" in again
    assert "at most 5% that any of these words is wrong" in again


def test_a_measurement_whose_runs_all_fail_ends_after_two_blocks(project):
    (project / "timed.py").write_text(PROGRAM.replace("print(", "raise SystemExit("))
    told = zen("noise", "timed.py", cwd=project, code=3)
    assert "one at a time, after one of each that does not count" in told.err
    assert "stopped: no run of the first 2 blocks had a value" in told.err
    assert told.out.startswith("6 x exit 1")


def test_the_gate_of_a_slower_program_exits_with_7_and_writes_reports(project):
    told = zen(
        "gate", "timed.py", "--baseline", "main", "-o", "a.md", "-o", "a.xml", "-o", "a.json",
        cwd=project, code=7,
    )  # fmt: skip
    assert told.out.startswith("time: timed is worse than ")
    assert "| ❌ | n=2 | 2 | 6 | +200.0% (+200.0% to +200.0%) | 8 | worse |" in (
        project / "a.md"
    ).read_text(encoding="utf-8")
    suite = ET.fromstring((project / "a.xml").read_text()).find("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("1", "1", "0")
    facts = json.loads((project / "a.json").read_text())
    assert [point["verdict"] for point in facts["points"]] == ["worse"]


def test_a_gate_that_allows_it_exits_with_0(project):
    (project / "timed.py").write_text(PROGRAM.replace("factor = 1.0", "factor = 1.01"))
    assert "is not worse than" in zen("gate", "timed.py", "--baseline", "main", cwd=project).out


def test_a_gate_that_cannot_tell_exits_with_8_or_0_as_asked(project):
    (project / "timed.py").write_text(PROGRAM.replace("factor = 1.0", "factor = 1.05"))
    command = ("gate", "timed.py", "--baseline", "main", "--repeat", "8")
    assert "may or may not be worse than" in zen(*command, cwd=project, code=8).out
    assert zen(*command, "--unclear", "ok", "--json", cwd=project).facts["verdict"] == "unclear"


def test_a_program_that_fails_exits_with_3(project):
    (project / "timed.py").write_text(PROGRAM.replace("factor = 1.0", "factor = 1 / 0"))
    told = zen("gate", "timed.py", "--baseline", "main", cwd=project, code=3)
    assert "of its runs failed" in told.out
    assert "ZeroDivisionError" in told.out
    told = zen("compare", "timed.py", "--commit", "main", "--run", cwd=project, code=3)
    assert "ZeroDivisionError" in told.out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["compare", "timed.py", "--commit", "HEAD"], "--commit names files, not results"),
        (["compare", "timed.py", "--run"], "two versions are compared"),
        (["gate", "timed.py", "--baseline", "nothing"], "Git knows no commit 'nothing'"),
        (["gate", "timed.py", "--baseline", "main", "--worse", "high"], "--worse high"),
        (["gate", "timed.py", "--baseline", "main", "--budget", "40"], "--budget 40: write a time"),
        (["bisect", "timed.py", "--good", "main", "--budget", "x"], "--budget x: write a time"),
        (["compare", "timed.py", "--budget", "1min"], "--budget is the time of a measurement"),
        (["gate", "timed.py", "--baseline", "main", "-o", "a.pdf"], "no format has this suffix"),
        (["gate", "timed.py", "--baseline", "main", "--unclear", "no"], "--unclear no"),
        (["gate", "timed.py", "--baseline", "main", "--format", "xml"], "--format xml"),
    ],
)
def test_mistakes_are_said_before_anything_runs(project, words, error):
    err = zen(*words, cwd=project, code=2).err
    assert error in err
    assert "experiments" not in err


def test_a_program_outside_of_git_is_told_from_an_unknown_commit(tmp_path):
    needs("git")
    (tmp_path / "timed.py").write_text(PROGRAM)
    for words in (["gate", "timed.py", "--baseline", "main"], ["history", "timed.py"]):
        assert "is not in a Git repository" in zen(*words, cwd=tmp_path, code=2).err


def test_a_baseline_that_fails_is_never_ok():
    gate = report(row(state="unclear", failures=(3, 0)), row())
    assert gate.exit_code(unclear_is_ok=True) == gate.exit_code() == 3
    assert "cannot be judged by main" in gate.headline
    assert "3 runs of main failed" in gate.headline
    suite = ET.fromstring(render(gate, "junit")).find("testsuite")
    assert (suite.get("errors"), suite.get("skipped")) == ("1", "0")
    assert suite.find("testcase/error").get("message").startswith("unclear (baseline: 3 runs")
    # Points that are clear in spite of a failure are judged by what ran.
    assert report(row(failures=(1, 0))).exit_code() == 0
    assert report(row(state="worse", failures=(1, 0))).exit_code() == 7


def test_the_status_names_what_continues_a_comparison(project):
    words = ("compare", "timed.py", "--commit", "HEAD", "--run", "--json")
    zen(*words, "--db", "a.db", "--budget", "1s", cwd=project)
    status = study_status(str(project / "a.db"), "timed-compare")
    assert status.command == (*words[:-1], "--budget", "1s")
    status = replace(status, planned=99)
    line = _standing_line(status, "a.db")
    assert "to resume: zen compare timed.py --commit HEAD --run --budget 1s --db a.db" in line
    assert "study.compare" in _standing_line(replace(status, command=()), None)


@pytest.mark.parametrize("words", [["rm", "-rf"], ["compare", "a\nb"], ["compare", 7], "compare"])
def test_a_database_of_somebody_else_names_no_other_command(words):
    assert _command_of({"paired": {"verb": "compare", "command": words}}) == ("compare", ())
    assert _command_of({"paired": {"verb": "rm", "command": ["rm"]}}) == ("", ())


def test_shares_are_read():
    assert (share_of("5%", "--worse"), share_of("0.02", "--worse")) == (0.05, 0.02)
    for text in ("0", "100%", "-1%", "x"):
        with pytest.raises(InputError):
            share_of(text, "--worse")


def report(*rows):
    return GateReport("s-gate", "main", "s", "time", "s", 0.05, True, rows)


def row(point="n=1", state="no worse", failures=(0, 0), ratio=1.01):
    return GateRow(point, 1.0, ratio, ratio, 0.99, 1.03, 12, failures, state)


def test_one_worse_point_is_worse_and_one_unclear_point_is_unclear():
    assert report(row(), row()).exit_code() == 0
    assert report(row(), row(state="unclear")).exit_code() == 8
    assert report(row(state="worse"), row(state="unclear")).exit_code(unclear_is_ok=True) == 7
    assert report(row(state="unclear", failures=(0, 2))).exit_code() == 3


def test_points_cannot_break_a_table_or_a_document():
    hostile = report(row(point='n=a|b<img src=x>\n"', state="worse"))
    assert "n=a\\|b&lt;img" in hostile.markdown()
    assert len(hostile.markdown().splitlines()) == len(report(row()).markdown().splitlines())
    case = ET.fromstring(hostile.junit()).find("testsuite/testcase")
    assert case.get("name") == 'n=a|b<img src=x>\n"'


def test_a_format_that_does_not_exist_is_said():
    with pytest.raises(InputError, match="--format html"):
        render(report(row()), "html")


EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "ci"


def steps_of(name):
    """The commands of a workflow, and what it publishes."""
    document = yaml.safe_load((EXAMPLES / name).read_text())
    if name == "gitlab.yml":
        job = document["performance"]
        assert job["variables"]["GIT_DEPTH"] == "0"
        return job["script"], [*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]]
    assert document[True] == "pull_request"  # YAML reads "on" so
    steps = document["jobs"]["gate"]["steps"]
    assert all(("uses" in step) != ("run" in step) for step in steps)
    (checkout,) = (step for step in steps if step.get("uses", "").startswith("actions/checkout"))
    assert checkout["with"]["fetch-depth"] == 0
    upload = steps[-1]["with"]["path"].split()
    return [step["run"] for step in steps if "run" in step], upload


@pytest.mark.parametrize("name", ["github.yml", "gitlab.yml"])
def test_the_workflows_run_a_gate_whose_reports_they_publish(project, name):
    commands, published = steps_of(name)
    (gate,) = (shlex.split(command) for command in commands if command.startswith("zen gate"))
    at = gate.index("--baseline") + 1
    assert gate[at].startswith("$")
    gate[at], gate[2] = "main", "timed.py"
    gate[gate.index("--metric") + 1] = "time"
    zen(*gate[1:], cwd=project, code=7)
    assert {path.name for path in project.iterdir()} >= set(published)
    page = (EXAMPLES.parents[1] / "decide.md").read_text(encoding="utf-8")
    for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL):
        assert block in (EXAMPLES / "github.yml").read_text()


def test_noise_a_history_and_a_search_print_facts(project):
    (point,) = zen("noise", "timed.py", "--repeat", 6, "--json", cwd=project).facts["rows"]
    assert point[-1] == "yes"
    told = zen("history", "timed.py", "--repeat", 1, "-o", "h.html", "--json", cwd=project)
    (commit,) = told.facts["rows"]
    ratio, subject = (commit[told.facts["columns"].index(name)] for name in ("ratio", "subject"))
    assert (ratio, subject) == (1.0, "begin")
    assert "h.html" in told.err
    assert b"plotly" in (project / "h.html").read_bytes().lower()
    told = zen("bisect", "timed.py", "--good", "HEAD", cwd=project, code=2)
    assert "does not come after" in told.err


def commit_program(folder, text, subject):
    (folder / "timed.py").write_text(text)
    who = ["-c", "user.name=n", "-c", "user.email=e@e"]
    command = ["git", *who, "commit", "-am", subject]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def test_a_history_begins_at_the_first_commit_with_directives(project):
    commit_program(project, PROGRAM.replace("#ZEN$", "#"), "no directives")
    commit_program(project, PROGRAM, "directives")
    told = zen("history", "timed.py", "-n", 2, "--repeat", 1, "--json", cwd=project).facts
    ratios = [row[told["columns"].index("ratio")] for row in told["rows"]]
    assert ratios == [None, 1.0]
    refused = zen("bisect", "timed.py", "--good", "HEAD~1", cwd=project, code=2).err
    assert re.search(r"commit [0-9a-f]+ cannot be run: timed.py: there are no directives", refused)
    assert "write" not in refused


@pytest.mark.parametrize(
    ("factor", "code"), [("-2.0", 8), pytest.param("1 / 0", 3, marks=pytest.mark.slow)]
)
def test_a_search_whose_ends_have_no_positive_values_says_so_early(project, factor, code):
    commit_program(project, PROGRAM.replace("factor = 1.0", f"factor = {factor}"), "change")
    words = ("bisect", "timed.py", "--good", "HEAD~1")
    told = zen(*words, cwd=project, code=code)
    assert "never had a time above zero in the same block (18 runs)" in told.out
    facts = zen(*words, "--json", cwd=project, code=code).facts
    assert (facts["state"], facts["ratio"], facts["commits"]) == ("no value", None, [])


def test_a_history_of_values_below_zero_says_why_it_has_no_ratio(project):
    commit_program(project, PROGRAM.replace("factor = 1.0", "factor = -2.0"), "change")
    told = zen("history", "timed.py", "--repeat", 1, cwd=project)
    assert "no ratio where time is not above zero" in told.out


def test_the_noise_of_values_that_are_infinite_is_unclear(project):
    (project / "timed.py").write_text(PROGRAM.replace("factor = 1.0", 'factor = float("inf")'))
    told = zen("noise", "timed.py", "--repeat", 6, cwd=project)
    assert "unclear" in told.out
    assert "Warning" not in told.err


@pytest.mark.slow
def test_python_measures_what_the_commands_do(project, monkeypatch):
    monkeypatch.chdir(project)
    monkeypatch.delenv("ZENTURIO_DB", raising=False)
    for number in range(4):
        commit_program(project, f"{PROGRAM}# {number}\n", f"equal {number}")
    for number in range(4):
        slower = PROGRAM.replace("factor = 1.0", "factor = 1.5")
        commit_program(project, f"{slower}# {number}\n", f"slower {number}")
    study = zenturio.Study("timed.py")
    first = study.noise(repeat=6).table
    told = zen("noise", "timed.py", "--repeat", 6, "--json", cwd=project).facts
    assert (list(first.columns), [list(row) for row in first.rows]) == (
        told["columns"], told["rows"],
    )  # fmt: skip
    history = study.history(repeat=1, confirm=True)
    assert list(history.changes.values()) == [pytest.approx(0.5)]
    told = zen("history", "timed.py", "--repeat", 1, "--confirm", "--json", cwd=project).facts
    assert told["rows"] == [list(row) for row in history.table.rows]
    assert history.chart.kind == "history"
    found = study.bisect("HEAD~7", "HEAD", budget="10min")
    assert (found.state, found.ratio) == ("found", pytest.approx(1.5))
    assert found.commits == tuple(history.changes)
    told = zen("bisect", "timed.py", "--good", "HEAD~7", "--json", cwd=project).facts
    assert (told["commits"], told["runs"]) == (list(found.commits), found.runs)
    assert "slower 0" in str(found)
    assert study.gate("HEAD~7", repeat="8").state == "worse"
    assert study.compare(commit="HEAD~7", run=True, repeat="8").overall.verdict == "slower"
