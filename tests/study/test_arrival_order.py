"""The order in which results of a search arrive: recorded, taken up after kills, and replayed."""

import heapq
import random
from dataclasses import replace

import pytest

from zenturio.annotate.model import Goal, Repeat
from zenturio.cli.main import app
from zenturio.errors import InputError
from zenturio.experiment import Outcome
from zenturio.expression import parse
from zenturio.record.entities import PlacedRun
from zenturio.search import Budget
from zenturio.space import Space, span, uniform
from zenturio.study.driver.search_source import ArrivalOrder, SearchSource, SearchSpec
from zenturio.study.study_request import StudyRequest
from zenturio.testing.experiments import experiment

GOALS = (Goal("minimize", parse("cost")),)
SPACE = Space(n=span(1, 30), x=uniform(0, 1), k=["a", "b"])
BUDGET, SLOTS = 16, 4


class Generator:
    """Makes one experiment of all points with the same even ``n``."""

    identity = None

    def experiment(self, point, repeat):
        n, x, k = point["n"], point["x"], point["k"]
        salt = f"{n} {(x, k) if n % 2 else ''}"
        return experiment(1, {"n": n, "x": x, "k": k}, repeat=repeat, salt=salt)


def outcome_of(made):
    n, x = made.values["n"], made.values["x"]
    if n % 7 == 3:
        return Outcome(made.digest, "failed")
    return Outcome(made.digest, "ok", metrics={"cost": (n - 20) ** 2 + x + made.repeat / 9})


class Record:
    """What a database keeps of a search: outcomes, and their places in the order of arrival."""

    def __init__(self):
        self.outcomes, self.placed, self.ran = {}, [], []

    def source(self, spec, followed=(), repeats=1):
        order = ArrivalOrder("search", self.placed, followed)
        return SearchSource(
            spec.loop(SPACE, GOALS), GOALS, Generator(), Repeat(repeats), BUDGET,
            spec.lag(SPACE), order,
        )  # fmt: skip

    def run(self, spec, seed, kills_after=None, **options):
        """Drive a search, whose experiments last as *seed* says, until it is over or killed."""
        source, chance, now, running = self.source(spec, **options), random.Random(seed), 0.0, []
        while not source.over:
            for made in source:
                if made is None:
                    break
                if made.digest in self.outcomes:
                    source.complete(made, self.outcomes[made.digest])
                    continue
                lasts = now + chance.lognormvariate(0, 1)
                heapq.heappush(running, (lasts, len(self.ran), made))
                self.ran.append(made.digest)
                if len(running) >= SLOTS:
                    break
            if not running:
                continue
            now, _, made = heapq.heappop(running)
            _, block, turn = source.arrived(made)
            assert source.arrived(made) == ("search", block, turn)  # a commit may be tried again
            self.placed.append(PlacedRun(1, None, made.repeat, block, turn))
            self.outcomes[made.digest] = outcome_of(made)
            if len(self.outcomes) == kills_after:
                return source
            source.complete(made, self.outcomes[made.digest])
        return source


SPEC = SearchSpec("auto", {"candidates": 8}, Budget(BUDGET), seed=5, slots=SLOTS, known=())


@pytest.mark.parametrize("repeats", [1, 4])
def test_a_search_that_is_killed_after_any_result_is_the_one_that_its_record_replays(repeats):
    killed = Record()
    for count in range(1, BUDGET, 1 if repeats == 1 else 3):
        killed.run(SPEC, seed=count, kills_after=count, repeats=repeats)
    last = killed.run(SPEC, seed=99, repeats=repeats)
    assert last.arrivals.left_at is None
    assert len(last.loop.trials) == BUDGET
    assert len(killed.outcomes) < BUDGET * repeats
    turns = [run.turn for run in killed.placed]
    assert len(set(turns)) == len(turns)
    followed = sorted(killed.placed, key=lambda run: run.turn)
    # Elsewhere, where everything lasts as long as it likes.
    replayed = Record()
    again = replayed.run(SPEC, seed=1234, followed=followed, repeats=repeats)
    assert again.arrivals.left_at is None
    assert again.loop.trials == last.loop.trials
    assert sorted(replayed.placed) == sorted(killed.placed)
    # A replay that is killed itself.
    twice = Record()
    for count in (3, 9):
        twice.run(SPEC, seed=count, kills_after=count, followed=followed, repeats=repeats)
    third = twice.run(SPEC, seed=0, followed=followed, repeats=repeats)
    assert third.loop.trials == last.loop.trials


def test_other_orders_of_arrival_lead_elsewhere_unless_the_search_is_ordered():
    ways = [Record().run(SPEC, seed).loop.trials for seed in (1, 2)]
    assert {trial.point for trial in ways[0]} != {trial.point for trial in ways[1]}
    ordered = replace(SPEC, ordered=True)
    ways = [Record().run(ordered, seed).loop.trials for seed in (1, 2)]
    assert ways[0] == ways[1]


def test_an_order_of_another_search_is_left_and_told_of():
    first = Record()
    first.run(SPEC, seed=1)
    other = replace(SPEC, seed=6)
    followed = Record().run(other, seed=2, followed=[
        PlacedRun(1, None, 1, trial + 40, trial) for trial in range(1, 9)
    ])  # fmt: skip
    assert followed.arrivals.left_at == 0
    assert len(followed.loop.trials) == BUDGET


def test_a_replay_that_was_left_and_killed_goes_on_as_it_was_left():
    first = Record()
    first.run(SPEC, seed=1)
    # The first half can be followed, what comes then is of no such search.
    wrong = [
        run._replace(block=run.block + 90 * (run.turn > 8)) for run in first.placed
    ]  # fmt: skip
    killed = Record()
    killed.run(SPEC, seed=2, followed=wrong, kills_after=12)
    last = killed.run(SPEC, seed=3, followed=wrong)
    assert last.arrivals.left_at == 8
    assert len(last.loop.trials) == BUDGET
    replayed = Record().run(SPEC, seed=4, followed=killed.placed)
    assert replayed.arrivals.left_at is None
    assert replayed.loop.trials == last.loop.trials


def test_a_search_goes_on_in_the_mode_that_it_began_in():
    begun = {"search": replace(SPEC, known=()).note()}
    assert not SPEC.resumed(begun, SLOTS).is_ordered
    assert begun["search"] != replace(SPEC, ordered=True).note()
    old = {"search": replace(SPEC, ordered=True).note()}  # as versions before wrote it
    assert "arrival" not in old["search"]
    assert SPEC.resumed(old, SLOTS).is_ordered
    assert replace(SPEC, slots=1).note() == replace(SPEC, slots=1, ordered=True).note()


def test_what_cannot_be_replayed_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.sh").write_text(
        '#ZEN$ PARAM n = { 1:4 }\n#ZEN$ RUN "echo cost {n}"\n'
        '#ZEN$ METRIC cost FROM stdout REGEX "cost (\\d+)"\n#ZEN$ OBJECTIVE MINIMIZE cost\n'
    )
    app(["run", "p.sh"], standalone_mode=False)
    capsys.readouterr()
    with pytest.raises(InputError, match="--replay p: it was not searched"):
        app(["run", "p.sh", "--replay", "p"], standalone_mode=False)
    with pytest.raises(InputError, match="has the engine, seed and budget") as refused:
        app(["run", "p.sh", "--replay", "p", "--search", "ga"], standalone_mode=False)
    assert "leave out --search" in str(refused.value)
    with pytest.raises(InputError, match="--ordered belongs to a search"):
        StudyRequest(("p.sh",), ordered=True).search_spec()
