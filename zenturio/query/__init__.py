"""What was learnt: chosen, grouped, compared, fitted, exported."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zenturio.query.aggregates import AGGREGATES
    from zenturio.query.asking import raw
    from zenturio.query.comparison import Comparison, compare
    from zenturio.query.exporting import FORMATS, export, format_of_path, json_value
    from zenturio.query.fitting import KINDS, fit, fit_each, fits
    from zenturio.query.frames import study_frame
    from zenturio.query.importance import Importances, importances
    from zenturio.query.model import Model
    from zenturio.query.raw_limits import QueryLimits
    from zenturio.query.recommending import Recommendation, recommend
    from zenturio.query.result import ResultTable
    from zenturio.query.select import results

_HOMES = {
    "aggregates": ("AGGREGATES",),
    "comparison": ("Comparison", "compare"),
    "exporting": ("FORMATS", "export", "format_of_path", "json_value"),
    "fitting": ("KINDS", "fit", "fit_each", "fits"),
    "frames": ("study_frame",),
    "importance": ("Importances", "importances"),
    "model": ("Model",),
    "asking": ("raw",),
    "raw_limits": ("QueryLimits",),
    "recommending": ("Recommendation", "recommend"),
    "result": ("ResultTable",),
    "select": ("results",),
}

__all__ = [
    "AGGREGATES",
    "FORMATS",
    "KINDS",
    "Comparison",
    "Importances",
    "Model",
    "QueryLimits",
    "Recommendation",
    "ResultTable",
    "compare",
    "export",
    "fit",
    "fit_each",
    "fits",
    "format_of_path",
    "importances",
    "json_value",
    "raw",
    "recommend",
    "results",
    "study_frame",
]


def __getattr__(name: str) -> Any:
    """Loads a module when something of it is asked for: pandas and SQLAlchemy take their time."""
    for home, names in _HOMES.items():
        if name in names:
            found = getattr(import_module(f"{__name__}.{home}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
