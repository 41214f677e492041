"""An experiment that ends is shown as ended by the page that somebody looks at."""

import pytest

from show.portal.browser_user import Person
from show.portal.running_portal import served
from zenturio.record.open import FOLDER
from zenturio.show.portal.state import PortalSettings
from zenturio.testing.executor import until

STUDY = """\
#!/bin/sh
#ZEN$ PARAM n = {7}
#ZEN$ RUN "sh slow.sh {n}" TIMEOUT 60s
#ZEN$ METRIC square FROM stdout REGEX "square (\\d+)"
#ZEN$ OUTPUT "left.txt"
until [ -e "$GO" ]; do sleep 0.05; done
echo "square $(($1 * $1))" | tee left.txt
echo "the last words" >&2
exit 3
"""


@pytest.fixture
def portal(tmp_path, monkeypatch):
    """A portal of a project in which an experiment runs until the file ``go`` is there."""
    (tmp_path / FOLDER).mkdir()
    (tmp_path / "slow.sh").write_text(STUDY)
    monkeypatch.setenv("GO", str(tmp_path / "go"))
    settings = PortalSettings(str(tmp_path / FOLDER / "zenturio.db"), tmp_path, allow_run=True)
    with served(settings) as found:
        runs = found.service.portal.runs
        runs.start("slow", ["--", "slow.sh"])
        yield found
        (tmp_path / "go").touch()
        until(lambda: not any(run.is_alive for run in runs.list_runs()) and not runs._children)


def running(portal):
    """The digest of what runs, once it does."""
    portal = portal.service.portal
    until(lambda: any(seen.standing.running for seen in portal.watch.poll(anew=True)))
    return next(portal.repository.records("slow", states=["running"])).digest


def test_what_has_ended_is_shown_without_loading_the_page_again(browser, portal, tmp_path):
    digest = running(portal)
    person = Person(browser, portal)
    page = person.visit(f"/experiment/{digest}?study=slow")
    assert page.locator("#state .tag").inner_text() == "running"
    assert "so far" in page.locator("main").inner_text()
    assert page.locator("#artifacts").is_hidden()
    page.evaluate("() => { window.stillHere = true; }")

    (tmp_path / "go").touch()
    page.locator("#state .tag.failed").wait_for()
    assert "exit 3" in page.locator("#state").inner_text()
    assert "49" in page.locator("#metrics").inner_text()
    assert "left.txt" in page.locator("#artifacts").inner_text()
    assert page.locator("#attempts .tag").inner_text() == "failed"
    page.locator("pre", has_text="the last words").wait_for()
    assert "so far" not in page.locator("main").inner_text()
    assert page.evaluate("() => window.stillHere"), "it is the same page"
    person.shot("experiment-ended")

    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(2500)
    assert asked == [], "nothing more is asked of what has ended"
    assert not person.wrong
    person.close()


def test_a_part_that_is_asked_for_says_no_more_than_has_changed(portal, tmp_path):
    path = f"/experiment/{running(portal)}/said"
    same = portal.get(path, params={"study": "slow", "known": "running 1"})
    assert (same.status_code, "hx-swap-oob" in same.text) == (200, False)
    for known in ("waiting 0", "running 0"):
        other = portal.get(path, params={"study": "slow", "known": known})
        assert (other.status_code, "hx-swap-oob" in other.text) == (200, True)
    (tmp_path / "go").touch()
    until(lambda: portal.get(path, params={"study": "slow"}).status_code == 286)
