"""A Gaussian process regression with a squared exponential kernel (kriging)."""

from __future__ import annotations

from typing import Any

import numpy as np

from zenturio.search.gene_blocks import Ints

Reals = np.ndarray[Any, np.dtype[np.float64]]

STEPS = 12
"""Gradient steps in one fit of the hyperparameters."""
STRIDE = 0.2
"""Initial step in log space, for each hyperparameter (Rprop)."""
NOISES = (-6.0, 1.0)
"""Starting values of the log noise-to-signal ratio."""
NOISE_RANGE = (-14.0, 2.0)
WEIGHT_RANGE = (-9.0, 9.0)
PRIOR_DEVIATION = 2.0
"""Standard deviation of the prior of a gene's log weight."""
NOISE_PRIOR_DEVIATION = 12.0
"""Standard deviation of the prior of the log noise ratio."""
KINDS = 1024
"""Values of an unordered set that have a feature each; larger sets are hashed modulo this."""


class Features:
    """Maps rows of genes to feature vectors: ordered genes scaled, unordered ones one-hot."""

    def __init__(self, sizes: Ints, ordered: Any) -> None:
        kinds = [
            1 if yes else min(size, KINDS)
            for size, yes in zip(sizes.tolist(), ordered, strict=True)
        ]
        self.of = np.repeat(np.arange(len(kinds)), kinds)
        """The gene of each feature."""
        self.usual = np.where(ordered, np.log(6.0), np.log(2.0)) - 0.5 * np.log(len(kinds))
        """The prior mean of each gene's log weight."""
        self._sizes, self._ordered = sizes, ordered
        self._starts = np.cumsum([0, *kinds[:-1]]).tolist()

    def __call__(self, genes: Ints) -> Reals:
        features = np.zeros((len(genes), len(self.of)))
        for at, start in enumerate(self._starts):
            if self._ordered[at]:
                features[:, start] = genes[:, at] / max(int(self._sizes[at]) - 1, 1)
            else:
                features[np.arange(len(genes)), start + genes[:, at] % KINDS] = np.sqrt(0.5)
        return features


class GaussianProcess:
    """Predicts costs, with one weight for each gene (automatic relevance determination)."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._parameters = np.append(features.usual, NOISES[0])
        """The log weight of each gene, and the log noise ratio."""

    def learn(self, rows: Ints, costs: Reals) -> None:
        """Fit the hyperparameters by maximum a posteriori from several starts."""
        features = self._features(rows)
        starts = [self._parameters, *(np.append(self._features.usual, noise) for noise in NOISES)]
        optima = [self._climb(features, costs, start) for start in starts]
        self._parameters = max(optima, key=lambda pair: pair[0])[1]

    def fit(self, rows: Ints, costs: Reals) -> None:
        """Condition on *rows*, whose *costs* have mean 0."""
        self._training = self._scaled(self._features(rows), self._parameters)
        self._inverse = _inverse(_kernel(self._training, self._training), self._parameters[-1])
        self._weights = self._inverse @ costs
        self._variance = max(float(costs @ self._weights) / len(rows), 0.0)

    def predict(self, rows: Ints) -> tuple[Reals, Reals]:
        """Return the mean and the standard deviation of the predicted cost of each of *rows*."""
        kernel = _kernel(self._scaled(self._features(rows), self._parameters), self._training)
        unexplained = np.maximum(1 - ((kernel @ self._inverse) * kernel).sum(axis=1), 0)
        return kernel @ self._weights, np.sqrt(unexplained * self._variance)

    def _scaled(self, features: Reals, parameters: Reals) -> Reals:
        scaled: Reals = features * np.exp(0.5 * parameters[:-1])[self._features.of]
        return scaled

    def _climb(self, features: Reals, costs: Reals, parameters: Reals) -> tuple[float, Reals]:
        """Climb the posterior from *parameters* by Rprop: a step grows while its sign stays."""
        best = -np.inf, parameters
        strides, before = np.full(len(parameters), STRIDE / 2), np.zeros(len(parameters))
        low = np.append(np.full(len(parameters) - 1, WEIGHT_RANGE[0]), NOISE_RANGE[0])
        high = np.append(np.full(len(parameters) - 1, WEIGHT_RANGE[1]), NOISE_RANGE[1])
        for _ in range(STEPS):
            posterior, gradient = self._likelihood(features, costs, parameters)
            best = max(best, (posterior, parameters), key=lambda pair: pair[0])
            same = np.sign(gradient) * before
            strides = np.clip(strides * np.where(same < 0, 0.5, 1.3), 0.01, 2 * STRIDE)
            before = np.sign(gradient)
            parameters = np.clip(parameters + before * strides, low, high)
        return best

    def _likelihood(self, features: Reals, costs: Reals, parameters: Reals) -> tuple[float, Reals]:
        """Return the log posterior of the hyperparameters (up to a constant) and its gradient."""
        scaled, count = self._scaled(features, parameters), len(costs)
        kernel = _kernel(scaled, scaled)
        inverse = _inverse(kernel, parameters[-1])
        weights = inverse @ costs
        variance = max(float(costs @ weights) / count, 1e-300)
        offset = parameters - np.append(self._features.usual, NOISES[0])
        posterior = np.linalg.slogdet(inverse)[1] - count * np.log(variance)
        both = (np.outer(weights, weights) / variance - inverse) * kernel
        pulls = (both @ scaled * scaled).sum(axis=0) - both.sum(axis=1) @ (scaled * scaled)
        gradient = np.empty(len(parameters))
        gradient[:-1] = 0.5 * np.bincount(self._features.of, pulls, len(parameters) - 1)
        chance = weights @ weights / variance - np.trace(inverse)
        gradient[-1] = 0.5 * np.exp(parameters[-1]) * chance
        offset[:-1] /= PRIOR_DEVIATION
        offset[-1] /= NOISE_PRIOR_DEVIATION
        gradient[:-1] -= offset[:-1] / PRIOR_DEVIATION
        gradient[-1] -= offset[-1] / NOISE_PRIOR_DEVIATION
        return float(0.5 * posterior - 0.5 * (offset @ offset)), gradient


def _kernel(one: Reals, other: Reals) -> Reals:
    """Return the squared exponential kernel of all pairs of rows."""
    squares = (one * one).sum(axis=1)[:, None] + (other * other).sum(axis=1)[None, :]
    similarity: Reals = np.exp(-0.5 * np.maximum(squares - 2 * one @ other.T, 0))
    return similarity


def _inverse(kernel: Reals, noise: float) -> Reals:
    return np.linalg.inv(kernel + (np.exp(noise) + 1e-9) * np.eye(len(kernel)))
