"""Each compiled function does, alone, what a slow and obvious one does."""

import importlib
import math
import pkgutil

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numba import njit
from numba.core.registry import CPUDispatcher

from search import naive_ga
from zenturio.search import kernels
from zenturio.search.kernels import compiled_objectives, genetic_search, rng

seeds = st.integers(0, 2**64 - 1)
lists_of_losses = st.lists(
    st.integers(0, 20).map(float) | st.just(math.inf), min_size=2, max_size=12
)
weights = st.lists(st.integers(0, 9).map(float), min_size=1, max_size=12)
rows = st.lists(st.integers(0, 9), min_size=0, max_size=80)
SELECTIONS = ("remainder", "roulette", "tournament", "rank", "steady")
CROSSOVERS = ("single", "two", "uniform")

TESTED = {
    "draw", "unit", "below",  # in test_ga, with what was published of them
    "fitness_of", "wheel", "remainder", "tournaments", "parents_of",
    "exchange", "cross", "mutated", "mutate", "breed", "inherited", "longer", "score_all",
    "evolve",  # in test_ga, a whole search
}  # fmt: skip


def test_no_kernel_is_without_a_twin():
    found = set()
    for module in pkgutil.iter_modules(kernels.__path__):
        whole = importlib.import_module(f"{kernels.__name__}.{module.name}")
        found |= {name for name, value in vars(whole).items() if isinstance(value, CPUDispatcher)}
    assert found == TESTED


def pair(seed):
    """The same chance twice: compiled, and slow."""
    return rng.stream(seed), naive_ga.Chance(seed)


def ends(state, twin):
    """Whether both drew as often."""
    return int(state[0]) == twin.state % 2**64


@given(lists_of_losses, st.sampled_from([1.0, 1.3, 2.0, 5.0]), st.integers(0, 9))
def test_fitness(losses, factor, beyond):
    worst = max([loss for loss in losses if loss < math.inf], default=-math.inf) + beyond
    assume(worst > -math.inf)
    found = genetic_search.fitness_of(np.array(losses), worst, factor)
    assert found.tolist() == naive_ga.fitness_of(losses, worst, factor)


@given(weights, st.integers(0, 8), st.integers(0, 8), seeds)
def test_wheel(shares, start, more, seed):
    state, twin = pair(seed)
    chosen = np.full(start + more, -1, dtype=np.int64)
    genetic_search.wheel(np.array(shares), state, chosen, start)
    assert chosen.tolist() == [-1] * start + [twin.spin(shares) for _ in range(more)]
    assert ends(state, twin)


@given(weights, st.integers(1, 12), seeds)
def test_remainder(fitness, count, seed):
    state, twin = pair(seed)
    chosen = np.empty(count, dtype=np.int64)
    genetic_search.remainder(np.array(fitness), state, chosen)
    total = sum(fitness)
    shares = [each / total * count if total else 0.0 for each in fitness]
    certain = [i for i, share in enumerate(shares) for _ in range(int(share))][:count]
    rests = [share - int(share) for share in shares]
    assert chosen.tolist() == certain + [twin.spin(rests) for _ in range(count - len(certain))]
    assert ends(state, twin)


@given(lists_of_losses, st.integers(1, 5), st.integers(0, 9), seeds)
def test_tournaments(losses, rounds, count, seed):
    state, twin = pair(seed)
    chosen = np.empty(count, dtype=np.int64)
    genetic_search.tournaments(np.array(losses), rounds, state, chosen)
    wanted = []
    for _ in range(count):
        rivals = [twin.below(len(losses)) for _ in range(rounds)]
        wanted.append(min(rivals, key=losses.__getitem__))
    assert chosen.tolist() == wanted
    assert ends(state, twin)


@pytest.mark.parametrize("kind", SELECTIONS)
@given(
    lists_of_losses, st.integers(1, 4), st.sampled_from([0.0, 0.3, 1.0]), st.integers(1, 6), seeds
)
def test_parents(kind, losses, rounds, share, couples, seed):
    state, twin = pair(seed)
    worst = max([loss for loss in losses if loss < math.inf], default=0.0)
    fitness = naive_ga.fitness_of(losses, worst, 2.0)
    chosen = np.empty(2 * couples, dtype=np.int64)
    genetic_search.parents_of(
        SELECTIONS.index(kind), np.array(fitness), np.array(losses), rounds, share, state, chosen
    )
    assert chosen.tolist() == naive_ga.parents_of(
        kind, fitness, losses, rounds, share, twin, 2 * couples
    )
    assert ends(state, twin)


@given(rows, st.data())
def test_exchange(one, data):
    other = [-value for value in one]
    start = data.draw(st.integers(0, len(one)))
    stop = data.draw(st.integers(start, len(one)))
    left, right = np.array(one, dtype=np.int64), np.array(other, dtype=np.int64)
    genetic_search.exchange(left, right, start, stop)
    assert left.tolist() == one[:start] + other[start:stop] + one[stop:]
    assert right.tolist() == other[:start] + one[start:stop] + other[stop:]


@pytest.mark.parametrize("kind", CROSSOVERS)
@given(st.integers(0, 140), seeds)
def test_cross(kind, length, seed):
    state, twin = pair(seed)
    one, other = list(range(length)), list(range(length, 2 * length))
    left, right = np.array(one, dtype=np.int64), np.array(other, dtype=np.int64)
    genetic_search.cross(CROSSOVERS.index(kind), left, right, state)
    naive_ga.cross(kind, one, other, twin)
    assert (left.tolist(), right.tolist()) == (one, other)
    assert ends(state, twin)


@pytest.mark.parametrize("kind", ["random", "step"])
@given(st.integers(1, 12), st.data(), st.booleans(), st.sampled_from([0.0, 0.3, 1.0]), seeds)
def test_mutated(kind, size, data, ordered, reach, seed):
    state, twin = pair(seed)
    gene = data.draw(st.integers(0, size - 1))
    found = genetic_search.mutated(int(kind == "step"), gene, size, ordered, reach, state)
    assert found == naive_ga.mutated(kind, gene, size, ordered, reach, twin)
    assert ends(state, twin)
    assert 0 <= found < size
    assert found != gene or size == 1


def test_mutation_hits_each_gene_as_often_as_its_rate_says():
    """The skips of the kernel are those of a coin for each gene: mean and spread agree."""
    rate, cells, rounds = 0.03, 2000, 400
    state, counts = rng.stream(5), []
    sizes, ordered = np.full(20, 9), np.zeros(20, dtype=np.bool_)
    where = np.zeros(20)
    for _ in range(rounds):
        before = np.zeros((cells // 20, 20), dtype=np.int64)
        genetic_search.mutate(0, rate, 0.1, before, sizes, ordered, state)
        counts.append(int((before != 0).sum()))
        where += (before != 0).sum(axis=0)
    spread = math.sqrt(rate * (1 - rate) * cells)
    assert abs(np.mean(counts) - rate * cells) < 4 * spread / math.sqrt(rounds)
    assert 0.85 < np.std(counts) / spread < 1.15
    expected = rate * cells / 20 * rounds
    assert (abs(where - expected) < 5 * math.sqrt(expected)).all()


@given(
    st.sampled_from(SELECTIONS), st.sampled_from(CROSSOVERS), st.sampled_from(["random", "step"]),
    lists_of_losses, st.integers(1, 8), st.integers(0, 3), st.sampled_from([0.0, 0.2, 1.0]), seeds,
)  # fmt: skip
def test_breed(selection, crossover, mutation, losses, width, elite, rate, seed):
    """A generation of children, and the two parents that each is of."""
    state, twin = pair(seed)
    worst = max([loss for loss in losses if loss < math.inf], default=0.0)
    rng = np.random.default_rng(width)
    genes = rng.integers(7, size=(len(losses), width))
    sizes, ordered = np.full(width, 7), rng.integers(2, size=width).astype(np.bool_)
    s = {
        "selection": selection, "crossover": crossover, "mutation": mutation, "elite": elite,
        "tournament": 2, "parents": 0.5, "crossover_rate": 0.7, "mutation_rate": rate,
        "reach": 0.3, "scaling": 2.0,
    }  # fmt: skip
    rules = genetic_search.Rules(
        SELECTIONS.index(selection), CROSSOVERS.index(crossover), int(mutation == "step"),
        2, elite, 0.5, 0.7, rate, 0.3, 2.0,
    )  # fmt: skip
    children, parents = np.empty_like(genes), np.full((len(losses), 2), -1)
    genetic_search.breed(
        genes, np.array(losses), worst, sizes, ordered, rules, state, children, parents
    )
    wanted = naive_ga.generation(
        genes.tolist(), losses, worst, sizes.tolist(), ordered.tolist(), s, twin
    )
    assert children.tolist() == wanted
    assert ends(state, twin)
    if rate == 0:
        for child, both in zip(children, parents, strict=True):
            father, mother = genes[both]
            assert ((child == father) | (child == mother)).all()


@given(st.integers(1, 5), st.integers(0, 3), st.integers(0, 3), seeds)
def test_inherited(width, one, other, seed):
    rng = np.random.default_rng(seed)
    before = rng.integers(2, size=(4, width))
    genes, losses = rng.integers(2, size=(1, width)), rng.random(4)
    found = genetic_search.inherited(genes, 0, np.array([[one, other]]), before, losses)
    equal = [losses[i] for i in (one, other) if before[i].tolist() == genes[0].tolist()]
    assert found == equal[0] if equal else math.isnan(found)


@given(st.integers(1, 6), st.integers(1, 4))
def test_longer(height, width):
    rows = np.arange(height * width, dtype=np.float64).reshape(height, width)
    found = compiled_objectives.longer(rows)
    assert found.shape == (2 * height, width)
    assert found[:height].tolist() == rows.tolist()


@njit("float64(int64[::1])")
def odd(genes):
    if genes[0] % 5 == 0:
        return np.nan
    if genes[0] % 5 == 1:
        return np.inf
    if genes[0] % 5 == 2:
        return -np.inf
    return float(genes.sum())


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=9),
    st.sampled_from([1.0, -1.0]),
)
def test_score_all(genes, sign):
    """What is no number, or infinitely good, is worth nothing, whichever way the objective looks."""
    found = compiled_objectives.score_all(odd, sign, np.array(genes, dtype=np.int64).reshape(-1, 2))
    wanted = [sign * sum(row) if row[0] % 5 > 2 else math.inf for row in genes]
    assert found.tolist() == wanted
