"""Steps to neighbouring rows, and several sequential searches side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zenturio.search.gene_encoding import Ints
from zenturio.search.generator_engine import SearchGenerator
from zenturio.search.genome import Genome


def interleave(walks: Sequence[SearchGenerator]) -> SearchGenerator:
    """Run several searches at once: their batches are joined, and each is sent its own losses.

    Ends when all of them have ended.
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


def move_gene(genome: Genome, row: Ints, gene: int, steps: Ints) -> Ints:
    """Return *row* with *gene* moved by each of *steps*, repaired; without rows equal to *row*."""
    targets = np.repeat(row[None, :], len(steps), axis=0)
    targets[:, gene] += steps
    rows = genome.moved(row, targets) if genome.ordered[gene] else genome.repair(targets)
    different: Ints = rows[(rows != row).any(axis=1)]
    return different


def neighbours_of(
    genome: Genome, row: Ints, share: float, others: int, rng: np.random.Generator
) -> Ints:
    """Return the distinct neighbours of *row*.

    An ordered gene moves up and down by *share* of its range, at least by 1, and further until the
    row is valid. A gene without order takes *others* random values.
    """
    candidates = [row[None, :]]
    for gene, size in enumerate(genome.sizes.tolist()):
        if not genome.ordered[gene]:
            values = rng.choice(size, min(others, size), replace=False)
            candidates.append(move_gene(genome, row, gene, values - row[gene]))
            continue
        least = max(1, round(share * (size - 1)))
        # Doubling steps: where repairing undoes small ones, a larger one may cross the gap.
        steps = least * (1 << np.arange(max(1, (size // least).bit_length())))
        # Of each direction, the first step that repairing does not undo.
        candidates += [move_gene(genome, row, gene, sign * steps)[:1] for sign in (-1, 1)]
    rows, first = np.unique(np.concatenate(candidates), axis=0, return_index=True)
    return rows[np.argsort(first)][1:]
