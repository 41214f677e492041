"""The comment and assignment syntax of each kind of file."""

from zenturio.annotate.dialects.dialect import Dialect
from zenturio.annotate.dialects.dialect_registry import (
    BUILT_IN,
    SIDE,
    UNKNOWN,
    dialect_of,
    is_prefixed,
    known,
    named,
)

__all__ = ["BUILT_IN", "SIDE", "UNKNOWN", "Dialect", "dialect_of", "is_prefixed", "known", "named"]
