"""How many commands a second a host takes: OpenSSH's ways, and this project's connection.

    python benchmarks/ssh.py [--commands N] [--rounds N] [--json]

A server on a loopback port with keys of its own runs ``true`` again and again: a client for each
command, a client for each command through one multiplexed connection (ControlMaster), and requests
through our one connection. Then whole experiments: a folder, a file, a command, its output and a
metric brought back. With asyncssh on the path, that too. Rounds alternate; medians count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from sshd import SSHD, Testbed
from zenturio.annotate.model import Metric
from zenturio.execute.hosts.connection import Connection, ssh_command
from zenturio.execute.hosts.executor import Hosts, HostsSettings
from zenturio.experiment import Experiment, ExperimentFile, Recipe, Step
from zenturio.experiment.identity import experiment_digest

RECIPE = Recipe((Metric("gflops", "stdout", r"GFLOPS=(\S+)"),))


def each_alone(testbed: Testbed, count: int) -> float:
    """Commands a second, with a client and a connection for each."""
    words = ["ssh", "-F", testbed.folder / "ssh_config", "-o", "BatchMode=yes", "one", "true"]
    return _timed(count, lambda: subprocess.run(words, check=True))


def multiplexed(testbed: Testbed, count: int) -> float:
    """Commands a second, with a client for each, through one connection."""
    control = testbed.folder / "control"
    usual = ["-F", testbed.folder / "ssh_config", "-S", control]
    subprocess.run(["ssh", *usual, "-M", "-N", "-f", "one"], check=True, stderr=subprocess.DEVNULL)
    try:
        return _timed(count, lambda: subprocess.run(["ssh", *usual, "one", "true"], check=True))
    finally:
        command = ["ssh", *usual, "-O", "exit", "one"]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


def ours(testbed: Testbed, count: int, do: dict[str, str]) -> float:
    """Requests a second through the connection that hosts have."""
    words = ssh_command(
        "one", port=None, user="", options=("-F", str(testbed.folder / "ssh_config")), patience=10
    )
    folder = str(testbed["one"].folder / "work")
    connection = Connection(
        words,
        "python3",
        folder,
        "bench",
        patience=10,
        on_event=lambda _event: None,
        on_dropped=lambda _connection: None,
    )
    try:
        return _timed(count, lambda: connection.ask(**do))
    finally:
        connection.close()


def with_asyncssh(testbed: Testbed, count: int) -> float:
    """Commands a second through asyncssh: one connection, a channel for each command."""
    import asyncssh

    async def run() -> float:
        async with asyncssh.connect(
            "127.0.0.1",
            testbed["one"].port,
            client_keys=[str(testbed.folder / "key")],
            known_hosts=str(testbed.folder / "known_hosts"),
        ) as connection:
            begun = time.perf_counter()
            for _ in range(count):
                await connection.run("true", check=True)
            return count / (time.perf_counter() - begun)

    return asyncio.run(run())


def experiments(testbed: Testbed, folder: Path, count: int, tag: int) -> float:
    """Whole experiments a second, four at a time."""
    path = testbed.write(folder / f"hosts{tag}.toml", one={"slots": 4, "speed": 1.0})
    made = []
    for i in range(count):
        files, steps = (ExperimentFile("input", 0o644, b"%d" % i),), (Step("echo GFLOPS=3.2"),)
        name = experiment_digest(files, steps, {}, tag)
        made.append(Experiment(name, i, tag, {"n": i}, files, steps, {}, None, RECIPE))
    with Hosts(folder / "zen", options=HostsSettings(str(path))) as place:
        begun = time.perf_counter()
        outcomes = [future.result() for future in [place.submit(each) for each in made]]
        taken = time.perf_counter() - begun
    if any(outcome.metrics["gflops"] != 3.2 for outcome in outcomes):
        raise SystemExit("not every run was measured")
    return count / taken


def _timed(count: int, call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    for _ in range(count):
        call()
    return count / (time.perf_counter() - begun)


def main() -> None:
    """Measures all in turn and prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--commands", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if not Path(SSHD).exists():
        print("sshd is not installed: nothing to measure (Debian: openssh-server)")
        return
    os.environ["ZENTURIO_TRUST"] = "1"  # the settings that it writes are its own
    count = asked.commands
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with Testbed(folder / "sshd", ["one"]) as testbed:
            ways: dict[str, Callable[[int], float]] = {
                "a client for each command": lambda _: each_alone(testbed, max(count // 10, 5)),
                "through ControlMaster": lambda _: multiplexed(testbed, count),
                "ours, a command": lambda _: ours(
                    testbed, count, {"do": "command", "command": "true"}
                ),
                "ours, a request": lambda _: ours(testbed, 5 * count, {"do": "hello"}),
                "ours, an experiment": lambda tag: experiments(testbed, folder, count, tag),
            }
            try:
                import asyncssh  # noqa: F401
            except ImportError:
                pass
            else:
                ways["asyncssh"] = lambda _: with_asyncssh(testbed, count)
            found: dict[str, list[float]] = {name: [] for name in ways}
            for tag in range(asked.rounds):
                for name, way in ways.items():
                    found[name].append(way(tag))
    rates = {name: statistics.median(each) for name, each in found.items()}
    if asked.json:
        print(json.dumps(rates))
        return
    alone = rates["a client for each command"]
    for name, rate in rates.items():
        print(f"{name:28} {rate:8.1f}/s  {rate / alone:6.1f} x")


if __name__ == "__main__":
    main()
