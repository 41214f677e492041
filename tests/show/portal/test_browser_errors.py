"""What fails is said where the answer would have stood, and nothing old stands under a new question."""

import json

import pytest


@pytest.fixture
def page(day):
    """A window in which requests may fail."""
    yield day.visit("/study?name=matmul")
    day.page.unroute_all()
    day.page.context.set_offline(False)


def rows(page):
    return page.locator("#table tbody tr").count()


def filtered(page, condition):
    page.get_by_label("condition").fill(condition)
    page.get_by_label("condition").press("Enter")


def test_a_filter_that_is_refused_takes_the_old_rows_away(page, day):
    assert rows(page)
    filtered(page, "n >")
    page.locator("#table .diagnostic").wait_for()
    assert "filter:1:" in page.locator("#table .diagnostic").inner_text()
    assert rows(page) == 0
    assert page.get_by_label("condition").input_value() == "n >"
    day.shot("study-refused")

    filtered(page, "n > 200")
    page.locator("#table tbody tr").first.wait_for()
    assert page.locator(".diagnostic").count() == 0


@pytest.mark.parametrize(
    ("status", "text", "words"),
    [
        (404, '<h1>Not there</h1><pre class="diagnostic">no study is named x</pre>', "no study is"),
        (401, "<main class=alone><p>closed</p></main>", "logged out"),
        pytest.param(503, "", "status 503", marks=pytest.mark.slow),
    ],
)
def test_an_answer_that_is_no_table_is_said_in_its_place(page, status, text, words):
    page.route("**/study?*", lambda route: route.fulfill(status=status, body=text))
    filtered(page, "n > 200")
    page.locator("#table .diagnostic").wait_for()
    assert words in page.locator("#table .diagnostic").inner_text()
    assert rows(page) == 0
    page.unroute_all()
    filtered(page, "n > 200")
    page.locator("#table tbody tr").first.wait_for()
    assert page.locator(".diagnostic").count() == 0


def test_a_portal_that_is_gone_is_said_in_its_place(page):
    page.context.set_offline(True)
    filtered(page, "n > 200")
    page.locator("#table .diagnostic").wait_for()
    assert "does not respond" in page.locator("#table .diagnostic").inner_text()
    assert rows(page) == 0
    page.context.set_offline(False)
    filtered(page, "n > 200")
    page.locator("#table tbody tr").first.wait_for()


def test_live_progress_says_when_it_is_old(page, day):
    page.route("**/live", lambda route: route.abort())
    page.reload()
    note = page.locator("[data-stale]")
    note.wait_for()
    assert "out of date" in note.inner_text()
    page.unroute_all()
    note.wait_for(state="detached")
    day.settle()


def test_a_chart_that_cannot_be_drawn_leaves_no_chart_of_before(day):
    page = day.visit("/chart?study=matmul&kind=line&x=n&y=wtime")
    assert page.locator(".plot").count() == 1
    page.get_by_label("Condition", exact=True).fill("n >")
    page.get_by_label("Condition", exact=True).press("Enter")
    page.locator("#diagnostic:not([hidden])").wait_for()
    day.settle()
    assert page.locator(".plot").count() == 0
    assert page.locator("#sql").inner_text() == ""
    page.locator("#rows .diagnostic").wait_for()
    assert page.locator("#rows tbody").count() == 0
    day.shot("chart-refused")

    page.get_by_label("Condition", exact=True).fill("n > 200")
    page.get_by_label("Condition", exact=True).press("Enter")
    page.locator("#figures .plot").wait_for()
    assert page.locator("#diagnostic").is_hidden()


@pytest.mark.parametrize("part", ["figure", "rows"])
def test_a_part_of_a_chart_that_is_refused_as_a_page_says_so(day, part):
    page = day.page
    refused = "<main class=alone><p>closed</p></main>"
    page.route(f"**/chart/{part}?*", lambda route: route.fulfill(status=401, body=refused))
    try:
        day.visit("/chart?study=matmul&kind=line&x=n&y=wtime")
        place = page.locator("#diagnostic" if part == "figure" else "#rows .diagnostic")
        place.filter(has_text="logged out").wait_for()
    finally:
        page.unroute_all()


@pytest.mark.slow
def test_an_error_that_is_json_says_what_it_is(day):
    page = day.page
    answer = json.dumps({"error": "no column 'nn'"})
    page.route(
        "**/chart/figure?*",
        lambda route: route.fulfill(status=404, body=answer, content_type="application/json"),
    )
    try:
        day.visit("/chart?study=matmul&kind=line")
        page.locator("#diagnostic").filter(has_text="no column 'nn'").wait_for()
    finally:
        page.unroute_all()
