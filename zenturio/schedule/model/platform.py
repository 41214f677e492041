"""Platforms: machines, their loads, and the links between their sites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError, NotFoundError, did_you_mean


@dataclass(frozen=True)
class RuntimeCurve:
    """Seconds of a moldable task, measured on some numbers of nodes.

    Between measurements the curve is interpolated linearly in the logarithms, because scaling is a
    matter of ratios. Numbers of nodes below the first or above the last measurement are not
    allowed.
    """

    nodes: tuple[int, ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip(self.nodes, self.nodes[1:], strict=False))
        if not self.nodes or len(self.nodes) != len(self.seconds) or not rising:
            raise InputError(
                "a scaling curve has a number of seconds for each number of nodes, rising from 1 on"
            )
        if self.nodes[0] < 1 or not all(0 < seconds < float("inf") for seconds in self.seconds):
            raise InputError("a scaling curve has at least one node, and times above 0")

    def table(self, max_nodes: int) -> NDArray[np.float64]:
        """Return the seconds on 0 to *max_nodes* nodes; infinite where the task cannot run."""
        table = np.full(max_nodes + 1, np.inf)
        first, last = self.nodes[0], min(self.nodes[-1], max_nodes)
        counts = np.arange(first, last + 1)
        logs = np.interp(np.log(counts), np.log(self.nodes), np.log(self.seconds))
        table[first : last + 1] = np.exp(logs)
        # Measured values are copied: exp(log(x)) may differ from x in the last digit.
        for count, seconds in zip(self.nodes, self.seconds, strict=True):
            if count <= max_nodes:
                table[count] = seconds
        return table


@dataclass(frozen=True, slots=True)
class LoadStep:
    """From *time* on, a machine gives tasks *share* of its speed; 0 means it failed."""

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
    """Price of one core for one second."""
    load: tuple[LoadStep, ...] = ()
    """Load changes during a run. Static algorithms ignore them; the simulator plays them."""
    accelerators: int = 0
    boot: float = 0.0
    """Seconds from switching it on to its first task."""
    price: float = 0.0
    """Price of the whole machine for each started ``billing``, from switching it on to its last
    task."""
    billing: float = 1.0
    """Seconds that are paid at once: 3600 for started hours."""
    power_idle: float = 0.0
    """Watts while it is on and no core computes."""
    power_busy: float = 0.0
    """Watts while all its cores compute."""
    network: float = float("inf")
    """Bytes per second that all its transfers share, those in and those out each."""
    mtbf: float = float("inf")
    """Mean time between failures, in seconds: for the reliability of a plan."""


@dataclass(frozen=True, slots=True)
class NetworkLink:
    """A link between the machines of two sites, or inside one site; it works in both directions."""

    one: str
    other: str
    bandwidth: float = float("inf")
    latency: float = 0.0
    capacity: float = float("inf")
    """Bytes per second that all transfers over the link share; ``bandwidth`` limits each."""


@dataclass(frozen=True, eq=False)
class Platform:
    name: str
    machines: tuple[PlatformMachine, ...]
    links: tuple[NetworkLink, ...] = ()
    default: NetworkLink = field(default_factory=lambda: NetworkLink("", ""))
    """The link between sites that no other link joins."""
    overlap: bool = True
    """Whether inputs arrive while other tasks compute; otherwise a task holds its cores while its
    inputs arrive."""

    def __post_init__(self) -> None:
        if not self.machines:
            raise InputError(f"platform {self.name!r} has no machine")
        name, count = Counter(machine.name for machine in self.machines).most_common(1)[0]
        if count > 1:
            raise InputError(f"platform {self.name!r}: {count} machines are named {name!r}")
        for machine in self.machines:
            if not 0 < machine.speed < float("inf") or machine.cores < 1 or not machine.memory > 0:
                raise InputError(
                    f"machine {machine.name!r}: speed and memory above 0, and at least a core"
                )
            if not (0 <= machine.boot < float("inf") and machine.billing > 0 < machine.network):
                raise InputError(
                    f"machine {machine.name!r}: boot 0 or more, billing and network above 0"
                )
            if not machine.mtbf > 0:
                raise InputError(
                    f"machine {machine.name!r}: the time between failures (mtbf) is above 0"
                )
        for link in (*self.links, self.default):
            if not link.bandwidth > 0 < link.capacity or not 0 <= link.latency < float("inf"):
                raise InputError(
                    f"link {link.one!r} - {link.other!r}: bandwidth and capacity above 0, "
                    "latency 0 or more"
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
        """Seconds of latency between sites, by site number."""
        return self._between("latency")

    @cached_property
    def bandwidth(self) -> NDArray[np.float64]:
        """Bytes per second between sites, by site number."""
        return self._between("bandwidth")

    @cached_property
    def capacity(self) -> NDArray[np.float64]:
        """Bytes per second that transfers share between sites, by site number."""
        return self._between("capacity")

    def number(self, name: str) -> int:
        """Return the index of the machine *name*; NotFoundError if there is none."""
        names = [machine.name for machine in self.machines]
        if name not in names:
            hint = did_you_mean(name, names)
            raise NotFoundError(f"{self.name} has no machine {name!r}", hint=hint)
        return names.index(name)

    def _between(self, attribute: str) -> NDArray[np.float64]:
        site_numbers = {site: i for i, site in enumerate(self.sites)}
        matrix = np.full((len(site_numbers), len(site_numbers)), getattr(self.default, attribute))
        for link in self.links:
            for site in (link.one, link.other):
                if site not in site_numbers:
                    raise InputError(
                        f"link {link.one!r} - {link.other!r}: no machine is at site {site!r}",
                        hint=did_you_mean(site, site_numbers),
                    )
            a, b = site_numbers[link.one], site_numbers[link.other]
            matrix[a, b] = matrix[b, a] = getattr(link, attribute)
        return matrix


def identical(count: int, name: str = "") -> Platform:
    """Return a platform of *count* machines of speed 1, joined by links that take no time."""
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
    """Return the 314 machines, at four sites, on which WIEN2k was scheduled in 2005.

    Speeds are in GHz, as described in section 6 of "Dynamic Scheduling of Scientific Workflow
    Applications on the Grid": 16 machines of 3 GHz, a cluster of 64 nodes of 700 MHz with Myrinet;
    the others are "mostly average and low quality", drawn here from 0.3 to 2 GHz by *seed*. Links
    have 100 Mbit/s inside a site and 20 Mbit/s between sites.
    """
    # The paper gives no speeds of the slow machines: they are drawn, reproducibly.
    rng = np.random.default_rng(seed)
    fast = [PlatformMachine(f"fast{i:02}", 3.0, site=_SITES[0]) for i in range(1, 17)]
    cluster = [PlatformMachine(f"node{i:02}", 0.7, site=_MYRINET.one) for i in range(1, 65)]
    speeds = np.round(rng.uniform(0.3, 2.0, 314 - 80), 2).tolist()
    slow = [
        PlatformMachine(f"{_SITES[i % 3]}{i // 3 + 1:02}", speed, site=_SITES[i % 3])
        for i, speed in enumerate(speeds)
    ]
    inside = [NetworkLink(site, site, 12.5e6, 0.0002) for site in _SITES]
    links = (_MYRINET, *inside)
    return Platform("grid-2005", (*fast, *cluster, *slow), links, NetworkLink("", "", 2.5e6, 0.02))


TESTBEDS: dict[str, Callable[[], Platform]] = {"grid-2005": grid_2005}
