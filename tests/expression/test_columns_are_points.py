"""What a column says of a row is what a point says there: value, type, or error."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expression.random_expressions import Chance, column_of, expression_of
from zenturio.errors import ExpressionError
from zenturio.expression import column_evaluator as columns_module

WAYS = {"at once": (0, 1 << 15), "in blocks": (0, 3), "one by one": (32, 1 << 15)}


def one_by_one(expression, lists, positions, length):
    """The naive twin: every row as a point; an error stands for itself."""
    found = []
    for row in range(length):
        try:
            values = {name: column[row] for name, column in lists.items()}
            value = expression.value(values, dict.fromkeys(positions, row))
            found.append((type(value), repr(value)))
        except ExpressionError as error:
            found.append(error)
    return found


def both(expression, lists, length):
    """What the column holds, and what it should: values with their types, or the error of a row."""
    positions = {name: np.arange(length) for name in expression.indexed}
    arrays = {name: column_of(column) for name, column in lists.items()}
    expected = one_by_one(expression, lists, positions, length)
    if any(isinstance(value, ExpressionError) for value in expected):
        with pytest.raises(ExpressionError) as caught:
            expression.column(arrays, length, positions)
        return str(caught.value), str(expected[caught.value.row])
    found = expression.column(arrays, length, positions).tolist()
    return [(type(value), repr(value)) for value in found], expected


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=settings.default.max_examples, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_column_holds_in_each_row_what_the_point_gives(way, seed):
    few, block = WAYS[way]
    chance = Chance(seed)
    with mock.patch.multiple(columns_module, FEW=few, BLOCK=block):
        for depth in range(1, 5) if way == "one by one" else [*range(1, 5)] * 8:
            kind = chance.random.choice(["int", "real", "str", "bool", "bool"])
            expression = expression_of(chance.tree(kind, depth))
            length = chance.random.choice([1, 2, 3, 8, 8, 20])
            lists = {name: chance.column(name, length) for name in sorted(expression.names)}
            found, expected = both(expression, lists, length)
            assert found == expected, f"{expression} with {lists}"
