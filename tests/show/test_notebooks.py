"""Studies and pictures in a notebook, and cells that are programs."""

import atexit
import json
import sys
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import zenturio as zen
from zenturio.schedule.commands import PlanRequest
from zenturio.show.charts.schedule_charts import gantt, workflow_graph

EXAMPLE = Path(__file__).parents[2] / "docs" / "notebook.ipynb"
CELL = """\
n = 1
#ZEN$ ASSIGN n = {1:3}
#ZEN$ RUN "python3 odd.py"
#ZEN$ METRIC odd FROM stdout REGEX "(\\d)"
print(n % 2)
"""


class Shell:
    """What runs cells, and keeps what they show."""

    def __init__(self):
        config = Config()
        config.HistoryManager.enabled = False
        self.shell = InteractiveShell(config=config)
        self.shell.run_cell("%load_ext zenturio")

    def run(self, cell):
        """What a cell comes to, as a notebook would show it: by the kind of the content."""
        done = self.shell.run_cell(cell)
        done.raise_error()
        if done.result is None:
            return {}
        shown, _ = self.shell.display_formatter.format(done.result)
        return shown


@pytest.fixture
def shell(tmp_path, monkeypatch):
    (tmp_path / ".zenturio").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # IPython leaves its own
    found = Shell()
    yield found
    atexit.unregister(found.shell.atexit_operations)  # it cannot end twice
    found.shell.atexit_operations()


def test_the_example_of_the_docs_runs_as_it_stands(shell, capsys):
    cells = json.loads(EXAMPLE.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    shown = [shell.run(cell) for cell in code]
    assert "8 ok" in shown[1]["text/html"]
    assert len(shell.shell.user_ns["pi"].frame()) == 8
    assert "midpoint" in shown[3]["text/html"]
    pictures = [each for each in shown if "application/vnd.plotly.v1+json" in each]
    assert len(pictures) == 3
    assert pictures[0]["application/vnd.plotly.v1+json"]["data"][0]["type"] == "scatter"
    assert "wave" in shown[6]["text/html"]
    assert "8 run, 0 cached" in capsys.readouterr().out


def test_a_cell_that_is_run_again_runs_nothing(shell, capsys):
    for _ in range(2):
        shell.run(f"%%zen odd.py --as odd\n{CELL}")
    assert "0 run, 3 cached" in capsys.readouterr().out
    assert shell.shell.user_ns["odd"].frame()["odd"].tolist() == [1, 0, 1]
    shell.run(f"%%zen odd.py --as odd --set 'n = {{1:5}}' --name wider -j 1\n{CELL}")
    assert len(shell.shell.user_ns["odd"].frame()) == 5


@pytest.mark.parametrize(
    ("line", "cell", "words"),
    [
        ("odd.py", CELL.replace("ASSIGN", "ASIGN"), "odd.py:2:"),
        ("../odd.py", CELL, "no cell can be called '../odd.py'"),
        ("odd.py --limits 3", CELL, "unrecognized arguments: --limits"),
        ("odd.py --limit three", CELL, "three"),
        ("odd.py 'x", CELL, "No closing quotation"),
    ],
)
def test_a_mistake_is_told_in_words(shell, capsys, line, cell, words):
    done = shell.shell.run_cell(f"%%zen {line}\n{cell}")
    assert not done.success
    told = capsys.readouterr()
    assert words in told.out + told.err
    assert "Traceback" not in told.out + told.err


def test_schedules_and_workflows_show_themselves():
    plan = PlanRequest("wien2k:kpoints=2", "identical:2").plan()
    for picture in (gantt(plan), workflow_graph(plan.problem.workflow)):
        shown = picture._repr_mimebundle_()
        assert shown["application/vnd.plotly.v1+json"]["data"]
        assert picture.title in shown["text/plain"]
        assert repr(picture).startswith(f"<{picture.kind} chart: {picture.title}")
        assert len(repr(picture)) < 300  # not every mark of it


def test_the_extension_is_found_where_it_is_looked_for():
    assert callable(zen.load_ipython_extension)
    assert "load_ipython_extension" not in zen.__all__
