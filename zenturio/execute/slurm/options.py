"""What can be said of a cluster in ``[places.NAME]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from zenturio.settings.schema import setting


@dataclass(frozen=True)
class SlurmOptions:
    """Where jobs go, what they may use, and how often the queue is looked at."""

    partition: str = setting("", "partition of the jobs; the cluster's default, if none is said")
    account: str = setting("", "account that pays")
    qos: str = setting("", "quality of service")
    constraint: str = setting("", "features that a node must have, as sbatch takes them")
    time: str = setting("", "time limit where there is no TIMEOUT: 30 (minutes), 4:00:00, 1-00:00")
    extra: str = setting("", "more options of sbatch, one a line: --gres=gpu:1", executes=True)
    setup: str = setting(
        "", "lines of shell before each experiment: module load gcc", executes=True
    )
    python: str = setting(
        "", "Python on the nodes that has zenturio; this one, if none is said", executes=True
    )
    folder: str = setting("", "folder that the nodes see, where they do not see the project's")
    poll: float = setting(5.0, "seconds between two looks at the queue, at the least", low=0.05)
    array: int = setting(1000, "experiments in one job array, at the most", low=1)
    grace: float = setting(
        30.0, "seconds that an outcome may take to be seen when its job has ended", low=0
    )
    patience: float = setting(
        60.0, "seconds for a command of Slurm to answer, before it is asked again", low=1
    )
    pilots: Literal["auto", "never", "always"] = setting(
        "auto", "whether short experiments go to workers of Dask that stay, which are jobs too"
    )
    pilot_jobs: int = setting(4, "jobs of such workers", low=1, high=100_000)
    pilot_cores: int = setting(4, "CPUs of each, and experiments in it at a time", low=1, high=4096)
    pilot_memory: str = setting("2GB", "memory of each")
    pilot_time: str = setting("01:00:00", "how long each may last")
    interface: str = setting("", "the network that such workers reach this machine through: ib0")
