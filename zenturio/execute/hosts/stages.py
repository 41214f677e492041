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

from zenturio.execute.file_staging import remove_tree
from zenturio.execute.hosts.attempt_folder import prepare_folder, suits_host
from zenturio.execute.hosts.decision_plugins import (
    Evaluator,
    Ranked,
    Selector,
    Slowdown,
    load_evaluator,
    load_plugin,
    load_selector,
)
from zenturio.execute.hosts.file_transfer import fetch_file, fetch_files
from zenturio.execute.hosts.host_builds import ensure_built
from zenturio.execute.hosts.hosts_options import HostsOptions
from zenturio.execute.hosts.reply_logs import reply_logs
from zenturio.execute.hosts.stage_context import StageContext
from zenturio.execute.run_facts import check_run_facts
from zenturio.execute.workspace import REPORT
from zenturio.experiment import Log


@dataclass(frozen=True)
class FinishedAttempt:
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

    def __call__(self, context: StageContext) -> None: ...


class Wrapper(Protocol):
    """Starts the experiment; it is called again where nobody knows whether it did."""

    def __call__(self, context: StageContext) -> None: ...


class Epilog(Protocol):
    """Brings home what the experiment left; the host is cleaned behind it."""

    def __call__(self, context: StageContext) -> FinishedAttempt: ...


@dataclass(frozen=True)
class Stages:
    """The stages of a place, and what decides for its jobs."""

    prolog: Prolog
    wrapper: Wrapper
    epilog: Epilog
    selector: Selector = field(default_factory=Ranked)
    evaluator: Evaluator = field(default_factory=Slowdown)

    @staticmethod
    def of(options: HostsOptions) -> Stages:
        """Return those that *options* name."""
        return Stages(
            load_plugin(options.prolog),
            load_plugin(options.wrapper),
            load_plugin(options.epilog),
            load_selector(options.selector),
            load_evaluator(options.evaluator),
        )


class Staging:
    """The usual prolog: shared files once for each host, all others with the experiment."""

    def __call__(self, context: StageContext) -> None:
        experiment = context.experiment
        files = [f for f in experiment.files if suits_host(f.path, context)]
        prepare_folder(context, files, ensure_built(context))


class Starting:
    """The usual wrapper: the experiment's commands, in its environment."""

    def __call__(self, context: StageContext) -> None:
        experiment = context.experiment
        context.ask("start", request=context.request(experiment.steps, experiment.environment))


class Returning:
    """The usual epilog: streams, metrics, and the files that OUTPUT names."""

    def __call__(self, context: StageContext) -> FinishedAttempt:
        answer, blobs = context.ask("reply")
        check_run_facts(answer["reply"], len(context.experiment.steps))
        remove_tree(str(context.scratch))
        context.scratch.mkdir(parents=True)
        fetch_files(context, context.experiment.recipe.outputs, context.scratch)
        logs = reply_logs(answer["reply"]["sizes"], blobs)
        reported = fetch_file(context, REPORT)
        spoilt, fault = answer["spoilt"], answer["fault"]
        reply, machine, idle = answer["reply"], answer["machine"], answer["idle"]
        return FinishedAttempt(
            reply, *logs, context.scratch, reported, spoilt, fault, machine, idle
        )
