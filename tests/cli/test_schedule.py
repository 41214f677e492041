"""zen schedule, zen algorithms."""

import json
import threading

import pytest

from cli.conftest import zen
from zenturio.cli import compiling

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
    assert "heft cannot make cost best" in told.err
    assert zen(*on, "--objective", "makespan", cwd=folder).out.endswith(CHART)


def test_what_is_misspelt_is_suggested(folder):
    on = ("schedule", "flow.json", "--on", "identical:2")
    assert "did you mean 'heft'" in zen(*on, "--algorithm", "hefd", cwd=folder, code=2).err
    assert "no setting 'speed'" in zen(*on, "--set", "speed=1", cwd=folder, code=2).err


def test_more_processors_than_can_be_shown_are_counted(folder):
    flow = {"tasks": [{"name": f"t{i}", "work": 1} for i in range(30)], "edges": []}
    (folder / "wide.json").write_text(json.dumps(flow))
    told = zen("schedule", "wide.json", "--on", "identical:20", cwd=folder)
    assert told.out.endswith("12 of 20 processors\n")


def test_algorithms_are_listed_with_their_kinds_and_settings(folder):
    told = zen("algorithms", cwd=folder)
    rows = {
        line.split()[0]: line.split()[1] for line in told.out.splitlines()[1:] if line[:1].strip()
    }
    assert rows["heft"] == rows["xdcp"] == "static"
    assert rows["lazy"] == rows["pm-s"] == "just-in-time"
    told = zen("algorithms", "xdcp", "--json", cwd=folder)
    assert [each["name"] for each in told.facts[0]["settings"]] == ["formulas", "threshold"]
    assert "nothing to set" in zen("algorithms", "heft", cwd=folder).out


def test_one_is_told_when_compiling_takes_long(capsys, monkeypatch):
    from numba.core import event

    monkeypatch.setattr(compiling, "SILENT", 0.02)
    with compiling.compiling_told(), event.trigger_event("numba:compile"):
        for thread in threading.enumerate():
            if isinstance(thread, compiling._Told):
                thread.join(30)
    assert capsys.readouterr().err == "compiling what computes plans: once, then it is kept\n"
    with compiling.compiling_told():
        threading.Event().wait(0.1)
    assert capsys.readouterr().err == ""
