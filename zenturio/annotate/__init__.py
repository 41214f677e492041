"""Text with holes: directives in comments are read, and filled in for each point.

>>> from zenturio.annotate import scan
>>> scan("matmul.c").space.size  # doctest: +SKIP
3300
"""

from zenturio.annotate.model import Application
from zenturio.annotate.scan import scan

__all__ = ["Application", "scan"]
