"""What the digest of a point costs: a trie over the files against sorting and hashing all of them.

    uv run python benchmarks/identity.py

One file of n is filled. The peer is what format 1 of the digests did: the records of all files,
sorted, in one hash. The last column is how many times faster the trie is.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from hashlib import blake2b
from time import perf_counter

from zenturio.experiment.identity import FileTrie, file_record

SIZES = (3, 30, 1_000, 10_000, 100_000)
POINTS = 64
"""Points whose digests are made in one measurement."""


def main() -> None:
    """Print a row for each number of files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="numbers of files")
    parser.add_argument("--rounds", type=int, default=5, help="of which the fastest counts")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [measure(size, options.rounds) for size in options.sizes]
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{'files':>8} {'sort, us':>10} {'trie, us':>10} {'made, ms':>10} {'ratio':>8}")
    for row in rows:
        print(
            f"{row['files']:>8,} {row['sort_us']:>10.1f} {row['trie_us']:>10.1f}"
            f" {row['made_ms']:>10.1f} {row['ratio']:>8.1f}"
        )


def measure(size: int, rounds: int) -> dict[str, float]:
    """What a point costs in both ways, and what the trie costs once."""
    names = sorted(f"src/part{i % 97}/file{i}.c" for i in range(size - 1))
    constants = [file_record(name, "file", _hash(name.encode())) for name in names]
    framed = [b"%d:%bx" % (len(n), n.encode()) + _hash(n.encode()) for n in names]
    contents = [_hash(b"%d" % i) for i in range(POINTS)]
    began = perf_counter()
    trie = FileTrie(constants, ["src/main.c"])
    made = perf_counter() - began
    few = contents[: max(2, min(POINTS, 20_000 // size))]

    def with_trie() -> None:
        for content in contents:
            trie.root([file_record("src/main.c", "file", content)])

    def with_sorting() -> None:
        for content in few:
            _hash(b"".join(sorted([b"10:src/main.cx" + content, *framed])))

    ours, theirs = best(with_trie, rounds) / len(contents), best(with_sorting, rounds) / len(few)
    return {
        "files": size,
        "sort_us": theirs * 1e6,
        "trie_us": ours * 1e6,
        "made_ms": made * 1e3,
        "ratio": theirs / ours,
    }


def best(work: Callable[[], None], rounds: int) -> float:
    """Seconds of the fastest of some rounds."""
    times = []
    for _ in range(rounds):
        began = perf_counter()
        work()
        times.append(perf_counter() - began)
    return min(times)


def _hash(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


if __name__ == "__main__":
    main()
