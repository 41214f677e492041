"""Addresses of experiments and charts mean the same after the program was edited."""

import re
from html import unescape

import pytest

from record.reference import ReferenceRepository
from show.portal.example_project import enter
from show.portal.running_portal import served
from zenturio.errors import NotFoundError
from zenturio.record import Field, StudyDefinition
from zenturio.record.open import FOLDER, open_repository
from zenturio.show.portal.state import PortalSettings
from zenturio.study.recorded_definition import is_version, pinned_name, resolve_name
from zenturio.testing.experiments import experiment

FIELDS = (Field("n", "int"),), (Field("wtime", "real", "s"),)


def run(repository, study, *numbers, commit=""):
    """A version of a study whose experiments took as many seconds as their numbers."""
    definition = StudyDefinition(*FIELDS, provenance={"git": {"commit": commit}})
    rows = [({"n": n}, {"wtime": float(n)}, {}) for n in numbers]
    return enter(repository, study, definition, rows)


def edit(repository, study):
    """The program is another one now."""
    repository.archive(repository.study(study))


@pytest.fixture
def portal(tmp_path):
    (tmp_path / FOLDER).mkdir()
    repository = open_repository(tmp_path / FOLDER / "zenturio.db")
    first = run(repository, "training", 1, 2, 3)
    repository.close()
    settings = PortalSettings(str(tmp_path / FOLDER / "zenturio.db"), tmp_path)
    with served(settings) as found:
        found.digests = first
        yield found


def addresses(page, path):
    """The links of a page to somewhere."""
    return [unescape(each) for each in re.findall(rf'href="({path}[^"]*)"', page)]


def test_an_address_of_an_experiment_shows_it_after_the_program_was_edited(portal):
    links = addresses(portal.page("/study", name="training"), "/experiment/")
    assert len(links) == 3
    assert all(link.endswith("?study=training%401") for link in links)
    before = portal.page(links[0])
    assert "/study?name=training" in before

    edit(portal.service.portal.repository, "training")
    for link in (links[0], links[0].replace("%401", "")):
        after = portal.page(link)
        assert "training@1" in after
        assert portal.digests[0] in after


def test_an_address_of_a_chart_shows_the_same_after_the_program_was_edited(portal):
    repository = portal.service.portal.repository
    (link,) = addresses(portal.page("/study", name="training"), r"/chart\?")
    assert link == "/chart?study=training%401"
    assert '<option value="training@1" selected>training</option>' in portal.page(link)
    figure = "/chart/figure?study=training%401&kind=line&x=n&y=wtime"
    before = portal.get(figure).json()["figures"][0]["data"]

    edit(repository, "training")
    (repository.open("training", StudyDefinition(*FIELDS)))
    page = portal.page(link)
    assert '<option value="training@1" selected>training@1</option>' in page
    assert '<option value="training@2">training</option>' in page
    portal.service.portal.results.clear()
    after = portal.get(figure).json()["figures"][0]["data"]
    assert [each["y"] for each in after] == [each["y"] for each in before]


def test_an_experiment_whose_result_was_accepted_says_by_whom_and_leads_to_what_ran(portal):
    repository = portal.service.portal.repository
    edit(repository, "training")
    repository.open("training", StudyDefinition(*FIELDS))
    new = experiment(0, {"n": 1}, salt="edited")
    repository.equate("training", "training@1", {portal.digests[0]: new}, "<ann>")
    page = portal.page(f"/experiment/{new.digest}")
    assert "Accepted as equal to" in page
    assert "by &lt;ann&gt;, " in page
    (link,) = addresses(page, f"/experiment/{portal.digests[0]}")
    assert "Accepted" not in portal.page(link)
    repository.delete("training@1")
    page = portal.page(f"/experiment/{new.digest}")
    assert "Accepted as equal to training@1 by" in page


def test_every_page_takes_the_version_of_a_study(portal):
    for path in ("/study", "/study/parameters", "/study/failures", "/study/found", "/download"):
        assert portal.get(path, params={"name": "training@1"}).status_code == 200, path
        assert portal.get(path, params={"name": "training@2"}).status_code == 404, path
    rows = portal.page("/chart/rows", study="training@1")
    assert "3 of 3" in rows
    assert addresses(rows, "/experiment/")[0].endswith("?study=training%401")
    assert portal.get("/chart", params={"study": "training@2"}).status_code == 404


def test_a_version_is_found_now_and_later():
    repository = ReferenceRepository()
    digests = run(repository, "a", 1)
    for number in (1, 2, 3):
        name = f"a@{number}"
        assert pinned_name(repository, "a") == name
        assert pinned_name(repository, "nothing") == "nothing"
        assert resolve_name(repository, name) == "a"
        edit(repository, "a")
        assert resolve_name(repository, name) == pinned_name(repository, name) == name
        repository.open("a", StudyDefinition(*FIELDS, provenance={"number": number}))
    assert [r.digest for r in repository.records("a@1")] == digests


def test_what_was_never_a_version_is_none():
    repository = ReferenceRepository()
    run(repository, "a", 1)
    for name in ("a@2", "a@", "@1", "a@x", "b@1", "a@١"):
        assert resolve_name(repository, name) == name
        with pytest.raises(NotFoundError):
            repository.study(resolve_name(repository, name))
    assert is_version("a@7", "a")
    assert is_version("a", "a")
    assert not is_version("ab@7", "a")
    assert not is_version("a", "a@7")
