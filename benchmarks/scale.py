"""What ten million experiments on ten thousand workers would take: from costs that are measured.

    python benchmarks/scale.py [--experiments N] [--workers N] [--seconds S ...] [--rows N] [--json]

First the costs of each part on this machine, in about a minute: what the driver does for each
experiment (makes it, claims it, records it, in SQLite and PostgreSQL, in an empty database and
behind others), what goes through files and threads, what a queue of so many jobs takes to read,
what a kept folder and a row take. Then the study is played as a network of queues: a driver, the
place's scheduler, workers, and the driver again, with as many in flight as a driver allows. Rates
that need a cluster are those of README.md in this folder. What is asked of a table grows with its
rows; it is measured at *rows*, and given for all experiments.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scaling.costs import BEHIND, measured
from scaling.queues import foretold, lines

# From README.md, where the commands are that measured them.
PORTAL = {
    "query: first view of a sorted table": 0.070,
    "query: number of rows of a sorted table": 1.1,
    "query: chart with two group-bys": 1.3,
    "query: values of each parameter": 0.29,
}
"""Seconds at a million rows."""


def unit_costs(costs: dict[str, Any], workers: int) -> Iterator[tuple[str, str]]:
    """What was measured, in words."""
    files, row = costs["files"], costs["row"]
    yield "driver: generate one experiment (point, file of 2 KB, digest)", us(costs["make"])
    for name, whole in costs["driver"].items():
        yield f"driver with {name}: one experiment, from its point to its commit", us(whole)
        for how, each in costs["database"][name].items():
            yield f"{name}: add, claim and record one experiment {how}", us(each)
    yield "driver: pack one experiment and unpack its outcome", us(costs["pack"])
    yield "driver: the same through files, as for Slurm", us(files["letter"])
    yield "driver: memory of one experiment in flight", f"{costs['held'] / 1e3:.1f} KB"
    yield "memory of a waiting thread", f"{costs['thread'] / 1e3:.0f} KB"
    yield f"read a queue of {workers:,} jobs", f"{costs['squeue'] * 1e3:.0f} ms"
    yield "a folder with one file: create and keep", us(files["keep"])
    yield "the same: list", f"{files['list'] * 1e6:.1f} us"
    yield "the same: remove", us(files["remove"])
    yield "the same: size on the disk", f"{files['bytes'] / 1e3:.0f} KB, 2 inodes"
    yield "size of a row in SQLite; with 1 KB of output", f"{row[0]:.0f} B; {row[1000]:,.0f} B"
    for name, seconds in costs["asked"].items():
        yield (
            f"query: {name}",
            f"{seconds * 1e3:.2g} ms" if seconds < 0.01 else f"{seconds * 1e3:.0f} ms",
        )


def sums(costs: dict[str, Any], count: int, workers: int, rows: int) -> Iterator[tuple[str, str]]:
    """What that comes to."""
    files, row, times = costs["files"], costs["row"], count / 1e6
    mean = costs["asked"][f"mean of {rows:,} rows"] / rows * count
    yield "only generate all experiments", f"{costs['make'] * count / 60:.1f} min"
    for name, found in costs["database"].items():
        each = found[BEHIND]
        rate = f"{1 / each:,.0f}/s; {each * count / 60:.0f} min"
        yield f"only add, claim and record all in {name}", rate
    yield (
        "memory of experiments in flight, two per worker",
        f"{costs['held'] * 2 * workers / 1e6:,.0f} MB",
    )
    yield (
        "memory of threads for hosts, one per worker",
        f"{costs['thread'] * workers / 1e6:,.0f} MB",
    )
    yield "keep all folders", f"{count * 2:,} inodes, {files['bytes'] * count / 1e9:,.0f} GB"
    yield "remove all folders", f"{files['remove'] * count / 60:,.0f} min"
    yield (
        "size of the SQLite database; with 1 KB of output each",
        " GB; ".join(f"{row[n] * times / 1e3:.1f}" for n in row) + " GB",
    )
    yield "query: mean by two parameters", f"{mean:.1f} s"
    for name, seconds in PORTAL.items():
        yield name, f"{seconds * times:.1f} s"
    yield "memory of a sorted table in the portal", f"{8 * times:.0f} MB"


def us(seconds: float) -> str:
    """Microseconds."""
    return f"{seconds * 1e6:.0f} us"


def table(title: str, rows: Iterator[tuple[str, str]]) -> str:
    """Markdown of two columns."""
    return "\n".join([f"| {title} | |", "|---|---:|", *(f"| {a} | {b} |" for a, b in rows), ""])


def played(plans: dict[float, list[dict[str, Any]]], held: float) -> str:
    """Markdown: what each place makes of the study."""
    head = (
        "| experiment takes | place | database | driver | scheduler | together | study takes "
        "| in flight | driver, scheduler, workers busy | all busy from |"
    )
    lines = [
        head,
        "|---:|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for seconds, found in plans.items():
        for each in found:
            busy = ", ".join(f"{share:.0%}" for share in each["busy"].values())
            lines.append(
                f"| {seconds:g} s | {each['place']} | {each['database']} "
                f"| {each['driver']:,.0f}/s | {each['scheduler']:,.0f}/s | {each['rate']:,.0f}/s "
                f"| {each['hours']:,.1f} h "
                f"| {each['in flight']:,} ({each['in flight'] * held / 1e6:,.0f} MB) | {busy} "
                f"| {each['enough']:,.1f} s |"
            )
    return "\n".join(lines)


def main() -> None:
    """Measures, plays and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=10**7)
    parser.add_argument("--workers", type=int, default=10**4)
    parser.add_argument("--seconds", type=float, nargs="+", default=[0.01, 1.0, 60.0, 600.0])
    parser.add_argument("--rows", type=int, default=200_000, help="rows that lie there already")
    parser.add_argument("--runs", type=int, default=4096, help="experiments of each measurement")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".scale-") as name:
        costs = measured(Path(name), asked.runs, asked.rows, asked.workers)
    plans = {
        seconds: [
            foretold(line, asked.experiments, asked.workers)
            for line in lines(costs, asked.workers, seconds)
        ]
        for seconds in asked.seconds
    }
    if asked.json:
        print(json.dumps({"costs": costs, "plans": plans}, indent=2))
        return
    print(table("operation", unit_costs(costs, asked.workers)))
    title = f"{asked.experiments:,} experiments, {asked.workers:,} workers"
    print(table(title, sums(costs, asked.experiments, asked.workers, asked.rows)))
    print(played(plans, costs["held"]))


if __name__ == "__main__":
    main()
