"""Batch systems: what all of them promise, shown with the one of docs/plug-ins.md."""

import re
import sys
from pathlib import Path

import pytest

from zenturio import plugins
from zenturio.testing.batch import BatchContract
from zenturio.testing.executor import experiment, outcome

PAGE = Path(__file__).parents[2] / "docs" / "plug-ins.md"


def example() -> str:
    """The batch system in docs/plug-ins.md."""
    text = PAGE.read_text()
    block = re.search(r"```python\n(.*?)```", text[text.index("## A batch system") :], re.DOTALL)
    return block[1]


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """Its module, installed as pip does."""
    folder = tmp_path_factory.mktemp("installed")
    (folder / "zen_processes.py").write_text(example())
    metadata = folder / "zen_processes-0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: zen-processes\nVersion: 0.1\n")
    (metadata / "entry_points.txt").write_text(
        "[zenturio.places]\nprocesses = zen_processes:Processes\n"
    )
    sys.path.insert(0, str(folder))
    plugins._entry_points.cache_clear()
    import zen_processes

    yield zen_processes
    sys.path.remove(str(folder))
    plugins._entry_points.cache_clear()
    sys.modules.pop("zen_processes")


class TestProcesses(BatchContract):
    """The example of the page."""

    @pytest.fixture(autouse=True)
    def _installed(self, processes):
        self.executor = processes.Processes


def test_the_example_of_the_page_is_short_and_found_by_its_name(processes, tmp_path):
    from zenturio.execute.places import open_place

    lines = [line for line in example().split("\n") if line.strip()]
    assert len(lines) < 30
    (tmp_path / ".zenturio").mkdir()
    with open_place("processes", tmp_path / ".zenturio", 2) as place:
        assert outcome(place, experiment("true")).status == "ok"
