"""What short commands load: most of their time goes there."""

import subprocess
import sys

import pytest

from cli.conftest import zen

_PROBE = """
import atexit, sys
from zenturio.cli import main
names = ("numba", "numpy", "pandas", "plotly", "sqlalchemy")
atexit.register(lambda: print("loaded:", *[n for n in names if n in sys.modules]))
sys.argv = ["zen", *sys.argv[1:]]
main()
"""


@pytest.fixture
def ran(study):
    zen("run", study, cwd=study.parent)
    return study


@pytest.mark.parametrize(
    ("command", "loads"),
    [(["list"], []), (["status"], []), (["status", "small"], []), (["run", "small.py"], ["numpy"])],
)
def test_short_commands_on_sqlite_load_little(ran, command, loads):
    words = [sys.executable, "-c", _PROBE, *command]
    done = subprocess.run(words, cwd=ran.parent, capture_output=True, text=True, check=True)
    *_, last = done.stdout.splitlines()
    assert last.split()[1:] == loads
    assert "small" in done.stdout + done.stderr
