"""Does the work for an application grow no faster than its files and parameters?

    python benchmarks/application_files.py [--sizes N N N] [--parameters N N N] [--json]
        [--write FILE.md]

Counted work, which does not depend on the machine, beside processor seconds, which do. The exponent
is that of the count between the two largest sizes: 0 is constant, 1 is linear. Exits with 1 if one
is larger than what is promised. --write puts the table between the marks of a page, and the numbers
into `application_files.json`, by which a test holds the page.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import growth

KEPT = Path(__file__).with_suffix(".json")
MARK = "files"
IN_A_FOLDER, BYTES = 100, 2000
THREADS = 4
TOLERANCE = 0.15
"""What fixed costs of small sizes, and logarithms, may add to an exponent."""
AGE_SECONDS = 2.1
"""Digests of younger files are not remembered."""

counts: Counter[str] = Counter()


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 10000])
    parser.add_argument("--parameters", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", type=Path, metavar="FILE.md")
    options = parser.parse_args()
    sys.addaudithook(lambda event, _: counts.update([event]) if event == "open" else None)
    with tempfile.TemporaryDirectory(prefix="zenturio-files-") as name:
        os.environ["XDG_CACHE_HOME"] = f"{name}/cache"
        rows = [*files_rows(Path(name), options.sizes), *planning_rows(options.parameters)]
    faults = [row for row in rows if row["exponent"] > row["promise"] + TOLERANCE]
    print(json.dumps(rows, indent=2) if options.json else table(rows), end="")
    if options.write:
        KEPT.write_text(json.dumps(rows, indent=1) + "\n")
        growth.write(options.write, MARK, table(rows))
    for row in faults:
        print(f"{row['what']}: exponent {row['exponent']:.2f}, promised {row['promise']}")
    raise SystemExit(1 if faults else 0)


def files_rows(folder: Path, sizes: list[int]) -> Iterator[dict[str, Any]]:
    """What is opened and compared for applications of *sizes* files."""
    for size in sizes:
        make_application(folder / f"app{size}", size)
    time.sleep(AGE_SECONDS)
    measured = [measure_files(folder, size) for size in sizes]
    promises = {
        "check, empty cache: files opened": 1,
        "check, nothing changed: files opened": 0,
        "fill a new folder for an experiment: files opened": 1,
        # The contents of a small application are held in memory, those of a large one read again.
        "fill a second new folder for an experiment: files opened": 1.3,
        **{f"the same folder, {what}": promise for what, (_, _, promise) in BARE.items()},
        "fill a used folder for an experiment: files opened": 0,
        "fill a used folder for an experiment: files compared": 1,
    }
    for what, promise in promises.items():
        yield row(what, sizes, [each[what] for each in measured], promise)


def make_application(folder: Path, size: int) -> None:
    folder.mkdir()
    (folder / "main.sh").write_text(
        '# ZEN$ SUBSTITUTE N = { 1, 2, 3 }\n# ZEN$ RUN "sh main.sh"\necho N\n'
    )
    for number in range(size):
        path = folder / f"part{number // IN_A_FOLDER}" / f"file{number}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"%d\n" % number + b"x" * BYTES)


def measure_files(folder: Path, size: int) -> dict[str, tuple[int, float]]:
    """Return the counts and processor seconds of each row."""
    from zenturio.annotate.scan import scan
    from zenturio.execute import workspace
    from zenturio.execute.file_staging import InputCache
    from zenturio.experiment import ExperimentGenerator

    source = folder / f"app{size}"
    first = counted("open", lambda: scan(source))
    again = counted("open", lambda: scan(source))
    application = scan(source)
    (experiment,) = ExperimentGenerator(application).experiments(application.space.point(0))
    constants, filled = workspace.part_files(experiment.files)
    plan, inputs = workspace.FolderPlan(constants), InputCache(folder / "inputs")
    path = folder / f"slot{size}"
    path.mkdir()
    slot = workspace.StagedFolder(str(path))
    new = counted("open", lambda: slot.fill(plan, filled, inputs))
    used = counted("open", lambda: slot.fill(plan, filled, inputs))
    (path := folder / f"second{size}").mkdir()
    other = workspace.StagedFolder(str(path))
    second = counted("open", lambda: other.fill(plan, filled, inputs))
    with counting_lstat():
        compared = counted("lstat", lambda: slot.fill(plan, filled, inputs))
    return {
        "check, empty cache: files opened": first,
        "check, nothing changed: files opened": again,
        "fill a new folder for an experiment: files opened": new,
        "fill a second new folder for an experiment: files opened": second,
        **{
            f"the same folder, {what}": counted(
                "open", partial(copy, source, folder / f"bare{number}-{size}", put, threads)
            )
            for number, (what, (put, threads, _)) in enumerate(BARE.items())
        },
        "fill a used folder for an experiment: files opened": used,
        "fill a used folder for an experiment: files compared": compared,
    }


def copy(source: Path, target: Path, put: Way, threads: int) -> None:
    """Make the folders of *source* anew, and put each file there: the least that can be done."""
    pairs = []
    for folder, _, names in os.walk(source):
        below = f"{target}{folder.removeprefix(str(source))}"
        Path(below).mkdir()
        pairs += [(f"{folder}/{name}", f"{below}/{name}") for name in names]
    if threads == 1:
        for pair in pairs:
            put(*pair)
        return
    with ThreadPoolExecutor(threads) as pool:
        deque(pool.map(lambda pair: put(*pair), pairs), maxlen=0)


def write_copy(source: str, target: str) -> None:
    with Path(source).open("rb", 0) as old, Path(target).open("xb", 0) as new:
        new.write(old.read())


def copy_in_kernel(source: str, target: str) -> None:
    with Path(source).open("rb", 0) as old, Path(target).open("xb", 0) as new:
        os.copy_file_range(old.fileno(), new.fileno(), 1 << 30)


def write_nothing(_source: str, target: str) -> None:
    with Path(target).open("xb", 0):
        pass


Way = Callable[[str, str], None]
BARE: dict[str, tuple[Way, int, float]] = {
    "copied by a bare loop: files opened": (write_copy, 1, 1),
    "copied in the kernel: files opened": (copy_in_kernel, 1, 1),
    f"copied by {THREADS} threads: files opened": (write_copy, THREADS, 1),
    "with empty files: files opened": (write_nothing, 1, 1),
    "by symbolic links: files opened": (os.symlink, 1, 0),
    "by hard links: files opened": (os.link, 1, 0),
}
"""Bare ways to make the same folder in the same minutes, with their threads and their promises. A
folder of an experiment has copies: through links a program could write into its inputs."""


def counted(event: str, act: Callable[[], object]) -> tuple[int, float]:
    """Return how often *event* came while *act* ran, and its processor seconds."""
    before, began = counts[event], time.process_time()
    act()
    return counts[event] - before, time.process_time() - began


@contextmanager
def counting_lstat() -> Iterator[None]:
    lstat = os.lstat

    def count(*arguments: Any, **options: Any) -> os.stat_result:
        counts["lstat"] += 1
        return lstat(*arguments, **options)

    os.lstat = count
    try:
        yield
    finally:
        os.lstat = lstat


def planning_rows(sizes: list[int]) -> Iterator[dict[str, Any]]:
    """What is asked of the sets while spaces are counted whose parameters are tied to a chain."""
    from zenturio.expression import parse
    from zenturio.space import Space
    from zenturio.space.column_join import PlannerStatistics

    ask = PlannerStatistics.count

    def count(self: PlannerStatistics, name: str) -> int:
        counts["asked"] += 1
        return ask(self, name)

    def count_points(size: int) -> int:
        sets = {f"p{i}": range(10) for i in range(size)}
        return Space(constraints=[f"p{i} <= p{i + 1}" for i in range(size - 1)], **sets).size

    parse("1")  # what is loaded once is not of the first size
    PlannerStatistics.count = count  # type: ignore[method-assign]
    try:
        measured = [counted("asked", lambda size=size: count_points(size)) for size in sizes]
    finally:
        PlannerStatistics.count = ask  # type: ignore[method-assign]
    yield row("count a chain of parameters: sets queried", sizes, measured, 1)


def row(
    what: str, sizes: list[int], measured: list[tuple[int, float]], promise: float
) -> dict[str, Any]:
    """The counts at all sizes, and how they grow."""
    (before, last), (size, largest) = [count for count, _ in measured[-2:]], sizes[-2:]
    exponent = math.log(max(last, 1) / max(before, 1)) / math.log(largest / size)
    return {
        "what": what,
        "sizes": sizes,
        "counts": [count for count, _ in measured],
        "cpu": [seconds for _, seconds in measured],
        "exponent": exponent,
        "promise": promise,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown."""
    lines = [
        "| what | sizes | counted | processor | exponent | promised |",
        "|---|---|---|---|---:|---:|",
    ]
    for each in rows:
        sizes = ", ".join(f"{size:,}" for size in each["sizes"])
        counted = ", ".join(f"{count:,}" for count in each["counts"])
        seconds = ", ".join(f"{1000 * s:,.1f}" for s in each["cpu"])
        lines.append(
            f"| {each['what']} | {sizes} | {counted} | {seconds} ms | {each['exponent']:.2f} "
            f"| {each['promise']} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
