"""Spaces of parameters under constraints: lazy, with an exact size and random access.

>>> from zenturio.space import Space, geometric
>>> space = Space(n=geometric(128, 1024), threads=[1, 2, 4]).where("n * threads <= 2048")
>>> space.size, space.point(3)
(11, Point(n=256, threads=1))
"""

from zenturio.space.domain import (
    Continuous,
    Domain,
    arithmetic,
    elements,
    geometric_texts,
    linear,
    logarithmic,
)
from zenturio.space.parameter import (
    Dependent,
    Parameter,
    Zip,
    concatenation,
    derived,
    geometric,
    loguniform,
    parameter,
    span,
    typed,
    uniform,
)
from zenturio.space.point import Point
from zenturio.space.space import Space

__all__ = [
    "Continuous",
    "Dependent",
    "Domain",
    "Parameter",
    "Point",
    "Space",
    "Zip",
    "arithmetic",
    "concatenation",
    "derived",
    "elements",
    "geometric",
    "geometric_texts",
    "linear",
    "logarithmic",
    "loguniform",
    "parameter",
    "span",
    "typed",
    "uniform",
]
