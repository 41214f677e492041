"""Pictures of what was learnt: one description of a chart, drawn for a page or for a paper."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zenturio.show.build import chart
    from zenturio.show.charts import Chart
    from zenturio.show.gantt_chart import gantt
    from zenturio.show.images import image
    from zenturio.show.interactive import page, plotly_figure
    from zenturio.show.saving import save
    from zenturio.show.scene import Scene
    from zenturio.show.sketch import sketch
    from zenturio.show.terminal import bars
    from zenturio.show.visits import visited
    from zenturio.show.workflow_graph import graph

__all__ = [
    "Chart", "Scene", "bars", "chart", "gantt", "graph", "image", "page", "plotly_figure", "save",
    "sketch", "visited",
]  # fmt: skip

_HOMES = {
    "Chart": "charts", "Scene": "scene", "bars": "terminal", "chart": "build",
    "gantt": "gantt_chart", "graph": "workflow_graph", "image": "images",
    "page": "interactive", "plotly_figure": "interactive", "save": "saving",
    "sketch": "sketch", "visited": "visits",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Loads what draws when it is asked for: plotly and matplotlib take their time."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
