"""Writes values in comments so that they neither close the comment nor break the line."""

from __future__ import annotations

from zenturio.annotate.dialects import Dialect


def shown(text: str, dialect: Dialect, opener: str, closer: str) -> str:
    r"""*text* on one line; what would mean something in the comment is written as ``\x..``."""
    if text.isascii() and text.isalnum():
        return text
    text = "".join(c if c.isprintable() else _escaped(c) for c in text)
    for sequence in (closer, opener if closer else "", *dialect.fragile):
        if sequence:
            text = text.replace(sequence, sequence[:-1] + _escaped(sequence[-1]))
    # A comment of C, make or gnuplot goes on in the next line behind these two.
    if text.endswith(("\\", "??/")):
        text = text[:-1] + _escaped(text[-1])
    return text


def _escaped(character: str) -> str:
    r"""``\n`` and its like, or the number of the character."""
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return named.get(character) or f"\\x{ord(character):02x}"
