"""
What decides for jobs, and can be replaced: the resource selector and the performance evaluator.

Both are classes without arguments, found as stages are: by a name in the group ``zenturio.stages``,
or as ``FILE.py:CLASS`` beside hosts.toml.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any, Protocol

from zenturio import plugins
from zenturio.errors import ExpressionError, PluginError
from zenturio.execute.hosts.host_choice import HostFacts, JobRequirements, best_host
from zenturio.execute.hosts.hosts_options import HostsOptions
from zenturio.execute.hosts.progress_profile import ProgressProfile


class Selector(Protocol):
    """Chooses a host whenever a job waits, or may be better off elsewhere."""

    def __call__(
        self, requirements: JobRequirements, hosts: Sequence[HostFacts], names: Collection[str]
    ) -> int | None:
        """Return which of *hosts*, those that have room; none: the job waits, or stays.

        *names* are all facts that any host has.
        """
        ...


class Evaluator(Protocol):
    """Looks at a job whenever it tells how far it is."""

    def __call__(self, profile: ProgressProfile, options: HostsOptions) -> str:
        """Return why it is too slow where it is; nothing, if it is not."""
        ...


class Ranked:
    """The usual selector: of the hosts that are as REQUIRE wants them, that of the highest RANK."""

    def __call__(
        self, requirements: JobRequirements, hosts: Sequence[HostFacts], names: Collection[str]
    ) -> int | None:
        return best_host(requirements, hosts, names)


class Slowdown:
    """The usual evaluator: iterations longer than those before, by more than the contract."""

    def __call__(self, profile: ProgressProfile, options: HostsOptions) -> str:
        if not profile.broken(options.contract):
            return ""
        return f"an iteration took {profile.now:.3g} s, not {profile.usual:.3g} s"


def load_plugin(name: str) -> Any:
    """Return what *name* stands for, made: an entry point, or ``FILE.py:CLASS``.

    PluginError else.
    """
    path, colon, inside = name.rpartition(":")
    if not colon:
        return plugins.load("stages", name)()
    try:
        return getattr(_import_file(path), inside)()
    except Exception as error:
        raise PluginError(f"{name} does not load: {error}") from error


@cache
def _import_file(path: str) -> ModuleType:
    """The module of a file, under a name that nobody imports: it may be called select.py."""
    name = f"zenturio hosts {path}"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = module_from_spec(spec)  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def load_selector(name: str) -> Selector:
    """Return the selector *name*.

    What it raises, or chooses and is not there, is told as its fault.
    """
    select = _guard(name, load_plugin(name))

    def chosen(
        requirements: JobRequirements, hosts: Sequence[HostFacts], names: Collection[str]
    ) -> int | None:
        choice = select(requirements, hosts, names)
        if choice is None or (isinstance(choice, int) and 0 <= choice < len(hosts)):
            return choice
        raise PluginError(f"the selector {name} chose {choice!r} of {len(hosts)} hosts")

    return chosen


def load_evaluator(name: str) -> Evaluator:
    """Return the evaluator *name*; what it raises is told as its fault."""
    return _guard(name, load_plugin(name))


def _guard(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (ExpressionError, PluginError):
            raise
        except Exception as error:
            why = f"{name} failed: {type(error).__name__}: {error}"
            raise PluginError(why, hint="it is named in hosts.toml") from error

    return guarded
