"""Grouping a million experiments by two axes: our query, and the other ways that there are.

    python benchmarks/results.py [--size N] [--json] [--keep FILE]

A study of 5 parameters and 3 metrics in SQLite is asked for the mean of a metric by two axes.
Beside `zenturio.query.results`: the same by hand with pandas, NumPy, a covering index, and a
columnar copy in Parquet beside the database, with what it costs to make that copy. Every answer
is checked against ours. Behind these, the commands as one types them, start-up included.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sweeps import tiny

from zenturio.query import results
from zenturio.record import Field, StudyDefinition
from zenturio.record.open import open_repository

PARAMETERS = {"n": "int", "threads": "int", "block": "int", "solver": "str", "omega": "real"}
METRICS = {"wtime": "real", "gflops": "real", "maxrss": "int"}
AXES = ["n", "threads"]
QUERY = "SELECT n, threads, wtime FROM study_big"
Answer = dict[tuple[int, int], float]


def columns(size: int) -> dict[str, np.ndarray]:
    """What was run and measured, five repeats of each point."""
    random = np.random.default_rng(1)
    return {
        "experiment": np.arange(1, size + 1),
        "position": np.arange(size) // 5,
        "repeat": np.arange(size) % 5 + 1,
        "n": 2 ** random.integers(7, 13, size),
        "threads": random.integers(1, 17, size),
        "block": 2 ** random.integers(3, 8, size),
        "solver": np.array(["cg", "gmres", "bicgstab", "minres"])[random.integers(0, 4, size)],
        "omega": random.random(size),
        "wtime": random.lognormal(size=size),
        "gflops": random.random(size) * 100,
        "maxrss": random.integers(10**6, 10**9, size),
    }


def digest(number: int) -> bytes:
    """The digest of an experiment: its bits are as good as drawn by lot, as those of all are."""
    return (number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128).to_bytes(16, "big")


def fill(path: Path, size: int) -> Any:
    """A repository with the study ``big``; rows are put in as they would lie there."""
    fields = [[Field(n, kind) for n, kind in part.items()] for part in (PARAMETERS, METRICS)]
    repository = open_repository(path)
    repository.open("big", StudyDefinition(*map(tuple, fields)))
    connection = repository.engine.raw_connection()
    cursor = connection.cursor()
    slots = [f"v{i}" for i in range(len(PARAMETERS) + len(METRICS))]
    names = (
        "id", "position", "repeat", *slots, "digest", "status", "version", "round", "machine",
        "newest", "attempt", "lease", "host", "started", "ended", "exit",
    )  # fmt: skip
    facts = (1, 1, 0, 1, 1, 1, 1, 1.0, 2.0, 0)
    cursor.execute("BEGIN")
    cursor.execute("INSERT INTO hosts (id, name, machine, kernel, memory) VALUES (1, '', 0, '', 0)")
    rows = zip(*(column.tolist() for column in columns(size).values()), strict=True)
    cursor.executemany(
        f"INSERT INTO results ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})",
        ((*row, digest(row[0]), "ok" if row[0] % 50 else "failed", *facts) for row in rows),
    )
    for status, count in (("ok", size - size // 50), ("failed", size // 50)):
        cursor.execute("INSERT INTO counters VALUES (1, 0, 1, ?, ?)", (status, count))
    cursor.execute("COMMIT")
    connection.close()
    return repository


class Ways:
    """Each is a method that answers the question."""

    def __init__(self, repository: Any, folder: Path) -> None:
        self.repository = repository
        self.connection = repository.engine.raw_connection()
        self.cursor = self.connection.cursor()
        self.parquet = folder / "big.parquet"

    def ours(self) -> Answer:
        found = results(self.repository, "big", by=AXES, metrics=["wtime"])
        return {row[:2]: row[-1] for row in found.rows}

    def ours_with_all_aggregates(self) -> Answer:
        wanted = ["mean", "min", "max", "std", "count"]
        found = results(self.repository, "big", by=AXES, aggregates=wanted, metrics=["wtime"])
        return {row[:2]: row[3] for row in found.rows}

    def pandas(self) -> Answer:
        rows = self.cursor.execute(QUERY).fetchall()
        table = pd.DataFrame(rows, columns=["n", "threads", "wtime"])
        return table.groupby(AXES)["wtime"].mean().to_dict()

    def numpy(self) -> Answer:
        n, threads, wtime = map(np.array, zip(*self.cursor.execute(QUERY), strict=True))
        keys, group = np.unique(n * 1000 + threads, return_inverse=True)
        means = np.bincount(group, wtime) / np.bincount(group)
        return {(int(k) // 1000, int(k) % 1000): float(m) for k, m in zip(keys, means, strict=True)}

    def covering_index(self) -> Answer:
        text = QUERY.replace("wtime", "avg(wtime)") + " GROUP BY n, threads"
        return {row[:2]: row[2] for row in self.cursor.execute(text)}

    def make_index(self) -> None:
        self.cursor.execute("CREATE INDEX cover ON results (version, v0, v1, v5)")

    def parquet_copy(self) -> Answer:
        table = pq.read_table(self.parquet, columns=["n", "threads", "wtime"])
        found = table.group_by(AXES).aggregate([("wtime", "mean")])
        return {(r["n"], r["threads"]): r["wtime_mean"] for r in found.to_pylist()}

    def make_copy(self) -> None:
        names = [*PARAMETERS, *METRICS]
        rows = self.cursor.execute(f"SELECT {', '.join(names)} FROM study_big").fetchall()
        table = pd.DataFrame(rows, columns=names)
        table.to_parquet(self.parquet)
        assert pc.count(pq.read_table(self.parquet, columns=["n"])["n"]).as_py() == len(rows)


def timed(way: Callable[[], Any], repeats: int) -> tuple[float, float, Any]:
    """The best of some runs: seconds on the wall, and of the processor."""
    best, answer = (float("inf"), float("inf")), None
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        answer = way()
        best = min(best, (time.perf_counter() - wall, time.process_time() - cpu))
    return *best, answer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="keep the database in this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        repository = fill(options.keep or Path(folder) / "big.db", options.size)
        facts = commands(Path(repository.location), options.size, Path(folder))
        facts = measure(Ways(repository, Path(folder)), options.size) + facts
        repository.close()
    if options.json:
        print(json.dumps(facts, indent=2))
        return 0
    print(
        f"{options.size:,} experiments by {' and '.join(AXES)}, mean of wtime (best of 3);", end=""
    )
    print(f" {tiny.load()}")
    for fact in facts:
        ratio = f"{fact['ratio']:6.2f} times ours" if fact["ratio"] else ""
        print(f"  {fact['way']:52s} {fact['wall']:7.3f} s  cpu {fact['cpu']:7.3f} s  {ratio}")
    return 0


def measure(ways: Ways, size: int) -> list[dict[str, Any]]:
    """What each way took; a way whose answer is not ours fails."""
    facts: list[dict[str, Any]] = []
    ours: Answer = {}
    plan: list[tuple[str, Callable[[], Any], int]] = [
        ("zenturio.query.results", ways.ours, 3),
        ("... with min, max, std, count", ways.ours_with_all_aggregates, 3),
        ("pandas, from the view", ways.pandas, 3),
        ("NumPy, from the view", ways.numpy, 3),
        ("(making a Parquet copy)", ways.make_copy, 1),
        ("Parquet copy, pyarrow", ways.parquet_copy, 3),
        ("(making a covering index)", ways.make_index, 1),
        ("covering index", ways.covering_index, 3),
    ]
    for name, way, repeats in plan:
        wall, cpu, answer = timed(way, repeats)
        ours = ours or answer
        if answer is not None:
            assert answer.keys() == ours.keys(), f"{name} has other groups"
            assert np.allclose([answer[k] for k in ours], list(ours.values())), name
        ratio = wall / facts[0]["wall"] if facts else 0.0
        facts.append({"way": name, "size": size, "wall": wall, "cpu": cpu, "ratio": ratio})
    return facts


def commands(place: Path, size: int, folder: Path) -> list[dict[str, Any]]:
    """What the commands take from the shell, the best of some: asked twice before, for bytecode."""
    asked = [["status", "big"], ["results", "big", "--by", ",".join(AXES), "--metric", "wtime"]]
    facts = []
    for words in asked:
        command = [*tiny.ZEN, *words, "--db", str(place)]
        taken = [tiny.timed(command, folder, tiny.environment(folder)) for _ in range(7)][2:]
        wall, cpu = (min(each) for each in zip(*((t.wall, t.cpu) for t in taken), strict=True))
        name = "$ zen " + " ".join(words)
        facts.append({"way": name, "size": size, "wall": wall, "cpu": cpu, "ratio": 0.0})
    return facts


if __name__ == "__main__":
    sys.exit(main())
