"""signac-flow: a job for each point, an operation that is over when its document says so."""

import os
from pathlib import Path

import signac
import work
from flow import FlowProject

work.TEMPLATE = Path("input.txt").absolute()


class Sweep(FlowProject):
    """One operation."""


@Sweep.post(lambda job: "result" in job.document)
@Sweep.operation
def run(job):
    """Keeps the result in the job's document."""
    job.document["result"] = work.measure(job.statepoint["n"], job.path)


if __name__ == "__main__":
    project = signac.init_project()
    for number in range(1, work.RUNS + 1):
        project.open_job({"n": number}).init()
    os.environ.setdefault("SIGNAC_FLOW_NO_PROGRESS", "1")
    Sweep.get_project().run(np=work.JOBS)
