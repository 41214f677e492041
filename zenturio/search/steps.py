"""What sequential engines share: where they begin, many of them side by side, steps around."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zenturio.search.factors import Ints
from zenturio.search.genome import Genome
from zenturio.search.walker import Walk


def together(walks: Sequence[Walk]) -> Walk:
    """Several walks at once: all that they yield is one batch, and each is sent its share.

    It ends when all of them have.
    """
    waiting = {at: next(walk) for at, walk in enumerate(walks)}
    while waiting:
        losses = yield np.concatenate(list(waiting.values()))
        start, following = 0, {}
        for at, genes in waiting.items():
            share = losses[start : start + len(genes)]
            start += len(genes)
            try:
                following[at] = walks[at].send(share)
            except StopIteration:
                continue
        waiting = following


def moved(genome: Genome, row: Ints, gene: int, steps: Ints) -> Ints:
    """*row* with *gene* moved by each of *steps*, repaired; only what differs from *row*."""
    wishes = np.repeat(row[None, :], len(steps), axis=0)
    wishes[:, gene] += steps
    rows = genome.repaired(wishes)
    different: Ints = rows[(rows != row).any(axis=1)]
    return different


def around(genome: Genome, row: Ints, share: float, others: int, rng: np.random.Generator) -> Ints:
    """The rows next to *row*, each once.

    An ordered gene goes up and down by *share* of its range, at least by 1, and as far as it
    takes to be valid; one that is not ordered takes some *others* of its values.
    """
    found = [row[None, :]]
    for gene, size in enumerate(genome.sizes.tolist()):
        if not genome.ordered[gene]:
            values = rng.choice(size, min(others, size), replace=False)
            found.append(moved(genome, row, gene, values - row[gene]))
            continue
        least = max(1, round(share * (size - 1)))
        steps = least * (1 << np.arange(max(1, (size // least).bit_length())))
        # Of each direction, the first step that repairing does not undo.
        found += [moved(genome, row, gene, sign * steps)[:1] for sign in (-1, 1)]
    rows, first = np.unique(np.concatenate(found), axis=0, return_index=True)
    return rows[np.argsort(first)][1:]
