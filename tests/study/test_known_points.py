"""The points that a search begins with, and that it begins with again after an interruption."""

from types import SimpleNamespace

from zenturio.annotate.model import Goal
from zenturio.experiment import Outcome
from zenturio.expression import parse
from zenturio.record import Field
from zenturio.space import Space, span
from zenturio.study.driver import known_points
from zenturio.study.driver.known_points import KnownPoints

GOALS = (Goal("minimize", parse("cost")),)


class Generator:
    """Makes one experiment of each point, named by its number."""

    def experiments(self, point):
        digest = f"{point['n']:064x}"[::-1]
        return (SimpleNamespace(digest=digest, digests=(digest,), values=dict(point)),)


class Results:
    """A repository with one study, in which every third experiment failed."""

    def __init__(self, numbers, other_machine=()):
        self.numbers, self.other_machine = list(numbers), set(other_machine)

    def studies(self):
        return (SimpleNamespace(name="s"),)

    def definition(self, _study):
        return SimpleNamespace(parameters=(Field("n", "int"),))

    def column_pages(self, _study, _request):
        yield SimpleNamespace(parameters={"n": self.numbers})

    def find_outcomes(self, digests, kinds=None):
        assert kinds == ("here",)
        numbers = {digest: int(digest[::-1], 16) for digest in digests}
        return {
            digest: Outcome(digest, "failed" if n % 3 == 0 else "ok", metrics={"cost": n / 2})
            for digest, n in numbers.items()
            if n not in self.other_machine
        }


def collect(results, space, frozen=None):
    return KnownPoints(results, Generator(), GOALS).collect(space, ("here",), frozen)


def test_known_points_have_scores_and_failed_ones_have_none():
    known = collect(Results(range(8), other_machine=[4]), Space(n=span(1, 5)))
    assert {point["n"]: scores for point, scores in known.values()} == {
        1: (0.5,), 2: (1.0,), 3: (), 5: (2.5,)
    }  # fmt: skip


def test_frozen_points_are_the_same_when_there_are_more_results(monkeypatch):
    monkeypatch.setattr(known_points, "MOST_KNOWN", 5)
    monkeypatch.setattr(known_points, "MOST_COMPARED", 10)
    monkeypatch.setattr(known_points, "LOOK_UPS", 5)
    space = Space(n=span(1, 300))
    begun = collect(Results(range(1, 101)), space)
    assert len(begun) == 5
    assert max(point["n"] for point, _ in begun.values()) > 20  # not the first ones alone
    resumed = collect(Results(range(1, 301)), space, tuple(begun))
    assert list(resumed.items()) == list(begun.items())
    assert collect(Results(range(1, 301)), space, ()) == {}
