"""Which shapes are tried for each kind of regression, and out of how many they were picked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np

from zenturio.query.points import FitPoints
from zenturio.query.shapes import FormulaShape, GrowthShape, Kind, SumShape
from zenturio.query.terms import Factor, Term, factors_of, term_values

CONSTANT: Term = ()

DEGREE = 3
"""Of the highest polynomial."""

BEAM = 60
"""Sums of so many terms that are followed further; of one x, that is all of them."""

TERMS = 4000
"""Products of factors that a performance model of several x is made from, at most."""

CELLS = 5_000_000
"""Terms times points, at most: what is held in memory while sums are looked for."""

Candidate = tuple[FormulaShape, int]
"""A shape, and how many of its kind and size it was picked from."""


def candidates(kind: Kind, data: FitPoints) -> Iterator[Candidate]:
    """What is tried of *kind* over all columns."""
    names = tuple(data.columns)
    match kind:
        case "constant":
            yield SumShape(kind, (CONSTANT,)), 1
        case "linear":
            yield SumShape(kind, (CONSTANT, *((Factor(name),) for name in names))), 1
        case "polynomial":
            for degree in range(2, DEGREE + 1):
                yield SumShape(kind, tuple(_monomials(names, degree))), 1
        case "logarithmic":
            logs = ((Factor(name, Fraction(0), 1, natural=True),) for name in names)
            yield SumShape(kind, (CONSTANT, *logs)), 1
        case "exponential" | "power":
            yield GrowthShape(kind, names), 1
        case "performance":
            terms = _products(data, names)
            for chosen in _sums(data, terms, most=2 if len(names) == 1 else 3):
                shape = SumShape(kind, (CONSTANT, *(terms[i] for i in chosen)))
                yield shape, math.comb(len(terms), len(chosen))


def _monomials(names: Sequence[str], degree: int) -> Iterator[Term]:
    for total in range(degree + 1):
        for chosen in combinations_with_replacement(names, total):
            powers = {name: chosen.count(name) for name in chosen}
            yield tuple(Factor(name, Fraction(power)) for name, power in powers.items())


def _products(data: FitPoints, names: Sequence[str]) -> list[Term]:
    """Every product of a factor, or none, of each x; of many x only the promising factors."""
    room = min(TERMS, CELLS // data.points)
    keep = max(1, int(room ** (1 / len(names))) - 1)
    options: list[list[Term]] = []
    for name in names:
        factors = _defined(data, name)
        if len(factors) > keep:
            factors = _best(data, name, factors)[:keep]
        options.append([(), *((factor,) for factor in factors)])
    terms = (tuple(f for part in parts for f in part) for parts in product(*options))
    return [term for term in terms if term != CONSTANT]


def _sums(data: FitPoints, terms: Sequence[Term], most: int) -> Iterator[tuple[int, ...]]:
    """Sums of up to *most* of the terms, those with the least squares first: a beam search."""
    if not terms:
        return
    table = np.column_stack([term_values(term, data.columns, data.points) for term in terms])
    table = table / np.abs(table).max(axis=0) * data.root[:, None]
    ones, y = data.root[:, None], data.y * data.root
    followed: list[tuple[int, ...]] = [()]
    for _ in range(most):
        found: dict[tuple[int, ...], float] = {}
        for chosen in followed:
            left = _left(np.hstack([ones, table[:, chosen]]), table, y)
            for i in np.argsort(left, kind="stable")[:BEAM]:
                if np.isfinite(left[i]):
                    found[tuple(sorted((*chosen, int(i))))] = float(left[i])
        followed = sorted(found, key=lambda chosen: (found[chosen], chosen))[:BEAM]
        yield from followed


def _left(matrix: np.ndarray, table: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What each column of *table* leaves of y beside *matrix*; infinite if it adds nothing new."""
    basis, _ = np.linalg.qr(matrix)
    rest = table - basis @ (basis.T @ table)
    size = (rest**2).sum(axis=0)
    off = y - basis @ (basis.T @ y)
    with np.errstate(divide="ignore", invalid="ignore"):
        left: np.ndarray = off @ off - (off @ rest) ** 2 / size
    left[size <= 1e-14 * (table**2).sum(axis=0)] = np.inf
    return left


def _defined(data: FitPoints, name: str) -> list[Factor]:
    """The factors of *name* that have a value on every row and tell rows apart."""
    x = {name: data.columns[name]}
    found = ((block, block.values(x)) for block in factors_of(name))
    return [b for b, values in found if np.isfinite(values).all() and np.ptp(values) > 0]


def _best(data: FitPoints, name: str, factors: Sequence[Factor]) -> list[Factor]:
    """The *factors* of *name*, first what explains most where the other columns stand still."""
    left = np.zeros(len(factors))
    for rows in _slices(data, name):
        x = {name: data.columns[name][rows]}
        table = np.column_stack([factor.values(x) for factor in factors])
        root, y = data.root[rows][:, None], data.y[rows] * data.root[rows]
        left += _left(root, table * root, y) / max(float(y @ y), 1e-300)
    return [factors[i] for i in np.argsort(left, kind="stable")]


def _slices(data: FitPoints, name: str) -> list[np.ndarray]:
    """Rows that differ in *name* only, at least four together; all rows if there are none such."""
    others = np.column_stack([x for other, x in data.columns.items() if other != name])
    _, group = np.unique(others, axis=0, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(group.ravel()[order])) + 1)
    return [part for part in parts if len(part) >= 4] or [order]
