"""Steps to the minimum of a quadratic through the points around the best one."""

from __future__ import annotations

from typing import Any

import numpy as np

Reals = np.ndarray[Any, np.dtype[np.float64]]

FIRST_RADIUS, LEAST_RADIUS, LARGEST_RADIUS = 0.15, 1e-7, 0.5
"""Radii of the ball that a step stays in, as shares of the ranges."""
GROWTH, DECAY, COLLAPSE = 1.5, 0.5, 0.3
"""Factors of the radius: after an improvement, a failure, and a minimum that was tried."""
EXPLORING, SPARSE_EXPLORING = 0.12, 0.25
"""The share of steps that only improve the geometry of the points, and the one while fewer points
are near than a slope needs. Until then the slope of least norm leads down in what is known of it:
in 20 dimensions most of a small budget would be spent before it is known."""
FEWEST = 3
"""Points with losses below which a slope says nothing."""
CAP = 1000.0
"""Losses count at most as so many medians above the best one: walls would bend the quadratic."""
RIDGE = 1e-6, 1e-5
"""Square roots of the ridge on constant and slope, and on curvature."""
DIRECTIONS = 64
"""Random directions of which a step for the geometry takes the loneliest."""


class LocalQuadratic:
    """A trust region around the best of the points in the unit box.

    The quadratic is the one with least norm where there are fewer points than coefficients
    (Powell 2004). All randomness comes from *rng*.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.radius = FIRST_RADIUS
        self._rng = rng
        self._changes = 0
        """How often the radius changed."""

    @property
    def epoch(self) -> int:
        """A number that changes with the radius."""
        return self._changes

    def observe(self, *, improved: bool, epoch: int) -> None:
        """Adapt the radius to the result of a step that was proposed in *epoch*."""
        if improved:
            self._scale(GROWTH)
        elif epoch == self._changes:
            # Steps of one epoch fail together: only the first of them shrinks the radius.
            self._scale(DECAY)

    def propose(self, points: Reals, losses: Reals, pending: Reals) -> Reals:
        """Return the next point; *points* with the lowest of the finite *losses* is its centre.

        *pending* are points whose losses are not there yet.
        """
        best = int(np.argmin(losses))
        centre, width = points[best], points.shape[1]
        coefficients = (width + 1) * (width + 2) // 2
        distances = np.abs(points - centre).max(axis=1)
        nearest = np.argsort(distances, kind="stable")[: int(1.2 * coefficients) + 2]
        every = np.concatenate([points, pending])
        for _ in range(4):
            is_sparse = (distances <= 2 * self.radius).sum() < width + 2
            share = SPARSE_EXPLORING if is_sparse else EXPLORING
            if np.isfinite(losses).sum() < FEWEST or self._rng.random() < share:
                return self._lonely(centre, every)
            weights = 1 / (1 + (distances[nearest] / (2 * self.radius)) ** 2)
            steps = (points[nearest] - centre) / self.radius
            slope, curvature = _fit(steps, losses[nearest], weights)
            step = self.radius * self._minimum(slope, curvature, centre)
            target: Reals = np.clip(centre + step, 0, 1)
            if _gap(target, pending) <= 0.1 * np.abs(step).max():
                return self._varied(centre, step)
            if _gap(target, points) > 1e-3 * self.radius:
                return target
            self._scale(COLLAPSE)
        return self._lonely(centre, every)

    def _scale(self, factor: float) -> None:
        self.radius = float(np.clip(self.radius * factor, LEAST_RADIUS, LARGEST_RADIUS))
        self._changes += 1

    def _lonely(self, centre: Reals, points: Reals) -> Reals:
        """Return a point at the radius that is far from *points* and from their mirror images."""
        directions = self._rng.normal(size=(DIRECTIONS, len(centre)))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        targets = np.clip(centre + self.radius * directions, 0, 1)
        images = np.concatenate([points, 2 * centre - points])
        gaps = np.abs(targets[:, None, :] - images[None, :, :]).max(axis=2).min(axis=1)
        lonely: Reals = targets[np.argmax(gaps)]
        return lonely

    def _varied(self, centre: Reals, step: Reals) -> Reals:
        """Return the end of a step with another length than *step*, whose evaluation is pending."""
        factor = self._rng.choice([0.5, 1.5, 2.0, 3.0])
        jitter = 0.1 * np.abs(step).max() * self._rng.normal(size=len(step))
        varied: Reals = np.clip(centre + factor * step + jitter, 0, 1)
        return varied

    def _minimum(self, slope: Reals, curvature: Reals, centre: Reals) -> Reals:
        """Return the minimiser in the unit ball, moved into the box around *centre*."""
        step = _in_ball(slope, curvature)
        low, high = -centre / self.radius, (1 - centre) / self.radius
        if ((step >= low) & (step <= high)).all():
            return step
        step = np.clip(step, low, high)
        stride = 1 / max(float(np.abs(np.linalg.eigvalsh(curvature)).max()), 1e-12)
        for _ in range(20):
            moved = step - stride * (slope + curvature @ step)
            moved /= max(float(np.linalg.norm(moved)), 1.0)
            step = np.clip(moved, low, high)
        return step


def _fit(steps: Reals, losses: Reals, weights: Reals) -> tuple[Reals, Reals]:
    """Return slope and curvature of the quadratic through weighted *steps* with least norm."""
    usable = np.isfinite(losses)
    steps, losses, weights = steps[usable], losses[usable], weights[usable]
    width = steps.shape[1]
    above = losses - losses.min()
    middle = float(np.median(above)) or float(above.max()) or 1.0
    above = np.minimum(above, CAP * middle) / middle
    first, second = np.triu_indices(width)
    products = steps[:, first] * steps[:, second]
    products[:, first == second] /= 2
    features = np.concatenate([np.ones((len(steps), 1)), steps, products], axis=1)
    ridge = np.full(features.shape[1], RIDGE[0])
    ridge[width + 1 :] = RIDGE[1]
    root = np.sqrt(weights)[:, None]
    system = np.concatenate([features * root, np.diag(ridge)])
    target = np.concatenate([above * root[:, 0], np.zeros(len(ridge))])
    solution = np.linalg.lstsq(system, target, rcond=None)[0]
    curvature = np.zeros((width, width))
    curvature[first, second] = solution[width + 1 :]
    curvature[second, first] = solution[width + 1 :]
    return solution[1 : width + 1], curvature


def _in_ball(slope: Reals, curvature: Reals) -> Reals:
    """Return the minimiser of slope x + x curvature x / 2 in the unit ball."""
    values, vectors = np.linalg.eigh(curvature)
    turned = vectors.T @ slope
    least = float(values[0])
    scale = max(float(np.abs(values).max()), 1e-12)
    if least > 1e-12 * scale and np.linalg.norm(turned / values) <= 1:
        step: Reals = vectors @ (-turned / values)
        return step
    # More (1977): the multiplier at which the step is as long as the radius.
    low = max(0.0, -least) + 1e-12 * scale
    high = low + float(np.linalg.norm(turned)) + scale
    for _ in range(80):
        middle = (low + high) / 2
        if np.linalg.norm(turned / (values + middle)) > 1:
            low = middle
        else:
            high = middle
    step = vectors @ (-turned / (values + high))
    return np.asarray(step, dtype=np.float64)


def _gap(point: Reals, others: Reals) -> float:
    """Return the smallest distance of *point* from *others*."""
    return float(np.abs(others - point).max(axis=1).min(initial=np.inf))
