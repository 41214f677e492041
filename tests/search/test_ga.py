"""The genetic algorithm does what its slow twin does, in every setting, compiled or asked."""

import math
from threading import Event

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

import zenturio as zen
from search import naive_ga
from zenturio.search import Directions, SearchLoop, SearchProblem, drive, ga
from zenturio.search.ga import Ga, GaSettings
from zenturio.search.kernels.compiled_objectives import Limits, evolve
from zenturio.search.kernels.genetic_search import Rules, fitness_of
from zenturio.search.kernels.rng import below, draw, stream, unit

chosen = st.fixed_dictionaries(
    {
        "population": st.integers(2, 12),
        "generations": st.integers(1, 12),
        "selection": st.sampled_from(["remainder", "roulette", "tournament", "rank", "steady"]),
        "crossover": st.sampled_from(["single", "two", "uniform"]),
        "crossover_rate": st.sampled_from([0.0, 0.5, 0.9, 1.0]),
        "mutation": st.sampled_from(["random", "step"]),
        "mutation_rate": st.sampled_from([0.0, 0.01, 0.3, 1.0]),
        "reach": st.sampled_from([0.0, 0.2, 1.0]),
        "scaling": st.sampled_from([1.0, 1.5, 2.0, 4.0]),
        "elite": st.integers(0, 4),
        "tournament": st.integers(1, 4),
        "parents": st.sampled_from([0.1, 0.5, 1.0]),
        "steady": st.sampled_from([20.0, 100.0]),
    }
).filter(lambda settings: settings["elite"] < settings["population"])
shapes = st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=70)


@njit("float64(int64[::1])")
def rugged(genes):
    total = 0.0
    for i in range(len(genes)):
        total += (genes[i] * 7 + i * 3) % 5
    if total % 9 == 0:
        return np.nan
    return total


def space_of(shape):
    sets = {
        f"x{at}": list(range(size)) if ordered else [f"v{i}" for i in range(size)]
        for at, (size, ordered) in enumerate(shape)
    }
    return zen.Space(**sets)


def asked(space, given_settings, seed, directions):
    """The trials of the engine, as rows of genes."""
    engine = Ga(SearchProblem(space, directions, seed), GaSettings(**given_settings))
    loop = SearchLoop(engine, directions)
    genome = engine.genome
    return (
        genome,
        engine,
        [
            tuple(genome.row(trial.point).tolist())
            for trial in drive(loop, lambda point: (float(rugged(genome.row(point))),))
        ],
    )


@settings(deadline=None, max_examples=settings.default.max_examples * 150 // 100)
@given(shapes, chosen, st.integers(0, 2**64 - 1))
def test_the_engine_tries_what_its_twin_does_each_point_once(shape, s, seed):
    genome, engine, tried = asked(space_of(shape), s, seed, Directions())
    first = Ga(engine.problem, engine.settings).first().tolist()
    _, met = naive_ga.search(lambda genes: rugged(np.array(genes)), first, *_shape(genome), s, seed)
    assert list(dict.fromkeys(met))[: len(tried)] == tried
    if genome.count > len(tried):
        assert set(met) == set(tried)


@settings(deadline=None, max_examples=settings.default.max_examples * 150 // 100)
@given(shapes, chosen, st.integers(0, 2**64 - 1), st.sampled_from([1.0, -1.0]))
def test_a_whole_search_in_the_kernel_is_that_of_the_twin(shape, s, seed, sign):
    engine = Ga(SearchProblem(space_of(shape), Directions(), seed), GaSettings(**s))
    genome, first = engine.genome, engine.first()
    history, met = naive_ga.search(
        lambda genes: rugged(np.array(genes)), first.tolist(), *_shape(genome), s, seed, sign
    )
    limits = Limits(s["generations"], engine.patience, 10**9, -math.inf)
    found, marks, told, count, ended = evolve(
        rugged, sign, first, genome.sizes, genome.ordered, engine.rules(), limits, stream(seed)
    )
    assert told[:, 0].tolist() == history
    assert ended == "exhausted"
    assert len(set(met)) <= count <= len(met)
    best = math.inf
    improvements = []
    for genes in dict.fromkeys(met):
        loss = sign * rugged(np.array(genes))
        if loss < best:
            best = loss
            improvements.append((genes, loss))
    assert [(tuple(row.tolist()), mark[1]) for row, mark in zip(found, marks, strict=True)] == (
        improvements
    )


def _shape(genome):
    return genome.sizes.tolist(), genome.ordered.tolist()


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**53))
def test_chance_is_that_of_the_twin(seed, size):
    state, twin = stream(seed), naive_ga.Chance(seed)
    assert int(draw(state)) == twin.bits()
    assert unit(state) == twin.unit()
    assert below(state, size) == twin.below(size)


def test_chance_is_splitmix():
    """The first numbers that the published program makes of the seed 1234567."""
    state = stream(1234567)
    assert [int(draw(state)) for _ in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


@given(
    st.lists(st.integers(0, 50).map(float), min_size=2, max_size=9),
    st.sampled_from([1.5, 2.0, 3.0]),
)
def test_scaling_keeps_the_mean_and_bounds_the_best(losses, factor):
    raw = [60 - loss for loss in losses]
    fitness = fitness_of(np.array(losses), 60.0, factor)
    assert fitness.min() >= 0
    assert fitness.mean() == pytest.approx(np.mean(raw))
    assert fitness.max() <= factor * np.mean(raw) * (1 + 1e-9)
    assert (
        np.argsort(-fitness, kind="stable").tolist() == np.argsort(losses, kind="stable").tolist()
    )


def test_a_kernel_spends_its_budget_exactly_and_stops_at_its_target():
    rng = np.random.default_rng(1)
    sizes, ordered = np.full(20, 9), np.ones(20, dtype=np.bool_)
    rules = Rules(0, 0, 0, 3, 1, 0.5, 0.9, 0.05, 0.1, 2.0)
    first = rng.integers(9, size=(30, 20))
    for budget in (1, 29, 30, 31, 500):
        limits = Limits(500, 500, budget, -1.0)
        *_, count, ended = evolve(
            rugged, 1.0, first.copy(), sizes, ordered, rules, limits, stream(1)
        )
        assert (count, ended) == (budget, "budget")
    limits = Limits(500, 500, 10**6, 20.0)
    _, marks, _, count, ended = evolve(
        rugged, 1.0, first.copy(), sizes, ordered, rules, limits, stream(1)
    )
    assert (marks[-1, 0], ended) == (count, "target")
    assert marks[-1, 1] <= 20 < marks[-2, 1]


def test_small_budgets_have_small_generations():
    space = zen.Space(x=range(1000))
    sizes = [
        Ga(SearchProblem(space, budget=budget), GaSettings()).population
        for budget in (50, 500, None)
    ]
    assert sizes == [20, 50, 150]
    assert Ga(SearchProblem(space, budget=50), GaSettings(population=7)).population == 7


def test_what_the_paper_recommends_can_be_set():
    paper = GaSettings(150, selection="remainder", mutation_rate=0.001)
    assert (paper.generations, paper.crossover, paper.crossover_rate) == (500, "single", 0.9)
    assert (paper.scaling, paper.elite, paper.steady) == (2.0, 1, 20.0)


def test_the_first_generation_is_there_while_its_kernels_are_compiled(monkeypatch):
    compiled = Event()

    class Compiling(ga._Breeding):
        def __init__(self, *given):
            compiled.wait()
            super().__init__(*given)

    monkeypatch.setattr(ga, "_Breeding", Compiling)
    directions = Directions()
    loop = SearchLoop(
        Ga(SearchProblem(zen.Space(n=zen.span(1, 99)), directions, 1, 30), GaSettings()), directions
    )
    first = loop.ask(20)
    assert len(first) == len({point["n"] for _, point in first}) > 10
    compiled.set()
    for number, point in first:
        loop.tell(number, (float(point["n"]),))
    assert loop.ask(1)


def trials_of_slots(count, slots=2, **options):
    """The points of so many trials, of which several are always pending."""
    space, directions = zen.Space(x=zen.span(1, 1000), y=zen.span(1, 1000)), Directions()
    problem = SearchProblem(space, directions, 7, slots=slots, ordered=False)
    loop = SearchLoop(Ga(problem, GaSettings(**options)), directions, ordered=False)
    pending = loop.ask(slots)
    while len(loop.trials) < count:
        number, point = pending.pop(0)
        loop.tell(number, (float((point["x"] - 300) ** 2 + (point["y"] - 700) ** 2),))
        pending += loop.ask(1)
    return loop.trials


def test_with_several_slots_no_more_children_are_bred_than_are_asked_for(monkeypatch):
    bred = []

    class Counting(ga._Breeding):
        def children(self, *given):
            children = super().children(*given)
            bred.append(len(children))
            return children

    monkeypatch.setattr(ga, "_Breeding", Counting)
    trials_of_slots(700, population=200)
    assert 500 <= sum(bred) < 700
    assert len(bred) < 70


@pytest.mark.parametrize("selection", ["remainder", "roulette", "tournament", "rank", "steady"])
def test_with_several_slots_each_selection_comes_nearer_to_the_best(selection):
    trials = trials_of_slots(400, slots=3, population=40, selection=selection)
    first, last = (
        sorted(trial.scores[0] for trial in part)[20] for part in (trials[:40], trials[-40:])
    )
    assert last < first / 1.5


@given(st.lists(st.integers(0, 9).map(float) | st.just(math.inf), max_size=30), st.integers(1, 30))
def test_the_smallest_losses_come_in_order_and_equal_ones_as_they_stand(losses, count):
    losses = np.array(losses, dtype=np.float64)
    expected = np.argsort(losses, kind="stable")[:count]
    assert ga._smallest(losses, count).tolist() == expected.tolist()
