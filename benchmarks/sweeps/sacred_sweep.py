"""Sacred: a run for each point, observed by files, in a pool of two processes."""

from multiprocessing import Pool
from pathlib import Path

from sacred import SETTINGS, Experiment
from sacred.observers import FileStorageObserver
from work import JOBS, RUNS, measure

SETTINGS.CAPTURE_MODE = "no"
sweep = Experiment("sweep", save_git_info=False)
sweep.observers.append(FileStorageObserver("observed"))


@sweep.config
def config():
    """The parameter."""
    n = 1  # noqa: F841


@sweep.main
def run(n, _run):
    """The result is a metric of the run."""
    result = measure(n, f"runs/{n}")
    _run.log_scalar("result", result)
    return result


def observed(n):
    """Runs point *n*, unless that was done before."""
    if not Path(f"observed/{n}/run.json").exists():
        sweep.run(config_updates={"n": n}, options={"--id": str(n), "--loglevel": "ERROR"})


if __name__ == "__main__":
    with Pool(JOBS) as pool:
        pool.map(observed, range(1, RUNS + 1), chunksize=8)
