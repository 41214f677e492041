"""Times of tasks from recorded studies and from fitted formulas."""

import json

import pytest

from zenturio.errors import InputError
from zenturio.schedule.formats.files import read_workflow
from zenturio.schedule.formats.task_times import (
    MeasuredTimes,
    extrapolations,
    read_time_models,
    with_times,
    write_time_models,
)
from zenturio.schedule.model.workflow import Workflow, WorkflowTask

FLOW = Workflow.of(
    "flow",
    [
        WorkflowTask("a", 1, program="solve", point=(("n", 100),)),
        WorkflowTask("b", 1, program="solve", point=(("n", 200),)),
        WorkflowTask("wide", 1, program="solve", cores=4, point=(("n", 100),)),
        WorkflowTask("move", 7, kind="transfer", machine="x", target="y"),
        WorkflowTask("other", 9),
    ],
)


def test_a_study_of_a_program_gives_times_and_curves_at_the_points_of_tasks():
    columns = {
        "n": [100, 100, 100, 100, 200, 100, 200], "threads": [1, 1, 1, 2, 1, 4, 4],
        "wtime": [8.0, 9.0, 40.0, 5.0, 30.0, 3.0, float("nan")],
    }  # fmt: skip
    times = MeasuredTimes("solve@2", columns, ["n", "threads"])
    timed = with_times(FLOW, times)
    flow = timed.workflow
    assert flow.work.tolist() == [9, 30, 3, 7, 9]
    assert timed.untimed == ("other",)
    curve = flow.task(0).curve
    assert (curve.nodes, curve.seconds) == ((1, 2, 4), (9, 5, 3))
    # One number of cores is no curve, and a task of several cores is not made moldable.
    assert flow.task(1).curve is flow.task(2).curve is None
    assert FLOW.work.tolist() == [1, 1, 1, 7, 9]


def test_times_of_a_task_by_its_name_come_before_those_of_its_program():
    columns = {"task": ["a", "x", "x"], "program": ["solve", "solve", "other"],
               "host": ["h", "h", "h"], "run": ["1", "2", "3"],
               "seconds": [2.0, 5.0, 1.0], "speed": [4.0, 2.0, 1.0]}  # fmt: skip
    times = MeasuredTimes("s", columns, ["task", "program", "host", "run"])
    # The task b has no row of its own: it takes the median over the rows of its program.
    assert with_times(FLOW, times).workflow.work.tolist() == [8, 9, 9, 7, 9]
    by_metric = MeasuredTimes("s", {**columns, "ctime": [1.0, 1.0, 1.0]}, ["task"], "ctime")
    assert by_metric.by_cores(WorkflowTask("a")) == {0: 4.0}


def test_rows_without_a_number_of_cores_or_a_speed_are_no_points_of_a_curve():
    nan = float("nan")
    columns = {"cores": [nan, "all", 2.0, 1, 4, 8], "seconds": [3.0, 5.0, 2.0, 0.0, 1.0, 7.0],
               "speed": [1.0, 1.0, 1.0, 1.0, nan, None]}  # fmt: skip
    times = MeasuredTimes("solve", columns, ["cores"])
    assert times.by_cores(FLOW.task(0)) == {0: 4.0, 2: 2.0, 1: 0.0}
    # A curve has times above 0, so here it would have one point.
    assert with_times(FLOW, times).workflow.task(0).curve is None


def test_a_study_that_does_not_know_the_tasks_is_told():
    solve = MeasuredTimes("solve", {"m": [1, 2], "wtime": [1.0, 2.0]}, ["m"])
    with pytest.raises(InputError, match="several values of m, and task 'a' does not say which"):
        with_times(FLOW, solve)
    with pytest.raises(InputError, match="unknown has no times of the tasks of flow"):
        with_times(FLOW, MeasuredTimes("unknown", {"wtime": [1.0]}, []))
    with pytest.raises(InputError, match="solve has no metric 'seconds'"):
        MeasuredTimes("solve", {"rate": [1.0]}, [])


def models(tmp_path, **facts):
    usual = {"by": {}, "formula": "n ** 2 / threads", "values": {"n": [1, 9], "threads": [1, 2, 4]}}
    write_time_models(tmp_path / "m.json", "solve@3", "wtime", [{**usual, **facts}])
    return read_time_models(tmp_path / "m.json")


def test_a_model_predicts_times_where_nothing_was_measured(tmp_path):
    flow = with_times(FLOW, models(tmp_path)).workflow
    assert flow.work.tolist() == [10_000, 40_000, 2_500, 7, 9]
    assert flow.task(1).curve.seconds == (40_000, 20_000, 10_000)
    by = models(tmp_path, by={"program": "solve", "n": 200}, formula="3", values={})
    assert with_times(FLOW, by).workflow.work.tolist() == [1, 3, 1, 7, 9]


def test_tasks_beyond_what_was_measured_are_told_with_the_range(tmp_path):
    times = models(tmp_path, values={"n": [1, 100], "threads": [1]})
    (message,) = extrapolations(FLOW, times)
    assert "measured for n from 1 to 100" in message
    assert "extrapolated for 1 task with n from 200 to 200, for example b" in message
    assert extrapolations(FLOW, models(tmp_path, values={"n": [200, 100]})) == []
    assert len(extrapolations(FLOW, models(tmp_path))) == 1  # from 1 to 9: three tasks at once
    assert extrapolations(FLOW, MeasuredTimes("s", {"seconds": [1.0]}, [])) == []


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"values": {"k": [1]}}, "needs k, and task 'a' has no such number"),
        ({"formula": "n - 100"}, "predicts 0.* s for task 'a'"),
        ({"formula": "n +"}, "m.json"),
        ({"by": 3}, "by is an object"),
        ({"values": {"n": ["x"]}}, "m.json"),
        ({"unit": "s"}, "unit"),
    ],
)
def test_what_is_wrong_with_a_model_is_told(tmp_path, facts, message):
    with pytest.raises(InputError, match=message):
        with_times(FLOW, models(tmp_path, **facts))


def test_points_of_tasks_are_written_and_read(tmp_path):
    row = {"name": "a", "work": 1, "point": {"n": 3, "kind": "x"}}
    (tmp_path / "f.json").write_text(json.dumps({"tasks": [row]}))
    assert read_workflow(tmp_path / "f.json").task(0).point == (("n", 3), ("kind", "x"))
    (tmp_path / "f.json").write_text(json.dumps({"tasks": [{**row, "point": {"n": [1]}}]}))
    with pytest.raises(InputError, match="n is neither a number nor a text"):
        read_workflow(tmp_path / "f.json")
