"""The options of a run, and the points that they name: what is taken, and what is refused."""

from contextlib import closing
from dataclasses import replace

import pytest

import zenturio as zen
from record.reference import ReferenceRepository
from zenturio import Space
from zenturio.annotate.scan import scan
from zenturio.errors import InputError, Place
from zenturio.files import OutputFileRecords
from zenturio.record.open import open_repository
from zenturio.search.ga import Ga
from zenturio.settings.schema import settings_of
from zenturio.study.driver.experiment_source import MANY, PointSelection, select_points
from zenturio.study.driver.measurement_plan import EACH_MACHINE
from zenturio.study.driver.progress import round_begins
from zenturio.study.driver.study_driver import DriverSettings
from zenturio.study.driver.study_session import StudySession
from zenturio.study.local_run import job_script, plan_locally, run_locally
from zenturio.study.study_request import (
    PlaceOptions,
    StudyRequest,
    choose_any_machine,
    choose_only,
    read_search,
)

SPACE = Space(n=[10, 20, 30], m=["a", "b"])


def chosen(**options):
    selection = select_points(SPACE, **options)
    points = [SPACE.number(point) for point in selection]
    assert points == [number for number, _ in selection.numbered()]
    return selection.count, points


def test_all_points_or_those_that_the_options_name_are_selected():
    assert chosen() == (6, [0, 1, 2, 3, 4, 5])
    assert chosen(limit=2) == (2, [0, 1])
    assert chosen(limit=9) == (6, [0, 1, 2, 3, 4, 5])
    assert chosen(limit=0) == (0, [])
    assert chosen(index=5) == (1, [5])
    count, points = chosen(sample=4, seed=3)
    assert (count, len(set(points))) == (4, 4)
    assert chosen(sample=4, seed=3) == (count, points)
    assert {tuple(chosen(sample=4, seed=seed)[1]) for seed in range(9)} != {tuple(points)}
    none = PointSelection.none(SPACE)
    assert (none.count, [*none], [*none.numbered()]) == (0, [], [])


@pytest.mark.parametrize(
    "options", [{"limit": 1, "sample": 1}, {"limit": 1, "index": 0}, {"sample": 1, "index": 0}]
)
def test_options_that_name_points_exclude_each_other(options):
    with pytest.raises(InputError, match="exclude each other"):
        select_points(SPACE, **options)


def test_an_index_beyond_the_space_is_refused():
    with pytest.raises(InputError, match="--index 6: there are only 6 points") as caught:
        select_points(SPACE, index=6)
    assert caught.value.diagnostics[0].hint == "they are numbered from 0 to 5"


def test_of_a_continuous_space_points_are_drawn():
    space = Space(x=zen.uniform(0, 1))
    with pytest.raises(InputError, match="the space is continuous") as caught:
        select_points(space)
    assert "--sample 100" in caught.value.diagnostics[0].hint
    assert select_points(space, sample=3).count == 3


def test_more_points_than_anybody_waits_for_are_asked_for_explicitly():
    assert select_points(Space(n=range(MANY))).count == MANY
    many = Space(n=range(MANY + 1))
    with pytest.raises(InputError, match="1,000,001 points are too many to run") as caught:
        select_points(many)
    assert "--limit 1000001" in caught.value.diagnostics[0].hint
    assert select_points(many, limit=MANY + 1).count == MANY + 1


def test_a_space_that_is_not_counted_tells_how_many_points_it_has_at_the_least():
    space = Space(n=range(2_345_678), m=range(300), k=range(1000)).where("n * m + k < 10 ** 7")
    least = str(space.at_least())
    number = int(least[:3] + "0" * (len(least) - 3))
    with pytest.raises(InputError, match=f"^more than {number:,} points are too many") as caught:
        select_points(space)
    assert caught.value.diagnostics[0].hint.endswith("--limit N")


def test_the_states_to_run_again_are_words_with_commas():
    assert choose_only("missing") == {"missing"}
    assert choose_only(" Failed, missing") == {"failed", "missing"}
    with pytest.raises(InputError, match="--only faild: 'faild' is not a state") as caught:
        choose_only("faild")
    assert "did you mean 'failed'" in caught.value.diagnostics[0].hint


def test_a_machine_is_the_same_or_any():
    assert (choose_any_machine("same"), choose_any_machine("any")) == (False, True)
    with pytest.raises(InputError, match="--machine an: neither same nor any"):
        choose_any_machine("an")


@pytest.mark.parametrize(
    ("option", "more"),
    [("--budget", (("", (), "9", (), 0))), ("--stop", ("", (), "", ("stall=3",), 0)),
     ("--set", ("", ("a=b",), "", (), 0))],
)  # fmt: skip
def test_options_of_a_search_need_one(option, more):
    assert read_search("", (), "", (), 0) is None
    with pytest.raises(InputError, match=f"{option} belongs to a search"):
        read_search(*more)


def test_settings_of_a_search_are_names_and_values():
    spec = read_search("ga", ("population = 9", "a=b=c"), "100", (), 7)
    assert (spec.engine, spec.seed) == ("ga", 7)
    assert spec.settings == {"population": "9", "a": "b=c"}
    with pytest.raises(InputError, match="'population' is not a setting") as caught:
        read_search("ga", ("population",), "100", (), 7)
    assert caught.value.diagnostics[0].hint.startswith("write NAME=VALUE")


@pytest.mark.parametrize(
    ("setting", "message", "hint"),
    [
        ("popuation=5", "ga has no setting 'popuation'", "did you mean 'population'"),
        ("population=x", "population=x is not possible", "write a whole number from 2 on"),
        ("population=5,elite=1", "is not possible", "write --set before each setting"),
        ("population", "'population' is not a setting", "write NAME=VALUE"),
        ("=5", "'=5' is not a setting", "write NAME=VALUE"),
    ],
)
def test_what_is_wrong_with_a_setting_is_told_with_its_option(setting, message, hint):
    with pytest.raises(InputError) as refused:
        settings_of(Ga.Settings, read_search("ga", ("elite=1", setting), "9", (), 0).settings, "ga")
    (diagnostic,) = refused.value.diagnostics
    assert diagnostic.place == Place("--set", 1, 1, setting, len(setting))
    assert message in diagnostic.message
    assert hint in diagnostic.hint


def test_a_request_is_the_same_after_a_way_through_json():
    request = StudyRequest(("a.sh",), ("n=1",), limit=3, stop=("x",), again=True, jobs=2)
    facts = request.facts()
    assert facts["paths"] == ["a.sh"]
    assert StudyRequest.read(facts) == request
    assert StudyRequest.read({**facts, "of a later version": 1}) == request


def test_a_request_without_options_is_a_plain_run():
    facts = StudyRequest(("a.sh",)).facts()
    assert {name: value for name, value in facts.items() if value not in (None, "", [], False)} == {
        "paths": ["a.sh"], "only": "missing", "machine": "same", "keep": "failed", "order": "blocks",
    }  # fmt: skip
    assert DriverSettings() == replace(DriverSettings(), **dict.fromkeys(
        ("fail_fast", "any_machine", "again", "each_machine", "go_on", "quiet_machine"), False
    ))  # fmt: skip


def test_what_is_remembered_goes_on_from_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    request = StudyRequest(("a.sh",), name="s", join=True, on="hosts.toml", limit=0, pin=False)
    remembered = request.remembered()
    assert remembered["paths"] == [str(tmp_path / "a.sh")]
    assert remembered["on"] == str(tmp_path / "hosts.toml")
    assert remembered["limit"] == 0
    assert {"name", "join", "param", "budget", "jobs"}.isdisjoint(remembered)
    assert replace(request, on="local").remembered()["on"] == "local"


def test_a_search_asks_for_points_itself(tmp_path):
    (tmp_path / "a.sh").write_text('#ZEN$ RUN "sh a.sh"\n#ZEN$ ENV N = { 1:4 } AS n\n')
    application = scan([tmp_path / "a.sh"])
    request = StudyRequest((str(tmp_path / "a.sh"),))
    assert request.points(application).count == 4
    assert replace(request, limit=3).points(application).count == 3
    searching = replace(request, search="ga", budget="9")
    assert searching.points(application).count == 0
    for options in ({"limit": 3}, {"sample": 3}):
        with pytest.raises(InputError, match="--search chooses the points itself"):
            replace(searching, **options).search_spec()


def test_how_the_driver_behaves_is_what_the_options_say():
    settings = StudyRequest(("a",)).driver_settings()
    assert not any(
        (settings.fail_fast, settings.any_machine, settings.again, settings.each_machine)
    )
    request = StudyRequest(("a",), fail_fast=True, machine="any", again=True, each_machine=True)
    settings = request.driver_settings()
    assert all((settings.fail_fast, settings.any_machine, settings.again, settings.each_machine))


def test_a_place_is_this_machine_unless_another_is_named():
    options = StudyRequest(("a",), jobs=3, pin=True).place_options
    assert (options.jobs, options.keep, options.pin, options.place) == (3, "failed", True, "local")
    assert StudyRequest(("a",), keep="never").place_options.keep == "never"


def test_a_run_notes_its_database_as_an_output_and_a_plan_writes_none(
    tmp_path_factory, monkeypatch
):
    folder = tmp_path_factory.mktemp("project")
    monkeypatch.chdir(folder)
    (folder / ".zenturio").mkdir()
    (folder / "a.sh").write_text('#ZEN$ PARAM n = { 1, 2 }\n#ZEN$ RUN "true"\n')
    application = scan([folder / "a.sh"])
    points = select_points(application.space)
    database = folder / "results.db"
    plan = plan_locally(application, points, db=str(database))
    assert (plan.experiments, plan.cached, database.exists()) == (2, 0, False)
    assert run_locally(application, points, db=str(database)).ok == 2
    assert OutputFileRecords.of(folder).includes(database)
    assert plan_locally(application, points, db=str(database)).cached == 2


PILOTS = "script for experiments that do not fit into pilot jobs:"


def test_the_script_of_the_first_experiment_is_shown_without_a_cluster(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.sh").write_text(
        '#ZEN$ PARAM n = { 3:5 }\n#ZEN$ REPEAT 2\n#ZEN$ RUN "sh a.sh" CPUS n TIMEOUT 60\n'
    )
    application = scan("a.sh")
    points = select_points(application.space)
    slurm = PlaceOptions(place="slurm", settings={"pilots": "never"})
    script = job_script(application, points, slurm)
    assert script.startswith("#!/bin/bash -l\n")
    assert "#SBATCH --cpus-per-task=3\n" in script
    assert "#SBATCH --array=1-6\n" in script, "three points, twice each"
    assert PILOTS not in script
    none = PointSelection.none(application.space)
    assert "#SBATCH --array=1-2\n" in job_script(application, none, slurm), "a point, twice"
    assert job_script(application, points, PlaceOptions()) == ""
    always = PlaceOptions(place="slurm", settings={"pilots": "always"})
    text = (tmp_path / "a.sh").read_text()
    (tmp_path / "a.sh").write_text(text.replace("#ZEN$ REPEAT 2\n", ""))
    assert "#SBATCH --array=1-3\n" in job_script(scan("a.sh"), points, slurm)
    assert PILOTS in job_script(application, points, always)


@pytest.fixture
def four(tmp_path, monkeypatch):
    """A study of four points whose second one is the best."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.sh").write_text(
        '#ZEN$ PARAM n = { 1:4 }\n#ZEN$ RUN "sh a.sh {n}"\n#ZEN$ OBJECTIVE MAXIMIZE y\n'
        '#ZEN$ METRIC y FROM stdout REGEX "y=(.*)"\necho "y=$((10 - ($1 - 2) * ($1 - 2)))"\n'
    )
    return scan("a.sh")


def test_a_search_that_ends_before_its_budget_leaves_nothing_to_be_begun(four, tmp_path):
    spec = read_search("random", [], "100", [], 1)
    points = select_points(four.space, limit=0)
    with closing(open_repository(tmp_path / "a.db")) as repository:
        foreseen = StudySession(four, points, repository, search=spec).foresee()
        assert (foreseen.points, foreseen.cached, foreseen.engine) == (4, 0, "random")
        summary = run_locally(four, points, db=repository, search=spec)
        assert summary.ok == 4
        assert summary.ended
        assert (summary.best.value, summary.best.at) == (10.0, {"n": 2})
        assert repository.definition("a").notes["experiments"] == 4
        again = StudySession(four, points, repository, search=spec).foresee()
        assert 0 < again.cached <= again.looked_at


def test_what_a_run_on_each_machine_would_do_is_not_known_here(four):
    settings = DriverSettings(each_machine=True)
    points = select_points(four.space)
    plan = StudySession(four, points, ReferenceRepository(), settings=settings).foresee()
    assert (plan.experiments, plan.cached, plan.looked_at, plan.remarks) == (
        4,
        0,
        0,
        (EACH_MACHINE,),
    )


def test_a_round_that_has_not_begun_has_no_results(four, tmp_path):
    points = select_points(four.space)
    with closing(open_repository(tmp_path / "a.db")) as repository:
        run_locally(four, points, db=repository)
        plan = plan_locally(four, points, db=repository)
        assert (plan.cached, plan.looked_at, plan.remarks) == (4, 4, ())
        again = plan_locally(four, points, db=repository, settings=DriverSettings(again=True))
        assert (again.cached, again.looked_at) == (0, 4)
        assert again.remarks == (round_begins(2),)
        assert [round_.number for round_ in repository.rounds("a")] == [1], "nothing was begun"
