"""A sweep of tiny programs: this project against xargs, GNU parallel and its peers.

    python benchmarks/sweep.py [--runs N] [--rounds N] [--peers NAME,...] [--cache DIR] [--json]

A static C program reads the file that was filled for it and prints one number; two at a time. All
but xargs make a folder for each run, fill the file, keep the output, find the number by a regular
expression and remember it, so that the same command goes on where it was stopped; see ``sweeps/``.

Whole commands are timed, start-up included, and every number is read back from where the tool keeps
it. Other work on the machine harms all alike: xargs runs just before and just behind each command,
and a tool's share is of the mean of these two. Peers come by pip, each into an environment of its
own below --cache; GNU parallel and JUBE are those of the system (Debian: parallel, jube). A peer
that would take more than about a minute makes fewer runs, as many as the table says.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from sweeps import tiny
from sweeps.peers import OURS, PEERS, Peer
from sweeps.tiny import Taken

FILES = Path(__file__).resolve().parent / "sweeps"
CACHE = Path.home() / ".cache" / "zenturio-benchmarks"
ENOUGH = 30.0
"""Seconds after which a peer is not measured once more."""
BESIDE = 1000
"""Programs that xargs starts each time."""


@dataclass(frozen=True)
class Measured:
    """A tool: experiments a second, its share of the rate of xargs beside it, and the cost."""

    name: str
    version: str
    runs: int
    rate: float
    share: float
    cpu: float
    """Milliseconds of the processors for each experiment; hardly harmed by other work."""
    load: str
    lost: int = 0
    """Results that are not where the tool keeps them, though its command succeeded."""


def measure(
    peer: Peer, runs: int, rounds: int, program: Path, cache: Path
) -> tuple[Measured, Measured]:
    """The tool and the xargs beside it: medians of *rounds*, fewer where one takes long."""
    tools: list[Taken] = []
    others: list[Taken] = []
    lost = 0
    while len(tools) < rounds and sum(each.wall for each in tools) < ENOUGH:
        tool, other, missing = _once(peer, runs, program, cache)
        tools.append(tool)
        others.append(other)
        lost = max(lost, missing)
    shares = [b.wall / BESIDE * runs / a.wall for a, b in zip(tools, others, strict=True)]
    version = "" if peer is OURS else peer.version(cache)
    found = _measured(peer.name, version, runs, tools, median(shares), lost)
    return found, _measured("xargs -P2", "", BESIDE, others, 1.0)


def _measured(
    name: str, version: str, runs: int, taken: list[Taken], share: float, lost: int = 0
) -> Measured:
    rate = median(runs / each.wall for each in taken)
    cpu = median(each.cpu / runs * 1000 for each in taken)
    return Measured(name, version, runs, rate, share, cpu, tiny.load(), lost)


def _once(peer: Peer, runs: int, program: Path, cache: Path) -> tuple[Taken, Taken, int]:
    """What the sweep takes, what xargs takes in the mean before and behind, and what is lost."""
    with tempfile.TemporaryDirectory(dir=cache) as name:
        folder = Path(name)
        if peer is OURS:
            tiny.annotate(folder, program, runs)
        else:
            shutil.copytree(FILES, folder, dirs_exist_ok=True)
            (folder / "input.txt").write_text(tiny.TEMPLATE)
        given = {"PROGRAM": str(program), "RUNS": str(runs), "JOBS": str(tiny.JOBS)}
        path = f"{cache / peer.package / 'bin'}:/usr/bin:/bin"
        before = tiny.xargs(program, folder, BESIDE)
        taken = tiny.timed(peer.command, folder, tiny.environment(cache, **given, PATH=path))
        after = tiny.xargs(program, folder, BESIDE)
        wanted, found = {2.0 * n for n in range(1, runs + 1)}, set(peer.results(folder))
        if found - wanted:
            raise SystemExit(f"{peer.name} has results that nobody asked for")
    beside = Taken((before.wall + after.wall) / 2, (before.cpu + after.cpu) / 2)
    return taken, beside, len(wanted - found)


def table(found: list[Measured], own: Measured, missing: dict[str, str]) -> str:
    """Markdown."""
    lines = [
        "| tool | runs | experiments/s | of `xargs -P2` | zenturio is faster by | CPU ms each |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for each in found:
        times = "" if each is own else f"{own.share / each.share:.2f}"
        name = f"{each.name} {each.version}".strip()
        numbers = f"{each.rate:,.0f} | {each.share:.3f} | {times} | {each.cpu:.2f}"
        lost = f" ({each.lost} lost)" if each.lost else ""
        lines.append(f"| {name} | {each.runs:,}{lost} | {numbers} |")
    lines += [f"| {name} | not measured: {why} | | | | |" for name, why in missing.items()]
    return "\n".join(lines)


def main() -> None:
    """Measures one tool after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", help="only those whose names contain one of these words")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"default: {CACHE}")
    parser.add_argument("--patience", type=float, default=0, help="seconds to wait for a calm")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    asked.cache.mkdir(parents=True, exist_ok=True)
    program, cache = tiny.program(asked.cache), asked.cache.resolve()
    words = [""] if asked.peers is None else asked.peers.lower().split(",")
    measure(OURS, 10, 1, program, cache)  # so that bytecode is there
    tiny.calm(asked.patience)
    own, xargs = measure(OURS, asked.runs, asked.rounds, program, cache)
    found, missing = [xargs, own], {}
    for peer in PEERS:
        if not any(word in peer.name.lower() for word in words):
            continue
        if why := peer.ready(cache):
            missing[peer.name] = why
            continue
        tiny.calm(asked.patience)
        found.append(measure(peer, min(asked.runs, peer.most), asked.rounds, program, cache)[0])
        print(found[-1], file=sys.stderr)
    if asked.json:
        facts = {"measured": [asdict(each) for each in found], "missing": missing}
        print(json.dumps(facts, indent=2))
    else:
        print(f"{asked.runs:,} runs, {tiny.JOBS} at a time; {own.load}\n")
        print(table(found, own, missing))


if __name__ == "__main__":
    main()
