"""The genetic engine where Numba is not installed."""

from __future__ import annotations

import subprocess
import sys

SEARCH = """
import sys
if sys.argv[1] == "without":
    sys.modules["numba"] = None
import numpy as np
from zenturio.search.kernels import genetic_search as kernels
from zenturio.search.kernels.rng import stream

state, lines = stream(7), []
sizes, ordered = np.array([5, 2, 300, 9]), np.array([True, False, True, True])
for selection in range(5):
    for crossover in range(3):
        rules = kernels.Rules(selection, crossover, crossover % 2, 2, 1, 0.5, 0.8, 0.2, 0.1, 2.0)
        genes = np.arange(44).reshape(11, 4) % sizes
        losses = (genes * np.array([1.0, 3.0, 0.01, 2.0])).sum(axis=1)
        children, parents = np.empty_like(genes), np.zeros((11, 2), dtype=np.int64)
        kernels.breed(
            genes, losses, losses.max(), sizes, ordered, rules, state, children, parents
        )
        lines.append((children.tolist(), parents.tolist(), int(state[0])))
print(lines)
"""


def run(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", code, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_generations_are_the_same_with_and_without_numba():
    with_numba, without = run(SEARCH, "with"), run(SEARCH, "without")
    assert without.stderr == ""
    assert with_numba.stdout == without.stdout != ""


def test_planning_names_the_command_that_installs_numba(tmp_path):
    code = (
        "import importlib.util, sys\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'numba' else find(name)\n"
        "from zenturio.cli import main\n"
        "sys.argv = ['zen', 'schedule', 'wien2k', '--on', 'identical:2']\n"
        "main()\n"
    )
    answer = run(code)
    assert answer.returncode == 4
    assert "planning of workflows needs Numba" in answer.stderr
    assert "[schedule]" in answer.stderr
