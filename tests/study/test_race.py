"""Searches with REPEAT: few repeats for points that are behind, all for the best one."""

import random
from types import SimpleNamespace

import pytest

from zenturio.annotate.model import Goal, Repeat, Until
from zenturio.experiment import Outcome
from zenturio.expression import parse
from zenturio.search import Budget, Directions, SearchLoop, SearchProblem, make
from zenturio.space import Space, span
from zenturio.study.driver.search_source import (
    Race,
    SearchSource,
    expected_point,
    first_repeats,
    is_raced,
    mean_scores,
)

GOALS = (Goal("minimize", parse("cost")),)
SPACE = Space(n=span(1, 200))
UNTIL = Until("cost", 0.05, 4)


class Generator:
    """Makes experiments that are named by their point and repeat."""

    identity = None

    def experiment(self, point, repeat):
        digest = f"{point['n']}/{repeat}"
        return SimpleNamespace(digest=digest, repeat=repeat, values=dict(point))


def measured(experiment, noise):
    """A repeat's cost: twice as much at n = 200 as at n = 1, and noise that its name decides."""
    n, draw = experiment.values["n"], random.Random(experiment.digest)
    cost = (100 + n / 2) * draw.lognormvariate(0, noise)
    return Outcome(experiment.digest, "ok", metrics={"cost": cost})


def searched(noise=0.03, repeats=8, slots=1, budget=40, order=None, goals=GOALS):
    """Search with so many *slots*; outcomes arrive in an order that the seed *order* decides."""
    problem = SearchProblem(SPACE, Directions(), 1, budget, slots=slots)
    loop = SearchLoop(make("random", problem), Directions(), Budget(budget))
    lag = 4 * slots - 1 if slots > 1 else 0
    source = SearchSource(loop, goals, Generator(), Repeat(repeats), budget * repeats, lag)
    runs, in_flight, draw = {}, [], random.Random(order)
    while True:
        for experiment in source:
            if experiment is None:
                continue
            in_flight.append(experiment)
            if len(in_flight) >= slots:
                break
        if not in_flight:
            break
        experiment = in_flight.pop(draw.randrange(len(in_flight)) if order else 0)
        runs.setdefault(experiment.values["n"], []).append(experiment.repeat)
        source.complete(experiment, measured(experiment, noise))
    assert source.over
    return source, runs


def test_points_that_are_behind_have_few_repeats_and_the_best_one_has_all():
    source, runs = searched()
    best = source.loop.best.point["n"]
    assert len(source.loop.trials) == 40
    assert runs[best] == list(range(1, 9))
    assert sum(map(len, runs.values())) < 40 * 8 / 2
    assert source.stops["behind"] > 20
    assert all(len(runs[n]) == 2 for n in runs if n > best + 60 and n not in list(runs)[:6])


def test_the_number_of_repeats_does_not_depend_on_the_order_of_outcomes():
    trials = []
    for order in (None, 1, 2):
        source, runs = searched(slots=4, order=order)
        trials.append((source.loop.trials, {n: len(numbers) for n, numbers in runs.items()}))
    assert trials[0] == trials[1] == trials[2]


@pytest.mark.parametrize("repeats", [1, 2])
def test_one_or_two_repeats_are_not_raced(repeats):
    _, runs = searched(repeats=repeats)
    assert {len(numbers) for numbers in runs.values()} == {repeats}


def test_points_without_noise_have_all_repeats_because_nothing_says_how_sure_they_are():
    _, runs = searched(noise=0.0, repeats=3, budget=12)
    assert {len(numbers) for numbers in runs.values()} == {3}


def test_with_much_noise_the_reported_best_is_nearly_the_best_that_was_tried():
    source, runs = searched(noise=0.1, repeats=16, budget=60)
    gap = source.loop.best.point["n"] - min(runs)
    assert gap <= 12  # 6 percent of the cost at most, where one repeat deviates by 10
    assert sum(map(len, runs.values())) < 60 * 16 / 2


def test_a_trial_waits_for_those_that_it_is_compared_with():
    race = Race("maximize", 1)
    for number in range(4):
        race.complete(number, [9.0 + number, 9.2 + number, 9.1 + number])
    assert race.is_behind(6, [2.0, 2.1]) is None  # 4 is pending
    assert race.is_behind(5, [2.0, 2.1]) is True
    assert race.is_behind(5, [12.0, 12.1]) is False
    assert race.is_behind(5, [30.0, 30.1]) is False
    assert race.is_behind(5, []) is True
    assert race.is_behind(2, [2.0, 2.1]) is False  # two repeats say too little of noise


def test_an_outcome_of_an_experiment_that_the_search_has_not_proposed_changes_nothing():
    source, _ = searched(budget=4)
    trials, stranger = list(source.loop.trials), Generator().experiment({"n": 7}, 99)
    source.complete(stranger, measured(stranger, 0.0))
    assert (list(source.loop.trials), source.over) == (trials, True)


def test_a_trial_is_compared_with_those_that_lie_the_lag_before_it():
    race = Race("minimize", 2)
    scores = ([5.0, 5.2], [4.0, 4.2], [6.0, 6.2], [7.0, 7.2], [1.0, 1.2])
    for number, repeats in enumerate(scores):
        race.complete(number, repeats)
    # Trials 0 to 3 and its own two repeats have five degrees of freedom: enough; 4 is too near.
    assert race.is_behind(6, [9.0, 9.2]) is True
    assert race.is_behind(6, [3.0, 3.2]) is False
    assert race.is_behind(5, [9.0, 9.2]) is False  # four are too few
    assert race.is_behind(5, [9.0, 9.2, 9.1]) is True
    assert race.is_behind(0, [9.0, 9.2]) is False
    assert race.is_behind(8, [9.0, 9.2]) is None  # 5 is pending
    race.complete(5, [])  # all of its repeats failed
    assert race.is_behind(8, [9.0, 9.2]) is True
    assert race.is_behind(8, [0.9, 1.1]) is False


def test_a_point_is_behind_where_noise_explains_less():
    """The best one has a mean of 0, and all a deviation of 1: two standard errors are 2."""

    def pair(mean):
        return [mean - 1 / 2**0.5, mean + 1 / 2**0.5]

    for direction, sign in (("minimize", 1), ("maximize", -1)):
        race = Race(direction, 0)
        for number, mean in enumerate((2.0, 0.0, 4.0, 3.0)):
            race.complete(number, pair(sign * mean))
        behind = {mean: race.is_behind(4, pair(sign * mean)) for mean in (0, 1.9, 2.1, -3)}
        assert behind == {0: False, 1.9: False, 2.1: True, -3: False}


@pytest.mark.parametrize(
    ("repeat", "raced", "first"),
    [
        (Repeat(1), False, 1),
        (Repeat(2), False, 2),
        (Repeat(3), True, 2),
        (Repeat(9, warmup=3), True, 5),
        (Repeat(2, warmup=3), False, 5),
        (Repeat(9, until=UNTIL), False, 4),
        (Repeat(9, until=UNTIL, warmup=1), False, 5),
    ],
)
def test_how_many_runs_a_point_begins_with(repeat, raced, first):
    assert is_raced(repeat) is raced
    assert first_repeats(repeat) == first


def test_scores_are_means_of_the_repeats_that_have_one():
    assert mean_scores([(1.0, None), (4.0, None), (None, 3.0)]) == (2.5, 3.0)
    assert mean_scores([(None,), (None,)]) == (None,)
    assert mean_scores([]) == ()


def test_a_search_whose_results_scatter_expects_a_point_to_be_the_best():
    source, _ = searched(noise=0.1, repeats=1)
    expected = source.expected
    measured = [(trial.point, trial.scores[0]) for trial in source.loop.trials]
    assert expected == expected_point(GOALS[0], measured)
    assert (expected.goal, expected.is_share) == ("cost", True)
    assert (expected.at, expected.measured) in [(dict(point), score) for point, score in measured]
    assert expected.at["n"] < 60
    # The greatest of the same values turned over is the same point.
    turned = expected_point(
        Goal("maximize", parse("gain")), [(point, -score) for point, score in measured]
    )
    least = expected_point(GOALS[0], [(point, score - 1000) for point, score in measured])
    assert turned.goal == "gain"
    assert turned.measured < 0
    assert least.measured < 0
    assert turned.at["n"] < 60
    assert expected_point(GOALS[0], measured[:2]) is None
    assert searched(noise=0.1, repeats=2)[0].expected is None
    assert searched(noise=0.1, repeats=1, goals=(*GOALS, *GOALS))[0].expected is None
