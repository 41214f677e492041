"""What was learnt: chosen, grouped, compared, fitted, exported."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zenturio.query.aggregates import AGGREGATES
    from zenturio.query.columns import Column, result_columns
    from zenturio.query.comparison import Comparison, compare, compare_studies
    from zenturio.query.frames import study_frame
    from zenturio.query.importance import Importances, Recommendation, importances, recommend
    from zenturio.query.raw_databases import QueryLimits
    from zenturio.query.raw_query import raw
    from zenturio.query.regression import KINDS, Model, fit, fit_each, fits
    from zenturio.query.repeat_table import point_repeats
    from zenturio.query.result_table import FORMATS, ResultTable, export, format_of_path, json_value
    from zenturio.query.select_results import points_measured, results

_HOMES = {
    "aggregates": ("AGGREGATES",),
    "columns": ("Column", "result_columns"),
    "comparison": ("Comparison", "compare", "compare_studies"),
    "frames": ("study_frame",),
    "importance": ("Importances", "Recommendation", "importances", "recommend"),
    "raw_databases": ("QueryLimits",),
    "raw_query": ("raw",),
    "regression": ("KINDS", "Model", "fit", "fit_each", "fits"),
    "repeat_table": ("point_repeats",),
    "result_table": ("FORMATS", "ResultTable", "export", "format_of_path", "json_value"),
    "select_results": ("points_measured", "results"),
}

__all__ = [
    "AGGREGATES",
    "FORMATS",
    "KINDS",
    "Column",
    "Comparison",
    "Importances",
    "Model",
    "QueryLimits",
    "Recommendation",
    "ResultTable",
    "compare",
    "compare_studies",
    "export",
    "fit",
    "fit_each",
    "fits",
    "format_of_path",
    "importances",
    "json_value",
    "point_repeats",
    "points_measured",
    "raw",
    "recommend",
    "result_columns",
    "results",
    "study_frame",
]


def __getattr__(name: str) -> Any:
    """Loads a module when something of it is asked for: pandas and SQLAlchemy take their time."""
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
