"""How each kind of file writes its comments, and how it writes an assignment."""

from zenturio.annotate.dialects.dialect import Dialect
from zenturio.annotate.dialects.table import BUILT_IN, SIDE, UNKNOWN, dialect_of, known, named

__all__ = ["BUILT_IN", "SIDE", "UNKNOWN", "Dialect", "dialect_of", "known", "named"]
