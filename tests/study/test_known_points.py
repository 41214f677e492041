"""The points that a search begins with, and that it begins with again after an interruption."""

import json
from types import SimpleNamespace

import pytest

from zenturio.annotate.model import Goal
from zenturio.annotate.scan import scan
from zenturio.errors import InputError
from zenturio.experiment import Outcome
from zenturio.expression import parse
from zenturio.record import Field
from zenturio.record.open import open_repository
from zenturio.search import Budget
from zenturio.space import Space, span
from zenturio.study.driver import search_source
from zenturio.study.driver.experiment_source import PointSelection, select_points
from zenturio.study.driver.search_source import RecordedPoints, SearchSpec, collect_advice
from zenturio.study.driver.study_driver import DriverSettings
from zenturio.study.local_run import run_locally
from zenturio.study.study_request import PlaceOptions

GOALS = (Goal("minimize", parse("cost")),)


class Generator:
    """Makes one experiment of each point, named by its number."""

    def experiments(self, point):
        digest = f"{point['n']:064x}"[::-1]
        return (SimpleNamespace(digest=digest, digests=(digest,), values=dict(point)),)


class Results:
    """A repository with a study in which every third experiment failed, behind one of others."""

    def __init__(self, numbers, other_machine=()):
        self.numbers, self.other_machine = list(numbers), set(other_machine)

    def studies(self):
        return SimpleNamespace(name="of other parameters"), SimpleNamespace(name="s")

    def definition(self, study):
        return SimpleNamespace(parameters=(Field("n" if study == "s" else "m", "int"),))

    def column_pages(self, study, _request):
        assert study == "s"
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
    return RecordedPoints(results, Generator(), GOALS).collect(space, ("here",), frozen)


def test_known_points_have_scores_and_failed_ones_have_none():
    known = collect(Results(range(8), other_machine=[4]), Space(n=span(1, 5)))
    assert {point["n"]: scores for point, scores in known.values()} == {
        1: (0.5,), 2: (1.0,), 3: (), 5: (2.5,)
    }  # fmt: skip


def test_frozen_points_are_the_same_when_there_are_more_results(monkeypatch):
    monkeypatch.setattr(search_source, "MOST_KNOWN", 5)
    monkeypatch.setattr(search_source, "MOST_COMPARED", 10)
    monkeypatch.setattr(search_source, "LOOK_UPS", 5)
    space = Space(n=span(1, 300))
    begun = collect(Results(range(1, 101)), space)
    assert len(begun) == 5
    assert max(point["n"] for point, _ in begun.values()) > 20  # not the first ones alone
    resumed = collect(Results(range(1, 301)), space, tuple(begun))
    assert list(resumed.items()) == list(begun.items())
    assert collect(Results(range(1, 301)), space, ()) == {}


def test_advice_is_frozen_when_the_search_begins():
    spec = SearchSpec("random", learn_from="old", known=(), advice=(((1, "a"), 0.5),))
    notes = {"search": json.loads(json.dumps(spec.note()))}
    again = SearchSpec("random", learn_from="old").resumed(notes, 1)
    assert again.advice == spec.advice
    assert SearchSpec("random", learn_from="other").resumed(notes, 1).advice == ()


class MeasuredTwice(Results):
    """A study whose points have two repeats here and one elsewhere, which is better."""

    def column_pages(self, _study, _request):
        numbers = [*range(600, 0, -1), *range(600, 0, -1), 7]
        costs = [n / 2 for n in numbers[:600]] + [n / 2 + 1.0 for n in numbers[:600]] + [-1.0]
        yield SimpleNamespace(
            parameters={"n": numbers}, metrics={"cost": costs}, machines=[1] * 1200 + [2]
        )


def test_advice_is_of_one_machine_of_this_space_and_of_all_ranks():
    advice = collect_advice(MeasuredTwice([]), "s", Space(n=span(1, 500)), GOALS[0])
    assert [values for (values,), _ in advice[:100]] == list(range(1, 101))
    assert [score for _, score in advice[:3]] == [1.0, 1.5, 2.0]
    assert len(advice) <= 300
    assert advice[-1][0] == (499,)
    with pytest.raises(InputError, match="none of its results"):
        collect_advice(MeasuredTwice([]), "s", Space(n=span(3000, 3001)), GOALS[0])
    with pytest.raises(InputError, match="no parameter m"):
        collect_advice(MeasuredTwice([]), "s", Space(m=span(1, 2)), GOALS[0])


def test_a_search_begins_with_known_results_and_goes_on_as_it_began(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.sh").write_text(
        '#ZEN$ PARAM n = { 1:40 }\n#ZEN$ RUN "echo cost {n}"\n'
        '#ZEN$ METRIC cost FROM stdout REGEX "cost (\\d+)"\n#ZEN$ OBJECTIVE MINIMIZE cost\n'
    )
    repository = open_repository(tmp_path / "zenturio.db")

    def run(slots, **more):
        application = scan([str(tmp_path / "p.sh")])
        points = more.pop("points", PointSelection.none(application.space))
        summary = run_locally(
            application, points, db=repository, place=PlaceOptions(slots),
            settings=DriverSettings(), **more,
        )  # fmt: skip
        return summary.ok, summary.cached, repository.definition("p").notes.get("search")

    space = scan([str(tmp_path / "p.sh")]).space
    assert run(2, points=select_points(space, limit=5)) == (5, 0, None)
    search = SearchSpec("random", budget=Budget(3), seed=1)
    ok, _, notes = run(2, search=search)
    assert (ok, notes["slots"], len(notes["known"])) == (3, 2, 5)
    assert run(1, search=search) == (0, 3, notes)
    repository.close()
