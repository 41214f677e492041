"""What is said of a round before it is measured."""

from __future__ import annotations


def round_begins(number: int) -> str:
    """Say that a new round is going to be measured."""
    return f"round {number} begins: what has results is measured again, beside them"


def round_goes_on(number: int) -> str:
    """Say that a round is measured further which somebody has begun."""
    return f"round {number} goes on: what it has results of already is not run again"
