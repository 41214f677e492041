"""A portal with studies that are worth a look."""

import shutil
from urllib.parse import quote

import pytest

from needs import needs
from show.portal.example_project import EVIL, fill_project
from show.portal.running_portal import served
from zenturio.show.portal.state import PortalSettings


@pytest.fixture(scope="session")
def project(tmp_path_factory):
    """A folder whose database holds some studies; nobody writes to it."""
    folder = tmp_path_factory.mktemp("project")
    fill_project(folder)
    return folder


@pytest.fixture(scope="session")
def portal(project):
    """A portal of `project` that answers on a free port, and a session that is let in."""
    settings = PortalSettings(db=str(project / ".zenturio" / "zenturio.db"), folder=project)
    with served(settings) as found:
        yield found


@pytest.fixture(scope="session")
def browser():
    """One Chromium for all tests."""
    needs("chromium")
    from show.portal.browser_user import chromium

    with chromium(shutil.which("chromium")) as found:
        yield found


@pytest.fixture(scope="session")
def people(browser, portal):
    """Makes people who are let in, each with a window; the same one for the same wishes."""
    from show.portal.browser_user import Person

    known = {}

    def person(**wishes):
        key = tuple(wishes.items())
        if key not in known:
            known[key] = Person(browser, portal, **wishes)
        known[key].wrong.clear()
        return known[key]

    yield person
    for each in known.values():
        each.close()


@pytest.fixture
def day(people):
    """Somebody at a desk, by day."""
    return people()


@pytest.fixture
def pocket(people):
    """Somebody with a telephone, by night."""
    return people(dark=True, size=(390, 800))


@pytest.fixture
def still(people):
    """Somebody whose browser runs no scripts."""
    return people(javascript=False)


@pytest.fixture
def evil():
    return EVIL


@pytest.fixture(scope="session")
def evil_name():
    """The name of that study in an address."""
    return quote(EVIL)
