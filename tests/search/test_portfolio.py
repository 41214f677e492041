"""A portfolio gives more turns to engines that find more, and tells each what the others found."""

import pytest

import zenturio as zen
from zenturio.errors import InputError
from zenturio.search import Budget, Directions, SearchLoop, SearchProblem, drive, make
from zenturio.search.portfolio import Portfolio, PortfolioMember

SPACE = zen.Space(**{f"x{i}": zen.span(0, 60) for i in range(6)})


def bowl(point):
    return (float(sum((value - 23) ** 2 for value in point.values())),)


class Spy:
    """Counts what an engine is asked for, and keeps what it is told."""

    order_independent = True

    def __init__(self, search):
        self.search, self.asked, self.told = search, [], []

    def ask(self, limit):
        points = self.search.ask(limit)
        self.asked += points
        return points

    def tell(self, trials):
        trials = list(trials)
        self.told += trials
        self.search.tell(trials)


def watched(engines, budget=300, **settings):
    search = make(
        "portfolio", SearchProblem(SPACE, Directions(), 4, budget), {"engines": engines, **settings}
    )
    for member in search._members:
        member.search = Spy(member.search)
    spies = [member.search for member in search._members]
    loop = SearchLoop(search, Directions(), Budget(budget))
    return loop, list(drive(loop, bowl)), spies


def test_the_engine_that_finds_more_gets_more():
    _, _, (hill, chance) = watched("hill,random")
    assert len(hill.asked) > 1.5 * len(chance.asked) > 0


def test_curiosity_gives_all_their_turn():
    _, _, (hill, chance) = watched("hill,random", curiosity=100)
    assert len(hill.asked) < 1.3 * len(chance.asked)


def test_each_engine_hears_of_every_trial_once():
    _, trials, spies = watched("model,hill,random", budget=60, round=5)
    *earlier, _ = [trials[at : at + 5] for at in range(0, len(trials), 5)]
    heard = {trial.point for part in earlier for trial in part}
    for spy in spies:
        points = [trial.point for trial in spy.told]
        assert len(set(points)) == len(points)
        assert heard <= set(points)


def test_what_one_engine_tried_no_other_tries_again():
    _, trials, _ = watched("ga,ga,random", budget=200)
    assert len({trial.point for trial in trials}) == len(trials) == 200


def test_a_turn_is_worth_more_the_less_is_known_of_an_engine():
    new, poor, rich = PortfolioMember(None), PortfolioMember(None), PortfolioMember(None)
    for _ in range(5):
        poor.credit(0.0)
        rich.credit(1.0)
    assert new.value(10, 0.5) > rich.value(10, 0.5) > poor.value(10, 0.5)
    before = rich.value(10, 0.0)
    rich.credit(0.0)
    assert rich.value(10, 0.0) < before


@pytest.mark.parametrize("engines", ["", "portfolio", "ga,portfolio"])
def test_a_portfolio_of_nothing_or_of_itself_is_refused(engines):
    with pytest.raises(InputError, match="is not a portfolio"):
        make("portfolio", SearchProblem(SPACE), {"engines": engines})


def test_its_engines_are_those_of_the_docs():
    assert Portfolio.Settings().engines == "model,ga,hill,simplex"
