"""Engines are tuned: settings are swept, each search is made once, and what is best is told."""

import math
from contextlib import closing, nullcontext
from dataclasses import replace
from threading import Event, Thread
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

import zenturio as zen
from dask_cluster import Cluster
from zenturio.annotate.scan import scan
from zenturio.errors import ExperimentsFailed, InputError, Interrupted, NotFoundError, SafetyError
from zenturio.experiment import ExperimentGenerator, MachineKind, MetricReader, Missing
from zenturio.experiment.metrics import Evidence
from zenturio.record.open import open_repository
from zenturio.search import Setting, describe, names
from zenturio.show.python_api import Study, TuningResult
from zenturio.space import Space
from zenturio.study.study_request import PlaceOptions
from zenturio.study.tuning import tuning_scenario
from zenturio.study.tuning.tune_engine import Tuning, _best_known, _is_exact, run_trial, tune
from zenturio.study.tuning.tuning_scenario import (
    TargetFunction,
    TargetProgram,
    read_ranges,
    read_target,
)
from zenturio.study.tuning.tuning_trials import ThreadedTrials
from zenturio.testing.executor import PATIENCE, until

SPACE = Space(x=range(-20, 21), y=range(-20, 21))


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """A project folder to stand in."""
    (tmp_path / ".zenturio").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def repository(project):
    found = open_repository(project / "zenturio.db")
    yield found
    found.close()


def bowl(point):
    return (point["x"] - 3) ** 2 + abs(point["y"]) + 1


@njit
def compiled_bowl(genes):
    return float((genes[0] - 23) ** 2 + abs(genes[1] - 20) + 1)


def sets(text, engine="ga"):
    return read_ranges(describe(engine), [text] if text else []).sets


def test_each_combination_is_searched_with_seeds_of_its_own(repository):
    found = zen.tune(
        SPACE, bowl, settings="population=4:12:4,elite=0:1", repeats=3, budget=50, db=repository
    )
    table = found.frame()
    assert len(table) == 6 * 3
    assert sorted(map(tuple, table[["population", "elite", "seed"]].to_numpy())) == [
        (p, e, s) for p in (4, 8, 12) for e in (0, 1) for s in (1, 2, 3)
    ]
    assert set(table["visited"]) == {50}


def test_a_search_of_a_tuning_is_the_search_that_anybody_makes(repository):
    found = zen.tune(SPACE, bowl, settings="population=4:8:4", repeats=3, budget=60, db=repository)
    for _, row in found.frame().iterrows():
        alone = zen.search(
            SPACE, bowl, engine="ga", budget=60, seed=int(row["seed"]), population=row["population"]
        )
        frame = alone.frame()
        assert row["best"] == alone.best.scores[0]
        assert row["needed"] == frame[frame["score"] == row["best"]]["trial"].min()
        assert row["first"] == frame["score"][: int(row["population"])].min()
        assert row["visited"] == alone.count


def test_a_compiled_search_of_a_tuning_is_the_same_as_alone(repository):
    found = zen.tune(
        SPACE, compiled_bowl, settings="population=4:8:4,generations=9", repeats=4, db=repository
    )
    for _, row in found.frame().iterrows():
        alone = zen.search(
            SPACE,
            compiled_bowl,
            engine="ga",
            seed=int(row["seed"]),
            population=row["population"],
            generations=9,
        )
        assert (row["best"], row["needed"]) == (alone.best.scores[0], alone.numbers[-1])
        assert row["visited"] == alone.count


def test_searches_in_threads_come_to_the_same(project):
    told = []
    for jobs in (1, 3):
        place = open_repository(project / f"{jobs}.db")
        found = zen.tune(
            SPACE, compiled_bowl, settings="population=4:20:4", repeats=5, jobs=jobs, db=place
        )
        told.append(found.frame()[["population", "seed", "best", "visited", "needed"]])
        place.close()
    assert told[0].equals(told[1])


def test_a_search_that_is_over_waits_for_no_slower_one():
    is_recorded = Event()

    def search(name):
        return name == "quick" or is_recorded.wait(PATIENCE)

    with closing(ThreadedTrials(search, 2)) as threads:
        slow, quick = map(threads.submit, ("slow", "quick"))
        assert quick.result(PATIENCE)
        assert not slow.done()
        is_recorded.set()
        assert slow.result(PATIENCE)


def test_closing_cancels_the_searches_that_have_not_begun():
    has_begun, may_end = Event(), Event()

    def search(_name):
        has_begun.set()
        return may_end.wait(PATIENCE)

    threads = ThreadedTrials(search, 1)
    first, second = map(threads.submit, ("first", "second"))
    assert has_begun.wait(PATIENCE)
    closing_thread = Thread(target=threads.close)
    closing_thread.start()
    until(second.cancelled)
    may_end.set()
    closing_thread.join()
    assert first.result()


def test_what_is_searched_again_is_recalled(repository):
    calls = []

    def counted(point):
        calls.append(point)
        return bowl(point)

    def again(settings):
        return zen.tune(SPACE, counted, settings=settings, repeats=2, budget=40, db=repository)

    again("population=4:8:4")
    first = len(calls)
    assert again("population=4:8:4").tuned.summary.cached == 4
    assert len(calls) == first
    more = again("population=4:12:4").tuned.summary
    assert (more.cached, more.ok) == (4, 2)


def test_a_point_is_evaluated_once_for_all_searches(repository):
    calls = []

    def counted(point):
        calls.append(tuple(point.values()))
        return bowl(point)

    zen.tune(SPACE, counted, settings="population=4:12:4", repeats=4, budget=40, db=repository)
    assert len(calls) == len(set(calls))


def test_a_tuning_that_was_stopped_goes_on(repository):
    left = [300]

    def stopping(point):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return bowl(point)

    def go():
        return zen.tune(
            SPACE, stopping, settings="population=4:12:4", repeats=10, budget=30, db=repository
        )

    with pytest.raises(Interrupted, match="again to continue"):
        go()
    kept = repository.count_states("stopping_ga")["ok"]
    assert 0 < kept < 30
    assert repository.leases("stopping_ga") == ()
    assert go().tuned.summary.cached == kept
    assert repository.count_states("stopping_ga")["ok"] == 30


def test_another_objective_of_the_name_keeps_the_old_results_apart(repository):
    for factor in (1, 2):
        space = Space(x=range(10 * factor))
        zen.tune(
            space,
            lambda point: point["x"] + 1.0,
            settings="population=4:8:4",
            repeats=2,
            budget=9,
            name="same",
            db=repository,
        )
    assert [each.name for each in repository.studies()] == ["same@1", "same"]


def test_precision_is_told_by_the_best_that_was_found_and_by_the_optimum_that_is_given(repository):
    found = zen.tune(SPACE, bowl, settings="population=4:8:4", repeats=5, budget=30, db=repository)
    table = found.frame()
    assert found.tuned.tuning.optimum == table["best"].min()
    assert list(table["precision"]) == pytest.approx(list(table["best"].min() / table["best"]))
    known = zen.tune(
        SPACE, bowl, settings="population=4:8:4", repeats=5, budget=30, optimum=0.5, db=repository
    )
    assert known.tuned.summary.cached == 10
    table = known.frame()
    assert list(table["precision"]) == pytest.approx(list(0.5 / table["best"]))
    assert known.recommended.mean < 1


numbers = st.floats(-1e6, 1e6) | st.just(0.0)


@given(numbers, numbers, numbers)
def test_precision_and_improvement_are_shares_of_the_greater(
    tmp_path_factory, best, first, optimum
):
    target = TargetFunction(bowl, SPACE, "minimize", "bowl", "bowl.py:bowl")
    tuning = Tuning(target, "ga", read_ranges(describe("ga"), ["elite=1"]), optimum=optimum)
    meter = MetricReader(
        ExperimentGenerator(tuning.application(tmp_path_factory.mktemp("tune"))).recipe
    )
    told = {"best": best, "first": first, "visited": 3, "needed": 2}
    found = meter.measure({}, Evidence(usage=told, reported=repr(told).replace("'", '"').encode()))

    def apart(one, other):
        return 0.0 if one == other else abs(one - other) / max(abs(one), abs(other))

    def same(name, wanted):
        return not isinstance(found[name], Missing) and math.isclose(
            found[name], wanted, abs_tol=1e-9
        )

    assert same("improvement", apart(best, first))
    scale = max(abs(best), abs(optimum or first))
    wanted = 1.0 if best == optimum else 1 - abs(best - optimum) / scale
    assert same("precision", wanted)


def test_the_study_is_an_ordinary_annotated_file(repository, project):
    found = zen.tune(
        SPACE,
        bowl,
        settings={"population": [4, 8], "selection": ["rank", "roulette"]},
        repeats=2,
        budget=30,
        db=repository,
    )
    assert found.tuned.file == project / ".zenturio" / "tune" / "bowl_ga.tune"
    application = scan(found.tuned.file)
    assert application.space.size == 4
    assert (application.repeat.count, application.repeat.seed) == (2, "seed")
    digests = {
        e.digest for p in application.space for e in ExperimentGenerator(application).experiments(p)
    }
    assert {record.digest for record in repository.records("bowl_ga")} == digests
    assert [goal["expression"] for goal in repository.definition("bowl_ga").goals] == ["precision"]
    (run,) = application.runs
    assert " --objective MINIMIZE " in str(run)


def test_what_does_not_matter_is_told(repository):
    found = zen.tune(
        SPACE, compiled_bowl, settings="generations={1,40},scaling={2,3}", repeats=20, db=repository
    )
    told = {each.parameter: each.matters for each in found.importances.parameters}
    assert told == {"generations": True, "scaling": False}
    assert found.recommended.values["generations"] == 40
    worse = [each for each in found.recommendation.settings if not each.alike]
    assert {each.values["generations"] for each in worse} == {1}


def test_a_program_runs_each_point_once_for_all_searches(repository, project):
    (project / "hill.py").write_text(PROGRAM)
    target = read_target("hill.py", "", repository)
    tuning = Tuning(target, "ga", read_ranges(describe("ga"), ["population=4:8:4"]), 3, "12")
    tuned = tune(tuning, repository)
    assert (tuned.settings, tuned.summary.ok) == (2, 6)
    runs = (project / "runs").read_text().split()
    assert len(runs) == len(set(runs)) == repository.count_states("hill")["ok"]
    tune(tuning, repository)
    assert (project / "runs").read_text().split() == runs
    bests = [r.outcome.metrics["best"] for r in repository.records("hill_ga")]
    heights = [r.outcome.metrics["height"] for r in repository.records("hill")]
    assert max(bests) == max(heights) == tuned.tuning.optimum
    assert _best_known(tuning, repository, None) == max(heights)
    assert _best_known(tuning, repository, frozenset({MachineKind("another", 1)})) is None
    moved = replace(target.application, space=Space(x=range(1000, 1010)))
    other = replace(tuning, name="other", target=replace(target, application=moved))
    assert _best_known(other, repository, None) is None


def test_a_tuning_of_a_program_without_results_ends_with_the_reason(repository, project):
    (project / "hill.py").write_text(PROGRAM.replace('print("height"', 'print("depth"'))
    target = read_target("hill.py", "", repository)
    tuning = Tuning(target, "ga", read_ranges(describe("ga"), ["population=20"]), 1, "30")
    with pytest.raises(ExperimentsFailed, match=r"hill: stopped.*metric missing: height; --go-on"):
        tune(tuning, repository)
    runs = len((project / "runs").read_text().split())
    assert repository.count_states("hill_ga").get("failed", 0) == 0
    tuned = tune(tuning, repository, go_on=True)
    assert tuned.summary.failures
    assert not TuningResult(tuned, Study("hill_ga", repository)).has_solution
    with_optimum = tune(replace(tuning, optimum=100.0), repository, go_on=True)
    assert not TuningResult(with_optimum, Study("hill_ga", repository)).has_solution
    assert len((project / "runs").read_text().split()) > runs


def test_a_tuning_learns_from_points_that_fail(repository, project):
    few = PROGRAM.replace('print("height"', "x == 7 or sys.exit(3)\nprint('height'")
    (project / "hill.py").write_text(few.replace("import ", "import sys, ", 1))
    target = read_target("hill.py", "", repository)
    tuning = Tuning(target, "ga", read_ranges(describe("ga"), ["population=20"]), 1, "41")
    assert tune(tuning, repository).tuning.optimum == 100


def test_a_link_where_the_study_of_a_tuning_is_written_is_refused(repository, project):
    (project / "hill.py").write_text(PROGRAM)
    (project / "precious").write_text("kept")
    (project / "hill_ga.tune").symlink_to("precious")
    target = read_target("hill.py", "", repository)
    tuning = Tuning(target, "ga", read_ranges(describe("ga"), ["population=4"]), 1, "4")
    with pytest.raises(SafetyError, match=r"hill_ga\.tune is a link"):
        tuning.application(project)
    assert (project / "precious").read_text() == "kept"


def test_settings_that_do_not_go_together_are_failures_of_their_own(repository, project):
    (project / "hill.py").write_text(PROGRAM)
    target = read_target("hill.py", "", repository)
    wished = read_ranges(describe("ga"), ["population={3, 6},elite={1, 4}"])
    summary = tune(Tuning(target, "ga", wished, 2, "12"), repository).summary
    assert (summary.ok, summary.failed) == (6, 2)
    assert [each.cause for each in summary.failures] == ["InputError"]
    found = zen.tune(
        SPACE, bowl, settings="population={3, 6},elite={1, 4}", repeats=2, budget=30, db=repository
    )
    assert len(found.frame()) == 6
    assert len(found.recommendation.settings) == 3


def test_what_a_tuning_does_not_visit_is_nothing_that_is_to_be_begun(repository, project):
    (project / "hill.py").write_text(PROGRAM)
    target = read_target("hill.py", "", repository)
    tune(Tuning(target, "ga", read_ranges(describe("ga"), ["population=4"]), 1, "8"), repository)
    assert target.space.size > 8
    assert (
        repository.definition("hill").notes["experiments"] <= repository.count_states("hill")["ok"]
    )


def test_a_program_is_searched_as_zen_run_searches_it(repository, project):
    (project / "hill.py").write_text(PROGRAM)
    target = read_target("hill.py", "", repository)

    def height(point):
        return 100 - (point["x"] - 7) ** 2

    tuning = Tuning(target, "hill", read_ranges(describe("hill"), ["starts=2:4"]), 2, "9")
    tune(tuning, repository)
    for record in repository.records("hill_hill"):
        alone = zen.search(
            target.space,
            height,
            "maximize",
            "hill",
            budget=9,
            seed=record.values["seed"],
            starts=record.values["starts"],
        )
        assert record.outcome.metrics["best"] == alone.best.scores[0]
        assert record.outcome.metrics["visited"] == alone.count


PROGRAM = """\
x = 0
#ZEN$ ASSIGN x = { 0:24 }
#ZEN$ RUN "python3 hill.py"
#ZEN$ METRIC height FROM stdout REGEX "height (\\S+)"
#ZEN$ OBJECTIVE MAXIMIZE height
import pathlib
folder = next(p for p in pathlib.Path.cwd().parents if p.name == ".zenturio").parent
with (folder / "runs").open("a") as runs:
    runs.write(f"{x}\\n")
print("height", 100 - (x - 7) ** 2)
"""


def test_a_search_that_finds_nothing_is_a_failure_with_its_cause(repository):
    def broken(point):
        raise ValueError("no")

    found = zen.tune(SPACE, broken, settings="population=4:8:4", repeats=2, budget=9, db=repository)
    (failures,) = found.tuned.summary.failures
    assert (failures.cause, failures.count) == ("ValueError", 4)
    nothing = zen.tune(
        SPACE,
        lambda point: None,
        name="n",
        settings="population=4",
        repeats=2,
        budget=9,
        db=repository,
    )
    (failures,) = nothing.tuned.summary.failures
    assert failures.cause.startswith("metric missing: best")
    assert nothing.tuned.tuning.optimum is None


@pytest.mark.parametrize("engine", [name for name in names() if name != "optuna"])
def test_every_setting_has_a_few_values_that_it_can_have(engine):
    if not describe(engine).settings:
        with pytest.raises(InputError, match="nothing to tune"):
            sets("", engine)
        return
    found = sets("", engine)
    swept = {each.name for each in describe(engine).settings if each.type != "str" or each.choices}
    assert found.keys() == swept
    for each in describe(engine).settings:
        if each.name in swept and each.default is not None and each.type in ("int", "float"):
            assert f"{each.default:.6g}" in found[each.name].strip("{ }").split(", ")


@pytest.mark.parametrize(
    ("type_", "low", "high", "tried"),
    [
        ("int", None, None, "20, 50, 100"),
        ("int", 30, None, "50, 100"),
        ("int", 0, None, "20, 50, 100"),
        ("float", None, None, "0.1, 1, 10"),
        ("float", 1, None, "1, 10"),
        ("float", 2, None, "10"),
        ("float", 100, 200, "101, 110"),
    ],
)
def test_a_setting_without_a_default_is_tried_at_usual_values_within_its_limits(
    type_, low, high, tried
):
    setting = Setting("size", type_, None, "", low, high)
    assert tuning_scenario._few(setting) == f"auto, {tried}"


def test_sets_are_written_as_in_directives():
    assert sets("population=50:200:50,crossover_rate=0.4:1:0.2") == {
        "population": "{ 50:200:50 }",
        "crossover_rate": "{ 0.4:1:0.2 }",
    }
    assert sets("selection={rank, roulette},elite=2") == {
        "selection": "{rank, roulette}",
        "elite": "{ 2 }",
    }
    assert sets("elite")["elite"] == "{ 0, 1, 2 }"


@pytest.mark.parametrize(
    ("text", "diagnostic"),
    [
        ("populaton=4", "did you mean 'population'"),
        ("crossover=0.4:1:0.2", "there is: single, two, uniform"),
        ("crossover_rate=1:2:0.5", "from 0 to 1"),
        ("population=4.5", "whole number"),
        ("elite=1,elite=2", "elite twice"),
        ("elite={1", "--settings elite"),
    ],
)
def test_settings_that_cannot_be_are_refused(text, diagnostic):
    with pytest.raises(InputError, match=diagnostic):
        sets(text)


def test_ranges_that_nobody_chose_are_sampled(repository):
    found = zen.tune(SPACE, compiled_bowl, repeats=1, budget=30, db=repository)
    assert found.tuned.settings == 100 < found.tuned.of
    assert len(found.frame()) == 100


COST = """\
import zenturio as zen
space = zen.Space(x=range(9))
def cost(point):
    return point["x"]
"""


def test_targets_are_files_studies_and_functions(repository, project):
    (project / "cost.py").write_text(COST)
    (project / "hill.py").write_text(PROGRAM)
    found = read_target("cost.py:cost", "", repository)
    assert isinstance(found, TargetFunction)
    assert (found.name, found.direction, found.space.size) == ("cost", "minimize", 9)
    assert read_target("cost:cost", "MAXIMIZE", repository).direction == "maximize"
    assert isinstance(read_target("hill.py", "", repository), TargetProgram)
    zen.run("hill.py", limit=2, db=repository)
    studied = read_target("hill", "MINIMIZE wtime", repository)
    assert studied.goal.expression.text == "wtime"


def test_what_is_no_target_is_refused(repository, project):
    (project / "cost.py").write_text(COST)
    (project / "bare.py").write_text("def cost(point): return 1")
    (project / "broken.py").write_text("1 / 0")
    for text, error, words in [
        ("cost.py:cots", NotFoundError, "did you mean 'cost'"),
        ("nothing", NotFoundError, "no file and no study"),
        ("gone.py:cost", NotFoundError, "no file gone.py"),
        ("bare.py:cost", InputError, "does not define its points"),
        ("broken.py:cost", InputError, "ZeroDivisionError"),
        ("no_such_module:cost", InputError, "cannot import"),
    ]:
        with pytest.raises(error, match=words):
            read_target(text, "", repository)
    (project / "plain.py").write_text('#ZEN$ PARAM n = { 1:3 }\n#ZEN$ RUN "true"\n')
    with pytest.raises(InputError, match="one objective"):
        read_target("plain.py", "", repository)


def test_another_text_of_the_objective_is_another_program(project, repository):
    (project / "cost.py").write_text(COST)
    first = read_target("cost.py:cost", "", repository).identity()
    (project / "cost.py").write_text(COST.replace('point["x"]', '-point["x"]'))
    assert read_target("cost.py:cost", "", repository).identity() != first


def test_settings_from_python_are_texts_or_sets():
    texts = tuning_scenario._setting_texts(
        {"a": "1:5", "b": [1, True, None], "c": range(2), "d": 0.5, "e": None, "f": ()}
    )
    assert texts == {
        "a": "1:5", "b": f"{{ 1, true, {tuning_scenario.AUTO} }}", "c": "{ 0, 1 }", "d": "0.5",
        "e": tuning_scenario.AUTO, "f": "{  }",
    }  # fmt: skip


def test_one_search_alone_is_told_as_a_tuning_tells_it(repository, project):
    (project / "hill.py").write_text(PROGRAM)
    (project / "cost.py").write_text(COST)
    for text, engine, name in [("hill.py", "hill", "hill_hill"), ("cost.py:cost", "ga", "cost_ga")]:
        target = read_target(text, "", repository)
        setting = {"hill": "starts=3", "ga": "population=4"}[engine]
        tuning = Tuning(target, engine, read_ranges(describe(engine), [setting]), 2, "9")
        plans = []
        tune(tuning, repository, planned=plans.append)
        assert [(plan.settings, plan.of, plan.searches) for plan in plans] == [(1, 1, 2)]
        alone = run_trial(replace(tuning, seed=2), repository)
        (record,) = [r for r in repository.records(name) if r.values["seed"] == 2]
        assert alone.items() <= record.outcome.metrics.items() or {
            fact: value for fact, value in alone.items() if value != record.outcome.metrics[fact]
        }.keys() <= {"precision"}
        assert {"best", "visited", "needed", "first"} <= alone.keys()


@pytest.mark.parametrize(
    ("written", "pairs"),
    [
        (["a={1, 2},b=3"], {"a": "{1, 2}", "b": "3"}),
        (["a='x,y',b=\"}\""], {"a": "'x,y'", "b": '"}"'}),
        (["a={'}', \"'\"}, b=(1, 2)", " c = 1 "], {"a": "{'}', \"'\"}", "b": "(1, 2)", "c": "1"}),
        (["a=1,,", ""], {"a": "1"}),
    ],
)
def test_settings_are_cut_at_commas_outside_of_braces_and_quotes(written, pairs):
    assert tuning_scenario._pairs(written) == pairs
    with pytest.raises(InputError, match="names a twice"):
        tuning_scenario._pairs([*written, "a=9"])


def test_a_search_depends_on_the_whole_space_however_large_it_is():
    def identity(**sets):
        return TargetFunction(bowl, Space(**sets), "minimize", "f", "f").identity()

    spaces = [
        {"x": range(5)}, {"x": range(6)}, {"x": range(10**6)}, {"x": range(10**6 + 1)},
        {"x": range(1, 10**6 + 1)}, {"x": zen.uniform(0, 1)}, {"x": zen.uniform(0, 2)},
    ]  # fmt: skip
    assert len({identity(**sets) for sets in spaces}) == len(spaces)
    assert identity(x=range(10**6)) == identity(x=range(10**6))


def test_a_function_without_a_file_is_known_by_its_name():
    space = Space(x=range(3))
    names = {}
    exec("def cost(point): return 1\ndef price(point): return 1", names)
    first, second = (TargetFunction(names[n], space, "minimize", n, n) for n in ("cost", "price"))
    assert first.identity() == replace(first, words="moved").identity() != second.identity()


def test_a_text_without_choices_is_tried_as_it_is():
    setting = Setting("name", "str", "usual", "")
    assert tuning_scenario._few(setting) == "usual"


def test_a_function_runs_in_this_process_only(repository):
    target = TargetFunction(bowl, SPACE, "minimize", "bowl", "m:bowl")
    tuning = Tuning(target, "ga", read_ranges(describe("ga"), ["population=4"]), 1, "8")
    with pytest.raises(InputError, match="bowl is a function, and runs in this process"):
        tune(tuning, repository, place=PlaceOptions(place="dask"))


def test_a_program_is_not_tuned_on_several_kinds_of_machine(repository, project, monkeypatch):
    (project / "hill.py").write_text(PROGRAM)
    kinds = frozenset({MachineKind("old", 4), MachineKind("new", 8)})
    both = nullcontext(SimpleNamespace(machines=kinds))
    monkeypatch.setattr("zenturio.study.tuning.tune_engine.open_place", lambda *_, **__: both)
    target = read_target("hill.py", "MAXIMIZE wtime", repository)
    tuning = Tuning(target, "ga", read_ranges(describe("ga"), ["population=4"]), 1, "8")
    with pytest.raises(InputError, match="has 2 kinds of machine"):
        tune(tuning, repository, place=PlaceOptions(place="hosts"))


@pytest.mark.parametrize(
    ("clause", "objective", "is_exact"),
    [("", "", False), (" EXACT", "", True), (" EXACT", "MAXIMIZE wtime", False)],
)
def test_a_search_of_exact_metrics_is_the_same_on_every_machine(
    repository, project, clause, objective, is_exact
):
    metric = 'FROM stdout REGEX "height (\\S+)"'
    (project / "hill.py").write_text(PROGRAM.replace(metric, metric + clause))
    target = read_target("hill.py", objective, repository)
    assert _is_exact(Tuning(target, "ga", read_ranges(describe("ga"), []), 1, "8")) is is_exact
    assert not _is_exact(
        Tuning(TargetFunction(bowl, SPACE, "minimize", "bowl", "m:bowl"), "ga", {}, 1, "8")
    )


@pytest.mark.slow  # a cluster of Dask: some five seconds of processor
def test_a_program_is_tuned_at_another_place(repository, project):
    (project / "hill.py").write_text(PROGRAM)
    target = read_target("hill.py", "", repository)
    tuning = Tuning(target, "ga", read_ranges(describe("ga"), ["population=4:8:4"]), 2, "12")
    with Cluster() as cluster:
        cluster.worker()
        place = PlaceOptions(place=cluster.address)
        tuned = tune(tuning, repository, place=place)
        assert (tuned.summary.ok, tuned.summary.failed) == (4, 0)
        assert tune(tuning, repository, place=place).summary.cached == 4
