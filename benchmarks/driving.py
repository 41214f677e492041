"""How fast a study of tiny programs is driven: against xargs -P, in the same minute.

    python benchmarks/driving.py [--runs N] [--jobs N] [--rounds N] [--sizes N ...] [--json]

Ours scans the study, claims each experiment, fills a file for it, runs it, measures one metric by
a regular expression, and has each outcome on the disk in SQLite; xargs only starts the program.
Rounds alternate; medians count: once from the study's text to its last commit, and once with the
start of the process and the loading of its modules, which a study pays once. Then studies of
several sizes, each in a process of its own: the rate must not fall and the largest resident size
must not grow with the number of experiments.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROGRAM = '#include <stdio.h>\nint main(void) { puts("GFLOPS=3.2"); return 0; }\n'
STUDY = """\
#ZEN$ ASSIGN n = {{ 1:{count} }}
#ZEN$ RUN "{program}"
#ZEN$ METRIC gflops FROM stdout REGEX "GFLOPS=(\\S+)"
"""


def tiny(folder: Path) -> Path:
    """A static program that prints a line."""
    (folder / "tiny.c").write_text(PROGRAM)
    target = folder / "tiny"
    subprocess.run(["cc", "-O2", "-static", folder / "tiny.c", "-o", target], check=True)
    return target


def drive(program: Path, count: int, jobs: int) -> dict[str, Any]:
    """A study of *count* experiments, from its text to its last commit, in this process."""
    from zenturio.annotate.scan import scan
    from zenturio.study.driver.experiment_source import select_points
    from zenturio.study.local_run import run_locally
    from zenturio.study.study_request import PlaceOptions

    with tempfile.TemporaryDirectory(prefix="zen-drive-") as folder:
        Path(folder, ".zenturio").mkdir()
        Path(folder, "input.txt").write_text(STUDY.format(count=count, program=program))
        os.chdir(folder)
        begun = time.perf_counter()
        application = scan(["input.txt"])
        summary = run_locally(
            application, select_points(application.space), place=PlaceOptions(jobs)
        )
        taken = time.perf_counter() - begun
        os.chdir("/")
    if summary.ok != count:
        raise SystemExit("not every experiment succeeded")
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    begin = taken - summary.seconds
    return {"runs": count, "begin": begin, "seconds": taken, "rate": count / taken, "MB": size}


def ours(program: Path, count: int, jobs: int) -> dict[str, Any]:
    """The same in a process of its own; *whole* counts that in."""
    command = [sys.executable, __file__, "--drive", str(program), "--runs", str(count)]
    begun = time.perf_counter()
    done = subprocess.run([*command, "--jobs", str(jobs)], stdout=subprocess.PIPE, check=True)
    whole = time.perf_counter() - begun
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"whole": count / whole}


def theirs(program: Path, runs: int, jobs: int) -> float:
    """Programs a second by xargs."""
    numbers = "\n".join(map(str, range(runs)))
    begun = time.perf_counter()
    subprocess.run(
        ["xargs", "-n1", f"-P{jobs}", program],
        input=numbers,
        text=True,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return runs / (time.perf_counter() - begun)


def measured(arguments: argparse.Namespace, program: Path) -> dict[str, Any]:
    """Medians of both, and how ours goes with the size."""
    rates: dict[str, list[float]] = {"zenturio": [], "whole": [], "xargs": []}
    for _ in range(arguments.rounds):
        own = ours(program, arguments.runs, arguments.jobs)
        rates["zenturio"].append(own["rate"])
        rates["whole"].append(own["whole"])
        rates["xargs"].append(theirs(program, arguments.runs, arguments.jobs))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    sizes = []
    for size in arguments.sizes:
        beside = theirs(program, min(size, 2000), arguments.jobs)
        sizes.append(ours(program, size, arguments.jobs) | {"xargs": beside})
    ratios = {name: medians[name] / medians["xargs"] for name in ("zenturio", "whole")}
    return {**medians, "ratios": ratios, "sizes": sizes}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100, 1000, 5000, 20000])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--drive", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.drive:
        print(json.dumps(drive(arguments.drive, arguments.runs, arguments.jobs)))
        return
    with tempfile.TemporaryDirectory(prefix="zen-bench-") as folder:
        found = measured(arguments, tiny(Path(folder)))
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{arguments.runs} runs, {arguments.jobs} at a time, median of {arguments.rounds} rounds")
    ratios = found["ratios"]
    print(f"xargs                   {found['xargs']:6.0f} /s")
    print(f"zenturio                {found['zenturio']:6.0f} /s   ratio {ratios['zenturio']:.2f}")
    print(f"with the process' start {found['whole']:6.0f} /s   ratio {ratios['whole']:.2f}")
    for size in found["sizes"]:
        rate = size["runs"] / (size["seconds"] - size["begin"])
        print(
            f"{size['runs']:6} experiments: {size['begin']:.2f} s to begin, then {rate:6.0f} /s,"
            f" {size['MB']:.0f} MB at most   (xargs beside it: {size['xargs']:.0f} /s)"
        )


if __name__ == "__main__":
    main()
