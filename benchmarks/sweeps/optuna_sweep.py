"""Optuna: a grid as the search space, trials in SQLite, two threads."""

import optuna
from work import JOBS, RUNS, measure

GRID = {"n": list(range(1, RUNS + 1))}


def objective(trial):
    """The value of a trial."""
    n = trial.suggest_int("n", 1, RUNS)
    return measure(n, f"runs/{n}")


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        study_name="sweep",
        storage="sqlite:///optuna.db",
        sampler=optuna.samplers.GridSampler(GRID),
        load_if_exists=True,
    )
    study.optimize(objective, n_jobs=JOBS)
