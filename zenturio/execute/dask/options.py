"""What can be set of a place that is a cluster of Dask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from zenturio.errors import InputError
from zenturio.settings.schema import setting

AUTO = "auto"
LARGEST_BATCH = 500
"""Experiments in one task, at the most."""


@dataclass(frozen=True)
class DaskOptions:
    """Where the workers are, or how they are started; nothing of it: on this machine."""

    address: str = setting("", "the scheduler's: dask://host:8786, or tls://host:8786")
    batch: str = setting(AUTO, "short experiments that travel together: a number, or auto")
    grace: float = setting(2.0, "seconds from asking what is cancelled to end to killing it", low=0)
    patience: float = setting(60.0, "seconds to wait for a scheduler, and for workers", low=1)
    ca: str = setting("", "tls: the file with the CA certificate")
    cert: str = setting("", "tls: the file with our certificate")
    key: str = setting("", "tls: the file with our key")
    insecure: bool = setting(False, "allow an address beyond this machine without tls")
    cluster: Literal["slurm"] | None = setting(None, "start the workers as jobs of this system")
    nodes: int = setting(1, "jobs of workers", low=1, high=100_000)
    cores: int = setting(1, "CPUs of each job", low=1, high=4096)
    memory: str = setting("2GB", "memory of each job")
    walltime: str = setting("01:00:00", "how long a job may last")
    queue: str = setting("", "queue or partition of the jobs")
    account: str = setting("", "account or project of the jobs")
    lines: str = setting(
        "", "more lines for the head of the script, such as --qos=long", executes=True
    )
    prologue: str = setting("", "commands of the script before the worker starts", executes=True)
    interface: str = setting("", "the network that workers reach the scheduler through: ib0")
    python: str = setting("", "Python of the workers, if it is not this one", executes=True)

    @property
    def together(self) -> int | None:
        """How many experiments make a task; none if that is to be found out."""
        if self.batch == AUTO:
            return None
        if not self.batch.isdecimal() or not 1 <= int(self.batch) <= LARGEST_BATCH:
            raise InputError(
                f"batch={self.batch} is not possible",
                hint=f"auto, or a number from 1 to {LARGEST_BATCH}",
            )
        return int(self.batch)
