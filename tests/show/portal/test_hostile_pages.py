"""Every page on a hostile database: an answer or a reason, never a fault of the portal's own."""

import pytest
import requests

import hostile_databases as hostile
from loaded import zen
from show.portal.running_portal import served
from zenturio.show.portal.state import PortalSettings

ANSWERS = {200, 286, 303, 400, 403, 404, 409, 429, 503}
"""286 is how a part of a page says that it need not be asked for again."""
PAGES = (
    "/",
    "/study?name=p",
    "/study/found?name=p",
    "/study/failures?name=p",
    "/study/parameters?name=p",
    "/experiment/DIGEST",
    "/experiment/DIGEST/said",
    "/experiment/DIGEST/files",
    "/experiment/DIGEST/log/stdout",
    "/compare?of=DIGEST&of=OTHER",
    "/sql?query=SELECT * FROM study_p_all",
    "/download?study=p&format=csv",
    "/chart?study=p&x=n&y=t",
    "/chart/figure?study=p&x=n&y=t",
    "/chart/rows?study=p&x=n&y=t",
    "/report",
    "/queue",
    "/queue/waiting",
    "/schedule",
)
FEW = (
    "other definition",
    "results.started = x'00ff1b'",
    "place as SQL",
    "trigger: INSERT on leases",
)
MANY = [*hostile.VALUES, *hostile.SCHEMAS, *(f"file: {name}" for name in hostile.FILES)]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    (folder / "p.sh").write_text(hostile.PROGRAM)
    assert zen("run", "p.sh", cwd=folder).returncode == 3
    return folder


@pytest.fixture(scope="module")
def digests(sound):
    done = zen("sql", "SELECT lower(hex(digest)) FROM results ORDER BY id", cwd=sound)
    return [line.strip() for line in done.stdout.splitlines()[1:]]


@pytest.fixture(autouse=True)
def tolerant(monkeypatch):
    """Who comes in may be told at once that the database is damaged."""
    monkeypatch.setenv("ZENTURIO_DB_WAIT", "2")
    monkeypatch.setattr(requests.Response, "raise_for_status", lambda _: None)


def faults_of(sound, digests, folder, case):
    """Return the pages that answer with a fault, and whether files outside have changed."""
    faults = []
    hostile.make(sound, folder, case)
    before = hostile.state_of(folder / "outside")
    project = folder / "project"
    settings = PortalSettings(db=str(project / ".zenturio" / "zenturio.db"), folder=project)
    with served(settings) as portal:
        for page in PAGES:
            path = page.replace("DIGEST", digests[0]).replace("OTHER", digests[1])
            # After a fault the server ends its connection, which must not be used again.
            answer = portal.get(path, allow_redirects=False, headers={"Connection": "close"})
            if answer.status_code not in ANSWERS:
                faults.append((path, answer.status_code, answer.text[-2000:]))
    return faults, hostile.state_of(folder / "outside") != before


@pytest.mark.parametrize("case", FEW)
def test_pages_answer_on_a_hostile_database(sound, digests, tmp_path, case):
    assert faults_of(sound, digests, tmp_path, case) == ([], False)


@pytest.mark.slow
@pytest.mark.parametrize("case", MANY)
def test_every_page_answers_on_every_hostile_database(sound, digests, tmp_path, case):
    assert faults_of(sound, digests, tmp_path, case) == ([], False)
