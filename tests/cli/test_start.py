"""What short commands load: most of their time goes there.

The numbers of modules are those of `benchmarks/counts.py`, with room for a few new ones.
"""

import subprocess
import sys
from pathlib import Path
from runpy import run_path

import pytest

_PROBE = """
import atexit, sys
from zenturio.cli import main
names = ("numba", "numpy", "pandas", "pathspec", "plotly", "sqlalchemy")
atexit.register(lambda: print("ours:", sum(n.split(".")[0] == "zenturio" for n in sys.modules)))
atexit.register(lambda: print("loaded:", *[n for n in names if n in sys.modules]))
sys.argv = ["zen", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(
    ("command", "loads", "most_modules"),
    [
        (["list"], [], 58),
        (["status"], [], 60),
        (["status", "small"], [], 60),
        (["run", "small.py"], ["numpy"], 138),
        (["results", "small"], ["numpy"], 75),
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


def test_a_run_says_little_to_the_database(tmp_path):
    counts = run_path(str(Path(__file__).parents[2] / "benchmarks" / "counts.py"))
    counts["write_studies"](tmp_path)
    commands = ("run small.sh", "run other.sh", "run small.sh")
    new, further, cached = (counts["count"](command, tmp_path) for command in commands)
    assert max(new["transactions"], further["transactions"]) <= 8
    assert cached["transactions"] <= 7
    assert new["statements"] <= 92  # of which 39 create tables
    assert further["statements"] <= 50
    assert cached["statements"] <= 33
