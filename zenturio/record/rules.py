"""Who gets a claim and which outcome is accepted: the rules that every repository shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from zenturio.record.facts import RECORDED, AttemptState, State

Verdict = Literal["accept", "again", "supersede"]


@dataclass(frozen=True, slots=True)
class Standing:
    """How an experiment stands: its newest attempt, and whose that is."""

    state: State
    attempt: int
    """The number of the newest attempt; 0 before the first."""
    driver: int | None
    """Who holds the claim, or whose outcome was accepted."""

    @property
    def recorded(self) -> bool:
        return self.state in RECORDED


def grant(standing: Standing, driver: int) -> int | None:
    """The attempt that *driver* may make, the one that it holds already, or none.

    Claims of drivers that are gone were taken back before this is asked.
    """
    if standing.state == "waiting":
        return standing.attempt + 1
    if standing.state == "running" and standing.driver == driver:
        return standing.attempt
    return None


def judge(standing: Standing, driver: int, attempt: int) -> Verdict:
    """What becomes of an outcome: only the attempt that holds the claim is accepted, and once."""
    if standing.state == "waiting" or (standing.driver, standing.attempt) != (driver, attempt):
        return "supersede"
    return "accept" if standing.state == "running" else "again"


def supersedes(past: AttemptState | None) -> bool:
    """Whether a late outcome changes what is kept of its attempt (*past*; none: nothing yet).

    Only of an attempt that was given up something is still to be learnt; any other one was
    recorded, and this is the same call once more.
    """
    return past is None or past == "stale"
