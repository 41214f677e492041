"""The queue of a service in a real browser: seen, submitted to, cancelled; and the way in."""

import pytest

from show.portal.browser_user import Person
from show.portal.running_portal import served
from show.portal.test_people import STUDY, USERS
from zenturio.record.open import open_repository
from zenturio.show.portal.access import UserDirectory
from zenturio.show.portal.state import PortalSettings


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A service's portal whose queue has one of each sort."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / ".zenturio").mkdir()
    (folder / "one.sh").write_text(STUDY)
    repository = open_repository(folder / ".zenturio" / "zenturio.db")
    told = {"total": 72, "done": 31, "lent": 14, "slowdown": 1.42, "place": "local"}
    for number, (user, turn) in enumerate(
        [("alice", "done"), ("bob", "failed"), ("carol", "running"), ("Größe", "waiting")], 1
    ):
        repository.submit(str(number), user, f"study{number}", {})
        if turn != "waiting":
            repository.report_progress(number, told)
            repository.update_submission(number, turn, "2 x exit 3" if turn == "failed" else "")
    repository.close()
    settings = PortalSettings(str(folder / ".zenturio" / "zenturio.db"), folder, serves=True)
    with served(settings, users=UserDirectory(USERS)) as found:
        yield found


@pytest.fixture(scope="module")
def visitors(browser, lab):
    found = Person(browser, lab), Person(browser, lab, dark=True, size=(390, 800))
    yield found
    for each in found:
        each.close()


@pytest.mark.parametrize("at", [pytest.param(0, marks=pytest.mark.slow), 1], ids=["desk", "pocket"])
@pytest.mark.parametrize("path", ["/queue", "/login"])
def test_the_queue_is_whole_by_day_and_by_night(visitors, path, at):
    person = visitors[at]
    person.wrong.clear()
    person.visit(path)
    person.shot(f"{path[1:]}-{('desk', 'pocket')[at]}")
    assert person.page.locator("h1").count() == 1
    assert person.barriers() == []
    assert person.overflow() <= 0
    assert not person.wrong


def test_a_study_is_submitted_and_cancelled_by_hand(visitors, lab):
    person, _ = visitors
    person.wrong.clear()
    page = person.visit("/queue")
    page.get_by_label("First points only").fill("2")
    page.get_by_role("button", name="submit").click()
    page.wait_for_selector("text=one")
    repository = lab.service.portal.repository
    found = repository.submissions()[-1]
    assert (found.study, found.user, found.request["limit"]) == ("one", "owner", 2)
    page.get_by_role("button", name=f"cancel {found.number}, one").click()
    page.wait_for_selector("text=by owner")
    assert repository.submissions()[-1].turn == "cancelled"
    assert not person.wrong
