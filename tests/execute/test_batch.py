"""Batch systems: what all of them promise, shown with the one that README adds."""

import re
import sys
from pathlib import Path

import pytest

from zenturio import plugins
from zenturio.testing.batch import BatchContract
from zenturio.testing.executor import experiment, outcome

README = Path(__file__).parents[2] / "README.md"


def example() -> str:
    """The batch system in README."""
    text = README.read_text()
    block = re.search(
        r"  ```python\n(.*?)  ```", text[text.index("- a batch system:") :], re.DOTALL
    )
    return "\n".join(line[2:] for line in block[1].split("\n"))


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
    """The example of README."""

    @pytest.fixture(autouse=True)
    def _installed(self, processes):
        self.executor = processes.Processes


def test_the_example_of_readme_is_short_and_found_by_its_name(processes, tmp_path):
    from zenturio.execute.places import open_place

    lines = [line for line in example().split("\n") if line.strip()]
    assert len(lines) < 30
    (tmp_path / ".zenturio").mkdir()
    with open_place("processes", tmp_path / ".zenturio", 2) as place:
        assert outcome(place, experiment("true")).status == "ok"
