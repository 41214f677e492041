"""
A Python function as a command: ``python -m zenturio.execute.call ROOT MODULE:NAME``.

Its arguments are JSON in a file of the experiment's folder, its answer goes to ``$ZEN_METRICS``,
and an exception ends it with 1 and a traceback. Launchers do not start an interpreter for that:
they import the module once, and fork. Nothing is pickled: the function is found by its name.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

ARGUMENTS = ".zen-arguments.json"
"""The file that holds what the function is called with."""


@cache
def _prepare() -> None:
    """Find what is installed, and what PYTHONPATH names: launchers start without."""
    if sys.flags.no_site:
        import site  # noqa: PLC0415

        site.main()
    sys.path += [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]


@cache
def load(root: str, target: str) -> Callable[..., Any]:
    """Return the function: of a module that is found from the folder *root*, or of a file."""
    _prepare()
    home, _, name = target.rpartition(":")
    if root not in sys.path:
        sys.path.insert(0, root)
    module = _import_file(home) if home.endswith(".py") else importlib.import_module(home)
    function: Callable[..., Any] = getattr(module, name)
    return function


def _import_file(path: str) -> ModuleType:
    """Return a program that was started by its file, whose module is found nowhere."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Registered before it runs: dataclasses and pickles look their module up by name.
    sys.modules[Path(path).stem] = module
    spec.loader.exec_module(module)
    return module


def preload(root: str, target: str) -> None:
    """Import what a fork will need; what is wrong with it, the fork says."""
    with suppress(BaseException):  # whatever a module does when it is imported
        load(root, target)
        importlib.import_module("zenturio.execute.function_metrics")
        importlib.import_module("zenturio.execute.experiment_codec")


def call_function(root: str, target: str) -> int:
    """Call the function in the current folder, and report what it answers; the exit status."""
    from zenturio.execute.experiment_codec import value_from_json, values_to_json  # noqa: PLC0415
    from zenturio.execute.function_metrics import metrics_of  # noqa: PLC0415 - a launcher that is not asked has none

    try:
        arguments = json.loads(Path(ARGUMENTS).read_bytes())
        result = load(root, target)(
            **{name: value_from_json(value) for name, value in arguments.items()}
        )
        metrics = {} if result is None else metrics_of(result)
        line = json.dumps(values_to_json(metrics)) + "\n"
        with Path(os.environ["ZEN_METRICS"]).open("a") as file:
            file.write(line)
    except BaseException:  # noqa: BLE001 - what the function raises is an outcome
        traceback.print_exc()
        return 1
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
    return 0


def read_metrics(lines: bytes) -> Mapping[str, Any]:
    """Return the metrics that a call reported."""
    from zenturio.execute.experiment_codec import value_from_json  # noqa: PLC0415

    metrics: dict[str, Any] = {}
    for line in lines.splitlines():
        with suppress(ValueError):
            values = json.loads(line)
            metrics |= {str(n): value_from_json(v) for n, v in values.items()} if values else {}
    return metrics


def exception_name(stderr: bytes) -> str:
    """Return the type of the exception that a traceback ends with."""
    lines = [line for line in stderr.decode("utf-8", "replace").splitlines() if line[:1].strip()]
    name = lines[-1].partition(":")[0] if lines else ""
    return name.rpartition(".")[2] if name.replace(".", "").isidentifier() else ""


if __name__ == "__main__":
    sys.exit(call_function(*sys.argv[1:]))
