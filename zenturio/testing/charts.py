"""
What every kind of chart promises, as tests: a plug-in's tests inherit them.

::

    class TestCumulative(ChartKindContract):
        name = "cumulative"  # of its entry point
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields

import pandas as pd

from zenturio.errors import InputError
from zenturio.show.chart import Chart
from zenturio.show.charts.chart_query import KINDS, ChartQuery
from zenturio.show.charts.column_charts import chart
from zenturio.show.renderers import matplotlib, plotly, terminal


class ChartKindContract:
    """Say which kind it is, by name, and what it draws if that is not numbers over numbers."""

    name = ""

    def frame(self) -> pd.DataFrame:
        """Rows as a study may have them: ``x``, ``y``, and a colour and a facet."""
        rows = range(12)
        return pd.DataFrame(
            {
                "x": [1 + row % 4 for row in rows],
                "y": [1.5 * row + 1 for row in rows],
                "colour": [f"c{row % 2}" for row in rows],
                "facet": [f"f{row % 3}" for row in rows],
            }
        )

    def chart(self, frame: pd.DataFrame) -> Chart:
        """Return the chart of *frame*, with all parts that the kind has."""
        options = KINDS[self.name].options & {"colour", "facet"}
        return chart(frame, self.name, x="x", y="y", **{part: part for part in options})

    def test_its_options_are_those_of_a_query(self) -> None:
        kind = KINDS[self.name]
        assert kind.label
        assert kind.options <= {field.name for field in fields(ChartQuery)}
        assert set(kind.log_axes) <= set("xyz")

    def test_each_renderer_draws_it(self) -> None:
        drawn = self.chart(self.frame())
        assert drawn.panels
        assert list(drawn.marks())
        assert plotly.chart_figure(drawn)["data"]
        assert matplotlib.draw(drawn).axes
        with suppress(InputError):  # a terminal has no room for some marks, and says so
            assert terminal.render_text(drawn)

    def test_one_row_is_enough(self) -> None:
        assert self.chart(self.frame().head(1)).panels

    def test_the_same_rows_make_the_same_chart(self) -> None:
        assert self.chart(self.frame()) == self.chart(self.frame())

    def test_what_it_reads_is_not_changed(self) -> None:
        frame = self.frame()
        self.chart(frame)
        assert frame.equals(self.frame())
