"""What was learnt: chosen, grouped, compared, fitted, exported."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zenturio.query.aggregates import AGGREGATES
    from zenturio.query.comparison import Comparison, compare, compare_studies
    from zenturio.query.frames import study_frame
    from zenturio.query.importance import Importances, SettingsRanking, importances, recommend
    from zenturio.query.raw_query import QueryLimits, raw
    from zenturio.query.regression import KINDS, Model, fit, fit_each, fits
    from zenturio.query.result_table import (
        FORMATS,
        Column,
        ResultTable,
        export,
        format_of_path,
        json_value,
        result_columns,
    )
    from zenturio.query.select_results import point_repeats, points_measured, results

_HOMES = {
    "aggregates": ("AGGREGATES",),
    "comparison": ("Comparison", "compare", "compare_studies"),
    "frames": ("study_frame",),
    "importance": ("Importances", "SettingsRanking", "importances", "recommend"),
    "raw_query": ("QueryLimits", "raw"),
    "regression": ("KINDS", "Model", "fit", "fit_each", "fits"),
    "result_table": (
        "Column",
        "FORMATS",
        "ResultTable",
        "export",
        "format_of_path",
        "json_value",
        "result_columns",
    ),
    "select_results": ("point_repeats", "points_measured", "results"),
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
    "ResultTable",
    "SettingsRanking",
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
    """Loads a module on the first access to one of its names: pandas and SQLAlchemy take their
    time.
    """
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
