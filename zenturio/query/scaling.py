"""Scaling: how much faster more threads, processes or nodes are, and what limits them.

All ratios are taken on logarithms, so that times that vary by a share of themselves weigh the same
at every size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from zenturio.errors import InputError, Passage
from zenturio.experiment.signed_ranks import Interval
from zenturio.expression import parse
from zenturio.expression.syntax_tree import Name
from zenturio.query.regression import real_column, require_columns
from zenturio.query.statistics import CONFIDENCE, student

if TYPE_CHECKING:
    from zenturio.record import Repository
    from zenturio.record.entities import RowChoice

Mode = Literal["strong", "weak"]
_STEPS = 100
"""Steps of a fit at most; a handful is usual."""


@dataclass(frozen=True)
class ScalingPoint:
    """A number of workers: threads, processes, nodes."""

    workers: float
    rows: int
    value: float
    """The geometric mean of the metric."""
    speedup: float
    """Against the fewest workers; in weak scaling the scaled speedup, of as much more work."""
    speedup_interval: Interval | None
    efficiency: float
    """The speedup for each worker, against the fewest."""
    efficiency_interval: Interval | None
    serial: float | None
    """The serial fraction that this speedup means; none for the fewest workers."""
    serial_interval: Interval | None


@dataclass(frozen=True)
class ScalingModel:
    """A law of scaling, fitted to all points of a curve."""

    name: str
    coefficients: Mapping[str, float]
    intervals: Mapping[str, Interval | None]
    """About 95%; none where there are no more rows than coefficients."""
    missed: float
    """The root mean square of what it misses, as a share of the value."""
    limit: float | None
    """The speedup that no number of workers exceeds; none where there is no limit."""
    best_at: float | None
    """From so many workers on, more of them are slower; none where more are always faster."""
    criterion: float
    """Schwarz's: less is better."""

    def speedup(self, ratio: np.ndarray) -> np.ndarray:
        """Return the speedup of so many times the fewest workers."""
        return _LAWS[self.name].speedup(ratio, np.array([*self.coefficients.values()]))


@dataclass(frozen=True)
class ScalingCurve:
    """What differs in the number of workers alone."""

    key: Mapping[str, Any]
    """The other parameters, or the work for each worker."""
    points: tuple[ScalingPoint, ...]
    models: tuple[ScalingModel, ...]
    """The best first."""

    @property
    def base(self) -> float:
        """The fewest workers."""
        return self.points[0].workers

    @property
    def name(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.key.items())


@dataclass(frozen=True)
class Scaling:
    """The curves of a study."""

    study: str
    over: str
    metric: str
    unit: str
    mode: Mode
    is_rate: bool
    """Whether more of the metric is better."""
    curves: tuple[ScalingCurve, ...]
    notes: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """Return the same as JSON has it."""
        return asdict(self)


@dataclass(frozen=True)
class _Law:
    """A family of speedups over the ratio of workers; a coefficient is 0 where scaling is ideal."""

    names: tuple[str, ...]
    speedup: Callable[[np.ndarray, np.ndarray], np.ndarray]
    start: tuple[float, ...]
    limit: Callable[[Sequence[float]], float | None] = lambda _: None
    best_at: Callable[[Sequence[float]], float | None] = lambda _: None


def _amdahl(q: np.ndarray, c: np.ndarray) -> np.ndarray:
    """S = 1 / (s + (1 - s) / q).

    G. M. Amdahl: Validity of the single processor approach to achieving large scale computing
    capabilities, AFIPS Spring Joint Computer Conference (1967).
    """
    return np.asarray(1 / (c[0] + (1 - c[0]) / q))


def _gustafson(q: np.ndarray, c: np.ndarray) -> np.ndarray:
    """S = s + (1 - s) q.

    J. L. Gustafson: Reevaluating Amdahl's law, Communications of the ACM 31 (1988).
    """
    return np.asarray(c[0] + (1 - c[0]) * q)


def _universal(q: np.ndarray, c: np.ndarray) -> np.ndarray:
    """S = q / (1 + contention (q - 1) + coherency q (q - 1)).

    N. J. Gunther: A general theory of computational scalability based on rational functions,
    arXiv:0808.1431 (2008).
    """
    return np.asarray(q / (1 + c[0] * (q - 1) + c[1] * q * (q - 1)))


_ROUNDING = 1e-12
"""What is left of a coefficient that is 0, or of one that is 1, after a fit."""


def _turning_point(c: Sequence[float]) -> float | None:
    """Return where Gunther's speedup is greatest: sqrt((1 - contention) / coherency) (2008)."""
    return math.sqrt((1 - c[0]) / c[1]) if min(c[1], 1 - c[0]) > _ROUNDING else None


def _universal_limit(c: Sequence[float]) -> float | None:
    at = _turning_point(c)
    if at is None:
        return 1 / c[0] if c[0] > 0 and abs(c[1]) <= _ROUNDING else None
    return float(_universal(np.array([max(at, 1.0)]), np.array(c))[0])


_LAWS: Mapping[str, _Law] = {
    "ideal": _Law((), lambda q, _: q, ()),
    "amdahl": _Law(("serial",), _amdahl, (0.05,), lambda c: 1 / c[0] if c[0] > 0 else None),
    "gustafson": _Law(("serial",), _gustafson, (0.05,)),
    "usl": _Law(
        ("contention", "coherency"), _universal, (0.05, 0.001), _universal_limit, _turning_point
    ),
}


def scaling_curve(
    workers: Sequence[float] | np.ndarray,
    values: Sequence[float] | np.ndarray,
    *,
    mode: Mode = "strong",
    is_rate: bool = False,
    key: Mapping[str, Any] = {},
) -> ScalingCurve:
    """Return speedups, efficiencies and models of *values* measured with so many *workers*.

    The values are times, or rates of which more are better (*is_rate*); all are positive.
    """
    count, logs = np.asarray(workers, dtype=float), np.log(np.asarray(values, dtype=float))
    ratio = count / count.min()
    # The logarithm of work by time. In weak scaling a time is that of as much more work; a rate
    # has the work in it.
    speeds = logs if is_rate else -logs + (np.log(ratio) if mode == "weak" else 0.0)
    first = speeds[ratio == 1]
    points = []
    for at in np.unique(count):
        rows = count == at
        mean = math.exp(float(logs[rows].mean()))
        points.append(_point(float(at), float(at / count.min()), speeds[rows], first, mode, mean))
    return ScalingCurve(key, tuple(points), fitted_models(ratio, speeds))


def _point(
    workers: float, ratio: float, sample: np.ndarray, first: np.ndarray, mode: Mode, mean: float
) -> ScalingPoint:
    if ratio == 1:
        return ScalingPoint(workers, len(sample), mean, 1.0, None, 1.0, None, None, None)
    gain = math.exp(float(sample.mean() - first.mean()))
    serial = serial_fraction(gain, ratio, mode)
    half = welch_half_width(sample, first)
    if half is None:
        gains = (gain, None, gain / ratio, None, serial, None)
        return ScalingPoint(workers, len(sample), mean, *gains)
    low, high = gain * math.exp(-half), gain * math.exp(half)
    return ScalingPoint(
        workers,
        len(sample),
        mean,
        gain,
        Interval(low, high),
        gain / ratio,
        Interval(low / ratio, high / ratio),
        serial,
        # The faster, the less is serial: the ends change places.
        Interval(serial_fraction(high, ratio, mode), serial_fraction(low, ratio, mode)),
    )


def serial_fraction(speedup: float, ratio: float, mode: Mode = "strong") -> float:
    """Return the serial fraction that a *speedup* by *ratio* times as many workers means.

    Strong scaling: (1 / S - 1 / q) / (1 - 1 / q). A. H. Karp & H. P. Flatt: Measuring parallel
    processor performance, Communications of the ACM 33 (1990). Weak scaling: (q - S) / (q - 1),
    Gustafson's law (1988) solved for it.
    """
    if mode == "weak":
        return (ratio - speedup) / (ratio - 1)
    return (1 / speedup - 1 / ratio) / (1 - 1 / ratio)


def welch_half_width(
    first: np.ndarray, second: np.ndarray, confidence: float = CONFIDENCE
) -> float | None:
    """Return half of the interval of a difference of means; None without repeats of both.

    B. L. Welch: The generalization of "Student's" problem when several different population
    variances are involved, Biometrika 34 (1947), with Satterthwaite's degrees of freedom, which
    are not rounded.
    """
    if len(first) < 2 or len(second) < 2:
        return None
    parts = [float(sample.var(ddof=1)) / len(sample) for sample in (first, second)]
    variance = sum(parts)
    if variance == 0:
        return 0.0
    freedom = variance**2 / sum(
        part**2 / (len(sample) - 1) for part, sample in zip(parts, (first, second), strict=True)
    )
    return student(0.5 + confidence / 2, freedom) * math.sqrt(variance)


def fitted_models(ratio: np.ndarray, speeds: np.ndarray) -> tuple[ScalingModel, ...]:
    """Return each law that the points determine, the best first.

    Least squares of the logarithms, whose intervals are those of the linearized model: D. M. Bates
    & D. G. Watts: Nonlinear Regression Analysis and Its Applications (1988), chapter 2. Laws are
    ranked by Schwarz's criterion: G. Schwarz: Estimating the dimension of a model, Annals of
    Statistics 6 (1978).
    """
    distinct = len(np.unique(ratio))
    # One point more than there are coefficients, the speed of the fewest workers included.
    laws = [name for name, law in _LAWS.items() if distinct >= len(law.names) + 2 or not law.names]
    models = (_fitted(name, ratio, speeds) for name in laws)
    return tuple(sorted((m for m in models if m is not None), key=lambda m: m.criterion))


def _fitted(name: str, ratio: np.ndarray, speeds: np.ndarray) -> ScalingModel | None:
    law, rows = _LAWS[name], len(speeds)
    coefficients = np.array([float(speeds[ratio == 1].mean()), *law.start])
    off = _residuals(law, ratio, speeds, coefficients)
    for _ in range(_STEPS):
        slopes = _slopes(law, ratio, coefficients)
        step, *_ = np.linalg.lstsq(slopes, off, rcond=None)
        moved, length = None, 1.0
        while moved is None and length > 1e-12:
            tried = coefficients + length * step
            missed = _residuals(law, ratio, speeds, tried)
            if np.isfinite(missed).all() and missed @ missed <= off @ off:
                moved = missed
            else:
                length /= 2  # the law has no value there, or is farther away
        if moved is None:
            break
        coefficients, off = coefficients + length * step, moved
        if np.abs(length * step).max() < 1e-12:
            break
    if not np.isfinite(off).all():
        return None
    squares, freedom = float(off @ off), rows - len(coefficients)
    values = coefficients[1:].tolist()
    return ScalingModel(
        name,
        dict(zip(law.names, values, strict=True)),
        dict(zip(law.names, _intervals(law, ratio, coefficients, squares, freedom), strict=True)),
        math.sqrt(squares / rows),
        law.limit(values),
        law.best_at(values),
        _schwarz(squares, rows, len(coefficients)),
    )


def _residuals(
    law: _Law, ratio: np.ndarray, speeds: np.ndarray, coefficients: np.ndarray
) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        missed: np.ndarray = speeds - coefficients[0] - np.log(law.speedup(ratio, coefficients[1:]))
    return missed


def _slopes(law: _Law, ratio: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Return the derivatives of the logarithm by each coefficient, as central differences."""
    columns = [np.ones(len(ratio))]
    for at in range(1, len(coefficients)):
        ahead, behind = coefficients.copy(), coefficients.copy()
        width = 1e-6 * max(abs(coefficients[at]), 1e-3)
        ahead[at] += width
        behind[at] -= width
        with np.errstate(invalid="ignore", divide="ignore"):
            rise = np.log(law.speedup(ratio, ahead[1:])) - np.log(law.speedup(ratio, behind[1:]))
        columns.append(np.nan_to_num(rise / (2 * width)))
    return np.column_stack(columns)


def _intervals(
    law: _Law, ratio: np.ndarray, coefficients: np.ndarray, squares: float, freedom: int
) -> list[Interval | None]:
    if freedom < 1:
        return [None] * len(law.names)
    slopes = _slopes(law, ratio, coefficients)
    # Of the triangle R of slopes = QR: (slopes' slopes)^-1 = R^-1 R^-T.
    inverse = np.linalg.pinv(np.linalg.qr(slopes, mode="r"))
    errors = np.sqrt((inverse**2).sum(axis=1) * squares / freedom)
    reach = student(0.5 + CONFIDENCE / 2, freedom)
    return [
        Interval(float(value - reach * error), float(value + reach * error))
        for value, error in zip(coefficients[1:], errors[1:], strict=True)
    ]


def _schwarz(squares: float, rows: int, size: int) -> float:
    """G. Schwarz: Estimating the dimension of a model, Annals of Statistics 6 (1978)."""
    # Where all residuals are roundings, the law with fewer coefficients is better.
    return rows * math.log(max(squares / rows, 1e-24)) + size * math.log(rows)


def study_scaling(
    repository: Repository,
    study: str,
    over: str,
    metric: str = "wtime",
    *,
    by: Sequence[str] | None = None,
    weak: str = "",
    is_rate: bool | None = None,
    where: str | Passage | None = None,
    outside: bool = False,
    rows: RowChoice | None = None,
) -> Scaling:
    """Return how the *metric* of *study* scales *over* a parameter: threads, processes, nodes.

    Points that differ in nothing else make a curve; with *by*, those that agree in these columns.
    *weak* is the work of a point, such as ``n ** 3``: then a curve has the points with as much work
    for each of *over*. With *is_rate* None, a metric that the study's objective maximizes is one.
    """
    from zenturio.query.excluded_points import left_out_notes  # noqa: PLC0415
    from zenturio.query.frames import study_frame  # noqa: PLC0415 - loads pandas
    from zenturio.record.entities import NEWEST  # noqa: PLC0415

    table = study_frame(
        repository, study, where=where, metrics=[metric], outside=outside, rows=rows or NEWEST
    )
    work = parse(Passage.of(weak, "--weak")) if weak else None
    parameters = [str(name) for name in table.attrs["parameters"]]
    require_columns(dict.fromkeys(parameters), [over, *(work.names if work else ())])
    require_columns({str(name): None for name in table.columns}, [metric, *(by or ())])
    if by is None:
        sized = work.names if work else frozenset()
        by = [name for name in parameters if name != over and name not in sized]
    notes = list(left_out_notes(table.attrs["left_out"]))
    if is_rate is None:
        is_rate = is_maximized(repository.definition(study).goals, metric)
        notes += [RATE_NOTE.format(metric)] * is_rate
    columns = {str(name): table[name] for name in table.columns}
    workers, values = real_column(columns, over), real_column(columns, metric)
    usable = np.isfinite(workers) & (workers > 0) & np.isfinite(values) & (values > 0)
    if not usable.all():
        notes.append(f"{int((~usable).sum()):,} of {len(usable):,} without a positive {metric}")
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row in np.flatnonzero(usable).tolist():
        key = tuple(table[name].iloc[row] for name in by)
        if work is not None:
            point = {name: _plain(table[name].iloc[row]) for name in work.names}
            key = (*key, _work_for_each(work.value(point), float(workers[row]), weak))
        groups.setdefault(key, []).append(row)
    share = f"{weak} / {over}" if work is not None and weak in work.names else f"({weak}) / {over}"
    names = [*by, share] if weak else list(by)
    curves = []
    for key, members in groups.items():
        count = workers[members]
        if len(np.unique(count)) > 1:
            mode: Mode = "weak" if weak else "strong"
            labels = {name: _plain(value) for name, value in zip(names, key, strict=True)}
            curves.append(
                scaling_curve(count, values[members], mode=mode, is_rate=is_rate, key=labels)
            )
    if not curves:
        raise _no_curve(over, weak, study)
    alone = len(groups) - len(curves)
    if alone:
        notes.append(f"{alone:,} of {len(groups):,} groups have one value of {over}: left out")
    return Scaling(
        study, over, metric, str(table.attrs["units"].get(metric, "")),
        "weak" if weak else "strong", is_rate, tuple(curves), tuple(notes),
    )  # fmt: skip


RATE_NOTE = "{} counts as a rate: the OBJECTIVE maximizes it"


def is_maximized(goals: Iterable[Mapping[str, str]], metric: str) -> bool:
    """Return whether one of the *goals* of a study is the greatest *metric*."""
    return any(
        goal["direction"] == "maximize"
        and isinstance(node := parse(goal["expression"]).node, Name)
        and node.name == metric
        for goal in goals
    )


def _no_curve(over: str, weak: str, study: str) -> InputError:
    hint = "measure the same point with several"
    if weak:
        hint = (
            f"points with as much {weak} for each of {over} are needed; leave --weak out for strong"
        )
    return InputError(f"study {study} has no points that differ in {over} alone", hint=hint)


def _work_for_each(work: Any, workers: float, text: str) -> int | float:
    """Return the work for each worker, rounded so that equal works are equal."""
    if isinstance(work, bool) or not isinstance(work, int | float) or not work > 0:
        raise InputError(f"the work {text} is {work!r} at a point", hint="a positive number")
    rounded = float(f"{work / workers:.9g}")
    return int(rounded) if rounded.is_integer() else rounded


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
