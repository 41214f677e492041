"""Trials for the peers of `portal.py`, written by themselves: run in their environment.

python benchmarks/pages/peers.py FOLDER TRIALS
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path


def values(number: int) -> tuple[dict[str, float], dict[str, float]]:
    """Parameters and metrics of a trial: five and three, as the study of the portal has them."""
    chance = random.Random(number)
    parameters = {
        "n": 2.0 ** chance.randint(7, 12), "threads": float(chance.randint(1, 16)),
        "block": 2.0 ** chance.randint(3, 7), "solver": float(chance.randint(0, 3)),
        "omega": chance.random(),
    }  # fmt: skip
    metrics = {"wtime": chance.random(), "gflops": chance.random(), "maxrss": chance.random()}
    return parameters, metrics


def optuna_trials(folder: Path, trials: int) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(storage=f"sqlite:///{folder}/optuna.db", study_name="big")
    ranges = {name: optuna.distributions.FloatDistribution(0, 5000) for name in values(0)[0]}
    made = []
    for number in range(trials):
        parameters, metrics = values(number)
        made.append(
            optuna.trial.create_trial(
                params=parameters, distributions=ranges, value=metrics["wtime"], user_attrs=metrics
            )
        )
    study.add_trials(made)


def mlflow_runs(folder: Path, trials: int) -> None:
    from mlflow.entities import Metric, Param
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db")
    experiment = client.create_experiment("big")
    now = int(time.time() * 1000)
    for number in range(trials):
        parameters, metrics = values(number)
        run = client.create_run(experiment, start_time=now + number)
        client.log_batch(
            run.info.run_id,
            metrics=[Metric(name, value, now, 0) for name, value in metrics.items()],
            params=[Param(name, str(value)) for name, value in parameters.items()],
        )
        client.set_terminated(run.info.run_id)


if __name__ == "__main__":
    place, count = Path(sys.argv[1]), int(sys.argv[2])
    optuna_trials(place, count)
    mlflow_runs(place, count)
