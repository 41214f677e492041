"""One attempt of an experiment at a host: what its stages work with."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zenturio.execute.command_line import allowed_threads, step_request
from zenturio.execute.hosts.answer_checks import STREAM_BYTES
from zenturio.execute.hosts.attempt_journal import AttemptJournal
from zenturio.execute.hosts.connection import Answer
from zenturio.execute.hosts.hosts_file import HostsOptions
from zenturio.execute.hosts.remote_host import RemoteHost
from zenturio.execute.local_runner import IDENTITY
from zenturio.experiment import Experiment, Step
from zenturio.expression import Value, text_of

_HOST_FACT = re.compile(r"\{host\.([A-Za-z_]\w*)\}")
_GRACE_SECONDS = 2.0
_MOST_PROCESSES = 4096


@dataclass(frozen=True)
class StageContext:
    """Where an attempt is, and what goes with it."""

    experiment: Experiment
    host: RemoteHost
    token: str
    options: HostsOptions
    scratch: Path
    """A folder here for what comes back."""
    restart: Path
    """Restart files that go there, or come from there."""
    journal: AttemptJournal
    stopped: Callable[[], None]
    """Raises what is to end a stage that waits."""

    def ask(self, do: str, *blobs: bytes, **fields: Any) -> Answer:
        """Ask the host about this attempt."""
        return self.host.ask(do, *blobs, token=self.token, **fields)

    def request(self, steps: tuple[Step, ...], environment: Mapping[str, str]) -> dict[str, Any]:
        """Return what a supervisor is told: to run *steps*."""
        facts = self.host.values()
        cores = int(self.host.facts.get("cores") or 0)
        return {
            "threads": allowed_threads(steps, max(cores // max(self.host.slots, 1), 1)),
            "shared": self.host.slots > 1,
            "steps": [host_step_request(step, facts) for step in steps],
            "environment": {
                **_host_variables(facts),
                **environment,
                IDENTITY: self.experiment.digest,
            },
            "head": STREAM_BYTES,
            "tail": STREAM_BYTES,
            "grace": _GRACE_SECONDS,
            "processes": _MOST_PROCESSES,
            "exact": True,
        }


def host_step_request(step: Step, facts: Mapping[str, Value]) -> dict[str, Any]:
    """A step as a launcher understands it, with what it asks of the host filled in."""
    return step_request(replace(step, command=fill_host_facts(step.command, facts, quote=True)))


def fill_host_facts(text: str, facts: Mapping[str, Value], *, quote: bool = False) -> str:
    """*text* with ``{host.arch}`` replaced by what it is; what no host has is left alone."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in facts:
            return match.group(0)
        fact_text = text_of(facts[name])
        return shlex.quote(fact_text) if quote else fact_text

    return _HOST_FACT.sub(value, text)


def host_pattern(text: str) -> str:
    """*text* as a pattern for any host: ``bin/solver.{host.arch}`` is ``bin/solver.*``."""
    return _HOST_FACT.sub("*", text)


def _host_variables(facts: Mapping[str, Value]) -> dict[str, str]:
    """Return what commands may want to know of the host, in their environment."""
    names = ("name", "arch", "cores", "memory", "speed")
    return {f"ZEN_HOST_{n.upper()}": text_of(facts[n]) for n in names if facts.get(n) is not None}
