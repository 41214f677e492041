"""Values come back as they were, whatever they are: laws."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenturio.errors import RecordError
from zenturio.experiment.experiment import Missing, Series
from zenturio.record import codec
from zenturio.record import field_layout as layout_module
from zenturio.record.codec import SLOTTED, Form
from zenturio.record.entities import Field
from zenturio.record.field_layout import (
    FieldLayout,
    FieldLocation,
    arrange_columns,
    columns_of_rows,
)
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


def arrange_in_slots(layout, points, metrics):
    rows = max(len(points), len(metrics))
    return arrange_columns(layout, columns_of_rows(points, metrics), rows)


@given(st.dictionaries(text, measures))
def test_json_gives_back_what_it_was_given(values):
    written = codec.dump_values(values)
    assert same(codec.load_values(written), values)
    if written is not None:
        written.encode()
        assert "\0" not in written
        assert "\\u0000" not in written
        json.loads(written, parse_constant=lambda name: 1 / 0)


@pytest.mark.parametrize(
    "damaged",
    [
        "{", "[1]", "3", '{"a":{}}', '{"a":{"int":"x"}}', '{"a":{"real":[]}}', '{"a":{"series":1}}',
        '{"a":' + "[" * 100_000 + "]" * 100_000 + "}", '{"a":{"int":1,"real":2}}',
        '{"a":{"escaped":"base64:a"}}',
    ],
)  # fmt: skip
def test_what_nobody_can_have_written_is_damage(damaged):
    with pytest.raises(RecordError, match="a value of the database is damaged"):
        codec.load_values(damaged)
    with pytest.raises(RecordError):
        codec.remarks_on(damaged)


@given(text)
def test_escaped_text_is_held_by_every_database(word):
    escaped = codec.escape(word)
    escaped.encode()
    assert "\0" not in escaped
    assert codec.unescape(escaped) == word


@given(st.lists(measures), st.booleans())
def test_a_uniform_column_is_what_each_of_its_values_is(values, holds_nan):
    form = codec.uniform_form(values, holds_nan=holds_nan)
    each = {codec.form_of(v, holds_nan=holds_nan) for v in values if v is not None}
    if form is not None:
        assert each == ({form} if form else set())


names = st.sampled_from(["a", "b", "c", "a\0", "d", "param:a", "p"])
dialects = st.sampled_from(["sqlite", "postgresql"])


same_in_all = st.tuples(st.dictionaries(names, measures), st.integers(1, 5)).map(
    lambda drawn: [drawn[0]] * drawn[1]
)
rows_of_metrics = st.lists(st.dictionaries(names, measures), min_size=1) | same_in_all


@st.composite
def partly_the_same(draw):
    """Rows that have some of their values from one dictionary, the very same objects."""
    shared = draw(st.dictionaries(names, measures))
    return [{**row, **shared} for row in draw(rows_of_metrics)]


def layouts(dialect, room):
    """A study with some fields, in a database with room for few or many more."""
    many = [Field(f"other {i}", kind) for i in range(room) for kind in ("int", "real", "str")]
    many = [Field(f"{field.name} {field.type}", field.type) for field in many]
    layout = FieldLayout(dialect, 1, 1).declared("parameter", [Field("a", "bool"), Field("p")])
    return layout.declared("metric", many).declared("metric", [Field("a", "int"), Field("b")])


def read_back(found, row, role):
    reader = found.layout.reader
    slots = [found.columns[name][row] if name in found.columns else None for name in reader.slots]
    chunks = {number: json.loads(doc) for of, number, doc in found.chunks if of == row}
    return getattr(reader, role)(found.remarks[row], slots, chunks), slots


@given(rows_of_metrics | partly_the_same(), dialects, st.sampled_from([0, 15, 40]))
def test_what_is_spread_over_slots_and_chunks_is_read_back(rows, dialect, room):
    points = [{k: v for k, v in row.items() if not isinstance(v, Series | Missing)} for row in rows]
    found = arrange_in_slots(layouts(dialect, room), points, rows)
    assert not found.dropped
    for row, metrics in enumerate(rows):
        read, slots = read_back(found, row, "metrics")
        if dialect == "sqlite":
            assert not any(isinstance(c, float) and math.isnan(c) for c in slots)
        wanted = {name: value for name, value in metrics.items() if value is not None}
        assert same(dict(sorted(read.items())), dict(sorted(wanted.items())))
        values, _ = read_back(found, row, "values")
        given_values = dict.fromkeys(values) | points[row]
        assert same(dict(sorted(values.items())), dict(sorted(given_values.items())))


@pytest.mark.parametrize("odd", [math.inf, math.nan, 2.5])
def test_reals_beyond_the_slots_are_read_back_though_they_are_not_finite(odd):
    found = arrange_in_slots(layouts("postgresql", 40), [], [{"f": odd}, {"f": 1.5}])
    assert found.layout.has_chunks
    for row, value in enumerate((odd, 1.5)):
        assert same(read_back(found, row, "metrics")[0], {"f": value})
    for _, _, text in found.chunks:
        json.loads(text, parse_constant=pytest.fail)  # as JSON has it: without NaN and Infinity


@given(rows_of_metrics | partly_the_same(), dialects, st.sampled_from([0, 15, 40]))
def test_spreading_the_same_again_needs_no_new_places(rows, dialect, room):
    first = arrange_in_slots(layouts(dialect, room), [], rows)
    again = arrange_in_slots(first.layout, [], rows)
    assert again.layout is first.layout
    assert [read_back(again, i, "metrics") for i in range(len(rows))] or not rows


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_a_place_is_read_as_it_was_written(dialect):
    for stored in layouts(dialect, 40).fields:
        assert FieldLocation.parse(str(stored.place)) == stored.place


def test_names_beyond_the_limit_are_counted_and_not_kept(monkeypatch):
    monkeypatch.setattr(layout_module, "MOST_FIELDS", 50)
    found = arrange_in_slots(
        FieldLayout("sqlite", 1, 1), [{"p": 1}], [{f"m{i}": i for i in range(100)}]
    )
    assert len(found.layout.fields) == 50
    assert found.dropped == {0: 51}
    assert "51 more were not kept" in found.remarks[0]
    read, _ = read_back(found, 0, "metrics")
    assert read == {f"m{i}": i for i in range(49)}


def test_every_form_that_fills_a_slot_has_a_kind_of_slot():
    assert {*SLOTTED} < {*Form}


def test_what_is_no_digest_is_the_key_of_nothing():
    assert codec.digest_key("00ff") == b"\0\xff"
    assert codec.digest_key("no digest") == codec.digest_key("") == b""


def test_an_integer_of_any_size_has_a_real_that_sorts_like_it():
    values = [-(10**400), -(2**70), -1, 0, 2**53, 2**70, 10**400]
    reals = list(map(codec.next_real, values))
    assert reals == sorted(reals)
    assert (reals[0], reals[-1]) == (-math.inf, math.inf)
    assert reals[4] == 2.0**53


@pytest.mark.parametrize("word", ["a\0bc\0é€\0", "base64:plain", "plain", "\0" * 7])
def test_the_beginning_of_a_stored_text_is_one_of_the_text(word):
    stored = codec.escape(word)
    prefix = len("base64:") if stored != word else 0
    starts = [codec.unescape_start(stored[:length]) for length in range(prefix, len(stored) + 1)]
    assert all(word.startswith(start) for start in starts)
    assert starts == sorted(starts, key=len)
    assert starts[-1] == word
    assert codec.unescape_start(None) == codec.unescape_start("") == ""


def test_what_no_metric_can_be_is_a_mistake_with_its_type():
    with pytest.raises(TypeError, match=r"not a value of a parameter or metric: b'x' \(bytes\)"):
        codec.to_json(b"x")


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_columns_of_rows_are_what_each_row_says(dialect):
    """Also of fields that have values of several forms, in slots and beyond them."""
    odd = [1, 2.5, True, "text", 2**70, None, math.inf, -0.0, Missing("no"), Series((1,))]
    rows = [{f"m{i}": odd[(i * row) % len(odd)] for i in range(60)} for row in range(7)]
    spread = arrange_in_slots(FieldLayout(dialect, 1, 1), [{}] * len(rows), rows)
    assert spread.layout.has_chunks
    assert not FieldLayout(dialect, 1, 1).has_chunks
    for number, row in enumerate(rows):
        read, _ = read_back(spread, number, "metrics")
        assert same(read, {name: value for name, value in row.items() if value is not None})


def test_reals_whose_sum_overflows_are_stored_as_they_are():
    rows = [{f"m{i}": 1.7e308 for i in range(60)}, {f"m{i}": 1.7e308 for i in range(60)}]
    spread = arrange_in_slots(FieldLayout("sqlite", 1, 1), [{}, {}], rows)
    for number in range(2):
        assert read_back(spread, number, "metrics")[0] == rows[number]


@pytest.mark.parametrize("rows", [[2**60], [2**60, 7], [1.5, 2**60], ["text", 2**60]])
def test_a_field_knows_of_integers_that_a_slot_of_reals_would_round(rows):
    metrics = [{"m": value} for value in rows]
    spread = arrange_in_slots(FieldLayout("postgresql", 1, 1), [{}] * len(rows), metrics)
    (stored,) = spread.layout.fields
    assert stored.forms & Form.BIG
    assert [read_back(spread, n, "metrics")[0]["m"] for n in range(len(rows))] == rows
    small = arrange_in_slots(FieldLayout("postgresql", 1, 1), [{}], [{"m": 2**50}])
    assert not small.layout.fields[0].forms & Form.BIG


def test_remarks_on_parameters_and_on_metrics_stand_in_one_document():
    text = json.dumps({
        codec.remark_key("parameter", "n"): {"int": str(2**70)},
        codec.remark_key("metric", "n"): {"real": "nan"},
        codec.remark_key("metric", "t"): {"missing": "no match"},
    })  # fmt: skip
    assert codec.remarks_on_parameters(text) == {"n": 2**70}
    assert codec.remarks_on_parameters(None) == {}
    assert codec.remarks_on_parameters(json.dumps({"t": {"missing": "no match"}})) == {}
    remarks = codec.remarks_on(text)
    assert remarks.keys() == {"n", "t"}
    assert math.isnan(remarks["n"])
