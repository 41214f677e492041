"""The kinds of machine and the rounds that somebody can choose on a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zenturio.errors import NotFoundError
from zenturio.record import ResultCount
from zenturio.show.portal.state import Portal
from zenturio.study.overview import by_machine, by_round


@dataclass(frozen=True)
class OriginsOffered:
    """Results of some studies by kind of machine and by round; empty where there is one alone."""

    machines: Mapping[str, int]
    rounds: Mapping[int, int]


def origins_offered(portal: Portal, studies: Sequence[str]) -> OriginsOffered:
    """Return what there is to choose among the results of *studies*."""
    counts = [each for name in studies for each in _counts(portal, name)]
    machines, rounds = by_machine(counts), by_round(counts)
    return OriginsOffered(machines if len(machines) > 1 else {}, rounds if len(rounds) > 1 else {})


def _counts(portal: Portal, name: str) -> tuple[ResultCount, ...]:
    try:
        return portal.repository.result_counts(name)
    except NotFoundError:  # it went meanwhile
        return ()
