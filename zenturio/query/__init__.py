"""What was learnt: chosen, grouped, compared, fitted, exported."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zenturio.query.aggregates import AGGREGATES
    from zenturio.query.asking import raw
    from zenturio.query.comparison import Comparison, compare
    from zenturio.query.exporting import FORMATS, export, format_of, jsonable
    from zenturio.query.fitting import KINDS, fit, fit_each, fits
    from zenturio.query.frames import frame
    from zenturio.query.importance import Importances, importances
    from zenturio.query.model import Model
    from zenturio.query.raw_limits import Limits
    from zenturio.query.recommending import Recommendation, recommend
    from zenturio.query.result import Result
    from zenturio.query.select import results

_HOMES = {
    "aggregates": ("AGGREGATES",),
    "comparison": ("Comparison", "compare"),
    "exporting": ("FORMATS", "export", "format_of", "jsonable"),
    "fitting": ("KINDS", "fit", "fit_each", "fits"),
    "frames": ("frame",),
    "importance": ("Importances", "importances"),
    "model": ("Model",),
    "asking": ("raw",),
    "raw_limits": ("Limits",),
    "recommending": ("Recommendation", "recommend"),
    "result": ("Result",),
    "select": ("results",),
}

__all__ = [
    "AGGREGATES",
    "FORMATS",
    "KINDS",
    "Comparison",
    "Importances",
    "Limits",
    "Model",
    "Recommendation",
    "Result",
    "compare",
    "export",
    "fit",
    "fit_each",
    "fits",
    "format_of",
    "frame",
    "importances",
    "jsonable",
    "raw",
    "recommend",
    "results",
]


def __getattr__(name: str) -> Any:
    """Loads a module when something of it is asked for: pandas and SQLAlchemy take their time."""
    for home, names in _HOMES.items():
        if name in names:
            found = getattr(import_module(f"{__name__}.{home}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
