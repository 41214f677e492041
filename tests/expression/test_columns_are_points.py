"""What a column says of a row is what a point says there: value, type, or error."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from expression.random_expressions import cases, expression_of

from zenturio.errors import ExpressionError
from zenturio.expression import columns as columns_module
from zenturio.expression import parse


def one_by_one(expression, lists, positions, length):
    """The naive twin: every row as a point; an error is kept as what it says."""
    found = []
    for row in range(length):
        try:
            values = {name: column[row] for name, column in lists.items()}
            spots = {name: column[row] for name, column in positions.items()}
            value = expression.value(values, spots)
            found.append((type(value), repr(value)))
        except ExpressionError as error:
            found.append(error)
    return found


def agree(expression, length, lists, arrays):
    positions = {name: list(range(length)) for name in ("i", "p")}
    expected = one_by_one(expression, lists, positions, length)
    spots = {name: np.array(column) for name, column in positions.items()}
    try:
        found = expression.column(arrays, length, spots)
    except ExpressionError as error:
        assert isinstance(expected[error.row], ExpressionError), (str(error), error.row)
        assert str(expected[error.row]) == str(error)
        return
    assert not any(isinstance(value, ExpressionError) for value in expected), expected
    assert [(type(value), repr(value)) for value in found.tolist()] == expected


@pytest.mark.parametrize(("few", "block"), [(0, 1 << 15), (0, 2), (32, 1 << 15)])
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_a_column_holds_in_each_row_what_the_point_gives(few, block, case):
    tree, *table = case
    with mock.patch.multiple(columns_module, FEW=few, BLOCK=block):
        agree(expression_of(tree), *table)
