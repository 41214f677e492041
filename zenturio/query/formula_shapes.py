"""Shapes of formulas: their terms, how each is fitted, and which are tried."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement, product
from typing import Literal, Protocol

import numpy as np

from zenturio.expression import quoted

Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Factor:
    """``name ** power * log(name) ** logs``; the logarithm is binary, or natural."""

    name: str
    power: Fraction = Fraction(1)
    logs: int = 0
    natural: bool = False

    def values(self, columns: Columns) -> np.ndarray:
        """Return the factor on each row; NaN or infinite where it is not defined."""
        x = columns[self.name]
        with np.errstate(all="ignore"):
            values = x ** float(self.power) if self.power else np.ones(len(x))
            if self.logs:
                values = values * (np.log(x) if self.natural else np.log2(x)) ** self.logs
        return values

    @property
    def formula(self) -> str:
        """The factor in the expression language."""
        name, parts = quoted(self.name), []
        if self.power == 1:
            parts.append(name)
        elif self.power.denominator == 1 and self.power:
            parts.append(f"{name} ** {self.power}")
        elif self.power:
            parts.append(f"{name} ** ({self.power.numerator} / {self.power.denominator})")
        if self.logs:
            logarithm = f"{'log' if self.natural else 'log2'}({name})"
            parts.append(logarithm if self.logs == 1 else f"{logarithm} ** {self.logs}")
        return " * ".join(parts)


Term = tuple[Factor, ...]
"""A product of factors; without factors it is the constant 1."""


def term_values(term: Term, columns: Columns, length: int) -> np.ndarray:
    """Return the product on each row."""
    product = np.ones(length)
    for factor in term:
        product = product * factor.values(columns)
    return product


def term_formula(term: Term) -> str:
    """Return the product in the expression language; empty for the constant."""
    return " * ".join(factor.formula for factor in term)


def _exponents() -> tuple[tuple[Fraction, int], ...]:
    """Powers and logarithms of the normal form.

    The positive ones are the usual set of Extra-P (Calotoiu et al., SC 2013; its successors' list);
    the negative ones are for strong scaling, where a time falls with the number of processors.
    """
    by_logs = {
        (0, 1, 2): "1/4 1/3 1/2 2/3 3/4 1 3/2 2 5/2",
        (0, 1): "5/4 4/3 3 -1/2 -1 -2",
        (0,): "4/5 5/3 7/4 9/4 7/3 8/3 11/4 -1/3 -2/3 -3",
        (1, 2): "0",
    }
    return tuple(
        (Fraction(power), log)
        for logs, powers in by_logs.items()
        for power in powers.split()
        for log in logs
    )


EXPONENTS = _exponents()


def factors_of(name: str) -> tuple[Factor, ...]:
    """Return every factor that *name* can have in a performance model."""
    return tuple(Factor(name, power, logs) for power, logs in EXPONENTS)


Kind = Literal[
    "constant", "linear", "polynomial", "logarithmic", "exponential", "power", "performance"
]


class FormulaShape(Protocol):
    """A family of functions with coefficients that are still free."""

    @property
    def kind(self) -> Kind: ...
    @property
    def size(self) -> int:
        """How many coefficients there are."""
        ...

    def solve(self, columns: Columns, y: np.ndarray, root: np.ndarray) -> np.ndarray | None:
        """Coefficients of least weighted squares (*root*: square roots of the weights).

        None where the data cannot determine them.
        """
        ...

    def slopes(self, columns: Columns, coefficients: np.ndarray) -> np.ndarray:
        """Return the derivatives by the coefficients, a column for each."""
        ...

    def values(self, columns: Columns, coefficients: np.ndarray) -> np.ndarray: ...
    def scaled(self, coefficients: np.ndarray, factor: float) -> np.ndarray:
        """Return the coefficients whose values are *factor* times as large."""
        ...

    def formula(self, coefficients: Sequence[str]) -> str: ...


def _length(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def _least_squares(matrix: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """The solution of a well determined system; columns are scaled, for they differ by powers."""
    if not np.isfinite(matrix).all():
        return None
    scale = np.abs(matrix).max(axis=0)
    if not scale.all():
        return None
    solution, _, rank, _ = np.linalg.lstsq(matrix / scale, y, rcond=1e-11)
    return None if rank < matrix.shape[1] else solution / scale


@dataclass(frozen=True)
class SumShape:
    """``a + b * term + c * term + ...``: linear in its coefficients."""

    kind: Kind
    terms: tuple[Term, ...]

    @property
    def size(self) -> int:
        return len(self.terms)

    def slopes(self, columns: Columns, coefficients: np.ndarray) -> np.ndarray:  # noqa: ARG002
        length = _length(columns)
        return np.column_stack([term_values(term, columns, length) for term in self.terms])

    def solve(self, columns: Columns, y: np.ndarray, root: np.ndarray) -> np.ndarray | None:
        matrix = self.slopes(columns, np.empty(0))
        return _least_squares(matrix * root[:, None], y * root)

    def values(self, columns: Columns, coefficients: np.ndarray) -> np.ndarray:
        values: np.ndarray = self.slopes(columns, coefficients) @ coefficients
        return values

    def scaled(self, coefficients: np.ndarray, factor: float) -> np.ndarray:
        return coefficients * factor

    def formula(self, coefficients: Sequence[str]) -> str:
        text = ""
        for coefficient, term in zip(coefficients, self.terms, strict=True):
            if coefficient == "0":
                continue
            sign, size = ("-", coefficient[1:]) if coefficient[0] == "-" else ("+", coefficient)
            product = term_formula(term)
            part = " * ".join(p for p in (size, product) if p and not (p == "1" and product))
            text += f" {sign} {part}" if text else part if sign == "+" else f"-{part}"
        return text or "0"


@dataclass(frozen=True)
class GrowthShape:
    """``a * exp(b * x)`` or ``a * x ** b``, with a factor for each x."""

    kind: Literal["exponential", "power"]
    names: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.names) + 1

    @cached_property
    def _exponent(self) -> SumShape:
        """The logarithm of the shape, without its first coefficient: linear in the others."""
        power, logs = (Fraction(0), 1) if self.kind == "power" else (Fraction(1), 0)
        return SumShape(
            self.kind, tuple((Factor(n, power, logs, natural=True),) for n in self.names)
        )

    def values(self, columns: Columns, coefficients: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            grown = np.exp(self._exponent.values(columns, coefficients[1:]))
            values: np.ndarray = coefficients[0] * grown
        return values

    def slopes(self, columns: Columns, coefficients: np.ndarray) -> np.ndarray:
        values = self.values(columns, coefficients)[:, None]
        inner = self._exponent.slopes(columns, coefficients)
        return np.hstack([values / coefficients[0], values * inner])

    def solve(self, columns: Columns, y: np.ndarray, root: np.ndarray) -> np.ndarray | None:
        """Begins with the logarithms, then goes downhill on the squares themselves."""
        sign = np.sign(y[0])
        if sign == 0 or not (y * sign > 0).all():
            return None
        inner = self._exponent.slopes(columns, np.empty(0))
        matrix = np.column_stack([np.ones(len(y)), inner])
        # A deviation of log(y) is one of y in units of y: the weight that keeps it comparable.
        weight = root * np.abs(y)
        start = _least_squares(matrix * weight[:, None], np.log(y * sign) * weight)
        if start is None:
            return None
        start[0] = sign * np.exp(start[0])
        return self._descend(columns, y, root, start)

    def _descend(
        self, columns: Columns, y: np.ndarray, root: np.ndarray, start: np.ndarray
    ) -> np.ndarray:
        """Gauss-Newton; a step that does not go down is halved."""

        def cost(coefficients: np.ndarray) -> float:
            off = (y - self.values(columns, coefficients)) * root
            with np.errstate(over="ignore"):  # a step may go as far as 1e200: infinitely dear
                return float(off @ off) if np.isfinite(off).all() else np.inf

        best, least = start, cost(start)
        for _ in range(50):
            off = (y - self.values(columns, best)) * root
            step = _least_squares(self.slopes(columns, best) * root[:, None], off)
            while step is not None and (squares := cost(best + step)) >= least:
                step = step / 2 if (np.abs(step) > 1e-12 * np.abs(best)).any() else None
            if step is None:
                break
            gain, best, least = least - squares, best + step, squares
            if gain <= 1e-14 * least:
                break
        return best

    def scaled(self, coefficients: np.ndarray, factor: float) -> np.ndarray:
        return np.concatenate([coefficients[:1] * factor, coefficients[1:]])

    def formula(self, coefficients: Sequence[str]) -> str:
        first, rest = coefficients[0], zip(coefficients[1:], self.names, strict=True)
        if self.kind == "power":
            return " * ".join([first, *(f"{quoted(name)} ** {b}" for b, name in rest)])
        inner = SumShape(self.kind, self._exponent.terms).formula(coefficients[1:])
        return f"{first} * exp({inner})"


Noise = Literal["equal", "relative"]
"""Whether deviations are as large everywhere, or in proportion to the value."""


@dataclass(frozen=True)
class FitPoints:
    """Distinct points, the mean of y at each, and how many rows that is the mean of."""

    columns: Mapping[str, np.ndarray]
    y: np.ndarray
    counts: np.ndarray
    noise: Noise

    @property
    def points(self) -> int:
        return len(self.y)

    @cached_property
    def root(self) -> np.ndarray:
        """Square roots of the weights: one over the deviation that each mean is expected to have,
        in units of a typical one, so that kinds of noise can be compared.
        """
        root = np.sqrt(self.counts)
        if self.noise == "relative":
            root = root / np.abs(self.y)
        scaled: np.ndarray = root / np.exp(np.log(root).mean())
        return scaled


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
    # Terms differ by many powers of ten; scaled, the squares of all of them stay in range.
    table = table / np.abs(table).max(axis=0) * data.root[:, None]
    ones, y = data.root[:, None], data.y * data.root
    followed: list[tuple[int, ...]] = [()]
    for _ in range(most):
        errors: dict[tuple[int, ...], float] = {}
        for chosen in followed:
            remainders = _left(np.hstack([ones, table[:, chosen]]), table, y)
            for i in np.argsort(remainders, kind="stable")[:BEAM]:
                if np.isfinite(remainders[i]):
                    errors[tuple(sorted((*chosen, int(i))))] = float(remainders[i])
        followed = sorted(errors, key=lambda chosen: (errors[chosen], chosen))[:BEAM]
        yield from followed


def _left(matrix: np.ndarray, table: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What each column of *table* leaves of y beside *matrix*; infinite if it adds nothing new."""
    basis, _ = np.linalg.qr(matrix)
    rest = table - basis @ (basis.T @ table)
    size = (rest**2).sum(axis=0)
    off = y - basis @ (basis.T @ y)
    with np.errstate(divide="ignore", invalid="ignore"):
        remainders: np.ndarray = off @ off - (off @ rest) ** 2 / size
    # A term that the others already make adds only rounding errors.
    remainders[size <= 1e-14 * (table**2).sum(axis=0)] = np.inf
    return remainders


def _defined(data: FitPoints, name: str) -> list[Factor]:
    """Return the factors of *name* that have a value on every row and tell rows apart."""
    x = {name: data.columns[name]}
    valued = ((block, block.values(x)) for block in factors_of(name))
    return [b for b, values in valued if np.isfinite(values).all() and np.ptp(values) > 0]


def _best(data: FitPoints, name: str, factors: Sequence[Factor]) -> list[Factor]:
    """The *factors* of *name*, first what explains most where the other columns stand still."""
    remainders = np.zeros(len(factors))
    for rows in _slices(data, name):
        x = {name: data.columns[name][rows]}
        table = np.column_stack([factor.values(x) for factor in factors])
        root, y = data.root[rows][:, None], data.y[rows] * data.root[rows]
        remainders += _left(root, table * root, y) / max(float(y @ y), 1e-300)
    return [factors[i] for i in np.argsort(remainders, kind="stable")]


def _slices(data: FitPoints, name: str) -> list[np.ndarray]:
    """Rows that differ in *name* only, at least four together; all rows if there are none such."""
    others = np.column_stack([x for other, x in data.columns.items() if other != name])
    _, group = np.unique(others, axis=0, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(group.ravel()[order])) + 1)
    return [part for part in parts if len(part) >= 4] or [order]
