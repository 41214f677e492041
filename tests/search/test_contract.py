"""What every engine promises: the suite that plug-ins inherit, for our own engines."""

import pytest

import zenturio as zen
from zenturio.search import Budget, Directions, SearchLoop, drive, make, names
from zenturio.testing.engines import EngineContract

FINITE = EngineContract.spaces[:2]


@pytest.mark.parametrize("engine", [*names(), "optuna:CmaEs"])
class TestEngines(EngineContract):
    @pytest.fixture(autouse=True)
    def _chosen(self, engine):
        self.engine = engine
        if engine == "exhaustive":
            self.spaces = FINITE

    def search(self, problem):
        return make(self.engine, problem)

    @pytest.mark.slow
    def test_a_search_whose_process_was_killed_goes_on_in_another_one(self):
        super().test_a_search_whose_process_was_killed_goes_on_in_another_one()

    def test_several_objectives_are_refused_or_searched(self):
        if self.engine == "optuna:CmaEs":
            pytest.skip("CMA-ES knows one objective only")
        super().test_several_objectives_are_refused_or_searched()


class Stubborn:
    """An engine that does not remember what it asked for."""

    def __init__(self, space, choice, steady=False):
        self.space, self.choice, self.heard, self.steady = space, choice, [], steady

    def ask(self, limit):
        return [self.space.point(self.choice(len(self.heard) + i)) for i in range(limit)]

    def tell(self, trials):
        self.heard += [(trial.point["n"], trial.scores) for trial in trials]


def tried(search, budget, **more):
    loop, calls = SearchLoop(search, Directions(), Budget(budget), **more), []

    def objective(point):
        calls.append(point["n"])
        return (float(point["n"]),)

    return loop, calls, list(drive(loop, objective))


@pytest.mark.parametrize("steady", [True, False])
def test_no_point_is_tried_twice_whatever_an_engine_asks_for(steady):
    space = zen.Space(n=[1, 2, 3])
    engine = Stubborn(space, lambda i: i * i % 3, steady)
    loop, calls, trials = tried(engine, 40)
    assert sorted(calls) == [1, 2]
    assert len(trials) == 2
    assert loop.stop_reason == "exhausted"
    assert len(engine.heard) > 2  # it hears of each point that it asks for
    assert {score for n, (score,) in engine.heard if n == 2} == {2.0}


def test_an_engine_that_finds_new_points_in_the_end_is_not_exhausted():
    engine = Stubborn(zen.Space(n=range(9)), lambda i: 0 if i < 50 else (i - 50) % 9)
    _, calls, _ = tried(engine, 100)
    assert sorted(calls) == list(range(9))


def test_a_repetition_is_told_in_its_turn_whatever_is_ready_first():
    space = zen.Space(n=range(5))

    def heard(order):
        engine = Stubborn(space, lambda i: [0, 1, 0, 2][i % 4], steady=True)
        loop = SearchLoop(engine, Directions(), Budget(9))
        away = {each.point["n"]: each.number for each in loop.ask(4)}
        for n in order:
            loop.tell(away[n], (float(n),))
        loop.ask(1)
        return engine.heard[:4]

    expected = [(0, (0.0,)), (1, (1.0,)), (0, (0.0,)), (2, (2.0,))]
    assert heard([0, 1, 2]) == heard([2, 1, 0]) == heard([1, 2, 0]) == expected


def test_points_may_be_tried_again_where_that_is_asked_for():
    _, calls, _ = tried(Stubborn(zen.Space(n=[1, 2]), lambda i: i % 2), 40, allow_repeats=True)
    assert len(calls) == 40
