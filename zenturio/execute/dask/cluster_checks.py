"""What is wrong with a cluster, in words."""

from __future__ import annotations

from collections.abc import Iterator

from zenturio.execute.dask import worker_plugin
from zenturio.execute.dask.cluster_client import DaskCluster


def cluster_problems(cluster: DaskCluster) -> Iterator[str]:
    """Workers that cannot work for us, or that are not what we are."""
    client = cluster.client
    own_version = client.get_versions()["client"]["packages"]["distributed"]
    scheduler_version = client.get_versions()["scheduler"]["packages"]["distributed"]
    if scheduler_version != own_version:
        yield (
            f"the scheduler of {cluster.where} has Dask {scheduler_version}; "
            f"this machine has {own_version}"
        )
    answers = client.run(worker_plugin.worker_versions, on_error="return")
    if not answers and not cluster.queued:
        yield f"{cluster.where} has no worker at this moment"
    for worker, answer in answers.items():
        yield from worker_problems(worker, answer)


def worker_problems(worker: str, answer: tuple[str, str, str] | Exception) -> Iterator[str]:
    """What is wrong with a worker that says so of itself."""
    if isinstance(answer, Exception):
        yield f"worker {worker} cannot import zenturio: {answer}; install it there"
        return
    _, python, tool = worker_plugin.worker_versions()
    host, its_python, its_tool = answer
    if its_tool != tool:
        yield f"worker {worker} on {host} has zenturio {its_tool}; this machine has {tool}"
    if its_python.split(".")[:2] != python.split(".")[:2]:
        yield f"worker {worker} on {host} has Python {its_python}; this machine has {python}"
