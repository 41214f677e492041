"""How fast experiments go through Slurm: beside a bare ``sbatch --array``, in the same minute.

    python benchmarks/slurm.py [--runs N] [--rounds N] [--json]

A Slurm of its own (three nodes of four CPUs each, all on this machine, tuned to start many jobs a
second) runs a job array of a command that does nothing; and a study of as many experiments, each
a task of such an array, from its submission to its last outcome, through the place alone and with
a driver and its database. Rounds alternate; medians count. A job of ours starts a Python that runs
the experiment, so its processor time is told too: where nodes have processors of their own, that
is all that an experiment pays.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
LONGEST = 1000


def bare(cluster: Any, runs: int) -> float:
    """Jobs a second of ``sbatch --array`` alone, until none is in the queue."""
    begun = time.perf_counter()
    for first in range(0, runs, LONGEST):
        many = min(LONGEST, runs - first)
        words = ["--parsable", f"--array=0-{many - 1}", "--output=/dev/null", "--wrap", "true"]
        cluster.run("sbatch", *words)
    while cluster.run("squeue", "-h"):
        time.sleep(0.1)
    return runs / (time.perf_counter() - begun)


def through_the_place(folder: Path, runs: int) -> float:
    """Experiments a second from the first submission to the last outcome."""
    from zenturio.execute.slurm import Slurm, SlurmOptions
    from zenturio.testing.executor import experiment

    with Slurm(folder, runs, options=SlurmOptions(poll=0.5)) as place:
        begun = time.perf_counter()
        futures = [place.submit(experiment("true")) for _ in range(runs)]
        if any(future.result(600).status != "ok" for future in futures):
            raise SystemExit("not every experiment succeeded")
        return runs / (time.perf_counter() - begun)


STUDY = 'n=0\n#ZEN$ ASSIGN n = {{ 1:{runs} }}\n#ZEN$ RUN "true"\n'
PLACE = '[places.cluster]\nkind = "slurm"\npoll = 0.5\njobs = {runs}\n'


def driven(folder: Path, runs: int) -> float:
    """The same as a study: claims, digests, every outcome in SQLite."""
    (folder / ".zenturio").mkdir(parents=True)
    (folder / "study.sh").write_text(STUDY.format(runs=runs))
    (folder / "zenturio.toml").write_text(PLACE.format(runs=runs))
    zen = [sys.executable, "-c", "from zenturio.cli import main; main()", "run", "study.sh"]
    done = subprocess.run(
        [*zen, "--on", "cluster", "--json", "--keep", "never"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    if found["ok"] != runs:
        raise SystemExit("not every experiment succeeded")
    return runs / float(found["seconds"])


def worker() -> float:
    """Seconds of processor time that a job's Python takes, the experiment included."""
    from zenturio.execute.experiment_codec import pack_experiment
    from zenturio.testing.executor import experiment

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "parcel").write_bytes(pack_experiment(experiment("true")))
        before = os.times()
        for number in range(5):
            words = ["-P", "-m", "zenturio.execute.worker", "parcel", f"outcome{number}"]
            subprocess.run([sys.executable, *words], cwd=folder, check=True)
        after = os.times()
    used = after.children_user + after.children_system
    return (used - before.children_user - before.children_system) / 5


def measured(arguments: argparse.Namespace) -> dict[str, Any]:
    """Medians of all three, and what a worker costs."""
    from slurm import Cluster

    rates: dict[str, list[float]] = {"sbatch": [], "place": [], "driver": []}
    cluster = Cluster(array=LONGEST + 1, cpus=4)
    os.environ["SLURM_CONF"] = str(cluster.conf)
    try:
        for _ in range(arguments.rounds):
            with tempfile.TemporaryDirectory(prefix="zen-bench-") as folder:
                rates["sbatch"].append(bare(cluster, arguments.runs))
                rates["place"].append(through_the_place(Path(folder, "place"), arguments.runs))
                rates["driver"].append(driven(Path(folder, "project"), arguments.runs))
    finally:
        cluster.remove()
    medians = {name: statistics.median(found) for name, found in rates.items()}
    ratios = {name: medians[name] / medians["sbatch"] for name in ("place", "driver")}
    return {**medians, "ratios": ratios, "worker": worker(), "runs": arguments.runs}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = measured(arguments)
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{arguments.runs} jobs that do nothing, median of {arguments.rounds} rounds")
    print(f"sbatch --array      {found['sbatch']:6.1f} /s")
    for name, what in (("place", "through the place"), ("driver", "zen run          ")):
        print(f"{what}   {found[name]:6.1f} /s   ratio {found['ratios'][name]:.2f}")
    print(f"a job's Python takes {found['worker']:.2f} s of one processor")


if __name__ == "__main__":
    main()
