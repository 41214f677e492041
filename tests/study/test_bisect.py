"""A search names the commit that changed a metric, or says that it cannot."""

import math
import random
import subprocess
from collections import Counter

import pytest

from needs import needs
from zenturio.errors import InputError
from zenturio.experiment.signed_ranks import BlockPlan
from zenturio.record.open import open_repository
from zenturio.show.paired_reports import bisect_lines, history_chart, history_table, noise_table
from zenturio.study.paired.commits import (
    Bisection,
    ConfirmingBlocks,
    run_bisect,
    run_confirmations,
    run_history,
)
from zenturio.study.paired.compared import PairedOptions, run_noise
from zenturio.study.paired.paired_study import MeasuredBlocks

NOISES = {
    "white": lambda draw: draw.gauss(0, 0.02),
    "skewed": lambda draw: draw.lognormvariate(-3.2, 0.8),
    "two modes": lambda draw: draw.gauss(0, 0.005) + 0.05 * draw.randrange(2),
    "heavy tails": lambda draw: 0.01 * draw.paretovariate(1.5),
}


def search(place, change, noise, seed=0, count=64, broken=(), failing=(), **settings):
    """A search among commits of which *place* is the first one that is slower."""
    draw = random.Random(seed)
    labels = tuple(map(str, range(count)))
    bisection = Bisection(labels, can_run=lambda label: int(label) not in broken, **settings)
    measured = MeasuredBlocks()
    while (block := bisection.next_block(measured)) is not None:
        for label in draw.sample(block.labels, len(block.labels)):
            slow = math.log1p(change) if int(label) >= place else 0.0
            value = None if int(label) in failing else math.exp(slow + NOISES[noise](draw))
            measured.add(label, 0, block.number, value)
        measured.reached = block.number
    return bisection, measured


@pytest.mark.parametrize("noise", NOISES)
def test_a_regression_of_10_percent_in_64_commits_is_named_in_100_of_100_tries(noise):
    tries = Counter()
    for seed in range(100):
        place = 1 + random.Random(seed).randrange(63)
        bisection, _ = search(place, 0.1, noise, seed)
        is_right = bisection.state == "found" and bisection.first_different == place
        tries["right" if is_right else bisection.state] += 1
    # "open" is no wrong answer: it names a range.
    assert tries["right"] >= 98
    assert set(tries) <= {"right", "open"}


def test_a_search_is_wrong_in_at_most_5_percent_where_the_change_is_small():
    """Of 100 searches 5 may be wrong; more than 11 (3 standard errors) is no chance."""
    wrong = 0
    for seed in range(100):
        place = 1 + random.Random(seed).randrange(63)
        bisection, _ = search(place, 0.05, "skewed", seed)
        wrong += bisection.state == "found" and bisection.first_different != place
    assert wrong <= 11


def test_ends_that_do_not_differ_have_nothing_to_find():
    bisection, measured = search(99, 0.1, "white", plan=BlockPlan(8, 20))
    assert bisection.state == "no difference"
    assert measured.reached == 20


def test_a_search_that_may_not_go_on_says_which_range_is_left():
    bisection, measured = search(40, 0.03, "skewed", most_runs=60, plan=BlockPlan(8, 10))
    assert bisection.state in ("open", "no difference")
    bisection, measured = search(40, 0.1, "white", most_runs=30)
    assert bisection.state == "open"
    first, last = bisection.credible
    assert 1 <= first <= 40 <= last <= 63
    assert measured.runs < 40


def test_a_search_that_time_ends_is_open_unless_it_was_over():
    bisection = Bisection(("a", "b", "c"))
    bisection.end_early(MeasuredBlocks())
    assert bisection.state == "open"
    bisection, measured = search(1, 0.1, "white", count=2)
    bisection.end_early(measured)
    assert bisection.state == "found"


def test_neighbours_need_no_search():
    bisection, _ = search(1, 0.1, "white", count=2)
    assert (bisection.state, bisection.first_different) == ("found", 1)


@pytest.mark.parametrize("how", ["broken", "failing"])
def test_commits_that_cannot_be_run_are_skipped_and_named_with_the_one_behind(how):
    bisection, _ = search(30, 0.1, "white", count=64, **{how: {28, 29, 30}})
    assert bisection.state == "found"
    assert bisection.suspects() == (28, 29, 30, 31)
    bisection, _ = search(10, 0.1, "white", **{how: {28, 29, 30}})
    assert bisection.suspects() == (10,)


# With commits.

PROGRAM = """\
n = 1
#ZEN$ ASSIGN n = { 1, 2 }
factor = 1.0
#ZEN$ RUN "python3 -S -E timed.py"
#ZEN$ METRIC time FROM stdout REGEX "time (\\S+)" UNIT "s"
#ZEN$ OBJECTIVE MINIMIZE time
print("time", n * factor)
"""


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Seven commits of a program: the fifth is slower, the third does not run."""
    needs("git")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ZENTURIO_DB", raising=False)
    path = tmp_path / "timed.py"

    def git(*words):
        who = ["-c", "user.name=n", "-c", "user.email=e@e"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-b", "main")
    for number in range(7):
        text = PROGRAM.replace("factor = 1.0", f"factor = {1.0 if number < 4 else 1.5}")
        text = text.replace("#ZEN$ RUN", "#ZEN$ RUNN") if number == 2 else text
        path.write_text(f"{text}# {number}\n")
        git("add", "timed.py")
        git("commit", "-m", f"number {number}")
    opened = open_repository(None, create=True)
    yield opened
    opened.close()


def options(blocks):
    return PairedOptions(limit=1, plan=BlockPlan(*blocks))


@pytest.mark.slow
def test_a_commit_is_found_in_a_repository(repository):
    run = run_bisect(repository, "timed.py", "HEAD~6", "HEAD", options((8, 50)))
    assert run.search.state == "found"
    assert run.commits[run.search.first_different].subject == "number 4"
    assert bisect_lines(run)[0].endswith("number 4")
    assert run.result.summary.total <= 600
    assert "+50.0%" in bisect_lines(run)[0]


@pytest.mark.usefixtures("repository")
def test_commits_in_the_wrong_order_are_said(repository):
    with pytest.raises(InputError, match="does not come after"):
        run_bisect(repository, "timed.py", "HEAD", "HEAD~3", options((8, 50)))


@pytest.mark.slow
def test_a_history_measures_each_commit_once_beside_the_reference(repository):
    run = run_history(repository, "timed.py", options((1, 1)), commits=6, last="HEAD~1")
    ratios = [row.ratio for row in run.rows]
    assert ratios == [1.0, 1.0, None, 1.0, 1.5, 1.5]
    assert run.reference == run.rows[0].commit.oid
    later = run_history(repository, "timed.py", options((1, 1)), commits=4)
    assert [row.ratio for row in later.rows] == [1.0, 1.5, 1.5, 1.5]
    assert later.reference == run.reference
    # The newest commit is new, and so is the first of its pair; all others were measured.
    assert later.result.summary.ok <= 4
    table = history_table(later)
    assert [row[-1] for row in table.rows] == [f"number {n}" for n in (3, 4, 5, 6)]
    chart = history_chart(later)
    assert chart.x.categories == tuple(row[0] for row in table.rows)


def confirm(pairs, ratio, plan=BlockPlan(8, 20)):  # noqa: B008 - it is frozen
    """Blocks of pairs of labels, and which of them ran."""
    design, measured, blocks = ConfirmingBlocks(pairs, 1, plan), MeasuredBlocks(), Counter()
    draw = random.Random(3)
    while (block := design.next_block(measured)) is not None:
        blocks[block.labels[1]] += block.number > 0
        for label in block.labels:
            slow = ratio.get(label, 1.0)
            value = None if slow is None else slow * math.exp(draw.gauss(0, 0.01))
            measured.add(label, 0, block.number, value)
        measured.reached = block.number
    return design, measured, blocks


def test_changes_are_confirmed_one_after_the_other_each_until_it_has_a_word():
    pairs = (("a before", "a"), ("b before", "b"), ("c before", "c"))
    design, measured, blocks = confirm(pairs, {"a": 1.1, "c": None})
    assert (blocks["a"], blocks["c"]) == (8, 4)
    assert 8 <= blocks["b"] <= 20
    slower, same, failed = (design.judge(measured, pair, 20) for pair in pairs)
    assert slower.estimate.interval.low > math.log(1.05)
    assert same.estimate.interval.low < 0 < same.estimate.interval.high
    assert failed.estimate.interval is None
    assert failed.blocks == 0


@pytest.mark.slow
def test_a_change_of_a_history_is_confirmed_once(repository):
    run = run_history(repository, "timed.py", options((1, 1)), commits=7)
    at = next(i for i, row in enumerate(run.rows) if row.commit.subject == "number 4")
    confirmed = run_confirmations(repository, "timed.py", run, [at], options((1, 1)))
    assert confirmed.changes[at].estimate.value == pytest.approx(math.log(1.5))
    table = history_table(run, confirmed)
    assert table.rows[at][table.columns.index("confirmed")].startswith("yes, +50.0%")
    again = run_confirmations(repository, "timed.py", run, [at], options((1, 1)))
    assert again.result.summary.ok == 0


def test_noise_is_that_of_the_same_files(repository):
    table = noise_table(run_noise(repository, "timed.py", options((8, 8))))
    (row,) = table.rows
    assert row[-1] == "yes"
    assert row[table.columns.index("5 blocks")] is None
    assert row[table.columns.index("50 blocks")] == "0.0%"
