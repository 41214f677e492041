"""Addresses of charts: what they say is what was chosen."""

from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenturio.errors import InputError
from zenturio.show.chart import AGGREGATES, AIMED, KINDS
from zenturio.show.charts.chart_query import PLAIN, View
from zenturio.show.charts.schedule_query import PlanView
from zenturio.show.portal.page_templates import address

NAMES = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=12
)
VIEWS = st.builds(
    View,
    studies=st.lists(NAMES, max_size=3, unique=True).map(tuple),
    kind=st.sampled_from(KINDS),
    x=NAMES,
    metrics=st.lists(NAMES, max_size=3, unique=True).map(tuple),
    colour=st.one_of(st.just(""), NAMES),
    facet=st.one_of(st.just(""), NAMES),
    aggregate=st.sampled_from(AGGREGATES),
    errors=st.sampled_from([None, "interval", "std", "none"]),
    log=st.sampled_from(["", "x", "y", "xy", "xyz"]),
    axes=st.lists(NAMES, max_size=3, unique=True).map(tuple),
    where=st.one_of(st.just(""), NAMES),
    rows=st.one_of(st.just(""), NAMES),
)


@given(VIEWS)
def test_an_address_says_the_whole_view(view):
    _, _, given_ = address("/chart", view.given).partition("?")
    assert View.of(parse_qsl(given_)) == view


@given(VIEWS)
def test_a_kind_is_asked_for_what_it_knows_alone(view):
    asked = view.asked()
    assert len(asked) == (max(len(view.metrics), 1) if view.kind in PLAIN else 1)
    for each in asked:
        assert not (each.kind in AIMED and (each.facet or each.x))
        assert not (each.kind == "pie" and each.colour)


def test_more_than_can_be_looked_at_is_refused():
    with pytest.raises(InputError, match="more than can be looked at"):
        View.of([("study", str(n)) for n in range(13)])


@pytest.mark.parametrize("pairs", [[("seed", "-1")], [("seed", "1e3")], [("show", "gannt")]])
def test_an_address_of_no_schedule_is_refused(pairs):
    with pytest.raises(InputError):
        PlanView.of(pairs)
