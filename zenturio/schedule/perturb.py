"""Machines that are disturbed at random: each for a while, then left alone for a while.

As in section 7 of the ZENTURIO paper on dynamic scheduling: CPU perturbations at random intervals
with a uniform distribution. Each machine has chance of its own, so that one machine more changes
nothing for the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.loops import LoopIterations
from zenturio.schedule.plan import Plan
from zenturio.schedule.platform import LoadStep, Platform
from zenturio.schedule.policy import Policy
from zenturio.schedule.problem import Problem
from zenturio.schedule.simulate import simulate
from zenturio.schedule.trace import ExecutionTrace
from zenturio.schedule.workflow import Floats

Range = tuple[float, float]

PERTURBATION_SYNTAX = "every=20:60,lasting=10:40,share=0.2:0.8,failing=0.05"
MAX_PERTURBATIONS = 10**6
"""Perturbations of one machine."""


@dataclass(frozen=True, slots=True)
class Perturbation:
    """After *every* so many seconds a machine gives, *lasting* so many, a *share* of its speed.

    Each is drawn evenly from a range; with a probability of *failing*, the machine fails instead.
    """

    every: Range
    lasting: Range
    share: Range = (0.1, 0.9)
    failing: float = 0.0

    def __post_init__(self) -> None:
        for name, (low, high) in (("every", self.every), ("lasting", self.lasting)):
            if not (0 <= low <= high < float("inf") and high > 0):
                raise InputError(f"{name}={low:g}:{high:g}: seconds from 0 on, the lower first")
        if not 0 < self.share[0] <= self.share[1] < float("inf"):
            raise InputError(f"share={self.share[0]:g}:{self.share[1]:g}: above 0, the lower first")
        if not 0 <= self.failing <= 1:
            raise InputError(f"failing={self.failing:g}: a probability, from 0 to 1")

    @classmethod
    def read(cls, text: str) -> Perturbation:
        """What ``every=20:60,lasting=10:40,share=0.2:0.8,failing=0.05`` says."""
        given: dict[str, Range] = {}
        for part in text.split(","):
            name, _, value = part.strip().partition("=")
            if name not in {"every", "lasting", "share", "failing"} or name in given:
                hint = did_you_mean(name, ("every", "lasting", "share", "failing"))
                raise InputError(
                    f"perturbation {text!r}: {name!r}", hint=f"{hint}\n{PERTURBATION_SYNTAX}"
                )
            given[name] = _parse_range(part, value)
        if not {"every", "lasting"} <= given.keys():
            raise InputError(
                f"perturbation {text!r}: every and lasting are missing", hint=PERTURBATION_SYNTAX
            )
        failing = given.pop("failing", (0.0, 0.0))
        if failing[0] != failing[1]:
            raise InputError(
                f"perturbation {text!r}: failing is one number", hint=PERTURBATION_SYNTAX
            )
        return cls(**given, failing=failing[0])

    def steps(self, seed: int, machine: int, until: float) -> tuple[Floats, Floats]:
        """When the share of *machine* changes, and to what; none begins after *until*."""
        chance = np.random.default_rng([seed, machine])
        parts: list[tuple[Floats, Floats]] = []
        now, count = 0.0, 0
        while now <= until:
            drawn = chance.random((64, 4))
            shares = _scaled(self.share, drawn[:, 2])
            shares[drawn[:, 3] < self.failing] = 0.0
            spans = np.stack([_scaled(self.every, drawn[:, 0]), _scaled(self.lasting, drawn[:, 1])])
            times = now + np.cumsum(spans.T.ravel())
            parts.append((times, np.stack([shares, np.ones(64)]).T.ravel()))
            now, count = float(times[-1]), count + 64
            if count > MAX_PERTURBATIONS:
                raise InputError(
                    f"more than {MAX_PERTURBATIONS:,} perturbations of a machine until {until:g} s"
                )
        times, shares = (np.concatenate(each) for each in zip(*parts, strict=True))
        kept = 2 * int(np.count_nonzero(times[::2] <= until))
        return times[:kept], shares[:kept]


def perturbed_platform(platform: Platform, how: Perturbation, seed: int, until: float) -> Platform:
    """*platform*, with its machines disturbed until then, on top of the loads that they have."""
    machines = []
    for number, machine in enumerate(platform.machines):
        times, shares = how.steps(seed, number, until)
        drawn = tuple(map(LoadStep, times.tolist(), shares.tolist()))
        machines.append(replace(machine, load=combined_load(machine.load, drawn)))
    return replace(platform, machines=tuple(machines))


def simulate_perturbed(
    problem: Problem,
    what: Plan | Policy,
    how: Perturbation,
    seed: int = 0,
    arrivals: ArrayLike | None = None,
    repeats: LoopIterations | None = None,
) -> ExecutionTrace:
    """What happens when *what* is played while machines are disturbed, for as long as it takes.

    *arrivals* has for each task when it becomes known; loops are run as *repeats* has it.
    """

    def play(problem: Problem) -> ExecutionTrace:
        return simulate(problem, what, arrivals=arrivals, repeats=repeats)

    until = max(play(problem).events[-1].time, 1.0)
    while True:
        platform = perturbed_platform(problem.platform, how, seed, until)
        trace = play(replace(problem, platform=platform))
        if trace.left or trace.makespan <= until:
            return trace
        until *= 2


def combined_load(one: tuple[LoadStep, ...], other: tuple[LoadStep, ...]) -> tuple[LoadStep, ...]:
    """Both loads at once: at any time, the share of the share."""
    if not one or not other:
        return one or other
    times = sorted({step.time for step in chain(one, other)})
    found = _shares_at(one, times) * _shares_at(other, times)
    return tuple(map(LoadStep, times, found.tolist()))


def _shares_at(steps: tuple[LoadStep, ...], times: list[float]) -> NDArray[np.float64]:
    """The share at each of *times*."""
    known = [step.time for step in steps]
    shares = np.array([1.0, *(step.share for step in steps)])
    found: NDArray[np.float64] = shares[np.searchsorted(known, times, side="right")]
    return found


def _scaled(span: Range, drawn: Floats) -> Floats:
    return span[0] + (span[1] - span[0]) * drawn


def _parse_range(part: str, value: str) -> Range:
    low, colon, high = value.partition(":")
    try:
        return float(low), float(high if colon else low)
    except ValueError:
        raise InputError(f"perturbation {part!r} is no range", hint=PERTURBATION_SYNTAX) from None
