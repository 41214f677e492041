"""How long a moldable task takes on so many nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError, NotFoundError, did_you_mean


@dataclass(frozen=True)
class ScalingCurve:
    """Seconds measured on some numbers of nodes; between them, interpolated.

    Straight in the logarithms, for scaling is a matter of ratios. What was not measured beyond
    the last number is not possible, nor below the first.
    """

    nodes: tuple[int, ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip(self.nodes, self.nodes[1:], strict=False))
        if not self.nodes or len(self.nodes) != len(self.seconds) or not rising:
            raise InputError(
                "a scaling curve has a number of seconds for each number of nodes, rising from 1 on"
            )
        if self.nodes[0] < 1 or not all(0 < each < float("inf") for each in self.seconds):
            raise InputError("a scaling curve has at least one node, and times above 0")

    def table(self, most: int) -> NDArray[np.float64]:
        """Seconds on 0 to *most* nodes; infinite where it cannot run."""
        found = np.full(most + 1, np.inf)
        first, last = self.nodes[0], min(self.nodes[-1], most)
        counts = np.arange(first, last + 1)
        logs = np.interp(np.log(counts), np.log(self.nodes), np.log(self.seconds))
        found[first : last + 1] = np.exp(logs)
        for count, seconds in zip(self.nodes, self.seconds, strict=True):
            if count <= most:
                found[count] = seconds
        return found


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


_MYRINET = NetworkLink("vienna", "vienna", 250e6, 10e-6)
_SITES = ("innsbruck", "linz", "salzburg")


def grid_2005(seed: int = 2005) -> Platform:
    """314 machines at four sites, speeds in GHz: the Grid on which WIEN2k was scheduled in 2005.

    As section 6 of "Dynamic Scheduling of Scientific Workflow Applications on the Grid" has it:
    16 have 3 GHz; 64 of 700 MHz are a cluster with Myrinet; the others are "mostly average and
    low quality", here of 0.3 to 2 GHz by *seed*. Inside a site there are 100 Mbit/s, between
    sites 20 Mbit/s.
    """
    chance = np.random.default_rng(seed)
    fast = [PlatformMachine(f"fast{i:02}", 3.0, site=_SITES[0]) for i in range(1, 17)]
    cluster = [PlatformMachine(f"node{i:02}", 0.7, site=_MYRINET.one) for i in range(1, 65)]
    speeds = np.round(chance.uniform(0.3, 2.0, 314 - 80), 2).tolist()
    others = [
        PlatformMachine(f"{_SITES[i % 3]}{i // 3 + 1:02}", speed, site=_SITES[i % 3])
        for i, speed in enumerate(speeds)
    ]
    inside = [NetworkLink(site, site, 12.5e6, 0.0002) for site in _SITES]
    links = (_MYRINET, *inside)
    return Platform(
        "grid-2005", (*fast, *cluster, *others), links, NetworkLink("", "", 2.5e6, 0.02)
    )


TESTBEDS: dict[str, Callable[[], Platform]] = {"grid-2005": grid_2005}
