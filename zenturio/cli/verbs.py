"""Which verbs there are, in groups, and the module that holds each.

``zen --help`` prints this table and loads none of the modules; a verb loads its own module alone.
To add a verb, write it into a module of this package, have the module's ``add_to`` register it, and
name it here. A test compares each line with the verb's own help.

Applications such as scheduling name their verbs themselves: modules with a TITLE and VERBS that are
entry points of the group ``zenturio.applications``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from zenturio import plugins
from zenturio.cli.logging_options import options_behind_a_verb
from zenturio.errors import PluginError

GROUP = "applications"
"""Applications are entry points of the group ``zenturio.applications``."""

GROUPS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Start": {
        "init": ("annotations", "Write a first annotated example that runs."),
        "check": ("annotations", "Check the directives for mistakes."),
        "space": ("annotations", "Show the parameters and how many points they make."),
        "expand": ("annotations", "Write the files of each experiment into a folder of its own."),
    },
    "Run": {
        "run": ("run", "Run the experiments of a study and record their results."),
        "attach": ("run", "Resume a study whose driver died, by its name."),
        "cancel": ("run", "Cancel a study, a queued submission or one experiment."),
        "equate": ("equate", "Accept the results of another version for the current program."),
        "extract": ("results", "Extract metrics again from kept output; run nothing."),
    },
    "Query": {
        "list": ("status_and_logs", "List the studies of the project."),
        "status": ("status_and_logs", "Show the progress, failures and drivers of studies."),
        "show": ("status_and_logs", "Show an experiment: parameters, metrics, attempts."),
        "logs": ("status_and_logs", "Print the output of an experiment, byte for byte."),
        "diff": ("status_and_logs", "Compare two experiments: parameters, metrics, files."),
        "results": ("results", "Show the results of a study: filter, group, sort, export."),
        "sql": ("results", "Query the database with read-only SQL."),
        "fit": ("results", "Fit formulas to a metric and select the best."),
        "scaling": ("charts", "Show speedup, efficiency and limits over threads or nodes."),
        "plot": ("charts", "Draw a chart of a study."),
        "report": ("charts", "Export a report with its charts as one file."),
        "portal": (
            "service",
            "Start the web portal: studies, failures, tables and charts.",
        ),
    },
    "Decide": {
        "compare": ("decide", "Compare two versions or studies, point by point."),
        "gate": ("decide", "Fail if the program is worse than a baseline, for CI."),
        "noise": ("decide", "Show which differences this machine can detect."),
        "history": ("decide", "Show a metric over the commits, and where it changed."),
        "bisect": ("decide", "Find the commit that changed a metric."),
    },
    "Search and tune": {
        "engines": ("best_and_tune", "List the search engines and their settings."),
        "best": ("best_and_tune", "Show the best points of a study."),
        "explain": ("best_and_tune", "Show what matters, what is best, and what to try next."),
        "sensitivity": ("best_and_tune", "Show how much a metric depends on each parameter."),
        "tune": ("best_and_tune", "Find the best settings of a search engine."),
        "import": ("best_and_tune", "Import the trials of an Optuna study."),
    },
    "Places and services": {
        "places": ("places", "List the places where experiments can run."),
        "hosts": ("places", "Connect to hosts and show their state."),
        "serve": ("service", "Run submitted studies as a service."),
        "submit": ("service", "Submit a study to the service."),
        "queue": ("service", "List submitted studies and their progress."),
    },
    "Maintain": {
        "db": ("maintenance", "Check, upgrade, back up and repair the database."),
        "redact": ("maintenance", "Show where a secret was recorded; remove it with --yes."),
        "bugreport": ("bug_report", "Write one file to attach to a bug report, without secrets."),
        "prune": ("maintenance", "Show what can be removed; remove it with --yes."),
    },
}


@cache
def all_groups() -> Mapping[str, Mapping[str, tuple[str, str]]]:
    """Return the groups of verbs with those of applications, before the last group."""
    applications: dict[str, Mapping[str, tuple[str, str]]] = {}
    for name in plugins.names(GROUP):
        with suppress(PluginError):  # a broken application must not take all other verbs with it
            application = plugins.load(GROUP, name)
            applications[application.TITLE] = application.VERBS
    *groups, (last, verbs) = GROUPS.items()
    return {**dict(groups), **applications, last: verbs}


def _modules(groups: Mapping[str, Mapping[str, tuple[str, str]]]) -> dict[str, str]:
    return {verb: module for verbs in groups.values() for verb, (module, _) in verbs.items()}


class _Commands(Mapping[str, Any]):
    """The commands by name, each made when it is first used.

    Applications are looked up only if a verb is not one of GROUPS: reading the entry points of all
    installed packages would slow down the start of every verb.
    """

    def __init__(self) -> None:
        self._modules = _modules(GROUPS)
        self._made: dict[str, Any] = {}

    def __getitem__(self, verb: str) -> Any:
        if verb not in self._made:
            if verb not in self._modules:
                self._modules = _modules(all_groups())
            app = typer.Typer(rich_markup_mode=None)
            app.callback()(_no_options)  # an app of one command alone would be that command
            import_module(f"zenturio.cli.{self._modules[verb]}").add_to(app)
            for name, command in get_group(app).commands.items():
                _add_log_options(command)
                _name_values(command)
                self._made[name] = command
        return self._made[verb]

    def __iter__(self) -> Iterator[str]:
        return iter(_modules(all_groups()))

    def __len__(self) -> int:
        return len(_modules(all_groups()))


def _add_log_options(command: Any) -> None:
    """Let *command*, and the verbs below it, take -v and --log-file."""
    command.params.extend(options_behind_a_verb())
    for part in getattr(command, "commands", {}).values():
        _add_log_options(part)


_VALUE_NAMES = {"int": "N", "int range": "N", "float": "X", "float range": "X", "path": "FILE"}


def _name_values(command: Any) -> None:
    """Show what the values of options are: ``--limit N``, not the type that the parser checks."""
    for option in command.params:
        if option.param_type_name != "option" or option.metavar or option.is_flag or option.count:
            continue
        kind = option.type.name
        long_name = max(option.opts, key=len).lstrip("-")
        option.metavar = _VALUE_NAMES.get(kind) or long_name.upper()
        if kind.endswith(" range"):
            limits = option.type._describe_range()  # noqa: SLF001 - there is no public name for it
            option.type._describe_range = partial(  # noqa: SLF001 - see above
                limits.replace, "x", option.metavar
            )
    for part in getattr(command, "commands", {}).values():
        _name_values(part)


def _no_options() -> None:
    pass


class Verbs(TyperGroup):
    """The group of all verbs."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands()  # type: ignore[assignment] # click never writes to it

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        widest = max(map(len, self.commands))
        for title, verbs in all_groups().items():
            with formatter.section(title):
                rows = [(verb.ljust(widest), line) for verb, (_, line) in verbs.items()]
                formatter.write_dl(rows)
