"""Experiments a second of a cluster of Dask, beside bare Dask, Parsl, and this machine itself.

    python benchmarks/places.py [--runs N] [--rounds N] [--cache DIR] [--no-peers] [--json]

Two at a time everywhere. An experiment is a tiny static program with a file of its own, whose
output is kept and searched for one metric; or a function of Python. The engines alone run a task
that does nothing, and one that only starts the same program. Rounds alternate, so that other work
on the machine harms all alike; medians count. Parsl comes with pip into an environment of its own
in the cache folder; clusters are started before the clock.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager
from importlib import import_module
from itertools import count
from pathlib import Path
from time import perf_counter

from distributed import Client, LocalCluster
from launch import experiments, tiny

from zenturio.execute.dask.executor import Dask
from zenturio.execute.dask.ticket_queue import DaskOptions
from zenturio.execute.executor import Executor
from zenturio.execute.local import Local
from zenturio.experiment import ExperimentFunction

CACHE = Path.home() / ".cache" / "zenturio-benchmarks"
SLOTS = 2
PARSL = "parsl==2026.10.26"
DOUBLE = "def double(n):\n    return {'twice': 2 * n}\n"
PEER = """
import json, subprocess, sys
from time import perf_counter
import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.providers import LocalProvider

@parsl.python_app
def nothing(n):
    return n

@parsl.python_app
def program(path):
    import subprocess
    return subprocess.run([path], stdout=subprocess.PIPE).returncode

def main():
    path, runs = sys.argv[1], int(sys.argv[2])
    executor = HighThroughputExecutor(
        label="two", max_workers_per_node=2, address="127.0.0.1", encrypted=False,
        provider=LocalProvider(init_blocks=1, max_blocks=1),
    )
    with parsl.load(Config(executors=[executor], run_dir=sys.argv[3])):
        nothing(0).result()
        nothing(1).result()
        for line in sys.stdin:
            task, value = (nothing, 0) if line.strip() == "nothing" else (program, path)
            begun = perf_counter()
            futures = [task(value) for _ in range(runs)]
            for future in futures:
                future.result()
            print(runs / (perf_counter() - begun), flush=True)

main()
"""

Run = Callable[[int], float]
"""So many at once; how many a second."""


def started(path: str) -> int:
    """A task of the engine alone that starts the program."""
    return subprocess.run([path], stdout=subprocess.PIPE, check=True).returncode


def at(place: Executor, program: Path, tags: Iterator[int]) -> Run:
    """Experiments at a place of ours."""

    def run(runs: int) -> float:
        made = experiments(program, runs, next(tags))
        begun = perf_counter()
        futures = [place.submit(each) for each in made]
        wait(futures)
        taken = perf_counter() - begun
        if any(future.result().metrics["gflops"] != 3.2 for future in futures):
            raise SystemExit("not every run was measured")
        return runs / taken

    return run


def calls(place: Executor, folder: Path, numbers: Iterator[int]) -> Run:
    """A function, in a module of its own, at a place of ours."""
    (folder / "doubling.py").write_text(DOUBLE)
    sys.path.insert(0, str(folder))
    function = ExperimentFunction(import_module("doubling").double)

    def run(runs: int) -> float:
        first = next(numbers) * 10**6
        points = [{"n": first + i} for i in range(runs)]
        made = [function.command(function.experiments(point)[0]) for point in points]
        begun = perf_counter()
        found = [future.result() for future in [place.submit(each) for each in made]]
        taken = perf_counter() - begun
        if [o.metrics["twice"] for o in found] != [2 * point["n"] for point in points]:
            raise SystemExit("not every call was answered")
        return runs / taken

    return run


def bare(client: Client, task: Callable[..., object], *words: object) -> Run:
    """Tasks of Dask, one for each."""

    def run(runs: int) -> float:
        begun = perf_counter()
        futures = [client.submit(task, *words, pure=False) for _ in range(runs)]
        client.gather(futures)
        return runs / (perf_counter() - begun)

    return run


@contextmanager
def parsl(program: Path, runs: int, cache: Path, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Parsl in a process of its own, which runs what it is told."""
    home = cache / "places"
    python = home / "bin" / "python"
    if not (home / "installed").exists():
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", PARSL], check=True)
        (home / "installed").touch()
    script = folder / "peer.py"
    script.write_text(PEER)
    words = [python, script, program, str(runs), folder / "parsl"]
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"  # where it looks for its own parts
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": path},
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def peer(process: subprocess.Popen[str], what: str) -> Run:
    """The same of Parsl, as many at once as it was told in the beginning."""

    def run(_: int) -> float:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(what + "\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    return run


def ways(stack: ExitStack, folder: Path, asked: argparse.Namespace) -> dict[str, Run]:
    """Everything that is measured, ready to run."""
    program, tags = tiny(folder), count(1)
    local = stack.enter_context(Local(folder / "local", SLOTS))
    auto = stack.enter_context(Dask(folder / "auto", SLOTS))
    single = stack.enter_context(Dask(folder / "one", SLOTS, options=DaskOptions(batch="1")))
    workers = LocalCluster(
        n_workers=SLOTS, threads_per_worker=1, host="127.0.0.1",
        dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL,
    )  # fmt: skip
    client = stack.enter_context(Client(stack.enter_context(workers)))
    found = {
        "local": at(local, program, tags),
        "dask, batches": at(auto, program, tags),
        "dask, one in a task": at(single, program, tags),
        "dask, functions": calls(auto, folder, tags),
        "bare Dask, nothing": bare(client, int),
        "bare Dask, the program": bare(client, started, str(program)),
    }
    if asked.peers:
        process = stack.enter_context(parsl(program, asked.runs, asked.cache, folder))
        found["Parsl, nothing"] = peer(process, "nothing")
        found["Parsl, the program"] = peer(process, "program")
    return found


def main() -> None:
    """Measures all and prints the ratios to the local place."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    folder = Path(tempfile.mkdtemp(dir=Path.cwd(), prefix=".places-"))
    try:
        with ExitStack() as stack:
            each = ways(stack, folder, asked)
            for run in each.values():
                run(min(asked.runs, 200))
            rounds = [{n: run(asked.runs) for n, run in each.items()} for _ in range(asked.rounds)]
    finally:
        shutil.rmtree(folder)
    rates = {name: statistics.median(found[name] for found in rounds) for name in each}
    # Within a round both had the same machine, or nearly.
    shares = {
        name: statistics.median(found[name] / found["local"] for found in rounds) for name in each
    }
    if asked.json:
        print(json.dumps({"rates": rates, "of_local": shares}))
        return
    print(f"{'two at a time':24} {'a second':>9} {'of local':>9}")
    for name, rate in rates.items():
        print(f"{name:24} {rate:9.0f} {shares[name]:9.2f}")


if __name__ == "__main__":
    sys.exit(main())
