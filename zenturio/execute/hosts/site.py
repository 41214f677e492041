"""One attempt of an experiment at a host: what its stages work with."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zenturio.execute.hosts.connection import Answer
from zenturio.execute.hosts.host import Host
from zenturio.execute.hosts.journal import Journal
from zenturio.execute.hosts.machine import Ways
from zenturio.execute.hosts.protocol import STREAM
from zenturio.execute.running import IDENTITY
from zenturio.execute.words import told
from zenturio.experiment import Experiment, Step
from zenturio.expression import Value, text_of

_ASKED = re.compile(r"\{host\.([A-Za-z_]\w*)\}")
_GRACE = 2.0
_PROCESSES = 4096


@dataclass(frozen=True)
class Site:
    """Where an attempt is, and what goes with it."""

    experiment: Experiment
    host: Host
    token: str
    ways: Ways
    scratch: Path
    """A folder here for what comes back."""
    restart: Path
    """Restart files that go there, or come from there."""
    journal: Journal
    stopped: Callable[[], None]
    """Raises what is to end a stage that waits."""

    def ask(self, do: str, *blobs: bytes, **what: Any) -> Answer:
        """Asks the host about this attempt."""
        return self.host.ask(do, *blobs, token=self.token, **what)

    def request(self, steps: tuple[Step, ...], environment: Mapping[str, str]) -> dict[str, Any]:
        """What a keeper is told: to run *steps*."""
        facts = self.host.values()
        return {
            "steps": [command(step, facts) for step in steps],
            "environment": {
                **_told(facts),
                **environment,
                IDENTITY: self.experiment.digest,
            },
            "head": STREAM,
            "tail": STREAM,
            "grace": _GRACE,
            "processes": _PROCESSES,
            "exact": True,
        }


def command(step: Step, facts: Mapping[str, Value]) -> dict[str, Any]:
    """A step as a launcher understands it, with what it asks of the host filled in."""
    return told(replace(step, command=filled(step.command, facts, quote=True)))


def filled(text: str, facts: Mapping[str, Value], *, quote: bool = False) -> str:
    """*text* with ``{host.arch}`` replaced by what it is; what no host has is left alone."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in facts:
            return match.group(0)
        found = text_of(facts[name])
        return shlex.quote(found) if quote else found

    return _ASKED.sub(value, text)


def asks(text: str) -> str:
    """*text* as a pattern for any host: ``bin/solver.{host.arch}`` is ``bin/solver.*``."""
    return _ASKED.sub("*", text)


def _told(facts: Mapping[str, Value]) -> dict[str, str]:
    """What commands may want to know of the host, in their environment."""
    names = ("name", "arch", "cores", "memory", "speed")
    return {f"ZEN_HOST_{n.upper()}": text_of(facts[n]) for n in names if facts.get(n) is not None}
