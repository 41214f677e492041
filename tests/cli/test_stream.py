"""zen simulate with workflows that arrive one after the other."""

import json

from tests.cli.conftest import zen

STREAM = """
[[submit]]
workflow = "maxdo"
at = "0:24:12"

[[submit]]
workflow = "gee"
at = 5
"""


def test_a_stream_is_played_and_told(tmp_path):
    told = zen("simulate", "online-51", "--algorithm", "srpt", cwd=tmp_path)
    assert "srpt: 102 workflows, 928 tasks in " in told.out
    assert "lower_bound" in told.out
    assert "50 of 50" in told.out
    charts = [line for line in told.out.splitlines() if line.startswith(("workflows |", "ready"))]
    assert all(len(line.split("|")[1]) == 60 for line in charts)
    assert len(charts) == 2


def test_the_facts_tell_each_workflow_and_task(tmp_path):
    (tmp_path / "stream.toml").write_text(STREAM)
    facts = zen(
        "simulate", "stream.toml", "--on", "identical:2", "--algorithm", "foft",
        "--set", "by=dag", "--json", cwd=tmp_path,
    ).facts  # fmt: skip
    assert (facts["algorithm"], facts["workflow"], facts["notes"]) == (
        "foft",
        "stream",
        {"by": "dag"},
    )
    assert [each["name"] for each in facts["workflows"]] == ["maxdo-1", "gee", "maxdo-2", "maxdo-3"]
    assert facts["makespan"] == max(each["end"] for each in facts["workflows"])
    assert len(facts["tasks"]) == 3 * 6 + 17
    assert facts["counts"]["workflows"]["time"][:4] == [0, 5, 12, 24]
    assert facts["counts"]["workflows"]["count"][-1] == 0
    assert facts["metrics"]["slowdown_min"] >= 1


def test_without_an_algorithm_all_are_compared(tmp_path):
    told = zen("simulate", "gee@0", "maxdo@0:60:12", cwd=tmp_path)
    for name in ("basic", "g-heft", "aging", "aging-exp", "fcfs", "srpt", "foft"):
        assert f"\n{name} " in told.out
    facts = zen("simulate", "gee@0", "maxdo@0:60:12", "--json", cwd=tmp_path).facts
    assert len(facts) == 7


def test_one_workflow_is_a_stream_for_an_algorithm_of_streams(tmp_path):
    facts = zen("simulate", "gee", "--algorithm", "fcfs", "--json", cwd=tmp_path).facts
    assert [each["slowdown"] for each in facts["workflows"]] == [1]


def test_what_came_of_a_stream_is_written_and_drawn(tmp_path):
    zen(
        "simulate", "gee@0", "maxdo@3", "--algorithm", "srpt", "-o", "done.json",
        "--gantt", "done.svg", cwd=tmp_path,
    )  # fmt: skip
    tasks = json.loads((tmp_path / "done.json").read_text())["tasks"]
    assert {"id": "maxdo/prepare", "machine": "p1", "start": 7, "end": 12} in tasks
    assert (tmp_path / "done.svg").read_text().startswith("<")


def test_a_stream_may_be_disturbed(tmp_path):
    words = ("simulate", "gee@0", "maxdo@3", "--algorithm", "srpt", "--json")
    calm = zen(*words, cwd=tmp_path).facts
    rough = zen(*words, "--perturb", "every=5:20,lasting=5:10", "--seed", "1", cwd=tmp_path).facts
    assert rough["makespan"] > calm["makespan"]


def test_workflows_that_did_not_end_are_told(tmp_path):
    (tmp_path / "grid.toml").write_text('[[machine]]\nname = "m"\nload = [[90, 0]]\n')
    words = ("simulate", "gee@0", "maxdo@3", "--on", "grid.toml", "--algorithm", "srpt")
    told = zen(*words, cwd=tmp_path, code=3)
    assert "1 of 2 workflows finished; unfinished: gee" in told.out
    facts = zen(*words, "--json", cwd=tmp_path, code=3).facts
    assert (facts["left"], facts["makespan"], facts["metrics"]) == (["gee"], None, {})


def test_a_stream_needs_an_algorithm_of_its_kind(tmp_path):
    told = zen("simulate", "gee@0", "--algorithm", "heft", cwd=tmp_path, code=2)
    assert "heft is static" in told.err
    assert "srpt" in told.err


def test_a_stream_has_neither_plan_nor_runs(tmp_path):
    told = zen("simulate", "gee@0", "--algorithm", "srpt", "--runs", "3", cwd=tmp_path, code=2)
    assert "--plan, --runs and --exit do not apply" in told.err


def test_nobody_knows_whose_plan_to_write_when_all_are_compared(tmp_path):
    told = zen("simulate", "gee@0", "-o", "x.json", cwd=tmp_path, code=2)
    assert "need one algorithm" in told.err


def test_workflows_without_machines_are_refused(tmp_path):
    told = zen("simulate", "gee@0", "topcuoglu@3", cwd=tmp_path, code=2)
    assert "--on grid.toml" in told.err
