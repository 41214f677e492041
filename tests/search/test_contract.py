"""What every engine promises: the suite that plug-ins inherit, for our own engines."""

import random
import threading

import pytest

import zenturio as zen
from zenturio.search import Budget, Directions, SearchLoop, SearchProblem, drive, make, names
from zenturio.testing.engines import EngineContract

FINITE = EngineContract.spaces[:2]


@pytest.mark.parametrize("engine", [*(n for n in names() if n != "exhaustive"), "optuna:CmaEs"])
class TestEngines(EngineContract):
    @pytest.fixture(autouse=True)
    def _chosen(self, engine):
        self.engine = engine
        self.may_end_early = engine == "one-at-a-time"  # it ends when it has seen its lines

    def search(self, problem):
        return make(self.engine, problem)

    @pytest.mark.slow
    def test_a_search_whose_process_was_killed_goes_on_in_another_one(self):
        super().test_a_search_whose_process_was_killed_goes_on_in_another_one()


class TestExhaustive(EngineContract):
    spaces = FINITE

    def search(self, problem):
        return make("exhaustive", problem)

    @pytest.mark.slow
    def test_a_search_whose_process_was_killed_goes_on_in_another_one(self):
        super().test_a_search_whose_process_was_killed_goes_on_in_another_one()


class Shuffled:
    """An engine that keeps all promises: each point once, near the best one in between."""

    order_independent = False
    multi_objective = True

    def __init__(self, problem):
        self.problem, self.trials = problem, []
        self.left = list(problem.space)
        random.Random(problem.seed).shuffle(self.left)

    def ask(self, limit):
        if self.trials:
            best = min(self.trials, key=lambda trial: sum(self.losses(trial)))
            self.left.sort(key=lambda point: self.distance(point, best.point))
        points, self.left = self.left[:limit], self.left[limit:]
        return points

    def tell(self, trials):
        trials = list(trials)
        self.trials += trials
        known = {trial.point for trial in trials}
        self.left = [point for point in self.left if point not in known]

    def losses(self, trial):
        return self.problem.directions.losses(trial.scores)

    def distance(self, point, other):
        return sum(point[name] != other[name] for name in point)


class GivesUp(Shuffled):
    def ask(self, limit):
        return super().ask(limit) if len(self.trials) < 16 else []


class GivesUpAfterFailures(Shuffled):
    def ask(self, limit):
        failed = self.trials and all(self.losses(each) == (float("inf"),) for each in self.trials)
        return [] if failed else super().ask(limit)


class ProposesAgain(Shuffled):
    def ask(self, limit):
        again = [trial.point for trial in self.trials[:1]]
        return [*again, *super().ask(limit - len(again))]


class LoopsWhenAllIsSeen(Shuffled):
    def ask(self, limit):
        while not (points := super().ask(limit)):
            pass
        return points


class WaitsWhenAllIsSeen(Shuffled):
    def ask(self, limit):
        return super().ask(limit) or threading.Event().wait()


class LoopsOverFailures(Shuffled):
    def tell(self, trials):
        super().tell(trials)
        while all(self.losses(trial) == (float("inf"),) for trial in self.trials):
            pass


class LearnsFromOneObjective(Shuffled):
    def losses(self, trial):
        return super().losses(trial)[:1]


class FailsAtSeveralObjectives(Shuffled):
    def ask(self, limit):
        if len(self.problem.directions) > 1:
            raise ValueError("there are several objectives")
        return super().ask(limit)


class IgnoresDirections(Shuffled):
    def losses(self, trial):
        return trial.scores or (1e9,)


class CountsTells(Shuffled):
    """Where it goes depends on how many trials it is told of at a time, as no kill repeats."""

    order_independent = True
    tells = 0

    def ask(self, limit):
        return super().ask(min(limit, 1))

    def tell(self, trials):
        super().tell(trials)
        self.tells += 1
        random.Random(self.tells).shuffle(self.left)


SPENT = "test_every_point_is_valid_none_is_tried_twice_and_the_budget_is_spent"
FAILURES = "test_it_survives_that_everything_fails"
ENDS = "test_a_search_ends"
SEVERAL = "test_several_objectives_are_refused_or_searched"
KILLED = "test_a_search_that_was_killed_after_any_trial_goes_on_to_the_same_trials"


class BrokenContract(EngineContract):
    __test__ = False
    spaces = FINITE
    seconds = 0.05

    def __init__(self, engine):
        self.search = engine


@pytest.mark.parametrize(
    ("engine", "law", "message"),
    [
        (GivesUp, SPENT, "gave up: 16 of 25 trials"),
        (GivesUpAfterFailures, FAILURES, "gave up: 8 of 25"),
        (ProposesAgain, SPENT, "is proposed again"),
        (LoopsWhenAllIsSeen, ENDS, "ask does not return"),
        (WaitsWhenAllIsSeen, ENDS, "ask does not return"),
        (LoopsOverFailures, FAILURES, "tell does not return"),
        (LearnsFromOneObjective, SEVERAL, "learns from one objective alone"),
        (FailsAtSeveralObjectives, SEVERAL, "there are several objectives"),
        (IgnoresDirections, SEVERAL, "takes one direction for another"),
        (CountsTells, KILLED, "killed after"),
    ],
)
def test_a_broken_engine_breaks_a_law(engine, law, message):
    sound = BrokenContract(Shuffled)
    sound.seconds = 60.0
    getattr(sound, law)()
    with pytest.raises((AssertionError, ValueError), match=message):
        getattr(BrokenContract(engine), law)()


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("sampler", ["TPE", "CmaEs", "NSGAII", "NSGAIII", "QMC", "Random"])
def test_samplers_of_optuna_refuse_several_objectives_or_search_them(sampler):
    contract = BrokenContract(lambda problem: make(f"optuna:{sampler}", problem))
    contract.seconds = 60.0
    contract.test_several_objectives_are_refused_or_searched()


def test_cma_es_refuses_several_objectives_before_the_first_point():
    directions = Directions(["minimize", "maximize"])
    with pytest.raises(zen.ZenError, match="optuna:CmaEs takes one objective, and there are 2"):
        make("optuna:CmaEs", SearchProblem(FINITE[0], directions, 1, 9))


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
