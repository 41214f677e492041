"""Points run as often as needed: REPEAT 6:20 UNTIL t WITHIN 2%, in blocks, killed or not."""

import math
import os
import random
import re
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from cli.conftest import zen as command
from loaded import Program
from zenturio.annotate.model import Repeat, Until
from zenturio.annotate.scan import scan
from zenturio.experiment import ExperimentGenerator, Outcome
from zenturio.experiment.aggregates import (
    RepeatRule,
    deviation,
    mean,
    median,
    median_interval,
    relative_width,
)
from zenturio.experiment.experiment import RunPosition, as_counted
from zenturio.expression import parse
from zenturio.record.open import open_repository
from zenturio.study.driver import measurement_plan
from zenturio.study.driver.experiment_source import RunOrder, select_points
from zenturio.study.driver.measurement_plan import PointRuns, PointsWithinBudget
from zenturio.study.local_run import run_locally
from zenturio.study.study_request import PlaceOptions
from zenturio.testing.experiments import experiment as made
from zenturio.testing.experiments import outcome
from zenturio.testing.repository_machines import RISCV, ZEN5

DRIVER = Path(__file__).parent / "driver.py"
RULE = RepeatRule(6, 20, 0.02)
NOISE = {1: 0.0, 2: 0.02, 3: 0.3}


def value(n, seed):
    return round(10 * n * (1 + NOISE[n] * random.Random(f"{n}/{seed}").uniform(-1, 1)), 6)


def program(repeat="6:20 UNTIL t WITHIN 2% SEED s"):
    """A program whose metric is decided by its seed, so that each run measures the same."""
    cases = "\n".join(
        f"{n}-{seed}) echo t {value(n, seed)} ;;" for n in NOISE for seed in range(1, 21)
    )
    return f"""\
#ZEN$ PARAM n = {{ 1, 2, 3 }}
#ZEN$ REPEAT {repeat}
#ZEN$ METRIC t FROM stdout REGEX "t (\\S+)"
#ZEN$ RUN "sh study.sh {{n}} {{s}}"
case $1-$2 in
{cases}
esac
"""


def expected(n, numbers=range(1, 21)):
    """How often the rule lets a point run."""
    values = []
    for number in numbers:
        values.append(value(n, number))
        if RULE.stop(values, len(values)):
            return len(values)
    raise AssertionError("the rule never stops")


NEEDED = {n: expected(n) for n in NOISE}


class Study:
    def __init__(self, folder):
        self.folder, self.db = folder, str(folder / "zenturio.db")
        self.write(program())

    def write(self, text):
        (self.folder / "study.sh").write_text(text)

    def run(self, jobs=1, **options):
        application = scan(["study.sh"])
        points = select_points(application.space)
        place = PlaceOptions(jobs=jobs)
        return run_locally(application, points, db=self.db, place=place, **options)

    def start(self, **environment):
        every = {**os.environ, **environment}
        return Program(DRIVER, self.db, "join", "jobs=2", cwd=self.folder, environment=every)

    def rows(self, round_=1):
        """Point, repeat and place in the order of each result of a round."""
        repository = open_repository(self.db)
        try:
            answer = []
            for record in repository.records("study"):
                if record.outcome and record.round == round_:
                    attempts = repository.attempts(record.digest)
                    said = next(a.conditions for a in attempts if a.conditions)
                    position = RunPosition(said.run_order, said.run_block, said.run_turn)
                    answer.append((record.values["n"], record.repeat, position))
            return answer
        finally:
            repository.close()

    def counts(self, round_=1):
        return dict(Counter(n for n, _, _ in self.rows(round_)))


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Study(tmp_path)


def test_the_points_of_these_tests_need_different_numbers_of_repeats():
    assert NEEDED[1] == 7 < NEEDED[2] < NEEDED[3] == 20


def facts(runs):
    return runs.next_number, runs.proposed, runs.spared, runs.is_idle, runs.has_all, runs.stop


def ran(runs, number, value=None, status="ok", machine=None):
    """Complete a run of a point."""
    of = made(1, repeat=number)
    done = replace(outcome(of, status, {} if value is None else {"t": value}), machine=machine)
    runs.complete(of, as_counted(done, number))


def test_beyond_the_least_each_run_waits_for_those_before():
    runs = PointRuns(Repeat(9, until=Until(parse("t"), 0.02, 2), warmup=1))
    assert facts(runs) == (0, 0, 10, True, False, None)
    for number in range(3):
        assert runs.next_number == number
        runs.propose()
    assert facts(runs) == (None, 3, 7, False, False, None)
    assert runs.width == math.inf
    ran(runs, 0, 100.0)  # which warms up
    ran(runs, 2, 1.0)
    assert facts(runs) == (None, 3, 7, False, False, None)
    ran(runs, 1, 1.0)
    for number in range(3, 8):
        assert facts(runs) == (number, number, 10 - number, True, False, None)
        runs.propose()
        assert facts(runs) == (None, number + 1, 9 - number, False, False, None)
        ran(runs, number, 1.0)
    # Six values have an interval, and it has to be narrow twice in a row.
    assert facts(runs) == (8, 8, 2, True, True, "narrow")
    assert runs.width == 0


def test_a_point_without_values_is_given_up_after_the_least_and_one_that_scatters_at_the_most():
    rule = Until(parse("t"), 0.02, 3)
    for values, stop in (((None,) * 3, "no value"), ((1.0, None, 2.0, 1.5), "wide")):
        runs = PointRuns(Repeat(4, until=rule))
        for number, value in enumerate(values, 1):
            assert runs.stop is None
            assert runs.next_number == number
            runs.propose()
            ran(runs, number, value)
        assert (runs.stop, runs.has_all, runs.spared) == (stop, True, 4 - len(values))
    runs = PointRuns(Repeat(4, until=rule))
    for number in (1, 2, 3):
        runs.propose()
        ran(runs, number, 1.0, "failed")
    assert runs.stop == "no value"


def test_the_kind_of_machine_with_the_most_values_says_whether_they_suffice():
    runs = PointRuns(Repeat(30, until=Until(parse("t"), 0.02, 6)))
    for number in range(1, 10):
        runs.propose()
        machine = RISCV if number in (2, 5) else ZEN5
        ran(runs, number, 50.0 if machine is RISCV else 1.0, machine=machine)
        assert runs.stop == ("narrow" if number == 9 else None), number
    assert runs._in_order() == [1.0] * 7


def test_without_a_rule_all_repeats_run_at_once():
    runs = PointRuns(Repeat(2))
    for number in (1, 2):
        assert (runs.next_number, runs.has_all) == (number, False)
        runs.propose()
    assert (runs.spared, runs.has_all, runs.is_idle) == (0, False, False)
    ran(runs, 1, 1.0)
    ran(runs, 2, 1.0)
    assert (runs.has_all, runs.is_idle, runs.stop, runs.width) == (True, True, None, math.inf)


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_point_runs_as_often_as_it_needs(study, jobs):
    summary = study.run(jobs)
    assert study.counts() == NEEDED
    total = sum(NEEDED.values())
    assert (summary.total, summary.ok, summary.unfinished) == (total, total, 0)
    assert summary.stops == {"narrow": 2, "wide": 1}


def test_points_keep_their_places_in_the_blocks(study):
    study.run(jobs=2)
    repository = open_repository(study.db)
    order = RunOrder("blocks", repository.rounds("study")[0].seed)
    repository.close()
    drawn = {(at, repeat): p for at, repeat, p in order.arrange(range(3), 20)}
    for n, repeat, position in study.rows():
        assert position == drawn[n - 1, repeat]
    assert {repeat for n, repeat, _ in study.rows() if n == 2} == set(range(1, NEEDED[2] + 1))


@pytest.mark.parametrize("order", ["sorted", "random"])
def test_every_order_has_as_many_repeats(study, order):
    study.run(order=order)
    assert study.counts() == NEEDED


def test_a_second_run_finds_all_of_it(study):
    study.run()
    again = study.run()
    assert (again.ok, again.cached, again.unfinished) == (0, sum(NEEDED.values()), 0)
    assert again.stops == {"narrow": 2, "wide": 1}


def test_a_run_that_was_killed_goes_on_to_the_same_repeats(study):
    driver = study.start(ZENTURIO_FAILPOINT="study.committed:7")
    driver.communicate()
    assert driver.returncode == -signal.SIGKILL
    assert 0 < sum(study.counts().values()) < sum(NEEDED.values())
    study.run()
    assert study.counts() == NEEDED


def test_two_drivers_share_the_repeats(study):
    drivers = [study.start() for _ in range(2)]
    for driver in drivers:
        _, err = driver.communicate()
        assert driver.returncode == 0, err
    assert study.counts() == NEEDED


def test_a_new_round_decides_for_itself(study):
    from zenturio.study.driver.study_driver import DriverSettings

    study.run()
    study.run(settings=DriverSettings(again=True))
    assert study.counts(2) == NEEDED


def test_a_failing_point_is_not_repeated_to_the_limit(study):
    study.write(program().replace("case $1", "[ $1 = 2 ] && exit 3\ncase $1", 1))
    summary = study.run()
    assert study.counts() == {1: 7, 2: 6, 3: 20}
    assert summary.stops == {"narrow": 1, "no value": 1, "wide": 1}


def test_only_the_failed_ones_run_again(study):
    study.write(
        program().replace("case $1", "[ -e ../broken ] && [ $2 = 2 ] && exit 3\ncase $1", 1)
    )
    (study.folder / ".zenturio").mkdir(exist_ok=True)
    study.write(
        study.folder.joinpath("study.sh").read_text().replace("../broken", f"{study.folder}/broken")
    )
    (study.folder / "broken").touch()
    assert study.run().failed == 3
    (study.folder / "broken").unlink()
    before = study.counts()
    summary = study.run(only=frozenset({"failed"}))
    assert (summary.ok, study.counts()) == (3, before)


def test_a_search_repeats_its_points_as_often_as_needed(study):
    from zenturio.search import Budget
    from zenturio.study.driver.search_source import SearchSpec
    from zenturio.study.study_request import read_goals

    application = scan(["study.sh"])
    goals = read_goals("MINIMIZE t", application)
    spec = SearchSpec("random", budget=Budget(trials=3))
    from zenturio.study.driver.experiment_source import PointSelection

    summary = run_locally(application, PointSelection.none(application.space), db=study.db,
                          place=PlaceOptions(jobs=2), search=spec, goals=goals)  # fmt: skip
    assert study_counts_of_search(study) == NEEDED
    assert summary.stops == {"narrow": 2, "wide": 1}
    assert summary.ended in ("budget", "exhausted")


def study_counts_of_search(study):
    repository = open_repository(study.db)
    try:
        return dict(Counter(r.values["n"] for r in repository.records("study") if r.outcome))
    finally:
        repository.close()


def repeats_of_the_best(study):
    """How many repeats the score of the best point is made of."""
    best = command("best", "study", "--objective", "MINIMIZE t", "--db", study.db, "--json",
                   cwd=study.folder)  # fmt: skip
    return [point["tried"] for point in best.facts]


def test_a_plan_says_how_many_at_least_and_at_most(study):
    run = command("run", "study.sh", "--dry-run", "--db", study.db, cwd=study.folder)
    assert "3 points x 6 to 20 repeats UNTIL t WITHIN 2%, at most 60 experiments" in run.out
    check = command("check", "study.sh", cwd=study.folder)
    assert "study: 3 points, 18 to 60 experiments, UNTIL t WITHIN 2%" in check.out


def test_the_end_of_a_run_says_why_points_had_no_more_repeats(study):
    run = command("run", "study.sh", "--db", study.db, cwd=study.folder)
    assert (
        "repeats: 2 points precise enough; 1 point not precise enough after the most repeats"
        in run.out
    )
    status = command("status", "study", "--db", study.db, cwd=study.folder)
    assert f"{sum(NEEDED.values())} ok" in status.out
    assert "missing" not in status.out


def test_fewer_repeats_than_an_interval_needs_are_raised(study):
    study.write(program("2:20 UNTIL t WITHIN 2% SEED s"))
    check = command("check", "study.sh", cwd=study.folder)
    assert "each point must run at least 6 times, not 2" in check.out
    assert scan(["study.sh"]).repeat.until.least == 6


class TestStages:
    """Stages have as many repeats as they need, and later ones take the files of all of them."""

    COUNT = """\
#ZEN$ PARAM n = { 1, 2, 3 }
#ZEN$ AFTER "study" ON n
#ZEN$ METRIC folders FROM stdout REGEX "folders (\\d+)"
#ZEN$ METRIC listed FROM stdout REGEX "listed (\\d+)"
#ZEN$ RUN "sh count.sh"
echo folders $(ls -d study/*/ | wc -l)
echo listed $(grep -c , study.csv)
"""

    @pytest.fixture
    def stages(self, study):
        self.earlier(study)
        (study.folder / "count.sh").write_text(self.COUNT)
        return study

    def earlier(self, study, repeat="6:20 UNTIL t WITHIN 2% SEED s"):
        study.write(program(repeat).replace("#ZEN$ RUN", '#ZEN$ OUTPUT "kept"\n#ZEN$ RUN')
                    + 'echo "$2" > kept\n')  # fmt: skip

    def run(self, study, jobs=2, name="count", **options):
        application = scan([f"{name}.sh"])
        points = select_points(application.space)
        place = PlaceOptions(jobs=jobs)
        return run_locally(application, points, db=study.db, place=place, **options)

    def told(self, study, metric):
        repository = open_repository(study.db)
        try:
            records = list(repository.records("count", states=("ok",)))
            return {record.values["n"]: record.outcome.metrics[metric] for record in records}
        finally:
            repository.close()

    def test_an_earlier_stage_runs_as_often_as_it_needs(self, stages):
        summary = self.run(stages)
        (before,) = summary.before
        assert stages.counts() == NEEDED
        assert (before.ok, before.unfinished) == (sum(NEEDED.values()), 0)
        assert before.stops == {"narrow": 2, "wide": 1}
        assert self.told(stages, "folders") == NEEDED
        assert self.told(stages, "listed") == {n: count + 1 for n, count in NEEDED.items()}

    def test_what_has_results_is_not_run_again(self, stages):
        stages.run()
        first = self.run(stages)
        assert (first.before[0].cached, first.before[0].ok) == (sum(NEEDED.values()), 0)
        second = self.run(stages)
        assert (second.cached, second.ok) == (3, 0)

    def test_runs_that_warm_up_leave_no_files(self, stages):
        self.earlier(stages, "2 SEED s WARMUP 1")
        summary = self.run(stages)
        assert (summary.ok, summary.before[0].ok) == (3, 9)
        assert set(self.told(stages, "folders").values()) == {2}

    def test_another_precision_makes_another_version_of_the_later_stage(self, stages):
        self.run(stages)
        self.earlier(stages, "6:20 UNTIL t WITHIN 90% SEED s")
        self.run(stages)
        assert set(self.told(stages, "folders").values()) == {7}
        assert set(self.told_of("count@1", stages).values()) == set(NEEDED.values())

    def told_of(self, name, study):
        repository = open_repository(study.db)
        try:
            records = list(repository.records(name, states=("ok",)))
            return {r.values["n"]: r.outcome.metrics["folders"] for r in records}
        finally:
            repository.close()

    def test_a_failed_repeat_holds_up_what_waits_for_its_point(self, stages):
        broken = (stages.folder / "study.sh").read_text()
        broken = broken.replace("case $1", "[ $1$2 = 24 ] && exit 3\ncase $1")
        (stages.folder / "study.sh").write_text(broken)
        summary = self.run(stages)
        assert (summary.ok, summary.blocked, summary.unfinished) == (2, 1, 1)
        assert self.told(stages, "folders") == {1: NEEDED[1], 3: NEEDED[3]}

    def test_the_last_stage_runs_as_often_as_it_needs(self, study):
        (study.folder / "mesh.sh").write_text(
            '#ZEN$ PARAM n = { 1, 2, 3 }\n#ZEN$ RUN "touch grid"\n#ZEN$ OUTPUT "grid"\n'
        )
        study.write('#ZEN$ AFTER "mesh" ON n\n' + program("6:20 UNTIL t WITHIN 2% SEED s WARMUP 1"))
        summary = self.run(study, name="study")
        counts = {n: needed + 1 for n, needed in NEEDED.items()}
        assert study.counts() == counts
        assert summary.stops == {"narrow": 2, "wide": 1}
        assert (summary.total, summary.unfinished) == (sum(counts.values()), 0)
        blocks = {(p.block, n): repeat for n, repeat, p in study.rows()}
        assert all(repeat == block - 1 for (block, _), repeat in blocks.items())


class TestTable:
    """``zen results --repeats`` has a row for each point."""

    def rows(self, study, *words):
        table = command("results", "study", "--repeats", *words, "--db", study.db, "--json",
                        cwd=study.folder).facts  # fmt: skip
        return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]], table

    def test_it_says_how_often_each_point_ran_and_why_it_stopped(self, study):
        study.run()
        rows, _ = self.rows(study)
        assert [(row["repeats"], row["tried"], row["stopped"]) for row in rows] == [
            (NEEDED[1], NEEDED[1], "precise enough"),
            (NEEDED[2], NEEDED[2], "precise enough"),
            (20, 20, "limit reached"),
        ]
        values = [value(3, seed) for seed in range(1, 21)]
        low, high = median_interval(values)
        assert (rows[2]["median(t)"], rows[2]["low(t)"], rows[2]["high(t)"]) == (
            median(values),
            low,
            high,
        )
        assert rows[2]["width"] == relative_width(values) > 0.02 >= rows[1]["width"]

    def test_mean_and_deviation_are_a_word_away(self, study):
        study.run()
        rows, _ = self.rows(study, "--agg", "mean", "--where", "n == 3")
        values = [value(3, seed) for seed in range(1, 21)]
        assert [(row["mean(t)"], row["std(t)"]) for row in rows] == [
            (mean(values), deviation(values))
        ]

    def test_outliers_are_counted_and_stay(self, study):
        study.write(program("9 SEED s").replace(f"1-4) echo t {value(1, 4)}", "1-4) echo t 99"))
        study.run()
        rows, table = self.rows(study, "--metric", "t")
        assert (rows[0]["repeats"], rows[0]["outliers"]) == (9, 0), (
            "eight equal values have no scale"
        )
        study.write(program("9 SEED s").replace(f"2-4) echo t {value(2, 4)}", "2-4) echo t 99"))
        study.run()
        rows, table = self.rows(study, "--metric", "t")
        assert (rows[1]["repeats"], rows[1]["outliers"]) == (9, 1)
        assert "stopped" not in table["columns"]
        assert any("1 value is an outlier" in note for note in table["notes"])

    def test_failed_runs_count_as_tried(self, study):
        study.write(
            program("3 SEED s").replace("case $1", "[ $1 = 2 ] && [ $2 = 2 ] && exit 3\ncase $1")
        )
        study.run()
        rows, _ = self.rows(study, "--metric", "t")
        assert [(row["repeats"], row["tried"]) for row in rows] == [(3, 3), (2, 3), (3, 3)]
        assert rows[0]["low(t)"] is None

    def test_the_best_points_say_why_they_stopped(self, study):
        study.run()
        words = "best", "study", "-n", "3", "--objective", "MINIMIZE t", "--db", study.db
        points = command(*words, "--json", cwd=study.folder).facts
        assert [point["stopped"] for point in points] == ["precise enough"] * 2 + ["limit reached"]
        assert "stopped" in command(*words, cwd=study.folder).out

    def test_options_that_make_other_rows_are_refused(self, study):
        study.run()
        run = command("results", "study", "--repeats", "--by", "n", "--db", study.db,
                      cwd=study.folder, code=2)  # fmt: skip
        assert "--by does not go with --repeats" in run.err


class TestBudget:
    """``zen run --budget 2h`` runs points whose intervals are widest, until the time is over."""

    @pytest.fixture
    def clock(self, monkeypatch):
        """The time is the number of runs that were made."""
        made = [0.0]
        monkeypatch.setattr(measurement_plan, "monotonic", lambda: made[0])
        return made

    def source(self, study, seconds, repeat="6:50 UNTIL t WITHIN 2%"):
        study.write(program(repeat))
        application = scan(["study.sh"])
        generator = ExperimentGenerator(application)
        points = select_points(application.space)
        return PointsWithinBudget(points, generator, application.repeat, 150, seconds)

    def drive(self, source, clock):
        """Run each experiment at once; return the points in their order."""
        ran = []
        while not source.over:
            for experiment in source:
                n = experiment.values["n"]
                measured = {"t": value(n, experiment.repeat)}
                source.complete(experiment, Outcome(experiment.digest, "ok", metrics=measured))
                ran.append(n)
                clock[0] += 1
        return ran

    def test_the_widest_points_are_chosen_when_all_results_are_there(self, study, clock):
        source = self.source(study, 40)
        first = list(source)
        assert len(first) == 18
        for experiment in first:
            assert list(source) == []
            measured = {"t": value(experiment.values["n"], experiment.repeat)}
            source.complete(experiment, Outcome(experiment.digest, "ok", metrics=measured))
        widest = list(source)
        assert {(experiment.values["n"], experiment.repeat) for experiment in widest} == {
            (2, 7),
            (3, 7),
        }
        assert not source.over

    def test_wide_points_run_more_often_than_others(self, study, clock):
        source = self.source(study, 40)
        ran = self.drive(source, clock)
        assert len(ran) == 40
        assert sorted(ran[:18]) == [1] * 6 + [2] * 6 + [3] * 6
        counts = Counter(ran)
        assert counts[1] <= counts[2] < counts[3]
        assert source.is_spent
        assert source.stops["budget"] >= 1

    def test_a_budget_that_is_not_needed_changes_no_number(self, study, clock):
        source = self.source(study, 1000, "6:20 UNTIL t WITHIN 2%")
        assert Counter(self.drive(source, clock)) == NEEDED
        assert not source.is_spent
        assert source.stops == {"narrow": 2, "wide": 1}

    def test_time_may_be_over_within_the_first_blocks(self, study, clock):
        assert len(self.drive(self.source(study, 4), clock)) == 4

    def test_a_study_with_any_number_of_repeats_may_have_one(self, study):
        study.write(program("20 SEED s"))
        run = command("run", "study.sh", "--budget", "2h", "--objective", "MINIMIZE t",
                      "--db", study.db, cwd=study.folder)  # fmt: skip
        assert study_counts_of_search(study) == {1: 7, 2: 20, 3: 20}, "equal values are precise"
        assert "47 ok" in run.out

    def test_a_budget_that_counts_points_belongs_to_a_search(self, study):
        run = command(
            "run", "study.sh", "--budget", "9", "--db", study.db, cwd=study.folder, code=2
        )
        assert "--budget belongs to a search, unless it is a time" in run.err


class TestWarmUp:
    """Runs before those that count are recorded, and are no results."""

    @pytest.fixture(autouse=True)
    def warm(self, study):
        study.write(program("2 WARMUP 2 SEED s"))

    def test_they_run_in_the_first_blocks_with_the_seed_of_the_first_repeat(self, study):
        summary = study.run()
        assert (summary.total, summary.ok, summary.unfinished) == (12, 12, 0)
        blocks = {repeat: position.block for _, repeat, position in study.rows()}
        assert blocks == {-1: 1, 0: 2, 1: 3, 2: 4}
        repository = open_repository(study.db)
        seeds = {r.repeat: (r.values["s"], r.state) for r in repository.records("study")}
        repository.close()
        assert seeds == {-1: (1, "warmup"), 0: (1, "warmup"), 1: (1, "ok"), 2: (2, "ok")}

    @pytest.mark.parametrize("order", ["blocks", "sorted", "random"])
    def test_they_come_first_in_every_order(self, study, order):
        study.run(order=order)
        for n in NOISE:
            rows = [
                (position.block, position.turn, repeat)
                for m, repeat, position in study.rows()
                if m == n
            ]
            assert [repeat for _, _, repeat in sorted(rows)] == [-1, 0, 1, 2]

    def test_no_aggregate_and_no_ranking_has_them_unless_asked_for(self, study):
        study.run()
        words = "results", "study", "--db", study.db, "--json"
        table = command(*words, cwd=study.folder).facts
        assert len(table["rows"]) == 6
        assert "from 6 of 6 experiments" in command(*words[:-1], cwd=study.folder).out
        counts = command(
            *words, "--by", "n", "--agg", "count", "--metric", "t", cwd=study.folder
        ).facts
        assert [row[1] for row in counts["rows"]] == [2, 2, 2]
        warm = command(*words, "--where", "status == 'warmup'", cwd=study.folder).facts
        assert len(warm["rows"]) == 6
        assert repeats_of_the_best(study) == [2]

    def test_they_are_cached_and_never_failed(self, study):
        study.run()
        assert study.run().cached == 12
        assert study.run(only=frozenset({"failed"})).ok == 0
        status = command("status", "study", "--db", study.db, cwd=study.folder)
        assert "6 ok, 6 warm-ups" in status.out
        heads, row = command("list", "--db", study.db, cwd=study.folder).out.splitlines()
        assert re.split("  +", heads)[:5] == ["study", "experiments", "ok", "warm-ups", "failed"]
        assert row.split()[:5] == ["study", "12", "6", "6", "0"]
        assert "failed" not in status.out

    def test_one_that_fails_is_a_failure(self, study):
        study.write(
            program("2 WARMUP 1 SEED s").replace("case $1", "[ $1 = 2 ] && exit 3\ncase $1")
        )
        assert study.run().failed == 3

    def test_a_search_learns_nothing_of_them(self, study):
        command("run", "study.sh", "--search", "random", "--budget", "3", "--objective", "MINIMIZE t",
                "--db", study.db, cwd=study.folder)  # fmt: skip
        assert study_counts_of_search(study) == {1: 4, 2: 4, 3: 4}
        assert repeats_of_the_best(study) == [2]
