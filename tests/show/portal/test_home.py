"""Home: every study and where it stands, while it stands and while it moves."""

import json
import re
import threading
import time

import pytest
import requests

from show.portal.example_project import enter
from show.portal.running_portal import served
from zenturio.errors import RecordError
from zenturio.experiment.experiment import Experiment, Outcome, Recipe
from zenturio.record import DriverProcess, Field, StudyDefinition
from zenturio.record.open import open_repository
from zenturio.show.portal.pages import study
from zenturio.show.portal.state import PortalSettings
from zenturio.show.portal.study_watcher import StudyWatcher, state_of
from zenturio.study.overview import StudyStatus

FIELDS = (Field("n", "int"),), (Field("wtime", "real", "s"),)


@pytest.fixture
def polls_anew(monkeypatch):
    """Each request polls the database: none is served from the poll of another just before."""
    monkeypatch.setattr("zenturio.show.portal.study_watcher.SHARED_SECONDS", -1.0)


def test_home_shows_every_study_and_where_it_stands(portal):
    page = portal.page("/")
    for name in ("matmul", "stencil", "half", "hello"):
        assert f"name={name}" in page
    assert "<b>72</b> of 72" in page
    assert "Stopped with 28 experiments left" in page
    assert "Finished " in page


def test_a_project_in_which_nothing_was_run_says_how_to_begin(tmp_path):
    with served(PortalSettings(str(tmp_path / "zenturio.db"), tmp_path)) as portal:
        assert "No study has been run yet" in portal.page("/")
        assert portal.get("/study?name=x").status_code == 404
        assert portal.page("/sql")
        assert not list(tmp_path.iterdir()), "looking creates nothing"


def _experiments(count):
    return [
        Experiment(f"{n:032x}", n, 1, {"n": n}, (), (), {}, None, Recipe()) for n in range(count)
    ]


def test_a_name_that_a_browser_would_change_is_known_again(tmp_path):
    """Ends of lines change in attributes; a page whose studies it misses loads itself anew."""
    repository = open_repository(tmp_path / "zenturio.db")
    name = "new\rline ü"
    enter(repository, name, StudyDefinition(*FIELDS), [({"n": 1}, {"wtime": 1.0}, {})])
    repository.close()
    with served(PortalSettings(str(tmp_path / "zenturio.db"), tmp_path)) as portal:
        page = portal.page("/")
        stream = portal.get("/live", stream=True)
        line = next(each for each in stream.iter_lines() if each.startswith(b"data:"))
        stream.close()
    (mark,) = json.loads(line[5:])["studies"]
    assert mark == "new%0Dline%20%C3%BC"
    assert f'data-progress="{mark}"' in page


def test_a_study_at_work_is_followed_as_it_goes(tmp_path, polls_anew):
    repository = open_repository(tmp_path / "zenturio.db")
    repository.open("live", StudyDefinition(*FIELDS, notes={"experiments": 20}))
    lease = repository.acquire_lease("live", DriverProcess.current())
    made = _experiments(20)
    with served(PortalSettings(str(tmp_path / "zenturio.db"), tmp_path)) as portal:
        page = portal.page("/")
        assert "running" in page
        assert f"Driver: process {lease.pid} on {lease.host}" in page
        stream = portal.get("/live", stream=True)
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        lines = (line for line in stream.iter_lines() if line.startswith(b"data:"))
        first = json.loads(next(lines)[5:])
        assert first["studies"] == ["live"]
        assert "<b>0</b> of 20" in first["news"]["live"]
        done = [Outcome(e.digest, "ok", "", {"wtime": 1.0}) for e in made[:8]]
        repository.claim("live", lease.number, made[:10])
        repository.record("live", lease.number, done)
        news = ""
        for line in lines:
            news = json.loads(line[5:])["news"].get("live", "")
            if "<b>8</b> of 20" in news:
                break
        assert "<b>2</b> running" in news
        stream.close()
        repository.release_lease(lease)
        assert "Stopped with" in portal.page("/study", name="live")
    repository.close()


def test_a_driver_that_is_gone_is_said_to_be_gone(tmp_path):
    repository = open_repository(tmp_path / "zenturio.db")
    repository.open("lost", StudyDefinition(*FIELDS, notes={"experiments": 5}))
    here = DriverProcess.current()
    lease = repository.acquire_lease(
        "lost", DriverProcess(here.host, 4_000_000, "a boot/1/9"), seconds=600
    )
    (leased,) = repository.leases("lost")
    standing = StudyStatus("lost", 0.0, repository.count_states("lost"), 5, (leased,))
    assert state_of(standing) == "silent"
    elsewhere = repository.acquire_lease(
        "lost", DriverProcess("kofel", 7, "x"), join=True, seconds=600
    )
    assert (
        state_of(StudyStatus("lost", 0.0, repository.count_states("lost"), 5, (elsewhere,)))
        == "running"
    )
    silent = repository.acquire_lease(
        "lost", DriverProcess("kofel", 8, "y"), join=True, seconds=-60
    )
    assert (
        state_of(StudyStatus("lost", 0.0, repository.count_states("lost"), 5, (silent,)))
        == "silent"
    )
    assert lease.pid == 4_000_000
    repository.close()


def test_a_look_costs_the_same_however_many_look(tmp_path, monkeypatch):
    # One poll is to serve all of this test, on however slow a machine.
    monkeypatch.setattr("zenturio.show.portal.study_watcher.SHARED_SECONDS", 3600.0)
    repository = open_repository(tmp_path / "zenturio.db")
    for name in ("a", "b"):
        enter(repository, name, StudyDefinition(*FIELDS), [({"n": 1}, {"wtime": 1.0}, {})])
    calls = []

    class Counting:
        def __getattr__(self, name):
            calls.append(name)
            return getattr(repository, name)

    watch = StudyWatcher(Counting)
    first = watch.poll()
    assert [seen.name for seen in first] == ["a", "b"]
    before = len(calls)
    assert all(watch.poll() == first for _ in range(50))
    assert len(calls) == before
    repository.close()


def test_studies_come_and_go_while_somebody_looks(tmp_path, polls_anew):
    repository = open_repository(tmp_path / "zenturio.db")
    watch = StudyWatcher(lambda: repository)
    assert watch.poll() == ()
    enter(repository, "a", StudyDefinition(*FIELDS), [({"n": 1}, {"wtime": 1.0}, {})])
    assert [seen.name for seen in watch.poll()] == ["a"]
    repository.delete("a")
    assert watch.poll() == ()
    repository.close()


def test_a_database_that_was_made_anew_is_looked_at_and_not_the_one_before(tmp_path, polls_anew):
    place = tmp_path / "zenturio.db"

    def made(*names):
        repository = open_repository(place)
        for name in names:
            enter(repository, name, StudyDefinition(*FIELDS), [({"n": 1}, {"wtime": 1.0}, {})])
        repository.close()

    made("old", "both")
    with served(PortalSettings(str(place), tmp_path)) as portal:
        assert "name=old" in portal.page("/")
        assert portal.page("/study?name=both").count("data-row") == 1
        for each in tmp_path.iterdir():
            each.unlink()
        assert portal.get("/study?name=old").status_code == 404
        assert "No study has been run yet" in portal.page("/")
        made("new", "both")
        assert portal.get("/study?name=old").status_code == 404
        assert portal.page("/study?name=both").count("data-row") == 1
        assert "name=new" in portal.page("/")


def test_a_database_that_is_away_is_not_taken_for_an_empty_one(tmp_path, monkeypatch, polls_anew):
    place = tmp_path / "zenturio.db"
    repository = open_repository(place)
    enter(repository, "a", StudyDefinition(*FIELDS), [({"n": 1}, {"wtime": 1.0}, {})])
    repository.close()

    def away(_repository):
        raise RecordError("no connection")

    for seen in (True, False):
        with served(PortalSettings(str(place), tmp_path)) as portal:
            if seen:
                assert "name=a" in portal.page("/")
            with monkeypatch.context() as patch:
                patch.setattr("zenturio.record.sql_repository.SQLRepository.studies", away)
                found = portal.get("/")
                assert found.status_code == 503
                assert "no connection" in found.text
                assert "Nothing was run" not in found.text
            assert "no connection" not in portal.page("/")


def test_fifty_tabs_neither_lock_nor_slow_who_records(tmp_path):
    """Each tab hears the stream and turns pages; the run writes as if it were alone."""
    place = tmp_path / "zenturio.db"
    repository = open_repository(place)
    repository.open("busy", StudyDefinition(*FIELDS, notes={"experiments": 3000}))
    lease = repository.acquire_lease("busy", DriverProcess.current())
    made = _experiments(3000)

    def drive(some):
        for at in range(0, len(some), 50):
            results = [(e, Outcome(e.digest, "ok", "", {"wtime": 1.0})) for e in some[at : at + 50]]
            repository.add_results("busy", lease.number, results)
            time.sleep(0.01)

    drive(made[:1500])
    with served(PortalSettings(str(place), tmp_path)) as portal:
        cookies = portal.known.cookies.get_dict()
        over, heard = threading.Event(), []

        def tab(number):
            with requests.Session() as browser:
                browser.cookies.update(cookies)
                stream = browser.get(portal.address + "/live", stream=True)
                events = stream.iter_lines()
                while not over.is_set():
                    line = next(events)
                    heard.append(number) if line.startswith(b"data:") else None
                    if number < 10:
                        page = browser.get(portal.address + "/study?name=busy")
                        assert page.status_code == 200
                stream.close()

        tabs = [threading.Thread(target=tab, args=(n,), daemon=True) for n in range(50)]
        for each in tabs:
            each.start()
        while len(set(heard)) < 50:
            time.sleep(0.02)
        # A write that waited for readers would fail: it gives up after a while.
        drive(made[1500:])
        over.set()
        for each in tabs:
            each.join()
    assert repository.count_states("busy")["ok"] == 3000
    repository.close()


def test_many_studies_are_shown_in_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "PAGE_STUDIES", 3)
    repository = open_repository(tmp_path / "zenturio.db")
    for number in range(7):
        enter(
            repository,
            f"study-{number}",
            StudyDefinition(*FIELDS),
            [({"n": 1}, {"wtime": 1.0}, {})],
        )
    repository.close()
    with served(PortalSettings(str(tmp_path / "zenturio.db"), tmp_path)) as portal:
        pages = [portal.page(f"/?page={number}") for number in ("1", "2", "3")]
        names = [set(re.findall(r"study-[0-9]", page)) for page in pages]
        assert [len(shown) for shown in names] == [3, 3, 1]
        assert len(set().union(*names)) == 7
        assert all("7 in this project" in page for page in pages)
        assert ['rel="next"' in page for page in pages] == [True, True, False]
        for odd in ("0", "99", "x", "-1", "1e9", "²"):
            assert portal.get(f"/?page={odd}").status_code == 200
        stream = portal.get("/live", stream=True)
        first = json.loads(next(line for line in stream.iter_lines() if line)[5:])
        stream.close()
        assert (first["studies"], first["count"], first["news"]) == (None, 7, {})
