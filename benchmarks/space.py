"""How fast a constrained space is made: against python-constraint2, pyATF, and the memory's speed.

    python benchmarks/space.py [--json] [--only NAME ...] [--cache FOLDER] [--patience SECONDS]

The peers are installed with pip into an environment of their own in the cache folder. What is
timed is what a user waits for: from the sets and the constraints as texts (for pyATF, which takes
none, as functions) until all valid points are there: ours as columns, python-constraint2's as the
fastest of its lists, pyATF's as its trees. These stand apart for parts of the space that share no
constraint, so pyATF never writes the product of them; what comes nearest is to count, which is
timed for ours as well. Every program runs in a process of its own, warm, the best of some rounds;
all must find as many points.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

PEERS = ("python-constraint2==2.9.0", "pyatf==0.0.13")
OURS, COUNT = "zenturio", "zenturio, counting only"
POWERS = [2**i for i in range(11)]
Rules = dict[str, Callable[..., bool]]


@dataclass(frozen=True)
class Case:
    """A space: sets, constraints as texts, and the same as functions of a name and names before."""

    sets: dict[str, list]
    constraints: list[str]
    functions: Rules
    valid: int | None = None
    about: str = ""

    @property
    def combinations(self) -> int:
        return math.prod(map(len, self.sets.values()))


def dedispersion() -> Case:
    """The dedispersion kernel of the auto-tuning benchmarks: 22,272 combinations."""
    return Case(
        sets={
            "block_size_x": [1, 2, 4, 8, 16, 32],
            "block_size_y": list(range(32, 257, 8)),
            "tile_size_x": [1, 2, 3, 4],
            "tile_size_y": [1, 2, 3, 4, 5, 6, 7, 8],
            "tile_stride_x": [0, 1],
            "tile_stride_y": [0, 1],
        },
        constraints=[
            "32 <= block_size_x * block_size_y <= 1024",
            "tile_size_x > 1 or tile_stride_x == 0",
            "tile_size_y > 1 or tile_stride_y == 0",
        ],
        functions={
            "block_size_y": lambda block_size_x, block_size_y: (
                32 <= block_size_x * block_size_y <= 1024
            ),
            "tile_stride_x": lambda tile_size_x, tile_stride_x: (
                tile_size_x > 1 or tile_stride_x == 0
            ),
            "tile_stride_y": lambda tile_size_y, tile_stride_y: (
                tile_size_y > 1 or tile_stride_y == 0
            ),
        },
        valid=11_130,
    )


def hotspot() -> Case:
    """The hotspot stencil of the auto-tuning benchmarks: 22,200,000 combinations."""
    memory = (
        "(block_size_x*tile_size_x + temporal_tiling_factor*2)"
        " * (block_size_y*tile_size_y + temporal_tiling_factor*2) * (2+sh_power) * 4"
    )

    def shared(  # the names are what pyATF knows parameters by
        block_size_x, block_size_y, tile_size_x, tile_size_y, temporal_tiling_factor, sh_power
    ):
        wide = block_size_x * tile_size_x + temporal_tiling_factor * 2
        high = block_size_y * tile_size_y + temporal_tiling_factor * 2
        return wide * high * (2 + sh_power) * 4

    def fits(
        block_size_x, block_size_y, tile_size_x, tile_size_y, temporal_tiling_factor, sh_power
    ):
        tiles = (block_size_x, block_size_y, tile_size_x, tile_size_y)
        return shared(*tiles, temporal_tiling_factor, sh_power) <= 49152

    def fits_together(
        block_size_x,
        block_size_y,
        tile_size_x,
        tile_size_y,
        temporal_tiling_factor,
        sh_power,
        blocks_per_sm,
    ):
        tiles = (block_size_x, block_size_y, tile_size_x, tile_size_y)
        each = shared(*tiles, temporal_tiling_factor, sh_power)
        return blocks_per_sm == 0 or each * blocks_per_sm <= 102400

    return Case(
        sets={
            "block_size_x": [1, 2, 4, 8, 16, *range(32, 1025, 32)],
            "block_size_y": [1, 2, 4, 8, 16, 32],
            "tile_size_x": list(range(1, 11)),
            "tile_size_y": list(range(1, 11)),
            "temporal_tiling_factor": list(range(1, 11)),
            "loop_unroll_factor_t": list(range(1, 11)),
            "sh_power": [0, 1],
            "blocks_per_sm": [0, 1, 2, 3, 4],
        },
        constraints=[
            "32 <= block_size_x * block_size_y <= 1024",
            "temporal_tiling_factor % loop_unroll_factor_t == 0",
            f"{memory} <= 49152",
            f"blocks_per_sm == 0 or {memory} * blocks_per_sm <= 102400",
        ],
        functions={
            "block_size_y": lambda block_size_x, block_size_y: (
                32 <= block_size_x * block_size_y <= 1024
            ),
            "loop_unroll_factor_t": lambda temporal_tiling_factor, loop_unroll_factor_t: (
                temporal_tiling_factor % loop_unroll_factor_t == 0
            ),
            "sh_power": fits,
            "blocks_per_sm": fits_together,
        },
        valid=349_853,
    )


def prl() -> Case:
    """Like probabilistic record linkage of 8 by 8 records: 2.4e9 combinations.

    Each of two loops of 8 iterations is cut into cached blocks, these into private ones; work
    groups share the cached blocks, work items the private ones. What is cached may go two levels
    up. The product of the sets is as large as that of the published 8x8 space; the rules are
    defined here.
    """
    eight = list(range(1, 9))
    sets: dict[str, list] = {}
    constraints: list[str] = []
    for side in "lr":
        sets |= {f"{each}_{side}": eight for each in ("cached", "private", "groups", "items")}
        constraints += [
            f"8 % cached_{side} == 0",
            f"cached_{side} % private_{side} == 0",
            f"groups_{side} <= (8 + cached_{side} - 1) // cached_{side}",
            f"items_{side} <= (cached_{side} + private_{side} - 1) // private_{side}",
        ]
    sets |= {"use_cached": [0, 1], "use_private": [0, 1]}
    sets |= {
        "level_cached": [0, 1, 2],
        "level_private": [0, 1, 2],
        "dim_l": [0, 1],
        "dim_r": [0, 1],
    }
    constraints += [
        "level_private <= level_cached",
        "dim_l != dim_r",
        "items_l * items_r <= 16",
        "use_cached == 0 or cached_l * cached_r <= 32",
    ]
    return Case(
        sets,
        constraints,
        {
            "cached_l": lambda cached_l: 8 % cached_l == 0,
            "private_l": lambda cached_l, private_l: cached_l % private_l == 0,
            "groups_l": lambda cached_l, groups_l: groups_l <= (8 + cached_l - 1) // cached_l,
            "items_l": lambda cached_l, private_l, items_l: (
                items_l <= (cached_l + private_l - 1) // private_l
            ),
            "cached_r": lambda cached_r: 8 % cached_r == 0,
            "private_r": lambda cached_r, private_r: cached_r % private_r == 0,
            "groups_r": lambda cached_r, groups_r: groups_r <= (8 + cached_r - 1) // cached_r,
            "items_r": lambda cached_r, private_r, items_r, items_l: (
                items_r <= (cached_r + private_r - 1) // private_r and items_l * items_r <= 16
            ),
            "level_private": lambda level_cached, level_private: level_private <= level_cached,
            "dim_r": lambda dim_l, dim_r: dim_l != dim_r,
            "use_cached": lambda cached_l, cached_r, use_cached: (
                use_cached == 0 or cached_l * cached_r <= 32
            ),
        },
    )


def gemm() -> Case:
    """Tiles of a matrix product as chains of divisors, powers of two to 1024: 2.4e9 combinations.

    In m and n a block is cut into what a thread computes and that into vectors, in k into what is
    unrolled and vectors; threads, shared memory and registers are limited.
    """
    return _gemm(POWERS)


def gemm_intervals() -> Case:
    """The same with every number from 1 to 1024: 1.2e27 combinations."""
    return _gemm(list(range(1, 1025)), "1024 % {} == 0")


def _gemm(numbers: list[int], divides: str = "") -> Case:
    names = [f"{loop}_{level}" for loop in "mnk" for level in ("block", "part", "vector")]
    whole = [divides.format(f"{loop}_block") for loop in "mnk"] if divides else []
    chains = [
        f"{loop}_{outer} % {loop}_{inner} == 0"
        for loop in "mnk"
        for outer, inner in (("block", "part"), ("part", "vector"))
    ]

    def is_whole(block: int) -> bool:
        return not divides or 1024 % block == 0

    def m_block(m_block: int) -> bool:
        return is_whole(m_block)

    def n_block(n_block: int) -> bool:
        return is_whole(n_block)

    return Case(
        dict.fromkeys(names, numbers),
        [
            *whole,
            *chains,
            "32 <= (m_block // m_part) * (n_block // n_part) <= 1024",
            "(m_block + n_block) * k_block * 4 <= 49152",
            "m_part * n_part <= 64",
        ],
        {
            "m_block": m_block,
            "m_part": lambda m_block, m_part: m_block % m_part == 0,
            "m_vector": lambda m_part, m_vector: m_part % m_vector == 0,
            "n_block": n_block,
            "n_part": lambda m_block, m_part, n_block, n_part: (
                n_block % n_part == 0
                and m_part * n_part <= 64
                and 32 <= (m_block // m_part) * (n_block // n_part) <= 1024
            ),
            "n_vector": lambda n_part, n_vector: n_part % n_vector == 0,
            "k_block": lambda m_block, n_block, k_block: (
                is_whole(k_block) and (m_block + n_block) * k_block * 4 <= 49152
            ),
            "k_part": lambda k_block, k_part: k_block % k_part == 0,
            "k_vector": lambda k_part, k_vector: k_part % k_vector == 0,
        },
    )


CASES: dict[str, Callable[[], Case]] = {
    "dedispersion": dedispersion,
    "hotspot": hotspot,
    "prl 8x8": prl,
    "gemm, powers of two": gemm,
    "gemm, 1 to 1024": gemm_intervals,
}


def solve_ours(case: Case) -> int:
    import zenturio as zen

    space = zen.Space(constraints=case.constraints, **case.sets)
    columns = space.columns()
    assert all(len(column) == space.size for column in columns.values())
    return space.size


def count_ours(case: Case) -> int:
    import zenturio as zen

    return zen.Space(constraints=case.constraints, **case.sets).size


def solve_constraint2(case: Case) -> int:
    from constraint import Problem

    problem = Problem()
    for name, values in case.sets.items():
        problem.addVariable(name, values)
    for text in case.constraints:
        problem.addConstraint(text)
    return len(problem.getSolutions())


def solve_pyatf(case: Case) -> int:
    from pyatf import TP, Set
    from pyatf.search_space import SearchSpace

    parameters = [TP(name, Set(*case.sets[name]), case.functions.get(name)) for name in case.sets]
    space = SearchSpace(*parameters, enable_1d_access=True, verbosity=0)
    return space.constrained_size


SOLVERS = {
    OURS: solve_ours,
    COUNT: count_ours,
    "python-constraint2": solve_constraint2,
    "pyATF": solve_pyatf,
}


def rounds(solver: str, name: str) -> None:
    """What a process of its own does: solve one case some times and print the best time."""
    case, solve = CASES[name](), SOLVERS[solver]
    times: list[float] = []
    processor: list[float] = []
    until = time.perf_counter() + 5
    while len(times) < 3 or (len(times) < 60 and time.perf_counter() < until):
        start, used = time.perf_counter(), time.process_time()
        valid = solve(case)
        times.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
        if times[0] > 20:
            break
    found = {"seconds": min(times), "processor": min(processor), "valid": valid}
    print(json.dumps({**found, "rounds": len(times)}))


@dataclass
class Result:
    """One line of the table."""

    name: str
    combinations: int
    valid: int
    seconds: dict[str, float | None] = field(default_factory=dict)
    processor: dict[str, float] = field(default_factory=dict)
    """The processor's time, which other work on the machine does not lengthen."""

    def ratio(self, peer: str) -> float | None:
        theirs, ours = self.seconds.get(peer), self.seconds[OURS]
        return theirs / ours if theirs and ours else None

    def processor_ratio(self, peer: str) -> float | None:
        theirs, ours = self.processor.get(peer), self.processor.get(OURS)
        return theirs / ours if theirs and ours else None


def measure(name: str, python: Path, patience: float) -> Result:
    """Times of all programs for one case; they must agree on the number of points."""
    case = CASES[name]()
    counts: dict[str, int] = {}
    seconds: dict[str, float | None] = {}
    processor: dict[str, float] = {}
    for solver in SOLVERS:
        interpreter = sys.executable if solver in (OURS, COUNT) else str(python)
        command = [interpreter, __file__, "--solve", solver, name]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=patience, check=True
            )
        except subprocess.TimeoutExpired:
            seconds[solver] = None
            continue
        except subprocess.CalledProcessError as error:
            raise SystemExit(f"{solver} failed on {name}:\n{error.stderr}") from None
        told = json.loads(done.stdout.splitlines()[-1])
        seconds[solver], counts[solver] = told["seconds"], told["valid"]
        processor[solver] = told["processor"]
    if len(set(counts.values())) != 1 or case.valid not in (None, counts[OURS]):
        raise SystemExit(f"{name}: not the same points: {counts}, expected {case.valid}")
    return Result(name, case.combinations, counts[OURS], seconds, processor)


def growth() -> list[dict[str, float]]:
    """Cost of a valid point, of spaces of the same kind from 10^4 to 10^7 points."""
    import zenturio as zen

    found = []
    for n in (31, 67, 144, 311):
        times = []
        for _ in range(3):
            start = time.perf_counter()
            space = zen.Space(
                a=range(1, n + 1), b=range(1, n + 1), c=range(1, n + 1), d=[1, 2, 3, 4]
            )
            space = space.where("a + b <= c", "(a + d) % 2 == 0")
            columns = space.columns()
            times.append(time.perf_counter() - start)
        valid, best = space.size, min(times)
        held = sum(
            column.nbytes for part in space.components for column in part.codes(range(valid))
        )
        limit = floor(valid, len(columns))
        del columns, space
        found.append(
            {
                "valid": valid,
                "seconds": best,
                "ns_per_point": best / valid * 1e9,
                "bytes_per_point": held / valid,
                "floor_seconds": limit,
                "times_the_floor": best / limit,
            }
        )
    return found


def floor(rows: int, columns: int) -> float:
    """The memory's own speed: writing a table of bytes and its columns of 64 bits, once."""
    import numpy as np

    times = []
    for _ in range(5):
        start = time.perf_counter()
        table = np.empty((columns, rows), dtype=np.uint8)
        table.fill(1)
        values = np.empty((columns, rows), dtype=np.int64)
        values[:] = table
        times.append(time.perf_counter() - start)
    return min(times)


def vast() -> dict[str, float]:
    """A space of 300^100 points: milliseconds for its size, a point by number, and a sample."""
    import zenturio as zen

    def timed(work: Callable[[], object], rounds: int = 20) -> float:
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
        return min(times) * 1e3

    def fresh() -> zen.Space:
        return zen.Space(**{f"p{i}": range(300) for i in range(100)})

    spaces = iter([fresh() for _ in range(20)])
    space = fresh()
    assert space.size == 300**100
    point = space.point(300**99 * 7 + 5)
    assert space.index(point) == 300**99 * 7 + 5
    return {
        "size_ms": timed(lambda: next(spaces).size),
        "decode_ms": timed(lambda: space.point(300**99 * 7 + 5)),
        "index_ms": timed(lambda: space.index(point)),
        "sample_1_ms": timed(lambda: space.sample(1, seed=1)),
        "sample_1000_ms_per_point": timed(lambda: space.sample(1000, seed=1), 5) / 1000,
    }


def decoding() -> dict[str, float]:
    """Points a second, as objects with all values and texts, of the hotspot space."""
    import zenturio as zen

    case = hotspot()
    space = zen.Space(constraints=case.constraints, **case.sets)
    speeds = []
    for _ in range(5):
        start, points = time.perf_counter(), 0
        for point in space[:100_000]:
            points += len(dict(point)) == len(point.texts)
        speeds.append(points / (time.perf_counter() - start))
    return {"points_per_second": max(speeds)}


def peers(cache: Path) -> Path:
    """The interpreter of an environment that has the peers."""
    folder = cache / "space-peers"
    python = folder / "bin" / "python"
    mark = folder / "peers.txt"
    wanted = "\n".join(PEERS)
    if not mark.exists() or mark.read_text() != wanted:
        venv.create(folder, with_pip=True, clear=True)
        command = [str(python), "-m", "pip", "install", "--quiet", *PEERS]
        subprocess.run(command, check=True, stdout=sys.stderr)
        mark.write_text(wanted)
    return python


def table(results: list[Result]) -> str:
    """The times as Markdown."""
    others = [solver for solver in SOLVERS if solver not in (OURS, COUNT)]
    lines = [
        "| space | combinations | valid | "
        + " | ".join(SOLVERS)
        + " | times as fast | by processor |",
        "|---|---:|---:|" + "---:|" * len(SOLVERS) + "---|---|",
    ]
    for each in results:
        few = each.combinations < 1e12
        combinations = f"{each.combinations:,}" if few else f"{float(each.combinations):.1e}"
        times = " | ".join(_seconds(each.seconds[solver]) for solver in SOLVERS)
        ratios = ", ".join(_times(each.ratio(peer)) for peer in others)
        processor = ", ".join(_times(each.processor_ratio(peer)) for peer in others)
        head = f"| {each.name} | {combinations} | {each.valid:,} | {times} "
        lines.append(f"{head}| {ratios} | {processor} |")
    return "\n".join(lines)


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "gave up"
    return f"{seconds:.4f} s" if seconds < 1 else f"{seconds:.2f} s"


def _times(ratio: float | None) -> str:
    if not ratio:
        return "-"
    return f"{ratio:,.0f} x" if ratio >= 10 else f"{ratio:.1f} x"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    parser.add_argument("--only", nargs="*", choices=list(CASES), help="these spaces only")
    parser.add_argument("--cache", type=Path, default=Path("build/peers"), help="for the peers")
    parser.add_argument("--patience", type=float, default=300, help="seconds for each program")
    parser.add_argument("--solve", nargs=2, metavar=("PROGRAM", "SPACE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.solve:
        rounds(*options.solve)
        return
    python = peers(options.cache.absolute())
    results = [measure(name, python, options.patience) for name in options.only or CASES]
    facts = {"vast": vast(), "decoding": decoding(), "growth": growth()}
    if options.json:
        spaces = [
            {
                **vars(each),
                "ratios": {peer: each.ratio(peer) for peer in SOLVERS},
                "processor_ratios": {peer: each.processor_ratio(peer) for peer in SOLVERS},
            }
            for each in results
        ]
        print(json.dumps({"peers": PEERS, "spaces": spaces, **facts}, indent=2))
        return
    print(table(results))
    print(
        "\n| valid points | seconds | ns a point | bytes held a point | times the memory's floor |"
    )
    print("|---:|---:|---:|---:|---:|")
    for row in facts["growth"]:
        print(
            f"| {row['valid']:,} | {row['seconds']:.4f} | {row['ns_per_point']:.1f} |"
            f" {row['bytes_per_point']:.0f} | {row['times_the_floor']:.1f} |"
        )
    print("\n| 300^100 points | ms |\n|---|---:|")
    for name, value in facts["vast"].items():
        print(f"| {name.removesuffix('_ms').replace('_', ' ')} | {value:.3f} |")
    print(
        f"\nPoints with values and texts: {facts['decoding']['points_per_second']:,.0f} a second."
    )


if __name__ == "__main__":
    main()
