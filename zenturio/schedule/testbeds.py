"""Platforms that have a name of their own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zenturio.schedule.platform import NetworkLink, Platform, PlatformMachine

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
