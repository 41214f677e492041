"""Every page in a real browser: by day at a desk, by night on a telephone, with nothing in the way."""

import shutil

import pytest

from show.portal.browser_user import SHOTS, Person
from show.portal.running_portal import served
from zenturio.record.open import FOLDER
from zenturio.show.portal.state import PortalSettings

WORDS = """\
# Solvers

More *threads* help, as the picture shows.

![speed](/chart?study=matmul&kind=line&x=n&y=gflops&color=threads)

- one
- two

![plan](/schedule?workflow=wien2k:kpoints=4&on=identical:3)
"""


@pytest.fixture(scope="session")
def studio(project, tmp_path_factory):
    """A portal of a copy of the project, from which everything may be done."""
    folder = tmp_path_factory.mktemp("studio") / "project"
    shutil.copytree(project, folder)
    (folder / "reports").mkdir()
    (folder / "reports" / "Solvers.md").write_text(WORDS)
    with served(
        PortalSettings(str(folder / FOLDER / "zenturio.db"), folder, allow_run=True)
    ) as found:
        yield found


@pytest.fixture(scope="session")
def visitors(browser, studio):
    """By day at a desk, and by night on a telephone."""
    found = Person(browser, studio), Person(browser, studio, dark=True, size=(390, 800))
    yield found
    for each in found:
        each.close()


def digests(portal, study):
    repository = portal.service.portal.repository
    return [record.digest for record in repository.records(study)]


PAGES = {
    "home": "/",
    "study": "/study?name=matmul",
    "study-filtered": "/study?name=matmul&where=n+%3E+200&sort=-wtime&state=ok",
    "study-scripts": "/study?name={evil}",
    "experiment": "/experiment/{hello}?study=hello",
    "experiment-failed": "/experiment/{failed}?study=matmul",
    "compare": "/compare?of={one}&of={two}",
    "compare-none": "/compare",
    "sql": "/sql?query=SELECT+n,+avg(wtime)+FROM+study_matmul+GROUP+BY+n",
    "run": "/run",
    "run-plan": "/run/plan?path=hello.sh",
    "chart-none": "/chart",
    "schedule": "/schedule",
    "schedule-graph": "/schedule?show=graph",
    "reports": "/report",
    "report": "/report/of/Solvers",
    "report-add": "/report/add?chart=chart&study=matmul&kind=line",
}


@pytest.fixture(scope="session")
def places(studio, evil_name):
    failed = studio.failed("matmul")
    hello = digests(studio, "hello")
    one, two = digests(studio, "matmul")[:2]
    names = {"evil": evil_name, "failed": failed, "hello": hello[0], "one": one, "two": two}
    return {page: target.format(**names) for page, target in PAGES.items()}


QUICK = {"study-scripts"}
"""In a browser, each page takes a second of processor: the others are looked at in make test-all."""


@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=[] if p in QUICK else [pytest.mark.slow]) for p in PAGES]
)
def test_by_night_on_a_telephone_every_page_is_whole(visitors, places, page):
    _whole(visitors[1], places[page], f"{page}-pocket")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_by_day_at_a_desk_every_page_is_whole(visitors, places, page):
    _whole(visitors[0], places[page], f"{page}-desk")


def _whole(person, place, name):
    """Nothing is said in the console, asked of anybody else, cut off, or in anybody's way."""
    person.wrong.clear()
    person.visit(place)
    person.shot(name)
    assert person.page.locator("h1").count() == 1
    assert person.barriers() == []
    assert person.overflow() <= 0
    assert not person.wrong


@pytest.mark.slow
@pytest.mark.parametrize(("at", "show"), [(0, "gantt"), (1, "graph")])
def test_schedules_paint_boxes_and_dots(visitors, at, show):
    person = visitors[at]
    person.visit(f"/schedule?workflow=wien2k:kpoints=6&on=identical:3&show={show}")
    count, colours = person.colours(".plot")
    assert count > 200
    assert colours > 2


@pytest.mark.slow
def test_a_chart_is_put_into_a_report_written_about_and_taken_away_as_a_file(visitors, studio):
    person, _ = visitors
    person.wrong.clear()
    page = person.visit("/chart?study=matmul&kind=bar&x=solver&y=wtime")
    page.get_by_role("link", name="Add to a report").click()
    page.get_by_label("Or a new report").fill("Two solvers")
    page.get_by_label("Caption").fill("time of each")
    page.get_by_role("button", name="Add", exact=True).click()
    page.wait_for_url("**/report/of/Two%20solvers")
    person.settle()
    assert person.colours(".plot")[0] > 200
    page.locator("summary", has_text="Edit").click()
    text = page.locator("#text").input_value()
    assert "![time of each](</chart?study=matmul%401&kind=bar&x=solver&y=wtime>)" in text
    page.locator("#text").fill(text + "\ncg is *faster*.\n")
    page.get_by_role("button", name="Save").click()
    page.wait_for_selector("article em")
    assert page.locator("article em").inner_text() == "faster"
    with page.expect_download() as saved:
        page.get_by_role("link", name="pdf").click()
    assert saved.value.suggested_filename == "Two-solvers.pdf"
    assert not person.wrong
    answer = studio.known.post(
        studio.address + "/report/of/Two solvers",
        data={"text": "mine", "known": "of long ago"},
        headers={"Origin": studio.address},
    )
    assert answer.status_code == 409


@pytest.mark.slow
def test_light_and_dark_are_changed_by_a_button_and_charts_change_with_it(visitors):
    person, _ = visitors
    page = person.visit("/chart?study=matmul")
    ink = "() => getComputedStyle(document.querySelector('.plot .xtick text')).fill"
    before = page.evaluate(ink)
    page.get_by_role("button", name="Dark or light theme").click()
    person.settle()
    page.wait_for_function(f"(before) => ({ink})() !== before", arg=before)
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    page.get_by_role("button", name="Dark or light theme").click()
    person.settle()


def test_who_is_not_let_in_sees_a_page_that_can_be_read(browser, studio):
    stranger = Person(browser, studio)
    stranger.page.context.clear_cookies()
    stranger.wrong.clear()
    stranger.page.goto(studio.address + "/study?name=matmul")
    stranger.shot("refused")
    assert "Open the portal with its link" in stranger.page.locator("h1").inner_text()
    assert stranger.barriers() == []
    stranger.close()


@pytest.mark.slow
def test_the_doors_of_a_service_and_its_queue_are_whole(browser, studio, tmp_path):
    folder = studio.service.portal.settings.folder
    settings = PortalSettings(str(folder / FOLDER / "zenturio.db"), folder, serves=True)
    with served(settings, password="open sesame") as service:
        guest = Person(browser, service, dark=True, size=(390, 800))
        _whole(guest, "/queue", "queue-pocket")
        guest.page.context.clear_cookies()
        _whole(guest, "/", "login-pocket")
        guest.page.get_by_label("password").fill("open sesame")
        guest.page.keyboard.press("Enter")
        guest.page.wait_for_selector("h1:has-text('Studies')")
        guest.close()


@pytest.mark.slow
def test_pages_are_reached_by_keys(visitors):
    person, _ = visitors
    page = person.visit("/")
    for key, target in (("p", "/chart"), ("o", "/report"), ("w", "/schedule"), ("h", "/")):
        page.locator("main").focus()
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(lambda url, end=target: url.partition("?")[0].endswith(end))
        person.settle()


def test_who_reads_a_study_is_told_of_more_and_not_disturbed(visitors):
    person, _ = visitors
    person.wrong.clear()
    page = person.visit("/study?name=matmul")
    rows = page.locator("tbody").inner_html()
    for ended, seen in ((72, False), (73, True)):
        page.evaluate(
            "(n) => update({data: JSON.stringify({studies: [], news: {matmul:"
            " `<i role=progressbar aria-label=x aria-valuenow=${n}></i>`}})})",
            ended,
        )
        assert page.locator("[data-newer]").is_visible() is seen
    assert page.locator("tbody").inner_html() == rows
    page.get_by_role("link", name="Update the page").click()
    page.wait_for_function("() => document.querySelector('[data-newer]').hidden")
    assert not person.wrong


@pytest.mark.slow
def test_a_report_as_one_file_paints_with_nothing_but_itself(browser, studio, tmp_path):
    path = tmp_path / "solvers.html"
    path.write_bytes(studio.get("/report/of/Solvers/file.html").content)
    page = browser.new_page()
    wrong, asked = [], []
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector(".plotly-graph-div .main-svg")
    assert page.locator(".plotly-graph-div").count() == 2
    page.hover(".plotly-graph-div")
    assert page.locator("[data-title*=loud]").count() == 0, "nothing is sent to anybody"
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert not wrong
    page.screenshot(path=SHOTS / "report-file.png", full_page=True)
    page.close()
