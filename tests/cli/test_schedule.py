"""zen schedule, zen algorithms."""

import json
import threading

import pytest

from cli.conftest import zen
from zenturio.cli import schedule

FLOW = {
    "tasks": [
        {"name": "prep", "work": 4},
        {"name": "left", "work": 8},
        {"name": "right", "work": 6},
    ],
    "edges": [["prep", "left"], ["prep", "right"]],
}
CHART = """
p1 |████████████████████████████████████████████████████████████|
p2 |                    ██████████████████████████████          |
   0                                                          12 s
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "flow.json").write_text(json.dumps(FLOW))
    return tmp_path


def test_a_plan_is_told_by_its_metrics_and_a_chart(folder):
    told = zen("schedule", "flow.json", "--on", "identical:2", cwd=folder)
    assert told.out.startswith("heft: 3 tasks in 12 s\n\n")
    assert ["speedup", "1.5"] in [line.split() for line in told.out.splitlines()]
    assert told.out.endswith(CHART)


def test_a_negative_part_of_the_overhead_is_explained(folder):
    flow = {"tasks": [{"name": str(i), "work": 1} for i in range(6)]}
    (folder / "wide.json").write_text(json.dumps({**flow, "edges": []}))
    told = zen("schedule", "wide.json", "--on", "identical:2", cwd=folder)
    assert ["loss_of_parallelism", "-2"] in [line.split() for line in told.out.splitlines()]
    assert "wait for processors that compute," in told.out
    told = zen("schedule", "flow.json", "--on", "identical:2", cwd=folder)
    assert "below 0" not in told.out


def test_a_plan_as_json_says_who_runs_what_and_when(folder):
    told = zen(
        "schedule", "flow.json", "--on", "identical:2", "--algorithm", "cpop", "--json", cwd=folder
    )
    facts = told.facts
    assert (facts["algorithm"], facts["makespan"], facts["metrics"]["speedup"]) == ("cpop", 12, 1.5)
    assert facts["tasks"] == [
        {"id": "prep", "machine": "p1", "start": 0, "end": 4},
        {"id": "left", "machine": "p1", "start": 4, "end": 12},
        {"id": "right", "machine": "p2", "start": 4, "end": 10},
    ]


def test_a_written_plan_can_be_played(folder):
    zen("schedule", "flow.json", "--on", "identical:2", "-o", "plan.json", cwd=folder)
    told = zen(
        "simulate", "flow.json", "--on", "identical:2", "--plan", "plan.json", "--json", cwd=folder
    )
    assert (told.facts["planned"], told.facts["makespan"]) == (12, 12)


def test_a_workflow_needs_machines(folder):
    told = zen("schedule", "flow.json", cwd=folder, code=2)
    assert "names no machines" in told.err
    assert "identical:8" in told.err


def test_an_objective_is_a_metric_that_the_algorithm_can_aim_at(folder):
    on = ("schedule", "flow.json", "--on", "identical:2")
    assert "did you mean 'cost'" in zen(*on, "--objective", "costs", cwd=folder, code=2).err
    told = zen(*on, "--objective", "cost", cwd=folder, code=2)
    assert "heft cannot optimise cost" in told.err
    zen(*on, "--objective", "cost", "--algorithm", "ga", cwd=folder)
    assert zen(*on, "--objective", "makespan", cwd=folder).out.endswith(CHART)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--islands-on", "simulate"], "simulate runs no commands"),
        (["--islands-on", "played"], "played runs no commands"),
        (["--islands-on", "local", "--algorithm", "heft"], "heft has no islands"),
        (
            ["--algorithm", "ga:islands=2", "--objective", "cost"],
            "islands only optimise the makespan, not cost",
        ),
    ],
)
def test_islands_that_would_not_evolve_are_refused(folder, options, message):
    (folder / "zenturio.toml").write_text('[places.played]\nkind = "simulate"\n')
    said = zen("schedule", "flow.json", "--on", "identical:2", *options, cwd=folder, code=2)
    assert message in said.err


def test_islands_at_a_place_find_the_plan_of_threads(folder):
    there = ["schedule", "flow.json", "--on", "identical:2", "--json"]
    search = ["--algorithm", "ga:islands=2,evaluations=80,exchanges=2"]
    plans = [
        zen(*there, *search, *more, cwd=folder).facts for more in ([], ["--islands-on", "local"])
    ]
    assert plans[0]["tasks"] == plans[1]["tasks"]


def test_what_is_misspelt_is_suggested(folder):
    on = ("schedule", "flow.json", "--on", "identical:2")
    assert "did you mean 'heft'" in zen(*on, "--algorithm", "hefd", cwd=folder, code=2).err
    assert "no setting 'speed'" in zen(*on, "--set", "speed=1", cwd=folder, code=2).err


def test_more_processors_than_can_be_shown_are_counted(folder):
    flow = {"tasks": [{"name": f"t{i}", "work": 1} for i in range(30)], "edges": []}
    (folder / "wide.json").write_text(json.dumps(flow))
    told = zen("schedule", "wide.json", "--on", "identical:20", cwd=folder)
    assert told.out.endswith("12 of 20 processors\n")


@pytest.mark.slow
def test_warm_compiles_the_algorithms_once(folder):
    parts = json.loads(zen("warm", "--json", cwd=folder).out)
    by_name = {part["name"]: part for part in parts}
    assert {"simulation", "heft", "ga", "tabu"} <= set(by_name)
    assert not by_name["ga"]["skipped"]
    assert "ga" in zen("warm", cwd=folder).out


def test_algorithms_are_listed_with_their_kinds_and_settings(folder):
    told = zen("algorithms", cwd=folder)
    rows = {
        line.split()[0]: line.split()[1] for line in told.out.splitlines()[1:] if line[:1].strip()
    }
    assert rows["heft"] == rows["xdcp"] == "static"
    assert rows["lazy"] == rows["pm-s"] == "just-in-time"
    told = zen("algorithms", "xdcp", "--json", cwd=folder)
    assert [each["name"] for each in told.facts[0]["settings"]] == ["formulas", "threshold"]
    assert "no settings" in zen("algorithms", "heft", cwd=folder).out


def test_one_is_told_when_compiling_takes_long(capsys, monkeypatch):
    from numba.core import event

    monkeypatch.setattr(schedule, "SILENT", 0.02)
    with schedule.compiling_told(), event.trigger_event("numba:compile"):
        for thread in threading.enumerate():
            if isinstance(thread, schedule._CompilingNote):
                thread.join()
    assert (
        capsys.readouterr().err == "compiling the scheduling kernels (only once; they are cached)\n"
    )
    with schedule.compiling_told():
        threading.Event().wait(0.1)
    assert capsys.readouterr().err == ""


MOLDABLE = {
    "tasks": [
        {"name": "wide", "curve": {"nodes": [1, 2, 3], "seconds": [8, 5, 4]}},
        {"name": "small", "curve": {"nodes": [1], "seconds": [4]}},
        {"name": "end", "work": 2},
    ],
    "edges": [["wide", "end"], ["small", "end"]],
}
NODES = """
p1 |████████████████████████████████████████████████████████████|
p2 |████████████████████████████████████████                    |
p3 |████████████████████████████████████████                    |
p4 |████████████████████████████████████████                    |
   0                                                           6 s
"""


def molded(folder, *more, on="identical:4", code=0):
    (folder / "kwave.json").write_text(json.dumps(MOLDABLE))
    return zen("schedule", "kwave.json", "--on", on, *more, cwd=folder, code=code)


def test_a_plan_of_moldable_tasks_says_on_how_many_nodes_each_runs(tmp_path):
    facts = molded(tmp_path, "--algorithm", "cpa", "--json").facts
    assert (facts["algorithm"], facts["makespan"]) == ("cpa", 6)
    assert [(row["id"], row["nodes"], row["end"]) for row in facts["tasks"]] == [
        ("wide", 3, 4), ("small", 1, 4), ("end", 1, 6),
    ]  # fmt: skip
    metrics = facts["metrics"]
    assert (metrics["node_seconds"], metrics["paid_seconds"], metrics["unused"]) == (18, 24, 0.25)
    assert molded(tmp_path, "--algorithm", "cpa", "--set", "polish=0").out.endswith(NODES)


def test_a_front_tells_what_there_is_to_choose_from(tmp_path):
    facts = molded(tmp_path, "--algorithm", "moldable-front", "--json").facts
    front = facts["notes"]["front"]
    assert front[0] == {"makespan": 6, "node_seconds": 18}
    assert front[-1] == {"makespan": 10, "node_seconds": 14}


def test_an_objective_of_moldable_tasks_is_a_weight(tmp_path):
    told = molded(tmp_path, "--algorithm", "cpa", "--objective", "idle", code=2)
    assert "moldable-static --set alpha=0.2" in told.err


def test_machines_that_differ_are_refused_for_moldable_tasks(tmp_path):
    (tmp_path / "grid.toml").write_text(
        'name = "g"\n[[machine]]\nname = "a"\n[[machine]]\nname = "b"\nspeed = 2.0\n'
    )
    told = molded(tmp_path, "--algorithm", "cpa", on="grid.toml", code=2)
    assert "machines 'a' and 'b' differ in speed" in told.err
