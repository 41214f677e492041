"""A search names the commit that changed a metric, or says that it cannot."""

import hashlib
import itertools
import math
import random
import re
import statistics
import subprocess
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest

from needs import needs
from zenturio.errors import InputError
from zenturio.experiment.signed_ranks import BlockPlan
from zenturio.record.open import open_repository
from zenturio.show.paired_reports import bisect_lines, history_chart, history_table, noise_table
from zenturio.study.paired.bisect_and_history import (
    CONFIRM,
    Bisection,
    CommitVersions,
    ConfirmingBlocks,
    HistoryBlocks,
    _log_density,
    _spread,
    run_bisect,
    run_confirmations,
    run_history,
)
from zenturio.study.paired.compare_and_gate import PairedOptions, run_noise
from zenturio.study.paired.paired_study import MeasuredBlocks, PairedResult, present_version

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


@pytest.mark.slow
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


# Its parts, against their formulas.

QUARTERS = (0.25, 0.25, 0.25, 0.25)


def ends_told_apart(labels="abcde", points=1, **settings):
    """A search that has told its ends apart after eight blocks, of a change by a factor of e."""
    bisection = Bisection(tuple(labels), points=points, plan=BlockPlan(8, 20), **settings)
    measured = MeasuredBlocks()
    for number in range(9):
        block = bisection.next_block(measured)
        assert (block.number, block.labels) == (number, (labels[0], labels[-1]))
        assert block.points == tuple(range(points))
        noise = number / 100
        run_block(measured, block, {labels[0]: 1.0, labels[-1]: math.exp(1 + noise)})
    return bisection, measured


def run_block(measured, block, values):
    for label in block.labels:
        for point in block.points:
            measured.add(label, point, block.number, values.get(label))
    measured.reached = block.number


@pytest.mark.parametrize(("noise", "expected"), [
    ([1.0, 2.0, 3.0, 4.0, 100.0], 1.4826),
    ([-5.0, -5.0, -5.0], 5e-3),
    ([0.0, 0.0], 1e-9),
    ([10.0, 10.0, 10.001, -2000.0], 2.0),
])  # fmt: skip
def test_the_spread_is_that_of_most_differences(noise, expected):
    assert _spread(noise) == pytest.approx(expected)


def test_the_density_is_that_of_student():
    def density(x):  # with four degrees of freedom
        return 3 / 8 * (1 + x**2 / 4) ** -2.5

    for offset, spread in ((0.0, 1.0), (1.0, 0.5), (-3.0, 2.0)):
        expected = math.log(density(offset / spread) / density(0))
        assert _log_density(offset, spread) == pytest.approx(expected)


def test_the_posterior_is_that_of_the_candidates_so_far():
    bisection, measured = ends_told_apart()
    weights = dict.fromkeys(range(1, 5), 1.0)  # by the first commit that differs
    changes = [1 + number / 100 for number in range(1, 9)]
    for looks in ({"b": -0.3, "c": 0.6, "d": 1.2}, {"b": 0.5, "c": 0.45, "d": 0.7}):
        block = bisection.next_block(measured)
        assert block.labels[:2] == ("a", "e")
        candidates = block.labels[2:]
        assert candidates == tuple(expected_candidates(weights, block.number, "a"))
        run_block(measured, block, {
            "a": 1.1, "e": 1.1 * math.e, **{name: 1.1 * math.exp(looks[name]) for name in looks},
        })  # fmt: skip
        changes.append(1.0)
        walsh = [(x + y) / 2 for i, x in enumerate(changes) for y in changes[i:]]
        change = statistics.median(walsh)
        middle = statistics.median(changes)
        spread = 1.4826 * statistics.median(abs(c - middle) for c in changes) * math.sqrt(0.75)
        for name in candidates:
            offset = looks[name] - 0.5
            like_good, like_bad = (
                (1 + ((offset - sign * change / 2) / spread) ** 2 / 4) ** -2.5 for sign in (-1, 1)
            )
            for first in weights:
                is_bad = "abcde".index(name) >= first
                weights[first] *= (like_bad if is_bad else like_good) ** 0.3
                weights[first] /= (like_good if is_bad else like_bad) ** 0.3
        bisection.next_block(measured)
        total = sum(weights.values())
        assert bisection._posterior == pytest.approx([w / total for w in weights.values()])
        bisection._block, bisection._phase = None, "search"  # the look at it is no block


def expected_candidates(weights, number, good):
    """What a third and two thirds of the weights lead to, with the coins of that block."""
    coins = hashlib.blake2b(f"{number} {good}".encode(), digest_size=2).digest()
    total, chosen = sum(weights.values()), []
    for share, coin in zip((1 / 3, 2 / 3), coins, strict=True):
        at, seen = 0, 0.0
        for first, weight in weights.items():
            if seen < share * total:
                at, seen = first, seen + weight
        at -= coin % 2
        near = [place for place in (1, 2, 3) if "abcde"[place] not in chosen]
        chosen.append("abcde"[min(near, key=lambda place: (abs(place - at), place))])
    return chosen


@pytest.mark.parametrize(("posterior", "range_"), [
    (QUARTERS, (1, 4)),
    ((0.5, 0.45, 0.04, 0.01), (1, 2)),
    ((0.01, 0.02, 0.02, 0.95), (4, 4)),
    ((0.02, 0.48, 0.48, 0.02), (2, 3)),
    ((0.9, 0.04, 0.03, 0.03), (1, 3)),
])  # fmt: skip
def test_the_range_that_is_left_is_the_shortest_of_95_percent(posterior, range_):
    bisection = Bisection(tuple("abcde"))
    assert list(bisection._posterior) == list(QUARTERS)
    bisection._posterior = np.array(posterior)
    assert bisection.credible == range_


def test_a_candidate_is_the_nearest_commit_that_can_be_run():
    asked = []
    bisection = Bisection(
        tuple("abcdefg"), can_run=lambda label: asked.append(label) or label != "d"
    )
    assert bisection._runnable_near(0, []) == 1
    assert bisection._runnable_near(9, []) == 5
    assert bisection._runnable_near(2, [2]) == 1
    assert bisection._runnable_near(3, []) == 2  # of two that are as near the earlier one
    assert bisection.skipped == {3}
    assert bisection._runnable_near(3, [2]) == 4
    assert asked == ["b", "f", "b", "d", "c", "e"]  # and d only once
    assert bisection._runnable_near(3, [1, 2, 4, 5]) is None


def test_the_ends_are_confirmed_at_once_where_no_commit_between_them_can_be_run():
    bisection, measured = ends_told_apart(can_run=lambda _label: False)
    blocks = 0
    while (block := bisection.next_block(measured)) is not None:
        assert block.labels == ("a", "e")
        blocks += 1
        assert sorted(bisection._confirming) == list(range(1, blocks))
        run_block(measured, block, {"a": 1.0, "e": math.exp(1 + blocks / 100)})
    assert bisection.state == "found"
    assert bisection.suspects() == (1, 2, 3, 4)


def test_what_cannot_be_run_counts_as_one_with_its_successor():
    bisection = Bisection(tuple("abcdef"))
    bisection._posterior = np.array([0.1, 0.2, 0.3, 0.25, 0.15])
    bisection.skipped = {1, 2}
    assert list(bisection._merged()) == pytest.approx([0, 0, 0.6, 0.25, 0.15])
    bisection._begin_confirming()
    assert bisection._pair == (0, 3)
    # The last one is an end: it runs, whatever is told.
    bisection.skipped = {4, 5}
    assert list(bisection._merged()) == pytest.approx([0.1, 0.2, 0.3, 0, 0.4])
    bisection.first_different = 5
    assert bisection.suspects() == (4, 5)
    assert list(bisection._posterior) == pytest.approx([0.1, 0.2, 0.3, 0.25, 0.15])


def test_a_commit_is_tested_at_a_posterior_of_90_percent():
    for share, phase in ((0.9, "confirm"), (0.89, "ends")):
        bisection = Bisection(tuple("abcd"))
        bisection._posterior = np.array([0.0, share, 1 - share])
        bisection._sharpen()
        assert bisection._phase == phase
    assert Bisection(tuple("ab"))._phase == "ends"


def test_a_commit_that_is_exactly_as_its_predecessor_is_not_found():
    bisection, measured = ends_told_apart()
    bisection._begin_confirming()
    for _ in range(CONFIRM.most):
        block = bisection.next_block(measured)
        run_block(measured, block, dict.fromkeys(block.labels, 1.0))
    bisection.next_block(measured)
    assert bisection.state == "searching"
    assert bisection._tries == 1


def test_a_test_that_fails_makes_a_commit_less_likely_and_the_next_one_stricter():
    bisection, measured = ends_told_apart()
    bisection.next_block(measured)
    bisection._posterior = np.array([0.02, 0.9, 0.06, 0.02])
    bisection._begin_confirming()
    bisection._block = None
    for number in range(9, 9 + CONFIRM.most):
        block = bisection.next_block(measured)
        assert (block.number, block.labels) == (number, ("b", "c"))
        sign = 1 if number % 2 else -1
        run_block(measured, block, {"b": 1.0, "c": math.exp(sign * (0.1 + number / 1000))})
    block = bisection.next_block(measured)
    assert len(block.labels) == 4
    left = [0.02, 0.9 / 20, 0.06, 0.02]
    assert list(bisection._posterior) == pytest.approx([p / sum(left) for p in left])
    assert bisection._tries == 1
    bisection._posterior = np.array([0.02, 0.06, 0.9, 0.02])
    bisection._begin_confirming()
    bisection._block = None
    while (block := bisection.next_block(measured)) is not None:
        assert block.labels == ("c", "d")
        run_block(measured, block, {"c": 1.0, "d": 1.5})
    assert (bisection.state, bisection.first_different) == ("found", 3)
    # One side of a quarter of 5%, of which each look spends its part.
    looks = CONFIRM.looks(0.05 / 4, sides=1)
    assert (bisection.confirmed.blocks, bisection.confirmed.alpha) == looks[0]
    assert bisection.confirmed.estimate.value == pytest.approx(math.log(1.5))


def test_a_change_for_the_better_is_confirmed_as_one():
    bisection, _ = search(3, -0.3, "white", count=6)
    assert (bisection.state, bisection.first_different) == ("found", 3)
    assert bisection.ends.estimate.value == pytest.approx(math.log(0.7), abs=0.02)
    assert bisection.confirmed.estimate.value == pytest.approx(-math.log(0.7), abs=0.05)


def test_ends_that_never_have_a_value_end_the_search_after_the_least_blocks():
    for failing in ({0}, {4}):
        bisection, measured = search(
            2, 0.1, "white", count=5, failing=failing, plan=BlockPlan(8, 20)
        )
        assert (bisection.state, measured.reached) == ("no value", 8)
    bisection, measured = Bisection(tuple("abc"), plan=BlockPlan(4, 9)), MeasuredBlocks()
    while (block := bisection.next_block(measured)) is not None:
        run_block(measured, block, {"a": 0.0, "c": 1.0})  # of which there is no logarithm
    assert (bisection.state, measured.reached) == ("no value", 4)


def test_an_end_that_fails_later_leaves_the_search_open_and_others_are_skipped():
    for broken, pair, state, skipped in (
        ("e", (3, 4), "open", set()), ("a", (0, 1), "open", set()),
        ("c", (2, 3), "searching", {2}), ("d", (2, 3), "searching", {3}),
    ):  # fmt: skip
        bisection, measured = ends_told_apart()
        bisection.next_block(measured)
        bisection._posterior = np.eye(4)[pair[1] - 1]
        bisection._begin_confirming()
        assert bisection._pair == pair
        bisection._block = None
        block = bisection.next_block(measured)
        run_block(measured, block, {label: 1.0 for label in "abcde" if label != broken})
        following_block = bisection.next_block(measured)
        assert (bisection.state, bisection.skipped) == (state, skipped)
        assert (following_block is None) == (state == "open")


def test_the_value_of_a_commit_is_the_mean_of_the_logarithms_of_its_points():
    bisection, measured = Bisection(("a", "b"), points=2), MeasuredBlocks()
    for point, value in enumerate((2.0, 8.0)):
        measured.add("a", point, 1, value)
    assert bisection._value(measured, "a", 1) == pytest.approx(math.log(4))
    assert bisection._value(measured, "a", 2) is None
    measured.add("b", 0, 1, 2.0)
    assert bisection._value(measured, "b", 1) is None
    measured.add("b", 1, 1, 0.0)
    assert bisection._value(measured, "b", 1) is None


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


@dataclass(frozen=True)
class Invented(PairedOptions):
    """Runs nothing: of each version its factor is what was measured, a little more in each block.

    The third point of a commit that is told to fail has no value.
    """

    failing: str = ""
    runs: list = field(default_factory=list)

    def run(self, study, repository, design, blocks):
        measured = MeasuredBlocks()
        while (block := design.next_block(measured)) is not None:
            for label in block.labels:
                for point in block.points:
                    measured.add(
                        label, point, block.number, self._value(study, label, block, point)
                    )
            measured.reached = block.number
        self.runs.append((study, blocks))
        return PairedResult(study, measured, None, is_complete=True)

    def _value(self, study, label, block, point):
        (path,) = study.version_of(label).application.paths
        factor = float(re.search(r"factor = (\S+)", path.read_text())[1])
        fails = point == 1 and self.failing and label.startswith(self.failing)
        return None if fails else factor * (point + 1) * (1 + block.number / 1000)


def test_runs_of_commits_are_what_their_designs_ask_for(repository, tmp_path):
    log = subprocess.run(
        ["git", "log", "--format=%H"], cwd=tmp_path, check=True, capture_output=True
    )
    commits = log.stdout.decode().split()[::-1]
    labels = [commit[:10] for commit in commits]
    chosen = Invented(plan=BlockPlan(8, 20), command=("again",))
    bisected = run_bisect(repository, "timed.py", "HEAD~6", "HEAD", chosen, most_runs=300)
    assert (bisected.search.state, bisected.search.first_different) == ("found", 4)
    assert [commit.oid for commit in bisected.commits] == commits
    assert [commit.subject for commit in bisected.commits] == [
        "the good end",
        *(f"number {number}" for number in range(1, 7)),
    ]
    study, blocks = chosen.runs.pop()
    assert (study.name, study.metric, study.limit, study.abreast) == (
        "timed-bisect", "time", None, 4
    )  # fmt: skip
    assert study.labels == tuple(labels) == tuple(bisected.search.labels)
    assert study.program == {"good": commits[0], "bad": commits[6], "files": "timed.py"}
    assert study.notes == {"verb": "bisect", "blocks": [8, 20]}
    assert study.command == ("again",)
    assert [version.label for version in study.versions] == [labels[0], labels[6]]
    assert (bisected.search.most_runs, bisected.search.points, blocks) == (600, 2, 75)
    assert bisected.search.skipped <= {2}  # which does not run
    assert not study.accumulates

    chosen = Invented(plan=BlockPlan(1, 3), failing=labels[1])
    history = run_history(repository, "timed.py", chosen, commits=6, last="HEAD~1")
    study, blocks = chosen.runs.pop()
    beside = [f"{label} reference" for label in labels[:6]]
    assert study.labels == tuple(itertools.chain(*zip(labels[:6], beside, strict=True)))
    assert (study.name, study.accumulates, blocks) == ("timed-history", True, 3)
    assert study.program == {"reference": commits[0], "files": "timed.py"}
    assert study.notes == {"verb": "history", "reference": commits[0], "blocks": [1, 3]}
    assert history.reference == commits[0]
    assert [row.commit.oid for row in history.rows] == commits[:6]
    # Medians over three blocks and two points; of the second commit one point failed in each.
    high = 1.5 * statistics.median([1.001, 1.002, 1.003, 2.002, 2.004, 2.006])
    assert [row.value for row in history.rows] == [
        pytest.approx(value) if value else None
        for value in (high / 1.5, 1.001, None, high / 1.5, high, high)
    ]
    assert [row.ratio for row in history.rows] == [
        pytest.approx(ratio) if ratio else None for ratio in (1.0, None, None, 1.0, 1.5, 1.5)
    ]
    assert [row.blocks for row in history.rows] == [3, 0, 0, 3, 3, 3]
    assert [row.failures for row in history.rows] == [0, 1, 0, 0, 0, 0]

    last = run_history(repository, "timed.py", chosen, commits=2, reference="HEAD~1")
    assert last.reference == commits[5]
    assert [row.commit.oid for row in last.rows] == commits[5:]
    chosen.runs.clear()
    confirmed = run_confirmations(repository, "timed.py", history, [0, 3, 4], chosen)
    study, blocks = chosen.runs.pop()
    pairs = [(f"{labels[3]} before", labels[3]), (f"{labels[4]} before", labels[4])]
    assert study.labels == (*pairs[0], *pairs[1])
    assert [study.version_of(label).application.paths[0].read_text()[-2] for pair in pairs
            for label in pair] == ["0", "3", "3", "4"]  # fmt: skip
    assert (study.name, study.accumulates, blocks) == ("timed-confirm", True, 50)
    assert study.program == {"files": "timed.py"}
    assert study.notes == {"verb": "history", "blocks": [8, 50]}
    assert confirmed.changes.keys() == {3, 4}
    same, slower = (confirmed.changes[at] for at in (3, 4))
    assert same.estimate.value == pytest.approx(0)
    assert slower.estimate.value == pytest.approx(math.log(1.5))
    assert (same.is_decided, slower.is_decided) == (True, True)
    assert run_confirmations(repository, "timed.py", history, [0], chosen).result is None
    (tmp_path / "new.py").write_text(PROGRAM)
    with pytest.raises(InputError, match=r"no commit up to HEAD touches .*new\.py"):
        run_history(repository, "new.py", chosen, commits=9)


def test_commits_of_a_history_are_shuffled_in_each_block_and_one_warms_up():
    labels = [f"commit{number}" for number in range(6)]
    design, measured, ran = HistoryBlocks(labels, 2, 3), MeasuredBlocks(), []
    while (block := design.next_block(measured)) is not None:
        label, beside = block.labels
        assert beside == f"{label} reference"
        assert block.points == (0, 1)
        ran.append((block.number, label))
        fails = (label, block.number) == ("commit4", 1)
        run_block(measured, block, {beside: 1.0, **({} if fails else {label: 2.0})})
    expected = [(0, "commit0")]
    for number in (1, 2, 3):
        order = sorted(
            labels, key=lambda name: hashlib.blake2b(f"{number} {name}".encode()).digest()
        )
        expected += [(number, name) for name in order if (name, number > 1) != ("commit4", True)]
    assert ran == expected
    assert [name for number, name in ran if number == 1] != labels


def test_a_version_of_a_commit_is_made_once_and_so_is_its_error(repository):
    needs("git")
    present = present_version(repository, "timed.py")
    versions = CommitVersions(present, {"good": "HEAD", "bad": "nothing", "also": "HEAD~1"})
    good = versions("good")
    assert (good.label, versions("good").application) == ("good", good.application)
    assert versions("also").application.paths != good.application.paths
    errors = []
    for _ in range(2):
        with pytest.raises(InputError) as error:
            versions("bad")
        errors.append(error.value)
    assert errors[0] is errors[1]


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
