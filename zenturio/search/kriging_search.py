"""The model engine: Gaussian processes that propose where improvement is likely."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from zenturio.search.engine import SearchProblem
from zenturio.search.gene_encoding import FINE, Ints
from zenturio.search.generator_engine import GeneratorEngine, SearchGenerator, lag_for
from zenturio.settings.schema import setting

Reals = np.ndarray[Any, np.dtype[np.float64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]

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


MOST_CHANGES = 32
"""Rows that come and go before an inverse is computed anew: each update adds to its rounding."""
EXCHANGED = 0.5
"""The share of variations of a sparse space in which one gene gains what another loses."""


class Features:
    """Maps rows of genes to feature vectors: ordered genes scaled, unordered ones one-hot.

    An inactive gene (0 of an *optional* one) is in the middle of its range, or of no kind. So rows
    of one branch are compared by the genes that they share, and the kernel is positive definite,
    which a kernel that leaves out what only one of two rows has is not.
    """

    def __init__(self, sizes: Ints, ordered: Any, optional: Any = None) -> None:
        kinds = [
            1 if yes else min(size, KINDS)
            for size, yes in zip(sizes.tolist(), ordered, strict=True)
        ]
        self.of = np.repeat(np.arange(len(kinds)), kinds)
        """The gene of each feature."""
        self.usual = np.where(ordered, np.log(6.0), np.log(2.0)) - 0.5 * np.log(len(kinds))
        """The prior mean of each gene's log weight."""
        self._sizes, self._ordered = sizes, ordered
        self._optional = np.zeros(len(kinds), dtype=np.bool_) if optional is None else optional
        self._starts = np.cumsum([0, *kinds[:-1]]).tolist()

    def __call__(self, genes: Ints) -> Reals:
        features = np.zeros((len(genes), len(self.of)))
        for at, start in enumerate(self._starts):
            column, lowest = genes[:, at], int(self._optional[at])
            if self._ordered[at]:
                scaled = (column - lowest) / max(int(self._sizes[at]) - 1 - lowest, 1)
                features[:, start] = np.where(column < lowest, 0.5, scaled)
            else:
                active = np.flatnonzero(column >= lowest)
                features[active, start + column[active] % KINDS] = np.sqrt(0.5)
        return features


class GaussianProcess:
    """Predicts costs, with one weight for each gene (automatic relevance determination)."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._parameters = np.append(features.usual, NOISES[0])
        """The log weight of each gene, and the log noise ratio."""
        self._keys: list[tuple[bytes, int]] = []
        """The rows of the last fit, in the order of its inverse."""
        self._change_count = 0
        """How many rows came and went since an inverse was computed anew."""

    def learn(self, rows: Ints, costs: Reals) -> None:
        """Fit the hyperparameters by maximum a posteriori from several starts."""
        features = self._features(rows)
        starts = [self._parameters, *(np.append(self._features.usual, noise) for noise in NOISES)]
        optima = [self._climb(features, costs, start) for start in starts]
        self._parameters = max(optima, key=lambda pair: pair[0])[1]
        self._keys = []

    def fit(self, rows: Ints, costs: Reals) -> None:
        """Condition on *rows*, whose *costs* have mean 0.

        While the hyperparameters stay, the inverse of the last fit is updated by the rows that came
        and went: those of a full memory are one or two in hundreds.
        """
        keys = _row_keys(rows)
        places = {key: place for place, key in enumerate(keys)}
        kept = [at for at, key in enumerate(self._keys) if key in places]
        earlier_keys = set(self._keys)
        added = [place for key, place in places.items() if key not in earlier_keys]
        change_count = len(self._keys) - len(kept) + len(added)
        self._change_count += change_count
        if self._change_count > MOST_CHANGES or change_count > len(kept):
            self._change_count, self._keys = 0, keys
            self._fitted = self._scaled(self._features(rows), self._parameters)
            self._fitted_inverse = _inverse(
                _kernel(self._fitted, self._fitted), self._parameters[-1]
            )
        else:
            if len(kept) < len(self._keys):
                self._fitted_inverse = _without(self._fitted_inverse, np.array(kept))
                self._fitted = self._fitted[kept]
            if added:
                new = self._scaled(self._features(rows[added]), self._parameters)
                self._fitted_inverse = self._extended(self._fitted, self._fitted_inverse, new)
                self._fitted = np.concatenate([self._fitted, new])
            self._keys = [self._keys[at] for at in kept] + [keys[place] for place in added]
        self._training, self._inverse = self._fitted, self._fitted_inverse
        costs = costs[[places[key] for key in self._keys]]
        self._weights = self._inverse @ costs
        self._variance = max(float(costs @ self._weights) / len(rows), 0.0)

    def believe(self, rows: Ints) -> None:
        """Expect the predicted means of *rows*: means stay, and deviations shrink around them."""
        new = self._scaled(self._features(rows), self._parameters)
        self._inverse = self._extended(self._training, self._inverse, new)
        self._training = np.concatenate([self._training, new])
        self._weights = np.concatenate([self._weights, np.zeros(len(rows))])

    def _extended(self, training: Reals, inverse: Reals, new: Reals) -> Reals:
        """Return the inverse for *training* and *new* rows, from that for *training* alone."""
        crossed = inverse @ _kernel(training, new)
        kernel = _kernel(new, new) - _kernel(new, training) @ crossed
        corner = _inverse(0.5 * (kernel + kernel.T), self._parameters[-1])
        side = -crossed @ corner
        extended: Reals = np.block([[inverse - side @ crossed.T, side], [side.T, corner]])
        return extended

    def resolution(self) -> Reals:
        """Return, for each gene, the share of its range that noise hides."""
        weights, noise = self._parameters[:-1], self._parameters[-1]
        shares: Reals = np.sqrt(2 * np.exp(noise - weights))
        return shares

    @property
    def scatter(self) -> float:
        """The standard deviation of single costs around the process."""
        return float(np.sqrt(np.exp(self._parameters[-1]) * self._variance))

    def predict(self, rows: Ints) -> tuple[Reals, Reals]:
        """Return the mean and the standard deviation of the predicted cost of each of *rows*."""
        kernel = self._similarity(rows)
        return kernel @ self._weights, self._deviation(kernel)

    def lowest_bounds(
        self, rows: Ints, caution: float, count: int, limit: float = np.inf
    ) -> tuple[Ints, Reals]:
        """Return which of *rows* may have one of the *count* lowest bounds, and these bounds.

        A bound is the mean without *caution* deviations; those above *limit* do not count. Only for
        rows that may count are deviations computed, which takes most of the time: a deviation is at
        most the one that is left by the most similar row of the training.
        """
        kernel = self._similarity(rows)
        mean = kernel @ self._weights
        nearest = kernel.max(axis=1, initial=0.0)
        explained = nearest * nearest / (1 + np.exp(self._parameters[-1]) + 1e-9)
        least = mean - caution * np.sqrt(np.maximum(1 - explained, 0) * self._variance)
        order = np.argsort(least, kind="stable")
        bounds = np.empty(0)
        for start in range(0, len(order), 2 * count):
            block = order[start : start + 2 * count]
            if least[block[0]] > limit:
                break
            new_bounds = mean[block] - caution * self._deviation(kernel[block])
            bounds = np.concatenate([bounds, new_bounds])
            if len(bounds) >= count:
                limit = min(limit, float(np.partition(bounds, count - 1)[count - 1]))
        return order[: len(bounds)], bounds

    def _similarity(self, rows: Ints) -> Reals:
        return _kernel(self._scaled(self._features(rows), self._parameters), self._training)

    def _deviation(self, kernel: Reals) -> Reals:
        """Return the standard deviation of rows with this *kernel* to those of the training."""
        unexplained = np.maximum(1 - ((kernel @ self._inverse) * kernel).sum(axis=1), 0)
        deviation: Reals = np.sqrt(unexplained * self._variance)
        return deviation

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
            # Rprop takes the sign of the gradient alone: its size varies by orders of magnitude.
            sign_agreement = np.sign(gradient) * before
            strides = np.clip(strides * np.where(sign_agreement < 0, 0.5, 1.3), 0.01, 2 * STRIDE)
            before = np.sign(gradient)
            parameters = np.clip(parameters + before * strides, low, high)
        return best

    def _likelihood(self, features: Reals, costs: Reals, parameters: Reals) -> tuple[float, Reals]:
        """Return the log posterior of the hyperparameters (up to a constant) and its gradient."""
        scaled, count = self._scaled(features, parameters), len(costs)
        kernel = _kernel(scaled, scaled)
        inverse = _inverse(kernel, parameters[-1])
        weights = inverse @ costs
        # The variance that is most likely has a closed form, so it is not a hyperparameter.
        variance = max(float(costs @ weights) / count, 1e-300)
        offset = parameters - np.append(self._features.usual, NOISES[0])
        posterior = np.linalg.slogdet(inverse)[1] - count * np.log(variance)
        kernel_gradient = (np.outer(weights, weights) / variance - inverse) * kernel
        pulls = (kernel_gradient @ scaled * scaled).sum(axis=0) - kernel_gradient.sum(axis=1) @ (
            scaled * scaled
        )
        gradient = np.empty(len(parameters))
        gradient[:-1] = 0.5 * np.bincount(self._features.of, pulls, len(parameters) - 1)
        chance = weights @ weights / variance - np.trace(inverse)
        gradient[-1] = 0.5 * np.exp(parameters[-1]) * chance
        offset[:-1] /= PRIOR_DEVIATION
        offset[-1] /= NOISE_PRIOR_DEVIATION
        gradient[:-1] -= offset[:-1] / PRIOR_DEVIATION
        gradient[-1] -= offset[-1] / NOISE_PRIOR_DEVIATION
        return float(0.5 * posterior - 0.5 * (offset @ offset)), gradient


def _kernel(rows: Reals, other_rows: Reals) -> Reals:
    """Return the squared exponential kernel of all pairs of rows."""
    kernel: Reals = (rows * rows).sum(axis=1)[:, None] + (other_rows * other_rows).sum(axis=1)
    # In place: a new matrix for each step would take longer than the step.
    kernel -= 2 * rows @ other_rows.T
    np.maximum(kernel, 0, out=kernel)
    kernel *= -0.5
    return np.exp(kernel, out=kernel)


def _inverse(kernel: Reals, noise: float) -> Reals:
    return np.linalg.inv(kernel + (np.exp(noise) + 1e-9) * np.eye(len(kernel)))


def _without(inverse: Reals, kept: Ints) -> Reals:
    """Return the inverse for the *kept* rows alone."""
    removed = np.setdiff1d(np.arange(len(inverse)), kept)
    side = inverse[np.ix_(kept, removed)]
    corner = np.linalg.inv(inverse[np.ix_(removed, removed)])
    remaining: Reals = inverse[np.ix_(kept, kept)] - side @ corner @ side.T
    return remaining


def _row_keys(rows: Ints) -> list[tuple[bytes, int]]:
    """Return each row as bytes, with how many equal ones stand before it."""
    counts: Counter[bytes] = Counter()
    keys = []
    for row in map(np.ndarray.tobytes, rows):
        keys.append((row, counts[row]))
        counts[row] += 1
    return keys


FEWEST, MOST = 4, 20
"""Limits of the random points before the first model."""
REFIT_FACTOR = 1.3
"""The hyperparameters are refitted when the number of trials grew by this factor."""
LARGEST_NUMBER = 2.0**62
"""Of rows of genes that are numbered."""
ROUNDS = 4
"""Generations of candidates, each made from the best of the one before."""
FINEST, COARSEST = 1e-6, 0.01
"""Limits of the share of a continuous range by which two points of one search differ."""
MOST_KNOWN = 60
"""Known points in a model: half of them are the best ones, the others are spread over all ranks.
With hundreds a model takes roughness for noise, and proposes points among those that it knows. But
it forecasts the first points better: so a second model of up to half the memory takes turns."""
POOL = 20
"""The number of best rows from which new candidates are made."""
BRANCH_CHANCE = 0.25
"""The share of proposals that are confined to a branch of a conditional space."""
EQUAL = 0.1
"""Standard deviations of levelled losses by which bounds of two rows may differ, so that the
cheaper one is proposed."""
LEVEL = 0.3
"""Offset of the logarithm of losses: smaller values stretch differences among the best."""


@cache
def blas_library() -> ctypes.CDLL | None:
    """Return the OpenBLAS that NumPy brings along; None where it uses another library."""
    folders = (Path(np.__file__).parents[1] / "numpy.libs", Path(np.__file__).parent / ".dylibs")
    for path in (path for folder in folders for path in folder.glob("*openblas64*")):
        with suppress(OSError):
            library = ctypes.CDLL(str(path))
            if hasattr(library, "scipy_openblas_set_num_threads64_"):
                return library
    return None


@contextmanager
def single_thread() -> Iterator[None]:
    """Compute with one thread meanwhile.

    Matrices of a few hundred rows gain nothing by more: on a busy machine the threads of OpenBLAS
    spin while they wait for each other. And the last bits of a sum depend on their number, which
    must not decide what is searched.
    """
    library = blas_library()
    if library is None:
        yield
        return
    before = library.scipy_openblas_get_num_threads64_()
    library.scipy_openblas_set_num_threads64_(1)
    try:
        yield
    finally:
        library.scipy_openblas_set_num_threads64_(before)


@dataclass(frozen=True)
class KrigingSettings:
    starts: int | None = setting(
        None, "random points before the first model; auto: 20, fewer for small budgets", low=2
    )
    batch: int | None = setting(
        None,
        "pending points; auto: 1 for one slot, else four for each slot, at most half the budget",
        low=1,
    )
    candidates: int = setting(
        300, "points that the model predicts, in each of 4 generations", low=8
    )
    caution: float = setting(1.0, "mean weight of uncertainty: larger values explore more", low=0)
    memory: int = setting(400, "largest number of trials in the model", low=10)


class KrigingSearch(GeneratorEngine):
    """Bayesian optimisation with a Gaussian process: for few, expensive experiments."""

    Settings: ClassVar[type[KrigingSettings]] = KrigingSettings
    reads_evaluated = True

    def __init__(self, problem: SearchProblem, settings: KrigingSettings) -> None:
        super().__init__(problem, settings)
        self._settings = settings
        genome = self.genome
        self._features = Features(genome.sizes, genome.ordered, genome.optional)
        self._models: dict[int, tuple[GaussianProcess, int]] = {}
        """By the known points that each takes: a model, and its rows when it learned last."""
        self._model_turns = 0
        self._known_count = 0
        """How many of the evaluated points were known when the search began."""

    @property
    def starts(self) -> int:
        """The number of random points before the first model."""
        if self._settings.starts is not None:
            return self._settings.starts
        budget = self.problem.budget
        return MOST if budget is None else min(max(budget // 6, FEWEST), MOST)

    @property
    def memory(self) -> int:
        """The largest number of trials in the model."""
        return self._settings.memory

    @property
    def lag(self) -> int:  # type: ignore[override] # follows the settings
        """Rows that were proposed last, whose losses a proposal does without."""
        if self._settings.batch is not None:
            return self._settings.batch - 1
        return lag_for(self.problem)

    def walk(self) -> SearchGenerator:
        self._known_count = len(self.rows_of(self.evaluated))
        unknown = self.starts - len(self.evaluated)
        if unknown > 0:
            yield self.first_rows(unknown)
        while True:
            yield self.propose()

    def first_rows(self, count: int) -> Ints:
        """Return *count* rows to begin with."""
        return self.genome.scatter(self.rng, count)

    @single_thread()
    def propose(self) -> Ints:
        """Return the next row, from the results of all evaluated ones."""
        rows, losses = self.evaluated_rows()
        if len(rows) < FEWEST:
            return self._random_row()
        most = self._settings.memory // 2
        is_wide = self._known_count > MOST_KNOWN and self._model_turns % 2 == 0
        model = self._fitted(rows, losses, most if is_wide else min(MOST_KNOWN, most))
        self._model_turns += 1
        pending = self.rows_of(self.unanswered)
        if len(pending):
            model.believe(pending)
        best = rows[np.argsort(losses, kind="stable")]
        branch = self._branch(best, pending)
        if branch is not None:
            best = best[self._is_in(branch, best)]
        previous_rows = np.concatenate([rows, pending])
        return self._candidate(model, best[:POOL], previous_rows, branch)

    def _fitted(self, rows: Ints, losses: Reals, known_limit: int) -> GaussianProcess:
        """Return a model of the trials and of up to *known_limit* known points."""
        model, learned_at = self._models.get(known_limit, (GaussianProcess(self._features), 0))
        selected = self._training(losses, known_limit)
        costs = log_levels(losses[selected])
        size = len(rows) - max(self._known_count - known_limit, 0)
        if size >= REFIT_FACTOR * learned_at:
            model.learn(rows[selected], costs)
            learned_at = size
        self._models[known_limit] = model, learned_at
        model.fit(rows[selected], costs)
        return model

    def _training(self, losses: Reals, known_limit: int) -> Ints:
        """Return which of the evaluated points enter a model with so many known points."""
        memory = self._settings.memory
        if self._known_count <= known_limit:
            return select_training(losses, memory)
        ranked = np.argsort(losses[: self._known_count], kind="stable")
        best, other_points = ranked[: known_limit // 2], ranked[known_limit // 2 :]
        spread = other_points[
            np.linspace(0, len(other_points) - 1, known_limit - len(best)).astype(np.int64)
        ]
        trials = self._known_count + select_training(
            losses[self._known_count :], memory - known_limit
        )
        return np.sort(np.concatenate([best, spread, trials]))

    def evaluated_rows(self) -> tuple[Ints, Reals]:
        """Return the rows and losses of all trials, those of other engines included."""
        losses = np.array([bounds[0] for row, bounds in self.evaluated.items() if row])
        return self.rows_of(self.evaluated), losses

    def _branch(self, ranked: Ints, pending: Ints) -> Mask | None:
        """Return the branch that the next row is confined to, as a mask of active optional genes.

        None for no branch. The branch whose best row has rank i among all branches gets a share
        in proportion to 1/i: it may win as long as its shape is not known. *ranked* are the
        evaluated rows, the best first.
        """
        optional = self.genome.optional
        if not optional.any() or self.rng.random() >= BRANCH_CHANCE:
            return None
        drawn_rows = self.genome.scatter(self.rng, POOL)
        rows = np.concatenate([ranked, pending, drawn_rows])
        branches, first_index, branch_of_row = np.unique(
            rows[:, optional] != 0, axis=0, return_index=True, return_inverse=True
        )
        counts = np.bincount(
            branch_of_row.ravel()[: len(ranked) + len(pending)], minlength=len(branches)
        )
        ranks = np.argsort(np.argsort(first_index)) + 1
        branch: Mask = branches[np.argmin(counts * ranks)]
        return branch

    def _is_in(self, branch: Mask, rows: Ints) -> Mask:
        inside: Mask = ((rows[:, self.genome.optional] != 0) == branch).all(axis=1)
        return inside

    def _candidate(
        self, model: GaussianProcess, pool: Ints, previous_rows: Ints, branch: Mask | None = None
    ) -> Ints:
        """Search for the row with the best lower confidence bound by evolution.

        It differs from each of *previous_rows* by more than noise hides, and is in *branch* if
        there is one.
        """
        count = self._settings.candidates
        caution = self._settings.caution * self.rng.exponential()
        steps = np.where(self.genome.sizes > FINE, self._resolution(model), 0)
        best, bounds = np.empty((0, pool.shape[1]), dtype=np.int64), np.empty(0)
        targets = [self.genome.scatter(self.rng, count // 3)]
        if len(pool):
            targets.append(self._variations(pool, count))
        for _ in range(ROUNDS):
            # An evaluated row has little uncertainty, but noise may still rank it first.
            new_rows = self.unseen(self._distinct(self.genome.repair(np.concatenate(targets))))
            if branch is not None:
                new_rows = new_rows[self._is_in(branch, new_rows)]
            new_rows = new_rows[~near(new_rows, previous_rows, steps)]
            limit = float(bounds[-1]) if len(bounds) == POOL else np.inf
            chosen, new_bounds = model.lowest_bounds(new_rows, caution, POOL, limit)
            best = np.concatenate([best, new_rows[chosen]])
            bounds = np.concatenate([bounds, new_bounds])
            best, first_index = np.unique(best, axis=0, return_index=True)
            order = np.argsort(bounds[first_index], kind="stable")[:POOL]
            best, bounds = best[order], bounds[first_index][order]
            if not len(best):
                return self._random_row()
            targets = [self._variations(best, count)]
        return best[self._cheapest(best[bounds <= bounds[0] + EQUAL]) :][:1]

    def _distinct(self, rows: Ints) -> Ints:
        """Return each of *rows* once, in the order of their genes."""
        sizes = self.genome.sizes.astype(np.float64)
        if not sizes.prod() < LARGEST_NUMBER:
            return np.unique(rows, axis=0)
        # One number for each row is sorted ten times as fast as rows are.
        factors = np.cumprod(np.append(1, self.genome.sizes[:0:-1]))[::-1]
        _, first_index = np.unique(rows @ factors, return_index=True)
        return rows[first_index]

    def _cheapest(self, rows: Ints) -> int:
        """Return the first of *rows*, nearly equal ones, that shares most with earlier rows."""
        shared = self.problem.shared
        if not shared:
            return 0
        earlier = self.genome.columns(self.rows_of([*self.evaluated, *self.unanswered]))
        columns = self.genome.columns(rows)
        counts = [0] * len(rows)
        for names in shared:
            combinations = set(zip(*(earlier[name] for name in names), strict=True))
            values = zip(*(columns[name] for name in names), strict=True)
            counts = [count + (v in combinations) for count, v in zip(counts, values, strict=True)]
        return counts.index(max(counts))

    def _resolution(self, model: GaussianProcess) -> Ints:
        """Return the steps of each gene below which two rows are one."""
        shares = np.clip(model.resolution(), FINEST, COARSEST)
        steps: Ints = (shares * (self.genome.sizes - 1)).astype(np.int64)
        return steps

    def _random_row(self) -> Ints:
        """Return a random row, a new one if some are drawn."""
        random_rows = self.genome.draw(self.rng, self._settings.candidates)
        new_rows = self.unseen(random_rows)
        return (new_rows if len(new_rows) else random_rows)[:1]

    def _variations(self, pool: Ints, count: int) -> Ints:
        """Return variations of the rows of *pool*, more of the first: crossover and mutation."""
        rng, sizes, width = self.rng, self.genome.sizes, self.genome.length
        first_parent, second_parent = np.minimum(rng.geometric(0.25, (2, count)) - 1, len(pool) - 1)
        share = rng.choice([0.0, 0.3], (count, 1))
        targets = np.where(
            rng.random((count, width)) < share, pool[second_parent], pool[first_parent]
        )
        is_mutated = rng.random((count, width)) < rng.choice([1.0, 2.0, 4.0], (count, 1)) / width
        # At least one gene changes, or the variation would be a repeat.
        is_mutated[np.arange(count), rng.integers(width, size=count)] = True
        reach = 0.3 * 10.0 ** -rng.uniform(0, 2.5, (count, 1))
        steps = rng.normal(size=(count, width)) * reach * (sizes - 1)
        offsets = (np.sign(steps) * np.ceil(np.abs(steps))).astype(np.int64)
        random_genes = rng.integers(sizes, size=(count, width))
        shifted_genes = self.genome.above(targets, targets + offsets)
        varied = np.where(
            is_mutated, np.where(self.genome.ordered, shifted_genes, random_genes), targets
        )
        pairs = self.genome.exchanges
        if not len(pairs):
            return varied
        # In half of the rows one gene gains what another loses: shares of a sum stay valid.
        chosen_pairs, amounts = (
            pairs[rng.integers(len(pairs), size=count)],
            rng.geometric(0.5, count),
        )
        at, exchanged = np.arange(count), targets.copy()
        exchanged[at, chosen_pairs[:, 0]] += amounts
        exchanged[at, chosen_pairs[:, 1]] -= amounts
        return np.where(rng.random((count, 1)) < EXCHANGED, exchanged, varied)


FEWEST_EXPECTED, MOST_EXPECTED = 20, 400
"""Points that single measurements are compared at: with fewer, noise cannot be told."""
COARSE = 1 << 20
"""Steps of the range of a number with many values."""
LEAST_SCATTER, MOST_SCATTER = 0.01, 0.5
"""Scatter of measurements: below it the best one is not doubted, beyond it the model fails."""
MOST_DEVIATION = 3.0
"""Scatters by which a single result may deviate from the model: beyond it the model fails there."""


class ExpectedBest(NamedTuple):
    """The point with the best expected score, where each was measured once."""

    at: int
    """Its index."""
    score: float
    """What a model of all points expects there."""
    scatter: float
    """How much single scores deviate from the model: as a share of the score, or absolute."""
    is_share: bool


def expected_best(
    points: Sequence[Mapping[str, Any]], scores: Sequence[float], *, sign: float = 1.0
) -> ExpectedBest | None:
    """Return the point whose expected score times *sign* is lowest, by a Gaussian process.

    The lowest of many noisy scores is one that was measured too low: the model takes the others
    into account. Scores of one sign are compared by their logarithms. The model cannot tell noise
    from roughness of the function itself; repeats can. None if there are too few points, if they
    scatter too little to matter, or if the result at that point contradicts the model.
    """
    values = np.array(scores, dtype=np.float64)
    if len(values) < FEWEST_EXPECTED or not np.isfinite(values).all() or np.ptp(values) == 0:
        return None
    is_share = bool((values > 0).all() or (values < 0).all())
    levels = np.log(np.abs(values)) * np.sign(values[0]) if is_share else values
    mean, deviation = float(levels.mean()), float(levels.std())
    costs = sign * (levels - mean) / (deviation or 1.0)
    chosen = select_training(costs, MOST_EXPECTED)
    rows, features = _observed(points)
    model = GaussianProcess(features)
    with single_thread():
        model.learn(rows[chosen], costs[chosen])
        model.fit(rows[chosen], costs[chosen])
        means, _ = model.predict(rows[chosen])
    scatter = model.scatter * deviation
    if not LEAST_SCATTER <= scatter / (1.0 if is_share else deviation) <= MOST_SCATTER:
        return None
    best = int(np.argmin(means))
    level = sign * float(means[best]) * deviation + mean
    if abs(float(levels[chosen[best]]) - level) > MOST_DEVIATION * scatter:
        return None  # a cliff of the function, not noise
    score = float(np.sign(values[0]) * np.exp(level * np.sign(values[0]))) if is_share else level
    return ExpectedBest(int(chosen[best]), score, scatter, is_share)


def _observed(points: Sequence[Mapping[str, Any]]) -> tuple[Ints, Features]:
    """Return *points* as rows of genes, from the values that occur among them.

    Numbers of few values are told apart by their ranks, of many by what they are.
    """
    columns, sizes, ordered, optional = [], [], [], []
    for name in points[0]:
        values = {point[name] for point in points} - {None}
        is_ordered = all(type(value) in (int, float) for value in values)
        ranked = sorted(values, key=None if is_ordered else repr)
        genes: dict[Any, int] = {value: rank for rank, value in enumerate(ranked)}
        if is_ordered and len(ranked) > len(points) // 2:
            low, span = float(ranked[0]), float(ranked[-1]) - float(ranked[0])
            genes = {value: round((value - low) / span * COARSE) for value in ranked}
        is_optional = any(point[name] is None for point in points)
        # Of an optional gene 0 is the value of the points that do not have it.
        columns.append([genes.get(point[name], -1) + is_optional for point in points])
        sizes.append(max(genes.values(), default=0) + 1 + is_optional)
        ordered.append(is_ordered)
        optional.append(is_optional)
    rows = np.array(columns, dtype=np.int64).reshape(len(columns), len(points)).T
    return rows, Features(np.array(sizes, dtype=np.int64), ordered, np.array(optional))


def near(rows: Ints, others: Ints, steps: Ints) -> Mask:
    """Return which of *rows* differ from one of *others* by at most *steps* in each gene."""
    if not steps.any():
        return np.zeros(len(rows), dtype=np.bool_)
    is_near = np.ones((len(rows), len(others)), dtype=np.bool_)
    for gene, step in enumerate(steps.tolist()):
        is_near &= np.abs(rows[:, gene, None] - others[None, :, gene]) <= step
    near_mask: Mask = np.logical_or.reduce(is_near, axis=1)
    return near_mask


def select_training(losses: Reals, most: int) -> Ints:
    """Return the trials that enter the model: all, or the last ones and the best of the rest."""
    recent = np.arange(max(len(losses) - most // 2, 0), len(losses))
    best = np.argsort(losses[: len(losses) - len(recent)], kind="stable")
    return np.sort(np.concatenate([best[: most - len(recent)], recent]))


def log_levels(losses: Reals) -> Reals:
    """Return the logarithms of *losses*, standardised, so that bad ones do not hide the good ones.

    A failed trial counts as the worst one.
    """
    usable = losses[np.isfinite(losses)]
    if not len(usable) or usable.min() == usable.max():
        return np.zeros(len(losses))
    best, width = usable.min(), np.median(usable) - usable.min()
    with np.errstate(over="ignore"):  # a width may be as small as numbers are
        above = (np.minimum(losses, usable.max()) - best) / (width or usable.max() - best)
    above = np.minimum(above, 1e300)
    levels: Reals = np.log(above + LEVEL)
    levels -= levels.mean()
    return levels / float(levels.std() or 1.0)
