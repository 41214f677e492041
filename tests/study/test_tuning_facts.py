"""What a search of a tuning came to: its best score, how soon, and that of its first generation."""

import pytest

from zenturio.search import Budget, Directions
from zenturio.space import Space
from zenturio.study.tuning.tuning_trials import OPENING, TuningProblem

NAN = float("nan")


def task(direction="minimize", engine="random"):
    return TuningProblem(engine, Space(x=range(50)), Directions([direction]), Budget(trials=9))


@pytest.mark.parametrize(
    ("direction", "scores", "numbers", "opening", "facts"),
    [
        ("minimize", [5, 3, 4, 1, 1], None, 2, {"best": 1, "needed": 4, "first": 3}),
        ("maximize", [5, 3, 4, 6, 6], None, 2, {"best": 6, "needed": 4, "first": 5}),
        ("minimize", [5, 3, 4], None, 3, {"best": 3, "needed": 2, "first": 3}),
        ("minimize", [5, 3, 4], None, 1, {"best": 3, "needed": 2, "first": 5}),
        # Numbers of trials, where some had been known.
        ("minimize", [5, 3, 4], [2, 7, 9], 6, {"best": 3, "needed": 7, "first": 5}),
        ("minimize", [5, 3, 4], [2, 7, 9], 7, {"best": 3, "needed": 7, "first": 3}),
        # None of the first generation has a score.
        ("minimize", [None, NAN, 4], None, 2, {"best": 4, "needed": 3}),
        ("minimize", [None, None], None, 2, {}),
        ("minimize", [], None, 2, {}),
    ],
)
def test_the_facts_of_a_search(direction, scores, numbers, opening, facts):
    scores = [(score,) for score in scores]
    numbers = numbers or range(1, len(scores) + 1)
    found = task(direction).facts(scores, numbers, 20, opening)
    assert found == {"visited": 20, **facts}


def test_the_first_generation_is_the_engines_own():
    assert task().search({}, 1)[1] == OPENING
    assert task(engine="ga").search({"population": 12}, 1)[1] == 12
    first, again, other = (task().search({}, seed)[0].ask(5) for seed in (1, 1, 2))
    assert list(first) == list(again) != list(other)
