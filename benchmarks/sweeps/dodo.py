"""doit: a task for each point, whose value is kept in doit's database."""

from doit.tools import run_once
from work import RUNS, measure

DOIT_CONFIG = {"backend": "sqlite3", "dep_file": "doit.db", "verbosity": 0, "reporter": "zero"}


def evaluate(n):
    """The values of a task are saved when it succeeds."""
    return {"result": measure(n, f"runs/{n}")}


def task_sweep():
    """One for each point."""
    for n in range(1, RUNS + 1):
        yield {"name": str(n), "actions": [(evaluate, [n])], "uptodate": [run_once]}
