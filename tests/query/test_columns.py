"""Columns of results are chosen and ordered by name; plug-ins add others."""

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.query.conftest import fill
from zenturio import plugins
from zenturio.cli.main import app
from zenturio.errors import InputError, NotFoundError, PluginError
from zenturio.query import result_columns, results
from zenturio.query.result_table import Duration
from zenturio.testing.columns import ColumnContract

PAGE = Path(__file__).parents[2] / "docs" / "plug-ins.md"


class TestDuration(ColumnContract):
    def column(self):
        return Duration()


@pytest.fixture(scope="module")
def measured(shared_repository):
    rows = [{"n": 1, "wtime": 4.0}, {"n": 2, "wtime": 2.0}, {"n": 3}]
    fill(shared_repository, "s", {"n": "int"}, {"wtime": "real s", "gflops": "real"}, rows)
    return shared_repository


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a module with columns, as pip does."""

    def installed(source, points):
        (tmp_path / "zen_speedup.py").write_text(source)
        metadata = tmp_path / "zen_speedup-0.1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: zen-speedup\nVersion: 0.1\n"
        )
        lines = [f"{name} = {value}" for name, value in points.items()]
        (metadata / "entry_points.txt").write_text("\n".join(["[zenturio.columns]", *lines, ""]))
        monkeypatch.syspath_prepend(tmp_path)
        plugins._entry_points.cache_clear()

    yield installed
    plugins._entry_points.cache_clear()
    sys.modules.pop("zen_speedup", None)


def example(language):
    """A block of the example in docs/plug-ins.md."""
    text = PAGE.read_text()
    start = text.index("## A column")
    block = re.search(rf"```{language}\n(.*?)```", text[start:], re.DOTALL)
    return block[1]


def test_columns_are_shown_in_the_order_in_which_they_are_named(measured):
    table = results(measured, "s", columns=["wtime", "status", "n"], sort=["-n"])
    assert table.columns == ("wtime", "status", "n")
    assert table.rows == ((None, "ok", 3), (2.0, "ok", 2), (4.0, "ok", 1))
    assert table.units == {"wtime": "s"}
    assert "wtime is missing in 1 of 3" in table.notes


def test_a_column_is_computed_from_others_that_need_not_be_shown(measured):
    table = results(measured, "s", columns=["n", "duration"], limit=2)
    assert table.rows == ((1, 1.0), (2, 1.0))
    assert table.units == {"duration": "s"}


def test_a_parameter_comes_before_a_plug_in_of_its_name(repository):
    fill(repository, "s", {"duration": "int"}, {}, [{"duration": 7}])
    assert results(repository, "s", columns=["duration"]).rows == ((7,),)


def test_all_columns_are_listed(measured):
    listed = {row[0]: row[1:] for row in result_columns(measured, "s").rows}
    assert listed["n"] == ("parameter", "int", "")
    assert listed["wtime"] == ("metric", "real", "s")
    assert listed["status"] == ("fact", "str", "")
    assert listed["duration"] == ("computed", "from started, ended", "s")


def test_an_unknown_column_has_a_hint(measured):
    with pytest.raises(NotFoundError, match="no column 'duratoin'") as raised:
        results(measured, "s", columns=["duratoin"])
    assert "duration" in raised.value.diagnostics[0].hint


def test_columns_of_groups_are_refused(measured):
    with pytest.raises(InputError, match="single experiments"):
        results(measured, "s", by=["n"], columns=["n"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return columns['n'] / 2", "column 'half' failed: TypeError"),
        ("return [1]", "column 'half' gave 1 values for 3 rows"),
    ],
)
def test_a_column_that_fails_is_named(measured, install, body, message):
    source = f"class Half:\n    needs, unit = ('n',), ''\n    def values(self, columns): {body}\n"
    install(source, {"half": "zen_speedup:Half"})
    with pytest.raises(PluginError, match=re.escape(message)):
        results(measured, "s", columns=["half"])


def test_a_column_whose_inputs_the_study_lacks_is_not_listed(measured, install):
    source = "class Half:\n    needs, unit = ('speed',), ''\n"
    install(source, {"half": "zen_speedup:Half"})
    assert "half" not in [name for name, *_ in result_columns(measured, "s").rows]
    with pytest.raises(NotFoundError, match="no column 'speed'"):
        results(measured, "s", columns=["half"])


def test_the_example_on_the_page_works(measured, install):
    project = tomllib.loads(example("toml"))["project"]
    install(example("python"), project["entry-points"]["zenturio.columns"])
    table = results(measured, "s", columns=["n", "speedup"])
    assert table.rows == ((1, 1.0), (2, 2.0), (3, None))

    import zen_speedup

    class TestSpeedup(ColumnContract):
        def column(self):
            return zen_speedup.Speedup()

    for name in dir(TestSpeedup):
        if name.startswith("test_"):
            getattr(TestSpeedup(), name)()
    both = f"{example('python')}\n{example('toml')}"
    assert len([line for line in both.split("\n") if line.strip()]) < 30


def test_the_command_line_chooses_and_lists(sqlite, tmp_path):
    fill(sqlite, "s", {"n": "int"}, {"wtime": "real s"}, [{"n": 1, "wtime": 4.0}])
    sqlite.close()
    database = str(tmp_path / "zenturio.db")

    def zen(*words):
        answer = CliRunner().invoke(app, ["results", "s", "--db", database, "--json", *words])
        assert answer.exit_code == 0, answer.output
        return json.loads(answer.output)

    assert zen("--columns", "wtime,duration,n")["rows"] == [[4.0, 1.0, 1]]
    assert ["duration", "computed", "from started, ended", "s"] in zen("--columns", "?")["rows"]
