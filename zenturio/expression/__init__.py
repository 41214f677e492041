"""The one small language of constraints, derived values, metrics, objectives and ranks.

>>> from zenturio.expression import parse
>>> parse("n * threads <= 2048 and ispow2(n)").value({"n": 64, "threads": 8})
True
"""

from zenturio.expression.expression import Expression, parse
from zenturio.expression.scalar_functions import Type, Value, holds, text_of
from zenturio.expression.writer import quoted

__all__ = ["Expression", "Type", "Value", "holds", "parse", "quoted", "text_of"]
