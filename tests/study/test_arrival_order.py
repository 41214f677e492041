"""The order in which results of a search arrive: recorded, taken up after kills, and replayed."""

import heapq
import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from zenturio.annotate.model import Goal, Repeat
from zenturio.cli.main import app
from zenturio.errors import InputError
from zenturio.experiment import Outcome
from zenturio.experiment.experiment import RunPosition
from zenturio.expression import parse
from zenturio.record.entities import ResultRunPosition
from zenturio.search import Budget
from zenturio.space import Space, span, uniform
from zenturio.study.driver.search_source import (
    ArrivalOrder,
    SearchSource,
    SearchSpec,
    known_notes,
    left_order,
    memory_notes,
)
from zenturio.study.stages.searched_stage import SearchedStage
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

    def keys_of(self, point):
        return [(point, repeat) for repeat in range(1, self.repeats + 1)]


def outcome_of(made):
    n, x = made.values["n"], made.values["x"]
    if n % 7 == 3:
        return Outcome(made.digest, "failed")
    return Outcome(
        made.digest, "ok", metrics={"cost": (n - 20) ** 2 + x * (n % 2) + made.repeat / 9}
    )


class Record:
    """What a database keeps of a search: outcomes, and their places in the order of arrival."""

    def __init__(self, *, has_keys=False):
        self.outcomes, self.placed, self.ran, self.taken = {}, [], [], 0
        self.has_keys = has_keys
        """Whether most results are found by their keys, without making experiments."""
        self.by_key = {}

    def take_scores(self, keys):
        """As `CachedPoints` does; each third result is news to the user, and is looked up."""
        outcomes = [self.by_key.get(key) for key in keys]
        if None in outcomes or int(keys[0][0]["n"]) % 3 == 0:
            return None
        self.taken += 1
        return [(o.metrics["cost"],) if o.status == "ok" else None for o in outcomes]

    def source(self, spec, followed=(), repeats=1):
        order = ArrivalOrder("search", self.placed, followed)
        generator = Generator()
        generator.repeats = repeats
        source = SearchSource(
            spec.loop(SPACE, GOALS), GOALS, generator, Repeat(repeats), BUDGET,
            spec.lag(SPACE), order,
        )  # fmt: skip
        if self.has_keys:
            source.skip_cached(lambda _identity: self)
        return source

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
            self.placed.append(ResultRunPosition(1, None, made.repeat, block, turn))
            self.outcomes[made.digest] = outcome_of(made)
            self.by_key[source.point_of(made), made.repeat] = self.outcomes[made.digest]
            if len(self.outcomes) == kills_after:
                return source
            source.complete(made, self.outcomes[made.digest])
        return source


SPEC = SearchSpec("auto", {"candidates": 8}, Budget(BUDGET), seed=5, slots=SLOTS, known=())


@pytest.mark.parametrize(
    ("repeats", "has_keys"),
    [
        pytest.param(1, False, marks=pytest.mark.slow),
        (2, False),
        (4, False),
        pytest.param(1, True, marks=pytest.mark.slow),
        (2, True),
    ],
)
def test_a_search_that_is_killed_after_any_result_is_the_one_that_its_record_replays(
    repeats, has_keys
):
    killed = Record(has_keys=has_keys)
    for count in range(1, BUDGET, 1 if repeats == 1 else 3):
        killed.run(SPEC, seed=count, kills_after=count, repeats=repeats)
    last = killed.run(SPEC, seed=99, repeats=repeats)
    assert last.arrivals.left_at is None
    assert bool(killed.taken) == has_keys
    assert len(last.loop.trials) == BUDGET
    assert len(killed.outcomes) < BUDGET * repeats  # some are one experiment
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


TWINS = Space(n=[1, 2, 4, 5, 8], x=uniform(0, 1), k=["a", "b"])


@pytest.mark.parametrize("seed", [1, 2, 6])
def test_a_search_resumes_by_keys_as_by_digests_where_points_are_one_experiment(seed, monkeypatch):
    monkeypatch.setattr(f"{__name__}.SPACE", TWINS)
    spec = replace(SPEC, engine="random", settings={}, seed=seed)
    begun = Record()
    begun.run(spec, seed=seed, kills_after=9)
    resumed = []
    for has_keys in (False, True):
        record = Record(has_keys=has_keys)
        record.outcomes, record.by_key = dict(begun.outcomes), dict(begun.by_key)
        record.placed = list(begun.placed)
        resumed.append(record.run(spec, seed=99))
        assert bool(record.taken) == has_keys
    by_digests, by_keys = resumed
    assert by_keys.arrivals.left_at is by_digests.arrivals.left_at is None
    count = len(begun.placed)  # later ones arrive as they last
    assert by_keys.loop.trials[:count] == by_digests.loop.trials[:count]


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
        ResultRunPosition(1, None, 1, trial + 40, trial) for trial in range(1, 9)
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


def test_a_search_notes_what_determines_its_points():
    plain = SearchSpec("random", {"b": 2, "a": True}, Budget(7), seed=3, slots=1)
    noted = {
        "engine": "random", "settings": {"a": "True", "b": "2"}, "trials": 7, "seed": 3, "slots": 1,
        "known": [],
    }  # fmt: skip
    assert plain.note() == noted
    assert list(plain.note()["settings"]) == ["a", "b"]
    wide = replace(plain, slots=2, known=("x", "y"))
    assert wide.note() == {**noted, "slots": 2, "known": ["x", "y"], "arrival": True}
    assert replace(wide, ordered=True).note() == {**noted, "slots": 2, "known": ["x", "y"]}
    assert replace(plain, replay="s@1").note() == {**noted, "replay": "s@1"}
    advised = replace(plain, learn_from="old", advice=(((1, "a"), 0.5),))
    assert advised.note() == {**noted, "learn_from": "old", "advice": [[[1, "a"], 0.5]]}
    assert replace(plain, advice=advised.advice).note() == noted
    assert [s.is_ordered for s in (plain, wide, replace(wide, ordered=True))] == [True, False, True]
    # Its order of arrival is that of this very search.
    names = [s.order_name for s in (plain, wide, advised, replace(plain, seed=4))]
    assert len(set(names)) == 4
    assert all(name.startswith("search ") and len(name) == len("search ") + 12 for name in names)
    assert replace(plain, settings={"a": "True", "b": 2}).order_name == plain.order_name


def test_a_search_is_resumed_with_what_it_began_with():
    begun = SearchSpec("random", budget=Budget(9), slots=4, known=("x",))
    before = {"search": begun.note()}
    now = replace(begun, known=None, slots=1)
    assert now.resumed(before, 2) == begun
    assert now.resumed(before, 4) == begun
    # With more slots than it had, or of another seed or engine, it begins anew.
    assert now.resumed(before, 5) == replace(now, slots=5)
    assert replace(now, seed=1).resumed(before, 2) == replace(now, seed=1, slots=2)
    assert now.resumed({}, 0) == replace(now, slots=1)
    assert now.resumed({}, 3) == replace(now, slots=3)


def test_a_search_comes_to_its_budget_or_all_points():
    spec = SearchSpec("random")
    space = Space(n=span(1, 30))
    assert spec.planned(space) == 30
    assert spec.planned(SPACE) == 0  # nobody knows
    for trials, points, anywhere in ((7, 7, 7), (30, 30, 30), (31, 30, 31)):
        of_budget = replace(spec, budget=Budget(trials))
        assert (of_budget.planned(space), of_budget.planned(SPACE)) == (points, anywhere)
    with pytest.raises(InputError, match="a search needs an objective"):
        spec.loop(SPACE, ())


def test_a_search_of_more_trials_than_its_model_keeps_says_so():
    def notes(engine, trials, space=SPACE, **settings):
        return memory_notes(SearchSpec(engine, settings, Budget(trials)), space, GOALS)

    (note,) = notes("model", 1000)
    assert note == (
        "the model keeps 400 of 1,000 trials, the last 200 and the best of the others: "
        "--set memory=N sets how many"
    )
    assert notes("auto", 1000) == (note,)
    assert "keeps 50 of 60 trials" in notes("model", 60, memory="50")[0]
    assert notes("model", 400) == notes("model", None) == notes("model", 1000, memory="1000") == ()
    assert notes("ga", 1000) == notes("auto", 5000) == ()
    assert notes("auto", 1000, Space(n=span(1, 600))) == ()  # all points, without a model


def test_what_a_search_begins_with_is_said():
    point, other = SPACE.sample(2, 0)
    spec = SearchSpec("random")
    assert known_notes(spec, {}) == ()
    (note,) = known_notes(spec, {point: (1.0,)})
    assert note.startswith("the search starts with 1 point that was measured before")
    followed = (ResultRunPosition(1, None, 1, 1, 1),)
    told = replace(
        spec, replay="s@1", followed=followed, learn_from="old", advice=(((1,), 0.5), ((2,), 0.5))
    )
    starts, replays, learns = known_notes(told, {point: (1.0,), other: (2.0,)})
    assert starts.startswith("the search starts with 2 points that were measured before")
    assert replays == "the search takes 1 result in the order of arrival of s@1"
    assert learns.startswith("2 points of old advise the search")


def test_an_order_that_is_left_says_after_how_many_results():
    runs = [ResultRunPosition(1, None, 1, block, turn) for turn, block in enumerate((3, 1, 2), 1)]
    order = ArrivalOrder("search", (), runs)
    assert order.may_be_next((3, 1))
    assert not order.may_be_next((1, 1))
    assert order.left_at is None
    assert list(order.take((1, 1), ("a", "of a"))) == []  # it is held until its turn
    assert list(order.take((3, 1), ("c", "of c"))) == [("c", "of c"), ("a", "of a")]
    assert order.position((2, 1)).turn == 3
    assert list(order.leave()) == []
    assert (order.left_at, order.is_waiting) == (2, False)
    assert "for 2 results, and then" in left_order(order)
    # What was not followed takes the turns behind all others, in the order in which it comes.
    assert [order.position(run) for run in ((2, 1), (9, 1), (2, 1))] == [
        RunPosition("search", 2, 4), RunPosition("search", 9, 5), RunPosition("search", 2, 4),
    ]  # fmt: skip
    assert list(order.take((2, 1), ("b", "of b"))) == [("b", "of b")]
    assert list(order.take((7, 1), ("of others", "of g"))) == []  # (9, 1) has a turn before it
    assert list(order.take((9, 1), ("d", "of d"))) == [("d", "of d"), ("of others", "of g")]
    assert order.position((8, 1)).turn == 7
    order.leave()
    assert order.left_at == 2
    assert "for 0 results" in left_order(ArrivalOrder("search"))


def test_an_own_record_is_left_only_once_the_other_search_has_been():
    own = [ResultRunPosition(1, None, 1, 1, 1), ResultRunPosition(1, None, 1, 2, 2)]
    followed = [
        ResultRunPosition(1, None, 1, block, turn) for turn, block in enumerate((1, 2, 3), 1)
    ]
    order = ArrivalOrder("search", own, followed)
    list(order.leave())
    assert order.may_be_next((1, 1))
    list(order.leave())
    assert not order.is_waiting


def test_runs_without_a_record_take_the_turns_that_no_record_has():
    runs = [ResultRunPosition(1, None, 1, block, turn) for block, turn in ((1, 1), (3, 2), (4, 4))]
    order = ArrivalOrder("search", runs)
    assert order.has_gaps
    assert not ArrivalOrder("search", runs[:2]).has_gaps
    assert list(order.take((4, 1), ("d", "of d"))) == []
    assert list(order.take((5, 1), ("e", "of e"))) == []  # it equals an earlier one
    order.expect((2, 1))  # and so does this, which was proposed before it
    assert list(order.take((3, 1), ("c", "of c"))) == []
    assert list(order.take((1, 1), ("a", "of a"))) == [("a", "of a"), ("c", "of c")]
    assert order.is_at_gap
    assert order.may_be_next((2, 1))
    assert order.may_be_next((6, 1))
    assert not order.may_be_next((4, 1))
    assert list(order.take((2, 1), ("b", "of b"))) == [
        ("b", "of b"), ("d", "of d"), ("e", "of e"),
    ]  # fmt: skip
    assert order.position((6, 1)).turn == 6
    assert not order.is_at_gap


def test_a_run_that_was_expected_from_the_record_and_is_run_takes_the_next_turn():
    order = ArrivalOrder(
        "search", [ResultRunPosition(1, None, 1, 1, 1), ResultRunPosition(1, None, 1, 2, 3)]
    )
    order.expect((3, 1))
    assert list(order.take((1, 1), ("a", "of a"))) == [("a", "of a")]
    assert order.position((3, 1)).turn == 4
    assert list(order.take((2, 1), ("b", "of b"))) == []
    assert list(order.take((3, 1), ("c", "of c"))) == []
    # The record has a gap, which nothing can fill.
    assert list(order.skip_gap()) == [("b", "of b"), ("c", "of c")]
    assert order.left_at is None


@pytest.mark.parametrize("has_keys", [False, True])
@pytest.mark.parametrize("repeats", [1, 2, 3])
@pytest.mark.parametrize(
    "seed", [pytest.param(s, marks=pytest.mark.slow) for s in (0, 9, 14, 30, 39)]
)
def test_kills_of_searches_with_equal_points_change_nothing(seed, repeats, has_keys):
    spec = replace(SPEC, engine="random", settings={}, seed=seed)
    killed = Record(has_keys=has_keys)
    for count in range(1, BUDGET * min(repeats, 2), 3):
        killed.run(spec, seed=count, kills_after=count, repeats=repeats)
    last = killed.run(spec, seed=99, repeats=repeats)
    followed = sorted(killed.placed, key=lambda run: run.turn)
    assert len({run.turn for run in followed}) == len(followed)
    replayed = Record()
    again = replayed.run(spec, seed=1234, followed=followed, repeats=repeats)
    assert last.arrivals.left_at is again.arrivals.left_at is None
    assert again.loop.trials == last.loop.trials
    assert sorted(replayed.placed) == sorted(killed.placed)


def searched_stage(slots, is_ready):
    """The search of a last stage, whose point *number* has its inputs if *is_ready* says so."""
    stage = SimpleNamespace(application=SimpleNamespace(space=Space(n=span(1, 30))), links=())
    graph = SimpleNamespace(
        stages=[stage], request=lambda number, _point: number, is_ready=is_ready
    )
    generator = SimpleNamespace(
        experiment=lambda point, repeat: experiment(1, dict(point), repeat=repeat)
    )
    spec = SearchSpec("random", {}, Budget(4), seed=5, slots=slots)
    source = SearchedStage(graph, None, spec, GOALS, generator, Repeat(1), 4)
    source._reader = SimpleNamespace(attach=lambda made, number: replace(made, digest=f"r{number}"))
    return source


@pytest.mark.parametrize(("slots", "points"), [(0, 1), (1, 1), (2, 2), (3, 3)])
def test_a_search_asks_for_the_inputs_of_as_many_points_as_there_are_slots(slots, points):
    requested = set()

    def is_ready(number):
        requested.add(number)
        return False

    source = searched_stage(slots, is_ready)
    assert list(source) == []
    assert list(source) == []
    assert requested == set(range(points))


def test_a_point_without_inputs_counts_when_all_points_before_it_have():
    source = searched_stage(4, lambda number: None if number == 1 else True)
    source.arrivals = ArrivalOrder("search")
    ready = {made.digest: made for made in source if made is not None}
    assert list(ready) == ["r0", "r2", "r3"]
    turns = []
    for digest in ("r3", "r0", "r2"):
        turns.append(source.arrived(ready[digest]).turn)
        source.complete(ready[digest], Outcome(digest, "ok", metrics={"cost": 1.0}))
    failed = [trial.scores == () for trial in source.loop.trials]
    assert failed == [False, False, True, False]
    assert turns == [1, 2, 4]
    assert list(source) == []
    assert source.over
