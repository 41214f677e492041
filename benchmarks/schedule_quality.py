"""How good plans are, and what they cost: heft, ga-2005, anneal and ga beside optima and bounds.

Small: 24 random workflows of 8 to 20 tasks on 3 or 4 unrelated machines; the optimum of each is
proved by CP-SAT in the same run. STG: the graphs of the Standard Task Graph set with 50 and 100
tasks, whose optima on 2, 4, 8 and 16 processors are known. WIEN2k and layered: 100 tasks and more,
where only a lower bound is known, so that gaps are what they are at the most.

Each algorithm plans with its defaults and seed 0. The table has the mean and the largest gap over
the reference, in what share of the instances the reference was reached, and the processor time of
a plan, compiled already: the mean and the longest. Where ga keeps less than was
promised, the run fails.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from zenturio.schedule.algorithm import make
from zenturio.schedule.formats.files import read_workflow
from zenturio.schedule.generators.generator import instance_of
from zenturio.schedule.model.lower_bounds import lower_bound
from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine, identical
from zenturio.schedule.model.problem import Problem

ALGORITHMS = ("heft", "ga-2005", "anneal", "ga")
STG = Path(__file__).parents[1].parent / "shared" / "data" / "stg"
PROMISED = {"small": 0.02, "wien2k": 0.05, "stg, 2 processors": 0.001, "stg, 4 processors": 0.001}
"""The mean gap that ga must keep, by kind of instance."""
SAME = 1e-9
Case = tuple[Problem, float]
"""A problem, and its optimum or a lower bound."""


def generated(text: str, platform: Platform | None = None) -> Problem:
    found = instance_of(text)
    return Problem.of(found.workflow, platform or found.platform)


def bounded(text: str, platform: Platform | None = None) -> Case:
    problem = generated(text, platform)
    return problem, lower_bound(problem)


def small() -> Iterator[Case]:
    """Proved with an effort that is never spent."""
    for seed in range(24):
        tasks, machines = 8 + seed % 13, 3 + seed % 2
        text = f"layered:tasks={tasks},machines={machines},layers=4,seed={seed}"
        problem = generated(f"{text},unrelated=true,heterogeneity=0.9,ccr=1")
        best = make("cp-sat").plan(problem)
        if best.notes["status"] != "optimal":
            raise SystemExit(f"{text}: no proof")
        yield problem, best.makespan


def wien2k() -> Iterator[Case]:
    """105 tasks on the 314 machines of the paper, and on 8 to 100 at four sites."""
    yield from (bounded(f"wien2k:size={size}") for size in (3000, 5000, 8000))
    for machines in (8, 16, 32, 60, 100):
        for speeds in ((3.0,), (3.0, 1.0, 0.7), (3.0, 2.8, 2.5, 1.9, 1.2)):
            yield bounded("wien2k", grid(machines, speeds))


def grid(count: int, speeds: tuple[float, ...]) -> Platform:
    sites = "abcd"
    machines = tuple(
        PlatformMachine(f"m{i}", speeds[i % len(speeds)], site=sites[i % 4]) for i in range(count)
    )
    links = tuple(NetworkLink(site, site, 100e6, 0.001) for site in sites)
    return Platform(f"grid of {count}", machines, links, NetworkLink("", "", 10e6, 0.02))


def layered(machines: int) -> Iterator[Case]:
    for seed in range(8):
        yield bounded(f"layered:tasks=100,machines={machines},seed={seed}")


def stg(folder: Path, processors: int) -> Iterator[Case]:
    with (folder / "optima.csv").open() as file:
        for row in csv.DictReader(file):
            if int(row["processors"]) == processors and not row["high_if_open"]:
                flow = read_workflow(folder / row["graph"])
                yield Problem.of(flow, identical(processors)), float(row["optimum_or_best_low"])


def kinds(folder: Path) -> Iterator[tuple[str, str, Iterator[Case]]]:
    """The name of each kind of instance, what its gaps are from, and the instances."""
    yield "small", "optimum", small()
    yield "wien2k", "bound", wien2k()
    yield "layered, 8 machines", "bound", layered(8)
    yield "layered, 300 machines", "bound", layered(300)
    if not folder.is_dir():
        print(f"no STG graphs in {folder}: left out")
        return
    for processors in (2, 4, 8, 16):
        yield f"stg, {processors} processors", "optimum", stg(folder, processors)


def measure(name: str, cases: list[Case]) -> dict[str, float]:
    """What *name* makes of *cases*."""
    make(name).plan(cases[0][0])  # compiles
    gaps, seconds = [], []
    for problem, reference in cases:
        began = time.process_time()
        plan = make(name).plan(problem)
        seconds.append(time.process_time() - began)
        gaps.append(check(plan).makespan / reference - 1)
    return {
        "mean": statistics.fmean(gaps),
        "worst": max(gaps),
        "reached": sum(gap <= SAME for gap in gaps) / len(gaps),
        "seconds": statistics.fmean(seconds),
        "longest": max(seconds),
    }


def line(name: str, count: int, reference: str, algorithm: str, told: dict[str, float]) -> str:
    cells = [f"{name} ({count})", reference, algorithm]
    cells += [f"{told['mean']:.2%}", f"{told['worst']:.1%}", f"{told['reached']:.0%}"]
    cells += [f"{told['seconds']:.3f}", f"{told['longest']:.3f}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--stg", type=Path, default=STG, help="a folder with optima.csv")
    parser.add_argument("--most", type=int, help="so many instances of each kind")
    parser.add_argument("--only", default="", help="kinds whose names have this in them")
    options = parser.parse_args()
    found: dict[str, dict[str, dict[str, float]]] = {}
    broken = []
    if not options.json:
        print(
            "| instances | from the | algorithm | gap, mean | worst | reached | seconds | longest |"
        )
        print("|---|---|---|---:|---:|---:|---:|---:|")
    for name, reference, instances in kinds(options.stg):
        if options.only not in name:
            continue
        cases = list(islice(instances, options.most))
        found[name] = {each: measure(each, cases) for each in ALGORITHMS}
        if found[name]["ga"]["mean"] > PROMISED.get(name, float("inf")):
            broken.append(name)
        for each, told in found[name].items():
            if not options.json:
                print(line(name, len(cases), reference, each, told), flush=True)
    if options.json:
        print(json.dumps(found))
    if broken:
        raise SystemExit(f"ga is further from the reference than promised: {', '.join(broken)}")


if __name__ == "__main__":
    main()
