"""The chart builder in a real browser: what it paints, what it keeps in its address, who can use it."""

import re

import pytest

from zenturio.show.charts.chart_query import KINDS

ADDRESSES = {
    "line": "study=matmul&kind=line&x=n&y=wtime&color=threads&facet=solver",
    "bar": "study=matmul&kind=bar&x=solver&y=gflops&color=n",
    "scatter": "study=matmul&kind=scatter&x=wtime&y=gflops&color=n&log=x&log=y",
    "box": "study=matmul&kind=box&x=threads&y=wtime&color=solver",
    "pie": "study=matmul&kind=pie&x=threads&y=wtime&agg=sum",
    "heatmap": "study=matmul&kind=heatmap&x=n&y=threads&z=wtime&log=z",
    "surface": "study=matmul&kind=surface&x=n&y=threads&z=wtime",
    "scaling": "study=matmul&kind=scaling&x=threads&y=wtime&color=n",
    "convergence": "study=stencil&kind=convergence",
    "importance": "study=stencil&kind=importance",
    "dependence": "study=stencil&kind=dependence",
    "sensitivity": "study=designed&kind=sensitivity",
    "slice": "study=stencil&kind=slice",
    "pareto": "study=stencil&kind=pareto",
    "parallel": "study=stencil&kind=parallel",
    "gantt": "study=hello&kind=gantt&color=word",
}
"""One for each kind, with what is special about it."""


def test_every_kind_of_chart_is_looked_at():
    assert set(ADDRESSES) == set(KINDS)


QUICK = {"line", "gantt"}
"""A line, and boxes; the others, and what WebGL paints, are painted in make test-all."""


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[] if k in QUICK else [pytest.mark.slow]) for k in ADDRESSES]
)
def test_every_kind_paints_under_the_strict_policy(day, kind):
    day.visit(f"/chart?{ADDRESSES[kind]}")
    day.shot(f"chart-{kind}")
    count, colours = day.colours(".plot")
    assert count > 200, "hardly anything is painted"
    assert colours >= (1 if kind in ("line", "convergence", "importance", "dependence") else 2)
    assert not day.wrong


@pytest.mark.slow
@pytest.mark.parametrize("kind", ADDRESSES)
def test_charts_paint_by_night_and_on_a_small_screen(pocket, kind):
    pocket.visit(f"/chart?{ADDRESSES[kind]}")
    pocket.shot(f"chart-{kind}-pocket")
    assert pocket.colours(".plot")[0] > 200
    assert pocket.overflow() <= 0
    assert not pocket.wrong


@pytest.mark.slow
@pytest.mark.parametrize("person", ["pocket", "day"])
def test_nothing_keeps_people_from_the_chart_builder(request, person):
    visitor = request.getfixturevalue(person)
    visitor.visit(f"/chart?{ADDRESSES['line']}")
    assert visitor.barriers() == []


def test_the_address_says_all_that_was_chosen_and_shows_it_to_a_colleague(day, pocket):
    page = day.visit("/chart?study=matmul")
    page.get_by_role("radio", name="box").check(force=True)
    page.locator("select[name=color]:enabled").select_option("solver")
    page.get_by_role("checkbox", name="y", exact=True).check()
    page.get_by_label("Condition", exact=True).fill("n > 128")
    page.get_by_label("Condition", exact=True).press("Enter")
    day.settle()
    target = page.url.removeprefix(day.served.address)
    for part in ("study=matmul%401", "kind=box", "color=solver", "log=y", "where=n+%3E+128"):
        assert part in target
    shown = page.locator("figcaption").inner_text()
    assert "by solver" in shown
    pocket.visit(target)
    assert pocket.page.locator("figcaption").inner_text() == shown
    page.go_back()
    day.settle()
    assert "n+%3E+128" not in page.url


def test_a_box_over_points_filters_the_table(day):
    page = day.visit("/chart?study=matmul&kind=scatter&x=n&y=wtime")
    frame = page.locator(".plot .nsewdrag").first.bounding_box()
    page.mouse.move(frame["x"] + frame["width"] * 0.6, frame["y"] + 4)
    page.mouse.down()
    page.mouse.move(frame["x"] + frame["width"] - 4, frame["y"] + frame["height"] - 4, steps=5)
    page.mouse.up()
    page.wait_for_function("() => document.querySelector('#selection [name=rows]').value")
    condition = page.locator("#selection [name=rows]").input_value()
    assert re.fullmatch(r"n >= \S+ and n <= \S+ and wtime >= \S+ and wtime <= \S+", condition)
    told = page.locator("#rows > p").inner_text()
    assert re.search(r"^12 of 20 matching experiments, 64 succeeded", told)
    assert "rows=" in page.url
    day.visit(page.url.removeprefix(day.served.address))
    assert page.locator("#selection [name=rows]").input_value() == condition
    page.get_by_role("button", name="Clear", exact=True).click()
    page.wait_for_function("() => !document.querySelector('#selection [name=rows]').value")
    assert not day.wrong


@pytest.mark.slow
def test_a_bar_that_is_clicked_shows_its_experiments(day):
    page = day.visit("/chart?study=matmul&kind=bar&x=solver&y=gflops&color=n")
    page.locator(".plot .bars .point path").first.click(force=True)
    page.wait_for_function("() => document.querySelector('#selection [name=rows]').value")
    assert page.locator("#selection [name=rows]").input_value() == "solver == 'cg' and n == 128"
    assert "of 11 matching experiments" in page.locator("#rows > p").inner_text()


@pytest.mark.slow
def test_the_table_is_brushed_from_the_keyboard_too(day):
    page = day.visit("/chart?study=matmul")
    page.locator("#selection [name=rows]").fill("threads == 4 and nn > 1")
    page.keyboard.press("Enter")
    page.wait_for_selector("#rows .diagnostic")
    assert "'nn'" in page.locator("#rows .diagnostic").inner_text()
    page.locator("#selection [name=rows]").fill("threads == 4")
    page.keyboard.press("Enter")
    page.wait_for_selector("#rows table")
    assert "of 18 matching experiments" in page.locator("#rows > p").inner_text()


def test_the_chart_builder_is_worked_by_keys_alone(day):
    page = day.visit("/chart?study=matmul")
    page.get_by_role("radio", name="line").focus()
    page.keyboard.press("ArrowRight")
    day.settle()
    assert "kind=bar" in page.url
    assert page.evaluate("document.activeElement.value") == "bar"
    page.keyboard.press("Tab")
    assert page.evaluate(
        "getComputedStyle(document.activeElement.parentElement).outlineStyle"
    ) == "solid" or (
        page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    )


def test_the_sql_beside_the_chart_is_copied_with_a_click(day):
    page = day.visit("/chart?study=matmul&kind=line&x=n&y=wtime")
    page.locator("summary", has_text="SQL").click()
    said = page.locator("#sql").inner_text()
    assert said.startswith("SELECT ")
    assert "GROUP BY" in said
    page.get_by_role("button", name="Copy", exact=True).click()
    assert page.evaluate("navigator.clipboard.readText()") == said


@pytest.mark.slow
def test_several_metrics_are_several_charts_and_several_studies_one(day):
    page = day.visit("/chart?study=matmul&study=half&x=n&y=wtime&y=n")
    assert page.locator(".plot .main-svg").count() >= 2
    assert page.locator("figure").count() == 2
    assert "half, " not in page.locator("figcaption h2").first.inner_text()
    assert page.locator("figure").first.locator(".legendtext").all_text_contents() == [
        "matmul",
        "half",
    ]


def test_what_cannot_be_drawn_says_what_would_be_right(day):
    page = day.visit("/chart?study=matmul&kind=pareto")
    assert "two or three objectives" in page.locator("#diagnostic").inner_text()
    day.wrong = [said for said in day.wrong if "400" not in said]
    assert not day.wrong


def test_names_that_are_scripts_are_text_in_charts(day, evil):
    for kind in ("line", "heatmap"):
        given = {"study": evil, "kind": kind, "x": evil, "y": f"m{evil}", "color": evil}
        if kind == "heatmap":
            given |= {"y": "select", "z": f"m{evil}"}
        day.page.goto(day.served.address + "/chart?" + day.encoded(given))
        day.settle()
        assert evil in day.page.locator("#figures").inner_text()
    assert not day.wrong


@pytest.mark.slow
def test_a_picture_is_there_without_javascript_and_as_a_file(portal, still):
    still.visit(f"/chart?{ADDRESSES['line']}")
    still.page.wait_for_selector("noscript img")
    still.shot("chart-still")
    assert still.colours("noscript img")[0] > 200
    begins = {"html": b"<!doctype html>", "png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    for kind, begin in begins.items():
        answer = portal.get(f"/chart/file.{kind}?{ADDRESSES['line']}")
        assert answer.content.startswith(begin)
        assert "attachment" in answer.headers["content-disposition"]


BRUSHED = {
    "heatmap": ("study=matmul&kind=heatmap&x=n&y=threads&z=wtime", "n == 512 and threads == 4", 6),
    "pie": ("study=matmul&kind=pie&x=solver&y=wtime", "solver == 'cg'", 32),
    "line": ("study=matmul&kind=line&x=n&y=wtime&color=solver", "n == 128 and solver == 'cg'", 11),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BRUSHED)
def test_what_is_clicked_is_what_the_table_shows(day, kind):
    target, condition, count = BRUSHED[kind]
    page = day.visit(f"/chart?{target}")
    if kind == "heatmap":
        frame = page.locator(".plot .nsewdrag").first.bounding_box()
        page.mouse.click(frame["x"] + frame["width"] * 5 / 6, frame["y"] + frame["height"] * 3 / 8)
    elif kind == "pie":
        page.locator(".plot .slice path").first.click(position={"x": 40, "y": 40}, force=True)
    else:
        page.locator(".plot .scatterlayer .point").first.hover(force=True)
        page.locator(".plot .nsewdrag").first.click(position=_place_of(page, ".point"))
    page.wait_for_function("() => document.querySelector('#selection [name=rows]').value")
    assert page.locator("#selection [name=rows]").input_value() == condition
    assert f"of {count} matching experiments" in page.locator("#rows > p").inner_text()


def _place_of(page, mark):
    """Where a mark stands, from the corner of what hears of the mouse."""
    field = page.locator(".plot .nsewdrag").first.bounding_box()
    mark = page.locator(f".plot .scatterlayer {mark}").first.bounding_box()
    x = mark["x"] + mark["width"] / 2 - field["x"]
    return {"x": x, "y": mark["y"] + mark["height"] / 2 - field["y"]}


@pytest.mark.slow
def test_parallel_axes_and_slices_are_brushed_by_their_ranges(day):
    page = day.visit("/chart?study=stencil&kind=parallel")
    hold = "() => Plotly.restyle(document.querySelector('.plot'), {'dimensions[0].constraintrange': [[1.0, 1.6]], 'dimensions[2].constraintrange': [[-0.2, 0.2]]})"
    page.evaluate(hold)
    page.wait_for_function(
        "() => document.querySelector('#selection [name=rows]').value.includes('solver')"
    )
    said = page.locator("#selection [name=rows]").input_value()
    assert re.search(r"^block >= \S+ and block <= \S+ and solver == '(jacobi|multigrid)'$", said)
    page = day.visit("/chart?study=stencil&kind=slice&axes=depth&axes=solver")
    assert "axes=depth&axes=solver" in page.url
    field = page.locator(".plot .nsewdrag").nth(1).bounding_box()
    page.mouse.move(field["x"] + 3, field["y"] + 3)
    page.mouse.down()
    page.mouse.move(field["x"] + field["width"] / 2, field["y"] + field["height"] - 3, steps=4)
    page.mouse.up()
    page.wait_for_function(
        "() => document.querySelector('#selection [name=rows]').value.includes('solver')"
    )
    said = page.locator("#selection [name=rows]").input_value()
    assert said.startswith("solver == '")
    assert "loss >= " in said
    assert "of 30 matching experiments" in page.locator("#rows > p").inner_text()
    assert not day.wrong
