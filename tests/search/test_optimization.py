"""Ask and tell in the open: the caller evaluates, in any order, and saves and loads the state."""

import json
import random

import pytest

import zenturio as zen
from zenturio.errors import InputError
from zenturio.search.ask_and_tell import Optimization

SPACE = zen.Space(
    n=range(40), x=zen.uniform(0, 1), kind=["a", "b"],
    depth=zen.parameter([1, 2, 3], when="kind == 'b'"),
)  # fmt: skip


def cost(point):
    return (point["n"] - 11) ** 2 / 50 + abs(point["x"] - 0.3) + (point["depth"] or 2)


def finish(search, count=100):
    """Evaluates pending trials, and then up to *count* more."""
    for trial in search.pending:
        search.tell(trial, cost(trial.point))
    while count and not search.is_over:
        trial = search.ask()
        search.tell(trial, cost(trial.point))
        count -= 1
    return search


def test_ask_and_tell_find_what_a_search_finds():
    asked = finish(zen.optimize(SPACE, "minimize", engine="auto", budget=40, seed=3))
    searched = zen.search(SPACE, cost, engine="auto", budget=40, seed=3)
    assert list(asked.trials) == list(searched.trials)
    assert asked.best == searched.best


@pytest.mark.parametrize("engine", ["auto", "ga", "hill", "random"])
@pytest.mark.parametrize(("count", "ordered"), [(0, True), (7, True), (23, True), (23, False)])
def test_a_saved_search_goes_on_as_if_it_had_never_stopped(engine, count, ordered, tmp_path):
    options = {"engine": engine, "budget": 32, "seed": 5, "slots": 3, "ordered": ordered}
    chance = random.Random(count)
    search, pending = zen.optimize(SPACE, **options), []
    for _ in range(count):
        if len(pending) == 3 or (search.pending and engine == "hill"):
            trial = pending.pop(chance.randrange(len(pending)))
            search.tell(trial, None if trial.number % 5 == 4 else cost(trial.point))
        else:
            pending.append(search.ask())
    search.save(tmp_path / "state.json")
    loaded = Optimization.load(tmp_path / "state.json", SPACE)
    assert loaded.pending == search.pending
    assert loaded.trials == search.trials
    if engine != "hill":
        assert finish(loaded).trials == finish(search).trials
        assert len(loaded.trials) == 32


def test_known_points_are_saved_too(tmp_path):
    known = {point: cost(point) for point in SPACE.sample(20, 1)}
    search = zen.optimize(SPACE, budget=8, known=known)
    finish(search, 3).save(tmp_path / "state.json")
    loaded = Optimization.load(tmp_path / "state.json", SPACE)
    assert finish(loaded).trials == finish(search).trials
    assert not known.keys() & {trial.point for trial in loaded.trials}


def test_what_cannot_be_asked_or_told_is_refused(tmp_path):
    search = zen.optimize(SPACE, engine="model", budget=4, starts=2)
    first = search.ask()
    search.tell(first, 1.0)
    with pytest.raises(InputError, match="trial 0 is not pending"):
        search.tell(first, 2.0)
    search.ask()
    with pytest.raises(InputError, match="waits for 1 pending"):
        search.ask()
    finish(search)
    assert search.is_over
    with pytest.raises(InputError, match="over: budget"):
        search.ask()
    search.save(tmp_path / "state.json")
    with pytest.raises(InputError, match="another space"):
        Optimization.load(tmp_path / "state.json", zen.Space(n=[1, 2]))
    state = json.loads((tmp_path / "state.json").read_text())
    state["seed"] = 9
    (tmp_path / "state.json").write_text(json.dumps(state))
    with pytest.raises(InputError, match="the engine has changed"):
        Optimization.load(tmp_path / "state.json", SPACE)
    (tmp_path / "state.json").write_text("[]")
    with pytest.raises(InputError, match="is not a saved search"):
        Optimization.load(tmp_path / "state.json", SPACE)


@pytest.mark.parametrize("count", [0, 29, 33, 38])
def test_a_search_confirms_its_best_point_as_in_one_call(count, tmp_path):
    def noisy(point):
        noise = random.Random(str(dict(point)) + str(seen.setdefault(point, 0)))
        seen[point] += 1
        return cost(point) + noise.random()

    options = {"engine": "auto", "budget": 40, "seed": 3, "confirm": 10}
    seen = {}
    searched = zen.search(SPACE, noisy, **options)
    assert len(searched.confirmed) > 1
    assert (searched.count, len(searched.trials)) == (30, 30)
    seen, evaluations = {}, 0
    search = zen.optimize(SPACE, **options)
    while not search.is_over:
        if evaluations == count:
            pending = [search.ask()] if count else []
            search.save(tmp_path / "state.json")
            search = Optimization.load(tmp_path / "state.json", SPACE)
            assert search.pending == pending
        trial = next(iter(search.pending), None) or search.ask()
        search.tell(trial, noisy(trial.point))
        evaluations += 1
    assert evaluations == 40
    assert list(search.trials) == list(searched.trials)
    assert (search.best, search.confirmed) == (searched.best, searched.confirmed)
    with pytest.raises(InputError, match="the search is over: budget"):
        search.ask()


def test_several_points_are_confirmed_at_a_time_and_rounds_are_complete():
    options = {"engine": "random", "budget": 20, "confirm": 8, "slots": 3}
    search = zen.optimize(zen.Space(n=range(90)), **options)
    for _ in range(12):
        trial = search.ask()
        search.tell(trial, float(trial.point["n"]))
    leaders = [search.ask() for _ in range(5)]
    assert [trial.number for trial in leaders] == [12, 13, 14, 15, 16]
    assert not search.is_over
    with pytest.raises(InputError, match="waits for 5 pending trials"):
        search.ask()
    for trial in leaders:
        search.tell(trial, None if trial is leaders[0] else trial.point["n"] + 1)
    again = [search.ask() for _ in range(2)]
    assert {trial.point for trial in again} <= {trial.point for trial in leaders[1:]}
    for trial in again:
        search.tell(trial, trial.point["n"] + 3)
    assert len(search.trials) == 12
    with pytest.raises(InputError, match="no single best point to confirm, but a front"):
        zen.optimize(SPACE, ["minimize", "maximize"], budget=20, confirm=5)
    with pytest.raises(InputError, match="which is not given"):
        zen.optimize(SPACE, confirm=5)
