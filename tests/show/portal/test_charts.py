"""Charts, schedules and reports as the portal answers, without a browser."""

import json
import subprocess
import sys

import pytest

from show.portal.running_portal import served
from zenturio.record.open import FOLDER
from zenturio.schedule.formats.files import write_workflow
from zenturio.schedule.generators.generator import generate
from zenturio.show.portal.state import PortalSettings


def figure(portal, path, **given):
    answer = portal.get(path, params=given)
    return answer.status_code, answer.json()


def test_a_chart_says_what_it_is_made_of_and_what_was_chosen(portal):
    status, told = figure(portal, "/chart/figure", study="matmul", kind="line", color="solver")
    assert status == 200
    assert told["chosen"] == {"x": "n", "y": "wtime", "z": "", "color": "solver", "facet": ""}
    (one,) = told["figures"]
    assert one["note"].endswith("64 of 72 experiments")
    assert told["sql"].startswith('SELECT r."n" AS "n", r."solver" AS "solver", median(')
    assert one["selection"]["x"] == {"of": "n", "type": "int"}


def test_the_sql_beside_a_chart_answers_what_is_drawn(portal):
    _, told = figure(portal, "/chart/figure", study="matmul", kind="line", x="n", y="gflops")
    page = portal.page("/sql", query=told["sql"])
    (trace,) = told["figures"][0]["data"]
    for value in trace["y"]:
        assert f"{value:.6g}" in page


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        ({}, 400, "no study to draw"),
        ({"study": "matmull"}, 404, "did you mean 'matmul'"),
        ({"study": "matmul", "kind": "lin"}, 400, "did you mean 'line'"),
        ({"study": "matmul", "x": "nn"}, 404, "no column 'nn'"),
        ({"study": "matmul", "where": "n >"}, 400, "filter:1:"),
        ({"study": "matmul", "kind": "bar", "log": "x"}, 400, "cannot be logarithmic"),
        ({"study": "matmul", "agg": "max", "errors": "std"}, 400, "need the aggregate mean"),
    ],
)
def test_what_cannot_be_drawn_says_why(portal, given, status, words):
    found, told = figure(portal, "/chart/figure", **given)
    assert found == status
    assert words in told["error"]


@pytest.mark.parametrize("part", ["x", "y", "color", "facet"])
def test_a_column_that_is_not_there_stays_in_the_form_and_is_refused(portal, part):
    page = portal.get(f"/chart?study=matmul&{part}=nonsense").text
    assert "<option selected>nonsense</option>" in page
    assert "nonsense" not in portal.get("/chart?study=matmul").text
    answer = portal.get(f"/chart/figure?study=matmul&kind=line&{part}=nonsense")
    assert (answer.status_code, "'nonsense'" in answer.json()["error"]) == (404, True)


@pytest.mark.slow
def test_a_schedule_is_planned_anew_when_its_file_changes(tmp_path):
    (tmp_path / FOLDER).mkdir()
    flow = tmp_path / "flow.json"
    write_workflow(generate("wien2k", {"kpoints": "2"}).workflow, flow)
    with served(PortalSettings(str(tmp_path / FOLDER / "zenturio.db"), tmp_path)) as portal:
        given = {"workflow": "flow.json", "on": "identical:2", "algorithm": "heft"}
        _, before = figure(portal, "/schedule/figure", **given)
        assert "9 of 9 tasks" in before["figures"][0]["note"]
        assert "flow.json" in portal.page("/schedule")
        write_workflow(generate("wien2k", {"kpoints": "3"}).workflow, flow)
        _, after = figure(portal, "/schedule/figure", **given)
        assert "11 of 11 tasks" in after["figures"][0]["note"]
        status, told = figure(portal, "/schedule/figure", algorithm="cp-sat")
        assert (status, "--allow-run" in told["error"]) == (404, True)
        for outside in ("/etc/passwd", "../x.json", "recipe:file=/etc/passwd", "a\0b"):
            status, told = figure(portal, "/schedule/figure", workflow=outside)
            assert status == 403, outside
            assert "root:" not in json.dumps(told)


@pytest.mark.parametrize(
    "workflow",
    ["layered:tasks=3e5", "layered:tasks=1e7", "ptg:pst=1000,width=1e6", "ptg:pst=100,width=100",
     "kwave-barrier:simulations=4000,levels=900", "wien2k:kpoints=4000", "otg:branches=9,pst=12"],
)  # fmt: skip
@pytest.mark.parametrize("show", ["gantt", "graph"])
def test_more_tasks_than_a_page_shows_are_not_made(portal, workflow, show):
    given = {"workflow": workflow, "on": "identical:4", "show": show}
    status, told = figure(portal, "/schedule/figure", **given)
    assert status == 400
    assert "too large for a page" in told["error"]


def test_more_machines_than_a_page_shows_are_not_made(portal):
    for machines in ("identical:5001", "identical:1000000"):
        status, told = figure(portal, "/schedule/figure", on=machines)
        assert (status, "too large for a page" in told["error"]) == (400, True)


def test_a_seed_may_be_any_number(portal):
    workflow = "layered:tasks=20,seed=123456"
    assert figure(portal, "/schedule/figure", workflow=workflow, show="graph")[0] == 200


def test_a_report_of_a_look_that_is_not_there_says_so(portal):
    assert portal.get("/report/of/nothing").status_code == 404
    assert portal.get("/report/of/..%2F..%2Fetc").status_code in (400, 404)
    assert portal.get("/report/add", params={"chart": "sql"}).status_code == 404


def test_before_anything_was_run_the_pages_say_so(tmp_path):
    with served(PortalSettings(str(tmp_path / "none.db"), tmp_path)) as portal:
        assert "No study has been run yet" in portal.page("/chart")
        assert "No reports yet" in portal.page("/report")
        assert portal.get("/chart/figure", params={"study": "x"}).status_code == 404


def test_what_ran_where_is_a_kind_of_chart(portal):
    status, told = figure(portal, "/chart/figure", study="hello", kind="gantt", color="word")
    assert status == 200
    (one,) = told["figures"]
    assert one["note"].startswith("4 of 4 experiments; ")
    assert sorted(trace["name"] for trace in one["data"]) == ["goodbye", "hello"]
    assert "study_hello_all" in told["sql"]
    status, told = figure(portal, "/chart/figure", study="hello", kind="gantt", z="letters")
    assert status == 200
    both = {"study": ["hello", "matmul"], "kind": "gantt"}
    assert "shows one study" in portal.get("/chart/figure", params=both).json()["error"]
    assert portal.get("/chart/file.svg?study=hello&kind=gantt").content.startswith(b"<?xml")


def test_a_chart_in_a_page_loads_no_plotly(project):
    """Plotly alone takes 30 MB, and a second."""
    program = f"""
import sys
from zenturio.record.open import open_repository
from zenturio.show.portal.chart_json import figure_json
from zenturio.show.charts.chart_query import ChartQuery
from zenturio.show.charts.study_charts import draw_charts
repository = open_repository({str(project / FOLDER / "zenturio.db")!r})
for kind in ("line", "box", "heatmap", "slice", "gantt"):
    objective = "MAXIMIZE letters" if kind == "slice" else ""
    query = ChartQuery(("hello",), kind, objective=objective)
    (drawn,) = draw_charts(repository, query)
    assert figure_json(drawn.chart, dark=kind == "box")["data"]
assert "plotly" not in sys.modules and "pandas" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
