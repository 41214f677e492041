"""Versions are compared where they ran next to each other, and noise is not taken for a difference."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.query.conftest import fill
from zenturio.errors import InputError
from zenturio.experiment.signed_ranks import hodges_lehmann
from zenturio.query import compare
from zenturio.query.comparison import DISTURBED, compare_studies

NOISES = {
    "white": lambda random, clock: 0.02 * random.normal(size=len(clock)),
    "drift": lambda random, clock: 0.01 * random.normal(size=len(clock)) + clock / len(clock),
    "busy neighbour": lambda random, clock: (
        0.02 * random.normal(size=len(clock)) + 0.5 * ((clock + random.integers(60)) // 30 % 2)
    ),
    "two modes": lambda random, clock: 0.05 * random.integers(0, 2, len(clock)),
    "heavy tails": lambda random, clock: 0.02 * random.pareto(1.5, len(clock)),
}
"""Logarithms of what disturbs each of the runs, one after the other."""


def interleaved(noise="white", ratio=1.0, blocks=20, points=1, seed=0, unit="s", **facts):
    """Two versions of a study that ran in shuffled blocks: a frame of each."""
    random = np.random.default_rng(seed)
    clock = np.arange(blocks * points * 2)
    disturbed = np.exp(NOISES[noise](random, clock))
    rows, now = [], 0
    for block in range(1, blocks + 1):
        for turn, at in enumerate(random.permutation(points * 2).tolist(), 1):
            n, version = at // 2 + 1, "old" if at % 2 == 0 else "new"
            value = n * (ratio if version == "new" else 1.0) * disturbed[now]
            rows.append(
                {"n": n, "version": version, "repeat": block, "status": "ok", "round": 1,
                 "run_order": "blocks", "run_block": block, "run_turn": turn, "host": "here",
                 "started": float(now), "ended": now + 0.9, "host_slots": 1, "wtime": value,
                 **facts}
            )  # fmt: skip
            now += 1
    return split(pd.DataFrame(rows), unit)


def split(table, unit="s"):
    """The rows of each version, as `study_frame` returns them with a condition."""
    parts = []
    for version in ("old", "new"):
        part = table[table["version"] == version].reset_index(drop=True)
        part.attrs = {"study": "s", "units": {"wtime": unit}, "parameters": ["n", "version"]}
        parts.append(part)
    return parts


def one_after_the_other(noise="white", blocks=20, points=8, seed=0):
    """Two studies, each measured by itself: the second while a neighbour works."""
    random = np.random.default_rng(seed)
    parts = []
    for at, name in enumerate(("old", "new")):
        factor = np.exp(0.02 * random.normal(size=blocks * points))
        if at:
            factor *= 1 + 0.4 * (random.random(blocks * points) < 0.6)
        part = pd.DataFrame(
            {"n": n, "repeat": block, "status": "ok", "round": 1, "run_order": "blocks",
             "run_block": block, "run_turn": n, "host": "here", "host_load": 0.2 + 1.9 * at,
             "started": float(at * 10_000 + block * points + n), "ended": 0.5,
             "wtime": n * factor[(block - 1) * points + n - 1]}
            for block in range(1, blocks + 1)
            for n in range(1, points + 1)
        )  # fmt: skip
        part.attrs = {"study": name, "units": {"wtime": "s"}, "parameters": ["n"]}
        parts.append(part)
    return parts


def verdicts(comparison):
    return [pair.verdict for pair in comparison.pairs]


def is_word(verdict):
    return verdict in ("faster", "slower")


@pytest.mark.parametrize("noise", NOISES)
def test_equal_programs_seem_to_differ_in_at_most_5_percent(noise):
    """Of 1,000 series of 10 blocks 5% are 50; more than 72 (3.2 standard errors) is no chance."""
    wrong = 0
    random = np.random.default_rng(11)
    for _ in range(1000):
        disturbed = NOISES[noise](random, np.arange(20)).reshape(10, 2)
        coins = random.integers(0, 2, 10)
        differences = (disturbed[:, 1] - disturbed[:, 0]) * (1 - 2 * coins)
        low, high = hodges_lehmann(differences, 0.05).interval
        wrong += not low <= 0 <= high
    assert wrong <= 72


def test_comparisons_of_equal_programs_have_a_wrong_word_in_at_most_5_percent():
    """Of 50 comparisons of 4 points each, 5% are 2.5; more than 7 (3.2 standard errors) are not."""
    points = overall = 0
    for seed in range(50):
        noise = list(NOISES)[seed % len(NOISES)]
        found = compare(*interleaved(noise, blocks=10, points=4, seed=seed), "wtime")
        points += any(map(is_word, verdicts(found)))
        overall += is_word(found.overall.verdict)
    assert max(points, overall) <= 7


@pytest.mark.parametrize(
    ("noise", "least"),
    [
        pytest.param("white", 40, marks=pytest.mark.slow),
        pytest.param("drift", 40, marks=pytest.mark.slow),
        ("two modes", 36),
    ],
)
def test_a_difference_of_10_percent_is_seen(noise, least):
    found = [
        compare(*interleaved(noise, 1.1, seed=seed), "wtime").overall.verdict for seed in range(40)
    ]
    assert found.count("slower") >= least
    assert set(found) <= {"slower", "unclear"}


def test_a_busy_neighbour_of_the_second_run_is_no_difference():
    found = compare(*one_after_the_other(), "wtime")
    assert verdicts(found) == ["unclear (not interleaved)"] * 8
    assert found.overall.verdict == "unclear (not interleaved)"
    assert found.conditions == ("load of the machine (median): old 0.2; new 2.1",)
    assert found.summary[0] == f"conditions differ: {found.conditions[0]}"
    assert found.summary[1].startswith("new against old, wtime: unclear (not interleaved); ratio")
    assert "as measured" in found.summary[1]
    assert "zen compare STUDY STUDY --where" in found.summary[-1]
    assert replace(found, are_studies=True).summary[-1].endswith("zen compare old new --run")
    assert all(pair.interval is None for pair in found.pairs)
    assert found.ratio > 1.1


def test_ratio_and_interval_are_of_the_second_to_the_first():
    old, new = interleaved(ratio=1.2, points=3)
    found = compare(old, new, "wtime")
    assert verdicts(found) == ["slower"] * 3
    assert found.overall.verdict == "slower"
    low, high = found.overall.interval
    assert low < 1.2 < high
    turned = compare(new, old, "wtime")
    assert turned.overall.verdict == "faster"
    assert turned.ratio == pytest.approx(1 / found.ratio)
    assert turned.overall.interval == pytest.approx((1 / high, 1 / low))
    assert found.names == ("version=old", "version=new")


def test_more_points_have_wider_intervals():
    alone = compare(*interleaved(points=1), "wtime").pairs[0].interval
    old, new = interleaved(points=12)
    among = compare(old, new, "wtime").pairs[0].interval
    first = compare(old[old.n == 1], new[new.n == 1], "wtime").pairs[0].interval
    assert among.low < first.low
    assert among.high > first.high
    assert alone.high / alone.low < among.high / among.low


def test_equal_values_are_the_same():
    old, new = interleaved()
    found = compare(old.assign(wtime=2.0), new.assign(wtime=2.0), "wtime")
    assert verdicts(found) == ["same (within 2%)"]
    assert found.overall.interval == (1.0, 1.0)


def test_a_metric_that_is_no_time_is_more_or_less():
    old, new = interleaved(ratio=1.5, unit="B")
    assert verdicts(compare(old, new, "wtime")) == ["more"]
    assert verdicts(compare(new, old, "wtime")) == ["less"]


def test_too_few_blocks_are_unclear_and_say_how_many_are_needed():
    found = compare(*interleaved(ratio=9, blocks=5), "wtime")
    assert verdicts(found) == ["unclear (5 blocks; 6 needed)"]
    found = compare(*interleaved(ratio=9, blocks=6, points=10), "wtime")
    assert verdicts(found) == ["unclear (6 blocks; 9 needed)"] * 10
    assert found.overall.verdict == "slower", "all points together need only 6"


def test_versions_that_ran_on_two_days_are_not_interleaved():
    old, new = interleaved(ratio=2)
    new["started"] += 86_400
    new["ended"] += 86_400
    assert verdicts(compare(old, new, "wtime")) == ["unclear (not interleaved)"]


def test_runs_that_were_repeated_after_the_others_are_no_pairs():
    old, new = interleaved(ratio=2)
    late = new["run_block"] > 12
    new.loc[late, ["started", "ended"]] += 1000
    found = compare(old, new, "wtime")
    assert found.pairs[0].blocks == 12


def test_pairs_that_did_not_run_in_the_drawn_order_count_for_nothing():
    old, new = interleaved(ratio=2)
    block = old["run_block"] == 3
    place = ["started", "ended"]
    first, second = old.loc[block, place].to_numpy(), new.loc[block, place].to_numpy()
    old.loc[block, place], new.loc[block, place] = second, first
    assert verdicts(compare(old, new, "wtime")) == ["unclear (not interleaved)"]
    # Two slots: what ran at the same time may be noted in either order.
    old["ended"] += 10
    new["ended"] += 10
    assert verdicts(compare(old, new, "wtime")) == ["slower"]


@pytest.mark.parametrize("order", ["sorted", "random", None])
def test_only_blocks_are_interleaved(order):
    old, new = interleaved(ratio=2, run_order=order)
    assert verdicts(compare(old, new, "wtime")) == ["unclear (not interleaved)"]


@pytest.mark.parametrize(
    ("fact", "value", "label"),
    [("host", "there", "host"), ("host_slots", 4, "experiments at a time (-j)"),
     ("host_governor", "powersave", "governor"), ("machine", "EPYC", "kind of machine")],
)  # fmt: skip
def test_other_conditions_are_named_and_leave_no_verdict(fact, value, label):
    old, new = interleaved(ratio=2)
    old[fact], new[fact] = "x" if isinstance(value, str) else 1, value
    found = compare(old, new, "wtime")
    assert verdicts(found) == [f"unclear (differs by {label})"]
    assert found.overall.verdict == f"unclear (differs by {label})"
    assert found.summary[0].startswith(f"conditions differ: {label}: version=old")


def test_a_study_with_failures_of_one_version_alone_never_calls_it_better():
    for ratio, expected in ((0.5, "unclear (one side failed)"), (1.0, "unclear (one side failed)"),
                            (2.0, "slower")):  # fmt: skip
        old, new = interleaved("white", ratio=ratio, blocks=60)
        new.loc[:2, "status"] = "failed"
        new.loc[:2, "wtime"] = math.nan
        found = compare(old, new, "wtime")
        assert (verdicts(found), found.failures) == ([expected], (0, 3))
        assert found.pairs[0].blocks == 57
        assert "3 experiments of version=new failed" in found.notes


def test_values_that_are_not_positive_are_compared_by_differences():
    old, new = interleaved(unit="")
    old["wtime"], new["wtime"] = old["wtime"] - 1.0, new["wtime"] + 2.0
    found = compare(old, new, "wtime")
    assert verdicts(found) == ["more"]
    assert found.ratio is None
    low, high = found.pairs[0].interval
    assert low < 3 < high
    assert found.result().columns[3:6] == ("difference", "low", "high")
    assert "compared by differences: wtime is not above zero everywhere" in found.notes
    same = compare(old.assign(wtime=0.0), new.assign(wtime=0.0), "wtime")
    assert verdicts(same) == ["same"]


def test_other_parameters_are_paired_by_themselves():
    """A parameter that makes no point has its own pairs, so that it cannot explain a difference."""
    old, new = interleaved(points=4)
    old["k"], new["k"] = 1, 1
    for part in (old, new):
        part.attrs["parameters"] = ["k", "n", "version"]
    found = compare(old, new, "wtime", on=["k"])
    assert [pair.point for pair in found.pairs] == [(1,)]
    assert found.pairs[0].blocks == 20
    assert not is_word(found.pairs[0].verdict)


def test_a_study_compared_with_itself_is_not_interleaved():
    old, _ = interleaved()
    found = compare(old, old, "wtime")
    assert found.names == ("first", "second")
    assert verdicts(found) == ["unclear (not interleaved)"]


def test_points_of_one_study_alone_are_counted():
    first, second = one_after_the_other(points=4)
    found = compare(first[first.n < 4], second[second.n > 1], "wtime")
    assert [pair.point for pair in found.pairs] == [(2,), (3,)]
    assert found.only == (1, 1)
    assert found.notes[0] == "2 points in both, 1 only in old, 1 only in new"


def test_an_inactive_parameter_is_the_same_point_in_both():
    first, second = one_after_the_other(points=1)
    first["omega"], second["omega"] = None, math.nan
    for part in (first, second):
        part.attrs["parameters"] = ["n", "omega"]
    assert compare(first, second, "wtime").only == (0, 0)


def test_the_table_names_studies_units_and_verdicts():
    shown = compare(*interleaved(ratio=2), "wtime").result()
    assert shown.heads == (
        "n", "version=old (s)", "version=new (s)", "ratio", "low", "high", "blocks", "repeats",
        "verdict",
    )  # fmt: skip
    assert shown.rows[0][-3:] == (20, "20, 20", "slower")


def test_experiments_without_a_finite_value_are_counted():
    old, new = interleaved()
    old.loc[0, "wtime"], new.loc[:1, "wtime"] = math.nan, math.inf
    found = compare(old, new, "wtime")
    assert found.left_out == (1, 2)
    assert "2 experiments of version=new have no finite wtime" in found.notes
    assert found.pairs[0].blocks <= 18


@pytest.mark.parametrize(
    ("metric", "on", "message"),
    [
        ("wtme", ["n"], r"has no 'wtme'[\s\S]*'wtime'"),
        ("wtime", ["m"], "has no 'm'"),
        ("version", ["n"], "'version' holds text"),
    ],
)
def test_what_cannot_be_compared_says_why(metric, on, message):
    with pytest.raises(InputError, match=message):
        compare(*interleaved(), metric, on=on)


def test_studies_without_a_common_point_are_not_compared():
    first, second = one_after_the_other()
    with pytest.raises(InputError, match="no point of n is in both"):
        compare(first[first.n == 1], second[second.n == 2], "wtime")
    first.attrs["parameters"] = []
    with pytest.raises(InputError, match="share no parameter"):
        compare(first, second, "wtime")


def test_a_side_without_results_says_so():
    old, new = interleaved()
    with pytest.raises(InputError, match=r"s \(version=new\) has no results to compare: 20 exp"):
        compare(old, new.assign(status="failed", wtime=math.nan), "wtime")
    with pytest.raises(InputError, match="20 experiments without a finite wtime"):
        compare(old.assign(wtime=math.nan), new, "wtime")


def test_a_condition_that_nothing_meets_names_the_values_that_there_are(sqlite):
    rows = [{"n": n, "solver": name, "wtime": 1.0} for n in range(9) for name in ("cg", "lu")]
    fill(sqlite, "s", {"n": "int", "solver": "str"}, {"wtime": "real s"}, rows)
    where = ("solver == 'cg'", "solver == 'qr' and n > 3")
    with pytest.raises(InputError, match="no experiment of s meets solver == 'qr'") as caught:
        compare_studies(sqlite, "s", "s", "wtime", where=where)
    assert caught.value.diagnostics[0].hint == "solver is cg or lu"
    rows = [{"n": 1, "solver": "cg", "status": "failed"}]
    fill(sqlite, "bad", {"n": "int", "solver": "str"}, {"wtime": "real s"}, rows)
    with pytest.raises(InputError, match="bad has no results to compare: 1 experiment failed"):
        compare_studies(sqlite, "s", "bad", "wtime")


def counted(values, *, declared=True):
    """A study with a metric that is a count: its values by n."""
    frame = pd.DataFrame(
        [{"n": n, "repeat": 1, "status": "ok", "round": 1, "host": "here", "started": 0.0,
          "ended": 1.0, "sweeps": value} for n, value in values]
    )  # fmt: skip
    frame.attrs = {"study": f"s{len(values)}{declared}", "units": {}, "parameters": ["n"]}
    frame.attrs["exact"] = declared
    return frame


def test_exact_values_need_no_blocks():
    old = counted([(1, 60), (2, 128), (3, 301)])
    found = compare(old, counted([(1, 60), (2, 120), (3, 302), (4, 9)]), "sweeps")
    assert verdicts(found) == ["same", "less", "more"]
    assert found.pairs[1].interval == pytest.approx((120 / 128, 120 / 128))
    assert found.overall.verdict == "differs"
    assert "3 points: 1 same, 1 less, 1 more" in found.summary
    same = compare(old, counted([(1, 60), (2, 128), (3, 301), (4, 9)]), "sweeps")
    assert same.overall.verdict == "same"


def test_exact_values_of_interleaved_runs_have_no_margin():
    old, new = interleaved()
    old, new = old.assign(wtime=100), new.assign(wtime=101)
    old.attrs["exact"] = new.attrs["exact"] = True
    found = compare(old, new, "wtime")
    assert {*verdicts(found), found.overall.verdict} == {"slower"}


def test_exact_values_that_repeats_belie_are_as_unclear_as_any():
    old, new = counted([(1, 60), (1, 61), (2, 5)]), counted([(1, 60), (2, 5)])
    assert verdicts(compare(old, new, "sweeps")) == ["unclear (not interleaved)", "same"]
    new = counted([(1, 60), (2, 5)], declared=False)
    assert verdicts(compare(old, new, "sweeps")) == ["unclear (not interleaved)"] * 2


def disturbing(effect, seed, blocks=20):
    """Equal versions, of which a run of the new one makes the next run slower by *effect*."""
    old, new = interleaved(seed=seed, blocks=blocks)
    table = pd.concat([old, new]).sort_values("started")
    follows_new = table["version"].shift() == "new"
    table["wtime"] = table["wtime"] * np.where(follows_new, 1 + effect, 1)
    return split(table)


def test_a_version_that_disturbs_the_next_run_is_not_called_different():
    """Without the check 20 of 20 would be called faster, with a disturbance of 3% 17 of 20."""
    words = [compare(*disturbing(0.05, seed, blocks=50), "wtime") for seed in range(20)]
    disturbed = [found for found in words if found.overall.verdict == DISTURBED]
    assert len(disturbed) >= 18
    assert "--settle" in disturbed[0].summary[-1]
    equal = [compare(*disturbing(0.0, seed, blocks=50), "wtime") for seed in range(20)]
    assert sum(found.overall.verdict == DISTURBED for found in equal) <= 3


def test_a_clear_difference_is_seen_though_runs_disturb_the_next_a_little():
    for seed in range(10):
        old, new = disturbing(0.03, seed)
        new["wtime"] *= 1.2
        assert compare(old, new, "wtime").overall.verdict == "slower"


def test_medians_that_jump_between_two_modes_are_told_of():
    """Pairs agree within 0.1%; that 11 and 9 of 20 blocks were slow decides both medians."""
    old, new = interleaved()
    slow = np.arange(20) % 2 == 0
    for part, factors in ((old, slow.copy()), (new, slow.copy())):
        part["wtime"] = 1.0 + 0.001 * np.arange(20) / 20
        part.loc[factors, "wtime"] *= 1.5
    old.loc[0, "wtime"], new.loc[1, "wtime"] = 1.0, 1.5
    found = compare(old, new, "wtime")
    assert 0.99 < found.ratio < 1.01
    assert any("two modes" in note for note in found.notes)
    assert not any("two modes" in note for note in compare(*interleaved(), "wtime").notes)
