"""Printing a space: parameters, constraints with their effect, sizes, some points."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from zenturio import quantities
from zenturio.cli import output

if TYPE_CHECKING:
    from zenturio.annotate.model import Application
    from zenturio.space import Domain, Parameter, Point, Space


class TimeLimitReached(BaseException):
    """The time for a piece of work is over; no ``except Exception`` on the way keeps it."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Let the block work for so many *seconds*, then raise TimeLimitReached in it.

    Where no alarm can be set (outside the main thread, on Windows), the block takes its time.
    """
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    before = signal.signal(signal.SIGALRM, _ring)
    # 0 would switch the alarm off, and the block would take its time.
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _ring(_number: int, _frame: FrameType | None) -> None:
    raise TimeLimitReached


LISTED = 1000
"""Values of a parameter that are listed as JSON at most; its size is always exact."""

DRAWING = 5.0
"""Seconds that three points by chance may take at the most, as part of the time for all."""

_COUNTED = 0.75
"""The share of the time after which counting leaves the rest for points by chance."""

_FEW, _MANY_SHARE = 32, 0.1
"""What each of more constraints removes is counted for no longer than this share of the time."""


@dataclass(frozen=True)
class SpaceSizes:
    """The sizes of a space; if one cannot be counted, why."""

    cartesian: int | None
    size: int | None
    costs: tuple[int | None, ...]
    why: str = ""


class _Count:
    """Counts spaces until its time is over, and remembers why it could not."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.end = time.monotonic() + seconds
        self.reasons: dict[str, None] = {}

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.end

    def size(self, space: "Space", count: Callable[[], int] | None = None) -> int | None:
        """Return how many points there are, if that is known in time; a mistake is an error.

        *count* counts what is asked for instead of all of *space*.
        """
        from zenturio.errors import SpaceError

        try:
            with within(self.end - time.monotonic()):
                return space.size if count is None else count()
        # An alarm in the middle of compiled code is raised as soon as Python runs again.
        except TimeLimitReached:
            self.reasons[f"not counted within {self.seconds:g} s; --within allows more time"] = None
        except SpaceError as error:
            # An error with a place is a mistake in a file; without one, the space is too large to
            # count.
            if space.finite and any(diagnostic.place for diagnostic in error.diagnostics):
                raise
            self.reasons[str(error)] = None
        return None


def size(space: "Space", seconds: float) -> int | None:
    """Return how many points there are, if they can be counted in so many *seconds*."""
    return _Count(seconds).size(space)


def sizes(space: "Space", seconds: float) -> SpaceSizes:
    """Count what can be counted in so many *seconds*; a mistake in the space is an error."""
    from zenturio.space import Space

    # The whole is asked for first: what each constraint takes away is the last thing to wait for.
    count = _Count(seconds)
    count.end -= (1 - _COUNTED) * seconds
    cartesian = count.size(space, lambda: Space(space.parameters).size)
    whole = count.size(space)
    why = "\n".join(count.reasons)
    if len(space.constraints) > _FEW:
        count.end = min(count.end, time.monotonic() + _MANY_SHARE * seconds)
    between = _sizes_between(space, count) if len(space.constraints) > 1 else ()
    remaining = [cartesian, *between, whole]
    costs = tuple(
        before - after if before is not None and after is not None else None
        for before, after in pairwise(remaining)
    )
    return SpaceSizes(cartesian, whole, costs[: len(space.constraints)], why)


def _sizes_between(space: "Space", count: _Count) -> Iterator[int | None]:
    """Yield the sizes under the first constraint, the first two, ..., all but the last."""
    growing = space.growing_sizes()
    for number in range(len(space.constraints)):
        size = None
        if space.finite and not count.is_over:
            size = count.size(space, partial(_next_size, growing))
        if number:
            yield size


def _next_size(growing: Iterator[Callable[[], int]]) -> int:
    return next(growing)()


def points(application: "Application", size: int | None) -> str:
    """Return ``12 points, 36 experiments``."""
    if size is None:
        return "number of points unknown"
    repeat = application.repeat
    most = len(repeat.numbers)
    if most == 1:
        return quantities.amount(size, "point")
    runs = quantities.amount(size * most, "experiment")
    if repeat.until is not None:
        least = size * (repeat.until.least + repeat.warmup)
        runs = f"{quantities.count(least)} to {runs}, {repeat.until.text}"
    behind = f", {repeat.warmup} of each point to warm up" if repeat.warmup else ""
    return f"{quantities.amount(size, 'point')}, {runs}{behind}"


def facts(application: "Application", seconds: float) -> dict[str, Any]:
    """Return the whole description as plain values for JSON."""
    from zenturio.space import Zip
    from zenturio.study.recorded_definition import repeat_facts

    space, end = application.space, time.monotonic() + seconds
    sizes_of_space = sizes(space, seconds)
    samples, unlucky = _samples(space, sizes_of_space, end)
    return {
        "study": application.name,
        "parameters": [_parameter(part, domain) for part, domain in _domains(space)],
        "derived": [
            {"name": part.name, "kind": part.kind, "unit": part.unit, "formula": part.derived.text}
            for part in space.parameters
            if part.derived is not None
        ],
        "cartesian": sizes_of_space.cartesian,
        "size": sizes_of_space.size,
        "unknown": "\n".join(filter(None, (sizes_of_space.why, unlucky))) or None,
        "repeat": application.repeat.count,
        "until": repeat_facts(application.repeat).get("until"),
        "warmup": application.repeat.warmup,
        "constraints": [
            {
                "text": part.text,
                "kind": "index" if isinstance(part, Zip) else "value",
                "removes": cost,
            }
            for part, cost in zip(space.constraints, sizes_of_space.costs, strict=True)
        ],
        "metrics": [
            {
                "name": part.name,
                "unit": part.unit,
                "source": part.source or None,
                "formula": part.formula.text if part.formula else None,
                "optional": part.optional,
                "exact": part.exact,
            }
            for part in application.metrics
        ],
        "objectives": [
            {"direction": goal.direction, "expression": goal.expression.text}
            for goal in application.goals
        ],
        "samples": [dict(point) for point in samples],
    }


def _parameter(parameter: "Parameter", domain: "Domain") -> dict[str, Any]:
    size = _count(domain)
    return {
        "name": parameter.name,
        "kind": parameter.kind,
        "type": domain.type,
        "unit": parameter.unit,
        "size": size,
        "values": [domain.value(i) for i in range(min(size or 0, LISTED))],
        "range": str(domain) if size is None else None,
        "when": parameter.when.text if parameter.when else None,
    }


def _count(domain: "Domain") -> int | None:
    """Return the size of a set; None if it is not a number, or depends on the point."""
    from zenturio.space import Continuous, Dependent

    return None if isinstance(domain, Continuous | Dependent) else domain.size


def _domains(space: "Space") -> list[tuple["Parameter", "Domain"]]:
    return [
        (parameter, parameter.domain)
        for parameter in space.dimensions
        if parameter.domain is not None
    ]


def _samples(space: "Space", sizes_of_space: SpaceSizes, end: float) -> "tuple[list[Point], str]":
    """Three points in their order, or why there are none until *end*."""
    from zenturio.errors import SpaceError

    count = 3 if sizes_of_space.size is None else min(3, sizes_of_space.size)
    seconds = min(DRAWING, end - time.monotonic())
    try:
        with within(seconds):
            samples = space.sample(count, 0)
            return (
                samples if sizes_of_space.size is None else sorted(samples, key=space.index)
            ), ""
    except TimeLimitReached:
        return [], f"no random points were found within {max(seconds, 0):.2g} s"
    except SpaceError as error:
        if sizes_of_space.size is not None:
            raise
        return [], str(error)


def show(application: "Application", seconds: float) -> None:
    """Print the whole description of the space."""
    space, end = application.space, time.monotonic() + seconds
    sizes_of_space = sizes(space, seconds)
    rows: list[tuple[str, str, str, str]] = [
        (part.name, part.kind, _shown_size(domain), _shown(domain, part))
        for part, domain in _domains(space)
    ]
    rows += [
        (part.name, "derived", "", f":= {part.derived.text}")
        for part in space.parameters
        if part.derived is not None
    ]
    output.table(("parameter", "kind", "size", "values"), rows, right="llr")
    if space.constraints:
        typer.echo()
        texts = [_short(part.text) for part in space.constraints]
        costs = ["?" if cost is None else quantities.count(cost) for cost in sizes_of_space.costs]
        output.table(("constraint", "removes"), zip(texts, costs, strict=True), right="lr")
    typer.echo()
    before = ""
    if sizes_of_space.cartesian is not None and (space.constraints or sizes_of_space.size is None):
        before = f"{quantities.count(sizes_of_space.cartesian)} combinations, "
    typer.echo(before + points(application, sizes_of_space.size))
    if sizes_of_space.why:
        typer.echo(sizes_of_space.why)
    _show_questions(application)
    _show_samples(space, sizes_of_space, end)


def _show_questions(application: "Application") -> None:
    """Print metrics and objectives."""
    for metric in application.metrics:
        unit = f" [{metric.unit}]" if metric.unit else ""
        source = f"from {metric.source}" if metric.source else "reported by the program"
        if metric.observed and not metric.observed.startswith("region "):
            source = f"observed by {metric.observed}"
        formula = f":= {metric.formula.text}" if metric.formula else source
        typer.echo(f"metric {metric.name}{unit} {formula}")
    for goal in application.goals:
        typer.echo(f"objective: {goal.direction} {goal.expression.text}")


def _show_samples(space: "Space", sizes_of_space: SpaceSizes, end: float) -> None:
    samples, unlucky = _samples(space, sizes_of_space, end)
    if unlucky:
        typer.echo(f"\n{unlucky}")
    elif samples:
        typer.echo(
            f"\n{len(samples)} of them:"
            if sizes_of_space.size != len(samples)
            else "\nall of them:"
        )
    for point in samples:
        number = f"#{space.index(point)}  " if sizes_of_space.size is not None else ""
        typer.echo(f"  {number}" + "  ".join(f"{name}={_text(point, name)}" for name in point))


def _shown_size(domain: "Domain") -> str:
    size = _count(domain)
    return "-" if size is None else quantities.count(size)


def _shown(domain: "Domain", parameter: "Parameter", width: int = 60) -> str:
    """Return the first elements, as many as a line holds, and the last; the unit; the condition."""
    behind = f" {parameter.unit}" if parameter.unit else ""
    if parameter.when is not None:
        behind += f" when {parameter.when.text}"
    size = _count(domain)
    if size is None:
        return f"{domain}{behind}"
    elements: list[str] = []
    for i in range(min(size, 12)):
        if sum(map(len, elements)) + 2 * len(elements) > width:
            break
        elements.append(_element(domain.text(i)))
    if len(elements) < size:
        gap = ["..."] if len(elements) < size - 1 else []
        elements += [*gap, _element(domain.text(size - 1))]
    return ", ".join(elements) + behind


def _text(point: "Point", name: str) -> str:
    return "-" if point[name] is None else _element(point.text(name))


def _element(text: str, longest: int = 60) -> str:
    """A text that can be told from its neighbours: quoted if it is empty or holds a comma."""
    text = _short(text, longest)
    return f'"{text}"' if not text or "," in text or text != text.strip() else text


def _short(text: str, longest: int = 80) -> str:
    return text if len(text) <= longest else f"{text[: longest - 4]} ..."
