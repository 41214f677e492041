"""
The three stages of an attempt: prolog, wrapper, epilog.

Each is a class without arguments, found by its name in the group ``zenturio.stages``, or as
``FILE.py:CLASS``: hosts.toml says which. What a stage cannot do it raises: DroppedError where the
connection is gone (it will be called again), RefusedError where it has failed (and may be tried
again), anything else where the study has to end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from zenturio.execute.filing import remove
from zenturio.execute.hosts.building import built
from zenturio.execute.hosts.logs import logs_of
from zenturio.execute.hosts.machine import Ways
from zenturio.execute.hosts.modules import (
    Evaluator,
    Ranked,
    Selector,
    Slowdown,
    evaluator,
    module,
    selector,
)
from zenturio.execute.hosts.moving import fetch, fetch_all
from zenturio.execute.hosts.preparing import prepare, suits
from zenturio.execute.hosts.site import Site
from zenturio.execute.run_facts import check_run_facts
from zenturio.execute.workspace import REPORT
from zenturio.experiment import Log


@dataclass(frozen=True)
class Finished:
    """What an attempt left: how it ended, what it said, and its files, in a folder here."""

    facts: dict[str, Any]
    stdout: Log
    stderr: Log
    folder: Path
    reported: bytes
    spoilt: bool
    fault: str = ""
    """What the experiment did to its folder there, as ``its folder was deleted``."""
    machine: Mapping[str, Any] | None = None
    """What the host is, as it told behind the run; see this_machine."""
    is_build_idle: bool = False
    """Whether the build that it used left every file as it was."""


class Prolog(Protocol):
    """Prepares the host: the folder and all files of the experiment."""

    def __call__(self, site: Site) -> None: ...


class Wrapper(Protocol):
    """Starts the experiment; it is called again where nobody knows whether it did."""

    def __call__(self, site: Site) -> None: ...


class Epilog(Protocol):
    """Brings home what the experiment left; the host is cleaned behind it."""

    def __call__(self, site: Site) -> Finished: ...


@dataclass(frozen=True)
class Stages:
    """The stages of a place, and what decides for its jobs."""

    prolog: Prolog
    wrapper: Wrapper
    epilog: Epilog
    selector: Selector = field(default_factory=Ranked)
    evaluator: Evaluator = field(default_factory=Slowdown)

    @staticmethod
    def of(ways: Ways) -> Stages:
        """Those that *ways* name."""
        return Stages(
            module(ways.prolog),
            module(ways.wrapper),
            module(ways.epilog),
            selector(ways.selector),
            evaluator(ways.evaluator),
        )


class Staging:
    """The usual prolog: shared files once for each host, all others with the experiment."""

    def __call__(self, site: Site) -> None:
        experiment = site.experiment
        wanted = [f for f in experiment.files if suits(f.path, site)]
        prepare(site, wanted, built(site))


class Starting:
    """The usual wrapper: the experiment's commands, in its environment."""

    def __call__(self, site: Site) -> None:
        experiment = site.experiment
        site.ask("start", request=site.request(experiment.steps, experiment.environment))


class Returning:
    """The usual epilog: streams, metrics, and the files that OUTPUT names."""

    def __call__(self, site: Site) -> Finished:
        told, blobs = site.ask("reply")
        check_run_facts(told["reply"], len(site.experiment.steps))
        remove(str(site.scratch))
        site.scratch.mkdir(parents=True)
        fetch_all(site, site.experiment.recipe.outputs, site.scratch)
        logs = logs_of(told["reply"]["sizes"], blobs)
        reported = fetch(site, REPORT)
        spoilt, fault = told["spoilt"], told["fault"]
        reply, machine, idle = told["reply"], told["machine"], told["idle"]
        return Finished(reply, *logs, site.scratch, reported, spoilt, fault, machine, idle)
