"""What a cost is likely to be where nobody has looked: a Gaussian process of what is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from zenturio.search.factors import Ints

Reals = np.ndarray[Any, np.dtype[np.float64]]

STEPS = 12
"""How often what is learnt about genes is bettered at a time."""
STRIDE = 0.2
"""The longest step, in logarithms."""
NOISES = (-6.0, 1.0)
"""Logarithms of how much may be chance, as a share of what is not, where learning begins."""
NOISE_RANGE = (-14.0, 2.0)
WEIGHT_RANGE = (-9.0, 9.0)
DOUBT = 2.0
"""How far from what is usual a gene is expected to be, in logarithms."""
NOISE_DOUBT = 12.0
"""The same of chance."""
KINDS = 1024
"""So many values of a set without order are told apart; of more, some pass for the same."""


class Features:
    """Rows of genes as rows of numbers, whose distance says how much two of them differ."""

    def __init__(self, sizes: Ints, ordered: Any) -> None:
        kinds = [
            1 if yes else min(size, KINDS)
            for size, yes in zip(sizes.tolist(), ordered, strict=True)
        ]
        self.of = np.repeat(np.arange(len(kinds)), kinds)
        """The gene that each number is of."""
        self.usual = np.where(ordered, np.log(6.0), np.log(2.0)) - 0.5 * np.log(len(kinds))
        """How much a gene usually matters: its range, or another kind, as a squared distance."""
        self._sizes, self._ordered = sizes, ordered
        self._starts = np.cumsum([0, *kinds[:-1]]).tolist()

    def __call__(self, genes: Ints) -> Reals:
        found = np.zeros((len(genes), len(self.of)))
        for at, start in enumerate(self._starts):
            if self._ordered[at]:
                found[:, start] = genes[:, at] / max(int(self._sizes[at]) - 1, 1)
            else:
                found[np.arange(len(genes)), start + genes[:, at] % KINDS] = np.sqrt(0.5)
        return found


class Kriging:
    """Foresees costs from those of the nearest rows, and learns which genes matter."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._learnt = np.append(features.usual, NOISES[0])
        """The logarithm of how much each gene matters, and of how much is chance."""

    def learn(self, rows: Ints, costs: Reals) -> None:
        """Find out what makes *costs* of *rows* most likely."""
        plain = self._features(rows)
        starts = [self._learnt, *(np.append(self._features.usual, noise) for noise in NOISES)]
        climbed = [self._climbed(plain, costs, start) for start in starts]
        self._learnt = max(climbed, key=lambda pair: pair[0])[1]

    def fit(self, rows: Ints, costs: Reals) -> None:
        """Foresee from *rows*, whose *costs* have mean 0."""
        self._known = self._scaled(self._features(rows), self._learnt)
        self._inverse = _inverse(_kernel(self._known, self._known), self._learnt[-1])
        self._answer = self._inverse @ costs
        self._spread = max(float(costs @ self._answer) / len(rows), 0.0)

    def foresee(self, rows: Ints) -> tuple[Reals, Reals]:
        """The likely cost of each of *rows*, and how far off that may be."""
        kernel = _kernel(self._scaled(self._features(rows), self._learnt), self._known)
        doubt = np.maximum(1 - ((kernel @ self._inverse) * kernel).sum(axis=1), 0)
        return kernel @ self._answer, np.sqrt(doubt * self._spread)

    def _scaled(self, plain: Reals, learnt: Reals) -> Reals:
        scaled: Reals = plain * np.exp(0.5 * learnt[:-1])[self._features.of]
        return scaled

    def _climbed(self, plain: Reals, costs: Reals, learnt: Reals) -> tuple[float, Reals]:
        """Up the likelihood from *learnt*, by steps that grow while they lead the same way."""
        best = -np.inf, learnt
        strides, before = np.full(len(learnt), STRIDE / 2), np.zeros(len(learnt))
        low = np.append(np.full(len(learnt) - 1, WEIGHT_RANGE[0]), NOISE_RANGE[0])
        high = np.append(np.full(len(learnt) - 1, WEIGHT_RANGE[1]), NOISE_RANGE[1])
        for _ in range(STEPS):
            likely, slope = self._likelihood(plain, costs, learnt)
            best = max(best, (likely, learnt), key=lambda pair: pair[0])
            same = np.sign(slope) * before
            strides = np.clip(strides * np.where(same < 0, 0.5, 1.3), 0.01, 2 * STRIDE)
            before = np.sign(slope)
            learnt = np.clip(learnt + before * strides, low, high)
        return best

    def _likelihood(self, plain: Reals, costs: Reals, learnt: Reals) -> tuple[float, Reals]:
        """How likely *costs* are, as a logarithm, and which way that rises."""
        scaled, count = self._scaled(plain, learnt), len(costs)
        kernel = _kernel(scaled, scaled)
        inverse = _inverse(kernel, learnt[-1])
        answer = inverse @ costs
        spread = max(float(costs @ answer) / count, 1e-300)
        away = learnt - np.append(self._features.usual, NOISES[0])
        likely = np.linalg.slogdet(inverse)[1] - count * np.log(spread)
        both = (np.outer(answer, answer) / spread - inverse) * kernel
        pulls = (both @ scaled * scaled).sum(axis=0) - both.sum(axis=1) @ (scaled * scaled)
        slope = np.empty(len(learnt))
        slope[:-1] = 0.5 * np.bincount(self._features.of, pulls, len(learnt) - 1)
        chance = answer @ answer / spread - np.trace(inverse)
        slope[-1] = 0.5 * np.exp(learnt[-1]) * chance
        away[:-1] /= DOUBT
        away[-1] /= NOISE_DOUBT
        slope[:-1] -= away[:-1] / DOUBT
        slope[-1] -= away[-1] / NOISE_DOUBT
        return float(0.5 * likely - 0.5 * (away @ away)), slope


def _kernel(one: Reals, other: Reals) -> Reals:
    """How alike each row of *one* is to each of *other*, from 1 on downwards."""
    squares = (one * one).sum(axis=1)[:, None] + (other * other).sum(axis=1)[None, :]
    alike: Reals = np.exp(-0.5 * np.maximum(squares - 2 * one @ other.T, 0))
    return alike


def _inverse(kernel: Reals, noise: float) -> Reals:
    return np.linalg.inv(kernel + (np.exp(noise) + 1e-9) * np.eye(len(kernel)))
