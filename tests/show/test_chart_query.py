"""Addresses of charts: an address states the whole query."""

from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenturio.errors import InputError
from zenturio.query.aggregates import AGGREGATES
from zenturio.show.charts.chart_query import KINDS, ChartQuery, ScheduleQuery
from zenturio.show.portal.page_templates import address

NAMES = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=12
)
LISTS = st.lists(NAMES, max_size=3, unique=True).map(tuple)
TEXTS = st.one_of(st.just(""), NAMES)
QUERIES = st.builds(
    ChartQuery,
    studies=LISTS,
    kind=st.sampled_from(list(KINDS)),
    x=NAMES,
    y=LISTS,
    z=TEXTS,
    colour=TEXTS,
    facet=TEXTS,
    aggregate=st.sampled_from(AGGREGATES),
    errors=st.sampled_from([None, "interval", "std", "none"]),
    log=st.sampled_from(["", "x", "y", "xy", "xyz"]),
    axes=LISTS,
    where=TEXTS,
    objective=TEXTS,
    title=TEXTS,
    rows=TEXTS,
    outside=st.booleans(),
)


@given(QUERIES)
def test_an_address_states_the_whole_query(query):
    _, _, query_string = address("/chart", query.to_address()).partition("?")
    assert ChartQuery.from_address(parse_qsl(query_string)) == query


def test_the_names_in_addresses_stay_as_they_are():
    query = ChartQuery.of(
        studies="a", kind="bar", x="n", y="t", colour="c", aggregate="max", log="xy", outside=True
    )
    assert address("/chart", query.to_address()) == (
        "/chart?study=a&kind=bar&x=n&y=t&color=c&agg=max&log=xy&all=1"
    )


@given(QUERIES)
def test_a_kind_is_drawn_with_the_options_that_it_has(query):
    kind = KINDS[query.kind]
    charts = query.charts()
    assert len(charts) == (max(len(query.y), 1) if kind.has_series else 1)
    for chart in charts:
        assert not (kind.has_objective and (chart.facet or chart.x))
        assert not (chart.kind == "pie" and chart.colour)
        assert len(chart.y) <= 1


def test_a_single_text_stands_for_a_list():
    assert ChartQuery.of(studies="a", y="t") == ChartQuery(studies=("a",), y=("t",))
    assert ChartQuery.of(y="") == ChartQuery()


def test_an_unknown_option_is_refused_with_the_nearest():
    with pytest.raises(InputError, match="no option 'color'") as caught:
        ChartQuery.of(color="n")
    assert "colour" in str(caught.value)


def test_more_than_a_page_can_show_is_refused():
    with pytest.raises(InputError, match="too many studies or metrics"):
        ChartQuery.from_address([("study", str(n)) for n in range(13)])


@pytest.mark.parametrize("pairs", [[("seed", "-1")], [("seed", "1e3")], [("show", "gannt")]])
def test_an_address_of_no_schedule_is_refused(pairs):
    with pytest.raises(InputError):
        ScheduleQuery.from_address(pairs)
