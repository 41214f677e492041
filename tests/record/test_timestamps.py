"""Times as text: a person reads them, and a program."""

import math

import pytest

from zenturio.quantities import iso_time, utc_day, utc_time
from zenturio.show.portal.page_templates import relative_time


def test_a_time_is_shown_to_the_second():
    assert utc_time(1e9) == "2001-09-09 01:46:40Z"
    assert iso_time(1e9) == "2001-09-09T01:46:40+00:00"
    assert utc_day(1e9) == "2001-09-09"
    assert (utc_time(None), iso_time(None)) == ("", None)


@pytest.mark.parametrize("seconds", [9e15, 1e300, -1e300, math.inf, -math.inf, math.nan])
def test_a_time_that_no_calendar_has_is_shown_as_a_number(seconds):
    assert utc_time(seconds) == utc_day(seconds) == f"{seconds:g} s after 1970"
    assert iso_time(seconds) is None
    assert relative_time(seconds)
