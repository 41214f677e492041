"""Does a study of 100,000 experiments run as fast as one of 100, in no more memory?

    python benchmarks/long_runs.py [--sizes N,N,...] [--inline N] [--cache DIR] [--json]

Of `zen run` on a tiny static program, two at a time: the rate from the first experiment to the
last, that of the whole command, and the driver's largest resident size. Then the same of Python
functions that are called in this process and recorded in SQLite; beside them, by hand, a loop that
calls the function and writes a row with its digest, times and values in groups of as many.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from sweeps import tiny

CACHE = Path.home() / ".cache" / "zenturio-benchmarks"
GROUP = 2000


def commands(size: int, cache: Path) -> dict[str, Any]:
    """One `zen run` of *size* experiments."""
    with tempfile.TemporaryDirectory(dir=cache) as name:
        folder = Path(name)
        program = tiny.program(cache)
        tiny.annotate(folder, program, size)
        command = [*tiny.ZEN, "run", "input.txt", f"-j{tiny.JOBS}", "--json"]
        before = tiny.xargs(program, folder)
        begun = time.perf_counter()
        env = tiny.environment(cache)
        process = subprocess.Popen(
            command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        told = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        after = tiny.xargs(program, folder)
    facts = json.loads(told)
    if process.returncode or facts["ok"] != size:
        raise SystemExit(f"the run of {size} failed: {facts}")
    beside = 2000 / (before.wall + after.wall)
    return {
        "size": size,
        "rate": size / facts["seconds"],
        "whole": size / wall,
        "xargs": beside,
        "cpu": (usage.ru_utime + usage.ru_stime) / size * 1000,
        "memory": usage.ru_maxrss / 1024,
        "load": os.getloadavg()[0],
    }


def trivial(n: int, threads: int) -> dict[str, float]:
    """What is evaluated."""
    return {"gflops": n * 0.5 + threads}


def functions(size: int, cache: Path) -> tuple[float, float]:
    """Evaluations a second that are recorded, on the wall and of the processor."""
    from zenturio.experiment import ExperimentFunction
    from zenturio.record.open import open_repository
    from zenturio.space import Space
    from zenturio.study.driver.experiment_source import select_points
    from zenturio.study.driver.function_study import evaluate

    space = Space(n=range(size // 10), threads=range(1, 11))
    with tempfile.TemporaryDirectory(dir=cache) as name:
        repository = open_repository(Path(name) / "zenturio.db")
        begun, cpu = time.perf_counter(), time.process_time()
        summary = evaluate(
            ExperimentFunction(trivial), select_points(space, limit=size), repository
        )
        taken = time.perf_counter() - begun, time.process_time() - cpu
        repository.close()
    assert summary.ok == size, summary
    return size / taken[0], size / taken[1]


def by_hand(size: int, cache: Path) -> tuple[float, float]:
    """The same without us: no resuming, no claims, no failures, one table."""
    with tempfile.TemporaryDirectory(dir=cache) as name:
        connection = sqlite3.connect(Path(name) / "rows.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE done (digest BLOB PRIMARY KEY, n, threads, gflops, wtime)")
        begun, cpu = time.perf_counter(), time.process_time()
        rows = []
        for i in range(size):
            n, threads = i // 10, i % 10 + 1
            clock = time.perf_counter()
            answer = trivial(n, threads)
            wall = time.perf_counter() - clock
            digest = hashlib.blake2b(repr((n, threads)).encode(), digest_size=16).digest()
            rows.append((digest, n, threads, answer["gflops"], wall))
            if len(rows) == GROUP or i == size - 1:
                connection.execute("BEGIN")
                connection.executemany("INSERT INTO done VALUES (?, ?, ?, ?, ?)", rows)
                connection.execute("COMMIT")
                rows = []
        taken = time.perf_counter() - begun, time.process_time() - cpu
        connection.close()
    return size / taken[0], size / taken[1]


def show(runs: list[dict[str, Any]], inline: list[dict[str, Any]]) -> str:
    """Markdown."""
    lines = [
        "| experiments | a second | whole command | of `xargs -P2` | driver | load |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {r['size']:,} | {r['rate']:,.0f} | {r['whole']:,.0f} | {r['rate'] / r['xargs']:.2f} "
        f"| {r['memory']:.0f} MB | {r['load']:.1f} |"
        for r in runs
    ]
    lines += [
        "",
        "| functions | a second | a second of CPU | memory | load |",
        "|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {r['name']} | {r['wall']:,.0f} | {r['cpu']:,.0f} | {r['memory']:.0f} MB "
        f"| {r['load']:.1f} |"
        for r in inline
    ]
    return "\n".join(lines)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default="100,1000,10000,100000")
    parser.add_argument(
        "--inline", default="100000,1000000", help="sizes of the function's studies"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"default: {CACHE}")
    parser.add_argument("--patience", type=float, default=0, help="seconds to wait for a calm")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    asked.cache.mkdir(parents=True, exist_ok=True)
    cache = asked.cache.resolve()
    commands(10, cache)  # so that bytecode is there
    runs, inline = [], []
    for size in filter(None, asked.sizes.split(",")):
        tiny.calm(asked.patience)
        print(f"... {size}, {tiny.load()}", file=sys.stderr)
        runs.append(commands(int(size), cache))
    for size in filter(None, asked.inline.split(",")):
        for name, way in (("zenturio", functions), ("by hand", by_hand)):
            tiny.calm(asked.patience)
            taken = [way(int(size), cache) for _ in range(asked.rounds)]
            wall, cpu = (median(each) for each in zip(*taken, strict=True))
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            facts = {"wall": wall, "cpu": cpu, "memory": memory, "load": os.getloadavg()[0]}
            inline.append({"name": f"{name}, {int(size):,}", **facts})
    facts = {"runs": runs, "inline": inline}
    print(json.dumps(facts, indent=2) if asked.json else show(runs, inline))


if __name__ == "__main__":
    main()
