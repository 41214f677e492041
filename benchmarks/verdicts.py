"""Which verdicts on two versions hold: false alarms and power, beside the rules of other tools.

    python benchmarks/verdicts.py [--replicates 400] [--rounds 20] [--no-peers] [--json]

Simulated: times of two versions under noises that machines have. Our verdicts come from blocks in
random order with up to five looks; the peers' rules get 20 runs of one version and then 20 of the
other from the same noise, as these tools run them. pyperf and pytest-benchmark judge by their own
functions, from an environment of their own in the cache folder; of hyperfine it is the rule that
its report suggests: 1 lies outside of the ratio plus or minus its deviation.

Real: a kernel in C beside a neighbour that is busy every other half second, equal and 10% slower,
in blocks and one after the other; hyperfine itself, where it is installed.

Then change points on generated series, and searches among 64 commits. Seeds are fixed. The exit
status is 1 if our false alarms exceed 5% by more than three standard errors.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from zenturio.experiment.signed_ranks import BlockPlan, decide_in_looks, hodges_lehmann
from zenturio.query.statistics import change_points
from zenturio.study.paired.bisect_and_history import Bisection
from zenturio.study.paired.paired_study import MeasuredBlocks

RUNS = 20
"""Of each version, for rules that do not look again."""
BLOCKS = 50
"""After which a comparison ends."""
PEERS = ("pyperf==2.10.0", "pytest-benchmark==5.3.1")
DIFFERENCES = (0.0, 0.02, 0.05, 0.10)
Noise = Callable[[np.random.Generator, int], np.ndarray]


def white(draw: np.random.Generator, count: int) -> np.ndarray:
    """2% of noise in each run."""
    return 0.02 * draw.normal(size=count)


def drift(draw: np.random.Generator, count: int) -> np.ndarray:
    """A machine that gets 20% slower, or faster."""
    slope = np.linspace(0.0, 0.2, count) * draw.choice([-1.0, 1.0])
    return 0.01 * draw.normal(size=count) + slope


def neighbour(draw: np.random.Generator, count: int) -> np.ndarray:
    """A neighbour that comes and goes, and costs 50%."""
    period = int(draw.integers(10, 30))
    busy = (np.arange(count) + draw.integers(2 * period)) // period % 2
    return 0.02 * draw.normal(size=count) + 0.4 * busy


def two_modes(draw: np.random.Generator, count: int) -> np.ndarray:
    """A mode that is 5% slower, in half of the runs."""
    return 0.01 * draw.normal(size=count) + 0.05 * draw.integers(0, 2, count)


def heavy_tails(draw: np.random.Generator, count: int) -> np.ndarray:
    """Runs that are sometimes much slower (Pareto, 1.5)."""
    return 0.02 * draw.pareto(1.5, count)


def autocorrelated(draw: np.random.Generator, count: int) -> np.ndarray:
    """A machine whose speed wanders (AR(1), 0.9)."""
    values = np.zeros(count)
    for at in range(1, count):
        values[at] = 0.9 * values[at - 1] + 0.02 * draw.normal()
    return values + 0.005 * draw.normal(size=count)


NOISES: dict[str, Noise] = {
    noise.__name__.replace("_", " "): noise
    for noise in (white, drift, neighbour, two_modes, heavy_tails, autocorrelated)
}


def in_looks(differences: dict[int, float]) -> tuple[str, int]:
    """Return our word, and after how many blocks."""
    plan = BlockPlan()
    looked_at = decide_in_looks(
        differences, plan, 0.05, lambda i: i.low > 0 or i.high < 0, reached=max(differences)
    )
    low, _ = looked_at.estimate.interval or (-math.inf, math.inf)
    word = "unclear" if not looked_at.is_decided else "slower" if low > 0 else "faster"
    return word, looked_at.blocks


def interleaved(
    draw: np.random.Generator, noise: Noise, change: float, blocks: int
) -> dict[int, float]:
    """Return the differences of blocks that run both versions in random order."""
    disturbed = noise(draw, 2 * blocks).reshape(blocks, 2)
    coins = draw.choice([-1.0, 1.0], blocks)
    values = coins * (disturbed[:, 1] - disturbed[:, 0]) + math.log1p(change)
    return dict(enumerate(values.tolist(), 1))


def one_after_the_other(
    draw: np.random.Generator, noise: Noise, change: float
) -> tuple[list[float], list[float]]:
    """Return the times of 20 runs of one version, and then of 20 of the other."""
    disturbed = np.exp(noise(draw, 2 * RUNS))
    return disturbed[:RUNS].tolist(), (disturbed[RUNS:] * (1 + change)).tolist()


JUDGE = """
import json, statistics, sys
from pyperf._utils import is_significant
from pytest_benchmark.utils import PercentageRegressionCheck
check = PercentageRegressionCheck("mean", 5.0)
verdicts = []
for first, second in json.load(sys.stdin):
    significant, _ = is_significant(first, second)
    failed = check.fails({"mean": statistics.fmean(second)}, {"mean": statistics.fmean(first)})
    verdicts.append([bool(significant), bool(failed)])
print(json.dumps(verdicts))
"""


def peers_environment(cache: Path) -> Path:
    """Return the interpreter of an environment that has the peers."""
    folder = cache / "verdicts-peers"
    mark = folder / "peers.txt"
    if not mark.exists() or mark.read_text() != " ".join(PEERS):
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", *PEERS]
        subprocess.run(pip, check=True)
        mark.write_text(" ".join(PEERS))
    return folder / "bin" / "python"


def peers_say(python: Path | None, samples: Sequence[Any]) -> dict[str, float]:
    """Return the share of *samples* of which each peer says that they differ."""
    shares = {"hyperfine": sum(_is_outside(*pair) for pair in samples) / len(samples)}
    if python is not None:
        answer = subprocess.run(
            [str(python), "-c", JUDGE], input=json.dumps(samples), capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        columns = list(zip(*json.loads(answer.stdout), strict=True))
        shares["pyperf"] = sum(columns[0]) / len(samples)
        shares["pytest-benchmark"] = sum(columns[1]) / len(samples)
    return shares


def _is_outside(first: Sequence[float], second: Sequence[float]) -> bool:
    """Whether 1 lies outside of hyperfine's ratio plus or minus its deviation."""
    means, deviations = zip(
        *((np.mean(v), np.std(v, ddof=1)) for v in (first, second)), strict=True
    )
    slow, fast = max(means), min(means)
    ratio = slow / fast
    spread = ratio * math.hypot(deviations[0] / means[0], deviations[1] / means[1])
    return bool(ratio - spread > 1)


def simulated(replicates: int, python: Path | None) -> list[dict[str, Any]]:
    """Return a row for each noise and difference: shares of verdicts that say `different`."""
    rows = []
    for name, noise in NOISES.items():
        for change in DIFFERENCES:
            draw = np.random.default_rng([len(name), int(change * 1000)])
            words, blocks, once, samples = Counter[str](), 0, 0, []
            for _ in range(replicates):
                differences = interleaved(draw, noise, change, 50)
                word, count = in_looks(differences)
                words[word], blocks = words[word] + 1, blocks + count
                interval = hodges_lehmann(list(differences.values())[:RUNS], 0.05).interval
                assert interval is not None, "20 blocks have one"
                once += not interval.low <= 0 <= interval.high
                samples.append(one_after_the_other(draw, noise, change))
            rows.append(
                {
                    "noise": name,
                    "difference": change,
                    "ours": (words["slower"] + words["faster"]) / replicates,
                    "wrong": words["faster"] / replicates,
                    "blocks": blocks / replicates,
                    "20 blocks": once / replicates,
                    **peers_say(python, samples),
                }
            )
    return rows


KERNEL = """
#include <stdlib.h>
int main(int c, char **v) {
    volatile double s = 0;
    for (long i = atol(v[1]); i > 0; i--) s += i * 0.5;
    return c - 2;
}
"""
LOOPS = 3_000_000


def _disturb(seconds: float) -> None:
    """Keep a processor busy every other half second, for so long at the most."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pause = time.monotonic() + 0.5
        while time.monotonic() < pause:
            pass
        time.sleep(0.5)


@contextmanager
def busy_neighbour(seconds: float) -> Iterator[None]:
    """Run a neighbour that is busy now and then."""
    process = multiprocessing.Process(target=_disturb, args=(seconds,), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def real(rounds: int, python: Path | None) -> dict[str, Any]:
    """Return the same shares of a kernel on this machine."""
    with tempfile.TemporaryDirectory() as folder, busy_neighbour(3600):
        source, program = Path(folder) / "kernel.c", Path(folder) / "kernel"
        source.write_text(KERNEL)
        subprocess.run(["cc", "-O1", "-o", str(program), str(source)], check=True)

        def run(change: float) -> tuple[float, float]:
            """Return the wall time and the processor time of a run."""
            words = [str(program), str(int(LOOPS * (1 + change)))]
            begin = time.perf_counter()
            _, status, used = os.wait4(os.posix_spawn(words[0], words, {}), 0)
            assert status == 0
            return time.perf_counter() - begin, used.ru_utime + used.ru_stime

        answer: dict[str, Any] = {"rounds": rounds, "load": os.getloadavg()[0]}
        for change in (0.0, 0.10):
            words, samples = Counter[tuple[str, str]](), []
            for _ in range(rounds):
                wall, processor = {}, {}
                for block in range(1, BLOCKS + 1):
                    # From the system: whatever disturbs the machine knows nothing of it.
                    order = random.SystemRandom().sample([0.0, 1.0], 2)
                    times = {side: run(side * change) for side in order}
                    wall[block], processor[block] = (
                        math.log(after / before)
                        for before, after in zip(times[0.0], times[1.0], strict=True)
                    )
                first_blocks = {block: wall[block] for block in range(1, RUNS + 1)}
                words["20 blocks", in_looks(first_blocks)[0]] += 1
                words["50 blocks", in_looks(wall)[0]] += 1
                words["processor time", in_looks(processor)[0]] += 1
                samples.append(
                    ([run(0.0)[0] for _ in range(RUNS)], [run(change)[0] for _ in range(RUNS)])
                )
            ours = {
                name: (words[name, "slower"] + words[name, "faster"]) / rounds
                for name in ("20 blocks", "50 blocks", "processor time")
            }
            answer[f"{change:.0%}"] = {**ours, **peers_say(python, samples)}
        if shutil.which("hyperfine"):
            answer["hyperfine itself, equal"] = _hyperfine(program, max(1, rounds // 4))
    return answer


def _hyperfine(program: Path, rounds: int) -> float:
    """Return in which share of rounds hyperfine's own figures say that equal programs differ."""
    different = 0
    for _ in range(rounds):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            words = ["hyperfine", "-N", "--runs", str(RUNS), "--export-json", file.name]
            subprocess.run([*words, f"{program} {LOOPS}", f"{program} {LOOPS} "],
                           check=True, capture_output=True)  # fmt: skip
            first, second = (r["times"] for r in json.load(file)["results"])
        different += _is_outside(first, second)
    return different / rounds


def series(replicates: int) -> dict[str, float]:
    """Return how many steps of 5% are found, and how many false ones, in series of 300 values."""
    draw = np.random.default_rng(5)
    false = sum(len(change_points(white(draw, 300).tolist())) for _ in range(replicates))
    hits = 0
    for _ in range(replicates):
        values, at = white(draw, 300), int(draw.integers(30, 270))
        values[at:] += math.log(1.05)
        hits += any(abs(point.position - at) <= 1 for point in change_points(values.tolist()))
    return {"found": hits / replicates, "false in 1,000 commits": false / (0.3 * replicates)}


def searches(tries: int) -> list[dict[str, Any]]:
    """Return how searches among 64 commits end, by noise and change."""
    rows = []
    for name in ("white", "two modes", "heavy tails"):
        for change in (0.02, 0.05, 0.10):
            draw = np.random.default_rng([len(name), int(change * 100)])
            ends, runs = Counter[str](), []
            for _ in range(tries):
                place = int(draw.integers(1, 64))
                search, measured = _search(draw, NOISES[name], place, change)
                is_right = search.first_different == place
                word = ("right" if is_right else "wrong") if search.state == "found" else "open"
                ends[word] += 1
                runs.append(measured.runs)
            rows.append(
                {
                    "noise": name,
                    "change": change,
                    **{word: ends[word] for word in ("right", "wrong", "open")},
                    "median runs": int(np.median(runs)),
                }
            )
    return rows


def _search(
    draw: np.random.Generator, noise: Noise, place: int, change: float
) -> tuple[Bisection, MeasuredBlocks]:
    labels = tuple(map(str, range(64)))
    search, measured = Bisection(labels), MeasuredBlocks()
    while (block := search.next_block(measured)) is not None:
        disturbed = noise(draw, len(block.labels))
        for value, label in zip(disturbed, draw.permutation(block.labels), strict=True):
            slow = math.log1p(change) if int(label) >= place else 0.0
            measured.add(str(label), 0, block.number, math.exp(slow + value))
        measured.reached = block.number
    return search, measured


def _print(rows: Sequence[dict[str, Any]]) -> None:
    heads = list(rows[0])
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for row in rows:
        cells = (
            f"{row[h]:.1f}" if h == "blocks" else f"{row[h]:.1%}" if isinstance(row[h], float)
            else str(row[h]) for h in heads
        )  # fmt: skip
        print("| " + " | ".join(cells) + " |")
    print()


def main() -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=400, help="simulated comparisons a cell")
    parser.add_argument("--rounds", type=int, default=20, help="rounds on this machine; 0 for none")
    parser.add_argument("--tries", type=int, default=100, help="searches a cell")
    parser.add_argument("--no-peers", action="store_true", help="install nothing")
    parser.add_argument("--cache", type=Path, default=Path("build/peers"), help="for the peers")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    python = None if options.no_peers else peers_environment(options.cache.absolute())
    answer: dict[str, Any] = {"simulated": simulated(options.replicates, python)}
    if options.rounds:
        answer["real"] = real(options.rounds, python)
    answer["change points"] = series(max(10, options.replicates // 2))
    answer["searches"] = searches(options.tries)
    if options.json:
        print(json.dumps(answer, indent=2))
    else:
        _print(answer["simulated"])
        for name in ("real", "change points"):
            print(f"{name}: {answer.get(name)}\n")
        _print(answer["searches"])
    most = 0.05 + 3 * math.sqrt(0.05 * 0.95 / options.replicates)
    false = [row for row in answer["simulated"] if not row["difference"] and row["ours"] > most]
    for row in false:
        print(f"false alarms under {row['noise']}: {row['ours']:.1%}", file=sys.stderr)
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main())
