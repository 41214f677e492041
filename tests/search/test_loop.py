"""What a loop promises: order, budgets, stops, and that what is known is not tried again."""

import math
import random
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

import zenturio as zen
from zenturio.errors import InputError
from zenturio.search import (
    Budget,
    Directions,
    SearchLoop,
    SearchProblem,
    StopRules,
    Trial,
    drive,
    make,
    parse_budget,
    parse_stop_rules,
    run_concurrent,
)

SPACE = zen.Space(n=zen.span(1, 40), k=["a", "b", "c"])


def cost(point):
    return (float((point["n"] * 7 + ord(point["k"])) % 41),)


def piloted(engine="random", budget=None, stops=(), seed=1, directions="minimize", **more):
    directions = Directions(directions)
    search = (
        make(engine, SearchProblem(SPACE, directions, seed)) if isinstance(engine, str) else engine
    )
    return SearchLoop(search, directions, parse_budget(budget), parse_stop_rules(stops), **more)


class Touchy:
    """An engine that minds when it is told: its next points depend on the last trial."""

    def __init__(self):
        self.state = 1

    def ask(self, limit):
        self.state = self.state * 31 % 997
        return [SPACE.point((self.state + at) % SPACE.size) for at in range(limit)]

    def tell(self, trials):
        for number, trial in enumerate(trials):
            self.state = (self.state * 17 + number + int(trial.scores[0])) % 997


def scrambled(loop, slots, seed):
    """Drive with *slots* at a time, any of which may be ready first."""
    chance, away = random.Random(seed), []
    while not loop.is_over:
        away += loop.ask(slots - len(away))
        if away:
            number, point = away.pop(chance.randrange(len(away)))
            loop.tell(number, cost(point))
    return loop.trials


@given(st.integers(1, 9), st.integers(0, 99), st.sampled_from(["random", "touchy"]))
def test_the_trials_are_the_same_whatever_is_ready_first(slots, seed, engine):
    engine = Touchy if engine == "touchy" else lambda: "random"
    expected = list(drive(piloted(engine(), budget=60), cost))
    assert scrambled(piloted(engine(), budget=60), slots, seed) == expected


@given(st.integers(1, 200), st.integers(1, 9))
def test_the_budget_is_spent_exactly(budget, slots):
    trials = scrambled(piloted(budget=budget), slots, 1)
    assert len(trials) == min(budget, SPACE.size)


def test_a_search_is_over_with_the_last_trial_of_its_budget():
    loop = piloted(budget=2)
    first, last = loop.ask(2)
    loop.tell(*_evaluated(first))
    assert not loop.stop_reason
    loop.tell(*_evaluated(last))
    assert (loop.is_over, loop.stop_reason) == (True, "budget")


def _evaluated(trial):
    return trial.number, cost(trial.point)


def test_what_is_known_is_told_and_not_tried():
    whole = list(drive(piloted(budget=50), cost))
    known = {trial.point: trial.scores for trial in whole[:30]}
    tried = []
    loop = piloted(budget=50, cached=lambda points: [known.get(point) for point in points])
    assert list(drive(loop, lambda point: tried.append(point) or cost(point))) == whole
    assert tried == [trial.point for trial in whole[30:]]
    assert loop.cached_count == 30


def test_a_search_of_which_all_is_known_takes_nothing():
    whole = list(drive(piloted(budget=50), cost))
    loop = piloted(budget=50, cached=lambda points: [cost(point) for point in points])
    assert loop.ask(3) == []
    assert loop.trials == whole
    assert loop.is_over


def test_the_best_is_never_a_failure():
    scores = {1: (), 2: (None,), 3: (math.nan,), 4: (-math.inf,), 5: (3.0,), 6: (4.0,)}
    loop = piloted("exhaustive", budget=18)
    trials = list(drive(loop, lambda point: scores[point["n"]]))
    assert loop.best.scores == (3.0,)
    assert Directions().best(trials) == loop.best
    assert Directions().best(trials[:12]) is None


def test_maximising_finds_the_largest():
    loop = piloted(directions="maximize")
    list(drive(loop, cost))
    assert loop.best.scores == (40.0,)


def test_of_equal_trials_the_first_is_the_best():
    loop = piloted("exhaustive")
    list(drive(loop, lambda _point: (1.0,)))
    assert loop.best is loop.trials[0]


@pytest.mark.parametrize(("directions", "target"), [("minimize", 3), ("maximize", 38)])
def test_a_target_that_is_reached_ends_the_search(directions, target):
    loop = piloted(directions=directions, stops=f"target={target}")
    trials = scrambled(loop, 7, 3)
    good = Directions(directions)
    assert loop.stop_reason == "target"
    assert good.losses(trials[-1].scores) <= good.losses((target,))
    assert all(good.losses(trial.scores) > good.losses((target,)) for trial in trials[:-1])


@given(st.integers(1, 40), st.integers(1, 9))
def test_stalling_ends_the_search_after_so_many_trials_without_improvement(patience, slots):
    loop = piloted(stops=f"stall={patience}")
    trials = scrambled(loop, slots, 3)
    scores = [trial.scores[0] for trial in trials]
    last = scores.index(min(scores))
    assert loop.stop_reason == "exhausted" or len(trials) == last + 1 + patience


def test_stalling_may_be_a_share_of_the_budget():
    loop = piloted(budget=100, stops="stall=7%")
    list(drive(loop, lambda _point: (1.0,)))
    assert len(loop.trials) == 8


def test_a_share_of_no_budget_is_refused():
    with pytest.raises(InputError, match="needs a budget of trials"):
        piloted(stops="stall=7%")


def test_time_ends_the_asking_and_what_is_away_still_counts(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("zenturio.search.loop.monotonic", lambda: now[0])
    loop = piloted(budget="0.05s")
    taken = loop.ask(3)
    now[0] = 0.06
    assert loop.ask(1) == []
    assert not loop.is_over
    for number, point in taken:
        loop.tell(number, cost(point))
    assert (loop.is_over, loop.stop_reason, len(loop.trials)) == (True, "time", 3)


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("500", Budget(500)),
        ("10min", Budget(None, 600)),
        ("500, 1.5h", Budget(500, 5400)),
        (None, Budget()),
        (7, Budget(7)),
    ],
)
def test_budgets_are_read(text, budget):
    assert parse_budget(text) == budget


@pytest.mark.parametrize("text", ["0", "-1", "ten", "5 parsecs", "", "1e3"])
def test_what_is_no_budget_is_refused(text):
    with pytest.raises(InputError, match="is not a budget"):
        parse_budget(text)


def test_stops_are_read():
    assert parse_stop_rules(["target=-1.5", "stall=100"]) == StopRules(-1.5, 100)
    assert parse_stop_rules("stall=20%,target=1e3") == StopRules(1000.0, None, 20.0)


@pytest.mark.parametrize("text", ["stall", "stall=0", "stall=1.5", "stall=-3%", "target=x"])
def test_what_is_no_rule_is_refused(text):
    with pytest.raises(InputError, match="write"):
        parse_stop_rules(text)


def test_a_rule_that_is_nearly_right_is_corrected():
    with pytest.raises(InputError, match="did you mean 'target'"):
        parse_stop_rules("tagret=1")


def test_a_front_has_no_trial_that_another_covers():
    directions = Directions(["minimize", "maximize"])
    pairs = [(3, 3), (1, 1), (2, 5), (2, 4), (1, 1), (math.nan, 9), (4, 5)]
    trials = [Trial(SPACE.point(at), pair) for at, pair in enumerate(pairs)]
    assert directions.front(trials) == [trials[1], trials[2]]


def test_goals_that_are_nearly_right_are_corrected():
    with pytest.raises(InputError, match="did you mean 'maximize'"):
        Directions("maximise")


def test_slots_are_kept_busy_where_experiments_take_unequal_times():
    """Each that ends lets the next begin, though one of the first lasts as long as all others."""
    longest, over, busy = [], threading.Event(), []

    def slow(point):
        if not longest:
            longest.append(point)
        if longest[0] is point:
            over.wait()
        return cost(point)

    def submit(point):
        future = pool.submit(slow, point)
        busy.append(future)
        if len(busy) == 50:
            over.set()
        return future

    with ThreadPoolExecutor(4) as pool:
        trials = list(run_concurrent(piloted(budget=100), submit, 4))
    assert trials == list(drive(piloted(budget=100), cost))


def test_a_future_that_fails_ends_the_search_with_its_error():
    away = []

    def submit(_point):
        away.append(Future())
        if len(away) == 3:
            away[1].set_exception(OSError("gone"))
        return away[-1]

    with pytest.raises(OSError, match="gone"):
        list(run_concurrent(piloted(), submit, 3))
    assert [future.cancelled() for future in away] == [True, False, True]
