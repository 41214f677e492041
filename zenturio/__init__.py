"""Parameter studies: text with holes becomes a space of points; run them, remember, learn.

>>> import zenturio as zen
>>> zen.Space(n=zen.geometric(128, 1024), threads=[1, 2, 4]).where("n * threads <= 2048").size
11

A public name is loaded from its package at its first use, so importing this costs nothing.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zenturio.annotate.directive_lines import insert
    from zenturio.annotate.scan import scan
    from zenturio.errors import ZenError
    from zenturio.experiment.function import experiment
    from zenturio.search.api import search
    from zenturio.search.ask_and_tell import optimize
    from zenturio.search.define_by_run import from_optuna
    from zenturio.show.charts.column_charts import chart
    from zenturio.show.python_api import Study, import_optuna, run, tune
    from zenturio.show.report_store import save
    from zenturio.space import (
        Parameter,
        Point,
        Space,
        Zip,
        derived,
        geometric,
        linear,
        logarithmic,
        loguniform,
        parameter,
        span,
        uniform,
    )

__all__ = [
    "Parameter",
    "Point",
    "Space",
    "Study",
    "ZenError",
    "Zip",
    "chart",
    "derived",
    "experiment",
    "from_optuna",
    "geometric",
    "import_optuna",
    "insert",
    "linear",
    "logarithmic",
    "loguniform",
    "optimize",
    "parameter",
    "run",
    "save",
    "scan",
    "search",
    "span",
    "tune",
    "uniform",
]

_ELSEWHERE = {
    "Study": "show.python_api",
    "ZenError": "errors",
    "chart": "show.charts.column_charts",
    "experiment": "experiment",
    "from_optuna": "search.define_by_run",
    "import_optuna": "show.python_api",
    "insert": "annotate.directive_lines",
    "optimize": "search.ask_and_tell",
    "run": "show.python_api",
    "save": "show.report_store",
    "scan": "annotate.scan",
    "search": "search",
    "tune": "show.python_api",
}
_HOOKS = {"load_ipython_extension": "show.python_api"}
"""What others look for here: ``%load_ext zenturio``."""
_CALLED = ("experiment", "search")
"""Packages that can be called, for they are called what the function in them is."""
_PACKAGES = {name: _ELSEWHERE.get(name, "space") for name in __all__}


if "ZENTURIO_LOG" in os.environ or "ZENTURIO_LOG_FILE" in os.environ:
    import_module(f"{__name__}.log_setup").configure_from_environment()


def __getattr__(name: str) -> Any:
    if name in _HOOKS:
        return getattr(import_module(f"{__name__}.{_HOOKS[name]}"), name)
    if name not in _PACKAGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    package = import_module(f"{__name__}.{_PACKAGES[name]}")
    attribute = package if name in _CALLED else getattr(package, name)
    globals()[name] = attribute
    return attribute


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
