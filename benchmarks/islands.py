"""The genetic search for plans on islands: on one place, on two, and predicted for 64 processors.

    python benchmarks/islands.py [--evaluations 400000] [--islands 64] [--exchanges 8]

The workflow is wien2k with 50 k-points on 16 machines. Rows: one island and two in threads; one
slot and two of the place local; two hosts over SSH (sshd on this machine). All with two islands
give the same plan, or the program fails. Columns: seconds by the clock; seconds of the processor in
the islands; evaluations for each of these; the speedup by the clock over the first row; the speedup
if each island had a processor, where each step takes as long as its slowest island; and the same
with the start of each step, which is what it took by the clock beyond its islands. On a machine
that is busy with other things, seconds by the clock say little: see the load that is printed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from sshd import SSHD, Testbed
from zenturio.execute.island_runner import PlaceRunner
from zenturio.execute.places import open_place
from zenturio.schedule.commands import PlanRequest
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.static.islands import Island, IslandRunner, ThreadRunner


class StepRecorder:
    """A runner of islands that records how long each step takes."""

    def __init__(self, runner: IslandRunner) -> None:
        self.slots, self._runner = runner.slots, runner
        self.processor: list[list[float]] = []
        self.clock: list[float] = []

    def evolve(
        self, islands: Sequence[Island], until: Sequence[int], seconds: float
    ) -> list[float]:
        began = monotonic()
        self.processor.append(self._runner.evolve(islands, until, seconds))
        self.clock.append(monotonic() - began)
        return self.processor[-1]


def planned(runner: IslandRunner, islands: int, options: argparse.Namespace) -> Plan:
    settings = {
        "islands": islands,
        "evaluations": options.evaluations,
        "exchanges": options.exchanges,
    }
    texts = {name: str(value) for name, value in settings.items()}
    plan = PlanRequest("wien2k:kpoints=50", "identical:16", "ga", settings=texts).plan(
        islands=runner
    )
    assert isinstance(plan, Plan)
    return plan


@contextmanager
def two_hosts(folder: Path) -> Iterator[str]:
    """Start two servers that have this zenturio; yield the file that lists them."""
    os.environ["ZENTURIO_TRUST"] = "1"  # the file names the options of ssh
    with Testbed(folder / "sshd", ["one", "two"], has_zenturio=True) as testbed:
        machines = {name: {"slots": 1, "speed": 1.0} for name in testbed.servers}
        yield str(testbed.write(folder / "hosts.toml", {"connect": 60}, **machines))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--evaluations", type=int, default=400_000)
    parser.add_argument("--islands", type=int, default=64)
    parser.add_argument("--exchanges", type=int, default=8)
    options = parser.parse_args()
    quick = argparse.Namespace(evaluations=100, exchanges=1)
    planned(ThreadRunner(), 2, quick)  # compiled before it counts
    print(f"load {os.getloadavg()[0]:.0f}, {len(os.sched_getaffinity(0))} cores\n")
    names = ("islands", "clock s", "processor s", "evaluations/processor s", "speedup by the clock",
             "predicted, a processor each", "and start s of a step")  # fmt: skip
    print("| | " + " | ".join(names) + " |")
    print("|" + "---|" * (len(names) + 1))
    first: list[float] = []

    def show(name: str, runner: IslandRunner, islands: int) -> Plan:
        recorder = StepRecorder(runner)
        plan = planned(recorder, islands, options)
        used, clock = sum(map(sum, recorder.processor)), sum(recorder.clock)
        apart = sum(map(max, recorder.processor))
        starts = [c - max(p) for c, p in zip(recorder.clock, recorder.processor, strict=True)]
        first.append(clock)
        cells = (islands, f"{clock:.2f}", f"{used:.2f}", f"{plan.notes['evaluations'] / used:.0f}",
                 f"{first[0] / clock:.2f}", f"{used / apart:.2f}",
                 f"{sorted(starts)[len(starts) // 2]:.3f}")  # fmt: skip
        print(f"| {name} | " + " | ".join(map(str, cells)) + " |", flush=True)
        return plan

    show("a thread", ThreadRunner(), 1)
    plans = [show("threads", ThreadRunner(), 2)]
    with tempfile.TemporaryDirectory() as folder:
        with open_place("local", Path(folder) / "a" / ".zenturio", 1) as place:
            planned(PlaceRunner(place, "local"), 1, quick)  # the launcher has started
            show("place local, 1 slot", PlaceRunner(place, "local"), 1)
        with open_place("local", Path(folder) / "b" / ".zenturio", 2) as place:
            planned(PlaceRunner(place, "local"), 2, quick)
            plans.append(show("place local, 2 slots", PlaceRunner(place, "local"), 2))
        if shutil.which("ssh") and Path(SSHD).exists():
            with (
                two_hosts(Path(folder) / "c") as file,
                open_place(file, Path(folder) / "c" / ".zenturio") as place,
            ):
                planned(PlaceRunner(place, "hosts"), 2, quick)
                plans.append(show("two hosts over SSH", PlaceRunner(place, "hosts"), 2))
    show("threads", ThreadRunner(), options.islands)
    for plan in plans[1:]:
        if plan.start.tolist() != plans[0].start.tolist():
            raise SystemExit("the plan of a place is not that of threads")
    print("\nTwo islands found the same plan everywhere.")


if __name__ == "__main__":
    main()
