"""Machines and the links between their sites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError, NotFoundError, did_you_mean


@dataclass(frozen=True, slots=True)
class LoadStep:
    """From *time* on, a machine gives its tasks *share* of its speed; 0: it has failed."""

    time: float
    share: float


@dataclass(frozen=True, slots=True)
class PlatformMachine:
    name: str
    speed: float = 1.0
    cores: int = 1
    memory: float = float("inf")
    site: str = ""
    tags: frozenset[str] = frozenset()
    cost: float = 0.0
    """Of one core for one second."""
    load: tuple[LoadStep, ...] = ()
    """What befalls it while a workflow runs; algorithms that plan beforehand do not see it."""


@dataclass(frozen=True, slots=True)
class NetworkLink:
    """Between the machines of two sites, or of one; both ways."""

    one: str
    other: str
    bandwidth: float = float("inf")
    latency: float = 0.0


@dataclass(frozen=True, eq=False)
class Platform:
    name: str
    machines: tuple[PlatformMachine, ...]
    links: tuple[NetworkLink, ...] = ()
    default: NetworkLink = field(default_factory=lambda: NetworkLink("", ""))
    """Between machines of which no link tells."""

    def __post_init__(self) -> None:
        if not self.machines:
            raise InputError(f"platform {self.name!r} has no machine")
        name, count = Counter(each.name for each in self.machines).most_common(1)[0]
        if count > 1:
            raise InputError(f"platform {self.name!r}: {count} machines are named {name!r}")
        for each in self.machines:
            if not 0 < each.speed < float("inf") or each.cores < 1 or not each.memory > 0:
                raise InputError(
                    f"machine {each.name!r}: speed and memory above 0, and at least a core"
                )
        for link in (*self.links, self.default):
            if not link.bandwidth > 0 or not 0 <= link.latency < float("inf"):
                raise InputError(
                    f"link {link.one!r} - {link.other!r}: bandwidth above 0, latency 0 or more"
                )

    def __len__(self) -> int:
        return len(self.machines)

    def __repr__(self) -> str:
        return f"<Platform {self.name}: {len(self)} machines, {len(self.sites)} sites>"

    @cached_property
    def sites(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(machine.site for machine in self.machines))

    @cached_property
    def latency(self) -> NDArray[np.float64]:
        """Seconds between sites, by their numbers."""
        return self._between("latency")

    @cached_property
    def bandwidth(self) -> NDArray[np.float64]:
        """Bytes a second between sites, by their numbers."""
        return self._between("bandwidth")

    def number(self, name: str) -> int:
        """The number of the machine named *name*."""
        names = [machine.name for machine in self.machines]
        if name not in names:
            hint = did_you_mean(name, names)
            raise NotFoundError(f"{self.name} has no machine {name!r}", hint=hint)
        return names.index(name)

    def _between(self, what: str) -> NDArray[np.float64]:
        number = {site: i for i, site in enumerate(self.sites)}
        found = np.full((len(number), len(number)), getattr(self.default, what))
        for link in self.links:
            for site in (link.one, link.other):
                if site not in number:
                    raise InputError(
                        f"link {link.one!r} - {link.other!r}: no machine is at site {site!r}",
                        hint=did_you_mean(site, number),
                    )
            a, b = number[link.one], number[link.other]
            found[a, b] = found[b, a] = getattr(link, what)
        return found


def identical(count: int, name: str = "") -> Platform:
    """*count* machines of speed 1, joined by links that take no time."""
    if count < 1:
        raise InputError(f"identical:{count}: at least one machine")
    width = len(str(count))
    machines = tuple(PlatformMachine(f"p{i:0{width}}") for i in range(1, count + 1))
    return Platform(name or f"identical:{count}", machines)


def platform(
    name: str, machines: Iterable[PlatformMachine], links: Iterable[NetworkLink] = ()
) -> Platform:
    return Platform(name, tuple(machines), tuple(links))
