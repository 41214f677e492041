"""What ``zen simulate`` is asked of streams of workflows, carried out by whoever runs it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from zenturio.errors import InputError, PluginError
from zenturio.schedule.algorithm import describe, make, names
from zenturio.schedule.formats import read_platform
from zenturio.schedule.generators import pairs
from zenturio.schedule.generators.streams import is_stream, stream_of
from zenturio.schedule.online import OnlineSimulation
from zenturio.schedule.perturb import Perturbation
from zenturio.schedule.platform import Platform
from zenturio.schedule.request import SIMULATE_OPTIONS
from zenturio.schedule.streamed import StreamResult
from zenturio.schedule.words import ParsedArguments


@dataclass(frozen=True)
class StreamRequest:
    """A stream of workflows, the machines, who decides whose task is next, and what disturbs it."""

    workflows: tuple[str, ...]
    on: str = ""
    algorithm: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    perturb: str = ""
    seed: int = 0

    @classmethod
    def read(cls, words: Sequence[str], folder: Path) -> StreamRequest | None:
        """What the *words* behind ``zen simulate`` ask; nothing, if they tell no stream."""
        found = ParsedArguments.read("zen simulate", words, SIMULATE_OPTIONS)
        workflows = tuple(_path_in_folder(word, folder) for word in found.workflows)
        if not is_stream_request(workflows, found.options.get("algorithm", "")):
            return None
        if found.options.keys() & {"plan", "iterations"}:
            raise InputError("a stream has neither --plan nor --iterations", hint="leave them out")
        texts = {n: v for n, v in found.options.items() if n in ("on", "algorithm", "perturb")}
        texts["on"] = _path_in_folder(texts.get("on", ""), folder)
        return cls(workflows, **texts, settings=pairs(found.settings), seed=found.seed)

    def played(self, machines: Callable[[str], Platform] = read_platform) -> list[StreamResult]:
        """What becomes of it; *machines* reads a platform."""
        check_online(self.algorithm)
        online = online_simulation(self.workflows, self.on, self.seed, machines)
        return play_stream(online, self.algorithm, self.settings, self.perturb, self.seed)


def stream_report(found: StreamResult) -> bytes:
    """The metrics of *found* as a program reports them to the study that it is run by."""
    if not found.metrics:
        return b""
    return json.dumps({**found.metrics, "wasted": found.wasted}).encode() + b"\n"


def is_stream_request(words: Sequence[str], algorithm: str) -> bool:
    """Whether *words* are a stream, or *algorithm* plays nothing else."""
    return is_stream(words) or (bool(algorithm) and describe(algorithm).kind == "online")


def online_simulation(
    words: Sequence[str],
    on: str = "",
    seed: int = 0,
    machines: Callable[[str], Platform] = read_platform,
) -> OnlineSimulation:
    """The stream that *words* tell on its platform; *machines* reads one."""
    stream, platform = stream_of(words, seed)
    platform = machines(on) if on else platform
    if platform is None:
        raise InputError(
            "the workflows name no machines, or not the same",
            hint="--on grid.toml, or identical:8",
        )
    return OnlineSimulation(stream, platform)


def play_stream(
    online: OnlineSimulation, algorithm: str, settings: Mapping[str, str], perturb: str, seed: int
) -> list[StreamResult]:
    """The stream under *algorithm*, or under all that there are for streams."""
    chosen = [algorithm] if algorithm else online_algorithms()
    how = Perturbation.read(perturb) if perturb else None
    return [make(each, settings, seed).play(online, how, seed) for each in chosen]


def check_online(algorithm: str) -> None:
    """InputError, if *algorithm* is one and plays no streams."""
    kind = describe(algorithm).kind if algorithm else "online"
    if kind != "online":
        raise InputError(
            f"{algorithm} is {kind}: it does not share machines among workflows",
            hint=f"--algorithm {', '.join(online_algorithms())}",
        )


def online_algorithms() -> list[str]:
    """All algorithms that play streams; one that does not load does not hide the others."""
    found = []
    for name in names():
        with suppress(PluginError):
            if describe(name).kind == "online":
                found.append(name)
    return found


def _path_in_folder(word: str, folder: Path) -> str:
    """*word*, with the path of the file in *folder* that it names, if it does."""
    workflow, sign, times = word.rpartition("@")
    if not sign or (folder / word).is_file():
        workflow, sign, times = word, "", ""
    return str(folder / workflow) + sign + times if (folder / workflow).is_file() else word
