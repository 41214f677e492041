"""Fronts of plans as charts, alone and beside the Gantt chart."""

from dataclasses import replace

import numpy as np
import pytest

from zenturio.errors import InputError, NotFoundError
from zenturio.schedule.algorithm import make
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.platform import identical
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.show.charts.chart_query import ScheduleQuery, schedule_charts
from zenturio.show.charts.schedule_charts import plan_front


def test_a_front_has_a_point_for_each_plan_and_its_goals_as_axes():
    problem = Problem.of(Workflow.of("one", [WorkflowTask("a", 1.0)]), identical(1))
    front = [{"makespan": 1.0, "cost": 9.0}, {"makespan": 4.0, "cost": 2.0}]
    place, times = np.zeros(1, np.int32), np.array([0.0, 1.0])
    chart = plan_front(Plan(problem, "moheft", place, times[:1], times[1:], {"front": front}))
    (mark,) = chart.panels[0].marks
    assert (mark.x, mark.y) == ((1.0, 4.0), (9.0, 2.0))
    assert [(axis.name, axis.better) for axis in (chart.x, chart.y)] == [
        ("makespan", "lower"), ("cost", "lower"),
    ]  # fmt: skip
    assert chart.note.startswith("2 plans of one")
    with pytest.raises(InputError, match="heft plans for one goal"):
        plan_front(make("heft").plan(problem))


def test_beside_the_gantt_chart_of_a_front_stands_the_front(tmp_path):
    query = ScheduleQuery("application:name=montage,inputs=3", "identical:2", "moheft")
    charts = schedule_charts(query, tmp_path, slow=True)
    assert [chart.kind for chart in charts] == ["gantt", "pareto"]
    front = schedule_charts(replace(query, show="front"), tmp_path, slow=True)
    assert [chart.kind for chart in front] == ["pareto"]
    heft = schedule_charts(replace(query, algorithm="heft"), tmp_path)
    assert [chart.kind for chart in heft] == ["gantt"]
    with pytest.raises(NotFoundError):
        schedule_charts(query, tmp_path)
