"""zen simulate."""

import json

import pytest

from tests.cli.conftest import zen

FLOW = {
    "tasks": [{"name": "prep", "work": 4}, {"name": "solve", "work": 2}],
    "edges": [["prep", "solve"]],
}
PLAN = {
    "algorithm": "by hand",
    "tasks": [
        {"id": "prep", "machine": "p1", "start": 0, "end": 4},
        {"id": "solve", "machine": "p1", "start": 4, "end": 6},
    ],
}
GRID = """
[[machine]]
name = "p1"
load = [[1, 0.5], [9, 0], [10, 1]]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "flow.json").write_text(json.dumps(FLOW))
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    (tmp_path / "grid.toml").write_text(GRID)
    return tmp_path


def test_a_plan_is_played_on_a_machine_that_changes(folder):
    told = zen(
        "simulate", "flow.json", "--on", "grid.toml", "--plan", "plan.json", "--json", cwd=folder
    )
    facts = told.facts
    assert (facts["algorithm"], facts["planned"], facts["makespan"]) == ("by hand", 6, 12)
    assert facts["runs"] == {"ended": 2, "lost": 1}
    assert facts["tasks"][1] == {"id": "solve", "machine": "p1", "start": 10, "end": 12}
    assert {"time": 9, "kind": "lost", "task": "solve", "machine": "p1"} in facts["events"]
    assert facts["wasted"] == 2
    assert facts["metrics"]["makespan"] == 12


def test_a_plan_whose_order_cannot_be_kept_is_refused(folder):
    late = [{**PLAN["tasks"][0], "start": 8, "end": 12}, PLAN["tasks"][1]]
    (folder / "late.json").write_text(json.dumps({"tasks": late}))
    told = zen(
        "simulate", "flow.json", "--on", "grid.toml", "--plan", "late.json", cwd=folder, code=2
    )
    assert "late.json:1:11: its order is impossible: " in told.err
    assert "solve -> prep" in told.err


@pytest.fixture
def dead(folder):
    """A folder with a machine that fails for good."""
    (folder / "dead.toml").write_text('[[machine]]\nname = "p1"\nload = [[1, 0]]\n')
    return folder


def test_a_run_that_does_not_end_has_no_makespan(dead):
    told = zen(
        "simulate", "flow.json", "--on", "dead.toml", "--plan", "plan.json", "--runs", "2",
        "--json", cwd=dead, code=3,
    )  # fmt: skip
    assert (told.facts["ended"], told.facts["makespans"]) == (0, [None, None])


def test_a_workflow_of_a_stream_that_does_not_end_is_no_warning(dead):
    told = zen(
        "simulate", "flow.json@0", "--on", "dead.toml", "--algorithm", "srpt", "--json", cwd=dead,
        code=3,
    )  # fmt: skip
    assert told.facts["left"] == ["flow"]
    assert told.err == ""


def test_names_of_tasks_cannot_write_on_the_terminal(dead):
    tasks = [{"name": "\x1b[31mred\nline", "work": 4}]
    (dead / "ill.json").write_text(json.dumps({"tasks": tasks}))
    told = zen("simulate", "ill.json", "--on", "dead.toml", "--algorithm", "heft", cwd=dead, code=3)
    assert "\x1b" not in told.out
    assert r"\x1b[31mred\nline" in told.out


def test_of_several_runs_none_is_written(folder):
    told = zen(
        "simulate", "flow.json", "--on", "grid.toml", "--plan", "plan.json", "--runs", "3",
        "-o", "done.json", cwd=folder, code=2,
    )  # fmt: skip
    assert "--out and --gantt need a single run, not 3" in told.err


def test_what_was_carried_out_is_written_as_a_plan(folder):
    arguments = (
        "simulate",
        "flow.json",
        "--on",
        "grid.toml",
        "--plan",
        "plan.json",
        "-o",
        "done.json",
    )
    told = zen(*arguments, cwd=folder)
    assert "by hand: 2 tasks in 12 s; planned: 6 s (+100.0%)" in told.out
    assert "1 runs were lost or cancelled after 2 s" in told.out
    assert json.loads((folder / "done.json").read_text())["makespan"] == 12


def test_the_same_seed_disturbs_the_same_machines(folder):
    arguments = ("simulate", "flow.json", "--on", "identical:2", "--plan", "plan.json", "--json")
    how = ("--perturb", "every=1:2,lasting=1:2,share=0.2:0.8,failing=0.2", "--seed")
    one, again, other = (zen(*arguments, *how, seed, cwd=folder).out for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_many_runs_tell_how_the_makespan_spreads(folder):
    arguments = (
        "simulate",
        "flow.json",
        "--on",
        "identical:2",
        "--plan",
        "plan.json",
        "--runs",
        20,
    )
    how = ("--perturb", "every=1:2,lasting=1:2", "--seed", 3)
    facts = zen(*arguments, *how, "--json", cwd=folder).facts
    assert (facts["runs"], facts["ended"], len(facts["makespans"])) == (20, 20, 20)
    assert 6 < facts["least"] <= facts["q1"] <= facts["median"] <= facts["q3"] <= facts["most"]
    assert zen(*arguments, *how, cwd=folder).out.startswith("20 of 20 runs finished\n")


def test_tasks_that_never_end_are_named(folder):
    (folder / "grid.toml").write_text(GRID.replace(", [10, 1]", ""))
    arguments = ("simulate", "flow.json", "--on", "grid.toml", "--plan", "plan.json")
    assert "1 of 2 tasks finished; unfinished: solve" in zen(*arguments, cwd=folder, code=3).out
    facts = zen(*arguments, "--json", cwd=folder, code=3).facts
    assert (facts["makespan"], facts["left"]) == (None, ["solve"])
    assert "was not written: 1 of 2" in zen(*arguments, "-o", "x.json", cwd=folder, code=2).err


@pytest.mark.parametrize(
    ("arguments", "diagnostic"),
    [
        (["flow.json", "--on", "identical:2"], "--algorithm NAME or --plan FILE decide"),
        (["flow.json", "--plan", "plan.json"], "names no machines"),
        (["flow.json", "--on", "identical:2", "--algorithm", "hefd"], "did you mean"),
        (["flow.json", "--on", "identical:2", "--plan", "plan.json", "--perturb", "x=1"], "'x'"),
        (["flow.json", "--on", "grid.toml", "--plan", "flow.json"], "unknown key 'name'"),
    ],
)
def test_what_cannot_be_played_is_refused(folder, arguments, diagnostic):
    assert diagnostic in zen("simulate", *arguments, cwd=folder, code=2).err


def test_an_algorithm_plans_what_is_played(folder):
    facts = zen(
        "simulate", "flow.json", "--on", "identical:2", "--algorithm", "heft", "--json", cwd=folder
    ).facts
    assert (facts["algorithm"], facts["makespan"]) == ("heft", 6)


def test_a_search_schedules_an_annotated_workflow(folder):
    (folder / "grid.toml").write_text(
        '[[machine]]\nname = "p1"\n[[machine]]\nname = "p2"\nspeed = 2\n'
    )
    told = zen("workflow", "annotate", "flow.json", "--on", "grid.toml", "-o", "all", cwd=folder)
    assert told.out.startswith("wrote all; next: zen run all")
    search = ("--search", "ga", "--budget", 4, "--set", "population=4", "--on", "simulate")
    facts = zen("run", "all", *search, "--json", cwd=folder).facts
    assert (facts["ok"], facts["best"]["value"]) == (4, 3)
    played = zen("run", "all", "--name", "there", "--json", cwd=folder).facts
    assert (played["known"], played["best"]["value"]) == (4, 3)


def test_what_is_simulated_is_what_a_process_says(folder):
    flow = {"tasks": [dict(task, machine="p1") for task in FLOW["tasks"]], "edges": FLOW["edges"]}
    (folder / "study").mkdir()
    (folder / "study" / "flow.json").write_text(json.dumps(flow))
    (folder / "study" / "study.zen").write_text(
        'ZEN$ RUN "zen simulate flow.json --on identical:1"\nZEN$ METRIC makespan\n'
        "ZEN$ OBJECTIVE MINIMIZE makespan\n"
    )
    for place in ("simulate", "local"):
        db = f"sqlite:///{folder}/{place}.db"
        facts = zen("run", "study", "--on", place, "--db", db, "--json", cwd=folder).facts
        assert (facts["ok"], facts["best"]["value"]) == (1, 6), place
    assert "no place is named" in zen("run", "study", "--on", "inline", cwd=folder, code=2).err
