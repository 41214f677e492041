"""Gantt charts and graphs of workflows: every task in its place, in every format."""

import io
import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from zenturio.schedule.algorithm import make
from zenturio.schedule.generators.generator import generate
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.platform import Platform, PlatformMachine, identical
from zenturio.schedule.model.problem import MoldableProblem, Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.simulate.simulator import simulate
from zenturio.show.chart import OTHERS, Nodes, Segments, common_levels
from zenturio.show.charts import schedule_charts
from zenturio.show.charts.schedule_charts import gantt, join_runs, task_runs, workflow_graph
from zenturio.show.renderers.matplotlib import draw
from zenturio.show.renderers.plotly import chart_page as page
from zenturio.show.renderers.plotly import plotly_figure
from zenturio.show.report_store import image, save


def flow(loop=False):
    tasks = [
        WorkflowTask("a", 2, program="first"),
        WorkflowTask("b<i>", 3),
        WorkflowTask("c", 4),
        WorkflowTask("d", 1),
    ]
    edges = [("a", "b<i>"), ("a", "c"), ("b<i>", "d"), ("c", "d")]
    return Workflow.of("four", tasks, [*edges, ("d", "a")] if loop else edges)


def nodes(chart):
    return next(mark.items for mark in chart.marks() if isinstance(mark, Nodes))


def lines(chart):
    return next(mark.lines for mark in chart.marks() if isinstance(mark, Segments))


def plan():
    platform = Platform("two", (PlatformMachine("big", cores=2), PlatformMachine("small")))
    problem = Problem.of(flow(), platform)
    processor = np.array([0, 1, 2, 0], np.int32)
    return Plan(problem, "hand", processor, np.array([0.0, 2, 2, 6]), np.array([2.0, 5, 6, 7]))


def test_a_gantt_chart_has_a_box_for_each_task_where_it_runs():
    scene = gantt(plan())
    assert scene.y.categories == ("big/0", "big/1", "small")
    assert [(b.name, b.left, b.right, b.first) for b in scene.rectangles] == [
        ("a", 0, 2, 0), ("b<i>", 2, 5, 1), ("c", 2, 6, 2), ("d", 6, 7, 0)
    ]  # fmt: skip
    assert scene.levels == ("first", "")
    assert scene.note == "makespan 7 s; 3 of 3 processors used; 4 of 4 tasks"


def test_a_task_on_several_nodes_is_one_box_over_their_rows():
    found = generate("kwave-barrier", {}, 1)
    made = make("cpa").plan(MoldableProblem.of(found.workflow, identical(16)))
    scene = gantt(made)
    heights = {}
    for box in scene.rectangles:
        heights[box.name] = heights.get(box.name, 0) + box.last - box.first + 1
    names = found.workflow.names
    assert heights == {names[t]: n for t, n in enumerate(made.counts.tolist())}
    assert scene.y.name == "node"


def test_tasks_one_after_the_other_are_told_apart_on_many_nodes_too():
    found = generate("kwave-independent", {"simulations": 4}, 1)
    plan = make("moldable-local").plan(MoldableProblem.of(found.workflow, identical(72)))
    scene = gantt(plan)
    assert len(scene.y.categories) == 70  # two at once, on 35 nodes each
    (boxes,) = draw(scene).axes[0].collections
    assert len(boxes.get_paths()) == 4
    assert boxes.get_linewidth() > 0


def test_what_was_lost_on_the_way_is_shown_paler():
    found = generate("layered", {"tasks": "6"}, 1)
    problem = Problem.of(found.workflow, identical(2))
    trace = simulate(problem, make("heft").plan(problem))
    assert not any(box.is_faint for box in gantt(trace).rectangles)
    assert gantt(trace).note.endswith("6 of 6 tasks")


def test_a_graph_has_a_dot_for_each_task_one_apart_in_its_level():
    scene = workflow_graph(flow())
    assert [(dot.name, dot.x) for dot in nodes(scene)] == [
        ("a", 0),
        ("b<i>", 1),
        ("c", 1),
        ("d", 2),
    ]
    assert sorted(dot.y for dot in nodes(scene)[1:3]) == [-0.5, 0.5]
    assert len(lines(scene)) == 4


def test_neighbours_stand_side_by_side():
    names = [f"a{i}" for i in range(8)], [f"b{i}" for i in range(8)]
    tasks = [WorkflowTask(name, 1) for name in (*names[0], *names[1])]
    ladder = Workflow.of("ladder", tasks, [(f"a{i}", f"b{7 - i}") for i in range(8)])
    assert all(a == b for _, a, _, b in lines(workflow_graph(ladder)))


def test_a_loop_is_drawn_back_above_all_to_where_it_begins():
    scene = workflow_graph(flow(loop=True))
    assert [dot.x for dot in nodes(scene)] == [0, 1, 1, 2]
    up, back, down = lines(scene)[4:]
    assert back[:2] == up[2:]
    assert down[:2] == back[2:]
    assert (up[0], down[2]) == (2, 0)
    assert back[1] > max(dot.y for dot in nodes(scene))
    assert scene.note.endswith("5 of 5 edges, 1 of them back, above all others")


def test_a_task_in_a_loop_stands_behind_all_that_it_waits_for():
    found = workflow_graph(generate("wien2k", {"kpoints": 3, "loop": True}).workflow)
    level = {dot.name: dot.x for dot in nodes(found)}
    assert level["lapw1_1"] < level["lapw2_fermi"] < level["lapw2_1"] < level["mixer"]


def test_the_more_edges_the_fainter():
    tasks = [WorkflowTask(f"{side}{i}", 1) for side in "ab" for i in range(200)]
    edges = [(f"a{i}", f"b{j}") for i in range(200) for j in range(0, 200, 4)]
    drawn = draw(workflow_graph(Workflow.of("wide", tasks, edges)))
    assert drawn.axes[0].collections[0].get_alpha() < 0.1


def test_letters_that_the_font_has_not_are_no_warning():
    named = Workflow.of("漢", [WorkflowTask("漢字", 1), WorkflowTask("b", 1)])
    assert image(workflow_graph(named), "svg")


def test_programs_beyond_the_colours_are_others():
    names = [f"p{i}" for i in range(20)] + ["often"] * 5
    levels, level = common_levels(names)
    assert levels[-1] == OTHERS
    assert "often" in levels
    assert len(levels) == 7
    assert levels[level[-1]] == "often"


@pytest.mark.parametrize("drawn", [gantt(plan()), workflow_graph(flow())], ids=["gantt", "graph"])
def test_scenes_become_images_with_ink_on_white(drawn):
    picture = Image.open(io.BytesIO(image(drawn, "png", dpi=60))).convert("L")
    assert picture.getpixel((0, 0)) == 255
    dark = sum(picture.histogram()[:200])
    assert 0.002 < dark / (picture.width * picture.height) < 0.6
    assert image(drawn, "svg") == image(drawn, "svg")


def test_pages_say_names_as_they_are():
    figure = json.loads(plotly_figure(gantt(plan())).to_json())
    assert sum(len(trace["y"]) for trace in figure["data"]) == 4
    assert "b\\u0026lt;i\\u0026gt;" in page(gantt(plan()))
    assert "b<i>" not in page(workflow_graph(flow()))


def test_a_scene_is_saved_by_the_name_of_its_file(tmp_path):
    for name in ("a.html", "a.svg", "a.png", "a.pdf"):
        assert save(gantt(plan()), tmp_path / name).stat().st_size > 1000


@pytest.fixture
def long_plan():
    """1,000 tasks on 7 processors: short ones of two programs, with gaps, and some long ones."""
    chance = np.random.default_rng(7)
    tasks = [
        WorkflowTask(f"t{i}", 1, program="odd" if i % 40 > 30 else "even") for i in range(1000)
    ]
    problem = Problem.of(Workflow.of("many", tasks), identical(7))
    seconds = np.where(np.arange(1000) % 100 == 50, 40.0, chance.random(1000) * 0.1)
    start, end, free = np.empty(1000), np.empty(1000), np.zeros(7)
    processor = (np.arange(1000) % 7).astype(np.int32)
    for task, row in enumerate(processor.tolist()):
        start[task] = free[row] + chance.choice([0, 0, 0, 0.01, 3])
        end[task] = free[row] = start[task] + seconds[task]
    return Plan(problem, "hand", processor, start, end)


def test_short_tasks_of_a_large_chart_are_joined_and_no_time_is_lost(long_plan, monkeypatch):
    whole = gantt(long_plan)
    assert len(whole.rectangles) == 1000
    monkeypatch.setattr(schedule_charts, "MOST_RECTANGLES", 300)
    chart = gantt(long_plan)
    assert 20 < len(chart.rectangles) <= 300
    assert "1,000 of 1,000 tasks; tasks shorter than" in chart.note
    assert (chart.x.ends, chart.y.categories) == (whole.x.ends, whole.y.categories)
    for task in whole.rectangles:  # each lies in one of its row
        around = [
            box for box in chart.rectangles
            if box.first == task.first and box.left <= task.left and task.right <= box.right
        ]  # fmt: skip
        assert len(around) == 1, task
        if task.right - task.left >= 40:
            assert around[0].name == task.name
    joined = [box for box in chart.rectangles if not box.name]
    assert all("tasks, " in box.tooltip and "busy" in box.tooltip for box in joined)
    names = {chart.levels[box.level] for box in joined}
    assert names == {"odd", "even"}


def test_of_very_many_processors_some_are_shown(long_plan, monkeypatch):
    monkeypatch.setattr(schedule_charts, "MOST_RECTANGLES", 300)
    monkeypatch.setattr(schedule_charts, "MOST_ROWS", 3)
    chart = gantt(long_plan)
    assert chart.y.categories == ("p1", "p4", "p7")
    assert "7 of 7 processors used" in chart.note
    assert "3 processors are shown, one of 3" in chart.note
    assert {box.first for box in chart.rectangles} == {0, 1, 2}
    first = long_plan.processor == 3
    assert min(box.left for box in chart.rectangles if box.first == 1) == min(
        long_plan.start[first]
    )


def test_lost_runs_are_joined_apart_from_those_that_ended(long_plan, monkeypatch):
    runs, _ = task_runs(long_plan)
    lost = np.arange(len(runs)) % 90 < 45
    runs = replace(runs, lost=lost)
    level = np.zeros(len(runs), np.int64)
    joined = join_runs(runs, level, 10**6)
    begins = [*joined.begins.tolist(), len(runs)]
    long = [b - a for a, b in pairwise(begins)]
    mixed = [
        joined.order[a:b] for a, b in pairwise(begins)
        if len(set(lost[joined.order[a:b]].tolist())) > 1
    ]  # fmt: skip
    assert max(long) > 3
    total = runs.end.max()
    assert all(np.ptp(runs.start[part]) <= total / 2000 for part in mixed)
