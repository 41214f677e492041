"""What short commands load: most of their time goes there.

The numbers of modules are those of `benchmarks/counts.py`, with room for a few new ones.
"""

import subprocess
import sys

import pytest

from cli.conftest import zen

_PROBE = """
import atexit, sys
from zenturio.cli import main
names = ("numba", "numpy", "pandas", "plotly", "sqlalchemy")
atexit.register(lambda: print("ours:", sum(n.split(".")[0] == "zenturio" for n in sys.modules)))
atexit.register(lambda: print("loaded:", *[n for n in names if n in sys.modules]))
sys.argv = ["zen", *sys.argv[1:]]
main()
"""


@pytest.fixture
def ran(study):
    zen("run", study, cwd=study.parent)
    return study


@pytest.mark.parametrize(
    ("command", "loads", "most_modules"),
    [
        (["list"], [], 75),
        (["status"], [], 78),
        (["status", "small"], [], 78),
        (["run", "small.py"], ["numpy"], 182),
        (["results", "small"], ["numpy"], 90),
    ],
)
def test_short_commands_on_sqlite_load_little(ran, command, loads, most_modules):
    words = [sys.executable, "-c", _PROBE, *command]
    done = subprocess.run(words, cwd=ran.parent, capture_output=True, text=True, check=True)
    # In the reverse order of their registration.
    *_, loaded, ours = done.stdout.splitlines()
    assert loaded.split()[1:] == loads
    assert int(ours.split()[1]) <= most_modules
    assert "small" in done.stdout + done.stderr or "low" in done.stdout
