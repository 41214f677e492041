"""The chart of the plans that no other plan beats in all goals."""

from __future__ import annotations

from typing import Any, Literal

from zenturio.errors import InputError
from zenturio.schedule.model.metrics import METRICS, MoldablePlan, metrics
from zenturio.schedule.model.plan import Plan
from zenturio.show.chart import Chart, ChartAxis, Panel, Points
from zenturio.show.renderers.plotly import NotebookChart


def plan_front(plan: Plan | MoldablePlan, title: str = "") -> Chart:
    """Return a point for each plan that no other beats in all goals.

    A third goal is the colour. Raise InputError if the algorithm of *plan* has no front.
    """
    front = plan.notes.get("front")
    if not front:
        raise InputError(
            f"{plan.algorithm} plans for one goal: there is no front",
            hint="choose moheft, or moldable-front for tasks with curves",
        )
    names, values = list(front[0]), metrics(plan)
    columns = [tuple(row[name] for row in front) for name in names]
    shades = columns[2] if len(names) > 2 else ()
    mark = Points("plans", 0, columns[0], columns[1], shades, "front", is_joined=not shades)
    axes = [_goal_axis(name) for name in names]
    colours: dict[str, Any] = {"colour": ChartAxis(""), "levels": ("plans",)}
    if len(names) > 2:
        colours = {"colour": axes[2], "ordered": True}
    problem = plan.problem
    subject = f"{', '.join(names[:-1])} and {names[-1]}"
    chosen = ", ".join(f"{name} {values[name]:.6g}" for name in names if name in values)
    return NotebookChart(
        "pareto",
        title or f"Front of {subject} by {plan.algorithm}",
        f"{len(front):,} plans of {problem.workflow.name} that no other beats in all goals; "
        f"chosen: {chosen}",
        axes[0],
        axes[1],
        (Panel(marks=(mark,)),),
        **colours,
    )


def _goal_axis(name: str) -> ChartAxis:
    if name not in METRICS:
        return ChartAxis(name, better="lower")
    better: Literal["lower", "higher"] = (
        "lower" if METRICS[name].direction == "minimize" else "higher"
    )
    return ChartAxis(name, METRICS[name].unit, better=better)
