"""Transfers that share links: rates are max-min fair and change whenever a transfer starts or ends.

A transfer uses the link between two sites, what its machine of origin may send, and what its
destination may receive. Each of them divides its capacity evenly among its transfers; what a
transfer cannot use, because another link or its own bandwidth holds it back, goes to the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from math import inf

from zenturio.schedule.model.platform import Platform

Route = tuple[Hashable, ...]


@dataclass(slots=True)
class Transfer:
    """A transfer with *left* bytes at time *since*, at *rate* bytes per second."""

    left: float
    begins: float
    """When its first byte leaves, after the latency."""
    route: Route
    limit: float
    rate: float = 0.0
    since: float = 0.0
    ends: float = inf


class SharedNetwork:
    """All transfers of a simulation that are under way."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._links = {frozenset((link.one, link.other)): link for link in platform.links}
        self._capacity: dict[Hashable, float] = {}
        self._transfers: dict[Hashable, Transfer] = {}

    @staticmethod
    def is_needed(platform: Platform) -> bool:
        """Return whether any transfers of *platform* share a link."""
        links = (*platform.links, platform.default)
        limits = [link.capacity for link in links] + [m.network for m in platform.machines]
        return min(limits) < inf

    def start(self, key: Hashable, size: float, source: int, target: int, now: float) -> None:
        """Start the transfer *key* of *size* bytes between two machines."""
        one, other = self._platform.machines[source], self._platform.machines[target]
        sites = frozenset((one.site, other.site))
        link = self._links.get(sites, self._platform.default)
        capacities: dict[Hashable, float] = {
            ("link", sites): link.capacity,
            ("out", source): one.network,
            ("in", target): other.network,
        }
        self._capacity |= capacities
        route = tuple(name for name, capacity in capacities.items() if capacity < inf)
        begins = now + link.latency
        self._transfers[key] = Transfer(size, begins, route, link.bandwidth, since=begins)

    def stop(self, key: Hashable) -> None:
        """Forget the transfer *key*, if it is under way."""
        self._transfers.pop(key, None)

    def completed(self, now: float) -> list[Hashable]:
        """Return and forget the transfers that have ended by *now*."""
        keys = [key for key, transfer in self._transfers.items() if transfer.ends <= now]
        for key in keys:
            del self._transfers[key]
        return keys

    def next_change(self, now: float) -> float:
        """Share the links anew, and return when the next transfer ends or its first byte leaves."""
        active = {key: t for key, t in self._transfers.items() if t.begins <= now}
        rates = fair_rates({key: (t.route, t.limit) for key, t in active.items()}, self._capacity)
        for key, transfer in active.items():
            if rates[key] != transfer.rate:
                done = transfer.rate * (now - transfer.since) if transfer.rate else 0.0
                transfer.left, transfer.since = max(transfer.left - done, 0.0), now
                transfer.rate = rates[key]
                transfer.ends = now + (transfer.left / transfer.rate if transfer.left else 0.0)
        times = [t.ends if t.begins <= now else t.begins for t in self._transfers.values()]
        return min(times, default=inf)


def fair_rates(
    transfers: Mapping[Hashable, tuple[Route, float]], capacity: Mapping[Hashable, float]
) -> dict[Hashable, float]:
    """Return the max-min fair rate of each of *transfers*: a route and a limit of its own.

    Progressive filling: all rates rise together; those of a link that is full, and those at their
    limit, stay as they are.
    """
    rates: dict[Hashable, float] = {}
    room = {link: capacity[link] for route, _ in transfers.values() for link in route}
    rising = dict(transfers)
    while rising:
        users: dict[Hashable, int] = {}
        for route, _ in rising.values():
            for link in route:
                users[link] = users.get(link, 0) + 1
        shares = {link: room[link] / count for link, count in users.items()}
        level = min(_levels(rising, shares))
        full = {link for link, share in shares.items() if share <= level}
        fixed = [
            key
            for key, (route, limit) in rising.items()
            if limit <= level or not full.isdisjoint(route)
        ]
        for key in fixed:
            route, limit = rising.pop(key)
            rates[key] = min(level, limit)
            for link in route:
                room[link] = max(room[link] - rates[key], 0.0)
        if level == inf:  # nothing holds the others back
            rates |= dict.fromkeys(rising, inf)
            break
    return rates


def _levels(
    rising: Mapping[Hashable, tuple[Route, float]], shares: Mapping[Hashable, float]
) -> Iterable[float]:
    yield from shares.values()
    yield from (limit for _, limit in rising.values())
