"""What is wrong with a cluster, in words."""

from __future__ import annotations

from collections.abc import Iterator

from zenturio.execute.dask import worker_plugin
from zenturio.execute.dask.cluster_client import DaskCluster


def cluster_problems(cluster: DaskCluster) -> Iterator[str]:
    """Workers that cannot work for us, or that are not what we are."""
    client = cluster.client
    here = client.get_versions()["client"]["packages"]["distributed"]
    there = client.get_versions()["scheduler"]["packages"]["distributed"]
    if there != here:
        yield f"the scheduler of {cluster.where} has Dask {there}, and here is {here}"
    found = client.run(worker_plugin.worker_versions, on_error="return")
    if not found and not cluster.queued:
        yield f"{cluster.where} has no worker at this moment"
    for worker, told in found.items():
        yield from worker_problems(worker, told)


def worker_problems(worker: str, told: tuple[str, str, str] | Exception) -> Iterator[str]:
    """What is wrong with a worker that says so of itself."""
    if isinstance(told, Exception):
        yield f"worker {worker} cannot import zenturio: {told}; install it there"
        return
    _, python, tool = worker_plugin.worker_versions()
    host, its_python, its_tool = told
    if its_tool != tool:
        yield f"worker {worker} on {host} has zenturio {its_tool}, and here is {tool}"
    if its_python.split(".")[:2] != python.split(".")[:2]:
        yield f"worker {worker} on {host} has Python {its_python}, and here is {python}"
