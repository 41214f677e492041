"""What ``zen simulate`` is asked of streams of workflows, carried out by whoever runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from zenturio.errors import InputError, PluginError
from zenturio.schedule.algorithm import describe, make, names
from zenturio.schedule.formats import read_platform
from zenturio.schedule.generators.streams import is_stream, stream_of
from zenturio.schedule.online import Online
from zenturio.schedule.perturb import Perturbation
from zenturio.schedule.platform import Platform
from zenturio.schedule.streamed import Streamed


def wanted(words: Sequence[str], algorithm: str) -> bool:
    """Whether *words* are a stream, or *algorithm* plays nothing else."""
    return is_stream(words) or (bool(algorithm) and describe(algorithm).kind == "online")


def online_of(
    words: Sequence[str],
    on: str = "",
    seed: int = 0,
    machines: Callable[[str], Platform] = read_platform,
) -> Online:
    """The stream that *words* tell on its platform; *machines* reads one."""
    stream, platform = stream_of(words, seed)
    platform = machines(on) if on else platform
    if platform is None:
        raise InputError(
            "the workflows name no machines, or not the same",
            cure="--on grid.toml, or identical:8",
        )
    return Online(stream, platform)


def play(
    online: Online, algorithm: str, settings: Mapping[str, str], perturb: str, seed: int
) -> list[Streamed]:
    """The stream under *algorithm*, or under all that there are for streams."""
    chosen = [algorithm] if algorithm else policies()
    how = Perturbation.read(perturb) if perturb else None
    return [make(each, settings, seed).play(online, how, seed) for each in chosen]


def check(algorithm: str) -> None:
    """InputError, if *algorithm* is one and plays no streams."""
    kind = describe(algorithm).kind if algorithm else "online"
    if kind != "online":
        raise InputError(
            f"{algorithm} is {kind}: it does not share machines among workflows",
            cure=f"--algorithm {', '.join(policies())}",
        )


def policies() -> list[str]:
    """All algorithms that play streams; one that does not load does not hide the others."""
    found = []
    for name in names():
        with suppress(PluginError):
            if describe(name).kind == "online":
                found.append(name)
    return found
