"""MLflow: a run for each point, tracked in SQLite, in a pool of two processes."""

from multiprocessing import get_context

import mlflow
from work import JOBS, RUNS, measure

STORE = "sqlite:///mlflow.db"


def begin():
    """Each process connects by itself."""
    mlflow.set_tracking_uri(STORE)
    mlflow.set_experiment("sweep")


def run(n):
    """Logs one point."""
    with mlflow.start_run(run_name=str(n)):
        mlflow.log_param("n", n)
        mlflow.log_metric("result", measure(n, f"runs/{n}"))


if __name__ == "__main__":
    begin()
    known = {int(n) for n in mlflow.search_runs().get("params.n", ())}
    missing = [n for n in range(1, RUNS + 1) if n not in known]
    with get_context("spawn").Pool(JOBS, begin) as pool:
        pool.map(run, missing, chunksize=4)
