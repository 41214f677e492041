"""From a file with directives to answers, as somebody types it."""

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from loaded import Program
from tests.cli.conftest import SMALL, zen
from zenturio.cli import status_and_logs
from zenturio.record.open import open_repository
from zenturio.study.overview import opened_repository, study_statuses
from zenturio.testing.experiments import dead_driver

PROGRAM = [sys.executable, "-c", "from zenturio.cli import main; main()"]


def rows(folder, *options):
    return zen("results", "small", "--json", *options, cwd=folder).facts


def test_a_study_runs_to_its_end_and_says_what_it_did(study):
    told = zen("run", study.name, "-j", 2, cwd=study.parent)
    assert "study small: 7 points, 7 experiments, none cached; 2 at a time" in told.out
    assert "7 ok" in told.out
    assert "best: total = 40 at n=4, level=high" in told.out
    assert study.read_text() == SMALL


def test_what_a_run_of_failures_leaves_is_not_to_be_repeated(study):
    zen("run", study.name, "--limit", 2, "-j", 2, cwd=study.parent)
    told = zen("run", study.name, "--only", "failed", "-j", 2, cwd=study.parent)
    assert "0 failed, 2 cached, 5 without a result, which --only missing runs\n" in (
        told.out.replace("0 ok,", "0 ok, 0 failed,")
    )
    facts = zen("run", study.name, "--only", "failed", "--json", cwd=study.parent).facts
    assert (facts["unfinished"], facts["skipped"]) == (5, 5)


def test_one_point_is_announced_in_the_singular(tmp_path):
    (tmp_path / "a.sh").write_text('#ZEN$ RUN "sh a.sh"\n#ZEN$ PARAM n = { 1 }\nn=1\n')
    told = zen("run", "a.sh", "--dry-run", "-j", 2, cwd=tmp_path)
    assert "study a: 1 point, 1 experiment, none cached" in told.out


def test_each_machine_is_refused_where_it_means_nothing(study):
    told = zen("run", study.name, "--each-machine", "--machine", "any", cwd=study.parent, code=2)
    assert "leave one of them out" in told.err
    told = zen("run", study.name, "--each-machine", cwd=study.parent)
    assert "study small: 7 points, 7 experiments, none cached" in told.out


def test_running_again_recalls_everything(ran):
    summary = zen("run", ran.name, "--json", cwd=ran.parent).facts
    assert (summary["known"], summary["ok"], summary["unfinished"]) == (7, 0, 0)


def test_a_dry_run_writes_nothing(study):
    plan = zen("run", study.name, "--dry-run", "--json", cwd=study.parent).facts
    assert (plan["experiments"], plan["known"]) == (7, 0)
    assert zen("list", "--json", cwd=study.parent).facts == []


def test_another_metric_is_extracted_and_runs_nothing(ran):
    ran.write_text(
        SMALL.replace("#ZEN$ OBJ", '#ZEN$ METRIC word FROM stdout REGEX "(t\\w+)"\n#ZEN$ OBJ')
    )
    told = zen("extract", "small", cwd=ran.parent)
    assert "7 experiments measured again: word" in told.out
    facts = rows(ran.parent)
    assert {row[facts["columns"].index("word")] for row in facts["rows"]} == {"total"}
    summary = zen("run", ran.name, "--json", cwd=ran.parent).facts
    assert (summary["known"], summary["ok"]) == (7, 0)


def test_what_the_kept_output_does_not_hold_is_told_before_anything_is_changed(ran):
    ran.write_text(SMALL.replace('"total (', '"sum ('))
    for options, words in ((["--dry-run"], "would be measured"), ([], "measured")):
        told = zen("extract", "small", *options, cwd=ran.parent)
        assert f"7 experiments {words} again: total" in told.out
        assert "total is missing in 7: `sum (\\d+)` matched nothing in stdout" in told.out
        assert "experiments that were ok" in told.out
        assert len(rows(ran.parent)["rows"]) == (7 if options else 0)
    ran.write_text(SMALL)
    mended = zen("extract", "small", "--dry-run", cwd=ran.parent).out
    assert "7 failed experiments would be ok now" in mended
    assert "7 failed experiments are ok now" in zen("extract", "small", cwd=ran.parent).out


def test_a_metric_that_is_asked_for_no_more_keeps_what_was_measured(ran):
    lines = [line for line in SMALL.splitlines() if "METRIC" not in line and "OBJ" not in line]
    ran.write_text("\n".join(lines))
    told = zen("extract", "small", cwd=ran.parent)
    assert "no longer declared, and kept as measured: total" in told.out
    assert {row[-1] for row in rows(ran.parent, "--metric", "total")["rows"]} == {10, 20, 30, 40}


def test_extracting_from_another_program_says_so_and_keeps_the_files_that_ran(ran):
    ran.write_text(SMALL.replace("n * 10", "n * 20"))
    told = zen("extract", "small", cwd=ran.parent)
    assert "has changed (small.py changed): the next run begins a new version" in told.out
    with opened_repository(str(ran.parent / ".zenturio" / "zenturio.db")) as repository:
        assert b"n * 10" in repository.definition("small").sources["small.py"]
    assert "small@1" in zen("run", ran.name, cwd=ran.parent).out


def test_another_program_keeps_the_old_results_apart(ran):
    ran.write_text(SMALL.replace("n * 10", "n * 20"))
    told = zen("run", ran.name, cwd=ran.parent)
    assert "has changed (small.py changed): the earlier study is now small@1" in told.out
    assert max(row[-1] for row in rows(ran.parent, "--metric", "total")["rows"]) == 80
    compared = zen("compare", "small@1", "small", "--metric", "total", "--json", cwd=ran.parent)
    ratios = {row[compared.facts["columns"].index("ratio")] for row in compared.facts["rows"]}
    assert ratios == {2.0}
    assert compared.facts["counts"] == {"unclear (not interleaved)": len(compared.facts["rows"])}


def test_two_programs_of_one_name_in_two_folders_are_told_apart(tmp_path):
    for folder, factor in (("a", 10), ("b", 20)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "small.py").write_text(SMALL.replace("* 10", f"* {factor}"))
    zen("run", "a/small.py", cwd=tmp_path)
    words = (
        f"the program is not that of {tmp_path}/a (small.py changed): the earlier study {{}} small@1"
        "\nto keep both apart, run one with --name NAME\n"
    )
    assert words.format("will be") in zen("run", "b/small.py", "--dry-run", cwd=tmp_path).out
    assert words.format("is now") in zen("run", "b/small.py", cwd=tmp_path).out
    assert max(row[-1] for row in rows(tmp_path, "--metric", "total")["rows"]) == 80


SPEAKS = """\
import os, sys, time
print("began", flush=True)
print("aside", file=sys.stderr, flush=True)
while not os.path.exists({go!r}): time.sleep(0.05)
print("ended")
#ZEN$ RUN "python3 speaks.py"
"""


@pytest.fixture
def speaking(tmp_path):
    """A run whose experiment says something, and waits; its digest, and how to let it end."""
    go = tmp_path / ".go"
    (tmp_path / "speaks.py").write_text(SPEAKS.format(go=str(go)))
    run = Program(None, "run", "speaks.py", cwd=tmp_path)
    assert run.stdout.readline().startswith("study speaks")
    digest = None
    while digest is None:
        running = zen("status", "speaks", "--json", cwd=tmp_path).facts["running_experiments"]
        digest = next(iter(running), None)
    yield tmp_path, digest, go
    go.touch()
    run.communicate()


def test_what_an_experiment_says_is_followed_while_it_runs(speaking):
    folder, digest, go = speaking
    following = Program(None, "logs", digest, "--follow", cwd=folder)
    assert following.stdout.readline() == "began\n"
    assert following.stderr.readline() == "aside\n"
    assert following.poll() is None
    go.touch()
    assert following.communicate() == ("ended\n", "")
    assert zen("logs", digest, cwd=folder).out == "began\nended\n"


def test_what_an_experiment_has_said_is_shown_while_it_runs(speaking):
    folder, digest, _ = speaking
    told = zen("logs", digest, cwd=folder)
    while "aside" not in told.err or not told.out:
        told = zen("logs", digest, cwd=folder)
    assert (told.out, told.err) == (
        "began\n",
        "aside\nthe experiment is still running: --follow waits for more\n",
    )


def test_runs_that_differ_in_their_seed_alone_are_repeats(study):
    study.write_text(SMALL.replace("#ZEN$ OBJ", "#ZEN$ REPEAT 5 SEED seed\n#ZEN$ OBJ"))
    zen("run", study.name, cwd=study.parent)
    facts = rows(study.parent, "--agg", "mean", "--metric", "total")
    assert facts["columns"] == ["n", "level", "count(*)", "mean(total)"]
    assert {row[2] for row in facts["rows"]} == {5}
    compared = zen("compare", "small", "small", "--json", cwd=study.parent).facts
    assert {row[-2] for row in compared["rows"]} == {"5, 5"}
    assert compared["verdict"] == "unclear (not interleaved)", "a study against itself"
    zen("plot", "small", "--color", "level", "-o", "small.html", cwd=study.parent)
    assert "95 % interval of the mean" in (study.parent / "small.html").read_text()


def test_failures_are_grouped_with_the_commands_that_help(study):
    study.write_text(SMALL + "if n == 2: raise SystemExit(3)\n")
    told = zen("run", study.name, cwd=study.parent, code=3)
    assert "2 x exit 3, such as n=2" in told.out
    assert "zen run small.py --only failed" in told.out
    digest = told.out.split("zen logs ")[1].split()[0]
    assert zen("logs", digest, cwd=study.parent).out == "total 20\n"
    again = zen("run", study.name, "--only", "failed", "--json", cwd=study.parent, code=3).facts
    assert (again["known"], again["failed"]) == (5, 2)


def test_a_missing_metric_is_a_failure_that_says_where_it_looked(study):
    study.write_text(SMALL.replace('print("total"', 'print("sum"'))
    told = zen("run", study.name, cwd=study.parent, code=3)
    assert "7 x metric missing: total" in told.out
    results = zen("results", "small", cwd=study.parent)
    assert "no experiment succeeded: zen status small" in results.out
    failed = zen("results", "small", "--where", "status == 'failed'", cwd=study.parent)
    assert "7 of 7 rows" in failed.out
    shown = zen("show", "small", cwd=study.parent, code=2)
    assert "zen results STUDY --columns digest,status" in shown.err
    reason = "    total: `total (\\d+)` matched nothing in stdout (1 line)"
    assert reason in told.out.splitlines()
    again = zen("run", study.name, cwd=study.parent, code=3)
    assert reason in again.out.splitlines()
    digest = told.out.split("zen logs ")[1].split()[0]
    assert "matched nothing in stdout" in zen("show", digest, cwd=study.parent).out


def test_a_run_prints_what_check_warns_of_and_not_what_it_suggests(tmp_path):
    lines = [
        "PARAM n = { 1, 2 }",
        "PARAM unused = { 1, 2 }",
        'RUN "echo {n}"',
        "OBJECTIVE MINIMIZE wtime",
    ]
    (tmp_path / "in.x").write_text("".join(f"# ZEN$ {line}\n" for line in lines))
    checked = zen("check", "in.x", cwd=tmp_path).out
    assert "PARAM unused is used nowhere" in checked
    assert "no VERIFY checks them" in checked
    told = zen("run", "in.x", cwd=tmp_path)
    assert "PARAM unused is used nowhere" in told.err
    assert "VERIFY" not in told.err


def test_fail_fast_stops_at_the_first_failure(study):
    study.write_text(SMALL + "raise SystemExit(1)\n")
    told = zen("run", study.name, "-j", 1, "--fail-fast", "--json", cwd=study.parent, code=3)
    assert 1 <= told.facts["failed"] < 7
    assert told.facts["unfinished"] > 0


FAULTY = """#ZEN$ PARAM n = { 1:400 }
#ZEN$ METRIC t FROM stdout REGEX "time (.*)"
#ZEN$ METRIC half := t / 2
#ZEN$ METRIC d FROM stdout REGEX "d (.*)" WHEN n > 3
#ZEN$ RUN "echo {n}"
"""


def test_a_study_in_which_nothing_can_succeed_stops_after_its_first_experiments(tmp_path):
    (tmp_path / "in.x").write_text(FAULTY)
    told = zen("run", "in.x", "-j", 1, cwd=tmp_path, code=3)
    # How many have ended by then, and whether one of n <= 3 is among them, is up to the machine.
    stopped = (
        r"experiments failed.*: .*metric missing: d, t.*; --go-on \(in Python: go_on=True\) runs"
    )
    assert re.search(stopped, told.err)
    few = ("run", "in.x", "-P", "n = { 1:12 }", "--json")
    failed = zen(*few, "--go-on", cwd=tmp_path, code=3).facts
    assert failed["unfinished"] == 0


def test_a_study_whose_first_experiments_fail_for_several_reasons_stops_and_counts_them(tmp_path):
    lines = "# ZEN$ PARAM n = { 1:400 }\n", '# ZEN$ RUN "sh p.sh {n}"\n', "exit $(($1 % 2 + 1))\n"
    (tmp_path / "p.sh").write_text("".join(lines))
    told = zen("run", "p.sh", "-j", 1, cwd=tmp_path, code=3)
    assert re.search(r"failed, for 2 reasons: \d+ x exit \d, \d+ x exit \d; --go-on", told.err)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--only", "faild"), "did you mean 'failed'"),
        (("--keep", "sometimes"), "--keep"),
        (("--limit", "2", "--sample", "2"), "exclude each other"),
    ],
)
def test_wrong_options_say_what_would_be_right(study, options, words):
    assert words in zen("run", study.name, *options, cwd=study.parent, code=2).err


def test_a_study_without_a_run_says_so(tmp_path):
    (tmp_path / "p.sh").write_text("#ZEN$ PARAM n = { 1, 2 }\necho {n}\n")
    assert "ZEN$ RUN" in zen("run", "p.sh", cwd=tmp_path, code=2).err


def test_status_and_list_say_where_studies_stand(ran):
    assert "small: 7 ok" in zen("status", cwd=ran.parent).out
    facts = zen("status", "small", "--json", cwd=ran.parent).facts
    assert (facts["experiments"], facts["ok"], facts["drivers"]) == (7, 7, [])
    assert [each["study"] for each in zen("list", "--json", cwd=ran.parent).facts] == ["small"]
    assert "did you mean 'small'" in zen("status", "smal", cwd=ran.parent, code=2).err


def test_a_study_that_was_begun_says_what_is_left(study):
    zen("run", study.name, "--limit", 3, cwd=study.parent)
    zen("run", study.name, "--limit", 2, cwd=study.parent)
    assert zen("status", "small", "--json", cwd=study.parent).facts["ok"] == 3


def test_results_choose_group_sort_and_count(ran):
    facts = rows(ran.parent, "--where", "n >= 3", "--sort", "-total", "--limit", "2")
    at = facts["columns"].index("total")
    assert [row[at] for row in facts["rows"]] == [40, 30]
    assert (facts["found"], facts["total"]) == (3, 7)
    grouped = rows(ran.parent, "--by", "level", "--agg", "max,count", "--metric", "total")
    assert [row[0] for row in grouped["rows"]] == ["low", "high"]
    told = zen("results", "small", "--by", "n", cwd=ran.parent).out
    assert "from 7 of 7 experiments" in told
    assert "mean(total) (J)" in told


def test_results_in_every_format(ran):
    for kind, sign in {
        "csv": "n,level", "jsonl": '"level": "low"', "markdown": "| ---", "latex": "tabular",
    }.items():  # fmt: skip
        assert sign in zen("results", "small", "--format", kind, cwd=ran.parent).out.replace(
            '":"', '": "'
        ).replace("|---", "| ---").replace("|:--", "| ---")
    zen("results", "small", "-o", "r.csv", cwd=ran.parent)
    assert (ran.parent / "r.csv").read_text().startswith("n,level")
    assert "did you mean" in zen("results", "small", "--format", "cvs", cwd=ran.parent, code=2).err


def test_the_sql_of_a_query_gives_the_same_rows(ran):
    sql = zen("results", "small", "--where", "n >= 3", "--sql", cwd=ran.parent).out
    answer = zen("sql", sql.strip(), "--json", cwd=ran.parent).facts
    assert len(answer["rows"]) == 3
    assert "total" in answer["columns"]


def test_sql_only_reads(ran):
    answer = zen("sql", "SELECT max(total) FROM study_small", "--json", cwd=ran.parent).facts
    assert answer == {"columns": ["max(total)"], "rows": [[40]]}
    for query in ("DELETE FROM results", "ATTACH 'x' AS y", "PRAGMA writable_schema=1"):
        assert zen("sql", query, cwd=ran.parent, code=None).code in (2, 6)
    assert zen("db", "check", "--json", cwd=ran.parent).facts["ok"]


def test_a_query_may_stand_in_a_file(ran):
    query = "-- the most\nSELECT max(total) AS most FROM study_small\n"
    (ran.parent / "most.sql").write_text(query)
    zen("sql", "most.sql", "-o", "most.json", cwd=ran.parent)
    assert (ran.parent / "most.json").read_text() == '{"most": 40}\n'
    told = zen("sql", "least.sql", cwd=ran.parent, code=2)
    assert "cannot read least.sql" in told.err


def test_a_query_may_ask_a_file_of_csv_too(ran):
    (ran.parent / "due.csv").write_text("n,due\n2,late\n")
    query = "SELECT DISTINCT due FROM study_small JOIN due USING (n)"
    told = zen("sql", "--table", "due=due.csv", query, "--json", cwd=ran.parent)
    assert told.facts["rows"] == [["late"]]
    drawn = ("plot", "--kind", "bar", "--x", "due", "--y", "total", "-o", "-")
    query = "SELECT due, total FROM study_small JOIN due USING (n)"
    assert "late" in zen(*drawn, "--query", query, "--table", "due=due.csv", cwd=ran.parent).out
    told = zen("plot", "small", "--table", "due=due.csv", cwd=ran.parent, code=2)
    assert "--table needs --query" in told.err


def test_a_wrong_expression_is_shown_with_its_place(ran):
    told = zen("results", "small", "--where", "n >= tree", cwd=ran.parent, code=2)
    assert "--where:1:6" in told.err
    assert "^" in told.err


def test_an_experiment_is_shown_and_compared(ran):
    facts = zen(
        "sql", "SELECT digest FROM study_small_all ORDER BY n, level DESC", "--json", cwd=ran.parent
    ).facts
    one, other = (row[0] for row in facts["rows"][:2])
    shown = zen("show", one[:8], "--json", cwd=ran.parent).facts
    assert shown["parameters"] == {"n": 1, "level": "low"}
    assert shown["metrics"]["total"] == 10
    assert shown["attempts"][0]["state"] == "ok"
    compared = zen("diff", one[:8], other[:8], "--json", cwd=ran.parent).facts
    assert compared["parameters"] == {"level": ["low", "high"]}
    assert '+level = "high"' in compared["files"]["small.py"]
    assert "not the digest" in zen("show", "xyz", cwd=ran.parent, code=2).err
    assert "begins with" in zen("show", "0" * 32, cwd=ran.parent, code=2).err


def test_an_experiment_says_where_its_files_are_and_what_ran_them(study):
    study.write_text(SMALL.replace("#ZEN$ OBJ", '#ZEN$ BUILD "true"\n#ZEN$ OBJ') + "1 / 0\n")
    for command in (["init", "-q"], ["add", "small.py"], ["commit", "-m", "one"]):
        who = ["-c", "user.name=z", "-c", "user.email=z@example.org"]
        subprocess.run(
            ["git", *who, *command], cwd=study.parent, check=True, stdout=subprocess.DEVNULL
        )
    told = zen("run", study.name, "--limit", 1, cwd=study.parent, code=3)
    digest = told.out.split("zen logs ")[1].split()[0]
    facts = zen("show", digest, "--json", cwd=study.parent).facts
    assert facts["commands"] == ["true", "python3 small.py"]
    assert "1 / 0" in (Path(facts["folder"]) / "small.py").read_text()
    assert facts["provenance"]["git"]["dirty"] is False
    shown = zen("show", digest, cwd=study.parent).out
    assert "\nfailed (exit 1: ZeroDivisionError: division by zero)\n" in shown
    assert f"\ncode: commit {facts['provenance']['git']['commit']} on " in shown
    assert f"\nfolder: {facts['folder']}\n" in shown


def test_experiments_are_compared_with_the_directives_that_they_ran_under(ran):
    ran.write_text(SMALL.replace("{ 1:4 }", "{ 7:8 }"))
    zen("run", ran.name, cwd=ran.parent)
    asked = "SELECT digest FROM study_small_all WHERE n IN (1, 7) AND level = 'high' ORDER BY n"
    digests = [row[0] for row in zen("sql", asked, "--json", cwd=ran.parent).facts["rows"]]
    compared = zen("diff", *digests, "--json", cwd=ran.parent).facts
    assert "-n = 1\n+n = 7" in compared["files"]["small.py"]


def test_a_formula_is_fitted(ran):
    (model,) = zen("fit", "small", "--y", "total", "--x", "n", "--json", cwd=ran.parent).facts
    assert model["kind"] == "linear"
    assert model["formula"].replace(" ", "") in {"10*n", "0+10*n"}
    where = ran.parent
    told = zen("fit", "small", "--y", "total", "--x", "n", "--as-model", "m.json", cwd=where).out
    assert "wrote m.json; next: zen schedule WORKFLOW --times m.json" in told
    model = json.loads((where / "m.json").read_text())
    assert (model["study"], model["metric"], model["models"][0]["values"]) == (
        "small", "total", {"n": [1, 2, 3, 4]},
    )  # fmt: skip
    tasks = [{"name": "a", "program": "small", "point": {"n": 25}}, {"name": "b", "work": 1}]
    (where / "flow.json").write_text(json.dumps({"tasks": tasks, "edges": [["a", "b"]]}))
    told = zen("workflow", "convert", "flow.json", "timed.json", "--times", "m.json", cwd=where)
    assert "m.json has no times of 1 of 2 tasks, which keep theirs: b" in told.err
    rows = json.loads((where / "timed.json").read_text())["tasks"]
    assert rows[0]["work"] == pytest.approx(250)
    assert (
        "did you mean" in zen("fit", "small", "--y", "totl", "--x", "n", cwd=ran.parent, code=2).err
    )


@pytest.mark.parametrize("ending", ["html", "png", "svg", "pdf"])
def test_a_picture_is_drawn(ran, ending):
    out = f"p.{ending}"
    zen("plot", "small", "--x", "n", "--y", "total", "--color", "level", "-o", out, cwd=ran.parent)
    content = (ran.parent / out).read_bytes()
    signs = {"html": b"<html", "png": b"\x89PNG", "svg": b"<svg", "pdf": b"%PDF"}
    assert signs[ending] in content


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("line", "mean total over n"),
        ("parallel", "total across the parameters"),
        ("heatmap", "total over n and level"),
    ],
)
def test_a_picture_needs_no_more_than_its_kind(ran, kind, title):
    zen("plot", "small", "--kind", kind, cwd=ran.parent)
    assert f"small: {title}" in (ran.parent / "small.html").read_text()


def test_a_study_of_one_point_is_drawn_over_its_repeats(study):
    study.write_text(SMALL.replace("#ZEN$ OBJ", "#ZEN$ REPEAT 3\n#ZEN$ OBJ"))
    zen("run", study.name, "--limit", 1, "--name", "../one", cwd=study.parent)
    zen("plot", "../one", cwd=study.parent)
    assert "total over repeat" in (study.parent / "..-one.html").read_text()


def test_views_for_other_programs_are_listed_and_pinned(ran):
    assert "study_small" in zen("db", "views", cwd=ran.parent).out
    (view,) = zen("db", "views", "--pin", "small", "--json", cwd=ran.parent).facts
    assert (view["study"], view["is_stored"], view["is_pinned"]) == ("small", True, True)
    (view,) = zen("db", "views", "--unpin", "small", "--json", cwd=ran.parent).facts
    assert not view["is_pinned"]
    assert "smal" in zen("db", "views", "--pin", "smal", cwd=ran.parent, code=2).err


def test_the_database_is_copied_checked_and_pruned(ran):
    zen("db", "backup", "copy.db", cwd=ran.parent)
    assert zen("db", "check", "--db", "copy.db", "--json", cwd=ran.parent).facts["ok"]
    assert zen("list", "--db", "copy.db", "--json", cwd=ran.parent).facts[0]["ok"] == 7
    would = zen("prune", "small", cwd=ran.parent).out
    assert "would remove study small: 7 experiments" in would
    assert zen("status", "small", "--json", cwd=ran.parent).facts["ok"] == 7
    zen("prune", "small", "--yes", cwd=ran.parent)
    assert zen("list", "--json", cwd=ran.parent).facts == []
    assert not (ran.parent / ".zenturio" / "work").exists()


def test_a_driver_that_was_killed_does_not_keep_a_study_from_being_pruned(ran):
    with contextlib.closing(open_repository(ran.parent / ".zenturio" / "zenturio.db")) as found:
        found.acquire_lease("small", dead_driver())
    zen("prune", "small", "--yes", cwd=ran.parent)
    assert zen("list", "--json", cwd=ran.parent).facts == []


def test_folders_that_a_run_works_in_are_not_pruned_whatever_database_it_has(study):
    go = study.parent / ".go"
    waits = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.05)\nprint("
    study.write_text(SMALL.replace("print(", waits))
    run = Program(None, "run", study.name, "--db", "else.db", cwd=study.parent)
    assert run.stdout.readline().startswith("study small")
    zen("run", study.name, "--limit", 0, cwd=study.parent)
    told = zen("prune", "--yes", cwd=study.parent, code=5)
    assert f"process {run.pid} runs experiments in" in told.err
    go.touch()
    assert "7 ok" in run.communicate()[0]


def test_a_damaged_database_is_reported_and_salvaged(ran):
    path = ran.parent / ".zenturio" / "zenturio.db"
    zen("db", "backup", "good.db", cwd=ran.parent)
    content = bytearray((ran.parent / "good.db").read_bytes())
    content[:16] = b"not a database!!"
    path.write_bytes(bytes(content))
    told = zen("list", cwd=ran.parent, code=4)
    assert "zen db salvage" in told.err


def test_on_a_terminal_a_line_moves_and_on_a_pipe_none(study):
    # The line appears with the first result; the second experiment lasts until it was seen.
    seen = study.parent / ".seen"
    waits = f"""import os, time
while os.path.exists({str(study.parent / ".first")!r}) and not os.path.exists({str(seen)!r}):
    time.sleep(0.02)
open({str(study.parent / ".first")!r}, "w").close()
print("""
    study.write_text(SMALL.replace("print(", waits))
    master, slave = pty.openpty()
    with subprocess.Popen(
        [*PROGRAM, "run", study.name, "-j", "1"], cwd=study.parent, stdout=slave, stderr=slave
    ) as process:
        os.close(slave)
        shown = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
            if "█".encode() in shown:
                seen.touch()
        assert process.wait() == 0
    os.close(master)
    assert "█".encode() in shown
    assert b"/7" in shown
    told = zen("run", study.name, cwd=study.parent)
    assert "\r" not in told.out + told.err
    assert "\x1b" not in told.out + told.err


def test_names_are_data(tmp_path):
    """Names that SQL, shells or file systems would trip over are names like any other."""
    names = ["select", "Größe", "a" * 70, "index", "x y"]
    sets = "\n".join(f'#ZEN$ PARAM p{i} = {{ 1, 2 }} AS "{n}"' for i, n in enumerate(names[:4]))
    (tmp_path / "odd.sh").write_text(
        f'{sets}\n#ZEN$ RUN "echo total 5"\n#ZEN$ METRIC from FROM stdout REGEX "total (\\d)"\n'
    )
    zen("run", "odd.sh", cwd=tmp_path)
    facts = zen(
        "results", "odd", "--json", "--where", "select == 1 and Größe == 2", cwd=tmp_path
    ).facts
    assert len(facts["rows"]) == 4
    shown = json.dumps(facts["columns"])
    assert "select" in shown
    assert "a" * 70 in shown


def test_two_parts_of_a_study_are_compared_by_naming_it_twice(ran):
    words = ("--where", "n == 1", "--where", "n == 2")
    refused = zen("compare", "small", *words, cwd=ran.parent, code=2).err
    assert "zen compare small small --where 'n == 1' --where 'n == 2'" in refused


def test_failures_are_grouped_by_what_happened_and_each_shows_the_end_of_a_log(tmp_path):
    (tmp_path / "a.sh").write_text(
        '#ZEN$ PARAM n = { 1:6 }\n#ZEN$ RUN "sh a.sh {n}"\n'
        "if [ $1 -ge 5 ]; then echo start >&2; echo FloatingPointError: step $1 >&2; exit 1; fi\n"
        "echo \"NameError: name 'x' is not defined\" >&2; exit 1\n"
    )
    summary = zen("run", "a.sh", cwd=tmp_path, code=3).out
    named = "4 x exit 1: NameError: name 'x' is not defined, such as n="
    overflow = "2 x exit 1: FloatingPointError: step #, such as n="
    status = zen("status", "a", cwd=tmp_path).out
    cached = zen("run", "a.sh", cwd=tmp_path, code=3).out
    for said in (summary, status, cached):
        assert said.index(named) < said.index(overflow)
        assert "    | start\n    | FloatingPointError: step" in said
    failures = zen("status", "a", "--json", cwd=tmp_path).facts["failures"]
    assert [each["count"] for each in failures] == [4, 2]
    assert failures[1]["end"] == f"start\nFloatingPointError: step {failures[1]['values']['n']}"


def test_results_before_a_comment_are_accepted_shown_as_such_and_given_back(ran):
    folder = ran.parent
    ran.write_text(SMALL + "# nothing that matters\n")
    assert zen("run", ran.name, "--dry-run", "--json", cwd=folder).facts["known"] == 0
    told = zen("equate", "small@1", cwd=folder)
    assert told.out.startswith("7 results of small@1 accepted as equal by ")
    assert "zen equate small@1 --undo" in told.out
    summary = zen("run", ran.name, "--json", cwd=folder).facts
    assert (summary["known"], summary["ok"]) == (7, 0)
    with opened_repository(str(folder / ".zenturio" / "zenturio.db")) as repository:
        digest = next(repository.records("small")).digest
    facts = zen("show", digest, "--study", "small", "--json", cwd=folder).facts
    assert facts["equality"]["study"] == "small@1"
    assert facts["equality"]["digest"] != facts["digest"]
    shown = zen("show", digest, cwd=folder).out
    assert f"accepted as equal to small@1 by {facts['equality']['person']}, 2" in shown
    assert zen("equate", "small@1", "--undo", "--json", cwd=folder).facts["removed"] == 7
    assert zen("run", ran.name, "--dry-run", "--json", cwd=folder).facts["known"] == 0
    assert "no version" in zen("equate", "small", cwd=folder, code=2).err


def test_the_best_of_repeated_points_is_the_one_that_zen_best_names(tmp_path):
    """The luckiest repeat is one of n = 1, whose mean is worse."""
    (tmp_path / "luck.sh").write_text(
        "# ZEN$ PARAM n = { 1, 2 }\n"
        "# ZEN$ REPEAT 3 SEED seed\n"
        '# ZEN$ METRIC cost FROM stdout REGEX "cost (\\d+)"\n'
        "# ZEN$ OBJECTIVE MINIMIZE cost\n"
        '# ZEN$ RUN "sh luck.sh {n} {seed}"\n'
        'if [ "$1" = 2 ]; then echo cost 5; elif mkdir'
        f" {tmp_path}/lucky; then echo cost 1; else echo cost 9; fi\n"
    )
    said = zen("run", "luck.sh", "-j", 1, cwd=tmp_path)
    assert "best: cost = 5 at n=2 (mean of 3 repeats)\n" in said.out
    assert zen("best", "luck", "-n", 1, cwd=tmp_path).out.splitlines()[1].split()[:2] == ["2", "5"]
    program = tmp_path / "luck.sh"
    program.write_text(program.read_text().replace("{ 1, 2 }", "{ 1 }"))
    said = zen("run", "luck.sh", cwd=tmp_path)
    assert "at n=1 (mean of 3 repeats)\n" in said.out  # n = 2 is no point any more


def test_zen_show_prints_the_commands_with_their_values(tmp_path):
    (tmp_path / "p.sh").write_text(
        "# ZEN$ PARAM n = { 3 }\n# ZEN$ PARAM who = { 'a b' }\n"
        '# ZEN$ REPEAT 2 SEED seed\n# ZEN$ RUN "echo {n} {who} {seed}"\n'
    )
    zen("run", "p.sh", "-j", 1, cwd=tmp_path)
    digest = zen("results", "p", "--columns", "digest,seed", "--format", "csv", cwd=tmp_path).out
    name, seed = digest.splitlines()[1].split(",")
    assert f"command: echo 3 'a b' {seed}\n" in zen("show", name, cwd=tmp_path).out


def test_what_an_edit_left_behind_is_not_counted_as_done(tmp_path):
    """Other points, and repeats beyond REPEAT, are not those that the plan still lacks."""

    def write(points, repeats):
        lines = [f"PARAM n = {points}", f"REPEAT {repeats}", 'RUN "true"']
        (tmp_path / "a.sh").write_text("".join(f"# ZEN$ {line}\n" for line in lines))

    def states(*words):
        told = zen("run", "a.sh", "-j", 1, *words, "--json", cwd=tmp_path).facts
        status = zen("status", "a", "--json", cwd=tmp_path).facts
        (listed,) = zen("list", "--json", cwd=tmp_path).facts
        assert listed["missing"] == status["missing"] == told["unfinished"]
        return told["known"], told["ok"] + told["unfinished"]

    write("{ 1, 2 }", 4)
    assert states() == (0, 8)
    write("{ 1:6 }", 2)
    assert states("--budget", "0.001s") == (4, 8)
    assert states("--budget", "60s")[1] <= 8
    write("{ 5:9 }", 2)
    assert states("--budget", "0.001s") == (4, 6)
    # In a list, a large study has a lower bound.
    database = str(tmp_path / ".zenturio" / "zenturio.db")
    (uncounted,) = status_and_logs.with_unplanned_counts(database, study_statuses(database), most=3)
    (counted,) = status_and_logs.with_unplanned_counts(database, study_statuses(database))
    assert (uncounted.unplanned, uncounted.missing, counted.missing > 0) == (None, 0, True)
