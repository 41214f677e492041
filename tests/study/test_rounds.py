"""What has results is measured again in rounds: beside them, once for each, by any number."""

import pytest

import zenturio as zen
from cli.conftest import zen as command
from zenturio.annotate.scan import scan
from zenturio.errors import InputError
from zenturio.experiment import ExperimentGenerator
from zenturio.query import compare, raw, results, study_frame
from zenturio.query.frames import group_frame
from zenturio.record.entities import RowChoice
from zenturio.record.open import open_repository
from zenturio.space import Space
from zenturio.study.best_points import best
from zenturio.study.driver.experiment_source import select_points
from zenturio.study.driver.study_driver import DriverSettings
from zenturio.study.driver.study_session import StudySession
from zenturio.study.local_run import plan_request, run_locally
from zenturio.study.overview import study_status
from zenturio.study.study_request import PlaceOptions, StudyRequest

PROGRAM = """\
n = 1
#ZEN$ ASSIGN n = { 1:4 }
#ZEN$ RUN "python3 counted.py"
#ZEN$ METRIC total FROM stdout REGEX "total (\\d+)"
from pathlib import Path
counter = Path(f"{FOLDER}/{n}")
with counter.open("a") as file:
    file.write("x")  # one byte: whoever is killed here leaves no half of a number
runs = counter.stat().st_size
assert (n, runs) not in FAILING
print("total", 100 * runs + n)
"""


class Driven:
    """Runs of one program, which counts how often each point ran."""

    def __init__(self, folder, failing=()):
        self.path, counters = folder / "counted.py", folder / ".counters"
        counters.mkdir()
        text = PROGRAM.replace("{FOLDER}", str(counters)).replace("FAILING", repr(set(failing)))
        self.path.write_text(text)
        self.db = str(folder / "zenturio.db")

    def run(self, *, limit=None, only=("missing",), listener=lambda _: None, **settings):
        """How many were cached, how many were ok, how many failed, and what was said before."""
        application = scan([str(self.path)])
        summary = run_locally(
            application, select_points(application.space, limit=limit), db=self.db, place=PlaceOptions(jobs=2),
            only=frozenset(only), settings=DriverSettings(**settings), listener=listener,
        )  # fmt: skip
        return summary.cached, summary.ok, summary.failed, summary.notes

    def foresee(self, **settings):
        request = StudyRequest((str(self.path),), **settings)
        plan = plan_request(request, scan([str(self.path)]), db=self.db)
        return plan.cached, plan.remarks


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def study(project):
    return Driven(project)


@pytest.fixture
def opened(project):
    """The repository of the project, opened when it is there."""
    found = []

    def open_it():
        found.append(open_repository(str(project / "zenturio.db")))
        return found[-1]

    yield open_it
    for repository in found:
        repository.close()


def totals(repository, **asked):
    found = results(repository, "counted", metrics=["total"], **asked)
    return {row[0]: row[-1] for row in found.rows}


def test_again_measures_each_point_beside_what_it_has(study, opened):
    assert study.run() == (0, 4, 0, ())
    known, ran, _, notes = study.run(again=True)
    assert (known, ran) == (0, 4)
    begins = "round 2 begins: experiments that have results are measured again"
    assert notes == (f"{begins}, and the earlier results are kept",)
    assert study.run() == (4, 0, 0, ())
    repository = opened()
    assert totals(repository) == {1: 201, 2: 202, 3: 203, 4: 204}
    assert totals(repository, round=1) == {1: 101, 2: 102, 3: 103, 4: 104}
    assert [each.number for each in repository.rounds("counted")] == [1, 2]
    study.run(again=True)
    assert totals(repository) == {1: 301, 2: 302, 3: 303, 4: 304}
    assert not repository.rounds("counted")[-1].is_open


def test_a_first_run_begins_no_second_round(study, opened):
    known, ran, _, notes = study.run(again=True)
    assert (known, ran, notes) == (0, 4, ())
    assert [each.number for each in opened().rounds("counted")] == [1]


def test_what_never_failed_is_measured_again_in_no_round_of_failures(study, opened):
    study.run()
    assert study.run(again=True, only=["failed"]) == (4, 0, 0, ())
    assert [each.number for each in opened().rounds("counted")] == [1]


def test_points_that_did_not_fail_are_measured_again_in_no_round_of_failures(project, opened):
    study = Driven(project, failing={(3, 1), (3, 2)})
    study.run()
    assert study.run(again=True, only=["failed"], limit=2) == (2, 0, 0, ())
    assert [each.number for each in opened().rounds("counted")] == [1]
    # What did not fail is neither measured again nor left to be measured.
    assert study.run(again=True, only=["failed"])[:3] == (3, 0, 1)
    assert totals(opened()) == {1: 101, 2: 102, 4: 104}


def test_a_round_without_results_is_named_with_those_that_have_some(study, opened):
    study.run()
    for ask in (
        lambda: totals(opened(), round=7),
        lambda: best(opened(), "counted", 1, "MINIMIZE total", rows=RowChoice(round=7)),
    ):
        with pytest.raises(InputError, match="round 7 has no results") as refused:
            ask()
        assert "rounds with results: 1" in str(refused.value)


def test_a_round_that_was_stopped_goes_on(study, opened):
    study.run()

    class StopError(Exception):
        pass

    def stop(progress):
        if progress.ok >= 2:
            raise StopError

    with pytest.raises(StopError):
        study.run(again=True, listener=stop)
    repository = opened()
    assert repository.rounds("counted")[-1].is_open
    measured = sum(each.count for each in repository.count_results("counted") if each.round == 2)
    known, remarks = study.foresee(again=True)
    assert (known, remarks[0][:17]) == (measured, "round 2 continues")
    known, ran, _, notes = study.run(again=True)
    assert known == measured
    assert known + ran == 4
    assert "round 2 continues" in notes[0]
    assert set(totals(repository)) == {1, 2, 3, 4}
    assert {row[-2:] for row in results(repository, "counted", by=["round"]).rows}
    known, remarks = study.foresee(again=True)
    assert (known, remarks[0][:14]) == (0, "round 3 begins")


def test_a_part_of_the_points_may_be_measured_again(study, opened):
    study.run()
    assert study.run(again=True, limit=2)[1] == 2
    repository = opened()
    assert totals(repository) == {1: 201, 2: 202, 3: 103, 4: 104}
    listed = results(repository, "counted")
    assert "results of 2 rounds: 1 (2); 2 (2); --round picks one" in listed.notes
    assert "round" in listed.columns
    assert study.run(again=True)[3][0].startswith("round 3 begins")
    assert results(repository, "counted").notes == ()


def test_only_what_failed_is_measured_again(project, opened):
    study = Driven(project, failing={(3, 1), (4, 1), (4, 2)})
    assert study.run()[1:3] == (2, 2)
    assert study.foresee(again=True, only="failed")[0] == 2
    assert study.run(again=True, only=("failed",))[1:3] == (1, 1)
    assert study.foresee(only="failed")[0] == 4
    assert study.foresee(again=True, only="failed")[0] == 3
    repository = opened()
    assert totals(repository) == {1: 101, 2: 102, 3: 203}
    assert repository.count_states("counted")["failed"] == 1
    assert study.run(only=("failed",))[1:3] == (1, 0)
    assert totals(repository) == {1: 101, 2: 102, 3: 203, 4: 304}
    rounds = {record.digest: record.round for record in repository.records("counted")}
    assert sorted(rounds.values()) == [1, 1, 2, 2]


def test_a_failure_is_measured_again_where_its_point_has_another_number(project, opened):
    study = Driven(project, failing={(3, 1)})
    assert study.run()[1:3] == (3, 1)
    text = study.path.read_text()
    study.path.write_text(text.replace("{ 1:4 }", "{ 3, 1 }"))
    cached, ok, failed, notes = study.run(again=True, only=("failed",))
    assert (cached, ok, failed, notes[0][:14]) == (1, 1, 0, "round 2 begins")
    assert totals(opened())[3] == 203


@pytest.mark.parametrize("failing", [{(4, 1)}, set()])
def test_a_round_of_failures_makes_each_experiment_once(project, monkeypatch, failing):
    study = Driven(project, failing=failing)
    study.run()
    made = []
    experiment = ExperimentGenerator.experiment

    def counted(self, point, *arguments):
        made.append(point["n"])
        return experiment(self, point, *arguments)

    monkeypatch.setattr(ExperimentGenerator, "experiment", counted)
    study.run(again=True, only=("failed",))
    assert sorted(made) == [1, 2, 3, 4]


def test_answers_know_rounds(study, opened):
    study.run()
    study.run(again=True)
    repository = opened()
    grouped = results(repository, "counted", by=["round"], metrics=["total"])
    assert [(row[0], row[1]) for row in grouped.rows] == [(1, 4), (2, 4)]
    assert len(results(repository, "counted", where="round == 1").rows) == 4
    assert len(results(repository, "counted", round="all").rows) == 8
    first, second = (
        study_frame(repository, "counted", rows=RowChoice("", number)) for number in (1, 2)
    )
    found = compare(first, second, "total").result()
    assert [row[0] for row in found.rows] == [1, 2, 3, 4]
    table = group_frame(repository, "counted", ["n"], "total", rows=RowChoice("", 1))
    assert table["total"].tolist() == [101, 102, 103, 104]
    ranking = best(repository, "counted", 1, "MINIMIZE total")
    assert [point.scores for point in ranking.points] == [{"total": 201.0}]
    ranking = best(repository, "counted", 2, "MINIMIZE total", rows=RowChoice("", "all"))
    assert [(point.round, *point.scores.values()) for point in ranking.points] == [
        (1, 101),
        (1, 102),
    ]
    asked = "SELECT round, count(*) FROM study_counted{} GROUP BY round ORDER BY round"
    assert raw(repository, asked.format("")).rows == ((2, 4),)
    assert raw(repository, asked.format("_all")).rows == ((1, 4), (2, 4))


def test_a_status_tells_the_rounds(study, project):
    study.run()
    study.run(again=True)
    found = study_status(study.db, "counted")
    assert (found.ok, found.total, found.rounds) == (4, 4, {1: 4, 2: 4})
    told = command("status", "counted", "--db", study.db, cwd=project).out
    assert "4 of 4 experiments, 8 results of 2 rounds" in told
    assert "round 2: 4 results, started" in told


def test_the_command_line_measures_again_and_chooses_rounds(study, project):
    at = ("--db", study.db)
    command("run", "counted.py", "-j", "2", *at, cwd=project)
    facts = command("run", "counted.py", "-j", "2", "--again", "--json", *at, cwd=project).facts
    assert (facts["round"], facts["ok"], facts["known"]) == (2, 4, 0)
    shown = command("results", "counted", "--round", "1", "--json", *at, cwd=project).facts
    assert [row[-1] for row in shown["rows"]] == [101, 102, 103, 104]
    compared = command(
        "compare", "counted", "counted", "--round", "1", "--round", "2", "--metric", "total", *at,
        cwd=project,
    )  # fmt: skip
    assert "4" in compared.out
    refused = command("results", "counted", "--round", "last", *at, cwd=project, code=2)
    assert "--round last" in refused.err
    digest = results_digest(study.db)
    told = command("show", digest, *at, cwd=project).out
    assert "round" in told
    attached = command("attach", "counted", "--json", *at, cwd=project).facts
    assert attached["ok"] == 0, "it begins no round"
    empty = command("run", "counted.py", "--again", "--where", "", *at, cwd=project, code=2)
    assert "--where is empty" in empty.err


def results_digest(db):
    repository = open_repository(db)
    try:
        return next(repository.records("counted")).digest
    finally:
        repository.close()


def test_two_drivers_measure_one_round(study, opened):
    study.run()
    repository = opened()
    number = repository.begin_round("counted")
    application = scan([str(study.path)])
    session = StudySession(
        application, select_points(application.space), repository, settings=DriverSettings(again=True),
        join=True,
    )  # fmt: skip
    assert session.foresee().remarks[0].startswith(f"round {number} continues")
    _, ran, _, notes = study.run(again=True)
    assert (ran, notes[0][:17]) == (4, "round 2 continues")


def test_a_function_is_measured_again(project):
    calls = []

    def measure(n):
        calls.append(n)
        return {"calls": calls.count(n)}

    def run(**options):
        return zen.run(
            measure, Space(n=[1, 2]), name="measured", db=str(project / "f.db"), **options
        )

    assert run().summary.ok == 2
    again = run(again=True)
    assert (again.summary.ok, again.summary.round) == (2, 2)
    assert "round 2 begins" in again.summary.notes[0]
    assert again.frame()["calls"].tolist() == [2, 2]
    assert again.frame(round=1)["calls"].tolist() == [1, 1]
    assert [each.number for each in again.rounds()] == [1, 2]
    assert run().summary.cached == 2
    assert run(again=True).summary.round == 3


def test_a_function_that_was_interrupted_goes_on_with_its_round(project):
    calls = []

    def measure(n):
        calls.append(n)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return {"calls": len(calls)}

    def run(**options):
        return zen.run(
            measure, Space(n=[1, 2]), name="measured", db=str(project / "f.db"), **options
        )

    run()
    with pytest.raises(KeyboardInterrupt):
        run(again=True)
    summary = run(again=True).summary
    assert (summary.cached, summary.ok, summary.round) == (1, 1, 2)
    assert "round 2 continues" in summary.notes[0]


def test_a_submission_may_measure_again(study, opened):
    study.run()
    repository = opened()
    request = StudyRequest((str(study.path),), again=True)
    assert StudyRequest.read(request.facts()) == request
    session = request.session(repository)
    assert session.settings.again
    assert session.foresee().remarks[0].startswith("round 2 begins")


def test_points_with_results_that_meet_a_condition_are_measured_again(project, opened, monkeypatch):
    study = Driven(project)
    study.run()

    def again(where, **more):
        return zen.run(study.path, db=study.db, again=True, where=where, **more).summary

    summary = again("total > 102 and n < 4")
    assert (summary.ok, summary.cached, summary.round) == (1, 0, 2)
    totals = {
        r.values["n"]: r.outcome.metrics["total"] for r in opened().records("counted") if r.newest
    }
    assert totals == {1: 101, 2: 102, 3: 203, 4: 104}
    # A round that is open has the points of the results before it, whatever it measured since.
    opened().begin_round("counted")
    assert [again("total > 200").ok, again("total > 200").ok] == [1, 1]
    with pytest.raises(InputError, match="--where names results that are to be measured again"):
        zen.run(study.path, db=study.db, where="total > 1")
    with pytest.raises(InputError, match="chooses the points by their results"):
        again("total > 1", limit=2)
    before = opened().rounds("counted")
    with pytest.raises(InputError, match="no result of counted meets the condition total > 999"):
        again("total > 999")
    assert opened().rounds("counted") == before
