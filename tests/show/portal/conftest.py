"""A portal with studies that are worth a look."""

import pytest

from show.portal.filled import fill_project
from show.portal.served import served
from zenturio.show.portal.state import Settings


@pytest.fixture(scope="session")
def project(tmp_path_factory):
    """A folder whose database holds some studies; nobody writes to it."""
    folder = tmp_path_factory.mktemp("project")
    fill_project(folder)
    return folder


@pytest.fixture(scope="session")
def portal(project):
    """A portal of `project` that answers on a free port, and a session that is let in."""
    settings = Settings(db=str(project / ".zenturio" / "zenturio.db"), folder=project)
    with served(settings) as found:
        yield found
