"""What is counted while a study runs: results, rates, the best value, and causes of failures."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from zenturio.annotate.model import Goal
from zenturio.annotate.scan import scan
from zenturio.cli.run import progress_line
from zenturio.experiment import Experiment, Log, Missing, Recipe, Series, Step
from zenturio.expression import parse
from zenturio.study.driver import progress as module
from zenturio.study.driver.experiment_source import select_points
from zenturio.study.driver.progress import (
    BestScore,
    DeterminismCheck,
    ExecutableChanges,
    MetricSanityCheck,
    RateMeter,
    RunCounts,
    RunProgress,
    changed_program_notes,
    score_of_values,
)
from zenturio.study.local_run import run_locally
from zenturio.testing.experiments import experiment, outcome


class Clock:
    """A clock that the test turns."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "monotonic", clock)
    return clock


def goal(text, direction="minimize"):
    return Goal(direction, parse(text))


def counts(*goals, slots=2):
    return RunCounts("s", slots, goals)


# Rates


def test_the_rate_is_that_of_the_window(clock):
    meter = RateMeter(10.0)
    assert meter.rate == 0.0
    for _ in range(5):
        clock.now += 1
        meter.add(2)
    assert meter.rate == 2.0
    for _ in range(30):
        clock.now += 1
        meter.add(4)
    assert meter.rate == 4.0
    clock.now += 10
    assert meter.rate == pytest.approx(40 / 20)


def test_what_comes_at_once_is_remembered_once(clock):
    meter = RateMeter(10.0)
    for _ in range(1000):
        clock.now += 0.001
        meter.add(1)
    assert meter.rate == pytest.approx(1000)
    assert len(meter._seen) <= 7
    clock.now += 1000
    meter.add(1)
    meter.add(1)
    assert len(meter._seen) == 2


# The best value


@pytest.mark.parametrize(("direction", "best"), [("minimize", 1.0), ("maximize", 5.0)])
def test_the_first_of_the_best_values_counts(direction, best):
    seen = BestScore((goal("m", direction), goal("other")))
    # Whichever ends first: of equals it is the first in the order of the points.
    for index, value in [(0, 3.0), (3, 5.0), (4, 1.0), (1, 5.0), (2, 1.0), (5, 2.0)]:
        one = experiment(index, {"n": index})
        seen.see(one, outcome(one, metrics={"m": value}))
    assert seen.last == 2.0
    assert (seen.found.goal, seen.found.value, seen.found.repeat) == ("m", best, None)
    assert dict(seen.found.at) == {"n": 1 if direction == "maximize" else 2}


def test_the_best_repeat_says_which_one_it_is():
    seen = BestScore((goal("m"),))
    for repeat, value in ((3, 2.0), (2, 1.0), (1, 1.0)):
        one = replace(experiment(0), repeat=repeat)
        seen.see(one, outcome(one, metrics={"m": value}))
    assert (seen.found.value, seen.found.repeat) == (1.0, 1)


def test_without_an_objective_nothing_is_the_best():
    seen = BestScore(())
    seen.see(experiment(0), outcome(experiment(0), metrics={"m": 1}))
    assert (seen.name, seen.last, seen.found) == ("", None, None)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, "1", Missing("why"), Series((1, 2))]
)
def test_what_is_not_a_number_is_never_the_best(value):
    seen = BestScore((goal("m"),))
    seen.see(experiment(0), outcome(experiment(0), metrics={"m": value}))
    assert (seen.last, seen.found) == (None, None)


def test_a_score_is_a_number_or_there_is_none():
    assert score_of_values(parse("a * b"), {"a": 2, "b": 3}) == 6.0
    assert score_of_values(parse("a > 1"), {"a": 2}) == 1.0
    assert score_of_values(parse("1 / a"), {"a": 0}) is None
    assert score_of_values(parse("a"), {"a": None}) is None
    assert score_of_values(parse("a"), {"a": "x"}) is None
    assert score_of_values(parse("a"), {"a": 10**400}) is None, "as any infinite one"


# Counts


def failed(index, cause, said=b""):
    return replace(
        outcome(experiment(index), "failed"), cause=cause, stderr=Log(said, b"", len(said))
    )


def test_each_result_is_counted_once_by_what_came_of_it(clock):
    run = counts(goal("m"))
    clock.now += 2
    run.ended(experiment(0), outcome(experiment(0), metrics={"m": 4}))
    run.ended(experiment(1), failed(1, "exit 3"))
    run.ended(experiment(2), outcome(experiment(2), metrics={"m": 2}))
    run.recalled(experiment(3), outcome(experiment(3), metrics={"m": 1}))
    run.recalled(experiment(4), failed(4, "exit 3"))
    assert (run.cached, run.ok, run.failed) == (2, 2, 1)
    progress = run.progress(20, 3, 5)
    assert (progress.total, progress.running, progress.done) == (20, 3, 5)
    assert (progress.rate, run.rate) == (1.5, 1.5)
    assert progress.seconds_left == (20 - 5 - 5) / 1.5
    assert (progress.goal, progress.last, progress.best.value) == ("m", 1.0, 1.0)
    summary = run.summary(20, 9.0, interrupted=True)
    assert (summary.study, summary.total, summary.seconds) == ("s", 20, 9.0)
    assert (summary.cached, summary.ok, summary.failed, summary.unfinished) == (2, 2, 1, 15)
    assert summary.interrupted
    assert [(group.cause, group.count) for group in summary.failures] == [("exit 3", 2)]


def test_how_long_the_last_ones_take_does_not_follow_from_the_rate(clock):
    run = counts()
    clock.now += 1
    for index in range(8):
        run.ended(experiment(index), outcome(experiment(index)))
    assert (run.progress(10, 1, 0).seconds_left, run.progress(10, 1, 0).only_last_run) == (
        0.25, False
    )  # fmt: skip
    for skipped, running in ((0, 2), (1, 1), (0, 4)):
        last = run.progress(10, running, skipped)
        assert (last.seconds_left, last.only_last_run) == (None, True)
        assert f"the last {running} in flight" in progress_line(last)
    assert not run.progress(8, 0, 0).only_last_run


def test_without_a_rate_nobody_knows_how_long_it_takes(clock):
    assert counts().progress(5, 0, 0).seconds_left is None


def test_failures_are_grouped_by_their_cause_the_most_frequent_first():
    run = counts()
    for index, cause in enumerate(["a", "b", "b", "c", "c", "c"]):
        run.ended(experiment(index), failed(index, cause, b"1\n2\n3\n4\n5\n%d\n" % index))
    nameless = replace(failed(7, ""), status="timeout")
    run.ended(experiment(7), nameless)
    groups = run.summary(9, 1.0, interrupted=False).failures
    assert [(group.cause, group.count) for group in groups] == [
        ("c", 3), ("b", 2), ("a", 1), ("timeout", 1),
    ]  # fmt: skip
    assert groups[0].digest == experiment(3).digest
    assert groups[0].values == {"n": 3}
    assert groups[0].end == "2\n3\n4\n5\n3"


@pytest.mark.parametrize(
    ("numbers", "cause", "name"),
    [
        ((7, 7), "exit 2: line #", "exit 2: line 7"),
        ((7, 8), "exit 2: line #", "exit 2: line #"),
        ((7, 8, 7), "exit 2: line #", "exit 2: line #"),
        ((7, 8), "exit 2", "exit 2"),
    ],
)
def test_a_cause_is_named_as_written_while_all_failures_have_the_same_numbers(numbers, cause, name):
    run = counts()
    for index, number in enumerate(numbers):
        run.ended(experiment(index), failed(index, cause, b"line %d\n" % number))
    (group,) = run.summary(9, 1.0, interrupted=False).failures
    assert (group.text, group.count) == (name, len(numbers))


@pytest.mark.parametrize(
    ("causes", "hosts", "is_one_machine", "is_faulty"),
    [
        (["build failed: exit 2"], 1, True, True),
        (["build failed: exit 2"], 2, False, True),
        (["build failed: exit 2"], 1, False, False),  # it may be the fault of the one host
        (["build failed: exit 2", "build failed: exit 3"], 1, True, True),
        (["exit 1"], 1, True, True),
        (["exit 1"], 1, False, False),
        (["exit 1", "killed by SIGSEGV"], 2, False, True),
        (["exit 1", "timeout"], 1, True, False),  # somebody asked for that limit
        (["exit 127: no-such: not found", "exit 126: not executable"], 1, True, True),
        (["exit 127: no-such: not found", "exit 1"], 1, True, True),
        (["metric missing: a, b", "metric missing: b, c"], 1, False, True),
        (["metric missing: a", "metric missing: c"], 1, False, False),
        (["metric missing: a", "exit 1"], 1, False, False),
    ],
)
def test_a_study_is_faulty_where_its_first_experiments_all_fail(
    causes, hosts, is_one_machine, is_faulty
):
    run = RunCounts("s", 2, (), is_one_machine=is_one_machine)
    for index in range(module.FAULTY):
        assert not run.is_study_faulty
        done = failed(index, cause := causes[index % len(causes)])
        status = "timeout" if cause == "timeout" else done.status
        run.ended(experiment(index), replace(done, host=f"node{index % hosts}", status=status))
    assert run.is_study_faulty == is_faulty
    run.ended(experiment(99), outcome(experiment(99)))
    assert not run.is_study_faulty


@pytest.mark.parametrize(
    ("causes", "is_faulty"),
    [
        (["exit 1"], False),
        (["metric missing: a"], True),
        (["exit 127"], True),
        (["exit 126: not executable", "exit 127: no-such: not found"], True),
        (["exit 127", "exit 1"], False),
        (["build failed: exit 2"], True),
        (["build failed: exit 2", "build failed: exit 3"], False),
    ],
)
def test_a_search_goes_on_where_other_points_may_succeed(causes, is_faulty):
    run = RunCounts("s", 2, (), is_one_machine=True, is_search=True)
    for index in range(module.FAULTY):
        run.ended(experiment(index), failed(index, causes[index % len(causes)]))
    assert run.is_study_faulty == is_faulty


def test_the_reasons_are_counted_where_a_run_stops():
    run = RunCounts("s", 2, (), is_one_machine=True)
    for index, cause in enumerate("cabbbcccdef"):
        run.ended(experiment(index), failed(index, cause))
    run.report_fault()
    (told,) = run.news()
    assert told == (
        "stopped, because the first 11 experiments failed, for 6 reasons: 4 x c, 3 x b, 1 x a,"
        " 1 x d, and 2 more reasons; --go-on (in Python: go_on=True) runs the others anyway"
    )


def test_experiments_that_need_more_than_all_slots_run_alone():
    run = counts(slots=2)
    for cpus in (None, 1, 2, 3, 4):
        wide = Experiment("ab" * 16, 0, 1, {}, (), (Step("x", cpus=cpus),), {}, None, Recipe())
        run.ended(wide, outcome(experiment(0)))
    assert run.summary(5, 1.0, interrupted=False).alone == 2


def test_a_remark_is_news_once_and_part_of_the_summary():
    run = counts()
    for index in range(3):
        run.ended(experiment(index), replace(outcome(experiment(index)), remark="odd"))
    run.announce("the place is full")
    run.announce("the place is full")
    assert run.news() == ("odd", "the place is full")
    assert run.news() == ()
    run.ended(experiment(4), replace(outcome(experiment(4)), remark="odd"))
    run.announce("the place is full")
    assert run.news() == ()
    assert run.summary(4, 1.0, interrupted=False).remarks == ("odd",)


def test_progress_counts_all_that_needs_no_more_work():
    assert RunProgress(9, 1, 2, 4, 1, 0.0, None).done == 7


# Executables that changed


def test_results_from_before_a_change_of_an_executable_are_counted():
    history = ExecutableChanges(
        {"sh": "/bin/sh"}, {"sh": [(10.0, "a"), (20.0, "b"), (30.0, "a"), (40.0, "c")]}
    )
    changed = {
        started: [*history.changed_since(replace(outcome(experiment(0)), started=started))]
        for started in (9.0, 10.0, 25.0, 39.0, 40.0, 41.0)
    }
    assert changed == {9.0: [], 10.0: ["sh"], 25.0: ["sh"], 39.0: ["sh"], 40.0: [], 41.0: []}
    counted = {t: history.count_changed(np.array([t]))["sh"] for t in changed}
    assert counted == {started: len(words) for started, words in changed.items()}
    assert history.count_changed(np.array([9.0, 10.0, 39.0, 40.0])) == {"sh": 2}
    assert history.count_changed(np.array([9.0, 40.0])) == {}
    run = RunCounts("s", 1, (), history)
    for index, started in enumerate((9.0, 25.0, 26.0)):
        run.recalled(experiment(index), replace(outcome(experiment(index)), started=started))
    run.conclude()
    (remark,) = run.news()
    assert remark.startswith("sh has changed since 2 cached results were made: ")
    assert history.notes() == {"sh": {"path": "/bin/sh", "changes": history._changes["sh"]}}


def test_one_result_is_spoken_of_in_the_singular():
    (note,) = changed_program_notes({"cc": 1})
    assert note.startswith("cc has changed since 1 cached result was made: ")
    (note,) = changed_program_notes({"cc": 2000})
    assert note.startswith("cc has changed since 2,000 cached results were made: ")


# Repeats that are to give the same


def repeat_check(program, tmp_path):
    (tmp_path / "study.py").write_text(program)
    return DeterminismCheck(scan([tmp_path / "study.py"]))


def remarks(check, *results):
    """What is said of results, each with the values of its point and its repeat."""
    of = [(experiment(n, {"n": n, "rng_seed": 7}, repeat=repeat), m) for n, repeat, m in results]
    return [check.see(e, outcome(e, metrics=metrics)) for e, metrics in of]


DRAWS = """\
import random
#ZEN$ ASSIGN n = { 1, 2 }
#ZEN$ REPEAT 3
#ZEN$ RUN "python3 study.py"
#ZEN$ METRIC cost FROM stdout REGEX "cost (\\\\d+)"
#ZEN$ METRIC rate FROM stdout REGEX "rate (\\\\d+)"
"""
SAME = (1, 1, {"cost": 12, "rate": 1}), (2, 1, {"cost": 15}), (1, 2, {"cost": 12, "rate": 2})


def test_repeats_that_differ_are_told_how_to_get_a_seed_once(tmp_path):
    check = repeat_check(DRAWS, tmp_path)
    said = remarks(check, *SAME, (2, 2, {"cost": 16}), (1, 3, {"cost": 99}))
    assert said[:3] == ["", "", ""]
    assert said[3] == (
        "repeats of one point differ in cost (15 and 16): the program draws a seed of its own;"
        " ZEN$ REPEAT 3 SEED seed and ZEN$ ASSIGN seed = @seed, or {seed} in RUN, give it one"
    )
    assert said[4] == ""


def test_a_seed_that_the_study_has_is_named(tmp_path):
    check = repeat_check(DRAWS + '#ZEN$ PARAM rng_seed = { 7 }\nmain("{rng_seed}")\n', tmp_path)
    assert remarks(check, *SAME, (2, 2, {"cost": 16}))[3] == (
        "repeats with rng_seed = 7 differ in cost (15 and 16): the program draws a seed of its own;"
        " ZEN$ ASSIGN seed = @rng_seed gives it this one, or {rng_seed} in RUN"
    )


@pytest.mark.parametrize(
    "program",
    [
        DRAWS.replace("import random", ""),  # nothing speaks of chance
        DRAWS.replace("REPEAT 3", "REPEAT 3 SEED s"),  # each repeat has a seed of its own
        DRAWS.replace("METRIC cost", "METRIC cost_seconds"),
        DRAWS.replace('(\\\\d+)"', '(\\\\d+)" UNIT "MB/s"'),
    ],
)
def test_repeats_that_may_differ_are_left_in_peace(program, tmp_path):
    later = (2, 2, {"cost": 16, "cost_seconds": 3}), (1, 3, {"cost": 99, "cost_seconds": 4})
    assert not any(remarks(repeat_check(program, tmp_path), *SAME, *later))


def test_what_is_declared_exact_is_to_be_the_same_in_any_program(tmp_path):
    program = DRAWS.replace("import random", "").replace('(\\\\d+)"', '(\\\\d+)" EXACT')
    assert remarks(repeat_check(program, tmp_path), *SAME)[2].startswith(
        "repeats of one point differ in rate (1 and 2)"
    )


def test_the_end_of_a_run_says_that_repeats_differ(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.sh").write_text(
        "# a random number\n"
        '#ZEN$ RUN "echo cost $PPID$$"\n#ZEN$ REPEAT 2\n'
        '#ZEN$ METRIC cost FROM stdout REGEX "cost (\\S+)"\n'
    )
    application = scan(["study.sh"])
    points = select_points(application.space)
    summary = run_locally(application, points, db=str(tmp_path / "zenturio.db"))
    assert [remark.split(" (")[0] for remark in summary.remarks] == [
        "repeats of one point differ in cost"
    ]


def test_a_score_does_without_what_coalesce_replaces():
    goal = parse("coalesce(t, u + 1, 9) + n")
    assert goal.optional_names == {"t", "u"}
    assert score_of_values(goal, {"n": 1, "t": 2}) == 3
    assert score_of_values(goal, {"n": 1, "u": 4, "t": None}) == 6
    assert score_of_values(goal, {"n": 1}) == 10
    assert score_of_values(goal, {"t": 2, "u": 4}) is None
    assert parse("coalesce(t, 1) + t").optional_names == frozenset()


# Metrics that are likely not what they should be


def metric_check(tmp_path, *metrics, directives=()):
    lines = [*(f"#ZEN$ METRIC {metric}" for metric in metrics), *(f"#ZEN$ {d}" for d in directives)]
    program = "\n".join(["#ZEN$ ASSIGN n = { 1:20 }", '#ZEN$ RUN "python3 study.py"', *lines])
    (tmp_path / "study.py").write_text(program + "\n")
    return MetricSanityCheck(scan([tmp_path / "study.py"]))


def seen(check, stdout=b"", *, points=20, **metrics):
    """What is said while experiments end, each with what *metrics* make of its point."""
    said = []
    for n in range(1, points + 1):
        result = outcome(experiment(n), metrics={name: of(n) for name, of in metrics.items()})
        result = replace(result, stdout=Log(stdout, b"", len(stdout)))
        said += check.see(experiment(n, {"n": n}), result)
    return said


RAYS = b"Rays: 900\nReflected Rays: 30\nRefracted Rays: 5\n"


def test_a_pattern_that_matches_behind_different_words_is_told_once(tmp_path):
    check = metric_check(tmp_path, r'rays FROM stdout REGEX "Rays: (\d+)"')
    (remark,) = seen(check, RAYS)
    assert remark == (
        'rays: its pattern matches behind "" (900), "Reflected" (30), "Refracted" (5); the last'
        " match counts: begin the pattern with ^ or more words, or write TAKE last if that is meant"
    )


@pytest.mark.parametrize(
    ("metric", "stdout"),
    [
        (r'rays FROM stdout REGEX "^Rays: (\d+)"', RAYS),
        (r'rays FROM stdout REGEX "Rays: (\d+)" TAKE last', RAYS),
        (r'rays FROM stdout REGEX "Rays: (\d+)" TAKE first', RAYS),
        (r'loss FROM stdout REGEX "loss (\S+)"', b"epoch 1: loss 0.5\nepoch 2: loss 0.4\n"),
        (r'loss FROM stdout REGEX "loss (\S+)"', b"first loss 0.5\nlast loss 0.5\n"),
        (r'loss FROM stdout REGEX "loss (\S+)"', b"t = 0.1 loss 3\nt = 1e-05 loss 2\n"),
        (r'loss FROM stdout REGEX "loss (\S+)"', b"after 59s loss 3\nafter 2m loss 2\n"),
        ('loss FROM stdout REGEX "loss (\\S+)"\n#ZEN$& TAKE last', b"a loss 3\nb loss 2\n"),
    ],
)
def test_a_pattern_whose_last_match_is_likely_meant_is_left_in_peace(metric, stdout, tmp_path):
    assert seen(metric_check(tmp_path, metric), stdout) == []


def test_metrics_that_no_point_changes_are_told_in_the_end(tmp_path):
    both = r'peak FROM stdout REGEX "p(\d+)"', r'width FROM stdout REGEX "w(\d+)"'
    check = metric_check(tmp_path, *both)
    seen(check, peak=lambda n: 3.0, width=lambda n: math.nan)
    (remark,) = check.conclude()
    assert remark == (
        "peak, width are the same in all 20 experiments: does the program read what varies?"
        " zen diff compares two of them"
    )


@pytest.mark.parametrize(
    ("directives", "is_told"),
    [
        (["OBJECTIVE MINIMIZE wtime"], False),
        (["METRIC cost := wtime * 2", "OBJECTIVE MINIMIZE cost"], False),
        (["VERIFY total == 3"], False),
        (["METRIC cost := total * 2", "OBJECTIVE MINIMIZE cost"], True),
        (["VERIFY total == 3", "OBJECTIVE MINIMIZE total"], True),
    ],
)
def test_a_metric_that_only_proves_results_right_may_stay_the_same(directives, is_told, tmp_path):
    total = r'total FROM stdout REGEX "total (\d+)"'
    check = metric_check(tmp_path, total, directives=directives)
    seen(check, total=lambda n: 3)
    assert len(list(check.conclude())) == is_told


def test_each_of_several_objectives_is_to_change(tmp_path):
    metrics = [rf'{name} FROM stdout REGEX "{name} (\S+)"' for name in ("cost", "loss", "size")]
    goals = "OBJECTIVE MINIMIZE cost, MINIMIZE loss * 2, MINIMIZE size, MINIMIZE wtime"
    check = metric_check(tmp_path, *metrics, directives=[goals])
    seen(check, cost=lambda n: n, loss=lambda n: 3, size=lambda n: "s")
    (remark,) = check.conclude()
    assert remark.startswith("loss, size are the same in all 20 experiments: does the program read")


def test_a_number_that_a_pattern_cuts_is_told_once_wherever_it_was_found(tmp_path):
    check = metric_check(tmp_path, r'sent FROM stdout REGEX "sent: (\d+)"')
    told = {"sent": "sent is 1, a part of '12'", "other": "what no METRIC declares"}
    results = [replace(outcome(experiment(n)), metric_remarks=told) for n in (1, 2)]
    remarks = [list(check.see(experiment(n), result)) for n, result in enumerate(results, 1)]
    assert remarks == [[told["sent"]], []]


@pytest.mark.parametrize("source", ["stdout", "stderr", "out/result.txt"])
def test_a_run_tells_a_number_that_a_pattern_cuts(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    target = {"stdout": "", "stderr": " >&2"}.get(source, f" > {source}")
    Path("study.sh").write_text(
        "#ZEN$ ASSIGN n = { 5, 1234567 }\n"
        f"""#ZEN$ RUN 'sh -c "mkdir -p out; echo sent: {{n}}e3{target}"'\n"""
        f'#ZEN$ METRIC sent FROM "{source}" REGEX "sent: (\\d+)"\n'
    )
    application = scan(["study.sh"])
    points = select_points(application.space)
    summary = run_locally(application, points, db=str(tmp_path / "zenturio.db"))
    (remark,) = summary.remarks
    assert remark in [
        rf"sent is {n}, a part of '{n}e3': write sent: ([-+.\deE]*\d)" for n in (5, 1234567)
    ]


@pytest.mark.parametrize(
    ("points", "is_overlooked", "width"),
    [(20, False, lambda n: n == 20), (7, False, lambda n: 1), (20, True, lambda n: 1)],
)
def test_metrics_that_may_change_are_left_in_peace(points, is_overlooked, width, tmp_path):
    check = metric_check(tmp_path, r'width FROM stdout REGEX "w(\d+)"')
    seen(check, points=points, width=width)
    if is_overlooked:
        check.overlook()
    assert list(check.conclude()) == []
