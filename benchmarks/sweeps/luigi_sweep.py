"""luigi: a task for each point, whose target is its result; the local scheduler, two workers."""

import json

import luigi
from work import JOBS, RUNS, measure


class Run(luigi.Task):
    """One point."""

    n = luigi.IntParameter()

    def output(self):
        """Where the result is."""
        return luigi.LocalTarget(f"runs/{self.n}/result.json")

    def run(self):
        """Writes the result."""
        result = measure(self.n, f"runs/{self.n}")
        with self.output().open("w") as file:
            json.dump({"n": self.n, "result": result}, file)


if __name__ == "__main__":
    tasks = [Run(n=n) for n in range(1, RUNS + 1)]
    luigi.build(tasks, workers=JOBS, local_scheduler=True, log_level="WARNING")
