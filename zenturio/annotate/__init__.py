"""Annotated programs: directives in comments are parsed, and filled in for each point.

>>> from zenturio.annotate.substitution import Filler
>>> from zenturio.annotate.scan import scan
>>> application = scan("matmul.c")  # doctest: +SKIP
>>> Filler(application).files(application.space.point(0))  # doctest: +SKIP
"""
