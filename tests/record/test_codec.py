"""Values come back as they were, whatever they are: laws."""

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from zenturio.experiment.experiment import Missing, Series
from zenturio.record import codec
from zenturio.record.codec import COLUMNS, Form
from zenturio.record.facts import Field
from zenturio.record.layout import Layout, spread
from zenturio.testing.experiments import same

text = st.text(st.characters(exclude_categories=())) | st.text("\0\udcff\ud800aä", max_size=4)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from([0.0, -0.0, 2**63, 2**63 - 1, -(2**63), -(2**63) - 1])
    | text
)
measures = scalars | st.lists(scalars).map(lambda v: Series(tuple(v))) | text.map(Missing)


@given(st.dictionaries(text, measures))
def test_json_gives_back_what_it_was_given(values):
    written = codec.dump(values)
    assert same(codec.load(written), values)
    if written is not None:
        written.encode()
        assert "\0" not in written
        assert "\\u0000" not in written
        json.loads(written, parse_constant=lambda name: 1 / 0)


@given(text)
def test_escaped_text_is_held_by_every_database(word):
    escaped = codec.escape(word)
    escaped.encode()
    assert "\0" not in escaped
    assert codec.unescape(escaped) == word


@given(st.lists(measures), st.booleans())
def test_a_uniform_column_is_what_each_of_its_values_is(values, exact):
    form = codec.uniform(values, exact_reals=exact)
    each = {codec.form_of(v, exact_reals=exact) for v in values if v is not None}
    if form is not None:
        assert each == ({form} if form else set())


names = st.sampled_from(["a", "b", "c", "a\0", "d"])


same_in_all = st.tuples(st.dictionaries(names, measures), st.integers(1, 5)).map(
    lambda drawn: [drawn[0]] * drawn[1]
)
rows_of_metrics = st.lists(st.dictionaries(names, measures), min_size=1) | same_in_all


@st.composite
def partly_the_same(draw):
    """Rows that have some of their values from one dictionary, the very same objects."""
    shared = draw(st.dictionaries(names, measures))
    return [{**row, **shared} for row in draw(rows_of_metrics)]


@given(rows_of_metrics | partly_the_same(), st.booleans())
def test_what_is_spread_over_columns_is_read_back(rows, exact):
    declared = Layout(1, "s", 0, ()).declared("metric", [Field("a", "int"), Field("b")])
    found = spread(declared, "metric", rows, exact_reals=exact)
    reader = found.layout.reader
    for row, given_row in enumerate(rows):
        cells = [
            found.columns[name][row] if name in found.columns else None for name in reader.columns
        ]
        if not exact:
            assert not any(isinstance(c, float) and math.isnan(c) for c in cells)
        wanted = {name: value for name, value in given_row.items() if value is not None}
        assert same(dict(sorted(reader.metrics(cells).items())), dict(sorted(wanted.items())))


@given(rows_of_metrics | partly_the_same())
def test_spreading_the_same_again_needs_no_new_columns(rows):
    first = spread(Layout(1, "s", 0, ()), "metric", rows, exact_reals=True)
    again = spread(first.layout, "metric", rows, exact_reals=True)
    assert again.layout is first.layout
    assert again.columns == first.columns or same(again.columns, first.columns)


def test_every_form_with_a_column_is_a_form():
    assert {*COLUMNS} < {*Form}
