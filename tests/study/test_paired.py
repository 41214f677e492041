"""Versions run next to each other in random order, as often as a verdict needs."""

import itertools
import math
import random
import subprocess
import textwrap
from collections import Counter
from dataclasses import replace

import pytest

from needs import needs
from zenturio.annotate.scan import read_goals, scan
from zenturio.errors import InputError
from zenturio.experiment.signed_ranks import BlockPlan
from zenturio.query import compare_studies
from zenturio.record import StudyDefinition
from zenturio.record.open import open_repository
from zenturio.study.local_run import run_request
from zenturio.study.paired import compare_and_gate, paired_study
from zenturio.study.paired.compare_and_gate import (
    PairedOptions,
    UntilCompared,
    UntilGated,
    compared_versions,
    read_blocks,
    read_time,
    run_comparison,
    run_gate,
)
from zenturio.study.paired.paired_study import (
    FixedBlocks,
    MeasuredBlocks,
    PairedSource,
    PairedStudy,
    Version,
    distinct_labels,
    label_parameter,
    labelled,
    names_of,
    present_version,
)
from zenturio.study.study_request import StudyRequest

PROGRAM = """\
import os, random, sys
n = 1
#ZEN$ ASSIGN n = { 1, 2 }
factor = 1.0
#ZEN$ RUN "python3 -S -E timed.py"
#ZEN$ METRIC time FROM stdout REGEX "time (\\S+)" UNIT "s"
#ZEN$ OBJECTIVE MINIMIZE time
noise = random.Random(os.urandom(8)).gauss(0, 0.01)
print("time", n * factor * (1 + noise))
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A program whose times are drawn, in a folder of its own."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("ZENTURIO_DB", raising=False)
    (folder / "timed.py").write_text(textwrap.dedent(PROGRAM))
    return folder


@pytest.fixture
def repository(project):
    opened = open_repository(None, create=True)
    yield opened
    opened.close()


def edit(project, factor):
    path = project / "timed.py"
    path.write_text(path.read_text().replace("factor = 1.0", f"factor = {factor}"))


def git(folder, *words):
    who = ["-c", "user.name=n", "-c", "user.email=e@e"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def run_all(project):
    request = StudyRequest((str(project / "timed.py"),), only="missing")
    run_request(request, request.application(), db=None)


# The order of runs, without a program.


def blocks_of(design, value, seed="s", seconds=None, settle=False):
    """What a source makes of a design where *value* says what a run measures."""
    made = []

    class Run:
        def __init__(self, label, point, block, position):
            self.digest = f"{label}/{point}/{block}"
            self.label, self.point, self.block, self.position = label, point, block, position

    def make(*facts):
        run = Run(*facts)
        made.append(run)
        return run

    source = PairedSource(
        design, make, lambda run, _: value(run), seed=seed, planned=1, seconds=seconds,
        settle=settle,
    )  # fmt: skip
    while not source.over:
        for run in list(source):
            source.complete(run, None)
    return source.measured, made


def test_versions_of_a_point_are_neighbours_and_who_is_first_is_drawn():
    _, runs = blocks_of(FixedBlocks(("a", "b"), 5, 200), lambda run: 1.0)
    first = Counter()
    for at in range(0, len(runs), 2):
        before, after = runs[at : at + 2]
        assert (before.point, before.block) == (after.point, after.block)
        assert {before.label, after.label} == {"a", "b"}
        assert after.position.turn == before.position.turn + 1
        first[before.label] += 1
    # Of 1,005 pairs 503 are expected; 4 standard errors are 64.
    assert abs(first["a"] - first["b"]) < 128
    orders = {tuple(run.point for run in runs[i : i + 10]) for i in range(0, len(runs), 10)}
    assert len(orders) > 80


def test_with_settle_each_run_that_counts_is_behind_one_of_its_version_that_does_not():
    measured, runs = blocks_of(FixedBlocks(("a", "b"), 3, 4), lambda run: run.block, settle=True)
    runs = [run for run in runs if run.block != 0]  # the first block warms up
    assert len({run.digest for run in runs}) == len(runs) == 2 * 2 * 3 * 4
    for uncounted, counted in zip(runs[::2], runs[1::2], strict=True):
        assert (uncounted.label, uncounted.point) == (counted.label, counted.point)
        assert uncounted.block == -counted.block < 0
    assert dict(measured.of("a", 2)) == {1: 1, 2: 2, 3: 3, 4: 4}


def test_the_same_seed_has_the_same_order_and_another_one_has_not():
    orders = [
        [run.digest for run in blocks_of(FixedBlocks(("a", "b"), 3, 9), lambda _: 1.0, seed)[1]]
        for seed in ("x", "x", "y")
    ]
    assert orders[0] == orders[1] != orders[2]


def test_a_warm_up_is_run_first_and_does_not_count():
    measured, runs = blocks_of(FixedBlocks(("a", "b"), 1, 4), lambda run: float(run.block))
    assert [run.block for run in runs] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert measured.of("a", 0) == {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}


def noisy(ratio, spread=0.01, seed=1):
    draw = random.Random(seed)
    return lambda run: (ratio if run.label == "b" else 1.0) * math.exp(draw.gauss(0, spread))


def test_a_clear_difference_ends_at_the_first_look():
    design = UntilCompared(("a", "b"), 1, BlockPlan(), 0.02)
    measured, _ = blocks_of(design, noisy(1.5))
    assert measured.reached == 8


def test_what_cannot_be_told_apart_ends_at_the_last_look():
    design = UntilCompared(("a", "b"), 1, BlockPlan(8, 20), 0.02)
    measured, _ = blocks_of(design, noisy(1.0, spread=0.5))
    assert measured.reached == 20


def test_points_that_are_decided_leave_when_all_together_are():
    def value(run):
        slow = run.label == "b" and run.point == 0
        spread = 0.001 if run.point == 0 else 0.05
        return (1.6 if slow else 1.0) * math.exp(random.Random(run.digest).gauss(0, spread))

    measured, runs = blocks_of(UntilCompared(("a", "b"), 2, BlockPlan(8, 28), 0.02), value)
    assert measured.reached == 28
    assert max(run.block for run in runs if run.point == 0) < 28


def test_a_version_that_fails_is_not_run_to_the_end():
    design = UntilCompared(("a", "b"), 1, BlockPlan(), 0.02)
    measured, _ = blocks_of(design, lambda run: None if run.label == "b" else 1.0)
    assert measured.reached < 8


@pytest.mark.parametrize(
    ("ratio", "more_is_better", "state"),
    [
        (1.0, False, "no worse"),
        (1.2, False, "worse"),
        (1.2, True, "no worse"),
        (0.8, True, "worse"),
    ],
)
def test_a_gate_says_worse_or_no_worse(ratio, more_is_better, state):
    design = UntilGated(("a", "b"), 2, BlockPlan(), 0.05, more_is_better)
    measured, _ = blocks_of(design, noisy(ratio))
    assert {point.state for point in design.judge(measured)} == {state}


def test_a_gate_cannot_tell_what_lies_at_its_bound():
    design = UntilGated(("a", "b"), 1, BlockPlan(8, 20), 0.05)
    measured, _ = blocks_of(design, noisy(1.05, spread=0.05, seed=3))
    assert [point.state for point in design.judge(measured)] == ["unclear"]
    assert measured.reached == 20


def test_a_gate_fails_in_at_most_5_percent_where_the_loss_is_what_is_allowed():
    """Of 200 gates 5% are 10; more than 19 (3 standard errors) is no chance."""
    states = Counter()
    for seed in range(200):
        design = UntilGated(("a", "b"), 1, BlockPlan(8, 28), 0.05)
        measured, _ = blocks_of(design, noisy(1.05, spread=0.03, seed=seed), seed=str(seed))
        states[design.judge(measured)[0].state] += 1
    assert max(states["worse"], states["no worse"]) <= 19


def test_failures_of_the_new_version_are_never_no_worse():
    design = UntilGated(("a", "b"), 1, BlockPlan(8, 8), 0.05)
    measured, _ = blocks_of(design, lambda run: None if (run.label, run.block) == ("b", 3) else 1.0)
    (point,) = design.judge(measured)
    assert (point.state, point.failures) == ("unclear", (0, 1))


def test_after_the_time_no_block_begins_and_a_gate_looks_once_more(monkeypatch):
    clock = itertools.count()  # a block takes so many seconds as it is looked at
    monkeypatch.setattr(paired_study, "monotonic", lambda: float(next(clock)))
    design = UntilGated(("a", "b"), 1, BlockPlan(20, 50), 0.05)
    measured, _ = blocks_of(design, noisy(1.5), seconds=10)
    assert 6 <= measured.reached < 20
    assert design.plan.ended == measured.reached
    assert design.judge(measured)[0].state == "worse"


def test_one_block_runs_however_short_the_time_is():
    measured, _ = blocks_of(FixedBlocks(("a", "b"), 1, 9), lambda _: 1.0, seconds=0)
    assert measured.reached == 1


def test_a_comparison_ends_after_two_blocks_without_any_value():
    design = FixedBlocks(("a", "b"), 1, 9)
    assert blocks_of(design, lambda _: None)[0].reached == 2
    measured, _ = blocks_of(design, lambda run: 1.0 if run.block == 2 else None)
    assert measured.reached == 9


def test_what_a_gate_measured_is_joined_by_block():
    measured = MeasuredBlocks()
    for label, block, value in (("a", 1, 1.0), ("a", 2, 1.0), ("b", 2, 2.0), ("b", 3, 2.0)):
        measured.add(label, 0, block, value)
    design = UntilGated(("a", "b"), 1, BlockPlan(8, 8), 0.05)
    assert design.judge(measured)[0].looked_at.blocks == 1


# With a program.


def options(**settings):
    return PairedOptions(plan=BlockPlan(8, 12), **settings)


def comparison(repository, names, commits=(), **settings):
    chosen = options(**settings)
    versions = compared_versions(repository, names, commits, chosen)
    result = run_comparison(repository, versions, chosen, 0.02)
    study = result.study
    return result, compare_studies(repository, study.name, study.name, study.metric)


def test_a_commit_is_compared_with_the_present_files(project, repository):
    needs("git")
    git(project, "init", "-b", "main")
    git(project, "add", "timed.py")
    git(project, "commit", "-m", "begin")
    edit(project, 1.5)
    result, verdict = comparison(repository, ["timed.py"], ["HEAD"])
    assert (result.study.name, result.study.metric) == ("timed-compare", "time")
    assert verdict.overall.verdict == "slower"
    assert 1.4 < verdict.ratio < 1.6
    assert verdict.counts == {"slower": 2}
    assert "factor = 1.5" in (project / "timed.py").read_text()


def test_an_archived_version_is_compared_with_the_present_one(project, repository):
    run_all(project)
    edit(project, 0.5)
    run_all(project)
    _, verdict = comparison(repository, ["timed@1", "timed"])
    assert verdict.overall.verdict == "faster"
    assert verdict.names == ("version=timed@1", "version=timed")


def test_equal_programs_are_not_said_to_differ(project, repository):
    run_all(project)
    result, verdict = comparison(repository, ["timed", "timed"], limit=1)
    assert verdict.overall.verdict in ("unclear", "same (within 2%)")
    assert result.summary.total == 2 * (result.measured.reached + 1)


def test_a_comparison_that_time_ended_says_so_and_has_what_is_left_of_the_level(
    project, repository, monkeypatch
):
    edit(project, 1.5)
    clock = itertools.count()
    monkeypatch.setattr(paired_study, "monotonic", lambda: float(next(clock)))
    chosen = PairedOptions(limit=1, plan=BlockPlan(20, 50), seconds=12)
    versions = compared_versions(repository, ["timed.py", "timed.py"], [], chosen)
    result = run_comparison(repository, versions, chosen, 0.02)
    reached = result.measured.reached
    assert result.is_spent
    assert result.is_complete
    assert 6 <= reached < 20
    verdict = compare_studies(repository, "timed-compare", "timed-compare", "time")
    assert verdict.overall.blocks == reached
    assert verdict.overall.interval is not None
    assert f"the budget was spent after {reached} blocks" in verdict.notes


def test_an_unclear_wall_time_stands_beside_the_processor_time_of_the_same_runs(repository):
    chosen = PairedOptions(metric="wtime", limit=1, warmup=False, seconds=0)
    versions = compared_versions(repository, ["timed.py", "timed.py"], [], chosen)
    run_comparison(repository, versions, chosen, 0.02)
    verdict = compare_studies(repository, "timed-compare", "timed-compare", "wtime")
    assert verdict.overall.verdict.startswith("unclear")
    assert verdict.by_processor.metric == "ctime"
    assert verdict.by_processor.overall.blocks == verdict.overall.blocks == 1
    (line,) = [line for line in verdict.summary if "ctime" in line]
    assert line == f"{verdict.by_processor.headline}: without waiting, input and output"
    assert verdict.facts()["ctime"]["verdict"] == verdict.by_processor.overall.verdict
    assert (
        compare_studies(repository, "timed-compare", "timed-compare", "time").by_processor is None
    )


def test_each_command_measures_anew_in_a_round_of_its_own(project, repository):
    edit(project, 1.5)
    for number in (1, 2):
        comparison(repository, ["timed.py", "timed.py"], limit=1)
        rounds = {record.round for record in repository.records("timed-compare")}
        assert rounds == set(range(1, number + 1))


def test_a_comparison_that_was_killed_goes_on_in_its_round(project, repository, monkeypatch):
    chosen = options(limit=1)
    versions = compared_versions(repository, ["timed.py", "timed.py"], (), chosen)
    read, calls = compare_and_gate.PairedStudy._read, []

    class Killed(BaseException):
        pass

    def killed_later(study, experiment, outcome):
        calls.append(experiment.digest)
        if len(calls) == 7:
            raise Killed
        return read(study, experiment, outcome)

    monkeypatch.setattr(compare_and_gate.PairedStudy, "_read", killed_later)
    with pytest.raises(Killed):
        run_comparison(repository, versions, chosen, 0.02)
    monkeypatch.setattr(compare_and_gate.PairedStudy, "_read", read)
    ran = len(list(repository.records("timed-compare")))
    assert ran >= 6
    result = run_comparison(repository, versions, chosen, 0.02)
    assert result.summary.cached == ran
    assert {record.round for record in repository.records("timed-compare")} == {1}
    assert result.summary.cached + result.summary.ok == result.summary.total


def test_a_version_whose_other_files_changed_is_not_run_as_if_they_had_not(project, repository):
    (project / "data.txt").write_text("1\n")
    folder = StudyRequest((str(project),))
    run_request(folder, folder.application(), db=None)
    name = project.name
    (project / "data.txt").write_text("2\n")
    run_request(folder, folder.application(), db=None)
    with pytest.raises(InputError, match=r"cannot be run again: .*data.txt changed") as error:
        compared_versions(repository, [f"{name}@1", name], (), options())
    assert "--commit" in error.value.diagnostics[0].hint


def test_a_gate_of_a_slower_commit_says_worse(project, repository):
    needs("git")
    git(project, "init", "-b", "main")
    git(project, "add", "timed.py")
    git(project, "commit", "-m", "begin")
    edit(project, 1.5)
    chosen = options(limit=1)
    present = compare_and_gate.named_version(repository, "timed.py")
    baseline = compare_and_gate.baseline_version(repository, "main", present)
    gated = run_gate(repository, (baseline, present), chosen, 0.05)
    assert [point.state for point in gated.points] == ["worse"]


def test_what_another_study_measured_is_measured_again(project, repository):
    chosen = options(limit=1)
    versions = compared_versions(repository, ["timed.py", "timed.py"], (), chosen)
    first = run_gate(repository, versions, chosen, 0.5)
    second = run_comparison(repository, versions, chosen, 0.02)
    assert second.summary.cached == 0
    values = [first.result.measured.of("timed", 0), second.measured.of("timed", 0)]
    assert values[0][1] != values[1][1]
    for study, result in (("timed-gate", first.result), ("timed-compare", second)):
        recorded = {
            record.repeat: record.outcome.metrics["time"]
            for record in repository.records(study)
            if record.values["version"] == "timed" and record.repeat > 0
        }
        assert recorded == result.measured.of("timed", 0), study


@pytest.mark.parametrize(
    ("names", "commits", "error"),
    [
        (["timed.py"], [], "two versions are compared"),
        (["timed.py", "timed.py"], ["HEAD"], "two versions are compared"),
        (["nothing", "timed.py"], [], "neither a study nor a file"),
    ],
)
@pytest.mark.usefixtures("project")
def test_what_cannot_be_compared_is_said(repository, names, commits, error):
    with pytest.raises(InputError, match=error):
        compared_versions(repository, names, commits, options())


@pytest.mark.usefixtures("project")
def test_a_metric_that_is_not_measured_and_too_few_blocks_are_said(repository):
    chosen = options(metric="tme")
    versions = compared_versions(repository, ["timed.py", "timed.py"], (), chosen)
    with pytest.raises(InputError, match="has no metric 'tme'"):
        run_comparison(repository, versions, chosen, 0.02)
    few = PairedOptions(plan=read_blocks("3:5"))
    with pytest.raises(InputError, match="2 points need 7 blocks"):
        run_comparison(repository, versions, few, 0.02)


def test_numbers_of_blocks_are_read():
    assert (read_blocks("8:50"), read_blocks("20")) == (BlockPlan(8, 50), BlockPlan(20, 20))
    for text in ("9:8", "0:3", "many", "8:", ":"):
        with pytest.raises(InputError, match="--repeat"):
            read_blocks(text)


def test_a_gate_of_values_that_are_no_ratios_is_of_their_differences():
    """Some are not positive: worse by 0.5 is an absolute difference then."""
    for more_is_better, states in ((False, ["worse", "no worse"]), (True, ["no worse", "worse"])):
        for above, state in zip((0.9, -0.9), states, strict=True):
            design = UntilGated(("a", "b"), 1, BlockPlan(8, 20), 0.5, more_is_better)
            measured, _ = blocks_of(
                design, lambda run, above=above: run.block / 100 - 0.05 + above * (run.label == "b")
            )
            (point,) = design.judge(measured)
            assert (point.state, design.is_ratio, measured.reached) == (state, False, 8)
            assert point.looked_at.estimate.value == pytest.approx(above)
            assert point.medians[1] - point.medians[0] == pytest.approx(above)


def test_a_point_is_worse_beyond_its_bound_alone():
    for worse, more_is_better, at, beyond in (
        (0.1, False, math.log(1.1), math.log(1.1001)), (0.1, True, math.log(0.9), math.log(0.8999)),
    ):  # fmt: skip
        states = []
        for change in (at, beyond):
            design = UntilGated(("a", "b"), 1, BlockPlan(8, 8), worse, more_is_better)
            measured, _ = blocks_of(
                design, lambda run, c=change: math.exp(c) if run.label == "b" else 1.0
            )
            states.append(design.judge(measured)[0].state)
        assert states == ["unclear", "worse"]


def test_a_gate_ends_where_a_point_is_worse_and_runs_only_points_without_a_word():
    def value(run):
        if run.label == "a":
            return 1.0
        noise = 0.2 * (1 if run.block % 2 else -1)
        return {0: 1.0, 1: math.exp(noise * (1 + run.block / 99)), 2: 1.0}[run.point]

    design = UntilGated(("a", "b"), 3, BlockPlan(8, 20), 0.05)
    measured, runs = blocks_of(design, value)
    assert [point.state for point in design.judge(measured)] == ["no worse", "unclear", "no worse"]
    assert {run.point for run in runs if run.block > 8} == {1}
    assert measured.reached == 20
    design = UntilGated(("a", "b"), 2, BlockPlan(8, 20), 0.05)
    measured, _ = blocks_of(design, lambda run: 1.0 + (run.label == "b") * (run.point == 1))
    assert [point.state for point in design.judge(measured)] == ["no worse", "worse"]
    assert measured.reached == 8


def test_the_metric_of_a_comparison_is_that_of_the_first_objective(project):
    application = scan([project / "timed.py"])
    assert PairedOptions().metric_of(application) == "time"
    assert PairedOptions(metric="wtime").metric_of(application) == "wtime"
    assert PairedOptions().metric_of(replace(application, goals=())) == "wtime"
    other = replace(application, goals=read_goals("MINIMIZE time * 2", application))
    assert PairedOptions().metric_of(other) == "wtime"


def test_a_time_is_read_or_refused():
    assert read_time("") is None
    assert read_time("2min") == 120.0
    with pytest.raises(InputError, match="--budget 12 runs: write a time"):
        read_time("12 runs")
    with pytest.raises(InputError, match="4 points need"):
        PairedOptions(plan=BlockPlan(2, 5)).check_blocks(4)
    PairedOptions(plan=BlockPlan(8, 8)).check_blocks(4)


# Versions and the points that all of them have.


def versions_of(project, *sets):
    """A version of the program for each set of n, with other parameters where a name says so."""
    versions = []
    for number, text in enumerate(sets):
        name, _, values = text.partition("=")
        path = project / f"v{number}.py"
        changed = PROGRAM.replace("ASSIGN n = { 1, 2 }", f"ASSIGN {name} = {{ {values} }}")
        path.write_text(changed.replace("n = 1\n", f"{name} = 1\n").replace("n *", f"{name} *"))
        versions.append(Version(f"label{number}", scan([path])))
    return tuple(versions)


def test_the_points_of_versions_are_those_that_all_have_in_the_order_of_the_last(project):
    study = PairedStudy("s", versions_of(project, "n=1,2,3,4", "n=2,3,5", "n=5,4,3,2"), "time")
    assert [point["n"] for point in study.points] == [3, 2]
    assert [study.can_run(f"label{number}") for number in range(3)] == [True, True, True]
    assert [point["n"] for point in replace(study, limit=3).points] == [3]
    assert study.unit == "s"
    assert replace(study, metric="wtime").unit == "s"
    study.check_metric()
    for metric, versions, message in (
        ("time", ("n=1", "n=2"), "no point in common"),
        ("time", ("n=1", "m=1"), "other parameters: m, n is not in all of them"),
        ("time", ("n=1:2000", "n=1:2000"), "2,000 points are too many"),
    ):
        with pytest.raises(InputError, match=message):
            _ = PairedStudy("s", versions_of(project, *versions), metric).points
    many = PairedStudy("s", versions_of(project, "n=1:2000", "n=1:1001"), "time", limit=1001)
    assert len(many.points) == 1001
    exactly = PairedStudy("s", versions_of(project, "n=1:1000", "n=1:1000"), "time")
    assert len(exactly.points) == 1000
    with pytest.raises(InputError, match="label0 has no metric 'tim'"):
        replace(study, metric="tim").check_metric()


def test_a_version_can_run_where_it_has_all_points_and_the_metric(project):
    versions = {v.label: v for v in versions_of(project, "n=1,2", "n=2,1", "n=2", "m=1,2")}

    def version_of(label):
        if label not in versions:
            raise InputError("no such commit")
        return versions[label]

    study = PairedStudy("s", (versions["label0"],), "time", version_of=version_of)
    runs = {label: study.can_run(label) for label in (*versions, "gone")}
    assert runs == {
        "label0": True, "label1": True, "label2": False, "label3": False, "gone": False
    }  # fmt: skip
    assert not replace(study, metric="other").can_run("label0")
    assert replace(study, metric="ctime").can_run("label1")


def test_labels_are_told_apart_and_stand_in_a_parameter_that_nobody_has(project):
    (version,) = versions_of(project, "n=1")
    other = replace(version, label="other")
    assert names_of(distinct_labels([version, other, version])) == (
        "label0", "other", "label0 again"
    )  # fmt: skip
    (named,) = versions_of(project, "version=1,2")
    assert label_parameter([version]) == "version"
    assert label_parameter([version, named]) == "compared_version"
    both = labelled(version.application, "label", ["a", "b"])
    assert [parameter.name for parameter in both.space.parameters] == ["n", "label"]
    assert [dict(point) for point in both.space] == [
        {"n": 1, "label": "a"}, {"n": 1, "label": "b"}
    ]  # fmt: skip


def test_what_cannot_be_compared_is_refused(project, repository):
    repository.open("bare", StudyDefinition())
    gone = StudyDefinition(notes={"paths": [str(project / "gone.py"), str(project / "timed.py")]})
    repository.open("moved", gone)
    (project / "idle.sh").write_text("#ZEN$ PARAM n = { 1 }\n")
    (project / "stage.sh").write_text('#ZEN$ PARAM n = { 1 }\n#ZEN$ RUN "true"\n')
    (project / "after.sh").write_text(
        '#ZEN$ PARAM n = { 1 }\n#ZEN$ RUN "true"\n#ZEN$ AFTER "stage" ON n\n'
    )
    for name, message in (
        ("nowhere", "'nowhere' is neither a study nor a file"),
        ("bare", "study bare has no annotated files"),
        ("moved", "study moved was run from .*gone.py, which is gone"),
        ("idle.sh", "idle has no RUN directive"),
        ("after.sh", "after has stages"),
    ):
        with pytest.raises(InputError, match=message):
            present_version(repository, name)
    version = present_version(repository, "timed.py", ["n={ 7 }"])
    assert version.label == "timed"
    assert [dict(point) for point in version.application.space] == [{"n": 7}]
