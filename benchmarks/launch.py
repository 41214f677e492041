"""How fast tiny programs are run: against xargs -P, in the same minute.

    python benchmarks/launch.py [--runs N] [--jobs N] [--rounds N] [--json]

Ours makes a folder for each run, writes a file into it, captures what is printed and measures one
metric by a regular expression; xargs only starts the program. Rounds alternate; medians count.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import wait
from pathlib import Path

from zenturio.annotate.model import Metric
from zenturio.execute.local import Local
from zenturio.experiment import Experiment, ExperimentFile, Recipe, Step
from zenturio.experiment.identity import experiment_digest

PROGRAM = '#include <stdio.h>\nint main(void) { puts("GFLOPS=3.2"); return 0; }\n'
RECIPE = Recipe((Metric("gflops", "stdout", r"GFLOPS=(\S+)"),))


def tiny(folder: Path) -> Path:
    """A static program that prints a line."""
    (folder / "tiny.c").write_text(PROGRAM)
    target = folder / "tiny"
    subprocess.run(["cc", "-O2", "-static", folder / "tiny.c", "-o", target], check=True)
    return target


def experiments(program: Path, runs: int, tag: int) -> list[Experiment]:
    """As many experiments, each with a file of its own."""
    step = (Step(str(program)),)
    made = []
    for i in range(runs):
        files = (ExperimentFile("matmul.c", 0o644, b"int n = %d;\n" % i * 200),)
        name = experiment_digest(files, step, {}, tag)
        made.append(Experiment(name, i, tag, {"n": i}, files, step, {"N": str(i)}, None, RECIPE))
    return made


def ours(program: Path, folder: Path, runs: int, jobs: int, tag: int) -> float:
    """Seconds from the first submission to the last outcome, launchers' start included."""
    made = experiments(program, runs, tag)
    with Local(folder, jobs) as place:
        begun = time.perf_counter()
        futures = [place.submit(each) for each in made]
        wait(futures)
        taken = time.perf_counter() - begun
    outcomes = [future.result() for future in futures]
    if any(outcome.metrics["gflops"] != 3.2 for outcome in outcomes):
        raise SystemExit("not every run was measured")
    return taken


def theirs(program: Path, runs: int, jobs: int) -> float:
    """Seconds that xargs takes."""
    numbers = "".join(f"{i}\n" for i in range(runs))
    command = ["xargs", f"-P{jobs}", "-n1", program]
    begun = time.perf_counter()
    subprocess.run(command, input=numbers, text=True, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def main() -> None:
    """Measures both and prints the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=Path.cwd(), prefix=".launch-"))
    try:
        program = tiny(folder)
        rounds = [
            (
                ours(program, folder / "zen", asked.runs, asked.jobs, number),
                theirs(program, asked.runs, asked.jobs),
            )
            for number in range(1, asked.rounds + 1)
        ]
    finally:
        shutil.rmtree(folder)
    own, peer = (asked.runs / statistics.median(each) for each in zip(*rounds, strict=True))
    if asked.json:
        print(json.dumps({"runs_per_second": own, "xargs": peer, "ratio": own / peer}))
    else:
        print(f"ours  {own:8.0f} runs/s\nxargs {peer:8.0f} runs/s\nratio {own / peer:8.2f}")


if __name__ == "__main__":
    main()
