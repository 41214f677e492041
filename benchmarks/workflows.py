"""How fast workflows are made, written and read: against json.loads and networkx, in one run.

    python benchmarks/workflows.py [--tasks N] [--rounds N] [--json]

A trace is scaled to so many tasks, written, read and put in order. The peer of reading is
json.loads of the same text, which checks nothing and makes no columns; that of making is a
networkx.DiGraph with the same tasks and edges as attributes. Medians of processor time count; peak
memory is told for two sizes, for it must grow as they do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TRACE = Path(__file__).parents[1] / "tests/schedule/data/pegasus.json"
PEAK = """\
import re, sys
from zenturio.schedule.formats.files import read_workflow
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
before = peak()
read_workflow(sys.argv[1])
print(peak() - before)
"""


def seconds(work: Callable[[], Any], rounds: int) -> float:
    """The median of the processor time that *work* takes."""
    found = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return statistics.median(found)


def peak(path: Path) -> int:
    """Kilobytes that reading *path* adds to a process."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def graph(flow: Any) -> Any:
    """The peer: nodes and edges with attributes, from the same columns."""
    import networkx as nx

    found = nx.DiGraph()
    found.add_nodes_from((n, {"work": w}) for n, w in zip(flow.names, flow.work, strict=True))
    found.add_edges_from((a, b, {"bytes": data}) for a, b, data in flow.edges)
    return found


def measure(tasks: int, rounds: int) -> dict[str, Any]:
    from zenturio.schedule.formats.files import read_workflow, write_workflow
    from zenturio.schedule.generators.generator import scale

    trace = read_workflow(TRACE)
    flow = scale(trace, tasks)
    with tempfile.TemporaryDirectory(prefix="zen-flow-") as folder:
        path, half = Path(folder, "flow.json"), Path(folder, "half.json")
        facts: dict[str, Any] = {
            "tasks": tasks,
            "make": seconds(lambda: scale(trace, tasks), rounds),
            "networkx": seconds(lambda: graph(flow), rounds),
            "write": seconds(lambda: write_workflow(flow, path), rounds),
            "read": seconds(lambda: read_workflow(path), rounds),
            "loads": seconds(lambda: json.loads(path.read_text()), rounds),
        }
        write_workflow(scale(trace, tasks // 2), half)
        facts |= {"peak_kb": peak(path), "peak_kb_half": peak(half)}
    facts["order"] = seconds(lambda: scale(trace, tasks).order, rounds) - facts["make"]
    facts["make_ratio"] = facts["networkx"] / facts["make"]
    facts["read_ratio"] = facts["read"] / facts["loads"]
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    facts = measure(given.tasks, given.rounds)
    if given.json:
        print(json.dumps(facts, indent=2))
        return
    print(f"{facts['tasks']:,} tasks, seconds of one processor")
    print(f"make   {facts['make']:.2f}, networkx {facts['networkx']:.2f}: "
          f"{facts['make_ratio']:.1f} times as fast")  # fmt: skip
    print(f"write  {facts['write']:.2f}")
    print(f"read   {facts['read']:.2f}, json.loads {facts['loads']:.2f}: "
          f"{facts['read_ratio']:.1f} times as long")  # fmt: skip
    print(f"order  {facts['order']:.2f}")
    print(f"peak   {facts['peak_kb'] / 1000:.0f} MB, half the tasks "
          f"{facts['peak_kb_half'] / 1000:.0f} MB")  # fmt: skip


if __name__ == "__main__":
    main()
