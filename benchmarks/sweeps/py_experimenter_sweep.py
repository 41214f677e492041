"""py_experimenter: a table of points in SQLite, worked off by two jobs."""

from pathlib import Path

from py_experimenter.experimenter import PyExperimenter
from work import JOBS, RUNS, measure

CONFIG = f"""
PY_EXPERIMENTER:
  n_jobs: {JOBS}
  Database:
    provider: sqlite
    database: py_experimenter
    table:
      name: sweep
      keyfields:
        n:
          type: int
          values:
            start: 1
            stop: {RUNS + 1}
            step: 1
      resultfields:
        result: float
"""


def run(parameters, processor, _custom):
    """Hands the result of one point over."""
    n = parameters["n"]
    processor.process_results({"result": measure(n, f"runs/{n}")})


if __name__ == "__main__":
    Path("config.yml").write_text(CONFIG)
    experimenter = PyExperimenter(
        "config.yml", name="sweep", use_codecarbon=False, log_level="ERROR"
    )
    experimenter.fill_table_from_config()
    experimenter.execute(run, max_experiments=-1)
