"""A kind of chart is one class: terminal, files, addresses and the portal's form know it."""

import re
import sys
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from zenturio import plugins
from zenturio.errors import InputError, PluginError
from zenturio.show.charts.chart_query import KINDS, ChartQuery
from zenturio.show.charts.column_charts import chart
from zenturio.show.portal.pages.chart import _kind_groups
from zenturio.testing.charts import ChartKindContract

PAGE = Path(__file__).parents[2] / "docs" / "plug-ins.md"
FRAME = pd.DataFrame({"x": [1, 2, 3, 4], "y": [4.0, 1.0, 3.0, 2.0]})


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a module with kinds of charts, as pip does."""

    def installed(source, points):
        (tmp_path / "zen_cumulative.py").write_text(source)
        metadata = tmp_path / "zen_cumulative-0.1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: zen-cumulative\nVersion: 0.1\n"
        )
        lines = [f"{name} = {value}" for name, value in points.items()]
        (metadata / "entry_points.txt").write_text("\n".join(["[zenturio.charts]", *lines, ""]))
        monkeypatch.syspath_prepend(tmp_path)
        plugins._entry_points.cache_clear()

    yield installed
    plugins._entry_points.cache_clear()
    sys.modules.pop("zen_cumulative", None)


def example(language):
    """A block of the example in docs/plug-ins.md."""
    text = PAGE.read_text()
    start = text.index("## A kind of chart")
    block = re.search(rf"```{language}\n(.*?)```", text[start:], re.DOTALL)
    return block[1]


def test_the_example_on_the_page_works(install):
    both = f"{example('python')}\n{example('toml')}"
    assert len([line for line in both.split("\n") if line.strip()]) < 30
    project = tomllib.loads(example("toml"))["project"]
    install(example("python"), project["entry-points"]["zenturio.charts"])

    drawn = chart(FRAME, "cumulative", x="x", y="y")
    (mark,) = drawn.marks()
    assert (mark.x, mark.y) == ((1.0, 2.0, 3.0, 4.0), (0.25, 0.5, 0.75, 1.0))
    assert drawn.note == "4 of 4 experiments"

    class TestCumulative(ChartKindContract):
        name = "cumulative"

    for name in dir(TestCumulative):
        if name.startswith("test_"):
            getattr(TestCumulative(), name)()


def test_forms_and_addresses_know_the_kind_of_a_plug_in(install):
    before = list(KINDS)
    install(example("python"), {"cumulative": "zen_cumulative:Cumulative"})
    assert [*KINDS] == [*before, "cumulative"]
    group, kinds = _kind_groups()[-1]
    assert (group, [kind.label for kind in kinds]) == ("Plug-ins", ["Cumulative share"])
    pairs = [("study", "s"), ("kind", "cumulative"), ("y", "wtime"), ("aggregate", "max")]
    (query,) = ChartQuery.from_address(pairs).charts()
    assert (query.kind, query.y, query.aggregate) == ("cumulative", ("wtime",), "")


def test_a_plug_in_does_not_replace_a_built_in_kind(install):
    install(example("python"), {"line": "zen_cumulative:Cumulative"})
    assert KINDS["line"].label == "Line"
    assert len(KINDS) == len([*KINDS]) == len({*KINDS})


FAILING = """
class Failing:
    label, source, options, log_axes = "Failing", "rows", "x y", ""
    def draw(self, table): {body}
"""


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("return 1 / 0", PluginError, "chart 'failing' failed: ZeroDivisionError"),
        ("raise InputError('too few rows')", InputError, "too few rows"),
    ],
)
def test_a_kind_that_fails_is_named_and_its_own_messages_are_kept(install, body, error, message):
    source = f"from zenturio.errors import InputError\n{FAILING.format(body=body)}"
    install(source, {"failing": "zen_cumulative:Failing"})
    with pytest.raises(error, match=message):
        chart(FRAME, "failing", x="x", y="y")
